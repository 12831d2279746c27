//! How an instance gives and takes key groups at a barrier.

use std::{sync::Arc, time::Instant};

use thalweg_core::{Epoch, Event, Port, Result};

use super::team::Team;
use crate::{
    chain::Chain,
    clock::Clock,
    intake::{Pipes, Taken},
    pool::TaskRef,
};

/// One of the instances among which rows are divided by keys.
pub struct Member {
    team: Arc<Team>,
    number: usize,
    clock: Clock,
    /// What goes on at a barrier that has arrived on all inputs.
    handover: Option<(Epoch, Phase)>,
    /// When what was last taken in arrived.
    arrived: u64,
}

/// What is next.
enum Phase {
    /// All who give or take are waited for, and then time is made the same.
    Level,
    /// It gives.
    Give,
    /// It takes, once all is there.
    Take,
}

impl Member {
    /// The member of a team with this number.
    pub fn new(team: Arc<Team>, number: usize, task: TaskRef, clock: Clock) -> Self {
        team.join(number, task);
        Self { team, number, clock, handover: None, arrived: 0 }
    }

    /// When work begins.
    pub fn begin(&self) -> Instant {
        self.clock.now()
    }

    /// Notes work that began then.
    pub fn end(&self, began: Instant) {
        self.team.worked(self.clock.now().saturating_duration_since(began));
    }

    /// Takes the next events, as [`Pipes::take`] does, when the chain has nothing to do. At a barrier where key groups change hands
    /// nothing is taken until they have.
    ///
    /// Time is made the same first. Where a source was idle, one member may have heard first of it, and another first of the next
    /// watermark. The windows of one who had come less far would be behind what the new owner has promised; and those of the
    /// owner's other groups would seem to be emitted.
    pub fn take(&mut self, pipes: &mut Pipes, chain: &mut Chain) -> Result<Taken> {
        let Some((epoch, phase)) = &mut self.handover else {
            let taken = pipes.take()?;
            let Taken::Events(events, arrived) = &taken else { return Ok(taken) };
            if let [(_, Event::Barrier(epoch))] = events[..]
                && self.team.arrive(epoch, self.number, || pipes.reached())
            {
                self.handover = Some((epoch, Phase::Level));
                return self.take(pipes, chain);
            }
            self.arrived = *arrived;
            return Ok(taken);
        };
        loop {
            match phase {
                Phase::Level => {
                    let Some(level) = self.team.level(*epoch) else { return Ok(Taken::Nothing(None)) };
                    *phase = Phase::Give;
                    let events: Vec<(Port, Event)> = pipes.raise(&level);
                    if !events.is_empty() {
                        return Ok(Taken::Events(events, self.arrived));
                    }
                }
                Phase::Give => {
                    let (began, losses) = (self.clock.now(), self.team.losses(*epoch, self.number));
                    self.team.give(*epoch, self.number, chain.give(&losses)?);
                    self.team.moved(losses.len(), self.clock.now().saturating_duration_since(began));
                    *phase = Phase::Take;
                }
                Phase::Take => {
                    let Some((parcels, owned)) = self.team.take(*epoch, self.number) else {
                        return Ok(Taken::Nothing(None));
                    };
                    let began = self.clock.now();
                    chain.take(parcels, owned)?;
                    self.team.moved(0, self.clock.now().saturating_duration_since(began));
                    let barrier = Event::Barrier(*epoch);
                    self.handover = None;
                    return Ok(Taken::Events(vec![(0, barrier)], 0));
                }
            }
        }
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

    use parking_lot::Mutex;
    use thalweg_core::{
        Batch, Error, Frontier, KeyGroup, KeyGroups, Operator, Output, Progress, Snapshot, State, Timestamp,
    };

    use super::*;
    use crate::{
        adapt::table::Table,
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
        fn on_batch(&mut self, _: Port, _: Batch, _: &mut Output) -> Result<Progress> {
            Ok(Progress::Done)
        }

        fn on_time(&mut self, frontier: &Frontier, _: &mut Output) -> Result<Progress> {
            self.notes.lock().push(format!("time {}", frontier.combined().0));
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

    /// A member with its chain and its one pipe.
    struct Instance {
        member: Member,
        pipes: Pipes,
        chain: Chain,
        sender: Sender,
        notes: Arc<Mutex<Vec<String>>>,
    }

    impl Instance {
        fn new(team: &Arc<Team>, number: usize, fails: bool) -> Self {
            let notes: Arc<Mutex<Vec<String>>> = Arc::default();
            let for_operators = Arc::clone(&notes);
            let make = move || -> Result<Box<dyn Operator>> {
                Ok(Box::new(Noting { notes: Arc::clone(&for_operators), fails }))
            };
            let parts =
                OperatorParts { label: "Noting".to_string(), blamed: "Noting".to_string(), make: Arc::new(make) };
            let counters = vec![Counters::default().node("Noting")];
            let chain = Chain::new(vec![parts], counters, 1, 100, Vec::new(), OnBarrier::Pass, None).unwrap();
            let (sender, receiver) = pipe(CAPACITY);
            let pipes = Pipes::new(
                vec![Inlet { port: 0, receiver: InTurn::new(vec![receiver]), is_of_team: false }],
                vec![None],
                100,
                None,
            );
            let task = Pool::new(0, Nodes::one()).unwrap().reserve(0, 1);
            let member = Member::new(Arc::clone(team), number, task, Clock::simulated());
            Self { member, pipes, chain, sender, notes }
        }

        fn send(&mut self, events: impl IntoIterator<Item = Event>) {
            let envelope = |event| Envelope::new(event, 1);
            self.sender.push_all(&mut events.into_iter().map(envelope).collect::<VecDeque<_>>());
        }

        /// Goes on until there is nothing to do; returns whether a barrier has passed.
        fn go_on(&mut self) -> Result<bool> {
            loop {
                let Taken::Events(events, _) = self.member.take(&mut self.pipes, &mut self.chain)? else {
                    let out = self.chain.take_out();
                    return Ok(out.iter().any(|(_, event)| matches!(event, Event::Barrier(_))));
                };
                events.into_iter().rev().for_each(|(port, event)| self.chain.deliver(port, event));
                assert!(self.chain.advance()?, "nothing is put out");
            }
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
        assert!(other.go_on().unwrap(), "it waits for nobody");
        gains.send(up_to(200).into_iter().chain([Event::Watermark(Timestamp(210))]));
        assert!(!gains.go_on().unwrap());
        assert_eq!(gains.notes(), ["time 200"], "nothing behind the barrier is taken");
        // It hears of no time but what the other has reached.
        loses.send(up_to(70).into_iter().chain([150, 220].map(|t| Event::Watermark(Timestamp(t)))));
        assert!(loses.go_on().unwrap());
        assert_eq!(loses.notes(), ["time 70", "time 200", "save 3", "forget 3", "time 220"]);
        assert!(gains.go_on().unwrap());
        assert_eq!(gains.notes(), ["load 3 7", "time 210"]);
        assert!(!team.is_changing());
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
        assert!(gains.go_on().unwrap());
        assert_eq!(counters.state().0, 0);
    }

    #[test]
    fn who_has_ended_is_not_waited_for() {
        let team = team();
        let [mut gains, loses] = [0, 1].map(|number| Instance::new(&team, number, false));
        gains.send(up_to(200));
        assert!(!gains.go_on().unwrap());
        drop(loses);
        assert!(gains.go_on().unwrap());
        assert_eq!(gains.notes(), ["time 200"]);
        assert_eq!(team.table(), None, "nothing more is planned");
    }

    #[test]
    fn a_state_that_cannot_be_saved_names_its_node() {
        let team = team();
        let [mut gains, mut loses] = [0, 1].map(|number| Instance::new(&team, number, number == 1));
        gains.send(up_to(200));
        loses.send(up_to(200));
        assert!(!gains.go_on().unwrap());
        assert_eq!(loses.go_on().unwrap_err().to_string(), "the state is broken (in Noting)");
    }
}
