//! Values in their order, some perhaps several times, that come and go one at a time.

use std::cmp::Ordering;

use crate::moving::Bag;

/// So many values at most are in a run; a fuller one is halved.
const FULL: usize = if cfg!(test) { 8 } else { 512 };

/// Values in runs, each in order, one run behind the other: a value comes or goes in one run, and the one at any place is found by the runs'
/// lengths.
#[derive(Debug)]
pub struct Ordered<V> {
    runs: Vec<Vec<V>>,
    count: usize,
    compare: fn(&V, &V) -> Ordering,
}

impl<V: Copy> Ordered<V> {
    /// Without values, of which two compare in this way.
    pub fn new(compare: fn(&V, &V) -> Ordering) -> Self {
        Self { runs: Vec::new(), count: 0, compare }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The value that has so many before it, which are fewer than there are.
    pub fn nth(&self, mut before: usize) -> Option<V> {
        self.runs.iter().find_map(|run| {
            let found = run.get(before).copied();
            before = before.saturating_sub(run.len());
            found
        })
    }

    /// Has a run that has become short join the one behind it, or go if nothing is left.
    fn join(&mut self, number: usize) {
        let length = self.runs[number].len();
        if length == 0 {
            self.runs.remove(number);
        } else if length < FULL / 8 && self.runs.get(number + 1).is_some_and(|next| next.len() < FULL / 2) {
            let next = self.runs.remove(number + 1);
            self.runs[number].extend(next);
        }
    }

    /// The first run that ends with this value or one behind it, or the last, and where the value stands there, or would.
    fn place(&self, value: &V) -> (usize, usize) {
        let is_before = |other: &V| (self.compare)(other, value).is_lt();
        let run = self.runs.partition_point(|run| run.last().is_some_and(is_before));
        let run = run.min(self.runs.len().saturating_sub(1));
        (run, self.runs.get(run).map_or(0, |run| run.partition_point(is_before)))
    }
}

impl<V: Copy> Bag for Ordered<V> {
    type Value = V;

    fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Vec<V>>() + self.runs.len() * FULL * size_of::<V>()
    }

    fn change(&mut self, value: V, comes: bool) {
        let (number, place) = self.place(&value);
        if !comes {
            let run = &mut self.runs[number];
            debug_assert!(run.get(place).is_some_and(|found| (self.compare)(found, &value).is_eq()));
            run.remove(place);
            self.count -= 1;
            self.join(number);
            return;
        }
        if self.runs.is_empty() {
            self.runs.push(Vec::with_capacity(FULL));
        }
        let run = &mut self.runs[number];
        run.insert(place, value);
        self.count += 1;
        if run.len() == FULL {
            let mut behind = Vec::with_capacity(FULL);
            behind.extend(run.drain(FULL / 2..));
            self.runs.insert(number + 1, behind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_at_its_place_whatever_comes_and_goes() {
        for most in [1, 7, 40, 300] {
            let (mut ordered, mut all) = (Ordered::new(usize::cmp), Vec::new());
            for step in 0..1_000_usize {
                let chance = step * 7_919 % 1_009;
                let comes = all.is_empty() || chance % most >= all.len();
                let value = if comes { chance % 61 } else { all[chance % all.len()] };
                ordered.change(value, comes);
                let place = all.partition_point(|other| *other < value);
                if comes {
                    all.insert(place, value);
                } else {
                    all.remove(place);
                }
                let found: Vec<_> = (0..=ordered.count()).map(|before| ordered.nth(before)).collect();
                assert_eq!(found, all.iter().copied().map(Some).chain([None]).collect::<Vec<_>>());
            }
        }
    }
}
