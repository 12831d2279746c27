//! How many results lack rows that came too late.
//!
//! Some of the rows with results are remembered, all of them alike likely, with their keys and times; a row that is late is looked for in
//! what they see. That is exact for as many results as are remembered, and for more it is what a poll is: whether late rows come alone or
//! many at once does not matter.
//!
//! Source: Li, "Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n)))", algorithm L.

use std::collections::HashMap;

use arrow_array::{ArrayRef, UInt32Array};
use thalweg_core::{Result, Timestamp, operator::Search};
use thalweg_memory::kernels::hash::hash_columns;

use crate::rows::taken;

/// So many rows are remembered. (Tests have few.)
const REMEMBERED: usize = if cfg!(test) { 400 } else { 1 << 15 };

/// Rows that are late are looked for among those that are remembered once there are so many of them, or a part of these.
const TOGETHER: usize = 64;

/// After so many batches they are in any case.
const BATCHES: usize = 16;

/// Which results lack rows that came too late.
#[derive(Debug)]
pub struct Spoilt {
    /// How far behind a row those are that see it: from where to where, without end if they do so for ever.
    seen_from: (i64, Option<i64>),
    remembered: Vec<Remembered>,
    /// How many of them lack rows.
    spoilt: usize,
    /// How many rows had results, and which of them is remembered next in place of another one.
    rows: u64,
    next: u64,
    weight: f64,
    random: u64,
    /// By key the times at which rows lack one, as far as such a row may still come.
    lacking: HashMap<u64, Vec<(i64, i64)>>,
    /// Those that were not yet looked for among the rows that are remembered; and how many batches ago the first of them came.
    new: Vec<(u64, (i64, i64))>,
    batches: usize,
    /// What was told: how many results lack rows, of how many.
    told: (i64, u64),
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    key: u64,
    time: i64,
    is_spoilt: bool,
}

impl Spoilt {
    /// Of rows that are seen by those so far behind them.
    pub fn new(seen_from: (i64, Option<i64>)) -> Self {
        Self {
            seen_from,
            remembered: Vec::new(),
            spoilt: 0,
            rows: 0,
            next: 0,
            weight: 1.0,
            random: 0x9e37_79b9_7f4a_7c15,
            lacking: HashMap::new(),
            new: Vec::new(),
            batches: 0,
            told: (0, 0),
        }
    }

    /// Rows came that have results.
    ///
    /// Errors: those of Arrow's `take`.
    pub fn put(&mut self, keys: &[ArrayRef], times: &[i64], first: usize) -> Result<()> {
        let end = self.rows + times.len() as u64;
        let mut chosen = Vec::new();
        while self.next < end {
            chosen.push((self.next - self.rows) as usize);
            self.next += if (self.next as usize) < REMEMBERED - 1 { 1 } else { self.leap() };
        }
        self.rows = end;
        if chosen.is_empty() {
            return Ok(());
        }
        let hashes = hashes(keys, chosen.iter().map(|row| first + row))?;
        for (row, key) in chosen.into_iter().zip(hashes) {
            let time = times[row];
            let lacks = |(from, to): &(i64, i64)| (*from..=*to).contains(&time);
            let is_spoilt = self.lacking.get(&key).is_some_and(|times| times.iter().any(lacks));
            let remembered = Remembered { key, time, is_spoilt };
            self.spoilt += usize::from(is_spoilt);
            if self.remembered.len() < REMEMBERED {
                self.remembered.push(remembered);
            } else {
                let place = (self.uniform() * REMEMBERED as f64) as usize;
                let gone = std::mem::replace(&mut self.remembered[place.min(REMEMBERED - 1)], remembered);
                self.spoilt -= usize::from(gone.is_spoilt);
            }
        }
        Ok(())
    }

    /// Rows came too late that others would have seen.
    ///
    /// Errors: those of Arrow's `take`.
    pub fn miss(&mut self, keys: &[ArrayRef], times: &[i64]) -> Result<()> {
        let (from, to) = self.seen_from;
        for (key, time) in hashes(keys, 0..times.len())?.into_iter().zip(times) {
            let lacking = (time.saturating_add(from), to.map_or(i64::MAX, |to| time.saturating_add(to)));
            self.new.push((key, lacking));
            let of_key = self.lacking.entry(key).or_default();
            match of_key.iter_mut().find(|(from, to)| lacking.0 <= *to && *from <= lacking.1) {
                Some((from, to)) => (*from, *to) = (lacking.0.min(*from), lacking.1.max(*to)),
                None => of_key.push(lacking),
            }
        }
        Ok(())
    }

    /// A batch was taken, and time has come so far: how much more is known than was told.
    pub fn tell(&mut self, reached: Timestamp) -> Search {
        self.batches += usize::from(!self.new.is_empty());
        let many = TOGETHER.max(self.remembered.len() / TOGETHER);
        if self.new.len() >= many || self.batches >= BATCHES || reached == Timestamp::MAX {
            self.look();
            self.lacking.retain(|_, times| {
                times.retain(|(_, to)| *to >= reached.0);
                !times.is_empty()
            });
        }
        let lacking = (self.spoilt as f64 / self.remembered.len().max(1) as f64 * self.rows as f64).round() as i64;
        let (before, told) = std::mem::replace(&mut self.told, (lacking, self.rows));
        Search { lacking: lacking - before, told: self.rows - told, ..Search::default() }
    }

    /// Looks for rows that were late among those that are remembered.
    fn look(&mut self) {
        self.batches = 0;
        if self.new.is_empty() {
            return;
        }
        let mut lacking: HashMap<u64, Vec<(i64, i64)>> = HashMap::new();
        self.new.drain(..).for_each(|(key, times)| lacking.entry(key).or_default().push(times));
        for row in self.remembered.iter_mut().filter(|row| !row.is_spoilt) {
            let lacks = |(from, to): &(i64, i64)| (*from..=*to).contains(&row.time);
            row.is_spoilt = lacking.get(&row.key).is_some_and(|times| times.iter().any(lacks));
            self.spoilt += usize::from(row.is_spoilt);
        }
    }

    /// How far it is to the next row that is remembered.
    fn leap(&mut self) -> u64 {
        self.weight *= (self.uniform().ln() / REMEMBERED as f64).exp();
        let rows = self.uniform().ln() / (1.0 - self.weight).ln();
        (rows as u64).saturating_add(1)
    }

    /// Between 0 and 1, and neither of them.
    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let lacking = self.lacking.len() * size_of::<(u64, Vec<(i64, i64)>, (i64, i64))>();
        self.remembered.capacity() * size_of::<Remembered>()
            + lacking
            + self.new.capacity() * size_of::<(u64, (i64, i64))>()
    }
}

/// The hashes of some rows of key columns.
fn hashes(keys: &[ArrayRef], rows: impl ExactSizeIterator<Item = usize>) -> Result<Vec<u64>> {
    let rows = UInt32Array::from_iter_values(rows.map(|row| row as u32));
    let keys = keys.iter().map(|column| taken(column, &rows)).collect::<Result<Vec<_>>>()?;
    hash_columns(&keys, rows.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    /// Rows of ten keys, one a microsecond; of a stretch of time every fifth one is late by a hundred.
    fn told(rows: i64, stretch: std::ops::Range<i64>, seen_from: (i64, Option<i64>)) -> (f64, f64) {
        let random = &mut StdRng::seed_from_u64(rows as u64);
        let rows: Vec<(i64, i64)> = (0..rows).map(|time| (random.random_range(0..10), time)).collect();
        let is_late = |(_, time): &(i64, i64)| stretch.contains(time) && time % 5 == 0;
        let (late, in_time): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_late);
        let keys = |rows: &[(i64, i64)]| {
            vec![Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))) as ArrayRef]
        };
        let times = |rows: &[(i64, i64)]| rows.iter().map(|row| row.1).collect::<Vec<_>>();
        let (mut spoilt, mut search, mut late_done) = (Spoilt::new(seen_from), Search::default(), 0);
        for some in in_time.chunks(50) {
            let reached = some[0].1;
            spoilt.put(&keys(some), &times(some), 0).unwrap();
            let end = late.partition_point(|row| row.1 < reached - 100);
            let missed = &late[late_done..end];
            spoilt.miss(&keys(missed), &times(missed)).unwrap();
            late_done = end;
            search.add(spoilt.tell(Timestamp(reached)));
        }
        spoilt.miss(&keys(&late[late_done..]), &times(&late[late_done..])).unwrap();
        search.add(spoilt.tell(Timestamp::MAX));
        assert_eq!(search.told, in_time.len() as u64);
        let lacks = |(key, time): &&(i64, i64)| {
            let sees = |other: &&(i64, i64)| {
                let behind = time - other.1;
                other.0 == *key && behind >= seen_from.0 && seen_from.1.is_none_or(|to| behind <= to)
            };
            late.iter().any(|row| sees(&row))
        };
        let lacking = in_time.iter().filter(lacks).count();
        (search.lacking as f64 / search.told as f64, lacking as f64 / in_time.len() as f64)
    }

    #[test]
    fn as_many_results_lack_rows_as_are_said_to() {
        for (stretch, seen_from) in [
            (0..300, (0, Some(20))),
            (100..130, (0, Some(200))),
            (50..60, (-5, Some(5))),
            (200..220, (0, None)),
            (0..0, (0, None)),
        ] {
            let (said, is) = told(300, stretch.clone(), seen_from);
            assert!((said - is).abs() < 1e-9, "all are remembered: {said} for {is}, {stretch:?} {seen_from:?}");
            let (said, is) = told(20_000, stretch.start * 60..stretch.end * 60, seen_from);
            assert!((said - is).abs() < 0.08, "{said} for {is}, {stretch:?} {seen_from:?}");
        }
    }
}
