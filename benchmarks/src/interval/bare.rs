//! The bare loop: what the engine's way costs where nothing is around it. Rows wait in slices of time, are sorted once by key and time when
//! the watermark passes them, and two ends of a window move along the rows of each key.
//!
//! There is no query, no columns, and one thread; keys are small numbers, sums are of 64 bits and nobody looks whether they fit, and results come in no
//! order. So this is no join that anybody could use, but what there is to be had: how far the engine is from it says what all
//! that costs.

use super::{
    buffer::Found,
    expected::Mode,
    feed::Feed,
    profile::Work,
    sink::{Outcome, Sink, Wanted},
    waiting::Waiting,
    workload::{Row, Workload},
};

/// How long a slice of time is, in microseconds.
const SLICE: i64 = 4_096;

/// So many rows that no window holds any more may lie before the others.
const OLD: usize = 1_024;

/// The probe rows of a key in the order of time, and the window of the last base row.
#[derive(Default)]
struct Line {
    times: Vec<i64>,
    values: Vec<i64>,
    start: usize,
    end: usize,
    sum: i64,
}

impl Line {
    fn expire(&mut self) {
        if self.start > OLD && self.start > self.times.len() / 2 {
            self.times.drain(..self.start);
            self.values.drain(..self.start);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// The rows in the window of a base row that is no earlier than the one before it.
    fn look(&mut self, window: i64, time: i64) -> Found {
        let before = self.start + self.end;
        while self.end < self.times.len() && self.times[self.end] <= time {
            self.sum = self.sum.wrapping_add(self.values[self.end]);
            self.end += 1;
        }
        while self.start < self.end && self.times[self.start] < time - window {
            self.sum = self.sum.wrapping_sub(self.values[self.start]);
            self.start += 1;
        }
        let visited = (self.start + self.end - before) as u64;
        Found { count: (self.end - self.start) as u64, sum: self.sum, visited }
    }
}

/// Sorts rows by keys below a number, and those of a key as they stood, in memory that is used again and again.
fn sort(rows: &[Row], count: usize, sorted: &mut Vec<Row>, places: &mut Vec<u32>, key: impl Fn(&Row) -> usize) {
    places.clear();
    places.resize(count + 1, 0);
    rows.iter().for_each(|row| places[key(row) + 1] += 1);
    (1..=count).for_each(|key| places[key] += places[key - 1]);
    sorted.clear();
    sorted.extend_from_slice(rows);
    for row in rows {
        let place = &mut places[key(row)];
        sorted[*place as usize] = *row;
        *place += 1;
    }
}

/// Joins all rows of the feed.
pub fn run(feed: &Feed<'_>, workload: &Workload, mode: Mode, joiners: usize, wanted: Wanted) -> Outcome {
    assert!(mode == Mode::Final && joiners == 1, "results are final, and there is one thread");
    let mut lines: Vec<Line> = (0..workload.keys.count()).map(|_| Line::default()).collect();
    let (mut waiting, mut due) = (Waiting::new(SLICE), Vec::new());
    let (mut by_time, mut by_key, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let (mut sink, mut work) = (Sink::new(feed, mode, wanted), Work::new());
    feed.turns(|turn| {
        turn.rows.iter().for_each(|row| waiting.push(*row));
        due.clear();
        waiting.take(turn.watermark, |row| due.push(*row));
        let times = due.iter().map(|row| row.time);
        let (Some(first), Some(last)) = (times.clone().min(), times.max()) else { return };
        sort(&due, (last - first + 1) as usize, &mut by_time, &mut places, |row| (row.time - first) as usize);
        sort(&by_time, lines.len(), &mut by_key, &mut places, |row| row.key as usize);
        let mut visited = due.len() as u64;
        for same in by_key.chunk_by(|one, other| one.key == other.key) {
            let line = &mut lines[same[0].key as usize];
            for row in same.iter().filter(|row| !row.is_base) {
                line.times.push(row.time);
                line.values.push(row.payload);
            }
            for row in same.iter().filter(|row| row.is_base) {
                let found = line.look(workload.window, row.time);
                visited += found.visited;
                sink.add(row.payload, found);
            }
            line.expire();
        }
        work.add(turn.moment, visited);
        sink.flush();
    });
    sink.outcome().of_joiner(work, None)
}

#[cfg(test)]
mod tests {
    use super::{super::expected::Answer, super::feed::Pace, *};

    #[test]
    fn results_are_right() {
        for mut workload in Workload::all() {
            (workload.window, workload.lateness) = (workload.window.min(3_000), workload.lateness.min(2_000));
            let rows = workload.generate(20_000);
            for (pace, wanted) in [(Pace::Fast, Wanted::Speed), (Pace::Prompt, Wanted::Profile)] {
                let found = run(&Feed::new(&rows, &workload, pace), &workload, Mode::Final, 1, wanted);
                assert_eq!(Answer::of(&rows, &workload, Mode::Final).compare(&found.answer), Ok(20_000));
            }
        }
    }
}
