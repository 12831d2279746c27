//! One query over history and over the present: what a text gives of files it gives of rows that come meanwhile, byte by byte.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Orders and payments in one stream, as the columns of the file say; only where they come from differs.
const STREAMS: &str = "
    CREATE TABLE all_rows (ts TIMESTAMP, kind STRING, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH (SOURCE);
    CREATE VIEW orders AS SELECT ts, k, v FROM all_rows WHERE kind = 'order';
    CREATE VIEW payments AS SELECT ts, k, v FROM all_rows WHERE kind = 'payment';";

/// What is asked: window unions with and without the orders, pairs, and what they come to.
const QUERIES: [&str; 4] = [
    "SELECT ts, k, v, sum(v) OVER near AS near, max(v) OVER paid AS most, count(DISTINCT v) OVER paid AS amounts FROM orders
     WINDOW near AS (UNION payments PARTITION BY k ORDER BY ts ROWS_RANGE BETWEEN 30s PRECEDING AND CURRENT ROW),
            paid AS (UNION payments PARTITION BY k ORDER BY ts ROWS_RANGE BETWEEN 1m PRECEDING AND 2s FOLLOWING INSTANCE_NOT_IN_WINDOW)",
    "SELECT o.ts, o.k, o.v, p.ts AS since, p.v AS last FROM orders o LAST JOIN payments p ORDER BY p.ts ON o.k = p.k AND p.ts <= o.ts",
    "SELECT o.ts, o.k, o.v, p.v AS paid FROM orders o
     LEFT JOIN payments p ON o.k = p.k AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '5' SECOND",
    "SELECT window_start, k, sum(v) AS s FROM TUMBLE(payments, ts, INTERVAL '2' SECOND) GROUP BY window_start, window_end, k",
];

/// Rows with up to two seconds of disorder, one every 50 ms of their own time.
fn rows(count: i64) -> Vec<String> {
    let mut state = 7_u64;
    let mut random = |most: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % most
    };
    let row = |number: i64| {
        let time = number * 50 - random(2_000);
        let kind = if random(2) == 0 { "order" } else { "payment" };
        let (k, v) = (random(5), random(1_000));
        let (seconds, millis) = (time.max(0) / 1000, time.max(0) % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!("2026-01-01 {hour:02}:{minute:02}:{second:02}.{millis:03},{kind},{k},{v}\n")
    };
    (0..count).map(row).collect()
}

fn command(source: &str, query: &str) -> Command {
    let sql = format!("{} {query}", STREAMS.replace("SOURCE", source));
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(["run", "--output", "csv", "-c", &sql]).env_remove("THALWEG_LOG");
    command.current_dir(env!("CARGO_TARGET_TMPDIR")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_query_gives_the_same_of_files_and_of_rows_that_come_meanwhile() {
    let rows = rows(6_000);
    let history = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("history.csv");
    fs::write(&history, format!("ts,kind,k,v\n{}", rows.concat())).expect("the directory for tests can be written to");
    for query in QUERIES {
        let done = command("'connector' = 'file', 'path' = 'history.csv'", query).output().expect("the command starts");
        let expected = String::from_utf8(done.stdout).expect("the command writes UTF-8");
        let said = String::from_utf8(done.stderr).expect("the command writes UTF-8");
        assert!(said.contains(" 0 late, 0 bad "), "{query}: {said}");
        assert!(expected.lines().count() > 500, "{query}: {expected}");

        let mut live = command("'connector' = 'stdin', 'format' = 'csv'", query);
        let mut live = live.stdin(Stdio::piped()).spawn().expect("the command starts");
        let (mut input, output) = (live.stdin.take().expect("a pipe"), live.stdout.take().expect("a pipe"));
        let (tell, some_came) = mpsc::channel();
        let reads = thread::spawn(move || {
            let (mut found, mut lines) = (String::new(), BufReader::new(output));
            for line in 0.. {
                if line == 100 {
                    tell.send(()).expect("it waits");
                }
                if lines.read_line(&mut found).expect("the command writes UTF-8") == 0 {
                    break;
                }
            }
            found
        });
        let (first, last) = rows.split_at(5_000);
        let mut write = |rows: &[String]| {
            for some in rows.chunks(500) {
                input.write_all(some.concat().as_bytes()).expect("the command reads");
                thread::sleep(Duration::from_millis(5));
            }
        };
        write(first);
        some_came.recv_timeout(Duration::from_secs(60)).expect("results come while there are rows to come");
        write(last);
        drop(input);
        let found = reads.join().expect("it reads to the end");
        assert!(live.wait().expect("the command ends").success(), "{query}");
        assert!(
            found == expected,
            "{query}: {} lines live, {} of files",
            found.lines().count(),
            expected.lines().count()
        );
    }
}
