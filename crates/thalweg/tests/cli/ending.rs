//! Queries that do not end by themselves: readers that leave, and Ctrl-C.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::{NUMBERS, command};

/// Rows without end, a thousand a second, in windows that come out after half a second.
const ENDLESS: &str = "
    CREATE TABLE clicks (ts TIMESTAMP(3), page STRING, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
    WITH ('connector' = 'generator', 'rows-per-second' = '1000', 'fields.ts.start' = '2020-01-01T00:00:00Z',
          'fields.ts.step' = '10 ms', 'fields.page.kind' = 'choice', 'fields.page.values' = 'home,news');
    SELECT window_start, page, count(*) AS n FROM TUMBLE(clicks, ts, INTERVAL '4' SECOND)
    GROUP BY window_start, window_end, page";

/// Starts SQL that does not end by itself, and waits for its first line.
fn start(sql: &str) -> (Child, BufReader<ChildStdout>, String) {
    let mut child = command(&["run", "-c", sql]).spawn().expect("the command starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line comes");
    (child, stdout, line)
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("there is kill");
    assert!(sent.success());
}

/// Waits for the end, doing something now and then; fails if it takes too long.
fn wait(child: &mut Child, mut now_and_then: impl FnMut(&Child)) -> (ExitStatus, String) {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            let mut stderr = String::new();
            child.stderr.take().expect("it is a pipe").read_to_string(&mut stderr).expect("UTF-8");
            return (status, stderr);
        }
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().expect("it is our child");
            panic!("the command did not end");
        }
        thread::park_timeout(Duration::from_millis(10));
        now_and_then(child);
    }
}

#[test]
fn a_reader_that_leaves_ends_a_query_quietly() {
    let into_table = "CREATE TABLE o (n BIGINT) WITH ('connector' = 'stdout', 'format' = 'csv');
                      INSERT INTO o SELECT n FROM numbers";
    for (sql, first) in [("SELECT n FROM numbers", "{\"n\":0}\n"), (into_table, "n\n")] {
        let (mut child, stdout, line) = start(&format!("{NUMBERS} {sql}"));
        assert_eq!(line, first);
        drop(stdout);
        let (status, stderr) = wait(&mut child, |_| {});
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_reader_that_leaves_is_noticed_while_there_is_nothing_to_write() {
    let (mut child, stdout, line) = start(&format!("{NUMBERS} SELECT n FROM numbers WHERE n < 1"));
    assert_eq!(line, "{\"n\":0}\n");
    drop(stdout);
    let (status, stderr) = wait(&mut child, |_| {});
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn an_interrupt_stops_cleanly_and_says_what_is_open() {
    let (mut child, mut stdout, line) = start(ENDLESS);
    assert!(line.starts_with("{\"window_start\":\"2020-01-01T00:00:00Z\",\"page\":\"home\",\"n\":"), "{line}");
    // As `timeout` has it, which tells the process and its group: two signals that are one interrupt.
    let both = format!("kill -INT {id}; kill -TERM {id}", id = child.id());
    assert!(Command::new("sh").args(["-c", &both]).status().expect("there is a shell").success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("UTF-8");
    assert!(rest.ends_with("}\n"), "{rest}");
    let (status, stderr) = wait(&mut child, |_| {});
    assert_eq!(status.code(), Some(130));
    let lines: Vec<_> = stderr.lines().collect();
    assert!(lines[0].starts_with("stopped: Aggregate ") && lines[0].ends_with(", not in the result"), "{stderr}");
    assert!(lines[0].contains(" open window"), "{stderr}");
    assert!(lines[1].contains(" rows in, "), "{stderr}");
}

#[test]
fn a_second_interrupt_ends_at_once() {
    // The first batch is larger than a pipe, so that its writer waits for a reader who does not come.
    let sql = "CREATE TABLE t (s STRING) WITH ('connector' = 'generator', 'fields.s.length' = '1000');
               SELECT s FROM t";
    let (mut child, stdout, _) = start(sql);
    let mut interrupts = 0;
    let (status, stderr) = wait(&mut child, |child| {
        interrupts += 1;
        interrupt(child);
    });
    assert_eq!((status.code(), stderr.as_str()), (Some(130), ""));
    assert!(interrupts >= 2, "one would have waited for ever");
    drop(stdout);
}

#[test]
fn a_row_that_comes_beside_rows_without_end_is_read() {
    let tables = "
        CREATE TABLE a (n BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'stdin', 'format' = 'json');
        CREATE TABLE b (n BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'generator', 'fields.n.min' = '10', 'fields.ts.start' = '2020-01-01T00:00:00Z');";
    let join =
        "SELECT a.n FROM a LEFT JOIN b ON a.n = b.n AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' SECOND EMIT EAGER";
    for query in ["SELECT n FROM a UNION ALL SELECT n FROM b WHERE n < 10", join] {
        for parallelism in ["1", "2"] {
            let sql = format!("SET 'memory.limit' = '4 GB'; {tables} {query}");
            let mut command = command(&["run", "--parallelism", parallelism, "-c", &sql]);
            let mut child = command.stdin(Stdio::piped()).spawn().expect("the command starts");
            let (mut stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
            let (put, lines) = mpsc::channel();
            let reader = thread::spawn(move || {
                BufReader::new(stdout).lines().try_for_each(|line| put.send(line.expect("a line")).ok())
            });
            for n in 1..4 {
                writeln!(stdin, "{{\"n\":{n},\"ts\":\"2020-01-01T00:00:0{n}Z\"}}").expect("it reads");
                let line = lines.recv_timeout(Duration::from_secs(60));
                let is_found = line.as_ref().is_ok_and(|line| line.contains(&format!("\"n\":{n}")));
                if !is_found {
                    child.kill().expect("it is our child");
                }
                assert!(is_found, "row {n} of {query}, parallelism {parallelism}: {line:?}");
            }
            interrupt(&child);
            drop(stdin);
            assert_eq!(wait(&mut child, |_| {}).0.code(), Some(130));
            reader.join().expect("it does not panic");
        }
    }
}
