//! Rows of several senders that stand by their time, and take turns.

use std::cmp::Ordering;

use thalweg_core::{Error, Result, Timestamp};

use super::{
    ordered::{Ordered, Woven},
    places::Part,
    sender::Sender,
    words::{NONE, before},
};

/// After so many where two senders take turns.
const LOOK: usize = 64;

impl Ordered {
    /// Puts rows of two senders together that are in the order of time, both of whose first batches have rows there already, until one has no
    /// more, or a closer look is needed: how many. `None` if there are others, or the rows are not in the order of time. Where both have rows,
    /// nobody waits.
    pub(super) fn braid(&mut self, woven: &mut Woven) -> Option<usize> {
        let [one, two] = &mut self.senders[..] else { return None };
        let (Some(first), Some(second)) = (one.first(), two.first()) else { return None };
        let (times, others) = (first.times()?, second.times()?);
        let (Some(number), Some(other)) = (one.entered, two.entered) else { return Some(0) };
        let room = self.batch_rows - woven.mixed.len();
        let [mut left, mut right] = [one.done, two.done];
        if let (Some(numbers), Some(of_other)) = (first.positions.numbers(), second.positions.numbers()) {
            let keys = [[&times[left..], &numbers[left..]], [&others[right..], &of_other[right..]]];
            let taken = woven.mixed.push_turns([(number, left), (other, right)], keys, room);
            (left, right) = (left + taken[0], right + taken[1]);
        }
        // Who has many rows in a row is looked at more closely.
        let (mut last, mut streak, mut is_tie) = (0, 0, false);
        while !is_tie && streak < LOOK {
            let count =
                LOOK.min(times.len() - left).min(others.len() - right).min(room + one.done + two.done - left - right);
            if count == 0 {
                break;
            }
            let (rest, others) = (&times[left..left + count], &others[right..right + count]);
            let keys = [(first, left), (second, right)]
                .map(|(batch, start)| move |row| batch.positions.key(start + row).prefix());
            let from = woven.mixed.push_merged([(number, left), (other, right)], [rest, others], keys);
            is_tie = from[0] + from[1] < count;
            (left, right) = (left + from[0], right + from[1]);
            streak = if from[0] == 0 || from[1] == 0 { from[0] + from[1] } else { 0 };
            last = usize::from(from[0] == 0);
        }
        let taken = [left - one.done, right - two.done];
        (one.done, two.done) = (left, right);
        if taken != [0, 0] {
            woven.streak = (last, streak);
            self.is_changed = true;
        }
        for (sender, taken) in self.senders.iter_mut().zip(taken).filter(|(_, taken)| *taken > 0) {
            self.rows -= taken;
            self.bytes -= sender.go_on();
        }
        Some(taken[0] + taken[1])
    }

    /// Puts rows of all senders to their places at once, up to an instant before which no other row is: how many. `None` where that does not pay.
    pub(super) fn place(
        &mut self,
        woven: &mut Woven,
        mut until: Timestamp,
        reached: impl Fn(usize) -> Timestamp,
    ) -> Option<usize> {
        let each = (self.batch_rows - woven.mixed.len()) / self.senders.len();
        for (number, sender) in self.senders.iter().enumerate() {
            let times = sender.times()?;
            let next = match (times.get(each), sender.waiting.get(1)) {
                (Some(time), _) => Some(*time),
                (None, Some(next)) => Some(*next.times()?.first()?),
                (None, None) => None,
            };
            until = until.min(next.map_or_else(|| reached(number), Timestamp));
        }
        let parts = self.senders.iter().map(|sender| {
            let times = sender.times()?;
            Some(&times[..times.partition_point(|time| *time < until.0)])
        });
        let parts = parts.collect::<Option<Vec<_>>>()?;
        if !self.places.divide(&parts) {
            return None;
        }
        let counts: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        for (sender, _) in self.senders.iter_mut().zip(&counts).filter(|(_, count)| **count > 0) {
            sender.enter(woven);
        }
        let parts = self.senders.iter().zip(&counts).filter_map(|(sender, count)| {
            let (first, batch) = (sender.first()?, sender.entered?);
            Some(Part { batch, rows: sender.done..sender.done + count, positions: &first.positions })
        });
        self.places.fill(&parts.collect::<Vec<_>>(), &mut woven.mixed);
        for (sender, count) in self.senders.iter_mut().zip(&counts) {
            sender.done += count;
            self.bytes -= sender.go_on();
        }
        let taken = counts.iter().sum();
        self.rows -= taken;
        (woven.streak, self.is_changed) = ((0, 0), true);
        Some(taken)
    }

    /// The same one by one, batch after batch: until it would have to be waited for one, or many rows are of one.
    pub(super) fn braid_many(
        &mut self,
        woven: &mut Woven,
        until: Timestamp,
        reached: impl Fn(usize) -> Timestamp,
    ) -> Result<Option<usize>> {
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        for sender in &mut self.senders {
            let Some(word) = sender.word() else {
                self.words = words;
                return Ok(None);
            };
            words.add(word);
        }
        let is_tied_before = |senders: &[Sender], a: usize, b: usize| {
            let places = senders[a].next_place().zip(senders[b].next_place());
            let order = places.map_or(Ordering::Equal, |((left, a), (right, b))| left.compare(a, right, b));
            order.then(a.cmp(&b)) == Ordering::Less
        };
        words.play(|a, b| is_tied_before(&self.senders, a, b));
        let (room, mut limit) = (self.batch_rows - woven.mixed.len(), before(until));
        let (mut taken, mut last, mut streak) = (0, usize::MAX, 0);
        while taken < room && streak < LOOK {
            let (word, winner) = words.first();
            if word >= limit {
                break;
            }
            streak = if winner == last { streak + 1 } else { 1 };
            (last, taken) = (winner, taken + 1);
            let next = self.senders[winner].leave(woven, &mut self.bytes);
            let next = next.ok_or_else(|| Error::bug("rows of one operator say in two ways where they stand"))?;
            if next == NONE {
                limit = limit.min(before(reached(winner)));
            }
            words.replace(next, |a, b| is_tied_before(&self.senders, a, b));
        }
        self.words = words;
        self.rows -= taken;
        self.senders.iter_mut().for_each(Sender::find_head);
        if taken > 0 {
            woven.streak = (last, streak);
            self.is_changed = true;
        }
        Ok(Some(taken))
    }
}
