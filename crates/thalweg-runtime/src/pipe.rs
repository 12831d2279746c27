//! One sender, one receiver, and a capacity between them; so pressure travels back to the sources by itself.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
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

/// Who is told that there is something to take, or room again.
#[derive(Default)]
struct Ends {
    sender: OnceLock<Wakes>,
    receiver: OnceLock<Wakes>,
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
            wake(&self.ends.receiver);
        }
    }

    /// Whether nobody will take anything any more.
    pub fn is_closed(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Says who is to be woken when there is room again, or nobody takes any more.
    pub fn set_waker(&self, wakes: Wakes) {
        assert!(self.ends.sender.set(wakes).is_ok(), "a sender has one waker");
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
                wake(&self.ends.sender);
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

    /// Whether all was taken and nothing will come any more.
    pub fn is_closed(&self) -> bool {
        // In this order: what was put in before the sender left is seen.
        self.ring.is_abandoned() && self.ring.is_empty() && self.taken.is_empty()
    }

    /// Says who is to be woken when there is something to take, or nothing will come any more.
    pub fn set_waker(&self, wakes: Wakes) {
        assert!(self.ends.receiver.set(wakes).is_ok(), "a receiver has one waker");
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Leave the ring first: whoever is woken must see that nothing will come any more.
        self.ring = RingBuffer::new(1).0;
        wake(&self.ends.receiver);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ring = RingBuffer::new(1).1;
        wake(&self.ends.sender);
    }
}

fn wake(end: &OnceLock<Wakes>) {
    match end.get() {
        Some(Wakes::Task(task)) => task.wake(),
        Some(Wakes::Thread(thread)) => thread.unpark(),
        None => {}
    }
}
