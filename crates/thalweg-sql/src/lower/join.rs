//! JOIN: pairs of rows whose event times lie close to each other.

use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

use arrow_schema::Field;
use datafusion_common::{
    Column, DFSchemaRef, JoinType, ScalarValue,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{
    BinaryExpr, Expr, LogicalPlan, Operator, logical_plan,
    utils::{conjunction, split_conjunction},
};
use thalweg_core::{Error, Result, error::Span};
use thalweg_plan::{
    Node, NodeId, StreamSchema,
    node::{IntervalJoin, JoinKind},
};

use super::{
    Lowering,
    distance::{Bounds, Said, said},
    stream::{Slot, Stream},
};
use crate::{diagnose, last::LastNode, types, windowing::NotFixed};

/// What must be true of a pair.
#[derive(Default)]
pub(super) struct Conditions {
    pub keys: Vec<(Expr, Expr)>,
    pub bounds: Bounds,
    pub others: Vec<Expr>,
}

impl Lowering<'_> {
    pub(super) fn join(&mut self, join: &logical_plan::Join) -> Result<Stream> {
        let Some((kind, is_turned)) = kind(join.join_type) else {
            return Err(Error::bug(format!("{} joins are refused before", join.join_type)));
        };
        if let Some(last) = LastNode::of(&join.right) {
            return self.last_join(join, last);
        }
        let (first, second) = if is_turned { (&join.right, &join.left) } else { (&join.left, &join.right) };
        let left = self.side(first)?;
        let right = self.side(second)?;
        let both = both(&left, &right, self.schema(&left).columns.fields().len())
            .map_err(|error| diagnose::planning(error, self.words))?;
        let conditions = self.conditions(join, &left, &right, &both)?;
        let (left_schema, right_schema) = (self.schema(&left).clone(), self.schema(&right).clone());
        let (Some(distance), Some(left_time), Some(right_time)) =
            (conditions.bounds.distance(), left_schema.time, right_schema.time)
        else {
            let has_none = join.on.is_empty() && join.filter.is_none();
            return Err(self.unbounded(&left, &right, kind, (!has_none).then_some(conditions.bounds)));
        };
        let schema = self.joined(kind, &left_schema, &right_schema, [left_time, right_time]);
        let pair = self.pair(&left_schema, &right_schema, JoinKind::Inner);
        let keys = conditions.keys.iter().map(|(a, b)| Ok((self.rebase(&left, a)?, self.rebase(&right, b)?)));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let condition = conjunction(conditions.others).map(|condition| both.rebase(&condition, &pair)).transpose();
        let condition = condition.map_err(|error| diagnose::planning(error, self.words))?;
        let (schema, emission) = self.emission(&[left.node, right.node], schema)?;
        let node = IntervalJoin { kind, keys, times: [left_time, right_time], distance, condition, pair, emission };
        let id = self.plan.add(Node::IntervalJoin(node), vec![left.node, right.node], schema);
        let slots = if is_half(kind) { left.slots } else { both.slots };
        Ok(Stream { node: id, columns: Arc::clone(&join.schema), slots, pending: None })
    }

    /// What a join gives.
    fn joined(&self, kind: JoinKind, left: &StreamSchema, right: &StreamSchema, times: [usize; 2]) -> StreamSchema {
        StreamSchema {
            columns: if is_half(kind) { Arc::clone(&left.columns) } else { self.pair(left, right, kind) },
            time: match kind {
                JoinKind::Right => Some(left.columns.fields().len() + times[1]),
                JoinKind::Full => None,
                _ => Some(times[0]),
            },
            window: None,
            position: None,
            op: None,
            is_bounded: left.is_bounded && right.is_bounded,
        }
    }

    /// One side with the columns that are read, its event time, and where its rows stand in their source.
    pub(super) fn side(&mut self, input: &LogicalPlan) -> Result<Stream> {
        let stream = self.below(|lowering| lowering.node(input))?;
        let stream = self.settle(stream)?;
        Ok(self.narrow_side(stream))
    }

    /// The same stream with the columns that are read, its event time, and what goes along unseen.
    pub(super) fn narrow_side(&mut self, stream: Stream) -> Stream {
        let StreamSchema { time, position, op, .. } = self.schema(&stream);
        let mut needed: BTreeSet<usize> = stream.slots.iter().filter_map(|slot| slot.column()).collect();
        needed.extend(time.iter().chain(position).chain(op));
        self.narrow(stream, &needed)
    }

    /// The columns of both sides, each under a name of its own; a side that may have no row has nulls.
    fn pair(&self, left: &StreamSchema, right: &StreamSchema, kind: JoinKind) -> DFSchemaRef {
        let may_miss =
            [matches!(kind, JoinKind::Right | JoinKind::Full), matches!(kind, JoinKind::Left | JoinKind::Full)];
        let fields = [left, right].into_iter().zip(may_miss).flat_map(|(side, may_miss)| {
            let fields = side.columns.fields().iter();
            fields.map(move |field| {
                let nullable = field.is_nullable() || may_miss;
                Field::clone(field).with_nullable(nullable)
            })
        });
        self.unique(fields)
    }

    /// What must be true of a pair, by what is done with it.
    pub(super) fn conditions(
        &self,
        join: &logical_plan::Join,
        left: &Stream,
        right: &Stream,
        both: &Stream,
    ) -> Result<Conditions> {
        let times = [self.schema(left).time, self.schema(right).time];
        let width = self.schema(left).columns.fields().len();
        // The event times among the columns of a pair.
        let side_of = |expression: &Expr| {
            let column = both.slot_of(expression)?.column()?;
            (0..2).find(|side| times[*side].map(|time| time + side * width) == Some(column))
        };
        let equal = |(a, b): &(Expr, Expr)| a.clone().eq(b.clone());
        let mut all: Vec<Expr> = join.on.iter().map(equal).collect();
        for part in join.filter.iter().flat_map(split_conjunction) {
            match part {
                Expr::Between(between) if !between.negated => {
                    let value = &between.expr;
                    all.push((**value).clone().gt_eq((*between.low).clone()));
                    all.push((**value).clone().lt_eq((*between.high).clone()));
                }
                part => all.push(part.clone()),
            }
        }
        let mut conditions = Conditions::default();
        // What is never true may have gone to the sides, of which no row comes then.
        if is_empty(&join.left) || is_empty(&join.right) {
            conditions.bounds = Bounds::AT_ONCE;
        }
        for part in all {
            let Expr::BinaryExpr(comparison) = &part else {
                // What is never true has taken all other conditions with it: no row waits for a partner.
                if is_never(&part) {
                    conditions.bounds = conditions.bounds.and(Bounds::AT_ONCE);
                }
                conditions.others.push(part);
                continue;
            };
            match said(comparison, &side_of) {
                Said::Bounds(bounds) => conditions.bounds = conditions.bounds.and(bounds),
                Said::Unclear(reason) => return Err(self.unclear(&reason, &part, right)),
                Said::Nothing => {
                    conditions.bounds = conditions.bounds.and(self.follows(comparison, [left, right], both));
                    match key(comparison, left, right) {
                        Some(key) => conditions.keys.push(key),
                        None => conditions.others.push(part),
                    }
                }
            }
        }
        Ok(conditions)
    }

    /// What follows for the event times from a comparison of columns that are not far from them: the other times of joins that a side comes
    /// from.
    fn follows(&self, comparison: &BinaryExpr, sides: [&Stream; 2], both: &Stream) -> Bounds {
        let width = self.schema(sides[0]).columns.fields().len();
        let apart = |expression: &Expr| {
            let column = both.slot_of(expression)?.column()?;
            let side = usize::from(column >= width);
            Some((side, self.plan.apart(sides[side].node, column - side * width)?))
        };
        // One time of each side: of several it is not known which ones are left when others cancel.
        let found = RefCell::new([Vec::new(), Vec::new()]);
        let side_of = |expression: &Expr| {
            let (side, distance) = apart(expression)?;
            found.borrow_mut()[side].push(distance);
            Some(side)
        };
        let said = said(comparison, &side_of);
        match (said, found.borrow().each_ref().map(Vec::as_slice)) {
            (Said::Bounds(bounds), [[left], [right]]) => bounds.between(*left, *right),
            _ => Bounds::default(),
        }
    }

    pub(super) fn join_place(&self) -> Span {
        let found =
            ["JOIN", "EXISTS", "IN ( SELECT", "FROM"].into_iter().find_map(|word| self.words.find_keywords(word));
        found.unwrap_or(self.words.start())
    }

    /// Where a join is written, by its right side's name; of a query in EXISTS or IN, or if it has none, where the first is.
    fn place_of_join(&self, right: &Stream) -> Span {
        let named = right.columns.iter().find_map(|(table, _)| self.words.find_join(table?.table()));
        named.unwrap_or_else(|| self.join_place())
    }

    fn unclear(&self, reason: &NotFixed, bound: &Expr, right: &Stream) -> Error {
        let why = match reason {
            NotFixed::Months => "months and years differ in length",
            NotFixed::TooFine => "time is counted in whole microseconds",
            NotFixed::TooLong => "it is longer than 292,000 years",
            NotFixed::NoInterval => "it is no interval",
        };
        let bound = thalweg_plan::written(&with_tables(bound));
        Error::query(format!("the event times of a join are bounded by {bound}: {why}"))
            .with_hint("write a span of days, hours, minutes or seconds")
            .at(self.place_of_join(right))
    }

    /// The refusal of a join whose rows would have to wait for ever: these bounds are known, if there is a condition at all.
    fn unbounded(&self, left: &Stream, right: &Stream, of_kind: JoinKind, bounds: Option<Bounds>) -> Error {
        let error = Error::query(
            "a join of streams needs bounds on both event times: else each row would have to wait for partners for ever",
        );
        if let Some(table) = [left, right].into_iter().find_map(|side| self.unmarked(side.node)) {
            let message = format!("a join of streams needs bounds on both event times, and \"{table}\" has none");
            return Error::query(message)
                .with_hint(format!("declare it in CREATE TABLE {table}: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"))
                .at(self.place_of_join(right));
        }
        let lost = [left, right].into_iter().filter(|side| self.schema(side).time.is_none());
        if let Some(hint) = lost.into_iter().find_map(|side| self.lost_time(side.node)) {
            let message = "a join of streams needs bounds on both event times, and one side has none any more";
            return Error::query(message).with_hint(hint).at(self.place_of_join(right));
        }
        let kind = |side: &Stream| {
            let schema = self.schema(side);
            schema.time.map(|time| types::flink_name(schema.columns.field(time).data_type()))
        };
        if let (Some(one), Some(other)) = (kind(left), kind(right))
            && one != other
        {
            return Error::query(format!("the event times of a join are {one} and {other}, which are not one type"))
                .with_hint("declare both columns with one type in CREATE TABLE")
                .at(self.place_of_join(right));
        }
        let name = |side: &Stream, other: &str| {
            // The query of EXISTS has a name that nobody wrote.
            let tables = side.columns.iter().filter_map(|(table, _)| table.map(|table| table.table().to_string()));
            let table = tables.into_iter().find(|table| !table.starts_with("__")).or_else(|| self.table(side.node));
            let schema = self.schema(side);
            let time = schema.time.map(|time| schema.columns.field(time).name().as_str()).unwrap_or("ts");
            format!("{}.{time}", table.unwrap_or(other.to_string()))
        };
        let (a, mut b) = (name(left, "a"), name(right, "b"));
        // A table beside itself, which has a name of its own only where one was written.
        if a == b
            && let Some((_, column)) = a.rsplit_once('.')
        {
            b = format!("b.{column}");
        }
        let both = format!("{b} BETWEEN {a} - INTERVAL '1' MINUTE AND {a} + INTERVAL '1' MINUTE");
        let needed = match bounds.map(Bounds::ends) {
            Some((Some(_), None)) => format!("AND {b} <= {a} + INTERVAL '1' MINUTE"),
            Some((None, Some(_))) => format!("AND {b} >= {a} - INTERVAL '1' MINUTE"),
            None if self.words.find_keywords("WHERE").is_none() => format!("WHERE {both}"),
            _ => format!("AND {both}"),
        };
        // WHERE would look at what the join gives.
        let is_outer = matches!(of_kind, JoinKind::Left | JoinKind::Right | JoinKind::Full);
        let to = if is_outer && bounds.is_some() { " to the condition behind ON:" } else { "" };
        error
            .with_hint(format!("add{to} {needed}, of the columns that carry the event times, as they are"))
            .at(self.place_of_join(right))
    }

    /// A table that leads here.
    fn table(&self, node: NodeId) -> Option<String> {
        let planned = self.plan.node(node);
        match &planned.node {
            Node::Source(source) => Some(source.table.name.clone()),
            _ => planned.inputs.iter().find_map(|input| self.table(*input)),
        }
    }

    /// A table without event time that leads here.
    pub(super) fn unmarked(&self, node: NodeId) -> Option<String> {
        let planned = self.plan.node(node);
        match &planned.node {
            Node::Source(source) if planned.schema.time.is_none() => Some(source.table.name.clone()),
            _ => planned.inputs.iter().find_map(|input| self.unmarked(*input)),
        }
    }
}

/// Whether a condition is a constant that lets no row pass.
fn is_never(part: &Expr) -> bool {
    matches!(part, Expr::Literal(value, _) if *value != ScalarValue::Boolean(Some(true)))
}

/// Whether a filter lets no row pass.
fn is_empty(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => {
            split_conjunction(&filter.predicate).into_iter().any(is_never) || is_empty(&filter.input)
        }
        LogicalPlan::Projection(projection) => is_empty(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_empty(&alias.input),
        _ => false,
    }
}

/// Whether only rows of the left side come out.
fn is_half(kind: JoinKind) -> bool {
    matches!(kind, JoinKind::Semi | JoinKind::Anti)
}

/// Which rows come out, and whether the sides are turned for it.
fn kind(join: JoinType) -> Option<(JoinKind, bool)> {
    match join {
        JoinType::Inner => Some((JoinKind::Inner, false)),
        JoinType::Left => Some((JoinKind::Left, false)),
        JoinType::Right => Some((JoinKind::Right, false)),
        JoinType::Full => Some((JoinKind::Full, false)),
        JoinType::LeftSemi => Some((JoinKind::Semi, false)),
        JoinType::LeftAnti => Some((JoinKind::Anti, false)),
        JoinType::RightSemi => Some((JoinKind::Semi, true)),
        JoinType::RightAnti => Some((JoinKind::Anti, true)),
        _ => None,
    }
}

/// The columns of both sides, as if they were one stream with those of the left side first.
pub(super) fn both(left: &Stream, right: &Stream, width: usize) -> datafusion_common::Result<Stream> {
    let moved = right.slots.iter().map(|slot| match slot {
        Slot::Column(column) => Slot::Column(width + column),
        other => *other,
    });
    Ok(Stream {
        node: left.node,
        columns: Arc::new(left.columns.join(&right.columns)?),
        slots: left.slots.iter().copied().chain(moved).collect(),
        pending: None,
    })
}

/// Values that are equal, one of each side.
fn key(BinaryExpr { left: a, op, right: b }: &BinaryExpr, left: &Stream, right: &Stream) -> Option<(Expr, Expr)> {
    let reads_only = |expression: &Expr, side: &Stream| {
        let columns = expression.column_refs();
        !columns.is_empty() && columns.iter().all(|column| side.columns.maybe_index_of_column(column).is_some())
    };
    if *op != Operator::Eq || a.is_volatile() || b.is_volatile() {
        return None;
    }
    if reads_only(a, left) && reads_only(b, right) {
        return Some(((**a).clone(), (**b).clone()));
    }
    (reads_only(a, right) && reads_only(b, left)).then(|| ((**b).clone(), (**a).clone()))
}

/// The condition with the table's name in each column's: both sides may have columns of one name.
fn with_tables(condition: &Expr) -> Expr {
    let named = condition.clone().transform(|part| match part {
        Expr::Column(Column { relation: Some(table), name, .. }) if !table.table().starts_with("__") => {
            Ok(Transformed::yes(Expr::Column(Column::from_name(format!("{}.{name}", table.table())))))
        }
        part => Ok(Transformed::no(part)),
    });
    named.data().unwrap_or_else(|_| condition.clone())
}
