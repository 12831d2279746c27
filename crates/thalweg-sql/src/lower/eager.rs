//! EMIT EAGER: which node of a query is eager, and what cannot be.
//!
//! It is the first one, from the end of the query on, that waits for the watermark: an aggregate over the rows around a row, or a join.
//! Filters and expressions behind it do with corrections what they do with rows. The column that says what becomes of a row goes
//! along unseen, as a row's position does, up to the end. Where such an aggregate takes the rows of another one, because its windows have
//! other keys, that one is eager, too: its results only pass, so that a correction takes no row out of a window.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion_expr::{Expr, LogicalPlan};
use thalweg_core::{Error, Result, error::Span};
use thalweg_plan::{
    Node, NodeId, StreamSchema,
    node::{Emission, OP},
    settings::FloatSum,
};

use super::{
    Hiddens, Lowering,
    stream::{Slot, Stream},
};
use crate::{
    emit::EagerNode,
    last::LastNode,
    over::{Bounds, Call, OverNode, Shape},
};

const WHAT_CAN_BE: &str =
    "leave it out, or select a result: OVER can be eager, and joins of rows near each other in time";

const WHAT_GROUP_CAN_BE: &str = "leave it out: eager are OVER, joins of rows near each other in time, and GROUP BY behind such a join by the \
    PRIMARY KEY (…) NOT ENFORCED of its table, of which its groups are columns, without random() and uuid()";

impl Lowering<'_> {
    /// A query whose results come out before they are final.
    pub(super) fn eager(&mut self, node: &EagerNode) -> Result<Stream> {
        self.eager = Some(node.span());
        let stream = self.node(&node.input);
        self.eager = None;
        let stream = stream?;
        let stream = self.settle(stream)?;
        self.schema(&stream).op.ok_or_else(|| {
            Error::query("EMIT EAGER has nothing to correct: no row of this query waits for others")
                .with_hint(WHAT_CAN_BE)
                .at(node.span())
        })?;
        self.check_same(stream.node, node.span())?;
        let stream = self.normalized(stream)?;
        let op = self.schema(&stream).op.ok_or_else(|| Error::bug("what becomes of rows is lost"))?;
        let slots = std::iter::once(Slot::Column(op)).chain(stream.slots).collect();
        Ok(Stream { node: stream.node, columns: Arc::clone(&node.schema), slots, pending: None })
    }

    /// The stream without corrections that change nothing of its columns, where there may be such, or parts of them.
    fn normalized(&mut self, stream: Stream) -> Result<Stream> {
        let schema = self.schema(&stream);
        let read: Vec<bool> = (0..schema.columns.fields().len())
            .map(|column| schema.op == Some(column) || stream.slots.contains(&Slot::Column(column)))
            .collect();
        if !self.hides_changes(stream.node, &read) {
            return Ok(stream);
        }
        let columns = Arc::clone(&stream.columns);
        let stream = self.exactly_with(stream, Hiddens { op: true, ..Hiddens::default() })?;
        let schema = self.schema(&stream).clone();
        let node = self.plan.add(Node::Normalize, vec![stream.node], schema);
        Ok(Stream::whole(node, &columns))
    }

    /// Whether corrections may change nothing of those columns of a node that are read, or lose one of their two rows.
    fn hides_changes(&self, id: NodeId, read: &[bool]) -> bool {
        let planned = self.plan.node(id);
        let input = planned.inputs.first().copied();
        let changing = |id: NodeId| self.plan.changing(id);
        match (&planned.node, input) {
            (Node::Filter(filter), Some(input)) => match changing(input) {
                Some(changing) if !self.plan.reads(&filter.predicate, input, &changing) => {
                    self.hides_changes(input, read)
                }
                _ => self.plan.nodes().any(|(_, other)| matches!(other.node, Node::Over(_))),
            },
            (Node::Map(map), Some(input)) => {
                let columns = &self.plan.node(input).schema.columns;
                let mut passed = vec![false; columns.fields().len()];
                for (part, _) in map.expressions.iter().zip(read).filter(|(_, read)| **read) {
                    if let Expr::Column(column) = part
                        && let Some(from) = columns.maybe_index_of_column(column)
                    {
                        passed[from] = true;
                    }
                }
                self.hides_changes(input, &passed)
            }
            (Node::Over(_), _) => {
                let changing = changing(id).unwrap_or_default();
                changing.iter().zip(read).any(|(changing, read)| *changing && !*read)
            }
            _ => false,
        }
    }

    /// Refuses expressions over rows that may be taken back, if they give something else each time: what is taken out would not be what was
    /// put in.
    fn check_same(&self, id: NodeId, at: Span) -> Result<()> {
        let planned = self.plan.node(id);
        let expressions = match &planned.node {
            _ if planned.schema.op.is_none() => return Ok(()),
            Node::Map(map) => &map.expressions[..],
            Node::Filter(filter) => std::slice::from_ref(&filter.predicate),
            Node::Over(over) => &over.keys[..],
            _ => &[],
        };
        if let Some(part) = expressions.iter().find(|part| part.is_volatile()) {
            let message = format!(
                "EMIT EAGER takes rows back, and {} gives another value each time",
                thalweg_plan::written(part)
            );
            return Err(Error::query(message).with_hint("leave one of them out").at(at));
        }
        planned.inputs.first().map_or(Ok(()), |input| self.check_same(*input, at))
    }

    /// Lowers the inputs of the node that is eager, if one is: they are not.
    pub(super) fn below<T>(&mut self, lower: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.below_with(true, lower)
    }

    /// The same, and it is asked, or not, where rows stand.
    pub(super) fn below_with<T>(&mut self, positions: bool, lower: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let eager = self.eager.take();
        let lowered = self.with_positions(positions, lower);
        self.eager = eager;
        lowered
    }

    /// Whether it matters where the rows stand that an OVER takes: final results stand in their order, and so may others; rows of a time do within
    /// windows, unless they are added up; and who answers for a row that others see finds it by that again, as who corrects its columns does.
    pub(super) fn asks_for_positions(&self, node: &OverNode) -> bool {
        let adds_up = |call: &Call| {
            let Shape { bounds, most, excludes_base, .. } = call.shape;
            matches!(bounds, Bounds::Range { from: Some(_), .. })
                && most.is_none()
                && excludes_base
                && is_sum(&call.function)
        };
        let is_exact = self.plan.settings.float_sum == FloatSum::Exact;
        self.eager.is_none()
            || self.feeds_eager
            || node.inputs.first().is_none_or(has_results)
            || !is_exact
            || !node.calls.iter().all(adds_up)
    }

    /// Lowers the first input of an OVER or a LAST JOIN: if it has the results of another one, and this one is eager, that one is. It is asked where
    /// rows stand, or not.
    pub(super) fn base(&mut self, input: &LogicalPlan, positions: bool) -> Result<Stream> {
        let base = match self.eager.is_some() && has_results(input) {
            true => {
                let before = std::mem::replace(&mut self.feeds_eager, true);
                let base = self.with_positions(true, |lowering| lowering.node(input));
                self.feeds_eager = before;
                base?
            }
            false => self.below_with(positions, |lowering| lowering.node(input))?,
        };
        self.settle(base)
    }

    /// Refuses corrections that this node cannot take up: rows must stay where they are in windows. `reads` says whether it looks at
    /// one of those columns that change.
    pub(super) fn check_corrected(&self, base: NodeId, reads: impl FnOnce(&[bool]) -> bool) -> Result<()> {
        let (Some(at), Some(_)) = (self.eager, self.plan.node(base).schema.op) else { return Ok(()) };
        let refused = |message: &str, hint: &str| Err(Error::query(message).with_hint(hint).at(at));
        let Some(changing) = self.plan.changing(base) else {
            return refused(
                "EMIT EAGER is not there for an OVER behind a condition on results of another one, which come and go",
                "ask for it behind both: SELECT … FROM (SELECT …, both results) WHERE …; or leave EMIT EAGER out",
            );
        };
        if reads(&changing) {
            return refused(
                "EMIT EAGER is not there for an OVER or a LAST JOIN that looks at results of another one, which are corrected",
                "leave it out, or write the rows of the first part INTO a table, and read that",
            );
        }
        if !self.plan.has_own_positions(base) {
            return refused(
                "EMIT EAGER with OVERs that divide rows otherwise is for the rows of tables, each named once, and not for those of LIMIT or an aggregate",
                "leave it out, or write these rows INTO a table first, and read that",
            );
        }
        Ok(())
    }

    /// When the rows of a node come out that takes those of these, and what it gives, if that is so much where they are final.
    ///
    /// Errors: `Error::Query` if the rows that it takes wait for the watermark themselves.
    pub(super) fn emission(&self, inputs: &[NodeId], schema: StreamSchema) -> Result<(StreamSchema, Emission)> {
        let Some(at) = self.eager else { return Ok((schema, Emission::OnWatermark)) };
        if let Some(name) = inputs.iter().find_map(|input| self.waits(*input)) {
            let message =
                format!("EMIT EAGER is for OVERs or one join, and this one takes the rows of {name}, which wait");
            return Err(Error::query(message)
                .with_hint("leave it out, or write the rows of the first part INTO a table, and read that")
                .at(at));
        }
        let fields = schema.columns.fields().iter().map(|field| field.as_ref().clone());
        let columns = self.unique(fields.chain([Field::new(OP, DataType::Utf8, false)]));
        let op = Some(schema.columns.fields().len());
        // Corrections come in no order of time, which matters to all but those that take them up.
        let time = schema.time.filter(|_| self.feeds_eager);
        Ok((StreamSchema { columns, op, time, window: None, ..schema }, Emission::Eager))
    }

    /// What rows come from that waits for the watermark, in words.
    fn waits(&self, id: NodeId) -> Option<&'static str> {
        let planned = self.plan.node(id);
        match &planned.node {
            Node::Over(over) if over.emission == Emission::Eager => None,
            Node::Over(_) => Some("another OVER"),
            Node::IntervalJoin(_) => Some("a join"),
            _ => planned.inputs.iter().find_map(|input| self.waits(*input)),
        }
    }

    /// Refuses what stands between the end of a query and what is eager, and cannot take rows back.
    pub(super) fn check_eager(&self, logical: &LogicalPlan) -> Result<()> {
        let Some(at) = self.eager else { return Ok(()) };
        let refused = |message: &str, hint: &str| Err(Error::query(message).with_hint(hint).at(at));
        match logical {
            LogicalPlan::Sort(_) => {
                refused("EMIT EAGER takes rows back, and ORDER BY waits for all of them", "leave one of them out")
            }
            LogicalPlan::Limit(_) => {
                refused("EMIT EAGER takes rows back, and LIMIT counts those that come", "leave one of them out")
            }
            LogicalPlan::Union(_) => refused(
                "EMIT EAGER is not there for UNION ALL",
                "write one INSERT INTO for each of the queries, with its own EMIT EAGER",
            ),
            _ => Ok(()),
        }
    }

    /// Refuses GROUP BY over pairs of a join, which this condition of theirs makes necessary.
    pub(super) fn check_no_eager_pairs(&self, condition: &Expr) -> Result<()> {
        match self.eager {
            None => Ok(()),
            Some(at) => Err(Error::query(format!(
                "EMIT EAGER with GROUP BY is for joins by keys, time and columns of the joined table, and {} is more than that",
                condition.human_display()
            ))
            .with_hint("leave one of them out, or write the pairs INTO a table with EMIT EAGER, without GROUP BY")
            .at(at)),
        }
    }

    /// Refuses GROUP BY whose groups are not the rows of one side of a join.
    pub(super) fn check_no_eager(&self) -> Result<()> {
        match self.eager {
            None => Ok(()),
            Some(at) => Err(Error::query(
                "EMIT EAGER is not there for GROUP BY and DISTINCT: a group's result is given once, when the group is complete",
            )
            .with_hint(WHAT_GROUP_CAN_BE)
            .at(at)),
        }
    }
}

/// Whether an aggregate is a count, a sum, or the one over the other, of rows in any order.
fn is_sum(call: &Expr) -> bool {
    let Expr::AggregateFunction(function) = call.clone().unalias_nested().data else { return false };
    let params = &function.params;
    ["count", "sum", "avg"].contains(&function.func.name()) && !params.distinct && params.order_by.is_empty()
}

/// Whether the rows of a query are results of an OVER or a LAST JOIN, with columns computed, and rows left out.
fn has_results(logical: &LogicalPlan) -> bool {
    match logical {
        LogicalPlan::Projection(projection) => has_results(&projection.input),
        LogicalPlan::Filter(filter) => has_results(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => has_results(&alias.input),
        LogicalPlan::Extension(extension) => extension.node.as_any().is::<OverNode>(),
        LogicalPlan::Join(join) => LastNode::of(&join.right).is_some(),
        _ => false,
    }
}
