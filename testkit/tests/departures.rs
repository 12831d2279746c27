//! A year of real departures: every row of the result is what DuckDB computed from the same file (`tests/departures/golden.py`),
//! and the late rows are as many.

use std::{io::Read, path::Path};

use thalweg::Engine;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn golden(name: &str) -> (Vec<String>, u64) {
    let folder = Path::new(ROOT).join("tests/departures");
    let mut text = String::new();
    let file = std::fs::File::open(folder.join(format!("{name}.csv.gz"))).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let counts = std::fs::read_to_string(folder.join("late_rows.txt")).unwrap();
    let late = counts.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap();
    (text.lines().map(str::to_string).collect(), late.parse().unwrap())
}

fn check(name: &str, delay_hours: u32, window: &str, settings: &str) {
    let mut engine = Engine::new();
    engine.reload_at_barriers();
    let table = format!(
        "{settings} CREATE TABLE departures (WATERMARK FOR sched_dep AS sched_dep - INTERVAL '{delay_hours}' HOUR)
         WITH ('connector' = 'file', 'path' = '{ROOT}/examples/data/departures.csv.gz')"
    );
    engine.sql(&table).unwrap();
    let query = format!(
        "SELECT window_start, origin, count(*), avg(dep_delay), sum(distance), min(dep_delay), max(dep_delay),
                count(*) - count(dep_delay), count(DISTINCT dest)
         FROM TABLE({window}) GROUP BY window_start, window_end, origin"
    );
    let mut query = engine.sql(&query).unwrap();
    let control = query.control().unwrap();
    let (mut found, mut batches) = (Vec::new(), 0);
    for batch in query.by_ref() {
        let lines = testkit::show::lines(&batch.unwrap()).unwrap();
        found.extend(lines.into_iter().map(|line| line.replace(" | ", ",").replace("null", "")));
        batches += 1;
        if batches % 500 == 0 {
            control.request_barrier();
        }
    }
    let (mut rows, late) = golden(name);
    if settings.contains("arrival") {
        found.sort();
        rows.sort();
    }
    for (number, (found, expected)) in found.iter().zip(&rows).enumerate() {
        assert_eq!(found, expected, "row {number}");
    }
    assert_eq!((found.len(), query.metrics().late_rows), (rows.len(), late), "rows and late rows");
}

#[test]
fn with_a_delay_that_covers_the_disorder_no_row_is_late() {
    let window = "TUMBLE(TABLE departures, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR)";
    check("exact", 22, window, "SET 'parallelism' = '17';");
}

#[test]
fn with_a_short_delay_the_same_rows_are_late_at_every_batch_size() {
    let window = "TUMBLE(TABLE departures, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR)";
    check("late", 3, window, "SET 'batch.rows' = '1000'; SET 'parallelism' = '3';");
    check("late", 3, window, "SET 'batch.rows' = '65536'; SET 'parallelism' = '1';");
    check("late", 3, window, "SET 'merge' = 'arrival'; SET 'batch.rows' = '5000'; SET 'parallelism' = '3';");
}

#[test]
fn hopping_windows_that_are_no_multiple_of_their_slide_share_slices() {
    check(
        "hop",
        3,
        "HOP(TABLE departures, DESCRIPTOR(sched_dep), INTERVAL '40' MINUTE, INTERVAL '90' MINUTE)",
        "SET 'parallelism' = '8';",
    );
}
