//! Keeps constants from being computed otherwise when a query is planned than when it runs.
//!
//! DataFusion's simplifier computes `9223372036854775807 + 1` with its wrapping operators. Under guard the same sum is a
//! function that fails, and the simplifier leaves alone what fails: it is then an error of the rows that ask for it.
//! Arithmetic of decimals is kept for them altogether, and floats that are compared have one NaN and one zero.

use std::sync::Arc;

use arrow_arith::numeric::{add, mul, neg, sub};
use arrow_array::{
    ArrayRef,
    cast::AsArray,
    types::{Float32Type, Float64Type},
};
use arrow_schema::DataType;
use datafusion_common::{
    DFSchema, Result, ScalarValue, plan_err,
    tree_node::{Transformed, TreeNode},
};
use datafusion_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TryCast, Volatility, binary_expr, expr::ScalarFunction,
};

/// The expression with functions for what DataFusion would compute otherwise, should it turn out constant.
pub(crate) fn guarded(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expression.transform_up(|part| match arithmetic(&part, schema) {
        Some(guarded) => Ok(Transformed::yes(guarded)),
        None => compared(part, schema),
    })
}

fn arithmetic(part: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (operation, operands) = match part {
        Expr::BinaryExpr(binary) => {
            let operation = match binary.op {
                Operator::Plus => Operation::Add,
                Operator::Minus => Operation::Subtract,
                Operator::Multiply => Operation::Multiply,
                Operator::Divide => Operation::Divide,
                Operator::Modulo => Operation::Remainder,
                _ => return None,
            };
            (operation, vec![&*binary.left, &*binary.right])
        }
        // Infinity instead of what no float holds is no constant.
        Expr::Cast(cast) if cast.field.data_type().is_floating() && !is_column(&cast.expr) => {
            let from = cast.expr.get_type(schema).ok()?;
            if !(from.is_floating() || from.is_string()) || from == *cast.field.data_type() {
                return None;
            }
            return Some(call(Operation::Cast, cast.field.data_type().clone(), vec![(*cast.expr).clone()]));
        }
        Expr::TryCast(cast) if cast.field.data_type().is_floating() && !is_column(&cast.expr) => {
            let from = cast.expr.get_type(schema).ok()?;
            if !(from.is_floating() || from.is_string()) {
                return None;
            }
            return Some(call(Operation::TryCast, cast.field.data_type().clone(), vec![(*cast.expr).clone()]));
        }
        Expr::Negative(operand) => (Operation::Negate, vec![&**operand]),
        _ => return None,
    };
    // Long chains grow to the left, where asking for types takes long: the last is asked first, and columns not at all.
    let kind = |operand: &Expr| operand.get_type(schema).ok();
    let last = operands.last().and_then(|last| kind(last))?;
    let is_whole = last.is_integer() && !matches!(operation, Operation::Divide | Operation::Remainder);
    let output = if is_whole && !operands.iter().any(|operand| is_column(operand)) {
        kind(operands[0]).filter(|first| *first == last)?
    } else if last.is_decimal() && operands.len() == 2 && kind(operands[0])?.is_decimal() {
        kind(part)?
    } else {
        return None;
    };
    Some(call(operation, output, operands.into_iter().cloned().collect()))
}

/// Comparisons of floats, with operands whose bits say whether they are equal.
fn compared(mut part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = false;
    let mut canonical = |operand: &mut Expr| {
        let kind = operand.get_type(schema).ok().filter(|kind| kind.is_floating());
        let Some(kind) = kind.filter(|_| !is_column(operand)) else { return };
        *operand = call(Operation::Canonical, kind, vec![operand.clone()]);
        changed = true;
    };
    match &mut part {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            canonical(&mut binary.left);
            canonical(&mut binary.right);
        }
        Expr::InList(list) => {
            canonical(&mut list.expr);
            list.list.iter_mut().for_each(canonical);
        }
        Expr::Between(between) => {
            [&mut between.expr, &mut between.low, &mut between.high].into_iter().for_each(|part| canonical(part));
        }
        Expr::Case(case) => {
            if let Some(operand) = &mut case.expr {
                canonical(operand);
                case.when_then_expr.iter_mut().for_each(|(when, _)| canonical(when));
            }
        }
        Expr::ScalarFunction(function) if ["nullif", "greatest", "least"].contains(&function.name()) => {
            function.args.iter_mut().for_each(canonical);
        }
        // `sum(a + 1)` would become `sum(a) + 1 * count(a)`, which may overflow where the sum does not, and rounds otherwise.
        Expr::AggregateFunction(function) => {
            for argument in function.params.args.iter_mut().filter(|argument| matches!(argument, Expr::BinaryExpr(_))) {
                *argument = call(Operation::Same, argument.get_type(schema)?, vec![argument.clone()]);
                changed = true;
            }
        }
        _ => {}
    }
    Ok(if changed { Transformed::yes(part) } else { Transformed::no(part) })
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::*;
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn call(operation: Operation, output: DataType, operands: Vec<Expr>) -> Expr {
    // What is volatile is neither computed when a query is planned, nor computed once where it stands twice.
    let is_kept = match operation {
        Operation::Lazy => true,
        Operation::Canonical | Operation::Same => false,
        _ => output.is_decimal(),
    };
    let volatility = if is_kept { Volatility::Volatile } else { Volatility::Immutable };
    let function = ScalarUDF::from(Exact { operation, output, signature: Signature::variadic_any(volatility) });
    Expr::ScalarFunction(ScalarFunction::new_udf(function.into(), operands))
}

/// The aggregate with a function around each argument that sees only the rows of its FILTER: what stands in it is not
/// computed for all.
pub(crate) fn spared(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expression.transform_up(|mut part| {
        let Expr::AggregateFunction(function) = &mut part else { return Ok(Transformed::no(part)) };
        if function.params.filter.is_none() {
            return Ok(Transformed::no(part));
        }
        for argument in &mut function.params.args {
            *argument = call(Operation::Lazy, argument.get_type(schema)?, vec![argument.clone()]);
        }
        Ok(Transformed::yes(part))
    })
}

/// The expression with operators again where [`guarded`] put functions.
pub(crate) fn unguarded(expression: Expr) -> Result<Transformed<Expr>> {
    expression.transform_up(|part| {
        let Expr::ScalarFunction(call) = &part else { return Ok(Transformed::no(part)) };
        let Some(exact) = call.func.inner().downcast_ref::<Exact>() else { return Ok(Transformed::no(part)) };
        let operator = match exact.operation {
            Operation::Add => Operator::Plus,
            Operation::Subtract => Operator::Minus,
            Operation::Multiply => Operator::Multiply,
            Operation::Divide => Operator::Divide,
            Operation::Remainder => Operator::Modulo,
            Operation::Negate => return Ok(Transformed::yes(Expr::Negative(Box::new(call.args[0].clone())))),
            Operation::Canonical | Operation::Same | Operation::Lazy => {
                return Ok(Transformed::yes(call.args[0].clone()));
            }
            Operation::Cast => {
                return Ok(Transformed::yes(Expr::Cast(Cast::new(
                    Box::new(call.args[0].clone()),
                    exact.output.clone(),
                ))));
            }
            Operation::TryCast => {
                let cast = TryCast::new(Box::new(call.args[0].clone()), exact.output.clone());
                return Ok(Transformed::yes(Expr::TryCast(cast)));
            }
        };
        Ok(Transformed::yes(binary_expr(call.args[0].clone(), operator, call.args[1].clone())))
    })
}

/// A column, cast or not, which no simplification makes a constant.
fn is_column(expression: &Expr) -> bool {
    match expression {
        Expr::Column(_) => true,
        Expr::Cast(cast) => is_column(&cast.expr),
        _ => false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Negate,
    Canonical,
    Same,
    Lazy,
    Cast,
    TryCast,
}

/// An operator of whole numbers that fails where its result does not fit, or one of decimals, which waits for its row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Exact {
    operation: Operation,
    output: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Exact {
    fn name(&self) -> &str {
        "exact"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn short_circuits(&self) -> bool {
        self.operation == Operation::Lazy
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.output.clone())
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let operands = ColumnarValue::values_to_arrays(&call.args)?;
        if self.operation == Operation::Cast {
            let value = call.args[0].cast_to(&self.output, None)?;
            let is_finite = |value: &ColumnarValue| match value {
                ColumnarValue::Scalar(ScalarValue::Float64(value)) => value.is_none_or(f64::is_finite),
                ColumnarValue::Scalar(ScalarValue::Float32(value)) => value.is_none_or(f32::is_finite),
                _ => false,
            };
            return if is_finite(&value) { Ok(value) } else { plan_err!("this is computed when the query runs") };
        }
        let computed = match (self.operation, operands.as_slice()) {
            (Operation::Add, [left, right]) => add(left, right),
            (Operation::Subtract, [left, right]) => sub(left, right),
            (Operation::Multiply, [left, right]) => mul(left, right),
            (Operation::Negate, [operand]) => neg(operand),
            (Operation::Canonical, [operand]) => Ok(canonical(operand)),
            (Operation::Same | Operation::Lazy, [operand]) => Ok(Arc::clone(operand)),
            _ => return plan_err!("this is computed when the query runs"),
        };
        Ok(ColumnarValue::Array(computed?))
    }
}

fn canonical(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        _ => Arc::clone(values),
    }
}

#[cfg(test)]
mod tests {
    use datafusion_expr::{col, lit};

    use super::*;

    #[test]
    fn what_may_be_constant_is_guarded_and_given_back_as_it_was() {
        let schema =
            DFSchema::try_from(arrow_schema::Schema::new(vec![arrow_schema::Field::new("a", DataType::Int64, true)]));
        let schema = schema.unwrap();
        let one = || lit(1i64);
        for (expression, is_guarded) in [
            (one() + one(), true),
            (one() - one() * one(), true),
            (-(one() + one()), true),
            (col("a") + one(), false),
            (lit(1.0) + lit(2.0), false),
            (one() / one(), false),
        ] {
            let guarded = guarded(expression.clone(), &schema).unwrap();
            assert_eq!(guarded.transformed, is_guarded, "{expression}");
            assert_eq!(unguarded(guarded.data).unwrap().data, expression);
        }
    }
}
