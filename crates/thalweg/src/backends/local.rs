//! Compiles a plan for this machine: nodes become operators, expressions and aggregates are compiled, tables opened.

use std::{cell::Cell, collections::BTreeSet, sync::Arc};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, SortOptions, TimeUnit};
use datafusion_common::{Column, DFSchema};
use datafusion_expr::{Expr, ExprSchemable};
use thalweg_core::{
    Batch, Error, KeyGroups, Operator, Progress, Result,
    aggregate::{Aggregate as AggregateFunction, Exactness, Signature},
    connector::{Connector, Host, Read, Reader, Sink, Source, TableDefinition},
    window::Grid,
};
use thalweg_expressions::{aggregate, aggregate_in_order, compile as compile_expression, constant_rows};
use thalweg_operators::{
    Aggregate, EagerJoin, EagerOver, Filter, IntervalJoin, Limit, Map, Normalize, Over, Position, Rebatch, Sort, Split,
    Union, Window,
    aggregate::{Call, Instants, Partial, Parts, functions::native, partial, windowing::Windowing},
    interval::{
        Frame, Input, join, over,
        paired::{Paired, Side},
        pairs::Condition,
    },
    window::{Clock, WindowSpec},
};
use thalweg_plan::{
    Node, NodeId, Plan, PlanNode, Settings, StreamSchema,
    node::{self, Anchor, Emission, FunctionParts},
    parallel::{self, ParallelPlan, Route, Subquery, parallelize, share::sharing},
    settings::{FloatSum, Merge},
};
use thalweg_runtime::{KeyParts, OnBarrier, OperatorParts, SourceParts, Stage, StageInput, Topology};

use super::not_null::NotNull;

/// In how many windows a row may be.
const MOST_WINDOWS: i64 = 10_000;

/// Compiles a plan and opens its tables.
///
/// Errors: what an expression, an aggregate or a connector finds wrong, with the node's name.
pub fn compile(plan: &Plan, connectors: &[Arc<dyn Connector>]) -> Result<Topology> {
    let compiler = Compiler { plan, cut: parallelize(plan), connectors, key_groups: KeyGroups::default() };
    let stages = compiler.cut.subqueries.iter().map(|subquery| compiler.stage(subquery)).collect::<Result<_>>()?;
    Ok(Topology {
        stages,
        settings: plan.settings.clone(),
        key_groups: compiler.key_groups,
        on_barrier: OnBarrier::Pass,
        is_timed: false,
        schedule: None,
        moves: None,
    })
}

/// The plan as it is run: unions are spread, and aggregates have two phases where that gains.
pub fn as_run(plan: &Plan) -> Plan {
    let exact_floats = plan.settings.float_sum == FloatSum::Exact;
    parallel::two_phase::two_phase(&parallel::spread::spread(plan), &|call, input| {
        small_state(aggregate_call(call, input, exact_floats).ok()?)
    })
}

/// The state of an aggregate that nodes may compute in two phases, with exact sums of floats.
pub fn states(call: &node::AggregateCall, input: &DFSchema) -> Option<Vec<FieldRef>> {
    let is_native = Cell::new(false);
    let compiled = aggregate(call, input, true, &native_noting(&is_native)).map(call_of).ok()?;
    if is_native.get() { small_state(compiled) } else { None }
}

/// What finds the engine's own aggregates, and notes whether it has found one.
pub fn native_noting(found: &Cell<bool>) -> impl Fn(&Signature<'_>) -> Option<Arc<dyn AggregateFunction>> {
    |signature| {
        let function = native(signature);
        found.set(function.is_some());
        function
    }
}

/// The columns of an aggregate's state, if that does not grow with the rows: what keeps its values in lists keeps as many as there are.
fn small_state(call: Call) -> Option<Vec<FieldRef>> {
    let state = call.function.state().ok()?;
    let is_small = call.function.exactness() == Exactness::Exact;
    (is_small && !state.iter().any(|field| field.data_type().is_nested())).then_some(state)
}

/// A stream's columns as batches have them. Any column may hold nulls there: a row that a filter dropped is not computed.
pub fn columns(schema: &StreamSchema) -> SchemaRef {
    let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
    Arc::new(Schema::new(schema.arrow().fields().iter().map(nullable).collect::<Vec<_>>()))
}

struct Compiler<'a> {
    plan: &'a Plan,
    cut: ParallelPlan,
    connectors: &'a [Arc<dyn Connector>],
    key_groups: KeyGroups,
}

type Make = Arc<dyn Fn() -> Result<Box<dyn Operator>> + Send + Sync>;

/// A factory from a closure that makes one operator.
fn make<O: Operator + 'static>(new: impl Fn() -> Result<O> + Send + Sync + 'static) -> Make {
    Arc::new(move || Ok(Box::new(new()?)))
}

impl Compiler<'_> {
    fn stage(&self, subquery: &Subquery) -> Result<Stage> {
        let mut inputs = Vec::new();
        for (number, input) in subquery.inputs.iter().enumerate() {
            let keys = self.keys(subquery, number, &input.route)?;
            let (is_forward, is_dealt) = (input.route == Route::Forward, input.route == Route::RoundRobin);
            let is_in_turn = input.route == Route::InTurn;
            let is_ordered = matches!(input.route, Route::Gather(merge) if merge.puts_in_order());
            inputs.push(StageInput {
                stage: input.from.0,
                port: input.port,
                keys,
                is_forward,
                is_dealt,
                is_in_turn,
                is_ordered,
            });
        }
        let mut stage = Stage {
            instances: subquery.instances,
            inputs,
            source: None,
            operators: Vec::new(),
            sink: None,
            is_result: false,
        };
        for id in &subquery.nodes {
            self.add(*id, &mut stage).map_err(|error| error.in_node(self.plan.name(*id)))?;
        }
        Ok(stage)
    }

    /// What divides the rows that a subquery takes from one of its inputs, if they are divided.
    fn keys(&self, subquery: &Subquery, input: usize, route: &Route) -> Result<Option<KeyParts>> {
        let Route::Keyed { keys, .. } = route else { return Ok(None) };
        let first = subquery.nodes[0];
        // A union has no keys of its own.
        let label = self.plan.label(subquery.keyed.first().map_or(first, |keyed| keyed.node));
        let sharing = sharing(self.plan, subquery, input);
        let input = &self.plan.node(self.plan.node(first).inputs[input]).schema.columns;
        let compiled = keys.iter().map(|key| compile_expression(key, input));
        let keys = compiled.collect::<Result<_>>().map_err(|error| error.in_node(&label))?;
        Ok(Some(KeyParts { label, keys, sharing }))
    }

    fn add(&self, id: NodeId, stage: &mut Stage) -> Result<()> {
        let planned = self.plan.node(id);
        let output = columns(&planned.schema);
        let label = self.plan.label(id);
        let made = match &planned.node {
            Node::Source(source) => {
                stage.source = Some(self.source(source, label, output)?);
                return Ok(());
            }
            Node::Values(values) => {
                let rows = constant_rows(&values.rows, &planned.schema.columns)?;
                stage.source = Some(constant_source(label, rows));
                return Ok(());
            }
            Node::Branch(_) => return Ok(()),
            Node::Sink(node::Sink::Result) => {
                stage.is_result = true;
                return Ok(());
            }
            Node::Sink(node::Sink::Discard) => {
                stage.sink = Some((label, Box::new(Discard)));
                return Ok(());
            }
            Node::Sink(node::Sink::Table(table)) => {
                let sink = self.connector(table)?.sink(table)?;
                stage.sink = Some((label, NotNull::guard(sink, &table.columns)));
                return Ok(());
            }
            Node::Filter(filter) => {
                let predicate = compile_expression(&filter.predicate, self.input(id))?;
                vec![make(move || Ok(Filter::new(Arc::clone(&predicate))))]
            }
            Node::Map(map) => {
                let compiled = map.expressions.iter().map(|e| compile_expression(e, self.input(id)));
                let expressions = compiled.collect::<Result<Vec<_>>>()?;
                vec![make(move || Ok(Map::new(expressions.clone(), Arc::clone(&output))))]
            }
            Node::Window(windows) => {
                let spec = self.windows(windows)?;
                vec![make(move || Ok(Window::new(spec.clone(), Arc::clone(&output))))]
            }
            Node::Aggregate(_) | Node::Partial(_) => self.aggregate(id, output)?,
            Node::Position => {
                let numbered = self.plan.numbered_position(id);
                vec![make(move || Ok(Position::new(Arc::clone(&output), numbered)))]
            }
            Node::Normalize => {
                let op = self.plan.node(id).schema.op.ok_or_else(|| Error::bug("what becomes of rows is not known"))?;
                vec![make(move || Ok(Normalize::new(Arc::clone(&output), op)))]
            }
            Node::IntervalJoin(join) => vec![self.interval_join(id, join, output)?],
            Node::Over(over) => vec![self.over(id, over, output)?],
            Node::Union => vec![make(move || Ok(Union::new(Arc::clone(&output))))],
            Node::Split(split) => {
                let compiled = split.predicates.iter().map(|e| compile_expression(e, self.input(id)));
                let predicates = compiled.collect::<Result<Vec<_>>>()?;
                vec![make(move || Ok(Split::new(predicates.clone())))]
            }
            Node::Batch(rows) => {
                let rows = *rows;
                vec![make(move || Ok(Rebatch::new(rows, Arc::clone(&output))))]
            }
            Node::Function(function) => {
                let compiled = function.keys.iter().map(|key| compile_expression(key, self.input(id)));
                let keys = compiled.collect::<Result<_>>()?;
                let kinds = function.keys.iter().map(|key| key.get_type(self.input(id)));
                let key_types = kinds.collect::<Result<_, _>>().map_err(|error| Error::bug(error.to_string()))?;
                let parts = FunctionParts { keys, key_types, output, key_groups: self.key_groups };
                let function = Arc::clone(&function.make);
                let make: Make = Arc::new(move || function(parts.clone()));
                vec![make]
            }
            Node::Sort(sort) => {
                let (fetch, rows) = (sort.fetch, self.settings().batch_rows);
                let mut keys = Vec::new();
                for key in &sort.keys {
                    let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
                    keys.push((compile_expression(&key.expression, self.input(id))?, options));
                }
                vec![make(move || Ok(Sort::new(keys.clone(), fetch, Arc::clone(&output), rows)))]
            }
            Node::Limit(limit) => {
                let node::Limit { skip, fetch } = *limit;
                vec![make(move || Ok(Limit::new(skip, fetch)))]
            }
        };
        let blamed = self.plan.name(id);
        let parts = |make| OperatorParts { label: label.clone(), blamed: blamed.clone(), make };
        stage.operators.extend(made.into_iter().map(parts));
        Ok(())
    }

    fn settings(&self) -> &Settings {
        &self.plan.settings
    }

    fn input(&self, id: NodeId) -> &DFSchema {
        &self.input_stream(id).columns
    }

    fn input_stream(&self, id: NodeId) -> &StreamSchema {
        &self.plan.node(self.plan.node(id).inputs[0]).schema
    }

    fn connector(&self, table: &TableDefinition) -> Result<&Arc<dyn Connector>> {
        let name = table.options.required("connector")?;
        let found = self.connectors.iter().find(|connector| connector.name() == name);
        found.ok_or_else(|| Error::query(format!("there is no connector '{name}'")))
    }

    fn source(&self, source: &node::Source, label: String, output: SchemaRef) -> Result<SourceParts> {
        let computed = match &source.computed {
            None => None,
            Some(expressions) => {
                let compiled = expressions.iter().map(|e| compile_expression(e, &source.physical));
                Some((compiled.collect::<Result<Vec<_>>>()?, output))
            }
        };
        Ok(SourceParts {
            label,
            table: source.table.name.clone(),
            source: self.connector(&source.table)?.source(&source.table)?,
            computed,
            watermark: source.watermark,
            skips_bad_rows: source.table.options.get("bad.rows") == Some("skip"),
        })
    }

    fn windows(&self, windows: &node::Windows) -> Result<WindowSpec> {
        let grid = match windows.step {
            None => Grid::new(windows.size, windows.slide, windows.offset),
            Some(step) => Grid::cumulating(windows.size, step, windows.offset),
        };
        let impossible = || Error::query("a window's size and slide must be positive and shorter than a century");
        let grid = grid.ok_or_else(impossible)?;
        let count = windows.size.0 / windows.step.unwrap_or(windows.slide).0;
        if count > MOST_WINDOWS {
            let message = format!("each row would be in {count} windows, more than {MOST_WINDOWS}");
            return Err(Error::query(message).with_hint("use a longer slide or step, or a shorter size"));
        }
        Ok(WindowSpec {
            time: windows.time,
            grid,
            clock: windows.zone.as_ref().map_or(Ok(Clock::Utc), |zone| Clock::of_zone(zone))?,
            allowed: self.settings().late_allowed,
            from_first_row: windows.anchor == Anchor::FirstRow,
        })
    }

    /// An aggregate, or a phase of one.
    fn aggregate(&self, id: NodeId, output: SchemaRef) -> Result<Vec<Make>> {
        let Some((input, aggregate)) = self.plan.aggregated(id) else { return Err(Error::bug("this is no aggregate")) };
        let stream = &self.plan.node(input).schema;
        let input = &stream.columns;
        let mut made = Vec::new();
        let windowing = match &aggregate.windowing {
            node::Windowing::Whole => Windowing::Whole,
            node::Windowing::Columns { start, end } => {
                Windowing::Columns { start: *start, end: *end, clock: self.clock_of(stream)? }
            }
            // Slices need to know where windows lie; these are known once rows have come. So a window operator stands before.
            node::Windowing::Assigned(windows) if windows.anchor == Anchor::FirstRow => {
                let spec = self.windows(windows)?;
                let (start, clock) = (input.fields().len(), spec.clock);
                let bounds = output.fields()[..3].iter().cloned();
                let fields: Vec<_> = columns(stream).fields().iter().cloned().chain(bounds).collect();
                let schema = Arc::new(Schema::new(fields));
                made.push(make(move || Ok(Window::new(spec.clone(), Arc::clone(&schema)))));
                Windowing::Columns { start, end: start + 1, clock }
            }
            node::Windowing::Assigned(windows) => Windowing::Assigned(self.windows(windows)?),
        };
        let keys = aggregate.keys.iter().map(|key| compile_expression(key, input)).collect::<Result<Vec<_>>>()?;
        let is_partial = matches!(self.plan.node(id).node, Node::Partial(_));
        let first_key = match (&windowing, is_partial) {
            (_, true) => windowing.name_width(),
            (Windowing::Whole, false) => 0,
            (_, false) => 3,
        };
        let key_types = output.fields()[first_key..][..keys.len()].iter().map(|field| field.data_type().clone());
        let key_types: Vec<_> = key_types.collect();
        let exact_floats = self.settings().float_sum == FloatSum::Exact;
        let compiled = aggregate.aggregates.iter().map(|call| aggregate_call(call, input, exact_floats));
        let calls = compiled.collect::<Result<Vec<_>>>()?;
        let (batch_rows, key_groups) = (self.settings().batch_rows, self.key_groups);
        if is_partial {
            made.push(make(move || {
                Partial::new(partial::Parts {
                    windowing: windowing.clone(),
                    keys: keys.clone(),
                    key_types: key_types.clone(),
                    calls: calls.clone(),
                    output: Arc::clone(&output),
                    batch_rows,
                })
            }));
            return Ok(made);
        }
        let divided_by = self.divided_by(id, keys.len());
        let has_positions = self.cut.has_positions(id);
        let merges = self.plan.first_phase(id).is_some();
        let are_instants = Instants::are(&windowing);
        let parts = move || Parts {
            windowing: windowing.clone(),
            keys: keys.clone(),
            key_types: key_types.clone(),
            calls: calls.clone(),
            merges,
            output: Arc::clone(&output),
            batch_rows,
            key_groups,
            divided_by: divided_by.clone(),
            has_positions,
        };
        made.push(match are_instants {
            true => make(move || Instants::new(parts())),
            false => make(move || Aggregate::new(parts())),
        });
        Ok(made)
    }

    /// Which of so many keys of a node its state is divided by.
    fn divided_by(&self, id: NodeId, keys: usize) -> Vec<usize> {
        let keyed = self.cut.subqueries.iter().flat_map(|subquery| &subquery.keyed).find(|keyed| keyed.node == id);
        keyed.map_or_else(|| (0..keys).collect(), |keyed| keyed.by.clone())
    }

    /// Aggregates over the rows around each row.
    fn over(&self, id: NodeId, over: &node::Over, output: SchemaRef) -> Result<Make> {
        let Looked { inputs, frames, paired } = looked(self.plan, id, over)?;
        let planned = self.plan.node(id);
        let (key_types, passes) = (types(over.keys.iter(), self.input(id))?, over.passes.clone());
        let divided_by = self.divided_by(id, over.keys.len());
        let (key_groups, settings, input_of) = (self.key_groups, self.settings(), planned.all_sides());
        let (batch_rows, allowed, has_positions) =
            (settings.batch_rows, settings.late_allowed, self.cut.has_positions(id));
        let (is_incremental, are_in_order) = (settings.over_incremental, settings.merge != Merge::Arrival);
        let corrected = corrected(self.plan, planned, over)?;
        let tells_spoilt = learns(self.plan);
        let partners = self.plan.partners(id);
        let of_results = tells_spoilt && aggregates_results(self.plan, planned, over);
        let parts = move || over::Parts {
            inputs: inputs.clone(),
            input_of: input_of.clone(),
            key_types: key_types.clone(),
            passes: passes.clone(),
            frames: frames.clone(),
            paired: paired.clone(),
            output: Arc::clone(&output),
            batch_rows,
            key_groups,
            divided_by: divided_by.clone(),
            has_positions,
            are_in_order,
            allowed,
            is_incremental,
            tells_spoilt,
            partners,
            of_results,
            corrected: corrected.clone(),
        };
        Ok(match over.emission {
            Emission::OnWatermark => make(move || Over::new(parts())),
            Emission::Eager => make(move || EagerOver::new(parts())),
        })
    }

    fn interval_join(&self, id: NodeId, join: &node::IntervalJoin, output: SchemaRef) -> Result<Make> {
        let (sides, input_of) = (self.plan.node(id).first_of_sides(), self.plan.node(id).all_sides());
        let [left, right] = [0, 1].map(|side| &self.plan.node(sides[side]).schema);
        let mut inputs = [(left, 0), (right, 1)].map(|(schema, side)| Input {
            time: join.times[side],
            position: schema.position,
            has_own_positions: self.plan.side_has_own_positions(id, side),
            keys: Vec::new(),
        });
        for (one, other) in &join.keys {
            inputs[0].keys.push(compile_expression(one, &left.columns)?);
            inputs[1].keys.push(compile_expression(other, &right.columns)?);
        }
        let kinds = |schema: &StreamSchema| columns(schema).fields().iter().map(|f| f.data_type().clone()).collect();
        let input_types: [Vec<DataType>; 2] = [kinds(left), kinds(right)];
        let key_types = types(join.keys.iter().map(|(left, _)| left), &left.columns)?;
        let pair = columns(&StreamSchema::plain(Arc::clone(&join.pair), true));
        let compiled =
            join.condition.as_ref().map(|predicate| compile_expression(predicate, &join.pair)).transpose()?;
        let condition = compiled.map(|predicate| Condition { predicate, pair });
        let (kind, distance, settings, key_groups) = (join.kind, join.distance, self.settings(), self.key_groups);
        let (batch_rows, allowed, has_positions) =
            (settings.batch_rows, settings.late_allowed, self.cut.has_positions(id));
        let (index, tells_spoilt) = (settings.join_index, learns(self.plan));
        let parts = move || join::Parts {
            kind,
            inputs: inputs.clone(),
            input_of: input_of.clone(),
            types: input_types.clone(),
            key_types: key_types.clone(),
            distance,
            condition: condition.clone(),
            output: Arc::clone(&output),
            batch_rows,
            key_groups,
            has_positions,
            allowed,
            index,
            tells_spoilt,
        };
        Ok(match join.emission {
            Emission::OnWatermark => make(move || IntervalJoin::new(parts())),
            Emission::Eager => make(move || EagerJoin::new(parts())),
        })
    }

    /// Windows over local timestamps follow the zone of the event time behind them.
    fn clock_of(&self, stream: &StreamSchema) -> Result<Clock> {
        match stream.time.map(|column| stream.columns.field(column).data_type().clone()) {
            Some(DataType::Timestamp(TimeUnit::Microsecond, Some(zone))) => Clock::of_zone(&zone),
            _ => Ok(Clock::Utc),
        }
    }
}

/// The inputs of an [`Over`], its frames with how many of the aggregates are of each, and what these are where they are over pairs.
pub(super) struct Looked {
    pub inputs: Vec<over::OverInput>,
    pub frames: Vec<(Frame, usize)>,
    pub paired: Vec<Option<Arc<Paired>>>,
}

/// What an [`Over`] looks at.
pub(super) fn looked(plan: &Plan, id: NodeId, over: &node::Over) -> Result<Looked> {
    let exact_floats = plan.settings.float_sum == FloatSum::Exact;
    let (mut inputs, inputs_of) = (Vec::new(), &plan.node(id).inputs);
    // What is null in one input counts in all of them as what may be null: they keep the same columns.
    let may_be_null = |name: &str| {
        let mut fields =
            inputs_of.iter().filter_map(|id| plan.node(*id).schema.columns.field_with_unqualified_name(name).ok());
        fields.any(|field| field.is_nullable())
    };
    let columns_of = |input: NodeId| {
        let fields = plan.node(input).schema.columns.fields().iter().map(|field| field.as_ref().clone());
        let fields = fields.map(|field| if may_be_null(field.name()) { field.with_nullable(true) } else { field });
        let columns = DFSchema::from_unqualified_fields(fields.collect(), Default::default());
        columns.map_err(|error| Error::bug(error.to_string()))
    };
    let first = columns_of(inputs_of[0])?;
    let paired = over.frames.iter().map(|frame| {
        let paired = frame.pairs.as_ref().map(|pairs| paired(pairs, &frame.aggregates, &first, exact_floats));
        paired.transpose().map(|paired| paired.map(Arc::new))
    });
    let paired = paired.collect::<Result<Vec<_>>>()?;
    for ((side, input), time) in plan.node(id).first_of_sides().into_iter().enumerate().zip(&over.times) {
        let schema = &plan.node(input).schema;
        let columns = columns_of(input)?;
        let keys = over.keys.iter().map(|key| compile_expression(key, &columns)).collect::<Result<_>>()?;
        let mut calls = Vec::new();
        for (frame, paired) in over.frames.iter().zip(&paired) {
            if let Some(paired) = paired {
                calls.extend(seen(paired, &columns)?);
                continue;
            }
            // The operator knows the order of rows better than a call can say it: rows of one time are of several inputs.
            let compiled = |call| aggregate_in_order(call, &columns, exact_floats, &native).map(call_of);
            calls.extend(frame.aggregates.iter().map(compiled).collect::<Result<Vec<_>>>()?);
        }
        let (position, has_own_positions) = (schema.position, plan.side_has_own_positions(id, side));
        inputs.push(over::OverInput { input: Input { time: *time, position, has_own_positions, keys }, calls });
    }
    let frame = |frame: &node::Frame| {
        let node::Frame { bounds, most, excludes_row, excludes_time, excludes_base, .. } = *frame;
        (Frame { bounds, most, excludes_row, excludes_time, excludes_base }, frame.aggregates.len())
    };
    Ok(Looked { inputs, frames: over.frames.iter().map(frame).collect(), paired })
}

/// Aggregates over pairs; `first` has the columns of the first input.
fn paired(pairs: &node::Pairs, calls: &[node::AggregateCall], first: &DFSchema, exact_floats: bool) -> Result<Paired> {
    let calls_of = calls.iter().map(|call| Expr::AggregateFunction(call.function.clone()));
    let all: Vec<Expr> = calls_of.chain(pairs.condition.clone()).collect();
    let read: BTreeSet<usize> =
        all.iter().flat_map(Expr::column_refs).filter_map(|column| first.maybe_index_of_column(column)).collect();
    let mut seen = 0..;
    let side = |column: &usize| match pairs.seen.contains(column) {
        true => seen.next().map(Side::Seen),
        false => Some(Side::Base(*column)),
    };
    let sides = read.iter().filter_map(side).collect();
    let fields = read.iter().map(|column| first.field(*column).as_ref().clone().with_nullable(true)).collect();
    let columns = DFSchema::from_unqualified_fields(fields, Default::default());
    let columns = columns.map_err(|error| Error::bug(error.to_string()))?;
    let compiled = |call| match pairs.takes_last {
        true => aggregate_in_order(call, &columns, exact_floats, &native).map(call_of),
        false => aggregate_call(call, &columns, exact_floats),
    };
    Ok(Paired {
        is_alone: pairs.is_alone,
        takes_last: pairs.takes_last,
        columns: sides,
        condition: pairs.condition.as_ref().map(|condition| compile_expression(condition, &columns)).transpose()?,
        calls: calls.iter().map(compiled).collect::<Result<_>>()?,
        schema: Arc::clone(columns.inner()),
    })
}

/// What is kept for aggregates over pairs of the rows that are seen: their columns of an input that has these.
fn seen(paired: &Paired, columns: &DFSchema) -> Result<Vec<Call>> {
    let fields = paired.columns.iter().zip(paired.schema.fields());
    let seen = fields.filter(|(side, _)| matches!(side, Side::Seen(_)));
    let column = |name: &str| compile_expression(&Expr::Column(Column::from_name(name)), columns);
    let seen = seen.map(|(_, field)| column(field.name())).collect::<Result<Vec<_>>>()?;
    let kept = |call: &Call| Call { function: Arc::clone(&call.function), arguments: seen.clone(), filter: None };
    Ok(paired.calls.iter().map(kept).collect())
}

/// Whether it is to be learnt how much rows are out of order, so that a certain share of results is exact.
fn learns(plan: &Plan) -> bool {
    let learns = |planned: &PlanNode| match &planned.node {
        Node::Source(source) => source.watermark.as_ref().is_some_and(|watermark| watermark.accuracy.is_some()),
        _ => false,
    };
    plan.nodes().any(|(_, planned)| learns(planned))
}

/// Whether aggregates over the rows around a row, or what these have in common, are of results of others that bring rows together.
fn aggregates_results(plan: &Plan, planned: &PlanNode, over: &node::Over) -> bool {
    let calls = over.frames.iter().flat_map(|frame| &frame.aggregates);
    let calls = calls.map(|call| Expr::AggregateFunction(call.function.clone()));
    let conditions = over.frames.iter().filter_map(|frame| frame.pairs.as_ref()?.condition.clone());
    let read: Vec<Expr> = calls.chain(conditions).chain(over.keys.iter().cloned()).collect();
    planned.inputs.iter().any(|input| {
        let results = plan.results(*input);
        // Which rows there are may depend on results, whatever is read of them.
        let are_all = !results.is_empty() && results.iter().all(|is_result| *is_result);
        are_all || read.iter().any(|part| plan.reads(part, *input, &results))
    })
}

/// How the rows of the first input are corrected, if results come out before they are final.
fn corrected(plan: &Plan, planned: &PlanNode, over: &node::Over) -> Result<Option<over::Corrected>> {
    let input = planned.inputs[0];
    let Some(op) = plan.node(input).schema.op else { return Ok(None) };
    let changing = plan.changing(input).ok_or_else(|| Error::bug("rows that others see come and go"))?;
    let columns = over.passes.iter().enumerate().filter(|(_, column)| changing[**column]);
    Ok(Some(over::Corrected { op, columns: columns.map(|(number, _)| number).collect() }))
}

/// The types of expressions.
fn types<'a>(expressions: impl Iterator<Item = &'a Expr>, input: &DFSchema) -> Result<Vec<DataType>> {
    let kinds = expressions.map(|expression| expression.get_type(input));
    kinds.collect::<Result<_, _>>().map_err(|error| Error::bug(error.to_string()))
}

fn aggregate_call(call: &node::AggregateCall, input: &DFSchema, exact_floats: bool) -> Result<Call> {
    aggregate(call, input, exact_floats, &native).map(call_of)
}

fn call_of(compiled: thalweg_expressions::Call) -> Call {
    let thalweg_expressions::Call { function, arguments, filter } = compiled;
    Call { function, arguments, filter }
}

fn constant_source(label: String, rows: RecordBatch) -> SourceParts {
    let source = Box::new(Constant { rows, partitions: ["values".to_string()] });
    SourceParts { label, table: "values".to_string(), source, computed: None, watermark: None, skips_bad_rows: false }
}

/// Takes rows that a function has seen already.
struct Discard;

impl Sink for Discard {
    fn write(&mut self, _: &Batch) -> Result<Progress> {
        Ok(Progress::Done)
    }
}

/// Rows written in the query, as a source.
struct Constant {
    rows: RecordBatch,
    partitions: [String; 1],
}

struct ConstantReader {
    rows: RecordBatch,
}

impl Source for Constant {
    fn partitions(&self) -> &[String] {
        &self.partitions
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn open(&self, _: usize, _: Host) -> Result<Box<dyn Reader>> {
        Ok(Box::new(ConstantReader { rows: self.rows.clone() }))
    }
}

impl Reader for ConstantReader {
    fn read(&mut self, rows: usize) -> Result<Read> {
        let rows = rows.min(self.rows.num_rows());
        if rows == 0 {
            return Ok(Read::End);
        }
        let first = self.rows.slice(0, rows);
        self.rows = self.rows.slice(rows, self.rows.num_rows() - rows);
        Ok(Read::Rows(first))
    }
}
