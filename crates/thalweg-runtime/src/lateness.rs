//! How far the rows of a partition are out of order, learnt from them.

use thalweg_core::Interval;
use thalweg_plan::Accuracy;

use crate::accuracy::Results;

/// Says how far time stays behind the latest row, so that as many results are exact as are wanted.
///
/// Counts by how much each row is behind the latest before it, an eighth of a power of two together, and takes the least delay for which
/// few enough were behind by more. Old rows count half when as many have come again. While there are too few rows to
/// tell, or nobody knows of how many rows a result is made, it is a multiple of the most there was.
pub struct Learner {
    accuracy: Accuracy,
    /// Rows by how far they were behind.
    counts: Vec<f64>,
    rows: f64,
    /// How many rows there were in all, and at how many to look again.
    seen: u64,
    next: u64,
}

/// How many rows there must be before anything is said; then it is looked at at twice as many, up to so many rows apart.
const FIRST: u64 = 1024;
const APART: u64 = 1024;

/// How many rows too late make a delay sure enough.
const ENOUGH: f64 = 4.0;

/// The part of what may be spoilt that is aimed at: rows to come are not quite like those before.
const AIM: f64 = 0.75;

/// So many times the most there was is the delay where too few rows were behind by more than anything less.
const CAREFUL: u64 = 3;

/// Of fewer rows the most there was is no measure of what will be.
const FEW: u64 = 4096;

/// Each power of two in so many parts.
const PARTS: u32 = 8;

impl Learner {
    /// Nothing is known yet.
    pub fn new(accuracy: Accuracy) -> Self {
        Self { accuracy, counts: vec![0.0; bucket(i64::MAX) + 1], rows: 0.0, seen: 0, next: FIRST }
    }

    /// A row was behind the latest before it by so much; returns whether it is time to look.
    pub fn see(&mut self, behind: i64) -> bool {
        self.counts[bucket(behind.max(0))] += 1.0;
        self.rows += 1.0;
        self.seen += 1;
        self.seen == self.next
    }

    /// The delay that makes enough results exact, as far as is known of them.
    pub fn delay(&mut self, Results { rows_each, inexact }: Results) -> Interval {
        self.next += self.next.min(APART);
        // Where more was spoilt than is aimed at, less of what comes may be.
        let aim = AIM * self.accuracy.misses();
        let left = (2.0 - inexact / aim).clamp(0.0, 1.0);
        let share = rows_each.map_or(0.0, |rows| aim * left / rows);
        let few = self.rows * share;
        let twice = |is_so: bool| if is_so { 2 } else { 1 };
        let careful = CAREFUL * twice(rows_each == Some(f64::INFINITY)) * twice(left < 1.0);
        let careful = careful * (FEW / self.seen).isqrt().max(1);
        let mut too_late = 0.0;
        let mut all = self.counts.iter().enumerate().rev().filter(|(_, rows)| **rows > 0.0);
        let delay = match few < ENOUGH {
            true => all.next().map_or(0, |(most, _)| most_of(most).saturating_mul(careful as i64)),
            false => all
                .find(|(_, rows)| {
                    too_late += **rows;
                    too_late > few
                })
                .map_or(0, |(least, _)| most_of(least)),
        };
        if share > 0.0 && self.rows > (16.0 * ENOUGH / share).max(65_536.0) {
            self.counts.iter_mut().for_each(|rows| *rows /= 2.0);
            self.rows /= 2.0;
        }
        Interval(delay)
    }
}

/// The number of the part that a delay belongs to.
fn bucket(behind: i64) -> usize {
    let behind = behind as u64;
    if behind < u64::from(PARTS) {
        return behind as usize;
    }
    let power = behind.ilog2();
    let part = (behind >> (power - PARTS.ilog2())) as u32 - PARTS;
    ((power - PARTS.ilog2() + 1) * PARTS + part) as usize
}

/// The largest delay of a part.
fn most_of(bucket: usize) -> i64 {
    let (row, part) = (bucket as u32 / PARTS, bucket as u32 % PARTS);
    if row == 0 {
        return i64::from(part);
    }
    let next = u64::from(PARTS + part + 1) << (row - 1);
    i64::try_from(next - 1).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    const ONE_ROW: Results = Results { rows_each: Some(1.0), inexact: 0.0 };

    #[test]
    fn parts_follow_each_other_and_hold_their_delays() {
        let delays = (0..200).chain((4..62).flat_map(|power| [-1, 0, 1].map(|by| (1_i64 << power) + by)));
        for behind in delays.chain([i64::MAX]) {
            let at = bucket(behind);
            assert!(behind <= most_of(at) && (at == 0 || behind > most_of(at - 1)), "{behind}");
            assert!(most_of(at) as f64 <= behind as f64 * 1.125 + 1.0, "{behind}");
        }
    }

    /// The share of rows behind the delay, learnt from rows that are behind by what `by` gives.
    fn late(accuracy: &str, rows_per_result: f64, rows: u64, mut by: impl FnMut(u64) -> i64) -> f64 {
        let mut learner = Learner::new(accuracy.parse().unwrap());
        let (mut delay, mut late) = (None, 0);
        for row in 0..rows {
            let behind = by(row);
            late += u64::from(delay.is_some_and(|Interval(delay)| behind > delay));
            if learner.see(behind) {
                delay = Some(learner.delay(Results { rows_each: Some(rows_per_result), inexact: 0.0 }));
            }
        }
        late as f64 / rows as f64
    }

    #[test]
    fn as_many_rows_come_in_time_as_are_wanted_and_the_delay_is_not_much_larger() {
        let random = &mut StdRng::seed_from_u64(1);
        for (accuracy, rows_per_result, share) in [("0.9", 1.0, 0.1), ("0.999", 1.0, 0.001), ("0.9", 100.0, 0.001)] {
            // Most rows are in order, and others exponentially behind.
            let found = late(accuracy, rows_per_result, 1_000_000, |_| {
                if random.random_bool(0.5) { 0 } else { (-random.random::<f64>().ln() * 1e6) as i64 }
            });
            assert!((share * 0.3..share * 1.1).contains(&found), "{found} of {share}");
        }
    }

    #[test]
    fn it_follows_when_rows_are_out_of_order_otherwise() {
        let random = &mut StdRng::seed_from_u64(2);
        let mut learner = Learner::new("0.99".parse().unwrap());
        let mut delays = Vec::new();
        for row in 0..600_000 {
            let most = if (200_000..400_000).contains(&row) { 1_000_000 } else { 1_000 };
            if learner.see(random.random_range(0..most)) {
                delays.push((row, learner.delay(ONE_ROW).0));
            }
        }
        let at = |row: i64| delays.iter().rev().find(|(at, _)| *at <= row).unwrap().1;
        assert!(at(199_000) <= 1_100 && at(201_000 + 65_536) > 900_000 && at(599_999) < at(399_999), "{delays:?}");
    }

    #[test]
    fn before_it_can_tell_it_is_careful() {
        let mut learner = Learner::new("0.999".parse().unwrap());
        (0..FIRST - 1).for_each(|row| assert!(!learner.see(row as i64 % 100 * 10)));
        assert!(learner.see(1000));
        assert!(learner.delay(ONE_ROW).0 >= 2000);
    }
}
