//! One sender, one receiver, and a capacity between them; so pressure travels back to the sources by itself.

use std::{
    sync::{Arc, OnceLock},
    thread::Thread,
};

use rtrb::{Consumer, Producer, RingBuffer};
use thalweg_core::Event;

use crate::pool::TaskRef;

/// How many events a pipe holds.
pub const CAPACITY: usize = 8;

/// An event on its way, with the arrival that caused it in nanoseconds since the query's start.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The event.
    pub event: Event,
    /// When what caused it arrived.
    pub arrived: u64,
}

/// The end that puts events in.
pub struct Sender {
    ring: Producer<Envelope>,
    ends: Arc<Ends>,
}

/// The end that takes events out.
pub struct Receiver {
    ring: Consumer<Envelope>,
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

/// A pipe that holds [`CAPACITY`] events.
pub fn pipe() -> (Sender, Receiver) {
    let (producer, consumer) = RingBuffer::new(CAPACITY);
    let ends = Arc::new(Ends::default());
    (Sender { ring: producer, ends: Arc::clone(&ends) }, Receiver { ring: consumer, ends })
}

impl Sender {
    /// Puts an event in, or gives it back if the pipe is full.
    pub fn push(&mut self, envelope: Envelope) -> Result<(), Envelope> {
        let pushed = self.ring.push(envelope).map_err(|rtrb::PushError::Full(envelope)| envelope);
        if pushed.is_ok() {
            wake(&self.ends.receiver);
        }
        pushed
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
    /// Takes the next event.
    pub fn pop(&mut self) -> Option<Envelope> {
        let popped = self.ring.pop().ok();
        if popped.is_some() {
            wake(&self.ends.sender);
        }
        popped
    }

    /// When what caused the next event arrived; `None` if there is no event.
    pub fn next_arrived(&self) -> Option<u64> {
        self.ring.peek().ok().map(|envelope| envelope.arrived)
    }

    /// Whether all was taken and nothing will come any more.
    pub fn is_closed(&self) -> bool {
        // In this order: what was put in before the sender left is seen.
        self.ring.is_abandoned() && self.ring.is_empty()
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
