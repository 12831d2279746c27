//! GROUP BY over a join whose groups are the rows of one side: an aggregate over the rows around each of them, without pairs.
//!
//! ```text
//! SELECT s.id, sum(r.v) FROM s JOIN r ON s.k = r.k AND r.ts BETWEEN s.ts - … AND s.ts GROUP BY s.id     -- PRIMARY KEY (id)
//!
//! Aggregate by id: sum(v)        Over by k: sum(v) of r alone
//! └─ IntervalJoin           ⇒    ├─ s
//!    ├─ s                        └─ r
//!    └─ r
//! ```
//!
//! Two rows are never in one group only where a key of the table is among the columns of the groups. Everything else stays a join.

use std::{collections::BTreeSet, sync::Arc};

use arrow_schema::{DataType, Field};
use datafusion_common::{
    Column, JoinType,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{Expr, LogicalPlan, expr::AggregateFunction, lit, logical_plan, utils::conjunction, when};
use datafusion_functions_aggregate::count::count_udaf;
use thalweg_core::{Error, Result};
use thalweg_plan::{
    Node,
    node::{Filter, FrameBounds},
};

use super::{
    Hidden, Lowering,
    join::{Conditions, both},
    stream::{Slot, Stream},
};
use crate::{diagnose, last::LastNode, over, planner::Readable};

impl Lowering<'_> {
    /// The aggregate as one over the rows around a row, if each of its groups is a row of one side of a join.
    pub(super) fn of_rows(&mut self, aggregate: &logical_plan::Aggregate) -> Result<Option<Stream>> {
        let Some(join) = joined(&aggregate.input) else { return Ok(None) };
        for join in [join, &turned(join)] {
            let keeps_left = matches!(join.join_type, JoinType::Inner | JoinType::Left);
            if keeps_left && let Some(stream) = self.of_left_rows(aggregate, join)? {
                return Ok(Some(stream));
            }
        }
        Ok(None)
    }

    fn of_left_rows(
        &mut self,
        aggregate: &logical_plan::Aggregate,
        join: &logical_plan::Join,
    ) -> Result<Option<Stream>> {
        let bare = |parts: &[Expr]| parts.iter().map(|part| part.clone().unalias_nested().data).collect::<Vec<_>>();
        let groups = bare(&aggregate.group_expr);
        let calls =
            bare(&aggregate.aggr_expr).into_iter().map(|call| over_pairs(call, join)).collect::<Option<Vec<_>>>();
        let Some(calls) = calls.filter(|_| are_rows(&groups, join)) else { return Ok(None) };
        // Conditions show what they are once both sides are lowered.
        let before = self.plan.clone();
        let stream = self.over_rows(aggregate, join, &groups, calls)?;
        if stream.is_none() {
            self.plan = before;
        }
        Ok(stream)
    }

    fn over_rows(
        &mut self,
        aggregate: &logical_plan::Aggregate,
        join: &logical_plan::Join,
        groups: &[Expr],
        calls: Vec<AggregateFunction>,
    ) -> Result<Option<Stream>> {
        let is_inner = join.join_type == JoinType::Inner;
        let (left, right) = (self.side(&join.left)?, self.side(&join.right)?);
        let both = both(&left, &right, self.schema(&left).columns.fields().len())
            .map_err(|error| diagnose::planning(error, self.words))?;
        let Conditions { keys, bounds, others } = self.conditions(join, &left, &right, &both)?;
        let (Some(distance), Some(left_time), Some(right_time)) =
            (bounds.distance(), self.schema(&left).time, self.schema(&right).time)
        else {
            return Ok(None);
        };
        let reads_only = |part: &Expr, side: &Stream| {
            part.column_refs().iter().all(|column| side.columns.maybe_index_of_column(column).is_some())
        };
        let (of_left, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|part| reads_only(part, &left));
        let (of_right, of_both): (Vec<_>, Vec<_>) = others.into_iter().partition(|part| reads_only(part, &right));
        // A row of the left side that its condition leaves alone has a group all the same.
        let of_pairs = of_both.first().or(of_left.first().filter(|_| !is_inner));
        if let Some(condition) = of_pairs {
            self.check_no_eager_pairs(condition)?;
            return Ok(None);
        }
        let left = self.filtered(left, of_left)?;
        // As everywhere in SQL, null is equal to nothing.
        let has_key = keys.iter().map(|(_, key)| key.clone().is_not_null());
        let right = self.filtered(right, of_right.into_iter().chain(has_key))?;
        let keys = keys.iter().map(|(a, b)| Ok((self.rebase(&left, a)?, self.rebase(&right, b)?)));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let width = self.schema(&left).columns.fields().len();
        let read = calls.iter().flat_map(|call| reads(call.clone()));
        let read: BTreeSet<usize> = read.filter_map(|column| right.columns.maybe_index_of_column(&column)).collect();
        let beside = self.beside(&left, &right, keys, [left_time, right_time], &read)?;
        let names: Vec<(usize, String)> =
            read.into_iter().zip(beside.taken.iter().map(|field| field.name().clone())).collect();
        let outputs = &aggregate.schema.fields()[groups.len()..];
        let mut counts_pairs = Vec::new();
        let mut named = Vec::new();
        for (number, (call, output)) in calls.into_iter().zip(outputs).enumerate() {
            // A row without partners is in one pair, of nulls.
            if !is_inner && reads(call.clone()).next().is_none() {
                counts_pairs.push(groups.len() + number);
            }
            let call = under_names(call, &right, &names).map_err(|error| diagnose::planning(error, self.words))?;
            let text = thalweg_plan::written(&Expr::AggregateFunction(call.clone()));
            named.push((call, Field::new(text, output.data_type().clone(), output.is_nullable())));
        }
        let partners = width + named.len();
        if is_inner {
            let count = AggregateFunction::new_udf(count_udaf(), vec![lit(1_i64)], false, None, vec![], None);
            named.push((count, Field::new("partners", DataType::Int64, false)));
        }
        let bounds = FrameBounds::Range { from: Some(distance.from), to: distance.to };
        let mut node = self.over_others(beside, bounds, None, named)?;
        if is_inner {
            let schema = self.plan.node(node).schema.clone();
            let partners = Expr::Column(Column::from_name(schema.columns.field(partners).name()));
            node = self.plan.add(Node::Filter(Filter { predicate: partners.gt(lit(0_i64)) }), vec![node], schema);
        }
        let of_group = |group: &Expr| left.slot_of(group).ok_or_else(|| Error::bug("a group is a column"));
        let slots =
            groups.iter().map(of_group).chain((width..).take(outputs.len()).map(|column| Ok(Slot::Column(column))));
        let slots = slots.collect::<Result<Vec<_>>>()?;
        let stream = Stream { node, columns: Arc::clone(&aggregate.schema), slots, pending: None };
        if counts_pairs.is_empty() { Ok(Some(stream)) } else { self.at_least_one(stream, &counts_pairs).map(Some) }
    }

    /// The rows for which all of this holds.
    pub(super) fn filtered(&mut self, stream: Stream, parts: impl IntoIterator<Item = Expr>) -> Result<Stream> {
        match conjunction(parts) {
            Some(condition) => self.filter(stream, &condition),
            None => Ok(stream),
        }
    }

    /// The stream with 1 for 0 in some columns.
    fn at_least_one(&mut self, stream: Stream, counts: &[usize]) -> Result<Stream> {
        let logical = Arc::clone(&stream.columns);
        let columns = logical.columns().into_iter().map(Expr::Column).enumerate();
        let columns = columns.map(|(number, column)| match counts.contains(&number) {
            true => when(column.clone().eq(lit(0_i64)), lit(1_i64)).otherwise(column),
            false => Ok(column),
        });
        let columns = columns.collect::<datafusion_common::Result<Vec<_>>>();
        let columns = columns.map_err(|error| diagnose::planning(error, self.words))?;
        self.project(stream, &columns, &logical, Hidden::Keep)
    }
}

/// The join that is aggregated as it is, but for columns that are left out.
fn joined(input: &LogicalPlan) -> Option<&logical_plan::Join> {
    match input {
        LogicalPlan::Join(join) => {
            let is_kind = matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right);
            (is_kind && LastNode::of(&join.right).is_none()).then_some(join)
        }
        LogicalPlan::Projection(projection) => {
            let passes = |part: &Expr| matches!(part, Expr::Column(_));
            joined(&projection.input).filter(|_| projection.expr.iter().all(passes))
        }
        _ => None,
    }
}

/// The same join, whose sides have changed places.
fn turned(join: &logical_plan::Join) -> logical_plan::Join {
    let on = join.on.iter().map(|(left, right)| (right.clone(), left.clone())).collect();
    let (left, right) = (Arc::clone(&join.right), Arc::clone(&join.left));
    logical_plan::Join { left, right, on, join_type: join.join_type.swap(), ..join.clone() }
}

/// Whether no two rows of the left side are in one group.
fn are_rows(groups: &[Expr], join: &logical_plan::Join) -> bool {
    let of_left = |group: &Expr| matches!(group, Expr::Column(column) if join.left.schema().has_column(column));
    let is_group = |key: Column| groups.contains(&Expr::Column(key));
    groups.iter().all(of_left) && unique(&join.left).is_some_and(|key| key.into_iter().all(is_group))
}

/// Columns that no two rows have alike, by what the table's declaration promises.
fn unique(plan: &LogicalPlan) -> Option<Vec<Column>> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let key = &scan.source.downcast_ref::<Readable>()?.key;
            let found = key.iter().map(|name| scan.projected_schema.iter().find(|(_, field)| field.name() == name));
            let found = found.map(|found| found.map(Column::from)).collect::<Option<Vec<_>>>();
            found.filter(|key| !key.is_empty())
        }
        LogicalPlan::Filter(filter) => unique(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => {
            let below = alias.input.schema();
            let renamed = |column: Column| {
                let number = below.maybe_index_of_column(&column)?;
                Some(Column::from(alias.schema.qualified_field(number)))
            };
            unique(&alias.input)?.into_iter().map(renamed).collect()
        }
        LogicalPlan::Projection(projection) => {
            let renamed = |column: Column| {
                let is_it = |part: &Expr| part.clone().unalias_nested().data == Expr::Column(column.clone());
                let number = projection.expr.iter().position(is_it)?;
                Some(Column::from(projection.schema.qualified_field(number)))
            };
            unique(&projection.input)?.into_iter().map(renamed).collect()
        }
        _ => None,
    }
}

/// The aggregate, if it says the same of the rows of the right side as of pairs.
fn over_pairs(call: Expr, join: &logical_plan::Join) -> Option<AggregateFunction> {
    let Expr::AggregateFunction(call) = call else { return None };
    let of_right = |column: &Column| join.right.schema().has_column(column);
    let params = &call.params;
    let depends = !params.order_by.is_empty() || over::depends_on_order(&call.func);
    if depends || !reads(call.clone()).all(|column| of_right(&column)) {
        return None;
    }
    // Where a row has no partner, its pair has nulls: they must not count.
    let is_left_out = match params.args.as_slice() {
        [Expr::Literal(value, _)] => {
            call.func.name() == "count" && !value.is_null() && params.filter.is_none() && !params.distinct
        }
        args => !args.is_empty() && args.iter().all(is_column),
    };
    (join.join_type == JoinType::Inner || is_left_out).then_some(call)
}

/// Whether an expression is a column, of whatever type: null where that is.
fn is_column(part: &Expr) -> bool {
    match part {
        Expr::Cast(cast) => is_column(&cast.expr),
        Expr::TryCast(cast) => is_column(&cast.expr),
        part => matches!(part, Expr::Column(_)),
    }
}

/// The columns that an aggregate reads.
fn reads(call: AggregateFunction) -> impl Iterator<Item = Column> {
    let call = Expr::AggregateFunction(call);
    let columns: Vec<Column> = call.column_refs().into_iter().cloned().collect();
    columns.into_iter()
}

/// The aggregate over columns of these names, which stand for those of the stream with these numbers.
fn under_names(
    call: AggregateFunction,
    stream: &Stream,
    names: &[(usize, String)],
) -> datafusion_common::Result<AggregateFunction> {
    let name = |column: &Column| {
        let number = stream.columns.maybe_index_of_column(column)?;
        names.iter().find(|(known, _)| *known == number).map(|(_, name)| name)
    };
    let renamed = Expr::AggregateFunction(call).transform(|part| match part {
        Expr::Column(column) => match name(&column) {
            Some(name) => Ok(Transformed::yes(Expr::Column(Column::from_name(name)))),
            None => datafusion_common::internal_err!("{column} is not read"),
        },
        part => Ok(Transformed::no(part)),
    });
    match renamed.data()? {
        Expr::AggregateFunction(call) => Ok(call),
        other => datafusion_common::internal_err!("{other} is no aggregate"),
    }
}
