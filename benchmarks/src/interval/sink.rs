//! Where results go, and what is found out about them.

use std::time::Instant;

use super::{
    buffer::Found,
    expected::{Answer, Mode},
    feed::Feed,
    profile::{Times, Work},
};

/// What is found out beside the results, which may cost some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing.
    Speed,
    /// How long each result took, from this row on, by its number.
    Latency(i64),
    /// Where the work goes.
    Profile,
}

/// Takes the results of one thread.
pub struct Sink<'a> {
    feed: &'a Feed<'a>,
    mode: Mode,
    wanted: Wanted,
    answer: Answer,
    /// Base rows whose results are made and not given away yet.
    fresh: Vec<i64>,
    latencies_us: Vec<f64>,
    shares: f64,
    shared: u64,
}

impl<'a> Sink<'a> {
    /// Without results.
    pub fn new(feed: &'a Feed<'a>, mode: Mode, wanted: Wanted) -> Self {
        let latencies_us = Vec::with_capacity(if wanted == Wanted::Speed { 0 } else { feed.rows.len() });
        let answer = Answer::default();
        Self { feed, mode, wanted, answer, fresh: Vec::new(), latencies_us, shares: 0.0, shared: 0 }
    }

    /// What a base row found.
    pub fn add(&mut self, number: i64, found: Found) {
        self.answer.add(number, found.count, found.sum);
        match self.wanted {
            Wanted::Speed => {}
            Wanted::Latency(first) if number < first => {}
            Wanted::Latency(_) => self.fresh.push(number),
            // Where nothing was looked at there is nothing to be effective with.
            Wanted::Profile if found.visited.max(found.count) == 0 => {}
            Wanted::Profile => {
                // Who goes on from another window looks at fewer rows than there are.
                self.shares += found.count as f64 / found.visited.max(found.count) as f64;
                self.shared += 1;
            }
        }
    }

    /// What a base row found is now another than before.
    pub fn correct(&mut self, number: i64, [before, now]: [Found; 2]) {
        self.answer.take_back([number as u64, before.count, before.sum as u64]);
        self.answer.add(number, now.count, now.sum);
    }

    /// Gives away what there is: now these results are there.
    pub fn flush(&mut self) {
        if !self.fresh.is_empty() {
            let (feed, mode, now) = (self.feed, self.mode, Instant::now());
            self.latencies_us.extend(self.fresh.drain(..).filter_map(|number| feed.since(number, mode, now)));
        }
    }

    /// What has come.
    pub fn outcome(self) -> Outcome {
        let Self { answer, latencies_us, shares, shared, .. } = self;
        Outcome { answer, latencies_us, shares, shared, works: Vec::new(), times: Vec::new() }
    }
}

/// What a run gave.
#[derive(Default)]
pub struct Outcome {
    /// The results.
    pub answer: Answer,
    /// How long results took, in microseconds.
    pub latencies_us: Vec<f64>,
    /// The sum of the shares of rows that are in the window among those that were looked at, and of how many base rows.
    shares: f64,
    shared: u64,
    /// The work of each joiner.
    pub works: Vec<Work>,
    /// The times of each joiner, where they were taken.
    pub times: Vec<Times>,
}

impl Outcome {
    /// Rows in the window over rows that were looked at, mean over base rows (equation 1).
    pub fn effectiveness(&self) -> f64 {
        self.shares / self.shared.max(1) as f64
    }

    /// With the work of the joiner that made these results.
    pub fn of_joiner(mut self, work: Work, times: Option<Times>) -> Self {
        self.works.push(work);
        self.times.extend(times);
        self
    }

    /// Adds what another thread gave.
    pub fn merge(&mut self, other: Self) {
        self.answer.merge(&other.answer);
        self.latencies_us.extend(other.latencies_us);
        (self.shares, self.shared) = (self.shares + other.shares, self.shared + other.shared);
        self.works.extend(other.works);
        self.times.extend(other.times);
    }
}
