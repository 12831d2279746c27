//! What can be done with a stream.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use datafusion_common::DFSchema;
use thalweg_core::{Batch, Error, Operator, Result};
use thalweg_operators::function::{Keep, Notify, Row, StatefulMap, Values};
use thalweg_plan::{
    Node, NodeId, StreamSchema,
    node::{Function, FunctionParts, MakeFunction, Sink, Split},
};

use super::{Keyed, Topology, Window, Windowed, quoted};
use crate::Query;

/// What a stream is called in SQL over it.
pub(super) const INPUT: &str = "input";

/// The rows that a step of a topology gives. Any number of steps may follow it; each gets all rows.
#[derive(Clone, Copy)]
pub struct Stream<'t> {
    topology: &'t Topology<'t>,
    pub(super) node: NodeId,
}

impl<'t> Stream<'t> {
    pub(super) fn new(topology: &'t Topology<'_>, node: NodeId) -> Self {
        Self { topology, node }
    }

    /// Names and types of the columns.
    ///
    /// Errors: the first mistake in a step.
    pub fn schema(&self) -> Result<SchemaRef> {
        Ok(self.topology.schema(self.node)?.arrow())
    }

    /// Keeps the rows for which a predicate in SQL is true: `filter("price > 100")`.
    pub fn filter(self, predicate: &str) -> Self {
        self.plan(format!("filter({predicate:?})"), &format!("SELECT * FROM input WHERE {predicate}"))
    }

    /// Keeps the rows for which a function says so.
    pub fn filter_with(self, wants: impl Fn(Row<'_>) -> Result<bool> + Send + Sync + 'static) -> Self {
        let wants = Arc::new(wants);
        let make: MakeFunction = Arc::new(move |_| {
            let wants = Arc::clone(&wants);
            Ok(Box::new(Keep::new(move |row: Row<'_>| wants(row))))
        });
        self.function("filter_with", true, Vec::new(), Vec::new(), make)
    }

    /// Computes columns by expressions in SQL: `map(["ts", "price * 2 AS twice"])`.
    pub fn map<'a>(self, columns: impl IntoIterator<Item = &'a str>) -> Self {
        let columns = columns.into_iter().collect::<Vec<_>>().join(", ");
        self.plan(format!("map({columns:?})"), &format!("SELECT {columns} FROM input"))
    }

    /// Appends columns of these names, which a function computes from each row: one value, or a tuple of them.
    pub fn map_with<'a, V: Values + 'static>(
        self,
        names: impl IntoIterator<Item = &'a str>,
        compute: impl Fn(Row<'_>) -> Result<V> + Send + Sync + 'static,
    ) -> Self {
        let step = move |(): &mut (), row: Row<'_>| compute(row);
        self.appended("map_with", true, Vec::new(), names.into_iter().collect(), || (), step)
    }

    /// Appends columns of these names, which a function computes from each row and from what it remembers of all rows before.
    ///
    /// The state outlives batches and is part of a snapshot; so it is of a type that serde writes and reads. The rows of one
    /// partition of a source come in their order; how those of several interleave is not promised, and what depends on it
    /// differs from run to run. [`Stream::key_by`] gives each key a state of its own.
    pub fn stateful_map<'a, S, V>(
        self,
        names: impl IntoIterator<Item = &'a str>,
        start: impl Fn() -> S + Send + Sync + 'static,
        step: impl Fn(&mut S, Row<'_>) -> Result<V> + Send + Sync + 'static,
    ) -> Self
    where
        S: serde::Serialize + serde::de::DeserializeOwned + Send + 'static,
        V: Values + 'static,
    {
        self.appended("stateful_map", false, Vec::new(), names.into_iter().collect(), start, step)
    }

    /// A query in SQL over this stream, which it calls `input`.
    pub fn sql(self, query: &str) -> Self {
        self.plan(None, query)
    }

    /// The rows of both streams, which have the same columns.
    pub fn union(self, other: Self) -> Self {
        self.topology.step("union".to_string(), |session, plan| {
            let schema = |node: NodeId| plan.node(node).schema.clone();
            let both = [(INPUT, schema(self.node)), ("other", schema(other.node))];
            let query = session.plan_over(&both, "SELECT * FROM input UNION ALL SELECT * FROM other");
            plan.append(&query.map_err(Error::nowhere)?, &[(INPUT, self.node), ("other", other.node)])
        })
    }

    /// One stream more than there are predicates in SQL: each row goes to that of the first predicate that is true for it, and
    /// to the last if none is.
    pub fn split<'a>(self, predicates: impl IntoIterator<Item = &'a str>) -> Vec<Self> {
        let texts: Vec<&str> = predicates.into_iter().collect();
        let count = texts.len();
        let split = self.topology.step("split".to_string(), |session, plan| {
            let schema = plan.node(self.node).schema.clone();
            let predicates = session.expressions_over(&schema, &texts)?;
            for (predicate, text) in predicates.iter().zip(&texts) {
                boolean(predicate, &schema, text)?;
            }
            Ok(plan.add(Node::Split(Split { predicates }), vec![self.node], schema))
        });
        let branch = |output: usize| {
            self.topology.step(None, |_, plan| {
                let schema = plan.node(split.node).schema.clone();
                Ok(plan.add(Node::Branch(output), vec![split.node], schema))
            })
        };
        (0..=count).map(branch).collect()
    }

    /// Puts rows into batches of this size; the last of a stream may be smaller.
    pub fn batch(self, rows: usize) -> Self {
        self.topology.step(format!("batch({rows})"), |_, plan| {
            if rows == 0 {
                return Err(Error::query("a batch has at least one row"));
            }
            let schema = plan.node(self.node).schema.clone();
            Ok(plan.add(Node::Batch(rows), vec![self.node], schema))
        })
    }

    /// Puts each row into a batch of its own.
    pub fn unbatch(self) -> Self {
        self.batch(1)
    }

    /// Calls a function with each batch, and passes the batch on. Where the stream has several instances, they call it at the
    /// same time.
    pub fn notify(self, call: impl Fn(&Batch) -> Result<()> + Send + Sync + 'static) -> Self {
        let call = Arc::new(call);
        let make: MakeFunction = Arc::new(move |_| {
            let call = Arc::clone(&call);
            Ok(Box::new(Notify::new(move |batch: &Batch| call(batch))))
        });
        self.function("notify", true, Vec::new(), Vec::new(), make)
    }

    /// Calls a function with each row, and passes the rows on.
    pub fn notify_rows(self, call: impl Fn(Row<'_>) -> Result<()> + Send + Sync + 'static) -> Self {
        self.notify(move |batch| batch.rows().try_for_each(|row| call(Row::new(batch.columns(), row))))
    }

    /// Divides the rows by expressions in SQL, for what follows: `key_by(["symbol", "price % 10 AS bucket"])`.
    pub fn key_by<'a>(self, keys: impl IntoIterator<Item = &'a str>) -> Keyed<'t> {
        Keyed { stream: self, keys: keys.into_iter().map(str::to_string).collect() }
    }

    /// Windows over all rows together.
    pub fn window(self, window: Window) -> Windowed<'t> {
        self.key_by([]).window(window)
    }

    /// Aggregates over all rows of a stream that ends, by expressions in SQL.
    pub fn aggregate<'a>(self, aggregates: impl IntoIterator<Item = &'a str>) -> Self {
        self.key_by([]).aggregate(aggregates)
    }

    /// Writes the rows into a table of the engine; values are cast to its columns as INSERT does.
    pub fn into(self, table: &str) {
        self.topology.step(format!("into({table:?})"), |session, plan| {
            let streams = [(INPUT, plan.node(self.node).schema.clone())];
            let insert = format!("INSERT INTO {} SELECT * FROM input", quoted(table));
            let insert = session.plan_over(&streams, &insert).map_err(Error::nowhere)?;
            let node = plan.append(&insert, &[(INPUT, self.node)])?;
            let sink = insert.node(insert.sink()?);
            Ok(plan.add(sink.node.clone(), vec![node], sink.schema.clone()))
        });
    }

    /// Ends the stream: its rows were seen by a function above.
    pub fn discard(self) {
        self.end(Sink::Discard);
    }

    /// Runs the whole topology; the query's rows are those of this stream.
    ///
    /// Errors: as [`Topology::start`].
    pub fn start(self) -> Result<Query> {
        if self.topology.draft.borrow().plan.result().is_some() {
            return Err(Error::query("another stream of the topology gives the query's rows already"));
        }
        self.end(Sink::Result);
        self.topology.start()
    }

    fn end(self, sink: Sink) {
        self.topology.step(None, |_, plan| {
            let schema = plan.node(self.node).schema.clone();
            Ok(plan.add(Node::Sink(sink), vec![self.node], schema))
        });
    }

    /// The column of event time, if the stream has one.
    pub(super) fn time(&self) -> Option<String> {
        let schema = self.topology.schema(self.node).ok()?;
        Some(schema.columns.field(schema.time?).name().clone())
    }

    /// A step that is a mistake.
    pub(super) fn mistaken(self, name: String, mistake: impl FnOnce() -> Error) -> Self {
        self.topology.step(name, |_, _| Err(mistake()))
    }

    /// A query over this stream, as a step that is called `name`; without a name the text is the user's own.
    pub(super) fn plan(self, name: impl Into<Option<String>>, query: &str) -> Self {
        let name = name.into();
        let is_made = name.is_some();
        self.topology.step(name, |session, plan| {
            let streams = [(INPUT, plan.node(self.node).schema.clone())];
            let query = session.plan_over(&streams, query);
            let query = query.map_err(|error| if is_made { error.nowhere() } else { error })?;
            plan.append(&query, &[(INPUT, self.node)])
        })
    }

    /// A step that appends a function's columns.
    pub(super) fn appended<S, V>(
        self,
        name: &'static str,
        is_stateless: bool,
        keys: Vec<String>,
        names: Vec<&str>,
        start: impl Fn() -> S + Send + Sync + 'static,
        step: impl Fn(&mut S, Row<'_>) -> Result<V> + Send + Sync + 'static,
    ) -> Self
    where
        S: serde::Serialize + serde::de::DeserializeOwned + Send + 'static,
        V: Values + 'static,
    {
        let types = V::types();
        if types.len() != names.len() {
            let plural = |count: usize| if count == 1 { "" } else { "s" };
            let (values, named) = (types.len(), names.len());
            let message = format!("{values} value{} and {named} name{} of columns", plural(values), plural(named));
            return self.mistaken(name.to_string(), || Error::query(message));
        }
        let fields: Vec<_> = names.iter().zip(types).map(|(name, kind)| Field::new(*name, kind, true)).collect();
        let (start, step) = (Arc::new(start) as Arc<dyn Fn() -> S + Send + Sync>, Arc::new(step));
        let make: MakeFunction = Arc::new(move |parts: FunctionParts| {
            let step = Arc::clone(&step);
            let step = move |state: &mut S, row: Row<'_>| step(state, row);
            let FunctionParts { keys, key_types, output, key_groups } = parts;
            let map = StatefulMap::new(keys, Arc::clone(&start), step, &key_types, output, key_groups)?;
            let map: Box<dyn Operator> = if is_stateless { Box::new(map.without_state()) } else { Box::new(map) };
            Ok(map)
        });
        self.function(name, is_stateless, keys, fields, make)
    }

    fn function(
        self,
        name: &'static str,
        is_stateless: bool,
        keys: Vec<String>,
        appended: Vec<Field>,
        make: MakeFunction,
    ) -> Self {
        self.topology.step(name.to_string(), |session, plan| {
            let before = plan.node(self.node).schema.clone();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let keys = session.expressions_over(&before, &keys)?;
            let schema = with_columns(&before, appended)?;
            let function = Function { name: name.to_string(), keys, is_stateless, make };
            Ok(plan.add(Node::Function(function), vec![self.node], schema))
        })
    }
}

/// The columns of a stream, and more behind them.
fn with_columns(before: &StreamSchema, more: Vec<Field>) -> Result<StreamSchema> {
    let fields = before.columns.fields().iter().map(|field| field.as_ref().clone()).chain(more).collect::<Vec<_>>();
    for (i, field) in fields.iter().enumerate() {
        if fields[..i].iter().any(|other| other.name() == field.name()) {
            return Err(Error::query(format!("there is a column {:?} already", field.name())));
        }
    }
    let columns = DFSchema::try_from(Schema::new(fields)).map_err(|error| Error::bug(error.to_string()))?;
    Ok(StreamSchema { columns: Arc::new(columns), ..before.clone() })
}

fn boolean(predicate: &datafusion_expr::Expr, schema: &StreamSchema, text: &str) -> Result<()> {
    use datafusion_expr::ExprSchemable;
    let kind = predicate.get_type(schema.columns.as_ref()).map_err(|error| Error::bug(error.to_string()))?;
    if kind == arrow_schema::DataType::Boolean {
        return Ok(());
    }
    let kind = thalweg_core::types::sql_name(&kind);
    Err(Error::query(format!("{text:?} is {kind}, expected a predicate, which is BOOLEAN")))
}
