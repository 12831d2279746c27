//! `'memory.limit'` where it is not an operator that holds what is too much: rows that wait at a gather, and states that move from one
//! instance to another. Either the rows are those of one instance, or an error says who holds them; and every query ends.

use std::{collections::HashMap, sync::Arc};

use testkit::{
    script::{Item, Scripts},
    show,
    sim::{pick, schedule},
};
use thalweg::{Engine, Error};

/// Two partitions, a row a second, with a hundred keys.
fn stream() -> Scripts {
    let row = |row: i64| Item::Row([row, row * 7 % 100].map(|field| Some(field.to_string())).to_vec());
    let partitions = (0..2).map(|_| (0..200).map(row).collect()).collect();
    Scripts::new(HashMap::from([("s".to_string(), partitions)]))
}

/// The rows that a schedule gives, or the error.
fn outcome(seed: u64, settings: &str, sql: &str, moves: bool) -> Result<Vec<String>, Error> {
    let mut engine = Engine::with_connectors(vec![Arc::new(stream())]);
    let table = "CREATE TABLE s (ts TIMESTAMP, k BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'script')";
    engine.sql(&format!("SET 'batch.rows' = '5'; SET 'aggregate.phases' = 'one'; {settings} {table}")).unwrap();
    engine.simulate(schedule(seed, 10));
    if moves {
        engine.move_key_groups(pick(!seed));
    }
    let mut lines = Vec::new();
    for batch in engine.sql(sql).unwrap() {
        lines.extend(show::lines(&batch?)?);
    }
    lines.sort();
    Ok(lines)
}

/// How many of some schedules end with an error, which says that this node holds too much.
fn failures(node: &str, settings: &str, sql: &str, moves: bool) -> usize {
    let expected = outcome(0, "SET 'parallelism' = '1';", sql, false).unwrap();
    let fails = |seed: &u64| match outcome(*seed, settings, sql, moves) {
        Ok(rows) => {
            assert_eq!(rows, expected, "seed {seed}");
            false
        }
        Err(error) => {
            assert!(error.message().starts_with("the query's state takes "), "seed {seed}: {error}");
            assert!(error.node().is_some_and(|found| found.starts_with(node)), "seed {seed}: {error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("SET a larger 'memory.limit'")), "seed {seed}");
            true
        }
    };
    (0..60).filter(fails).count()
}

#[test]
fn rows_that_wait_at_a_gather_count_and_an_error_names_it() {
    let sql = "SELECT k, repeat('a long text ', 1000), count(*) FROM s GROUP BY k";
    let three = |merge: &str| {
        let settings = format!("SET 'parallelism' = '3'; SET 'memory.limit' = '300 kB'; SET 'merge' = '{merge}';");
        failures("Gather of ", &settings, sql, false)
    };
    let failed = three("ordered");
    assert!((5..60).contains(&failed), "of 60 schedules {failed} let too many rows wait");
    assert_eq!(three("arrival"), 0, "no row waits");
}

#[test]
fn too_much_state_where_key_groups_move_is_an_error_that_names_its_node() {
    let sql = "SELECT window_end, k, string_agg(CAST(k AS STRING), ',' ORDER BY ts) FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_end, k";
    let limits = |kilobytes: usize| {
        format!("SET 'merge' = 'arrival'; SET 'parallelism' = '3'; SET 'memory.limit' = '{kilobytes} kB';")
    };
    // By bisection the least that is enough where nothing moves.
    let (mut little, mut enough) = (0_usize, 600);
    while enough - little > 1 {
        let limit = little.midpoint(enough);
        match failures("Aggregate", &limits(limit), sql, false) {
            0 => enough = limit,
            _ => little = limit,
        }
    }
    let failed = failures("Aggregate", &limits(enough), sql, true);
    assert!(failed > 3, "with {enough} kB, {failed} of 60 schedules have too much state where it moves");
}
