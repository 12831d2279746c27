//! Key-OIJ: each key belongs to one thread, which looks at all rows of the key for each base row.
//!
//! ```text
//!   feed ──by key──► joiner 0   buffers of keys 0, n, 2n …    ──► results
//!        └─────────► joiner 1   buffers of keys 1, n + 1, …   ──► results
//! ```
//!
//! As the paper describes it, and as fast as we can make it: columns, a loop that is compiled for the machine's widest instructions,
//! rows handed over in batches whose memory goes back and forth. Where the paper takes a hash of the key we take its number,
//! which spreads few keys best. The paper says nothing of columns or of such instructions; what these give is seen beside
//! [`row_by_row`].
//!
//! Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", §II-C, §IV.

use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use super::{
    buffer::{Buffer, Columns, Found, Rows},
    correcting::{Correcting, Given},
    expected::Mode,
    feed::{Feed, Turn},
    joiner::Joiner,
    profile::Work,
    sink::{Outcome, Sink, Wanted},
    workload::{Row, Workload},
};

/// How many batches wait for a joiner.
pub const QUEUE: usize = 4;

/// What a joiner is handed. Each queue has one sender and one receiver.
struct Batch {
    rows: Vec<Row>,
    watermark: i64,
    moment: usize,
}

/// Joins all rows of the feed.
pub fn run(feed: &Feed<'_>, workload: &Workload, mode: Mode, joiners: usize, wanted: Wanted) -> Outcome {
    run_with::<Columns>(feed, workload, mode, joiners, wanted)
}

/// The same where rows are kept as they are, and looked at one after the other.
pub fn row_by_row(feed: &Feed<'_>, workload: &Workload, mode: Mode, joiners: usize, wanted: Wanted) -> Outcome {
    run_with::<Rows>(feed, workload, mode, joiners, wanted)
}

fn run_with<B: Buffer>(feed: &Feed<'_>, workload: &Workload, mode: Mode, joiners: usize, wanted: Wanted) -> Outcome {
    thread::scope(|scope| {
        let (mut lanes, mut threads) = (Vec::new(), Vec::new());
        for _ in 0..joiners {
            let (sender, receiver) = sync_channel(QUEUE);
            let (give_back, empty) = sync_channel(QUEUE + 2);
            lanes.push(Lane { open: Vec::new(), is_used: false, sender, empty });
            threads.push(scope.spawn(move || match mode {
                Mode::Corrected => correct::<B>(feed, workload, wanted, receiver, give_back),
                mode => join::<B>(feed, workload, mode, wanted, receiver, give_back),
            }));
        }
        feed.turns(|turn| {
            for row in turn.rows {
                lanes[row.key as usize % joiners].open.push(*row);
            }
            lanes.iter_mut().for_each(|lane| lane.send(&turn));
        });
        // The joiners end when nobody can send any more.
        drop(lanes);
        collect(threads)
    })
}

/// What all threads gave.
pub fn collect(threads: Vec<thread::ScopedJoinHandle<'_, Outcome>>) -> Outcome {
    let mut all = Outcome::default();
    for thread in threads {
        all.merge(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    }
    all
}

/// The way to a joiner.
struct Lane {
    open: Vec<Row>,
    /// Whether any row went this way. If none did, nothing waits for a watermark there.
    is_used: bool,
    sender: SyncSender<Batch>,
    empty: Receiver<Vec<Row>>,
}

impl Lane {
    fn send(&mut self, turn: &Turn<'_>) {
        self.is_used |= !self.open.is_empty();
        if !self.is_used {
            return;
        }
        let next = self.empty.try_recv().unwrap_or_default();
        let rows = std::mem::replace(&mut self.open, next);
        let batch = Batch { rows, watermark: turn.watermark, moment: turn.moment };
        self.sender.send(batch).expect("a joiner takes batches for as long as there is a sender");
    }
}

fn join<B: Buffer>(
    feed: &Feed<'_>,
    workload: &Workload,
    mode: Mode,
    wanted: Wanted,
    batches: Receiver<Batch>,
    give_back: SyncSender<Vec<Row>>,
) -> Outcome {
    let mut joiner = Joiner::<B>::new(workload, mode, wanted == Wanted::Profile);
    let mut sink = Sink::new(feed, mode, wanted);
    let mut work = Work::new();
    for Batch { mut rows, watermark, moment } in batches {
        let mut visited = rows.len() as u64;
        let mut give = |row: &Row, found: Found| {
            visited += found.visited;
            sink.add(row.payload, found);
        };
        rows.iter().for_each(|row| joiner.take(row, true, &mut give));
        joiner.advance(watermark, &mut give);
        work.add(moment, visited);
        sink.flush();
        rows.clear();
        // Nobody takes it back at the end.
        let _ = give_back.try_send(rows);
    }
    sink.outcome().of_joiner(work, joiner.times())
}

/// Results at once, and corrections of them.
fn correct<B: Buffer>(
    feed: &Feed<'_>,
    workload: &Workload,
    wanted: Wanted,
    batches: Receiver<Batch>,
    give_back: SyncSender<Vec<Row>>,
) -> Outcome {
    let mut joiner = Correcting::<B>::new(workload);
    let mut sink = Sink::new(feed, Mode::Corrected, wanted);
    let mut work = Work::new();
    for Batch { mut rows, moment, .. } in batches {
        let mut visited = rows.len() as u64;
        let mut give = |number, given| match given {
            Given::First(found) => sink.add(number, found),
            Given::Another(found) => sink.correct(number, found),
        };
        visited += rows.iter().map(|row| joiner.take(row, &mut give)).sum::<u64>();
        work.add(moment, visited);
        sink.flush();
        rows.clear();
        // Nobody takes it back at the end.
        let _ = give_back.try_send(rows);
    }
    sink.outcome().of_joiner(work, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{expected::Answer, feed::Pace, tests::check_everywhere};

    #[test]
    fn results_are_right_with_any_number_of_joiners_in_both_modes() {
        check_everywhere(run);
        check_everywhere(row_by_row);
    }
    #[test]
    fn what_was_given_at_once_and_corrected_is_what_is_final() {
        for mut workload in Workload::all() {
            (workload.window, workload.lateness) = (workload.window.min(3_000), workload.lateness.min(2_000));
            let rows = workload.generate(20_000);
            let right = Answer::of(&rows, &workload, Mode::Final);
            assert!(right.compare(&Answer::of(&rows, &workload, Mode::Eager)).is_err(), "rows come out of order");
            for join in [run, row_by_row] {
                let feed = Feed::new(&rows, &workload, Pace::Fast);
                let found = join(&feed, &workload, Mode::Corrected, 3, Wanted::Speed);
                assert_eq!(right.compare(&found.answer), Ok(20_000), "{}", workload.name);
            }
        }
    }
}
