//! Topologies built in Rust over random, disordered rows: each gives the rows of a definition that takes one row at a time, at
//! every batch size and number of workers, and when states are saved and loaded in between.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::{
    script::{Item, Script, Scripts},
    show,
};
use thalweg::{
    Engine, Query,
    topology::{Topology, Window},
};

/// Second, key, value.
type Row = (i64, Option<i64>, i64);

/// How queries are run: rows in a batch, workers, seed of barriers.
const RUNS: [(usize, usize, Option<u64>); 5] =
    [(1, 1, Some(1)), (7, 3, Some(2)), (4096, 8, None), (7, 5, Some(3)), (4096, 5, Some(4))];

const SEEDS: u64 = 25;

fn random_rows(random: &mut StdRng) -> Vec<Row> {
    let count = random.random_range(0..120);
    let mut time = 0;
    let mut next = |random: &mut StdRng| {
        time += random.random_range(0..3);
        let key = random.random_bool(0.9).then(|| random.random_range(0..4));
        (time - random.random_range(0..4).min(time), key, random.random_range(-50..50))
    };
    (0..count).map(|_| next(random)).collect()
}

fn script(partitions: &[Vec<Row>]) -> Script {
    let fields = |(time, key, value): &Row| {
        Item::Row(vec![Some(time.to_string()), key.map(|key| key.to_string()), Some(value.to_string())])
    };
    partitions.iter().map(|rows| rows.iter().map(fields).collect()).collect()
}

/// An engine with a table `t` of these partitions, whose rows may be out of order by four seconds.
fn engine(partitions: &[Vec<Row>], (batch, workers, barriers): (usize, usize, Option<u64>)) -> Engine {
    let mut scripts = Scripts::new(HashMap::from([("t".to_string(), script(partitions))]));
    if let Some(seed) = barriers {
        scripts = scripts.with_barriers(seed);
    }
    let mut engine = Engine::with_connectors(vec![Arc::new(scripts)]);
    engine.reload_at_barriers();
    let merge = if workers == 5 { "arrival" } else { "ordered" };
    engine
        .sql(&format!(
            "SET 'batch.rows' = '{batch}'; SET 'batch.linger' = '0 ms'; SET 'parallelism' = '{workers}'; SET 'merge' = '{merge}';
             CREATE TABLE t (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL '4' SECOND)
             WITH ('connector' = 'script')"
        ))
        .unwrap();
    engine
}

fn rows_of(query: Query) -> Vec<String> {
    query.flat_map(|batch| show::lines(&batch.unwrap()).unwrap()).collect()
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

/// Runs a topology in every way; its rows, sorted, must be these.
fn check(
    seed: u64,
    partitions: &[Vec<Row>],
    expected: Vec<String>,
    build: impl Fn(&Topology<'_>) -> thalweg::Result<Query>,
) {
    check_as(seed, partitions, sorted(expected), &RUNS, sorted, build);
}

/// Runs a topology in every way in which order is kept; its rows must be these, in this order.
fn check_in_order(
    seed: u64,
    partitions: &[Vec<Row>],
    expected: Vec<String>,
    build: impl Fn(&Topology<'_>) -> thalweg::Result<Query>,
) {
    check_as(seed, partitions, expected, &RUNS[..3], |rows| rows, build);
}

fn check_as(
    seed: u64,
    partitions: &[Vec<Row>],
    expected: Vec<String>,
    runs: &[(usize, usize, Option<u64>)],
    look: impl Fn(Vec<String>) -> Vec<String>,
    build: impl Fn(&Topology<'_>) -> thalweg::Result<Query>,
) {
    for run in runs {
        let engine = engine(partitions, *run);
        let found = look(rows_of(build(&engine.topology()).unwrap()));
        assert_eq!(found, expected, "seed {seed}, rows a batch, workers, barriers: {run:?}");
    }
}

fn shown(number: Option<i64>) -> String {
    number.map_or("null".to_string(), |number| number.to_string())
}

fn instant(second: i64) -> String {
    thalweg::Timestamp(second * 1_000_000).to_string()
}

#[test]
fn a_state_per_key_sees_the_rows_of_its_key_in_order() {
    for seed in 0..SEEDS {
        let mut random = StdRng::seed_from_u64(seed);
        let rows = random_rows(&mut random);
        let (mut states, mut expected) = (HashMap::<Option<i64>, (i64, f64)>::new(), Vec::new());
        for (_, key, value) in rows.iter().filter(|(_, _, value)| value % 3 != 0) {
            let (count, total) = states.entry(*key).or_default();
            *count += 1;
            *total += *value as f64 / 8.0;
            let previous = (*count > 1).then_some(*count - 1);
            expected.push(format!("{} | {value} | {count} | {total:?} | {}", shown(*key), shown(previous)));
        }
        check(seed, &[rows], expected, |topology| {
            topology
                .table("t")
                .filter("v % 3 <> 0")
                .key_by(["k"])
                .stateful_map(
                    ["n", "total", "previous"],
                    || (0_i64, 0.0_f64),
                    |(count, total), row| {
                        *count += 1;
                        *total += row.get::<i64>("v")? as f64 / 8.0;
                        Ok((*count, *total, (*count > 1).then_some(*count - 1)))
                    },
                )
                .map(["k", "v", "n", "total", "previous"])
                .start()
        });
    }
}

#[test]
fn a_row_goes_to_the_first_output_that_wants_it_and_unions_bring_all_together() {
    for seed in 0..SEEDS {
        let mut random = StdRng::seed_from_u64(seed);
        let partitions: Vec<_> = (0..random.random_range(1..4)).map(|_| random_rows(&mut random)).collect();
        let output = |(_, key, value): &Row| match key {
            Some(key) if *key > 1 => format!("large | {value}"),
            _ if value % 2 == 0 => format!("even | {}", value / 2),
            _ => format!("rest | {}", shown(*key)),
        };
        let expected = partitions.iter().flatten().map(output).collect();
        check(seed, &partitions, expected, |topology| {
            let split = topology.table("t").split(["k > 1", "v % 2 = 0"]);
            let [large, even, rest] = split[..] else { panic!("{} outputs", split.len()) };
            let large = large.map(["'large' AS name", "v AS value"]);
            let even = even.map(["'even' AS name", "v / 2 AS value"]);
            large.union(even).union(rest.map(["'rest' AS name", "k AS value"])).start()
        });
    }
}

#[test]
fn batches_are_of_one_size_and_time_waits_for_their_rows() {
    for seed in 0..SEEDS {
        let mut random = StdRng::seed_from_u64(seed);
        let rows = random_rows(&mut random);
        let size = random.random_range(1..20);
        let mut windows = BTreeMap::<i64, i64>::new();
        rows.iter().for_each(|(time, ..)| *windows.entry(time.div_euclid(10) * 10).or_default() += 1);
        let counted = |(start, count): (i64, i64)| format!("{} | {count}", instant(start));
        let expected = windows.into_iter().map(counted).collect();
        check(seed, std::slice::from_ref(&rows), expected, |topology| {
            let sizes = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&sizes);
            let batches = topology.table("t").batch(size).notify(move |batch| {
                noted.lock().unwrap().push(batch.len());
                Ok(())
            });
            let counts = batches.window(Window::tumble(Duration::from_secs(10))).aggregate(["count(*) AS n"]);
            let found: Vec<_> = counts.map(["window_start", "n"]).start()?.collect::<Result<_, _>>()?;
            let sizes = sizes.lock().unwrap();
            assert!(sizes.iter().rev().skip(1).all(|found| *found == size), "{sizes:?} of {size}");
            assert_eq!(sizes.iter().sum::<usize>(), rows.len());
            Ok(again(found))
        });
    }
}

/// The same rows as a query.
fn again(rows: Vec<arrow_array::RecordBatch>) -> Query {
    let memory = thalweg::Memory::default();
    let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
    if rows.is_empty() {
        return engine.sql("SELECT 1 WHERE false").unwrap();
    }
    memory.put("rows", vec![rows]).unwrap();
    engine.sql("CREATE TABLE rows WITH ('connector' = 'memory', 'stream' = 'rows'); SELECT * FROM rows").unwrap()
}

#[test]
fn windows_per_key_are_those_of_sql() {
    for seed in 0..SEEDS {
        let mut random = StdRng::seed_from_u64(seed);
        let partitions: Vec<_> = (0..random.random_range(1..4)).map(|_| random_rows(&mut random)).collect();
        let mut reference = engine(&partitions, RUNS[0]);
        let expected = reference.sql(
            "SELECT window_start, window_end, window_time, k % 2 AS parity, count(*) AS n, sum(v) AS total
             FROM HOP(t, ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND, INTERVAL '1' SECOND) WHERE v > -40
             GROUP BY window_start, window_end, window_time, k % 2",
        );
        check_in_order(seed, &partitions, rows_of(expected.unwrap()), |topology| {
            let hop = Window::hop(Duration::from_secs(10), Duration::from_secs(5)).offset(Duration::from_secs(1));
            let kept = topology.table("t").filter_with(|row| Ok(row.get::<i64>("v")? > -40));
            kept.key_by(["k % 2 AS parity"]).window(hop).aggregate(["count(*) AS n", "sum(v) AS total"]).start()
        });
    }
}

#[test]
fn outputs_of_a_split_behind_an_aggregate_and_functions_see_its_rows_in_order() {
    for seed in 0..SEEDS {
        let mut random = StdRng::seed_from_u64(seed);
        let partitions: Vec<_> = (0..random.random_range(1..4)).map(|_| random_rows(&mut random)).collect();
        let count = |engine: &mut Engine, condition: &str| {
            let sql = format!(
                "SELECT window_end, k, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '10' SECOND)
                 GROUP BY window_start, window_end, k HAVING {condition}"
            );
            rows_of(engine.sql(&sql).unwrap())
        };
        let mut reference = engine(&partitions, RUNS[0]);
        let odd = count(&mut reference, "count(*) % 2 = 1");
        let even = count(&mut reference, "count(*) % 2 = 0");
        check_in_order(seed, &partitions, odd, |topology| {
            let window = Window::tumble(Duration::from_secs(10));
            let counts = topology.table("t").key_by(["k"]).window(window).aggregate(["count(*) AS n"]);
            let split = counts.map(["window_end", "k", "n"]).split(["n % 2 = 1"]);
            let seen = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&seen);
            let note = move |batch: &thalweg_core::Batch| {
                noted.lock().unwrap().extend(show::lines(&batch.compact()?)?);
                Ok(())
            };
            split[1].notify(note).discard();
            let mut query = split[0].start()?;
            let odd: Vec<_> = query.by_ref().collect::<Result<_, _>>()?;
            query.wait()?;
            assert_eq!(*seen.lock().unwrap(), even, "seed {seed}");
            Ok(again(odd))
        });
    }
}

#[test]
fn every_stream_that_ends_in_a_sink_runs_and_sees_all_rows() {
    let rows: Vec<Row> = (0..500).map(|i| (i / 10, Some(i % 7), i)).collect();
    for run in RUNS {
        let engine = engine(&[rows.clone(), rows.clone()], run);
        let topology = engine.topology();
        let (seen, odd) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (all, some) = (Arc::clone(&seen), Arc::clone(&odd));
        let table = topology.table("t");
        table
            .notify(move |batch| {
                all.fetch_add(batch.len(), Ordering::Relaxed);
                Ok(())
            })
            .discard();
        let halves = table.map_with(["half"], |row| Ok(row.get::<i64>("v")? as f64 / 2.0));
        halves
            .filter("half <> floor(half)")
            .notify_rows(move |row| {
                assert_ne!(row.get::<i64>("v")? % 2, 0);
                some.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .discard();
        let _unused = table.filter("v / 0 > 1");
        let metrics = topology.start().unwrap().wait().unwrap();
        assert_eq!((seen.load(Ordering::Relaxed), odd.load(Ordering::Relaxed)), (1000, 500), "{run:?}");
        assert_eq!((metrics.rows_in, metrics.rows_out), (1000, 1500), "a source that is shared is read once");
    }
}

#[test]
fn a_panic_in_one_of_several_instances_ends_the_query_with_its_steps_name() {
    let rows: Vec<Row> = (0..500).map(|i| (i / 10, Some(i % 7), i)).collect();
    for run in RUNS {
        let engine = engine(&[rows.clone(), rows.clone()], run);
        let topology = engine.topology();
        let counted = topology.table("t").key_by(["k"]).stateful_map(
            ["n"],
            || 0_i64,
            |count, row| {
                *count += 1;
                assert!(*count < 100 || row.get::<i64>("k")? != 5, "five is too much");
                Ok((*count,))
            },
        );
        counted.discard();
        let error = topology.start().unwrap().wait().unwrap_err();
        assert_eq!(error.to_string(), "stateful_map 1 failed unexpectedly: five is too much", "{run:?}");
    }
}

#[test]
fn mistakes_are_told_with_the_step() {
    let engine = engine(&[Vec::new()], RUNS[0]);
    let told = |build: &dyn Fn(&Topology<'_>)| {
        let topology = engine.topology();
        build(&topology);
        topology.start().err().map(|error| error.to_string()).unwrap_or_default()
    };
    let window = || Window::tumble(Duration::from_secs(1));
    let never = || Window::tumble(Duration::ZERO);
    assert_eq!(told(&|t| t.table("x").discard()), "table \"x\" not found in table(\"x\")");
    assert_eq!(told(&|t| t.sql("SELECT w FROM t").discard()), "column \"w\" not found");
    assert_eq!(told(&|t| t.table("t").filter("w > 1").discard()), "column \"w\" not found in filter(\"w > 1\")");
    assert_eq!(
        told(&|t| t.table("t").filter("v").discard()),
        "the condition is BIGINT, expected BOOLEAN in filter(\"v\")"
    );
    let split = |texts: &'static [&'static str]| told(&|t| t.table("t").split(texts.iter().copied())[0].discard());
    assert_eq!(split(&["v + 1"]), "\"v + 1\" is BIGINT, expected a predicate, which is BOOLEAN in split");
    assert_eq!(split(&["true FROM x"]), "this is not one expression in \"true FROM x\" in split");
    assert_eq!(
        split(&["count(*) > 1"]),
        "a computed column is of one row, and count is of many in \"count(*) > 1\" in split"
    );
    assert_eq!(
        told(&|t| t.table("t").key_by(["v"]).aggregate(["sum(w)"]).discard()),
        "column \"w\" not found in aggregate(\"sum(w)\")"
    );
    assert_eq!(
        told(&|t| t.table("t").map(["v"]).window(window()).aggregate(["count(*)"]).discard()),
        "the stream has no event time in aggregate(\"count(*)\")"
    );
    assert_eq!(
        told(&|t| t.table("t").window(never()).aggregate(["count(*)"]).discard()),
        "windows of 0 s cannot be in aggregate(\"count(*)\")"
    );
    assert_eq!(
        told(&|t| t.table("t").map_with(["v"], |_| Ok(1_i64)).discard()),
        "there is a column \"v\" already in map_with"
    );
    assert_eq!(
        told(&|t| t.table("t").map_with(["a", "b"], |_| Ok(1_i64)).discard()),
        "1 value and 2 names of columns in map_with"
    );
    assert_eq!(told(&|t| t.table("t").batch(0).discard()), "a batch has at least one row in batch(0)");
    assert_eq!(
        told(&|t| t.table("t").union(t.table("t").map(["v"])).discard()),
        "the queries of UNION have different numbers of columns in union"
    );
    assert_eq!(told(&|t| t.table("t").into("x")), "table \"x\" not found in into(\"x\")");
    assert_eq!(told(&|_| ()), "no stream of the topology ends in a sink");
    let twice = engine.topology();
    let first = twice.table("t").start().unwrap();
    assert_eq!(
        twice.table("t").start().err().unwrap().to_string(),
        "another stream of the topology gives the query's rows already"
    );
    assert_eq!(first.count(), 0);
}
