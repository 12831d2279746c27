//! Aggregates in two phases: which ones are split, and that nobody can tell from the rows.

use std::{collections::HashMap, sync::Arc};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::{
    script::{Item, Scripts},
    show,
};
use thalweg::{CostFile, Engine, ExplainFormat, engine::explain_parallel};

/// A stream of so many partitions: late rows, silence, null keys, and one key that most rows have.
fn stream(partitions: usize, rows: i64, seed: u64) -> Scripts {
    let mut random = StdRng::seed_from_u64(seed);
    let mut partition = |_| {
        let mut items = Vec::new();
        for row in 0..rows {
            let late = if random.random_bool(0.1) { random.random_range(0..150) } else { 0 };
            let key = if random.random_bool(0.5) { 0 } else { random.random_range(0..9) };
            let key = random.random_bool(0.9).then(|| key.to_string());
            let value = random.random_bool(0.9).then(|| format!("{}.25", random.random_range(-900..900)));
            let text = format!("t{}", random.random_range(0..40)).repeat(random.random_range(1..5));
            items.push(Item::Row(vec![Some((row * 3 - late).max(0).to_string()), key, value, Some(text)]));
        }
        items
    };
    Scripts::new(HashMap::from([("s".to_string(), (0..partitions).map(&mut partition).collect())]))
}

fn engine(stream: Scripts, settings: &str) -> Engine {
    let mut engine = Engine::with_connectors(vec![Arc::new(stream)]);
    let table =
        "CREATE TABLE s (ts TIMESTAMP, k BIGINT, x DOUBLE, t STRING, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
                 WITH ('connector' = 'script')";
    engine.sql(table).unwrap();
    engine.sql(settings).unwrap();
    engine
}

/// The parallel plan of a query over so many partitions.
fn plan(partitions: usize, settings: &str, sql: &str) -> String {
    let mut engine = engine(stream(partitions, 1, 0), settings);
    let statement = engine.parse(sql).unwrap().pop().unwrap();
    explain_parallel(&engine.plan(&statement).unwrap().unwrap(), ExplainFormat::Text)
}

fn is_split(partitions: usize, settings: &str, sql: &str) -> bool {
    let text = plan(partitions, settings, sql);
    assert!(text.contains("Aggregate "), "{text}");
    text.contains("Partial ")
}

const WINDOW: &str = "TUMBLE(s, ts, INTERVAL '1' MINUTE)";

#[test]
fn what_several_instances_send_is_split_where_states_are_small() {
    let four = "SET 'parallelism' = '4';";
    let by = |what: &str| format!("SELECT k, {what} FROM s GROUP BY k");
    for what in
        ["count(*), sum(x)", "avg(x), min(t)", "max(t)", "stddev(x)", "bool_or(x > 1)", "count(x) FILTER (WHERE x > 3)"]
    {
        assert!(is_split(3, four, &by(what)), "{what}");
        assert!(is_split(1, four, &by(what)), "the batches of its only partition are dealt");
        assert!(!is_split(3, "SET 'parallelism' = '1';", &by(what)), "one sender");
        assert!(!is_split(3, &format!("{four} SET 'aggregate.phases' = 'one'"), &by(what)));
        assert!(is_split(1, &format!("{four} SET 'aggregate.phases' = 'two'"), &by(what)));
    }
    for what in ["median(x)", "count(DISTINCT t)", "string_agg(t, ',' ORDER BY t)", "count(*), median(x)"] {
        assert!(!is_split(3, &format!("{four} SET 'aggregate.phases' = 'two'"), &by(what)), "{what}");
    }
    assert!(is_split(3, four, "SELECT count(*) FROM s"), "it has no keys");
    let first_row = format!("{four} SET 'window.anchor' = 'first-row'");
    let windows = format!("SELECT window_end, k, sum(x) FROM {WINDOW} GROUP BY window_end, k");
    assert!(is_split(3, four, &windows) && !is_split(3, &first_row, &windows));
    assert!(!is_split(3, &format!("{four} SET 'watermark.idle' = '1 s'"), &windows));
    let fast = format!("{four} SET 'float.sum' = 'fast';");
    assert!(!is_split(3, &fast, &windows) && is_split(3, &format!("{fast} SET 'merge' = 'arrival'"), &windows));
}

#[test]
fn aggregates_are_divided_without_being_asked_where_rows_are_aggregated_first() {
    // By default there are as many instances as cores, whatever their number is here.
    let cores = std::thread::available_parallelism().unwrap().get();
    let text = plan(64, "", "SELECT k, sum(x) FROM s GROUP BY k");
    assert_eq!(text.contains("128 key groups"), cores > 1, "{text}");
}

#[test]
fn aggregates_that_have_the_most_to_do_are_divided_without_being_asked() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let divided = |query: &str| plan(1, "", query).contains("128 key groups");
    // These keep the values that they see.
    for aggregate in ["median(x)", "count(DISTINCT x)", "string_agg(CAST(x AS STRING), ',' ORDER BY x)"] {
        assert_eq!(divided(&format!("SELECT k, {aggregate} FROM s GROUP BY k")), cores > 1, "{aggregate}");
    }
    // Sums alone take less than the way to another instance, which three of them make up for.
    assert_eq!(
        plan(1, "SET 'aggregate.phases' = 'one';", "SELECT k, sum(x) FROM s GROUP BY k").contains("128 key groups"),
        cores > 2
    );
    // Whoever sends has more to do.
    let busy = "(SELECT upper(replace(CAST(k AS STRING), '1', '2')) AS u, x FROM s)";
    assert!(!divided(&format!("SELECT u, median(x) FROM {busy} GROUP BY u")));
    assert!(!divided("SELECT median(x) FROM s"), "it has no keys");
}

#[test]
fn each_input_of_a_union_has_a_first_phase() {
    let four = "SET 'parallelism' = '4';";
    let both = "(SELECT ts, k, x FROM s WHERE x > 0 UNION ALL SELECT ts, k + 1, x / 2 FROM s)";
    let by = |what: &str| {
        format!("SELECT window_end, k, {what} FROM TUMBLE({both}, ts, INTERVAL '1' MINUTE) GROUP BY window_end, k")
    };
    let partials = |partitions, settings: &str, sql: &str| plan(partitions, settings, sql).matches("Partial ").count();
    for strategy in ["subquery-cluster", "query-cluster"] {
        let four = format!("{four} SET 'parallel.strategy' = '{strategy}';");
        assert_eq!(partials(3, &four, &by("count(*), sum(x)")), 2);
        assert_eq!(partials(1, &four, &by("count(*), sum(x)")), 2, "there are two senders");
        assert_eq!(partials(3, &four, &by("median(x)")), 0);
        assert_eq!(partials(3, &four, &format!("SELECT sum(x) FROM {both}")), 2, "it has no keys");
        assert_eq!(partials(3, &format!("{four} SET 'aggregate.phases' = 'one'"), &by("count(*)")), 0);
        assert_eq!(partials(3, &format!("{four} SET 'watermark.idle' = '1 s'"), &by("count(*)")), 0);
    }
    let alone = format!("{four} SET 'parallel.strategy' = 'operator-cluster'");
    assert_eq!(partials(3, &alone, &by("count(*), sum(x)")), 0, "the union sends from one instance");
    // What a plan is known by does not depend on its phases, nor on where its unions are.
    let number = |settings: &str, sql: &str| {
        let mut engine = engine(stream(3, 1, 0), settings);
        let statement = engine.parse(sql).unwrap().pop().unwrap();
        let text = explain_parallel(&engine.plan(&statement).unwrap().unwrap(), ExplainFormat::Json);
        text.split("\"plan\": \"").nth(1).unwrap().split('"').next().unwrap().to_string()
    };
    let sums = by("count(*), sum(x)");
    assert_eq!(number(four, &sums), number("SET 'aggregate.phases' = 'one'", &sums));
    let pairs = format!("SELECT l.k FROM {both} AS l JOIN s AS r ON l.k = r.k AND l.ts = r.ts");
    assert_eq!(number(four, &pairs), number("SET 'parallelism' = '1'", &pairs));
    assert_ne!(number(four, &pairs), number(four, &sums));
}

#[test]
fn behind_an_aggregate_another_one_is_split_or_fused() {
    let four = "SET 'parallelism' = '4';";
    let first = format!(
        "SELECT window_start, window_end, k, t, sum(x) AS x FROM {WINDOW} GROUP BY window_start, window_end, k, t"
    );
    let fused =
        plan(3, four, &format!("SELECT window_end, k, count(*) FROM ({first}) GROUP BY window_start, window_end, k"));
    assert_eq!((fused.matches("Partial ").count(), fused.contains("[fused with")), (1, true), "{fused}");
    let total = plan(3, four, &format!("SELECT window_end, count(*) FROM ({first}) GROUP BY window_start, window_end"));
    assert_eq!(total.matches("Partial ").count(), 2, "{total}");
    for strategy in ["query-cluster", "operator-cluster"] {
        let text = plan(3, &format!("{four} SET 'parallel.strategy' = '{strategy}'"), &first);
        assert_eq!(text.matches("Partial ").count(), 1, "{text}");
    }
}

/// The file of costs of a query in which the first phase, or the only one, gives so many of a hundred rows.
fn costs(sql: &str, phase: &str, of_a_hundred: u64) -> CostFile {
    let mut engine = engine(stream(3, 1, 0), "SET 'aggregate.phases' = 'two'");
    let statement = engine.parse(sql).unwrap().pop().unwrap();
    let plan = engine.plan(&statement).unwrap().unwrap();
    // The number of a plan does not depend on its phases.
    let explained = explain_parallel(&plan, ExplainFormat::Json);
    let between = |before: &str| explained.split(before).nth(1).unwrap().split('"').next().unwrap();
    let (number, label) = (between("\"plan\": \""), format!("{phase} {}", between("\"label\": \"Partial ")));
    let measured = |rows: u64| format!("{{\"rows_in\": 100, \"rows_out\": {rows}, \"nanoseconds\": 1000}}");
    let nodes = format!("{{\"Source s (0)\": {}, \"{label}\": {}}}", measured(100), measured(of_a_hundred));
    CostFile::parse(&format!("{{\"version\": 1, \"plans\": {{\"{number}\": {nodes}}}}}")).unwrap()
}

#[test]
fn measured_costs_say_where_it_pays() {
    let sql = "SELECT t, count(*) FROM s GROUP BY t";
    let is_split = |costs: CostFile| {
        let mut engine = engine(stream(3, 1, 0), "SET 'parallelism' = '4'");
        engine.use_costs(costs);
        let statement = engine.parse(sql).unwrap().pop().unwrap();
        let text = explain_parallel(&engine.plan(&statement).unwrap().unwrap(), ExplainFormat::Text);
        text.contains("Partial ")
    };
    assert!(is_split(costs(sql, "Partial", 40)) && !is_split(costs(sql, "Partial", 60)));
    // Each of three senders may have all groups.
    assert!(is_split(costs(sql, "Aggregate", 16)) && !is_split(costs(sql, "Aggregate", 18)));
}

#[test]
fn the_rows_are_those_of_one_instance() {
    let queries = [
        format!("SELECT window_end, k, count(*), sum(x), min(t), max(x), stddev(x) FROM {WINDOW} GROUP BY window_end, k"),
        "SELECT window_end, count(*), avg(x) FILTER (WHERE k > 1) FROM HOP(s, ts, INTERVAL '20' SECOND, INTERVAL '1' MINUTE)
         GROUP BY window_end"
            .to_string(),
        "SELECT t, k, sum(x), count(*) FROM s WHERE x > 0 GROUP BY t, k".to_string(),
        "SELECT count(*), sum(x) FROM s WHERE x > 1e9".to_string(),
        "SELECT window_end, x, count(*) FROM CUMULATE(s, ts, INTERVAL '20' SECOND, INTERVAL '1' MINUTE) GROUP BY window_end, x"
            .to_string(),
        "SELECT window_end, k, count(*), sum(x), min(t) FROM TUMBLE((SELECT ts, k, x, t FROM s WHERE x > 0
           UNION ALL SELECT ts, k % 3, x / 2, 'other' FROM s), ts, INTERVAL '1' MINUTE) GROUP BY window_end, k"
            .to_string(),
        "SELECT sum(x), count(*) FROM (SELECT x FROM s UNION ALL SELECT x FROM s WHERE k > 1 UNION ALL SELECT 1.5)".to_string(),
    ];
    for (number, sql) in queries.iter().enumerate() {
        for seed in 0..4 {
            let run = |settings: &str, barriers: bool| {
                let stream = stream(3, 400, seed);
                let mut engine = engine(if barriers { stream.with_barriers(seed) } else { stream }, settings);
                engine.reload_at_barriers();
                let mut query = engine.sql(sql).unwrap();
                let lines: Vec<String> =
                    query.by_ref().flat_map(|batch| show::lines(&batch.unwrap()).unwrap()).collect();
                (lines, query.metrics().late_rows)
            };
            let late = format!("SET 'late.allowed' = '{} s';", [0, 30][seed as usize % 2]);
            let expected = run(&format!("{late} SET 'parallelism' = '1'"), false);
            assert!(!expected.0.is_empty() && (expected.1 > 0 || number > 1));
            for (workers, batch) in [(2, 7), (4, 1), (8, 1000)] {
                let settings = format!(
                    "{late} SET 'aggregate.phases' = 'two'; SET 'parallelism' = '{workers}'; SET 'batch.rows' = '{batch}'"
                );
                let found = run(&settings, seed > 1);
                assert!(found == expected, "query {number}, seed {seed}, {workers} workers");
            }
        }
    }
}
