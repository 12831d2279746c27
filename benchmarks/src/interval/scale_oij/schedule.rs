//! Which joiners have a key's rows: virtual teams by ranges of keys, which grow where there is too much work for one.
//!
//! A team has owners, to whom rows are dealt in turn, and those who leave: they get no more rows, and are looked at until nobody needs
//! theirs. So no row ever moves.
//!
//! Source: Scale-OIJ, algorithm 3 and equations 2 and 3. The paper's teams only grow, and it shares what is even, too, as long as that
//! gains anything; here owners leave who are not needed any more.

use std::sync::Arc;

/// Into so many ranges keys are divided.
pub const RANGES: usize = 1_024;

/// By how much unbalancedness has to fall for an owner more (δ).
const GAIN: f64 = 0.001;

/// Work that is as even is shared no further.
const EVEN: f64 = 0.05;

/// Owners leave where it stays as even without them: less, so that none comes and goes.
const SPARE: f64 = 0.04;

/// What is left of the rows that were counted, from one schedule to the next (λ).
const DECAY: f64 = 0.5;

/// Of each range, who may have rows of its keys.
pub type Teams = Vec<Vec<u32>>;

/// The range of a key.
pub fn range_of(key: u32) -> usize {
    key as usize % RANGES
}

/// Who gets which rows.
pub struct Schedule {
    joiners: usize,
    ranges: Vec<Range>,
    leaving: Vec<Leaving>,
    teams: Arc<Teams>,
}

#[derive(Clone)]
struct Range {
    /// How many rows came lately.
    rows: f64,
    owners: Vec<u32>,
    /// Whose turn it is.
    next: usize,
}

/// Who gets no more rows of a range, until when its rows are of use.
struct Leaving {
    range: usize,
    joiner: u32,
    until: i64,
}

impl Schedule {
    /// Each range has one owner.
    pub fn new(joiners: usize) -> Self {
        let of = |range| Range { rows: 0.0, owners: vec![(range % joiners) as u32], next: 0 };
        let mut schedule =
            Self { joiners, ranges: (0..RANGES).map(of).collect(), leaving: Vec::new(), teams: Arc::default() };
        schedule.publish();
        schedule
    }

    /// The teams as they are now.
    pub fn teams(&self) -> &Arc<Teams> {
        &self.teams
    }

    /// To whom a row with this key goes.
    #[inline]
    pub fn deal(&mut self, key: u32) -> usize {
        let Range { rows, owners, next } = &mut self.ranges[range_of(key)];
        *rows += 1.0;
        *next = if *next + 1 < owners.len() { *next + 1 } else { 0 };
        owners[*next] as usize
    }

    /// Takes leave of those whose rows nobody needs behind this watermark, and makes the work more even. Rows that have come until now
    /// are of use until `until`, in event time.
    pub fn improve(&mut self, watermark: i64, until: i64) {
        self.leaving.retain(|leaving| leaving.until > watermark);
        let mut works = self.works();
        self.shrink(&mut works, until);
        while unbalancedness(&works) > EVEN && self.replicate(&mut works) {}
        self.ranges.iter_mut().for_each(|range| range.rows *= DECAY);
        self.publish();
    }

    /// The work of each joiner (equation 3).
    fn works(&self) -> Vec<f64> {
        let mut works = vec![0.0; self.joiners];
        for range in &self.ranges {
            range.owners.iter().for_each(|owner| works[*owner as usize] += range.share());
        }
        works
    }

    /// Gives the one with the least work a share of the largest range, of the one with the most, for which that is worth it. Says whether
    /// there was one.
    fn replicate(&mut self, works: &mut [f64]) -> bool {
        let by_work = |one: &usize, other: &usize| works[*one].total_cmp(&works[*other]);
        let (Some(most), Some(least)) = ((0..works.len()).max_by(by_work), (0..works.len()).min_by(by_work)) else {
            return false;
        };
        let last = unbalancedness(works);
        let has = |range: &Range, joiner: usize| range.owners.contains(&(joiner as u32));
        let mine = |range: &usize| has(&self.ranges[*range], most) && !has(&self.ranges[*range], least);
        let mut ranges: Vec<usize> = (0..RANGES).filter(mine).collect();
        ranges.sort_by(|one, other| self.ranges[*other].share().total_cmp(&self.ranges[*one].share()));
        for range in ranges {
            let range = &mut self.ranges[range];
            range.change(works, |owners| owners.push(least as u32));
            if last - unbalancedness(works) > GAIN {
                // Who was about to leave is back; there it is looked at once, as everywhere.
                return true;
            }
            range.change(works, |owners| {
                owners.pop();
            });
        }
        false
    }

    /// Lets owners go without whom work is even enough.
    fn shrink(&mut self, works: &mut [f64], until: i64) {
        for (number, range) in self.ranges.iter_mut().enumerate() {
            while range.owners.len() > 1 {
                let by_work = |one: &&u32, other: &&u32| works[**one as usize].total_cmp(&works[**other as usize]);
                let Some(joiner) = range.owners.iter().max_by(by_work).copied() else { break };
                range.change(works, |owners| owners.retain(|owner| *owner != joiner));
                if unbalancedness(works) > SPARE {
                    range.change(works, |owners| owners.push(joiner));
                    break;
                }
                self.leaving.push(Leaving { range: number, joiner, until });
            }
        }
    }

    /// Replaces the table that all see from the next rows on.
    fn publish(&mut self) {
        let mut teams: Teams = self.ranges.iter().map(|range| range.owners.clone()).collect();
        for Leaving { range, joiner, .. } in &self.leaving {
            if !teams[*range].contains(joiner) {
                teams[*range].push(*joiner);
            }
        }
        self.teams = Arc::new(teams);
    }
}

impl Range {
    /// Of the rows, how many each owner gets.
    fn share(&self) -> f64 {
        self.rows / self.owners.len() as f64
    }

    /// Changes the owners, and the works with them.
    fn change(&mut self, works: &mut [f64], change: impl FnOnce(&mut Vec<u32>)) {
        let share = self.share();
        self.owners.iter().for_each(|owner| works[*owner as usize] -= share);
        change(&mut self.owners);
        let share = self.share();
        self.owners.iter().for_each(|owner| works[*owner as usize] += share);
    }
}

/// The standard deviation over the mean (equation 2).
fn unbalancedness(works: &[f64]) -> f64 {
    let mean = works.iter().sum::<f64>() / works.len() as f64;
    let squares = works.iter().map(|work| (work - mean).powi(2)).sum::<f64>();
    if mean > 0.0 { (squares / works.len() as f64).sqrt() / mean } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deal(schedule: &mut Schedule, keys: &[u32], rows: usize) -> Vec<usize> {
        let mut dealt = vec![0; schedule.joiners];
        for row in 0..rows {
            dealt[schedule.deal(keys[row % keys.len()])] += 1;
        }
        dealt
    }

    #[test]
    fn one_key_is_shared_by_64_and_then_left_to_one_whose_team_stays_until_its_rows_are_over() {
        let mut schedule = Schedule::new(64);
        assert_eq!(deal(&mut schedule, &[7], 6_400)[7], 6_400);
        schedule.improve(0, 100);
        assert!(deal(&mut schedule, &[7], 6_400).iter().all(|rows| *rows == 100));
        assert_eq!(schedule.teams()[7].len(), 64);
        // Now all have as much to do without that key.
        let others: Vec<u32> = (64..128).collect();
        for _ in 0..30 {
            deal(&mut schedule, &others, 64_000);
            schedule.improve(50, 200);
        }
        assert!(schedule.ranges[7].owners.len() < 8, "{}", schedule.ranges[7].owners.len());
        assert_eq!(schedule.teams()[7].len(), 64);
        schedule.improve(200, 300);
        assert!(schedule.teams()[7].len() < 8);
    }

    #[test]
    fn what_gains_too_little_is_undone() {
        let mut schedule = Schedule::new(4);
        let even: Vec<u32> = (0..1_024).collect();
        deal(&mut schedule, &even, 102_400);
        schedule.improve(0, 100);
        assert!(schedule.teams().iter().all(|team| team.len() == 1));
        // Keys 0, 4, 8 … are twice as often.
        let uneven: Vec<u32> = (0..1_024).chain((0..1_024).step_by(4)).collect();
        deal(&mut schedule, &uneven, 128_000);
        let before = unbalancedness(&schedule.works());
        schedule.improve(0, 100);
        let after = unbalancedness(&schedule.works());
        assert!(before > 0.1 && after <= EVEN, "{before} {after}");
        let shared = schedule.teams().iter().filter(|team| team.len() > 1).count();
        assert!((1..512).contains(&shared), "{shared}");
    }
}
