//! Which table fits a load.
//!
//! Source: Gulisano et al., "StreamCloud: An Elastic and Scalable Data Streaming System", TPDS 2012, §V: instances are added and
//! taken away where their average load leaves a range, so many that it comes near a target within; load is evened out where it
//! deviates by more than a limit, as long as that improves it by enough. Instead of the standard deviation we take how far the
//! busiest instance is above the average, which is what bounds the throughput.

use thalweg_core::KeyGroup;
use thalweg_plan::Settings;

use super::table::Table;

/// When a table is changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// How far the busiest instance may be above the average, as a share of it.
    pub imbalance: f64,
    /// Below this average share of time at work there are fewer instances.
    pub low: f64,
    /// Above this average share of time at work there are more instances.
    pub high: f64,
    /// By which share of it the busiest instance's load must become less, so that moving is worth it.
    pub improvement: f64,
}

impl Rules {
    /// What a query's settings say.
    pub fn of(settings: &Settings) -> Self {
        let share = |percent: u32| f64::from(percent) / 100.0;
        Self {
            imbalance: share(settings.adaptive_imbalance),
            low: share(settings.adaptive_low),
            high: share(settings.adaptive_high),
            improvement: share(settings.adaptive_improvement),
        }
    }

    /// The average load that there should be after instances were added or taken away.
    fn target(&self) -> f64 {
        ((self.low + self.high) / 2.0).min(self.high)
    }
}

/// What a team had to do in some time.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Rows by key group, or as many for each that are counted.
    pub rows: &'a [f64],
    /// The share of time that members were at work, the sum over all of them.
    pub busy: f64,
    /// How many key groups could move in the time for which a table is expected to fit, if members did nothing else.
    pub affordable: f64,
}

/// Another table, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The table.
    pub table: Table,
    /// Why, for people.
    pub reason: String,
}

/// A table that fits the load better than this one, if there is one that is worth it.
///
/// On the same load it has nothing to change in the table that it gave.
pub fn decide(rules: Rules, table: &Table, load: Load<'_>) -> Option<Decision> {
    let used = table.used();
    // Nobody is at work for more than all of the time.
    let average = (load.busy / used.len() as f64).min(1.0);
    let wanted = wanted(rules, load.busy, used.len(), table.instances());
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let is_worth_it = |after: &Table| {
        let [before, behind] = [table, after].map(|table| highest(&by_instance(table, load.rows)));
        // What the busiest is spared in that time, as a share of it; and what the move takes.
        let spared = (before - behind) / load.rows.iter().sum::<f64>() * load.busy;
        let cost = table.moves(after).len() as f64 / load.affordable;
        before - behind > rules.improvement * before && spared >= cost
    };
    if wanted < used.len() {
        let (work, low) = (percent(average), percent(rules.low));
        let reason = format!("instances are at work for {work} of the time on average, less than {low}");
        return Some(Decision { table: gathered(rules, table, load.rows, wanted), reason });
    }
    let (among, reason) = if wanted > used.len() {
        let unused = (0..table.instances()).filter(|instance| !used.contains(instance));
        let (work, high) = (percent(average), percent(rules.high));
        let reason = format!("instances are at work for {work} of the time on average, more than {high}");
        (used.iter().copied().chain(unused).take(wanted).collect(), reason)
    } else {
        let rows = by_instance(table, load.rows);
        let (most, mean) = (highest(&rows), rows.iter().sum::<f64>() / used.len() as f64);
        // Few rows are unevenly divided by chance: three standard deviations of a count are no sign of a skew.
        if most - mean <= rules.imbalance * mean + 3.0 * mean.sqrt() {
            return None;
        }
        let reason = format!("the busiest instance has {} more rows than the average", percent(most / mean - 1.0));
        (used, reason)
    };
    let table = evened_out(rules, table, load.rows, &among);
    is_worth_it(&table).then_some(Decision { table, reason })
}

/// How many instances there should be.
fn wanted(rules: Rules, busy: f64, used: usize, instances: usize) -> usize {
    let fitting = ((busy / rules.target().max(f64::MIN_POSITIVE)).ceil() as usize).clamp(1, instances);
    let average = busy / used as f64;
    if average > rules.high {
        // Who is at work all the time may have more to do than that.
        return fitting.max(used + 1).min(instances);
    }
    if average < rules.low { fitting.min(used) } else { used }
}

/// The groups of the instances with the least load go to the others, of which there will be so many.
fn gathered(rules: Rules, table: &Table, rows: &[f64], instances: usize) -> Table {
    let mut table = table.clone();
    let mut loads = by_instance(&table, rows);
    let mut stay = table.used();
    stay.sort_by(|a, b| loads[*b].total_cmp(&loads[*a]).then(a.cmp(b)));
    let leave = stay.split_off(instances);
    let mut groups: Vec<KeyGroup> = Vec::new();
    for instance in leave {
        let (shared, own): (Vec<_>, Vec<_>) = table.of(instance).into_iter().partition(|group| table.is_shared(*group));
        shared.into_iter().for_each(|group| table.leave(group, instance));
        groups.extend(own);
    }
    loads = by_instance(&table, rows);
    groups.sort_by(|a, b| rows[b.0 as usize].total_cmp(&rows[a.0 as usize]).then(a.cmp(b)));
    for group in groups {
        let Some(least) = stay.iter().copied().min_by(|a, b| loads[*a].total_cmp(&loads[*b])) else { break };
        loads[least] += rows[group.0 as usize];
        table.give(group, least);
    }
    evened_out(rules, &table, rows, &stay)
}

/// Groups move from the instance with the most load to the one with the least, each time the one that brings the two closest
/// together, until no instance is far above the average.
fn evened_out(rules: Rules, table: &Table, rows: &[f64], among: &[usize]) -> Table {
    let mut table = table.clone();
    let mut loads = by_instance(&table, rows);
    // Half of what is allowed, so that what was evened out stays so for a while.
    let enough = rows.iter().sum::<f64>() / among.len() as f64 * (1.0 + rules.imbalance / 2.0);
    for _ in rows {
        let by_load = |a: &usize, b: &usize| loads[*a].total_cmp(&loads[*b]).then(b.cmp(a));
        let (Some(most), Some(least)) = (among.iter().copied().max_by(by_load), among.iter().copied().min_by(by_load))
        else {
            break;
        };
        let gap = loads[most] - loads[least];
        let of = |group: &KeyGroup| rows[group.0 as usize];
        let far = |group: &KeyGroup| (gap / 2.0 - of(group)).abs();
        let is_movable = |group: &KeyGroup| !table.is_shared(*group) && of(group) > 0.0 && of(group) < gap;
        let movable = table.of(most).into_iter().filter(is_movable);
        let Some(group) = movable.min_by(|a, b| far(a).total_cmp(&far(b))) else { break };
        if loads[most] <= enough {
            break;
        }
        loads[most] -= of(&group);
        loads[least] += of(&group);
        table.give(group, least);
    }
    table
}

/// The group that alone keeps an instance busier than all others gets as many instances again, the least busy ones.
///
/// `busiest` is the share of time that the busiest member was at work. What it gains is to be measured: how much there is to do for a row
/// that is only seen, compared to one with a result, is not known.
pub fn share(rules: Rules, table: &Table, load: Load<'_>, busiest: f64) -> Option<(KeyGroup, Decision)> {
    let loads = by_instance(table, load.rows);
    let mean = loads.iter().sum::<f64>() / table.used().len() as f64;
    let per_owner = |group: KeyGroup| each(load.rows[group.0 as usize], table.owners_of(group).len());
    let groups = table.owners().map(|(group, _)| group);
    let hot = groups.max_by(|a, b| per_owner(*a).total_cmp(&per_owner(*b)).then(b.cmp(a)))?;
    let owners = table.owners_of(hot).len();
    // With one instance there is nobody to compare it to.
    let is_hot = table.used().len() == 1 || per_owner(hot) > (1.0 + rules.imbalance) * mean;
    let is_sure = load.rows[hot.0 as usize] > SIGN;
    let mut others: Vec<usize> = (0..table.instances()).filter(|one| !table.owners_of(hot).contains(one)).collect();
    others.sort_by(|a, b| loads[*a].total_cmp(&loads[*b]).then(a.cmp(b)));
    others.truncate(owners);
    let is_cheap = others.len() as f64 / load.affordable <= rules.improvement * busiest.min(1.0);
    if busiest <= rules.high || !is_hot || !is_sure || !is_cheap || others.is_empty() {
        return None;
    }
    let mut after = table.clone();
    others.iter().for_each(|instance| after.share(hot, *instance));
    let (work, team) = (busiest.min(1.0) * 100.0, owners + others.len());
    let reason = format!("key group {} keeps an instance at work for {work:.0} % of the time: {team} share it", hot.0);
    Some((hot, Decision { table: after, reason }))
}

/// Groups that are shared go to one instance alone where they are no larger than half of what an instance has on average.
pub fn unshare(table: &Table, rows: &[f64]) -> Option<Decision> {
    let mean = rows.iter().sum::<f64>() / table.used().len() as f64;
    let cold = table.owners().filter(|(group, owners)| owners.len() > 1 && rows[group.0 as usize] <= mean / 2.0);
    let mut after = table.clone();
    let cold: Vec<u16> = cold.map(|(group, owners)| (after.give(group, owners[0]), group.0).1).collect();
    let (first, rest) = cold.split_first()?;
    let others = if rest.is_empty() { String::new() } else { format!(" and {} others", rest.len()) };
    Some(Decision { table: after, reason: format!("key group {first}{others} fits into one instance again") })
}

/// Fewer rows say nothing of what a group gets.
const SIGN: f64 = 100.0;

/// Which share of what there is to do for a row is done by each instance that sees it; the rest by the one that answers for it. A guess.
const SEEN: f64 = 0.5;

/// What each of so many owners has to do for the rows of a group.
fn each(rows: f64, owners: usize) -> f64 {
    rows * (SEEN + (1.0 - SEEN) / owners as f64)
}

fn by_instance(table: &Table, rows: &[f64]) -> Vec<f64> {
    let mut loads = vec![0.0; table.instances()];
    for ((_, owners), rows) in table.owners().zip(rows) {
        owners.iter().for_each(|owner| loads[*owner] += each(*rows, owners.len()));
    }
    loads
}

fn highest(loads: &[f64]) -> f64 {
    loads.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use thalweg_core::KeyGroups;

    use super::*;

    const RULES: Rules = Rules { imbalance: 0.25, low: 0.2, high: 0.7, improvement: 0.1 };

    fn table(groups: u16, instances: usize) -> Table {
        Table::even(KeyGroups::new(groups).unwrap(), instances)
    }

    fn decided(table: &Table, rows: &[f64], busy: f64) -> Option<Table> {
        decide(RULES, table, Load { rows, busy, affordable: f64::INFINITY }).map(|decision| decision.table)
    }

    fn owners(table: &Table) -> Vec<usize> {
        table.owners().map(|(_, owners)| owners[0]).collect()
    }

    /// Neither too much nor too little for any number of instances.
    fn calm(table: &Table) -> f64 {
        table.used().len() as f64 * 0.4
    }

    #[test]
    fn even_loads_stay_where_they_are() {
        let table = table(8, 4);
        assert_eq!(decided(&table, &[1000.0; 8], calm(&table)), None);
        // A fifth above the average is allowed.
        let rows = [1200.0, 1200.0, 1000.0, 1000.0, 1000.0, 1000.0, 800.0, 800.0];
        assert_eq!(decided(&table, &rows, calm(&table)), None);
    }

    #[test]
    fn one_move_is_made_where_one_is_enough() {
        let table = table(8, 4);
        let rows = [2000.0, 1000.0, 500.0, 500.0, 1000.0, 1000.0, 1000.0, 1000.0];
        let after = decided(&table, &rows, calm(&table)).unwrap();
        assert_eq!(owners(&after), [0, 1, 1, 1, 2, 2, 3, 3]);
        assert_eq!(decided(&after, &rows, calm(&table)), None);
    }

    #[test]
    fn a_hot_group_is_left_alone_and_moves_no_more() {
        let table = table(16, 4);
        let mut rows = [400.0; 16];
        rows[1] = 2000.0;
        let after = decided(&table, &rows, calm(&table)).unwrap();
        assert_eq!(after.of(0), [KeyGroup(1)]);
        assert_eq!(decided(&after, &rows, calm(&table)), None, "there is nothing more to be had");
    }

    #[test]
    fn what_improves_little_is_not_done() {
        let table = table(4, 2);
        // The larger group cannot be divided: 1,000 instead of 1,050 is no tenth.
        let rows = [1000.0, 50.0, 200.0, 200.0];
        assert_eq!(decided(&table, &rows, calm(&table)), None);
    }

    #[test]
    fn what_takes_longer_than_it_spares_is_not_done() {
        let table = table(8, 4);
        let rows = [2000.0, 1000.0, 500.0, 500.0, 1000.0, 1000.0, 1000.0, 1000.0];
        let busy = calm(&table);
        let after = decided(&table, &rows, busy).unwrap();
        assert_eq!(table.moves(&after).len(), 1);
        // A thousand of 8,000 rows, of 1.6 instances at work: the busiest is spared a fifth of the time.
        for (affordable, is_done) in [(5.5, true), (4.5, false), (0.0, false)] {
            let decision = decide(RULES, &table, Load { rows: &rows, busy, affordable });
            assert_eq!(decision.is_some(), is_done, "a move takes 1/{affordable} of the time");
        }
        let overload = Load { rows: &rows, busy: f64::INFINITY, affordable: 4.5 };
        assert!(decide(RULES, &table, overload).is_some(), "who has too much to do is helped at any cost");
    }

    #[test]
    fn few_rows_are_no_sign_of_a_skew() {
        let table = table(8, 4);
        let rows = [9.0, 8.0, 3.0, 2.0, 4.0, 5.0, 1.0, 2.0];
        assert_eq!(decided(&table, &rows, calm(&table)), None);
        assert!(decided(&table, &rows.map(|rows| rows * 1000.0), calm(&table)).is_some());
    }

    #[test]
    fn instances_come_and_go_with_the_load_and_stay_between_its_bounds() {
        let table = table(128, 8);
        let rows = [1000.0; 128];
        let used = |table: &Table| table.used().len();
        assert_eq!(decided(&table, &rows, 8.0 * 0.21), None);
        let fewer = decided(&table, &rows, 8.0 * 0.15).unwrap();
        assert_eq!(used(&fewer), 3, "1.2 of an instance, each to be at work for 0.45 of the time");
        assert_eq!(table.moves(&fewer).len(), 5 * 16, "nobody moves who may stay");
        assert_eq!(decided(&fewer, &rows, 1.2), None);
        let more = decided(&fewer, &rows, 2.6).unwrap();
        assert_eq!(used(&more), 6);
        assert_eq!(decided(&more, &rows, 2.6), None);
        let one = decided(&fewer, &rows, 0.01).unwrap();
        assert_eq!(used(&one), 1);
        assert_eq!(decided(&one, &rows, 0.0), None);
        assert_eq!(decided(&table, &rows, 8.0), None, "there are no more than all");
    }

    fn shared(table: &Table, rows: &[f64], busiest: f64) -> Option<Vec<usize>> {
        let load = Load { rows, busy: calm(table), affordable: f64::INFINITY };
        let (group, decision) = share(RULES, table, load, busiest)?;
        Some(decision.table.owners_of(group).to_vec())
    }

    #[test]
    fn a_group_that_is_too_much_for_one_gets_as_many_again_the_least_busy_first() {
        let mut table = table(4, 4);
        let rows = [9000.0, 300.0, 100.0, 200.0];
        assert_eq!(shared(&table, &rows, 0.9), Some(vec![0, 2]));
        assert_eq!(shared(&table, &rows, 0.6), None, "it is not too much");
        assert_eq!(shared(&table, &[1000.0; 4], 0.9), None, "no group is");
        assert_eq!(shared(&table, &rows.map(|rows| rows / 100.0), 0.9), None, "few rows are no sign");
        table.share(KeyGroup(0), 2);
        assert_eq!(shared(&table, &rows, 0.9), Some(vec![0, 2, 3, 1]));
        (0..4).for_each(|instance| table.share(KeyGroup(0), instance));
        assert_eq!(shared(&table, &rows, 0.9), None, "there are no more than all");
    }

    #[test]
    fn a_group_that_has_cooled_down_goes_back_to_one() {
        let mut table = table(4, 4);
        (0..3).for_each(|instance| table.share(KeyGroup(1), instance));
        let rows = |hot: f64| [1000.0, hot, 1000.0, 1000.0];
        assert_eq!(unshare(&table, &rows(5000.0)), None);
        let after = unshare(&table, &rows(100.0)).unwrap().table;
        assert_eq!(after.owners_of(KeyGroup(1)), [1]);
        assert_eq!(unshare(&after, &rows(100.0)), None);
    }

    #[test]
    fn who_leaves_leaves_what_is_shared_to_others() {
        let mut table = table(4, 4);
        (0..4).for_each(|instance| table.share(KeyGroup(0), instance));
        let fewer = decided(&table, &[1000.0; 4], 0.5).unwrap();
        assert_eq!(fewer.used().len(), 2);
        assert_eq!(fewer.owners_of(KeyGroup(0)).len(), 2);
        let groups: usize = fewer.used().iter().map(|instance| fewer.of(*instance).len()).sum();
        assert_eq!(groups, 5);
    }

    #[test]
    fn more_instances_are_of_no_use_to_one_hot_group() {
        let mut table = table(4, 4);
        (1..4).for_each(|group| table.give(KeyGroup(group), 1));
        assert_eq!(decided(&table, &[9000.0, 10.0, 10.0, 10.0], 2.0 * 0.9), None);
    }

    /// Whatever load stays the same, the first change is the last one, or leads to it in a few steps.
    #[test]
    fn a_steady_load_comes_to_rest() {
        let mut random = StdRng::seed_from_u64(5);
        for round in 0..2000 {
            let (groups, instances) = ([4, 16, 128][round % 3], random.random_range(2..20));
            let mut at = table(groups, instances);
            for group in 0..groups {
                at.give(KeyGroup(group), random.random_range(0..instances));
            }
            let heavy = random.random_range(0.0..6.0);
            let rows: Vec<f64> =
                (0..groups).map(|_| 1000.0 * random.random_range(0.001_f64..1.0).powf(heavy)).collect();
            let busy = random.random_range(0.0..instances as f64);
            let steps = (0..10).take_while(|_| match decided(&at, &rows, busy) {
                Some(next) => {
                    at = next;
                    true
                }
                None => false,
            });
            assert!(steps.count() <= 2, "round {round}");
        }
    }

    #[test]
    fn chance_moves_nothing_for_long() {
        let mut random = StdRng::seed_from_u64(6);
        let (mut at, mut changes) = (table(128, 8), 0);
        for _ in 0..500 {
            // 100 rows in 128 groups, and a load of 0.4 each that is measured within a quarter.
            let mut rows = vec![0.0; 128];
            (0..100).for_each(|_| rows[random.random_range(0..128)] += 1.0);
            let busy = 8.0 * 0.4 * random.random_range(0.75..1.25);
            if let Some(next) = decided(&at, &rows, busy) {
                (at, changes) = (next, changes + 1);
            }
        }
        assert!(changes <= 5, "{changes}");
    }
}
