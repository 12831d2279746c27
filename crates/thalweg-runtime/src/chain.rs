//! The operators of one subquery, called one after the other on the same thread.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use thalweg_core::{
    Batch, Epoch, Event, Frontier, KeyGroup, Operator, Output, Part, Port, Progress, PutOff, Result, Snapshot, State,
    Timestamp,
};

use crate::{
    adapt::{
        table::{Move, What},
        team::Parcel,
    },
    metrics::NodeCounters,
    topology::{OnBarrier, OperatorParts},
};

/// Operators in a row, driven by a stack of what is still to be done.
///
/// What an operator puts out is taken through all operators behind it before the operator goes on; so a chain never holds
/// more than one call's output per operator.
pub struct Chain {
    links: Vec<Link>,
    work: Vec<Work>,
    out: Vec<(Port, Event)>,
    out_rows: usize,
    /// Operators before this one want nothing any more.
    first_alive: usize,
    /// The operator that is being called; still set after a call that panicked.
    running: Option<usize>,
    budget: usize,
    /// The key groups that are this instance's.
    key_groups: Vec<KeyGroup>,
    on_barrier: OnBarrier,
    calls: u64,
    rows_since: usize,
    bytes_since: usize,
    has_memory_limit: bool,
}

/// After how many rows at the latest a state is measured again.
const MEASURED_ROWS: usize = 4096;

/// After how many bytes of rows a state is measured again, where it may be too large.
const MEASURED_BYTES: usize = 4 << 20;

struct Link {
    parts: OperatorParts,
    operator: Box<dyn Operator>,
    output: Output,
    frontier: Frontier,
    passed: Timestamp,
    counters: Arc<NodeCounters>,
    /// Whether it is the first operator of its node.
    is_first: bool,
    /// Whether it is the last operator of its node.
    is_last: bool,
}

enum Work {
    /// An event arrives at an operator, or behind the last.
    Deliver(usize, Port, Event),
    /// An operator continues its last call.
    Resume(usize),
    /// An operator is done with a change of time, which passes on.
    PassTime(usize),
    /// An operator puts out what it holds back.
    Flush(usize),
    /// An operator does some of what it has put off.
    CatchUp(usize),
    /// An operator has put out what belongs before a barrier, which passes on.
    PassBarrier(usize, Epoch),
}

impl Work {
    /// The operator that has it.
    fn at(&self) -> usize {
        match self {
            Self::Deliver(at, ..) | Self::Resume(at) | Self::PassTime(at) | Self::Flush(at) | Self::CatchUp(at) => *at,
            Self::PassBarrier(at, _) => *at,
        }
    }
}

impl Chain {
    /// Makes the operators; the first has `ports` ports, and their state is that of these key groups. An operator's call may put out about `budget` rows.
    pub fn new(
        parts: Vec<OperatorParts>,
        counters: Vec<Arc<NodeCounters>>,
        ports: usize,
        budget: usize,
        key_groups: Vec<KeyGroup>,
        on_barrier: OnBarrier,
        memory_limit: Option<usize>,
    ) -> Result<Self> {
        let mut links: Vec<Link> = Vec::new();
        for (number, (parts, counters)) in parts.into_iter().zip(counters).enumerate() {
            let operator = (parts.make)().map_err(|error| error.in_node(&parts.blamed))?;
            let frontier = Frontier::new(if number == 0 { ports } else { 1 });
            let output = Output::new(budget).with_memory_limit(memory_limit);
            let is_first = links.last().is_none_or(|before| before.parts.label != parts.label);
            if let Some(before) = links.last_mut() {
                before.is_last = is_first;
            }
            let passed = Timestamp::MIN;
            if let Some(made_of) = operator.searches() {
                counters.made_of.get_or_init(|| made_of);
            }
            links.push(Link { parts, operator, output, frontier, passed, counters, is_first, is_last: true });
        }
        let (work, out) = (Vec::new(), Vec::new());
        let unwanted = links.iter().rposition(|link| link.operator.wants_nothing());
        let mut chain = Self {
            links,
            work,
            out,
            out_rows: 0,
            first_alive: 0,
            running: None,
            budget,
            key_groups,
            on_barrier,
            calls: 0,
            rows_since: 0,
            bytes_since: 0,
            has_memory_limit: memory_limit.is_some(),
        };
        // Its input may be silent for ever.
        unwanted.into_iter().for_each(|at| chain.finish(at));
        Ok(chain)
    }

    /// Whether one of the operators looks for rows that belong to others.
    pub fn searches(&self) -> bool {
        self.links.iter().any(|link| link.operator.searches().is_some())
    }

    /// Hands an event to the first operator. Call [`Chain::advance`] until it is done.
    pub fn deliver(&mut self, port: Port, event: Event) {
        self.work.push(Work::Deliver(0, port, event));
    }

    /// Works until all is done (`true`), the budget of rows behind the last operator is spent, or an operator wants to go on for the second
    /// time: whoever looks at much and puts out little, or into an operator that keeps it, is stopped, too, and lets others work.
    pub fn advance(&mut self) -> Result<bool> {
        let mut went_on = false;
        while self.out_rows < self.budget {
            let Some(work) = self.work.pop() else { return Ok(true) };
            match work {
                work if work.at() < self.first_alive => {}
                Work::Deliver(at, port, event) if at == self.links.len() => self.put_out(port, event),
                Work::Deliver(at, port, event) => self.receive(at, port, event)?,
                Work::Resume(at) if std::mem::replace(&mut went_on, true) => {
                    self.work.push(Work::Resume(at));
                    return Ok(false);
                }
                Work::Resume(at) => self.call(at, 0, |operator, _, output| operator.resume(output))?,
                Work::PassTime(at) => self.pass_time(at),
                Work::Flush(at) => self.call(at, 0, |operator, _, output| operator.flush(output))?,
                Work::CatchUp(at) => {
                    // It may let time pass then.
                    self.work.push(Work::PassTime(at));
                    self.call(at, 0, |operator, _, output| operator.catch_up(output))?;
                }
                Work::PassBarrier(at, epoch) => {
                    if self.on_barrier == OnBarrier::Reload {
                        self.reload(at)?;
                    }
                    self.work.push(Work::Deliver(at + 1, 0, Event::Barrier(epoch)));
                }
            }
        }
        Ok(self.work.is_empty())
    }

    /// What operators do when there is nothing else to do.
    pub fn put_off(&self) -> PutOff {
        self.links[self.first_alive..].iter().map(|link| link.operator.put_off()).max().unwrap_or(PutOff::Nothing)
    }

    /// Nothing else is to be done: does some of what was put off, and of what may wait for longer if nothing else was. Call [`Chain::advance`] until
    /// that is done.
    pub fn catch_up(&mut self) {
        let least = self.put_off().min(PutOff::Now(0));
        let is_late = |at: &usize| least > PutOff::Nothing && self.links[*at].operator.put_off() >= least;
        self.work.extend((self.first_alive..self.links.len()).filter(is_late).map(Work::CatchUp));
    }

    /// Puts out all that is held back. Call [`Chain::advance`] until that is done.
    pub fn flush(&mut self) {
        self.work.extend((self.first_alive..self.links.len()).rev().map(Work::Flush));
    }

    /// Whether there is something left to be done.
    pub fn is_busy(&self) -> bool {
        !self.work.is_empty()
    }

    /// How far time has come over all ports.
    pub fn reached(&self) -> Timestamp {
        self.links.first().map_or(Timestamp::MIN, |link| link.frontier.combined())
    }

    /// Time has come so far over all ports in any case. Call [`Chain::advance`] until what follows is done.
    ///
    /// Errors: what an operator gives.
    pub fn raise(&mut self, level: Timestamp) -> Result<()> {
        let first = self.links.first_mut().filter(|_| self.first_alive == 0);
        if first.is_some_and(|link| link.frontier.raise(level)) { self.time_moved(0) } else { Ok(()) }
    }

    /// Whether the input has ended, so that all that is left is to bring out what was held.
    pub fn is_at_end(&self) -> bool {
        self.links.first().is_some_and(|link| link.frontier.combined() == Timestamp::MAX)
    }

    /// Whether something came out behind the last operator since it was last taken.
    pub fn has_put_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// What came out behind the last operator since last asked, by output. Only batches are for one output; other events are
    /// for all.
    pub fn take_out(&mut self) -> Vec<(Port, Event)> {
        self.out_rows = 0;
        std::mem::take(&mut self.out)
    }

    /// Takes what moves to other instances out of the states of all operators, or copies what stays too. All was done that is to be done
    /// with what came before.
    ///
    /// Errors: what saving a state gives, with the node's name.
    pub fn give(&mut self, moves: &[Move]) -> Result<Vec<Parcel>> {
        let (whole, parts): (Vec<Move>, Vec<Move>) = moves.iter().partition(|one| one.what == What::All);
        let left: Vec<KeyGroup> = parts.iter().filter(|one| one.what == What::Waiting).map(|one| one.group).collect();
        let groups: Vec<KeyGroup> = whole.iter().map(|one| one.group).collect();
        self.key_groups.retain(|group| !groups.contains(group) && !left.contains(group));
        let parcel = |one: &Move| Parcel { group: one.group, to: one.to, what: one.what, states: Vec::new() };
        let mut parcels: Vec<Parcel> = whole.iter().chain(&parts).map(parcel).collect();
        self.each_state(|at, state| {
            let mut saved = state.take(&groups)?;
            // What several get is saved once.
            let mut copies: HashMap<(KeyGroup, What), Snapshot> = HashMap::new();
            for Move { group, what, .. } in &parts {
                let part = if *what == What::Seen { Part::Seen } else { Part::Waiting };
                let copy = match copies.entry((*group, *what)) {
                    Entry::Occupied(copy) => copy.get().clone(),
                    Entry::Vacant(none) => none.insert(state.save_part(*group, part)?).clone(),
                };
                saved.push(copy);
            }
            left.iter().try_for_each(|group| state.forget(*group))?;
            let taken = parcels.iter_mut().zip(saved).filter(|(_, saved)| !saved.is_empty());
            taken.for_each(|(parcel, saved)| parcel.states.push((at, saved)));
            Ok(())
        })?;
        Ok(parcels)
    }

    /// Takes in what another instance gave; these key groups are its own from now on.
    ///
    /// Errors: what loading a state gives, with the node's name.
    pub fn take(&mut self, parcels: Vec<Parcel>, key_groups: Vec<KeyGroup>) -> Result<()> {
        self.key_groups = key_groups;
        self.each_state(|at, state| {
            for Parcel { group, states, .. } in &parcels {
                for (_, saved) in states.iter().filter(|(place, _)| *place == at) {
                    state.load(*group, saved)?;
                }
            }
            Ok(())
        })
    }

    /// Does something with the state of each operator that still wants rows.
    fn each_state(&mut self, mut with: impl FnMut(usize, &mut dyn State) -> Result<()>) -> Result<()> {
        for at in self.first_alive..self.links.len() {
            let link = &mut self.links[at];
            let Some(state) = link.operator.state() else { continue };
            self.running = Some(at);
            with(at, state).map_err(|error| error.in_node(&link.parts.blamed))?;
            let bytes = state.bytes();
            link.counters.state_bytes.store(bytes, Relaxed);
            link.counters.most_state_bytes.fetch_max(bytes, Relaxed);
        }
        self.running = None;
        Ok(())
    }

    /// The node whose operator is being called, or panicked when it was.
    pub fn running(&self) -> Option<&str> {
        self.running.map(|at| self.links[at].parts.blamed.as_str())
    }

    /// Notes what each operator still holds, when the query is stopped before its end.
    pub fn note_held(&mut self) {
        for link in &mut self.links {
            if let Some(state) = link.operator.state() {
                *link.counters.held.lock() = state.held();
            }
        }
    }

    fn put_out(&mut self, port: Port, event: Event) {
        if let Event::Batch(batch) = &event {
            self.out_rows += batch.len();
        }
        self.out.push((port, event));
    }

    fn receive(&mut self, at: usize, port: Port, event: Event) -> Result<()> {
        let frontier = &mut self.links[at].frontier;
        match event {
            Event::Batch(batch) => {
                frontier.wake(port);
                // A row that several instances have is one row.
                let rows = batch.own().len();
                if self.has_memory_limit {
                    self.bytes_since += batch.columns().get_array_memory_size();
                }
                self.call(at, rows, |operator, _, output| operator.on_batch(port, batch, output))
            }
            Event::Watermark(_) | Event::Idle => {
                let moved = match event {
                    Event::Watermark(t) => frontier.advance(port, t),
                    _ => frontier.idle(port),
                };
                if frontier.is_idle() {
                    self.work.push(Work::Deliver(at + 1, 0, Event::Idle));
                    self.work.push(Work::Flush(at));
                }
                if moved { self.time_moved(at) } else { Ok(()) }
            }
            Event::Barrier(epoch) => {
                self.work.extend([Work::PassBarrier(at, epoch), Work::Flush(at)]);
                Ok(())
            }
        }
    }

    fn time_moved(&mut self, at: usize) -> Result<()> {
        self.work.push(Work::PassTime(at));
        self.call(at, 0, |operator, frontier, output| operator.on_time(frontier, output))
    }

    /// Calls an operator, and notes what is to be done with what it put out: first that, then the rest of the call.
    fn call(
        &mut self,
        at: usize,
        rows_in: usize,
        call: impl FnOnce(&mut dyn Operator, &Frontier, &mut Output) -> Result<Progress>,
    ) -> Result<()> {
        self.running = Some(at);
        let link = &mut self.links[at];
        let started = link.counters.is_timed.then(Instant::now);
        let progress = call(link.operator.as_mut(), &link.frontier, &mut link.output)
            .map_err(|error| error.in_node(&link.parts.blamed))?;
        self.running = None;
        let batches = link.output.take(self.budget);
        let rows: usize = batches.iter().map(|(_, batch)| batch.len()).sum();
        let counters = &link.counters;
        if let Some(started) = started {
            counters.nanos.fetch_add(started.elapsed().as_nanos() as u64, Relaxed);
        }
        counters.rows_in.fetch_add(if link.is_first { rows_in as u64 } else { 0 }, Relaxed);
        counters.rows_out.fetch_add(if link.is_last { rows as u64 } else { 0 }, Relaxed);
        link.counters.late_rows.fetch_add(link.output.take_late(), Relaxed);
        if counters.made_of.get().is_some() {
            counters.searched.lock().add(link.output.take_search(), rows as u64);
            if let Some(told) = link.output.take_told() {
                *counters.told.lock() = Some(told);
            }
        }
        self.calls += 1;
        // Asking for the size of a state takes a walk over its parts, so it is not asked for after every small batch.
        self.rows_since += rows_in;
        let is_much = self.rows_since >= MEASURED_ROWS || self.bytes_since >= MEASURED_BYTES;
        // Who is not done may have very much at hand.
        let is_busy = progress == Progress::More && self.calls.is_multiple_of(4);
        if (self.calls < 16 || is_much || is_busy || self.calls.is_multiple_of(16))
            && let Some(state) = link.operator.state()
        {
            let bytes = state.bytes();
            link.counters.state_bytes.store(bytes, Relaxed);
            link.counters.most_state_bytes.fetch_max(bytes, Relaxed);
            (self.rows_since, self.bytes_since) = (0, 0);
        }
        match progress {
            Progress::Done => {}
            Progress::More => self.work.push(Work::Resume(at)),
            Progress::Finished => self.finish(at),
        }
        let deliver = |(port, batch): (Port, Batch)| Work::Deliver(at + 1, port, Event::Batch(batch));
        self.work.extend(batches.into_iter().rev().map(deliver));
        Ok(())
    }

    /// The operator wants nothing more: for those behind it, this is the end of the stream.
    fn finish(&mut self, at: usize) {
        self.first_alive = at + 1;
        self.work.push(Work::Deliver(at + 1, 0, Event::Watermark(Timestamp::MAX)));
    }

    fn pass_time(&mut self, at: usize) {
        let link = &mut self.links[at];
        let t = link.frontier.combined().min(link.output.held_at());
        if t > link.passed {
            link.passed = t;
            self.work.push(Work::Deliver(at + 1, 0, Event::Watermark(t)));
        }
    }

    fn reload(&mut self, at: usize) -> Result<()> {
        let link = &mut self.links[at];
        let Some(state) = link.operator.state() else { return Ok(()) };
        let mut saved = Vec::new();
        for group in &self.key_groups {
            // As bytes, as a fresh process would find them.
            saved.push((*group, state.save(*group)?.to_bytes()?));
        }
        let mut fresh = (link.parts.make)()?;
        if let Some(state) = fresh.state() {
            for (group, bytes) in saved.iter().filter(|(_, bytes)| !bytes.is_empty()) {
                state.load(*group, &Snapshot::from_bytes(bytes)?)?;
            }
        }
        link.operator = fresh;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::metrics::Counters;

    /// Goes on so many times, and puts out nothing.
    struct Long(usize);

    impl Operator for Long {
        fn on_batch(&mut self, _: Port, _: Batch, _: &mut Output) -> Result<Progress> {
            Ok(Progress::Done)
        }

        fn on_time(&mut self, _: &Frontier, out: &mut Output) -> Result<Progress> {
            self.resume(out)
        }

        fn resume(&mut self, _: &mut Output) -> Result<Progress> {
            self.0 = self.0.saturating_sub(1);
            Ok(if self.0 > 0 { Progress::More } else { Progress::Done })
        }
    }

    #[test]
    fn who_works_for_long_and_puts_out_nothing_stops_in_between() {
        let make = || -> Result<Box<dyn Operator>> { Ok(Box::new(Long(10))) };
        let parts = OperatorParts { label: "Long".to_string(), blamed: "Long".to_string(), make: Arc::new(make) };
        let counters = vec![Counters::default().node("Long")];
        let mut chain = Chain::new(vec![parts], counters, 1, 100, Vec::new(), OnBarrier::Pass, None).unwrap();
        chain.deliver(0, Event::Watermark(Timestamp(5)));
        let mut stops = 0;
        while !chain.advance().unwrap() {
            stops += 1;
            assert!(!chain.has_put_out(), "time does not pass before all is done");
        }
        // The first call and the one that goes on with it follow each other.
        assert_eq!(stops, 8);
        assert!(matches!(chain.take_out()[..], [(0, Event::Watermark(Timestamp(5)))]));
    }

    #[test]
    fn time_comes_as_far_as_it_has_for_others() {
        let make = || -> Result<Box<dyn Operator>> { Ok(Box::new(Long(1))) };
        let parts = OperatorParts { label: "Long".to_string(), blamed: "Long".to_string(), make: Arc::new(make) };
        let counters = vec![Counters::default().node("Long")];
        let mut chain = Chain::new(vec![parts], counters, 2, 100, Vec::new(), OnBarrier::Pass, None).unwrap();
        let passed = |chain: &mut Chain| {
            assert!(chain.advance().unwrap());
            chain.take_out().into_iter().map(|(_, event)| format!("{event:?}")).collect::<Vec<_>>()
        };
        chain.deliver(0, Event::Watermark(Timestamp(9)));
        chain.deliver(1, Event::Watermark(Timestamp(5)));
        assert_eq!(passed(&mut chain), ["Watermark(Timestamp(5))"]);
        // For others the second port was silent before the first one was.
        chain.raise(Timestamp(9)).unwrap();
        assert_eq!((passed(&mut chain), chain.reached()), (vec!["Watermark(Timestamp(9))".to_string()], Timestamp(9)));
        chain.raise(Timestamp(8)).unwrap();
        chain.deliver(1, Event::Watermark(Timestamp(7)));
        assert_eq!(passed(&mut chain), [""; 0]);
    }
}
