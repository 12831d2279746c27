//! SplitJoin, with windows around each base row: probe rows are dealt to the threads in turn, base rows go to all, and what each finds
//! is put together.
//!
//! ```text
//!          ┌─all rows─► joiner 0   stores probe rows 0, n, 2n …    ─┐
//!   feed ──┤                                                        ├─► collector ──► results
//!          └─all rows─► joiner 1   stores probe rows 1, n + 1, …   ─┘
//! ```
//!
//! As the paper adapts it (§V-D), with a further predicate that leaves out rows beyond the window. All threads read the same rows where
//! they lie, so that a broadcast copies nothing. A joiner has a buffer for each key, as those of Key-OIJ have: looking at the
//! rows of other keys too would cost as many times more as there are keys, which the paper's figures do not show.
//!
//! Source: Najafi et al., "SplitJoin: A Scalable, Low-latency Stream Join Architecture with Adjustable Ordering Precision", as adapted by
//! Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", §V-D.

use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use super::{
    buffer::{Columns, Found},
    expected::Mode,
    feed::{Feed, Turn},
    joiner::Joiner,
    key_oij::{QUEUE, collect},
    profile::Work,
    sink::{Outcome, Sink, Wanted},
    workload::{Row, Workload},
};

/// What the base rows of a turn found at one joiner: their numbers, and that. The same rows in the same order at all.
type Partials = Vec<(i64, Found)>;

/// Which rows a joiner stores.
#[derive(Clone, Copy)]
struct Share {
    joiner: usize,
    joiners: usize,
}

/// Joins all rows of the feed.
pub fn run(feed: &Feed<'_>, workload: &Workload, mode: Mode, joiners: usize, wanted: Wanted) -> Outcome {
    thread::scope(|scope| {
        let (mut senders, mut lanes, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for joiner in 0..joiners {
            let (sender, turns) = sync_channel(QUEUE);
            let (partials, receiver) = sync_channel(QUEUE);
            let (give_back, empty) = sync_channel(QUEUE + 2);
            senders.push(sender);
            lanes.push(Lane { receiver, give_back });
            let joiner = (Joiner::new(workload, mode, wanted == Wanted::Profile), Share { joiner, joiners });
            threads.push(scope.spawn(move || join(joiner, turns, partials, empty)));
        }
        threads.push(scope.spawn(move || combine(Sink::new(feed, mode, wanted), &lanes)));
        feed.turns(|turn| {
            for sender in &senders {
                sender.send(turn).expect("a joiner takes turns for as long as there is a sender");
            }
        });
        // The joiners end when nobody can send any more, and then so does the collector.
        drop(senders);
        collect(threads)
    })
}

fn join(
    (mut joiner, share): (Joiner<Columns>, Share),
    turns: Receiver<Turn<'_>>,
    sender: SyncSender<Partials>,
    empty: Receiver<Partials>,
) -> Outcome {
    let mut work = Work::new();
    let mut dealt = share.joiner;
    for turn in turns {
        let mut partials: Partials = empty.try_recv().unwrap_or_default();
        let mut visited = turn.rows.len() as u64;
        let mut give = |row: &Row, found: Found| {
            visited += found.visited;
            partials.push((row.payload, found));
        };
        for row in turn.rows {
            joiner.take(row, dealt == 0, &mut give);
            if !row.is_base {
                dealt = dealt.checked_sub(1).unwrap_or(share.joiners - 1);
            }
        }
        joiner.advance(turn.watermark, &mut give);
        work.add(turn.moment, visited);
        sender.send(partials).expect("the collector takes what is found until all is");
    }
    Outcome::default().of_joiner(work, joiner.times())
}

/// The way from a joiner to the collector.
struct Lane {
    receiver: Receiver<Partials>,
    give_back: SyncSender<Partials>,
}

/// Adds up, turn by turn, what the joiners found.
fn combine(mut sink: Sink<'_>, lanes: &[Lane]) -> Outcome {
    let Some((first, others)) = lanes.split_first() else { return sink.outcome() };
    for mut all in &first.receiver {
        for lane in others {
            let more = lane.receiver.recv().expect("each joiner sends something each turn");
            assert_eq!(all.len(), more.len(), "joiners find something for the same rows");
            for ((number, sum), (other, found)) in all.iter_mut().zip(&more) {
                debug_assert_eq!(number, other, "joiners have one order");
                sum.add(found);
            }
            lane.give_back(more);
        }
        all.iter().for_each(|(number, found)| sink.add(*number, *found));
        sink.flush();
        first.give_back(all);
    }
    sink.outcome()
}

impl Lane {
    fn give_back(&self, mut partials: Partials) {
        partials.clear();
        // Nobody takes it back at the end.
        let _ = self.give_back.try_send(partials);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::tests::check_everywhere;

    #[test]
    fn results_are_right_with_any_number_of_joiners_in_both_modes() {
        check_everywhere(run);
    }
}
