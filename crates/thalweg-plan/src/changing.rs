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

    /// Whether an expression reads one of these columns of a node.
    pub fn reads(&self, part: &Expr, of: NodeId, columns: &[bool]) -> bool {
        let schema = &self.node(of).schema.columns;
        part.column_refs().iter().any(|column| schema.maybe_index_of_column(column).is_some_and(|found| columns[found]))
    }
}
