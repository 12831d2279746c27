//! Joins and aggregates over the rows around a row, at full rate for a minute in all (`make soak`: each for ten): memory stays what it was
//! when time had passed all that they keep.

use std::{
    fs,
    time::{Duration, Instant},
};

use thalweg::Engine;

/// How long all queries run together, unless `THALWEG_SOAK_SECONDS` says how many seconds each does.
const ALL: Duration = Duration::from_secs(60);

/// So many rows have come before memory is to stay as it is, however long they take: keys come back after 250,000 of a table.
const WARM: u64 = 1_500_000;

/// Out of order by up to a tenth of a second, with keys of which a few are hot, and others that are there for a while and come back.
fn table(name: &str, seed: u64) -> String {
    format!(
        "CREATE TABLE {name} (
           id BIGINT, any BIGINT, hot BIGINT, v BIGINT, ts TIMESTAMP(6),
           k AS CASE WHEN any < 300 THEN hot WHEN any < 600 THEN 1000 + id / 5000 % 50 ELSE any END,
           WATERMARK FOR ts AS ts - INTERVAL '0.1' SECOND
         ) WITH (
           'connector' = 'generator', 'partitions' = '2', 'seed' = '{seed}', 'fields.id.kind' = 'sequence',
           'fields.any.min' = '0', 'fields.any.max' = '999', 'fields.hot.min' = '0', 'fields.hot.max' = '3',
           'fields.v.min' = '-1000', 'fields.v.max' = '1000', 'fields.v.null-rate' = '0.05',
           'fields.ts.step' = '10 us', 'fields.ts.disorder' = '100 ms'
         );"
    )
}

const QUERIES: [(&str, &str); 8] = [
    (
        "window union",
        "SELECT id, sum(v) OVER near, max(v) OVER near, count(*) OVER last, first_value(v) OVER last
         FROM s
         WINDOW near AS (UNION r PARTITION BY k ORDER BY ts ROWS_RANGE BETWEEN 50 PRECEDING AND 20 FOLLOWING),
                last AS (UNION r PARTITION BY k ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)",
    ),
    (
        "from the first row on",
        "SELECT hot, sum(v) OVER w, min(v) OVER w, dense_rank() OVER w FROM s WINDOW w AS (PARTITION BY hot ORDER BY ts)",
    ),
    (
        "join",
        "SELECT s.id, r.id FROM s LEFT JOIN r
         ON s.k = r.k AND s.v < r.v AND r.ts BETWEEN s.ts - INTERVAL '0.0005' SECOND AND s.ts + INTERVAL '0.0005' SECOND",
    ),
    (
        "join, all rows of both",
        "SELECT s.id, r.id FROM s FULL JOIN r
         ON s.k = r.k AND r.ts BETWEEN s.ts - INTERVAL '0.0002' SECOND AND s.ts + INTERVAL '0.0002' SECOND",
    ),
    ("sums alone", "SELECT id, sum(v) OVER (PARTITION BY k ORDER BY ts ROWS_RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM s"),
    (
        "at once",
        "SELECT id, sum(v) OVER near, max(v) OVER near FROM s
         WINDOW near AS (UNION r PARTITION BY k ORDER BY ts ROWS_RANGE BETWEEN 50 PRECEDING AND CURRENT ROW) EMIT EAGER",
    ),
    (
        "at once, with different keys",
        "SELECT id, sum(v) OVER near, max(v) OVER few, count(*) OVER hot FROM s
         WINDOW near AS (UNION r PARTITION BY k ORDER BY ts ROWS_RANGE BETWEEN 50 PRECEDING AND 20 FOLLOWING),
                few AS (PARTITION BY any ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW),
                hot AS (PARTITION BY hot ORDER BY ts ROWS_RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) EMIT EAGER",
    ),
    ("last join", "SELECT s.id, r.v FROM s LAST JOIN r ORDER BY r.ts ON s.k = r.k AND r.ts BETWEEN s.ts - INTERVAL '1' SECOND AND s.ts"),
];

/// The memory of this process that is in use, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").expect("Linux");
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Most of what some samples have.
#[derive(Clone, Copy, Debug, Default)]
struct Most {
    resident: u64,
    state: u64,
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "looks at /proc")]
fn memory_is_flat() {
    let each = std::env::var("THALWEG_SOAK_SECONDS").map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    let each = each.unwrap_or(ALL / QUERIES.len() as u32);
    let only = std::env::var_os("THALWEG_SOAK_ONLY");
    let queries: Vec<_> =
        QUERIES.into_iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == *name)).collect();
    let names = QUERIES.map(|(name, _)| name).join("; ");
    assert!(!queries.is_empty(), "THALWEG_SOAK_ONLY is none of: {names}");
    for (name, sql) in queries {
        let mut engine = Engine::default();
        engine.sql(&format!("SET 'parallelism' = '2'; {} {}", table("s", 1), table("r", 2))).unwrap();
        let mut query = engine.sql(sql).unwrap();
        let (began, mut thirds, mut rows, mut next) = (Instant::now(), [Most::default(); 3], 0, Duration::ZERO);
        let mut warm = None;
        while let Some(batch) = query.next() {
            rows += batch.unwrap().num_rows();
            let elapsed = began.elapsed();
            if elapsed < next {
                continue;
            }
            let metrics = query.metrics();
            if warm.is_none() && elapsed >= each / 3 && metrics.rows_in >= WARM {
                warm = Some(elapsed);
            }
            let passed = warm.map(|warm| elapsed - warm);
            if passed.is_some_and(|passed| passed >= each * 2 / 3) {
                break;
            }
            next = elapsed + each / 150;
            let third = &mut thirds[passed.map_or(0, |passed| 1 + usize::from(passed >= each / 3))];
            third.resident = third.resident.max(resident());
            third.state = third.state.max(metrics.state_bytes);
        }
        query.stop();
        let metrics = query.metrics();
        let [_, before, after] = thirds;
        let took = began.elapsed();
        println!("{name}: {rows} rows out of {} in {took:.1?}, {before:?}, then {after:?}", metrics.rows_in);
        assert!(rows > 10_000, "{name}: {rows} rows");
        // How far one table is ahead of the other, which is what most of it is, varies from moment to moment.
        assert!(
            after.state < before.state + before.state / 2 + (8 << 20),
            "{name}: the state grows: {before:?} {after:?}"
        );
        let room = before.resident / 5 + (32 << 20);
        assert!(after.resident < before.resident + room, "{name}: memory grows: {before:?} {after:?}");
    }
}
