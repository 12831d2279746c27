//! When loads are looked at, and in which epoch a table holds.

use std::{
    collections::{HashMap, VecDeque},
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
/// It has no thread: the tasks of sources ask it between two batches, and those of teams after a long turn, as sources may wait long for
/// room. A table is there before its barrier can be sent.
pub struct Planner {
    teams: Vec<Arc<Team>>,
    epoch: AtomicU64,
    /// By which rules, and how often at the least.
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
    /// When it was looked whether one has too much to do.
    glanced: Instant,
    seen: Vec<Seen>,
}

/// The load of a team, of which half is that of the last look, a quarter that of the look before, and so on.
struct Seen {
    looked: Instant,
    rows: Vec<f64>,
    busy: f64,
    /// How long its members had been at work since the last look, at the last glance.
    glanced: Duration,
    /// For how many looks no instance is taken away: it had too much to do shortly before.
    alert: u32,
    /// How long the busiest member was at work in the last looks, and how many rows came.
    last: VecDeque<Work>,
    /// Whether more instances for a group gain anything.
    trial: Option<Trial>,
    /// Groups for which more instances gained too little.
    refused: HashMap<KeyGroup, Refusal>,
}

/// What the busiest member did until a look.
#[derive(Clone, Copy, Debug)]
struct Work {
    time: Duration,
    rows: u64,
    /// How many looks there might have been in that time: rows that take long come seldom.
    looks: usize,
}

/// How many looks there might have been until these.
fn looks(last: &VecDeque<Work>) -> usize {
    last.iter().map(|work| work.looks).sum()
}

/// What gained too little is not tried again for some time, and for twice as long each time that it did.
#[derive(Clone, Copy, Debug, Default)]
struct Refusal {
    /// For so many looks.
    looks: u32,
    /// For so many the last time.
    last: u32,
}

impl Refusal {
    /// It gained too little once more.
    fn again(self) -> Self {
        let looks = (2 * self.last).clamp(REFUSED, MOST_REFUSED);
        Self { looks, last: looks }
    }
}

/// A key group has more instances than before; whether that was worth it is not known yet.
struct Trial {
    group: KeyGroup,
    before: Table,
    /// How long the busiest member was at work for each row, in seconds.
    cost: f64,
    /// How many looks there were at those who share the group.
    looks: usize,
}

/// So often in an interval it is looked whether one has too much to do.
const GLANCES: u32 = 8;

/// Who is at work for this share of the time has too much to do: how much, nobody can tell.
const OVERLOAD: f64 = 0.95;

/// For so many looks a table is expected to fit: what it spares in that time must be more than moving takes.
const FITS: u32 = 10;

/// So many looks tell what a trial gains, since work comes in bursts: with each watermark.
const TRIED: usize = 4;

/// For so many looks nothing is tried again that gained too little, the first time and at most.
const REFUSED: u32 = 10;
const MOST_REFUSED: u32 = 640;

/// For so many looks no instance is taken away from who had too much to do.
const ALERT: u32 = 10;

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
            due: AtomicU64::new((interval / GLANCES).as_nanos() as u64),
            inner: Mutex::new(Inner { chance, glanced: began, seen: teams.iter().map(|_| Seen::new(began)).collect() }),
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
        self.due.store(passed + (interval / GLANCES).as_nanos() as u64, Relaxed);
        let since = now.saturating_duration_since(std::mem::replace(&mut inner.glanced, now));
        let mut tables = Vec::new();
        for (team, seen) in self.teams.iter().zip(&mut inner.seen) {
            let is_overloaded = seen.glance(team, since);
            if is_overloaded || now.saturating_duration_since(seen.looked) >= interval {
                let table = seen.look(team, (now, interval), rules, is_overloaded);
                tables.extend(table.map(|table| (Arc::clone(team), table)));
            }
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
    fn new(began: Instant) -> Self {
        Self {
            looked: began,
            rows: Vec::new(),
            busy: 0.0,
            glanced: Duration::ZERO,
            alert: 0,
            last: VecDeque::new(),
            trial: None,
            refused: HashMap::new(),
        }
    }

    /// Whether the members that have key groups were at work all the time since the last glance, and there are others.
    fn glance(&mut self, team: &Team, since: Duration) -> bool {
        let (busy, (used, instances)) = (team.busy(), team.used());
        let worked = busy.saturating_sub(std::mem::replace(&mut self.glanced, busy));
        used < instances && !since.is_zero() && worked.as_secs_f64() > OVERLOAD * used as f64 * since.as_secs_f64()
    }

    /// The table that a team should have, if it is another.
    fn look(
        &mut self,
        team: &Team,
        (now, interval): (Instant, Duration),
        rules: Rules,
        is_overloaded: bool,
    ) -> Option<Table> {
        let since = now.saturating_duration_since(self.looked);
        // Who is at work takes longer than this for what came before: that tells who needs help with it, and not where others' rows should go.
        let is_at_work = team.may_share() && !team.has_load() && team.busy() * 2 >= since;
        if since.is_zero() || is_at_work && (self.trial.is_some() || self.last.is_empty()) {
            // It is looked at together with what comes next.
            return None;
        }
        (self.looked, self.glanced) = (now, Duration::ZERO);
        self.alert = if is_overloaded { ALERT } else { self.alert.saturating_sub(1) };
        let Load { rows, all_rows, busy, busiest } = team.take_load();
        if !is_at_work && rows.iter().all(|rows| *rows == 0) {
            // Nothing came: who takes the result may wait, which says nothing about what is to come.
            return None;
        }
        let passed = (since.as_nanos() / interval.as_nanos().max(1)).clamp(1, TRIED as u128) as usize;
        match self.last.back_mut().filter(|_| is_at_work) {
            Some(Work { time, rows, looks }) => {
                (*time, *rows, *looks) = (*time + busiest, *rows + all_rows, *looks + passed);
            }
            None => self.last.push_back(Work { time: busiest, rows: all_rows, looks: passed }),
        }
        while self.last.front().is_some_and(|first| looks(&self.last) - first.looks >= TRIED) {
            self.last.pop_front();
        }
        let busy = busy.as_secs_f64() / since.as_secs_f64();
        if self.rows.is_empty() {
            (self.rows, self.busy) = (rows.iter().map(|rows| *rows as f64).collect(), busy);
        } else if is_at_work {
            self.busy = (self.busy + busy) / 2.0;
        } else {
            self.rows.iter_mut().zip(rows).for_each(|(seen, rows)| *seen = (*seen + rows as f64) / 2.0);
            self.busy = (self.busy + busy) / 2.0;
        }
        let table = team.table().filter(|_| !team.is_changing())?;
        // What waits is not known: all instances get something, and who turns out to have too little gives it back later.
        let busy = if is_overloaded { f64::INFINITY } else { self.busy };
        let rules = if self.alert > 0 { Rules { low: 0.0, ..rules } } else { rules };
        let affordable = since.as_secs_f64() * f64::from(FITS) / team.cost_of_move().as_secs_f64();
        let load = policy::Load { rows: &self.rows, busy, affordable };
        let work =
            self.last.iter().fold((0.0, 0), |(work, rows), one| (work + one.time.as_secs_f64(), rows + one.rows));
        let cost = work.0 / work.1 as f64;
        self.refused.values_mut().for_each(|refusal| refusal.looks = refusal.looks.saturating_sub(1));
        let Decision { table: next, reason } = match self.trial.take() {
            Some(trial) => match trial.look((cost, passed), &mut self.last, rules) {
                Verdict::Unknown(trial) => {
                    self.trial = Some(trial);
                    return None;
                }
                Verdict::Gains(group) => {
                    self.refused.remove(&group);
                    return None;
                }
                Verdict::GainsLittle(group, decision) => {
                    let refusal = self.refused.entry(group).or_default();
                    *refusal = refusal.again();
                    decision
                }
            },
            None => {
                let busiest = busiest.as_secs_f64() / since.as_secs_f64();
                let trial = || {
                    let may_try = team.may_share() && looks(&self.last) >= TRIED;
                    let tried = policy::share(rules, &table, load, busiest).filter(|_| may_try);
                    tried.filter(|(group, _)| self.refused.get(group).is_none_or(|refusal| refusal.looks == 0))
                };
                let evened = || policy::decide(rules, &table, load).or_else(|| policy::unshare(&table, &self.rows));
                match (!is_at_work).then(evened).flatten() {
                    Some(decision) => decision,
                    None => {
                        let (group, decision) = trial()?;
                        self.trial = Some(Trial { group, before: Table::clone(&table), cost, looks: 0 });
                        decision
                    }
                }
            }
        };
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

/// What is known of a trial.
enum Verdict {
    Unknown(Trial),
    Gains(KeyGroup),
    GainsLittle(KeyGroup, Decision),
}

impl Trial {
    /// Looks at it, when the busiest member was at work for so long for each row, in seconds, as the last looks say.
    fn look(self, (cost, passed): (f64, usize), last: &mut VecDeque<Work>, rules: Rules) -> Verdict {
        // Some of what the first look sees was before the group was shared.
        let looks = if self.looks == 0 { 1 } else { self.looks + passed };
        if looks == 1 {
            last.clear();
        }
        if looks <= TRIED {
            return Verdict::Unknown(Self { looks, ..self });
        }
        let Self { group, before, cost: cost_before, .. } = self;
        let gain = 1.0 - cost / cost_before;
        if gain >= rules.improvement {
            return Verdict::Gains(group);
        }
        let reason = format!("that more instances share key group {} gains {:.0} % only", group.0, gain * 100.0);
        Verdict::GainsLittle(group, Decision { table: before, reason })
    }
}

/// Some or no key groups of each team move; or all do, to so many instances as chance has it: another parallelism.
fn by_chance(teams: &[Arc<Team>], pick: &mut Pick) -> Vec<(Arc<Team>, Table)> {
    let mut tables = Vec::new();
    for team in teams {
        let one_in = [1, 2, 8, 64][pick(4)];
        let Some(table) = team.table() else { continue };
        let mut next = Table::clone(&table);
        let all = next.instances();
        let (first, width) = if one_in == 1 { (pick(all), 1 + pick(all)) } else { (0, all) };
        for group in 0..team.groups().count() {
            let group = KeyGroup(group as u16);
            match pick(one_in) {
                0 if team.may_share() && pick(2) == 0 => {
                    for _ in 0..=pick(3) {
                        let instance = pick(all);
                        if pick(3) == 0 { next.leave(group, instance) } else { next.share(group, instance) }
                    }
                }
                0 => next.give(group, (first + pick(width)) % all),
                _ => {}
            }
        }
        tables.push((Arc::clone(team), next));
    }
    tables
}

#[cfg(test)]
mod tests {
    use thalweg_core::KeyGroups;

    use super::*;
    use crate::metrics::Counters;

    const GROUPS: u16 = 8;

    /// A team of four of which one has all key groups, and its planner.
    fn of_one() -> (Arc<Team>, Planner, Clock) {
        let groups = KeyGroups::new(GROUPS).unwrap();
        let team = Arc::new(Team::new("Aggregate 2".to_string(), groups, 4, Arc::new(Counters::default())));
        team.set_table(all_to_one());
        let clock = Clock::simulated();
        let planner = Planner::new(vec![Arc::clone(&team)], &Settings::default(), None, clock.clone());
        (team, planner, clock)
    }

    fn all_to_one() -> Table {
        let mut table = Table::even(KeyGroups::new(GROUPS).unwrap(), 4);
        (0..GROUPS).for_each(|group| table.give(KeyGroup(group), 0));
        table
    }

    /// Time passes, of which members are at work for so many percent, all together.
    fn pass(team: &Team, clock: &Clock, millis: u64, percent: u64) {
        team.came(&[1000; GROUPS as usize]);
        team.came_in_all(8000);
        team.worked(0, Duration::from_micros(millis * 10 * percent));
        clock.move_to(clock.now() + Duration::from_millis(millis));
    }

    #[test]
    fn who_has_too_much_to_do_gets_help_before_the_interval_is_over() {
        let (team, planner, clock) = of_one();
        pass(&team, &clock, 100, 100);
        assert!(!planner.look(), "it is too early to say");
        pass(&team, &clock, 25, 100);
        assert!(planner.look());
        assert_eq!(team.used(), (4, 4), "what waits is not known");
    }

    #[test]
    fn who_has_just_enough_to_do_gets_help_when_the_interval_is_over() {
        let (team, planner, clock) = of_one();
        for _ in 0..7 {
            pass(&team, &clock, 125, 90);
            assert!(!planner.look());
        }
        pass(&team, &clock, 125, 90);
        assert!(planner.look());
        assert_eq!(team.used(), (3, 4), "so that each is at work for less than half of the time");
    }

    #[test]
    fn instances_stay_for_a_while_where_there_was_too_much_to_do() {
        let (team, planner, clock) = of_one();
        pass(&team, &clock, 125, 100);
        assert!(planner.look());
        team.set_table(Table::even(KeyGroups::new(GROUPS).unwrap(), 4));
        for look in 1..ALERT {
            pass(&team, &clock, 1000, 4);
            assert!(!planner.look(), "look {look}");
        }
        pass(&team, &clock, 1000, 4);
        assert!(planner.look());
        assert_eq!(team.used().0, 1);
    }

    /// A team of four that may share, where group 0 has nearly all rows and keeps one at work, and its planner.
    fn of_a_hot_group() -> (Arc<Team>, Planner, Clock) {
        let groups = KeyGroups::new(GROUPS).unwrap();
        let team = Team::new("Over 2".to_string(), groups, 4, Arc::new(Counters::default())).sharing(true);
        let (team, clock) = (Arc::new(team), Clock::simulated());
        let planner = Planner::new(vec![Arc::clone(&team)], &Settings::default(), None, clock.clone());
        (team, planner, clock)
    }

    /// A second passes, in which these members were at work for so many percent each.
    fn pass_hot(team: &Team, planner: &Planner, clock: &Clock, percents: [u64; 4]) -> Option<Vec<usize>> {
        let mut rows = [10; GROUPS as usize];
        rows[0] = 100_000;
        team.came(&rows);
        team.came_in_all(100_070);
        percents
            .iter()
            .enumerate()
            .for_each(|(member, percent)| team.worked(member, Duration::from_millis(percent * 10)));
        clock.move_to(clock.now() + Duration::from_secs(1));
        let is_changed = planner.look();
        let owners = team.table().map(|table| table.owners_of(KeyGroup(0)).to_vec());
        if let Some(table) = team.table() {
            // The change is over at once.
            team.set_table(Table::clone(&table));
        }
        owners.filter(|_| is_changed)
    }

    #[test]
    fn a_hot_group_gets_more_instances_as_long_as_that_gains() {
        let (team, planner, clock) = of_a_hot_group();
        let pass = |percents| pass_hot(&team, &planner, &clock, percents);
        let tried = |percents| (0..TRIED).all(|_| pass(percents).is_none());
        assert!((1..TRIED).all(|_| pass([95, 1, 1, 1]).is_none()));
        assert_eq!(pass([95, 1, 1, 1]), Some(vec![0, 1]));
        assert_eq!(pass([95, 95, 1, 1]), None, "some of that was before");
        assert!(tried([75, 75, 1, 1]), "a fifth less for each row: that stays");
        assert_eq!(pass([75, 75, 1, 1]), Some(vec![0, 1, 2, 3]));
        assert_eq!(pass([20, 20, 20, 20]), None);
        assert!((1..TRIED).all(|_| pass([70, 70, 70, 70]).is_none()));
        assert_eq!(pass([70, 74, 70, 70]), Some(vec![0, 1]), "a twenty-fifth is not enough");
        for _ in 1..REFUSED {
            assert_eq!(pass([75, 75, 1, 1]), None, "it was tried");
        }
        assert_eq!(pass([75, 75, 1, 1]), Some(vec![0, 1, 2, 3]), "it may be otherwise now");
        assert!((0..TRIED).all(|_| pass([74, 74, 74, 74]).is_none()));
        assert_eq!(pass([74, 74, 74, 74]), Some(vec![0, 1]));
        for _ in 1..2 * REFUSED {
            assert_eq!(pass([75, 75, 1, 1]), None, "it was tried twice");
        }
        assert_eq!(pass([75, 75, 1, 1]), Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn rows_that_take_long_come_seldom_and_each_look_at_them_says_more() {
        let (team, planner, clock) = of_a_hot_group();
        // One member is at work all the time, and takes some rows every five seconds.
        let pass = || {
            clock.move_to(clock.now() + Duration::from_secs(4));
            team.worked(0, Duration::from_millis(3950));
            assert!(!planner.look());
            pass_hot(&team, &planner, &clock, [98, 1, 1, 1])
        };
        assert_eq!(pass(), Some(vec![0, 1]));
        assert_eq!(pass(), None, "some of that was before");
        assert_eq!(pass(), Some(vec![0]), "each row takes as long as before");
    }

    #[test]
    fn who_is_at_work_on_what_came_before_is_looked_at_though_nothing_comes() {
        let (team, planner, clock) = of_a_hot_group();
        assert_eq!(pass_hot(&team, &planner, &clock, [95, 1, 1, 1]), None);
        // Nothing comes, and one member is at work all the time.
        let at_work = || {
            clock.move_to(clock.now() + Duration::from_secs(1));
            team.worked(0, Duration::from_secs(1));
            planner.look()
        };
        assert!((2..TRIED).all(|_| !at_work()));
        assert!(at_work());
        assert_eq!(team.table().unwrap().owners_of(KeyGroup(0)), [0, 1]);
    }

    #[test]
    fn a_group_that_may_not_be_shared_is_not() {
        let groups = KeyGroups::new(GROUPS).unwrap();
        let team = Arc::new(Team::new("Aggregate 2".to_string(), groups, 4, Arc::new(Counters::default())));
        let clock = Clock::simulated();
        let planner = Planner::new(vec![Arc::clone(&team)], &Settings::default(), None, clock.clone());
        for _ in 0..5 {
            let owners = pass_hot(&team, &planner, &clock, [95, 10, 10, 10]);
            assert!(owners.is_none_or(|owners| owners == [0]));
        }
    }
}
