//! Random streams through windows and aggregates: the engine's rows are the oracle's, in the order that is promised, at every
//! batch size and parallelism, and with state saved and loaded at random barriers; and in any order where the rows of instances come as
//! they arrive.

use std::{collections::HashMap, sync::Arc};

use chrono_tz::Tz;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::{
    oracle::{self, Key, Row, Windows},
    script::{Item, Scripts},
    show,
};
use thalweg::Engine;
use thalweg_core::Timestamp;

const CASES: u64 = 60;

/// Zones, and a moment near which rows lie: where the clocks of the zone are set forward or back.
const ZONES: [(Tz, &str); 6] = [
    (Tz::UTC, "1970-01-01T00:00:00Z"),
    (Tz::Europe__Berlin, "2013-03-31T01:00:00Z"),
    (Tz::UTC, "1970-01-01T00:00:00Z"),
    (Tz::Europe__Berlin, "2013-10-27T01:00:00Z"),
    (Tz::UTC, "2013-07-01T12:00:00Z"),
    (Tz::Australia__Lord_Howe, "2013-04-06T15:00:00Z"),
];

#[test]
fn windowed_aggregates_are_what_the_oracle_says() {
    for seed in 0..CASES {
        let case = Case::random(seed);
        let expected = case.expected();
        let variants = [
            (4096, 1, None, "ordered"),
            (1, 3, None, "ordered"),
            (7, 8, Some(seed), "ordered"),
            (3, if seed % 16 == 8 { 64 } else { 17 }, Some(seed + 1), "ordered"),
            (7, 2, Some(seed), "arrival"),
            (3, if seed % 16 == 0 { 64 } else { 5 }, Some(seed + 1), "arrival"),
        ];
        let mut in_any_order = expected.clone();
        in_any_order.0.sort();
        for (batch_rows, workers, barriers, merge) in variants {
            let mut found = case.run(batch_rows, workers, barriers, merge);
            let variant = format!("seed {seed}, batch {batch_rows}, {workers} workers, {merge}\n{}", case.sql());
            let expected = if merge == "arrival" { &in_any_order } else { &expected };
            if merge == "arrival" {
                found.0.sort();
            }
            for (number, (found, expected)) in found.0.iter().zip(&expected.0).enumerate() {
                assert_eq!(found, expected, "row {number}, {variant}");
            }
            assert_eq!((found.0.len(), found.1), (expected.0.len(), expected.1), "rows and late rows, {variant}");
        }
    }
}

/// A random stream and a random question.
struct Case {
    partitions: Vec<Vec<Row>>,
    windows: Windows,
    keys: Vec<&'static str>,
    remainder: Option<i64>,
    inner: bool,
}

impl Case {
    fn random(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let second = if random.random_bool(0.5) { 1_000_000 } else { 60_000_000 };
        let keys = [vec![], vec!["k BIGINT"], vec!["k STRING"], vec!["k STRING", "j BIGINT"]]
            [random.random_range(0..4)]
        .clone();
        let slide = random.random_range(1..12) * second / [1, 2, 1000][random.random_range(0..3)];
        let size = match random.random_range(0..3) {
            0 => slide,
            1 => slide * random.random_range(2..6),
            _ => random.random_range(1..30) * second / 2,
        };
        let slide = slide.max(size / 20);
        let step = random.random_bool(0.25).then_some(slide);
        let (size, slide) = match step {
            Some(step) => (step * random.random_range(1..7), step),
            None => (size, slide),
        };
        let windows = Windows {
            size,
            slide: if step.is_some() { size } else { slide },
            step,
            offset: random.random_range(-20..20) * second / 4,
            delay: random.random_range(0..5) * second,
            allowed: if random.random_bool(0.3) { random.random_range(0..6) * second } else { 0 },
            zone: Tz::UTC,
            from_first_row: false,
        };
        let disorder = random.random_range(0..12) * second;
        let (zone, change) = ZONES[seed as usize % ZONES.len()];
        let around = change.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_micros();
        let windows = Windows { zone, from_first_row: random.random_bool(0.3), ..windows };
        let partitions = (0..random.random_range(1..5))
            .map(|_| {
                let mut clock = around + random.random_range(-90..30) * second;
                let rows = random.random_range(0..120);
                (0..rows).map(|_| random_row(&mut random, &keys, &mut clock, 3 * second, disorder)).collect()
            })
            .collect();
        let remainder = random.random_bool(0.3).then(|| random.random_range(0..3));
        Self { partitions, windows, keys, remainder, inner: random.random_bool(0.2) }
    }

    fn names(&self) -> Vec<&str> {
        self.keys.iter().map(|key| key.split(' ').next().unwrap()).collect()
    }

    fn sql(&self) -> String {
        let Windows { size, slide, offset, .. } = self.windows;
        let interval = |micros: i64| format!("INTERVAL '{}.{:06}' SECOND", micros / 1_000_000, micros % 1_000_000);
        let offset = offset.rem_euclid(slide);
        let call = match size == slide {
            _ if let Some(step) = self.windows.step => {
                let (step, size, offset) = (interval(step), interval(size), interval(offset));
                format!("CUMULATE(TABLE t, DESCRIPTOR(ts), {step}, {size}, {offset})")
            }
            true => format!("TUMBLE(TABLE t, DESCRIPTOR(ts), {}, {})", interval(size), interval(offset)),
            false => {
                format!("HOP(TABLE t, DESCRIPTOR(ts), {}, {}, {})", interval(slide), interval(size), interval(offset))
            }
        };
        let keys = self.names().iter().map(|name| format!("{name}, ")).collect::<String>();
        let keys_after = self.names().iter().map(|name| format!(", {name}")).collect::<String>();
        let condition = self.remainder.map(|r| format!("WHERE v % 3 = {r}")).unwrap_or_default();
        // A filter on a window's bounds keeps the windows from being fused into the aggregate.
        let condition = match (self.inner, condition.is_empty()) {
            (false, _) => condition,
            (true, true) => "WHERE window_end > window_start".to_string(),
            (true, false) => format!("{condition} AND window_end > window_start"),
        };
        format!(
            "SELECT window_start, window_end, {keys}count(*) AS n, count(v) AS m, sum(v) AS s, min(v) AS lo, max(d) AS hi, \
             sum(d) AS f, avg(d) AS a, count(DISTINCT v) AS u, sum(v) FILTER (WHERE v > 3) AS c \
             FROM TABLE({call}) {condition} GROUP BY window_start, window_end{keys_after}"
        )
    }

    fn run(&self, batch_rows: usize, workers: usize, barriers: Option<u64>, merge: &str) -> (Vec<String>, u64) {
        let script = self.partitions.iter().map(|rows| rows.iter().map(item).collect()).collect();
        let mut scripts = Scripts::new(HashMap::from([("t".to_string(), script)]));
        if let Some(seed) = barriers {
            scripts = scripts.with_barriers(seed);
        }
        let mut engine = Engine::with_connectors(vec![Arc::new(scripts)]);
        engine.reload_at_barriers();
        let keys = self.keys.iter().map(|key| format!("{key}, ")).collect::<String>();
        let delay = self.windows.delay / 1_000_000;
        let zone = self.windows.zone;
        let time = if zone == Tz::UTC { "TIMESTAMP" } else { "TIMESTAMP_LTZ" };
        let anchor = if self.windows.from_first_row { "first-row" } else { "epoch" };
        let setup = format!(
            "SET 'batch.rows' = '{batch_rows}'; SET 'parallelism' = '{workers}'; SET 'late.allowed' = '{} us';
             SET 'time.zone' = '{zone}'; SET 'window.anchor' = '{anchor}'; SET 'merge' = '{merge}';
             CREATE TABLE t (ts {time}, {keys}v BIGINT, d DOUBLE,
             WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND) WITH ('connector' = 'script')",
            self.windows.allowed
        );
        engine.sql(&setup).unwrap();
        let mut query = engine.sql(&self.sql()).unwrap();
        let mut lines = Vec::new();
        for batch in query.by_ref() {
            lines.extend(show::lines(&batch.unwrap()).unwrap());
        }
        (lines, query.metrics().late_rows)
    }

    fn expected(&self) -> (Vec<String>, u64) {
        let wanted = |row: &Row| match (self.remainder, row.whole) {
            (None, _) => true,
            (Some(r), whole) => whole.is_some_and(|v| v % 3 == r),
        };
        let (groups, late) = oracle::group(&self.partitions, self.windows, wanted);
        let line = |((end, start, keys), rows): (&(i64, i64, Vec<Key>), &Vec<Row>)| {
            let mut fields = vec![Timestamp(*start).to_string(), Timestamp(*end).to_string()];
            fields.extend(keys.iter().map(key_text));
            let whole: Vec<i64> = rows.iter().filter_map(|row| row.whole).collect();
            let floats: Vec<f64> = rows.iter().filter_map(|row| row.float).collect();
            let or_null = |value: Option<String>| value.unwrap_or("null".to_string());
            fields.push(rows.len().to_string());
            fields.push(whole.len().to_string());
            fields.push(or_null((!whole.is_empty()).then(|| whole.iter().sum::<i64>().to_string())));
            fields.push(or_null(whole.iter().min().map(|v| v.to_string())));
            fields.push(or_null(floats.iter().copied().max_by(f64::total_cmp).map(|v| format!("{v:?}"))));
            fields.push(or_null((!floats.is_empty()).then(|| format!("{:?}", oracle::sum(&floats)))));
            fields.push(or_null((!floats.is_empty()).then(|| format!("{:?}", oracle::average(&floats)))));
            fields.push(whole.iter().collect::<std::collections::BTreeSet<_>>().len().to_string());
            let large: Vec<i64> = whole.iter().copied().filter(|v| *v > 3).collect();
            fields.push(or_null((!large.is_empty()).then(|| large.iter().sum::<i64>().to_string())));
            fields.join(" | ")
        };
        (groups.iter().map(line).collect(), late)
    }
}

fn random_row(random: &mut StdRng, keys: &[&str], clock: &mut i64, step: i64, disorder: i64) -> Row {
    *clock += random.random_range(0..step);
    let time = *clock - random.random_range(0..=disorder);
    let key = |random: &mut StdRng, declared: &&str| {
        let n = random.random_range(0..8);
        match declared.split(' ').next_back() {
            _ if n == 0 => Key::Null,
            Some("STRING") => Key::Text(["a", "b", "", "long enough to leave the view"][n % 4].to_string()),
            Some("DOUBLE") if n == 1 => Key::NAN,
            Some("DOUBLE") => Key::Tenths(n as i64 - 4),
            _ => Key::Whole(n as i64 - 4),
        }
    };
    Row {
        time,
        keys: keys.iter().map(|declared| key(random, declared)).collect(),
        whole: random.random_bool(0.8).then(|| random.random_range(-5..20)),
        float: random.random_bool(0.8).then(|| f64::from(random.random_range(-300..3000)) * 0.1),
    }
}

fn item(row: &Row) -> Item {
    let mut fields = vec![Some(Timestamp(row.time).to_string())];
    // The source writes zero with either sign: it is one key.
    let sign = if row.time % 2 == 0 { "-0.0" } else { "0.0" };
    let text = |key: &Key| if *key == Key::Tenths(0) { sign.to_string() } else { key_text(key) };
    fields.extend(row.keys.iter().map(|key| (*key != Key::Null).then(|| text(key))));
    fields.push(row.whole.map(|v| v.to_string()));
    fields.push(row.float.map(|v| format!("{v:?}")));
    Item::Row(fields)
}

fn key_text(key: &Key) -> String {
    match key {
        Key::Null => "null".to_string(),
        Key::Whole(v) => v.to_string(),
        Key::Text(text) => text.clone(),
        Key::Tenths(i64::MAX) => "NaN".to_string(),
        Key::Tenths(tenths) => format!("{:?}", *tenths as f64 / 10.0),
    }
}
