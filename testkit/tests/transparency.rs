//! Nobody can tell from a result how many instances there were: it is compared whole, with its order and each bit, with the one that a
//! single instance gives, run after run.

use std::{path::Path, sync::Arc, thread};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow_select::coalesce::BatchCoalescer;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use testkit::sim::pick;
use thalweg::{Engine, Memory, Query};

/// How often each query runs in parallel, each time in another way, and over how many rows: `make transparency` asks for 20 and ten million.
const RUNS: (&str, u64) = ("THALWEG_RUNS", 4);
const ROWS: (&str, u64) = ("THALWEG_ROWS", 400_000);

fn number((variable, usual): (&str, u64)) -> u64 {
    std::env::var(variable)
        .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}

const PARTITIONS: usize = 4;
const MOST_INSTANCES: usize = 17;

/// One run in so many has many more instances than any machine has cores; key groups change hands in it, too.
const MANY_EVERY: u64 = 4;
const MANY_INSTANCES: usize = 256;

/// How many rows are compared at a time.
const ROWS_COMPARED: usize = 8_192;

const SECOND: i64 = 1_000_000;

/// Readings of 5,000 a second of event time, each up to eight seconds behind the latest: `ts, key, value`; and their first partition alone.
fn readings(memory: &Memory) {
    const BATCH: usize = 16_384;
    let count = number(ROWS) as usize / PARTITIONS;
    let partition = |number: usize| {
        let mut random = StdRng::seed_from_u64(number as u64);
        (0..count).step_by(BATCH).map(|from| rows(from, BATCH.min(count - from), &mut random)).collect()
    };
    let partitions: Vec<Vec<_>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..PARTITIONS).map(|number| scope.spawn(move || partition(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    memory.put("alone", vec![partitions[0].clone()]).unwrap();
    memory.put("readings", partitions).unwrap();
}

fn rows(from: usize, count: usize, random: &mut impl Rng) -> RecordBatch {
    let step = SECOND / 5_000 * PARTITIONS as i64;
    let mut time =
        |row: usize| row as i64 * step - if random.random_bool(0.7) { random.random_range(0..8 * SECOND) } else { 0 };
    let times: TimestampMicrosecondArray = (from..from + count).map(|row| Some(time(row))).collect();
    let keys: Int64Array = (0..count)
        .map(|_| random.random_bool(0.99).then(|| random.random_range(0..1_000_i64).pow(2) / 1_000))
        .collect();
    let values: Float64Array = (0..count)
        .map(|_| Some(random.random_range(-1e6..1e6_f64) * 10_f64.powi(random.random_range(-9..9))))
        .collect();
    let columns: [(&str, ArrayRef); 3] =
        [("ts", Arc::new(times)), ("key", Arc::new(keys)), ("value", Arc::new(values))];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A way to run a query in parallel.
fn settings(seed: u64) -> String {
    let random = &mut StdRng::seed_from_u64(seed);
    let mut one = |of: &[&str]| of[random.random_range(0..of.len())].to_string();
    let phases = one(&["auto", "one", "two"]);
    let strategy = one(&["subquery-cluster", "query-cluster", "operator-cluster"]);
    let batch = one(&["1000", "4096", "16384"]);
    let has_many = seed % MANY_EVERY == 1;
    let instances = if has_many { MANY_INSTANCES } else { random.random_range(2..=MOST_INSTANCES) };
    format!(
        "SET 'parallelism' = '{instances}'; SET 'aggregate.phases' = '{phases}'; SET 'parallel.strategy' = '{strategy}';
         SET 'batch.rows' = '{batch}';"
    )
}

/// The rows of a query in batches of one size, how many were late, and how many key groups changed hands: at barriers, if they may.
fn whole(mut query: Query, has_barriers: bool) -> (Vec<RecordBatch>, u64, u64) {
    let control = query.control().unwrap();
    let (mut whole, mut found) = (None, Vec::new());
    for (number, batch) in query.by_ref().enumerate() {
        let batch = batch.unwrap();
        let whole = whole.get_or_insert_with(|| BatchCoalescer::new(batch.schema(), ROWS_COMPARED));
        whole.push_batch(batch).unwrap();
        found.extend(std::iter::from_fn(|| whole.next_completed_batch()));
        if has_barriers && number % 10 == 0 {
            control.request_barrier();
        }
    }
    if let Some(mut whole) = whole {
        whole.finish_buffered_batch().unwrap();
        found.extend(whole.next_completed_batch());
    }
    let metrics = query.metrics();
    (found, metrics.late_rows, metrics.moved_groups)
}

/// Runs a query alone, and then again and again in other ways.
fn check(name: &str, engine: impl Fn() -> Engine, query: &str, has_windows: bool) {
    let run = |settings: &str, moves: Option<u64>| {
        let mut engine = engine();
        if let Some(seed) = moves {
            engine.move_key_groups(pick(seed));
        }
        engine.sql(settings).unwrap();
        whole(engine.sql(query).unwrap(), moves.is_some())
    };
    let (expected, late, _) = run("SET 'parallelism' = '1'", None);
    let rows: usize = expected.iter().map(RecordBatch::num_rows).sum();
    assert!(rows > 100 && (late > 0) == has_windows, "{name}: {rows} rows, {late} late");
    let mut moved = 0;
    for seed in 0..number(RUNS) {
        let settings = settings(seed);
        let (found, found_late, groups) = run(&settings, (seed % 2 == 1).then_some(seed));
        moved += groups;
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(wrong, None, "{name}: run {seed} differs in these {ROWS_COMPARED} rows; {settings}");
        assert_eq!((found.len(), found_late), (expected.len(), late), "{name}: run {seed}; {settings}");
    }
    assert!(!has_windows || moved > 0, "{name}: no key group changed hands");
}

#[test]
fn disordered_rows_give_one_result_in_every_run() {
    let memory = Memory::default();
    readings(&memory);
    let engine = || {
        let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
        for name in ["readings", "alone"] {
            let table = format!(
                "CREATE TABLE {name} (WATERMARK FOR ts AS ts - INTERVAL '7' SECOND)
                 WITH ('connector' = 'memory', 'stream' = '{name}')"
            );
            engine.sql(&table).unwrap();
        }
        engine
    };
    let windows = |of: &str| {
        format!(
            "SELECT window_start, window_end, key, count(*) AS n, avg(value) AS mean, min(ts) AS first, max(value) AS most
             FROM HOP({of}, ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) WHERE value > -1e5
             GROUP BY window_start, window_end, key"
        )
    };
    let shares = format!(
        "SELECT window_start, key % 10 AS last, sum(mean) AS total, count(*) AS keys FROM ({})
         GROUP BY window_start, window_end, key % 10",
        windows("readings")
    );
    let selected = "SELECT ts, key, sqrt(abs(value)) AS root, sin(value) AS sine FROM alone WHERE abs(value) < 10";
    check("windows", engine, &windows("readings"), true);
    check("windows of windows", engine, &shares, true);
    check("windows of one partition", engine, &windows("alone"), true);
    check("rows of one partition", engine, selected, false);
}

#[test]
fn a_year_of_departures_gives_one_result_in_every_run() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data/departures.csv.gz");
    let engine = || {
        let mut engine = Engine::new();
        let table = format!(
            "CREATE TABLE departures (WATERMARK FOR sched_dep AS sched_dep - INTERVAL '3' HOUR)
             WITH ('connector' = 'file', 'path' = '{}')",
            data.display()
        );
        engine.sql(&table).unwrap();
        engine
    };
    let query = "SELECT window_start, dest, carrier, count(*) AS n, avg(dep_delay) AS mean, stddev(dep_delay) AS deviation
                 FROM TUMBLE(departures, sched_dep, INTERVAL '1' HOUR) GROUP BY window_start, window_end, dest, carrier";
    check("departures", engine, query, true);
}
