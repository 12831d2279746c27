//! Which nodes without a state get the batches of a source in turn.
//!
//! A source has no more instances than partitions. Nodes without a state behind a source of one instance may have more: its batches are
//! dealt to them in turn, and taken in turn behind them, where the rows are those of one instance in its order. So any such nodes may
//! be dealt to, and those are that have enough to do.
//!
//! Source: Gulisano et al., "StreamCloud: A Large Scale Data Streaming System", §III-B: an operator without a state shares rows with
//! any number of instances, in turn.

use super::{cut, load, order};
use crate::{Node, NodeId, Plan};

/// To how many instances a source deals at most: it has other things to do.
pub const MOST: usize = 32;

/// What a row must take in the nodes, in nanoseconds, for its batch to be worth the way to another instance and back: measured, with
/// batches of 8192 rows on two cores, in docs/book/scaling.md.
const LEAST: f64 = 10.0;

/// Whether batches are dealt to instances of the nodes that begin with this one, which takes the rows of a source of one instance.
pub fn is_worthwhile(plan: &Plan, first: NodeId) -> bool {
    let is_source = |id: &NodeId| matches!(plan.node(*id).node, Node::Source(_));
    if plan.settings.parallelism < 2 || !plan.node(first).inputs.iter().all(is_source) {
        return false;
    }
    let (mut nodes, mut last) = (Vec::new(), vec![first]);
    while let [id] = last[..]
        && plan.node(id).node.is_stateless()
        && !order::must_gather(plan, id)
    {
        nodes.push(id);
        last = plan.consumers(id).collect();
    }
    // States of groups are few, and need no order: that gains without being asked for.
    let ends_in_states = nodes.last().is_some_and(|id| matches!(plan.node(*id).node, Node::Partial(_)));
    if !ends_in_states && !cut::divides_keys(&plan.settings) {
        return false;
    }
    // Sums that depend on order get it from one sender, and are divided all the same.
    let is_wanted_in_order = |id: &NodeId| order::must_gather(plan, *id) && cut::divides(plan, *id);
    !last.iter().any(is_wanted_in_order) && load::nanos_per_row(plan, &nodes, &last) >= LEAST
}
