//! Cuts a plan into subqueries: what is placed together, and how rows get from one to the next.
//!
//! Source: Gulisano et al., "StreamCloud: A Large Scale Data Streaming System", §III-B, the subquery-cluster strategy: a
//! subquery is one stateful node and the stateless ones that follow it.

pub mod order;

use datafusion_expr::Expr;
use thalweg_core::KeyGroups;

use crate::{
    Node, NodeId, Plan,
    node::{Aggregate, Anchor, Windowing},
    settings::{Merge, Settings},
};

/// The number of a subquery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubqueryId(pub usize);

/// A plan cut into subqueries, each behind its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelPlan {
    /// The subqueries.
    pub subqueries: Vec<Subquery>,
}

/// Nodes that run together, in any number of equal instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subquery {
    /// A chain: each node takes the rows of the one before. The first takes the exchanges.
    pub nodes: Vec<NodeId>,
    /// How many instances share the rows.
    pub instances: usize,
    /// Where rows come from, by port of the first node.
    pub inputs: Vec<Exchange>,
}

impl ParallelPlan {
    /// Whether somebody puts the rows of a subquery's instances in order.
    pub fn is_put_in_order(&self, subquery: SubqueryId) -> bool {
        let exchanges = self.subqueries.iter().flat_map(|subquery| &subquery.inputs);
        exchanges.filter(|exchange| exchange.from == subquery).any(|e| e.route == Route::Gather(Merge::Ordered))
    }

    /// The subquery of a node.
    pub fn home(&self, id: NodeId) -> Option<SubqueryId> {
        self.subqueries.iter().position(|subquery| subquery.nodes.contains(&id)).map(SubqueryId)
    }

    /// How many pairs of a sender and a receiver there are between which rows are divided by keys.
    pub fn keyed_pairs(&self) -> usize {
        let senders = |exchange: &Exchange| match exchange.route {
            Route::Gather(_) => 0,
            Route::Keyed { .. } => self.subqueries[exchange.from.0].instances,
        };
        let pairs = |subquery: &Subquery| subquery.inputs.iter().map(senders).sum::<usize>() * subquery.instances;
        self.subqueries.iter().map(pairs).sum()
    }
}

/// How rows get from all instances of one subquery to all instances of the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The subquery that sends.
    pub from: SubqueryId,
    /// The output of its last node that is meant; 0, unless that is a split.
    pub port: usize,
    /// Who receives which rows.
    pub route: Route,
}

/// Which instance receives a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// The only one there is; it takes what senders send as it arrives, or puts it in order.
    Gather(Merge),
    /// The one that owns the key group of these values, over the sender's columns.
    Keyed {
        /// The values that rows are divided by.
        keys: Vec<Expr>,
        /// Into how many groups keys are divided.
        groups: KeyGroups,
    },
}

/// Cuts a plan into subqueries. The same plan and settings give the same cut.
pub fn parallelize(plan: &Plan) -> ParallelPlan {
    let mut subqueries: Vec<Subquery> = Vec::new();
    let mut home: Vec<SubqueryId> = Vec::new();
    for (id, planned) in plan.nodes() {
        let before = planned.inputs.iter().map(|input| home[input.0]).collect::<Vec<_>>();
        let joined = before.first().copied().filter(|b| before.len() == 1 && joins(plan, id, &subqueries[b.0]));
        let place = joined.unwrap_or_else(|| {
            let port = if let Node::Branch(output) = planned.node { output } else { 0 };
            let is_gathered = before.iter().any(|from| order::must_gather(plan, id, &subqueries[from.0]));
            let instances = if is_gathered { 1 } else { instances(plan, &planned.node) };
            let exchange = |from: &SubqueryId| {
                let route = route(plan, id, instances, &subqueries[from.0]);
                Exchange { from: *from, port, route }
            };
            let inputs = before.iter().map(exchange).collect();
            subqueries.push(Subquery { nodes: Vec::new(), instances, inputs });
            SubqueryId(subqueries.len() - 1)
        });
        subqueries[place.0].nodes.push(id);
        home.push(place);
    }
    ParallelPlan { subqueries }
}

/// Whether a node runs with its only input: it has no state, or there is just one instance and nobody else to serve.
fn joins(plan: &Plan, id: NodeId, subquery: &Subquery) -> bool {
    let planned = plan.node(id);
    let is_last = subquery.nodes.last() == planned.inputs.first();
    let is_shared = plan.consumers(planned.inputs[0]).count() > 1;
    let begins_anew = matches!(planned.node, Node::Aggregate(_) | Node::Branch(_));
    let follows = planned.node.is_stateless() || (subquery.instances == 1 && !begins_anew);
    is_last && !is_shared && follows && !order::must_gather(plan, id, subquery)
}

/// Whether aggregates are divided at all.
fn divides_keys(settings: &Settings) -> bool {
    settings.divides_keys || settings.merge == Merge::Arrival
}

fn instances(plan: &Plan, node: &Node) -> usize {
    match node {
        Node::Source(source) => plan.settings.parallelism.min(source.partitions).max(1),
        Node::Aggregate(aggregate) if divides_keys(&plan.settings) && is_divided_by_keys(aggregate) => {
            plan.settings.parallelism.min(KeyGroups::default().count())
        }
        _ => 1,
    }
}

/// Whether the rows of a key tell all that is asked of it. Where windows are aligned to the first row, only who sees all rows
/// knows which that is.
fn is_divided_by_keys(aggregate: &Aggregate) -> bool {
    let sees_all = matches!(&aggregate.windowing, Windowing::Assigned(windows) if windows.anchor == Anchor::FirstRow);
    !aggregate.keys.is_empty() && !sees_all
}

fn route(plan: &Plan, id: NodeId, instances: usize, sender: &Subquery) -> Route {
    match &plan.node(id).node {
        Node::Aggregate(aggregate) if instances > 1 => {
            Route::Keyed { keys: aggregate.keys.clone(), groups: KeyGroups::default() }
        }
        _ => Route::Gather(order::merge(plan, id, sender)),
    }
}
