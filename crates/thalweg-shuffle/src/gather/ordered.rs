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

use std::cmp::Ordering;

use thalweg_core::{Batch, Error, Result, Timestamp};

use super::{
    furthest::{Furthest, Place},
    losers::Losers,
    mixed::Mixed,
    places::Places,
    run::part,
    sender::{Head, Sender, Waiting},
    words::Words,
};

/// So many rows of a batch in a row are not copied.
const RUN: usize = 256;

/// After so many rows of one sender in a row, it is looked for how many more there are.
const STREAK: usize = 4;

/// The rows of several senders on their way into one order.
#[derive(Debug)]
pub struct Ordered {
    pub(super) senders: Vec<Sender>,
    pub(super) tree: Losers,
    /// Whether a sender that had no row has one now.
    pub(super) is_changed: bool,
    pub(super) batch_rows: usize,
    pub(super) rows: usize,
    pub(super) bytes: usize,
    /// How far rows have come that did not wait for all, until nothing can belong before them.
    pub(super) furthest: Option<Furthest>,
    /// Whether rows may leave before others that belong before them.
    pub(super) is_loose: bool,
    /// How many rows have left behind others that belong behind them.
    pub(super) out_of_order: u64,
    /// Memory for rows that are put together, and for those that are next.
    pub(super) mixed: Mixed,
    pub(super) words: Words,
    pub(super) places: Places,
}

/// Rows that are put together, one by one.
#[derive(Default)]
pub(super) struct Woven {
    pub(super) mixed: Mixed,
    /// When what caused the first of them arrived.
    pub(super) arrived: Option<u64>,
    /// Whose row was the last one, and how many of its rows followed each other.
    pub(super) streak: (usize, usize),
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
