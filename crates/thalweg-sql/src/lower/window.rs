//! Window functions: pending until something asks for their columns.

use std::sync::Arc;

use arrow_schema::{DataType, Field, TimeUnit};
use datafusion_common::DFSchemaRef;
use datafusion_expr::{Expr, logical_plan::Extension};
use thalweg_core::{Error, Interval, Result};
use thalweg_plan::{
    Node, StreamSchema,
    node::{Anchor, Filter, Windows},
    schema::WindowColumns,
};

use super::{
    Lowering,
    stream::{Pending, Slot, Stream, WindowColumn},
};
use crate::windowing::{self, WindowNode};

impl Lowering<'_> {
    pub(super) fn window(&mut self, extension: &Extension) -> Result<Stream> {
        let Some(node) = extension.node.as_any().downcast_ref::<WindowNode>() else {
            return Err(Error::bug(format!("{} is no node of ours", extension.node.name())));
        };
        let stream = self.node(&node.input)?;
        let stream = self.settle(stream)?;
        let time = stream.slot_of(&node.time).and_then(Slot::column);
        let time = time.ok_or_else(|| Error::bug("a window's time is a column of its input"))?;
        self.check_time(&stream, time, node)?;
        Ok(self.in_windows(stream, time, node, Arc::clone(extension.node.schema())))
    }

    /// The rows of a stream, whose event time is in this column, with a window function that is not in the plan yet; what all is called.
    pub(super) fn in_windows(&self, stream: Stream, time: usize, node: &WindowNode, columns: DFSchemaRef) -> Stream {
        let windows = Windows {
            time,
            size: Interval(node.size),
            slide: Interval(node.slide),
            step: node.step.map(Interval),
            offset: Interval(node.offset),
            anchor: if node.from_first_row { Anchor::FirstRow } else { Anchor::Epoch },
            zone: self.zone_of(&stream, time),
        };
        let appended = WindowColumn::ALL.map(Slot::Window);
        let slots = stream.slots.iter().copied().chain(appended).collect();
        Stream { node: stream.node, columns, slots, pending: Some(Pending { windows, predicate: None }) }
    }

    /// Windows over instants follow the clock of the session's zone, as in Flink.
    fn zone_of(&self, stream: &Stream, time: usize) -> Option<Arc<str>> {
        match self.schema(stream).columns.field(time).data_type() {
            DataType::Timestamp(_, Some(zone)) if !["UTC", "Etc/UTC", "GMT", "+00:00"].contains(&&**zone) => {
                Some(Arc::clone(zone))
            }
            _ => None,
        }
    }

    fn check_time(&self, stream: &Stream, time: usize, node: &WindowNode) -> Result<()> {
        let schema = self.schema(stream);
        if schema.time == Some(time) {
            return Ok(());
        }
        let field = schema.columns.field(time);
        let name = match &node.time {
            Expr::Column(column) => column.name.clone(),
            other => other.to_string(),
        };
        let error = Error::query(format!("column \"{name}\" does not carry the event time of its stream"));
        let hint = match schema.time {
            Some(column) => {
                let plain = || format!("\"{}\"", schema.columns.field(column).name());
                format!("window by {}, which does", stream.called(Some(column)).unwrap_or_else(plain))
            }
            None if windowing::is_time(field.data_type()) => {
                self.lost_time(stream.node).unwrap_or_else(|| windowing::watermark_hint(&name, "the window"))
            }
            None => windowing::cast_hint(&name, field.data_type()),
        };
        Err(error.with_hint(hint).at(node.span()))
    }

    /// A stream whose window function, if it has one, is a node of the plan.
    pub(super) fn settle(&mut self, mut stream: Stream) -> Result<Stream> {
        let Some(Pending { windows, predicate }) = stream.pending.take() else { return Ok(stream) };
        let input = self.schema(&stream).clone();
        let width = input.columns.fields().len();
        let fields = input.columns.fields().iter().map(|field| field.as_ref().clone());
        let columns = self.unique(fields.chain(window_fields(input.columns.field(windows.time).data_type())));
        let schema = StreamSchema {
            columns,
            // A row now stands for its window: its time is the window's last instant.
            time: Some(width + WindowColumn::Time as usize),
            window: Some(WindowColumns {
                start: width + WindowColumn::Start as usize,
                end: width + WindowColumn::End as usize,
                is_cumulating: windows.step.is_some(),
            }),
            position: input.position,
            op: None,
            is_bounded: input.is_bounded,
        };
        stream.node = self.plan.add(Node::Window(windows), vec![stream.node], schema.clone());
        for slot in &mut stream.slots {
            if let Slot::Window(column) = *slot {
                *slot = Slot::Column(width + column as usize);
            }
        }
        if let Some(predicate) = predicate {
            let names = WindowColumn::ALL.map(|c| schema.columns.field(width + c as usize).name().clone());
            let predicate = rename(&predicate, &names)?;
            stream.node = self.plan.add(Node::Filter(Filter { predicate }), vec![stream.node], schema);
        }
        Ok(stream)
    }
}

/// The columns `window_start`, `window_end` and `window_time`.
pub(super) fn window_fields(time: &DataType) -> [Field; 3] {
    let local = DataType::Timestamp(TimeUnit::Microsecond, None);
    let types = [local.clone(), local, time.clone()];
    let mut columns = WindowColumn::ALL.into_iter().zip(types);
    std::array::from_fn(|_| {
        let (column, data_type) = columns.next().expect("three of each");
        Field::new(column.name(), data_type, false)
    })
}

/// A predicate over pending window columns, over columns of these names.
pub(super) fn rename(predicate: &Expr, names: &[String; 3]) -> Result<Expr> {
    use datafusion_common::tree_node::{Transformed, TreeNode};
    let renamed = predicate.clone().transform(|part| match part {
        Expr::Column(column) => {
            let found = WindowColumn::ALL.into_iter().find(|c| c.name() == column.name);
            let name = found.map_or(column.name, |c| names[c as usize].clone());
            Ok(Transformed::yes(Expr::Column(datafusion_common::Column::from_name(name))))
        }
        other => Ok(Transformed::no(other)),
    });
    renamed.map(|renamed| renamed.data).map_err(|error| Error::bug(error.to_string()))
}
