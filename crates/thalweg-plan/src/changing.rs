//! Which values of rows may change, where results come out before they are final.

use datafusion_expr::Expr;

use crate::{Node, NodeId, Plan};

impl Plan {
    /// Which columns of a node's rows are other ones when a row is corrected: results, and what is computed of them. All are `false` where
    /// nothing is corrected, and there is `None` where rows come and go because of corrections.
    pub fn changing(&self, id: NodeId) -> Option<Vec<bool>> {
        let planned = self.node(id);
        let width = planned.schema.columns.fields().len();
        if planned.schema.op.is_none() {
            return Some(vec![false; width]);
        }
        let input = *planned.inputs.first()?;
        let below = self.changing(input)?;
        match &planned.node {
            Node::Over(over) => {
                let passed = over.passes.iter().map(|column| below[*column]);
                Some(passed.chain(std::iter::repeat(true)).take(width).collect())
            }
            Node::Map(map) => Some(map.expressions.iter().map(|part| self.reads(part, input, &below)).collect()),
            Node::Filter(filter) => (!self.reads(&filter.predicate, input, &below)).then_some(below),
            _ => None,
        }
    }

    /// Which columns of a node's rows are results of those that bring rows together, or are computed of such; all are where it depends on these
    /// which rows there are.
    pub fn results(&self, id: NodeId) -> Vec<bool> {
        let planned = self.node(id);
        let width = planned.schema.columns.fields().len();
        let below: Vec<Vec<bool>> = planned.inputs.iter().map(|input| self.results(*input)).collect();
        match (&planned.node, planned.inputs.first().zip(below.first())) {
            (Node::Over(over), Some((_, below))) => {
                let passed = over.passes.iter().map(|column| below[*column]);
                passed.chain(std::iter::repeat(true)).take(width).collect()
            }
            (Node::Map(map), Some((input, below))) => {
                map.expressions.iter().map(|part| self.reads(part, *input, below)).collect()
            }
            (Node::Filter(filter), Some((input, below))) if !self.reads(&filter.predicate, *input, below) => {
                below.clone()
            }
            (Node::Position, Some((_, below))) => below.iter().copied().chain([false]).take(width).collect(),
            (Node::IntervalJoin(_), _) => vec![true; width],
            _ => vec![below.iter().flatten().any(|is_result| *is_result); width],
        }
    }

    /// Whether an expression reads one of these columns of a node.
    pub fn reads(&self, part: &Expr, of: NodeId, columns: &[bool]) -> bool {
        let schema = &self.node(of).schema.columns;
        part.column_refs().iter().any(|column| schema.maybe_index_of_column(column).is_some_and(|found| columns[found]))
    }
}
