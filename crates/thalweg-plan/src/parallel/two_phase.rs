//! Aggregates in two phases: whoever sends rows aggregates them first, and what travels are the states of groups, fewer than rows.
//!
//! ```text
//! Source ─ Filter ═══ Aggregate                    rows travel, each to the instance that has its group
//! Source ─ Filter ─ Partial ═══ Aggregate          one state per group and sender travels
//! ```
//!
//! Below a union each of its inputs has a first phase:
//!
//! ```text
//! Source ─ Filter ─ Partial ═══╗
//! Source ─ Map ─ Partial ══════╩ Union ─ Aggregate
//! ```
//!
//! So rows that have one key are aggregated by all senders, and an aggregate without keys is as parallel as what is before it.
//!
//! Source: Gray et al., "Data Cube", for which aggregates may be split; the rule is known from parallel databases (DeWitt, Gray).

use std::{collections::HashMap, sync::Arc};

use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion_common::{Column, DFSchema};
use datafusion_expr::Expr;

use super::{
    SubqueryId,
    costs::are_instants,
    cut::{self, sees_all_rows},
    fuse::first_key,
};
use crate::{
    Node, NodeId, Plan, PlanNode, StreamSchema, label,
    node::{Aggregate, AggregateCall, Map, Windowing},
    settings::{FloatSum, Merge, Phases},
};

/// The columns of an aggregate's state, over rows of a schema; `None` if it cannot be split, or if its states are as large as the rows.
pub type States<'a> = &'a dyn Fn(&AggregateCall, &DFSchema) -> Option<Vec<FieldRef>>;

/// The plan with those aggregates in two phases that gain by it. All are decided anew, by the costs that are known now.
pub fn two_phase(plan: &Plan, states: States<'_>) -> Plan {
    let mut phases = HashMap::new();
    let mut split = built(plan, &phases);
    let aggregates = split.nodes().filter(|(_, planned)| matches!(planned.node, Node::Aggregate(_)));
    let numbers: Vec<usize> = aggregates.map(|(_, planned)| planned.number).collect();
    for number in numbers {
        let aggregate =
            split.nodes().find(|(id, planned)| planned.number == number && split.first_phase(*id).is_none());
        let Some(first) = aggregate.and_then(|(id, _)| first_phase(&split, id, states)) else { continue };
        phases.insert(number, first);
        // What is divided now may leave others that follow as they are.
        let with_it = built(plan, &phases);
        match plan.settings.phases == Phases::Two || gains(&with_it, number) {
            true => split = with_it,
            false => drop(phases.remove(&number)),
        }
    }
    split
}

/// The first phase of an aggregate.
struct First {
    /// What it gives.
    schema: StreamSchema,
    /// Whether it runs in each input of the union whose rows are aggregated.
    is_below_union: bool,
}

/// The plan with these aggregates, by number, in two phases; the others in one.
fn built(plan: &Plan, phases: &HashMap<usize, First>) -> Plan {
    let mut built = Plan::new(plan.settings.clone());
    built.costs = plan.costs.clone();
    built.origin = plan.origin.clone();
    let mut moved: HashMap<NodeId, NodeId> = HashMap::new();
    for (id, planned) in plan.nodes().filter(|(id, _)| !plan.is_of_first_phase(*id)) {
        let mut inputs: Vec<_> = plan.inputs_in_one_phase(id).iter().map(|input| moved[input]).collect();
        let (mut node, mut schema, number) = (planned.node.clone(), given(plan, id).clone(), planned.number);
        if let Some((_, aggregate)) = plan.aggregated(id) {
            node = Node::Aggregate(aggregate.clone());
            if let Some(First { schema, is_below_union }) = phases.get(&number) {
                let columns = &schema.columns;
                let keys = (0..aggregate.keys.len()).map(|key| {
                    let (table, field) = columns.qualified_field(name_width(aggregate) + key);
                    Expr::Column(Column::new(table.cloned(), field.name()))
                });
                node = Node::Aggregate(Aggregate { keys: keys.collect(), ..aggregate.clone() });
                if !is_below_union {
                    let (node, schema) = (Node::Partial(aggregate.clone()), schema.clone());
                    inputs = vec![built.put(PlanNode { node, inputs, schema, number, sides: Vec::new() })];
                }
            }
        }
        if let Some((aggregate, number, states)) = below(plan, id, phases) {
            for input in &mut inputs {
                let renamed = renamed(&mut built, *input, &schema, planned.number);
                let (node, schema) = (Node::Partial(aggregate.clone()), states.clone());
                *input = built.put(PlanNode { node, inputs: vec![renamed], schema, number, sides: Vec::new() });
            }
            schema = states.clone();
        }
        moved.insert(id, built.put(PlanNode { node, inputs, schema, number, sides: planned.sides.clone() }));
    }
    built
}

/// What a node gives where no aggregate has two phases: a union rows, and no states.
fn given(plan: &Plan, id: NodeId) -> &StreamSchema {
    let planned = plan.node(id);
    let states = planned.inputs.first().map(|input| plan.node(*input)).filter(|_| matches!(planned.node, Node::Union));
    match states.filter(|states| matches!(states.node, Node::Partial(_))) {
        Some(states) => &plan.node(states.inputs[0]).schema,
        None => &planned.schema,
    }
}

/// The aggregate, with its number, whose first phase runs in each input of a union, and what that gives.
fn below<'a>(
    plan: &'a Plan,
    id: NodeId,
    phases: &'a HashMap<usize, First>,
) -> Option<(&'a Aggregate, usize, &'a StreamSchema)> {
    let consumer = plan.consumers(id).next().filter(|_| matches!(plan.node(id).node, Node::Union))?;
    let number = plan.node(consumer).number;
    let first = phases.get(&number).filter(|first| first.is_below_union)?;
    Some((plan.aggregated(consumer)?.1, number, &first.schema))
}

/// The rows of a union's input under the union's names. What gives them has the union's number.
fn renamed(plan: &mut Plan, input: NodeId, schema: &StreamSchema, number: usize) -> NodeId {
    let given = &plan.node(input).schema;
    if given == schema {
        return input;
    }
    let expressions = given.columns.columns().into_iter().map(Expr::Column).collect();
    let (node, schema) = (Node::Map(Map { expressions }), schema.clone());
    plan.put(PlanNode { node, inputs: vec![input], schema, number, sides: Vec::new() })
}

/// What the first phase of an aggregate gives, if there may be one.
fn first_phase(plan: &Plan, id: NodeId, states: States<'_>) -> Option<First> {
    let planned = plan.node(id);
    let Node::Aggregate(aggregate) = &planned.node else { return None };
    let is_below_union = cut::absorbable(plan, planned.inputs[0]);
    // One that is fused has its rows from where they are aggregated already.
    let begins = |nodes: &[NodeId]| nodes[0] == id || (is_below_union && nodes.starts_with(&[planned.inputs[0], id]));
    if !cut::drafts(plan).iter().any(|draft| begins(&draft.nodes)) || plan.settings.phases == Phases::One {
        return None;
    }
    // What is late for a silent partition that wakes up is known where all partitions come together only.
    if plan.settings.watermark_idle.is_some() {
        return None;
    }
    let is_in_order = plan.settings.float_sum == FloatSum::Fast && plan.settings.merge != Merge::Arrival;
    if is_in_order || sees_all_rows(aggregate) {
        return None;
    }
    let input = &plan.node(planned.inputs[0]).schema;
    let mut fields = Vec::new();
    let name = |name: &str| Arc::new(Field::new(name, DataType::Timestamp(TimeUnit::Microsecond, None), true));
    fields.extend(
        ["first window's end", "slice's start"].map(|text| (None, name(text))).into_iter().take(name_width(aggregate)),
    );
    let keys = planned.schema.columns.iter().skip(first_key(aggregate)).take(aggregate.keys.len());
    fields.extend(keys.map(|(table, field)| (table.cloned(), Arc::clone(field))));
    for call in &aggregate.aggregates {
        let number = fields.len();
        let named = |(i, field): (usize, FieldRef)| {
            let name = format!("{} of column {}", field.name(), number + i);
            (None, Arc::new(field.as_ref().clone().with_name(name).with_nullable(true)))
        };
        fields.extend(states(call, &input.columns)?.into_iter().enumerate().map(named));
    }
    let columns = DFSchema::new_with_metadata(fields, HashMap::new()).ok()?;
    let schema = StreamSchema::plain(Arc::new(columns), planned.schema.is_bounded);
    Some(First { schema, is_below_union })
}

/// How many columns name a pane before keys and states.
fn name_width(aggregate: &Aggregate) -> usize {
    if aggregate.windowing == Windowing::Whole { 0 } else { 2 }
}

/// Whether the first phase of the aggregate of this number is worth it: several instances share its rows, and make fewer states of them.
fn gains(plan: &Plan, number: usize) -> bool {
    let is_first_phase =
        |id: &NodeId| plan.node(*id).number == number && matches!(plan.node(*id).node, Node::Partial(_));
    let drafts = cut::drafts(plan);
    let of = |draft: usize| drafts[draft].nodes.iter().copied().find(is_first_phase).map(|id| (draft, id));
    let phases: Vec<_> = (0..drafts.len()).filter_map(of).collect();
    let senders = phases.iter().map(|(draft, _)| cut::most(&drafts, SubqueryId(*draft))).sum();
    phases.first().is_some_and(|(_, id)| senders > 1 && states_per_row(plan, *id, senders) <= MOST_STATES)
}

/// Above so many states per row a first phase costs more than it saves.
const MOST_STATES: f64 = 0.5;

/// How many states a row makes where there are so many senders: as measured, or a guess that is low.
fn states_per_row(plan: &Plan, id: NodeId, senders: usize) -> f64 {
    let number = plan.node(id).number;
    let measured = |label: String| plan.costs.get(&label).filter(|measured| measured.rows_in > 0);
    let per_row = |rows: u64, of: u64| rows as f64 / of as f64;
    match (measured(label::first_phase(number)), measured(label::label("Aggregate", number))) {
        (Some(first), _) => per_row(first.rows_out, first.rows_in),
        // At worst each sender has rows of each group.
        (None, Some(only)) => per_row(only.rows_out * senders as u64, only.rows_in),
        (None, None) if plan.aggregated(id).is_some_and(|(_, aggregate)| are_instants(aggregate)) => 1.0,
        (None, None) => 0.0,
    }
}
