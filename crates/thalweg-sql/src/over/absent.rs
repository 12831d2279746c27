//! Columns of which rows of other inputs of a union may have no value, where the base always has one.
//!
//! Keys and calls are written over the base's columns, and what DataFusion knows of these, as that they are never null, is not true of
//! the rows of all inputs. Until all is planned such a column stands within a function that may give null, so that nobody takes
//! `v IS NULL` for false, or `coalesce(v, 0)` for `v`.

use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::{
    Column, ExprSchema, Result, internal_err,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The expression, with the columns that are never null in the base and may be elsewhere marked so.
pub(super) fn marked(expression: Expr, base: &dyn ExprSchema, may_be_null: impl Fn(&Column) -> bool) -> Result<Expr> {
    let marked = expression.transform_up(|part| match part {
        Expr::Column(column) if !base.nullable(&column)? && may_be_null(&column) => {
            let function = ScalarUDF::from(MayBeNull { signature: Signature::any(1, Volatility::Immutable) });
            Ok(Transformed::yes(function.call(vec![Expr::Column(column)])))
        }
        part => Ok(Transformed::no(part)),
    });
    marked.data()
}

/// The expression without marks.
pub(crate) fn bare(expression: Expr) -> Result<Expr> {
    let bare = expression.transform_up(|part| match part {
        Expr::ScalarFunction(mut call) if call.func.inner().is::<MayBeNull>() => match call.args.pop() {
            Some(column) => Ok(Transformed::yes(column)),
            None => internal_err!("a mark without a column"),
        },
        part => Ok(Transformed::no(part)),
    });
    bare.data()
}

/// A value that is what it is, and may be null.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MayBeNull {
    signature: Signature,
}

impl ScalarUDFImpl for MayBeNull {
    fn name(&self) -> &str {
        "may be null"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Field::new(self.name(), arguments.arg_fields[0].data_type().clone(), true).into())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a mark is no value")
    }
}
