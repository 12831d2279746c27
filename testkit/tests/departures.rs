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
    compare(&mut engine, &query, name, settings.contains("arrival"));
}

/// The rows of a query are those of a golden file, also where barriers come now and then.
fn compare(engine: &mut Engine, query: &str, name: &str, any_order: bool) {
    let mut query = engine.sql(query).unwrap();
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
    if any_order {
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

/// What the weather was before each departure, as aggregates over the rows around it, and as pairs.
const WEATHER: [&str; 2] = [
    "SELECT ts, origin, carrier, count(wind) OVER w AS n, sum(CAST(wind AS DECIMAL(10, 4))) OVER w AS wind,
            min(CAST(visib AS DECIMAL(10, 2))) OVER w AS visib, sum(CAST(rain AS DECIMAL(10, 2))) OVER w AS rain
     FROM (SELECT sched_dep AS ts, origin, carrier FROM departures)
     WINDOW w AS (UNION (SELECT observed AS ts, origin, wind_speed AS wind, visib, precip AS rain FROM weather)
       PARTITION BY origin ORDER BY ts ROWS_RANGE BETWEEN 3h PRECEDING AND CURRENT ROW INSTANCE_NOT_IN_WINDOW)",
    "SELECT d.sched_dep AS ts, d.origin, d.carrier, CASE WHEN w.wind_speed IS NULL THEN 0 ELSE 1 END AS n,
            CAST(w.wind_speed AS DECIMAL(10, 4)) AS wind, CAST(w.precip AS DECIMAL(10, 2)) AS rain
     FROM departures d LEFT JOIN weather w
     ON d.origin = w.origin AND w.observed BETWEEN d.sched_dep - INTERVAL '3' HOUR AND d.sched_dep",
];

fn check_weather(number: usize, columns: &str, kept: &[usize], settings: &str) {
    let mut engine = Engine::new();
    engine.reload_at_barriers();
    let data = format!("{ROOT}/examples/data");
    let tables = format!(
        "{settings}
         CREATE TABLE departures (WATERMARK FOR sched_dep AS sched_dep - INTERVAL '22' HOUR)
         WITH ('connector' = 'file', 'path' = '{data}/departures.csv.gz');
         CREATE TABLE weather (WATERMARK FOR observed AS observed)
         WITH ('connector' = 'file', 'path' = '{data}/weather.csv.gz')"
    );
    engine.sql(&tables).unwrap();
    let query = format!(
        "SELECT window_start, origin, carrier, {columns} FROM TUMBLE(({}), ts, INTERVAL '1' DAY)
         GROUP BY window_start, window_end, origin, carrier",
        WEATHER[number]
    );
    let (rows, _) = golden("weather");
    let expected = rows.iter().map(|row| {
        let fields: Vec<&str> = row.split(',').collect();
        kept.iter().map(|field| fields[*field]).collect::<Vec<_>>().join(",")
    });
    let expected: Vec<String> = expected.collect();
    let mut query = engine.sql(&query).unwrap();
    let mut found = Vec::new();
    for batch in query.by_ref() {
        let lines = testkit::show::lines(&batch.unwrap()).unwrap();
        found.extend(lines.into_iter().map(|line| line.replace(" | ", ",").replace("null", "")));
    }
    for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "row {number}");
    }
    assert_eq!((found.len(), query.metrics().late_rows), (expected.len(), 0), "rows and late rows");
}

#[test]
fn the_weather_before_each_departure_is_the_same_as_aggregates_and_as_pairs() {
    let all = "count(*), sum(n), sum(wind), sum(visib), sum(rain)";
    check_weather(0, all, &[0, 1, 2, 3, 4, 5, 6, 7], "SET 'parallelism' = '3';");
    check_weather(0, all, &[0, 1, 2, 3, 4, 5, 6, 7], "SET 'parallelism' = '1'; SET 'batch.rows' = '1000';");
    check_weather(1, "sum(n), sum(wind), sum(rain)", &[0, 1, 2, 4, 5, 7], "SET 'parallelism' = '2';");
}
