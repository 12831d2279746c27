//! A row as a program reads it.

use arrow_array::{Array, RecordBatch, cast::AsArray, types::*};
use thalweg_core::{Error, Result, Timestamp, types::sql_name};

/// One row of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    columns: &'a RecordBatch,
    row: usize,
}

/// How a column is asked for: by its name, or faster by its number.
pub trait ColumnName {
    /// The column's number.
    fn find(&self, columns: &RecordBatch) -> Option<usize>;
    /// What it is called in errors.
    fn words(&self) -> String;
}

/// A type that values of a column are read as.
pub trait FromColumn<'a>: Sized {
    /// What the type is called in errors.
    const NAME: &'static str;

    /// The value of a row that is not null; `None` if the column is of another type.
    fn read(column: &'a dyn Array, row: usize) -> Option<Self>;

    /// What null is read as, if it can be.
    fn null() -> Option<Self> {
        None
    }
}

impl<'a> Row<'a> {
    /// A row of these columns.
    pub fn new(columns: &'a RecordBatch, row: usize) -> Self {
        Self { columns, row }
    }

    /// The value of a column, as one of `bool`, `i8` … `u64`, `f32`, `f64`, `&str`, [`Timestamp`], or an `Option` of these.
    ///
    /// Errors: `Error::Query` if there is no such column, or it is of another type; `Error::Data` for a null that is not read
    ///         as an `Option`.
    pub fn get<T: FromColumn<'a>>(&self, column: impl ColumnName) -> Result<T> {
        let Some(number) = column.find(self.columns) else {
            let schema = self.columns.schema_ref();
            let known = schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
            return Err(Error::query(format!("there is no {}", column.words())).with_hint(format!("columns: {known}")));
        };
        let values = self.columns.column(number).as_ref();
        if values.is_null(self.row) {
            return T::null().ok_or_else(|| {
                Error::data(format!("{} is null", column.words())).with_hint(format!("read it as Option<{}>", T::NAME))
            });
        }
        T::read(values, self.row).ok_or_else(|| {
            let kind = sql_name(values.data_type());
            Error::query(format!("{} is {kind}, which is not read as {}", column.words(), T::NAME))
        })
    }
}

impl ColumnName for usize {
    fn find(&self, columns: &RecordBatch) -> Option<usize> {
        (*self < columns.num_columns()).then_some(*self)
    }

    fn words(&self) -> String {
        format!("column {self}")
    }
}

impl ColumnName for &str {
    fn find(&self, columns: &RecordBatch) -> Option<usize> {
        columns.schema_ref().fields().iter().position(|field| field.name() == self)
    }

    fn words(&self) -> String {
        format!("column {self:?}")
    }
}

impl<'a, T: FromColumn<'a>> FromColumn<'a> for Option<T> {
    const NAME: &'static str = T::NAME;

    fn read(column: &'a dyn Array, row: usize) -> Option<Self> {
        T::read(column, row).map(Some)
    }

    fn null() -> Option<Self> {
        Some(None)
    }
}

impl<'a> FromColumn<'a> for &'a str {
    const NAME: &'static str = "&str";

    fn read(column: &'a dyn Array, row: usize) -> Option<Self> {
        column.as_string_opt::<i32>().map(|texts| texts.value(row))
    }
}

impl<'a> FromColumn<'a> for bool {
    const NAME: &'static str = "bool";

    fn read(column: &'a dyn Array, row: usize) -> Option<Self> {
        column.as_boolean_opt().map(|values| values.value(row))
    }
}

impl<'a> FromColumn<'a> for Timestamp {
    const NAME: &'static str = "Timestamp";

    fn read(column: &'a dyn Array, row: usize) -> Option<Self> {
        column.as_primitive_opt::<TimestampMicrosecondType>().map(|times| Self(times.value(row)))
    }
}

macro_rules! numbers {
    ($($native:ty, $arrow:ty;)*) => {$(
        impl<'a> FromColumn<'a> for $native {
            const NAME: &'static str = stringify!($native);

            fn read(column: &'a dyn Array, row: usize) -> Option<Self> {
                column.as_primitive_opt::<$arrow>().map(|values| values.value(row))
            }
        }
    )*};
}

numbers! {
    i8, Int8Type;
    i16, Int16Type;
    i32, Int32Type;
    i64, Int64Type;
    u8, UInt8Type;
    u16, UInt16Type;
    u32, UInt32Type;
    u64, UInt64Type;
    f32, Float32Type;
    f64, Float64Type;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    #[test]
    fn values_are_read_by_name_and_number_and_what_does_not_fit_is_said() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        let columns = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
        let (first, second) = (Row::new(&columns, 0), Row::new(&columns, 1));
        assert_eq!((first.get::<i64>("n").unwrap(), first.get::<&str>(1).unwrap()), (7, "a"));
        assert_eq!(first.get::<Option<i64>>(0).unwrap(), Some(7));
        assert_eq!(second.get::<Option<i64>>("n").unwrap(), None);
        let words = |error: Error| error.to_string();
        assert_eq!(words(second.get::<i64>("n").unwrap_err()), "column \"n\" is null");
        assert_eq!(words(first.get::<f64>("n").unwrap_err()), "column \"n\" is BIGINT, which is not read as f64");
        assert_eq!(words(first.get::<f64>("m").unwrap_err()), "there is no column \"m\"");
        assert_eq!(words(first.get::<f64>(2).unwrap_err()), "there is no column 2");
    }
}
