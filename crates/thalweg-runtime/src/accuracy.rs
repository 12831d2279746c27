//! Which share of results is exact, as far as rows that came too late tell.

use thalweg_core::{
    Interval,
    operator::{MadeOf, Search},
    told::Told,
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
    /// Of how many rows a result will be made, at least 1, without an end where it is of all that came before. `None` where somebody who looks
    /// for rows has given too few results to tell.
    pub rows_each: Option<f64>,
    /// The share of results that late rows have spoilt, if these are spread evenly: more than that is said where they are not, and results
    /// should be waited for longer.
    pub inexact: f64,
    /// How far apart in time the rows of a result may be.
    pub reach: Interval,
}

/// By how much the rows of a result will be more than they were on average, where there are results of so much time: the first ones have
/// only what came before.
fn filled(Interval(time): Interval, Interval(reach): Interval) -> f64 {
    let (time, reach) = (time.max(1) as f64, reach as f64);
    if time < reach { 2.0 * reach / time } else { time / (time - reach / 2.0) }
}

/// So many results tell of how many rows one is made.
const ENOUGH_RESULTS: f64 = 4000.0;

impl Results {
    /// What these nodes tell, each behind those whose results it takes, where rows of so much time were read.
    pub fn of(nodes: &[NodeMetrics], time: Interval) -> Self {
        let searching = || nodes.iter().filter_map(|node| Some((node, node.made_of?)));
        let rows = |(node, made_of): (&NodeMetrics, MadeOf)| match made_of {
            MadeOf::Pair => Some(2.0),
            MadeOf::Around { reach: None, .. } => Some(f64::INFINITY),
            MadeOf::Around { has_itself, reach: Some(reach), .. } if results(node) >= ENOUGH_RESULTS => {
                // Results may be far behind what was read.
                let span = node.told.as_ref().and_then(Told::span);
                let time = span.map_or(time, |(first, last)| Interval(last.saturating_sub(first)));
                let rows = found_each(node) + if has_itself { 0.0 } else { 1.0 };
                Some(rows.max(1.0) * filled(time, reach))
            }
            MadeOf::Around { .. } => None,
        };
        let reach = |(_, made_of)| match made_of {
            MadeOf::Pair => 0,
            MadeOf::Around { reach, .. } => reach.map_or(i64::MAX, |reach: Interval| reach.0),
        };
        let reach = Interval(searching().map(reach).fold(0, i64::saturating_add));
        let share = searching().fold(1.0, |before: f64, (node, made_of)| {
            before.powf(results_each(node, made_of)) * expected(node, made_of)
        });
        let rows_each = searching().try_fold(1.0, |all, node| Some(all * rows(node)?));
        Self { rows_each, inexact: 1.0 - share, reach }
    }
}

/// The share of results that are exact, about: of these nodes, each behind those whose results it takes. `None` where nobody looks for rows
/// that belong to others.
pub fn exact_share(nodes: &[NodeMetrics]) -> Option<f64> {
    let behind = |before: Option<Exact>, node: &NodeMetrics| match node.made_of {
        None => before,
        Some(made_of) => Some(Exact::behind(before.as_ref(), node, made_of)),
    };
    nodes.iter().fold(None, behind).map(|exact| exact.share)
}

/// How many results are exact, all in all and by event time.
#[derive(Debug, Default)]
struct Exact {
    share: f64,
    /// Slices of event time, in their order.
    slices: Vec<Slice>,
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    /// The middle of it.
    at: i64,
    /// How many results there should be.
    all: f64,
    share: f64,
    /// How many rows there should be for each that is there.
    should_be: f64,
}

/// No share counts as less: of nothing there is no logarithm.
const LEAST: f64 = 1e-9;

impl Exact {
    /// What is known of a node's results, which are made of those before it.
    fn behind(before: Option<&Self>, node: &NodeMetrics, made_of: MadeOf) -> Self {
        let own = Self::of(node, made_of);
        let Some(before) = before else { return own };
        let results = results_each(node, made_of);
        let back = match made_of {
            MadeOf::Around { of_results: true, reach, .. } => reach.map_or(i64::MAX, |reach| reach.0),
            MadeOf::Around { of_results: false, .. } | MadeOf::Pair => 0,
        };
        if own.slices.is_empty() {
            let share = own.share * before.share.powf(results);
            let slices = before.slices.iter();
            let slices = slices.map(|slice| Slice { share: own.share * slice.share.powf(results), ..*slice });
            return Self { share, slices: slices.collect() };
        }
        let slices = own.slices.iter().map(|slice| {
            let (share, should_be) = before.around(slice.at.saturating_sub(back), slice.at);
            Slice {
                all: slice.all * should_be,
                share: slice.share * share.powf(results),
                should_be: slice.should_be * should_be,
                ..*slice
            }
        });
        Self::sum(slices.collect())
    }

    /// What is known of a node's results if all that they are made of is right.
    fn of(node: &NodeMetrics, made_of: MadeOf) -> Self {
        let Some(told) = node.told.as_ref().filter(|told| !told.is_empty()) else {
            return Self { share: expected(node, made_of), slices: Vec::new() };
        };
        let width = told.width();
        let slices = told.slices().map(|(from, count)| {
            let all = told.should_have(count) + count.wrong;
            Slice {
                at: from.saturating_add(width / 2),
                all,
                share: if all > 0.0 { count.exact / all } else { 1.0 },
                should_be: count.should_be(),
            }
        });
        Self::sum(slices.collect())
    }

    fn sum(slices: Vec<Slice>) -> Self {
        let (exact, all) =
            slices.iter().fold((0.0, 0.0), |(exact, all), slice| (exact + slice.share * slice.all, all + slice.all));
        Self { share: if all > 0.0 { exact / all } else { 1.0 }, slices }
    }

    /// How likely a result of that time is exact, and how many rows there should be for each of its end.
    fn around(&self, from: i64, to: i64) -> (f64, f64) {
        let end = self.slices.partition_point(|slice| slice.at <= to);
        let start = self.slices.partition_point(|slice| slice.at < from).min(end.saturating_sub(1));
        let some = self.slices.get(start..end.max(1)).unwrap_or_default();
        let [Some(_), Some(last)] = [some.first(), some.last()] else { return (self.share, 1.0) };
        let all: f64 = some.iter().map(|slice| slice.all).sum();
        let logarithms: f64 = some.iter().map(|slice| slice.all * slice.share.max(LEAST).ln()).sum();
        (if all > 0.0 { (logarithms / all).exp() } else { self.share }, last.should_be)
    }
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

/// Of how many results of others each of its results is made, any of which may be wrong: where it stands beside one, of that.
fn results_each(node: &NodeMetrics, made_of: MadeOf) -> f64 {
    match made_of {
        MadeOf::Around { of_results: true, .. } => found_each(node).max(1.0),
        MadeOf::Around { of_results: false, .. } | MadeOf::Pair => 1.0,
    }
}

/// How many results it is known of how many rows these are made: those that came out before it was final may have been made of fewer.
fn results(node: &NodeMetrics) -> f64 {
    node.told.as_ref().map_or(node.rows_out as f64, |told| told.sum().rows)
}

/// How many rows belong to each of its results.
fn found_each(node: &NodeMetrics) -> f64 {
    let told = node.told.as_ref().and_then(|told| told.sum().found_each());
    told.unwrap_or(node.search.found as f64 / node.rows_out.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use thalweg_core::{operator::Came, told::Count};

    use super::*;

    fn node(made_of: MadeOf, found: u64, bases: Came, seen: Came) -> NodeMetrics {
        let search = Search { found, bases, seen, ..Search::default() };
        NodeMetrics { made_of: Some(made_of), rows_out: 10_000, search, ..NodeMetrics::default() }
    }

    /// So long that all results are full.
    const LONG: Interval = Interval(i64::MAX);
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

    /// What is told of ten thousand rows in ten slices of time: in the fourth so many came in time, so many did not, and so many results are
    /// exact.
    fn told(rows: f64, late: f64, exact: f64) -> Told {
        let mut told = Told::default();
        for slice in 0..10 {
            let [rows, late, exact] = if slice == 3 { [rows, late, exact] } else { [1000.0, 0.0, 1000.0] };
            told.add(
                slice * told.width(),
                Count { rows, late, found: 2.0 * rows, all: rows, exact, ..Count::default() },
            );
        }
        told
    }

    #[test]
    fn what_was_told_is_what_is() {
        let node =
            NodeMetrics { told: Some(told(800.0, 200.0, 500.0)), ..node(WINDOW, 20_000, ONE_OF_TEN, ONE_OF_TEN) };
        same(exact_share(&[node]).unwrap(), 0.95);
    }

    #[test]
    fn what_is_spoilt_at_one_time_spoils_what_is_made_of_it_then() {
        let width = Told::default().width();
        let join = NodeMetrics { told: Some(told(500.0, 500.0, 250.0)), ..node(MadeOf::Pair, 10_000, NONE, NONE) };
        let of = |reach: i64, of_results| {
            let made_of = MadeOf::Around { has_itself: true, reach: Some(Interval(reach)), of_results };
            NodeMetrics { told: Some(told(500.0, 0.0, 400.0)), ..node(made_of, 20_000, NONE, NONE) }
        };
        // Half of the rows are missing then, and others are wrong.
        same(exact_share(&[join.clone(), of(0, false)]).unwrap(), 0.9 + 0.1 * 0.25 * 0.8);
        // Each is made of two results, and one slice sees that before.
        let joined = |own: f64, before: f64| 0.1 * own * before * before;
        let both = (0.25_f64.ln() / 2.0).exp();
        same(exact_share(&[join, of(width, true)]).unwrap(), 0.8 + joined(0.8, both) + joined(1.0, both));
    }

    #[test]
    fn what_comes_first_spoils_all_that_is_made_of_it() {
        let (join, over) = (node(MadeOf::Pair, 10_000, ONE_OF_TEN, NONE), node(WINDOW, 20_000, NONE, NONE));
        same(exact_share(&[join.clone(), over.clone()]).unwrap(), 0.81);
        let results = Results::of(&[join, over], LONG);
        same(results.rows_each.unwrap(), 4.0);
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
        let results = Results::of(&[at_last], LONG);
        assert_eq!((results.rows_each, results.reach), (Some(f64::INFINITY), Interval(i64::MAX)));
    }

    #[test]
    fn a_few_results_do_not_tell() {
        let few = NodeMetrics { rows_out: 10, ..node(UNION, 30, NONE, NONE) };
        assert_eq!(Results::of(&[few], LONG).rows_each, None);
        assert_eq!(Results::of(&[], LONG), Results { rows_each: Some(1.0), inexact: 0.0, reach: Interval::ZERO });
        same(Results::of(&[node(UNION, 30_000, NONE, NONE)], LONG).rows_each.unwrap(), 4.0);
    }

    #[test]
    fn results_have_more_rows_than_the_first_ones() {
        let filled = |time: i64| filled(Interval(time), Interval(60));
        assert_eq!([15, 30, 60, 90, 6_000].map(filled), [8.0, 4.0, 2.0, 1.5, 6_000.0 / 5_970.0]);
    }

    #[test]
    fn how_far_results_have_come_says_how_full_they_are_and_not_how_far_rows_were_read() {
        let told = told(1000.0, 0.0, 1000.0);
        let reach = Interval(10 * told.width());
        let made_of = MadeOf::Around { has_itself: true, reach: Some(reach), of_results: true };
        let behind = NodeMetrics { told: Some(told), ..node(made_of, 20_000, NONE, NONE) };
        // Of as much time as they reach they are half full.
        assert_eq!(Results::of(&[behind], LONG).rows_each, Some(4.0));
    }
}
