//! Scale-OIJ: the keys are divided as Key-OIJ divides them, but a key may have a team of joiners, each of which stores some of its rows in
//! an index that all of the team read.
//!
//! ```text
//!          ┌─by range of keys, ─► joiner 0   index 0 ◄──┬── all read the indexes ──► results
//!   feed ──┤ in turn in a team                          │   of their teams
//!          └────────────────────► joiner 1   index 1 ◄──┘
//!     ▲
//!     └── schedule: who is in which team
//! ```
//!
//! As the paper describes it, with what it leaves open: a batch says how many rows each joiner was handed before, and who reads waits until
//! they are stored; rows are taken out when no joiner needs them. As fast as we can make it: rows of a batch are stored and looked for in
//! the order of keys and times. Where results are eager, the part of a window behind the last watermark goes on from base row to base
//! row, and the rest is looked at each time.
//!
//! * [`schedule`]: dynamic schedule (algorithm 3)
//! * [`joiner`]: what a thread does; its index is [`thalweg_memory::index`]
//! * [`slide`]: windows that go on
//!
//! Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", §V.

mod joiner;
mod schedule;
mod slide;

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use joiner::{Batch, Joiner, Shared, tagged};
use schedule::Schedule;
use thalweg_memory::index::{Reader, Writer};

use super::{
    buffer::Found,
    expected::Mode,
    feed::Feed,
    key_oij::{QUEUE, collect},
    profile::Work,
    sink::{Outcome, Sink, Wanted},
    workload::{Row, Workload},
};

/// After so many rows it is looked at who has how much to do.
const PERIOD: usize = 1 << 13;

/// What there is of it beside the index.
#[derive(Clone, Copy)]
struct Parts {
    schedule: bool,
    incremental: bool,
}

/// Joins all rows of the feed.
pub fn run(feed: &Feed<'_>, workload: &Workload, mode: Mode, joiners: usize, wanted: Wanted) -> Outcome {
    join(feed, workload, (mode, Parts { schedule: true, incremental: true }), joiners, wanted)
}

/// The same, but that each key has one joiner.
pub fn without_schedule(feed: &Feed<'_>, workload: &Workload, mode: Mode, joiners: usize, wanted: Wanted) -> Outcome {
    join(feed, workload, (mode, Parts { schedule: false, incremental: true }), joiners, wanted)
}

/// The same, but that all rows of each window are looked at.
pub fn without_incremental(
    feed: &Feed<'_>,
    workload: &Workload,
    mode: Mode,
    joiners: usize,
    wanted: Wanted,
) -> Outcome {
    join(feed, workload, (mode, Parts { schedule: true, incremental: false }), joiners, wanted)
}

fn join(feed: &Feed<'_>, workload: &Workload, (mode, parts): (Mode, Parts), joiners: usize, wanted: Wanted) -> Outcome {
    let shared = &Shared::new(joiners);
    let writers: Vec<Writer> = (0..joiners).map(|_| Writer::default()).collect();
    let readers: Vec<Vec<Reader>> = (0..joiners).map(|_| writers.iter().map(Writer::reader).collect()).collect();
    thread::scope(|scope| {
        let (mut lanes, mut threads) = (Vec::new(), Vec::new());
        for (me, (writer, readers)) in writers.into_iter().zip(readers).enumerate() {
            let (sender, batches) = sync_channel(QUEUE);
            let (give_back, empty) = sync_channel(QUEUE + 2);
            lanes.push(Lane { open: Vec::new(), sender, empty });
            threads.push(scope.spawn(move || {
                let takes_times = wanted == Wanted::Profile;
                let how = (mode, parts.incremental);
                let joiner = Joiner::new((me, writer, readers), shared, workload, how, takes_times);
                take_all(joiner, Sink::new(feed, mode, wanted), batches, give_back)
            }));
        }
        hand_over(feed, workload, Schedule::new(joiners), parts.schedule, lanes);
        collect(threads)
    })
}

/// Hands all rows to their joiners, who end when nobody can send any more.
fn hand_over(feed: &Feed<'_>, workload: &Workload, mut schedule: Schedule, is_dynamic: bool, mut lanes: Vec<Lane>) {
    let mut handed = vec![0; lanes.len()];
    let (mut number, mut scheduled, mut last) = (0, 0, i64::MIN);
    feed.turns(|turn| {
        for row in turn.rows {
            let joiner = schedule.deal(row.key);
            let mut row = *row;
            if !row.is_base {
                row.payload = tagged(number as u64, row.payload);
                handed[joiner] += 1;
            }
            last = last.max(row.time);
            lanes[joiner].open.push(row);
            number += 1;
        }
        let handed: Arc<[u64]> = handed.as_slice().into();
        for lane in &mut lanes {
            let next = lane.empty.try_recv().unwrap_or_default();
            let rows = std::mem::replace(&mut lane.open, next);
            let (teams, handed) = (Arc::clone(schedule.teams()), Arc::clone(&handed));
            let batch = Batch { rows, watermark: turn.watermark, moment: turn.moment, teams, handed };
            lane.sender.send(batch).expect("a joiner takes batches for as long as there is a sender");
        }
        if is_dynamic && number >= scheduled + PERIOD {
            scheduled = number;
            schedule.improve(turn.watermark, last.saturating_add(workload.window));
        }
    });
}

/// The way to a joiner.
struct Lane {
    open: Vec<Row>,
    sender: SyncSender<Batch>,
    empty: Receiver<Vec<Row>>,
}

fn take_all(
    mut joiner: Joiner<'_>,
    mut sink: Sink<'_>,
    batches: Receiver<Batch>,
    give_back: SyncSender<Vec<Row>>,
) -> Outcome {
    let mut work = Work::new();
    for mut batch in batches {
        let mut visited = batch.rows.len() as u64;
        joiner.take(&mut batch, |row: &Row, found: Found| {
            visited += found.visited;
            sink.add(row.payload, found);
        });
        work.add(batch.moment, visited);
        sink.flush();
        batch.rows.clear();
        // Nobody takes it back at the end.
        let _ = give_back.try_send(batch.rows);
    }
    let times = joiner.times();
    sink.outcome().of_joiner(work, times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{
        expected::Answer, feed::Pace, profile::Unbalancedness, tests::check_everywhere, workload::Keys,
    };

    #[test]
    fn results_are_right_with_any_number_of_joiners_in_both_modes_and_without_each_part() {
        [run, without_schedule, without_incremental].into_iter().for_each(check_everywhere);
    }

    #[test]
    fn one_key_is_shared_by_64_joiners() {
        let mut workload = Workload::all().remove(0);
        (workload.keys, workload.window, workload.lateness) = (Keys::Uniform(1), 500, 200);
        let rows = workload.generate(30_000);
        for mode in Mode::ALL {
            let found = run(&Feed::new(&rows, &workload, Pace::Prompt), &workload, mode, 64, Wanted::Profile);
            assert_eq!(Answer::of(&rows, &workload, mode).compare(&found.answer), Ok(30_000));
            // The first rows all go to one.
            let uneven = Unbalancedness::of(&found.works);
            assert!(uneven.whole < 4.0, "{uneven:?}");
        }
    }
}
