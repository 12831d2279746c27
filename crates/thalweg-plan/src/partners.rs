//! Which rows have no results because they have no partners.

use arrow_schema::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{BinaryExpr, Expr, Operator};

use crate::{Node, NodeId, Plan};

impl Plan {
    /// The column of a node of which all rows are dropped behind it that have 0 there, or less: where it is how many rows each sees, those
    /// that see none have no results.
    pub fn partners(&self, id: NodeId) -> Option<usize> {
        let mut behind = vec![id];
        let filter = loop {
            let mut consumers = self.consumers(*behind.last()?);
            let (Some(consumer), None) = (consumers.next(), consumers.next()) else { return None };
            match &self.node(consumer).node {
                Node::Map(_) => behind.push(consumer),
                Node::Filter(filter) => break filter,
                _ => return None,
            }
        };
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Gt, right }) = &filter.predicate else { return None };
        if !matches!(right.as_ref(), Expr::Literal(ScalarValue::Int64(Some(0)), _)) {
            return None;
        }
        let mut column = left.as_ref();
        let mut number = None;
        for node in behind.into_iter().rev() {
            let Expr::Column(name) = column else { return None };
            let planned = self.node(node);
            let at = planned.schema.columns.maybe_index_of_column(name)?;
            number = Some(at);
            if let Node::Map(map) = &planned.node
                && node != id
            {
                column = match map.expressions.get(at)? {
                    Expr::Alias(alias) => &alias.expr,
                    part => part,
                };
            }
        }
        let number = number?;
        let field = self.node(id).schema.columns.field(number);
        (*field.data_type() == DataType::Int64 && !field.is_nullable()).then_some(number)
    }
}
