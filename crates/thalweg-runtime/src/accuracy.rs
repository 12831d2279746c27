//! Which share of results is exact, as far as rows that came too late tell.

use thalweg_core::{
    Interval,
    operator::{MadeOf, Search},
};

use crate::metrics::NodeMetrics;

/// What an operator instance has found, and which of its results lack rows that came too late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Searched {
    /// What was looked at and found.
    pub search: Search,
    /// How often a result lacked a late row that had come before it, where such a row is missing in all of its key from then on: in
    /// millionths, as if all keys had as many rows.
    pub lacked: u128,
}

impl Searched {
    /// More was looked at and found, and so many results were given.
    pub fn add(&mut self, search: Search, results: u64) {
        self.search.add(search);
        let late = u128::from(results) * u128::from(self.search.seen.late);
        self.lacked += late * MILLION / u128::from(self.search.keys.max(1));
    }
}

const MILLION: u128 = 1_000_000;

/// What is known of a query's results so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Results {
    /// Of how many rows a result is made, at least 1, without an end where it is of all that came before. `None` where somebody who looks for
    /// rows has given too few results to tell.
    pub rows_each: Option<f64>,
    /// The share of results that late rows have spoilt, if these are spread evenly: more than that is said where they are not, and results
    /// should be waited for longer.
    pub inexact: f64,
    /// How far apart in time the rows of a result may be.
    pub reach: Interval,
}

/// So many results tell of how many rows one is made.
const ENOUGH_RESULTS: u64 = 4000;

impl Results {
    /// What these nodes tell, each behind those whose results it takes.
    pub fn of(nodes: &[NodeMetrics]) -> Self {
        let searching = || nodes.iter().filter_map(|node| Some((node, node.made_of?)));
        let rows = |(node, made_of): (&NodeMetrics, MadeOf)| match made_of {
            MadeOf::Pair => Some(2.0),
            MadeOf::Around { reach: None, .. } => Some(f64::INFINITY),
            MadeOf::Around { has_itself, .. } if node.rows_out >= ENOUGH_RESULTS => {
                Some((found_each(node) + if has_itself { 0.0 } else { 1.0 }).max(1.0))
            }
            MadeOf::Around { .. } => None,
        };
        let reach = |(_, made_of)| match made_of {
            MadeOf::Pair => 0,
            MadeOf::Around { reach, .. } => reach.map_or(i64::MAX, |reach: Interval| reach.0),
        };
        let reach = Interval(searching().map(reach).fold(0, i64::saturating_add));
        let rows_each = searching().try_fold(1.0, |all, node| Some(all * rows(node)?));
        Self { rows_each, inexact: 1.0 - share(nodes, expected).unwrap_or(1.0), reach }
    }
}

/// The share of results that are exact, about: of these nodes, each behind those whose results it takes. `None` where nobody looks for rows
/// that belong to others.
pub fn exact_share(nodes: &[NodeMetrics]) -> Option<f64> {
    share(nodes, exact_of)
}

fn share(nodes: &[NodeMetrics], exact_of: impl Fn(&NodeMetrics, MadeOf) -> f64) -> Option<f64> {
    nodes.iter().fold(None, |before: Option<f64>, node| {
        let Some(made_of) = node.made_of else { return before };
        // Each of the results that it is made of may be wrong; or the one that stands beside it.
        let results = match made_of {
            MadeOf::Around { of_results: true, .. } => found_each(node).max(1.0),
            MadeOf::Around { of_results: false, .. } | MadeOf::Pair => 1.0,
        };
        Some(before.map_or(1.0, |share| share.powf(results)) * exact_of(node, made_of))
    })
}

/// The share of a node's results for which no row came too late: as it was seen, or as is to be expected.
fn exact_of(node: &NodeMetrics, made_of: MadeOf) -> f64 {
    if node.search.told == 0 {
        return expected(node, made_of);
    }
    let spoilt = node.search.lacking as f64 / node.search.told as f64;
    (1.0 - node.search.bases.late_share()) * (1.0 - spoilt)
}

/// The same, if late rows are spread evenly; less where one result lacks several.
fn expected(node: &NodeMetrics, made_of: MadeOf) -> f64 {
    let (bases, seen) = (node.search.bases.late_share(), node.search.seen.late_share());
    match made_of {
        MadeOf::Pair => (1.0 - bases) * (1.0 - seen),
        MadeOf::Around { has_itself, reach, .. } => {
            let others = (found_each(node) - if has_itself { 1.0 } else { 0.0 }).max(0.0);
            let lacked = match reach {
                None => node.lacked as f64 / MILLION as f64 / node.rows_out.max(1) as f64,
                Some(_) => seen * others,
            };
            (1.0 - bases) * (1.0 - lacked).max(0.0)
        }
    }
}

/// How many rows belong to each of its results.
fn found_each(node: &NodeMetrics) -> f64 {
    node.search.found as f64 / node.rows_out.max(1) as f64
}

#[cfg(test)]
mod tests {
    use thalweg_core::operator::Came;

    use super::*;

    fn node(made_of: MadeOf, found: u64, bases: Came, seen: Came) -> NodeMetrics {
        let search = Search { found, bases, seen, ..Search::default() };
        NodeMetrics { made_of: Some(made_of), rows_out: 10_000, search, ..NodeMetrics::default() }
    }

    const ONE_OF_TEN: Came = Came { in_time: 9, late: 1 };
    const NONE: Came = Came { in_time: 10, late: 0 };
    const WINDOW: MadeOf = MadeOf::Around { has_itself: true, reach: Some(Interval::seconds(1)), of_results: true };
    const UNION: MadeOf = MadeOf::Around { has_itself: false, reach: Some(Interval::seconds(1)), of_results: true };
    const ENDLESS: MadeOf = MadeOf::Around { has_itself: true, reach: None, of_results: true };

    fn same(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn a_result_is_exact_if_all_rows_of_it_came_in_time() {
        let share = |node: NodeMetrics| exact_share(&[node]).unwrap();
        same(share(node(MadeOf::Pair, 10_000, ONE_OF_TEN, ONE_OF_TEN)), 0.81);
        same(share(node(WINDOW, 30_000, ONE_OF_TEN, ONE_OF_TEN)), 0.9 * 0.8);
        same(share(node(UNION, 30_000, NONE, ONE_OF_TEN)), 0.7);
        same(share(node(UNION, 300_000, NONE, ONE_OF_TEN)), 0.0);
        same(share(node(UNION, 30_000, ONE_OF_TEN, NONE)), 0.9);
        assert_eq!(exact_share(&[NodeMetrics::default()]), None);
    }

    #[test]
    fn what_comes_first_spoils_all_that_is_made_of_it() {
        let (join, over) = (node(MadeOf::Pair, 10_000, ONE_OF_TEN, NONE), node(WINDOW, 20_000, NONE, NONE));
        same(exact_share(&[join.clone(), over.clone()]).unwrap(), 0.81);
        let results = Results::of(&[join, over]);
        assert_eq!(results.rows_each, Some(4.0));
        same(results.inexact, 0.19);
        assert_eq!(results.reach, Interval::seconds(1));
    }

    #[test]
    fn windows_beside_each_other_spoil_their_rows_alone() {
        let beside = MadeOf::Around { has_itself: true, reach: Some(Interval::seconds(1)), of_results: false };
        let [one, other] = [node(WINDOW, 30_000, NONE, ONE_OF_TEN), node(beside, 50_000, NONE, NONE)];
        same(exact_share(&[one, other]).unwrap(), 0.8);
    }

    #[test]
    fn without_a_beginning_what_is_late_early_spoils_more() {
        let mut searched = Searched::default();
        let came = |late| {
            let came = Came { in_time: 40 - late, late };
            Search { bases: came, seen: came, keys: 2, ..Search::default() }
        };
        searched.add(came(1), 13);
        searched.add(came(2), 66);
        assert_eq!(searched.lacked, (13 + 3 * 66) * MILLION / 2);
        let at_last = NodeMetrics { lacked: searched.lacked, ..node(ENDLESS, 0, NONE, searched.search.seen) };
        same(exact_share(std::slice::from_ref(&at_last)).unwrap(), 1.0 - (13.0 + 3.0 * 66.0) / 2.0 / 10_000.0);
        let results = Results::of(&[at_last]);
        assert_eq!((results.rows_each, results.reach), (Some(f64::INFINITY), Interval(i64::MAX)));
    }

    #[test]
    fn a_few_results_do_not_tell() {
        let few = NodeMetrics { rows_out: 10, ..node(UNION, 30, NONE, NONE) };
        assert_eq!(Results::of(&[few]).rows_each, None);
        assert_eq!(Results::of(&[]), Results { rows_each: Some(1.0), inexact: 0.0, reach: Interval::ZERO });
        assert_eq!(Results::of(&[node(UNION, 30_000, NONE, NONE)]).rows_each, Some(4.0));
    }
}
