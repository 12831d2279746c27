//! Rows on their way into columns: each field's text goes straight into its typed column.

pub(crate) mod block;
mod values;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{FieldRef, SchemaRef};
use thalweg_core::{Error, Result, Timestamp, connector::TableDefinition, types::sql_name};

use crate::text::{Wrong, shown};
use values::Values;

/// Rows being read. A row is begun by its first field and ended by [`commit`](Self::commit) or
/// [`roll_back`](Self::roll_back).
pub(crate) struct Columns {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
}

/// One column of the rows being read.
pub(crate) struct Column {
    field: FieldRef,
    values: Values,
    present: NullBufferBuilder,
    is_required: bool,
    is_time: bool,
}

impl Columns {
    /// Columns for the rows of a table.
    ///
    /// Errors: `Error::Query` if a column's type cannot be read from text.
    pub(crate) fn new(table: &TableDefinition) -> Result<Self> {
        let column = |(i, field): (usize, &FieldRef)| {
            let Some(values) = Values::new(field.data_type())? else {
                let (name, type_name) = (field.name(), sql_name(field.data_type()));
                return Err(Error::query(format!("column \"{name}\" is {type_name}, which cannot be read from text"))
                    .with_hint("declare it as STRING and cast it in the query"));
            };
            let is_time = table.time == Some(i);
            let is_required = is_time || !field.is_nullable();
            Ok(Column { field: field.clone(), values, present: NullBufferBuilder::new(0), is_required, is_time })
        };
        let columns = table.columns.fields().iter().enumerate().map(column).collect::<Result<_>>()?;
        Ok(Self { schema: table.columns.clone(), columns, rows: 0 })
    }

    /// How many rows are complete.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The columns, in the table's order.
    pub(crate) fn each(&mut self) -> &mut [Column] {
        &mut self.columns
    }

    /// Ends a row of which every column has its value.
    pub(crate) fn commit(&mut self) {
        self.rows += 1;
        debug_assert!(self.columns.iter().all(|c| c.len() == self.rows), "every column has its value");
    }

    /// Takes back what the columns have of the rows that were begun.
    pub(crate) fn roll_back(&mut self) {
        self.columns.iter_mut().for_each(|column| column.truncate(self.rows));
    }

    /// The complete rows, which leave.
    pub(crate) fn take(&mut self) -> Result<RecordBatch> {
        let rows = std::mem::take(&mut self.rows);
        let columns = self.columns.iter_mut().map(|c| c.values.finish(c.field.data_type(), c.present.finish()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns.collect::<Result<_>>()?, &options)?)
    }
}

impl Column {
    /// The column's name.
    pub(crate) fn name(&self) -> &str {
        self.field.name()
    }

    /// Whether text goes in as it is, so that an empty one is a value.
    pub(crate) fn is_text(&self) -> bool {
        self.values.is_text()
    }

    /// Whether values are bytes, written in hexadecimal.
    pub(crate) fn is_binary(&self) -> bool {
        self.values.is_binary()
    }

    /// How many values it has.
    pub(crate) fn len(&self) -> usize {
        self.present.len()
    }

    /// Adds a value.
    pub(crate) fn push(&mut self, text: &[u8]) -> Result<(), Wrong> {
        let instant = self.values.push(text)?;
        if self.is_time && instant.is_some_and(|t| !Timestamp(t).is_in_range()) {
            self.values.truncate(self.present.len());
            return Err(Wrong::Range);
        }
        self.present.append_non_null();
        Ok(())
    }

    /// Adds a null.
    pub(crate) fn push_null(&mut self) -> Result<(), Wrong> {
        if self.is_required {
            return Err(Wrong::Null);
        }
        self.values.push_null();
        self.present.append_null();
        Ok(())
    }

    /// Keeps only the first `len` values.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.present.truncate(len);
    }

    /// Says what is wrong with a value.
    pub(crate) fn describe(&self, wrong: Wrong, text: &[u8]) -> String {
        let (value, type_name) = (shown(text), sql_name(self.field.data_type()));
        match wrong {
            Wrong::Type => format!("{value} is not a value of type {type_name}"),
            Wrong::Range if self.is_time => format!("{value} is out of the range of event time"),
            Wrong::Range => format!("{value} is out of the range of {type_name}"),
            Wrong::Utf8 => format!("{value} is not valid UTF-8"),
            Wrong::Null if self.is_time => "null, but event time is needed in every row".into(),
            Wrong::Null => "null, but the column is declared NOT NULL".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema, TimeUnit};
    use thalweg_core::connector::Options;

    use super::*;

    fn table(fields: Vec<Field>, time: Option<usize>) -> TableDefinition {
        TableDefinition { name: "t".into(), columns: Arc::new(Schema::new(fields)), options: Options::default(), time }
    }

    #[test]
    fn a_row_that_fails_leaves_nothing_behind() {
        let types = [DataType::Utf8, DataType::Boolean, DataType::Int8, DataType::Float64, DataType::Decimal128(5, 2)];
        let fields = types.iter().enumerate().map(|(i, t)| Field::new(format!("c{i}"), t.clone(), true));
        let mut columns = Columns::new(&table(fields.collect(), None)).unwrap();
        let push = |columns: &mut Columns, texts: [&str; 5]| {
            texts.iter().zip(columns.each()).try_for_each(|(text, column)| column.push(text.as_bytes()))
        };
        push(&mut columns, ["a", "true", "1", "1.5", "2.5"]).unwrap();
        columns.commit();
        assert_eq!(push(&mut columns, ["dropped", "false", "300", "2.5", "3.5"]), Err(Wrong::Range));
        columns.roll_back();
        push(&mut columns, ["b", "false", "-2", "NaN", "-0.01"]).unwrap();
        columns.commit();
        let batch = columns.take().unwrap();
        let rows = crate::text::write::tests::rows(&batch);
        assert_eq!(rows, ["a true 1 1.5 2.50", "b false -2 NaN -0.01"]);
        assert_eq!((columns.len(), columns.take().unwrap().num_rows()), (0, 0));
    }

    #[test]
    fn what_must_be_there_is_asked_for() {
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        let fields = vec![Field::new("a", DataType::Int64, false), Field::new("t", time, true)];
        let mut columns = Columns::new(&table(fields, Some(1))).unwrap();
        let [a, t] = columns.each() else { panic!("two columns") };
        assert_eq!((a.push_null(), t.push_null()), (Err(Wrong::Null), Err(Wrong::Null)));
        assert_eq!(t.push(b"+200000-01-01"), Err(Wrong::Range));
        assert_eq!((t.len(), t.push(b"2013-01-01"), t.len()), (0, Ok(()), 1));
    }

    #[test]
    fn types_without_a_text_are_refused() {
        let list = DataType::new_list(DataType::Int64, true);
        let error = Columns::new(&table(vec![Field::new("a", list, true)], None)).err().unwrap();
        assert!(error.message().ends_with("which cannot be read from text"), "{error}");
    }
}
