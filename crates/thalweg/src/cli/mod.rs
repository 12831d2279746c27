//! The command line: what was asked, done, with its end told to the person and, as an exit code, to the shell.
//!
//! * `arguments`: what may be asked
//! * `script`: where SQL comes from
//! * `run`, `explain`, `completions`: what is done
//! * `output`: rows on standard output
//! * `placing`: how queries are divided
//! * `screen`: words on standard error
//! * `status`, `summary`: how a query is doing, and how it did
//! * `interrupt`: what Ctrl-C does

mod arguments;
mod completions;
mod explain;
mod interrupt;
mod output;
mod placing;
mod run;
mod screen;
mod script;
mod status;
mod summary;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::Arc,
};

use clap::Parser;
use thalweg_core::{Error, error::Fault};
use tracing_subscriber::EnvFilter;

use arguments::{Arguments, Task};
use screen::{LogWriter, Screen};

/// The variable that says what is logged.
const LOG: &str = "THALWEG_LOG";

/// How a task ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// All was done.
    Done,
    /// Whoever read the rows has left; nothing more is wanted.
    Unread,
    /// A person stopped it.
    Stopped,
}

/// How a task failed: what is said, and the exit code.
struct Failure {
    message: String,
    code: u8,
}

/// Does what the arguments ask for.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let screen = Arc::new(Screen::new());
    // A panic has said by itself where it happened.
    let done = catch_unwind(AssertUnwindSafe(|| start(arguments, &screen)));
    let ended = done.unwrap_or_else(|_| Err(Failure::from(Error::bug("the command came to a sudden end"))));
    match ended {
        Ok(Ending::Done | Ending::Unread) => ExitCode::SUCCESS,
        Ok(Ending::Stopped) => ExitCode::from(interrupt::CODE),
        Err(failure) => {
            screen.say(&screen.error(&failure.message));
            ExitCode::from(failure.code)
        }
    }
}

fn start(arguments: Arguments, screen: &Arc<Screen>) -> Result<Ending, Failure> {
    log_to(screen)?;
    match arguments.task {
        Task::Run(run) => run::run(&run, screen),
        Task::Explain(explain) => explain::explain(&explain, screen),
        Task::Completions { shell } => completions::completions(shell),
    }
}

fn log_to(screen: &Arc<Screen>) -> Result<(), Failure> {
    let said = std::env::var(LOG).unwrap_or_default();
    let said = if said.is_empty() { "warn" } else { &said };
    let filter = EnvFilter::try_new(said).map_err(|error| {
        Error::query(format!("the variable {LOG} is '{said}': {error}"))
            .with_hint("levels are error, warn, info, debug and trace, for all or for a part: thalweg_runtime=debug")
    })?;
    let screen = Arc::clone(screen);
    let has_colour = screen.has_colour();
    let writer = move || LogWriter(Arc::clone(&screen));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(has_colour).init();
    Ok(())
}

impl From<Error> for Failure {
    /// The failure of something that has no place in a script.
    fn from(error: Error) -> Self {
        Self { message: thalweg::caret("", &error), code: code(error.fault()) }
            .with_what_to_do_about_bugs(error.fault())
    }
}

impl Failure {
    fn with_what_to_do_about_bugs(mut self, fault: Fault) -> Self {
        if fault == Fault::Bug {
            self.message += "\nhint: this is a mistake in Thalweg, not in the query; please report it with the query";
        }
        self
    }
}

/// The exit code, by whose fault it was.
fn code(fault: Fault) -> u8 {
    match fault {
        Fault::Data | Fault::Environment => 1,
        Fault::Query => 2,
        Fault::Bug => 70,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_whose_fault_it_was() {
        let failure = Failure::from(Error::environment("the disk is full").with_hint("delete something"));
        assert_eq!((failure.message.as_str(), failure.code), ("the disk is full\nhint: delete something", 1));
        assert_eq!([Fault::Data, Fault::Query, Fault::Bug].map(code), [1, 2, 70]);
        assert!(Failure::from(Error::bug("what")).message.contains("please report it"));
    }
}
