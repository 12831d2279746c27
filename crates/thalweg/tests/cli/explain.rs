//! Plans, as they are shown.

use super::{NUMBERS, check, check_stderr, thalweg};

#[test]
fn plans_are_explained_and_nothing_is_run() {
    let sql = format!("{NUMBERS} SELECT n FROM numbers WHERE n > 5");
    let text = thalweg(&["explain", "-c", &sql]);
    assert!(text.stdout.starts_with("Sink result"), "{}", text.stdout);
    assert!(text.stdout.contains("Source numbers (generator, 1 partition)"), "{}", text.stdout);
    assert!(thalweg(&["explain", "--json", "-c", &sql]).stdout.starts_with("{\n"));
    assert!(thalweg(&["explain", "--dot", "-c", &sql]).stdout.starts_with("digraph plan {\n"));
    check(
        &["-c", "EXPLAIN SELECT 1 AS a"],
        "{\"plan\":\"Sink result  [subquery 0 × 1]\"}\n{\"plan\":\"└─ Values 1 rows  [subquery 0 × 1]\"}\n",
    );
    let nothing = "error: nothing to explain\nhint: only SELECT and INSERT have a plan\n";
    check_stderr(&["explain", "-c", NUMBERS], 2, nothing);
}

#[test]
fn explain_analyze_is_a_statement_too() {
    let table = "CREATE TABLE g (ts TIMESTAMP, k BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'generator', 'number-of-rows' = '1000',
                 'fields.ts.step' = '1 s', 'fields.k.min' = '0', 'fields.k.max' = '9');";
    let counted = "SELECT k, count(*) OVER (PARTITION BY k ORDER BY ts ROWS_RANGE BETWEEN 20s PRECEDING AND CURRENT ROW) AS n FROM g";
    let told = thalweg(&["run", "-o", "csv", "-c", &format!("{table} EXPLAIN ANALYZE {counted}")]);
    assert!(told.stdout.starts_with("plan\n") && told.stdout.contains("rows found"), "{}", told.stdout);
    assert!(
        told.stdout.contains("measured") && told.stderr.contains("1,000 rows in, "),
        "{} {}",
        told.stdout,
        told.stderr
    );
    assert!(!told.stdout.contains("\n0,"), "rows of the query are not shown: {}", told.stdout);
    let json = thalweg(&["run", "-q", "-c", &format!("{table} EXPLAIN (ANALYZE, FORMAT JSON) {counted}")]).stdout;
    let lines = json.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let text: String = lines.map(|line| line["plan"].as_str().unwrap().to_string()).collect();
    let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    let over = plan["ran"].as_object().unwrap().iter().find(|(node, _)| node.starts_with("Over")).unwrap().1;
    assert_eq!(over["results_from"], serde_json::json!({ "sorting": 1000 }), "{over}");
}

#[test]
fn minima_over_a_few_rows_follow_their_windows() {
    let sql = "CREATE TABLE g (k BIGINT, v BIGINT, ts AS to_timestamp_seconds(k), WATERMARK FOR ts AS ts) WITH ('connector' = 'generator', \
               'number-of-rows' = '1000', 'fields.k.kind' = 'sequence'); \
               SELECT min(v) OVER w FROM g WINDOW w AS (PARTITION BY k % 3 ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)";
    let ran = thalweg(&["explain", "--analyze", "--json", "--parallelism", "1", "-c", sql]).stdout;
    let ran: serde_json::Value = serde_json::from_str(&ran).unwrap();
    let over = ran["ran"].as_object().unwrap().iter().find(|(node, _)| node.starts_with("Over")).unwrap().1;
    assert!(over["results_from"]["sliding"].as_u64() > Some(900), "{over}");
}

#[test]
fn a_plan_says_where_joins_find_the_partners_of_a_row() {
    let table = |name: &str| {
        format!(
            "CREATE TABLE {name} (k BIGINT, ts AS to_timestamp_seconds(k), WATERMARK FOR ts AS ts) WITH ('connector' = 'generator', \
             'number-of-rows' = '10', 'fields.k.kind' = 'sequence');"
        )
    };
    let join = format!("{}{} SELECT a.ts FROM a JOIN b ON a.k = b.k AND a.ts = b.ts", table("a"), table("b"));
    let ways = [
        ("", "", "sorted rows"),
        ("", " EMIT EAGER", "runs"),
        ("SET 'join.index' = 'runs'; ", " EMIT EAGER", "runs"),
        ("SET 'join.index' = 'skip-list'; ", " EMIT EAGER", "skip-list"),
    ];
    for (settings, emission, from) in ways {
        let sql = format!("{settings}{join}{emission}");
        let text = thalweg(&["explain", "-c", &sql]).stdout;
        let line = text.lines().find(|line| line.contains("IntervalJoin")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.ends_with(&format!(", partners from {from}]")), "{line}");
        for shown in [&["--parallel"][..], &["--dot"], &["--parallel", "--dot"]] {
            let text = thalweg(&[&["explain", "-c", &sql], shown].concat()).stdout;
            assert!(text.contains(&format!("[partners from {from}]")), "{text}");
        }
        let json: serde_json::Value =
            serde_json::from_str(&thalweg(&["explain", "--json", "-c", &sql]).stdout).unwrap();
        let joins: Vec<_> =
            json["nodes"].as_array().unwrap().iter().filter(|node| !node["partners_from"].is_null()).collect();
        assert_eq!((joins.len(), &joins[0]["partners_from"]), (1, &serde_json::json!(from)));
    }
    let wrong = thalweg(&["run", "-c", &format!("SET 'join.index' = 'tree'; {join}")]);
    assert!(wrong.stderr.contains("'auto', 'runs' or 'skip-list'"), "{}", wrong.stderr);
}

#[test]
fn a_plan_says_how_aggregates_get_at_the_rows_around_a_row() {
    let sql = "CREATE TABLE g (k BIGINT, v BIGINT, ts AS to_timestamp_seconds(k), WATERMARK FOR ts AS ts) WITH ('connector' = 'generator', \
               'number-of-rows' = '10', 'fields.k.kind' = 'sequence'); \
               SELECT sum(v) OVER w, min(v) OVER w, count(*) OVER w, median(v) OVER w, lag(v) OVER w, approx_distinct(v) OVER w, \
                      var_pop(v) OVER w, regr_count(v, v) OVER w, sum(v) OVER few, max(v) OVER ever \
               FROM g WINDOW w AS (PARTITION BY k % 3 ORDER BY ts RANGE BETWEEN INTERVAL '9' SECOND PRECEDING AND CURRENT ROW), \
               few AS (PARTITION BY k % 3 ORDER BY ts ROWS_RANGE BETWEEN 9s PRECEDING AND CURRENT ROW MAXSIZE 5 EXCLUDE CURRENT_TIME), \
               ever AS (PARTITION BY k % 3 ORDER BY ts RANGE UNBOUNDED PRECEDING)";
    let text = thalweg(&["explain", "-c", sql]).stdout;
    let over = text.lines().find(|line| line.contains("Over by")).unwrap_or_else(|| panic!("{text}"));
    let found: Vec<&str> = over[over.find("kernels").unwrap()..].trim_end_matches(']').split("; ").skip(1).collect();
    let expected = [
        "sum(v), count(*), regr_count(v, v), sum(v):2 from running totals",
        "min(v), median(v), approx_distinct(v), var_pop(v) from sliding or all rows, by cost",
        "nth_value(v, -2 ORDER BY ts) from one row",
        "max(v) from blocks or all rows, by cost",
    ];
    assert_eq!(found, expected);
    let json: serde_json::Value = serde_json::from_str(&thalweg(&["explain", "--json", "-c", sql]).stdout).unwrap();
    let nodes = json["nodes"].as_array().unwrap();
    let over = nodes.iter().find(|node| node["node"] == "Over").unwrap();
    assert_eq!(over["aggregates_from"], serde_json::json!(expected));
    // Where all are totals over a span of time.
    let totals = &sql
        .replace("min(v) OVER w, ", "")
        .replace("median(v) OVER w, lag(v) OVER w, approx_distinct(v) OVER w, ", "")
        .replace("var_pop(v) OVER w, regr_count(v, v) OVER w, sum(v) OVER few, max(v) OVER ever", "avg(v) OVER w");
    for emission in ["", " EMIT EAGER"] {
        let text = thalweg(&["explain", "-c", &format!("{totals}{emission}")]).stdout;
        assert!(text.contains("sum(v), count(*), avg(v) from sorting or running totals, by cost]"), "{text}");
    }
}

#[test]
fn explain_analyze_tells_how_nodes_with_a_state_did() {
    let sql = "SET 'parallelism' = 2;
        CREATE TABLE s (ts TIMESTAMP, k BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'generator', 'number-of-rows' = '1000',
            'fields.ts.step' = '1 s', 'fields.k.min' = '0', 'fields.k.max' = '9');
        SELECT a.k FROM s a JOIN s b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '20' SECOND AND a.ts;
        SELECT count(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '20' SECOND PRECEDING AND CURRENT ROW) AS n FROM s";
    let told = thalweg(&["explain", "--analyze", "-c", sql]).stdout;
    let head = "state at most  unbalancedness  owners at most  rows found  visited for each";
    assert_eq!(told.matches(head).count(), 2, "{told}");
    let json = thalweg(&["explain", "--analyze", "--json", "-c", sql]).stdout;
    let plans = serde_json::Deserializer::from_str(&json).into_iter::<serde_json::Value>();
    let ran = plans.map(|plan| plan.unwrap()["ran"].as_object().unwrap().clone()).collect::<Vec<_>>();
    let of = |ran: &serde_json::Map<String, serde_json::Value>, label: &str| {
        ran.iter().find(|(name, _)| name.starts_with(label)).unwrap_or_else(|| panic!("{json}")).1.clone()
    };
    let (join, over) = (of(&ran[0], "IntervalJoin"), of(&ran[1], "Over"));
    let pairs = thalweg(&["run", "-q", "-c", sql]).stdout.lines().count();
    assert!(pairs > 3000, "{pairs}");
    for node in [&join, &over] {
        assert!(node["most_state_bytes"].as_u64() > Some(1000), "{node}");
        assert!(node["most_owners"].as_u64() >= Some(1), "{node}");
        assert!(node["unbalancedness"].as_f64().is_some_and(|much| (0.0..=1.0).contains(&much)), "{node}");
    }
    // Each row finds itself and those before it, in the join as in the window.
    assert_eq!(join["rows_found"], over["rows_found"]);
    let [found, visited] = ["rows_found", "rows_visited"].map(|what| join[what].as_u64().unwrap());
    assert!((2000..4000).contains(&found) && visited >= found && visited < 3 * found, "{join}");
    assert_eq!(over["results_from"], serde_json::json!({ "sorting": 1000 }), "{over}");
    assert_eq!(join["results_from"], serde_json::json!({}), "{join}");
    let far_apart = sql
        .split(';')
        .take(2)
        .chain(["SELECT sum(power(10.0, k * 7 - 30)) OVER (PARTITION BY k % 2 ORDER BY ts) AS n FROM s"]);
    let json = thalweg(&["explain", "--analyze", "--json", "-c", &far_apart.collect::<Vec<_>>().join(";")]).stdout;
    let plan: serde_json::Value = serde_json::from_str(&json).unwrap();
    let sums = of(plan["ran"].as_object().unwrap(), "Over");
    assert!(sums["results_from"]["sliding"].as_u64() > Some(800), "{sums}");
    // Sums follow two ends, which pass each row, and once more those that rows to come may see.
    let visited = over["rows_visited"].as_u64().unwrap();
    assert!((1000..3000).contains(&visited), "{over}");
}
