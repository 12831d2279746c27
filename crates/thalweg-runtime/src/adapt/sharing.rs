//! The rows of key groups that several instances share, at one of their senders.
//!
//! Each row goes to all that share its group, or to one of them, in batches of their own that are copied once, whoever gets them. A batch
//! says which of its rows are the receiver's own; there are results for these, and the others are there to be seen.

use std::ops::Range;

use thalweg_core::{Batch, KeyGroup, Result};
use thalweg_plan::parallel::share::Sharing;
use thalweg_shuffle::route::{Destinations, hash::ByKeyGroup};

use super::table::Table;

/// What a sender knows of groups that are shared.
pub struct Shared {
    how: Option<Sharing>,
    groups: Vec<Owners>,
}

/// Who shares a group.
struct Owners {
    instances: Vec<usize>,
    /// Whose turn it is to get one row more than others.
    turn: usize,
}

impl Shared {
    /// No group is shared; rows of those that will be get to their instances like this, if any may be.
    pub fn new(how: Option<Sharing>) -> Self {
        Self { how, groups: Vec::new() }
    }

    /// From now on this table holds.
    pub fn reroute(&mut self, table: &Table, route: &mut ByKeyGroup) {
        let mut turns = table.owners().map(|(group, _)| self.turn(route, group)).collect::<Vec<_>>().into_iter();
        self.groups.clear();
        for (group, owners) in table.owners() {
            let turn = turns.next().unwrap_or(0);
            match owners {
                [owner] => route.give(group, *owner as u32),
                several => {
                    route.set_apart(group, self.groups.len() as u32);
                    self.groups.push(Owners { instances: several.to_vec(), turn: turn % several.len() });
                }
            }
        }
    }

    fn turn(&self, route: &ByKeyGroup, group: KeyGroup) -> usize {
        route.apart(group).map_or(0, |number| self.groups[number as usize].turn)
    }

    /// Takes the selected rows of shared groups out of those that are routed; `None` if there are none.
    ///
    /// Errors: those of copying rows.
    pub fn part(&mut self, batch: &Batch, destinations: &Destinations, receivers: usize) -> Result<Option<Parted>> {
        let Destinations::One(to) = destinations else { return Ok(None) };
        if self.groups.is_empty() || to.iter().all(|to| (*to as usize) < receivers) {
            return Ok(None);
        }
        let mut parted = Parted::default();
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.groups.len()];
        for (row, to) in batch.rows().zip(to) {
            match (*to as usize).checked_sub(receivers) {
                Some(number) => rows[number].push(row as u32),
                None => {
                    parted.rows.push(row as u32);
                    parted.to.push(*to);
                }
            }
        }
        for (owners, rows) in self.groups.iter_mut().zip(rows).filter(|(_, rows)| !rows.is_empty()) {
            let batch = batch.copied(&rows)?;
            parted.shared.extend(owners.parts(batch, self.how.unwrap_or(Sharing::Seen)));
        }
        Ok(Some(parted))
    }
}

/// The rows of a batch of which some are of groups that are shared.
#[derive(Default)]
pub struct Parted {
    /// What those get who share a group.
    pub shared: Vec<(usize, Batch)>,
    /// The numbers of the other rows.
    pub rows: Vec<u32>,
    /// Where each of these goes.
    pub to: Vec<u32>,
}

impl Owners {
    /// What each gets of a batch.
    fn parts(&mut self, batch: Batch, how: Sharing) -> Vec<(usize, Batch)> {
        let all = 0..batch.len();
        let own: Vec<Range<usize>> = match how {
            Sharing::Seen => {
                (0..self.instances.len()).map(|place| if place == 0 { all.clone() } else { 0..0 }).collect()
            }
            Sharing::Dealt | Sharing::Answered => self.dealt(all.len()),
        };
        let parts = self.instances.iter().zip(own);
        match how {
            Sharing::Dealt => {
                let some = parts.filter(|(_, own)| !own.is_empty());
                some.map(|(instance, own)| (*instance, batch.slice(own))).collect()
            }
            _ => parts.map(|(instance, own)| (*instance, batch.clone().with_own(own))).collect(),
        }
    }

    /// Divides so many rows evenly, those of each instance one behind the other.
    fn dealt(&mut self, rows: usize) -> Vec<Range<usize>> {
        let count = self.instances.len();
        let mut own = vec![0..0; count];
        let mut start = 0;
        for place in 0..count {
            let end = start + rows / count + usize::from(place < rows % count);
            own[(self.turn + place) % count] = start..end;
            start = end;
        }
        self.turn = (self.turn + rows) % count;
        own
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{cast::AsArray, types::Int64Type};
    use thalweg_core::{KeyGroups, Selection};
    use thalweg_shuffle::route::Route;

    use super::*;
    use crate::adapt::waiting::testing;

    /// What an instance gets: each number with whether it is its own.
    type Got = Vec<(i64, bool)>;

    /// What three instances get of the numbers from 10 to 90 of which group 2 is shared by all, which these are, and the others.
    fn sent(how: Sharing, rounds: usize) -> (Vec<Got>, Vec<i64>, Vec<i64>) {
        let groups = KeyGroups::new(6).unwrap();
        let mut table = Table::even(groups, 3);
        table.share(KeyGroup(2), 0);
        table.share(KeyGroup(2), 2);
        let (mut route, mut shared) = (ByKeyGroup::new(vec![0], groups, 3), Shared::new(Some(how)));
        shared.reroute(&table, &mut route);
        let batch = testing::batch(0..100).with_selection(Selection::new((10..90).collect()));
        let of = ByKeyGroup::new(vec![0], groups, 6).owners(&batch).unwrap();
        let in_group = (10..90).zip(&of).filter(|(_, group)| **group == 2).map(|(number, _)| number).collect();
        let mut got = vec![Vec::new(); 3];
        let mut left = Vec::new();
        for _ in 0..rounds {
            let destinations = route.route(&batch).unwrap();
            let parted = shared.part(&batch, &destinations, 3).unwrap().unwrap();
            for (instance, part) in parted.shared {
                let own = part.own();
                let numbers = part.column(0).as_primitive::<Int64Type>().values();
                got[instance].extend(numbers.iter().enumerate().map(|(row, number)| (*number, own.contains(&row))));
            }
            assert!(parted.to.iter().all(|to| *to < 3));
            left = parted.rows.iter().map(|row| i64::from(*row)).collect();
        }
        (got, in_group, left)
    }

    fn own(got: &[(i64, bool)]) -> Vec<i64> {
        got.iter().filter(|(_, is_own)| *is_own).map(|(number, _)| *number).collect()
    }

    #[test]
    fn rows_with_results_are_dealt_and_seen_by_all() {
        for how in [Sharing::Dealt, Sharing::Answered] {
            let (got, in_group, left) = sent(how, 1);
            let mut answered: Vec<i64> = got.iter().flat_map(|got| own(got)).collect();
            answered.sort_unstable();
            assert_eq!(answered, in_group);
            let mut all = [in_group.clone(), left].concat();
            all.sort_unstable();
            assert_eq!(all, (10..90).collect::<Vec<_>>());
            for got in &got {
                let seen: Vec<i64> = got.iter().map(|(number, _)| *number).collect();
                assert_eq!(seen, if how == Sharing::Dealt { own(got) } else { in_group.clone() });
            }
        }
    }

    #[test]
    fn rows_without_results_are_one_instance_s_own() {
        let (got, in_group, _) = sent(Sharing::Seen, 1);
        // Instance 1 had the group before.
        assert_eq!((own(&got[0]), own(&got[1]), own(&got[2])), (vec![], in_group.clone(), vec![]));
        assert!(got.iter().all(|got| got.iter().map(|(number, _)| *number).eq(in_group.iter().copied())));
    }

    #[test]
    fn nobody_gets_more_than_others() {
        let (got, in_group, _) = sent(Sharing::Dealt, 7);
        let counts: Vec<usize> = got.iter().map(Vec::len).collect();
        assert_eq!(counts.iter().sum::<usize>(), 7 * in_group.len());
        assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
    }
}
