//! Functions whose results can be far larger than their arguments are asked how large before they are computed.

use std::sync::Arc;

use arrow_array::{Array, cast::AsArray, types::Int64Type};
use arrow_schema::DataType;
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    simplify::{ExprSimplifyResult, SimplifyContext},
};
use thalweg_core::expression::{TEXT_LIMIT, check_text};

/// The function, which fails before it makes more text than one batch of rows may have, if it is one that can make much from
/// little. Others are returned as they are.
pub(crate) fn bounded(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match function.name() {
        "repeat" | "lpad" | "rpad" | "replace" | "concat" | "concat_ws" => Arc::new(ScalarUDF::from(Bounded(function))),
        _ => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded(Arc<ScalarUDF>);

impl Bounded {
    /// How many bytes the result takes, at least.
    fn size(&self, args: &ScalarFunctionArgs) -> usize {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = 0..if is_constant { 1 } else { args.number_rows };
        let sum = |size: &dyn Fn(usize) -> usize| rows.clone().map(size).fold(0, usize::saturating_add);
        match (self.0.name(), &args.args[..]) {
            ("repeat", [text, count]) => sum(&|row| length(text, row).saturating_mul(number(count, row))),
            ("lpad" | "rpad", [_, count, ..]) => sum(&|row| number(count, row)),
            ("concat" | "concat_ws", texts) => sum(&|row| texts.iter().map(|text| length(text, row)).sum()),
            ("replace", [text, from, to]) => {
                let most = sum(&|row| length(text, row).saturating_mul(length(to, row).max(1)));
                let counted = |row| self::text(text, row).matches(self::text(from, row)).count() * length(to, row);
                if most <= TEXT_LIMIT { most } else { sum(&counted) }
            }
            _ => 0,
        }
    }
}

fn length(value: &ColumnarValue, row: usize) -> usize {
    text(value, row).len()
}

/// The text in a row; the empty one where there is none.
fn text(value: &ColumnarValue, row: usize) -> &str {
    match value {
        ColumnarValue::Scalar(scalar) => scalar.try_as_str().flatten().unwrap_or_default(),
        ColumnarValue::Array(array) if array.is_null(row) => "",
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().value(row),
            DataType::LargeUtf8 => array.as_string::<i64>().value(row),
            DataType::Utf8View => array.as_string_view().value(row),
            _ => "",
        },
    }
}

/// A negative number is none, as in PostgreSQL; `lpad` and `rpad` of DataFusion come to grief on it.
fn not_negative(args: &mut ScalarFunctionArgs) {
    if let [_, ColumnarValue::Array(count), ..] = &mut args.args[..]
        && let Some(numbers) = count.as_primitive_opt::<Int64Type>()
    {
        *count = Arc::new(numbers.unary::<_, Int64Type>(|number| number.max(0)));
    }
}

fn number(count: &ColumnarValue, row: usize) -> usize {
    let number = match count {
        ColumnarValue::Scalar(ScalarValue::Int64(number)) => *number,
        ColumnarValue::Array(array) if array.is_valid(row) => {
            array.as_primitive_opt::<Int64Type>().map(|numbers| numbers.value(row))
        }
        _ => None,
    };
    usize::try_from(number.unwrap_or(0)).unwrap_or(0)
}

impl ScalarUDFImpl for Bounded {
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

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<arrow_schema::FieldRef> {
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

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        check_text(self.name(), self.size(&args)).map_err(|error| DataFusionError::External(Box::new(error)))?;
        if matches!(self.name(), "lpad" | "rpad") {
            not_negative(&mut args);
        }
        self.0.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use arrow_schema::Field;
    use datafusion_common::config::ConfigOptions;

    use super::*;

    fn call(function: Arc<ScalarUDF>, text: ColumnarValue, count: Vec<Option<i64>>) -> Result<ColumnarValue> {
        let rows = count.len();
        let count = ColumnarValue::Array(Arc::new(Int64Array::from(count)) as ArrayRef);
        let fields = [DataType::Utf8, DataType::Int64].map(|kind| Arc::new(Field::new("", kind, true)));
        bounded(function).invoke_with_args(ScalarFunctionArgs {
            args: vec![text, count],
            arg_fields: fields.to_vec(),
            number_rows: rows,
            return_field: Arc::new(Field::new("", DataType::Utf8, true)),
            config_options: Arc::new(ConfigOptions::default()),
        })
    }

    #[test]
    fn what_would_be_too_large_is_not_made() {
        let texts = |value: ColumnarValue, rows: usize| {
            let texts = value.into_array(rows).unwrap();
            texts.as_string::<i32>().iter().map(|text| text.unwrap_or("null").to_string()).collect::<Vec<_>>()
        };
        let ab = || ColumnarValue::Scalar(ScalarValue::from("ab"));
        let functions = [
            (datafusion_functions::string::repeat(), "abababab"),
            (datafusion_functions::unicode::lpad(), "  ab"),
            (datafusion_functions::unicode::rpad(), "ab  "),
        ];
        for (function, expected) in functions {
            let small = call(Arc::clone(&function), ab(), vec![Some(4), None, Some(-1)]).unwrap();
            assert_eq!(texts(small, 3), [expected, "null", ""]);
            for counts in [vec![Some(1_000_000_000)], vec![Some(1_000_000); 1_000], vec![Some(i64::MAX); 2]] {
                let error = call(Arc::clone(&function), ab(), counts).unwrap_err().to_string();
                assert!(error.contains("more than 268435456"), "{error}");
            }
        }
        let texts = ColumnarValue::Array(Arc::new(StringArray::from(vec!["abc", "", "d"])) as ArrayRef);
        let many = vec![Some(100_000_000), Some(i64::MAX), None];
        let error = call(datafusion_functions::string::repeat(), texts, many).unwrap_err().to_string();
        assert!(error.contains("repeat would make 300000000 bytes"), "{error}");
    }
}
