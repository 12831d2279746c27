//! How an instance gives and takes key groups at a barrier.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use thalweg_core::{Epoch, Event, Result};

use super::{team::Team, waiting::Waiting};
use crate::{
    chain::Chain,
    clock::Clock,
    intake::{Pipes, Taken},
    pool::TaskRef,
    topology::KeyParts,
};

/// One of the instances among which rows are divided by keys.
pub struct Member {
    team: Arc<Team>,
    number: usize,
    keys: Arc<[KeyParts]>,
    clock: Clock,
    /// What goes on at a barrier that has arrived on all inputs.
    handover: Option<(Epoch, Phase)>,
    /// When what was last taken in arrived.
    arrived: u64,
}

/// What is next.
enum Phase {
    /// All who give or take are waited for, since then, and then time is made the same.
    Level(Instant),
    /// It puts out what was put off.
    Flush,
    /// It gives.
    Give,
    /// It takes, once all is there. Meanwhile rows go on whose states it has.
    Take(Waiting),
}

impl Member {
    /// The member of a team with this number.
    ///
    /// Its rows are divided by these keys, by port.
    pub fn new(team: Arc<Team>, number: usize, keys: Arc<[KeyParts]>, task: TaskRef, clock: Clock) -> Self {
        team.join(number, task);
        Self { team, number, keys, clock, handover: None, arrived: 0 }
    }

    /// When work begins.
    pub fn begin(&self) -> Instant {
        self.clock.now()
    }

    /// Notes work that began then; returns how long it took.
    pub fn end(&self, began: Instant) -> Duration {
        let time = self.clock.now().saturating_duration_since(began);
        self.team.worked(self.number, time);
        time
    }

    /// Takes the next events, as [`Pipes::take`] does, when the chain has nothing to do. At a barrier where key groups change hands
    /// it gives what it loses, and the barrier passes; then only rows are taken, and those wait of which the states are on their way.
    /// Time goes on when all states are there.
    ///
    /// Time is made the same first. Where a source was idle, one member may have heard first of it, and another first of the next
    /// watermark. The windows of one who had come less far would be behind what the new owner has promised; and those of the
    /// owner's other groups would seem to be emitted.
    pub fn take(&mut self, pipes: &mut Pipes, chain: &mut Chain) -> Result<Taken> {
        match self.handover.take() {
            None => self.next(pipes, chain),
            Some((epoch, Phase::Level(since))) => self.level(epoch, since, pipes, chain),
            Some((epoch, Phase::Flush)) => {
                chain.flush();
                self.handover = Some((epoch, Phase::Give));
                Ok(Taken::Events(Vec::new(), self.arrived))
            }
            Some((epoch, Phase::Give)) => self.give(epoch, chain),
            Some((epoch, Phase::Take(waiting))) => self.gain(epoch, waiting, pipes, chain),
        }
    }

    /// The next events, where no key group is on its way.
    fn next(&mut self, pipes: &mut Pipes, chain: &mut Chain) -> Result<Taken> {
        let taken = pipes.take()?;
        let Taken::Events(events, arrived) = &taken else { return Ok(taken) };
        if let [(_, Event::Barrier(epoch))] = events[..]
            && self.team.arrive(epoch, self.number, || [pipes.reached(), vec![chain.reached()]].concat())
        {
            return self.level(epoch, self.clock.now(), pipes, chain);
        }
        self.arrived = *arrived;
        Ok(taken)
    }

    /// Makes time the same: by port, and over all of them. Of two ports that fall silent one after the other it depends on which is the first
    /// how far time comes, and one member may have heard first of this one, and another first of that one.
    fn level(&mut self, epoch: Epoch, since: Instant, pipes: &mut Pipes, chain: &mut Chain) -> Result<Taken> {
        let Some(level) = self.team.level(epoch) else {
            self.handover = Some((epoch, Phase::Level(since)));
            return Ok(Taken::Nothing(None));
        };
        self.team.met(self.clock.now().saturating_duration_since(since));
        self.handover = Some((epoch, Phase::Flush));
        if let Some((combined, ports)) = level.split_last() {
            let events = pipes.raise(ports);
            chain.raise(*combined)?;
            return Ok(Taken::Events(events, self.arrived));
        }
        Ok(Taken::Events(Vec::new(), self.arrived))
    }

    fn give(&mut self, epoch: Epoch, chain: &mut Chain) -> Result<Taken> {
        let (began, gifts) = (self.clock.now(), self.team.gifts(epoch, self.number));
        self.team.give(epoch, self.number, chain.give(&gifts)?);
        self.team.moved(gifts.len(), self.clock.now().saturating_duration_since(began));
        let gains = self.team.gains(epoch, self.number);
        let waiting = Waiting::new(Arc::clone(&self.keys), self.team.groups(), &gains);
        self.handover = Some((epoch, Phase::Take(waiting)));
        // The barrier passes with the state of all groups but those that are on their way, which are as their givers had them here.
        Ok(Taken::Events(vec![(0, Event::Barrier(epoch))], 0))
    }

    fn gain(&mut self, epoch: Epoch, waiting: Waiting, pipes: &mut Pipes, chain: &mut Chain) -> Result<Taken> {
        let Some((parcels, owned)) = self.team.take(epoch, self.number) else {
            return self.take_rows(epoch, waiting, pipes);
        };
        let began = self.clock.now();
        chain.take(parcels, owned)?;
        self.team.moved(0, self.clock.now().saturating_duration_since(began));
        self.team.go_on(waiting.rows(), waiting.bytes());
        Ok(Taken::Events(waiting.end(), self.arrived))
    }

    /// Takes rows that need not wait, while others do.
    fn take_rows(&mut self, epoch: Epoch, mut waiting: Waiting, pipes: &mut Pipes) -> Result<Taken> {
        let mut taken = Taken::Nothing(None);
        while !waiting.is_full()
            && let Some((port, batch, arrived)) = pipes.take_rows()?
        {
            let before = waiting.bytes();
            let others = waiting.part(port, batch)?;
            self.team.wait(waiting.bytes() - before);
            if let Some(others) = others {
                self.arrived = arrived;
                taken = Taken::Events(vec![(port, Event::Batch(others))], arrived);
                break;
            }
        }
        self.handover = Some((epoch, Phase::Take(waiting)));
        Ok(taken)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It takes part in nothing any more: nobody may wait for it.
        self.team.leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use arrow_array::{cast::AsArray, types::Int64Type};
    use parking_lot::Mutex;
    use thalweg_core::{
        Batch, Error, Frontier, KeyGroup, KeyGroups, Operator, Output, Port, Progress, Snapshot, State, Timestamp,
    };
    use thalweg_shuffle::route::hash::ByKeyGroup;

    use super::*;
    use crate::{
        adapt::{table::Table, waiting::testing},
        deal::InTurn,
        intake::Inlet,
        metrics::Counters,
        nodes::Nodes,
        pipe::{CAPACITY, Envelope, Sender, pipe},
        pool::Pool,
        topology::{OnBarrier, OperatorParts},
    };

    const LOST: KeyGroup = KeyGroup(3);

    /// Notes how far time comes, and what is asked of its state. Of an owner that fails, nothing is to be had.
    struct Noting {
        notes: Arc<Mutex<Vec<String>>>,
        fails: bool,
    }

    impl Operator for Noting {
        fn on_batch(&mut self, _: Port, batch: Batch, _: &mut Output) -> Result<Progress> {
            let numbers = batch.rows().map(|row| batch.column(0).as_primitive::<Int64Type>().value(row));
            self.notes.lock().push(format!("rows {:?}", numbers.collect::<Vec<_>>()));
            Ok(Progress::Done)
        }

        fn on_time(&mut self, frontier: &Frontier, _: &mut Output) -> Result<Progress> {
            self.notes.lock().push(format!("time {}", frontier.combined().0));
            Ok(Progress::Done)
        }

        fn flush(&mut self, _: &mut Output) -> Result<Progress> {
            self.notes.lock().push("flush".to_string());
            Ok(Progress::Done)
        }

        fn state(&mut self) -> Option<&mut dyn State> {
            Some(self)
        }
    }

    impl State for Noting {
        fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
            if self.fails {
                return Err(Error::environment("the state is broken"));
            }
            self.notes.lock().push(format!("save {}", group.0));
            let mut snapshot = Snapshot::new(1);
            snapshot.number(7);
            Ok(snapshot)
        }

        fn load(&mut self, group: KeyGroup, snapshot: &Snapshot) -> Result<()> {
            self.notes.lock().push(format!("load {} {}", group.0, snapshot.read(1)?.number()?));
            Ok(())
        }

        fn forget(&mut self, group: KeyGroup) -> Result<()> {
            self.notes.lock().push(format!("forget {}", group.0));
            Ok(())
        }

        fn bytes(&self) -> usize {
            0
        }
    }

    /// A member with its chain and a pipe for each port.
    struct Instance {
        member: Member,
        pipes: Pipes,
        chain: Chain,
        senders: Vec<Sender>,
        notes: Arc<Mutex<Vec<String>>>,
    }

    impl Instance {
        fn new(team: &Arc<Team>, number: usize, fails: bool) -> Self {
            Self::with_ports(team, number, fails, 1)
        }

        fn with_ports(team: &Arc<Team>, number: usize, fails: bool, ports: usize) -> Self {
            let notes: Arc<Mutex<Vec<String>>> = Arc::default();
            let for_operators = Arc::clone(&notes);
            let make = move || -> Result<Box<dyn Operator>> {
                Ok(Box::new(Noting { notes: Arc::clone(&for_operators), fails }))
            };
            let parts =
                OperatorParts { label: "Noting".to_string(), blamed: "Noting".to_string(), make: Arc::new(make) };
            let counters = vec![Counters::default().node("Noting")];
            let chain = Chain::new(vec![parts], counters, ports, 100, Vec::new(), OnBarrier::Pass, None).unwrap();
            let inlet = |port| {
                let (sender, receiver) = pipe(CAPACITY);
                (sender, Inlet { port, receiver: InTurn::new(vec![receiver]), is_of_team: false })
            };
            let (senders, inlets) = (0..ports).map(inlet).unzip();
            let pipes = Pipes::new(inlets, vec![None; ports], 100, None);
            let task = Pool::new(0, Nodes::one()).unwrap().reserve(0, 1);
            let member = Member::new(Arc::clone(team), number, testing::keys(), task, Clock::simulated());
            Self { member, pipes, chain, senders, notes }
        }

        fn send(&mut self, events: impl IntoIterator<Item = Event>) {
            self.send_to(0, events);
        }

        fn send_to(&mut self, port: Port, events: impl IntoIterator<Item = Event>) {
            let envelope = |event| Envelope::new(event, 1);
            self.senders[port].push_all(&mut events.into_iter().map(envelope).collect::<VecDeque<_>>());
        }

        /// Goes on until there is nothing to do; returns whether key groups are on their way to it, or it waits for somebody.
        fn go_on(&mut self) -> Result<bool> {
            while self.step()? {}
            Ok(self.member.handover.is_some())
        }

        /// Takes once, and does what that makes to be done; returns whether there was something to take.
        fn step(&mut self) -> Result<bool> {
            let taken = self.member.take(&mut self.pipes, &mut self.chain)?;
            let Taken::Events(events, _) = taken else { return Ok(false) };
            events.into_iter().rev().for_each(|(port, event)| self.chain.deliver(port, event));
            assert!(self.chain.advance()?, "nothing is put out");
            Ok(true)
        }

        fn notes(&self) -> Vec<String> {
            std::mem::take(&mut *self.notes.lock())
        }
    }

    /// Two members, of which one loses a group to the other at barrier 1; a third one has nothing to do with it.
    fn team() -> Arc<Team> {
        team_with(Arc::default())
    }

    fn team_with(counters: Arc<Counters>) -> Arc<Team> {
        let groups = KeyGroups::new(6).unwrap();
        let team = Team::new("Noting".to_string(), groups, 3, counters);
        let mut table = Table::even(groups, 3);
        table.give(LOST, 0);
        team.plan(Epoch(1), table);
        Arc::new(team)
    }

    fn up_to(t: i64) -> [Event; 2] {
        [Event::Watermark(Timestamp(t)), Event::Barrier(Epoch(1))]
    }

    #[test]
    fn who_has_come_less_far_catches_up_before_it_gives() {
        let team = team();
        let [mut gains, mut loses, mut other] = [0, 1, 2].map(|number| Instance::new(&team, number, false));
        other.send(up_to(5));
        assert!(!other.go_on().unwrap(), "it waits for nobody");
        gains.send(up_to(200).into_iter().chain([Event::Watermark(Timestamp(210))]));
        assert!(gains.go_on().unwrap());
        assert_eq!(gains.notes(), ["time 200"], "nothing behind the barrier is taken");
        // It hears of no time but what the other has reached.
        loses.send(up_to(70).into_iter().chain([150, 220].map(|t| Event::Watermark(Timestamp(t)))));
        assert!(!loses.go_on().unwrap());
        assert_eq!(loses.notes(), ["time 70", "time 200", "flush", "save 3", "forget 3", "flush", "time 220"]);
        assert!(!gains.go_on().unwrap());
        assert_eq!(gains.notes(), ["flush", "flush", "load 3 7", "time 210"]);
        assert!(!team.is_changing());
    }

    /// Of two inputs that fall silent, the one that is behind holds time back if it is the last: by port both members have come equally far.
    #[test]
    fn who_has_heard_of_two_silences_the_other_way_round_catches_up() {
        let team = team();
        let [mut gains, mut loses] = [0, 1].map(|number| Instance::with_ports(&team, number, false, 2));
        for (instance, is_behind_first) in [(&mut gains, true), (&mut loses, false)] {
            instance.send_to(0, [Event::Watermark(Timestamp(90))]);
            instance.send_to(1, [Event::Watermark(Timestamp(50))]);
            instance.go_on().unwrap();
            for port in if is_behind_first { [1, 0] } else { [0, 1] } {
                instance.send_to(port, [Event::Idle]);
                instance.go_on().unwrap();
            }
        }
        assert_eq!(gains.notes(), ["time 50", "time 90", "flush"]);
        assert_eq!(loses.notes(), ["time 50", "flush"]);
        for instance in [&mut gains, &mut loses] {
            (0..2).for_each(|port| instance.send_to(port, [Event::Barrier(Epoch(1))]));
            assert_eq!(instance.pipes.reached(), [90, 50].map(Timestamp));
            instance.go_on().unwrap();
        }
        assert_eq!(loses.notes(), ["time 90", "flush", "save 3", "forget 3", "flush"]);
        assert!(!gains.go_on().unwrap());
        assert_eq!(gains.notes(), ["flush", "flush", "load 3 7"]);
        // What comes behind that time does not take it back, and it goes on from there for both.
        for instance in [&mut gains, &mut loses] {
            instance.send_to(1, [70, 95].map(|t| Event::Watermark(Timestamp(t))));
            instance.go_on().unwrap();
            assert_eq!(instance.notes(), ["time 95"]);
        }
    }

    #[test]
    fn while_a_state_is_on_its_way_its_rows_wait_and_all_others_go_on() {
        let counters = Arc::<Counters>::default();
        let team = team_with(Arc::clone(&counters));
        let [mut gains, mut loses] = [0, 1].map(|number| Instance::new(&team, number, false));
        gains.send(up_to(200));
        gains.go_on().unwrap();
        loses.send(up_to(200));
        // The other has arrived, but not given.
        (0..3).for_each(|_| assert!(loses.step().unwrap()));
        assert_eq!(loses.notes(), ["time 200"]);
        let numbers = testing::batch(0..20);
        let groups = ByKeyGroup::new(vec![0], team.groups(), 6).owners(&numbers).unwrap();
        let of = |is_lost: bool| -> Vec<_> { (0..20).filter(|n| (groups[*n] == 3) == is_lost).collect() };
        gains.send([Event::Batch(numbers), Event::Watermark(Timestamp(210)), Event::Batch(testing::batch(20..21))]);
        assert!(gains.go_on().unwrap());
        assert_eq!(
            gains.notes(),
            ["time 200".to_string(), "flush".to_string(), "flush".to_string(), format!("rows {:?}", of(false))]
        );
        assert!(counters.state().0 > 0, "what waits counts");
        loses.go_on().unwrap();
        assert!(!gains.go_on().unwrap());
        let waited = format!("rows {:?}", of(true));
        assert_eq!(gains.notes(), ["load 3 7", &waited, "time 210", "rows [20]"]);
        assert_eq!((counters.state().0, counters.snapshot().waited_rows), (0, of(true).len() as u64));
    }

    #[test]
    fn a_state_on_its_way_counts_until_it_is_taken() {
        let counters = Arc::<Counters>::default();
        let team = team_with(Arc::clone(&counters));
        let [mut gains, mut loses] = [0, 1].map(|number| Instance::new(&team, number, false));
        for instance in [&mut gains, &mut loses] {
            instance.send(up_to(200));
            instance.go_on().unwrap();
        }
        let (bytes, node) = counters.state();
        assert!(bytes > 0 && node == "Noting", "{bytes} bytes of {node}");
        assert!(!gains.go_on().unwrap());
        assert_eq!(counters.state().0, 0);
    }

    #[test]
    fn who_has_ended_is_not_waited_for() {
        let team = team();
        let [mut gains, loses] = [0, 1].map(|number| Instance::new(&team, number, false));
        gains.send(up_to(200));
        assert!(gains.go_on().unwrap());
        drop(loses);
        assert!(!gains.go_on().unwrap());
        assert_eq!(gains.notes(), ["time 200", "flush", "flush"]);
        assert_eq!(team.table(), None, "nothing more is planned");
    }

    #[test]
    fn a_state_that_cannot_be_saved_names_its_node() {
        let team = team();
        let [mut gains, mut loses] = [0, 1].map(|number| Instance::new(&team, number, number == 1));
        gains.send(up_to(200));
        loses.send(up_to(200));
        assert!(gains.go_on().unwrap());
        assert_eq!(loses.go_on().unwrap_err().to_string(), "the state is broken (in Noting)");
    }
}
