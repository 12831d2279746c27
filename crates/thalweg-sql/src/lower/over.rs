//! OVER: aggregates over the rows around a row.

use std::{collections::BTreeSet, sync::Arc};

use arrow_schema::Field;
use datafusion_common::{Column, DFSchemaRef};
use datafusion_expr::{Expr, ExprSchemable, expr::Sort, logical_plan::Extension};
use thalweg_core::{Error, Result, error::Span};
use thalweg_plan::{
    Node, NodeId, StreamSchema,
    node::{AggregateCall, Frame, Over, Phase},
};

use super::{
    Lowering,
    stream::{Slot, Stream},
    union::Other,
};
use crate::{
    diagnose,
    over::{OverNode, Shape, bare},
    windowing,
};

impl Lowering<'_> {
    pub(super) fn over(&mut self, node: &OverNode, extension: &Extension) -> Result<Stream> {
        let (base, others) = node.inputs.split_first().ok_or_else(|| Error::bug("OVER has an input"))?;
        let positions = self.asks_for_positions(node);
        let base = self.base(base, positions)?;
        let others = self.below_with(positions, |lowering| {
            others.iter().map(|input| lowering.node(input)).collect::<Result<Vec<_>>>()
        })?;
        self.check_order(&base, node)?;
        let base = self.apart(base, node)?;
        let base = self.narrow_base(base, node);
        let read = read_here(&base, node);
        self.check_corrected(base.node, |changing| read.iter().any(|column| changing[*column]))?;
        let time = base.slot_of(&node.time).and_then(Slot::column);
        let time = time.ok_or_else(|| Error::bug("the order of OVER is a column of its input"))?;
        let keys = node.keys.iter().map(|key| self.bare(self.rebase(&base, key)?)).collect::<Result<Vec<_>>>()?;
        let (mut nodes, mut times) = (vec![base.node], vec![time]);
        for (input, (name, at)) in others.into_iter().zip(&node.others) {
            let at = Span { line: at.0, column: at.1, width: at.2 };
            let input = self.settle(input)?;
            let (id, time) = self.other(input, &base, node, &Other { name, at })?;
            nodes.push(id);
            times.push(time);
        }
        let passes = self.passes(&base, node);
        let (frames, slots, columns) = self.frames(&base, node, &passes)?;
        let from: Vec<_> = passes.iter().copied().map(Some).collect();
        let is_bounded = nodes.iter().all(|node| self.plan.node(*node).schema.is_bounded);
        let schema = StreamSchema { window: None, is_bounded, ..self.schema(&base).project(columns, &from) };
        let (schema, emission) = self.emission(&nodes, schema)?;
        let moved = |slot: Slot| match slot {
            Slot::Column(column) => {
                passes.iter().position(|passes| *passes == column).map_or(Slot::Dropped, Slot::Column)
            }
            other => other,
        };
        let kept = base.columns.columns().into_iter().zip(base.slots).filter(|(column, _)| node.keeps(column));
        let slots = kept.map(|(_, slot)| moved(slot)).chain(slots).collect();
        let over = Over { times, keys, passes, frames, emission };
        let id = self.plan.add(Node::Over(over), nodes, schema);
        Ok(Stream { node: id, columns: Arc::clone(extension.node.schema()), slots, pending: None })
    }

    /// The same stream with the columns that are read, its event time, and where its rows stand.
    fn narrow_base(&mut self, base: Stream, node: &OverNode) -> Stream {
        let kept = base.columns.columns().into_iter().zip(&base.slots).filter(|(column, _)| node.keeps(column));
        let mut needed: BTreeSet<usize> = kept.filter_map(|(_, slot)| slot.column()).collect();
        needed.extend(read_here(&base, node));
        let StreamSchema { position, op, .. } = self.schema(&base);
        needed.extend(position.iter().chain(op));
        self.narrow(base, &needed)
    }

    /// The columns of the base that go on, its event time, its keys, which tell rows of one place apart, and, if somebody asks, where
    /// its rows stand.
    fn passes(&self, base: &Stream, node: &OverNode) -> Vec<usize> {
        let schema = self.schema(base);
        let kept = base.columns.columns().into_iter().zip(&base.slots).filter(|(column, _)| node.keeps(column));
        let mut passes: BTreeSet<usize> = kept.filter_map(|(_, slot)| slot.column()).collect();
        passes.extend(node.keys.iter().flat_map(|key| base.slots_in(key)).filter_map(Slot::column));
        passes.extend(schema.time);
        passes.extend(schema.position.filter(|_| self.wants_positions));
        passes.into_iter().collect()
    }

    /// One frame for all calls that look at the same rows; where each call's column will be, behind those that pass; and all columns.
    fn frames(&self, base: &Stream, node: &OverNode, passes: &[usize]) -> Result<(Vec<Frame>, Vec<Slot>, DFSchemaRef)> {
        let input = self.schema(base);
        let mut shapes: Vec<Shape> = Vec::new();
        for call in &node.calls {
            if !shapes.contains(&call.shape) {
                shapes.push(call.shape);
            }
        }
        let mut fields: Vec<Field> =
            passes.iter().map(|column| input.columns.field(*column).as_ref().clone()).collect();
        let mut slots = vec![Slot::Dropped; node.calls.len()];
        let mut functions = Vec::new();
        for (frame, shape) in shapes.iter().enumerate() {
            for (i, call) in node.calls.iter().enumerate().filter(|(_, call)| call.shape == *shape) {
                let rebased = self.rebase(base, &call.function)?;
                let kind = rebased.to_field(&*input.columns).map_err(|e| diagnose::planning(e, self.words))?.1;
                let rebased = self.bare(rebased)?;
                let name = thalweg_plan::written(&rebased);
                let Expr::AggregateFunction(mut function) = rebased.unalias_nested().data else {
                    return Err(Error::bug(format!("{name} is no aggregate")));
                };
                // What stands in WITHIN GROUP elsewhere is no order of rows.
                if node.inputs.len() == 1 && !function.func.supports_within_group_clause() {
                    self.order_by_position(&mut function.params.order_by, input);
                }
                slots[i] = Slot::Column(fields.len());
                fields.push(Field::new(name, kind.data_type().clone(), kind.is_nullable()));
                functions.push((frame, function));
            }
        }
        let columns = self.unique(fields);
        let mut output = columns.fields()[passes.len()..].iter();
        let mut frames: Vec<Frame> = shapes.iter().map(frame).collect();
        for (frame, function) in functions {
            let output = output.next().map(Arc::clone).ok_or_else(|| Error::bug("each call has a column"))?;
            frames[frame].aggregates.push(AggregateCall { function, output, phase: Phase::Only });
        }
        Ok((frames, slots, columns))
    }

    /// The expression over columns as they are: what they may be in other inputs is known.
    fn bare(&self, expression: Expr) -> Result<Expr> {
        bare(expression).map_err(|error| diagnose::planning(error, self.words))
    }

    /// Rows of one time stand in the order of their source, if they are of one input.
    fn order_by_position(&self, order: &mut Vec<Sort>, input: &StreamSchema) {
        if let Some(position) = input.position.filter(|_| !order.is_empty()) {
            let column = Expr::Column(Column::from_name(input.columns.field(position).name()));
            order.push(column.sort(true, true));
        }
    }

    fn check_order(&self, stream: &Stream, node: &OverNode) -> Result<()> {
        let schema = self.schema(stream);
        let column = stream.slot_of(&node.time).and_then(Slot::column);
        let column = column.ok_or_else(|| Error::bug("the order of OVER is a column of its input"))?;
        if schema.time == Some(column) {
            return Ok(());
        }
        let name = match &node.time {
            Expr::Column(column) => column.name.as_str(),
            _ => "",
        };
        let error = self.no_time(stream.node, column, name, None);
        let error = match stream.called(schema.time) {
            Some(time) => error.with_hint(format!("order by {time}, which does")),
            None => error,
        };
        let at = node.span().or_else(|| self.words.find_identifier(name));
        Err(error.at(at.unwrap_or(self.words.start())))
    }

    /// The refusal of an order that is not that of event time, by a column of a node.
    pub(super) fn no_time(&self, node: NodeId, column: usize, name: &str, table: Option<&str>) -> Error {
        let schema = &self.plan.node(node).schema;
        let field = schema.columns.field(column);
        let of = table.map_or(String::new(), |table| format!(" of {table}"));
        let error = Error::query(format!("column \"{name}\"{of} does not carry the event time of its stream"));
        error.with_hint(match schema.time {
            Some(time) if table.is_none() => {
                format!("order by \"{}\", which does", schema.columns.field(time).name())
            }
            Some(time) => {
                let time = schema.columns.field(time).name();
                format!("\"{time}\" does; name it so: (SELECT {time} AS {name}, … FROM …)")
            }
            None if windowing::is_time(field.data_type()) => {
                self.lost_time(node).unwrap_or_else(|| windowing::watermark_hint(name, "OVER"))
            }
            None => windowing::cast_hint(name, field.data_type()),
        })
    }
}

/// The columns of the base that keys, order and calls read.
fn read_here(base: &Stream, node: &OverNode) -> Vec<usize> {
    let calls = node.calls.iter().map(|call| &call.function);
    let read = node.keys.iter().chain([&node.time]).chain(calls).flat_map(|part| base.slots_in(part));
    read.filter_map(Slot::column).collect()
}

fn frame(shape: &Shape) -> Frame {
    Frame {
        bounds: shape.bounds.into(),
        most: shape.most,
        excludes_row: shape.excludes_row,
        excludes_time: shape.excludes_time,
        excludes_base: shape.excludes_base,
        pairs: None,
        aggregates: Vec::new(),
    }
}
