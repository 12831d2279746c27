//! Which row of a window is the best one, in two stacks.
//!
//! ```text
//! rows       7  3  5  4 │ 6  2  8  …           the smallest of a window is that of both its parts
//! up to here ├── 3 ─────┤                      of each row up to the pivot the best of those from it on: 3 3 4 4
//! from here             ├── 2 ──┤              the best one so far
//! ```
//!
//! When a window begins behind the pivot, its end becomes the pivot. So each row is looked at twice, however many windows see it, and nothing
//! has to be taken away again, which best ones could not.
//!
//! Source: Tangwongsan, Hirzel, Schneider, "Low-latency sliding-window aggregation in worst-case constant time" (DEBS 2017), where the two
//! stacks are described that DABA makes even. Windows come many at a time here, so that no single one has to be fast.

use std::ops::Range;

use thalweg_core::aggregate::Windows;

/// No row.
const NONE: u32 = u32::MAX;

/// The best row of each window, if one counts; `is_better` says whether the first of two rows is better than the second.
pub fn best(
    windows: &Windows<'_>,
    counts: impl Fn(usize) -> bool,
    is_better: impl Fn(u32, u32) -> bool,
) -> Vec<Option<u32>> {
    let better = |a: u32, b: u32| match (a, b) {
        (NONE, other) | (other, NONE) => other,
        _ if is_better(b, a) => b,
        _ => a,
    };
    let row = |row: usize| if counts(row) { row as u32 } else { NONE };
    let [mut whole, mut rest] = [Stacks::default(), Stacks::default()];
    let of_window = |(number, window): (usize, &Range<usize>)| {
        let end = window.end.max(window.start);
        let lacked = windows.lacks.get(number).cloned().unwrap_or(end..end);
        let mut found = whole.best(window.start..lacked.start, row, better);
        if lacked.end < end {
            found = better(found, rest.best(lacked.end..end, row, better));
        }
        if let Some(own) = windows.own {
            found = better(found, row(own + number));
        }
        (found != NONE).then_some(found)
    };
    windows.windows.iter().enumerate().map(of_window).collect()
}

/// The best of the rows that windows see one after the other.
#[derive(Default)]
struct Stacks {
    pivot: usize,
    /// Of each row before the pivot, from there backwards, the best of those from it on up to the pivot.
    before: Vec<u32>,
    /// Up to where rows behind it have been looked at, and the best of them.
    end: usize,
    behind: Option<u32>,
}

impl Stacks {
    /// The best of some rows. It looks at few where neither end of them is far from those of the rows before, and the last one is not
    /// before theirs.
    fn best(&mut self, rows: Range<usize>, row: impl Fn(usize) -> u32, better: impl Fn(u32, u32) -> u32) -> u32 {
        if rows.is_empty() {
            return NONE;
        }
        if rows.start >= self.end || rows.end < self.end {
            *self = Self { pivot: rows.start, end: rows.start, ..Self::default() };
        }
        let mut behind = self.behind.unwrap_or(NONE);
        for next in self.end..rows.end {
            behind = better(behind, row(next));
        }
        self.end = rows.end;
        if rows.start > self.pivot {
            self.pivot = self.end;
            self.before.clear();
            behind = NONE;
        }
        self.behind = Some(behind);
        for next in (rows.start..self.pivot - self.before.len()).rev() {
            let best = better(self.before.last().copied().unwrap_or(NONE), row(next));
            self.before.push(best);
        }
        match self.pivot - rows.start {
            0 => behind,
            count => better(self.before[count - 1], behind),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn the_best_row_of_each_window_is_found() {
        for seed in 0..300 {
            let random = &mut StdRng::seed_from_u64(seed);
            let rows = random.random_range(1..200_usize);
            let values: Vec<Option<u32>> =
                (0..2 * rows).map(|_| random.random_bool(0.8).then(|| random.random_range(0..50))).collect();
            let longest = random.random_range(1..60_usize);
            let (mut start, mut end) = (0_usize, 0_usize);
            let window = |_| {
                // Either end goes back now and then.
                let back = if random.random_bool(0.1) { 5 } else { 0_usize };
                end = (end + random.random_range(0..3)).min(rows).saturating_sub(back);
                start =
                    end.saturating_sub(random.random_range(longest / 2..longest + 1)).max(start.saturating_sub(back));
                start.min(end)..end
            };
            let all: Vec<Range<usize>> = (0..rows).map(window).collect();
            let hole = |window: &Range<usize>| {
                let from = random.random_range(window.start..=window.end);
                from..random.random_range(from..=window.end)
            };
            let holes: Vec<_> = all.iter().map(hole).collect();
            let (has_holes, own) = (random.random_bool(0.5), random.random_bool(0.5).then_some(rows));
            let lacks = if has_holes { &holes[..] } else { &[] };
            let windows = Windows { arguments: &[], filter: None, windows: &all, own, lacks, before: &[] };
            let is_better = |a: u32, b: u32| values[a as usize] < values[b as usize];
            let found = best(&windows, |row| values[row].is_some(), is_better);
            for (number, window) in all.iter().enumerate() {
                let is_seen = |row: &usize| !lacks.get(number).is_some_and(|lacked| lacked.contains(row));
                let seen = window.clone().filter(is_seen).chain(own.map(|own| own + number));
                let expected = seen.filter_map(|row| values[row]).min();
                assert_eq!(found[number].and_then(|row| values[row as usize]), expected, "seed {seed}, {window:?}");
            }
        }
    }
}
