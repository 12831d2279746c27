//! Runs a query's tasks on the caller's thread, in an order that a schedule decides: the same decisions give the same run.
//!
//! Operators, chains, pipes, exchanges and sources are the real ones. What a schedule decides is which of the tasks that are ready
//! takes its turn, how many events a turn takes, how much each pipe holds, when the clock moves on, when barriers come, and when
//! the rows of the result are taken: all that results must not depend on.

use std::time::Duration;

use crate::{
    clock::Clock,
    pipe::CAPACITY,
    pool::{Pool, Stepped},
    task::{Shared, TURN},
};

/// Gives a number below the given one.
pub type Pick = Box<dyn FnMut(usize) -> usize + Send>;

/// Decides what a running query leaves open.
pub struct Schedule {
    /// What decides.
    pub pick: Pick,
    /// How many barriers it asks for, at most.
    pub barriers: usize,
}

/// The tasks of one query, which run when they are told to.
pub struct Simulation {
    schedule: Schedule,
    clock: Clock,
    /// A task is favoured, or left out, for so many steps.
    phase: usize,
    favour: Favour,
}

/// Whom a schedule favours for a while: without that, all tasks would go on at about the same pace.
#[derive(Clone, Copy)]
enum Favour {
    Nobody,
    /// Tasks that have been ready for long.
    Old,
    /// Tasks that became ready just now.
    New,
    /// All but those of this rest, modulo three.
    AllBut(usize),
}

impl Simulation {
    /// A simulation of what a schedule says.
    pub fn new(schedule: Schedule) -> Self {
        Self { schedule, clock: Clock::simulated(), phase: 0, favour: Favour::Nobody }
    }

    /// The clock that its tasks go by.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// How many events a pipe holds.
    pub fn capacity(&mut self) -> usize {
        1 + self.pick(CAPACITY)
    }

    /// How many events a task takes in a turn.
    pub fn turn(&mut self) -> usize {
        1 + self.pick(TURN)
    }

    /// Whether whoever takes the result looks now.
    pub fn looks(&mut self) -> bool {
        self.pick(4) == 0
    }

    /// Runs one turn of a task; returns whether there was one, or time moved on to where one waits.
    pub fn step(&mut self, pool: &Pool, shared: &Shared) -> bool {
        if self.schedule.barriers > 0 && self.pick(32) == 0 {
            self.schedule.barriers -= 1;
            shared.request_barrier();
        }
        if self.pick(16) == 0 {
            let passes = Duration::from_micros(1 << self.pick(20));
            self.clock.move_to(self.clock.now() + passes);
        }
        if self.phase == 0 {
            self.phase = 1 + self.pick(64);
            self.favour = match self.pick(6) {
                0 => Favour::Old,
                1 => Favour::New,
                2 => Favour::AllBut(self.pick(3)),
                _ => Favour::Nobody,
            };
        }
        self.phase -= 1;
        let favour = self.favour;
        let now = self.clock.now();
        match pool.step(now, |ready| favoured(favour, ready, &mut self.schedule.pick)) {
            Stepped::Ran => true,
            Stepped::Waits(Some(at)) => {
                self.clock.move_to(at);
                true
            }
            Stepped::Waits(None) => false,
        }
    }

    fn pick(&mut self, among: usize) -> usize {
        (self.schedule.pick)(among)
    }
}

/// Which of the tasks that are ready runs; they are given by number, in the order in which they became ready.
fn favoured(favour: Favour, ready: &[u64], pick: &mut dyn FnMut(usize) -> usize) -> usize {
    match favour {
        Favour::Old => 0,
        Favour::New => ready.len() - 1,
        Favour::AllBut(rest) => {
            let others: Vec<usize> = (0..ready.len()).filter(|place| ready[*place] % 3 != rest as u64).collect();
            if others.is_empty() { pick(ready.len()) } else { others[pick(others.len())] }
        }
        Favour::Nobody => pick(ready.len()),
    }
}
