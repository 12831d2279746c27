//! What computes each node of a plan, kernels of ours or DataFusion; how rows get to instances; and how windows around rows are looked at.

use std::{cell::Cell, collections::HashMap};

use datafusion_common::DFSchema;
use datafusion_expr::Expr;
use thalweg_expressions::{aggregate_in_order, compile};
use thalweg_operators::interval::{
    asked::{possible, ways},
    index,
};
use thalweg_plan::{
    Node, NodeId, Plan,
    node::{self, Emission},
    parallel::{Route, parallelize},
    render::{ComputedBy, Notes},
    settings::FloatSum,
};
use thalweg_runtime::share::Share;

use super::local::{Looked, columns, looked, native_noting};

/// What is known of how a plan runs.
pub fn notes(plan: &Plan) -> Notes {
    Notes { computed: computed(plan), scattered: scattered(plan), windows: windows(plan), partners: partners(plan) }
}

/// How the aggregates over the rows around each row are found.
fn windows(plan: &Plan) -> HashMap<NodeId, Vec<&'static str>> {
    let overs = plan.nodes().filter_map(|(id, planned)| match &planned.node {
        Node::Over(over) => Some((id, over)),
        _ => None,
    });
    let ways = |(id, over): (NodeId, &node::Over)| {
        // Running what cannot be is an error, which says why.
        let Looked { inputs, frames, paired } = looked(plan, id, over).ok()?;
        let ways = ways(&inputs, (&frames, &paired), &over.passes, plan.settings.over_incremental).ok()?;
        Some((id, ways.into_iter().map(possible).collect()))
    };
    overs.filter_map(ways).collect()
}

/// Where joins find the partners of rows.
fn partners(plan: &Plan) -> HashMap<NodeId, &'static str> {
    let joins = plan.nodes().filter_map(|(id, planned)| match &planned.node {
        Node::IntervalJoin(join) => Some((id, join)),
        _ => None,
    });
    let from = |join: &node::IntervalJoin| match join.emission {
        Emission::OnWatermark => "sorted rows",
        Emission::Eager => index::chosen(plan.settings.join_index).name(),
    };
    joins.map(|(id, join)| (id, from(join))).collect()
}

/// How the rows of inputs get to their instances, where they are divided by keys.
fn scattered(plan: &Plan) -> HashMap<(NodeId, usize), &'static str> {
    let cut = parallelize(plan);
    let mut scattered = HashMap::new();
    for subquery in &cut.subqueries {
        let share = Share::new(&plan.settings, cut.keyed_pairs(), subquery.instances);
        for (number, input) in subquery.inputs.iter().enumerate() {
            let (Route::Keyed { .. }, Some(sender)) = (&input.route, cut.subqueries[input.from.0].nodes.last()) else {
                continue;
            };
            let how = match &share {
                // Running it is an error, which says how much is needed.
                Err(_) => "too little 'exchange.memory'",
                Ok(share) => share.how(&columns(&plan.node(*sender).schema)),
            };
            scattered.insert((subquery.nodes[0], number), how);
        }
    }
    scattered
}

fn computed(plan: &Plan) -> HashMap<NodeId, ComputedBy> {
    let computed = |(id, planned): (NodeId, &thalweg_plan::plan::PlanNode)| {
        let by = match (&planned.node, planned.inputs.first()) {
            (Node::Aggregate(_) | Node::Partial(_), Some(_)) => of_aggregate(plan, id),
            (Node::Over(over), Some(input)) => of_over(plan, over, &plan.node(*input).schema.columns),
            (Node::IntervalJoin(join), Some(_)) => of_join(plan, join, &planned.first_of_sides()),
            (node, Some(input)) => of_node(node, &plan.node(*input).schema.columns),
            (Node::Source(source), None) => {
                let computed = source.computed.iter().flatten().map(|e| value(e, &source.physical));
                together(computed)
            }
            _ => ComputedBy::default(),
        };
        (id, by)
    };
    plan.nodes().map(computed).collect()
}

fn of_node(node: &Node, input: &DFSchema) -> ComputedBy {
    match node {
        Node::Filter(filter) => predicate(&filter.predicate, input),
        Node::Split(split) => together(split.predicates.iter().map(|e| predicate(e, input))),
        Node::Map(map) => together(map.expressions.iter().map(|e| value(e, input))),
        Node::Function(function) => together(function.keys.iter().map(|e| value(e, input))),
        _ => ComputedBy::default(),
    }
}

fn of_over(plan: &Plan, over: &node::Over, input: &DFSchema) -> ComputedBy {
    let exact_floats = plan.settings.float_sum == FloatSum::Exact;
    let calls = over.frames.iter().flat_map(|frame| &frame.aggregates);
    let calls = calls.map(|call| of_call(call, input, exact_floats, true));
    let conditions = over.frames.iter().filter_map(|frame| frame.pairs.as_ref()?.condition.as_ref());
    let conditions = conditions.map(|condition| predicate(condition, input));
    together(over.keys.iter().map(|key| value(key, input)).chain(calls).chain(conditions))
}

fn of_join(plan: &Plan, join: &node::IntervalJoin, inputs: &[NodeId]) -> ComputedBy {
    let [left, right] = [0, 1].map(|side| &plan.node(inputs[side]).schema.columns);
    let keys = join.keys.iter().flat_map(|(one, other)| [value(one, left), value(other, right)]);
    together(keys.chain(join.condition.iter().map(|condition| predicate(condition, &join.pair))))
}

/// An aggregate, or a phase of one; where states are merged, the first phase has computed keys and arguments.
fn of_aggregate(plan: &Plan, id: NodeId) -> ComputedBy {
    let Some((input, aggregate)) = plan.aggregated(id) else { return ComputedBy::default() };
    let (input, is_merge) = (&plan.node(input).schema.columns, plan.first_phase(id).is_some());
    let exact_floats = plan.settings.float_sum == FloatSum::Exact;
    let keys = aggregate.keys.iter().filter(|_| !is_merge).map(|e| value(e, input));
    let calls = aggregate.aggregates.iter().map(|call| of_call(call, input, exact_floats, !is_merge));
    together(keys.chain(calls))
}

/// A predicate that only selects rows.
fn predicate(expression: &Expr, input: &DFSchema) -> ComputedBy {
    let is_kernel = compile(expression, input).is_ok_and(|compiled| compiled.selects_by_kernels());
    ComputedBy { kernels: is_kernel, datafusion: !is_kernel }
}

/// An expression whose values are wanted; a column that is passed on is not computed.
fn value(expression: &Expr, input: &DFSchema) -> ComputedBy {
    let is_column = compile(expression, input).is_ok_and(|compiled| compiled.column().is_some());
    ComputedBy { kernels: false, datafusion: !is_column }
}

fn of_call(call: &node::AggregateCall, input: &DFSchema, exact_floats: bool, has_arguments: bool) -> ComputedBy {
    let is_native = Cell::new(false);
    let arguments = match aggregate_in_order(call, input, exact_floats, &native_noting(&is_native)) {
        Ok(compiled) if has_arguments => {
            compiled.arguments.into_iter().chain(compiled.filter).any(|e| e.column().is_none())
        }
        Ok(_) | Err(_) => false,
    };
    ComputedBy { kernels: is_native.get(), datafusion: !is_native.get() || arguments }
}

fn together(parts: impl Iterator<Item = ComputedBy>) -> ComputedBy {
    parts.fold(ComputedBy::default(), |a, b| ComputedBy {
        kernels: a.kernels | b.kernels,
        datafusion: a.datafusion | b.datafusion,
    })
}
