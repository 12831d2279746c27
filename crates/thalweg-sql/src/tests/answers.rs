//! What DESCRIBE, SHOW and SET answer, and what declarations become.

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use thalweg_core::{Interval, error::Span};
use thalweg_plan::{
    Node,
    node::{Sink as PlanSink, WatermarkStrategy, Windowing},
    schema::WindowColumns,
};

use super::*;
use crate::ExplainFormat;

fn rows(session: &mut Session, script: &str) -> Vec<String> {
    let batch: RecordBatch = match run(session, script) {
        Ok(Outcome::Rows(batch)) => batch,
        other => panic!("{script}: {other:?}"),
    };
    let options = FormatOptions::default().with_null("-");
    let columns: Vec<_> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
    let row = |i: usize| columns.iter().map(|column| column.value(i).to_string()).collect::<Vec<_>>().join(" | ");
    (0..batch.num_rows()).map(row).collect()
}

const FULL: &str = "CREATE TEMPORARY TABLE `my t` (
    `id` INT NOT NULL COMMENT 'it''s the key',
    `price` DECIMAL(10, 2),
    `ms` BIGINT,
    `double price` AS price * 2 COMMENT 'twice',
    `at` AS to_timestamp_millis(ms),
    PRIMARY KEY (`id`) NOT ENFORCED,
    WATERMARK FOR `at` AS `at` - INTERVAL '1' MINUTE
) COMMENT 'all there is' WITH ('format' = 'csv', 'connector' = 'file')";

#[test]
fn a_table_is_described_as_in_flink() {
    let described = rows(&mut empty_session(), &format!("{FULL}; DESCRIBE `my t`"));
    let expected = [
        "id | INT | false | PRI(id) | - | -",
        "price | DECIMAL(10, 2) | true | - | - | -",
        "ms | BIGINT | true | - | - | -",
        "double price | DECIMAL(31, 2) | true | - | AS price * 2 | -",
        "at | TIMESTAMP(6) *ROWTIME* | true | - | AS to_timestamp_millis(ms) | `at` - INTERVAL '1' MINUTE",
    ];
    assert_eq!(described, expected);
}

#[test]
fn a_watermark_is_described_with_the_option_that_completes_it() {
    for option in ["'lateness' = '5 seconds'", "'accuracy' = '0.99'"] {
        let described = rows(
            &mut empty_session(),
            &format!(
                "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('format' = 'csv', 'connector' = 'file', {option});
                DESCRIBE t"
            ),
        );
        assert_eq!(described, [format!("ts | TIMESTAMP(6) *ROWTIME* | true | - | - | ts WITH {option}")]);
    }
}

#[test]
fn a_table_shown_and_created_again_is_the_same_table() {
    let (mut first, mut second) = (empty_session(), empty_session());
    let shown = rows(&mut first, &format!("{FULL}; SHOW CREATE TABLE `my t`"));
    run(&mut second, &shown[0]).unwrap();
    assert_eq!(rows(&mut second, "SHOW CREATE TABLE `my t`"), shown);
    assert_eq!(rows(&mut second, "DESCRIBE `my t`"), rows(&mut first, "DESCRIBE `my t`"));
}

#[test]
fn a_view_shown_and_created_again_is_the_same_view() {
    let mut session = session();
    let view = "CREATE VIEW v (`a b`, n) AS SELECT origin, delay * 2 FROM s WHERE origin <> 'it''s'";
    let shown = rows(&mut session, &format!("{view}; SHOW CREATE VIEW v"));
    let described = rows(&mut session, "DESCRIBE v");
    assert_eq!(described, ["a b | STRING | true | - | - | -", "n | BIGINT | true | - | - | -"]);
    assert_eq!(rows(&mut session, &format!("DROP VIEW v; {}; SHOW CREATE VIEW v", shown[0])), shown);
    assert_eq!(rows(&mut session, "DESCRIBE v"), described);
}

#[test]
fn a_view_says_which_column_carries_the_event_time() {
    let described = |query: &str| {
        let rows = rows(&mut session(), &format!("CREATE VIEW v AS {query}; DESCRIBE v"));
        let names = rows.iter().filter(|row| row.contains("*ROWTIME*")).map(|row| row.split(' ').next().unwrap());
        names.map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(described("SELECT ts AS at, origin FROM s WHERE delay > 0"), ["at"]);
    assert_eq!(
        described(
            "SELECT a.ts, b.ts AS other FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR"
        ),
        ["ts"]
    );
    let windows = "FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_end, window_time";
    assert_eq!(described(&format!("SELECT window_start, window_time, count(*) AS n {windows}")), ["window_time"]);
    assert_eq!(described("SELECT ts, count(*) AS n FROM f GROUP BY ts"), ["ts"]);
    for none in [
        &format!("SELECT window_start, count(*) AS n {windows}"),
        "SELECT ts + INTERVAL '1' HOUR AS ts FROM s",
        "SELECT max(ts) AS ts FROM f",
        // It cannot be run as it stands.
        "SELECT origin, max(ts) AS ts FROM s GROUP BY origin",
    ] {
        assert!(described(none).is_empty(), "{none}");
    }
}

#[test]
fn a_view_of_windows_over_a_union_is_shown_as_it_was_written() {
    let mut session = session();
    let view = "CREATE VIEW v AS SELECT origin, sum(delay) OVER w AS n, count(*) OVER w FROM s WINDOW w AS \
                (UNION f, (SELECT * FROM s) PARTITION BY origin ORDER BY ts ROWS_RANGE 1s PRECEDING MAXSIZE 9)";
    let shown = rows(&mut session, &format!("{view}; SHOW CREATE VIEW v"));
    assert_eq!(shown, [view.replace("VIEW v", "VIEW `v`")]);
    let described = rows(&mut session, "DESCRIBE v");
    let expected = [
        "origin | STRING | true | - | - | -",
        "n | BIGINT | true | - | - | -",
        "count(*) OVER w | BIGINT | false | - | - | -",
    ];
    assert_eq!(described, expected);
    let plan = tree(&plan_in(&mut session, "SELECT * FROM v"));
    assert_eq!(rows(&mut session, &format!("DROP VIEW v; {}; SHOW CREATE VIEW v", shown[0])), shown);
    assert_eq!(tree(&plan_in(&mut session, "SELECT * FROM v")), plan);
    // What a union reads is what the view reads.
    let drop = run(&mut session, "DROP TABLE f").unwrap_err();
    assert_eq!(drop.message(), "table \"f\" is read by view \"v\"");
}

#[test]
fn rows_of_one_time_stand_in_the_order_of_their_source() {
    let orders = |script: &str| {
        let plan = plan_in(&mut session(), script);
        let over = plan.nodes().find_map(|(_, planned)| match &planned.node {
            Node::Over(over) => Some((over.frames[0].aggregates[0].function.params.order_by.clone(), planned)),
            _ => None,
        });
        let (order, planned) = over.unwrap();
        let keys: Vec<_> = order.iter().map(|key| key.expr.to_string()).collect();
        let schema = &plan.node(planned.inputs[0]).schema;
        let name = |i: Option<usize>| i.map(|i| schema.columns.field(i).name().clone());
        (keys, name(schema.time), name(schema.position))
    };
    let named = |name: &str| Some(name.to_string());
    let last = "SELECT last_value(delay) OVER";
    let alone = orders(&format!("{last} (ORDER BY ts) FROM s"));
    assert_eq!(alone, (vec!["ts".into(), "position".into()], named("ts"), named("position")));
    // A column of the user's keeps its name, and the position gets another one.
    let taken = orders("SELECT last_value(position) OVER (ORDER BY ts) FROM (SELECT delay * 2 AS position, ts FROM s)");
    assert_eq!(taken, (vec!["ts".into(), "position:2".into()], named("ts"), named("position:2")));
    // Positions in several sources say nothing of each other.
    let union = orders(&format!("{last} (UNION f ORDER BY ts) FROM s"));
    assert_eq!(union, (vec!["ts".into()], named("ts"), named("position")));
    let percentile = orders("SELECT percentile_cont(delay, 0.5) OVER (ORDER BY ts) FROM s");
    assert_eq!(percentile.0, ["delay"]);
}

#[test]
fn errors_of_windows_and_joins_have_their_place_in_the_text() {
    use thalweg_core::error::Subject;
    let mut session = session();
    let located = |session: &mut Session, script: &str, error: Error| {
        let statement = session.parse(script).unwrap().remove(0);
        marked(script, &session.places(&statement).unwrap().locate(error))
    };
    let query = "SELECT fare, sum(delay) OVER (PARTITION BY origin ORDER BY ts ROWS 3 PRECEDING) AS n FROM s";
    let call = "sum(delay) OVER (PARTITION BY origin ORDER BY ts ROWS 3 PRECEDING)";
    let sum = || Error::data("too large").about(Subject::Expression("sum(delay)".to_string())).in_node("Over 3");
    assert_eq!(located(&mut session, query, sum()), call);
    let key = Error::data("wrong").about(Subject::Expression("upper(origin)".to_string())).in_node("Over 3");
    let named = "SELECT sum(delay) OVER w AS n FROM s WINDOW w AS (PARTITION BY upper(origin) ORDER BY ts MAXSIZE 3)";
    assert_eq!(located(&mut session, named, key), "upper(origin)");
    // Of what nobody wrote, the clause is known.
    let lag = Error::environment("too much").in_node("Over 3");
    assert_eq!(located(&mut session, "SELECT lag(delay) OVER (ORDER BY ts) FROM s", lag), "OVER");
    let join = "SELECT a.origin FROM s a JOIN f b ON a.ts = b.ts";
    assert_eq!(located(&mut session, join, Error::environment("too much").in_node("IntervalJoin 4")), "JOIN");
    run(&mut session, &format!("CREATE VIEW v AS {query}")).unwrap();
    assert_eq!(located(&mut session, "SELECT n FROM v", sum()), "v");
}

#[test]
fn every_spelling_of_a_type_is_read() {
    let types = "TINYINT, SMALLINT, INT, INTEGER, BIGINT, FLOAT, REAL, DOUBLE, DOUBLE PRECISION, DECIMAL, NUMERIC(5), \
        CHAR(3), VARCHAR(9), VARCHAR, STRING, TEXT, BINARY(3), VARBINARY(4), BYTES, BYTEA, DATE, TIME, TIME(3), TIMESTAMP, \
        TIMESTAMP(3) WITHOUT TIME ZONE, TIMESTAMP_LTZ(3), TIMESTAMP(3) WITH LOCAL TIME ZONE, TIMESTAMPTZ, BOOLEAN, INT8";
    let columns: Vec<_> = types.split(", ").enumerate().map(|(i, sql)| format!("c{i} {sql}")).collect();
    let create = format!("CREATE TABLE t ({}) WITH ('connector' = 'file'); DESCRIBE t", columns.join(", "));
    let described = rows(&mut empty_session(), &create);
    let types: Vec<_> = described.iter().map(|row| row.split(" | ").nth(1).unwrap()).collect();
    let expected = "TINYINT, SMALLINT, INT, INT, BIGINT, FLOAT, FLOAT, DOUBLE, DOUBLE, DECIMAL(10, 0), DECIMAL(5, 0), \
        STRING, STRING, STRING, STRING, STRING, BYTES, BYTES, BYTES, BYTES, DATE, TIME(6), TIME(6), TIMESTAMP(6), \
        TIMESTAMP(6), TIMESTAMP_LTZ(6), TIMESTAMP_LTZ(6), TIMESTAMP_LTZ(6), BOOLEAN, BIGINT";
    assert_eq!(types.join(", "), expected);
}

#[test]
fn columns_that_are_left_out_are_inferred() {
    let inferred = rows(&mut empty_session(), "CREATE TABLE t WITH ('connector' = 'file'); DESCRIBE t");
    assert_eq!(inferred.len(), 3);
    let with_more =
        "CREATE TABLE t (late AS delay > 15, WATERMARK FOR ts AS ts) WITH ('connector' = 'file'); DESCRIBE t";
    let expected = [
        "origin | STRING | true | - | - | -",
        "delay | BIGINT | true | - | - | -",
        "ts | TIMESTAMP(6) *ROWTIME* | true | - | - | ts",
        "late | BOOLEAN | true | - | AS delay > 15 | -",
    ];
    assert_eq!(rows(&mut empty_session(), with_more), expected);
}

#[test]
fn names_and_settings_are_listed() {
    let mut session = session();
    assert_eq!(rows(&mut session, "CREATE VIEW v AS SELECT 1 AS a; SHOW TABLES"), ["f", "out", "s", "v", "z"]);
    assert_eq!(rows(&mut session, "SHOW VIEWS"), ["v"]);
    assert!(rows(&mut session, "SHOW FUNCTIONS").contains(&"abs | scalar".to_string()));
    assert!(rows(&mut session, "SHOW FUNCTIONS").contains(&"lag | window".to_string()));
    let late = |session: &mut Session, script| rows(session, script)[5].split(" | ").nth(1).unwrap().to_string();
    assert_eq!(late(&mut session, "SET 'late.allowed' = '1 min'; SET"), "1 min");
    assert_eq!(late(&mut session, "RESET 'late.allowed'; SET"), "0 s");
    run(&mut session, "SET batch.rows = 7").unwrap();
    assert_eq!(session.settings().batch_rows, 7);
    assert_eq!(plan_in(&mut session, "SELECT 1").settings.batch_rows, 7);
}

#[test]
fn a_source_knows_its_columns_its_time_and_its_ends() {
    let mut session = empty_session();
    let plan = plan_in(&mut session, &format!("{FULL}; SELECT * FROM `my t`"));
    let source = plan.nodes().next().unwrap().1;
    assert!(source.schema.is_bounded);
    assert_eq!(source.schema.time, Some(4));
    let Node::Source(read) = &source.node else { panic!("{:?}", source.node) };
    assert_eq!(read.partitions, 2);
    assert_eq!(read.watermark, Some(WatermarkStrategy { column: 4, delay: Interval::seconds(60), accuracy: None }));
    assert_eq!(read.table.time, None, "event time is computed");
    assert_eq!(read.table.columns.fields().len(), 3);
    let computed: Vec<_> = read.computed.iter().flatten().map(ToString::to_string).collect();
    assert_eq!(computed[..3], ["id", "price", "ms"]);
    assert_eq!(computed[4], "CAST(to_timestamp_millis(ms) AS Timestamp(µs))");
}

#[test]
fn time_of_any_function_is_in_microseconds_and_of_the_right_kind() {
    let mut session = session();
    let query = "SET 'time.zone' = 'Europe/Berlin';
        SELECT now(), localtimestamp, CAST(at AS TIMESTAMP), CAST('2013-01-01' AS TIMESTAMP_LTZ(3)), to_timestamp(k),
               date_trunc('day', at), from_unixtime(k), at + INTERVAL '1' DAY, TIMESTAMP '2013-01-01 00:00:00', current_time
        FROM z";
    let plan = plan_in(&mut session, query);
    let schema = plan.nodes().last().unwrap().1.schema.arrow();
    let types: Vec<_> = schema.fields().iter().map(|field| crate::types::flink_name(field.data_type())).collect();
    let (plain, instant) = ("TIMESTAMP(6)", "TIMESTAMP_LTZ(6)");
    assert_eq!(types[..6], [instant, plain, plain, instant, plain, instant]);
    assert_eq!(types[7..], [instant, plain, "TIME(6)"]);
}

#[test]
fn windows_follow_through_the_plan() {
    let mut session = session();
    let query = "SELECT origin, window_end, window_time, window_start, count(*)
        FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_end, window_time, origin";
    let plan = plan_in(&mut session, query);
    let aggregate = plan.nodes().find(|(_, planned)| matches!(planned.node, Node::Aggregate(_))).unwrap().1;
    assert_eq!(aggregate.schema.time, Some(2));
    assert_eq!(aggregate.schema.window, Some(WindowColumns { start: 0, end: 1, is_cumulating: false }));
    let Node::Aggregate(node) = &aggregate.node else { panic!("found above") };
    let Windowing::Assigned(windows) = &node.windowing else { panic!("{:?}", node.windowing) };
    assert_eq!((windows.size, windows.slide, windows.time), (Interval::seconds(3600), Interval::seconds(3600), 1));
    let sink = plan.nodes().last().unwrap().1;
    assert_eq!(
        (sink.schema.time, sink.schema.window),
        (Some(2), Some(WindowColumns { start: 3, end: 1, is_cumulating: false }))
    );
}

#[test]
fn a_query_is_explained_in_every_format() {
    for (script, expected) in [
        ("EXPLAIN SELECT 1", ExplainFormat::Text),
        ("EXPLAIN PLAN FOR INSERT INTO out VALUES ('a', 1)", ExplainFormat::Text),
        ("EXPLAIN (FORMAT JSON) SELECT 1", ExplainFormat::Json),
        ("EXPLAIN (FORMAT dot) (SELECT 1)", ExplainFormat::Dot),
    ] {
        match run(&mut session(), script) {
            Ok(Outcome::Explain(_, format)) => assert_eq!(format, expected, "{script}"),
            other => panic!("{script}: {other:?}"),
        }
    }
    for (script, expected) in [
        ("EXPLAIN ANALYZE SELECT 1", ExplainFormat::Text),
        ("EXPLAIN ANALYZE INSERT INTO out VALUES ('a', 1)", ExplainFormat::Text),
        ("EXPLAIN ANALYZE (SELECT 1)", ExplainFormat::Text),
        ("EXPLAIN (ANALYZE) SELECT 1", ExplainFormat::Text),
        ("EXPLAIN (ANALYZE, FORMAT JSON) SELECT 1", ExplainFormat::Json),
        ("EXPLAIN (FORMAT dot, analyze) SELECT 1", ExplainFormat::Dot),
    ] {
        match run(&mut session(), script) {
            Ok(Outcome::Analyze(_, format)) => assert_eq!(format, expected, "{script}"),
            other => panic!("{script}: {other:?}"),
        }
    }
}

#[test]
fn an_insert_casts_to_the_columns_of_its_table() {
    let mut session = session();
    let plan = plan_in(&mut session, "INSERT INTO out SELECT origin, delay FROM s");
    let sink = plan.nodes().last().unwrap().1;
    let Node::Sink(PlanSink::Table(table)) = &sink.node else { panic!("{:?}", sink.node) };
    let have: Vec<_> = sink.schema.columns.fields().iter().map(|f| (f.name(), f.data_type())).collect();
    let want: Vec<_> = table.columns.fields().iter().map(|f| (f.name(), f.data_type())).collect();
    assert_eq!(have, want);
}

#[test]
fn statements_know_their_text_and_their_place() {
    let session = session();
    let script = "SELECT 1; -- one\n\n  SELECT 'a;b' AS x -- two\n;;\n";
    let statements = session.parse(script).unwrap();
    let texts: Vec<_> = statements.iter().map(|statement| statement.text()).collect();
    assert_eq!(texts, ["SELECT 1", "SELECT 'a;b' AS x"]);
    assert_eq!(statements[1].span(), Span { line: 3, column: 3, width: 6 });
    assert!(session.parse("SELECT 1; SELECT FROM WHERE").is_err(), "found before anything runs");
}

#[test]
fn the_caret_stands_under_its_word() {
    let text = "SELECT origin,\n\tdely FROM s";
    let shown = caret(text, &run(&mut session(), text).unwrap_err());
    assert_eq!(shown, "column \"dely\" not found\n  2 | \tdely FROM s\n    | \t^^^^\nhint: did you mean \"delay\"?");
}
