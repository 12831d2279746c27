//! Do key groups that move with the load help, and when? A rate that goes up and down, and hot keys that change, with `'adaptive'` and
//! without.
//!
//! * [`load`]: the source
//! * [`watch`]: what the query does from moment to moment
//! * [`plot`]: that as pictures

pub mod load;
pub mod plot;
pub mod watch;

use std::{sync::Arc, thread};

use arrow_array::{RecordBatch, cast::AsArray, types::*};
use load::{KEYS, Load, Schedule};
use serde_json::json;
use thalweg::Engine;
use watch::{Moment, Watch};

use crate::{
    expected::take_groups,
    machine::{Stopwatch, cores},
    measure::{Case, Latencies, Paced, Report, parameters},
};

const INSTANCES: [usize; 2] = [2, 4];

/// A text is made of each row and hashed, at the instance that has its key: a row takes about a microsecond there.
const QUERY: &str = "SELECT window_start, key, count(*) AS n, sum(n) AS total, max(md5(CAST(n AS STRING))) AS hash \
                     FROM TUMBLE(load, ts, INTERVAL '1' SECOND) GROUP BY window_start, window_end, key";

const WINDOW_US: i64 = 1_000_000;

/// Measures each schedule in each number of instances, with and without moves.
pub fn run(report: &mut Report) -> Result<(), String> {
    let part = if report.is_quick() { 3 } else { 10 };
    let schedules = [
        ("rate 1, 10, 1", vec![(part, 200_000), (part, 2_000_000), (part, 200_000)], None, true),
        ("hot keys change, at a rate", vec![(3 * part, 600_000)], Some(part / 2), true),
        ("hot keys change, as fast as can be", vec![(3 * part, 1_000_000)], Some(part / 2), false),
    ];
    for (name, rates, hot_s, is_paced) in schedules {
        let schedule = Schedule { rates, hot_s, is_paced };
        for instances in INSTANCES {
            for is_adaptive in [false, true] {
                let variant =
                    format!("{name}, {instances} instances, {}", if is_adaptive { "adaptive" } else { "fixed" });
                if report.wants(&variant) {
                    measure(report, variant, schedule.clone(), instances, is_adaptive)?;
                }
            }
        }
    }
    Ok(())
}

fn measure(
    report: &mut Report,
    variant: String,
    schedule: Schedule,
    instances: usize,
    is_adaptive: bool,
) -> Result<(), String> {
    let load = Load::new(schedule.clone());
    let told = |error: thalweg::Error| format!("adaptive {variant}: {error}");
    let mut engine = Engine::with_connectors(vec![Arc::new(load.clone())]);
    // Rows travel as they are: states of groups would have no skew.
    let tables = format!(
        "SET 'parallelism' = '{instances}'; SET 'aggregate.phases' = 'one'; SET 'adaptive' = '{is_adaptive}';
         CREATE TABLE load (WATERMARK FOR ts AS ts) WITH ('connector' = 'load')"
    );
    engine.sql(&tables).map_err(told)?;
    let stopwatch = Stopwatch::start();
    let mut query = engine.sql(QUERY).map_err(told)?;
    let control = query.control().ok_or("there is nothing that runs")?;
    let (batches, latencies, moments) = thread::scope(|scope| {
        let (load, control) = (&load, &control);
        let watch = scope.spawn(move || Watch::new(load.origin(), control.clone()).moments());
        let (mut batches, mut latencies) = (Vec::new(), Vec::new());
        for batch in query.by_ref() {
            let now = load.origin().elapsed().as_micros() as f64;
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    control.stop();
                    return Err(told(error));
                }
            };
            let ends = batch
                .column(0)
                .as_primitive::<TimestampMicrosecondType>()
                .values()
                .iter()
                .map(|start| start + WINDOW_US);
            latencies.extend(ends.map(|end| (end, now - end as f64)));
            batches.push(batch);
        }
        let moments = watch.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((batches, latencies, moments))
    })?;
    let (seconds, cpu) = stopwatch.stop();
    let checked = check(&batches, &schedule).map_err(|error| format!("adaptive {variant}: {error}"))?;
    let metrics = query.metrics();
    // The last window is known by the end of the stream, and not by a row that is due then.
    let last = schedule.time_us(schedule.rows() - 1);
    let counted = latencies.iter().filter(|(end, _)| schedule.is_paced && *end <= last);
    let busy: Vec<&Moment> = moments.iter().filter(|moment| moment.rows_per_s > 0.0).collect();
    let imbalance = busy.iter().map(|moment| moment.imbalance * moment.rows_per_s).sum::<f64>()
        / busy.iter().map(|moment| moment.rows_per_s).sum::<f64>().max(1.0);
    let case = Case {
        workload: "adaptive",
        variant: variant.clone(),
        parameters: parameters([
            ("query", json!(QUERY)),
            (
                "input",
                json!("24-byte rows of one partition, 1,000 keys; where keys are hot, four have 80 % of the rows"),
            ),
            ("rates", json!(schedule.rates)),
            ("hot_keys_change_s", json!(schedule.hot_s)),
            ("instances", json!(instances)),
            ("adaptive", json!(is_adaptive)),
            ("changes", json!(metrics.changes)),
            ("moved_groups", json!(metrics.moved_groups)),
            ("waited_rows", json!(metrics.waited_rows)),
            ("moving_ms", json!(metrics.moving.as_secs_f64() * 1e3)),
            ("meeting_ms", json!(metrics.meeting.as_secs_f64() * 1e3)),
            ("imbalance", json!(imbalance)),
            ("moments", json!(moments)),
            ("windows", json!(if schedule.is_paced { latencies_by_window(&latencies) } else { Vec::new() })),
        ]),
        rows: schedule.rows(),
        bytes_per_row: 24.0,
        workers: cores(),
        peak: None,
    };
    let latencies = Latencies::of(counted.map(|(_, us)| *us).collect());
    report.add_paced(case, Paced { seconds, cpu, checked, latencies, idle: None });
    let said = format!(
        "the busiest instance has {imbalance:.2} x the average; {} changes, {} key groups moved in {:.1} ms, instances waited {:.1} ms for each other, {} rows for their states",
        metrics.changes,
        metrics.moved_groups,
        metrics.moving.as_secs_f64() * 1e3,
        metrics.meeting.as_secs_f64() * 1e3,
        metrics.waited_rows
    );
    report.note(&variant, parameters([]), &said);
    Ok(())
}

/// How long after its end the last row of each window came, in milliseconds: seconds, and that.
fn latencies_by_window(latencies: &[(i64, f64)]) -> Vec<(f64, f64)> {
    let mut windows: Vec<(f64, f64)> = Vec::new();
    for (end, us) in latencies {
        let (end, ms) = (*end as f64 / 1e6, us / 1e3);
        match windows.last_mut() {
            Some((known, most)) if *known == end => *most = most.max(ms),
            _ => windows.push((end, ms)),
        }
    }
    windows
}

/// Compares each window's counts and sums with those of the schedule.
fn check(batches: &[RecordBatch], schedule: &Schedule) -> Result<u64, String> {
    let place = |time: i64, key: i64| (time / WINDOW_US) as usize * KEYS as usize + key as usize;
    let mut expected = vec![(0i64, 0i64); place(schedule.time_us(schedule.rows() - 1), 0) + KEYS as usize];
    for row in 0..schedule.rows() {
        let time = schedule.time_us(row);
        let (count, sum) = &mut expected[place(time, schedule.key(row, time))];
        (*count, *sum) = (*count + 1, *sum + row as i64);
    }
    take_groups::<Int64Type>(&mut expected, batches, place)
}
