//! `'merge' = 'slack'` end to end: rows wait for an instance that says nothing no longer than asked; no row is lost or late by it; and a
//! source partition that falls silent holds windows back as it does with `'ordered'`.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use testkit::{show, sim};
use thalweg::{Engine, Memory, Query};
use thalweg_core::{
    Result,
    connector::{Connector, Host, Read, Reader, Source, TableDefinition, Wake},
};

/// A stream of two partitions that give what they are sent.
#[derive(Clone, Default)]
struct Live([Arc<Inbox>; 2]);

#[derive(Default)]
struct Inbox {
    items: Mutex<VecDeque<Read>>,
    wake: Mutex<Option<Wake>>,
}

struct LiveReader(Arc<Inbox>);

impl Live {
    fn send(&self, partition: usize, item: Read) {
        self.0[partition].items.lock().unwrap().push_back(item);
        if let Some(wake) = &*self.0[partition].wake.lock().unwrap() {
            wake();
        }
    }
}

impl Connector for Live {
    fn name(&self) -> &'static str {
        "live"
    }

    fn source(&self, _: &TableDefinition) -> Result<Box<dyn Source>> {
        Ok(Box::new(LiveSource(self.clone(), ["a".to_string(), "b".to_string()])))
    }
}

struct LiveSource(Live, [String; 2]);

impl Source for LiveSource {
    fn partitions(&self) -> &[String] {
        &self.1
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn open(&self, partition: usize, host: Host) -> Result<Box<dyn Reader>> {
        let inbox = Arc::clone(&self.0.0[partition]);
        *inbox.wake.lock().unwrap() = Some(host.wake);
        Ok(Box::new(LiveReader(inbox)))
    }
}

impl Reader for LiveReader {
    fn read(&mut self, _: usize) -> Result<Read> {
        Ok(self.0.items.lock().unwrap().pop_front().unwrap_or(Read::Wait(None)))
    }
}

/// Rows at these seconds, with these keys.
fn rows(rows: &[(i64, i64)]) -> RecordBatch {
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|(second, _)| second * 1_000_000));
    let keys = Int64Array::from_iter_values(rows.iter().map(|(_, key)| *key));
    RecordBatch::try_from_iter([("ts", Arc::new(times) as ArrayRef), ("k", Arc::new(keys))]).unwrap()
}

const WINDOW: &str = "SELECT window_end, k, count(*) FROM TUMBLE(s, ts, INTERVAL '1' MINUTE) GROUP BY window_end, k";

/// A running query over the stream, on a clock that moves on where nothing else is to be done.
fn simulated(live: &Live, settings: &str) -> Query {
    let mut engine = Engine::with_connectors(vec![Arc::new(live.clone())]);
    let table = "CREATE TABLE s (ts TIMESTAMP, k BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'live');";
    engine.sql(&format!("SET 'parallelism' = '2'; {settings} {table}")).unwrap();
    engine.simulate(sim::schedule(1, 0));
    engine.sql(WINDOW).unwrap()
}

/// The next rows; none where nothing will come, however long one waits.
fn next(query: &mut Query) -> Vec<String> {
    match query.next().expect("the stream has no end") {
        Ok(batch) => show::lines(&batch).unwrap(),
        Err(error) => {
            assert!(error.message().starts_with("no task is ready, none waits for a time"), "{error}");
            Vec::new()
        }
    }
}

fn rest(query: &mut Query) -> Vec<String> {
    query.flat_map(|batch| show::lines(&batch.unwrap()).unwrap()).collect()
}

#[test]
fn a_silent_partition_holds_windows_back_until_watermark_idle_says_otherwise() {
    let first = [(1, 1), (2, 2), (61, 1)];
    for merge in ["ordered", "slack"] {
        let live = Live::default();
        let mut query = simulated(&live, &format!("SET 'merge' = '{merge}';"));
        live.send(0, Read::Rows(rows(&first)));
        assert_eq!(next(&mut query), [""; 0], "{merge}: the silent partition may have rows of the window");
    }
    let live = Live::default();
    let mut query = simulated(&live, "SET 'merge' = 'slack'; SET 'watermark.idle' = '10 s';");
    live.send(0, Read::Rows(rows(&first)));
    let mut found = next(&mut query);
    while found.len() < 2 {
        found.extend(next(&mut query));
    }
    let ended = |minute: u32, key: u32, count: u32| format!("1970-01-01T00:0{minute}:00Z | {key} | {count}");
    assert_eq!(found, [ended(1, 1, 1), ended(1, 2, 1)]);
    // What the silent one brings of that window is late, and what it brings of the next is not.
    live.send(1, Read::Rows(rows(&[(3, 1), (62, 1)])));
    (0..2).for_each(|partition| live.send(partition, Read::End));
    assert_eq!(rest(&mut query), [ended(2, 1, 2)]);
    assert_eq!((query.metrics().late_rows, query.metrics().out_of_order_rows), (1, 0));
}

#[test]
fn rows_do_not_wait_for_a_slow_instance_longer_than_the_slack_and_what_it_brings_is_counted() {
    let memory = Memory::default();
    let keys: Vec<(i64, i64)> = (0..100).map(|key| (key, key)).collect();
    memory.put("s", vec![vec![rows(&keys[..50])], vec![rows(&keys[50..])]]).unwrap();
    let run = |merge: &str| {
        let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
        let table = "CREATE TABLE s WITH ('connector' = 'memory', 'stream' = 's');";
        engine
            .sql(&format!("SET 'parallelism' = '2'; SET 'merge.slack' = '1 ms'; SET 'merge' = '{merge}'; {table}"))
            .unwrap();
        // One key takes long, and its instance says nothing meanwhile.
        let sql = "SELECT k, length(md5(repeat('x', CASE WHEN k = 0 THEN 50000000 ELSE 1 END))) AS l FROM s GROUP BY k";
        let mut query = engine.sql(sql).unwrap();
        let found = rest(&mut query);
        (found, query.metrics().out_of_order_rows)
    };
    let expected: Vec<String> = (0..100).map(|key| format!("{key} | 32")).collect();
    assert_eq!(run("ordered"), (expected.clone(), 0));
    let (mut found, counted) = run("slack");
    let places: Vec<_> = found.iter().map(|line| expected.iter().position(|other| other == line)).collect();
    let is_behind = |at: &usize| places[..*at].iter().any(|before| *before > places[*at]);
    let behind = (0..places.len()).filter(is_behind).count();
    assert!(behind > 0 && places[0] > Some(0), "the rows of the other instance do not wait: {found:?}");
    assert_eq!(counted as usize, behind);
    found.sort_by_key(|line| expected.iter().position(|other| other == line));
    assert_eq!(found, expected);
}
