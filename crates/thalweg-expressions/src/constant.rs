//! The rows of `VALUES`.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow_cast::cast;
use arrow_schema::Field;
use arrow_select::concat::concat;
use datafusion_common::DFSchema;
use datafusion_expr::Expr;
use thalweg_core::{Batch, Error, Result, expression::Expression};

use crate::{compile::Computed, error::from_arrow};

/// The rows written in a query, as columns of this schema.
///
/// Errors: `Error::Data` where a value cannot be computed, `Error::Query` where a row does not fit the schema.
pub fn constant_rows(rows: &[Vec<Expr>], schema: &DFSchema) -> Result<RecordBatch> {
    let fields = schema.fields();
    if let Some(row) = rows.iter().find(|row| row.len() != fields.len()) {
        return Err(Error::query(format!("a row of VALUES has {} values, expected {}", row.len(), fields.len())));
    }
    let one = RecordBatchOptions::new().with_row_count(Some(1));
    let nothing = RecordBatch::try_new_with_options(Arc::new(arrow_schema::Schema::empty()), vec![], &one)?;
    let nothing = Batch::new(nothing);
    let columns = fields.iter().enumerate();
    let columns = columns.map(|(index, field)| column(rows.iter().map(|row| &row[index]), field, &nothing));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let count = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema.inner()), columns, &count)?)
}

fn column<'a>(values: impl Iterator<Item = &'a Expr>, field: &Field, nothing: &Batch) -> Result<ArrayRef> {
    let computed = values.map(|value| {
        let value = Computed::new(value, &DFSchema::empty())?.evaluate(nothing)?;
        cast(&value, field.data_type()).map_err(|e| from_arrow(&e))
    });
    let computed = computed.collect::<Result<Vec<_>>>()?;
    if computed.is_empty() {
        return Ok(new_empty_array(field.data_type()));
    }
    Ok(concat(&computed.iter().map(|value| value.as_ref()).collect::<Vec<_>>())?)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray};
    use arrow_schema::{DataType, Schema};
    use datafusion_expr::lit;

    use super::*;

    fn schema() -> DFSchema {
        let fields = vec![Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8, false)];
        DFSchema::try_from(Schema::new(fields)).unwrap()
    }

    #[test]
    fn rows_become_columns_of_the_declared_types() {
        let rows =
            vec![vec![lit(1i32) + lit(1i32), lit("a")], vec![lit(datafusion_common::ScalarValue::Null), lit("b")]];
        let columns = constant_rows(&rows, &schema()).unwrap();
        assert_eq!(columns.column(0).as_ref(), &Int64Array::from(vec![Some(2), None]));
        assert_eq!(columns.column(1).as_ref(), &StringArray::from(vec!["a", "b"]));
        assert_eq!(constant_rows(&[], &schema()).unwrap().num_rows(), 0);
        assert_eq!(constant_rows(&[vec![], vec![]], &DFSchema::empty()).unwrap().num_rows(), 2);
    }

    #[test]
    fn rows_that_do_not_fit_are_an_error() {
        let error = constant_rows(&[vec![lit(1)]], &schema()).unwrap_err();
        assert_eq!(error.message(), "a row of VALUES has 1 values, expected 2");
        let error = constant_rows(&[vec![lit(1) / lit(0), lit("")]], &schema()).unwrap_err();
        assert_eq!(error.message(), "division by zero in 1 / 0");
    }
}
