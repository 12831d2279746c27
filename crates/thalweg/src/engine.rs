//! SQL in, queries out.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use parking_lot::Mutex;
use serde_json::Value;
use thalweg_core::{Error, Result, connector::Connector};
use thalweg_plan::{
    Node, Plan,
    node::Sink,
    parallel::{self, costs::CostFile},
    render,
};
use thalweg_runtime::{OnBarrier, Pick, Schedule, metrics::NodeMetrics};
use thalweg_sql::{ExplainFormat, Outcome, Session, Statement};

use crate::{
    backends::{local, notes, ran},
    query::Query,
    topology::Topology,
};

/// Holds tables, views and settings, and runs SQL.
///
/// ```
/// let mut engine = thalweg::Engine::new();
/// engine.sql("CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'generator', 'number-of-rows' = '10')")?;
/// let rows: usize = engine.sql("SELECT n FROM numbers")?.map(|batch| batch.unwrap().num_rows()).sum();
/// assert_eq!(rows, 10);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub struct Engine {
    session: Session,
    connectors: Vec<Arc<dyn Connector>>,
    on_barrier: OnBarrier,
    costs: Option<CostFile>,
    schedule: Mutex<Option<Schedule>>,
    moves: Mutex<Option<Pick>>,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine {
    /// An engine without tables, which knows all connectors.
    pub fn new() -> Self {
        Self::with_connectors(Vec::new())
    }

    /// An engine that knows these connectors besides its own.
    pub fn with_connectors(more: Vec<Arc<dyn Connector>>) -> Self {
        let connectors: Vec<_> = thalweg_connectors::all().into_iter().chain(more).collect();
        Self {
            session: Session::new(connectors.clone()).with_states(local::states),
            connectors,
            on_barrier: OnBarrier::Pass,
            costs: None,
            schedule: Mutex::default(),
            moves: Mutex::default(),
        }
    }

    /// Lets every state be saved, and loaded into a fresh operator, at each barrier: a check that nothing is lost on the way.
    pub fn reload_at_barriers(&mut self) {
        self.on_barrier = OnBarrier::Reload;
    }

    /// Compiles SQL from now on with what was measured of its queries; others are an error.
    pub fn use_costs(&mut self, costs: CostFile) {
        self.costs = Some(costs);
    }

    /// Lets the next query that is started run on the thread of whoever takes its rows, in an order that the schedule decides: a
    /// check that results do not depend on it, and a failure that can be repeated.
    pub fn simulate(&mut self, schedule: Schedule) {
        *self.schedule.lock() = Some(schedule);
    }

    /// Lets key groups of the next query that is started change hands at each barrier, as `pick` decides by numbers below the given
    /// ones: a check that nothing is lost on the way.
    pub fn move_key_groups(&mut self, pick: Pick) {
        *self.moves.lock() = Some(pick);
    }

    /// Runs all statements of a script: each to its end but the last, whose handle is returned.
    ///
    /// Errors: `Error::Query` with the place in the text, before anything runs if it is about syntax; what ends an earlier
    ///         statement.
    pub fn sql(&mut self, text: &str) -> Result<Query> {
        let mut last = Query::done();
        for statement in self.parse(text)? {
            last.wait()?;
            last = self.execute(&statement)?;
        }
        Ok(last)
    }

    /// Splits and parses a script.
    ///
    /// Errors: `Error::Query` with the place in the text.
    pub fn parse(&self, text: &str) -> Result<Vec<Statement>> {
        self.session.parse(text)
    }

    /// Starts one statement.
    ///
    /// Errors: `Error::Query` with the place in the text that was parsed; what opening a table gives.
    pub fn execute(&mut self, statement: &Statement) -> Result<Query> {
        match self.session.execute(statement)? {
            Outcome::Done => Ok(Query::done()),
            Outcome::Rows(rows) => Ok(Query::rows(rows)),
            Outcome::Explain(plan, format) => Ok(Query::rows(in_rows(&explain(&self.with_costs(plan)?, format))?)),
            Outcome::Analyze(plan, format) => {
                let plan = self.with_costs(plan)?;
                let places = self.session.places(statement)?;
                match self.analyze(&plan) {
                    Ok(query) => Ok(query.analyzed(plan, format).with_places(places)),
                    Err(error) => Err(places.locate(error)),
                }
            }
            Outcome::Plan(plan) => {
                let plan = self.with_costs(plan)?;
                let places = self.session.places(statement)?;
                match self.run(&plan) {
                    Ok(query) => Ok(query.with_places(places)),
                    Err(error) => Err(places.locate(error)),
                }
            }
        }
    }

    /// The plan of a query or an INSERT, which is not run; `None` for other statements, which take effect.
    ///
    /// Errors: as [`Engine::execute`].
    pub fn plan(&mut self, statement: &Statement) -> Result<Option<Plan>> {
        match self.session.execute(statement)? {
            Outcome::Plan(plan) | Outcome::Explain(plan, _) | Outcome::Analyze(plan, _) => {
                self.with_costs(plan).map(Some)
            }
            Outcome::Done | Outcome::Rows(_) => Ok(None),
        }
    }

    fn with_costs(&self, mut plan: Plan) -> Result<Plan> {
        if let Some(costs) = &self.costs {
            plan.costs = costs.of(&plan)?;
        }
        Ok(plan)
    }

    /// Begins a plan that is built in Rust.
    pub fn topology(&self) -> Topology<'_> {
        Topology::new(self)
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Runs a plan on this machine.
    ///
    /// Errors: what compiling it or opening a table gives.
    pub fn run(&self, plan: &Plan) -> Result<Query> {
        self.start(plan, false)
    }

    /// Runs a plan as [`Engine::run`] does, and measures how long each node takes: see [`measured::costs`](crate::backends::measured::costs).
    ///
    /// Errors: as [`Engine::run`].
    pub fn analyze(&self, plan: &Plan) -> Result<Query> {
        self.start(plan, true)
    }

    fn start(&self, plan: &Plan, is_timed: bool) -> Result<Query> {
        let sink = plan.node(plan.sink()?);
        let target = match &sink.node {
            Node::Sink(Sink::Table(table)) => Some(table.clone()),
            _ => None,
        };
        let mut topology = local::compile(&local::as_run(plan), &self.connectors)?;
        topology.on_barrier = self.on_barrier;
        topology.is_timed = is_timed;
        topology.schedule = self.schedule.lock().take();
        topology.moves = self.moves.lock().take();
        Ok(Query::running(target, local::columns(&sink.schema), thalweg_runtime::start(topology)?))
    }
}

/// Said where what was measured of a plan divides it otherwise than it ran.
pub const OTHERWISE: &str = "it ran otherwise than it is shown: what was measured places it like this";

/// The plan as text, as JSON or as a graph.
pub fn explain(plan: &Plan, format: ExplainFormat) -> String {
    let plan = &local::as_run(plan);
    let notes = notes::notes(plan);
    match format {
        ExplainFormat::Text => render::text(plan, &notes),
        ExplainFormat::Json => format!("{:#}", render::json(plan, &notes)),
        ExplainFormat::Dot => render::dot(plan, &notes),
    }
}

/// The plan's subqueries, how many instances each has and why, as text, as JSON or as a graph.
pub fn explain_parallel(plan: &Plan, format: ExplainFormat) -> String {
    let plan = &local::as_run(plan);
    let notes = notes::notes(plan);
    match format {
        ExplainFormat::Text => parallel::explain::text(plan, &notes),
        ExplainFormat::Json => format!("{:#}", parallel::explain::json(plan, &notes)),
        ExplainFormat::Dot => parallel::explain::dot(plan, &notes),
    }
}

/// Whether two plans of one query run the same subqueries, in as many instances.
pub fn run_alike(one: &Plan, other: &Plan) -> bool {
    let placed = |plan| parallel::parallelize(&local::as_run(plan));
    placed(one) == placed(other)
}

/// The plan's subqueries as [`explain_parallel`] has them, and how those of its nodes did that have a state.
///
/// Errors: `Error::Bug` if a plan is no JSON.
pub fn explain_analyzed(plan: &Plan, nodes: &[NodeMetrics], format: ExplainFormat) -> Result<String> {
    let text = explain_parallel(plan, format);
    match format {
        ExplainFormat::Json => {
            let no_json = |error: serde_json::Error| Error::bug(format!("a plan is written as JSON: {error}"));
            let mut object: Value = serde_json::from_str(&text).map_err(no_json)?;
            object["ran"] = ran::json(nodes);
            serde_json::to_string_pretty(&object).map_err(no_json)
        }
        ExplainFormat::Text => Ok(format!("{}\n\n{}", text.trim_end(), ran::text(nodes))),
        ExplainFormat::Dot => Ok(text),
    }
}

/// The lines of a plan as rows.
pub(crate) fn in_rows(text: &str) -> Result<RecordBatch> {
    let lines = StringArray::from(text.lines().collect::<Vec<_>>());
    Ok(RecordBatch::try_from_iter([("plan", Arc::new(lines) as ArrayRef)])?)
}
