//! LAST JOIN: the columns of the last row of another stream, as aggregates over the rows around a row.
//!
//! ```text
//! s LAST JOIN r ON s.k = r.k AND r.ts <= s.ts          Over: last_value(v) of r alone, MAXSIZE 1
//!                                                      ├─ s: its columns, and a null for each column of r
//!                                                      └─ r: the key and the time, named as those of s are, and its columns
//! ```
//!
//! Since each row sees one row at most, what it takes of it is of one row.

use std::sync::Arc;

use arrow_schema::Field;
use datafusion_common::{Column, ScalarValue};
use datafusion_expr::{Expr, ExprSchemable, expr::AggregateFunction, logical_plan, utils::conjunction, when};
use datafusion_functions_aggregate::first_last::last_value_udaf;
use thalweg_core::{Error, Interval, Result, error::Span};
use thalweg_plan::{
    Node, NodeId, StreamSchema,
    node::{AggregateCall, Frame, FrameBounds, Over},
};

use super::{
    Hidden, Lowering, MapBuilder,
    join::{Conditions, both},
    names,
    stream::{Slot, Stream},
};
use crate::{diagnose, last::LastNode, types};

impl Lowering<'_> {
    /// A LAST JOIN, whose right side holds this node.
    pub(super) fn last_join(&mut self, join: &logical_plan::Join, last: &LastNode) -> Result<Stream> {
        let at = last.span().unwrap_or_else(|| self.join_place());
        let left = self.side(&join.left)?;
        let right = self.side(&join.right)?;
        let both = both(&left, &right, self.schema(&left).columns.fields().len())
            .map_err(|error| diagnose::planning(error, self.words))?;
        let conditions = self.conditions(join, &left, &right, &both)?;
        let times = self.both_times(&left, &right, at)?;
        let Conditions { keys, bounds, others } = conditions;
        // What is asked of the other stream's rows alone chooses among them; what is asked of the row says whether it has one at all.
        let is_of = |part: &Expr, side: &Stream| {
            part.column_refs().iter().all(|column| side.columns.maybe_index_of_column(column).is_some())
        };
        let (of_left, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|part| is_of(part, &left));
        let (of_right, of_both): (Vec<_>, Vec<_>) = others.into_iter().partition(|part| is_of(part, &right));
        if let Some(part) = of_both.first() {
            let shown = thalweg_plan::written(part);
            return Err(Error::query(format!(
                "LAST JOIN looks for the last row by key and time, and {shown} asks of both rows"
            ))
            .with_hint(
                "ask it behind the join, of the last row; or look at all rows: LEFT JOIN … AND r.ts BETWEEN … AND …",
            )
            .at(at));
        }
        // As everywhere in SQL, null is equal to nothing.
        let has_key = keys.iter().map(|(_, key)| key.clone().is_not_null());
        let right = match conjunction(of_right.into_iter().chain(has_key)) {
            Some(condition) => self.filter(right, &condition)?,
            None => right,
        };
        let width = self.schema(&left).columns.fields().len();
        let keys = keys.iter().map(|(a, b)| Ok((self.rebase(&left, a)?, self.rebase(&right, b)?)));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let aligned = self.aligned(&left, &right, keys, times)?;
        let (from, to) = bounds.ends();
        // Where nothing is said of its end, the last row so far.
        let bounds = FrameBounds::Range { from: from.map(Interval), to: Interval(to.unwrap_or(0)) };
        let node = if aligned.taken.is_empty() { aligned.nodes[0] } else { self.last_rows(aligned, bounds, width) };
        let slots = (width..).map(Slot::Column).take(right.slots.len());
        let slots = left.slots.iter().copied().chain(slots).collect();
        let stream = Stream { node, columns: Arc::clone(&join.schema), slots, pending: None };
        match conjunction(of_left) {
            Some(condition) => self.only_where(stream, &condition, left.slots.len()),
            None => Ok(stream),
        }
    }

    /// The right side of a LAST JOIN, which is ordered by its event time.
    pub(super) fn last_side(&mut self, last: &LastNode) -> Result<Stream> {
        let stream = self.node(&last.input)?;
        let stream = self.settle(stream)?;
        let Some(order @ Expr::Column(column)) = &last.order else { return Ok(stream) };
        let ordered = stream.slot_of(order).and_then(Slot::column);
        let schema = self.schema(&stream);
        match ordered {
            Some(ordered) if schema.time != Some(ordered) => {
                let at = column.spans.first().map(|span| Span {
                    line: span.start.line as usize,
                    column: span.start.column as usize,
                    width: (span.end.column.saturating_sub(span.start.column) as usize).max(1),
                });
                if schema.time.is_none() {
                    return Err(self.no_times(&[&stream], at.or(last.span()).unwrap_or_else(|| self.join_place())));
                }
                let error = self.no_time(schema, ordered, &column.name, None);
                Err(error.at(at.or(last.span()).unwrap_or_else(|| self.join_place())))
            }
            _ => Ok(stream),
        }
    }

    /// The event times of both sides.
    fn both_times(&self, left: &Stream, right: &Stream, at: Span) -> Result<[usize; 2]> {
        let (one, other) = (self.schema(left), self.schema(right));
        let (Some(left_time), Some(right_time)) = (one.time, other.time) else {
            return Err(self.no_times(&[left, right], at));
        };
        let kind = |schema: &StreamSchema, time: usize| types::flink_name(schema.columns.field(time).data_type());
        let (one, other) = (kind(one, left_time), kind(other, right_time));
        if one != other {
            return Err(Error::query(format!(
                "the event times of a join are {one} and {other}, which are not one type"
            ))
            .with_hint("declare both columns with one type in CREATE TABLE")
            .at(at));
        }
        Ok([left_time, right_time])
    }

    /// The refusal of sides without event time.
    fn no_times(&self, sides: &[&Stream], at: Span) -> Error {
        let (what, hint) = match sides.iter().find_map(|side| self.unmarked(side.node)) {
            Some(table) => (
                format!(", and \"{table}\" has none"),
                format!("declare it in CREATE TABLE {table}: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"),
            ),
            None => (String::new(), "give both sides the columns that carry them".to_string()),
        };
        Error::query(format!("LAST JOIN needs the event times of both sides{what}")).with_hint(hint).at(at)
    }

    /// Both sides with columns of the same names for keys, time and what is taken of the last row.
    fn aligned(
        &mut self,
        left: &Stream,
        right: &Stream,
        keys: Vec<(Expr, Expr)>,
        times: [usize; 2],
    ) -> Result<Aligned> {
        let (base, other) = (self.schema(left).clone(), self.schema(right).clone());
        let (mut left_map, mut right_map) = (MapBuilder::default(), MapBuilder::default());
        for (number, field) in base.columns.fields().iter().enumerate() {
            left_map.add(column(field), field.as_ref().clone(), Some(number));
        }
        let own_name = |number: usize| base.columns.field(number).name().clone();
        let mut names: Vec<String> = (0..base.columns.fields().len()).map(own_name).collect();
        let mut name = |wanted: &str| {
            let mut name = names::readable(wanted, &self.tables);
            while names.contains(&name) {
                name.push('\'');
            }
            names.push(name.clone());
            name
        };
        let time = other.columns.field(times[1]).as_ref().clone().with_name(own_name(times[0]));
        let own_time = right_map.add(column(other.columns.field(times[1])), time, Some(times[1]));
        let mut equal: Vec<String> = Vec::new();
        for (number, (one, partner)) in keys.into_iter().enumerate() {
            let kind = |side: &StreamSchema, key: &Expr| {
                key.get_type(&*side.columns).map_err(|error| diagnose::planning(error, self.words))
            };
            // A column of the base serves as it is, but for one that names something else on the other side.
            let named = match &one {
                Expr::Column(column) if column.name != own_name(times[0]) && !equal.contains(&column.name) => {
                    column.name.clone()
                }
                _ => {
                    let named = name(&format!("key {}", number + 1));
                    left_map.add(one.clone(), Field::new(&named, kind(&base, &one)?, true), None);
                    named
                }
            };
            let field = Field::new(&named, kind(&other, &partner)?, true);
            right_map.add(partner, field, None);
            equal.push(named);
        }
        let mut taken = Vec::new();
        for (slot, logical) in right.slots.iter().zip(right.columns.fields()) {
            let Some(number) = slot.column() else {
                return Err(Error::bug("a settled stream has no pending columns"));
            };
            let given = other.columns.field(number);
            let field = given.as_ref().clone().with_name(name(logical.name())).with_nullable(true);
            let null =
                ScalarValue::try_from(field.data_type()).map_err(|error| diagnose::planning(error, self.words))?;
            left_map.add(Expr::Literal(null, None), field.clone(), None);
            right_map.add(column(given), field.clone(), Some(number));
            taken.push(field);
        }
        if let Some(position) = other.position {
            let field = other.columns.field(position).as_ref().clone();
            right_map.add(column(&field), field.with_name(name("position")), Some(position));
        }
        let (left, right) = (self.add_map(left.node, left_map), self.add_map(right.node, right_map));
        let keys = equal.into_iter().map(|name| Expr::Column(Column::from_name(name))).collect();
        Ok(Aligned { nodes: [left, right], times: [times[0], own_time], keys, taken })
    }

    /// Behind the columns of the base, of which there are so many, those of the last row of the other side.
    fn last_rows(&mut self, aligned: Aligned, bounds: FrameBounds, width: usize) -> NodeId {
        let Aligned { nodes, times, keys, taken } = aligned;
        let schemas = nodes.map(|node| self.plan.node(node).schema.clone());
        let [base, other] = &schemas;
        let time = column(base.columns.field(times[0]));
        let mut fields: Vec<Field> = base.columns.fields().iter().map(|field| field.as_ref().clone()).collect();
        let call = |field: &Field| {
            let order = vec![time.clone().sort(true, true)];
            AggregateFunction::new_udf(last_value_udaf(), vec![column(field)], false, None, order, None)
        };
        let calls: Vec<_> = taken.iter().map(call).collect();
        fields.extend(taken.iter().map(|field| field.clone().with_name(format!("last {}", field.name()))));
        let columns = self.unique(fields);
        let outputs = columns.fields()[base.columns.fields().len()..].iter().cloned();
        let aggregates = calls.into_iter().zip(outputs).map(|(function, output)| AggregateCall { function, output });
        let aggregates = aggregates.collect();
        let frame =
            Frame { bounds, most: Some(1), excludes_row: true, excludes_time: false, excludes_base: true, aggregates };
        let is_bounded = base.is_bounded && other.is_bounded;
        let schema = StreamSchema { columns: Arc::clone(&columns), window: None, is_bounded, ..base.clone() };
        let over = Over { times: times.to_vec(), keys, frames: vec![frame] };
        let over = self.plan.add(Node::Over(over), nodes.to_vec(), schema.clone());
        // What made both sides alike goes no further.
        let mut map = MapBuilder::default();
        let last = schema.columns.fields().len() - taken.len();
        for number in (0..width).chain(last..schema.columns.fields().len()) {
            let field = schema.columns.field(number);
            map.add(column(field), field.as_ref().clone(), Some(number));
        }
        self.add_map(over, map)
    }

    /// The stream whose columns from a number on are null where a condition does not hold.
    fn only_where(&mut self, stream: Stream, condition: &Expr, from: usize) -> Result<Stream> {
        let logical = Arc::clone(&stream.columns);
        let chosen = logical.columns().into_iter().enumerate().map(|(number, column)| match number < from {
            true => Ok(Expr::Column(column)),
            false => when(condition.clone(), Expr::Column(column)).end(),
        });
        let chosen = chosen.collect::<datafusion_common::Result<Vec<_>>>();
        let chosen = chosen.map_err(|error| diagnose::planning(error, self.words))?;
        self.project(stream, &chosen, &logical, Hidden::Keep)
    }
}

/// Both sides of a LAST JOIN, as inputs of aggregates over the rows around a row.
struct Aligned {
    nodes: [NodeId; 2],
    times: [usize; 2],
    keys: Vec<Expr>,
    /// What is taken of the last row.
    taken: Vec<Field>,
}

fn column(field: &Field) -> Expr {
    Expr::Column(Column::from_name(field.name()))
}
