//! How many instances each subquery has, where costs were measured: in proportion to the work there.
//!
//! Without measured costs each has as many as it may, and those of all subqueries share the workers.
//!
//! Source: Gulisano et al., "StreamCloud", §IV-C: sizes of subclusters by the load that each has. Whole numbers by the largest
//! remainder (Hamilton).

use super::{
    ParallelPlan, SubqueryId,
    cut::{Draft, Size},
    load::loads,
};
use crate::{Plan, settings::Strategy};

/// As many instances for each subquery as its work is of all work, together as many as `parallelism` says; `None` if nothing was
/// measured, or all instances run all of the query.
///
/// Each has one at least, which takes nothing from others but its work, since any worker runs any instance; and no more than it may: so
/// there may be more or fewer in all. Those that are connected one to one count once, with the work of all of them.
pub fn in_proportion(plan: &Plan, drafts: &[Draft], cut: &ParallelPlan) -> Option<Vec<usize>> {
    let loads = loads(plan, cut);
    let is_known = loads.iter().any(|load| load.is_measured);
    if !is_known || plan.settings.strategy == Strategy::QueryCluster {
        return None;
    }
    let leaders: Vec<usize> = (0..drafts.len()).map(|number| leader(drafts, SubqueryId(number))).collect();
    let mut seats: Vec<Seats> = Vec::new();
    let mut place = vec![0; drafts.len()];
    for number in 0..drafts.len() {
        match drafts[number].size {
            Size::UpTo(most) => {
                place[number] = seats.len();
                seats.push(Seats { weight: loads[number].work(), most });
            }
            Size::As(_) => {
                place[number] = place[leaders[number]];
                seats[place[number]].weight += loads[number].work();
            }
        }
    }
    let counts = apportioned(plan.settings.parallelism, &seats);
    Some(place.into_iter().map(|place| counts[place]).collect())
}

fn leader(drafts: &[Draft], subquery: SubqueryId) -> usize {
    match drafts[subquery.0].size {
        Size::UpTo(_) => subquery.0,
        Size::As(other) => leader(drafts, other),
    }
}

/// One of those among which a number is divided.
#[derive(Clone, Copy, Debug)]
struct Seats {
    weight: f64,
    /// The most that it may have.
    most: usize,
}

/// Divides a number in proportion to weights: at least one for each, beside what the others have, and at most what it may have; the rest of
/// a division goes to the largest remainders, and of equals to the first.
fn apportioned(total: usize, all: &[Seats]) -> Vec<usize> {
    let mut counts: Vec<Option<usize>> = vec![None; all.len()];
    let mut left = total as f64;
    loop {
        let free = || (0..all.len()).filter(|i| counts[*i].is_none());
        let weights: f64 = free().map(|i| all[i].weight).sum();
        let quota = |i: usize| if weights > 0.0 { left * all[i].weight / weights } else { 0.0 };
        // Who may have no more leaves the rest to others; so that comes before who has one in any case.
        let full = free().find(|i| quota(*i) >= all[*i].most as f64).map(|i| (i, all[i].most, all[i].most as f64));
        let fixed = full.or_else(|| free().find(|i| quota(*i) <= 1.0).map(|i| (i, 1, quota(i))));
        if let Some((i, count, taken)) = fixed {
            counts[i] = Some(count);
            left = (left - taken).max(0.0);
            continue;
        }
        let left = left.round() as usize;
        let mut order: Vec<usize> = free().collect();
        order.sort_by(|a, b| quota(*b).fract().total_cmp(&quota(*a).fract()));
        let whole: usize = order.iter().map(|i| quota(*i) as usize).sum();
        let given: Vec<(usize, usize)> =
            order.iter().enumerate().map(|(n, i)| (*i, quota(*i) as usize + usize::from(n + whole < left))).collect();
        given.into_iter().for_each(|(i, count)| counts[i] = Some(count));
        return counts.into_iter().flatten().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(total: usize, seats: &[(f64, usize)]) -> Vec<usize> {
        let seats: Vec<_> = seats.iter().map(|(weight, most)| Seats { weight: *weight, most: *most }).collect();
        apportioned(total, &seats)
    }

    #[test]
    fn the_rest_of_a_division_goes_to_the_largest_remainders() {
        assert_eq!(divided(10, &[(5.4, 128), (3.3, 128), (1.3, 128)]), [6, 3, 1]);
        assert_eq!(divided(8, &[(1.0, 128), (1.0, 128), (1.0, 128)]), [3, 3, 2], "of equals the first");
    }

    #[test]
    fn each_has_one_and_none_more_than_it_may() {
        assert_eq!(
            divided(8, &[(1.0, 4), (98.0, 128), (1.0, 1)]),
            [1, 8, 1],
            "who has next to nothing to do takes nothing"
        );
        assert_eq!(divided(2, &[(1.0, 1), (97.0, 128), (2.0, 1)]), [1, 2, 1], "two workers have enough to do");
        assert_eq!(divided(8, &[(90.0, 2), (5.0, 128), (5.0, 128)]), [2, 3, 3], "the rest is for others");
        assert_eq!(divided(2, &[(1.0, 4), (1.0, 4), (1.0, 4)]), [1, 1, 1], "more than there is");
        assert_eq!(divided(9, &[(1.0, 2), (1.0, 1)]), [2, 1], "less than there is");
        assert_eq!(divided(4, &[(0.0, 4), (0.0, 4)]), [1, 1], "nothing to do");
    }

    #[test]
    fn the_sum_is_what_there_is_to_divide_wherever_it_can_be() {
        for total in 3..40 {
            let counts = divided(total, &[(17.0, 128), (0.2, 128), (5.5, 128)]);
            // The second has one beside them.
            let share = total as f64 * 22.5 / 22.7;
            assert_eq!(counts.iter().sum::<usize>(), share.round() as usize + 1, "{total}");
        }
    }
}
