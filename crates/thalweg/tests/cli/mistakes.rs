//! What is said of mistakes, and with which exit code.

use super::{check_stderr, file, thalweg};

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
