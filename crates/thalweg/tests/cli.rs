//! The command as a shell sees it: exit codes, what is on standard output, and what is on standard error.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use thalweg_plan::parallel::deployment::Deployment;

/// Rows without end, a thousand a second, in windows that come out after half a second.
const ENDLESS: &str = "
    CREATE TABLE clicks (ts TIMESTAMP(3), page STRING, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
    WITH ('connector' = 'generator', 'rows-per-second' = '1000', 'fields.ts.start' = '2020-01-01T00:00:00Z',
          'fields.ts.step' = '10 ms', 'fields.page.kind' = 'choice', 'fields.page.values' = 'home,news');
    SELECT window_start, page, count(*) AS n FROM TUMBLE(clicks, ts, INTERVAL '4' SECOND)
    GROUP BY window_start, window_end, page";

/// Rows without end, as fast as they are taken.
const NUMBERS: &str = "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'generator', 'fields.n.kind' = 'sequence');";

/// What a command did.
struct Done {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the command writes UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments).env_remove("THALWEG_LOG").current_dir(env!("CARGO_TARGET_TMPDIR"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs to the end.
fn thalweg(arguments: &[&str]) -> Done {
    command(arguments).output().expect("the command starts").into()
}

/// Runs to the end with text on standard input.
fn thalweg_with_input(arguments: &[&str], input: &str) -> Done {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().expect("the command starts");
    child.stdin.take().expect("it is a pipe").write_all(input.as_bytes()).expect("the command reads");
    child.wait_with_output().expect("the command ends").into()
}

/// Runs without a summary; what comes out must be all there is.
#[track_caller]
fn check(arguments: &[&str], stdout: &str) {
    let done = thalweg(&[&["run", "--quiet"], arguments].concat());
    assert_eq!((done.stdout.as_str(), done.stderr.as_str(), done.code), (stdout, "", Some(0)));
}

#[track_caller]
fn check_stderr(arguments: &[&str], code: i32, stderr: &str) {
    let done = thalweg(arguments);
    assert_eq!((done.stderr.as_str(), done.code), (stderr, Some(code)));
}

/// Writes a file in the directory where commands run.
fn file(name: &str, content: impl AsRef<[u8]>) -> &str {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(path, content).expect("the directory for tests can be written to");
    name
}

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
fn help_tells_of_examples_and_exit_codes() {
    for arguments in [&["--help"][..], &["run", "--help"]] {
        let help = thalweg(arguments);
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
        for word in ["Examples:", "Exit codes:", "130", "THALWEG_LOG", "thalweg explain departures.sql"] {
            assert!(help.stdout.contains(word), "{word} is not in\n{}", help.stdout);
        }
    }
    assert_eq!(thalweg(&["--version"]).stdout, format!("thalweg {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_arguments_are_an_error_with_usage() {
    let wrong =
        [&["run", "--nonsense"][..], &["nonsense"], &["run", "-o", "xml"], &["explain", "--json", "--dot"], &[]];
    for arguments in wrong {
        let done = thalweg(arguments);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(done.stderr.contains("--help"), "{}", done.stderr);
    }
}

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

#[test]
fn sql_is_read_from_standard_input() {
    for arguments in [&["run", "-q"][..], &["run", "-q", "-"]] {
        let done = thalweg_with_input(arguments, "SELECT 1 AS a");
        assert_eq!((done.stdout.as_str(), done.stderr.as_str(), done.code), ("{\"a\":1}\n", "", Some(0)));
    }
}

#[test]
fn standard_input_is_either_the_script_or_a_table() {
    let sql = "CREATE TABLE t (a INT) WITH ('connector' = 'stdin', 'format' = 'csv');\nSELECT a * 2 AS b FROM t";
    let rows = thalweg_with_input(&["run", "-q", "-c", sql], "1\n2\n");
    assert_eq!((rows.stdout.as_str(), rows.stderr.as_str()), ("{\"b\":2}\n{\"b\":4}\n", ""));
    let script = thalweg_with_input(&["run", "-"], sql);
    let message = "error: table \"t\": standard input holds the script\n  --> standard input:2:24\n  \
                   2 | SELECT a * 2 AS b FROM t\n    |                        ^\n\
                   hint: read the script or the table from a file\n";
    assert_eq!((script.stderr.as_str(), script.code), (message, Some(2)));
}

#[test]
fn standard_input_is_read_once_for_all_that_a_query_names_it_for() {
    let table = |columns: &str| {
        format!("CREATE TABLE t ({columns}) WITH ('connector' = 'stdin', 'format' = 'csv', 'bounded' = 'true'); ")
    };
    let twice = format!("{}SELECT a FROM t UNION ALL SELECT -a FROM t WHERE a > 1", table("a INT"));
    let done = thalweg_with_input(&["run", "-q", "-c", &twice], "1\n2\n");
    let mut rows: Vec<_> = done.stdout.lines().collect();
    rows.sort_unstable();
    assert_eq!((rows, done.stderr.as_str()), (vec!["{\"a\":-2}", "{\"a\":1}", "{\"a\":2}"], ""));

    let pairs =
        "SELECT a.v, b.v AS before FROM t a JOIN t b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '2' SECOND AND a.ts";
    let pairs = format!("{}{pairs}", table("k INT, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts"));
    let rows: String = (0..4).map(|i| format!("{},{i},1970-01-01 00:00:0{i}\n", i % 2)).collect();
    let done = thalweg_with_input(&["run", "-q", "-o", "csv", "-c", &pairs], &rows);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("v,before\n0,0\n1,1\n2,0\n2,2\n3,1\n3,3\n", ""));
}

#[test]
fn standard_input_is_read_by_one_query() {
    let table = "CREATE TABLE t (a INT) WITH ('connector' = 'stdin', 'format' = 'csv', 'bounded' = 'true'); ";
    let hint = "hint: write what comes to a file first: 'connector' = 'file' is read as often as wanted\n";
    let done = thalweg_with_input(&["run", "-q", "-c", &format!("{table}SELECT a FROM t; SELECT a FROM t")], "1\n");
    assert_eq!((done.stdout.as_str(), done.code), ("{\"a\":1}\n", Some(2)), "{}", done.stderr);
    let message = "error: table \"t\": standard input can be read once, and was for table \"t\" already";
    assert!(done.stderr.starts_with(message) && done.stderr.ends_with(hint), "{}", done.stderr);
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

#[test]
fn errors_say_what_where_and_what_to_do() {
    let script = file("wrong.sql", "SELECT 1 AS a;\nSELECT speeed FROM (VALUES (1)) AS t (speed);\n");
    check_stderr(
        &["run", "--quiet", script],
        2,
        "error: column \"speeed\" not found\n  --> wrong.sql:2:8\n  2 | SELECT speeed FROM (VALUES (1)) AS t (speed);\n    \
         |        ^^^^^^\nhint: did you mean \"speed\"?\n",
    );
}

#[test]
fn errors_of_a_running_query_stand_under_the_expression() {
    let sql = "CREATE TABLE t (a BIGINT) WITH ('connector' = 'generator', 'fields.a.kind' = 'sequence');\n\
               SELECT a,\n       10 / (a - 7) AS q\nFROM t";
    let done = thalweg(&["run", "-q", "-c", sql]);
    let message = "error: division by zero in 10 / (a - 7) (in Map 1)\n  --> -c:3:8\n  3 |        10 / (a - 7) AS q\n    \
                   |        ^^^^^^^^^^^^\nhint: NULLIF(divisor, 0) gives null where the divisor is zero\n";
    assert_eq!((done.stderr.as_str(), done.code), (message, Some(1)));
}

#[test]
fn mistakes_that_are_alike_have_the_same_exit_code() {
    let table = |options: &str| format!("CREATE TABLE t (a BIGINT) WITH ('connector' = {options})");
    let missing = table("'file', 'path' = 'nowhere.csv'");
    for sql in [
        table("'file', 'path' = 'nowhere.csv', 'compression' = 'lzma'"),
        format!("{missing}; SELECT a FROM t"),
        "CREATE TABLE t (a BIGINT) WITH ('connector' = 'file', 'path' = 'nowhere/a.csv'); INSERT INTO t VALUES (1)"
            .into(),
        "CREATE TABLE t WITH ('connector' = 'file', 'path' = 'nowhere*.csv')".into(),
        "SELECT 1 / 0".into(),
        "SELECT CAST('x' AS INT)".into(),
    ] {
        let done = thalweg(&["run", "-q", "-c", &sql]);
        assert_eq!(done.code, Some(2), "{sql}\n{}", done.stderr);
    }
}

#[test]
fn nothing_runs_if_there_is_a_mistake_in_the_syntax_anywhere() {
    let done = thalweg(&["run", "-c", "SELECT 1 AS a", "-c", "SELECT 1; SELEC 2"]);
    assert_eq!((done.stdout.as_str(), done.code), ("", Some(2)));
    assert!(
        done.stderr.contains("\n  --> -c:1:11\n  1 | SELECT 1; SELEC 2\n    |           ^^^^^\n"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_bad_row_ends_the_query_and_is_shown() {
    file("bad.csv", "a\n1\n2\nx\n");
    let sql =
        "CREATE TABLE t (a INT) WITH ('connector' = 'file', 'path' = 'bad.csv', 'format' = 'csv');\nSELECT a FROM t";
    let done = thalweg(&["run", "-c", sql]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    for word in ["error: ", "bad.csv", "line 4", "\"a\"", "\"x\"", "\n  --> -c:2:15\n", "\nhint: "] {
        assert!(done.stderr.contains(word), "{word} is not in\n{}", done.stderr);
    }
}

#[test]
fn files_that_are_no_scripts_are_refused() {
    check_stderr(
        &["run", "nowhere.sql"],
        2,
        "error: no such file: nowhere.sql\nhint: a path is relative to the directory in which thalweg was started\n",
    );
    check_stderr(
        &["run", "SELECT 1"],
        2,
        "error: no such file: SELECT 1\nhint: to run SQL that is not in a file, use -c \"SELECT 1\"\n",
    );
    check_stderr(&["run", "."], 2, "error: . is a directory\nhint: name a file of SQL in it\n");
    check_stderr(
        &["run", file("bytes.sql", b"SELECT 1;\n\xff\xfe")],
        2,
        "error: bytes.sql is not text in UTF-8: see line 2\n\
         hint: save it as UTF-8, or check that it is the right file\n",
    );
}

#[test]
fn an_empty_script_does_nothing_and_says_so() {
    check_stderr(&["run", file("empty.sql", " -- nothing\n;\n")], 0, "note: no statement in empty.sql\n");
    check_stderr(&["run"], 0, "note: no statement in standard input\n");
}

#[test]
fn plans_are_explained_and_nothing_is_run() {
    let sql = format!("{NUMBERS} SELECT n FROM numbers WHERE n > 5");
    let text = thalweg(&["explain", "-c", &sql]);
    assert!(text.stdout.starts_with("Sink result"), "{}", text.stdout);
    assert!(text.stdout.contains("Source numbers (generator, 1 partition)"), "{}", text.stdout);
    assert!(thalweg(&["explain", "--json", "-c", &sql]).stdout.starts_with("{\n"));
    assert!(thalweg(&["explain", "--dot", "-c", &sql]).stdout.starts_with("digraph plan {\n"));
    check(
        &["-c", "EXPLAIN SELECT 1 AS a"],
        "{\"plan\":\"Sink result  [subquery 0 × 1]\"}\n{\"plan\":\"└─ Values 1 rows  [subquery 0 × 1]\"}\n",
    );
    let nothing = "error: nothing to explain\nhint: only SELECT and INSERT have a plan\n";
    check_stderr(&["explain", "-c", NUMBERS], 2, nothing);
}

#[test]
fn minima_over_a_few_rows_follow_their_windows() {
    let sql = "CREATE TABLE g (k BIGINT, v BIGINT, ts AS to_timestamp_seconds(k), WATERMARK FOR ts AS ts) WITH ('connector' = 'generator', \
               'number-of-rows' = '1000', 'fields.k.kind' = 'sequence'); \
               SELECT min(v) OVER w FROM g WINDOW w AS (PARTITION BY k % 3 ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)";
    let ran = thalweg(&["explain", "--analyze", "--json", "--parallelism", "1", "-c", sql]).stdout;
    let ran: serde_json::Value = serde_json::from_str(&ran).unwrap();
    let over = ran["ran"].as_object().unwrap().iter().find(|(node, _)| node.starts_with("Over")).unwrap().1;
    assert!(over["results_from"]["sliding"].as_u64() > Some(900), "{over}");
}

#[test]
fn a_plan_says_where_joins_find_the_partners_of_a_row() {
    let table = |name: &str| {
        format!(
            "CREATE TABLE {name} (k BIGINT, ts AS to_timestamp_seconds(k), WATERMARK FOR ts AS ts) WITH ('connector' = 'generator', \
             'number-of-rows' = '10', 'fields.k.kind' = 'sequence');"
        )
    };
    let join = format!("{}{} SELECT a.ts FROM a JOIN b ON a.k = b.k AND a.ts = b.ts", table("a"), table("b"));
    let ways = [
        ("", "", "sorted rows"),
        ("", " EMIT EAGER", "runs"),
        ("SET 'join.index' = 'runs'; ", " EMIT EAGER", "runs"),
        ("SET 'join.index' = 'skip-list'; ", " EMIT EAGER", "skip-list"),
    ];
    for (settings, emission, from) in ways {
        let sql = format!("{settings}{join}{emission}");
        let text = thalweg(&["explain", "-c", &sql]).stdout;
        let line = text.lines().find(|line| line.contains("IntervalJoin")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.ends_with(&format!(", partners from {from}]")), "{line}");
        for shown in [&["--parallel"][..], &["--dot"], &["--parallel", "--dot"]] {
            let text = thalweg(&[&["explain", "-c", &sql], shown].concat()).stdout;
            assert!(text.contains(&format!("[partners from {from}]")), "{text}");
        }
        let json: serde_json::Value =
            serde_json::from_str(&thalweg(&["explain", "--json", "-c", &sql]).stdout).unwrap();
        let joins: Vec<_> =
            json["nodes"].as_array().unwrap().iter().filter(|node| !node["partners_from"].is_null()).collect();
        assert_eq!((joins.len(), &joins[0]["partners_from"]), (1, &serde_json::json!(from)));
    }
    let wrong = thalweg(&["run", "-c", &format!("SET 'join.index' = 'tree'; {join}")]);
    assert!(wrong.stderr.contains("'auto', 'runs' or 'skip-list'"), "{}", wrong.stderr);
}

#[test]
fn a_plan_says_how_aggregates_get_at_the_rows_around_a_row() {
    let sql = "CREATE TABLE g (k BIGINT, v BIGINT, ts AS to_timestamp_seconds(k), WATERMARK FOR ts AS ts) WITH ('connector' = 'generator', \
               'number-of-rows' = '10', 'fields.k.kind' = 'sequence'); \
               SELECT sum(v) OVER w, min(v) OVER w, count(*) OVER w, median(v) OVER w, lag(v) OVER w, approx_distinct(v) OVER w, \
                      sum(v) OVER few \
               FROM g WINDOW w AS (PARTITION BY k % 3 ORDER BY ts RANGE BETWEEN INTERVAL '9' SECOND PRECEDING AND CURRENT ROW), \
               few AS (PARTITION BY k % 3 ORDER BY ts ROWS_RANGE BETWEEN 9s PRECEDING AND CURRENT ROW MAXSIZE 5 EXCLUDE CURRENT_TIME)";
    let text = thalweg(&["explain", "-c", sql]).stdout;
    let over = text.lines().find(|line| line.contains("Over by")).unwrap_or_else(|| panic!("{text}"));
    let found: Vec<&str> = over[over.find("kernels").unwrap()..].trim_end_matches(']').split("; ").skip(1).collect();
    let expected = [
        "sum(v), count(*), sum(v):2 from running totals",
        "min(v), median(v) from sliding or all rows, by cost",
        "approx_distinct(v) from blocks or all rows, by cost",
        "nth_value(v, -2 ORDER BY ts) from one row",
    ];
    assert_eq!(found, expected);
    let json: serde_json::Value = serde_json::from_str(&thalweg(&["explain", "--json", "-c", sql]).stdout).unwrap();
    let nodes = json["nodes"].as_array().unwrap();
    let over = nodes.iter().find(|node| node["node"] == "Over").unwrap();
    assert_eq!(over["aggregates_from"], serde_json::json!(expected));
    // Where all are totals over a span of time, and nobody looks before the watermark has passed.
    let totals = &sql
        .replace("min(v) OVER w, ", "")
        .replace("median(v) OVER w, lag(v) OVER w, approx_distinct(v) OVER w, sum(v) OVER few", "avg(v) OVER w");
    for (emission, expected) in [("", "sorting or running totals, by cost"), (" EMIT EAGER", "running totals")] {
        let text = thalweg(&["explain", "-c", &format!("{totals}{emission}")]).stdout;
        assert!(text.contains(&format!("sum(v), count(*), avg(v) from {expected}]")), "{text}");
    }
}

/// A query of two aggregates, of which the second has other keys.
const CASCADE: &str = "SET 'merge' = 'arrival'; SET 'parallelism' = '8';
    CREATE TABLE g (k BIGINT) WITH ('connector' = 'generator', 'number-of-rows' = '1000', 'fields.k.kind' = 'sequence');
    SELECT n, count(*) AS m FROM (SELECT k % 10 AS k, count(*) AS n FROM g GROUP BY k % 10) GROUP BY n";

fn parallel(arguments: &[&str]) -> serde_json::Value {
    let all = [&["explain", "--json"], arguments, &["-c", CASCADE]].concat();
    let done = thalweg(&all);
    // Costs that are measured place these aggregates otherwise than they were.
    let is_otherwise = done.stderr.starts_with("it ran otherwise than it is shown");
    assert_eq!((done.code, is_otherwise), (Some(0), arguments.contains(&"--analyze")), "{}", done.stderr);
    serde_json::from_str(&done.stdout).expect("it is JSON")
}

fn instances(plan: &serde_json::Value) -> Vec<u64> {
    plan["subqueries"].as_array().unwrap().iter().map(|subquery| subquery["instances"].as_u64().unwrap()).collect()
}

#[test]
fn the_parallel_plan_is_explained_in_every_format() {
    let text = thalweg(&["explain", "--parallel", "-c", CASCADE]).stdout;
    assert!(text.starts_with("subquery-cluster, parallelism 8, "), "{text}");
    assert!(
        text.contains("0 dealt in turn\n          Partial by k % 10 compute count(*)  [kernels and DataFusion]\n"),
        "{text}"
    );
    assert!(text.contains("1 by key k % 10, 128 key groups; merged by arrival\n"), "{text}");
    assert!(text.contains("          Partial by count(*) compute count(*)  [kernels]\n"), "{text}");
    assert!(text.contains("2 by key n, 128 key groups; merged by arrival\n"), "{text}");
    assert!(text.contains("3 all to one; merged by arrival\n          Sink result\n"), "{text}");
    let dot = thalweg(&["explain", "--parallel", "--dot", "-c", CASCADE]).stdout;
    assert!(dot.starts_with("digraph parallel {\n") && dot.contains("  s2 -> s3 [label=\"by key n, 128"), "{dot}");
    let slack = CASCADE.replace("'arrival'", "'slack'; SET 'merge.slack' = '250 ms'");
    let text = thalweg(&["explain", "--parallel", "-c", &slack]).stdout;
    assert!(text.contains("3 all to one; merged in order within a slack of 250 ms\n          Sink result\n"), "{text}");
    let dot = thalweg(&["explain", "--parallel", "--dot", "-c", &slack]).stdout;
    assert!(dot.contains("  s3 -> s4 [label=\"all to one; ordered within a slack of 250 ms\"];"), "{dot}");
    for format in [&["explain", "--parallel", "--json", "-c", &slack][..], &["explain", "--json", "-c", &slack]] {
        let json: serde_json::Value = serde_json::from_str(&thalweg(format).stdout).unwrap();
        let input = &json["subqueries"][4]["inputs"][0];
        assert_eq!((&input["merge"], &input["slack"]), (&"slack".into(), &"250 ms".into()), "{input}");
    }
    let json = parallel(&["--parallel"]);
    assert_eq!((json["strategy"].as_str(), instances(&json)), (Some("subquery-cluster"), vec![1, 8, 8, 8, 1]));
    let deployed = Deployment::parse(&json["deployment"]).unwrap();
    assert_eq!(deployed.json(), json["deployment"]);
    let placed: Vec<_> = deployed.placements.iter().map(|p| (p.subquery.0, p.instances, p.host.as_str())).collect();
    assert_eq!(placed, [(0, 1, "local"), (1, 8, "local"), (2, 8, "local"), (3, 8, "local"), (4, 1, "local")]);
    let each = parallel(&["--parallel", "--strategy", "operator-cluster"]);
    assert_eq!(each["strategy"], "operator-cluster");
    assert!(instances(&each).len() > 4, "{each}");
}

#[test]
fn parallelism_is_an_option_and_a_setting() {
    let keyed =
        "CREATE TABLE s (k INT) WITH ('connector' = 'generator', 'number-of-rows' = '1000', 'partitions' = '4');
                 SELECT k, count(DISTINCT k) AS n FROM s GROUP BY k";
    let plan = |arguments: &[&str], set: &str| {
        let sql = format!("{set} {keyed}");
        let done = thalweg(&[&["explain", "--parallel", "--json"], arguments, &["-c", &sql]].concat());
        let json: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        (json["parallelism"].as_u64().unwrap(), instances(&json))
    };
    let [three, four, cores] =
        [plan(&["--parallelism", "3"], ""), plan(&[], "SET 'parallelism' = '4';"), plan(&[], "")];
    assert_eq!((three, &four), ((3, vec![3, 3, 1]), &(4, vec![4, 4, 1])));
    assert_eq!(plan(&["--parallelism", "3"], "SET 'parallelism' = '4';"), four, "what the script says comes later");
    for reset in ["RESET 'parallelism';", "RESET;"] {
        assert_eq!(plan(&[], &format!("SET 'parallelism' = '4'; {reset}")), cores, "as if it had not been set");
    }
    for wrong in ["0", "1025", "many"] {
        let done = thalweg(&["run", "--parallelism", wrong, "-c", keyed]);
        assert!(done.code == Some(2) && done.stderr.contains("'--parallelism <N>'"), "{}", done.stderr);
    }
}

#[test]
fn what_is_measured_is_added_to_what_was() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("costs-of-two.json");
    let path = path.to_str().unwrap();
    fs::remove_file(path).ok();
    let sql = ["SELECT 1 AS a", "SELECT 2 AS b"];
    for one in sql {
        assert_eq!(thalweg(&["explain", "--analyze", "--costs", path, "-c", one]).code, Some(0));
    }
    check(&["--costs", path, "-o", "csv", "-c", &sql.join(";")], "a\n1\nb\n2\n");
    let foreign = file("no-costs.json", "[1]");
    let done = thalweg(&["explain", "--analyze", "--costs", foreign, "-c", sql[0]]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(foreign);
    assert_eq!(fs::read_to_string(kept).unwrap(), "[1]", "what is something else is not written over");
}

#[test]
fn explain_analyze_tells_how_nodes_with_a_state_did() {
    let sql = "SET 'parallelism' = 2;
        CREATE TABLE s (ts TIMESTAMP, k BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'generator', 'number-of-rows' = '1000',
            'fields.ts.step' = '1 s', 'fields.k.min' = '0', 'fields.k.max' = '9');
        SELECT a.k FROM s a JOIN s b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '20' SECOND AND a.ts;
        SELECT count(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '20' SECOND PRECEDING AND CURRENT ROW) AS n FROM s";
    let told = thalweg(&["explain", "--analyze", "-c", sql]).stdout;
    let head = "state at most  unbalancedness  owners at most  rows found  visited for each";
    assert_eq!(told.matches(head).count(), 2, "{told}");
    let json = thalweg(&["explain", "--analyze", "--json", "-c", sql]).stdout;
    let plans = serde_json::Deserializer::from_str(&json).into_iter::<serde_json::Value>();
    let ran = plans.map(|plan| plan.unwrap()["ran"].as_object().unwrap().clone()).collect::<Vec<_>>();
    let of = |ran: &serde_json::Map<String, serde_json::Value>, label: &str| {
        ran.iter().find(|(name, _)| name.starts_with(label)).unwrap_or_else(|| panic!("{json}")).1.clone()
    };
    let (join, over) = (of(&ran[0], "IntervalJoin"), of(&ran[1], "Over"));
    let pairs = thalweg(&["run", "-q", "-c", sql]).stdout.lines().count();
    assert!(pairs > 3000, "{pairs}");
    for node in [&join, &over] {
        assert!(node["most_state_bytes"].as_u64() > Some(1000), "{node}");
        assert!(node["most_owners"].as_u64() >= Some(1), "{node}");
        assert!(node["unbalancedness"].as_f64().is_some_and(|much| (0.0..=1.0).contains(&much)), "{node}");
    }
    // Each row finds itself and those before it, in the join as in the window.
    assert_eq!(join["rows_found"], over["rows_found"]);
    let [found, visited] = ["rows_found", "rows_visited"].map(|what| join[what].as_u64().unwrap());
    assert!((2000..4000).contains(&found) && visited >= found && visited < 3 * found, "{join}");
    assert_eq!(over["results_from"], serde_json::json!({ "sorting": 1000 }), "{over}");
    assert_eq!(join["results_from"], serde_json::json!({}), "{join}");
    let far_apart = sql
        .split(';')
        .take(2)
        .chain(["SELECT sum(power(10.0, k * 7 - 30)) OVER (PARTITION BY k % 2 ORDER BY ts) AS n FROM s"]);
    let json = thalweg(&["explain", "--analyze", "--json", "-c", &far_apart.collect::<Vec<_>>().join(";")]).stdout;
    let plan: serde_json::Value = serde_json::from_str(&json).unwrap();
    let sums = of(plan["ran"].as_object().unwrap(), "Over");
    assert!(sums["results_from"]["sliding"].as_u64() > Some(800), "{sums}");
    // Sums follow two ends, which pass each row, and once more those that rows to come may see.
    let visited = over["rows_visited"].as_u64().unwrap();
    assert!((1000..3000).contains(&visited), "{over}");
}

#[test]
fn costs_are_measured_and_divide_the_workers() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("costs.json");
    let path = path.to_str().unwrap();
    fs::remove_file(path).ok();
    let analyzed = parallel(&["--analyze", "--costs", path]);
    let (label, measured) =
        (&analyzed["subqueries"][1]["nodes"][0]["label"], &analyzed["subqueries"][1]["nodes"][0]["measured"]);
    assert_eq!((measured["rows_in"].as_u64(), measured["rows_out"].as_u64()), (Some(1000), Some(10)));
    assert!(measured["nanoseconds"].as_u64().unwrap() > 0);
    let mut file: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let plan = analyzed["deployment"]["plan"].as_str().unwrap();
    assert_eq!(&file["plans"][plan][label.as_str().unwrap()], measured);
    assert_eq!(parallel(&["--parallel", "--costs", path])["subqueries"][1]["costs"], "measured");
    // What is in the file decides: twice as much work before the exchange of the first aggregate as behind it.
    for (place, nanos) in [(1, 2_000_000_000_000_u64), (2, 1_000_000_000_000)] {
        let label = analyzed["subqueries"][place]["nodes"][0]["label"].as_str().unwrap();
        file["plans"][plan][label]["nanoseconds"] = nanos.into();
    }
    fs::write(path, file.to_string()).unwrap();
    assert_eq!(instances(&parallel(&["--parallel", "--costs", path])), [1, 5, 3, 1, 1]);
    assert_eq!(instances(&parallel(&["--parallel"])), [1, 8, 8, 8, 1]);
    let rows = |arguments: &[&str]| {
        let mut lines: Vec<_> = thalweg(&[&["run", "-q"], arguments, &["-c", CASCADE]].concat())
            .stdout
            .lines()
            .map(str::to_string)
            .collect();
        lines.sort();
        lines
    };
    assert!(!rows(&[]).is_empty());
    assert_eq!(rows(&["--costs", path]), rows(&[]));
    let first_row = "SET 'window.anchor' = 'first-row';
        CREATE TABLE s (ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'generator', 'number-of-rows' = '1000',
            'fields.ts.step' = '1 s');
        SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, INTERVAL '100' SECOND) GROUP BY window_start, window_end";
    let two_operators = thalweg(&["explain", "--analyze", "-c", first_row]).stdout;
    assert!(two_operators.contains(" ns/row, 1000 rows in, 10 out]\n"), "a node of two operators\n{two_operators}");
    assert_eq!(thalweg(&["explain", "--analyze", "-c", "SELECT 1 AS a"]).stderr, "");
    let union = "SET 'parallelism' = 2;
        CREATE TABLE s (k BIGINT) WITH ('connector' = 'generator', 'number-of-rows' = '100', 'fields.k.max' = '9', 'fields.k.min' = '0');
        SELECT k, count(*) AS n FROM (SELECT k FROM s UNION ALL SELECT k + 1 FROM s) WHERE abs(k) < 100 GROUP BY k";
    let spread = thalweg(&["explain", "--analyze", "-c", union]).stdout;
    let of_both = spread.matches(" ns/row, 200 rows in, ").count();
    assert_eq!((of_both, spread.matches(", 2 copies together]").count()), (of_both, of_both), "{spread}");
    assert!(of_both >= 2, "{spread}");
    let other = thalweg(&["run", "--costs", path, "-c", "SELECT 1 AS a"]);
    assert_eq!(other.code, Some(2));
    assert!(other.stderr.starts_with("error: the costs are those of another plan\n"), "{}", other.stderr);
    fs::write(path, "{}").unwrap();
    let hint = "hint: move the file away, and measure anew: thalweg explain --analyze --costs FILE\n";
    let wrong = format!("error: these are no costs of a plan: the version is null, expected 1 in {path}\n{hint}");
    check_stderr(&["run", "--costs", path, "-c", "SELECT 1 AS a"], 2, &wrong);
    let node = "{\"Map 1\": {\n\"rows_in\": 5,\n\"rows_out\": 5,\n\"nanoseconds\": 0}}";
    fs::write(path, format!("{{\"version\": 1, \"plans\": {{\"5c1f\": {node}}}}}")).unwrap();
    let what = "line 4: \"nanoseconds\" of \"Map 1\" is 0, expected a whole number from 1 on, since rows take time";
    let wrong = format!("error: these are no costs of a plan: {what} in {path}\n{hint}");
    check_stderr(&["run", "--costs", path, "-c", "SELECT 1 AS a"], 2, &wrong);
}

#[test]
fn shells_complete_the_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = thalweg(&["completions", shell]);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
        assert!(done.stdout.contains("completions") && done.stdout.contains("thalweg"), "{shell}");
    }
}

#[test]
fn the_log_is_quiet_until_asked() {
    let log = |filter| -> Done {
        let run = command(&["run", "-q", "-c", "SELECT 1 AS a"]).env("THALWEG_LOG", filter).output();
        run.expect("the command starts").into()
    };
    let told = log("info").stderr;
    let ended = told.lines().find(|line| line.contains(" ended ")).unwrap_or_default();
    assert!(
        told.contains("SELECT 1 AS a") && ended.contains(" rows_in=1 rows_out=1 late_rows=0 bad_rows=0 "),
        "{told}"
    );
    assert!(ended.contains(" elapsed=") && !told.contains('{'), "{told}");
    let wrong = log("a=b=c");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.starts_with("error: the variable THALWEG_LOG is 'a=b=c': "), "{}", wrong.stderr);
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
    interrupt(&child);
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
