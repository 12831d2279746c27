//! Inputs that say nothing: of those that are idle nobody waits for anything; and an input that has ended beside one that is idle is not the
//! end of all.
//!
//! In Flink an end beside an input that was idle counted as the end of both: event time made a leap, and what the idle input brought when
//! it woke up was late, so that interval joins gave nothing any more (FLINK-38477).

use std::{collections::HashMap, sync::Arc, sync::mpsc::channel, thread, time::Duration};

use testkit::{
    fold::fold,
    script::{Item, Script, Scripts},
    show,
    sim::schedule,
};
use thalweg::Engine;

/// Longer than any of these queries takes; who waits so long waits for ever.
const FOR_EVER: Duration = Duration::from_secs(120);

const TABLES: &str = "
    CREATE TABLE a (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'script');
    CREATE TABLE b (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'script');";

const QUERIES: [&str; 10] = [
    "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '3' SECOND AND a.ts + INTERVAL '2' SECOND",
    "SELECT a.v, b.v FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '3' SECOND AND a.ts + INTERVAL '2' SECOND",
    "SELECT a.v, b.v FROM a RIGHT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '3' SECOND AND a.ts + INTERVAL '2' SECOND",
    "SELECT a.v, b.v FROM a FULL JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '3' SECOND AND a.ts + INTERVAL '2' SECOND",
    "SELECT a.v FROM a LEFT SEMI JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '3' SECOND AND a.ts + INTERVAL '2' SECOND",
    "SELECT a.v FROM a LEFT ANTI JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '3' SECOND AND a.ts + INTERVAL '2' SECOND",
    "SELECT v, sum(v) OVER w, count(*) OVER w FROM a
     WINDOW w AS (UNION b PARTITION BY k ORDER BY ts ROWS_RANGE BETWEEN 3s PRECEDING AND 2s FOLLOWING)",
    "SELECT v, max(v) OVER w FROM a WINDOW w AS (UNION b PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
    "SELECT a.v, b.v FROM a LAST JOIN b ORDER BY b.ts ON a.k = b.k AND b.ts <= a.ts",
    "SELECT window_end, k, count(*), sum(v) FROM TUMBLE((SELECT ts, k, v FROM a UNION ALL SELECT ts, k, -v FROM b), ts, INTERVAL '4' SECOND)
     GROUP BY window_end, k",
];

/// Rows of two keys, a second after each other.
fn rows(seconds: std::ops::Range<i64>) -> Vec<Item> {
    let field = |value: i64| Some(value.to_string());
    seconds.map(|second| Item::Row(vec![field(second), field(second % 2), field(second)])).collect()
}

fn engine(a: &Script, b: &Script, parallelism: usize) -> Engine {
    let scripts = HashMap::from([("a".to_string(), a.clone()), ("b".to_string(), b.clone())]);
    let mut engine = Engine::with_connectors(vec![Arc::new(Scripts::new(scripts).unbounded())]);
    engine.sql(&format!("SET 'parallelism' = '{parallelism}'; SET 'batch.rows' = '3'; {TABLES}")).unwrap();
    engine
}

/// All rows of a query, and how many were late.
fn all(engine: &mut Engine, sql: &str) -> (Vec<String>, u64) {
    let mut query = engine.sql(sql).unwrap();
    let found = query.by_ref().flat_map(|batch| show::lines(&batch.unwrap()).unwrap()).collect();
    (found, query.metrics().late_rows)
}

/// The first so many rows of a query that does not end, if it gives as many.
fn first(mut engine: Engine, sql: &str, count: usize) -> Option<Vec<String>> {
    let (sent, received) = channel();
    let mut query = engine.sql(sql).unwrap();
    thread::spawn(move || {
        let mut found = Vec::new();
        while found.len() < count {
            let Some(batch) = query.next() else { break };
            found.extend(show::lines(&batch.unwrap()).unwrap());
        }
        query.stop();
        // Perhaps nobody waits any more.
        drop(sent.send(found));
    });
    received.recv_timeout(FOR_EVER).ok()
}

#[test]
fn what_an_idle_input_brings_later_is_not_late_because_another_one_has_ended() {
    let ended = vec![rows(0..12)];
    // Once they are idle, time goes on to 9 s: what comes later is not late for that.
    let wakes = [rows(4..9), vec![Item::Idle], rows(9..14), vec![Item::Idle], rows(14..16)].concat();
    for idle in [vec![wakes.clone()], vec![rows(2..5), wakes]] {
        let awake: Script =
            idle.iter().map(|items| items.iter().filter(|item| **item != Item::Idle).cloned().collect()).collect();
        for (number, sql) in QUERIES.into_iter().enumerate() {
            for (a, b, never_idle) in [(&ended, &idle, [&ended, &awake]), (&idle, &ended, [&awake, &ended])] {
                let (mut expected, late) = all(&mut engine(never_idle[0], never_idle[1], 1), sql);
                assert!(late == 0 && (!expected.is_empty() || sql.contains("ANTI")), "{sql}");
                expected.sort();
                let eager = format!("{sql} EMIT EAGER");
                let has_eager = !sql.contains("TUMBLE");
                // Who is heard of first differs from seed to seed.
                for (seed, parallelism) in (0..8).zip([1, 3].into_iter().cycle()) {
                    for sql in [sql, &eager].into_iter().take(1 + usize::from(has_eager)) {
                        let mut engine = engine(a, b, parallelism);
                        engine.simulate(schedule(seed + 100 * number as u64, 0));
                        let (found, late) = all(&mut engine, sql);
                        let mut found = if sql == eager { fold(found).unwrap() } else { found };
                        found.sort();
                        assert_eq!((found, late), (expected.clone(), 0), "seed {seed}, {parallelism} instances: {sql}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_input_that_goes_on_beside_one_that_is_idle_for_good() {
    let goes_on = vec![[rows(0..12), vec![Item::Silent]].concat()];
    let idle = vec![[rows(4..9), vec![Item::Idle, Item::Silent]].concat()];
    // Final is what no row that is on time can change: the watermark is at 9 s, and some look two seconds ahead.
    let (ended, idle_ended) = (vec![rows(0..12)], vec![[rows(4..9), vec![Item::Idle]].concat()]);
    let of_bases = |sql: &&str| sql.contains(" OVER ") || sql.contains("LEFT") || sql.contains("LAST");
    for sql in QUERIES.into_iter().filter(of_bases) {
        let ahead = if sql.contains("FOLLOWING") || sql.contains("+ INTERVAL") { 2 } else { 0 };
        let is_final = |line: &String| line.split(" | ").next().unwrap().parse::<i64>().unwrap() < 9 - ahead;
        let expected: Vec<String> =
            all(&mut engine(&ended, &idle_ended, 1), sql).0.into_iter().filter(is_final).collect();
        assert!(!expected.is_empty(), "{sql}");
        for parallelism in [1, 3] {
            let found = first(engine(&goes_on, &idle, parallelism), sql, expected.len());
            let found =
                found.unwrap_or_else(|| panic!("{parallelism} instances wait for an input that is idle: {sql}"));
            assert_eq!(found[..expected.len()], expected, "{parallelism} instances: {sql}");
        }
    }
}
