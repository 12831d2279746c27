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

use super::{Subquery, order::sees_order};
use crate::{
    Node, Plan,
    node::{Emission, IntervalJoin, JoinKind},
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
/// Rows of equal time need an order that all instances know, which is that of their positions, if somebody sees it; so do rows that an
/// instance gets to answer for and has seen before. Other nodes that find the rows of a key where they are may not follow.
pub fn sharing(plan: &Plan, subquery: &Subquery, input: usize) -> Option<Sharing> {
    let [keyed] = &subquery.keyed[..] else { return None };
    let planned = plan.node(keyed.node);
    // Which side has the base rows, how its rows and others are shared, and on which sides they must have positions of their own.
    let (base, [of_base, of_others], in_order): (usize, [Sharing; 2], &[usize]) = match &planned.node {
        Node::Over(over) => {
            let is_seen = over.frames.iter().any(|frame| !frame.excludes_base);
            // All hear of what is said anew of a row, and who answered for it knows.
            let is_corrected = plan.node(planned.inputs[0]).schema.op.is_some();
            (0, [if is_seen || is_corrected { Sharing::Answered } else { Sharing::Dealt }, Sharing::Seen], &[0])
        }
        // Where a partition is not waited for, a row may be late for one instance and not for another, which would disagree on who has a partner.
        Node::IntervalJoin(IntervalJoin { kind: JoinKind::Full, .. }) if plan.settings.watermark_idle.is_some() => {
            return None;
        }
        // To find out that a row has no partner, its instance must know all others.
        Node::IntervalJoin(IntervalJoin { kind: JoinKind::Full, .. }) => (0, [Sharing::Answered; 2], &[0, 1]),
        Node::IntervalJoin(IntervalJoin { emission, kind, .. }) => {
            let base = usize::from(*kind == JoinKind::Right);
            // Pairs that come out as they are found have no order.
            let in_order: &[usize] = match (emission, base) {
                (Emission::Eager, _) => &[],
                (Emission::OnWatermark, 0) => &[0],
                (Emission::OnWatermark, _) => &[1],
            };
            (base, [Sharing::Dealt, Sharing::Seen], in_order)
        }
        _ => return None,
    };
    let is_first = subquery.nodes.first() == Some(&keyed.node);
    let is_order_seen =
        plan.settings.merge.puts_in_order() && plan.consumers(keyed.node).any(|taker| sees_order(plan, taker));
    let are_told_apart = in_order.iter().all(|side| plan.side_has_own_positions(keyed.node, *side))
        // Who gets to answer for a row has not seen it before, and nobody sees in which order results of one time come.
        || of_base == Sharing::Dealt && !is_order_seen;
    if !is_first || subquery.instances < 2 || !are_told_apart {
        return None;
    }
    Some(if planned.side(input) == base { of_base } else { of_others })
}
