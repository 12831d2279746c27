//! Random streams of rows with keys, out of order and late, and the ways in which a query over them is run.

use std::{collections::HashMap, ops::Range, sync::Arc};

use rand::{RngExt, rngs::StdRng};
use thalweg::Engine;
use thalweg_core::Timestamp;

use crate::{
    fold::fold,
    script::{Item, Scripts},
    show,
    sim::pick,
};

const SECOND: i64 = 1_000_000;

/// A row with the place where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// In seconds; `ts` in tables.
    pub time: i64,
    /// Its partition, and its number there.
    pub place: (usize, usize),
    /// `k` in tables.
    pub key: Option<i64>,
    /// `v` in tables.
    pub value: Option<i64>,
    /// No other row has it.
    pub id: i64,
    /// Hundredths; `p` in tables.
    pub price: Option<i64>,
    /// `s` in tables, but not in `c`.
    pub text: Option<&'static str>,
    /// `b` in tables.
    pub flag: Option<bool>,
}

/// In their order.
const TEXTS: [&str; 6] = ["", "B", "a", "ab", "z", "é"];

/// A stream: its partitions, and how far it may be out of order.
pub struct Stream {
    /// The rows of each partition.
    pub partitions: Vec<Vec<Row>>,
    /// How many seconds its watermark is behind the highest time.
    pub delay: i64,
}

impl Stream {
    /// Rows of so many keys.
    pub fn random(random: &mut StdRng, first_id: i64, keys: i64) -> Self {
        Self::of(random, first_id, keys, 0..80)
    }

    /// Rows of so many keys, and so many of each partition.
    pub fn of(random: &mut StdRng, first_id: i64, keys: i64, rows: Range<usize>) -> Self {
        let partitions = (0..random.random_range(1..4)).map(|partition| {
            let (mut clock, disorder) = (random.random_range(0..20), random.random_range(1..10));
            let count = random.random_range(rows.clone());
            let row = |number: usize| {
                clock += random.random_range(0..3);
                Row {
                    time: clock - random.random_range(0..disorder),
                    place: (partition, number),
                    key: random.random_bool(0.9).then(|| random.random_range(0..keys)),
                    value: random.random_bool(0.9).then(|| random.random_range(-5..20)),
                    id: first_id + (partition * 1000 + number) as i64,
                    price: random.random_bool(0.9).then(|| random.random_range(-300..300)),
                    text: random.random_bool(0.9).then(|| TEXTS[random.random_range(0..TEXTS.len())]),
                    flag: random.random_bool(0.9).then(|| random.random_bool(0.7)),
                }
            };
            (0..count).map(row).collect()
        });
        let partitions = partitions.collect();
        Self { partitions, delay: random.random_range(0..8) }
    }

    /// The rows that are not late, in the order of time, and those that are.
    pub fn on_time(&self, allowed: i64) -> (Vec<Row>, Vec<Row>) {
        let (mut rows, mut late) = (Vec::new(), Vec::new());
        for partition in &self.partitions {
            let mut highest = i64::MIN / 2;
            for row in partition {
                match row.time < highest - self.delay - allowed {
                    true => late.push(*row),
                    false => rows.push(*row),
                }
                highest = highest.max(row.time);
            }
        }
        rows.sort_by_key(|row| (row.time, row.place));
        (rows, late)
    }

    /// How many rows are late.
    pub fn late(&self, allowed: i64) -> usize {
        self.on_time(allowed).1.len()
    }

    /// The same rows without texts, which the table `c` lacks.
    pub fn without_texts(mut self) -> Self {
        self.partitions.iter_mut().flatten().for_each(|row| row.text = None);
        self
    }

    /// What the table of this name gives. Columns of the same name are not at the same place.
    fn script(&self, table: &str) -> Vec<Vec<Item>> {
        let item = |row: &Row| {
            let text = |value: Option<i64>| value.map(|value| value.to_string());
            let time = Some(Timestamp(row.time * SECOND).to_string());
            let price = row.price.map(|price| format!("{:?}", price as f64 / 100.0));
            let flag = row.flag.map(|flag| flag.to_string());
            let mut fields = vec![time, text(row.key), text(row.value), Some(row.id.to_string()), price, flag];
            match table {
                "b" => fields.insert(0, Some("x".to_string())),
                "c" => return Item::Row(fields),
                _ => {}
            }
            // A field that is empty is no null.
            fields.push(row.text.map(str::to_string));
            Item::Row(fields)
        };
        self.partitions.iter().map(|rows| rows.iter().map(item).collect()).collect()
    }
}

/// How a query is run: rows in a batch, workers, a seed of barriers, and how rows of instances are merged.
pub type Variant = (usize, usize, Option<u64>, &'static str);

/// The ways in which the queries of a seed are run.
pub fn variants(seed: u64) -> [Variant; 5] {
    [
        (4096, 1, None, "ordered"),
        (1, 3, None, "ordered"),
        (7, 8, Some(seed), "ordered"),
        (3, 17, Some(seed + 1), "ordered"),
        (7, 2, Some(seed), "arrival"),
    ]
}

/// The rows of a query over the tables `a`, `b` and `c`, and how many were late. Panics where it fails.
pub fn run(streams: &[&Stream], allowed: i64, sql: &str, variant: Variant) -> (Vec<String>, u64) {
    let (batch_rows, workers, barriers, merge) = variant;
    let columns = [("a", "", ", s STRING"), ("b", "x STRING, ", ", s STRING"), ("c", "", "")];
    let (mut tables, mut scripts) = (String::new(), HashMap::new());
    for (stream, (name, first, last)) in streams.iter().zip(columns) {
        let delay = stream.delay;
        scripts.insert(name.to_string(), stream.script(name));
        tables += &format!(
            "CREATE TABLE {name} ({first} ts TIMESTAMP, k BIGINT, v BIGINT, id BIGINT, p DECIMAL(8, 2), b BOOLEAN{last},
             PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND) WITH ('connector' = 'script');"
        );
    }
    let mut scripts = Scripts::new(scripts);
    if let Some(seed) = barriers {
        scripts = scripts.with_barriers(seed);
    }
    let mut engine = Engine::with_connectors(vec![Arc::new(scripts)]);
    engine.reload_at_barriers();
    barriers.into_iter().for_each(|seed| engine.move_key_groups(pick(seed)));
    let setup = format!(
        "SET 'batch.rows' = '{batch_rows}'; SET 'parallelism' = '{workers}'; SET 'merge' = '{merge}';
         SET 'late.allowed' = '{allowed} s'; {tables}"
    );
    engine.sql(&setup).unwrap();
    let mut query = engine.sql(sql).unwrap_or_else(|error| panic!("{error}\n{sql}"));
    let mut found = Vec::new();
    for batch in query.by_ref() {
        found.extend(show::lines(&batch.unwrap_or_else(|error| panic!("{error}\n{sql}"))).unwrap());
    }
    (found, query.metrics().late_rows)
}

/// A query over streams, and what it gives however it is run.
pub struct Check<'a> {
    /// Of the ways in which it is run.
    pub seed: u64,
    /// What the tables `a`, `b` and `c` give.
    pub streams: &'a [&'a Stream],
    /// How many seconds late rows may be.
    pub allowed: i64,
    /// The query.
    pub sql: &'a str,
    /// The rows that it gives.
    pub expected: &'a [String],
    /// Whether they come in this order, where results come once.
    pub is_in_order: bool,
    /// How many rows are late.
    pub late: usize,
}

impl Check<'_> {
    /// Runs it with results that come once, and with results at once.
    pub fn both(&self) {
        self.once();
        self.eager();
    }

    /// Runs it with results that come once.
    pub fn once(&self) {
        let Self { seed, streams, allowed, sql, .. } = *self;
        for variant in variants(seed) {
            let (mut found, found_late) = run(streams, allowed, sql, variant);
            let mut expected = self.expected.to_vec();
            if variant.3 == "arrival" || !self.is_in_order {
                found.sort();
                expected.sort();
            }
            let variant = format!("seed {seed}, {variant:?}\n{sql}");
            for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(found, expected, "row {number}, {variant}");
            }
            assert_eq!((found.len(), found_late), (expected.len(), self.late as u64), "rows and late rows, {variant}");
        }
    }

    /// Runs it with results that come out at once: what corrections leave is the same.
    pub fn eager(&self) {
        let (seed, sql) = (self.seed, format!("{} EMIT EAGER", self.sql));
        let mut expected = self.expected.to_vec();
        expected.sort();
        // Nothing is put in order.
        let [one, some, many, ..] = variants(seed);
        for variant in [one, some, many] {
            let (found, found_late) = run(self.streams, self.allowed, &sql, variant);
            let found = fold(found).unwrap_or_else(|error| panic!("{error}, seed {seed}, {variant:?}\n{sql}"));
            let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
            assert_eq!(differs, None, "seed {seed}, {variant:?}\n{sql}");
            let (rows, late) = (expected.len(), self.late as u64);
            assert_eq!((found.len(), found_late), (rows, late), "seed {seed}, {variant:?}\n{sql}");
        }
    }
}

/// A number as results show it.
pub fn show(value: Option<i64>) -> String {
    value.map_or("null".to_string(), |value| value.to_string())
}
