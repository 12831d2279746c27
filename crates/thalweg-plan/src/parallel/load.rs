//! What is to be done in each subquery, by what rows cost and how many arrive; and how much of the machine is left idle.

use super::{
    ParallelPlan, Route, Subquery, SubqueryId,
    costs::{Cost, DIVIDED, EXCHANGE, Measured, estimated},
    cut::divides,
};
use crate::{Node, NodeId, Plan, label, settings::Strategy};

/// What is to be done in a subquery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Rows that arrive, or that its source reads, as a share of what all sources give.
    pub rows: f64,
    /// Nanoseconds per row that arrives, with what it takes to divide rows for those that follow.
    pub nanos_per_row: f64,
    /// Whether the costs of its nodes were measured; that of dividing rows is always estimated.
    pub is_measured: bool,
}

impl Load {
    /// Nanoseconds of work per row that any source gives.
    pub fn work(self) -> f64 {
        self.rows * self.nanos_per_row
    }
}

/// What is to be done in each subquery.
pub fn loads(plan: &Plan, cut: &ParallelPlan) -> Vec<Load> {
    let flow = Flow::new(plan);
    let load = |(number, subquery): (usize, &Subquery)| {
        let arriving = flow.rows_in[subquery.nodes[0].0];
        let nodes = subquery.nodes.iter().map(|id| flow.rows_in[id.0] * flow.costs[id.0].nanos);
        let work = nodes.sum::<f64>() + EXCHANGE * divided(cut, SubqueryId(number), &flow);
        let has_operator =
            |id: &&NodeId| !matches!(plan.node(**id).node, Node::Branch(_) | Node::Sink(_) | Node::Values(_));
        let mut measured = subquery.nodes.iter().filter(has_operator).map(|id| flow.is_measured[id.0]).peekable();
        let is_measured = measured.peek().is_some() && measured.all(|is_measured| is_measured);
        Load { rows: arriving, nanos_per_row: if arriving > 0.0 { work / arriving } else { 0.0 }, is_measured }
    };
    cut.subqueries.iter().enumerate().map(load).collect()
}

/// What a row that arrives takes in a chain of nodes, and to be divided for the nodes behind them, in nanoseconds.
pub fn nanos_per_row(plan: &Plan, chain: &[NodeId], behind: &[NodeId]) -> f64 {
    let (Some(first), Some(last)) = (chain.first(), chain.last()) else { return 0.0 };
    let flow = Flow::new(plan);
    let divided = behind.iter().filter(|id| divides(plan, **id)).count() as f64 * flow.rows_out[last.0];
    let work = chain.iter().map(|id| flow.rows_in[id.0] * flow.costs[id.0].nanos).sum::<f64>() + EXCHANGE * divided;
    if flow.rows_in[first.0] > 0.0 { work / flow.rows_in[first.0] } else { 0.0 }
}

/// Whether the keys of an aggregate are worth dividing where nobody asked for it: it has more to do than those that send to it, and so
/// much that it is done sooner although rows have a way to go.
pub fn outweighs(plan: &Plan, aggregate: NodeId) -> bool {
    let flow = Flow::new(plan);
    let work = |id: NodeId| flow.rows_in[id.0] * flow.costs[id.0].nanos;
    let instances = plan.settings.parallelism as f64;
    let alone = work(aggregate);
    let divided = (alone + DIVIDED * flow.rows_in[aggregate.0]) / instances;
    // What is before it up to the next state, or the source, whose input is decoded by as many threads.
    let (mut sends, mut before) = (0.0, plan.node(aggregate).inputs.clone());
    while let Some(id) = before.pop() {
        let node = &plan.node(id).node;
        sends += work(id) / if matches!(node, Node::Source(_)) { instances } else { 1.0 };
        if node.is_stateless() || matches!(node, Node::Union) {
            before.extend(&plan.node(id).inputs);
        }
    }
    divided < alone && sends < alone
}

/// The part of the instances' time that is left idle where rows come as fast as the busiest can take them, if each processor has
/// its own: one per instance, or with query-cluster one for all instances of a number.
///
/// Source: Gulisano et al., "StreamCloud", §IV-C: what is unused because no subquery has a fraction of a processor.
pub fn idle(strategy: Strategy, cut: &ParallelPlan, loads: &[Load]) -> f64 {
    let each = cut.subqueries.iter().zip(loads);
    let processors: Vec<f64> = match strategy {
        Strategy::QueryCluster => {
            let most = cut.subqueries.iter().map(|subquery| subquery.instances).max().unwrap_or(0);
            let share = |processor: usize| {
                let here = each.clone().filter(|(subquery, _)| subquery.instances > processor);
                here.map(|(subquery, load)| load.work() / subquery.instances as f64).sum()
            };
            (0..most).map(share).collect()
        }
        _ => {
            let share = |(subquery, load): (&Subquery, &Load)| {
                std::iter::repeat_n(load.work() / subquery.instances as f64, subquery.instances)
            };
            each.flat_map(share).collect()
        }
    };
    let busiest = processors.iter().copied().fold(0.0, f64::max);
    match busiest > 0.0 {
        true => 1.0 - processors.iter().sum::<f64>() / (busiest * processors.len() as f64),
        false => 0.0,
    }
}

/// The rows that a subquery divides by keys, for all that take them so.
fn divided(cut: &ParallelPlan, sender: SubqueryId, flow: &Flow) -> f64 {
    let exchanges =
        cut.subqueries.iter().flat_map(|subquery| subquery.inputs.iter().map(move |input| (subquery, input)));
    let keyed = exchanges.filter(|(_, input)| input.from == sender && matches!(input.route, Route::Keyed { .. }));
    let last = cut.subqueries[sender.0].nodes.last().expect("a subquery has nodes");
    // Who begins with a keyed exchange takes all rows of the output.
    keyed.map(|_| flow.rows_out[last.0]).sum()
}

/// Rows and costs by node.
struct Flow {
    rows_in: Vec<f64>,
    rows_out: Vec<f64>,
    costs: Vec<Cost>,
    is_measured: Vec<bool>,
}

impl Flow {
    fn new(plan: &Plan) -> Self {
        let mut flow = Self { rows_in: Vec::new(), rows_out: Vec::new(), costs: Vec::new(), is_measured: Vec::new() };
        let measured = |id| measured(plan, id).filter(|measured| measured.rows_in > 0);
        let sources = || plan.nodes().filter(|(_, planned)| planned.inputs.is_empty());
        let all: u64 = sources().filter_map(|(id, _)| measured(id)).map(|measured| measured.rows_in).sum();
        for (id, planned) in plan.nodes() {
            let arriving = match planned.inputs.is_empty() {
                true => 1.0 / sources().count() as f64,
                false => planned.inputs.iter().map(|input| flow.given(plan, *input)).sum(),
            };
            let known = measured(id).filter(|_| all > 0);
            // What is measured of a node that is there for each input of a union is measured of all of them.
            let is_one_of = plan.copies(id) > 1;
            let counted = known.filter(|_| !is_one_of);
            let rows_in = counted.map_or(arriving, |measured| measured.rows_in as f64 / all as f64);
            let cost = known.map_or_else(|| estimated(plan, id), per_row);
            flow.rows_in.push(rows_in);
            flow.rows_out.push(rows_in * cost.rows);
            flow.costs.push(cost);
            flow.is_measured.push(known.is_some());
        }
        flow
    }

    /// The rows that a node gives to one that takes them.
    fn given(&self, plan: &Plan, input: NodeId) -> f64 {
        match &plan.node(input).node {
            Node::Split(split) => self.rows_out[input.0] / (split.predicates.len() + 1) as f64,
            _ => self.rows_out[input.0],
        }
    }
}

/// What was measured of a node. An aggregate that was measured in two phases had the rows of the first, and the work of both; of one that
/// was measured in one, nothing is known of its phases.
fn measured(plan: &Plan, id: NodeId) -> Option<Measured> {
    let planned = plan.node(id);
    let measured = plan.costs.get(&plan.label(id)).copied();
    let first = plan.costs.get(&label::first_phase(planned.number));
    match (&planned.node, first) {
        (Node::Aggregate(_), first) if plan.first_phase(id).is_some() => first.and(measured),
        (Node::Aggregate(_), Some(first)) => {
            measured.map(|both| Measured { rows_in: first.rows_in, nanos: first.nanos + both.nanos, ..both })
        }
        _ => measured,
    }
}

fn per_row(measured: Measured) -> Cost {
    let rows = measured.rows_in as f64;
    Cost { nanos: measured.nanos as f64 / rows, rows: measured.rows_out as f64 / rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is idle where subqueries have so many instances and so much work each.
    fn idle_of(strategy: Strategy, subqueries: &[(usize, f64)]) -> f64 {
        let subquery = |(instances, _): &(usize, f64)| Subquery {
            nodes: vec![NodeId(0)],
            instances: *instances,
            inputs: Vec::new(),
            keyed: Vec::new(),
        };
        let cut = ParallelPlan { subqueries: subqueries.iter().map(subquery).collect() };
        let load = |(_, work): &(usize, f64)| Load { rows: 0.5, nanos_per_row: 2.0 * work, is_measured: false };
        idle(strategy, &cut, &subqueries.iter().map(load).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_idle_is_what_the_busiest_leaves_to_the_others() {
        let alone = |subqueries: &[(usize, f64)]| idle_of(Strategy::SubqueryCluster, subqueries);
        assert_eq!(alone(&[(2, 2.0), (1, 1.0)]), 0.0, "all have as much to do");
        assert_eq!(alone(&[(1, 4.0), (3, 3.0)]), 9.0 / 16.0, "three of four have a fourth to do");
        assert_eq!(alone(&[(1, 0.0)]), 0.0, "nothing is to be done");
        let together = |subqueries: &[(usize, f64)]| idle_of(Strategy::QueryCluster, subqueries);
        assert_eq!(together(&[(4, 8.0), (4, 1.0)]), 0.0, "each processor has a part of all");
        assert_eq!(together(&[(2, 4.0), (1, 2.0)]), 0.25, "one of two has 2 to do and the other 4");
    }
}
