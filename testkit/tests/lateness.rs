//! Lateness that is learnt: as many results are exact as were asked for, it is not learnt much too large, and what is said of it is
//! true.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray, cast::AsArray, types::Int64Type};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use thalweg::{Engine, Memory, Metrics};

const SECOND: f64 = 1e6;

/// Two partitions of a row every ten milliseconds, of which every other one is late by 0.3 s on average.
fn disordered(seed: u64) -> Memory {
    let random = &mut StdRng::seed_from_u64(seed);
    let mut partition = |number: i64| {
        let mut rows: Vec<(i64, i64, i64)> = Vec::new();
        for row in 0..120_000 {
            let time = row * 10_000;
            let late = if random.random_bool(0.5) { -random.random::<f64>().ln() * 0.3 * SECOND } else { 0.0 };
            rows.push((time + late as i64, time, random.random_range(0..20)));
        }
        rows.sort_unstable();
        let batch = |(place, rows): (usize, &[(i64, i64, i64)])| {
            let numbers = (0..rows.len() as i64).map(|row| number + 2 * (place as i64 * 1000 + row));
            let columns: [(&str, ArrayRef); 3] = [
                ("ts", Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.1)))),
                ("k", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)))),
                ("n", Arc::new(Int64Array::from_iter_values(numbers))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        rows.chunks(1000).enumerate().map(batch).collect()
    };
    let memory = Memory::default();
    memory.put("s", vec![partition(0), partition(1)]).unwrap();
    memory
}

/// What each row has around it, by its number.
fn answer(memory: &Memory, watermark: &str, options: &str) -> (HashMap<i64, i64>, Metrics) {
    let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
    let table = format!(
        "CREATE TABLE s (WATERMARK FOR ts AS {watermark}) WITH ('connector' = 'memory', 'stream' = 's'{options})"
    );
    engine.sql(&table).unwrap();
    let sql = "SELECT n, sum(n) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '20' SECOND PRECEDING AND CURRENT ROW)
               FROM s";
    let mut query = engine.sql(sql).unwrap();
    let mut rows = HashMap::new();
    for batch in query.by_ref() {
        let batch = batch.unwrap();
        let column = |number: usize| batch.column(number).as_primitive::<Int64Type>().values().to_vec();
        rows.extend(column(0).into_iter().zip(column(1)));
    }
    (rows, query.metrics())
}

#[test]
fn as_many_results_are_exact_as_are_asked_for() {
    for (seed, accuracy) in [(1, 0.9), (2, 0.99), (3, 0.999)] {
        let memory = disordered(seed);
        let (exact, metrics) = answer(&memory, "ts", ", 'lateness' = '1 h'");
        assert_eq!((exact.len(), metrics.late_rows, metrics.lateness.len()), (240_000, 0, 0));
        let (found, metrics) = answer(&memory, "ts", &format!(", 'accuracy' = '{accuracy}'"));
        assert_eq!(found.len() as u64 + metrics.late_rows, 240_000, "late rows are counted");
        let good = found.iter().filter(|(row, sum)| exact[row] == **sum).count() as f64 / 240_000.0;
        assert!(good >= accuracy, "{good} of {accuracy}");
        let said = metrics.exact_share().unwrap();
        assert!((said - good).abs() < (1.0 - accuracy) / 2.0, "{said} said, {good} is true");
        // Two hundred rows make a result, so that no more than that may be late by more. For the last one there are too few rows to
        // tell, and it is twice the most there was.
        let share = (1.0 - accuracy) / 200.0;
        let enough = 0.3 * SECOND * (0.5 / share).ln();
        let careful = if share < 4.0 / 120_000.0 { 4.0 } else { 1.3 };
        for (partition, lateness) in &metrics.lateness {
            assert!(lateness.0 as f64 <= enough * careful, "{accuracy}: {lateness} in {partition}, {enough} would do");
        }
        assert_eq!(metrics.lateness.len(), 2);
    }
}

#[test]
fn what_is_said_to_be_late_is_late() {
    let memory = disordered(4);
    let (declared, before) = answer(&memory, "ts - INTERVAL '0.5' SECOND", "");
    let (said, after) = answer(&memory, "ts", ", 'lateness' = '500 ms'");
    assert!(before.late_rows > 1000 && before.late_rows == after.late_rows && declared == said);
}
