//! What nodes are called: by kind and number in metrics, files of costs and plans, and a phase of an aggregate as the aggregate where
//! users are told of it.

use std::borrow::Cow;

const FIRST_PHASE: &str = "Partial";

/// The label of a node of this kind and number: `Filter 3`.
pub fn label(kind: &str, number: usize) -> String {
    format!("{kind} {number}")
}

/// The label of the first phase of the aggregate of this number.
pub fn first_phase(number: usize) -> String {
    label(FIRST_PHASE, number)
}

/// The number of the aggregate whose first phase has this label, if it is one.
pub fn of_first_phase(label: &str) -> Option<&str> {
    label.strip_prefix(FIRST_PHASE)?.strip_prefix(' ')
}

/// What users are told of the node with this label: a phase of an aggregate is the aggregate to whoever wrote it.
pub fn told(label: &str) -> Cow<'_, str> {
    match of_first_phase(label) {
        Some(number) => Cow::Owned(format!("Aggregate {number}")),
        None => Cow::Borrowed(label),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Node,
        node::{Aggregate, Windowing},
    };

    #[test]
    fn a_first_phase_is_told_as_its_aggregate() {
        let aggregate = || Aggregate { windowing: Windowing::Whole, keys: Vec::new(), aggregates: Vec::new() };
        let first = label(Node::Partial(aggregate()).name(), 3);
        assert_eq!(first, first_phase(3));
        assert_eq!(told(&first), label(Node::Aggregate(aggregate()).name(), 3));
        assert_eq!((told("Filter 3"), told("Partials 3")), ("Filter 3".into(), "Partials 3".into()));
        assert_eq!((of_first_phase(&first), of_first_phase("Aggregate 3")), (Some("3"), None));
    }
}
