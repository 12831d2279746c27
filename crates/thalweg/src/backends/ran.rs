//! How the nodes with a state did, when a query was run to be measured.

use std::{fmt::Write, time::Duration};

use serde_json::{Map, Value, json};
use thalweg_core::operator::Way;
use thalweg_runtime::metrics::NodeMetrics;

use crate::words;

/// What the columns are called.
const HEAD: [&str; 8] = [
    "node",
    "state at most",
    "unbalancedness",
    "owners at most",
    "rows found",
    "visited for each",
    "expiry lag",
    "results from",
];

/// The nodes that have something to tell, a line each; empty if there are none.
///
/// ```text
/// node    state at most  unbalancedness  owners at most  rows found  visited for each  expiry lag                   results from
/// Over 4        1.23 MB            0.03               2   1,300,000              1.71      1.25 s  blocks 87.5 %, all rows 12.5 %
/// ```
pub fn text(nodes: &[NodeMetrics]) -> String {
    let line = |node: &NodeMetrics| {
        let number = |number: Option<f64>| number.map(in_hundredths).unwrap_or_default();
        let found = node.search.found;
        [
            node.label.clone(),
            words::bytes(node.most_state_bytes),
            number(node.unbalancedness()),
            if node.most_owners > 0 { node.most_owners.to_string() } else { String::new() },
            if found > 0 { words::count(found) } else { String::new() },
            number(visited_for_each(node)),
            if found > 0 { words::duration(lag(node)) } else { String::new() },
            results_from(node),
        ]
    };
    let lines: Vec<_> = std::iter::once(HEAD.map(String::from)).chain(telling(nodes).map(line)).collect();
    if lines.len() == 1 {
        return String::new();
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for line in &lines {
        let mut out = format!("{:<1$}", line[0], width(0));
        for (column, field) in line.iter().enumerate().skip(1) {
            write!(out, "  {field:>0$}", width(column)).expect("a string takes all");
        }
        text += out.trim_end();
        text.push('\n');
    }
    text
}

/// The same as objects, by label.
pub fn json(nodes: &[NodeMetrics]) -> Value {
    let one = |node: &NodeMetrics| {
        let measured = json!({
            "most_state_bytes": node.most_state_bytes,
            "unbalancedness": node.unbalancedness(),
            "most_owners": (node.most_owners > 0).then_some(node.most_owners),
            "rows_found": node.search.found,
            "rows_visited": node.search.visited,
            "expiry_lag_us": node.search.lag.0,
            "results_from": ways(node).map(|(way, results)| (way.to_string(), results.into())).collect::<Map<_, _>>(),
        });
        (node.label.clone(), measured)
    };
    telling(nodes).map(one).collect()
}

fn telling(nodes: &[NodeMetrics]) -> impl Iterator<Item = &NodeMetrics> {
    nodes.iter().filter(|node| node.most_state_bytes > 0)
}

/// With two digits behind the point, or with more where two of them would not tell anything.
fn in_hundredths(number: f64) -> String {
    let digits = if number > 0.0 { (1.0 - number.log10().floor()).clamp(2.0, 9.0) } else { 2.0 };
    format!("{number:.0$}", digits as usize)
}

/// How long rows stayed for nobody.
fn lag(node: &NodeMetrics) -> Duration {
    Duration::from_micros(node.search.lag.0.max(0) as u64)
}

/// In which ways results of aggregates over the rows around a row were found, and how many in each.
fn ways(node: &NodeMetrics) -> impl Iterator<Item = (&'static str, u64)> {
    Way::ALL.into_iter().map(Way::name).zip(node.search.ways).filter(|(_, results)| *results > 0)
}

/// The same as shares, where there are several.
fn results_from(node: &NodeMetrics) -> String {
    let all: u64 = node.search.ways.iter().sum();
    let share = |(way, results): (&str, u64)| match 100.0 * results as f64 / all as f64 {
        100.0 => way.to_string(),
        ..0.05 => format!("{way} < 0.1 %"),
        percent => format!("{way} {percent:.1} %"),
    };
    ways(node).map(share).collect::<Vec<_>>().join(", ")
}

/// The inverse of the effectiveness of an index.
fn visited_for_each(node: &NodeMetrics) -> Option<f64> {
    (node.search.found > 0).then(|| node.search.visited as f64 / node.search.found as f64)
}

#[cfg(test)]
mod tests {
    use thalweg_core::{Interval, operator::Search};

    use super::*;

    #[test]
    fn nodes_with_a_state_have_a_line() {
        let node = |label: &str, state: u64, busy: &[u64], search: Search| NodeMetrics {
            label: label.to_string(),
            most_state_bytes: state,
            most_owners: usize::from(search.found > 0) * 2,
            busy_each: busy.iter().map(|millis| Duration::from_millis(*millis)).collect(),
            search,
            ..NodeMetrics::default()
        };
        let none = Search::default();
        let over = node(
            "Over 4",
            1_234_567,
            &[1, 3],
            Search {
                visited: 2_600,
                found: 1_300,
                lag: Interval(1_250_000),
                ways: [0, 0, 0, 0, 700, 100, 0],
                ..Search::default()
            },
        );
        let nodes = [node("Filter 1", 0, &[5, 5], none), over, node("Sort 6", 10, &[7], none)];
        let expected = "\
node    state at most  unbalancedness  owners at most  rows found  visited for each  expiry lag                    results from
Over 4        1.23 MB            0.50               2       1,300              2.00      1.25 s  blocks 87.5 %, all rows 12.5 %
Sort 6           10 B
";
        assert_eq!(text(&nodes), expected);
        assert_eq!(json(&nodes)["Over 4"]["unbalancedness"], 0.5);
        assert_eq!(json(&nodes)["Over 4"]["results_from"], json!({ "all rows": 100, "blocks": 700 }));
        assert_eq!(text(&nodes[..1]), "");
        assert_eq!([0.0, 12.344, 0.5, 0.00234].map(in_hundredths), ["0.00", "12.34", "0.50", "0.0023"]);
    }
}
