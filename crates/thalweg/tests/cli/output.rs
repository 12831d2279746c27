//! What is on standard output: formats, one statement after the other, and where it cannot be written.

use std::{fs, path::PathBuf, process::Command};

use super::{Done, check, command, file, thalweg};

#[test]
fn json_lines_are_an_object_a_row() {
    let rows = "(VALUES (1, 'a\"b', 0.5), (NULL, NULL, NULL)) AS v (n, word, x)";
    check(
        &["-c", &format!("SELECT n, word, x, TIMESTAMP '2013-01-01 10:00:00.25' AS t FROM {rows}")],
        "{\"n\":1,\"word\":\"a\\\"b\",\"x\":0.5,\"t\":\"2013-01-01T10:00:00.25Z\"}\n\
         {\"n\":null,\"word\":null,\"x\":null,\"t\":\"2013-01-01T10:00:00.25Z\"}\n",
    );
}

#[test]
fn csv_has_a_header_and_tells_null_from_empty() {
    let sql = "SELECT n, word FROM (VALUES (1, 'a,b'), (2, ''), (NULL, NULL)) AS v (n, word)";
    check(&["--output", "csv", "-c", sql], "n,word\n1,\"a,b\"\n2,\"\"\n,\n");
    check(&["--output", "csv", "-c", "SELECT a FROM (VALUES (1)) AS t (a) WHERE a > 1"], "a\n");
}

#[test]
fn tables_are_for_people() {
    let sql = "SELECT n, word FROM (VALUES (1, 'a'), (200, NULL)) AS v (n, word);
               CREATE VIEW x AS SELECT 1 AS a;
               SHOW TABLES";
    check(
        &["-o", "table", "-c", sql],
        "   n │ word\n─────┼──────\n   1 │ a\n 200 │ NULL\n\n table name\n────────────\n x\n",
    );
}

#[test]
fn statements_run_one_after_the_other() {
    let tables = file("tables.sql", "\u{feff}CREATE VIEW one AS SELECT 1 AS a;\n-- and no more\n");
    let blackhole = "CREATE TABLE b (a BIGINT) WITH ('connector' = 'blackhole');
                     INSERT INTO b SELECT a FROM one;
                     SELECT a + 1 AS a FROM one";
    check(&[tables, "-c", "SELECT a FROM one", "-c", blackhole], "{\"a\":1}\n{\"a\":2}\n");
}

#[test]
fn a_summary_ends_each_query_on_standard_error() {
    let sql = "CREATE TABLE b (a BIGINT) WITH ('connector' = 'blackhole');
               INSERT INTO b VALUES (1), (2);
               SELECT 1 AS a;
               SHOW TABLES";
    let done = thalweg(&["run", "-c", sql]);
    assert_eq!((done.stdout.as_str(), done.code), ("{\"a\":1}\n{\"table name\":\"b\"}\n", Some(0)));
    let lines: Vec<_> = done.stderr.lines().collect();
    assert!(lines[0].starts_with("b: 2 rows in, 2 rows out, 0 late, 0 bad in "), "{lines:?}");
    assert!(lines[1].starts_with("latency from arrival to emission: p50 "), "{lines:?}");
    assert!(lines[2].starts_with("1 row in, 1 row out, 0 late, 0 bad in "), "{lines:?}");
    assert_eq!(lines.len(), 4, "{lines:?}");
}

/// Each way of writing to standard output, where no byte can be written.
#[test]
fn rows_that_cannot_be_written_are_an_error() {
    let table = |with: &str| format!("CREATE TABLE o (a INT) WITH ({with}); INSERT INTO o SELECT 1");
    let stdout = [table("'connector' = 'stdout', 'format' = 'csv'"), table("'connector' = 'print'")];
    let runs = [
        &["run", "-q", "-o", "table", "-c", "SELECT 1 AS a"][..],
        &["run", "-q", "-o", "json", "-c", "SELECT 1 AS a"],
        &["run", "-q", "-o", "csv", "-c", "SELECT 1 AS a"],
        &["run", "-q", "-c", &stdout[0]],
        &["run", "-q", "-c", &stdout[1]],
        &["explain", "-c", "SELECT 1 AS a"],
        &["completions", "bash"],
    ];
    for arguments in runs {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("there is one");
        let read_only = fs::File::open("/dev/null").expect("there is one");
        for (stdout, why) in [(full, "No space left on device"), (read_only, "Bad file descriptor")] {
            let done: Done = command(arguments).stdout(stdout).output().expect("the command starts").into();
            assert_eq!(done.code, Some(1), "{arguments:?}: {}", done.stderr);
            assert!(done.stderr.starts_with("error: cannot write "), "{arguments:?}: {}", done.stderr);
            assert!(done.stderr.contains(why), "{arguments:?}: {}", done.stderr);
        }
    }
}

/// A limit on the size of files does what a full disk does.
#[test]
fn a_file_that_cannot_be_written_whole_leaves_nothing() {
    for name in ["o.csv", "o.csv.gz", "o.jsonl.zst"] {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("full-{name}"));
        fs::create_dir_all(&directory).expect("it can be made");
        let sql = format!(
            "CREATE TABLE g (s STRING) WITH ('connector' = 'generator', 'number-of-rows' = '20000');
             CREATE TABLE o (s STRING) WITH ('connector' = 'file', 'path' = '{}');
             INSERT INTO o SELECT s FROM g",
            directory.join(name).display()
        );
        let shell = "trap '' XFSZ; ulimit -f 16; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", shell, "sh", env!("CARGO_BIN_EXE_thalweg"), "run", "-q", "-c", &sql]);
        let done: Done = command.output().expect("the command starts").into();
        assert_eq!(done.code, Some(1), "{name}: {}", done.stderr);
        assert!(done.stderr.contains("cannot write ") && done.stderr.contains(name), "{}", done.stderr);
        assert_eq!(fs::read_dir(&directory).expect("it is there").count(), 0, "{name}");
    }
}
