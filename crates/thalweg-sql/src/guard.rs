//! Keeps constants from being computed with arithmetic that wraps around when a query is planned.
//!
//! DataFusion's simplifier computes `9223372036854775807 + 1` with its wrapping operators. Under guard the same sum is a
//! function that fails, and the simplifier leaves alone what fails: it is then an error of the rows that ask for it.

use arrow_arith::numeric::{add, mul, neg, sub};
use arrow_schema::DataType;
use datafusion_common::{
    DFSchema, Result, plan_err,
    tree_node::{Transformed, TreeNode},
};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    binary_expr, expr::ScalarFunction,
};

/// The expression with integer arithmetic that may turn out constant as functions that fail instead of wrapping around.
pub(crate) fn guarded(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expression.transform_up(|part| {
        let (operation, operands) = match &part {
            Expr::BinaryExpr(binary) => match binary.op {
                Operator::Plus => (Operation::Add, vec![&*binary.left, &*binary.right]),
                Operator::Minus => (Operation::Subtract, vec![&*binary.left, &*binary.right]),
                Operator::Multiply => (Operation::Multiply, vec![&*binary.left, &*binary.right]),
                _ => return Ok(Transformed::no(part)),
            },
            Expr::Negative(operand) => (Operation::Negate, vec![&**operand]),
            _ => return Ok(Transformed::no(part)),
        };
        let is_integer = |operand: &&Expr| operand.get_type(schema).is_ok_and(|kind| kind.is_integer());
        if operands.iter().any(|operand| is_column(operand)) || !operands.iter().all(is_integer) {
            return Ok(Transformed::no(part));
        }
        let operands = operands.into_iter().cloned().collect();
        let function = ScalarUDF::from(Exact { operation, signature: Signature::variadic_any(Volatility::Immutable) });
        Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function.into(), operands))))
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
            Operation::Negate => return Ok(Transformed::yes(Expr::Negative(Box::new(call.args[0].clone())))),
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
    Negate,
}

/// An operator of integers that fails where its result does not fit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Exact {
    operation: Operation,
    signature: Signature,
}

impl ScalarUDFImpl for Exact {
    fn name(&self) -> &str {
        "exact"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, operands: &[DataType]) -> Result<DataType> {
        match operands {
            [first, ..] => Ok(first.clone()),
            [] => plan_err!("arithmetic has operands"),
        }
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let operands = ColumnarValue::values_to_arrays(&call.args)?;
        let computed = match (self.operation, operands.as_slice()) {
            (Operation::Add, [left, right]) => add(left, right),
            (Operation::Subtract, [left, right]) => sub(left, right),
            (Operation::Multiply, [left, right]) => mul(left, right),
            (Operation::Negate, [operand]) => neg(operand),
            _ => return plan_err!("arithmetic has one or two operands"),
        };
        Ok(ColumnarValue::Array(computed?))
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
