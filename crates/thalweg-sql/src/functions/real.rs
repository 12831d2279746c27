//! Functions of floats that fail where they have no real result, as in PostgreSQL: `ln(-1)`, `asin(2)`. DataFusion's give NaN.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef,
    cast::AsArray,
    types::{Float32Type, Float64Type},
};
use arrow_schema::{DataType, FieldRef};
use datafusion_common::{Result, exec_err};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    simplify::{ExprSimplifyResult, SimplifyContext},
};

/// The function, which fails where it would make a NaN of other numbers, if it is one that can. Others are returned as they are.
pub(super) fn real(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match function.name() {
        "ln" | "log" | "log2" | "log10" | "power" | "acos" | "acosh" | "asin" | "atanh" | "sin" | "cos" | "tan"
        | "cot" => Arc::new(ScalarUDF::from(Real(function))),
        _ => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Real(Arc<ScalarUDF>);

impl ScalarUDFImpl for Real {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn is_strict(&self) -> bool {
        self.0.is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.0.simplify(args, context)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = args.args.clone();
        let rows = args.number_rows;
        let result = self.0.invoke_with_args(args)?;
        let results = match &result {
            ColumnarValue::Array(values) => Arc::clone(values),
            ColumnarValue::Scalar(value) => value.to_array()?,
        };
        if !(0..results.len()).any(|row| is_nan(&results, row)) {
            return Ok(result);
        }
        let given = given.iter().map(|values| values.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let is_made = |row: &usize| is_nan(&results, *row) && !given.iter().any(|values| is_nan(values, *row));
        match (0..results.len()).find(is_made) {
            Some(_) => exec_err!("there is no real result"),
            None => Ok(result),
        }
    }
}

fn is_nan(values: &ArrayRef, row: usize) -> bool {
    if values.is_null(row) {
        return false;
    }
    match values.data_type() {
        DataType::Float64 => values.as_primitive::<Float64Type>().value(row).is_nan(),
        DataType::Float32 => values.as_primitive::<Float32Type>().value(row).is_nan(),
        _ => false,
    }
}
