//! GROUP BY over a join: when pairs are put together for it, and when not.

use arrow_schema::FieldRef;
use datafusion_common::DFSchema;
use thalweg_plan::node::AggregateCall;

use super::*;

#[test]
fn eager_groups_are_of_joins_whose_condition_is_the_same_each_time() {
    let table = "CREATE TABLE p (id INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'stream');";
    let refused = |join: &str, condition: &str| {
        let query = format!(
            "SELECT p.id, sum(f.delay) AS n FROM p {join} f ON p.k = f.origin AND f.ts BETWEEN p.ts AND p.ts + INTERVAL '1' HOUR AND {condition} GROUP BY p.id EMIT EAGER"
        );
        let expected = format!(
            "  [EMIT] EMIT EAGER with GROUP BY is for joins by keys, time and columns of the joined table, and {condition} is more than that\n    leave one of them out, or write the pairs INTO a table with EMIT EAGER, without GROUP BY"
        );
        assert_eq!(refusal(&format!("{table} {query}")), expected);
    };
    refused("JOIN", "f.delay > p.id * random()");
    refused("LEFT JOIN", "p.id > random()");
}

#[test]
fn groups_that_are_rows_of_one_side_need_no_pairs() {
    let planned = |columns: &str, kind: &str, groups: &str| {
        let sides = if kind == "RIGHT" { ["f", "p"] } else { ["p", "f"] };
        let [left, right] = sides;
        let script = format!(
            "CREATE TABLE p (id INT PRIMARY KEY NOT ENFORCED, origin STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts)
             WITH ('connector' = 'stream');
             SELECT {columns} FROM {left} {kind} JOIN {right} ON p.origin = f.origin AND f.ts BETWEEN p.ts - INTERVAL '1' SECOND AND p.ts
             GROUP BY {groups}"
        );
        run(&mut session(), &script).map(|outcome| match outcome {
            Outcome::Plan(plan) => tree(&plan),
            other => panic!("{other:?}"),
        })
    };
    let nodes = |columns: &str, kind: &str, groups: &str| {
        let plan = planned(columns, kind, groups).unwrap();
        ["Over", "IntervalJoin", "Aggregate", "Filter partners > 0"].map(|node| plan.contains(node))
    };
    assert_eq!(nodes("p.id, sum(f.delay)", "LEFT", "p.id"), [true, false, false, false]);
    assert_eq!(nodes("p.id, count(*)", "", "p.id, p.ts"), [true, false, false, true]);
    assert_eq!(nodes("p.id, sum(f.delay)", "RIGHT", "p.id"), [true, false, false, false]);
    assert_eq!(nodes("p.id, sum(coalesce(f.delay, 1))", "LEFT", "p.id, p.ts"), [true, false, false, false]);
    assert_eq!(nodes("p.id, sum(f.delay + p.id)", "", "p.id, p.ts"), [true, false, false, true]);
    assert_eq!(nodes("p.id, first_value(f.delay ORDER BY f.ts)", "LEFT", "p.id"), [true, false, false, false]);
    // Several rows may be in one group.
    assert_eq!(nodes("p.origin, sum(f.delay)", "", "p.origin, p.ts"), [false, true, true, false]);
    assert_eq!(nodes("f.delay, count(p.id)", "", "p.ts, f.delay"), [false, true, true, false]);
    assert_eq!(nodes("f.delay, count(p.id)", "RIGHT", "p.ts, f.delay"), [false, true, true, false]);
    assert!(planned("p.origin, sum(f.delay)", "", "p.origin").is_err());
}

/// States as small as those of the engine: of counts the result, of sums two columns, and of others nothing is known.
fn fake_states(call: &AggregateCall, _: &DFSchema) -> Option<Vec<FieldRef>> {
    let state = |kinds: &[DataType]| {
        Some(kinds.iter().map(|kind| Arc::new(Field::new("state", kind.clone(), true)) as FieldRef).collect())
    };
    match call.function.func.name() {
        _ if call.function.params.distinct => None,
        "count" => state(&[DataType::Int64]),
        "sum" => state(&[DataType::UInt64, DataType::FixedSizeBinary(17)]),
        _ => None,
    }
}

#[test]
fn groups_of_several_rows_of_one_side_need_no_pairs_where_states_are_small() {
    let plan = |settings: &str, query: &str| {
        let mut session = session().with_states(fake_states);
        run(&mut session, &format!("{settings}; {query}")).map(|outcome| match outcome {
            Outcome::Plan(plan) => tree(&plan),
            other => panic!("{other:?}"),
        })
    };
    let joined = |columns: &str, kind: &str, groups: &str| {
        format!(
            "SELECT {columns} FROM s {kind} JOIN f ON s.origin = f.origin AND f.ts BETWEEN s.ts - INTERVAL '1' SECOND AND s.ts
             GROUP BY {groups}"
        )
    };
    let in_windows = |columns: &str, time: &str, groups: &str| {
        format!(
            "SELECT {columns} FROM TUMBLE((SELECT s.ts AS t, f.ts AS u, s.origin, s.delay AS d, f.delay FROM s JOIN f
             ON s.origin = f.origin AND f.ts BETWEEN s.ts - INTERVAL '1' SECOND AND s.ts), {time}, INTERVAL '1' HOUR) GROUP BY {groups}"
        )
    };
    let has_pairs = |query: &str| {
        let plan = plan("SET 'parallelism' = '1'", query).unwrap();
        assert_ne!(plan.contains("IntervalJoin"), plan.contains("Over"), "{plan}");
        assert!(plan.contains("Aggregate"), "{plan}");
        plan.contains("IntervalJoin")
    };
    assert!(!has_pairs(&joined("s.origin, sum(f.delay), count(*)", "", "s.origin, s.ts")));
    assert!(!has_pairs(&joined("sum(f.delay) + 1", "LEFT", "s.ts")));
    assert!(!has_pairs(&joined("f.origin, sum(s.delay * f.delay)", "RIGHT", "f.origin, f.ts, f.delay / 2")));
    assert!(!has_pairs(&in_windows("window_start, origin, sum(delay)", "t", "window_start, window_end, origin")));
    assert!(!has_pairs(&in_windows("sum(delay) FILTER (WHERE d > 3)", "t", "window_end")));
    // A key of the other side is what it is equal to.
    assert!(!has_pairs(&joined("f.origin, s.ts, sum(f.delay)", "", "s.ts, f.origin")));
    assert!(!has_pairs(&joined(
        "s.origin, f.origin, sum(s.delay)",
        "",
        "s.ts, s.delay, upper(f.origin), s.origin, f.origin"
    )));
    assert!(has_pairs(&joined("f.origin, s.ts, sum(f.delay)", "LEFT", "s.ts, f.origin")));
    let of = |both: &str| {
        format!(
            "SELECT s.ts, count(*) FROM s JOIN f ON {both} AND f.ts BETWEEN s.ts - INTERVAL '1' SECOND AND s.ts GROUP BY s.ts, f.origin, f.delay"
        )
    };
    assert!(!has_pairs(&of("s.origin = f.origin AND f.delay = s.delay")));
    assert!(has_pairs(&of("s.origin = f.origin AND (f.delay = s.delay OR f.fare > 3)")), "not in all pairs");
    // What is grouped by is of both sides, or a state is as large as the rows, or depends on their order, or reads the window.
    assert!(has_pairs(&joined("sum(f.delay)", "", "s.ts, f.dest")));
    assert!(has_pairs(&joined("sum(f.delay), count(DISTINCT f.dest)", "", "s.ts")));
    assert!(has_pairs(&joined("string_agg(f.dest, ',' ORDER BY f.ts)", "", "s.ts")));
    assert!(has_pairs(&joined("sum(f.delay * random())", "", "s.ts")));
    assert!(has_pairs(&in_windows("sum(date_part('hour', window_start) * delay)", "t", "window_end")));
    let fast = plan("SET 'float.sum' = 'fast'", &joined("sum(f.delay)", "", "s.ts")).unwrap();
    assert!(fast.contains("IntervalJoin"), "{fast}");
    // What is refused with pairs is refused without.
    for query in [
        joined("sum(f.delay)", "", "s.origin"),
        joined("sum(f.delay)", "", "s.ts") + " EMIT EAGER",
        in_windows("sum(delay)", "u", "window_end"),
        joined("sum(s.delay)", "", "f.ts, f.delay"),
        joined("sum(s.delay)", "", "s.origin, f.origin"),
        joined("sum(s.delay)", "", "f.ts, f.origin").replace(" AND f.ts BETWEEN", " AND f.ts = s.ts AND f.ts BETWEEN"),
    ] {
        let refused = plan("SET 'parallelism' = '1'", &query).unwrap_err();
        assert_eq!(refused.to_string(), run(&mut session(), &query).unwrap_err().to_string(), "{query}");
    }
    assert_eq!(
        plan("SET 'parallelism' = '1'", &joined("s.ts, sum(f.delay) AS n, count(*) AS c", "", "s.ts")).unwrap(),
        "Sink result
└─ Map ts, sum(delay) AS n, count(*) AS c
   └─ Aggregate each instant of ts compute sum(delay), count(*)
      └─ Map ts, state of sum(delay), count(*)
         └─ Filter partners > 0
            └─ Map origin, ts, position, state of sum(delay), count(*), partners
               └─ Over by origin on ts: range -1 s to 0, without the row, without others of the first input \
                  compute state of sum(delay), count(*), partners
                  ├─ Map origin, ts, position, NULL AS delay
                  │  └─ Filter origin IS NOT NULL
                  │     └─ Map origin, ts, position
                  │        └─ Position
                  │           └─ Source s (stream, 2 partitions), watermark ts - 5 s
                  └─ Map ts, origin, delay, position AS position'
                     └─ Filter origin IS NOT NULL
                        └─ Map origin, delay, ts, position
                           └─ Position
                              └─ Source f (file, 2 partitions), watermark ts - 5 s",
    );
}
