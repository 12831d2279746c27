//! Keys that move between instances as the load asks for: the rows stay those of one instance, in its order, and the load is divided
//! better than before.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use testkit::{
    fold::fold,
    script::{Item, Scripts},
    show,
    sim::{pick, schedule},
};
use thalweg::{Engine, Memory, Metrics, Query};

const SQL: &str =
    "SELECT window_end, k, count(*), sum(n) FROM TUMBLE(s, ts, INTERVAL '1' MINUTE) GROUP BY window_end, k";

fn rows_of(mut query: Query) -> (Vec<String>, Metrics) {
    let mut lines = Vec::new();
    for batch in query.by_ref() {
        lines.extend(show::lines(&batch.unwrap()).unwrap());
    }
    (lines, query.metrics())
}

/// Two partitions, a row a second, in which most rows have one of four keys.
fn skewed() -> Scripts {
    let row = |partition: i64, row: i64| {
        let key = if row % 10 == 0 { row % 97 } else { row % 4 };
        Item::Row([row, key, partition].map(|field| Some(field.to_string())).to_vec())
    };
    let partitions = (0..2).map(|partition| (0..3000).map(|number| row(partition, number)).collect()).collect();
    Scripts::new(HashMap::from([("s".to_string(), partitions)]))
}

/// Runs the query by a simulated clock, which moves on by up to a second between two turns, on which nothing takes time.
fn simulated(settings: &str, seed: u64) -> (Vec<String>, Metrics) {
    let mut engine = Engine::with_connectors(vec![Arc::new(skewed())]);
    let table =
        "CREATE TABLE s (ts TIMESTAMP, k BIGINT, n BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'script')";
    // States of groups have no skew; and with each watermark rows are on their way.
    engine
        .sql(&format!(
            "SET 'aggregate.phases' = 'one'; SET 'batch.rows' = '20'; SET 'batch.linger' = '0 ms'; {settings} {table}"
        ))
        .unwrap();
    engine.simulate(schedule(seed, 0));
    rows_of(engine.sql(SQL).unwrap())
}

/// Rows that the busiest instance of the aggregate has, as a share of all.
fn busiest(metrics: &Metrics) -> f64 {
    let node = metrics.nodes.iter().find(|node| node.label.starts_with("Aggregate")).unwrap();
    *node.rows_in_each.iter().max().unwrap() as f64 / node.rows_in as f64
}

#[test]
fn few_keys_with_most_rows_are_spread_over_the_instances() {
    let (expected, _) = simulated("SET 'parallelism' = '1';", 1);
    let four = "SET 'parallelism' = '4'; SET 'adaptive.interval' = '100 ms'; SET 'adaptive.low' = '0 %';";
    for seed in 0..8 {
        let (fixed, before) = simulated(&format!("{four} SET 'adaptive' = 'false';"), seed);
        let (adapted, after) = simulated(four, seed);
        assert!(fixed == expected && adapted == expected, "seed {seed}");
        assert_eq!(before.changes, 0);
        assert!((1..=5).contains(&after.changes) && after.moved_groups > 0, "seed {seed}: {} changes", after.changes);
        let (before, after) = (busiest(&before), busiest(&after));
        assert!(before > 0.4 && after < 0.35, "seed {seed}: {before} before, {after} after");
    }
}

#[test]
fn with_little_to_do_one_instance_has_all_keys() {
    let (expected, _) = simulated("SET 'parallelism' = '1';", 1);
    for seed in 0..8 {
        // No turn takes any time, which is less than any share of it.
        let (rows, metrics) = simulated("SET 'parallelism' = '4'; SET 'adaptive.interval' = '100 ms';", seed);
        assert!(rows == expected, "seed {seed}");
        assert_eq!(metrics.changes, 1, "seed {seed}");
        assert!(busiest(&metrics) > 0.7, "seed {seed}: {}", busiest(&metrics));
    }
}

/// Four partitions in memory, a row a millisecond, whose hot keys are others every so often.
fn changing() -> Memory {
    const ROWS: i64 = 4096;
    let batch = |partition: i64, first: i64| {
        let numbers = || first..first + ROWS;
        let key = |n: i64| if n % 4 == 0 { n * 31 % 1009 } else { n / 30_000 * 7 + n % 3 };
        let time = numbers().map(|n| (n - n % 5) * 1000);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("ts", Arc::new(TimestampMicrosecondArray::from_iter_values(time))),
            ("k", Arc::new(Int64Array::from_iter_values(numbers().map(key)))),
            ("n", Arc::new(Int64Array::from_iter_values(numbers().map(|n| n * partition)))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
            .unwrap()
    };
    let memory = Memory::default();
    let partition = |number: i64| (0..40).map(|place| batch(number, place * ROWS)).collect();
    memory.put("s", (0..4).map(partition).collect()).unwrap();
    memory
}

/// Looked at a thousand times a second and changed at the least occasion, by workers and the machine's clock.
#[test]
fn whatever_the_clock_and_the_load_the_rows_are_those_of_one_instance() {
    let memory = changing();
    let run = |settings: &str, sql: &str| {
        let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
        let table = "CREATE TABLE s (WATERMARK FOR ts AS ts) WITH ('connector' = 'memory', 'stream' = 's')";
        engine.sql(&format!("{settings} {table}")).unwrap();
        rows_of(engine.sql(sql).unwrap())
    };
    let queries = [
        "SELECT window_end, k, count(*), sum(n) FROM TUMBLE(s, ts, INTERVAL '5' SECOND) GROUP BY window_end, k",
        "SELECT k, count(*), min(n), approx_distinct(n) FROM s GROUP BY k",
        "SELECT window_end, k, sum(c) FROM TUMBLE(
           (SELECT window_time AS wt, k, n % 3 AS m, count(*) AS c FROM HOP(s, ts, INTERVAL '1' SECOND, INTERVAL '3' SECOND)
            GROUP BY window_time, window_end, k, n % 3), wt, INTERVAL '10' SECOND) GROUP BY window_end, k",
    ];
    let eager =
        "SET 'adaptive.interval' = '1 ms'; SET 'adaptive.imbalance' = '0 %'; SET 'adaptive.improvement' = '0 %';";
    let mut changes = 0;
    for sql in queries {
        let (expected, _) = run("SET 'parallelism' = '1';", sql);
        for (instances, low, high) in [(2, 20, 30), (3, 0, 1), (8, 30, 60)] {
            let low = format!("SET 'adaptive.low' = '{low} %';");
            let bounds = format!("SET 'adaptive.low' = '0 %'; SET 'adaptive.high' = '{high} %'; {low}");
            let (found, metrics) = run(&format!("SET 'parallelism' = '{instances}'; {eager} {bounds}"), sql);
            assert!(found == expected, "{instances} instances, {bounds}\n{sql}");
            changes += metrics.changes;
        }
    }
    assert!(changes > 0);
}

/// Two streams of one key.
fn one_key() -> Memory {
    let memory = Memory::default();
    let column = |of: &dyn Fn(i64) -> i64, rows: std::ops::Range<i64>| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.map(of)))
    };
    for (name, step) in [("s", 2), ("r", 3)] {
        let batch = |first: i64| {
            let rows = || first..first + 512;
            let columns: Vec<(&str, ArrayRef)> = vec![
                (
                    "ts",
                    Arc::new(TimestampMicrosecondArray::from_iter_values(rows().map(|n| (n - n % 7) * 1000 * step))),
                ),
                ("k", column(&|_| 7, rows())),
                ("n", column(&|n| n * step, rows())),
            ];
            let columns = columns.into_iter().map(|(name, column)| (name, column, true));
            RecordBatch::try_from_iter_with_nullable(columns).unwrap()
        };
        memory.put(name, vec![(0..40).map(|place| batch(place * 512)).collect()]).unwrap();
    }
    memory
}

/// The rows of a query of them, how many instances shared the key at most, and how it went; key groups move now and then, if so told.
fn run(memory: &Memory, settings: &str, sql: &str, moves: Option<u64>) -> (Vec<String>, usize, Metrics) {
    let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
    for name in ["s", "r"] {
        let table = format!(
            "CREATE TABLE {name} (WATERMARK FOR ts AS ts - INTERVAL '10' MILLISECOND)
             WITH ('connector' = 'memory', 'stream' = '{name}')"
        );
        engine.sql(&table).unwrap();
    }
    engine.sql(settings).unwrap();
    if let Some(seed) = moves {
        engine.move_key_groups(pick(seed));
    }
    let mut query = engine.sql(sql).unwrap();
    let (control, mut lines) = (query.control().unwrap(), Vec::new());
    for batch in query.by_ref() {
        lines.extend(show::lines(&batch.unwrap()).unwrap());
        control.request_barrier();
    }
    let metrics = query.metrics();
    let team = metrics.nodes.iter().map(|node| node.most_owners).max().unwrap_or(0);
    (lines, team, metrics)
}

/// One key, which the instances share: each is looked at by the rows of its own stream, and by those of another; what comes out early is
/// corrected by whoever answers for it.
#[test]
fn one_key_has_up_to_64_instances() {
    let memory = one_key();
    let queries = [
        "SELECT k, n, count(*) OVER w, sum(n) OVER w, max(n) OVER w FROM s WINDOW w AS (UNION r PARTITION BY k ORDER BY ts
           ROWS_RANGE BETWEEN 40 PRECEDING AND 10 FOLLOWING)",
        "SELECT s.n, r.n FROM s JOIN r ON s.k = r.k AND r.ts BETWEEN s.ts - INTERVAL '9' MILLISECOND AND s.ts AND s.n % 5 < 3",
        "SELECT s.n, r.n FROM s FULL JOIN r ON s.k = r.k AND r.ts BETWEEN s.ts - INTERVAL '9' MILLISECOND AND s.ts
           AND s.n % 5 < 3 AND r.n % 7 < 4",
        "SELECT s.n, r.n FROM s FULL JOIN r ON s.k = r.k AND r.ts BETWEEN s.ts - INTERVAL '9' MILLISECOND AND s.ts
           AND s.n % 5 < 3 AND r.n % 7 < 4 EMIT EAGER",
        "SELECT s.n, r.n FROM s LEFT JOIN r ON s.k = r.k AND r.ts BETWEEN s.ts - INTERVAL '9' MILLISECOND AND s.ts
           AND s.n % 5 < 3 EMIT EAGER",
        "SELECT k, n, count(*) OVER w, sum(n) OVER w, max(n) OVER w FROM s WINDOW w AS (UNION r PARTITION BY k ORDER BY ts
           ROWS_RANGE BETWEEN 40 PRECEDING AND 10 FOLLOWING) EMIT EAGER",
    ];
    let mut largest = 0;
    for sql in queries {
        let is_eager = sql.ends_with("EMIT EAGER");
        let settled = |lines: Vec<String>| if is_eager { fold(lines).unwrap() } else { lines };
        let (mut expected, ..) = run(&memory, "SET 'parallelism' = '1'; SET 'batch.rows' = '512'", sql, None);
        if is_eager {
            let (mut all, ..) = run(&memory, "SET 'parallelism' = '1'", sql.trim_end_matches("EMIT EAGER"), None);
            expected = settled(expected);
            all.sort();
            assert!(expected == all, "{sql}");
        }
        assert!(expected.len() > 10_000);
        let mut largest_team = 0;
        for seed in 0..4 {
            let (found, team, metrics) =
                run(&memory, "SET 'parallelism' = '64'; SET 'batch.rows' = '512'", sql, Some(seed));
            assert!(settled(found) == expected, "seed {seed}\n{sql}");
            assert!(metrics.moved_groups > 0);
            largest_team = largest_team.max(team);
        }
        assert!(largest_team > 1, "{sql}");
        largest = largest.max(largest_team);
        // By the load, as far as that gains.
        let eager = "SET 'adaptive.interval' = '1 ms'; SET 'adaptive.low' = '0 %'; SET 'adaptive.high' = '1 %';
                     SET 'adaptive.improvement' = '0 %';";
        let (found, team, _) =
            run(&memory, &format!("SET 'parallelism' = '64'; SET 'batch.rows' = '64'; {eager}"), sql, None);
        assert!(settled(found) == expected && team > 1, "{team} instances shared a key\n{sql}");
    }
    let full = queries.into_iter().find(|sql| sql.contains("FULL JOIN")).unwrap();
    let (_, team, _) = run(&memory, "SET 'parallelism' = '8'; SET 'watermark.idle' = '1 h'", full, Some(0));
    assert_eq!(team, 0, "who may hear of a silence at another time shares no key of a full join");
    assert!(largest > 8, "{largest} instances shared a key");
}

/// A window behind another one by the same key, in the same instances or in others.
#[test]
fn two_windows_by_one_key_share_it_where_each_has_instances_of_its_own() {
    let memory = one_key();
    let two = "SELECT k, n, sum(m) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 20 PRECEDING AND CURRENT ROW) FROM (
        SELECT k, ts, n, max(n) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '40' MILLISECOND PRECEDING AND CURRENT ROW) AS m FROM s)";
    let (expected, ..) = run(&memory, "SET 'parallelism' = '1'", two, None);
    for (strategy, shares) in [("subquery-cluster", false), ("query-cluster", true)] {
        let settings =
            format!("SET 'parallelism' = '8'; SET 'batch.rows' = '512'; SET 'parallel.strategy' = '{strategy}'");
        let teams = (0..3).map(|seed| {
            let (found, team, _) = run(&memory, &settings, two, Some(seed));
            assert!(found == expected, "{strategy}, seed {seed}");
            team
        });
        assert_eq!(teams.max() > Some(1), shares, "{strategy}");
    }
}

/// A window whose results come at once behind one by another key: corrections of rows find who answered for these.
#[test]
fn what_passes_a_shared_key_is_corrected_once() {
    let memory = one_key();
    // The window whose columns come later in the table gets what the other found. Rows of its own stream are seen in it, or they are not.
    for clause in ["", " INSTANCE_NOT_IN_WINDOW"] {
        let sql = format!(
            "SELECT k, n, sum(n) OVER v, max(n) OVER w FROM s
             WINDOW v AS (UNION r PARTITION BY k, n % 5 ORDER BY ts ROWS_RANGE BETWEEN 40 PRECEDING AND 10 FOLLOWING),
                    w AS (UNION r PARTITION BY n * 0 ORDER BY ts ROWS_RANGE BETWEEN 30 PRECEDING AND CURRENT ROW{clause})"
        );
        let (mut expected, ..) = run(&memory, "SET 'parallelism' = '1'", &sql, None);
        expected.sort();
        let owners = (0..2).map(|seed| {
            let settings = "SET 'parallelism' = '8'; SET 'batch.rows' = '512'";
            let (found, _, metrics) = run(&memory, settings, &format!("{sql} EMIT EAGER"), Some(seed));
            assert!(fold(found).unwrap() == expected, "seed {seed}{clause}");
            let windows = metrics.nodes.iter().filter_map(|node| {
                let number: usize = node.label.strip_prefix("Over ")?.parse().ok()?;
                Some((number, node.most_owners))
            });
            windows.max().unwrap_or_default().1
        });
        assert!(owners.max() > Some(1), "{clause}");
    }
}

/// Rows of several sources, which have positions that no other source's have: those of one time have an order that all owners know.
#[test]
fn rows_of_several_sources_share_a_key() {
    let memory = one_key();
    let both = "(SELECT ts, k, n FROM s UNION ALL SELECT ts, k, n + 1 AS n FROM r)";
    let queries = [
        format!(
            "SELECT k, n, sum(n) OVER few, lag(n) OVER few, max(n) OVER w FROM {both}
             WINDOW few AS (PARTITION BY k ORDER BY ts ROWS BETWEEN 5 PRECEDING AND CURRENT ROW),
                    w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '30' MILLISECOND PRECEDING AND CURRENT ROW)"
        ),
        format!(
            "SELECT x.n, r.n FROM {both} x FULL JOIN r ON x.k = r.k AND r.ts BETWEEN x.ts - INTERVAL '9' MILLISECOND AND x.ts
               AND x.n % 5 < 3 AND r.n % 7 < 4"
        ),
        format!(
            "SELECT k, n, sum(n) OVER w, max(n) OVER v FROM {both}
             WINDOW v AS (PARTITION BY n % 5 ORDER BY ts RANGE BETWEEN INTERVAL '40' MILLISECOND PRECEDING AND CURRENT ROW),
                    w AS (PARTITION BY n * 0 ORDER BY ts RANGE BETWEEN INTERVAL '30' MILLISECOND PRECEDING AND CURRENT ROW)
             EMIT EAGER"
        ),
    ];
    for sql in queries {
        let (mut expected, ..) = run(&memory, "SET 'parallelism' = '1'", sql.trim_end_matches("EMIT EAGER"), None);
        let is_eager = sql.ends_with("EMIT EAGER");
        if is_eager {
            expected.sort();
        }
        assert!(expected.len() > 10_000);
        let teams = (0..3).map(|seed| {
            let settings = "SET 'parallelism' = '8'; SET 'batch.rows' = '512'";
            let (found, team, _) = run(&memory, settings, &sql, Some(seed));
            let found = if is_eager { fold(found).unwrap() } else { found };
            assert!(found == expected, "seed {seed}\n{sql}");
            team
        });
        assert!(teams.max() > Some(1), "{sql}");
    }
}

/// Rows that have no positions of their own, as those of a join or of one table twice, share a key unless those of their own stream see them.
#[test]
fn rows_without_positions_share_a_key_unless_they_are_seen() {
    let memory = one_key();
    let joined = "SELECT x.ts, x.k, x.n, p.n AS m FROM s x JOIN s p ON x.n % 100 = p.n % 100
        AND p.ts BETWEEN x.ts - INTERVAL '200' MILLISECOND AND x.ts";
    let twice = "SELECT ts, k, n % 3 AS n FROM s UNION ALL SELECT ts, k, n % 3 AS n FROM s";
    let near = "x.k = r.k AND r.ts BETWEEN x.ts - INTERVAL '9' MILLISECOND AND x.ts";
    let over = |more: &str| {
        format!(
            "SELECT ts, n, count(*) OVER w, min(n) OVER w FROM ({twice}) WINDOW w AS (UNION r PARTITION BY k ORDER BY ts
             ROWS_RANGE BETWEEN 40 PRECEDING AND CURRENT ROW EXCLUDE CURRENT_ROW {more})"
        )
    };
    let queries = [
        (format!("SELECT x.n, x.m, r.n FROM ({joined}) x LEFT JOIN r ON {near}"), true),
        (format!("SELECT x.n, x.ts, r.n FROM ({twice}) x JOIN r ON {near}"), true),
        (format!("SELECT x.n, x.ts, r.n FROM r RIGHT JOIN ({twice}) x ON {near}"), true),
        (
            format!(
                "SELECT x.ts, x.n, x.m, count(*), sum(r.n) FROM ({joined}) x JOIN r ON {near} GROUP BY x.ts, x.n, x.m"
            ),
            true,
        ),
        (over("INSTANCE_NOT_IN_WINDOW"), true),
        (over(""), false),
        (format!("SELECT x.n, r.n FROM ({twice}) x FULL JOIN r ON {near}"), false),
    ];
    for (sql, shares) in queries {
        let (expected, ..) = run(&memory, "SET 'parallelism' = '1'", &sql, None);
        assert!(expected.len() > 10_000, "{}", expected.len());
        let teams = (0..3).map(|seed| {
            let settings = "SET 'parallelism' = '8'; SET 'batch.rows' = '512'";
            let (found, team, _) = run(&memory, settings, &sql, Some(seed));
            assert!(found == expected, "seed {seed}\n{sql}");
            team
        });
        assert_eq!(teams.max() > Some(1), shares, "{sql}");
    }
}
