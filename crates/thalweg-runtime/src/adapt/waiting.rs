//! Rows of key groups whose states are on their way; all others go on.

use std::sync::Arc;

use thalweg_core::{Batch, Event, KeyGroup, KeyGroups, Port, Result, Selection};
use thalweg_shuffle::route::hash::ByKeyGroup;

use crate::topology::KeyParts;

/// Rows that a new member of a team has before the states of their key groups. They are copies: no page is kept.
pub struct Waiting {
    /// What rows are divided by, by port.
    keys: Arc<[KeyParts]>,
    /// To 1: what waits.
    route: ByKeyGroup,
    rows: Vec<(Port, Event)>,
    count: usize,
    bytes: usize,
}

/// After how many rows, or batches, no more are taken until the states have come.
const MOST_ROWS: usize = 1 << 16;
const MOST_BATCHES: usize = 1 << 10;

impl Waiting {
    /// Nothing waits yet for the states of these groups, by which rows are divided with these keys, by port.
    pub fn new(keys: Arc<[KeyParts]>, groups: KeyGroups, awaited: &[KeyGroup]) -> Self {
        let columns = keys.first().map_or(0, |keys| keys.keys.len());
        let mut route = ByKeyGroup::new((0..columns).collect(), groups, 2);
        groups.iter().for_each(|group| route.give(group, u32::from(awaited.contains(&group))));
        Self { keys, route, rows: Vec::new(), count: 0, bytes: 0 }
    }

    /// Whether no more may wait.
    pub fn is_full(&self) -> bool {
        self.count >= MOST_ROWS || self.rows.len() >= MOST_BATCHES
    }

    /// How many rows wait.
    pub fn rows(&self) -> usize {
        self.count
    }

    /// How many bytes they have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lets those rows of a batch wait that have to; returns the others.
    ///
    /// Errors: what the keys give, with the node's name.
    pub fn part(&mut self, port: Port, batch: Batch) -> Result<Option<Batch>> {
        let keys = &self.keys[port];
        let to = self.route.owners(&keys.of(&batch)?).map_err(|error| error.in_node(&keys.label))?;
        let rows_to = |there: u32| {
            let rows = batch.rows().zip(&to).filter(|(_, to)| **to == there);
            rows.map(|(row, _)| row as u32).collect::<Vec<_>>()
        };
        let waits = rows_to(1);
        if waits.is_empty() {
            return Ok(Some(batch));
        }
        let waiting = batch.copied(&waits)?;
        self.count += waits.len();
        self.bytes += waiting.bytes();
        self.rows.push((port, Event::Batch(waiting)));
        let others = rows_to(0);
        Ok((!others.is_empty()).then(|| batch.with_selection(Selection::new(others))))
    }

    /// The rows, as they came: the states are there.
    pub fn end(self) -> Vec<(Port, Event)> {
        self.rows
    }
}

#[cfg(test)]
pub(super) mod testing {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use thalweg_core::expression::Expression;

    use super::*;

    /// The first column.
    #[derive(Debug)]
    struct First;

    impl Expression for First {
        fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
            Ok(batch.column(0).clone())
        }
    }

    /// Divides rows by the first column, on each of four ports.
    pub fn keys() -> Arc<[KeyParts]> {
        let one = KeyParts { label: "Sum".to_string(), keys: vec![Arc::new(First)], sharing: None };
        vec![one; 4].into()
    }

    /// A column of these numbers.
    pub fn batch(numbers: std::ops::Range<i64>) -> Batch {
        let column = Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef;
        Batch::new(RecordBatch::try_from_iter([("n", column)]).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{cast::AsArray, types::Int64Type};
    use thalweg_core::Timestamp;

    use super::{testing::*, *};

    fn numbers(batch: &Batch) -> Vec<i64> {
        batch.compact().unwrap().column(0).as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn rows_of_awaited_groups_wait_and_all_others_go_on() {
        let groups = KeyGroups::new(8).unwrap();
        let batch = batch(0..100)
            .with_behind((0..100).map(Timestamp).collect())
            .with_selection(Selection::new((0..100).filter(|row| row % 2 == 0).collect()));
        let route = ByKeyGroup::new(vec![0], groups, 8);
        let group = route.owners(&batch).unwrap();
        let awaited = [KeyGroup(1), KeyGroup(5)];
        let expected = |waits: bool| -> Vec<i64> {
            let in_group = |of: &u32| awaited.contains(&KeyGroup(*of as u16)) == waits;
            (0..).step_by(2).zip(&group).filter(|(_, of)| in_group(of)).map(|(number, _)| number).collect()
        };
        let mut waiting = Waiting::new(keys(), groups, &awaited);
        let others = waiting.part(3, batch).unwrap().unwrap();
        assert_eq!(numbers(&others), expected(false));
        assert_eq!(waiting.rows(), expected(true).len());
        assert!(waiting.rows() > 0 && waiting.bytes() > 0);
        let [(3, Event::Batch(held))] = &waiting.end()[..] else { panic!("a batch for port 3") };
        assert_eq!(numbers(held), expected(true));
        let met: Vec<i64> = held.behind().unwrap().iter().map(|t| t.0).collect();
        assert_eq!(met, expected(true), "each with what it met");
    }

    #[test]
    fn what_may_wait_is_bounded() {
        let groups = KeyGroups::new(2).unwrap();
        let mut waiting = Waiting::new(keys(), groups, &[KeyGroup(0), KeyGroup(1)]);
        assert!(waiting.part(0, batch(0..40_000)).unwrap().is_none(), "all of them wait");
        assert!(!waiting.is_full());
        waiting.part(0, batch(0..40_000)).unwrap();
        assert!(waiting.is_full());
    }
}
