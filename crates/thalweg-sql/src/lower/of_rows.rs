//! GROUP BY over a join whose groups are the rows of one side: aggregates over the rows around each of them, without pairs that are put
//! together for it.
//!
//! ```text
//! SELECT s.id, sum(r.v) FROM s JOIN r ON s.k = r.k AND r.ts BETWEEN s.ts - … AND s.ts GROUP BY s.id     -- PRIMARY KEY (id)
//!
//! Aggregate by id: sum(v)        Over by k: sum(v) of r alone
//! └─ IntervalJoin           ⇒    ├─ s
//!    ├─ s                        └─ r
//!    └─ r
//! ```
//!
//! Two rows are never in one group only where a key of the table is among the columns of the groups. Elsewhere what is found for each row
//! are the states of aggregates, which an aggregate behind it puts together, if these are small:
//!
//! ```text
//! SELECT s.ts, s.kind, sum(r.v) FROM s JOIN r ON s.k = r.k AND r.ts BETWEEN s.ts - … AND s.ts GROUP BY s.ts, s.kind
//!
//! Aggregate by ts, kind: sum(v)        Aggregate by ts, kind: sum of states
//! └─ IntervalJoin                 ⇒    └─ Over by k: the state of sum(v) of r alone
//!    ├─ s                                 ├─ s
//!    └─ r                                 └─ r
//! ```
//!
//! A column of the other side that is equal in all pairs counts as one of this side. Everything else stays a join.
//!
//! Up to three frames are looked at: that of the rows of the right side; the same one as pairs, where something is asked of both rows; and
//! the row itself beside nulls, which is what a LEFT JOIN has for a row without a partner.
//!
//! Source: Yan and Larson, "Eager aggregation and lazy aggregation" (VLDB 1995): an aggregate below a join, of which each row of the other
//! side takes what is its own.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::{Column, DFSchema, DFSchemaRef, JoinType, TableReference};
use datafusion_expr::{
    BinaryExpr, Expr, ExprSchemable, Operator,
    expr::AggregateFunction,
    expr_rewriter::replace_col,
    lit, logical_plan,
    utils::{conjunction, split_conjunction},
    when,
};
use datafusion_functions_aggregate::count::count_udaf;
use thalweg_core::{Error, Result};
use thalweg_plan::{
    Node,
    node::{AggregateCall, Filter, Frame, FrameBounds, Pairs, Phase},
    settings::FloatSum,
};

use super::{
    Hidden, Lowering,
    aggregate::Part,
    beside::{columns_of, over_others, reads, under_names},
    join::{Conditions, both},
    joined::{InWindows, Joined, is_of_window, joined, the_window},
    stream::{Slot, Stream},
    unique::unique,
    window::window_fields,
};
use crate::{diagnose, over};

/// The frames that are looked at, in this order.
const OTHERS: usize = 0;
const PAIRS: usize = 1;
const ALONE: usize = 2;

/// In which frame an aggregate is, and its number there.
type Place = (usize, usize);

/// The aggregates by the frame in which they are looked at.
#[derive(Default)]
struct Frames {
    calls: [Vec<AggregateCall>; 3],
    /// For each that was asked for where it is, and where what it comes to in a row without a partner, if that is `Whatever`.
    places: Vec<(Place, OfNulls, Option<Place>)>,
    /// Where the number of partners is, if somebody asks.
    partners: Option<Place>,
}

impl Frames {
    fn put(&mut self, frame: usize, call: AggregateCall) -> Place {
        self.calls[frame].push(call);
        (frame, self.calls[frame].len() - 1)
    }

    /// An aggregate, which is looked at in a frame and says this of nulls.
    fn ask(&mut self, frame: usize, call: AggregateCall, of_nulls: OfNulls) {
        let alone = (of_nulls == OfNulls::Whatever).then(|| self.put(ALONE, call.clone()));
        let place = self.put(frame, call);
        self.places.push((place, of_nulls, alone));
    }

    /// The number of partners.
    fn count(&mut self, frame: usize) {
        let count = AggregateFunction::new_udf(count_udaf(), vec![lit(1_i64)], false, None, vec![], None);
        let output = Arc::new(Field::new("partners", DataType::Int64, false));
        self.partners = Some(self.put(frame, AggregateCall { function: count, output, phase: Phase::Only }));
    }

    /// Where the aggregates of each frame begin, the first of them at this column.
    fn firsts(&self, first: usize) -> [usize; 3] {
        let [others, pairs, _] = self.calls.each_ref().map(Vec::len);
        [first, first + others, first + others + pairs]
    }
}

/// What the pair of a row without a partner, of nulls, comes to in an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfNulls {
    /// It does not count.
    Nothing,
    /// It is one row.
    One,
    /// What the aggregate says.
    Whatever,
}

/// What is wanted for each row of the left side.
struct Wanted {
    /// Columns of it.
    groups: Vec<Expr>,
    /// Aggregates of its pairs.
    calls: Vec<AggregateCall>,
    /// How both are called.
    columns: DFSchemaRef,
}

impl Lowering<'_> {
    /// The aggregate as one over the rows around a row, if each of its groups is a row of one side of a join.
    pub(super) fn of_rows(&mut self, aggregate: &logical_plan::Aggregate) -> Result<Option<Stream>> {
        let bare = |parts: &[Expr]| parts.iter().map(|part| part.clone().unalias_nested().data).collect();
        let (mut groups, mut calls): (Vec<Expr>, Vec<Expr>) = (bare(&aggregate.group_expr), bare(&aggregate.aggr_expr));
        let joined = joined(&aggregate.input, groups.iter_mut().chain(&mut calls).collect());
        let joined = joined.map_err(|error| diagnose::planning(error, self.words))?;
        let Some(Joined { join, window }) = joined else { return Ok(None) };
        let turned = turned(join);
        for is_as_written in [true, false] {
            for (join, is_turned) in [(join, false), (&turned, true)] {
                let keeps_left = matches!(join.join_type, JoinType::Inner | JoinType::Left);
                let has_time = !is_turned || join.join_type == JoinType::Left;
                let groups = if is_as_written { Some(groups.clone()) } else { under_equals(&groups, join) };
                if let Some(groups) = groups.filter(|_| keeps_left)
                    && let Some(stream) =
                        self.of_left_rows(aggregate, (join, has_time), window.as_ref(), (&groups, &calls))?
                {
                    return Ok(Some(stream));
                }
            }
        }
        Ok(None)
    }

    fn of_left_rows(
        &mut self,
        aggregate: &logical_plan::Aggregate,
        (join, has_time): (&logical_plan::Join, bool),
        window: Option<&InWindows<'_>>,
        (groups, calls): (&[Expr], &[Expr]),
    ) -> Result<Option<Stream>> {
        let calls = calls.iter().cloned().map(over_pairs).collect::<Option<Vec<_>>>();
        let mut by = groups.iter().chain(window.map(|window| &window.time));
        let Some(calls) = calls.filter(|_| by.all(|group| is_of_left(group, join))) else { return Ok(None) };
        let outputs = &aggregate.schema.fields()[groups.len()..];
        let call = |(function, output): (AggregateFunction, &FieldRef)| AggregateCall {
            function,
            output: Arc::clone(output),
            phase: Phase::Only,
        };
        let calls = calls.into_iter().zip(outputs).map(call).collect();
        // Conditions show what they are once both sides are lowered.
        let before = self.plan.clone();
        let stream = match window.is_none() && are_rows(groups, join) {
            true => {
                let wanted = Wanted { groups: groups.to_vec(), calls, columns: Arc::clone(&aggregate.schema) };
                self.over_rows(join, wanted)?
            }
            false => self.of_states(aggregate, (join, has_time), window, (groups, calls))?,
        };
        if stream.is_none() {
            self.plan = before;
        }
        Ok(stream)
    }

    /// The aggregate over the states of each row of the left side, whose event time is that of pairs or not.
    fn of_states(
        &mut self,
        aggregate: &logical_plan::Aggregate,
        (join, has_time): (&logical_plan::Join, bool),
        window: Option<&InWindows<'_>>,
        (groups, calls): (&[Expr], Vec<AggregateCall>),
    ) -> Result<Option<Stream>> {
        let by: Vec<&Expr> = groups.iter().chain(window.map(|window| &window.time)).collect();
        let Some((wanted, merged)) = self.states(join, &by, calls)? else { return Ok(None) };
        let states = self.with_positions(false, |lowering| lowering.over_rows(join, wanted))?;
        let Some(mut states) = states else { return Ok(None) };
        let time = self.schema(&states).time.map(Slot::Column);
        // Pairs have one time, whatever is asked of them.
        if !has_time && by.iter().any(|part| states.slots_in(part).any(|slot| Some(slot) == time)) {
            return Ok(None);
        }
        if let Some(InWindows { node, time }) = window {
            let time = states.slot_of(time).and_then(Slot::column);
            // Who windows by another time is told so where pairs are put together.
            let Some(time) = time.filter(|time| self.schema(&states).time == Some(*time)) else { return Ok(None) };
            let fields = window_fields(self.schema(&states).columns.field(time).data_type());
            let fields = fields.into_iter().map(|field| (Some(the_window()), Arc::new(field)));
            let known = states.columns.iter().map(|(table, field)| (table.cloned(), Arc::clone(field)));
            let columns = DFSchema::new_with_metadata(known.chain(fields).collect(), Default::default());
            let columns = columns.map_err(|error| diagnose::planning(error, self.words))?;
            states = self.in_windows(states, time, node, Arc::new(columns));
        }
        self.grouped(states, aggregate, groups.to_vec(), merged).map(Some)
    }

    /// The states of these aggregates, for each row of the left side with what the groups read of it, and what puts these together, if such
    /// states are small.
    fn states(
        &self,
        join: &logical_plan::Join,
        by: &[&Expr],
        calls: Vec<AggregateCall>,
    ) -> Result<Option<(Wanted, Vec<Part>)>> {
        let is_eager = self.eager.is_some() || self.feeds_eager;
        let Some(states) = self.states.filter(|_| !is_eager && self.plan.settings.float_sum == FloatSum::Exact) else {
            return Ok(None);
        };
        let of_left = join.left.schema();
        let read = by.iter().flat_map(|part| part.column_refs());
        let read: BTreeSet<usize> = read.filter_map(|column| of_left.maybe_index_of_column(column)).collect();
        let mut columns: Vec<_> = read.iter().map(|column| of_left.qualified_field(*column)).collect();
        let groups = columns.iter().map(|column| Expr::Column(Column::from(*column))).collect();
        let table = TableReference::bare("the rows around");
        let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
        for call in calls {
            let Some(state) = states(&call, &join.schema).filter(|_| !has_order(&call.function)) else {
                return Ok(None);
            };
            let params = &call.function.params;
            let arguments = params.args.iter().map(|argument| argument.get_type(&join.schema));
            let arguments = arguments.collect::<datafusion_common::Result<Vec<_>>>();
            let arguments = arguments.map_err(|error| diagnose::planning(error, self.words))?;
            let result = call.output.data_type().clone();
            let (kind, phase) = match &state[..] {
                // The result says it all.
                [only] if *only.data_type() == result => (result, Phase::Only),
                _ => (DataType::Struct(state.into()), Phase::First { result }),
            };
            let name = call.output.name().clone();
            let value = Expr::Column(Column::new(Some(table.clone()), &name));
            let (func, distinct) = (Arc::clone(&call.function.func), params.distinct);
            let second = AggregateFunction::new_udf(func, vec![value], distinct, None, vec![], None);
            seconds.push((Expr::AggregateFunction(second), Phase::Second { arguments }));
            firsts.push(AggregateCall { output: Arc::new(Field::new(name, kind, true)), phase, ..call });
        }
        columns.extend(firsts.iter().map(|call| (Some(&table), &call.output)));
        let columns = columns.into_iter().map(|(table, field)| (table.cloned(), Arc::clone(field))).collect();
        let columns = DFSchema::new_with_metadata(columns, Default::default());
        let columns = Arc::new(columns.map_err(|error| diagnose::planning(error, self.words))?);
        Ok(Some((Wanted { groups, calls: firsts, columns }, seconds)))
    }

    /// What is wanted of the rows around each row of the left side, if the join is one of these.
    fn over_rows(&mut self, join: &logical_plan::Join, wanted: Wanted) -> Result<Option<Stream>> {
        let Wanted { groups, calls, columns } = wanted;
        let is_inner = join.join_type == JoinType::Inner;
        let (left, right) = (self.side(&join.left)?, self.side(&join.right)?);
        let both = both(&left, &right, self.schema(&left).columns.fields().len())
            .map_err(|error| diagnose::planning(error, self.words))?;
        let Conditions { keys, bounds, others } = self.conditions(join, &left, &right, &both)?;
        let (Some(distance), Some(left_time), Some(right_time)) =
            (bounds.distance(), self.schema(&left).time, self.schema(&right).time)
        else {
            return Ok(None);
        };
        // What is another thing each time is asked of each pair once.
        if let Some(condition) = others.iter().find(|condition| condition.is_volatile()) {
            self.check_no_eager_pairs(condition)?;
            return Ok(None);
        }
        let (of_left, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|part| !reads(part, &right));
        let (of_right, of_both): (Vec<_>, Vec<_>) = others.into_iter().partition(|part| !reads(part, &left));
        // A row of the left side that its condition leaves alone has a group all the same.
        let (of_left, of_pairs) = if is_inner { (of_left, of_both) } else { (Vec::new(), [of_left, of_both].concat()) };
        let condition = conjunction(of_pairs);
        // As everywhere in SQL, null is equal to nothing.
        let has_key = keys.iter().filter(|_| is_inner).map(|(key, _)| key.clone().is_not_null());
        let left = self.filtered(left, of_left.into_iter().chain(has_key))?;
        let has_key = keys.iter().map(|(_, key)| key.clone().is_not_null());
        let right = self.filtered(right, of_right.into_iter().chain(has_key))?;
        let keys = keys.iter().map(|(a, b)| Ok((self.rebase(&left, a)?, self.rebase(&right, b)?)));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let width = self.schema(&left).columns.fields().len();
        let parts = calls.iter().map(|call| Expr::AggregateFunction(call.function.clone())).chain(condition.clone());
        let read: BTreeSet<usize> = parts.flat_map(|part| columns_of(&part, &right)).collect();
        let beside = self.beside(&left, &right, keys, [left_time, right_time], &read)?;
        let names: Vec<(usize, String)> =
            read.into_iter().zip(beside.taken.iter().map(|field| field.name().clone())).collect();
        let named = |part: Expr| {
            let part = under_names(part, &left, self.schema(&left).columns.as_ref(), &right, &names);
            part.map_err(|error| diagnose::planning(error, self.words))
        };
        let of_pairs = condition.is_some();
        let condition = condition.map(&named).transpose()?;
        let mut frames = Frames::default();
        for AggregateCall { function, output, phase } in calls {
            let of_nulls = if is_inner { OfNulls::Nothing } else { of_nulls(&function, &right) };
            // The order of pairs is that of the aggregate, and not that of time.
            let needs_pairs = of_pairs || has_order(&function);
            let whole = Expr::AggregateFunction(function);
            let frame = if needs_pairs || reads(&whole, &left) { PAIRS } else { OTHERS };
            let Expr::AggregateFunction(function) = named(whole)? else {
                return Err(Error::bug("no aggregate any more"));
            };
            let text = thalweg_plan::written(&Expr::AggregateFunction(function.clone()));
            let text = if phase == Phase::Only { text } else { format!("state of {text}") };
            let output = Arc::new(Field::new(text, output.data_type().clone(), output.is_nullable()));
            frames.ask(frame, AggregateCall { function, output, phase }, of_nulls);
        }
        // Where nothing is asked of the pairs, what is late and in which order rows come is that of the join all the same.
        if is_inner || !frames.calls[ALONE].is_empty() || frames.places.is_empty() {
            frames.count(if of_pairs { PAIRS } else { OTHERS });
        }
        let firsts = frames.firsts(width);
        let column = |(frame, number): Place| firsts[frame] + number;
        let Frames { calls, places, partners } = frames;
        let partners = partners.map(column);
        let around = over_others(FrameBounds::Range { from: Some(distance.from), to: distance.to });
        let pairs = Pairs { seen: beside.stand_ins.clone(), condition, ..Pairs::default() };
        let nulls = Pairs { is_alone: true, ..Pairs::default() };
        let itself = FrameBounds::Rows { from: Some(0), to: 0 };
        let kinds = [
            around.clone(),
            Frame { pairs: Some(pairs), ..around },
            Frame { excludes_row: false, pairs: Some(nulls), ..over_others(itself) },
        ];
        let mut node = self.around(beside, kinds.into_iter().zip(calls).collect())?;
        if let Some(partners) = partners.filter(|_| is_inner) {
            let schema = self.plan.node(node).schema.clone();
            let partners = Expr::Column(Column::from_name(schema.columns.field(partners).name()));
            node = self.plan.add(Node::Filter(Filter { predicate: partners.gt(lit(0_i64)) }), vec![node], schema);
        }
        let of_group = |group: &Expr| left.slot_of(group).ok_or_else(|| Error::bug("a group is a column"));
        let outputs = places.iter().map(|(place, ..)| Ok(Slot::Column(column(*place))));
        let slots = groups.iter().map(of_group).chain(outputs).collect::<Result<Vec<_>>>()?;
        let stream = Stream { node, columns, slots, pending: None };
        let lonely = places.into_iter().enumerate().filter(|(_, (_, of_nulls, _))| *of_nulls != OfNulls::Nothing);
        let lonely: Vec<_> = lonely.map(|(number, (.., alone))| (groups.len() + number, alone.map(column))).collect();
        if lonely.is_empty() {
            return Ok(Some(stream));
        }
        self.of_lonely_rows(stream, &lonely, partners).map(Some)
    }

    /// The rows for which all of this holds.
    pub(super) fn filtered(&mut self, stream: Stream, parts: impl IntoIterator<Item = Expr>) -> Result<Stream> {
        match conjunction(parts) {
            Some(condition) => self.filter(stream, &condition),
            None => Ok(stream),
        }
    }

    /// The stream with what its rows without a partner come to in some columns, which is 1 or in another column; the number of partners is
    /// in one, if that is asked for.
    fn of_lonely_rows(
        &mut self,
        mut stream: Stream,
        lonely: &[(usize, Option<usize>)],
        partners: Option<usize>,
    ) -> Result<Stream> {
        let logical = Arc::clone(&stream.columns);
        let hidden: Vec<usize> = lonely.iter().filter_map(|(_, alone)| *alone).chain(partners).collect();
        let schema = self.schema(&stream).columns.clone();
        let table = TableReference::bare("without a partner");
        let fields = hidden.iter().map(|column| (Some(table.clone()), Arc::clone(&schema.fields()[*column])));
        let known = logical.iter().map(|(table, field)| (table.cloned(), Arc::clone(field)));
        let columns = DFSchema::new_with_metadata(known.chain(fields).collect(), Default::default());
        stream.columns = Arc::new(columns.map_err(|error| diagnose::planning(error, self.words))?);
        stream.slots.extend(hidden.iter().map(|column| Slot::Column(*column)));
        let of = |column: usize| Expr::Column(Column::new(Some(table.clone()), schema.field(column).name()));
        let chosen = logical.columns().into_iter().map(Expr::Column).enumerate().map(|(number, column)| {
            match lonely.iter().find(|(lonely, _)| *lonely == number) {
                None => Ok(column),
                Some((_, None)) => when(column.clone().eq(lit(0_i64)), lit(1_i64)).otherwise(column),
                Some((_, Some(alone))) => {
                    let partners = partners.map(of).unwrap_or_else(|| lit(0_i64));
                    when(partners.gt(lit(0_i64)), column).otherwise(of(*alone))
                }
            }
        });
        let chosen = chosen.collect::<datafusion_common::Result<Vec<_>>>();
        let chosen = chosen.map_err(|error| diagnose::planning(error, self.words))?;
        self.project(stream, &chosen, &logical, Hidden::Keep)
    }
}

/// The same join, whose sides have changed places.
fn turned(join: &logical_plan::Join) -> logical_plan::Join {
    let on = join.on.iter().map(|(left, right)| (right.clone(), left.clone())).collect();
    let (left, right) = (Arc::clone(&join.right), Arc::clone(&join.left));
    logical_plan::Join { left, right, on, join_type: join.join_type.swap(), ..join.clone() }
}

/// The groups with columns of the left side in place of those of the right one that have the same value in all pairs; none if there are no
/// such. (0.0 and -0.0 may be equal, and of times one is that of pairs.)
fn under_equals(groups: &[Expr], join: &logical_plan::Join) -> Option<Vec<Expr>> {
    if join.join_type != JoinType::Inner {
        return None;
    }
    let equal = join.filter.iter().flat_map(split_conjunction).filter_map(|part| match part {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => Some((&**left, &**right)),
        _ => None,
    });
    let equal = join.on.iter().map(|(left, right)| (left, right)).chain(equal);
    let sides = [&join.left, &join.right].map(|side| side.schema());
    let kinds = |left: &Column, right: &Column| {
        let kind =
            |side: &DFSchemaRef, column| Some(side.field(side.maybe_index_of_column(column)?).data_type().clone());
        kind(sides[0], left).zip(kind(sides[1], right))
    };
    let is_exact = |kind: &DataType| kind.is_integer() || kind.is_string() || *kind == DataType::Boolean;
    let is_same = |left: &Column, right: &Column| {
        kinds(left, right).is_some_and(|(left, right)| left == right && is_exact(&left))
    };
    let equal: Vec<(&Column, &Column)> = equal
        .filter_map(|equal| match equal {
            (Expr::Column(one), Expr::Column(other)) if is_same(one, other) => Some((other, one)),
            (Expr::Column(one), Expr::Column(other)) if is_same(other, one) => Some((one, other)),
            _ => None,
        })
        .collect();
    let is_read =
        |group: &Expr| group.column_refs().into_iter().any(|read| equal.iter().any(|(right, _)| *right == read));
    if !groups.iter().any(is_read) {
        return None;
    }
    let of_left: HashMap<&Column, &Column> = equal.into_iter().collect();
    groups.iter().map(|group| replace_col(group.clone(), &of_left).ok()).collect()
}

/// Whether no two rows of the left side are in one group, which is columns of it.
fn are_rows(groups: &[Expr], join: &logical_plan::Join) -> bool {
    let is_group = |key: Column| groups.contains(&Expr::Column(key));
    let are_columns = groups.iter().all(|group| matches!(group, Expr::Column(_)));
    are_columns && unique(&join.left).is_some_and(|key| key.into_iter().all(is_group))
}

/// Whether a group says the same of all pairs of a row of the left side, in a window.
fn is_of_left(group: &Expr, join: &logical_plan::Join) -> bool {
    let mut read = group.column_refs().into_iter();
    !group.is_volatile() && read.all(|column| is_of_window(column) || join.left.schema().has_column(column))
}

/// The aggregate, if it says the same of the pairs of each row in whatever order these are found, each time and in each window.
fn over_pairs(call: Expr) -> Option<AggregateFunction> {
    let is_volatile = call.is_volatile() || call.column_refs().iter().any(|column| is_of_window(column));
    let Expr::AggregateFunction(call) = call else { return None };
    let lacks_order = over::depends_on_order(&call.func) && call.params.order_by.is_empty();
    // A percentile may have its values as an argument.
    (!is_volatile && (!lacks_order || call.func.supports_within_group_clause())).then_some(call)
}

/// Whether it is an aggregate of rows in an order.
fn has_order(call: &AggregateFunction) -> bool {
    !call.params.order_by.is_empty() || over::depends_on_order(&call.func)
}

/// What an aggregate says of a row beside nulls.
fn of_nulls(call: &AggregateFunction, right: &Stream) -> OfNulls {
    let params = &call.params;
    match params.args.as_slice() {
        [Expr::Literal(value, _)]
            if call.func.name() == "count" && !value.is_null() && params.filter.is_none() && !params.distinct =>
        {
            OfNulls::One
        }
        // Lists have nulls, too.
        args if !has_order(call) && !args.is_empty() && args.iter().all(|arg| is_column(arg) && reads(arg, right)) => {
            OfNulls::Nothing
        }
        _ => OfNulls::Whatever,
    }
}

/// Whether an expression is a column, of whatever type: null where that is.
fn is_column(part: &Expr) -> bool {
    match part {
        Expr::Cast(cast) => is_column(&cast.expr),
        Expr::TryCast(cast) => is_column(&cast.expr),
        part => matches!(part, Expr::Column(_)),
    }
}
