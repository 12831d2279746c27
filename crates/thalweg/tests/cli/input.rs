//! Where SQL comes from, and standard input, which may be the script or a table.

use super::{check, check_stderr, file, thalweg_with_input};

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
fn rows_that_are_skipped_for_want_of_an_event_time_stay_out_of_windows_and_joins() {
    let path = file("no-event-time.csv", "t,v\n1000,1\n-1,2\n2000,4\n-1,8\n3000,16\n");
    let table = |name: &str| {
        format!(
            "CREATE TABLE {name} (t BIGINT, v BIGINT, ts AS CASE WHEN t >= 0 THEN to_timestamp_millis(t) END, WATERMARK FOR ts AS ts) \
             WITH ('connector' = 'file', 'path' = '{path}', 'bad.rows' = 'skip');"
        )
    };
    let over =
        "SELECT t, sum(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW) AS x FROM s";
    let grouped = "SELECT a.t, sum(b.v) AS x FROM s a JOIN r b ON a.v = b.v AND b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts \
                GROUP BY a.t, a.ts";
    let join =
        "SELECT a.t, b.v AS x FROM s a JOIN r b ON a.v = b.v AND b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts";
    let each = "1000,1\n2000,4\n3000,16\n";
    for instances in [1, 2] {
        for (query, rows) in [(over, "1000,1\n2000,5\n3000,20\n"), (grouped, each), (join, each)] {
            let script = format!("SET 'parallelism' = {instances}; {} {} {query}", table("s"), table("r"));
            check(&["-o", "csv", "-c", &script], &format!("t,x\n{rows}"));
        }
    }
}
