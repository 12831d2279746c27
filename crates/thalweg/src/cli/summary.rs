//! How a query did, in a line or two.

use std::time::Duration;

use thalweg::{Metrics, words};
use thalweg_core::Held;
use thalweg_plan::label::{of_first_phase, told};

/// What went in and came out, how fast, and how long rows took; for a query that fills a table, with its name.
pub fn summary(metrics: &Metrics, table: Option<&str>) -> String {
    let Metrics { rows_in, rows_out, late_rows, bad_rows, elapsed, latency, .. } = metrics;
    let table = table.map(|name| format!("{name}: ")).unwrap_or_default();
    let mut text = format!(
        "{table}{} in, {} out, {} late, {} bad in {}",
        words::rows(*rows_in),
        words::rows(*rows_out),
        words::count(*late_rows),
        words::count(*bad_rows),
        words::duration(*elapsed),
    );
    if *rows_in > 0 && !elapsed.is_zero() {
        text += &format!(" ({} rows/s)", words::count(rounded(*rows_in as f64 / elapsed.as_secs_f64())));
    }
    if *rows_out > 0 {
        let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(words::duration);
        text += &format!("\nlatency from arrival to emission: p50 {p50}, p99 {p99}, max {max}");
    }
    if metrics.out_of_order_rows > 0 {
        let rows = words::rows(metrics.out_of_order_rows);
        text += &format!("\n{rows} out of order: those behind them waited no longer than 'merge.slack'");
    }
    if let Some(lateness) = lateness(metrics) {
        text += &format!("\n{lateness}");
    }
    if metrics.changes > 0 {
        let times = if metrics.changes == 1 { "once" } else { &format!("{} times", words::count(metrics.changes)) };
        let (count, time) = (words::count(metrics.moved_groups), words::duration(metrics.moving));
        let groups = if metrics.moved_groups == 1 { "key group" } else { "key groups" };
        text += &format!("\nkeys moved between instances {times}: {count} {groups} in {time}");
        if metrics.waited_rows > 0 {
            text += &format!(", for which {} waited", words::rows(metrics.waited_rows));
        }
    }
    text
}

/// What was learnt of rows out of order, and how well that did.
fn lateness(metrics: &Metrics) -> Option<String> {
    let all = || metrics.lateness.iter().map(|(_, lateness)| Duration::from_micros(lateness.0.max(0) as u64));
    let [least, most] = [all().min()?, all().max()?].map(words::duration);
    let range = if least == most { least } else { format!("{least} to {most}") };
    // What would be rounded to all is not all.
    let percent = |share: f64| {
        let missed = 100.0 * (1.0 - share);
        let digits = if missed > 0.0 { (1.0 - missed.log10().floor()).clamp(0.0, 6.0) } else { 0.0 };
        let unit = 10_f64.powf(digits);
        100.0 - (missed * unit).ceil() / unit
    };
    let share = match metrics.exact_share() {
        Some(share) => format!("about {} % of results are exact", percent(share)),
        None => format!("{} % of rows came in time", percent(metrics.timely_share())),
    };
    Some(format!("rows taken to be out of order by {range}: {share}"))
}

/// What was still open when a query was stopped.
pub fn left_open(metrics: &Metrics) -> String {
    let held = metrics.nodes.iter().filter(|node| !node.held.is_empty());
    let name = |label: &str| match of_first_phase(label) {
        Some(_) => format!("{}, in its first phase,", told(label)),
        None => label.to_string(),
    };
    let all = |held: &[Held]| held.iter().map(Held::to_string).collect::<Vec<_>>().join(", ");
    let lacks = match held.clone().map(|node| node.held.iter().any(|held| held.is_out)).collect::<Vec<_>>() {
        are_out if !are_out.contains(&true) => "not in the result",
        are_out if !are_out.contains(&false) => "not final in the result",
        _ => "not in the result, or not final there",
    };
    let held: Vec<_> = held.map(|node| format!("{} held {}", name(&node.label), all(&node.held))).collect();
    match (held.is_empty(), metrics.is_cut_short) {
        (true, false) => "stopped: nothing was left open".to_string(),
        (true, true) => "stopped: not all is in the result that the last rows would have given".to_string(),
        (false, false) => format!("stopped: {}, {lacks}", held.join("; ")),
        (false, true) => {
            format!("stopped: {}, {lacks}, nor all that the last rows would have given", held.join("; "))
        }
    }
}

/// To three digits; more would not be the same twice.
fn rounded(rate: f64) -> u64 {
    let unit = 10f64.powf((rate.log10().floor() - 2.0).max(0.0));
    ((rate / unit).round() * unit) as u64
}

#[cfg(test)]
mod tests {
    use thalweg_core::{
        Interval,
        operator::{Came, MadeOf, Search},
    };
    use thalweg_runtime::metrics::{Latency, NodeMetrics};

    use super::*;

    #[test]
    fn a_summary_says_what_went_in_and_came_out_and_how_long_it_took() {
        let millis = Duration::from_millis;
        let metrics = Metrics {
            rows_in: 336_776,
            rows_out: 17_520,
            late_rows: 12,
            elapsed: millis(1_240),
            latency: Latency { p50: Duration::from_micros(850), p99: millis(8), max: millis(12) },
            ..Metrics::default()
        };
        assert_eq!(
            summary(&metrics, Some("hourly")),
            "hourly: 336,776 rows in, 17,520 rows out, 12 late, 0 bad in 1.24 s (272,000 rows/s)\n\
             latency from arrival to emission: p50 850 µs, p99 8 ms, max 12 ms"
        );
        let adapted = Metrics { changes: 2, moved_groups: 17, moving: Duration::from_millis(3), ..Metrics::default() };
        assert_eq!(
            summary(&adapted, None),
            "0 rows in, 0 rows out, 0 late, 0 bad in 0 s\nkeys moved between instances 2 times: 17 key groups in 3 ms"
        );
        let waited = Metrics { waited_rows: 1204, ..adapted };
        assert!(summary(&waited, None).ends_with("17 key groups in 3 ms, for which 1,204 rows waited"));
        let learnt = |micros: &[i64]| Metrics {
            rows_in: 10_000,
            late_rows: 1,
            lateness: micros.iter().map(|micros| (String::new(), Interval(*micros))).collect(),
            ..Metrics::default()
        };
        let line = |micros: &[i64]| lateness(&learnt(micros)).unwrap();
        assert_eq!(line(&[2_359_295]), "rows taken to be out of order by 2.36 s: 99.99 % of rows came in time");
        let came = Came { in_time: 9_999, late: 1 };
        let node = NodeMetrics {
            rows_in: 10_001,
            rows_out: 10_000,
            late_rows: 1,
            search: Search { found: 20_000, bases: came, seen: came, ..Search::default() },
            made_of: Some(MadeOf::Around { has_itself: true, reach: Some(Interval::ZERO), of_results: false }),
            ..NodeMetrics::default()
        };
        let exact = Metrics { nodes: vec![node], ..learnt(&[0]) };
        assert!(lateness(&exact).unwrap().ends_with("about 99.98 % of results are exact"));
        assert!(line(&[2_359_295, 0]).contains("by 0 s to 2.36 s:"));
        let loose = Metrics { out_of_order_rows: 1204, ..Metrics::default() };
        assert_eq!(
            summary(&loose, None),
            "0 rows in, 0 rows out, 0 late, 0 bad in 0 s\n\
             1,204 rows out of order: those behind them waited no longer than 'merge.slack'"
        );
        assert_eq!(summary(&Metrics::default(), None), "0 rows in, 0 rows out, 0 late, 0 bad in 0 s");
    }

    #[test]
    fn rates_have_three_digits() {
        assert_eq!([0.4, 7.0, 99.6, 1234.0, 999_999.0].map(rounded), [0, 7, 100, 1230, 1_000_000]);
    }

    #[test]
    fn what_is_left_open_is_said_by_node() {
        let node =
            |label: &str, held: &[Held]| NodeMetrics { label: label.into(), held: held.into(), ..Default::default() };
        let groups = [Held::new(2, ["open window", "open windows"]), Held::new(1, ["group", "groups"])];
        let nodes = vec![
            node("Map 1", &[]),
            node("Partial 3", &groups),
            node("Aggregate 3", &groups[..1]),
            node("Sort 4", &[Held::new(7, ["row", "rows"])]),
        ];
        let metrics = Metrics { nodes, ..Metrics::default() };
        assert_eq!(
            left_open(&metrics),
            "stopped: Aggregate 3, in its first phase, held 2 open windows, 1 group; Aggregate 3 held 2 open windows; \
             Sort 4 held 7 rows, not in the result"
        );
        assert_eq!(left_open(&Metrics::default()), "stopped: nothing was left open");
        let early = [Held::out(3, ["row whose result may change", "rows whose results may change"])];
        let eager = Metrics { nodes: vec![node("Over 2", &early)], ..Metrics::default() };
        assert_eq!(left_open(&eager), "stopped: Over 2 held 3 rows whose results may change, not final in the result");
        let both = Metrics { nodes: [&eager.nodes[..], &metrics.nodes].concat(), ..Metrics::default() };
        assert!(left_open(&both).ends_with("held 7 rows, not in the result, or not final there"));
        let cut_short = Metrics { is_cut_short: true, ..metrics };
        assert!(
            left_open(&cut_short)
                .ends_with("held 7 rows, not in the result, nor all that the last rows would have given")
        );
        let cut_short = Metrics { is_cut_short: true, ..Metrics::default() };
        assert_eq!(left_open(&cut_short), "stopped: not all is in the result that the last rows would have given");
    }
}
