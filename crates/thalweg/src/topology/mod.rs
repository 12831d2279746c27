//! Plans that are built in Rust: streams, step by step, with expressions in SQL and functions in Rust.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use thalweg::{Engine, topology::Window};
//!
//! let mut engine = Engine::new();
//! engine.sql(
//!     "CREATE TABLE readings (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'generator',
//!      'fields.ts.step' = '1 ms', 'number-of-rows' = '5000')",
//! )?;
//! let topology = engine.topology();
//! let readings = topology.table("readings");
//! readings.filter("k < 0").notify(|batch| Ok(println!("{} odd rows", batch.len()))).discard();
//! let counts = readings.key_by(["k % 10 AS bucket"]).window(Window::tumble(Duration::from_secs(1))).aggregate(["count(*) AS n"]);
//! for batch in counts.start()? {
//!     println!("{:?}", batch?);
//! }
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! A mistake in a step is told when the topology is started; the steps behind it do nothing.
//!
//! * [`stream`]: what can be done with a stream
//! * [`keyed`]: what can be done per key and per window
//!
//! Source: Pohl, "PipeFabric", §3: topologies of operators that publish and subscribe. Names are those of its operators.

pub mod keyed;
pub mod stream;

use std::{cell::RefCell, time::Duration};

use thalweg_core::{Error, Result};
use thalweg_plan::{NodeId, Plan, StreamSchema};
use thalweg_sql::Session;

use crate::{Engine, Query};
pub use keyed::{Keyed, Windowed};
pub use stream::Stream;

/// A graph of streams that begin at tables and end in sinks.
pub struct Topology<'e> {
    engine: &'e Engine,
    draft: RefCell<Draft>,
}

/// The plan so far, and the first mistake.
struct Draft {
    plan: Plan,
    error: Option<Error>,
}

/// Windows over the event time of a stream; aligned to 1970-01-01T00:00:00.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    size: Duration,
    slide: Option<Duration>,
    step: Option<Duration>,
    offset: Duration,
}

impl Window {
    /// Windows that follow one another.
    pub fn tumble(size: Duration) -> Self {
        Self { size, slide: None, step: None, offset: Duration::ZERO }
    }

    /// Windows that begin every `slide`.
    pub fn hop(size: Duration, slide: Duration) -> Self {
        Self { slide: Some(slide), ..Self::tumble(size) }
    }

    /// Windows that begin every `size` and end after each `step` of it, the last one after all.
    pub fn cumulate(size: Duration, step: Duration) -> Self {
        Self { step: Some(step), ..Self::tumble(size) }
    }

    /// The same windows, all later by this much.
    pub fn offset(self, offset: Duration) -> Self {
        Self { offset, ..self }
    }

    /// The windows over an input, as FROM has them.
    fn over(self, input: &str, time: &str) -> String {
        let interval = |span: Duration| format!("INTERVAL '{}.{:09}' SECOND", span.as_secs(), span.subsec_nanos());
        let (size, offset) = (interval(self.size), self.offset);
        let offset = if offset.is_zero() { String::new() } else { format!(", {}", interval(offset)) };
        let windows = match self.slide.or(self.step) {
            None => format!("TUMBLE(TABLE {input}, DESCRIPTOR({time}), {size}{offset})"),
            Some(step) if self.step.is_some() => {
                format!("CUMULATE(TABLE {input}, DESCRIPTOR({time}), {}, {size}{offset})", interval(step))
            }
            Some(slide) => {
                format!("HOP(TABLE {input}, DESCRIPTOR({time}), {}, {size}{offset})", interval(slide))
            }
        };
        format!("TABLE({windows})")
    }
}

impl<'e> Topology<'e> {
    pub(crate) fn new(engine: &'e Engine) -> Self {
        let plan = Plan::new(engine.session().settings().clone());
        Self { engine, draft: RefCell::new(Draft { plan, error: None }) }
    }

    /// The rows of a table or a view of the engine.
    pub fn table(&self, name: &str) -> Stream<'_> {
        self.step(format!("table({name:?})"), |session, plan| {
            let read = session.plan_over(&[], &format!("SELECT * FROM {}", quoted(name)));
            plan.append(&read.map_err(Error::nowhere)?, &[])
        })
    }

    /// The rows of a query.
    pub fn sql(&self, query: &str) -> Stream<'_> {
        self.step(None, |session, plan| plan.append(&session.plan_over(&[], query)?, &[]))
    }

    /// The plan of all streams that end in a sink.
    ///
    /// Errors: the first mistake in a step; `Error::Query` if no stream ends in a sink.
    pub fn plan(&self) -> Result<Plan> {
        let draft = self.draft.borrow();
        if let Some(error) = &draft.error {
            return Err(error.clone());
        }
        let plan = draft.plan.pruned();
        if plan.nodes().next().is_none() {
            return Err(Error::query("no stream of the topology ends in a sink")
                .with_hint("end one with into(…), discard() or start()"));
        }
        Ok(plan)
    }

    /// Runs all streams that end in a sink.
    ///
    /// Errors: as [`Topology::plan`]; what opening a table gives.
    pub fn start(&self) -> Result<Query> {
        self.engine.run(&self.plan()?)
    }

    /// Adds a step, unless there was a mistake before.
    fn step(
        &self,
        name: impl Into<Option<String>>,
        build: impl FnOnce(&Session, &mut Plan) -> Result<NodeId>,
    ) -> Stream<'_> {
        let mut draft = self.draft.borrow_mut();
        if draft.error.is_some() {
            return Stream::new(self, NodeId(0));
        }
        match build(self.engine.session(), &mut draft.plan) {
            Ok(node) => Stream::new(self, node),
            Err(error) => {
                draft.error = Some(match name.into() {
                    Some(name) => error.within(&name),
                    None => error,
                });
                Stream::new(self, NodeId(0))
            }
        }
    }

    fn schema(&self, node: NodeId) -> Result<StreamSchema> {
        let draft = self.draft.borrow();
        match &draft.error {
            Some(error) => Err(error.clone()),
            None => Ok(draft.plan.node(node).schema.clone()),
        }
    }
}

/// A name as SQL has it, whatever letters it is of.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
