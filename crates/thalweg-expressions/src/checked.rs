//! Makes a physical expression fail where PostgreSQL fails, and only there.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion_common::{
    Result, ScalarValue,
    tree_node::{Transformed, TreeNode},
};
use datafusion_expr::Operator;
use datafusion_physical_expr::{
    PhysicalExpr, ScalarFunctionExpr,
    expressions::{
        BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
        NotExpr, in_list,
    },
};

use crate::{
    decimals::DecimalArithmetic,
    finite::Finite,
    floats::{Canonical, FloatComparison},
    lazy::Lazy,
};

/// The same expression, with arithmetic that does not wrap around, with floats that compare as in PostgreSQL, and with AND
/// and OR that spare their right side.
pub fn checked(expression: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    expression.transform_up(|node| check_node(node, schema)).map(|transformed| transformed.data)
}

fn check_node(node: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    use Operator::{And, Minus, Multiply, Or, Plus};
    if let Some(compared) = compared(&node, schema)? {
        return Ok(Transformed::yes(compared));
    }
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        if let Some(arithmetic) = DecimalArithmetic::of(binary, schema)? {
            return Ok(Transformed::yes(Arc::new(arithmetic)));
        }
        return Ok(match binary.op() {
            Plus | Minus | Multiply => Transformed::yes(Arc::new(binary.clone().with_fail_on_overflow(true))),
            And | Or if !is_total(binary.right(), schema) => Transformed::yes(Arc::new(Lazy::new(binary))),
            _ => Transformed::no(node),
        });
    }
    if let Some(finite) = Finite::of(&node, schema)? {
        return Ok(Transformed::yes(Arc::new(finite)));
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

/// What compares floats, so that it does not go by their bits; nothing for what compares none.
fn compared(node: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let is_float = |part: &Arc<dyn PhysicalExpr>| part.data_type(schema).is_ok_and(|kind| kind.is_floating());
    let canonical = |part: &Arc<dyn PhysicalExpr>| Canonical::of(part, schema);
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        let (left, right) = (binary.left(), binary.right());
        let is_ours = is_comparison(*binary.op());
        return Ok(if is_ours && is_float(left) && left.data_type(schema)? == right.data_type(schema)? {
            Some(Arc::new(FloatComparison::new(Arc::clone(left), *binary.op(), Arc::clone(right))))
        } else {
            None
        });
    }
    if let Some(list) = node.downcast_ref::<InListExpr>()
        && is_float(list.expr())
    {
        let values = list.list().iter().map(canonical).collect::<Result<_>>()?;
        return in_list(canonical(list.expr())?, values, &list.negated(), schema).map(Some);
    }
    if let Some(case) = node.downcast_ref::<CaseExpr>()
        && let Some(operand) = case.expr().filter(|operand| is_float(operand))
    {
        let branches = case.when_then_expr().iter().map(|(when, then)| Ok((canonical(when)?, Arc::clone(then))));
        let branches = branches.collect::<Result<_>>()?;
        return Ok(Some(Arc::new(CaseExpr::try_new(Some(canonical(operand)?), branches, case.else_expr().cloned())?)));
    }
    let Some(call) = node.downcast_ref::<ScalarFunctionExpr>() else { return Ok(None) };
    match (call.name(), call.args()) {
        // What is given back is the first argument as it is.
        ("nullif", [value, other]) if is_float(value) => {
            let equal = FloatComparison::new(Arc::clone(value), Operator::Eq, Arc::clone(other));
            let null = Literal::new(ScalarValue::try_from(&value.data_type(schema)?)?);
            let branch = (Arc::new(equal) as Arc<dyn PhysicalExpr>, Arc::new(null) as Arc<dyn PhysicalExpr>);
            Ok(Some(Arc::new(CaseExpr::try_new(None, vec![branch], Some(Arc::clone(value)))?)))
        }
        ("greatest" | "least", values) if values.iter().any(is_float) => {
            let values = values.iter().map(canonical).collect::<Result<_>>()?;
            Arc::clone(node).with_new_children(values).map(Some)
        }
        _ => Ok(None),
    }
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::*;
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Whether the expression has a value for every row, so that computing it where nobody asked does no harm.
pub fn is_total(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    is_total_node(expression, schema) && expression.children().iter().all(|child| is_total(child, schema))
}

fn is_total_node(node: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    use Operator::*;
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            And | Or => true,
            operator if is_comparison(*operator) => true,
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
        || node.is::<FloatComparison>()
        || node.is::<Canonical>()
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
