//! DataFusion's logical plan → [`Plan`].
//!
//! Each logical node becomes a [`Stream`]: a node of our plan, and which of its columns (*slots*) the logical columns are.
//! So choosing and renaming columns costs no node. A window function is *pending* at first: an aggregate above takes it
//! whole ([`Windowing::Assigned`](thalweg_plan::node::Windowing)); anything else that asks for the window's columns makes it a
//! node of its own.
//!
//! * [`stream`]: slots, and expressions over them
//! * [`aggregate`]: GROUP BY
//! * [`window`]: window functions
//! * [`over`]: aggregates over the rows around a row
//! * [`union`]: the other inputs of a window over a union
//! * [`position`]: where rows stand in their source, if somebody asks
//! * [`join`], [`distance`]: pairs of rows whose event times lie close to each other
//! * [`last`]: the last row of another stream, for each row
//! * [`eager`]: results that come out before they are final
//! * [`of_rows`]: GROUP BY over a join ([`joined`]) whose groups are of one side: its rows, which columns tell apart that are [`unique`], or several
//!   of them, of which there are states
//! * [`beside`]: another stream beside a base, as both of these need it
//! * [`names`]: names of columns that nobody named

mod aggregate;
mod beside;
mod distance;
mod eager;
mod join;
mod joined;
mod last;
mod lost;
mod names;
mod of_rows;
mod over;
mod position;
mod stream;
mod union;
mod unique;
mod window;

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::{Column, DFSchema, DFSchemaRef};
use datafusion_expr::{Expr, ExprSchemable, FetchType, LogicalPlan, SkipType, lit, utils::split_conjunction};
use thalweg_core::{Error, Result, error::Span};
use thalweg_plan::{
    Node, NodeId, Plan, Settings, StreamSchema,
    node::{AggregateCall, Anchor, Filter, Limit, Map, Sink, Sort, SortKey, Source, Values},
    schema::WindowColumns,
};

use crate::{diagnose, emit::EagerNode, last::LastNode, over::OverNode, planner::Readable, script::Words};
use position::position_field;
use stream::{Slot, Stream};

/// A plan that gives the logical plan's columns to the sink.
pub(crate) fn lower(
    logical: &LogicalPlan,
    sink: Sink,
    settings: &Settings,
    states: Option<States>,
    words: &Words,
) -> Result<Plan> {
    let plan = Plan::new(settings.clone());
    let mut lowering = Lowering {
        plan,
        states,
        words,
        tables: names::tables(logical),
        wants_positions: false,
        wants_time: false,
        asks_for_time: false,
        eager: None,
        feeds_eager: false,
    };
    let stream = lowering.root(logical)?;
    let stream = lowering.exactly(stream)?;
    let schema = lowering.schema(&stream).clone();
    lowering.plan.add(Node::Sink(sink), vec![stream.node], schema);
    Ok(lowering.plan.reused())
}

/// The columns of an aggregate's state, over rows of a schema, if these may be put together later, and are no larger for more rows.
pub type States = fn(&AggregateCall, &DFSchema) -> Option<Vec<FieldRef>>;

struct Lowering<'a> {
    plan: Plan,
    /// What is known of aggregates' states.
    states: Option<States>,
    words: &'a Words,
    tables: HashSet<String>,
    /// Whether somebody above asks where rows stand in their source.
    wants_positions: bool,
    /// Whether a LAST JOIN above asks for the event time, which nobody names; and whether one does of the input that is lowered next.
    wants_time: bool,
    asks_for_time: bool,
    /// Where EMIT EAGER is written, as long as the node is looked for that it is about.
    eager: Option<Span>,
    /// Whether what is eager gives its rows to an OVER that is, too.
    feeds_eager: bool,
}

impl Lowering<'_> {
    /// The query's last node: above it, nobody asks for windows and time, so that only what is selected is computed.
    fn root(&mut self, logical: &LogicalPlan) -> Result<Stream> {
        match logical {
            LogicalPlan::Projection(projection) if !is_one_row(&projection.input) => {
                let stream = self.node(&projection.input)?;
                let stream = self.settle(stream)?;
                self.project(stream, &projection.expr, &projection.schema, Hidden::Drop)
            }
            other => self.node(other),
        }
    }

    fn node(&mut self, logical: &LogicalPlan) -> Result<Stream> {
        self.check_eager(logical)?;
        match logical {
            LogicalPlan::TableScan(scan) => {
                let Some(readable) = scan.source.downcast_ref::<Readable>() else {
                    return Err(Error::bug(format!("{} is no table of ours", scan.table_name)));
                };
                if !scan.filters.is_empty() || scan.fetch.is_some() {
                    return Err(Error::bug("sources take no filters and no limits"));
                }
                self.source(readable, scan.projection.as_deref(), &scan.projected_schema)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let stream = self.node(&alias.input)?;
                Ok(stream.renamed(&alias.schema))
            }
            LogicalPlan::Projection(projection) => {
                if is_one_row(&projection.input) {
                    let row = projection.expr.iter().map(|e| e.clone().unalias_nested().data).collect();
                    return Ok(self.values(vec![row], &projection.schema));
                }
                let stream = self.node(&projection.input)?;
                self.project(stream, &projection.expr, &projection.schema, Hidden::Keep)
            }
            LogicalPlan::Filter(filter) => {
                let stream = self.node(&filter.input)?;
                self.filter(stream, &filter.predicate)
            }
            LogicalPlan::Aggregate(aggregate) => match self.of_rows(aggregate)? {
                Some(stream) => Ok(stream),
                None => {
                    self.check_no_eager()?;
                    self.aggregate(aggregate)
                }
            },
            LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<OverNode>() {
                Some(node) => self.over(node, extension),
                None => match extension.node.as_any().downcast_ref::<LastNode>() {
                    Some(node) => self.last_side(node),
                    None => match extension.node.as_any().downcast_ref::<EagerNode>() {
                        Some(node) => self.eager(node),
                        None => self.window(extension),
                    },
                },
            },
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.iter().map(|input| self.node(input)).collect::<Result<Vec<_>>>()?;
                self.union(inputs, &union.schema)
            }
            LogicalPlan::Sort(sort) => self.sort(sort, sort.fetch),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Values(values) => Ok(self.values(values.values.clone(), &values.schema)),
            LogicalPlan::EmptyRelation(empty) => {
                if !empty.produce_one_row {
                    return Ok(self.values(vec![], &empty.schema));
                }
                // One row of which nothing is asked: it needs a column to be a row.
                let field = Field::new("one", DataType::Int64, false);
                let columns = self.unique([field]);
                let schema = StreamSchema::plain(columns, true);
                let node = Node::Values(Values { rows: vec![vec![datafusion_expr::lit(1_i64)]] });
                let node = self.plan.add(node, vec![], schema);
                Ok(Stream { node, columns: Arc::clone(&empty.schema), slots: vec![], pending: None })
            }
            other => {
                Err(Error::query(format!("this cannot be run on a stream: {}", other.display())).at(self.words.start()))
            }
        }
    }

    fn source(&mut self, readable: &Readable, projection: Option<&[usize]>, logical: &DFSchemaRef) -> Result<Stream> {
        let columns = self.unique(readable.columns.fields().iter().map(|field| field.as_ref().clone()));
        let schema = StreamSchema {
            columns,
            time: readable.watermark.map(|watermark| watermark.column),
            window: None,
            position: None,
            op: None,
            is_bounded: readable.is_bounded,
        };
        let schema = readable.stream.clone().unwrap_or(schema);
        let source = Source {
            table: readable.definition.clone(),
            physical: Arc::clone(&readable.physical),
            computed: readable.computed.clone(),
            watermark: readable.watermark,
            partitions: readable.partitions,
        };
        let node = self.plan.add(Node::Source(source), vec![], schema);
        // A stream that is planned elsewhere is no source.
        let node = if readable.stream.is_none() { self.position(node) } else { node };
        let slots = match projection {
            Some(columns) => columns.iter().map(|column| Slot::Column(*column)).collect(),
            None => (0..readable.columns.fields().len()).map(Slot::Column).collect(),
        };
        Ok(Stream { node, columns: Arc::clone(logical), slots, pending: None })
    }

    fn values(&mut self, rows: Vec<Vec<Expr>>, logical: &DFSchemaRef) -> Stream {
        let columns = self.unique(logical.fields().iter().map(|field| field.as_ref().clone()));
        let node = self.plan.add(Node::Values(Values { rows }), vec![], StreamSchema::plain(columns, true));
        Stream::whole(node, logical)
    }

    fn project(
        &mut self,
        mut stream: Stream,
        expressions: &[Expr],
        logical: &DFSchemaRef,
        hidden: Hidden,
    ) -> Result<Stream> {
        let bare: Vec<_> = expressions.iter().map(|e| e.clone().unalias_nested().data).collect();
        let slots = bare.iter().map(|e| stream.slot_of(e)).collect::<Option<Vec<_>>>();
        if let Some(slots) = slots {
            return Ok(Stream { columns: Arc::clone(logical), slots, ..stream });
        }
        let computes_on_window = |e: &Expr| stream.slot_of(e).is_none() && stream.reads_window(e);
        if stream.pending.is_some() && bare.iter().any(computes_on_window) {
            stream = self.settle(stream)?;
        }
        let mut map = MapBuilder::default();
        let mut slots = Vec::new();
        for (expression, field) in bare.iter().zip(logical.fields()) {
            slots.push(match stream.slot_of(expression) {
                Some(slot) if !matches!(slot, Slot::Column(_)) => slot,
                slot => {
                    let from = slot.and_then(|slot| slot.column());
                    Slot::Column(map.add(self.rebase(&stream, expression)?, field.as_ref().clone(), from))
                }
            });
        }
        if hidden == Hidden::Keep {
            self.keep_hidden(&mut stream, &mut map);
        }
        let node = self.add_map(stream.node, map);
        Ok(Stream { node, columns: Arc::clone(logical), slots, pending: stream.pending })
    }

    /// Adds what is not selected but needed further up: the time of a pending window, the other bound of a window, the event time and where
    /// rows stand in their source, what becomes of them.
    fn keep_hidden(&self, stream: &mut Stream, map: &mut MapBuilder) {
        let schema = self.plan.node(stream.node).schema.clone();
        let keep = |map: &mut MapBuilder, column: usize| {
            map.from.iter().position(|from| *from == Some(column)).unwrap_or_else(|| {
                let field = schema.columns.field(column).as_ref().clone();
                map.add(Expr::Column(Column::from_name(field.name())), field, Some(column))
            })
        };
        if let Some(pending) = &mut stream.pending {
            pending.windows.time = keep(map, pending.windows.time);
        } else if let Some(WindowColumns { start, end, .. }) = schema.window
            && map.from.iter().any(|from| *from == Some(start) || *from == Some(end))
        {
            keep(map, start);
            keep(map, end);
        }
        if let Some(time) = schema.time.filter(|_| self.wants_time) {
            keep(map, time);
        }
        if let Some(position) = schema.position.filter(|_| self.wants_positions) {
            keep(map, position);
        }
        if let Some(op) = schema.op {
            keep(map, op);
        }
    }

    fn add_map(&mut self, input: NodeId, map: MapBuilder) -> NodeId {
        let schema = self.plan.node(input).schema.project(self.unique(map.fields), &map.from);
        self.plan.add(Node::Map(Map { expressions: map.expressions }), vec![input], schema)
    }

    fn filter(&mut self, mut stream: Stream, predicate: &Expr) -> Result<Stream> {
        let parts: Vec<_> = split_conjunction(predicate).into_iter().cloned().collect();
        let reads_both = |part: &Expr| stream.reads_window(part) && stream.reads_column(part);
        // A row that is dropped may be the one that windows start at.
        let is_moved = stream.pending.as_ref().is_some_and(|pending| pending.windows.anchor == Anchor::FirstRow);
        if is_moved || stream.pending.is_some() && parts.iter().any(reads_both) {
            stream = self.settle(stream)?;
        }
        let (window, rows): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| stream.reads_window(part));
        if let Some(predicate) = datafusion_expr::utils::conjunction(rows) {
            let predicate = self.rebase(&stream, &predicate)?;
            let schema = self.plan.node(stream.node).schema.clone();
            stream.node = self.plan.add(Node::Filter(Filter { predicate }), vec![stream.node], schema);
        }
        stream.filter_windows(window)
    }

    fn union(&mut self, inputs: Vec<Stream>, logical: &DFSchemaRef) -> Result<Stream> {
        let inputs = inputs.into_iter().map(|input| self.settle(input)).collect::<Result<Vec<_>>>()?;
        let has_position = |input: &Stream| self.schema(input).position.is_some();
        let with_position = self.wants_positions && inputs.iter().all(has_position);
        // An input may have its event time in several columns.
        let carries_time = |input: &Stream, column: usize| {
            self.schema(input).time.is_some_and(|time| input.slots[column] == Slot::Column(time))
                && input.columns.field(column).data_type() == logical.field(column).data_type()
        };
        let mut columns = 0..logical.fields().len();
        let time = columns.find(|column| inputs.iter().all(|input| carries_time(input, *column)));
        // Nobody reads it but a LAST JOIN, which asks for it without a name.
        let is_read = (0..logical.fields().len()).any(|column| inputs.iter().any(|input| carries_time(input, column)));
        let kind = |input: &Stream| {
            let StreamSchema { time, columns, .. } = self.schema(input);
            time.map(|time| columns.field(time).data_type().clone())
        };
        let kinds: Vec<_> = inputs.iter().map(kind).collect();
        let same = kinds.first().cloned().flatten().filter(|_| kinds.iter().all(|kind| *kind == kinds[0]));
        let hidden_time = same.filter(|_| !is_read && self.wants_time && !logical.fields().is_empty());
        let with = Hiddens { time: hidden_time.is_some(), position: with_position, op: with_position };
        let mut nodes = Vec::new();
        for input in inputs {
            let input = match logical.fields().is_empty() {
                // Rows without columns cannot be counted.
                true => self.rows_alone(input),
                false => self.cast_to(input, logical, with)?,
            };
            nodes.push(input.node);
        }
        let time = time.or(hidden_time.as_ref().map(|_| logical.fields().len()));
        let hidden_time = hidden_time.map(|kind| Field::new("time", kind, true));
        let schemas: Vec<_> = nodes.iter().map(|node| &self.plan.node(*node).schema).collect();
        let shared = |same: bool| schemas.first().filter(|_| same);
        let fields = logical.fields().iter().map(|field| field.as_ref().clone());
        let schema = StreamSchema {
            columns: match logical.fields().is_empty() {
                true => Arc::clone(&schemas[0].columns),
                false => self.unique(fields.chain(hidden_time).chain(with_position.then(position_field))),
            },
            time,
            window: shared(schemas.iter().all(|s| s.window == schemas[0].window)).and_then(|s| s.window),
            position: shared(schemas.iter().all(|s| s.position == schemas[0].position)).and_then(|s| s.position),
            op: None,
            is_bounded: schemas.iter().all(|s| s.is_bounded),
        };
        let node = self.plan.add(Node::Union, nodes, schema);
        Ok(Stream::whole(node, logical))
    }

    /// Rows of which nobody looks at a column.
    fn rows_alone(&mut self, stream: Stream) -> Stream {
        let mut map = MapBuilder::default();
        map.add(lit(true), Field::new("row", DataType::Boolean, false), None);
        let node = self.add_map(stream.node, map);
        Stream { node, ..stream }
    }

    /// The logical columns with exactly these types, and some that are hidden.
    fn cast_to(&mut self, stream: Stream, target: &DFSchemaRef, with: Hiddens) -> Result<Stream> {
        let differs = |(have, want): (&Arc<Field>, &Arc<Field>)| have.data_type() != want.data_type();
        if !stream.columns.fields().iter().zip(target.fields()).any(differs) {
            return self.exactly_with(stream, with);
        }
        let columns = stream.columns.columns().into_iter().map(Expr::Column).zip(target.fields());
        let cast = columns.map(|(column, field)| column.cast_to(field.data_type(), &*stream.columns));
        let cast = cast.collect::<datafusion_common::Result<Vec<_>>>();
        let cast = cast.map_err(|error| diagnose::planning(error, self.words))?;
        let stream = self.project(stream, &cast, target, Hidden::Keep)?;
        self.exactly_with(stream, with)
    }

    fn sort(&mut self, sort: &datafusion_expr::logical_plan::Sort, fetch: Option<usize>) -> Result<Stream> {
        let stream = self.with_positions(false, |lowering| lowering.node(&sort.input))?;
        let stream = self.settle(stream)?;
        let needed = stream.slots.iter().filter_map(|slot| slot.column()).collect();
        let stream = self.narrow(stream, &needed);
        // Rows that are equal stand by their columns from left to right, as they are selected.
        let stream = match stream.slots.iter().map(|slot| slot.column()).is_sorted() {
            true => stream,
            false => self.exactly(stream)?,
        };
        if !self.schema(&stream).is_bounded {
            return Err(Error::query("ORDER BY over an unbounded stream would have to wait for its end")
                .with_hint("leave it out: windows come in the order of their ends; bounded tables can be sorted")
                .at(self.words.find_keywords("ORDER BY").unwrap_or(self.words.start())));
        }
        let mut keys = Vec::new();
        for key in &sort.expr {
            let expression = self.rebase(&stream, &key.expr)?;
            keys.push(SortKey { expression, descending: !key.asc, nulls_first: key.nulls_first });
        }
        // Sorted rows are no longer in the order of their time.
        let schema = StreamSchema { time: None, window: None, ..self.schema(&stream).clone() };
        let node = self.plan.add(Node::Sort(Sort { keys, fetch }), vec![stream.node], schema);
        Ok(Stream { node, ..stream })
    }

    fn limit(&mut self, limit: &datafusion_expr::logical_plan::Limit) -> Result<Stream> {
        let wrong = |what: &str| diagnose::no_number(what, self.words);
        let planning = |error| diagnose::planning(error, self.words);
        let SkipType::Literal(skip) = limit.get_skip_type().map_err(planning)? else { return Err(wrong("OFFSET")) };
        let FetchType::Literal(fetch) = limit.get_fetch_type().map_err(planning)? else { return Err(wrong("LIMIT")) };
        let stream = match &*limit.input {
            // Only so many rows need be kept to sort them.
            LogicalPlan::Sort(sort) => self.sort(sort, fetch.map(|rows| rows.saturating_add(skip)))?,
            input => self.node(input)?,
        };
        let stream = self.settle(stream)?;
        let mut schema = self.schema(&stream).clone();
        // So many rows and no more: the stream ends by itself.
        schema.is_bounded |= fetch.is_some();
        let node = self.plan.add(Node::Limit(Limit { skip, fetch }), vec![stream.node], schema);
        Ok(Stream { node, ..stream })
    }

    /// The same stream, whose node has only the columns that are needed, before they are sent or kept.
    fn narrow(&mut self, mut stream: Stream, needed: &BTreeSet<usize>) -> Stream {
        let schema = self.schema(&stream).clone();
        if needed.len() == schema.columns.fields().len() {
            return stream;
        }
        let mut map = MapBuilder::default();
        for column in needed {
            let field = schema.columns.field(*column).as_ref().clone();
            map.add(Expr::Column(Column::from_name(field.name())), field, Some(*column));
        }
        let moved = |column: usize| needed.iter().position(|kept| *kept == column);
        stream.node = self.add_map(stream.node, map);
        for slot in &mut stream.slots {
            if let Slot::Column(column) = slot {
                *slot = moved(*column).map_or(Slot::Dropped, Slot::Column);
            }
        }
        if let Some(pending) = &mut stream.pending {
            pending.windows.time = moved(pending.windows.time).expect("the time of a window is needed");
        }
        stream
    }

    /// A stream whose node has exactly the logical columns, under their names.
    fn exactly(&mut self, stream: Stream) -> Result<Stream> {
        self.exactly_with(stream, Hiddens::default())
    }

    /// A stream whose node has exactly the logical columns, under their names, and some that are hidden.
    fn exactly_with(&mut self, stream: Stream, with: Hiddens) -> Result<Stream> {
        let stream = self.settle(stream)?;
        let StreamSchema { time, position, op, .. } = *self.schema(&stream);
        let hidden = [time.filter(|_| with.time), position.filter(|_| with.position), op.filter(|_| with.op)];
        let hidden: Vec<usize> = hidden.into_iter().flatten().collect();
        let have = self.schema(&stream).columns.fields();
        let want = stream.columns.fields();
        let is_same = have.len() == want.len() + hidden.len()
            && hidden.iter().zip(want.len()..).all(|(column, place)| *column == place)
            && stream.slots.iter().enumerate().all(|(i, slot)| *slot == Slot::Column(i))
            && have.iter().zip(want).all(|(a, b)| *a.name() == names::readable(b.name(), &self.tables));
        if is_same {
            return Ok(stream);
        }
        let mut map = MapBuilder::default();
        for (slot, field) in stream.slots.iter().zip(stream.columns.fields()) {
            let column = slot.column().ok_or_else(|| Error::bug("a settled stream has no pending columns"))?;
            let source = self.schema(&stream).columns.field(column);
            let field = source.as_ref().clone().with_name(field.name());
            map.add(Expr::Column(Column::from_name(source.name())), field, Some(column));
        }
        for column in hidden {
            let field = self.schema(&stream).columns.field(column).as_ref().clone();
            map.add(Expr::Column(Column::from_name(field.name())), field, Some(column));
        }
        let node = self.add_map(stream.node, map);
        Ok(Stream::whole(node, &stream.columns))
    }

    fn unique(&self, fields: impl IntoIterator<Item = Field>) -> DFSchemaRef {
        stream::unique_columns(fields, &self.tables)
    }

    fn schema(&self, stream: &Stream) -> &StreamSchema {
        &self.plan.node(stream.node).schema
    }

    /// The expression over the columns of the stream's node.
    fn rebase(&self, stream: &Stream, expression: &Expr) -> Result<Expr> {
        let columns: &DFSchema = &self.schema(stream).columns;
        stream.rebase(expression, columns).map_err(|error| diagnose::planning(error, self.words))
    }
}

/// Which hidden columns stand behind the logical ones: the event time, where rows stand in their source, what becomes of them.
#[derive(Clone, Copy, Debug, Default)]
struct Hiddens {
    time: bool,
    position: bool,
    op: bool,
}

/// What becomes of columns that are not selected, but tell of windows and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    Keep,
    Drop,
}

/// One row of which nothing is asked, as below `SELECT 1`.
fn is_one_row(logical: &LogicalPlan) -> bool {
    matches!(logical, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row)
}

/// The columns of a map that is being put together.
#[derive(Default)]
struct MapBuilder {
    expressions: Vec<Expr>,
    fields: Vec<Field>,
    from: Vec<Option<usize>>,
}

impl MapBuilder {
    fn add(&mut self, expression: Expr, field: Field, from: Option<usize>) -> usize {
        self.expressions.push(expression);
        self.fields.push(field);
        self.from.push(from);
        self.fields.len() - 1
    }
}
