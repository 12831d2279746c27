//! One sender, one receiver, and a capacity between them; so pressure travels back to the sources by itself.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread::Thread,
};

use rtrb::{Consumer, Producer, RingBuffer};
use thalweg_core::{Error, Event, Result, Timestamp};

use crate::{packing::Packing, pool::TaskRef};

/// How many events a pipe holds, unless a simulation says otherwise.
pub const CAPACITY: usize = 8;

/// An event on its way, with the arrival that caused it in nanoseconds since the query's start.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The event.
    pub event: Event,
    /// When what caused it arrived.
    pub arrived: u64,
    /// How its rows lie in a page, if they do.
    pub packing: Option<Arc<Packing>>,
    /// Where it stands in the turn of an instance.
    pub place: Place,
}

/// Where an event stands in the turn of an instance to which batches are dealt.
#[derive(Clone, Debug, Default)]
pub enum Place {
    /// More may come in the same turn; or nobody has turns.
    #[default]
    Within,
    /// With it the turn ends.
    Last,
    /// It is another's turn.
    Aside,
    /// The turn ends with an error.
    Failed(Error),
}

impl Envelope {
    /// An event that an arrival caused.
    pub fn new(event: Event, arrived: u64) -> Self {
        Self { event, arrived, packing: None, place: Place::Within }
    }

    /// The same event at its place in a turn.
    pub fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// The end of a turn, and no news.
    pub fn end(place: Place, arrived: u64) -> Self {
        Self::new(Event::Watermark(Timestamp::MIN), arrived).at(place)
    }

    /// The event, its rows as operators know them.
    ///
    /// Errors: that with which a turn ends.
    pub fn open(self) -> Result<Event> {
        match (self.event, self.packing, self.place) {
            (_, _, Place::Failed(error)) => Err(error),
            (Event::Batch(page), Some(packing), _) => Ok(Event::Batch(packing.unpack(page.columns())?)),
            (event, ..) => Ok(event),
        }
    }
}

/// The end that puts events in.
pub struct Sender {
    ring: Producer<Envelope>,
    ends: Arc<Ends>,
}

/// The end that takes events out.
pub struct Receiver {
    ring: Consumer<Envelope>,
    /// What was taken out together: at most as much as the pipe holds.
    taken: VecDeque<Envelope>,
    ends: Arc<Ends>,
}

/// The tasks, or threads, at both ends.
#[derive(Default)]
struct Ends {
    sender: End,
    receiver: End,
}

/// Who is told that there is something to take, or room again.
#[derive(Default)]
struct End {
    wakes: OnceLock<Wakes>,
    /// What it is doing, if it says so.
    work: OnceLock<Arc<Work>>,
}

impl End {
    fn wake(&self) {
        if let Some(work) = self.work.get() {
            work.begin();
        }
        match self.wakes.get() {
            Some(Wakes::Task(task)) => task.wake(),
            Some(Wakes::Thread(thread)) => thread.unpark(),
            None => {}
        }
    }
}

/// Whether a task has something to do now. Those who take from it may be waiting for just that.
#[derive(Default)]
pub struct Work {
    /// How often there was something to do, and how often of these it was over.
    begun: AtomicU64,
    over: AtomicU64,
    /// Whether somebody wants to know when it is over.
    is_watched: AtomicBool,
    ends: OnceLock<Vec<Weak<Ends>>>,
}

impl Work {
    /// That of a task which has these ends of pipes.
    pub fn of<'a>(
        senders: impl Iterator<Item = &'a Sender>,
        receivers: impl Iterator<Item = &'a Receiver>,
    ) -> Arc<Self> {
        let work = Arc::<Self>::default();
        let is_one = |end: &End| assert!(end.work.set(Arc::clone(&work)).is_ok(), "an end is one task's");
        receivers.for_each(|receiver| is_one(&receiver.ends.receiver));
        let ends = senders.map(|sender| {
            is_one(&sender.ends.sender);
            Arc::downgrade(&sender.ends)
        });
        assert!(work.ends.set(ends.collect()).is_ok(), "these are all");
        work
    }

    /// There is something to do; returns which time this is.
    pub fn begin(&self) -> u64 {
        self.begun.fetch_add(1, SeqCst) + 1
    }

    /// What there was to do at that time is done, until something comes or there is room for what comes out.
    pub fn rest(&self, begun: u64) {
        self.over.store(begun, SeqCst);
        // In this order: who looks says first that it does.
        if self.is_watched.swap(false, SeqCst) {
            let ends = self.ends.get().into_iter().flatten().filter_map(Weak::upgrade);
            ends.for_each(|ends| ends.receiver.wake());
        }
    }

    fn is_on(&self) -> bool {
        self.is_watched.store(true, SeqCst);
        self.begun.load(SeqCst) != self.over.load(SeqCst)
    }
}

/// Someone who can be woken.
pub enum Wakes {
    /// A task of the pool.
    Task(TaskRef),
    /// A thread that parks while it waits.
    Thread(Thread),
}

/// A pipe that holds so many events.
pub fn pipe(capacity: usize) -> (Sender, Receiver) {
    let (producer, consumer) = RingBuffer::new(capacity);
    let ends = Arc::new(Ends::default());
    (Sender { ring: producer, ends: Arc::clone(&ends) }, Receiver { ring: consumer, taken: VecDeque::new(), ends })
}

impl Sender {
    /// Puts in as many of these events as there is room for, in their order; who takes them is woken once.
    pub fn push_all(&mut self, events: &mut VecDeque<Envelope>) {
        let room = self.ring.slots().min(events.len());
        if let Ok(places) = self.ring.write_chunk_uninit(room)
            && room > 0
        {
            places.fill_from_iter(events.drain(..room));
            self.ends.receiver.wake();
        }
    }

    /// Whether nobody will take anything any more.
    pub fn is_closed(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Says who is to be woken when there is room again, or nobody takes any more.
    pub fn set_waker(&self, wakes: Wakes) {
        assert!(self.ends.sender.wakes.set(wakes).is_ok(), "a sender has one waker");
    }
}

impl Receiver {
    /// Takes the next event. All that are there are taken out together, so that the sender is woken once.
    pub fn pop(&mut self) -> Option<Envelope> {
        if self.taken.is_empty() {
            let there = self.ring.slots();
            if let Ok(events) = self.ring.read_chunk(there)
                && there > 0
            {
                self.taken.extend(events);
                self.ends.sender.wake();
            }
        }
        self.taken.pop_front()
    }

    /// When what caused the next event arrived; `None` if there is no event.
    pub fn next_arrived(&self) -> Option<u64> {
        self.taken.front().or_else(|| self.ring.peek().ok()).map(|envelope| envelope.arrived)
    }

    /// Whether rows are what comes next.
    pub fn has_rows(&self) -> bool {
        let next = self.taken.front().or_else(|| self.ring.peek().ok());
        next.is_some_and(|envelope| matches!(envelope.event, Event::Batch(_)))
    }

    /// Whether who sends has something to do now. If so, the receiver is woken once it has not.
    pub fn is_at_work(&self) -> bool {
        self.ends.sender.work.get().is_some_and(|work| work.is_on()) && !self.ring.is_abandoned()
    }

    /// Whether all was taken and nothing will come any more.
    pub fn is_closed(&self) -> bool {
        // In this order: what was put in before the sender left is seen.
        self.ring.is_abandoned() && self.ring.is_empty() && self.taken.is_empty()
    }

    /// Says who is to be woken when there is something to take, or nothing will come any more.
    pub fn set_waker(&self, wakes: Wakes) {
        assert!(self.ends.receiver.wakes.set(wakes).is_ok(), "a receiver has one waker");
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Leave the ring first: whoever is woken must see that nothing will come any more.
        self.ring = RingBuffer::new(1).0;
        self.ends.receiver.wake();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ring = RingBuffer::new(1).1;
        self.ends.sender.wake();
    }
}
