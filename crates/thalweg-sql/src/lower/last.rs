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

use datafusion_common::Column;
use datafusion_expr::{Expr, expr::AggregateFunction, logical_plan, utils::conjunction, when};
use datafusion_functions_aggregate::first_last::last_value_udaf;
use thalweg_core::{Error, Interval, Result, error::Span};
use thalweg_plan::{
    StreamSchema,
    node::{AggregateCall, Frame, FrameBounds, Pairs, Phase},
};

use super::{
    Hidden, Lowering,
    beside::{columns_of, over_others, reads, under_names},
    join::{Conditions, both},
    stream::{Slot, Stream},
};
use crate::{diagnose, last::LastNode, types};

impl Lowering<'_> {
    /// A LAST JOIN, whose right side holds this node.
    pub(super) fn last_join(&mut self, join: &logical_plan::Join, last: &LastNode) -> Result<Stream> {
        let at = last.span().unwrap_or_else(|| self.join_place());
        self.asks_for_time = true;
        let left = self.base(&join.left, true)?;
        let left = self.narrow_side(left);
        self.asks_for_time = true;
        let right = self.side(&join.right)?;
        let both = both(&left, &right, self.schema(&left).columns.fields().len())
            .map_err(|error| diagnose::planning(error, self.words))?;
        let conditions = self.conditions(join, &left, &right, &both)?;
        let times = self.both_times(&left, &right, at)?;
        let Conditions { keys, bounds, others } = conditions;
        // What is asked of the other stream's rows alone chooses among them; what is asked of the row says whether it has one at all.
        let (of_left, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|part| !reads(part, &right));
        let (of_right, of_both): (Vec<_>, Vec<_>) = others.into_iter().partition(|part| !reads(part, &left));
        let (from, to) = bounds.ends();
        if let Some(part) = of_both.first().filter(|part| from.is_none() || part.is_volatile()) {
            let message = format!("{} is asked of both rows of a LAST JOIN", thalweg_plan::written(part));
            let (why, hint) = match part.is_volatile() {
                true => ("and is something else each time", "leave random() and uuid() out"),
                false => (
                    "so that all rows would have to be kept for ever",
                    "say how old the last row may be: AND r.ts >= s.ts - INTERVAL '1' HOUR; or ask it behind the join, of the last row",
                ),
            };
            return Err(Error::query(format!("{message}, {why}")).with_hint(hint).at(at));
        }
        let condition = conjunction(of_both);
        // As everywhere in SQL, null is equal to nothing.
        let has_key = keys.iter().map(|(_, key)| key.clone().is_not_null());
        let right = self.filtered(right, of_right.into_iter().chain(has_key))?;
        let keys = keys.iter().map(|(a, b)| Ok((self.rebase(&left, a)?, self.rebase(&right, b)?)));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        self.check_corrected(left.node, |changing| {
            let of_left =
                |part: &Expr| columns_of(part, &left).into_iter().filter_map(|column| left.slots[column].column());
            keys.iter().any(|(key, _)| self.plan.reads(key, left.node, changing))
                || condition.iter().flat_map(of_left).any(|column| changing[column])
        })?;
        let all = (0..right.slots.len()).collect();
        let beside = self.beside(&left, &right, keys, times, &all)?;
        let width = beside.width;
        // Where nothing is said of its end, the last row so far.
        let bounds = FrameBounds::Range { from: from.map(Interval), to: Interval(to.unwrap_or(0)) };
        let time = Expr::Column(Column::from_name(&beside.time));
        let calls = beside.taken.iter().map(|field| {
            let order = vec![time.clone().sort(true, true)];
            let value = vec![Expr::Column(Column::from_name(field.name()))];
            let function = AggregateFunction::new_udf(last_value_udaf(), value, false, None, order, None);
            let output = Arc::new(field.clone().with_name(format!("last {}", field.name())));
            AggregateCall { function, output, phase: Phase::Only }
        });
        let calls = calls.collect();
        let pairs = condition.map(|condition| {
            let names: Vec<(usize, String)> =
                beside.taken.iter().map(|field| field.name().clone()).enumerate().collect();
            let named = under_names(condition, &left, self.schema(&left).columns.as_ref(), &right, &names);
            let condition = Some(named.map_err(|error| diagnose::planning(error, self.words))?);
            Ok::<_, Error>(Pairs { seen: beside.stand_ins.clone(), condition, takes_last: true, ..Pairs::default() })
        });
        let pairs = pairs.transpose()?;
        // Which row is the last one shows when the condition was asked.
        let frame = Frame { most: pairs.is_none().then_some(1), pairs, ..over_others(bounds) };
        let node = self.around(beside, vec![(frame, calls)])?;
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
                let error = self.no_time(stream.node, ordered, &column.name, None);
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
