//! Rows as they come to those who join them: as fast as they are taken, or when they are due.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use super::workload::{Row, Workload};

/// From packet to packet where rows come when they are due, in microseconds.
pub const TICK_US: u64 = 200;

/// How many rows come at a time at most.
const TURN: usize = 16_384;

/// How many come at a time where what counts is how long results take.
const PROMPT: usize = 1_024;

/// Into how many moments a run is cut, to see how work is spread from one to the next.
pub const MOMENTS: usize = 256;

/// When rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as they are taken, many at a time.
    Fast,
    /// As fast as they are taken, few at a time.
    Prompt,
    /// When they are due by the workload's rate of arrival.
    Due,
}

/// Rows in the order in which they arrive.
pub struct Feed<'a> {
    /// The rows of both streams.
    pub rows: &'a [Row],
    lateness: i64,
    pace: Pace,
    origin: Instant,
    /// How many rows arrive together.
    packet: usize,
    /// When each packet arrived, in microseconds since the origin.
    arrivals: Vec<AtomicU64>,
}

/// Rows that come together.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// The rows.
    pub rows: &'a [Row],
    /// Behind them, none comes whose time is this or earlier.
    pub watermark: i64,
    /// Which moment it is.
    pub moment: usize,
}

impl<'a> Feed<'a> {
    /// Rows of a workload, which come at this pace; without a rate of arrival it has none that is due.
    pub fn new(rows: &'a [Row], workload: &Workload, pace: Pace) -> Self {
        let packet = match (pace, workload.arrival) {
            (Pace::Due, Some(rate)) => (2 * rate * TICK_US / 1_000_000) as usize,
            (Pace::Fast, _) => TURN,
            _ => PROMPT,
        };
        assert!(packet > 0, "each packet has rows");
        let due = |packet: usize| if pace == Pace::Due { packet as u64 * TICK_US } else { 0 };
        Self {
            rows,
            lateness: workload.lateness,
            pace,
            origin: Instant::now(),
            packet,
            arrivals: (0..rows.len().div_ceil(packet)).map(|packet| AtomicU64::new(due(packet))).collect(),
        }
    }

    /// Gives all rows; at the end, a turn without any behind which nothing comes.
    pub fn turns(&self, mut give: impl FnMut(Turn<'a>)) {
        let (mut next, mut last) = (0, i64::MIN);
        while next < self.rows.len() {
            let end = if self.pace == Pace::Due { self.wait(next) } else { self.take_up(next) };
            let rows = &self.rows[next..end.min(next + TURN)];
            last = rows.iter().fold(last, |last, row| last.max(row.time));
            // A row may be behind by just the lateness.
            let watermark = last - self.lateness - 1;
            give(Turn { rows, watermark, moment: next * MOMENTS / self.rows.len() });
            next += rows.len();
        }
        give(Turn { rows: &[], watermark: i64::MAX, moment: MOMENTS - 1 });
    }

    /// Waits until the next row is due; up to where rows are due.
    fn wait(&self, next: usize) -> usize {
        let due = self.origin + Duration::from_micros((next / self.packet) as u64 * TICK_US);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let packets = self.micros() / TICK_US + 1;
        (packets as usize * self.packet).clamp(next + 1, self.rows.len())
    }

    fn take_up(&self, next: usize) -> usize {
        self.arrivals[next / self.packet].store(self.micros(), Relaxed);
        (next + self.packet).min(self.rows.len())
    }

    fn micros(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64
    }

    /// How long ago a row arrived, or was due, in microseconds.
    pub fn since(&self, number: i64, now: Instant) -> f64 {
        let arrival = self.arrivals[number as usize / self.packet].load(Relaxed);
        let now = now.saturating_duration_since(self.origin);
        now.saturating_sub(Duration::from_micros(arrival)).as_nanos() as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(name: &str) -> Workload {
        Workload::all().into_iter().find(|workload| workload.name == name).unwrap()
    }

    #[test]
    fn all_rows_come_in_order_and_none_behind_the_watermark() {
        let workload = workload("table V");
        let mut rows = workload.generate(40_000);
        // The first row of the second turn is behind by just the lateness.
        rows[TURN].time = rows[..TURN].iter().map(|row| row.time).max().unwrap() - workload.lateness;
        let feed = Feed::new(&rows, &workload, Pace::Fast);
        let (mut seen, mut watermark, mut moment) = (Vec::new(), i64::MIN, 0);
        feed.turns(|turn| {
            assert!(turn.rows.iter().all(|row| row.time > watermark) && turn.watermark >= watermark);
            assert!((moment..MOMENTS).contains(&turn.moment));
            (watermark, moment) = (turn.watermark, turn.moment);
            seen.extend_from_slice(turn.rows);
        });
        assert_eq!(seen, rows);
        assert_eq!(watermark, i64::MAX);
        let times: Vec<u64> = feed.arrivals.iter().map(|time| time.load(Relaxed)).collect();
        assert!(times.is_sorted() && times.len() == 5);
    }

    #[test]
    fn rows_do_not_come_before_they_are_due() {
        let workload = workload("A").paced().unwrap();
        let rows = workload.generate(600);
        let feed = Feed::new(&rows, &workload, Pace::Due);
        let mut next = 0;
        feed.turns(|turn| {
            next += turn.rows.len();
            // 24 rows every 200 microseconds.
            let due = next.saturating_sub(1) as u64 / 24 * 200;
            assert!(feed.micros() >= due, "{next} rows");
            assert!(next == 0 || feed.since(next as i64 - 1, feed.origin + Duration::from_micros(due + 7)) == 7.0);
        });
        assert_eq!(next, 1_200);
    }
}
