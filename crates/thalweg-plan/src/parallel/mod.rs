//! Cuts a plan into subqueries: what is placed together, in how many instances, and how rows get from one to the next.
//!
//! * [`cut`]: which nodes run together, by strategy
//! * [`fuse`]: aggregates that partition alike need one exchange
//! * [`costs`]: what rows cost, and how many there are
//! * [`load`]: what is to be done where, and what is left idle
//! * [`instances`]: how many instances each subquery has
//! * [`deployment`]: where they run, as data
//! * [`explain`]: all of it as text, JSON and DOT
//!
//! Source: Gulisano et al., "StreamCloud: A Large Scale Data Streaming System", §III-B.

pub mod costs;
pub mod cut;
pub mod deployment;
pub mod explain;
pub mod fuse;
pub mod instances;
pub mod load;

use datafusion_expr::Expr;
use thalweg_core::KeyGroups;

use crate::{Node, NodeId, Plan};
use cut::Draft;
use fuse::Keyed;

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
    /// The aggregates whose groups are divided among the instances: the first takes the exchange, the others are fused with it.
    pub keyed: Vec<Keyed>,
}

impl ParallelPlan {
    /// How many pairs of a sender and a receiver there are between which rows are divided by keys.
    pub fn keyed_pairs(&self) -> usize {
        let senders = |exchange: &Exchange| match exchange.route {
            Route::Gather | Route::Forward => 0,
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
    /// The only one there is; what senders send is taken as it arrives.
    Gather,
    /// The one with the sender's number: nothing is divided anew, so that order and keys stay where they are.
    Forward,
    /// The one that owns the key group of these values, over the sender's columns.
    Keyed {
        /// The values that rows are divided by.
        keys: Vec<Expr>,
        /// Into how many groups keys are divided.
        groups: KeyGroups,
    },
}

/// Cuts a plan into subqueries. The same plan, settings and costs give the same cut.
pub fn parallelize(plan: &Plan) -> ParallelPlan {
    let drafts = cut::drafts(plan);
    let most: Vec<usize> = (0..drafts.len()).map(|number| cut::most(&drafts, SubqueryId(number))).collect();
    let cut = wired(plan, &drafts, &most);
    match instances::in_proportion(plan, &drafts, &cut) {
        Some(counts) => wired(plan, &drafts, &counts),
        None => cut,
    }
}

/// The subqueries with so many instances each, and with exchanges between them.
fn wired(plan: &Plan, drafts: &[Draft], instances: &[usize]) -> ParallelPlan {
    let subquery = |(draft, count): (&Draft, &usize)| {
        let port = if let Node::Branch(output) = plan.node(draft.nodes[0]).node { output } else { 0 };
        let exchange = |from: &SubqueryId| Exchange { from: *from, port, route: route(plan, draft, *count) };
        let inputs = draft.inputs.iter().map(exchange).collect();
        Subquery { nodes: draft.nodes.clone(), instances: *count, inputs, keyed: draft.keyed.clone() }
    };
    ParallelPlan { subqueries: drafts.iter().zip(instances).map(subquery).collect() }
}

fn route(plan: &Plan, draft: &Draft, instances: usize) -> Route {
    match (&plan.node(draft.nodes[0]).node, draft.keyed.first()) {
        _ if instances == 1 => Route::Gather,
        (Node::Aggregate(aggregate), Some(keyed)) => {
            let keys = keyed.by.iter().map(|key| aggregate.keys[*key].clone()).collect();
            Route::Keyed { keys, groups: KeyGroups::default() }
        }
        _ => Route::Forward,
    }
}
