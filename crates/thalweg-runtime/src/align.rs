//! Sources whose rows meet in a join, or around a row, keep step in event time: who is ahead of others that could read lets them go
//! first, so that rows do not pile up which wait for the others.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use thalweg_core::Timestamp;

use crate::pool::TaskRef;

/// The instances of sources that keep step.
#[derive(Default)]
pub struct Alignment {
    members: Mutex<Vec<Member>>,
}

struct Member {
    task: TaskRef,
    /// How far time has come.
    reached: Timestamp,
    /// By how much it lately came further at once.
    stride: i64,
    /// Whether there is something to be read.
    has_rows: bool,
    /// Since when it lets others go first.
    paused: Option<Instant>,
}

/// So many of its own strides a source may be ahead.
const STRIDES: i64 = 3;

/// Nobody waits longer for those behind: they may wait for something themselves.
const PATIENCE: Duration = Duration::from_millis(100);

/// The part of one instance in it.
pub struct Step {
    alignment: Arc<Alignment>,
    number: usize,
}

impl Step {
    /// One more instance.
    pub fn join(alignment: &Arc<Alignment>, task: TaskRef) -> Self {
        let mut members = alignment.members.lock();
        members.push(Member { task, reached: Timestamp::MIN, stride: 0, has_rows: true, paused: None });
        Self { alignment: Arc::clone(alignment), number: members.len() - 1 }
    }

    /// Whether it should let others go first now: then when to ask again, if it is not woken before.
    pub fn pause(&self, now: Instant) -> Option<Instant> {
        let mut members = self.alignment.members.lock();
        let others = members.iter().enumerate().filter(|(number, other)| *number != self.number && other.has_rows);
        let slowest = others.map(|(_, other)| other.reached).min();
        let own = &mut members[self.number];
        let is_ahead = slowest.is_some_and(|slowest| {
            // How long its strides are it does not know at first.
            own.stride > 0 && own.reached > Timestamp(slowest.0.saturating_add(own.stride.saturating_mul(STRIDES)))
        });
        if !is_ahead {
            own.paused = None;
            return None;
        }
        let until = *own.paused.get_or_insert(now) + PATIENCE;
        if until <= now {
            own.paused = None;
            return None;
        }
        Some(until)
    }

    /// Time has come so far; whether there was something to be read. Those who have waited for that are woken.
    pub fn reach(&self, reached: Timestamp, has_rows: bool) {
        let mut members = self.alignment.members.lock();
        let own = &mut members[self.number];
        let is_news = reached > own.reached || has_rows != own.has_rows;
        if own.reached > Timestamp::MIN {
            let stride = reached.0.saturating_sub(own.reached.0).max(0);
            own.stride = stride.max(own.stride - own.stride / 8);
        }
        own.reached = own.reached.max(reached);
        own.has_rows = has_rows;
        if is_news {
            members.iter().filter(|other| other.paused.is_some()).for_each(|other| other.task.wake());
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.reach(Timestamp::MAX, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{nodes::Nodes, pool::Pool};

    #[test]
    fn who_is_ahead_of_those_who_could_read_lets_them_go_first_for_a_while() {
        let pool = Pool::new(0, Nodes::one()).unwrap();
        let alignment = Arc::<Alignment>::default();
        let [fast, slow] = [0, 1].map(|_| Step::join(&alignment, pool.reserve(0, 1)));
        let now = Instant::now();
        for t in [10, 20, 30, 40] {
            assert_eq!(fast.pause(now), None, "{t}");
            fast.reach(Timestamp(t), true);
            slow.reach(Timestamp(1), true);
        }
        // It is more than three of its strides ahead.
        assert_eq!(fast.pause(now), Some(now + PATIENCE));
        assert_eq!(slow.pause(now), None);
        assert_eq!(fast.pause(now + PATIENCE), None, "not for ever");
        assert!(fast.pause(now + PATIENCE).is_some(), "and then again");
        slow.reach(Timestamp(11), true);
        assert_eq!(fast.pause(now), None);
        slow.reach(Timestamp(11), false);
        (60..=200).step_by(10).for_each(|t| fast.reach(Timestamp(t), true));
        assert_eq!(fast.pause(now), None, "who has nothing to read is not waited for");
        slow.reach(Timestamp(12), true);
        assert!(fast.pause(now).is_some());
        drop(slow);
        assert_eq!(fast.pause(now), None);
    }
}
