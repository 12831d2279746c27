//! `thalweg run`: statements one after the other, rows on standard output, the rest on standard error.

use std::sync::Arc;

use thalweg::{Engine, Metrics, Query, Statement, query::Kind};
use thalweg_core::{Progress, Result};

use super::{
    Ending, Failure,
    arguments::Run,
    interrupt::Interrupt,
    output::{self, Output},
    placing,
    screen::Screen,
    script,
    status::{Watch, Watched},
    summary::{left_open, summary},
};

/// Runs all that was given.
pub fn run(arguments: &Run, screen: &Arc<Screen>) -> std::result::Result<Ending, Failure> {
    let scripts = script::read(&arguments.input, "run")?;
    let interrupt = Interrupt::install(screen)?;
    let mut engine = Engine::new();
    placing::place(&mut engine, &arguments.parallel)?;
    let mut runner = Runner { engine, arguments, screen, interrupt, has_printed: false };
    for (number, statement) in script::statements(&runner.engine, &scripts, screen)? {
        let ended = runner.statement(&statement);
        match ended.map_err(|error| scripts[number].failure(&error, Some(statement.span())))? {
            Ending::Done => {}
            early => return Ok(early),
        }
    }
    Ok(Ending::Done)
}

struct Runner<'a> {
    engine: Engine,
    arguments: &'a Run,
    screen: &'a Arc<Screen>,
    interrupt: Interrupt,
    has_printed: bool,
}

impl Runner<'_> {
    fn statement(&mut self, statement: &Statement) -> Result<Ending> {
        tracing::info!(statement = statement.text(), "starts");
        let mut query = self.engine.execute(statement)?;
        match query.kind() {
            Kind::Done => Ok(Ending::Done),
            Kind::Rows => self.print(&mut query).map(output::ending),
            Kind::Select | Kind::Insert | Kind::Analyze => self.follow(query),
        }
    }

    /// Runs a query to its end, and says how it did.
    fn follow(&mut self, mut query: Query) -> Result<Ending> {
        let control = query.control().expect("a query runs");
        let interrupt = self.interrupt.clone();
        let running = interrupt.stops(control.clone());
        let connector = query.target().and_then(|table| table.options.get("connector"));
        let prints_itself = matches!(connector, Some("stdout" | "print"));
        let watched = Watched {
            query: control,
            prints: query.kind() == Kind::Select,
            // A table that writes on the same terminal would write into the line.
            has_line: !self.arguments.quiet
                && self.screen.is_terminal()
                && !(prints_itself && self.screen.shares_terminal()),
        };
        let watch = Watch::start(watched, self.screen, &self.interrupt);
        let progress = match query.kind() {
            Kind::Select | Kind::Analyze => self.print(&mut query),
            _ => query.wait().map(|_| Progress::Done),
        };
        let is_unread = watch.end() || (prints_itself && output::is_unread());
        drop(running);
        let progress = progress?;
        let is_stopped = interrupt.is_stopped();
        if !is_stopped && (is_unread || progress == Progress::Finished) {
            return Ok(Ending::Unread);
        }
        let metrics = query.metrics();
        if is_stopped {
            self.screen.say(&left_open(&metrics));
        }
        if !self.arguments.quiet {
            let summary = summary(&metrics, query.target().map(|table| table.name.as_str()));
            self.screen.say(&self.screen.dim(&summary));
        }
        let Metrics { rows_in, rows_out, late_rows, bad_rows, out_of_order_rows, state_bytes, .. } = metrics;
        let (elapsed, latency_max) = (metrics.elapsed, metrics.latency.max);
        tracing::info!(
            rows_in,
            rows_out,
            late_rows,
            bad_rows,
            out_of_order_rows,
            state_bytes,
            ?elapsed,
            ?latency_max,
            "ended"
        );
        Ok(if is_stopped { Ending::Stopped } else { Ending::Done })
    }

    /// Prints rows as they come, until there are no more or nobody reads them.
    fn print(&mut self, query: &mut Query) -> Result<Progress> {
        let mut output = Output::new(self.arguments.output)?;
        let is_first = !std::mem::replace(&mut self.has_printed, true);
        let mut progress = self.screen.aside(|| output.begin(&query.schema(), is_first))?;
        while progress == Progress::Done {
            let Some(rows) = query.next() else {
                return self.screen.aside(|| output.finish());
            };
            let rows = rows?;
            progress = self.screen.aside(|| output.write(rows))?;
        }
        Ok(progress)
    }
}
