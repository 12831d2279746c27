//! Where SQL comes from, and where in it something is wrong.

use std::io::{self, ErrorKind, IsTerminal, Read};

use thalweg::{Engine, Statement, caret};
use thalweg_core::{Error, error::Span};

use super::{
    Failure,
    arguments::{self, Input},
    code,
    screen::Screen,
};

const STDIN: &str = "standard input";

/// SQL text, and what messages call the place that it comes from.
pub struct Script {
    name: String,
    text: String,
}

impl Script {
    /// The failure that an error in this script, at `place` unless the error knows better, is.
    pub fn failure(&self, error: &Error, place: Option<Span>) -> Failure {
        let whole = caret(&self.text, error);
        let (message, rest) = whole.split_at(error.to_string().len());
        let place = error.span().or(place);
        let place = place.map(|at| format!("\n  --> {}:{}:{}", self.name, at.line, at.column)).unwrap_or_default();
        let failure = Failure { message: format!("{message}{place}{rest}"), code: code(error.fault()) };
        failure.with_what_to_do_about_bugs(error.fault())
    }
}

/// All statements that were given, with their scripts. Syntax errors anywhere are found before anything runs.
pub fn statements(engine: &Engine, scripts: &[Script], screen: &Screen) -> Result<Vec<(usize, Statement)>, Failure> {
    let mut all = Vec::new();
    for (number, script) in scripts.iter().enumerate() {
        let parsed = engine.parse(&script.text).map_err(|error| script.failure(&error, None))?;
        if parsed.is_empty() {
            screen.say(&format!("note: no statement in {}", script.name));
        }
        all.extend(parsed.into_iter().map(|statement| (number, statement)));
    }
    Ok(all)
}

/// Reads what was given to a task; ends the process if nothing was.
pub fn read(input: &Input, task: &str) -> Result<Vec<Script>, Failure> {
    let is_nothing = input.file.is_none() && input.commands.is_empty();
    if is_nothing && io::stdin().is_terminal() {
        arguments::nothing_given(task);
    }
    let file = input.file.as_deref().or(is_nothing.then_some("-"));
    let mut scripts = Vec::new();
    match file {
        Some("-") => scripts.push(read_stdin()?),
        Some(path) => scripts.push(read_file(path)?),
        None => {}
    }
    scripts.extend(input.commands.iter().map(|sql| Script { name: "-c".to_string(), text: sql.clone() }));
    Ok(scripts)
}

fn read_stdin() -> Result<Script, Error> {
    thalweg_connectors::reserve_stdin("the script");
    let mut bytes = Vec::new();
    let read = io::stdin().read_to_end(&mut bytes);
    read.map_err(|error| Error::environment(format!("cannot read {STDIN}: {error}")))?;
    script(STDIN, bytes)
}

fn read_file(path: &str) -> Result<Script, Error> {
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::query(format!("no such file: {path}")).with_hint(match path.contains(' ') {
            true => format!("to run SQL that is not in a file, use -c \"{path}\""),
            false => "a path is relative to the directory in which thalweg was started".to_string(),
        }),
        ErrorKind::IsADirectory => Error::query(format!("{path} is a directory")).with_hint("name a file of SQL in it"),
        _ => Error::environment(format!("cannot read {path}: {error}")),
    })?;
    script(path, bytes)
}

fn script(name: &str, bytes: Vec<u8>) -> Result<Script, Error> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::query(format!("{name} is not text in UTF-8: see line {line}"))
            .with_hint("save it as UTF-8, or check that it is the right file")
    })?;
    // A byte order mark is no column.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_string();
    Ok(Script { name: name.to_string(), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_in_which_script_and_where() {
        let script = Script { name: "a.sql".into(), text: "SELECT 1;\nSELEC 2".into() };
        let error =
            Error::query("expected a statement").at(Span { line: 2, column: 1, width: 5 }).with_hint("try SELECT");
        let shown = "expected a statement\n  --> a.sql:2:1\n  2 | SELEC 2\n    | ^^^^^\nhint: try SELECT";
        let failure = script.failure(&error, None);
        assert_eq!((failure.message.as_str(), failure.code), (shown, 2));
    }

    #[test]
    fn errors_without_a_place_are_those_of_the_statement() {
        let script = Script { name: "-c".into(), text: "SELECT 1".into() };
        let at = Span { line: 1, column: 1, width: 6 };
        let failure = script.failure(&Error::data("a bad row").in_node("Map 2"), Some(at));
        assert_eq!((failure.message.as_str(), failure.code), ("a bad row (in Map 2)\n  --> -c:1:1", 1));
    }

    #[test]
    fn text_is_utf8_with_or_without_a_mark() {
        assert_eq!(script("a", b"\xef\xbb\xbfSELECT 1".to_vec()).unwrap().text, "SELECT 1");
        let error = script("a.sql", b"SELECT\n\xff".to_vec()).err().unwrap();
        assert_eq!(error.to_string(), "a.sql is not text in UTF-8: see line 2");
    }
}
