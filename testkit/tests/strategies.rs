//! Strategies: whatever is placed together, and in however many instances, the rows are those of one instance; and neighbours
//! that partition alike need one exchange.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::{
    script::{Item, Script, Scripts},
    show,
    sim::pick,
};
use thalweg::{Batch, Engine, ExplainFormat, Query, engine::explain_parallel};

const STRATEGIES: [&str; 3] = ["subquery-cluster", "query-cluster", "operator-cluster"];

/// Rows in a batch, workers, and the seed of barriers at which states are saved and loaded, and key groups move.
const RUNS: [(usize, usize, Option<u64>); 4] = [(7, 2, Some(2)), (4096, 5, None), (3, 3, Some(3)), (7, 5, Some(4))];

const SEEDS: u64 = 2;

const WINDOW: &str = "TUMBLE(t, ts, INTERVAL '10' SECOND)";

/// Partitions of rows of a second, a number, a text, a float and a value, of which some are late.
fn script(seed: u64) -> Script {
    let mut random = StdRng::seed_from_u64(seed);
    let partitions = random.random_range(1..4);
    let partition = |random: &mut StdRng| {
        let mut time = 0;
        let mut row = |random: &mut StdRng| {
            time += random.random_range(0..3);
            let late = if random.random_bool(0.05) { 30 } else { random.random_range(0..4) };
            let key = random.random_bool(0.9).then(|| random.random_range(0..6).to_string());
            let word = random
                .random_bool(0.9)
                .then(|| ["a", "b", "a longer word than fits"][random.random_range(0..3)].to_string());
            let float = ["0.0", "-0.0", "NaN", "0.5"][random.random_range(0..4)].to_string();
            let value = random.random_range(-50..50).to_string();
            Item::Row(vec![Some((time - late.min(time)).to_string()), key, word, Some(float), Some(value)])
        };
        (0..random.random_range(0..150)).map(|_| row(random)).collect()
    };
    (0..partitions).map(|_| partition(&mut random)).collect()
}

/// One partition of many rows.
fn one_partition() -> Script {
    let firsts = (0..).map(|seed| vec![script(seed).swap_remove(0)]);
    firsts.into_iter().find(|script: &Script| script[0].len() > 100).expect("some are long")
}

fn engine(script: &Script, settings: &str, barriers: Option<u64>) -> Engine {
    let mut scripts = Scripts::new(HashMap::from([("t".to_string(), script.clone())]));
    if let Some(seed) = barriers {
        scripts = scripts.with_barriers(seed);
    }
    let mut engine = Engine::with_connectors(vec![Arc::new(scripts)]);
    engine.reload_at_barriers();
    if let Some(seed) = barriers {
        engine.move_key_groups(pick(seed));
    }
    let table = "CREATE TABLE t (ts TIMESTAMP, k BIGINT, w STRING, x DOUBLE, v BIGINT, \
                 WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH ('connector' = 'script')";
    engine.sql(&format!("SET 'batch.linger' = '0 ms'; {settings} {table}")).unwrap();
    engine
}

/// The rows of a query, in the order of their text if it is said so, and how many rows were late.
fn rows_of(mut query: Query, is_sorted: bool) -> (Vec<String>, u64) {
    let mut lines: Vec<String> = query.by_ref().flat_map(|batch| show::lines(&batch.unwrap()).unwrap()).collect();
    if is_sorted {
        lines.sort();
    }
    (lines, query.metrics().late_rows)
}

fn settings(strategy: &str, merge: &str, batch: usize, workers: usize) -> String {
    format!(
        "SET 'parallel.strategy' = '{strategy}'; SET 'batch.rows' = '{batch}'; SET 'parallelism' = '{workers}'; \
         SET 'merge' = '{merge}';"
    )
}

/// Runs a query whose rows come in any order with every strategy; its rows are those of one instance.
fn check(run: impl Fn(&mut Engine) -> Query) {
    check_rows(false, run);
}

/// Runs a query whose rows come in the order of an aggregate with every strategy; its rows are those of one instance, and in its
/// order where that is asked for.
fn check_in_order(run: impl Fn(&mut Engine) -> Query) {
    check_rows(true, run);
}

fn check_rows(is_ordered: bool, run: impl Fn(&mut Engine) -> Query) {
    let mut rows = 0;
    for seed in 0..SEEDS {
        let script = script(seed);
        let one = |is_sorted| rows_of(run(&mut engine(&script, "SET 'parallelism' = '1';", None)), is_sorted);
        let expected = [one(false), one(true)];
        rows += expected[0].0.len();
        for strategy in STRATEGIES {
            for (number, (batch, workers, barriers)) in RUNS.into_iter().enumerate() {
                let merge = ["ordered", "arrival"][(number + seed as usize) % 2];
                let settings = settings(strategy, merge, batch, workers);
                let is_sorted = !is_ordered || merge == "arrival";
                let found = rows_of(run(&mut engine(&script, &settings, barriers)), is_sorted);
                let expected = &expected[usize::from(is_sorted)];
                assert_eq!(&found, expected, "seed {seed}, {settings} barriers {barriers:?}");
            }
        }
    }
    assert!(rows > 0, "there was nothing to compare");
}

/// How a query of three partitions is divided among four instances.
fn explained(strategy: &str, sql: &str) -> String {
    explained_among(4, strategy, "arrival", sql)
}

fn explained_among(workers: usize, strategy: &str, merge: &str, sql: &str) -> String {
    explained_of(3, &settings(strategy, merge, 100, workers), sql)
}

/// How a query of so many partitions is divided.
fn explained_of(partitions: usize, settings: &str, sql: &str) -> String {
    let mut engine = engine(&vec![Vec::new(); partitions], settings, None);
    let statement = engine.parse(sql).unwrap().pop().unwrap();
    let plan = engine.plan(&statement).unwrap().unwrap();
    explain_parallel(&plan, ExplainFormat::Text)
}

#[test]
fn filters_and_maps() {
    check(|engine| engine.sql("SELECT k, v + 1 AS v FROM (SELECT k, v FROM t WHERE v % 3 <> 0) WHERE k > 1").unwrap());
}

#[test]
fn aggregates_and_what_follows_them() {
    let sql = format!(
        "SELECT window_start, k + 1 AS k, n, s FROM
         (SELECT window_start, window_end, k, count(*) AS n, sum(v) AS s FROM {WINDOW} GROUP BY window_start, window_end, k)
         WHERE n > 1"
    );
    check_in_order(|engine| engine.sql(&sql).unwrap());
}

#[test]
fn unions_of_aggregates_and_of_what_is_not_divided() {
    let counted = |key: &str| format!("SELECT CAST({key} AS STRING) AS k, count(*) AS n FROM t GROUP BY {key}");
    let both = format!("{} UNION ALL {}", counted("k"), counted("w"));
    check(|engine| engine.sql(&format!("SELECT k, n + 1 AS n FROM ({both}) WHERE n > 0")).unwrap());
    let mixed = format!("{} UNION ALL SELECT w AS k, v AS n FROM t WHERE v > 0", counted("k"));
    check(|engine| engine.sql(&format!("SELECT k, count(*) AS n FROM ({mixed}) GROUP BY k")).unwrap());
}

/// Unions, each with what follows it and runs in its instances.
fn unions() -> [(String, &'static str); 8] {
    let both = "(SELECT ts, k, w, v FROM t WHERE v > 0 UNION ALL SELECT ts, v % 5 AS other, 'c', k FROM t)";
    let by_k = |what: &str| {
        format!(
            "SELECT window_start, k, {what} FROM TUMBLE({both}, ts, INTERVAL '10' SECOND) GROUP BY window_start, window_end, k"
        )
    };
    [
        (by_k("count(*) AS n, sum(v) AS s, min(w) AS m"), "Partial"),
        (by_k("count(DISTINCT v) AS n"), "by key k"),
        (format!("SELECT w, k + v AS x, sum(v) AS s FROM {both} GROUP BY w, k + v"), "Partial"),
        (format!("SELECT k % 3 AS r, count(DISTINCT w) AS n FROM {both} GROUP BY k % 3"), "by key k % 3"),
        (
            format!(
                "SELECT k, v, count(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW) AS n FROM {both}"
            ),
            "(2 inputs)",
        ),
        (
            format!(
                "SELECT l.k, l.v, r.v AS m FROM {both} AS l JOIN (SELECT ts, k, v + 1 AS v FROM {both} WHERE v > 1) AS r
                 ON l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL '3' SECOND AND l.ts"
            ),
            "(2 + 2 inputs)",
        ),
        (format!("SELECT k, sum(x) AS s FROM (SELECT k, v + 1 AS x FROM {both} WHERE k < 4) GROUP BY k"), "Partial"),
        (
            "SELECT k, max(n) AS n FROM (SELECT k, count(*) AS n FROM t GROUP BY k UNION ALL SELECT k, v FROM t) GROUP BY k"
                .to_string(),
            "Partial",
        ),
    ]
}

#[test]
fn unions_whose_rows_are_divided_by_keys() {
    for (number, (sql, _)) in unions().into_iter().enumerate() {
        // Rows of one place in both inputs have no order among each other.
        match number {
            4 | 5 => check(|engine| engine.sql(&sql).unwrap()),
            _ => check_in_order(|engine| engine.sql(&sql).unwrap()),
        }
    }
}

#[test]
fn a_union_runs_where_its_rows_are_divided_by_keys() {
    for (sql, said) in unions() {
        for strategy in ["subquery-cluster", "query-cluster"] {
            let text = explained(strategy, &sql);
            let lines: Vec<_> = text.lines().collect();
            // A join takes the rows of all inputs itself, and so does what looks at the rows around a row.
            let is_union = |line: &&str| line.trim() == "Union" || line.contains(" inputs)");
            let place = lines.iter().position(is_union).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(lines[place - 1].split_whitespace().nth(1), Some("4"), "{text}");
            assert_eq!(
                lines[place - 1].matches("by key").count(),
                if said == "(2 + 2 inputs)" { 4 } else { 2 },
                "{text}"
            );
            assert!(lines[place].trim() != "Union" || lines[place + 1].trim().starts_with("Aggregate "), "{text}");
            assert!(text.contains(said), "{text}");
            assert!(said != "Partial" || text.matches("Partial").count() >= 2, "{text}");
        }
        // There each node is a subquery of its own.
        let text = explained("operator-cluster", &sql);
        let lines: Vec<_> = text.lines().collect();
        let place = lines.iter().position(|line| line.trim() == "Union").unwrap_or_else(|| panic!("{text}"));
        assert_eq!(lines[place - 1].split_whitespace().nth(1), Some("1"), "{text}");
        assert!(!lines[place + 1].starts_with("          "), "{text}");
    }
}

#[test]
fn splits_of_what_is_divided() {
    check(|engine| {
        let topology = engine.topology();
        let counts = topology.table("t").key_by(["k"]).aggregate(["count(*) AS n", "sum(v) AS s"]);
        let [few, many] = counts.split(["n < 5"])[..] else { panic!("two outputs") };
        let few = few.map(["k", "s + 1 AS s"]).filter("s <> 3");
        few.union(many.map(["k", "s"])).key_by(["s % 5 AS s"]).aggregate(["count(*) AS n"]).start().unwrap()
    });
}

/// A query, and what is said of its second aggregate.
const CASCADES: [(&str, Option<&str>); 12] = [
    (
        "SELECT k, max(n) AS m FROM (SELECT k, count(*) AS n FROM t GROUP BY k) WHERE n > 1 GROUP BY k",
        Some("same keys"),
    ),
    (
        "SELECT k, w, max(n) AS m FROM (SELECT w, k, n + 1 AS n FROM (SELECT k, w, count(*) AS n FROM t GROUP BY k, w)) GROUP BY w, k",
        Some("same keys"),
    ),
    (
        "SELECT k, sum(n) AS m FROM (SELECT k, w, count(*) AS n FROM t GROUP BY k, w) GROUP BY k",
        Some("same keys, by k alone"),
    ),
    (
        "SELECT w, sum(n) AS m FROM (SELECT k, w, count(*) AS n FROM t GROUP BY k, w) GROUP BY w",
        Some("same keys, by w alone"),
    ),
    (
        "SELECT x, sum(n) AS m FROM (SELECT k, x, count(*) AS n FROM t GROUP BY k, x) GROUP BY x",
        Some("same keys, by x alone"),
    ),
    (
        "SELECT p, max(n) AS m FROM (SELECT p, w, count(*) AS n FROM (SELECT v % 4 AS p, w FROM t) GROUP BY p, w) GROUP BY p",
        Some("alone"),
    ),
    ("SELECT k, n, count(*) AS m FROM (SELECT k, count(*) AS n FROM t GROUP BY k) GROUP BY k, n", Some("same keys")),
    // What is no key of both, or not what it was, needs an exchange.
    ("SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM t GROUP BY k) GROUP BY n", None),
    ("SELECT k / 2 AS h, sum(n) AS m FROM (SELECT k, count(*) AS n FROM t GROUP BY k) GROUP BY k / 2", None),
    (
        "SELECT CAST(x AS BIGINT) AS i, sum(n) AS m FROM (SELECT x, count(*) AS n FROM t WHERE x < 2 GROUP BY x) GROUP BY CAST(x AS BIGINT)",
        None,
    ),
    (
        "SELECT k, sum(n) AS m FROM (SELECT k + 1 AS k, n FROM (SELECT k, count(*) AS n FROM t GROUP BY k)) GROUP BY k",
        None,
    ),
    ("SELECT sum(n) AS m FROM (SELECT k, count(*) AS n FROM t GROUP BY k)", None),
];

/// The same in windows.
const IN_WINDOWS: [(&str, Option<&str>); 4] = [
    (
        "SELECT window_start, k, max(n) AS m FROM
         (SELECT window_start, window_end, k, w, count(*) AS n FROM WINDOWED GROUP BY window_start, window_end, k, w)
         GROUP BY window_start, window_end, k",
        Some("same keys, by k alone"),
    ),
    (
        "SELECT window_start, k, n, count(*) AS m FROM
         (SELECT window_start, window_end, k, count(*) AS n FROM WINDOWED GROUP BY window_start, window_end, k)
         WHERE n > 1 GROUP BY window_start, window_end, k, n",
        Some("same keys"),
    ),
    (
        "SELECT window_start, max(n) AS m FROM
         (SELECT window_start, window_end, k, count(*) AS n FROM WINDOWED GROUP BY window_start, window_end, k)
         GROUP BY window_start, window_end",
        None,
    ),
    (
        "SELECT s, sum(n) AS m FROM
         (SELECT window_start AS s, k, count(*) AS n FROM WINDOWED GROUP BY window_start, window_end, k) GROUP BY s",
        None,
    ),
];

/// Joins and aggregates over the rows around each row, with what follows them, and what is said of that.
const AROUND: [(&str, Option<&str>); 20] = [
    ("SELECT k, max(v) AS m, count(*) AS n FROM (PAIRS) GROUP BY k", Some("same keys")),
    ("SELECT j, max(u) AS m, count(*) AS n FROM (PAIRS) GROUP BY j", Some("same keys")),
    ("SELECT w, k, count(*) AS n FROM (PAIRS) WHERE v <> u GROUP BY w, k", Some("same keys")),
    ("SELECT j, k, u, v, sum(u) OVER (PARTITION BY j ORDER BY ts FRAME) AS m FROM (PAIRS)", Some("same keys")),
    ("SELECT k, count(*) AS n FROM (OUTER PAIRS) GROUP BY k", Some("same keys")),
    ("SELECT k, w, v, m, max(m) OVER (PARTITION BY w, k ORDER BY ts FRAME) AS n FROM (RUNNING)", Some("same keys")),
    ("SELECT k, count(*) AS n, max(m) AS m FROM (RUNNING) GROUP BY k", Some("same keys")),
    (
        "SELECT window_end, k, count(*) AS n, max(m) AS m FROM TUMBLE((RUNNING), ts, INTERVAL '10' SECOND) GROUP BY window_end, k",
        Some("same keys"),
    ),
    (
        "SELECT k, w, n, sum(n) OVER (PARTITION BY k ORDER BY ts FRAME) AS m FROM (COUNTED)",
        Some("same keys, by k alone"),
    ),
    ("SELECT j, count(*) AS n FROM (RIGHT PAIRS) GROUP BY j", Some("same keys")),
    ("SELECT k, sum(v) AS m FROM (HAVING PAIRS) GROUP BY k", Some("same keys")),
    ("SELECT k, w, count(*) AS n FROM (PAIRS OF WORDS) GROUP BY w, k", Some("same keys")),
    // Keys of two types are equal as one, and only the left one's is that of the exchange.
    ("SELECT k, count(*) AS n FROM (PAIRS OF TWO TYPES) GROUP BY k", Some("same keys")),
    ("SELECT k, count(*) AS n FROM (RIGHT PAIRS) GROUP BY k", None),
    // What is null for want of a partner is not where the key is; a column of one side only is the other's where they are equal.
    ("SELECT j, count(*) AS n FROM (OUTER PAIRS) GROUP BY j", None),
    ("SELECT v, count(*) AS n FROM (PAIRS) GROUP BY v", None),
    // A join is never divided by fewer keys.
    ("SELECT k, count(*) AS n FROM (PAIRS OF WORDS) GROUP BY k", None),
    ("SELECT w, count(*) AS n FROM (RUNNING) GROUP BY w", None),
    ("SELECT k % 2 AS k, count(*) AS n FROM (RUNNING) GROUP BY k % 2", None),
    ("SELECT n, w, k, count(*) OVER (PARTITION BY n ORDER BY ts FRAME) AS m FROM (COUNTED)", None),
];

fn around() -> impl Iterator<Item = (String, Option<&'static str>)> {
    let near = "b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '3' SECOND";
    let pairs = move |join: &str, on: &str| {
        format!("SELECT a.ts, a.k, a.w, a.v, b.k AS j, b.v AS u FROM t a {join} t b ON a.k = b.k AND {on}{near}")
    };
    let frame = "RANGE BETWEEN INTERVAL '6' SECOND PRECEDING AND CURRENT ROW";
    AROUND.into_iter().map(move |(sql, said)| {
        let sql = sql.replace("OUTER PAIRS", &pairs("LEFT JOIN", "a.v < b.v AND "));
        let sql = sql.replace("RIGHT PAIRS", &pairs("RIGHT JOIN", "a.v < b.v AND ").replace("a.ts,", "b.ts,"));
        let having = format!(
            "SELECT a.ts, a.k, a.v FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE a.k = b.k AND a.v < b.v AND {near})"
        );
        let narrow = pairs("JOIN", "").replace("JOIN t b", "JOIN (SELECT ts, CAST(k AS INT) AS k, v FROM t) b");
        let sql = sql.replace("HAVING PAIRS", &having).replace("PAIRS OF TWO TYPES", &narrow);
        let sql = sql.replace("PAIRS OF WORDS", &pairs("JOIN", "a.w = b.w AND ")).replace("PAIRS", &pairs("JOIN", ""));
        let running = "SELECT ts, k, w, v, sum(v) OVER (PARTITION BY k ORDER BY ts FRAME) AS m FROM t";
        let counted = format!(
            "SELECT window_time AS ts, k, w, count(*) AS n FROM {WINDOW} GROUP BY window_time, window_end, k, w"
        );
        let sql = sql.replace("RUNNING", running).replace("COUNTED", &counted).replace("FRAME", frame);
        (sql, said)
    })
}

#[test]
fn what_follows_rows_around_a_row_has_the_rows_of_one_instance() {
    for (sql, _) in around() {
        check_in_order(|engine| engine.sql(&sql).unwrap());
    }
}

#[test]
fn joins_and_what_partitions_as_they_do_are_fused() {
    for (sql, said) in around() {
        let text = explained("subquery-cluster", &sql);
        match said {
            Some(said) => {
                assert!(
                    text.contains("[fused with subquery ") && text.contains(&format!(": {said}]")),
                    "{sql}\n{text}"
                );
                // Both sides have one, where pairs are put together and where states of them are found.
                let has_sides =
                    |line: &&str| line.contains("IntervalJoin") || line.contains("without others of the first input");
                let exchanges = 1 + text.lines().filter(has_sides).count();
                assert_eq!(text.matches("128 key groups").count(), exchanges, "{sql}\n{text}");
            }
            None => assert!(!text.contains("fused"), "{sql}\n{text}"),
        }
        assert!(!explained("query-cluster", &sql).contains("fused"), "{sql}");
    }
}

fn cascades() -> impl Iterator<Item = (String, Option<&'static str>)> {
    let windowed = IN_WINDOWS.into_iter().map(|(sql, said)| (sql.replace("WINDOWED", WINDOW), said));
    CASCADES.into_iter().map(|(sql, said)| (sql.to_string(), said)).chain(windowed)
}

#[test]
fn aggregates_behind_each_other_have_the_rows_of_one_instance() {
    for (sql, _) in cascades() {
        check_in_order(|engine| engine.sql(&sql).unwrap());
    }
}

#[test]
fn aggregates_that_partition_alike_are_fused() {
    for (sql, said) in cascades() {
        let text = explained("subquery-cluster", &sql);
        match said {
            Some(said) => {
                assert!(text.contains(&format!("{said}]")), "{sql}\n{text}");
                assert!(text.contains("[fused with subquery 1: same keys"), "{sql}\n{text}");
                assert_eq!(text.matches("128 key groups").count(), 1, "{sql}\n{text}");
            }
            None => assert!(!text.contains("fused"), "{sql}\n{text}"),
        }
        // There each node with a state has an exchange.
        assert!(!explained("query-cluster", &sql).contains("fused"), "{sql}");
    }
}

#[test]
fn a_third_aggregate_narrows_what_the_first_is_divided_by() {
    let sql = "SELECT k, sum(m) AS m FROM (SELECT k, w, sum(n) AS m FROM
                   (SELECT k, w, x, count(*) AS n FROM t GROUP BY k, w, x) GROUP BY k, w) GROUP BY k";
    let text = explained("subquery-cluster", sql);
    assert_eq!(text.matches("[fused with subquery 1: same keys, by k alone]").count(), 2, "{text}");
    assert!(text.contains("0 by key k, 128 key groups"), "{text}");
    check_in_order(|engine| engine.sql(sql).unwrap());
}

#[test]
fn strategies_place_what_their_names_say() {
    let sql = format!(
        "SELECT window_start, k + 1 AS k, n FROM
         (SELECT window_start, window_end, k, count(*) AS n FROM {WINDOW} GROUP BY window_start, window_end, k) WHERE n > 1"
    );
    let instances = |text: &str| -> Vec<String> {
        let rows = text
            .lines()
            .skip(3)
            .filter(|line| line.split_whitespace().nth(1).is_some_and(|word| word.parse::<usize>().is_ok()));
        rows.map(|line| line.split_whitespace().nth(1).unwrap().to_string()).collect()
    };
    let placed = STRATEGIES.map(|strategy| explained(strategy, &sql));
    assert_eq!(instances(&placed[0]), ["3", "4", "1"], "{}", placed[0]);
    assert_eq!(instances(&placed[1]), ["3", "4", "1"], "{}", placed[1]);
    assert_eq!(instances(&placed[2]), ["3", "3", "3", "4", "4", "4", "1"], "{}", placed[2]);
    assert_eq!(placed[2].matches("one to one").count(), 4, "{}", placed[2]);
    assert!(placed.iter().all(|text| text.contains("by key k, 128 key groups; merged by arrival")));
    let ordered = STRATEGIES.map(|strategy| explained_among(4, strategy, "ordered", &sql));
    for (ordered, arrival) in ordered.iter().zip(&placed) {
        assert_eq!(instances(ordered), instances(arrival), "{ordered}");
        assert_eq!(ordered.matches("all to one; merged in order").count(), 1, "{ordered}");
        assert_eq!(ordered.matches("merged by arrival").count(), 1, "{ordered}");
    }
}

/// Rows that take some work each.
const TEXTS: &str = "SELECT k, x, upper(replace(w, 'a', 'b')) AS w FROM t WHERE v > 1";

#[test]
fn batches_of_one_partition_are_dealt_to_those_with_work() {
    for strategy in STRATEGIES {
        let explained = |partitions, more: &str, sql: &str| {
            explained_of(partitions, &(settings(strategy, "ordered", 100, 4) + more), sql)
        };
        let is_dealt = |text: &str| text.contains("0 dealt in turn");
        let text = explained(1, "", TEXTS);
        assert!(is_dealt(&text) && text.contains("all to one; merged in turn"), "{text}");
        let text = explained(1, "", &format!("SELECT w, count(*) AS n FROM ({TEXTS}) GROUP BY w"));
        assert!(is_dealt(&text) && text.contains("by key w, 128 key groups; merged by arrival"), "{text}");
        let text = explained(1, "", &format!("{TEXTS} UNION ALL {TEXTS} AND k > 0"));
        assert_eq!((text.matches("dealt in turn").count(), text.matches("merged in turn").count()), (2, 2), "{text}");
        // Each partition has its instance; or there is too little to do, or one worker.
        assert!(!is_dealt(&explained(3, "", TEXTS)));
        assert!(!is_dealt(&explained(1, "", "SELECT k FROM t WHERE v > 1")));
        assert!(!is_dealt(&explained(1, "SET 'parallelism' = '1';", TEXTS)));
        // What depends on the order of rows is divided all the same, if it has them from one sender.
        let sums = format!("SELECT w, sum(x) AS s FROM ({TEXTS}) GROUP BY w");
        let text = explained(1, "SET 'float.sum' = 'fast';", &sums);
        assert!(!is_dealt(&text) && text.contains("by key w"), "{text}");
    }
}

#[test]
fn what_is_dealt_gives_the_rows_of_one_instance_in_its_order() {
    let queries = [
        TEXTS.to_string(),
        format!("SELECT * FROM ({TEXTS}) LIMIT 5"),
        format!("SELECT w, sum(x) AS s FROM ({TEXTS}) GROUP BY w"),
        format!("SELECT w, count(*) AS n FROM ({TEXTS}) GROUP BY w"),
    ];
    for sql in queries {
        for fast in ["", "SET 'float.sum' = 'fast';"] {
            let alone = rows_of(
                engine(&one_partition(), &format!("SET 'parallelism' = '1'; {fast}"), None).sql(&sql).unwrap(),
                false,
            );
            assert!(!alone.0.is_empty());
            for strategy in STRATEGIES {
                for (batch, workers, barriers) in RUNS {
                    let settings = settings(strategy, "ordered", batch, workers) + fast;
                    let found = rows_of(engine(&one_partition(), &settings, barriers).sql(&sql).unwrap(), false);
                    assert_eq!(found, alone, "{settings} {sql}");
                }
            }
        }
    }
}

#[test]
fn who_wants_no_more_ends_a_stream_without_end_of_which_nothing_else_is_kept() {
    let mut engine = Engine::new();
    let table = "SET 'parallelism' = '3'; SET 'batch.rows' = '2';
                 CREATE TABLE g (n BIGINT) WITH ('connector' = 'generator', 'fields.n.kind' = 'sequence')";
    engine.sql(table).unwrap();
    let sql = "SELECT n FROM g WHERE concat(upper(CAST(n AS STRING)), 'x') = '3x' LIMIT 1";
    let lines = rows_of(engine.sql(sql).unwrap(), false).0;
    assert_eq!(lines, ["3"]);
}

#[test]
fn who_wants_no_more_ends_an_input_that_says_nothing() {
    let tables = "SET 'watermark.idle' = '100 ms';
                  CREATE TABLE f (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)
                  WITH ('connector' = 'generator', 'rows-per-second' = '5000', 'fields.ts.step' = '100 ms');
                  CREATE TABLE s (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)
                  WITH ('connector' = 'generator', 'rows-per-second' = '0.001');";
    let queries = [
        "SELECT k FROM (SELECT ts, k FROM f UNION ALL SELECT ts, k FROM s) LIMIT 3",
        "SELECT window_start, count(*) FROM TUMBLE((SELECT ts, k FROM f UNION ALL SELECT ts, k FROM s), ts, INTERVAL '1' SECOND)
         GROUP BY window_start LIMIT 3",
        "SELECT f.k FROM f LEFT JOIN s ON f.k = s.k AND s.ts BETWEEN f.ts - INTERVAL '1' SECOND AND f.ts LIMIT 3",
    ];
    let nothing = [
        "SELECT k FROM s LIMIT 0",
        "SELECT k FROM s WHERE k > 5 LIMIT 0",
        "SELECT k FROM f WHERE false LIMIT 0",
        "SELECT window_start, count(*) FROM TUMBLE(s, ts, INTERVAL '1' SECOND) GROUP BY window_start LIMIT 0",
        "SELECT k FROM (SELECT k FROM s LIMIT 0) UNION ALL (SELECT k FROM f LIMIT 0)",
    ];
    let queries = queries.map(|sql| (sql, 3)).into_iter().chain(nothing.map(|sql| (sql, 0)));
    for (sql, expected, parallelism) in queries.flat_map(|(sql, rows)| [(sql, rows, 1), (sql, rows, 4)]) {
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut engine = Engine::new();
            engine.sql(&format!("SET 'parallelism' = '{parallelism}'; {tables}")).unwrap();
            // Ends once all of its tasks have.
            let rows: usize = engine.sql(sql).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
            done.send(rows).unwrap();
        });
        let rows = is_done.recv_timeout(std::time::Duration::from_secs(60));
        assert_eq!(rows, Ok(expected), "{parallelism} instances: {sql}");
    }
}

#[test]
fn functions_of_the_program_are_called_in_order_behind_what_is_dealt() {
    let called = |strategy: &str| {
        let engine = engine(&one_partition(), &settings(strategy, "ordered", 3, 5), None);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let topology = engine.topology();
        let texts = topology.table("t").map(["v", "upper(replace(w, 'a', 'b')) AS w"]);
        let note = move |batch: &Batch| {
            noted.lock().unwrap().extend(show::lines(&batch.compact()?)?);
            Ok(())
        };
        texts.notify(note).discard();
        topology.start().unwrap().wait().unwrap();
        std::mem::take(&mut *seen.lock().unwrap())
    };
    let seen = STRATEGIES.map(called);
    assert!(seen[0].len() > 10, "{seen:?}");
    assert!(seen.iter().all(|lines| *lines == seen[0]), "{seen:?}");
    let mut one = engine(&one_partition(), "SET 'parallelism' = '1';", None);
    assert_eq!(seen[0], rows_of(one.sql("SELECT v, upper(replace(w, 'a', 'b')) AS w FROM t").unwrap(), false).0);
}

#[test]
fn what_depends_on_the_order_of_rows_is_neither_fused_nor_connected_one_to_one() {
    let fast = "SET 'float.sum' = 'fast';";
    for strategy in STRATEGIES {
        let explained = |merge: &str, sql: &str| {
            let mut engine = engine(&vec![Vec::new(); 3], &(settings(strategy, merge, 100, 4) + fast), None);
            let statement = engine.parse(sql).unwrap().pop().unwrap();
            explain_parallel(&engine.plan(&statement).unwrap().unwrap(), ExplainFormat::Text)
        };
        let cascade = "SELECT k, sum(n) AS m FROM (SELECT k, sum(x) AS n FROM t GROUP BY k) GROUP BY k";
        let text = explained("ordered", cascade);
        assert_eq!(text.matches("all to one; merged in order").count(), 1, "{text}");
        assert_eq!((text.matches("128 key groups").count(), text.contains("fused")), (1, false), "{text}");
        let text = explained("arrival", cascade);
        assert!(
            !text.contains("merged in order") && !text.contains("all to one; merged by arrival\n           Agg"),
            "{text}"
        );
    }
}

#[test]
fn unions_are_divided_where_what_is_idle_is_idle_for_all_of_their_rows() {
    let union_of = |strategy: &str, merge: &str, other: &str, then: &str| {
        let sql = format!("SELECT k, n FROM (SELECT k, count(*) AS n FROM t GROUP BY k UNION ALL {other}) {then}");
        let text = explained_among(3, strategy, merge, &sql);
        let lines: Vec<_> = text.lines().collect();
        let place = lines.iter().position(|line| line.trim() == "Union").unwrap_or_else(|| panic!("{text}"));
        lines[place - 1].split_whitespace().nth(1).unwrap().to_string()
    };
    let union = |strategy: &str, other: &str| union_of(strategy, "arrival", other, "");
    let (counts, rows) = ("SELECT v AS k, count(*) AS n FROM t GROUP BY v", "SELECT k, v AS n FROM t");
    assert_eq!(union("query-cluster", counts), "3");
    assert_eq!(
        union("query-cluster", rows),
        "1",
        "its partitions are idle one by one, and the groups' instances are not"
    );
    assert_eq!(union("subquery-cluster", counts), "1");
    let in_order = |then: &str| union_of("query-cluster", "ordered", counts, then);
    assert_eq!(in_order(""), "1", "each of the two comes in its order");
    assert_eq!(in_order("ORDER BY k, n"), "3", "nobody sees an order");
}
