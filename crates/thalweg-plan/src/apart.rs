//! How far other columns may be from the event time of a stream, as the joins say that it comes from.

use datafusion_expr::Expr;
use thalweg_core::Interval;

use crate::{
    Node, NodeId, Plan,
    node::{Distance, JoinKind},
};

impl Plan {
    /// How far a column's value may lie behind the event time of its row, unless it is null: the column is this time, or was that of one side
    /// of a join below.
    pub fn apart(&self, id: NodeId, column: usize) -> Option<Distance> {
        let planned = self.node(id);
        if planned.schema.time? == column {
            return Some(Distance { from: Interval(0), to: Interval(0) });
        }
        let input = *planned.inputs.first()?;
        let columns = &self.node(input).schema.columns;
        match &planned.node {
            Node::Map(map) => match map.expressions.get(column)? {
                Expr::Column(name) => self.apart(input, columns.maybe_index_of_column(name)?),
                _ => None,
            },
            Node::Filter(_) => self.apart(input, column),
            Node::Over(over) => self.apart(input, *over.passes.get(column)?),
            Node::IntervalJoin(join) => {
                let width = columns.fields().len();
                let [_, right] = planned.inputs[..] else { return None };
                let to_right = Distance { from: join.distance.from, to: join.distance.to };
                let to_left = Distance { from: negative(to_right.to)?, to: negative(to_right.from)? };
                match (join.kind, column.checked_sub(width)) {
                    (JoinKind::Full, _) => None,
                    (JoinKind::Right, None) => sum(self.apart(input, column)?, to_left),
                    (JoinKind::Right, Some(column)) => self.apart(right, column),
                    (_, None) => self.apart(input, column),
                    (_, Some(column)) => sum(self.apart(right, column)?, to_right),
                }
            }
            _ => None,
        }
    }
}

fn negative(Interval(span): Interval) -> Option<Interval> {
    span.checked_neg().map(Interval)
}

fn sum(one: Distance, other: Distance) -> Option<Distance> {
    let plus = |a: Interval, b: Interval| a.0.checked_add(b.0).map(Interval);
    Some(Distance { from: plus(one.from, other.from)?, to: plus(one.to, other.to)? })
}
