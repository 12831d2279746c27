//! Makes a physical expression fail where PostgreSQL fails, and only there.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion_common::{
    Result, ScalarValue,
    tree_node::{Transformed, TreeNode},
};
use datafusion_expr::Operator;
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{
        BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
        NotExpr,
    },
};

use crate::lazy::Lazy;

/// The same expression, with arithmetic that does not wrap around, and with AND and OR that spare their right side.
pub fn checked(expression: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    expression.transform_up(|node| check_node(node, schema)).map(|transformed| transformed.data)
}

fn check_node(node: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    use Operator::{And, Minus, Multiply, Or, Plus};
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        return Ok(match binary.op() {
            Plus | Minus | Multiply => Transformed::yes(Arc::new(binary.clone().with_fail_on_overflow(true))),
            And | Or if !is_total(binary.right(), schema) => Transformed::yes(Arc::new(Lazy::new(binary))),
            _ => Transformed::no(node),
        });
    }
    if let Some(negative) = node.downcast_ref::<NegativeExpr>() {
        let kind = negative.arg().data_type(schema)?;
        if kind.is_signed_integer() {
            let zero = Arc::new(Literal::new(ScalarValue::new_zero(&kind)?));
            let negated = BinaryExpr::new(zero, Minus, Arc::clone(negative.arg())).with_fail_on_overflow(true);
            return Ok(Transformed::yes(Arc::new(negated)));
        }
    }
    Ok(Transformed::no(node))
}

/// Whether the expression has a value for every row, so that computing it where nobody asked does no harm.
pub fn is_total(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    is_total_node(expression, schema) && expression.children().iter().all(|child| is_total(child, schema))
}

fn is_total_node(node: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    use Operator::*;
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom | And | Or => true,
            Plus | Minus | Multiply | Divide => node.data_type(schema).is_ok_and(|kind| kind.is_floating()),
            _ => false,
        };
    }
    if let Some(cast) = node.downcast_ref::<CastExpr>() {
        return cast.expr().data_type(schema).is_ok_and(|from| is_wider(&from, cast.cast_type()));
    }
    if let Some(negative) = node.downcast_ref::<NegativeExpr>() {
        return negative.arg().data_type(schema).is_ok_and(|kind| kind.is_floating());
    }
    node.is::<Column>()
        || node.is::<Literal>()
        || node.is::<NotExpr>()
        || node.is::<IsNullExpr>()
        || node.is::<IsNotNullExpr>()
        || node.is::<LikeExpr>()
        || node.is::<InListExpr>()
        || node.is::<CaseExpr>()
        || node.is::<Lazy>()
}

/// Whether every value of one type has a value in the other.
fn is_wider(from: &DataType, to: &DataType) -> bool {
    let is_string = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    from == to
        || CastExpr::check_bigger_cast(to, from)
        || (from.is_integer() && to.is_floating())
        || (*from == DataType::Float32 && *to == DataType::Float64)
        || (is_string(from) && is_string(to))
}
