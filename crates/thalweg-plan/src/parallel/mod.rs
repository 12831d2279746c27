//! Cuts a plan into subqueries: what is placed together, in how many instances, and how rows get from one to the next.
//!
//! * [`cut`]: which nodes run together, by strategy
//! * [`deal`]: which nodes get the batches of a source in turn
//! * [`spread`]: unions whose rows are divided by keys, and what stands between, for each of their inputs
//! * [`two_phase`]: aggregates that are split
//! * [`fuse`]: neighbours that partition alike need one exchange
//! * [`order`]: where the rows of several instances are put in order
//! * [`share`]: which nodes may have several instances for the rows of one key
//! * [`costs`]: what rows cost, and how many there are
//! * [`load`]: what is to be done where, and what is left idle
//! * [`instances`]: how many instances each subquery has
//! * [`deployment`]: where they run, as data
//! * [`explain`]: all of it as text, JSON and DOT
//!
//! Source: Gulisano et al., "StreamCloud: A Large Scale Data Streaming System", §III-B.

pub mod costs;
pub mod cut;
pub mod deal;
pub mod deployment;
pub mod explain;
pub mod fuse;
pub mod instances;
pub mod load;
pub mod order;
pub mod share;
pub mod spread;
#[cfg(test)]
mod testing;
pub mod two_phase;

use datafusion_common::{
    Column, DFSchema,
    tree_node::{Transformed, TreeNode},
};
use datafusion_expr::Expr;
use thalweg_core::KeyGroups;

use crate::{Node, NodeId, Plan, settings::Merge};
use cut::{Draft, Size};
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
    /// The nodes whose keys are divided among the instances: the first takes the exchange, the others are fused with it.
    pub keyed: Vec<Keyed>,
}

impl ParallelPlan {
    /// Whether the rows of a node say where they stand among those of all instances: somebody puts them in order, and no other
    /// node with keys follows where they are.
    pub fn has_positions(&self, id: NodeId) -> bool {
        let home =
            self.home(id).filter(|home| self.subqueries[home.0].keyed.last().is_some_and(|keyed| keyed.node == id));
        home.is_some_and(|home| self.is_put_in_order(home))
    }

    /// Whether somebody puts the rows of a subquery's instances in order, be it behind others that take them one to one.
    pub fn is_put_in_order(&self, subquery: SubqueryId) -> bool {
        let puts = |(taker, exchange): (usize, &Exchange)| match exchange.route {
            Route::Gather(merge) => merge.puts_in_order(),
            Route::Forward => self.is_put_in_order(SubqueryId(taker)),
            Route::InTurn | Route::RoundRobin | Route::Keyed { .. } => false,
        };
        let takers = self.subqueries.iter().enumerate();
        let exchanges = takers.flat_map(|(taker, subquery)| subquery.inputs.iter().map(move |input| (taker, input)));
        exchanges.filter(|(_, exchange)| exchange.from == subquery).any(puts)
    }

    /// The subquery of a node.
    pub fn home(&self, id: NodeId) -> Option<SubqueryId> {
        self.subqueries.iter().position(|subquery| subquery.nodes.contains(&id)).map(SubqueryId)
    }

    /// How many pairs of a sender and a receiver there are between which rows are divided by keys.
    pub fn keyed_pairs(&self) -> usize {
        let senders = |exchange: &Exchange| match exchange.route {
            Route::Gather(_) | Route::InTurn | Route::Forward | Route::RoundRobin => 0,
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
    /// The only one there is; it takes what senders make of the batches that were dealt to them, in the same turn.
    InTurn,
    /// The one whose turn it is: the batches of the only sender are dealt.
    RoundRobin,
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
        let exchange = |(input, from): (usize, &SubqueryId)| Exchange {
            from: *from,
            port,
            route: route(plan, drafts, draft, *count, input, instances[from.0]),
        };
        let inputs = draft.inputs.iter().enumerate().map(exchange).collect();
        Subquery { nodes: draft.nodes.clone(), instances: *count, inputs, keyed: draft.keyed.clone() }
    };
    ParallelPlan { subqueries: drafts.iter().zip(instances).map(subquery).collect() }
}

/// Whether the rows that a subquery has are those of one instance if they are taken in turn. States of groups have no order, and go out
/// when time passes, whoever's turn it is.
fn has_turns(plan: &Plan, drafts: &[Draft], from: SubqueryId) -> bool {
    let last = drafts[from.0].nodes.last();
    cut::is_dealt(from, drafts) && last.is_some_and(|last| !matches!(plan.node(*last).node, Node::Partial(_)))
}

/// How the instances of a subquery take the rows of one of its inputs.
fn route(plan: &Plan, drafts: &[Draft], draft: &Draft, instances: usize, input: usize, senders: usize) -> Route {
    let (first, from) = (draft.nodes[0], draft.inputs[input]);
    match draft.keyed.first().and_then(|keyed| keys(plan, first, keyed, input)) {
        _ if instances == 1 && senders > 1 && has_turns(plan, drafts, from) => Route::InTurn,
        _ if instances == 1 => Route::Gather(order::merge(plan, first, senders > 1 && cut::is_divided(from, drafts))),
        Some(keys) => Route::Keyed { keys, groups: KeyGroups::default() },
        None if matches!(draft.size, Size::UpTo(_)) => Route::RoundRobin,
        None => Route::Forward,
    }
}

/// What the rows of an input of a subquery's first node are divided by: the keys of that node, or of the one behind it if it is a union,
/// which gives the columns of each of its inputs under names of its own.
fn keys(plan: &Plan, first: NodeId, keyed: &Keyed, input: usize) -> Option<Vec<Expr>> {
    let is_first = keyed.node == first;
    let keys = cut::keys(plan.node(keyed.node), if is_first { input } else { 0 })?;
    let keys = keyed.by.iter().map(|key| keys[*key].clone());
    if is_first {
        return Some(keys.collect());
    }
    let columns = |id: NodeId| &plan.node(id).schema.columns;
    let (union, branch) = (columns(first), columns(plan.node(first).inputs[input]));
    Some(keys.map(|key| renamed(key, union, branch)).collect())
}

/// An expression over the columns of one schema as one over those of another, which have the same places.
pub(crate) fn renamed(expression: Expr, from: &DFSchema, to: &DFSchema) -> Expr {
    let moved = |part: Expr| match &part {
        Expr::Column(column) => match from.maybe_index_of_column(column) {
            Some(place) => Ok(Transformed::yes(Expr::Column(Column::from(to.qualified_field(place))))),
            None => Ok(Transformed::no(part)),
        },
        _ => Ok(Transformed::no(part)),
    };
    // A change that never fails has no error to pass on.
    expression.clone().transform(moved).map_or(expression, |changed| changed.data)
}
