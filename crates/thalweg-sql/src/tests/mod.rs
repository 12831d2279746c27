//! Plans, refusals and answers, as text.

mod answers;
mod declarations;
mod fuzz;
mod grouped;
mod joins;
mod over;
mod plans;
mod refusals;
mod unions;
mod windows;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use thalweg_core::{
    Error, Result,
    connector::{Connector, Host, Reader, Source, TableDefinition},
};
use thalweg_plan::{Plan, render};

use crate::{Outcome, Session, caret};

/// A connector that is bounded or not, and has the columns `origin`, `delay` and `ts` where none are declared.
struct Fake {
    name: &'static str,
    is_bounded: bool,
}

struct FakeSource {
    is_bounded: bool,
    partitions: Vec<String>,
}

impl Connector for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer(&self, table: &TableDefinition) -> Result<SchemaRef> {
        assert!(table.columns.fields().is_empty(), "nothing is inferred where columns are declared");
        Ok(Arc::new(Schema::new(vec![
            Field::new("origin", DataType::Utf8, true),
            Field::new("delay", DataType::Int64, true),
            Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        ])))
    }

    fn source(&self, table: &TableDefinition) -> Result<Box<dyn Source>> {
        table.options.check(&["connector", "format", "path"])?;
        Ok(Box::new(FakeSource { is_bounded: self.is_bounded, partitions: vec!["a".into(), "b".into()] }))
    }
}

impl Source for FakeSource {
    fn partitions(&self) -> &[String] {
        &self.partitions
    }

    fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    fn open(&self, _: usize, _: Host) -> Result<Box<dyn Reader>> {
        Err(Error::bug("nothing is read when queries are planned"))
    }
}

/// A stream `s` and a file `f` of departures, a stream `z` with instants, and a sink `out`.
const TABLES: &str = "
    CREATE TABLE s (origin STRING, dest STRING, delay INT, fare DOUBLE, ts TIMESTAMP(3),
                    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'stream');
    CREATE TABLE f (origin STRING, dest STRING, delay INT, fare DOUBLE, ts TIMESTAMP(3),
                    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'file');
    CREATE TABLE z (k INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at) WITH ('connector' = 'stream');
    CREATE TABLE out (origin STRING, n BIGINT) WITH ('connector' = 'file');";

fn empty_session() -> Session {
    let mut session = Session::new(vec![
        Arc::new(Fake { name: "stream", is_bounded: false }),
        Arc::new(Fake { name: "file", is_bounded: true }),
    ]);
    session.settings_mut().parallelism = 1;
    session
}

fn session() -> Session {
    let mut session = empty_session();
    run(&mut session, TABLES).unwrap();
    session
}

/// What came of the last statement of a script.
fn run(session: &mut Session, script: &str) -> Result<Outcome> {
    let mut last = Outcome::Done;
    for statement in session.parse(script)? {
        last = session.execute(&statement)?;
    }
    Ok(last)
}

fn plan_in(session: &mut Session, script: &str) -> Plan {
    match run(session, script) {
        Ok(Outcome::Plan(plan) | Outcome::Explain(plan, _)) => plan,
        Ok(other) => panic!("{script}: {other:?}"),
        Err(error) => panic!("{script}\n{}", caret(script, &error)),
    }
}

/// The plan of a script's last statement, without where it runs.
fn plan_text(script: &str) -> String {
    tree(&plan_in(&mut session(), script))
}

fn tree(plan: &Plan) -> String {
    let text = render::text(plan, &render::Notes::default());
    let lines = text.lines().map(|line| line.split("  [subquery").next().unwrap_or(line).trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

/// Holds plans against what is expected. Cases are separated by blank lines: the script on one line, then its plan.
#[track_caller]
fn check(cases: &str) {
    for case in cases.trim().split("\n\n") {
        let (script, expected) = case.split_once('\n').expect("a script and its plan");
        assert_eq!(plan_text(script), expected, "\n{script}");
    }
}

/// The text under the caret.
fn marked(script: &str, error: &Error) -> String {
    let Some(span) = error.span() else { return "nowhere".to_string() };
    let line = script.lines().nth(span.line - 1).unwrap_or_default();
    line.chars().skip(span.column - 1).take(span.width).collect()
}

/// What is said of a script that is refused: the marked text, the message, and what to do.
fn refusal(script: &str) -> String {
    let error = match run(&mut session(), script) {
        Err(error) => error,
        Ok(outcome) => panic!("{script} is not refused: {outcome:?}"),
    };
    let hint = error.hint().map(|hint| format!("\n    {hint}")).unwrap_or_default();
    format!("  [{}] {}{hint}", marked(script, &error), error.message())
}

/// Holds refusals against what is expected. Cases are separated by blank lines: the script on one line, then the text that
/// is marked, the message, and on a line of its own the hint.
#[track_caller]
fn refuses(cases: &str) {
    let mut wrong = String::new();
    for case in cases.trim().split("\n\n") {
        let (script, expected) = case.split_once('\n').expect("a script and its refusal");
        let said = refusal(script);
        if said != expected {
            wrong += &format!("{script}\n{said}\n\n");
        }
    }
    assert!(wrong.is_empty(), "these are refused otherwise:\n{wrong}");
}
