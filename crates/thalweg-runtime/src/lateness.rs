//! How far the rows of a partition are out of order, learnt from them.

use thalweg_core::Interval;
use thalweg_plan::Accuracy;

use crate::accuracy::Results;

/// Says how far time stays behind the latest row, so that as many results are exact as are wanted.
///
/// Counts by how much each row is behind the latest before it, an eighth of a power of two together, and takes the least delay for which
/// few enough were behind by more. Old rows count half when as many have come again. While there are too few rows to
/// tell, or nobody knows of how many rows a result is made, it is a multiple of the most there was. While rows get later and later, it is a
/// quarter more than what was enough for those before.
///
/// Nothing is said before time has gone as far as the rows of a result may be apart, or there were many rows: of those that are late
/// seldom, each spoils all results that it belongs to, and the first one is foreseen by nothing.
pub struct Learner {
    accuracy: Accuracy,
    /// Rows by how far they were behind.
    counts: Vec<f64>,
    rows: f64,
    /// How many rows there were in all, how many of them were late, and at how many to look again.
    seen: u64,
    late: u64,
    next: u64,
    trend: Trend,
}

/// Whether rows get later and later: more of them are behind by more than what was enough for those before.
#[derive(Default)]
struct Trend {
    /// What was enough when it was last looked, and how many rows were behind by more since.
    enough: Option<i64>,
    beyond: f64,
    /// How many were so and how many were to be expected, where a look counts less than the next one.
    found: f64,
    expected: f64,
}

/// How many rows there must be before anything is said; then it is looked at at twice as many, up to so many rows apart.
const FIRST: u64 = 1024;
const APART: u64 = 1024;

/// After so many rows something is said, however little time they took.
const MANY: u64 = 16_384;

/// How many rows too late make a delay sure enough.
const ENOUGH: f64 = 4.0;

/// The part of what may be spoilt that is aimed at: rows to come are not quite like those before.
const AIM: f64 = 0.75;

/// So many times the most there was is the delay where too few rows were behind by more than anything less.
const CAREFUL: u64 = 3;

/// Of fewer rows the most there was is no measure of what will be.
const FEW: u64 = 4096;

/// So many more rows than twice as many as expected are no chance.
const CHANCE: f64 = 4.0;

/// So much of what was found at one look still counts at the next one. (Delays grow by parts, and in some intervals by none.)
const REMEMBERED: f64 = 0.875;

/// Each power of two in so many parts.
const PARTS: u32 = 8;

impl Learner {
    /// Nothing is known yet.
    pub fn new(accuracy: Accuracy) -> Self {
        Self {
            accuracy,
            counts: vec![0.0; bucket(i64::MAX) + 1],
            rows: 0.0,
            seen: 0,
            late: 0,
            next: FIRST,
            trend: Trend::default(),
        }
    }

    /// A row was behind the latest before it by so much, and late or not; returns whether it is time to look.
    pub fn see(&mut self, behind: i64, is_late: bool) -> bool {
        self.counts[bucket(behind.max(0))] += 1.0;
        self.rows += 1.0;
        self.trend.beyond += f64::from(self.trend.enough.is_some_and(|enough| behind > enough));
        self.seen += 1;
        self.late += u64::from(is_late);
        self.seen == self.next
    }

    /// The delay that makes enough results exact, as far as is known of them after so much `time` of rows, if that is long enough.
    pub fn delay(&mut self, Results { rows_each, inexact, reach }: Results, time: Interval) -> Option<Interval> {
        self.next += self.next.min(APART);
        if time < reach && self.seen < MANY {
            return None;
        }
        // Where more was spoilt than is aimed at, less of what comes may be. Late rows of here tell before results do.
        let here = self.late as f64 / self.seen as f64 * rows_each.filter(|rows| rows.is_finite()).unwrap_or(1.0);
        let inexact = inexact.max(here);
        let (all, aim) = (self.accuracy.misses(), AIM * self.accuracy.misses());
        let left = ((all - inexact) / (all - aim)).clamp(0.0, 1.0);
        let share = rows_each.map_or(0.0, |rows| aim / rows);
        let can_tell = self.rows * share >= ENOUGH;
        let few = self.rows * share * left;
        let twice = |is_so: bool| if is_so { 2 } else { 1 };
        let careful = CAREFUL * twice(rows_each == Some(f64::INFINITY)) * twice(left < 1.0);
        let careful = careful * (FEW / self.seen).isqrt().max(1);
        let most = self.least_for(0.0);
        let enough = if can_tell { self.least_for(self.rows * share) } else { most };
        // Without a share, the rows of an interval are the latest of all as often as those of any other.
        let part = if can_tell { share } else { 1.0 / self.rows };
        let grows = self.trend.look(enough, part * self.next.min(APART) as f64);
        let delay = match can_tell {
            false => most.saturating_mul(careful as i64),
            // Nothing more may be late, and rows are later than those before them.
            true if left == 0.0 => most.saturating_add(most / 4),
            // One row that was very late is no growth.
            true if grows => enough.saturating_add(enough / 4),
            true => self.least_for(few),
        };
        if share > 0.0 && self.rows > (16.0 * ENOUGH / share).max(65_536.0) {
            self.counts.iter_mut().for_each(|rows| *rows /= 2.0);
            self.rows /= 2.0;
        }
        Some(Interval(delay))
    }

    /// The least delay for which no more than so many rows were behind by more.
    fn least_for(&self, few: f64) -> i64 {
        let mut too_late = 0.0;
        let mut all = self.counts.iter().enumerate().rev().filter(|(_, rows)| **rows > 0.0);
        let least = all.find(|(_, rows)| {
            too_late += **rows;
            too_late > few
        });
        least.map_or(0, |(least, _)| most_of(least))
    }
}

impl Trend {
    /// Whether rows get later. This is enough for those so far; if they get no later, so many of those that come next will be behind by more.
    fn look(&mut self, enough: i64, expected: f64) -> bool {
        self.found = self.found * REMEMBERED + std::mem::take(&mut self.beyond);
        let grows = self.found > CHANCE + 2.0 * self.expected;
        self.expected = self.expected * REMEMBERED + expected;
        self.enough = Some(enough);
        grows
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

    const ONE_ROW: Results = Results { rows_each: Some(1.0), inexact: 0.0, reach: Interval::ZERO };

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
            let is_late = delay.is_some_and(|Interval(delay)| behind > delay);
            late += u64::from(is_late);
            if learner.see(behind, is_late) {
                let results = Results { rows_each: Some(rows_per_result), ..ONE_ROW };
                delay = learner.delay(results, Interval::ZERO);
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
            if learner.see(random.random_range(0..most), false) {
                delays.push((row, learner.delay(ONE_ROW, Interval::ZERO).unwrap().0));
            }
        }
        let at = |row: i64| delays.iter().rev().find(|(at, _)| *at <= row).unwrap().1;
        assert!(at(199_000) <= 1_100 && at(201_000 + 65_536) > 900_000 && at(599_999) < at(399_999), "{delays:?}");
    }

    #[test]
    fn what_was_late_here_is_made_up_for_before_results_tell() {
        let random = &mut StdRng::seed_from_u64(3);
        let most = |row: u64| if row < 50_000 { 1_000_000 } else { 2_000_000 };
        let found = late("0.9", 10.0, 100_000, |row| random.random_range(0..most(row)));
        assert!((0.001..0.01).contains(&found), "{found}");
    }

    #[test]
    fn rows_that_get_later_and_later_are_foreseen() {
        let random = &mut StdRng::seed_from_u64(4);
        // No row is late at first, as if it was not known of how many rows results are made; then it is.
        let mut learner = Learner::new("0.9".parse().unwrap());
        let (mut delay, mut late, mut longest) = (Interval(0), 0, 0.0_f64);
        for row in 0..100_000_i64 {
            let most = 1_000_000 + 100 * row;
            let behind = random.random_range(0..most);
            let is_known = row > 50_000;
            let is_late = is_known && behind > delay.0;
            late += i32::from(is_late);
            if learner.see(behind, is_late) {
                let results = Results { rows_each: is_known.then_some(200.0), ..ONE_ROW };
                delay = learner.delay(results, Interval::ZERO).unwrap();
                longest = longest.max(if is_known { delay.0 as f64 / most as f64 } else { 0.0 });
            }
        }
        assert!(late < 25 && longest < 1.5, "{late} rows are late, {longest}");
    }

    #[test]
    fn one_row_that_was_very_late_is_no_measure_of_rows_that_get_later() {
        let random = &mut StdRng::seed_from_u64(5);
        let mut learner = Learner::new("0.99".parse().unwrap());
        let mut longest = 0;
        for row in 0..200_000_i64 {
            let most = if row / 20_000 % 4 == 3 { 1_600_000 } else { 1_000_000 };
            let behind = if row == 30_000 { 86_400_000_000 } else { random.random_range(0..most) };
            if learner.see(behind, false) {
                longest = longest.max(learner.delay(ONE_ROW, Interval::ZERO).unwrap().0);
            }
        }
        // At first it is careful.
        assert!(longest < 8_000_000, "{longest}");
    }

    #[test]
    fn before_it_can_tell_it_is_careful() {
        let mut learner = Learner::new("0.999".parse().unwrap());
        (0..FIRST - 1).for_each(|row| assert!(!learner.see(row as i64 % 100 * 10, false)));
        assert!(learner.see(1000, false));
        assert!(learner.delay(ONE_ROW, Interval::ZERO).unwrap().0 >= 2000);
    }

    #[test]
    fn it_looks_as_long_as_results_reach_but_not_at_too_many_rows() {
        let results = |seconds: i64| Results { reach: Interval::seconds(seconds), ..ONE_ROW };
        let said_at = |seconds: i64, rows_each_second: i64| {
            let mut learner = Learner::new("0.9".parse().unwrap());
            (1..100_000).find(|row| {
                learner.see(0, false)
                    && learner.delay(results(seconds), Interval(row * 1_000_000 / rows_each_second)).is_some()
            })
        };
        assert_eq!(said_at(0, 100), Some(FIRST as i64));
        assert_eq!(said_at(60, 100), Some(6 * APART as i64));
        assert_eq!(said_at(60, 10_000), Some(MANY as i64));
    }
}
