//! As one sender would have sent them (StreamCloud's transparent input merger).
//!
//! ```text
//!   sender 0 ──► ▢▢▢▢ ─┐
//!   sender 1 ──► ▢ ────┼─ tree of losers ──► batches, in the order of positions
//!   sender 2 ──►  ─────┘
//! ```
//!
//! Each sender's rows come in order. The smallest of their first rows may leave once every sender without a row has said, by a
//! watermark, that none before it will come: behind a watermark *w*, a sender sends no row of a window that was over at *w*
//! ([`Positions::over`]). So all rows of windows that were over at the slowest sender's watermark leave before that watermark passes.
//!
//! No sender is refused while another is waited for, which might be waiting for it: what it sends lies here. If all senders get the
//! same watermarks that is what lies between two of them, of the slowest sender, at most.
//!
//! A sender may be *passed over*: rows wait for it no longer, until it is heard again. What it sends then, and belongs before rows that
//! have left, leaves at once and is counted. So no row is lost; only the order is looser (k-slack).
//!
//! Source: Gulisano et al., "StreamCloud: A Large Scale Data Streaming System", fig. 3. There a balancer sends a dummy for a silent
//! sender, which says that nothing older will come. We do not say so: a watermark would make late what comes after all.

use std::{cmp::Ordering, collections::VecDeque, sync::Arc};

use thalweg_core::{Batch, Error, Positions, Result, Timestamp};

use super::{
    furthest::{Furthest, Place},
    losers::Losers,
    places::{Part, Places},
    run::{Mixed, part},
    words::{NONE, Words, before, word},
};

/// So many rows of a batch in a row are not copied.
const RUN: usize = 256;

/// After so many rows of one sender in a row, it is looked for how many more there are.
const STREAK: usize = 4;

/// After so many where two senders take turns.
const LOOK: usize = 64;

/// The rows of several senders on their way into one order.
#[derive(Debug)]
pub struct Ordered {
    senders: Vec<Sender>,
    tree: Losers,
    /// Whether a sender that had no row has one now.
    is_changed: bool,
    batch_rows: usize,
    rows: usize,
    bytes: usize,
    /// How far rows have come that did not wait for all, until nothing can belong before them.
    furthest: Option<Furthest>,
    /// Whether rows may leave before others that belong before them.
    is_loose: bool,
    /// How many rows have left behind others that belong behind them.
    out_of_order: u64,
    /// Memory for rows that are put together, and for those that are next.
    mixed: Mixed,
    words: Words,
    places: Places,
}

/// What a sender sent.
#[derive(Debug, Default)]
struct Sender {
    waiting: VecDeque<Waiting>,
    /// How many rows of the first batch have left.
    done: usize,
    head: Option<Head>,
    /// The number of its first batch among those that leave now.
    entered: Option<u32>,
    /// Whether rows do not wait for it.
    is_passed_over: bool,
    /// The words of the selected rows of its first batch, once they are asked for.
    words: Vec<u128>,
}

#[derive(Debug)]
struct Waiting {
    batch: Batch,
    positions: Arc<Positions>,
    arrived: u64,
    bytes: usize,
    /// How many rows are selected.
    rows: usize,
}

/// A sender's first row, with what decides most comparisons.
#[derive(Clone, Copy, Debug)]
struct Head {
    window: (Timestamp, Timestamp),
    /// The first bytes of the key.
    prefix: u64,
    /// The physical row.
    row: usize,
    /// When the window is over.
    over: Timestamp,
}

/// Rows that are put together, one by one.
#[derive(Default)]
struct Woven {
    mixed: Mixed,
    /// When what caused the first of them arrived.
    arrived: Option<u64>,
    /// Whose row was the last one, and how many of its rows followed each other.
    streak: (usize, usize),
}

impl Ordered {
    /// Nothing from so many senders; up to `batch_rows` rows leave together.
    pub fn new(senders: usize, batch_rows: usize) -> Self {
        let sender = |_| Sender::default();
        Self {
            senders: (0..senders).map(sender).collect(),
            tree: Losers::new(senders),
            is_changed: false,
            batch_rows,
            rows: 0,
            bytes: 0,
            furthest: None,
            is_loose: false,
            out_of_order: 0,
            mixed: Mixed::default(),
            words: Words::default(),
            places: Places::default(),
        }
    }

    /// Takes rows of a sender, and when what caused them arrived.
    ///
    /// Errors: `Error::Bug` if they do not say where they stand.
    pub fn put(&mut self, sender: usize, batch: Batch, arrived: u64) -> Result<()> {
        let Some(positions) = batch.positions().cloned() else {
            return Err(Error::bug("rows that are to be put in order do not say where they stand"));
        };
        if batch.is_empty() {
            return Ok(());
        }
        let (bytes, rows) = (batch.bytes(), batch.len());
        (self.rows, self.bytes) = (self.rows + rows, self.bytes + bytes);
        let sender = &mut self.senders[sender];
        sender.waiting.push_back(Waiting { batch, positions, arrived, bytes, rows });
        if sender.head.is_none() {
            sender.find_head();
            self.is_changed = true;
        }
        Ok(())
    }

    /// How many rows wait.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many bytes of memory the batches take of which rows wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// When what caused the rows arrived that have waited longest; `None` if none wait.
    pub fn oldest(&self) -> Option<u64> {
        self.senders.iter().filter_map(|sender| sender.waiting.front()).map(|waiting| waiting.arrived).min()
    }

    /// How many rows have left behind others that belong behind them.
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// The senders that the next row waits for, where [`Self::next`] has just given none.
    pub fn awaited(&self, reached: impl Fn(usize) -> Timestamp) -> impl Iterator<Item = usize> {
        let over = self.senders[self.tree.winner()].place().map(|(positions, row)| positions.over(row));
        let is_awaited = move |number: &usize| {
            let Sender { head, is_passed_over, .. } = &self.senders[*number];
            head.is_none() && !is_passed_over && over.is_some_and(|over| reached(*number) < over)
        };
        (0..self.senders.len()).filter(is_awaited)
    }

    /// Rows do not wait for this sender until it is heard.
    pub fn pass_over(&mut self, sender: usize) {
        self.senders[sender].is_passed_over = true;
    }

    /// A sender has said something.
    pub fn hear(&mut self, sender: usize) {
        self.senders[sender].is_passed_over = false;
    }

    /// The next rows, and when what caused the first of them arrived; `None` until more comes. `reached` is how far time has come
    /// at a sender, and [`Timestamp::MAX`] where nothing is to be waited for.
    pub fn next(&mut self, reached: impl Fn(usize) -> Timestamp) -> Result<Option<(Batch, u64)>> {
        if self.rows == 0 {
            return Ok(None);
        }
        self.settle(&reached);
        let mut until = self.until(&reached);
        self.senders.iter_mut().for_each(|sender| sender.entered = None);
        let mut woven = Woven { mixed: std::mem::take(&mut self.mixed), ..Woven::default() };
        // Where it did not pay once, it is not tried again for the same batch.
        let mut pays = self.senders.len() > 2;
        while woven.mixed.len() < self.batch_rows {
            if std::mem::take(&mut self.is_changed) {
                self.tree.build(is_before(&self.senders));
            }
            let winner = self.tree.winner();
            let Sender { done, head: Some(head), .. } = self.senders[winner] else { break };
            let is_ready = head.over <= until;
            // What belongs before rows that have left has nothing to wait for.
            if !is_ready && !self.is_overtaken(winner) {
                break;
            }
            // A batch might leave as a whole.
            let is_streak = woven.streak.0 == winner && woven.streak.1 + 1 >= STREAK;
            let looks = is_streak || done == 0 || woven.mixed.is_empty();
            let rows = if looks && is_ready { self.run(until) } else { 1 };
            if rows >= RUN {
                let Some(first) = self.senders[winner].first().filter(|_| woven.mixed.is_empty()) else { break };
                let (batch, since) = (first.batch.clone(), first.arrived);
                let rows = rows.min(self.batch_rows);
                self.pass(winner, rows);
                self.mixed = woven.mixed;
                return Ok(Some((part(&batch, done..done + rows), since)));
            }
            let is_one = rows == 1 && !self.is_loose;
            let placed = if pays && is_one { self.place(&mut woven, until, &reached) } else { None };
            pays &= !is_one || placed.is_some();
            let braided = match self.senders.len() {
                _ if !is_one || placed.is_some() => placed,
                2 => self.braid(&mut woven),
                _ => self.braid_many(&mut woven, until, &reached)?,
            };
            if braided.is_none_or(|rows| rows == 0) {
                for _ in 0..rows.min(self.batch_rows - woven.mixed.len()) {
                    self.weave(winner, &mut woven);
                }
            }
            let mut last = winner;
            while rows == 1 && braided.is_none() && self.goes_on(last, &woven, until) {
                last = self.tree.winner();
                self.weave(last, &mut woven);
            }
            let looked = if braided.is_some() { 0..self.senders.len() } else { last..last + 1 };
            for number in looked.filter(|number| self.senders[*number].head.is_none()) {
                until = until.min(reached(number));
            }
        }
        self.mixed = woven.mixed;
        Ok(self.mixed.take()?.map(|batch| (batch, woven.arrived.unwrap_or(u64::MAX))))
    }

    /// Puts rows of two senders together that are in the order of time, both of whose first batches have rows there already, until one has no
    /// more, or a closer look is needed: how many. `None` if there are others, or the rows are not in the order of time. Where both have rows,
    /// nobody waits.
    fn braid(&mut self, woven: &mut Woven) -> Option<usize> {
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
    fn place(
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
    fn braid_many(
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

    /// Puts the winner's first row to the others.
    fn weave(&mut self, winner: usize, woven: &mut Woven) {
        let sender = &mut self.senders[winner];
        if let Some(Head { row, .. }) = sender.head {
            sender.mix(row, woven);
        }
        woven.streak = if woven.streak.0 == winner { (winner, woven.streak.1 + 1) } else { (winner, 1) };
        self.pass(winner, 1);
    }

    /// Whether the next row may follow the last one, which was this sender's, without a closer look: rows of several senders come in turn.
    fn goes_on(&self, last: usize, woven: &Woven, until: Timestamp) -> bool {
        let next = &self.senders[self.tree.winner()];
        let is_ready = next.done > 0 && next.head.is_some_and(|head| head.over <= until);
        let has_room = woven.mixed.len() < self.batch_rows && woven.streak.1 < STREAK;
        is_ready && has_room && self.senders[last].head.is_some()
    }

    /// Up to which instant all windows that are over have their rows here: the slowest of those without a row says so.
    fn until(&self, reached: impl Fn(usize) -> Timestamp) -> Timestamp {
        let empty =
            self.senders.iter().enumerate().filter(|(_, sender)| sender.head.is_none() && !sender.is_passed_over);
        empty.map(|(number, _)| reached(number)).min().unwrap_or(Timestamp::MAX)
    }

    /// How many rows of the winner's first batch may leave and come before the others' first rows, at least one: looked for in steps that
    /// double, and then between the last two.
    fn run(&self, until: Timestamp) -> usize {
        let winner = self.tree.winner();
        let sender = &self.senders[winner];
        let Some(first) = sender.first() else { return 0 };
        let left = first.ready(sender.done, until);
        let runner_up = self.tree.runner_up(is_before(&self.senders));
        let Some((other, runner_up)) = runner_up.and_then(|other| Some((other, self.senders[other].place()?))) else {
            return left;
        };
        let comes_first = |number: usize| {
            let row = first.physical(sender.done + number);
            match first.positions.compare(row, runner_up.0, runner_up.1) {
                Ordering::Equal => winner < other,
                order => order == Ordering::Less,
            }
        };
        let (mut before, mut step) = (0, 1);
        while before + step < left && comes_first(before + step) {
            before += step;
            step *= 2;
        }
        let mut behind = left.min(before + step);
        while behind - before > 1 {
            let middle = before + (behind - before) / 2;
            if comes_first(middle) { before = middle } else { behind = middle }
        }
        before + 1
    }

    /// Looks whether rows may leave before others that belong before them, or have, and such may still come.
    fn settle(&mut self, reached: impl Fn(usize) -> Timestamp) {
        let furthest = self.furthest.take();
        self.furthest = furthest.filter(|furthest| {
            let mut senders = self.senders.iter().enumerate();
            senders.any(|(number, sender)| match sender.place() {
                Some((positions, row)) => furthest.is_behind(Place { positions, row, sender: number }),
                None => !furthest.is_over(reached(number)),
            })
        });
        self.is_loose = self.furthest.is_some() || self.senders.iter().any(|sender| sender.is_passed_over);
    }

    /// Whether a sender's first row belongs before one that has left.
    fn is_overtaken(&self, number: usize) -> bool {
        let place = self.senders[number].place().map(|(positions, row)| Place { positions, row, sender: number });
        self.furthest.as_ref().zip(place).is_some_and(|(furthest, place)| furthest.is_behind(place))
    }

    /// Notes how far the winner's next rows come, and how many of them belong before rows that have left.
    fn note(&mut self, winner: usize, rows: usize) {
        let sender = &self.senders[winner];
        let Some(first) = sender.first() else { return };
        let place = |number| {
            let row = first.physical(sender.done + number);
            Place { positions: &first.positions, row, sender: winner }
        };
        let is_behind =
            |number: &usize| self.furthest.as_ref().is_some_and(|furthest| furthest.is_behind(place(*number)));
        let behind = (0..rows).take_while(is_behind).count();
        self.out_of_order += behind as u64;
        if behind < rows {
            self.furthest = Some(Furthest::new(place(rows - 1)));
        }
    }

    /// Rows of the winner have left.
    fn pass(&mut self, winner: usize, rows: usize) {
        if self.is_loose {
            self.note(winner, rows);
        }
        let sender = &mut self.senders[winner];
        self.rows -= rows;
        sender.done += rows;
        self.bytes -= sender.go_on();
        self.tree.replay(is_before(&self.senders));
    }
}

impl Sender {
    fn first(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    /// Where its first row stands.
    fn place(&self) -> Option<(&Positions, usize)> {
        Some((self.first()?.positions.as_ref(), self.head?.row))
    }

    /// The times of the rows of its first batch that have not left; `None` as [`Waiting::times`].
    fn times(&self) -> Option<&[i64]> {
        match self.first() {
            Some(first) => Some(&first.times()?[self.done..]),
            None => Some(&[]),
        }
    }

    /// Where the next row stands; other than [`Self::place`], also before that is looked for.
    fn next_place(&self) -> Option<(&Positions, usize)> {
        self.first().map(|first| (first.positions.as_ref(), first.physical(self.done)))
    }

    /// The word of its next row, [`NONE`] if it has none; `None` if that has no word.
    fn word(&mut self) -> Option<u128> {
        let Some(first) = self.waiting.front() else { return Some(NONE) };
        if self.words.is_empty() {
            let times = first.positions.times()?;
            let word = |row: usize| word(times[row], first.positions.key(row).prefix());
            self.words.extend((0..first.rows).map(|number| word(first.physical(number))));
        }
        self.words.get(self.done).copied()
    }

    /// Its next row is put to those that leave together; returns the word of the one behind it, as [`Self::word`] does.
    #[inline]
    fn leave(&mut self, woven: &mut Woven, bytes: &mut usize) -> Option<u128> {
        let row = self.waiting.front()?.physical(self.done);
        self.mix(row, woven);
        self.done += 1;
        if let Some(word) = self.words.get(self.done) {
            return Some(*word);
        }
        *bytes -= self.waiting.pop_front()?.bytes;
        (self.done, self.entered) = (0, None);
        self.words.clear();
        self.word()
    }

    /// Finds its first row after some have left; returns how many bytes of memory nobody needs any more.
    #[inline]
    fn go_on(&mut self) -> usize {
        let mut bytes = 0;
        if self.first().is_some_and(|first| self.done == first.rows) {
            bytes = self.waiting.pop_front().map_or(0, |first| first.bytes);
            (self.done, self.entered) = (0, None);
            self.words.clear();
        }
        self.find_head();
        bytes
    }

    #[inline]
    fn find_head(&mut self) {
        self.head = self.first().map(|first| {
            let row = first.physical(self.done);
            let (window, over) = (first.positions.window(row), first.positions.over(row));
            Head { window: (window.end, window.start), prefix: first.positions.key(row).prefix(), row, over }
        });
    }

    /// Adds a physical row of its first batch to those that are copied.
    #[inline]
    fn mix(&mut self, row: usize, woven: &mut Woven) {
        if let Some(batch) = self.enter(woven) {
            woven.mixed.push(batch, row);
        }
    }

    /// The number of its first batch among those that leave now.
    #[inline]
    fn enter(&mut self, Woven { mixed, arrived, .. }: &mut Woven) -> Option<u32> {
        let first = self.waiting.front()?;
        Some(*self.entered.get_or_insert_with(|| {
            *arrived = Some(arrived.unwrap_or(u64::MAX).min(first.arrived));
            mixed.enter(&first.batch)
        }))
    }
}

impl Waiting {
    /// How many rows from this one on are of windows that are over at `until`; the first of them is.
    fn ready(&self, done: usize, until: Timestamp) -> usize {
        let left = self.rows - done;
        let is_ready = |number: usize| self.positions.over(self.physical(done + number)) <= until;
        if self.positions.is_of_one_window() || is_ready(left - 1) {
            return left;
        }
        let (mut ready, mut waits) = (0, left - 1);
        while waits - ready > 1 {
            let middle = ready + (waits - ready) / 2;
            if is_ready(middle) { ready = middle } else { waits = middle }
        }
        ready + 1
    }

    /// The times of all rows, where these are in the order of time, and none is left out.
    fn times(&self) -> Option<&[i64]> {
        self.positions.times().filter(|_| self.batch.selection().is_none())
    }

    /// The physical row of a selected one.
    #[inline]
    fn physical(&self, number: usize) -> usize {
        self.batch.selection().map_or(number, |selection| selection.rows()[number] as usize)
    }
}

/// Who has the earlier first row. Rows that stand at the same place come in the order of their senders; who has none comes last.
fn is_before(senders: &[Sender]) -> impl Fn(usize, usize) -> bool + '_ {
    |a, b| {
        let (Some(left), Some(right)) = (&senders[a].head, &senders[b].head) else {
            return senders[a].head.is_some() || (senders[b].head.is_none() && a < b);
        };
        let order = (left.window, left.prefix).cmp(&(right.window, right.prefix)).then_with(|| {
            let places = senders[a].place().zip(senders[b].place());
            places.map_or(Ordering::Equal, |((left, a), (right, b))| left.compare(a, right, b))
        });
        order.then(a.cmp(&b)) == Ordering::Less
    }
}
