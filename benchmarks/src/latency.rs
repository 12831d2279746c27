//! From the instant at which a row is due, or a window's end is known, to its result: rows that come at a fixed rate.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use arrow_array::{RecordBatch, cast::AsArray, types::*};
use serde_json::json;
use thalweg::Engine;

use crate::{
    expected::take_groups,
    live::{self, Live, TICK_US},
    machine::{Stopwatch, cores},
    measure::{Case, Latencies, Paced, Report, parameters},
};

const RATES: [u64; 3] = [10_000, 100_000, 1_000_000];

/// `batch.linger`: the default, and none.
const LINGERS: [&str; 2] = ["auto", "0 ms"];

/// Results of earlier event times warm up, and do not count.
const WARM_UP_US: i64 = 1_000_000;

/// How often the idle loop wants to wake.
const IDLE_PERIOD: Duration = Duration::from_millis(1);

/// What is asked of the rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Stateless,
    /// The same, with a function that is enough for its batches to be dealt to several instances.
    Dealt,
    Windows,
}

/// Measures the idle loop alone, then each question at each rate.
pub fn run(report: &mut Report) -> Result<(), String> {
    idle(report);
    for question in [Question::Stateless, Question::Dealt, Question::Windows] {
        for linger in LINGERS {
            for rate in RATES {
                let name = match question {
                    Question::Stateless => "stateless",
                    Question::Dealt => "stateless, dealt in turn",
                    Question::Windows => "TUMBLE 1 s per key",
                };
                let rate_name =
                    if rate < 1_000_000 { format!("{} k", rate / 1_000) } else { format!("{} M", rate / 1_000_000) };
                let variant = format!("{name}, {rate_name} rows/s, linger {linger}");
                if report.wants(&variant) {
                    measure(report, question, linger, rate, variant)?;
                }
            }
        }
    }
    Ok(())
}

/// How late a thread wakes on this machine while the engine does nothing.
fn idle(report: &mut Report) {
    let variant = "idle loop alone".to_string();
    if !report.wants(&variant) {
        return;
    }
    let is_over = AtomicBool::new(false);
    let seconds = if report.is_quick() { 2 } else { 10 };
    let (late, elapsed, cpu) = thread::scope(|scope| {
        let watch = Stopwatch::start();
        let idle = scope.spawn(|| lateness(&is_over));
        thread::sleep(Duration::from_secs(seconds));
        is_over.store(true, Relaxed);
        let late = joined(idle.join());
        let (elapsed, cpu) = watch.stop();
        (late, elapsed, cpu)
    });
    let rows = late.len() as u64;
    let case = Case {
        workload: "latency",
        variant,
        parameters: parameters([
            ("input", json!("none: a thread that sleeps until fixed instants, and looks how late it wakes")),
            ("period_us", json!(IDLE_PERIOD.as_micros() as u64)),
        ]),
        rows,
        bytes_per_row: 0.0,
        workers: cores(),
        peak: None,
    };
    report.add_paced(case, Paced { seconds: elapsed, cpu, checked: 0, latencies: Latencies::of(late), idle: None });
}

/// Sleeps until fixed instants; how late it woke at each, in microseconds.
pub fn lateness(is_over: &AtomicBool) -> Vec<f64> {
    let mut late = Vec::new();
    let mut due = Instant::now();
    while !is_over.load(Relaxed) {
        due += IDLE_PERIOD;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        late.push(micros(due.elapsed()));
    }
    late
}

fn measure(report: &mut Report, question: Question, linger: &str, rate: u64, variant: String) -> Result<(), String> {
    let seconds = match (report.is_quick(), question) {
        (true, _) => 3,
        (false, Question::Stateless | Question::Dealt) => 10,
        (false, Question::Windows) => 20,
    };
    let live = Live::new(rate, seconds);
    let query = question.sql();
    let mut engine = Engine::with_connectors(vec![std::sync::Arc::new(live.clone())]);
    let tables = format!(
        "{} SET 'batch.linger' = '{linger}'; CREATE TABLE live (WATERMARK FOR ts AS ts) WITH ('connector' = 'live')",
        question.settings()
    );
    engine.sql(&tables).map_err(|error| error.to_string())?;
    let is_over = AtomicBool::new(false);
    let (seen, idle, elapsed, cpu) = thread::scope(|scope| {
        let idle = scope.spawn(|| lateness(&is_over));
        let watch = Stopwatch::start();
        let seen = question.watch(&mut engine, query, &live);
        let (elapsed, cpu) = watch.stop();
        is_over.store(true, Relaxed);
        (seen, joined(idle.join()), elapsed, cpu)
    });
    let seen = seen.map_err(|error| format!("latency {variant}: {error}"))?;
    let mut parameters = parameters([
        ("query", json!(query)),
        ("input", json!("32-byte rows, 1,000 keys, in packets at fixed instants")),
        ("packet_us", json!(TICK_US)),
        ("rows_per_s", json!(rate)),
        ("batch.linger", json!(linger)),
        ("warm_up_us", json!(WARM_UP_US)),
        ("workers", json!(cores())),
    ]);
    if question == Question::Windows {
        parameters.insert("windows".to_string(), json!(seconds - 1));
    }
    let case = Case {
        workload: "latency",
        variant,
        parameters,
        rows: live.rows(),
        bytes_per_row: 32.0,
        workers: cores(),
        peak: None,
    };
    report.add_paced(
        case,
        Paced {
            seconds: elapsed,
            cpu,
            checked: seen.checked,
            latencies: Latencies::of(seen.latencies_us),
            idle: Some(Latencies::of(idle)),
        },
    );
    Ok(())
}

/// What came out.
#[derive(Default)]
struct Seen {
    latencies_us: Vec<f64>,
    checked: u64,
}

impl Question {
    fn sql(self) -> &'static str {
        match self {
            Self::Stateless => "SELECT ts, n, value * 2 AS twice FROM live WHERE n % 10 <> 3",
            Self::Dealt => "SELECT ts, n, abs(value) * 2 AS twice FROM live WHERE n % 10 <> 3",
            Self::Windows => {
                "SELECT window_start, key, count(*) AS n, sum(value) AS total \
                 FROM TUMBLE(live, ts, INTERVAL '1' SECOND) GROUP BY window_start, window_end, key"
            }
        }
    }

    fn settings(self) -> String {
        match self {
            Self::Dealt => format!("SET 'parallelism' = '{}';", cores()),
            Self::Stateless | Self::Windows => String::new(),
        }
    }

    /// Runs the query, and looks at each row as it comes out.
    fn watch(self, engine: &mut Engine, query: &str, live: &Live) -> Result<Seen, String> {
        let mut seen = Seen::default();
        let mut next = 0;
        let mut batches = Vec::new();
        for batch in engine.sql(query).map_err(|error| error.to_string())? {
            let now = Instant::now();
            let batch = batch.map_err(|error| error.to_string())?;
            match self {
                Self::Stateless | Self::Dealt => next = stateless(&batch, live, now, next, &mut seen)?,
                Self::Windows => {
                    windows(&batch, live, now, &mut seen);
                    batches.push(batch);
                }
            }
        }
        match self {
            Self::Stateless | Self::Dealt if next_kept(next) < live.rows() => {
                return Err(format!("row {next} did not come out"));
            }
            Self::Stateless | Self::Dealt => {}
            Self::Windows => seen.checked = check_windows(&batches, live)?,
        }
        Ok(seen)
    }
}

/// The first row from this one on that is kept.
fn next_kept(row: u64) -> u64 {
    if row % 10 == 3 { row + 1 } else { row }
}

/// Looks whether the rows are those that must come next; gives the row behind them.
fn stateless(batch: &RecordBatch, live: &Live, now: Instant, mut next: u64, seen: &mut Seen) -> Result<u64, String> {
    let times = batch.column(0).as_primitive::<TimestampMicrosecondType>().values();
    let numbers = batch.column(1).as_primitive::<Int64Type>().values();
    let twice = batch.column(2).as_primitive::<Float64Type>().values();
    for ((time, number), twice) in times.iter().zip(numbers).zip(twice) {
        let row = next_kept(next);
        if (*number, *time, *twice) != (row as i64, live.time_us(row), live::value(row) * 2.0) {
            return Err(format!("row {number} at {time} with {twice} came out, row {row} must"));
        }
        next = row + 1;
        seen.checked += 1;
        if *time >= WARM_UP_US {
            seen.latencies_us.push(micros(live.since(*time, now)));
        }
    }
    Ok(next)
}

const WINDOW_US: i64 = 1_000_000;

/// The end of a window is known by the packet that is due at that instant; the window that the stream's end cuts off does not
/// count.
fn windows(batch: &RecordBatch, live: &Live, now: Instant, seen: &mut Seen) {
    let last = live.time_us(live.rows() - 1);
    for start in batch.column(0).as_primitive::<TimestampMicrosecondType>().values() {
        let end = start + WINDOW_US;
        if *start >= WARM_UP_US && end <= last {
            seen.latencies_us.push(micros(live.since(end, now)));
        }
    }
}

/// Compares each window's counts and sums, which are exact.
fn check_windows(batches: &[RecordBatch], live: &Live) -> Result<u64, String> {
    let place = |start: i64, key: i64| (start / WINDOW_US) as usize * live::KEYS as usize + key as usize;
    let mut expected = vec![(0i64, 0.0); place(live.time_us(live.rows() - 1), 0) + live::KEYS as usize];
    for row in 0..live.rows() {
        let start = live.time_us(row) / WINDOW_US * WINDOW_US;
        let (count, sum) = &mut expected[place(start, live::key(row))];
        (*count, *sum) = (*count + 1, *sum + live::value(row));
    }
    take_groups::<Float64Type>(&mut expected, batches, place)
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn joined<T>(result: thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
