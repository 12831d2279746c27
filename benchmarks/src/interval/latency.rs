//! How long results take: an eager one from the arrival of its base row, or from when that was due; a final one from the arrival of the row
//! with which the watermark has passed all that may lie in its window, since before that nobody can know it. What is final at the end of the streams
//! only is left out.
//!
//! Workload C comes as fast as can be, and so has no instants at which rows are due: a row arrives when it is taken up, by the driver of the
//! baselines or by the engine's source. What it waits before is nobody's latency; how long results take then says how much is on its way.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use serde_json::{Map, json};

use super::{
    arrivals::TICK_US,
    arriving,
    expected::{Answer, Mode},
    feed::{Feed, Pace},
    sink::Wanted,
    way::{ALGORITHMS, ENGINE, Way},
    workload::{Row, Workload},
};
use crate::{
    latency::lateness,
    machine::{Stopwatch, cores},
    measure::{Latencies, Paced, Report, parameters},
};

/// The line that users draw, in microseconds.
pub const LINE_US: f64 = 20_000.0;

/// A window that is longer than this is not waited for.
const MOST_WARM_UP_US: i64 = 10_000_000;

/// Measures how long results take, where rows come at the paper's rate, or as fast as can be if that is what the paper has.
pub fn run(report: &mut Report, workload: &Workload) -> Result<(), String> {
    // The synthetic ones have neither a rate nor a figure.
    if workload.arrival.is_none() && workload.name != "C" {
        return Ok(());
    }
    let paced = workload.paced();
    let pace = if paced.is_some() { Pace::Due } else { Pace::Prompt };
    let workload = &paced.unwrap_or_else(|| workload.clone());
    let ways = ALGORITHMS
        .into_iter()
        .flat_map(|(name, join)| Mode::ALL.map(|mode| Way { mode, ..Way::of((name, join), cores()) }));
    let engine =
        Mode::ALL.into_iter().flat_map(|mode| [1, cores()].map(|joiners| Way::of_engine(ENGINE, joiners, mode)));
    let ways = ways.chain(engine);
    let rate = match workload.arrival {
        Some(rate) => format!("latency at {} k rows/s", 2 * rate / 1_000),
        None => "latency as fast as can be".to_string(),
    };
    let ways: Vec<(Way, String)> = ways.map(|way| (way, format!("{}, {rate}", way.called(workload)))).collect();
    if !ways.iter().any(|(_, variant)| report.wants(variant)) {
        return Ok(());
    }
    let fills = (workload.window + workload.lateness).min(MOST_WARM_UP_US);
    let filling = (fills as u64 * 2 * workload.rate / 1_000_000) as usize;
    let count = match (pace, report.is_quick()) {
        (Pace::Due, is_quick) => filling / 2 + if is_quick { 2 } else { 10 } * workload.rate as usize,
        // Fewer would all be within lateness of the end.
        (_, true) => workload.rows / 2,
        (_, false) => workload.rows,
    };
    let rows = &workload.generate(count);
    // Until the first window is full, there is less to look at than later.
    let stream = Stream { workload, rows, pace, warm_up: filling.min(rows.len() / 2) };
    for (way, variant) in ways {
        if report.wants(&variant) {
            stream.measure(report, way, variant)?;
        }
    }
    Ok(())
}

/// Rows that come.
struct Stream<'a> {
    workload: &'a Workload,
    rows: &'a [Row],
    pace: Pace,
    /// The results of so many rows do not count.
    warm_up: usize,
}

impl Stream<'_> {
    fn measure(&self, report: &mut Report, way: Way, variant: String) -> Result<(), String> {
        let Self { workload, rows, pace, warm_up } = *self;
        // What the engine gives early it corrects.
        let expected = Answer::of(rows, workload, if way.join.is_none() { Mode::Final } else { way.mode });
        let is_over = AtomicBool::new(false);
        let (outcome, idle, seconds, cpu) = thread::scope(|scope| {
            let idle = scope.spawn(|| lateness(&is_over));
            let watch = Stopwatch::start();
            let first = warm_up as i64;
            let outcome = match way.join {
                None => arriving::run(rows, (workload, pace), way.mode, way.joiners, first)
                    .map_err(|error| error.to_string()),
                Some(join) => {
                    let feed = Feed::new(rows, workload, pace);
                    Ok(join(&feed, workload, way.mode, way.joiners, Wanted::Latency(first)))
                }
            };
            let (seconds, cpu) = watch.stop();
            is_over.store(true, Relaxed);
            (outcome, idle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), seconds, cpu)
        });
        let outcome = outcome.map_err(|error| format!("interval-join {variant}: {error}"))?;
        let checked = expected.compare(&outcome.answer).map_err(|error| format!("interval-join {variant}: {error}"))?;
        let mut case = way.case(workload, variant.clone(), rows);
        let within = within(&outcome.latencies_us, LINE_US);
        case.parameters.extend(parameters([
            ("arriving_rows_per_s", json!(workload.arrival.map(|rate| [rate, rate]))),
            ("packet_us", json!((pace == Pace::Due).then_some(TICK_US))),
            ("warm_up_rows", json!(warm_up)),
            (
                "latency_from",
                json!(if way.mode == Mode::Final { "the watermark's passing" } else { "a row's arrival" }),
            ),
            ("within_20_ms", json!(within)),
            ("distribution_ms", json!(distribution(outcome.latencies_us.clone()))),
        ]));
        let latencies = Latencies::of(outcome.latencies_us);
        report.add_paced(case, Paced { seconds, cpu, checked, latencies, idle: Some(Latencies::of(idle)) });
        report.note(&variant, Map::new(), &format!("{:.2} % of the results within 20 ms", 100.0 * within));
        Ok(())
    }
}

/// Which share of these times is at most so long.
fn within(times: &[f64], most: f64) -> f64 {
    times.iter().filter(|time| **time <= most).count() as f64 / times.len().max(1) as f64
}

/// Times in milliseconds, and which share is at most so long: a point for each percent.
fn distribution(mut times: Vec<f64>) -> Vec<(f64, f64)> {
    times.sort_by(f64::total_cmp);
    let Some(last) = times.len().checked_sub(1) else { return Vec::new() };
    (0..=100).map(|percent| (times[last * percent / 100] / 1e3, percent as f64 / 100.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_goes_from_the_shortest_to_the_longest_time() {
        let times: Vec<f64> = (1..=1_001).rev().map(|ms| f64::from(ms) * 1e3).collect();
        assert_eq!(within(&times, LINE_US), 20.0 / 1_001.0);
        let points = distribution(times);
        assert_eq!([points[0], points[50], points[100]], [(1.0, 0.0), (501.0, 0.5), (1_001.0, 1.0)]);
        assert!(distribution(Vec::new()).is_empty());
    }
}
