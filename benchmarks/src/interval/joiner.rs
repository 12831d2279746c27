//! What one thread joins: buffers by key, and base rows that wait.

use std::{hint::black_box, time::Duration};

use thalweg_memory::simd::Level;

use super::{
    buffer::{Buffer, Found},
    expected::Mode,
    profile::{Times, thread_time},
    waiting::Waiting,
    watermark::Watermark,
    workload::{Row, Workload},
};

/// So many times in the time that a row is of use it is looked for rows that are of none, and for base rows that wait no longer: a few
/// percent of what is looked at is over.
const STEPS: i64 = 32;

/// Where times are taken one row in so many is looked at again, several of these together and often, so that what it takes to look at
/// the clock is small beside.
const SAMPLED: usize = 251;
const SAMPLES: usize = 16;
const LOOKS: usize = 32;

/// How far event time goes from one look for rows that are of no use any more to the next.
pub fn step(workload: &Workload) -> i64 {
    ((workload.window + workload.lateness) / STEPS).max(1)
}

/// Joins the rows of the keys that it is given.
pub struct Joiner<B> {
    mode: Mode,
    window: i64,
    /// How far event time goes from step to step.
    step: i64,
    /// As of the last row.
    latest: Watermark,
    /// As of the last step.
    watermark: i64,
    next_step: i64,
    buffers: Vec<B>,
    waiting: Waiting,
    level: Level,
    times: Option<Times>,
    joined: usize,
    sample: Vec<Row>,
}

impl<B: Buffer> Joiner<B> {
    /// Without rows. Takes times on the way if that is wanted, which costs some.
    pub fn new(workload: &Workload, mode: Mode, takes_times: bool) -> Self {
        let step = step(workload);
        Self {
            mode,
            window: workload.window,
            step,
            latest: Watermark::new(workload.lateness),
            watermark: i64::MIN,
            next_step: i64::MIN,
            buffers: (0..workload.keys.count()).map(|_| B::default()).collect(),
            waiting: Waiting::new(step),
            level: Level::best(),
            times: takes_times.then(Times::default),
            joined: 0,
            sample: Vec::new(),
        }
    }

    /// A row has come. Stores it, if it is a probe row that belongs here; gives what base rows found that do not wait, or no longer.
    pub fn take(&mut self, row: &Row, is_mine: bool, mut give: impl FnMut(&Row, Found)) {
        match (row.is_base, self.mode) {
            (true, Mode::Eager) => {
                let (useful, level, window) = (self.useful(), self.level, self.window);
                let buffer = &mut self.buffers[row.key as usize];
                buffer.expire(useful, self.step);
                give(row, scan(buffer, level, window, row));
            }
            (true, Mode::Final) => self.waiting.push(*row),
            (true, Mode::Corrected) => unreachable!("who corrects joins otherwise"),
            (false, _) if is_mine => {
                let useful = self.useful();
                let buffer = &mut self.buffers[row.key as usize];
                buffer.expire(useful, self.step);
                buffer.push(row);
            }
            (false, _) => {}
        }
        self.latest.follow(row);
        // Not only at the end of many rows, since until then there would be more to look at.
        let watermark = self.latest.passed();
        if watermark >= self.next_step {
            self.advance(watermark, give);
        }
    }

    /// From which time on probe rows may be of use: a base row that comes or waits is behind the watermark, and its window begins so
    /// long before.
    fn useful(&self) -> i64 {
        self.watermark.saturating_sub(self.window - 1)
    }

    /// No more row of this time or an earlier one comes; gives what the base rows found that waited for that, in an order that depends
    /// only on how they came.
    pub fn advance(&mut self, watermark: i64, mut give: impl FnMut(&Row, Found)) {
        assert!(watermark >= self.watermark, "watermarks never go back");
        // Those that waited until now still need what was of use before.
        let useful = self.useful();
        self.watermark = watermark;
        self.next_step = watermark.saturating_add(self.step);
        let Self { buffers, waiting, level, window, step, times, sample, joined, .. } = self;
        let start = times.as_ref().map(|_| thread_time());
        waiting.take(watermark, |row| {
            let buffer = &mut buffers[row.key as usize];
            buffer.expire(useful, *step);
            give(row, scan(buffer, *level, *window, row));
            *joined += 1;
            if start.is_some() && joined.is_multiple_of(SAMPLED) {
                sample.push(*row);
            }
        });
        if let Some(start) = start {
            self.look_again(start);
        }
    }

    /// Which part of the time since the start went into finding the rows of windows, by further looks at some. All rows of a buffer
    /// are looked at each time, so that these looks take as long as the first.
    fn look_again(&mut self, start: Duration) {
        let Self { buffers, level, window, times, sample, .. } = self;
        let Some(times) = times else { return };
        let end = thread_time();
        times.joined += end - start;
        if sample.len() < SAMPLES {
            return;
        }
        let timed = |found: &dyn Fn(&Row) -> u64| {
            let start = thread_time();
            let looks = (0..LOOKS).flat_map(|_| sample.iter());
            (looks.map(|row| found(black_box(row))).sum::<u64>(), thread_time() - start)
        };
        let (found, scanned) = timed(&|row| scan(&buffers[row.key as usize], *level, *window, row).count);
        let (same, looked_up) = timed(&|row| buffers[row.key as usize].look_up(*level, row.time - *window, row.time));
        assert_eq!(found, same, "both look at the same rows");
        times.scanned += scanned;
        times.looked_up += looked_up;
        sample.clear();
        times.again += thread_time() - end;
    }

    /// The times that were taken.
    pub fn times(&self) -> Option<Times> {
        self.times.map(Times::stopped)
    }
}

fn scan(buffer: &impl Buffer, level: Level, window: i64, row: &Row) -> Found {
    buffer.scan(level, row.time - window, row.time)
}
