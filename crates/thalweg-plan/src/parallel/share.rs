//! Nodes whose instances may share the rows of a key: where all of them know what may be seen, each can answer for others of the rows for
//! which there are results.
//!
//! ```text
//!                 ┌─► instance 0   a b c d       answers for a b     a key that alone is too much for one
//!  rows of a key ─┤
//!                 └─► instance 1   a b c d       answers for c d
//! ```
//!
//! Source: the virtual teams of Zhang et al., "Scalable Online Interval Join", §V-B, where instances have a memory of their own.

use super::Subquery;
use crate::{
    Node, Plan,
    node::{Emission, IntervalJoin, JoinKind, Over},
};

/// How the rows of a key that several instances share get to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each row to one of them in turn.
    Dealt,
    /// Each row to all of them, and one of them in turn answers for it.
    Answered,
    /// Each row to all of them: there are no results for it.
    Seen,
}

/// How the instances of a subquery may share the rows of an input; `None` where each key has one instance.
///
/// Rows of equal time need an order that all instances know, which is that of their positions. Other nodes that find the rows of a key
/// where they are may not follow. What was answered early would have to be corrected by whoever answered.
pub fn sharing(plan: &Plan, subquery: &Subquery, input: usize) -> Option<Sharing> {
    let [keyed] = &subquery.keyed[..] else { return None };
    let planned = plan.node(keyed.node);
    let (base, is_base_seen) = match &planned.node {
        Node::Over(Over { emission: Emission::OnWatermark, frames, .. }) => {
            (0, frames.iter().any(|frame| !frame.excludes_base))
        }
        Node::IntervalJoin(IntervalJoin { emission: Emission::OnWatermark, kind, .. }) if *kind != JoinKind::Full => {
            (usize::from(*kind == JoinKind::Right), false)
        }
        _ => return None,
    };
    let is_first = subquery.nodes.first() == Some(&keyed.node);
    if !is_first || subquery.instances < 2 || !plan.side_has_own_positions(keyed.node, base) {
        return None;
    }
    Some(match planned.side(input) == base {
        true if is_base_seen => Sharing::Answered,
        true => Sharing::Dealt,
        false => Sharing::Seen,
    })
}
