//! The handle of a query: rows, stop, metrics.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use thalweg_core::{Error, Result, connector::TableDefinition};
use thalweg_plan::Plan;
use thalweg_runtime::{Metrics, RunningQuery, query::Control};
use thalweg_sql::{ExplainFormat, Places};

use crate::{backends::measured, engine};

/// What a statement is, for who shows its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It took effect and has no rows: DDL, SET.
    Done,
    /// It answers with rows about the session: SHOW, DESCRIBE, EXPLAIN.
    Rows,
    /// It computes rows.
    Select,
    /// It writes rows into a table.
    Insert,
    /// It runs a query, whose rows nobody sees, and answers with how that went.
    Analyze,
}

/// A statement that was started: an iterator over its rows. Dropped, it is given up.
pub struct Query {
    kind: Kind,
    schema: SchemaRef,
    target: Option<TableDefinition>,
    /// The text that errors have their places in; none for a plan that was not made from text.
    places: Option<Places>,
    state: State,
}

enum State {
    Rows(Option<RecordBatch>),
    Running(Box<RunningQuery>),
    /// A query that is measured, and its plan until that has been told.
    Analyzed(Box<RunningQuery>, Option<Box<Plan>>, ExplainFormat),
}

impl State {
    fn query(&self) -> Option<&RunningQuery> {
        match self {
            Self::Running(query) | Self::Analyzed(query, ..) => Some(query),
            Self::Rows(_) => None,
        }
    }
}

impl Query {
    pub(crate) fn done() -> Self {
        Self {
            kind: Kind::Done,
            schema: Arc::new(Schema::empty()),
            target: None,
            places: None,
            state: State::Rows(None),
        }
    }

    pub(crate) fn rows(rows: RecordBatch) -> Self {
        Self { kind: Kind::Rows, schema: rows.schema(), target: None, places: None, state: State::Rows(Some(rows)) }
    }

    pub(crate) fn running(target: Option<TableDefinition>, schema: SchemaRef, query: RunningQuery) -> Self {
        let kind = if target.is_some() { Kind::Insert } else { Kind::Select };
        Self { kind, schema, target, places: None, state: State::Running(Box::new(query)) }
    }

    /// It is measured, and its rows are those of its plan then.
    pub(crate) fn analyzed(self, plan: Plan, format: ExplainFormat) -> Self {
        let state = match self.state {
            State::Running(query) => State::Analyzed(query, Some(Box::new(plan)), format),
            other => other,
        };
        let schema = Arc::new(Schema::new(vec![Field::new("plan", DataType::Utf8, true)]));
        Self { kind: Kind::Analyze, schema, state, ..self }
    }

    pub(crate) fn with_places(self, places: Places) -> Self {
        Self { places: Some(places), ..self }
    }

    /// What the statement is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Names and types of the rows' columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The table that an INSERT writes into.
    pub fn target(&self) -> Option<&TableDefinition> {
        self.target.as_ref()
    }

    /// Asks the sources to end. What has come out so far is complete; windows that are still open are not emitted.
    pub fn stop(&self) {
        if let Some(query) = self.state.query() {
            query.stop();
        }
    }

    /// What the query has done so far.
    pub fn metrics(&self) -> Metrics {
        self.state.query().map(RunningQuery::metrics).unwrap_or_default()
    }

    /// A way to stop the query and to look at it from another thread; `None` if there is nothing that runs.
    pub fn control(&self) -> Option<Control> {
        self.state.query().map(RunningQuery::control)
    }

    /// Waits until the query has ended, and says what it did. Rows that were not taken are not wanted any more.
    ///
    /// Errors: what ended the query, with its place in the text where that can be found.
    pub fn wait(&mut self) -> Result<Metrics> {
        match &mut self.state {
            State::Running(query) | State::Analyzed(query, ..) => {
                query.wait().map_err(|error| located(self.places.as_ref(), error))
            }
            State::Rows(_) => Ok(Metrics::default()),
        }
    }
}

impl Iterator for Query {
    type Item = Result<RecordBatch>;

    /// The next rows; waits for them. After an error there are no more.
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.state {
            State::Rows(rows) => rows.take().map(Ok),
            State::Running(query) => {
                let batch = query.next_batch()?.and_then(|batch| batch.compact());
                Some(batch.map_err(|error| located(self.places.as_ref(), error)))
            }
            State::Analyzed(query, plan, format) => {
                let told = told(query, *plan.take()?, *format);
                Some(told.map_err(|error| located(self.places.as_ref(), error)))
            }
        }
    }
}

/// Runs a query to its end; its plan with what was measured.
fn told(query: &mut RunningQuery, mut plan: Plan, format: ExplainFormat) -> Result<RecordBatch> {
    while let Some(batch) = query.next_batch() {
        batch?;
    }
    let metrics = query.wait()?;
    let as_ran = plan.clone();
    plan.costs = measured::costs(&metrics);
    let mut text = engine::explain_analyzed(&plan, &metrics.nodes, format)?;
    if format == ExplainFormat::Text && !engine::run_alike(&as_ran, &plan) {
        text = format!("{text}\n{}", engine::OTHERWISE);
    }
    engine::in_rows(text.trim_end())
}

fn located(places: Option<&Places>, error: Error) -> Error {
    match places {
        Some(places) => places.locate(error),
        None => error,
    }
}
