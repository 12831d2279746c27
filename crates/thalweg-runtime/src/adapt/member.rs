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
                    let losses = self.team.losses(*epoch, self.number);
                    self.team.give(*epoch, self.number, chain.give(&losses)?);
                    *phase = Phase::Take;
                }
                Phase::Take => {
                    let Some((parcels, owned)) = self.team.take(*epoch, self.number) else {
                        return Ok(Taken::Nothing(None));
                    };
                    chain.take(parcels, owned)?;
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
