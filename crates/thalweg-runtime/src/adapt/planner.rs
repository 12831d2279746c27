//! When loads are looked at, and in which epoch a table holds.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use thalweg_core::{Epoch, KeyGroup};
use thalweg_plan::Settings;

use super::{
    policy::{self, Decision, Rules},
    table::Table,
    team::{Load, Team},
};
use crate::{clock::Clock, simulation::Pick};

/// Counts epochs, and gives the teams of a query their tables: by the policy, or by chance at each barrier.
///
/// It has no thread: the tasks of sources ask it between two batches. A table is there before its barrier can be sent.
pub struct Planner {
    teams: Vec<Arc<Team>>,
    epoch: AtomicU64,
    /// By which rules, and how often.
    rules: Option<(Rules, Duration)>,
    clock: Clock,
    began: Instant,
    /// When it is to be looked at, in nanoseconds since it began.
    due: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    /// Decides which key groups move at a barrier.
    chance: Option<Pick>,
    looked: Instant,
    seen: Vec<Seen>,
}

/// The load of a team, of which half is that of the last look, a quarter that of the look before, and so on.
#[derive(Default)]
struct Seen {
    rows: Vec<f64>,
    busy: f64,
}

impl Planner {
    /// A planner of these teams, which looks at their loads if the settings say so.
    pub fn new(teams: Vec<Arc<Team>>, settings: &Settings, chance: Option<Pick>, clock: Clock) -> Self {
        let interval = Duration::from_micros(settings.adaptive_interval.0.max(0) as u64);
        let is_adaptive = settings.adaptive && !teams.is_empty();
        let began = clock.now();
        Self {
            epoch: AtomicU64::new(0),
            rules: is_adaptive.then(|| (Rules::of(settings), interval)),
            clock,
            began,
            due: AtomicU64::new(interval.as_nanos() as u64),
            inner: Mutex::new(Inner { chance, looked: began, seen: teams.iter().map(|_| Seen::default()).collect() }),
            teams,
        }
    }

    /// The last epoch whose barrier sources are asked for.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// Begins an epoch; at its barrier key groups move by chance, if they do.
    pub fn request(&self) {
        let mut inner = self.inner.lock();
        let tables = inner.chance.as_mut().map(|chance| by_chance(&self.teams, chance)).unwrap_or_default();
        self.begin(tables);
    }

    /// Looks at the loads if it is time to; returns whether an epoch has begun, at whose barrier key groups move.
    pub fn look(&self) -> bool {
        let Some((rules, interval)) = self.rules else { return false };
        let now = self.clock.now();
        let passed = now.saturating_duration_since(self.began).as_nanos() as u64;
        if passed < self.due.load(Relaxed) {
            return false;
        }
        // Who finds it locked need not look: another one does.
        let Some(mut inner) = self.inner.try_lock() else { return false };
        if passed < self.due.load(Relaxed) {
            return false;
        }
        self.due.store(passed + interval.as_nanos() as u64, Relaxed);
        let since = now.saturating_duration_since(std::mem::replace(&mut inner.looked, now));
        let mut tables = Vec::new();
        for (team, seen) in self.teams.iter().zip(&mut inner.seen) {
            tables.extend(seen.look(team, since, rules).map(|table| (Arc::clone(team), table)));
        }
        let moves = !tables.is_empty();
        if moves {
            self.begin(tables);
        }
        moves
    }

    /// Begins an epoch with these tables. Who calls it has the lock, so that epochs begin one after the other.
    fn begin(&self, tables: Vec<(Arc<Team>, Table)>) {
        let next = self.epoch.load(Relaxed) + 1;
        tables.into_iter().for_each(|(team, table)| team.plan(Epoch(next), table));
        self.epoch.store(next, Release);
    }
}

impl Seen {
    /// The table that a team should have, if it is another.
    fn look(&mut self, team: &Team, since: Duration, rules: Rules) -> Option<Table> {
        let Load { rows, busy } = team.take_load();
        if since.is_zero() || rows.iter().all(|rows| *rows == 0) {
            // Nothing came: who takes the result may wait, which says nothing about what is to come.
            return None;
        }
        let busy = busy.as_secs_f64() / since.as_secs_f64();
        if self.rows.is_empty() {
            (self.rows, self.busy) = (rows.iter().map(|rows| *rows as f64).collect(), busy);
        } else {
            self.rows.iter_mut().zip(rows).for_each(|(seen, rows)| *seen = (*seen + rows as f64) / 2.0);
            self.busy = (self.busy + busy) / 2.0;
        }
        let table = team.table().filter(|_| !team.is_changing())?;
        let load = policy::Load { rows: &self.rows, busy: self.busy };
        let Decision { table: next, reason } = policy::decide(rules, &table, load)?;
        tracing::info!(
            "{}: {} of {} key groups move, instances {} -> {}: {reason}",
            team.label(),
            table.moves(&next).len(),
            team.groups().count(),
            table.used().len(),
            next.used().len(),
        );
        Some(next)
    }
}

/// Some, all or no key groups of each team move.
fn by_chance(teams: &[Arc<Team>], pick: &mut Pick) -> Vec<(Arc<Team>, Table)> {
    let mut tables = Vec::new();
    for team in teams {
        let one_in = [1, 2, 8, 64][pick(4)];
        let Some(table) = team.table() else { continue };
        let mut next = Table::clone(&table);
        for group in 0..team.groups().count() {
            if pick(one_in) == 0 {
                next.give(KeyGroup(group as u16), pick(next.instances()));
            }
        }
        tables.push((Arc::clone(team), next));
    }
    tables
}
