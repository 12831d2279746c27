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
    node::{IntervalJoin, JoinKind},
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
/// Rows that an instance gets to answer for and has seen before need positions of their own, by which it finds them again. Other nodes that find
/// the rows of a key where they are may not follow. (Results of rows without such positions stand by their content, whoever answers.)
pub fn sharing(plan: &Plan, subquery: &Subquery, input: usize) -> Option<Sharing> {
    let [keyed] = &subquery.keyed[..] else { return None };
    let planned = plan.node(keyed.node);
    // Which side has the base rows, and how its rows and others are shared.
    let (base, [of_base, of_others]) = match &planned.node {
        Node::Over(over) => {
            let is_seen = over.frames.iter().any(|frame| !frame.excludes_base);
            // All hear of what is said anew of a row, and who answered for it knows.
            let is_corrected = plan.node(planned.inputs[0]).schema.op.is_some();
            (0, [if is_seen || is_corrected { Sharing::Answered } else { Sharing::Dealt }, Sharing::Seen])
        }
        // Where a partition is not waited for, a row may be late for one instance and not for another, which would disagree on who has a partner.
        Node::IntervalJoin(IntervalJoin { kind: JoinKind::Full, .. }) if plan.settings.watermark_idle.is_some() => {
            return None;
        }
        // To find out that a row has no partner, its instance must know all others.
        Node::IntervalJoin(IntervalJoin { kind: JoinKind::Full, .. }) => (0, [Sharing::Answered; 2]),
        Node::IntervalJoin(IntervalJoin { kind, .. }) => {
            (usize::from(*kind == JoinKind::Right), [Sharing::Dealt, Sharing::Seen])
        }
        _ => return None,
    };
    let is_first = subquery.nodes.first() == Some(&keyed.node);
    let is_found_again = |side: usize| {
        let sharing = if side == base { of_base } else { of_others };
        sharing != Sharing::Answered || plan.side_has_own_positions(keyed.node, side)
    };
    let are_told_apart = (0..planned.first_of_sides().len()).all(is_found_again);
    if !is_first || subquery.instances < 2 || !are_told_apart {
        return None;
    }
    Some(if planned.side(input) == base { of_base } else { of_others })
}
