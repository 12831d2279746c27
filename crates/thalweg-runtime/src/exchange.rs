//! The sending end of a keyed exchange: each row goes to the instance that owns the key group of its key.
//!
//! ```text
//!   batch ──► route ──► buffers ──► open pages, one per receiver ──► lanes, one pipe each
//!                                        ▲                                 │
//!                                        └── blocks of a pool ◄── receivers, when they are done with a page
//! ```
//!
//! Where each receiver gets many rows of each batch, nothing is copied: it gets the batch as it is, and the numbers of its rows.
//!
//! A page travels when it is full, when it has lingered, and before anything that must not overtake it. Each sender of an exchange
//! has a pool of its own: at a barrier receivers leave pages of one sender unread until another sender's barrier has come, which
//! would never come if those pages took all the memory there is.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release},
    },
    time::Instant,
};

use thalweg_core::{Batch, Epoch, Event, KeyGroups, Port, Result, Selection, Timestamp, error::Fault};
use thalweg_memory::{page::Page, pool::Pool};
use thalweg_shuffle::{
    route::{Destinations, Route, hash::ByKeyGroup},
    scatter::{
        order::Order,
        outbox::{Outbox, Progress},
    },
};

use crate::{
    adapt::{
        sharing::{Parted, Shared},
        tally::Tally,
    },
    clock::Linger,
    metrics::Exchanged,
    packing::Packing,
    pipe::{Envelope, Sender},
    pool::TaskRef,
    share::Share,
    topology::KeyParts,
};

/// The sending end of an exchange at one of its senders.
pub struct Scatter {
    port: Port,
    parts: KeyParts,
    route: ByKeyGroup,
    /// Counts rows for who decides on the route, if somebody does.
    tally: Option<Tally>,
    /// The key groups that several receivers share.
    shared: Shared,
    lanes: Vec<Lane>,
    share: Share,
    how: Option<How>,
    /// How those before them did.
    other: Option<How>,
    /// Events that wait until the rows before them are in pages.
    todo: VecDeque<Envelope>,
    /// Whether rows that should be in pages are not, because there was no room.
    is_short: bool,
    /// Since when rows are in buffers and open pages, and the arrival that caused the first of them.
    open: Option<(Instant, u64)>,
    linger: Linger,
    /// How far time has come for the receivers, but for what is held back.
    passed: Timestamp,
    /// When they were last told.
    told: Option<Instant>,
    /// The arrival that caused the first watermark that is held back, if one is.
    held: Option<u64>,
    is_idle: bool,
    is_closing: bool,
    room: Room,
    exchanged: Arc<Exchanged>,
}

/// Who has less than one row in so many of a batch gets copies.
const FEW: usize = 16;

/// How the rows of the last batch travel, and those of the next if they are of the same kind.
enum How {
    /// As they are: each receiver gets their batch, and which of them are its own.
    Selected,
    /// In pages.
    Pages(Arc<Packing>, Box<Outbox>),
    /// Copied, since pages cannot hold them.
    Copies,
}

impl How {
    fn is_for(&self, batch: &Batch, share: &Share) -> bool {
        match self {
            Self::Selected => share.selects(batch, true),
            Self::Pages(packing, _) => packing.is_for(batch) && !share.selects(batch, false),
            Self::Copies => false,
        }
    }
}

/// Who waits for room in the pool.
struct Room {
    pool: Pool,
    task: TaskRef,
    is_asked: Arc<AtomicBool>,
}

/// The pipe to one receiver.
struct Lane {
    /// `None` when nobody takes anything any more.
    sender: Option<Sender>,
    /// What does not fit into it yet.
    waiting: VecDeque<Envelope>,
}

impl Scatter {
    /// The end for the batches of one output of a task, with a pipe to each receiver.
    pub fn new(
        port: Port,
        parts: KeyParts,
        groups: KeyGroups,
        senders: Vec<Sender>,
        share: Share,
        linger: Linger,
        task: TaskRef,
    ) -> Self {
        let keys = (0..parts.keys.len()).collect();
        let shared = Shared::new(parts.sharing);
        Self {
            port,
            parts,
            route: ByKeyGroup::new(keys, groups, senders.len() as u32),
            tally: None,
            shared,
            lanes: senders.into_iter().map(|sender| Lane { sender: Some(sender), waiting: VecDeque::new() }).collect(),
            share,
            how: None,
            other: None,
            todo: VecDeque::new(),
            is_short: false,
            open: None,
            linger,
            passed: Timestamp::MIN,
            told: None,
            held: None,
            is_idle: false,
            is_closing: false,
            room: Room { pool: Pool::new(share.pages), task, is_asked: Arc::default() },
            exchanged: Arc::default(),
        }
    }

    /// The same, which counts rows for a team, and routes them as the team says.
    pub fn with_tally(self, tally: Option<Tally>) -> Self {
        Self { tally, ..self }
    }

    /// The same, which counts what travels.
    pub fn counted(self, exchanged: Arc<Exchanged>) -> Self {
        Self { exchanged, ..self }
    }

    /// The output whose batches it takes.
    pub fn port(&self) -> Port {
        self.port
    }

    /// Takes an event, which leaves at once or as soon as there is room.
    pub fn put(&mut self, envelope: Envelope) -> Result<()> {
        self.todo.push_back(envelope);
        self.flush().map(drop)
    }

    /// Sends what can be sent; returns whether nothing waits for room any more.
    pub fn flush(&mut self) -> Result<bool> {
        loop {
            if self.is_short {
                self.go_on()?;
            }
            if self.is_short {
                break;
            }
            match self.todo.pop_front() {
                Some(envelope) => self.take(envelope)?,
                None if self.is_closing && (self.open.is_some() || self.held.is_some()) => {
                    self.seal_and_tell()?;
                }
                None => break,
            }
        }
        self.lanes.iter_mut().for_each(Lane::flush);
        Ok(!self.is_short && self.lanes.iter().all(|lane| lane.waiting.is_empty()))
    }

    /// Nothing comes for now: sends pages and watermarks that have lingered, and says when the others will have.
    pub fn nothing_comes(&mut self) -> Result<Option<Instant>> {
        if self.is_short {
            // Who waits for room is woken by it.
            return Ok(None);
        }
        if self.has_lingered() {
            self.seal_and_tell()?;
            self.flush()?;
        }
        Ok(if self.is_short { None } else { self.due() })
    }

    /// When pages, or a watermark, will have waited long enough.
    fn due(&self) -> Option<Instant> {
        let since = [self.open.map(|(since, _)| since), self.held.and(self.told)];
        since.into_iter().flatten().min().map(|since| since + self.linger.most)
    }

    fn has_lingered(&self) -> bool {
        self.due().is_some_and(|due| due <= self.linger.clock.now())
    }

    /// Nothing comes any more: what was put in is all there is.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Whether nobody wants more.
    pub fn is_closed(&self) -> bool {
        self.lanes.iter().all(Lane::is_closed)
    }

    /// Takes an event, or puts it back until all rows before it are in pages.
    fn take(&mut self, envelope: Envelope) -> Result<()> {
        if let Event::Watermark(t) = envelope.event
            && self.holds(t)
        {
            self.passed = self.passed.max(t);
            self.held.get_or_insert(envelope.arrived);
            return Ok(());
        }
        let goes_on = matches!(
            (&envelope.event, &self.how),
            (Event::Batch(batch), Some(how)) if how.is_for(batch, &self.share)
        );
        if !goes_on && !self.seal()? {
            self.todo.push_front(envelope);
            return Ok(());
        }
        let Envelope { event, arrived, .. } = envelope;
        match event {
            Event::Batch(batch) => {
                if !goes_on {
                    self.change(&batch)?;
                }
                if std::mem::take(&mut self.is_idle) {
                    // The receivers that get no row of it have to wait for this sender again, too.
                    self.tell_all(&Event::Watermark(self.passed), arrived);
                }
                let destinations = self.destinations(&batch)?;
                match self.shared.part(&batch, &destinations, self.lanes.len())? {
                    None => self.scatter(&batch, batch.selection().map(Selection::rows), destinations, arrived),
                    Some(Parted { shared, rows, to }) => {
                        self.send_shared(shared, arrived);
                        self.scatter(&batch, Some(&rows), Destinations::One(to), arrived)
                    }
                }
            }
            event => {
                match event {
                    Event::Watermark(t) => (self.passed, self.is_idle) = (self.passed.max(t), false),
                    Event::Barrier(epoch) => {
                        self.tell();
                        self.reroute(epoch);
                    }
                    Event::Idle | Event::Batch(_) => self.tell(),
                }
                self.is_idle |= matches!(event, Event::Idle);
                self.tell_all(&event, arrived);
                Ok(())
            }
        }
    }

    /// Where each selected row goes.
    fn destinations(&mut self, batch: &Batch) -> Result<Destinations> {
        let keys = self.parts.of(batch)?;
        match &mut self.tally {
            Some(tally) => tally.route(&mut self.route, &keys),
            None => self.route.route(&keys),
        }
        .map_err(|error| error.in_node(&self.parts.label))
    }

    /// Behind the barrier of an epoch, other instances may have some key groups.
    fn reroute(&mut self, epoch: Epoch) {
        if let Some(table) = self.tally.as_ref().and_then(|tally| tally.team().table_behind(epoch)) {
            self.shared.reroute(&table, &mut self.route);
        }
    }

    /// Goes over to batches like this one.
    fn change(&mut self, batch: &Batch) -> Result<()> {
        // Batches with and without late rows often take turns.
        let other = self.other.take().filter(|other| other.is_for(batch, &self.share));
        self.other = self.how.take();
        self.how = Some(match other {
            Some(other) => other,
            None => self.how(batch)?,
        });
        Ok(())
    }

    /// Puts these rows of a batch, or all, into pages.
    fn scatter(
        &mut self,
        batch: &Batch,
        selected: Option<&[u32]>,
        destinations: Destinations,
        arrived: u64,
    ) -> Result<()> {
        match &mut self.how {
            Some(How::Pages(packing, outbox)) => {
                self.open.get_or_insert((self.linger.clock.now(), arrived));
                let mut full = Vec::new();
                let progress = outbox.scatter(&packing.pack(batch)?, selected, destinations, &mut full);
                let progress = said(progress, &self.parts)?;
                self.is_short = progress == Progress::NoRoom;
                self.send(full)?;
            }
            Some(How::Selected) => {
                self.select(batch, Order::new(selected, &destinations, self.lanes.len()), arrived)?
            }
            Some(How::Copies) | None => {
                self.copy(batch, &Order::new(selected, &destinations, self.lanes.len()), arrived)?
            }
        }
        if !self.is_short && self.has_lingered() { self.seal_and_tell() } else { Ok(()) }
    }

    fn how(&self, batch: &Batch) -> Result<How> {
        if self.share.selects(batch, false) {
            return Ok(How::Selected);
        }
        let schema = batch.schema();
        Ok(match (Packing::new(&schema, batch.behind().is_some()), self.share.walk(&schema)) {
            (Some(packing), Some(walk)) => {
                let (layout, pool) = (Arc::clone(packing.layout()), self.room.pool.clone());
                let outbox = Outbox::new(layout, pool, self.lanes.len(), self.share.sizes, walk)?;
                How::Pages(Arc::new(packing), Box::new(outbox))
            }
            _ => How::Copies,
        })
    }

    /// Goes on with what there was no room for.
    fn go_on(&mut self) -> Result<()> {
        self.fill()?;
        if !self.is_short {
            return Ok(());
        }
        // What lies in the pipes of those who have left comes back.
        self.lanes.iter_mut().for_each(Lane::flush);
        self.room.ask();
        self.fill()
    }

    /// Puts rows into pages, as long as there is room.
    fn fill(&mut self) -> Result<()> {
        let Some(How::Pages(_, outbox)) = &mut self.how else { return Ok(()) };
        let mut full = Vec::new();
        self.is_short = said(outbox.resume(&mut full), &self.parts)? == Progress::NoRoom;
        let is_empty = outbox.is_empty();
        self.send(full)?;
        if is_empty {
            self.open = None;
        }
        Ok(())
    }

    /// Sends all rows that are in buffers and open pages; returns whether there was room for them.
    fn seal(&mut self) -> Result<bool> {
        let Some(How::Pages(_, outbox)) = &mut self.how else { return Ok(true) };
        let mut sealed = Vec::new();
        self.is_short = said(outbox.seal(&mut sealed), &self.parts)? == Progress::NoRoom;
        self.send(sealed)?;
        if !self.is_short {
            self.open = None;
        }
        Ok(!self.is_short)
    }

    /// Whether a watermark waits for the next one: each makes all pages travel, however little is in them, so receivers hear of one
    /// in a while. Of those behind rows that are in no page they hear at once: what they keep stays in the caches then. Nothing is wrong
    /// with rows that overtake a watermark; what they met is told by themselves.
    fn holds(&self, t: Timestamp) -> bool {
        let is_early = || self.told.is_some_and(|told| self.linger.clock.now() < told + self.linger.most);
        t < Timestamp::MAX && !self.is_idle && !matches!(self.how, Some(How::Selected)) && is_early()
    }

    /// Sends all rows, and the watermark that was held back behind them.
    fn seal_and_tell(&mut self) -> Result<()> {
        if self.seal()? {
            self.tell();
        }
        Ok(())
    }

    /// Says how far time has come, if that was held back. Rows from before are on their way.
    fn tell(&mut self) {
        if let Some(arrived) = self.held {
            self.tell_all(&Event::Watermark(self.passed), arrived);
        }
    }

    fn send(&mut self, pages: Vec<(u32, Page)>) -> Result<()> {
        let Some(How::Pages(packing, _)) = &self.how else { return Ok(()) };
        let arrived = self.open.map_or(0, |(_, arrived)| arrived);
        for (receiver, page) in pages {
            self.exchanged.add(page.rows(), page.used());
            let event = Event::Batch(Batch::new(page.batch()?));
            let packing = Some(Arc::clone(packing));
            self.lanes[receiver as usize].put(Envelope { packing, ..Envelope::new(event, arrived) });
        }
        Ok(())
    }

    /// Sends what those get who share a key group. Nothing is wrong with rows that overtake others.
    fn send_shared(&mut self, parts: Vec<(usize, Batch)>, arrived: u64) {
        for (receiver, part) in parts {
            // What several get is there once.
            let own = part.own().len();
            let bytes = if own > 0 { part.columns().get_array_memory_size() * own / part.len() } else { 0 };
            self.exchanged.add(own, bytes);
            self.lanes[receiver].put(Envelope::new(Event::Batch(part), arrived));
        }
    }

    /// Sends the batch to all who have many rows of it, and which these are; others get copies of theirs, since the batch would stay as
    /// long as these wait.
    fn select(&mut self, batch: &Batch, order: Order, arrived: u64) -> Result<()> {
        for (lane, rows) in self.lanes.iter_mut().zip(order.into_partitions()) {
            if rows.is_empty() {
                continue;
            }
            let part = if rows.len() * FEW < batch.physical_rows() {
                let copied = batch.copied(&rows)?;
                self.exchanged.add(rows.len(), copied.bytes());
                copied
            } else {
                self.exchanged.add(rows.len(), size_of_val(&rows[..]));
                batch.only(Selection::of_shared(rows))
            };
            lane.put(Envelope::new(Event::Batch(part), arrived));
        }
        Ok(())
    }

    /// Sends rows as batches of their own.
    fn copy(&mut self, batch: &Batch, order: &Order, arrived: u64) -> Result<()> {
        for (receiver, lane) in self.lanes.iter_mut().enumerate() {
            let rows = order.of_partition(receiver);
            if rows.is_empty() {
                continue;
            }
            let copied = batch.copied(rows)?;
            self.exchanged.add(rows.len(), copied.columns().get_array_memory_size());
            lane.put(Envelope::new(Event::Batch(copied), arrived));
        }
        Ok(())
    }

    fn tell_all(&mut self, event: &Event, arrived: u64) {
        if let Event::Watermark(_) = event {
            (self.held, self.told) = (None, Some(self.linger.clock.now()));
        }
        self.lanes.iter_mut().for_each(|lane| lane.put(Envelope::new(event.clone(), arrived)));
    }
}

/// Says for whom rows were meant that do not get there, and what to do.
fn said<T>(outcome: Result<T>, parts: &KeyParts) -> Result<T> {
    outcome.map_err(|error| {
        let is_known = error.fault() != Fault::Environment || error.hint().is_some();
        let error = if is_known { error } else { error.with_hint("SET a larger 'exchange.memory'") };
        let message = format!("{} (on the way to {})", error.message(), parts.label);
        error.with_message(message)
    })
}

impl Room {
    /// Asks to be woken when a page comes back; who asks looks once more behind that.
    fn ask(&self) {
        if self.is_asked.swap(true, AcqRel) {
            return;
        }
        let (task, is_asked) = (self.task.clone(), Arc::clone(&self.is_asked));
        self.pool.when_free(move || {
            is_asked.store(false, Release);
            task.wake();
        });
    }
}

impl Lane {
    fn put(&mut self, envelope: Envelope) {
        if let (Event::Watermark(_), Some(Envelope { event: Event::Watermark(_), .. })) =
            (&envelope.event, self.waiting.back())
        {
            // Nothing came between the two: the later one says all.
            self.waiting.pop_back();
        }
        self.waiting.push_back(envelope);
        self.flush();
    }

    fn flush(&mut self) {
        let Some(sender) = &mut self.sender else { return self.waiting.clear() };
        sender.push_all(&mut self.waiting);
        if sender.is_closed() {
            // With the pipe goes what is in it: the pages are wanted back.
            self.sender = None;
            self.waiting.clear();
        }
    }

    fn is_closed(&self) -> bool {
        self.sender.as_ref().is_none_or(Sender::is_closed)
    }
}
