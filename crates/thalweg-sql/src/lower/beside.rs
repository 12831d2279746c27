//! Another stream beside a base: aggregates over its rows around each row of the base.
//!
//! Both sides get columns of the same names: the base has a null for each column that is taken of the other side.

use std::collections::BTreeSet;

use arrow_schema::Field;
use datafusion_common::{
    Column, DFSchema, ScalarValue,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{Expr, ExprSchemable};
use thalweg_core::{Error, Result};
use thalweg_plan::{
    Node, NodeId, StreamSchema,
    node::{AggregateCall, Frame, FrameBounds, Over},
};

use super::{Lowering, MapBuilder, names, stream::Stream};
use crate::diagnose;

/// Both sides, as inputs of aggregates over the rows around a row.
pub(super) struct Beside {
    nodes: [NodeId; 2],
    times: [usize; 2],
    /// What the column of the event time is called.
    pub time: String,
    keys: Vec<Expr>,
    /// How many columns the base has, but for the one that says what becomes of a row, which is the last.
    pub width: usize,
    /// What is taken of the other side, as it is called here, and which columns of the base stand for it.
    pub taken: Vec<Field>,
    pub stand_ins: Vec<usize>,
}

/// Aggregates over the rows of the other side between two distances.
pub(super) fn over_others(bounds: FrameBounds) -> Frame {
    Frame {
        bounds,
        most: None,
        excludes_row: true,
        excludes_time: false,
        excludes_base: true,
        pairs: None,
        aggregates: Vec::new(),
    }
}

impl Lowering<'_> {
    /// Both sides with columns of the same names for keys, time, and these columns of the other side.
    pub(super) fn beside(
        &mut self,
        left: &Stream,
        right: &Stream,
        keys: Vec<(Expr, Expr)>,
        times: [usize; 2],
        wanted: &BTreeSet<usize>,
    ) -> Result<Beside> {
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
        let (mut taken, mut stand_ins) = (Vec::new(), Vec::new());
        for wanted in wanted {
            let Some(number) = right.slots[*wanted].column() else {
                return Err(Error::bug("a settled stream has no pending columns"));
            };
            let given = other.columns.field(number);
            let field = given.as_ref().clone().with_name(name(right.columns.field(*wanted).name())).with_nullable(true);
            let null =
                ScalarValue::try_from(field.data_type()).map_err(|error| diagnose::planning(error, self.words))?;
            stand_ins.push(left_map.add(Expr::Literal(null, None), field.clone(), None));
            right_map.add(column(given), field.clone(), Some(number));
            taken.push(field);
        }
        if let Some(position) = other.position {
            let field = other.columns.field(position).as_ref().clone();
            right_map.add(column(&field), field.with_name(name("position")), Some(position));
        }
        let (left, right) = (self.add_map(left.node, left_map), self.add_map(right.node, right_map));
        let keys = equal.into_iter().map(|name| Expr::Column(Column::from_name(name))).collect();
        let width = base.columns.fields().len() - usize::from(base.op.is_some());
        if base.op.is_some_and(|op| op != width) {
            return Err(Error::bug("what becomes of a row is said in its last column"));
        }
        let (nodes, times, time) = ([left, right], [times[0], own_time], own_name(times[0]));
        Ok(Beside { nodes, times, time, keys, width, taken, stand_ins })
    }

    /// The columns of the base, and behind them these aggregates of each frame.
    pub(super) fn around(&mut self, beside: Beside, frames: Vec<(Frame, Vec<AggregateCall>)>) -> Result<NodeId> {
        let Beside { nodes, times, keys, width, .. } = beside;
        let frames: Vec<_> = frames.into_iter().filter(|(_, calls)| !calls.is_empty()).collect();
        // Without an aggregate nobody looks at the other side.
        if frames.is_empty() {
            return Ok(nodes[0]);
        }
        let [base, other] = nodes.map(|node| self.plan.node(node).schema.clone());
        let passes: Vec<usize> = (0..base.columns.fields().len()).filter(|column| base.op != Some(*column)).collect();
        let given = passes.iter().map(|column| base.columns.field(*column).as_ref().clone());
        let calls = frames.iter().flat_map(|(_, calls)| calls);
        let columns = self.unique(given.chain(calls.map(|call| call.output.as_ref().clone())));
        let first = passes.len();
        let mut outputs = columns.fields()[first..].iter().cloned();
        let frames = frames.into_iter().map(|(frame, calls)| {
            let calls = calls.into_iter().zip(outputs.by_ref());
            let aggregates = calls.map(|(call, output)| AggregateCall { output, ..call }).collect();
            Frame { aggregates, ..frame }
        });
        let frames = frames.collect();
        let is_bounded = base.is_bounded && other.is_bounded;
        let from: Vec<_> = passes.iter().copied().map(Some).collect();
        let schema = StreamSchema { window: None, is_bounded, ..base.project(columns, &from) };
        let (schema, emission) = self.emission(&nodes, schema)?;
        let over = Over { times: times.to_vec(), keys, passes, frames, emission };
        let over = self.plan.add(Node::Over(over), nodes.to_vec(), schema.clone());
        // What made both sides alike goes no further.
        let mut map = MapBuilder::default();
        for number in (0..width).chain(first..schema.columns.fields().len()) {
            let field = schema.columns.field(number);
            map.add(column(field), field.as_ref().clone(), Some(number));
        }
        Ok(self.add_map(over, map))
    }
}

fn column(field: &Field) -> Expr {
    Expr::Column(Column::from_name(field.name()))
}

/// The columns of one side that an expression reads, by number.
pub(super) fn columns_of(part: &Expr, side: &Stream) -> Vec<usize> {
    part.column_refs().into_iter().filter_map(|column| side.columns.maybe_index_of_column(column)).collect()
}

/// Whether an expression reads columns of one side.
pub(super) fn reads(part: &Expr, side: &Stream) -> bool {
    !columns_of(part, side).is_empty()
}

/// The expression over columns as they are called beside each other: those of the left side as they are, and those of the right one, by
/// their numbers, under these names.
pub(super) fn under_names(
    part: Expr,
    left: &Stream,
    base: &DFSchema,
    right: &Stream,
    names: &[(usize, String)],
) -> datafusion_common::Result<Expr> {
    let name = |column: &Column| {
        if let Some(number) = right.columns.maybe_index_of_column(column) {
            return names.iter().find(|(known, _)| *known == number).map(|(_, name)| name.as_str());
        }
        let number = left.columns.maybe_index_of_column(column)?;
        left.slots[number].column().map(|number| base.field(number).name().as_str())
    };
    let renamed = part.transform(|part| match part {
        Expr::Column(column) => match name(&column) {
            Some(name) => Ok(Transformed::yes(Expr::Column(Column::from_name(name)))),
            None => datafusion_common::internal_err!("{column} is not read"),
        },
        part => Ok(Transformed::no(part)),
    });
    renamed.data()
}
