//! GROUP BY: aggregates per window and key, or over all of a bounded input.

use std::{collections::BTreeSet, sync::Arc};

use arrow_schema::{DataType, Field, TimeUnit};
use datafusion_common::DFSchemaRef;
use datafusion_expr::{Expr, ExprSchemable, logical_plan};
use thalweg_core::{Error, Interval, Result};
use thalweg_plan::{
    Node, StreamSchema,
    node::{Aggregate, AggregateCall, Anchor, Filter, Phase, Windowing, Windows},
    schema::WindowColumns,
};

use super::{
    Lowering,
    stream::{Slot, Stream, WindowColumn},
    window,
};
use crate::windowing;

/// What is grouped by: a column of the window, or a key.
enum Group {
    Window(WindowColumn),
    Key(Expr),
}

/// An aggregate, and which part of it is computed.
pub(super) type Part = (Expr, Phase);

impl Lowering<'_> {
    pub(super) fn aggregate(&mut self, aggregate: &logical_plan::Aggregate) -> Result<Stream> {
        let stream = self.with_positions(false, |lowering| lowering.node(&aggregate.input))?;
        let groups = aggregate.group_expr.iter().map(|e| e.clone().unalias_nested().data).collect();
        let calls = aggregate.aggr_expr.iter().map(|call| (call.clone(), Phase::Only)).collect();
        self.grouped(stream, aggregate, groups, calls)
    }

    /// These groups and aggregates of a stream's rows, which are what `aggregate` asks for.
    pub(super) fn grouped(
        &mut self,
        mut stream: Stream,
        aggregate: &logical_plan::Aggregate,
        groups: Vec<Expr>,
        calls: Vec<Part>,
    ) -> Result<Stream> {
        // Whether the window function can be taken whole: its columns are only grouped by, as they stand.
        let is_window = |e: &Expr| matches!(stream.slot_of(e), Some(Slot::Window(_)));
        let computes = |e: &Expr| !is_window(e) && stream.reads_window(e);
        let by_window = groups.iter().any(is_window);
        if stream.pending.is_some()
            && (!by_window || groups.iter().chain(calls.iter().map(|(call, _)| call)).any(computes))
        {
            stream = self.settle(stream)?;
        }
        let groups: Vec<_> = groups.into_iter().map(|e| self.group(&stream, e)).collect();
        let has_window = groups.iter().any(|group| matches!(group, Group::Window(_)));
        let is_cumulating = self.is_cumulating(&stream);
        let is_start = |group: &Group| matches!(group, Group::Window(WindowColumn::Start));
        let has_end = groups.iter().any(|group| matches!(group, Group::Window(_)) && !is_start(group));
        if is_cumulating && has_window && !has_end {
            let at = self.words.find_keywords("GROUP").unwrap_or(self.words.start());
            return Err(Error::query(
                "windows of CUMULATE start together, so that window_start does not tell them apart",
            )
            .with_hint("GROUP BY window_start, window_end")
            .at(at));
        }
        if has_window && !(has_end && groups.iter().any(is_start)) && self.has_several_grids(&stream) {
            let at = self.words.find_keywords("GROUP").unwrap_or(self.words.start());
            return Err(Error::query(
                "windows of several kinds come together here, so that one end does not tell them apart",
            )
            .with_hint("GROUP BY window_start, window_end")
            .at(at));
        }
        let windowing = match (has_window, &stream.pending, self.schema(&stream).window) {
            (true, Some(pending), _) => Windowing::Assigned(pending.windows.clone()),
            (true, None, Some(WindowColumns { start, end, .. })) => Windowing::Columns { start, end },
            (true, None, None) => Windowing::Assigned(self.instants(&stream)?),
            _ if self.schema(&stream).is_bounded => Windowing::Whole,
            _ => return Err(self.for_ever(&stream, aggregate)),
        };
        let stream = self.narrow_to(stream, &groups, &calls, &windowing);
        let windowing = match (windowing, &stream.pending, self.schema(&stream).window) {
            (Windowing::Assigned(_), Some(pending), _) => Windowing::Assigned(pending.windows.clone()),
            (Windowing::Assigned(_), None, _) => Windowing::Assigned(self.instants(&stream)?),
            (Windowing::Columns { .. }, _, Some(WindowColumns { start, end, .. })) => Windowing::Columns { start, end },
            (other, ..) => other,
        };
        self.build(stream, &aggregate.schema, groups, calls, windowing)
    }

    /// Whether only the ends of windows tell them apart.
    fn is_cumulating(&self, stream: &Stream) -> bool {
        match (&stream.pending, self.schema(stream).window) {
            (Some(pending), _) => pending.windows.step.is_some(),
            (None, window) => window.is_some_and(|window| window.is_cumulating),
        }
    }

    /// Whether rows come from windows of several kinds, in a union.
    fn has_several_grids(&self, stream: &Stream) -> bool {
        if stream.pending.is_some() || self.schema(stream).window.is_none() {
            return false;
        }
        let (mut todo, mut first) = (vec![stream.node], None);
        while let Some(node) = todo.pop() {
            let node = self.plan.node(node);
            let windows = match &node.node {
                Node::Window(windows) => Some(windows),
                Node::Aggregate(Aggregate { windowing: Windowing::Assigned(windows), .. }) => Some(windows),
                _ => None,
            };
            let Some(windows) = windows else {
                todo.extend(&node.inputs);
                continue;
            };
            // The time may stand in different places.
            let first = first.get_or_insert_with(|| windows.clone());
            first.time = windows.time;
            if first != windows {
                return true;
            }
        }
        false
    }

    /// Keeps what the aggregate reads: the columns of keys and arguments, and those of the windows.
    fn narrow_to(&mut self, stream: Stream, groups: &[Group], calls: &[Part], windowing: &Windowing) -> Stream {
        let keys = groups.iter().filter_map(|group| match group {
            Group::Key(key) => Some(key),
            Group::Window(_) => None,
        });
        let read = keys.chain(calls.iter().map(|(call, _)| call)).flat_map(|expression| stream.slots_in(expression));
        let mut needed: BTreeSet<usize> = read.filter_map(Slot::column).collect();
        match windowing {
            Windowing::Whole => {}
            Windowing::Assigned(windows) => needed.extend([windows.time]),
            Windowing::Columns { start, end } => {
                needed.extend([*start, *end].into_iter().chain(self.schema(&stream).time))
            }
        }
        // Rows without columns cannot be counted.
        if needed.is_empty() {
            needed.insert(0);
        }
        self.narrow(stream, &needed)
    }

    fn group(&self, stream: &Stream, expression: Expr) -> Group {
        let schema = self.schema(stream);
        let is_instant = stream.pending.is_none();
        match (stream.slot_of(&expression), schema.window) {
            (Some(Slot::Window(column)), _) => Group::Window(column),
            (Some(Slot::Column(column)), Some(window)) if stream.pending.is_none() => {
                if column == window.start {
                    Group::Window(WindowColumn::Start)
                } else if column == window.end {
                    Group::Window(WindowColumn::End)
                } else if Some(column) == schema.time {
                    // The time of a windowed row follows from its window.
                    Group::Window(WindowColumn::Time)
                } else {
                    Group::Key(expression)
                }
            }
            // An instant is a window of its own, which the watermark closes.
            (Some(Slot::Column(column)), None) if Some(column) == schema.time && is_instant => {
                Group::Window(WindowColumn::Time)
            }
            _ => Group::Key(expression),
        }
    }

    /// The windows that hold one instant of event time each.
    fn instants(&self, stream: &Stream) -> Result<Windows> {
        let time = self.schema(stream).time.ok_or_else(|| Error::bug("rows of one instant have an event time"))?;
        let (size, slide) = (Interval(1), Interval(1));
        Ok(Windows { time, size, slide, step: None, offset: Interval(0), anchor: Anchor::Epoch, zone: None })
    }

    fn build(
        &mut self,
        stream: Stream,
        outputs: &DFSchemaRef,
        groups: Vec<Group>,
        calls: Vec<Part>,
        windowing: Windowing,
    ) -> Result<Stream> {
        let input = self.schema(&stream).clone();
        let has_windows = windowing != Windowing::Whole;
        let mut fields: Vec<Field> = Vec::new();
        if has_windows {
            let time = match &windowing {
                Windowing::Assigned(windows) => Some(windows.time),
                _ => input.time,
            };
            let local = DataType::Timestamp(TimeUnit::Microsecond, None);
            let time = time.map(|time| input.columns.field(time));
            fields.extend(window::window_fields(time.map_or(&local, |time| time.data_type())));
            // The time of an instant is the column that is grouped by.
            if let (Windowing::Assigned(_), None, Some(time)) = (&windowing, &stream.pending, time) {
                let place = WindowColumn::Time as usize;
                fields[place] = fields[place].clone().with_name(time.name());
            }
        }
        let (mut keys, mut functions, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        let logical = outputs.fields();
        for (group, field) in groups.into_iter().zip(logical) {
            slots.push(Slot::Column(match group {
                Group::Window(column) => column as usize,
                Group::Key(key) => {
                    keys.push(self.rebase(&stream, &key)?);
                    fields.push(field.as_ref().clone());
                    fields.len() - 1
                }
            }));
        }
        let first_call = fields.len();
        for ((call, phase), field) in calls.into_iter().zip(&logical[slots.len()..]) {
            let Expr::AggregateFunction(function) = self.rebase(&stream, &call)?.unalias_nested().data else {
                return Err(Error::bug(format!("{call} is no aggregate")));
            };
            functions.push((function, phase));
            slots.push(Slot::Column(fields.len()));
            fields.push(field.as_ref().clone());
        }
        let columns = self.unique(fields);
        let outputs_of_calls = columns.fields()[first_call..].iter().map(Arc::clone);
        let call = |((function, phase), output)| AggregateCall { function, output, phase };
        let aggregates = functions.into_iter().zip(outputs_of_calls).map(call).collect();
        let schema = StreamSchema {
            columns: Arc::clone(&columns),
            time: has_windows.then_some(WindowColumn::Time as usize),
            window: has_windows.then_some(WindowColumns {
                start: WindowColumn::Start as usize,
                end: WindowColumn::End as usize,
                is_cumulating: self.is_cumulating(&stream),
            }),
            position: None,
            op: None,
            is_bounded: input.is_bounded,
        };
        let node = Node::Aggregate(Aggregate { windowing, keys, aggregates });
        let mut node = self.plan.add(node, vec![stream.node], schema.clone());
        // What was asked of the windows is asked of their results: the aggregate has the window's columns first.
        if let Some(predicate) = stream.pending.and_then(|pending| pending.predicate) {
            node = self.plan.add(Node::Filter(Filter { predicate }), vec![node], schema);
        }
        Ok(Stream { node, columns: Arc::clone(outputs), slots, pending: None })
    }

    /// The refusal of a group that never ends.
    fn for_ever(&self, stream: &Stream, aggregate: &logical_plan::Aggregate) -> Error {
        let schema = self.schema(stream);
        let at = |word: &str| self.words.find_keywords(word);
        let is_union = aggregate.aggr_expr.is_empty() && at("DISTINCT").is_none() && at("GROUP BY").is_none();
        if let Some(union) = at("UNION").filter(|_| is_union) {
            return Error::query("UNION over an unbounded stream would have to remember every row for ever")
                .with_hint("write UNION ALL")
                .at(union);
        }
        let what = if aggregate.aggr_expr.is_empty() && at("DISTINCT").is_some() { "DISTINCT" } else { "GROUP BY" };
        let at = at(what).or_else(|| at("GROUP BY")).or_else(|| at("SELECT"));
        let message = match (what, aggregate.group_expr.is_empty()) {
            ("DISTINCT", _) => "DISTINCT over an unbounded stream would have to remember every row for ever",
            (_, true) => "an aggregate over an unbounded stream would never be complete",
            (_, false) => "GROUP BY over an unbounded stream would have to keep every group for ever",
        };
        // Who groups by a time means the event time.
        let by_time = |group: &Expr| {
            group.get_type(aggregate.input.schema()).is_ok_and(|data_type| windowing::is_time(&data_type))
        };
        let lost = self.lost_time(stream.node).filter(|_| aggregate.group_expr.iter().any(by_time));
        let hint = match (schema.window, schema.time) {
            (Some(_), _) => "add the window to it: GROUP BY window_start, window_end".to_string(),
            (None, Some(time)) => format!(
                "group by windows: FROM TUMBLE(t, {}, INTERVAL '1' HOUR) GROUP BY window_start, window_end",
                schema.columns.field(time).name()
            ),
            (None, None) if lost.is_some() => lost.unwrap_or_default(),
            (None, None) => "declare a WATERMARK, and group by windows: FROM TUMBLE(t, ts, INTERVAL '1' HOUR) \
                             GROUP BY window_start, window_end"
                .to_string(),
        };
        Error::query(message).with_hint(hint).at(at.unwrap_or(self.words.start()))
    }
}
