//! Thousands of interleavings of real operators, pipes and exchanges, each of which its seed repeats: the rows are those of one
//! instance, in its order where order is asked for, whatever waits for what; and every query ends.

use std::{
    cell::RefCell,
    collections::HashMap,
    ops::Range,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use testkit::{
    fold::fold,
    script::{Item, Scripts},
    show,
    sim::{each, pick, schedule, seeds},
};
use thalweg::{Engine, Metrics, Plan, Query};

/// As many interleavings as `make test` tries.
const USUAL: u64 = 10_000;

/// Streams of 1 to 4 partitions, 24 rows each: late rows, silence, perhaps also at their end, null keys, one key that most rows have.
fn scripts(stream: u64, may_end_silent: bool) -> Scripts {
    let mut random = StdRng::seed_from_u64(stream);
    let partitions = 1 + stream as i64 % 4;
    let mut partition = |number: i64| {
        let mut items = Vec::new();
        for row in 0..24_i64 {
            let late = if random.random_bool(0.1) { random.random_range(0..150) } else { 0 };
            let key = if random.random_bool(0.5) { 0 } else { random.random_range(0..6) };
            let key = random.random_bool(0.9).then(|| key.to_string());
            let text = random.random_bool(0.8).then(|| "a long text ".repeat(random.random_range(0..4)));
            let time = (row * 15 - late).max(0).to_string();
            items.push(Item::Row(vec![Some(time), key, text, Some((number * 1000 + row).to_string())]));
            if partitions == 1 && random.random_bool(0.1) {
                // Nobody else can move time on.
                items.push(Item::Idle);
            }
        }
        if random.random_bool(0.5) && may_end_silent {
            // Before that, which windows are still open would depend on who is heard of first.
            items.push(Item::Idle);
        }
        items
    };
    Scripts::new(HashMap::from([("s".to_string(), (0..partitions).map(&mut partition).collect())]))
}

const STREAMS: u64 = 8;

const QUERIES: &[&str] = &[
    "SELECT window_end, k, count(*), sum(n), max(t) FROM TUMBLE(s, ts, INTERVAL '1' MINUTE) GROUP BY window_end, k",
    "SELECT window_end, t, count(DISTINCT k), min(n) FROM HOP(s, ts, INTERVAL '20' SECOND, INTERVAL '1' MINUTE)
     WHERE n % 7 <> 3 GROUP BY window_end, t HAVING count(*) > 1",
    "SELECT window_end, c, count(*) FROM TUMBLE(
       (SELECT window_time AS wt, k, count(*) AS c FROM TUMBLE(s, ts, INTERVAL '1' MINUTE) GROUP BY window_time, window_end, k),
       wt, INTERVAL '3' MINUTE) GROUP BY window_end, c",
    "SELECT k, count(*), string_agg(t, ',' ORDER BY n) FROM s GROUP BY k",
    "SELECT k, n FROM (SELECT k, n FROM s WHERE n % 2 = 0 UNION ALL SELECT -k, n FROM s WHERE n % 3 = 0) ORDER BY n, k",
    "SELECT window_end, sum(c) FROM (SELECT window_end, k, count(*) AS c FROM TUMBLE(s, ts, INTERVAL '1' MINUTE)
       GROUP BY window_end, k) GROUP BY window_end",
    "SELECT window_end, k, sum(c), count(*) FROM TUMBLE(
       (SELECT window_time AS wt, k, t, count(*) AS c FROM TUMBLE(s, ts, INTERVAL '1' MINUTE)
        GROUP BY window_time, window_end, k, t),
       wt, INTERVAL '3' MINUTE) WHERE c <> 2 GROUP BY window_end, k HAVING count(*) > 1",
    "SELECT window_end, k, c FROM (
       SELECT window_end, k, count(*) AS c FROM TUMBLE(s, ts, INTERVAL '1' MINUTE) GROUP BY window_end, k
       UNION ALL SELECT window_end, k, sum(n) FROM TUMBLE(s, ts, INTERVAL '2' MINUTE) GROUP BY window_end, k)
     WHERE c % 5 <> 1 ORDER BY window_end, k, c",
    "SELECT window_end, u, count(*), sum(n) FROM TUMBLE(
       (SELECT ts, upper(replace(t, 'long', 'longer')) AS u, n FROM s WHERE n % 7 <> 3), ts, INTERVAL '1' MINUTE)
     GROUP BY window_end, u",
    "SELECT n % 4, u, count(*) FROM (SELECT n, upper(replace(t, 'long', 'longer')) AS u FROM s) GROUP BY n % 4, u",
    "SELECT k, 2 * n, upper(replace(t, 'long', 'longer')) FROM s WHERE n % 3 <> 0",
    "SELECT n, upper(replace(t, 'long', 'longer')) FROM s WHERE n % 3 <> 0 LIMIT 7",
    "SELECT window_start, n, upper(replace(t, 'long', 'longer')) FROM HOP(s, ts, INTERVAL '20' SECOND, INTERVAL '1' MINUTE)
     WHERE n % 3 <> 0",
    "SELECT sum(length(u)), max(n) FROM (SELECT n, upper(replace(t, 'long', 'longer')) AS u FROM s WHERE n % 3 <> 0)",
    "SELECT n, u FROM (SELECT n, upper(replace(t, 'long', 'longer')) AS u FROM s WHERE n % 2 = 0
       UNION ALL SELECT -n, lower(replace(t, 'long', 'longer')) FROM s WHERE n % 3 = 0) ORDER BY n, u",
    "SELECT k, n, count(*) OVER w, sum(n) OVER w, min(t) OVER w FROM s WINDOW w AS (PARTITION BY k ORDER BY ts
       RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND INTERVAL '20' SECOND FOLLOWING)",
    "SELECT n, count(*) OVER w, max(n) OVER w FROM s WINDOW w AS (PARTITION BY k ORDER BY ts
       ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)",
    "SELECT a.n, b.n, b.t FROM s a LEFT JOIN s b ON a.k = b.k AND a.n < b.n
       AND b.ts BETWEEN a.ts - INTERVAL '30' SECOND AND a.ts + INTERVAL '45' SECOND",
    "SELECT x, y FROM (SELECT a.n AS x, b.n AS y FROM s a FULL JOIN s b ON a.k = b.k AND a.n % 5 = b.n % 3
       AND b.ts BETWEEN a.ts - INTERVAL '90' SECOND AND a.ts - INTERVAL '20' SECOND) ORDER BY x, y",
    "SELECT window_end, k, count(*), sum(m) FROM TUMBLE((SELECT a.ts, a.k, b.n AS m FROM s a JOIN s b ON a.k = b.k
       AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '45' SECOND), ts, INTERVAL '1' MINUTE) GROUP BY window_end, k",
    "SELECT k, n, sum(n) OVER w, count(*) OVER w FROM s WINDOW w AS (
       UNION (SELECT ts, k, -n AS n FROM s WHERE n % 3 = 0) PARTITION BY k ORDER BY ts
       ROWS_RANGE BETWEEN 1m PRECEDING AND 10s FOLLOWING INSTANCE_NOT_IN_WINDOW)",
    "SELECT window_end, k, count(*), sum(n), max(t) FROM TUMBLE((SELECT ts, k, n, t FROM s WHERE n % 3 <> 0
       UNION ALL SELECT ts, n % 4 AS m, k, 'other' FROM s), ts, INTERVAL '1' MINUTE) GROUP BY window_end, k",
    "SELECT window_end, k, count(DISTINCT n) FROM TUMBLE((SELECT ts, k, n FROM s WHERE n % 2 = 0
       UNION ALL SELECT ts, k, -n FROM s), ts, INTERVAL '1' MINUTE) GROUP BY window_end, k ORDER BY window_end, k",
    "SELECT window_end, k, count(*), sum(n), max(c) FROM TUMBLE((SELECT ts, k, n, count(*) OVER w AS c FROM s WINDOW w AS (
       PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '40' SECOND PRECEDING AND CURRENT ROW)), ts, INTERVAL '1' MINUTE)
     WHERE c % 3 <> 1 GROUP BY window_end, k",
    "SELECT wt, k, t, c, sum(c) OVER w FROM (SELECT window_time AS wt, k, t, count(*) AS c
       FROM TUMBLE(s, ts, INTERVAL '1' MINUTE) GROUP BY window_time, window_end, k, t) WHERE c <> 3
     WINDOW w AS (PARTITION BY k ORDER BY wt RANGE BETWEEN INTERVAL '2' MINUTE PRECEDING AND CURRENT ROW)",
    "SELECT k, n, m, max(m) OVER (PARTITION BY t, k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
     FROM (SELECT ts, k, t, n, sum(n) OVER w AS m FROM s WINDOW w AS (PARTITION BY k ORDER BY ts
       RANGE BETWEEN INTERVAL '40' SECOND PRECEDING AND INTERVAL '10' SECOND FOLLOWING))",
    "SELECT k, n, m, sum(m) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '30' SECOND PRECEDING AND CURRENT ROW)
     FROM (SELECT a.ts, b.k, a.n, b.n AS m FROM s a JOIN s b ON a.k = b.k
       AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '45' SECOND)",
    "SELECT window_end, k, sum(m), count(DISTINCT c) FROM TUMBLE((SELECT ts, k, m, count(*) OVER w AS c
       FROM (SELECT a.ts, a.k, b.n AS m FROM s a LEFT JOIN s b ON a.k = b.k AND a.n % 3 = b.n % 3
         AND b.ts BETWEEN a.ts - INTERVAL '20' SECOND AND a.ts + INTERVAL '45' SECOND)
       WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '30' SECOND PRECEDING AND CURRENT ROW)),
       ts, INTERVAL '1' MINUTE) GROUP BY window_end, k",
    "SELECT a.n, b.n, b.t FROM (SELECT ts, k, n FROM s WHERE n % 3 <> 0 UNION ALL SELECT ts, n % 4, -n FROM s) a
       LEFT JOIN (SELECT ts, k, n + 1 AS n, t FROM (SELECT ts, k, n, t FROM s UNION ALL SELECT ts, n % 4, k, 'other' FROM s)
         WHERE n % 2 = 0) b
       ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '30' SECOND AND a.ts ORDER BY a.n, b.n, b.t",
    "SELECT k, n, sum(n) OVER w, count(*) OVER w FROM (SELECT ts, k, n FROM s WHERE n % 2 = 0 UNION ALL SELECT ts, n % 4, n FROM s)
       WINDOW w AS (UNION (SELECT ts, k, -n AS n FROM s WHERE n % 3 = 0 UNION ALL SELECT ts, k, 7 FROM s) PARTITION BY k ORDER BY ts
       ROWS_RANGE BETWEEN 1m PRECEDING AND 10s FOLLOWING) ORDER BY k, n",
    "SELECT a.n, b.n, b.t FROM s a RIGHT JOIN s b ON a.k = b.k AND a.n < b.n
       AND b.ts BETWEEN a.ts - INTERVAL '30' SECOND AND a.ts + INTERVAL '45' SECOND",
    "SELECT a.k, a.n FROM s a WHERE NOT EXISTS (SELECT 1 FROM s b WHERE a.k = b.k AND a.n % 3 = b.n % 2
       AND b.ts BETWEEN a.ts + INTERVAL '1' SECOND AND a.ts + INTERVAL '45' SECOND)",
    "SELECT k, n, count(*) OVER w, sum(n) OVER w, max(t) OVER w, count(DISTINCT n) OVER v FROM s
       WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
              v AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '30' SECOND PRECEDING AND CURRENT ROW)",
    "SELECT k, n, sum(n) OVER w, count(DISTINCT n % 5) OVER w, last_value(n) OVER w FROM s WINDOW w AS (
       UNION (SELECT ts, k, -n AS n FROM s WHERE n % 3 = 0) PARTITION BY k ORDER BY ts
       ROWS_RANGE BETWEEN 2m PRECEDING AND 10s FOLLOWING) EMIT EAGER",
    "SELECT k, n, count(*) OVER w, median(n) OVER w, first_value(t) OVER w FROM s WINDOW w AS (PARTITION BY k ORDER BY ts
       ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) EMIT EAGER",
    "SELECT a.n, b.n, b.t FROM s a LEFT JOIN s b ON a.k = b.k AND a.n % 3 = b.n % 3
       AND b.ts BETWEEN a.ts - INTERVAL '30' SECOND AND a.ts + INTERVAL '45' SECOND EMIT EAGER",
    "SELECT k, n, sum(n) OVER w, count(*) OVER v, max(n) OVER u FROM s
       WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '40' SECOND PRECEDING AND INTERVAL '10' SECOND FOLLOWING),
              v AS (PARTITION BY n % 3 ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW),
              u AS (UNION (SELECT ts, k, t, -n AS n FROM s WHERE n % 3 = 0) PARTITION BY t ORDER BY ts
       ROWS_RANGE BETWEEN 1m PRECEDING AND CURRENT ROW) EMIT EAGER",
    "SELECT a.n, b.n, b.t FROM s a FULL JOIN s b ON a.k = b.k AND a.n % 5 = b.n % 3
       AND b.ts BETWEEN a.ts - INTERVAL '90' SECOND AND a.ts + INTERVAL '20' SECOND EMIT EAGER",
    "SELECT k, n, sum(n) OVER w, count(*) OVER w, avg(n) OVER w FROM s WINDOW w AS (
       UNION (SELECT ts, k, -n AS n FROM s WHERE n % 3 = 0) PARTITION BY k ORDER BY ts
       ROWS_RANGE BETWEEN 1m PRECEDING AND 10s FOLLOWING INSTANCE_NOT_IN_WINDOW) EMIT EAGER",
];

/// The queries, by number.
const ALL: [usize; 39] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
    31, 32, 33, 34, 35, 36, 37, 38,
];

/// What a query ends with whose results come out at once, and are corrected.
const EAGER: &str = "EMIT EAGER";

/// In these queries rows stand in the order of their partition, or depend on it, and there is only one.
const OF_ONE_PARTITION: Range<usize> = 8..15;

/// From this query on a stream meets itself: one of several partitions, which are silent only at their end. What is silent before would
/// be late for what is not. Up to four exchanges by key follow.
const OF_TWO_INPUTS: usize = 17;

/// In this query a stream meets itself behind a window that looks ahead: where it is silent before its end, it depends on which way that is
/// heard of first whether what the window holds back is waited for.
const HOLDS_BACK: usize = 36;

const STRATEGIES: [&str; 3] = ["subquery-cluster", "query-cluster", "operator-cluster"];

/// The rows of a query, and how many rows were late.
type Rows = (Vec<String>, u64);

/// What the rows of one instance depend on: the stream, the query, and whether late rows are allowed.
type Key = (u64, usize, bool);

/// In which order rows come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// In that of one instance.
    Exact,
    /// In that of one instance but for rows that are counted: they wait for each other no longer than some time, if that.
    Counted,
    /// In any.
    Any,
}

/// How a run is made, apart from its schedule.
struct Run {
    stream: u64,
    query: usize,
    settings: String,
    order: Order,
    is_reloaded: bool,
    /// Whether key groups change hands at barriers.
    is_moved: bool,
    barriers: usize,
}

impl Run {
    fn of(number: u64) -> Self {
        let mut random = StdRng::seed_from_u64(number);
        let mut one = |of: &[usize]| *of.choose(&mut random).expect("there are some");
        let (instances, batch_rows) = (one(&[2, 2, 3, 3, 5, 8, 17]), one(&[1, 3, 50]));
        let (stream, query) = (one(&[0, 1, 2, 3, 4, 5, 6, 7]) as u64 % STREAMS, one(&ALL));
        // As little as there may be: each pair of a sender and a receiver has two pages.
        let exchanges = if query >= OF_TWO_INPUTS { 4 } else { 2 };
        let memory = one(&[2 * 4096 * exchanges * instances * instances.max(4), 8 << 20, 32 << 20]);
        let (order, merge, slack) = [
            (Order::Exact, "ordered", "1 us"),
            (Order::Exact, "slack", "1 d"),
            (Order::Counted, "slack", "1 us"),
            (Order::Counted, "slack", "20 ms"),
            (Order::Any, "arrival", "1 us"),
        ][one(&[0, 0, 1, 2, 3, 4, 4])];
        let scatter = ["auto", "buffered", "hybrid", "selected"][one(&[0, 1, 2, 3])];
        let strategy = STRATEGIES[number as usize % STRATEGIES.len()];
        let phases = ["auto", "two", "one"][one(&[0, 0, 1, 2])];
        // The draws stay as they are.
        let index = ["auto", "skip-list"][batch_rows / 2 % 2];
        let settings = format!(
            "SET 'join.index' = '{index}'; SET 'aggregate.phases' = '{phases}'; SET 'parallel.strategy' = '{strategy}'; SET 'merge' = '{merge}'; SET 'merge.slack' = '{slack}';
             SET 'parallelism' = '{instances}'; SET 'exchange.memory' = '{memory}';
             SET 'batch.rows' = '{batch_rows}'; SET 'exchange.scatter' = '{scatter}'; SET 'late.allowed' = '{} s';",
            one(&[0, 30])
        );
        let order = if QUERIES[query].ends_with(EAGER) { Order::Any } else { order };
        let stream = match query {
            query if OF_ONE_PARTITION.contains(&query) => stream / 4 * 4,
            query if query >= OF_TWO_INPUTS && stream % 4 == 0 => stream + 1,
            _ => stream,
        };
        Self {
            stream,
            query,
            settings,
            order,
            is_reloaded: one(&[0, 1]) == 1,
            is_moved: one(&[0, 1]) == 1,
            barriers: one(&[0, 20]),
        }
    }

    /// The engine that runs it, and what it runs.
    fn planned(&self, is_alone: bool) -> (Engine, Plan) {
        let mut engine = Engine::with_connectors(vec![Arc::new(scripts(self.stream, self.query != HOLDS_BACK))]);
        let table =
            "CREATE TABLE s (ts TIMESTAMP, k BIGINT, t STRING, n BIGINT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
                     WITH ('connector' = 'script')";
        engine.sql(table).unwrap();
        engine.sql(&self.settings).unwrap();
        if is_alone {
            engine.sql("SET 'parallelism' = '1'; SET 'merge' = 'ordered'").unwrap();
        } else if self.is_reloaded {
            engine.reload_at_barriers();
        }
        // What corrections leave is what comes out in the end.
        let sql = if is_alone { QUERIES[self.query].trim_end_matches(EAGER) } else { QUERIES[self.query] };
        let statement = engine.parse(sql).unwrap().remove(0);
        let plan = engine.plan(&statement).unwrap().unwrap();
        (engine, plan)
    }

    /// What one instance gives, computed once.
    fn expected(&self) -> Arc<Rows> {
        static KNOWN: OnceLock<Mutex<HashMap<Key, Arc<Rows>>>> = OnceLock::new();
        let key = (self.stream, self.query, self.settings.contains("'30 s'"));
        let known = KNOWN.get_or_init(Mutex::default);
        if let Some(rows) = known.lock().unwrap().get(&key) {
            return Arc::clone(rows);
        }
        let (engine, plan) = self.planned(true);
        let rows = Arc::new(rows(engine.run(&plan).unwrap()));
        known.lock().unwrap().insert(key, Arc::clone(&rows));
        rows
    }
}

fn rows(query: Query) -> Rows {
    let (rows, _) = rows_and_metrics(query);
    rows
}

/// The rows, and what was counted.
fn rows_and_metrics(mut query: Query) -> (Rows, Metrics) {
    let mut lines = Vec::new();
    for batch in query.by_ref() {
        lines.extend(show::lines(&batch.unwrap()).unwrap());
    }
    let metrics = query.metrics();
    ((lines, metrics.late_rows), metrics)
}

/// How many rows come behind one that is behind them in this order.
fn out_of_order(found: &[String], order: &[String]) -> u64 {
    let places: HashMap<&String, usize> = order.iter().zip(0..).collect();
    let mut furthest = 0;
    let is_behind = |line: &&String| {
        let place = places.get(line).copied().unwrap_or(usize::MAX);
        let is_behind = place < furthest;
        furthest = furthest.max(place);
        is_behind
    };
    found.iter().filter(is_behind).count() as u64
}

fn sorted((mut lines, late): Rows) -> Rows {
    lines.sort();
    (lines, late)
}

/// So many schedules are tried with one plan: to make it takes longer than to run it.
const SCHEDULES: u64 = 20;

thread_local! {
    static LAST: RefCell<Option<(u64, Run, Engine, Plan)>> = const { RefCell::new(None) };
}

#[test]
fn every_interleaving_gives_the_rows_of_one_instance() {
    let [moved, shared, waited, loose, corrected] = [const { AtomicU64::new(0) }; 5];
    let seeds = seeds(USUAL).unwrap();
    each(seeds.clone(), |seed| {
        LAST.with_borrow_mut(|last| {
            let number = seed / SCHEDULES;
            if last.as_ref().is_none_or(|(of, ..)| *of != number) {
                let run = Run::of(number);
                let (engine, plan) = run.planned(false);
                *last = Some((number, run, engine, plan));
            }
            let Some((_, run, engine, plan)) = last else { return };
            engine.simulate(schedule(seed, run.barriers));
            if run.is_moved {
                engine.move_key_groups(pick(!seed));
            }
            let (mut found, metrics) = rows_and_metrics(engine.run(plan).unwrap());
            let mut expected = Rows::clone(&run.expected());
            moved.fetch_add(metrics.moved_groups, Relaxed);
            shared.fetch_add(u64::from(metrics.nodes.iter().any(|node| node.most_owners > 1)), Relaxed);
            waited.fetch_add(metrics.waited_rows, Relaxed);
            assert!(!expected.0.is_empty());
            if QUERIES[run.query].ends_with(EAGER) {
                corrected.fetch_add((found.0.len() > expected.0.len()).into(), Relaxed);
                found.0 = fold(found.0).unwrap_or_else(|error| panic!("{error}, {}", QUERIES[run.query]));
            }
            let disorder = match run.order {
                Order::Counted => out_of_order(&found.0, &expected.0),
                Order::Exact | Order::Any => 0,
            };
            if run.order != Order::Exact {
                (found, expected) = (sorted(found), sorted(expected));
            }
            assert!(found == expected, "{}\n{}\n{found:?}\n{expected:?}", run.settings, QUERIES[run.query]);
            assert_eq!(metrics.out_of_order_rows, disorder, "{}\n{}", run.settings, QUERIES[run.query]);
            loose.fetch_add(disorder, Relaxed);
        });
    });
    // About one in four seeds asks for it, and has aggregates that are divided.
    let (moved, seeds) = (moved.into_inner(), seeds.end - seeds.start);
    assert!(seeds < 1000 || moved > seeds * 20, "{moved} key groups changed hands");
    let shared = shared.into_inner();
    assert!(seeds < 1000 || shared > seeds / 20, "in {shared} runs key groups were shared");
    let waited = waited.into_inner();
    assert!(seeds < 1000 || waited > seeds / 10, "{waited} rows waited for their states");
    let loose = loose.into_inner();
    assert!(seeds < 1000 || loose > seeds / 10, "{loose} rows came out of order");
    let corrected = corrected.into_inner();
    assert!(seeds < 1000 || corrected > seeds / 20, "in {corrected} runs results were corrected");
}

/// Where partitions fall silent and wake up again, it depends on who is heard of first which rows are late, and instances may hear of it
/// in different orders. A key group whose new instance has come further, or less far, must lose no order and no window by that.
#[test]
fn whoever_falls_silent_each_group_of_a_window_comes_once_and_in_order() {
    let moved = AtomicU64::new(0);
    let seeds = seeds(400).unwrap();
    // Half of the plans let rows go on without an instance that says nothing.
    let is_loose = |number: u64| number / STRATEGIES.len() as u64 % 2 == 1;
    let planned = |number: u64| {
        let mut random = StdRng::seed_from_u64(number);
        let mut partition = |number: i64| {
            let mut items = Vec::new();
            for row in 0..20_i64 {
                let time = (row * 15 + number - random.random_range(0..40)).max(0);
                let fields =
                    [time, random.random_range(0..6), number * 1000 + row].map(|field| Some(field.to_string()));
                items.push(Item::Row(fields.to_vec()));
                if random.random_bool(0.3) {
                    items.push(Item::Idle);
                }
            }
            items
        };
        let script = Scripts::new(HashMap::from([("s".to_string(), (0..4).map(&mut partition).collect())]));
        let mut engine = Engine::with_connectors(vec![Arc::new(script)]);
        let (instances, batch_rows) = (random.random_range(2..6), random.random_range(1..4));
        let strategy = STRATEGIES[number as usize % STRATEGIES.len()];
        let merge = if is_loose(number) { "slack" } else { "ordered" };
        let table = format!(
            "SET 'merge' = '{merge}'; SET 'merge.slack' = '20 us';
             SET 'parallelism' = '{instances}'; SET 'batch.rows' = '{batch_rows}'; SET 'parallel.strategy' = '{strategy}';
             CREATE TABLE s (ts TIMESTAMP, k BIGINT, n BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'script')"
        );
        engine.sql(&table).unwrap();
        let sql = "SELECT window_end, k, count(*) FROM TUMBLE(
                     (SELECT window_time AS wt, k, n FROM (
                        SELECT window_time, window_end, k, n, count(*) FROM TUMBLE(s, ts, INTERVAL '20' SECOND)
                        GROUP BY window_time, window_end, k, n)),
                     wt, INTERVAL '1' MINUTE) GROUP BY window_end, k";
        let statement = engine.parse(sql).unwrap().remove(0);
        let plan = engine.plan(&statement).unwrap().unwrap();
        (engine, plan)
    };
    each(0..seeds.end.div_ceil(SCHEDULES), |number| {
        let (mut engine, plan) = planned(number);
        for seed in (number * SCHEDULES..(number + 1) * SCHEDULES).filter(|seed| seeds.contains(seed)) {
            engine.simulate(schedule(seed, 20));
            engine.move_key_groups(pick(!seed));
            let mut query = engine.run(&plan).unwrap();
            let mut lines = show::lines(&query.next().expect("there are rows").unwrap()).unwrap();
            match seed % 4 {
                // Whatever is under way, a query that is stopped ends, and so does one whose rows nobody wants any more.
                0 => query.stop(),
                1 => drop(query.wait().unwrap()),
                _ => {}
            }
            let ((rest, _), metrics) = rows_and_metrics(query);
            lines.extend(rest);
            moved.fetch_add(metrics.moved_groups, Relaxed);
            let place = |line: &str| line.rsplit_once('|').expect("a count stands behind").0.to_string();
            let mut places: Vec<String> = lines.iter().map(|line| place(line)).collect();
            if is_loose(number) {
                let found = places.clone();
                places.sort();
                let (counted, disorder) = (metrics.out_of_order_rows, out_of_order(&found, &places));
                // Of rows that nobody takes any more, it is not seen in which order they came.
                assert!(counted == disorder || seed % 4 == 1, "THALWEG_SEED={seed}: {counted} counted, {lines:#?}");
            }
            assert!(!places.is_empty() && places.is_sorted_by(|a, b| a < b), "THALWEG_SEED={seed}: {lines:#?}");
        }
    });
    let (moved, seeds) = (moved.into_inner(), seeds.end - seeds.start);
    assert!(seeds < 400 || moved > seeds * 20, "{moved} key groups changed hands");
}

#[test]
fn an_error_has_its_turn() {
    let outcome = |seed: u64, sql: &str| {
        let mut engine = Engine::with_connectors(vec![Arc::new(scripts(0, true))]);
        let table = "SET 'parallelism' = '3'; SET 'batch.rows' = '1';
                     CREATE TABLE s (ts TIMESTAMP, k BIGINT, t STRING, n BIGINT) WITH ('connector' = 'script')";
        engine.sql(table).unwrap();
        engine.simulate(schedule(seed, 5));
        let rows: Vec<_> = engine.sql(sql).unwrap().map(|batch| Ok(show::lines(&batch?)?.join(""))).collect();
        rows.into_iter().collect::<thalweg::Result<Vec<String>>>().map_err(|error| error.to_string())
    };
    let failing =
        "SELECT n, upper(replace(t, 'long', 'longer')) FROM s WHERE 100 / (n - 7) > -1000 AND 1 / (n - 4) < 2";
    for seed in 0..40 {
        let failed = outcome(seed, failing).unwrap_err();
        assert!(failed.contains("1 / (n - 4)"), "of two errors the first in the order of rows is reported: {failed}");
        let enough = outcome(seed, &format!("{failing} LIMIT 4")).unwrap();
        assert_eq!(enough.len(), 4, "nobody wants the row that would fail");
    }
}

#[test]
fn a_seed_repeats_its_run() {
    // What a schedule was asked is what a run did.
    let asked = |seed: u64| {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut inner = schedule(seed, 5);
        let noted = Arc::clone(&asked);
        let pick = move |among: usize| {
            let picked = (inner.pick)(among);
            noted.lock().unwrap().push((among, picked));
            picked
        };
        let mut engine = Engine::with_connectors(vec![Arc::new(scripts(3, true))]);
        let table = "SET 'merge' = 'arrival'; SET 'parallelism' = '3'; SET 'batch.rows' = '3';
                     CREATE TABLE s (ts TIMESTAMP, k BIGINT, t STRING, n BIGINT, WATERMARK FOR ts AS ts)
                     WITH ('connector' = 'script')";
        engine.sql(table).unwrap();
        engine.simulate(thalweg::Schedule { pick: Box::new(pick), barriers: 5 });
        let rows: Vec<_> = engine.sql(QUERIES[0]).unwrap().map(|batch| show::lines(&batch.unwrap()).unwrap()).collect();
        (rows, std::mem::take(&mut *asked.lock().unwrap()))
    };
    let (first, again, other) = (asked(1), asked(1), asked(2));
    assert!(first.1.len() > 100 && first == again);
    assert!(first.1 != other.1);
}
