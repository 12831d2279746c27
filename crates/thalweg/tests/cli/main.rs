//! The command as a shell sees it: exit codes, what is on standard output, and what is on standard error.

mod ending;
mod explain;
mod input;
mod mistakes;
mod output;
mod parallel;

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

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
