//! Keys divided among instances: the rows are those of one instance, in the same order where they are merged in order, whatever the
//! keys, the types and the memory; and a query whose instances wait for each other ends all the same.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray, MapArray,
    RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
    types::{Int8Type, Int32Type},
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Schema};
use testkit::{
    script::{Item, Scripts},
    show,
};
use thalweg::{Engine, Memory, Query};

/// How a query is run: with so many instances, and so much memory for rows between them.
#[derive(Clone, Copy, Debug)]
struct How {
    instances: usize,
    memory: usize,
    batch_rows: usize,
}

impl How {
    /// As little memory as a query of one exchange with so many senders may have.
    fn tight(instances: usize, senders: usize) -> Self {
        Self { instances, memory: 2 * 4096 * instances * senders, batch_rows: 1000 }
    }

    fn settings(self) -> String {
        let Self { instances, memory, batch_rows } = self;
        format!(
            "SET 'parallelism' = '{instances}'; SET 'exchange.memory' = '{memory}'; SET 'batch.rows' = '{batch_rows}';"
        )
    }
}

const ROWS: i64 = 3000;

/// A stream of four partitions, each a row a second, in which some rows are late; `keys` of them, one of them with most rows.
fn stream(keys: i64) -> Memory {
    let memory = Memory::default();
    let partition = |number: i64| (0..ROWS / 1000).map(move |batch| rows(number, batch * 1000, keys)).collect();
    memory.put("s", (0..4).map(partition).collect()).unwrap();
    memory
}

fn rows(partition: i64, first: i64, keys: i64) -> RecordBatch {
    let numbers = || first..first + 1000;
    // Every seventh row comes a while too late; half of all rows have one key.
    let time = |n: i64| (n - if n % 7 == 0 { 40 * (n % 5) } else { 0 }) * 1_000_000;
    let key = |n: i64| if n % 2 == 0 { 0 } else { (n * 31 + partition) % keys };
    let text = |n: i64| {
        (n % 11 != 0).then(|| format!("{}{}", "a longer text than a view holds "[..(n % 30) as usize].trim(), key(n)))
    };
    let texts = || numbers().map(text).collect::<Vec<_>>();
    let words: DictionaryArray<Int32Type> = texts().iter().map(|text| text.as_deref()).collect();
    let few = numbers().map(|n| Some(["x", "y", "z"][(n % 3) as usize]));
    let few: DictionaryArray<Int8Type> = few.collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("ts", Arc::new(TimestampMicrosecondArray::from_iter_values(numbers().map(time)))),
        ("k", Arc::new(Int64Array::from_iter(numbers().map(|n| (n % 13 != 0).then(|| key(n)))))),
        ("t", Arc::new(StringArray::from(texts()))),
        ("w", Arc::new(words)),
        ("x", Arc::new(few)),
        ("d", Arc::new(Float64Array::from_iter_values(numbers().map(|n| n as f64 * 0.1)))),
        (
            "e",
            Arc::new(
                Decimal128Array::from_iter_values(numbers().map(i128::from)).with_precision_and_scale(12, 2).unwrap(),
            ),
        ),
        ("b", Arc::new(BooleanArray::from_iter(numbers().map(|n| Some(n % 3 == 0))))),
        ("n", Arc::new(Int64Array::from_iter_values(numbers()))),
    ];
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

fn engine(memory: &Memory, settings: &str) -> Engine {
    let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
    let table =
        "CREATE TABLE s (WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'memory', 'stream' = 's')";
    engine.sql(&format!("{settings} {table}")).unwrap();
    engine
}

/// The rows of a query, and how many rows were late.
fn rows_of(mut query: Query) -> (Vec<String>, u64) {
    let mut lines: Vec<String> = Vec::new();
    for batch in query.by_ref() {
        lines.extend(show::lines(&batch.unwrap()).unwrap());
    }
    (lines, query.metrics().late_rows)
}

/// The same in the order of their text.
fn sorted(query: Query) -> (Vec<String>, u64) {
    let (mut lines, late) = rows_of(query);
    lines.sort();
    (lines, late)
}

/// All that goes through an exchange comes out as it does without one.
fn check(memory: &Memory, sql: &str, hows: impl IntoIterator<Item = How>) {
    check_with(memory, "", sql, hows);
}

fn check_with(memory: &Memory, more: &str, sql: &str, hows: impl IntoIterator<Item = How>) {
    let expected = rows_of(engine(memory, &format!("SET 'parallelism' = '1'; {more}")).sql(sql).unwrap());
    assert!(!expected.0.is_empty());
    let in_any_order = sorted(engine(memory, &format!("SET 'parallelism' = '1'; {more}")).sql(sql).unwrap());
    for (number, how) in hows.into_iter().enumerate() {
        let merges = ["ordered", "arrival", "ordered", "arrival"];
        for (scatter, merge) in ["buffered", "hybrid", "selected"].into_iter().zip(&merges[number % 2..]) {
            let settings = how.settings();
            let settings = format!("{settings} SET 'exchange.scatter' = '{scatter}'; SET 'merge' = '{merge}'; {more}");
            let query = engine(memory, &settings).sql(sql).unwrap();
            let (found, expected) = match *merge {
                "ordered" => (rows_of(query), &expected),
                _ => (sorted(query), &in_any_order),
            };
            let wrong = found.0.iter().zip(&expected.0).find(|(found, expected)| found != expected);
            assert!(
                found == *expected,
                "{how:?} {scatter} {merge}: {} rows, {} late; expected {} and {}; {wrong:?}\n{sql}",
                found.0.len(),
                found.1,
                expected.0.len(),
                expected.1
            );
        }
    }
}

const WINDOW: &str = "TUMBLE(s, ts, INTERVAL '1' MINUTE)";

#[test]
fn explain_shows_the_instances_and_how_rows_get_to_them() {
    let sql =
        format!("EXPLAIN SELECT window_end, k, count(*) AS c FROM {WINDOW} GROUP BY window_end, k HAVING count(*) > 1");
    let explained = |settings: &str| {
        let mut lines = Vec::new();
        for batch in engine(&stream(5), settings).sql(&sql).unwrap() {
            lines.extend(show::lines(&batch.unwrap()).unwrap());
        }
        lines.join("\n")
    };
    let divided = explained(&How { instances: 4, memory: 1 << 20, batch_rows: 100 }.settings());
    let how = divided.lines().find(|line| line.contains("exchange by key ")).unwrap();
    assert!(how.ends_with("k, 128 key groups -> 4 instances [buffered]"), "{divided}");
    assert!(divided.lines().any(|line| line.contains("Filter") && line.contains("[subquery 1 × 4")), "{divided}");
    assert!(divided.lines().any(|line| line.contains("Sink") && line.contains("× 1]")), "{divided}");
    let tight = How::tight(4, 4).settings();
    assert!(explained(&tight).contains("instances [hybrid]"), "no memory for buffers");
    let too_little = How { instances: 4, memory: 1000, batch_rows: 1 }.settings();
    assert!(explained(&too_little).contains("instances [too little 'exchange.memory']"));
    assert!(explained("SET 'parallelism' = '4';").contains("instances [selected]"), "batches are large");
    for scatter in ["buffered", "hybrid"] {
        let asked = explained(&format!("{tight} SET 'exchange.scatter' = '{scatter}';"));
        assert!(asked.contains(&format!("instances [{scatter}]")), "{asked}");
    }
    assert!(divided.contains("gather rows of 4 instances in their order"), "{divided}");
    let slack = explained("SET 'parallelism' = '4'; SET 'merge' = 'slack';");
    assert!(slack.contains("gather rows of 4 instances in their order within a slack of 1 s"), "{slack}");
    let arrival = explained("SET 'parallelism' = '4'; SET 'merge' = 'arrival';");
    assert!(arrival.contains("gather rows of 4 instances as they arrive"), "{arrival}");
    assert!(!explained("SET 'parallelism' = '1';").contains("gather"), "the rows of one instance have their order");
}

#[test]
fn every_type_and_every_kind_of_aggregate_comes_out_as_without_an_exchange_however_little_memory_there_is() {
    let memory = stream(300);
    let kept = "median(n), median(d), count(DISTINCT t), count(DISTINCT n), min(t), max(t), min(w), max(x), var_pop(d), \
                first_value(t ORDER BY n), last_value(w ORDER BY n), string_agg(t, ',' ORDER BY n), bool_and(b), sum(e), avg(e), \
                bit_xor(n), approx_distinct(n), corr(d, n), sum(d) FILTER (WHERE b)";
    for keys in ["k", "t", "w", "x, k", "upper(t), k % 3", "b"] {
        let sql = format!(
            "SELECT window_end, {keys}, count(*), {kept} FROM {WINDOW} WHERE n % 5 <> 1 GROUP BY window_end, {keys}"
        );
        check(&memory, &sql, [How::tight(3, 3), How { instances: 2, memory: 64 << 20, batch_rows: 300 }]);
    }
}

/// The same stream with a list, a struct and a map in each row.
fn nested_stream(keys: i64) -> Memory {
    let of = |plain: RecordBatch| {
        let (numbers, words) = (plain.column_by_name("n").unwrap(), plain.column_by_name("w").unwrap());
        let rows = plain.num_rows();
        let valid = |every: usize| Some(NullBuffer::from_iter((0..rows).map(|row| row % every != 0)));
        let lengths = || OffsetBuffer::from_lengths((0..rows).map(|row| row % 3));
        let items = (0..rows).filter(|row| row % 3 > 0).flat_map(|row| vec![row as i64; row % 3]);
        let items: ArrayRef = Arc::new(Int64Array::from_iter(items.map(|n| (n % 5 != 0).then_some(n))));
        let item = Arc::new(Field::new_list_field(DataType::Int64, true));
        let list = ListArray::new(item, lengths(), Arc::clone(&items), valid(4));
        let fields = vec![Field::new("n", DataType::Int64, true), Field::new("w", words.data_type().clone(), true)];
        let parts = StructArray::new(fields.into(), vec![Arc::clone(numbers), Arc::clone(words)], valid(7));
        let names = Arc::new(StringArray::from_iter_values((0..items.len()).map(|n| format!("name {n}"))));
        let entry = vec![Field::new("keys", DataType::Utf8, false), Field::new("values", DataType::Int64, true)];
        let entries = StructArray::new(entry.into(), vec![names, items], None);
        let entry = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let map = MapArray::new(entry, lengths(), entries, valid(5), false);
        let nested: [(&str, ArrayRef); 3] = [("l", Arc::new(list)), ("p", Arc::new(parts)), ("m", Arc::new(map))];
        let names = plain.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let plain = names.into_iter().zip(plain.columns().to_vec());
        let all = plain.chain(nested.map(|(name, column)| (name.to_string(), column)));
        RecordBatch::try_from_iter_with_nullable(all.map(|(name, column)| (name, column, true))).unwrap()
    };
    let memory = Memory::default();
    let partition = |number: i64| (0..ROWS / 1000).map(move |batch| of(rows(number, batch * 1000, keys))).collect();
    memory.put("s", (0..4).map(partition).collect()).unwrap();
    memory
}

#[test]
fn lists_structs_and_maps_come_out_as_without_an_exchange() {
    let memory = nested_stream(40);
    let text = "string_agg(CAST(l AS STRING), ';' ORDER BY n, k)";
    for kept in ["count(l), count(p), count(m)", text] {
        for rows in ["n % 5 <> 1", "true"] {
            let sql =
                format!("SELECT window_end, k, count(*), {kept} FROM {WINDOW} WHERE {rows} GROUP BY window_end, k");
            let roomy = How { instances: 2, memory: 64 << 20, batch_rows: 300 };
            check(&memory, &sql, [How { instances: 3, memory: 1 << 20, batch_rows: 1000 }, roomy]);
        }
    }
}

#[test]
fn more_instances_than_keys_and_one_hot_key() {
    for keys in [1, 3] {
        let sql = format!("SELECT window_end, k, count(*), sum(d) FROM {WINDOW} GROUP BY window_end, k");
        check(&stream(keys), &sql, [How::tight(16, 4), How::tight(64, 4)]);
    }
}

#[test]
fn windows_that_overlap_windows_of_windows_and_whole_inputs() {
    let memory = stream(40);
    let hop = "SELECT window_end, k, count(*) FROM HOP(s, ts, INTERVAL '20' SECOND, INTERVAL '2' MINUTE) GROUP BY window_end, k";
    let cascade = format!(
        "SELECT window_end, k % 4, sum(c), count(*) FROM TUMBLE(
           (SELECT window_time AS wt, k, count(*) AS c FROM {WINDOW} GROUP BY window_time, window_end, k), wt, INTERVAL '5' MINUTE)
         GROUP BY window_end, k % 4"
    );
    let together = format!(
        "SELECT window_end, sum(c) FROM TUMBLE(
           (SELECT window_time AS wt, k, count(*) AS c FROM {WINDOW} GROUP BY window_time, window_end, k), wt, INTERVAL '5' MINUTE)
         GROUP BY window_end"
    );
    let whole = "SELECT t, count(*), sum(n) FROM s GROUP BY t".to_string();
    let distinct = "SELECT DISTINCT k, x FROM s".to_string();
    for sql in [hop.to_string(), cascade, together, whole, distinct] {
        check(
            &memory,
            &sql,
            [
                How { instances: 3, memory: 1 << 20, batch_rows: 100 },
                How { instances: 5, memory: 1 << 19, batch_rows: 7000 },
            ],
        );
    }
}

#[test]
fn windows_that_wait_for_late_rows_come_in_order() {
    let memory = stream(60);
    let hop = "HOP(s, ts, INTERVAL '20' SECOND, INTERVAL '1' MINUTE)";
    let cumulate = "CUMULATE(s, ts, INTERVAL '20' SECOND, INTERVAL '2' MINUTE)";
    // Behind the aggregate, rows go into windows once more; a filter on a window's bounds keeps it apart from the next aggregate.
    let again = format!(
        "SELECT window_start, window_end, c FROM HOP(
           (SELECT window_time AS wt, k, count(*) AS c FROM {WINDOW} GROUP BY window_time, window_end, k),
           wt, INTERVAL '1' MINUTE, INTERVAL '3' MINUTE)"
    );
    let of = |windows: &str| format!("SELECT window_end, k, count(*) FROM {windows} GROUP BY window_end, k");
    let hows = [How::tight(17, 4), How { instances: 3, memory: 1 << 20, batch_rows: 100 }];
    for sql in [of(WINDOW), of(hop), of(cumulate), again] {
        check_with(&memory, "SET 'late.allowed' = '90 s';", &sql, hows);
    }
}

#[test]
fn what_sees_order_behind_an_aggregate_gets_it_and_the_rest_does_not_wait_for_it() {
    let memory = stream(60);
    let counts = format!("SELECT window_end, k, count(*) AS c FROM {WINDOW} GROUP BY window_end, k");
    let hows = [17, 3].map(|instances| How { instances, memory: 16 << 20, batch_rows: 100 });
    let sorted = format!("SELECT * FROM ({counts}) ORDER BY c DESC, k LIMIT 40");
    let summed = format!("SELECT c, count(*), sum(k) FROM ({counts}) GROUP BY c");
    let filtered = format!("SELECT k + 1 AS n, c FROM ({counts}) WHERE c % 2 = 0");
    for sql in [sorted, summed, filtered] {
        check(&memory, &sql, hows);
    }
    // Which rows come first depends on the order.
    for limited in [format!("{counts} LIMIT 33 OFFSET 5"), format!("SELECT * FROM ({counts}) WHERE c > 1 LIMIT 7")] {
        let expected = rows_of(engine(&memory, "SET 'parallelism' = '1';").sql(&limited).unwrap()).0;
        for how in hows {
            assert_eq!(rows_of(engine(&memory, &how.settings()).sql(&limited).unwrap()).0, expected, "{how:?}");
        }
    }
    // Plain sums of doubles depend on the order in which they are added.
    let fast = "SET 'float.sum' = 'fast';";
    let memory = Memory::default();
    memory.put("s", vec![(0..3).map(|batch| rows(0, batch * 1000, 60)).collect()]).unwrap();
    let sums = format!("SELECT window_end, k, sum(d) AS a FROM {WINDOW} GROUP BY window_end, k");
    let sql = format!("SELECT k, sum(a) FROM ({sums}) GROUP BY k");
    let expected = rows_of(engine(&memory, &format!("SET 'parallelism' = '1'; {fast}")).sql(&sql).unwrap()).0;
    for how in [8, 3].map(|instances| How { instances, memory: 16 << 20, batch_rows: 1000 }) {
        let settings = format!("{} {fast}", how.settings());
        assert_eq!(rows_of(engine(&memory, &settings).sql(&sql).unwrap()).0, expected, "{how:?}");
    }
}

#[test]
fn a_table_gets_the_rows_in_order() {
    let memory = stream(60);
    let path = std::env::temp_dir().join(format!("thalweg-gather-{}.csv", std::process::id()));
    let written = |settings: &str| {
        let mut engine = engine(&memory, settings);
        let tables = format!(
            "CREATE TABLE out (e TIMESTAMP, k BIGINT, c BIGINT)
             WITH ('connector' = 'file', 'path' = '{}', 'overwrite' = 'true');",
            path.display()
        );
        engine.sql(&tables).unwrap();
        let insert = format!("INSERT INTO out SELECT window_end, k, count(*) FROM {WINDOW} GROUP BY window_end, k");
        engine.sql(&insert).unwrap().wait().unwrap();
        std::fs::read_to_string(&path).unwrap()
    };
    let expected = written("SET 'parallelism' = '1';");
    assert!(expected.lines().count() > 1000);
    assert!(written(&How::tight(17, 4).settings()) == expected);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn all_rows_leave_the_gather_and_metrics_tell_of_it() {
    let how = How { instances: 8, memory: 1 << 20, batch_rows: 64 };
    let mut query = engine(&stream(3), &how.settings()).sql("SELECT n, t, count(*) FROM s GROUP BY n, t").unwrap();
    let rows: usize = query.by_ref().map(|batch| batch.unwrap().num_rows()).sum();
    let metrics = query.metrics();
    let gather = metrics.nodes.iter().find(|node| node.label.starts_with("Gather of Aggregate")).unwrap();
    assert_eq!((gather.rows_out, gather.state_bytes), (rows as u64, 0));
}

#[test]
fn metrics_tell_what_travels_and_what_each_instance_does() {
    let how = How { instances: 4, memory: 1 << 20, batch_rows: 64 };
    let settings = format!("{} SET 'aggregate.phases' = 'one';", how.settings());
    let mut engine = engine(&stream(30), &settings);
    let statements = engine.parse("SELECT k, t, count(*) FROM s GROUP BY k, t").unwrap();
    let plan = engine.plan(&statements[0]).unwrap().unwrap();
    let mut query = engine.analyze(&plan).unwrap();
    query.by_ref().for_each(|batch| drop(batch.unwrap()));
    let metrics = query.metrics();
    let all = 4 * ROWS as u64;
    assert_eq!(metrics.exchanged_rows, all);
    // A key of eight bytes, and a view of 16.
    assert!((24 * all..200 * all).contains(&metrics.exchanged_bytes), "{} bytes", metrics.exchanged_bytes);
    let node = metrics.nodes.iter().find(|node| node.label.starts_with("Aggregate")).unwrap();
    assert_eq!((node.rows_in_each.len(), node.rows_in_each.iter().sum::<u64>()), (4, all));
    let tasks: Vec<_> = metrics.tasks.iter().map(|task| (task.subquery, task.instance)).collect();
    assert_eq!(tasks, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0)]);
    let busy = |subquery| -> std::time::Duration {
        metrics.tasks.iter().filter(|task| task.subquery == subquery).map(|task| task.busy).sum()
    };
    // A task's turns have its nodes' calls in them.
    assert!(busy(1) >= node.busy && busy(0) > Duration::ZERO && busy(2) > Duration::ZERO);
}

#[test]
fn an_empty_input_has_no_groups() {
    let memory = Memory::default();
    memory.put("s", vec![vec![rows(0, 0, 3).slice(0, 0)], vec![]]).unwrap();
    let sql = format!("SELECT window_end, k, count(*) FROM {WINDOW} GROUP BY window_end, k");
    let query = engine(&memory, &How::tight(4, 2).settings()).sql(&sql).unwrap();
    assert_eq!(sorted(query), (Vec::new(), 0));
}

#[test]
fn an_error_in_the_middle_ends_the_query_also_where_senders_wait_for_memory() {
    for sql in [
        format!("SELECT window_end, k, sum(100 / (n - 2000)) FROM {WINDOW} GROUP BY window_end, k"),
        format!("SELECT window_end, 100 / (n - 2000), count(*) FROM {WINDOW} GROUP BY window_end, 100 / (n - 2000)"),
    ] {
        for how in [How::tight(3, 3), How { instances: 5, memory: 64 << 20, batch_rows: 8192 }] {
            let mut query = engine(&stream(50), &how.settings()).sql(&sql).unwrap();
            let error = query.by_ref().find_map(|batch| batch.err()).unwrap();
            assert!(error.message().contains("zero"), "{error}");
            assert!(error.node().is_some_and(|node| node.starts_with("Aggregate")), "{error}");
        }
    }
}

#[test]
fn a_query_that_is_stopped_or_dropped_in_the_middle_ends() {
    for how in [How::tight(3, 3), How { instances: 8, memory: 64 << 20, batch_rows: 8192 }] {
        let sql = format!("SELECT window_end, k, count(*) FROM {WINDOW} GROUP BY window_end, k");
        let mut query = engine(&stream(1000), &how.settings()).sql(&sql).unwrap();
        query.next().unwrap().unwrap();
        query.stop();
        assert!(query.by_ref().all(|batch| batch.is_ok()));
        drop(engine(&stream(1000), &how.settings()).sql(&sql).unwrap());
        let mut limited = engine(&stream(1000), &how.settings()).sql(&format!("{sql} LIMIT 3")).unwrap();
        assert_eq!(limited.by_ref().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
    }
}

#[test]
fn too_little_memory_is_an_error_that_says_how_much_is_needed() {
    let sql = format!("SELECT window_end, k, max(t) FROM {WINDOW} GROUP BY window_end, k");
    let how = How { instances: 3, memory: 2 * 4096 * 9 - 1, batch_rows: 100 };
    let error = engine(&stream(5), &how.settings()).sql(&sql).err().unwrap();
    assert_eq!(error.message(), "'exchange.memory' is 73727 bytes, and 9 pairs of a sender and a receiver need 73728");
    assert!(error.hint().unwrap().contains("SET a larger 'exchange.memory'"));
    // One row is larger than all that its sender has.
    let long = "x".repeat(100_000);
    let script = vec![vec![Item::Row(vec![Some("1".into()), Some("1".into()), Some(long)])]];
    let mut engine = Engine::with_connectors(vec![Arc::new(Scripts::new(HashMap::from([("l".to_string(), script)])))]);
    let table =
        "CREATE TABLE l (ts TIMESTAMP, k BIGINT, t STRING, WATERMARK FOR ts AS ts) WITH ('connector' = 'script')";
    engine.sql(&format!("{} {table}", How::tight(3, 3).settings())).unwrap();
    let sql = "SELECT window_end, k, max(t) FROM TUMBLE(l, ts, INTERVAL '1' MINUTE) GROUP BY window_end, k";
    let error = engine.sql(sql).unwrap().wait().unwrap_err();
    let message = "a row needs a page of 131072 bytes, and all pages may take 24576 (on the way to Aggregate";
    assert!(error.message().starts_with(message), "{error}");
    assert!(error.hint().unwrap().contains("SET a larger 'exchange.memory'"));
    engine.sql("SET 'exchange.memory' = '1 MiB'").unwrap();
    assert_eq!(sorted(engine.sql(sql).unwrap()).0.len(), 1);
}

#[test]
fn barriers_come_through_where_senders_wait_for_memory() {
    let memory = stream(200);
    let sql = format!("SELECT window_end, t, count(*), max(w) FROM {WINDOW} GROUP BY window_end, t");
    let expected = rows_of(engine(&memory, "SET 'parallelism' = '1';").sql(&sql).unwrap());
    let mut engine = engine(&memory, &How::tight(4, 4).settings());
    engine.reload_at_barriers();
    let mut query = engine.sql(&sql).unwrap();
    let control = query.control().unwrap();
    let mut lines = Vec::new();
    for batch in query.by_ref() {
        lines.extend(show::lines(&batch.unwrap()).unwrap());
        control.request_barrier();
    }
    assert!((lines, query.metrics().late_rows) == expected);
}

#[test]
fn a_slow_stream_does_not_wait_for_pages_to_fill() {
    // A row now and then, and nothing that seals a page: the query is not to wait for more.
    let script = vec![vec![Item::Row(vec![Some("1".into()), Some("1".into())])], vec![Item::Idle]];
    let scripts = Scripts::new(HashMap::from([("l".to_string(), script)])).with_barriers(3);
    let mut engine = Engine::with_connectors(vec![Arc::new(scripts)]);
    let table = "CREATE TABLE l (ts TIMESTAMP, k BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'script')";
    engine.sql(&format!("{} {table}", How::tight(3, 2).settings())).unwrap();
    let sql = "SELECT window_end, k, count(*) FROM TUMBLE(l, ts, INTERVAL '1' MINUTE) GROUP BY window_end, k";
    let start = Instant::now();
    assert_eq!(sorted(engine.sql(sql).unwrap()).0.len(), 1);
    assert!(start.elapsed() < Duration::from_secs(30));
}
