//! What a running query promises: it stops, it fails alone and says where, its memory is bounded, its queues push back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arrow_array::{Int64Array, RecordBatch, TimestampMicrosecondArray, cast::AsArray};
use testkit::show;
use thalweg::Engine;
use thalweg_core::{
    Result,
    connector::{Connector, Host, Read, Reader, Source, TableDefinition},
};

/// Counts up for ever, one row a millisecond of event time; panics where it is told to, and says how far it was read.
#[derive(Clone, Default)]
struct Counter {
    read: Arc<AtomicU64>,
    panics_at: Option<u64>,
    /// So many rows come together, so often, of which the first is a second behind; for ever as many as are asked for if there is none.
    packets: Option<(usize, Duration)>,
}

struct CounterReader {
    due: Option<Instant>,
    counter: Counter,
    next: u64,
}

impl Connector for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn source(&self, _: &TableDefinition) -> Result<Box<dyn Source>> {
        Ok(Box::new(CounterSource(self.clone(), ["only".to_string()])))
    }
}

struct CounterSource(Counter, [String; 1]);

impl Source for CounterSource {
    fn partitions(&self) -> &[String] {
        &self.1
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn open(&self, _: usize, _: Host) -> Result<Box<dyn Reader>> {
        Ok(Box::new(CounterReader { due: None, counter: self.0.clone(), next: 0 }))
    }
}

impl Reader for CounterReader {
    fn read(&mut self, rows: usize) -> Result<Read> {
        assert!(self.counter.panics_at.is_none_or(|at| self.next < at), "the counter broke");
        let mut rows = rows;
        let is_late = |n: i64| self.counter.packets.is_some_and(|(packet, _)| n % packet as i64 == 0);
        if let Some((packet, pause)) = self.counter.packets {
            let due = *self.due.get_or_insert_with(Instant::now);
            if due > Instant::now() {
                return Ok(Read::Wait(Some(due)));
            }
            (rows, self.due) = (packet, Some(due + pause));
        }
        let numbers = self.next as i64..self.next as i64 + rows as i64;
        self.next += rows as u64;
        self.counter.read.store(self.next, Ordering::SeqCst);
        let times = TimestampMicrosecondArray::from_iter_values(
            numbers.clone().map(|n| (n - if is_late(n) { 1000 } else { 0 }) * 1000),
        );
        let columns = RecordBatch::try_from_iter([
            ("ts", Arc::new(times) as arrow_array::ArrayRef),
            ("n", Arc::new(Int64Array::from_iter_values(numbers))),
        ]);
        Ok(Read::Rows(columns?))
    }
}

fn engine(counter: &Counter) -> Engine {
    let mut engine = Engine::with_connectors(vec![Arc::new(counter.clone())]);
    let table = "CREATE TABLE t (ts TIMESTAMP, n BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'counter')";
    engine.sql(table).unwrap();
    engine
}

/// Gives up after a minute, so that a query that hangs is a failure and not a hang.
fn within_a_minute(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "it takes too long");
        std::thread::yield_now();
    }
}

/// Waits until nothing moves any more: a source may fill the pipes, and no more. Returns how many rows were read.
fn until_held_back(counter: &Counter) -> u64 {
    let mut last = (0, Instant::now());
    within_a_minute(|| {
        let read = counter.read.load(Ordering::SeqCst);
        if read != last.0 {
            last = (read, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(1));
        last.0 > 0 && last.1.elapsed() > Duration::from_millis(300)
    });
    last.0
}

#[test]
fn a_result_that_nobody_takes_holds_the_source_back() {
    let counter = Counter::default();
    let mut query = engine(&counter).sql("SELECT n FROM t WHERE n >= 0").unwrap();
    query.next().unwrap().unwrap();
    let read = until_held_back(&counter);
    assert!(read <= 8192 * 64, "{read} rows were read though nobody takes them");
    for _ in 0..100 {
        query.next().unwrap().unwrap();
    }
    assert!(counter.read.load(Ordering::SeqCst) > read, "taking rows lets the source go on");
}

#[test]
fn a_stop_ends_an_unbounded_query_and_says_what_is_still_open() {
    let sql = "SELECT window_end, n % 7 AS k, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '1' SECOND) GROUP BY window_end, n % 7";
    let mut engine = engine(&Counter::default());
    engine.sql("SET 'aggregate.phases' = 'one'").unwrap();
    let mut query = engine.sql(sql).unwrap();
    let first = query.next().unwrap().unwrap().num_rows();
    query.stop();
    let rest: Result<Vec<_>> = query.by_ref().collect();
    let rows: usize = rest.unwrap().iter().map(RecordBatch::num_rows).sum();
    assert_eq!((first + rows) % 7, 0, "only whole windows come out");
    let held: Vec<_> =
        query.metrics().nodes.into_iter().map(|node| node.held).filter(|held| !held.is_empty()).collect();
    let [windows, groups] = held[0][..] else { panic!("{held:?}") };
    assert!(windows.to_string().contains(" open window") && groups.to_string().ends_with(" groups"), "{held:?}");
    assert_eq!((held.len(), groups.count % 7), (1, 0), "instances have groups of their own: {held:?}");
}

#[test]
fn a_stop_does_not_wait_for_rows_that_have_very_many_partners() {
    let pairs = "SELECT a.n, b.n AS m FROM t a JOIN t b ON a.n / 1000000000 = b.n / 1000000000
        AND b.ts BETWEEN a.ts - INTERVAL '1' HOUR AND a.ts";
    // What arrives fills all pipes, and each row finds all before it: hours of work, whether pairs come out or not.
    for rest in ["", " EMIT EAGER", " AND a.n + b.n < 0", " AND a.n + b.n < 0 EMIT EAGER"] {
        let counter = Counter::default();
        let mut query = engine(&counter).sql(&format!("{pairs}{rest}")).unwrap();
        until_held_back(&counter);
        query.stop();
        let stopped = Instant::now();
        query.by_ref().for_each(|batch| drop(batch.unwrap()));
        assert!(stopped.elapsed() < Duration::from_secs(60), "{rest}: {:?}", stopped.elapsed());
        assert!(query.metrics().is_cut_short, "{rest}: not all of it can have been done");
    }
}

#[test]
fn results_are_corrected_where_rows_always_come_before_others_have_waited_for_long() {
    // There are more rows than are answered as they come, time passes none of them, and what is put off may wait for as long as many packets take.
    let counter = Counter { packets: Some((40, Duration::from_millis(20))), ..Counter::default() };
    let mut engine = Engine::with_connectors(vec![Arc::new(counter)]);
    engine
        .sql(
            "SET 'parallelism' = '1'; SET 'target.delay' = '200ms';
             CREATE TABLE t (ts TIMESTAMP, n BIGINT, WATERMARK FOR ts AS ts - INTERVAL '1' DAY) WITH ('connector' = 'counter')",
        )
        .unwrap();
    let sql = "SELECT n, sum(n) OVER (PARTITION BY n % 2 ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW) FROM t
               EMIT EAGER";
    let mut query = engine.sql(sql).unwrap();
    within_a_minute(|| {
        let batch = query.next().unwrap().unwrap();
        batch.column(0).as_string::<i32>().iter().flatten().any(|op| op == "-U")
    });
    query.stop();
}

#[test]
fn a_limit_ends_an_unbounded_query() {
    let mut query = engine(&Counter::default()).sql("SELECT n FROM t WHERE n % 2 = 1 LIMIT 3").unwrap();
    let mut lines = Vec::new();
    for batch in query.by_ref() {
        lines.extend(show::lines(&batch.unwrap()).unwrap());
    }
    assert_eq!(lines, ["1", "3", "5"]);
    query.wait().unwrap();
}

#[test]
fn a_panic_ends_its_query_alone_and_names_the_node() {
    let healthy = Counter::default();
    let mut other = engine(&healthy).sql("SELECT n FROM t").unwrap();
    let broken = Counter { panics_at: Some(8192), ..Counter::default() };
    let error = engine(&broken).sql("SELECT n FROM t WHERE n < 0").unwrap().wait().unwrap_err();
    assert_eq!(error.fault(), thalweg_core::error::Fault::Bug);
    assert_eq!(error.to_string(), "Source t (0) failed unexpectedly: the counter broke");
    for _ in 0..20 {
        assert_eq!(other.next().unwrap().unwrap().num_rows(), 8192);
    }
}

#[test]
fn state_above_the_memory_limit_is_an_error_that_names_the_node() {
    let mut engine = engine(&Counter::default());
    engine.sql("SET 'memory.limit' = '1 MB'").unwrap();
    let sql = "SELECT window_end, n, count(*) FROM TUMBLE(t, ts, INTERVAL '1' DAY) GROUP BY window_end, n";
    let error = engine.sql(sql).unwrap().wait().unwrap_err();
    assert!(error.message().starts_with("the query's state takes "), "{error}");
    assert!(["Aggregate", "Partial"].iter().any(|name| error.node().unwrap().starts_with(name)), "{error}");
    assert!(error.hint().unwrap().contains("memory.limit"));
}

#[test]
fn memory_is_given_back_when_windows_close() {
    let sql = "SELECT window_end, n, count(*) FROM TUMBLE(t, ts, INTERVAL '20' SECOND) GROUP BY window_end, n";
    let mut query = engine(&Counter::default()).sql(sql).unwrap();
    // How full the open windows are when somebody looks is chance; kept groups would add up to many times as much.
    let (mut early, mut late) = (0, 0);
    for round in 0..1000 {
        query.next().unwrap().unwrap();
        let most = if round < 250 { &mut early } else { &mut late };
        *most = query.metrics().state_bytes.max(*most);
    }
    assert!(late <= early * 2, "{late} bytes at most in later rounds, {early} in early ones");
}

#[test]
fn a_query_that_is_dropped_ends() {
    let counter = Counter::default();
    drop(engine(&counter).sql("SELECT n FROM t").unwrap());
    let read = counter.read.load(Ordering::SeqCst);
    std::thread::yield_now();
    assert_eq!(counter.read.load(Ordering::SeqCst), read, "nobody reads any more");
}

#[test]
fn null_does_not_get_into_a_not_null_column() {
    let mut engine = engine(&Counter::default());
    engine.sql("CREATE TABLE kept (n BIGINT NOT NULL) WITH ('connector' = 'blackhole')").unwrap();
    let error = engine.sql("INSERT INTO kept SELECT nullif(n, 7) FROM t").unwrap().wait().unwrap_err();
    assert_eq!(error.message(), "null in column \"n\", which is NOT NULL");
    let mut dropped = engine.sql("INSERT INTO kept SELECT nullif(n, 7) FROM t WHERE n <> 7 LIMIT 20000").unwrap();
    assert_eq!(dropped.wait().unwrap().rows_out, 20000);
}
