//! Rows as they come to those who join them: as fast as they are taken, or when they are due.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    arrivals::Arrivals,
    expected::Mode,
    watermark::{Passing, Watermark},
    workload::{Row, Workload},
};

/// How many rows come at a time at most.
const TURN: usize = 16_384;

/// How many come at a time where what counts is how long results take.
pub const PROMPT: usize = 1_024;

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
    /// Since the origin.
    arrivals: Arrivals,
    /// Where it matters how long results take.
    passing: Option<Passing>,
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
        let arrivals = match pace {
            Pace::Due => Arrivals::due(rows.len(), workload.packet().expect("rows that are due have a rate")),
            Pace::Fast => Arrivals::when_taken(rows.len(), TURN),
            Pace::Prompt => Arrivals::when_taken(rows.len(), PROMPT),
        };
        let passing = (pace != Pace::Fast).then(|| Passing::of(rows, workload.lateness));
        Self { rows, lateness: workload.lateness, pace, origin: Instant::now(), arrivals, passing }
    }

    /// Gives all rows; at the end, a turn without any behind which nothing comes.
    pub fn turns(&self, mut give: impl FnMut(Turn<'a>)) {
        let (mut next, mut watermark) = (0, Watermark::new(self.lateness));
        while next < self.rows.len() {
            let end = if self.pace == Pace::Due { self.wait(next) } else { self.take_up(next) };
            let rows = &self.rows[next..end.min(next + TURN)];
            rows.iter().for_each(|row| watermark.follow(row));
            give(Turn { rows, watermark: watermark.passed(), moment: next * MOMENTS / self.rows.len() });
            next += rows.len();
        }
        give(Turn { rows: &[], watermark: i64::MAX, moment: MOMENTS - 1 });
    }

    /// Waits until the next row is due; up to where rows are due.
    fn wait(&self, next: usize) -> usize {
        let due = self.origin + Duration::from_micros(self.arrivals.of(next));
        thread::sleep(due.saturating_duration_since(Instant::now()));
        self.arrivals.behind_due(self.micros()).clamp(next + 1, self.rows.len())
    }

    fn take_up(&self, next: usize) -> usize {
        self.arrivals.take(next, self.micros());
        self.arrivals.behind(next).min(self.rows.len())
    }

    fn micros(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64
    }

    /// How long ago a base row's result could be there, in microseconds: since the row arrived, or was due, if it takes what has come; since
    /// the watermark has passed it if it is final. `None` where that is at the end of the streams only, which says nothing of how long
    /// results take before.
    pub fn since(&self, number: i64, mode: Mode, now: Instant) -> Option<f64> {
        let number = number as usize;
        let arrival = match mode {
            Mode::Eager | Mode::Corrected => self.arrivals.of(number),
            Mode::Final => {
                let passing = self.passing.as_ref().expect("rows that come as fast as can be have no latency");
                let [one, other] = passing.with(self.rows[number].time)?.map(|number| self.arrivals.of(number));
                one.max(other)
            }
        };
        let now = now.saturating_duration_since(self.origin);
        Some(now.saturating_sub(Duration::from_micros(arrival)).as_nanos() as f64 / 1e3)
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
        let times: Vec<u64> = (0..rows.len()).map(|row| feed.arrivals.of(row)).collect();
        assert!(times.is_sorted() && times[rows.len() - 1] < u64::MAX);
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
            let since = || feed.since(next as i64 - 1, Mode::Eager, feed.origin + Duration::from_micros(due + 7));
            assert!(next == 0 || since() == Some(7.0));
        });
        assert_eq!(next, 1_200);
    }

    #[test]
    fn a_final_result_counts_from_the_row_with_which_the_watermark_has_passed() {
        let workload = Workload { lateness: 30, ..workload("A").paced().unwrap() };
        let row = |time, is_base| Row { time, payload: 0, key: 0, is_base };
        // 24 rows come together; the base stream is at 31 with the second of them, the other stream with the third.
        let mut rows = vec![row(0, true); 60];
        (rows[30], rows[50]) = (row(31, true), row(31, false));
        let feed = Feed::new(&rows, &workload, Pace::Due);
        let at = feed.origin + Duration::from_micros(2 * 200 + 5);
        assert_eq!(feed.since(0, Mode::Final, at), Some(5.0));
        assert_eq!(feed.since(0, Mode::Eager, at), Some(405.0));
        assert_eq!(feed.since(30, Mode::Final, at), None);
    }
}
