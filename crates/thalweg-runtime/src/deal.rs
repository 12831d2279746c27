//! Batches are dealt to the instances of a stage in turn, and what these make of them is taken in the same turn.
//!
//! ```text
//!              ┌─► instance 0 ─┐  rows of batch 0, end of the turn, rows of batch 3, …
//!   dealer ────┼─► instance 1 ─┼──► taken in turn: rows of batch 0, of batch 1, of batch 2, …
//!              └─► instance 2 ─┘
//! ```
//!
//! An event that is no batch stands before the batch that is dealt next. The instance that will get this one passes it on. The others
//! need not hear of it, since they have no state, and what rows of one partition meet they carry with them (`Batch::behind`). Only where
//! the instances divide their rows by keys are all told: *aside* is what is told to those whose turn it is not, and who takes in turn does
//! not hear of it. So what is taken is, event by event, what one instance would have given. An error is taken in its turn, too.
//!
//! Nothing is stored but in the pipes. Whose turn has not come waits with a full pipe, and in the end the dealer waits. The one whose
//! turn it is has its batch, since all before it were taken and nobody who is told something aside waits to pass it on.

use std::collections::VecDeque;

use thalweg_core::{Error, Event, Port, Timestamp};

use crate::pipe::{Envelope, Place, Receiver, Sender, Wakes};

/// The end that deals.
pub struct Dealer {
    port: Port,
    lanes: Vec<Lane>,
    /// Who gets the next batch.
    next: usize,
    /// Whether all are told what is no batch.
    tells_all: bool,
    /// How far time has come.
    passed: Timestamp,
    is_idle: bool,
}

/// The pipe to one instance.
struct Lane {
    sender: Sender,
    /// What does not fit into it yet.
    waiting: VecDeque<Envelope>,
}

impl Dealer {
    /// A dealer of the batches of one output of a task, with a pipe to each instance. All are told what is no batch where
    /// somebody combines what they say of it.
    pub fn new(port: Port, senders: Vec<Sender>, tells_all: bool) -> Self {
        let lane = |sender| Lane { sender, waiting: VecDeque::new() };
        let lanes = senders.into_iter().map(lane).collect();
        Self { port, lanes, next: 0, tells_all, passed: Timestamp::MIN, is_idle: false }
    }

    /// The output whose batches it takes.
    pub fn port(&self) -> Port {
        self.port
    }

    /// The ends of the pipes.
    pub fn senders(&self) -> impl Iterator<Item = &Sender> {
        self.lanes.iter().map(|lane| &lane.sender)
    }

    /// Takes an event, which leaves as soon as there is room.
    pub fn put(&mut self, event: Event, arrived: u64) {
        match event {
            Event::Batch(_) => {
                if std::mem::take(&mut self.is_idle) {
                    // Those that do not get this batch would take no notice of the next silence.
                    self.tell(&Event::Watermark(self.passed), arrived);
                }
                self.lanes[self.next].waiting.push_back(Envelope::new(event, arrived).at(Place::Last));
                self.next = (self.next + 1) % self.lanes.len();
            }
            event => {
                match event {
                    Event::Watermark(t) => (self.passed, self.is_idle) = (self.passed.max(t), false),
                    Event::Idle => self.is_idle = true,
                    Event::Batch(_) | Event::Barrier(_) => {}
                }
                self.tell(&event, arrived);
            }
        }
    }

    /// The one that would get the next batch gets an error.
    pub fn fail(&mut self, error: Error, arrived: u64) {
        self.lanes[self.next].waiting.push_back(Envelope::end(Place::Failed(error), arrived));
    }

    /// Sends what can be sent; returns whether nothing waits for room any more.
    pub fn flush(&mut self) -> bool {
        let flush = |is_flushed, lane: &mut Lane| lane.flush() && is_flushed;
        self.lanes.iter_mut().fold(true, flush)
    }

    /// Whether nobody wants more.
    pub fn is_closed(&self) -> bool {
        self.lanes.iter().all(|lane| lane.sender.is_closed())
    }

    fn tell(&mut self, event: &Event, arrived: u64) {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let is_next = number == self.next;
            if is_next || self.tells_all {
                let place = if is_next { Place::Within } else { Place::Aside };
                lane.waiting.push_back(Envelope::new(event.clone(), arrived).at(place));
            }
        }
    }
}

impl Lane {
    fn flush(&mut self) -> bool {
        self.sender.push_all(&mut self.waiting);
        if self.sender.is_closed() {
            self.waiting.clear();
        }
        self.waiting.is_empty()
    }
}

/// The end at which the pipes of all instances are taken in turn; or one pipe of any kind.
pub struct InTurn {
    lanes: Vec<Receiver>,
    /// Whose turn it is.
    next: usize,
}

impl InTurn {
    /// The pipes, by instance.
    pub fn new(lanes: Vec<Receiver>) -> Self {
        assert!(!lanes.is_empty(), "somebody has the first turn");
        Self { lanes, next: 0 }
    }

    /// The pipes.
    pub fn lanes(&self) -> impl Iterator<Item = &Receiver> {
        self.lanes.iter()
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<Envelope> {
        let mut envelope = self.lanes[self.next].pop()?;
        if self.lanes.len() > 1 && !matches!(envelope.place, Place::Failed(_)) {
            // Who takes in turn has no turns.
            let is_last = matches!(std::mem::take(&mut envelope.place), Place::Last);
            self.next = (self.next + usize::from(is_last)) % self.lanes.len();
        }
        Some(envelope)
    }

    /// When what caused the next event arrived; `None` if there is no event.
    pub fn next_arrived(&self) -> Option<u64> {
        self.lanes[self.next].next_arrived()
    }

    /// Whether rows are what comes next.
    pub fn has_rows(&self) -> bool {
        self.lanes[self.next].has_rows()
    }

    /// Whether the one whose turn it is has something to do now. If so, the receiver is woken once it has not.
    pub fn is_at_work(&self) -> bool {
        self.lanes[self.next].is_at_work()
    }

    /// Whether all was taken and nothing will come any more: nothing was dealt to the one whose turn it is, nor to those behind.
    pub fn is_closed(&self) -> bool {
        self.lanes[self.next].is_closed()
    }

    /// Says who is to be woken when there is something to take, or nothing will come any more.
    pub fn set_waker(&self, mut wakes: impl FnMut() -> Wakes) {
        self.lanes.iter().for_each(|lane| lane.set_waker(wakes()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use thalweg_core::{Batch, Epoch};

    use super::*;
    use crate::pipe::pipe;

    /// A batch of numbers.
    fn batch(numbers: std::ops::Range<i64>) -> Event {
        let column = Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef;
        Event::Batch(Batch::new(RecordBatch::try_from_iter([("n", column)]).unwrap()))
    }

    fn words(event: &Event) -> String {
        match event {
            Event::Batch(batch) => format!("{:?}", batch.column(0).as_primitive::<Int64Type>().values().to_vec()),
            Event::Watermark(t) => format!("watermark {}", t.0),
            Event::Idle => "idle".to_string(),
            Event::Barrier(epoch) => format!("barrier {}", epoch.0),
        }
    }

    /// An instance that gives each number of a batch as a batch of its own, and nothing for batches of none.
    struct Instance {
        from: Receiver,
        to: Sender,
        waiting: VecDeque<Envelope>,
        heard: Vec<String>,
    }

    impl Instance {
        fn step(&mut self) {
            self.to.push_all(&mut self.waiting);
            let Some(envelope) = self.waiting.is_empty().then(|| self.from.pop()).flatten() else { return };
            self.heard.push(words(&envelope.event));
            match (envelope.event, envelope.place) {
                (_, Place::Aside) => {}
                (Event::Batch(batch), place) => {
                    for number in batch.column(0).as_primitive::<Int64Type>().values() {
                        self.waiting.push_back(Envelope::new(self::batch(*number..number + 1), 0));
                    }
                    assert!(matches!(place, Place::Last));
                    self.waiting.push_back(Envelope::end(place, 0));
                }
                (event, _) => self.waiting.push_back(Envelope::new(event, 0)),
            }
            self.to.push_all(&mut self.waiting);
        }
    }

    fn dealt(instances: usize, capacity: usize, tells_all: bool) -> (Dealer, Vec<Instance>, InTurn) {
        let (mut senders, mut all, mut receivers) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..instances {
            let ((sender, from), (to, receiver)) = (pipe(capacity), pipe(capacity));
            senders.push(sender);
            all.push(Instance { from, to, waiting: VecDeque::new(), heard: Vec::new() });
            receivers.push(receiver);
        }
        (Dealer::new(0, senders, tells_all), all, InTurn::new(receivers))
    }

    /// Batches of 0 to 3 numbers and what else may come between, and what one instance makes of it.
    fn story(random: &mut StdRng) -> (VecDeque<Event>, Vec<String>) {
        let (mut events, mut expected, mut number) = (VecDeque::new(), Vec::new(), 0);
        for step in 0..200 {
            let event = match random.random_range(0..6) {
                0 | 1 => {
                    let from = number;
                    number += random.random_range(0..4);
                    expected.extend((from..number).map(|number| format!("[{number}]")));
                    events.push_back(batch(from..number));
                    continue;
                }
                2 => Event::Idle,
                3 => Event::Barrier(Epoch(step)),
                _ => Event::Watermark(Timestamp(step as i64)),
            };
            expected.push(words(&event));
            events.push_back(event);
        }
        (events, expected)
    }

    #[test]
    fn what_is_taken_is_what_one_instance_gives_in_any_interleaving_and_with_pipes_of_any_size() {
        for seed in 0..300 {
            let random = &mut StdRng::seed_from_u64(seed);
            let (instances, capacity) = ([2, 3, 8, 17][seed as usize % 4], [1, 2, 8][seed as usize % 3]);
            let (mut dealer, mut all, mut taken) = dealt(instances, capacity, seed % 2 == 0);
            let (mut events, expected) = story(random);
            let (mut found, mut idle_steps, mut passed) = (Vec::new(), 0, Timestamp::MIN);
            while found.len() < expected.len() {
                let before = (events.len(), found.len(), all.iter().map(|i| i.heard.len()).sum::<usize>());
                match random.random_range(0..instances + 2) {
                    0 if dealer.flush() => {
                        if let Some(event) = events.pop_front() {
                            dealer.put(event, 0);
                        }
                    }
                    0 => {}
                    // That time has come as far as before is no news.
                    1 => match taken.pop().map(|envelope| envelope.event) {
                        Some(Event::Watermark(t)) if t <= passed => {}
                        Some(event) => {
                            passed = if let Event::Watermark(t) = event { t } else { passed };
                            found.push(words(&event));
                        }
                        None => {}
                    },
                    instance => all[instance - 2].step(),
                }
                let after = (events.len(), found.len(), all.iter().map(|i| i.heard.len()).sum::<usize>());
                idle_steps = if before == after { idle_steps + 1 } else { 0 };
                assert!(idle_steps < 10_000, "seed {seed}: nobody can go on, {} of {}", found.len(), expected.len());
            }
            assert_eq!(found, expected, "seed {seed}");
        }
    }

    #[test]
    fn what_is_no_batch_is_told_to_the_next_one_or_to_all() {
        for tells_all in [true, false] {
            let (mut dealer, mut all, _) = dealt(3, 8, tells_all);
            for event in [batch(0..1), Event::Watermark(Timestamp(1)), Event::Idle, batch(1..2), batch(2..3)] {
                dealer.put(event, 0);
            }
            assert!(dealer.flush());
            all.iter_mut().for_each(|instance| (0..8).for_each(|_| instance.step()));
            // Rows after a silence end it for all.
            assert_eq!(all[1].heard, ["watermark 1", "idle", "watermark 1", "[1]"]);
            let heard = if tells_all { &["watermark 1", "idle", "watermark 1", "[2]"][..] } else { &["[2]"] };
            assert_eq!(all[2].heard, heard);
            assert_eq!(all[0].heard.len(), if tells_all { 4 } else { 1 });
        }
    }

    #[test]
    fn an_error_is_taken_in_its_turn() {
        let (mut dealer, mut all, mut taken) = dealt(2, 8, false);
        dealer.put(batch(0..1), 0);
        dealer.fail(Error::query("no"), 0);
        assert!(dealer.flush());
        let failed = all[1].from.pop().unwrap();
        all[1].waiting.push_back(failed);
        all[1].step();
        assert!(taken.pop().is_none(), "the first batch comes before it");
        (0..2).for_each(|_| all[0].step());
        assert_eq!(words(&taken.pop().unwrap().open().unwrap()), "[0]");
        assert_eq!(words(&taken.pop().unwrap().event), words(&Event::Watermark(Timestamp::MIN)), "the end of the turn");
        assert_eq!(taken.pop().unwrap().open().unwrap_err().message(), "no");
    }
}
