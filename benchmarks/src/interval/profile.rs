//! Where the work goes: to which joiner, and for what.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::feed::MOMENTS;

/// CPU time of joiners.
#[derive(Clone, Copy, Default)]
pub struct Times {
    /// Base rows that waited were joined: rows were looked at, added up, and results given away.
    pub joined: Duration,
    /// Some of them once more.
    pub scanned: Duration,
    /// The same once more, without adding up.
    pub looked_up: Duration,
    /// What these further looks took.
    pub again: Duration,
    /// All that the threads did.
    pub all: Duration,
}

impl Times {
    /// With all that this thread has done until now.
    pub fn stopped(self) -> Self {
        Self { all: thread_time(), ..self }
    }

    fn merge(self, other: Self) -> Self {
        Self {
            joined: self.joined + other.joined,
            scanned: self.scanned + other.scanned,
            looked_up: self.looked_up + other.looked_up,
            again: self.again + other.again,
            all: self.all + other.all,
        }
    }
}

/// CPU time of this thread.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Which shares of the joiners' CPU time go into what (figure 6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breakdown {
    /// Looking at all rows for those in the window.
    pub lookup: f64,
    /// Adding these up.
    pub matching: f64,
    /// All else: storing rows, waiting rows, queues.
    pub other: f64,
}

impl Breakdown {
    /// Of the times of all joiners.
    ///
    /// One loop does both lookup and match. Which part of it is lookup says the same loop without values, for some of the rows.
    pub fn of(times: impl Iterator<Item = Times>) -> Self {
        let times = times.fold(Times::default(), Times::merge);
        let [joined, scanned, looked_up, again, all] =
            [times.joined, times.scanned, times.looked_up, times.again, times.all].map(|time| time.as_secs_f64());
        let mine = (all - again).max(f64::MIN_POSITIVE);
        let part = if scanned > 0.0 { (looked_up / scanned).min(1.0) } else { 1.0 };
        Self { lookup: joined * part / mine, matching: joined * (1.0 - part) / mine, other: 1.0 - joined / mine }
    }
}

/// The work of one joiner from moment to moment: how many rows it took and looked at.
#[derive(Clone)]
pub struct Work([u64; MOMENTS]);

impl Work {
    /// None yet.
    pub fn new() -> Self {
        Self([0; MOMENTS])
    }

    /// So many rows were taken or looked at.
    pub fn add(&mut self, moment: usize, rows: u64) {
        self.0[moment] += rows;
    }
}

/// So many parts of a run are drawn.
const DRAWN: usize = 64;

/// For each joiner how much it did in each part of a run, over the mean of all in this part; 0 where none did anything.
pub fn over_mean(works: &[Work]) -> Vec<Vec<f64>> {
    let of_part = |work: &Work, part: usize| -> u64 {
        let all = MOMENTS / DRAWN;
        work.0[part * all..(part + 1) * all].iter().sum()
    };
    let sum = |part| works.iter().map(|work| of_part(work, part)).sum::<u64>();
    let sums: Vec<u64> = (0..DRAWN).map(sum).collect();
    let share = |work: &Work, part: usize| works.len() as f64 * of_part(work, part) as f64 / sums[part].max(1) as f64;
    works.iter().map(|work| (0..DRAWN).map(|part| share(work, part)).collect()).collect()
}

/// How unevenly work is spread over joiners (equation 2): the standard deviation over the mean. As printed the equation adds up deviations
/// with their signs, which always gives 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unbalancedness {
    /// Of all that each did.
    pub whole: f64,
    /// From moment to moment, on average.
    pub moments: f64,
}

impl Unbalancedness {
    /// Of these joiners.
    pub fn of(works: &[Work]) -> Self {
        let whole: Vec<u64> = works.iter().map(|work| work.0.iter().sum()).collect();
        let moments = (0..MOMENTS).map(|moment| works.iter().map(|work| work.0[moment]).collect::<Vec<_>>());
        let busy: Vec<f64> = moments.filter_map(|works| deviation(&works)).collect();
        Self {
            whole: deviation(&whole).unwrap_or_default(),
            moments: busy.iter().sum::<f64>() / busy.len().max(1) as f64,
        }
    }
}

/// The standard deviation over the mean; `None` if all are 0.
fn deviation(works: &[u64]) -> Option<f64> {
    let mean = works.iter().sum::<u64>() as f64 / works.len() as f64;
    let squares = works.iter().map(|work| (*work as f64 - mean).powi(2)).sum::<f64>();
    (mean > 0.0).then(|| (squares / works.len() as f64).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_moves_around_is_balanced_as_a_whole_and_not_from_moment_to_moment() {
        let mut works = [Work::new(), Work::new()];
        works[0].add(3, 10);
        works[1].add(4, 10);
        let found = Unbalancedness::of(&works);
        assert_eq!(found, Unbalancedness { whole: 0.0, moments: 1.0 });
        works[0].add(4, 30);
        // 40 and 10; 10 and 0; 30 and 10.
        let found = Unbalancedness::of(&works);
        assert_eq!(found, Unbalancedness { whole: 0.6, moments: 0.75 });
        let shares = over_mean(&works);
        assert_eq!([&shares[0][..3], &shares[1][..3]], [[2.0, 1.5, 0.0], [0.0, 0.5, 0.0]]);
        assert_eq!(Unbalancedness::of(&[Work::new()]), Unbalancedness { whole: 0.0, moments: 0.0 });
    }

    #[test]
    fn lookup_is_the_part_of_joining_that_needs_no_values() {
        let seconds = Duration::from_secs;
        let times = Times {
            joined: seconds(6),
            scanned: seconds(4),
            looked_up: seconds(3),
            again: seconds(2),
            all: seconds(11),
        };
        let found = Breakdown::of([times, Times { all: seconds(1), ..Times::default() }].into_iter());
        assert_eq!(found, Breakdown { lookup: 0.45, matching: 0.15, other: 0.4 });
    }
}
