//! Rows of many senders go to their places at once: how many are of each time says where those of the next one begin.
//!
//! ```text
//!   sender 0   3 5 9        times      3 4 5 6 7 8 9
//!   sender 1   4 5          how many   1 1 2 1 0 0 1        places   0 1 2 4 5 5 5
//!   sender 2   6            the two of time 5 are sorted by their keys
//! ```
//!
//! What a row costs does not depend on how many senders there are. It pays where there is about one row of each time: a clock that ticks
//! in microseconds, and a million rows a second.

use std::ops::Range;

use thalweg_core::Positions;

use super::mixed::Mixed;

/// Fewer rows are not worth it.
const FEW: usize = 64;

/// So many times for each row, at most.
const SPARSE: usize = 8;

/// So many rows of a time, on average, at most.
const CROWDED: usize = 2;

/// Rows of a sender that leave together.
pub struct Part<'a> {
    /// The number of their batch among those that leave.
    pub batch: u32,
    /// The rows.
    pub rows: Range<usize>,
    /// Where they stand.
    pub positions: &'a Positions,
}

/// Where the rows of each time go.
#[derive(Debug, Default)]
pub struct Places {
    earliest: i64,
    /// From the earliest time on: where the next row of each goes.
    next: Vec<u32>,
}

impl Places {
    /// Finds where rows of these times go, which ascend in each part; whether that pays.
    pub fn divide(&mut self, parts: &[&[i64]]) -> bool {
        let rows: usize = parts.iter().map(|part| part.len()).sum();
        let (firsts, lasts) =
            (parts.iter().filter_map(|part| part.first()), parts.iter().filter_map(|part| part.last()));
        let (Some(earliest), Some(latest)) = (firsts.min(), lasts.max()) else { return false };
        let times = latest.checked_sub(*earliest).and_then(|span| usize::try_from(span).ok());
        let Some(times) = times.filter(|times| rows >= FEW && *times < SPARSE * rows) else { return false };
        self.earliest = *earliest;
        self.next.clear();
        self.next.resize(times + 1, 0);
        for time in parts.iter().copied().flatten() {
            self.next[(time - earliest) as usize] += 1;
        }
        let (mut before, mut different) = (0, 0);
        for next in &mut self.next {
            different += usize::from(*next > 0);
            before += std::mem::replace(next, before);
        }
        rows <= CROWDED * different
    }

    /// Puts the rows of these parts to the others, whose times were divided.
    pub fn fill(&mut self, parts: &[Part<'_>], mixed: &mut Mixed) {
        let rows = mixed.extend(parts.iter().map(|part| part.rows.len()).sum());
        for Part { batch, rows: of_part, positions } in parts {
            let times = positions.times().unwrap_or_default();
            for (row, time) in of_part.clone().zip(&times[of_part.clone()]) {
                let next = &mut self.next[(time - self.earliest) as usize];
                (rows[*next as usize].batch, rows[*next as usize].row) = (*batch, row as u32);
                *next += 1;
            }
        }
        let mut start = 0;
        for end in &self.next {
            let of_time = &mut rows[start..*end as usize];
            start = *end as usize;
            if of_time.len() > 1 {
                // Those of a batch follow each other already, and those that stand at one place do so in the order of senders.
                let positions = |batch: u32| parts.iter().find(|part| part.batch == batch).map(|part| part.positions);
                of_time.sort_by(|a, b| match (positions(a.batch), positions(b.batch)) {
                    (Some(left), Some(right)) => left.compare(a.row as usize, right, b.row as usize),
                    _ => std::cmp::Ordering::Equal,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pays_where_there_is_about_one_row_of_each_time() {
        let pays = |times: &[i64]| Places::default().divide(&[times, &[]]);
        let times = |rows: i64, step: i64| (0..rows).map(|row| row * step).collect::<Vec<_>>();
        assert!(pays(&times(64, 1)) && pays(&times(64, 8)));
        assert!(!pays(&times(63, 1)) && !pays(&times(64, 9)) && !pays(&[]));
        assert!(!pays(&[i64::MIN, i64::MAX].repeat(32)), "all there are, and more than can be counted");
        let repeated = |count: usize| times(64, 1).into_iter().flat_map(|time| vec![time; count]).collect::<Vec<_>>();
        assert!(pays(&repeated(2)) && !pays(&repeated(3)));
    }
}
