//! What each column of a generated table is filled with.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, FieldRef};
use arrow_select::{nullif::nullif, take::take};
use thalweg_core::{Error, Result, connector::TableDefinition, types::sql_name};

use super::{
    fill::{self, Key, Numbers, Spacing},
    rate::Rate,
    said::Said,
};

/// How one column is filled.
#[derive(Clone, Debug)]
pub(super) struct Column {
    field: FieldRef,
    kind: Kind,
    key: Key,
    nulls: Option<(Key, u64)>,
    /// How many rows there can be, if not as many as one likes.
    pub(super) end: Option<u64>,
    /// Whether the user said where the values end.
    pub(super) is_told_to_end: bool,
}

/// What values are made of.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Integers(i64, i64),
    Doubles(f64, f64),
    Decimals(i128, i128),
    Booleans,
    Letters(usize),
    Sequence(i64, i64),
    Choice(ArrayRef),
    Times { start: i64, spacing: Spacing, disorder: i64 },
}

/// The columns of a table, as its options say.
pub(super) fn columns(table: &TableDefinition, seed: u64, rate: Option<Rate>) -> Result<Vec<Column>> {
    check_names(table)?;
    let column = |(i, field): (usize, &FieldRef)| {
        let said = Said { field, options: &table.options };
        let (kind, end, is_told_to_end) = said.kind(rate)?;
        let stream = 2 * i as u64;
        let nulls = said.null_rate(table.time == Some(i))?.map(|threshold| (Key::new(seed, stream + 1), threshold));
        Ok(Column { field: field.clone(), kind, key: Key::new(seed, stream), nulls, end, is_told_to_end })
    };
    table.columns.fields().iter().enumerate().map(column).collect()
}

/// Refuses options of columns that are not there.
fn check_names(table: &TableDefinition) -> Result<()> {
    for (key, _) in table.options.iter() {
        let Some((name, _)) = key.strip_prefix("fields.").and_then(|rest| rest.rsplit_once('.')) else { continue };
        if table.columns.index_of(name).is_err() {
            let names = table.columns.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ");
            return Err(Error::query(format!("option '{key}' is for a column {name:?} that the table does not have"))
                .with_hint(format!("the columns are {names}")));
        }
    }
    Ok(())
}

impl Column {
    /// The values of some rows.
    pub(super) fn fill(&self, numbers: Numbers, rows: usize) -> Result<ArrayRef> {
        let key = self.key;
        let array = match &self.kind {
            Kind::Integers(min, max) => self.whole(fill::integers(key, numbers, rows, *min, *max))?,
            Kind::Sequence(start, step) => self.whole(fill::sequence(numbers, rows, *start, *step))?,
            Kind::Times { start, spacing, disorder } => {
                self.whole(fill::times(key, numbers, rows, *start, *spacing, *disorder))?
            }
            Kind::Doubles(min, max) => {
                self.cast(Arc::new(Float64Array::from(fill::doubles(key, numbers, rows, *min, *max))))?
            }
            Kind::Decimals(min, max) => {
                let values = Decimal128Array::from(fill::decimals(key, numbers, rows, *min, *max));
                Arc::new(values.with_data_type(self.field.data_type().clone()))
            }
            Kind::Booleans => Arc::new(BooleanArray::from(fill::booleans(key, numbers, rows))),
            Kind::Letters(length) => {
                let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(*length, rows));
                let letters = fill::letters(key, numbers, rows, *length);
                self.cast(Arc::new(StringArray::try_new(offsets, letters.into(), None)?))?
            }
            Kind::Choice(values) => {
                take(values, &UInt32Array::from(fill::choices(key, numbers, rows, values.len() as u32)), None)?
            }
        };
        match self.nulls {
            None => Ok(array),
            Some((key, threshold)) => {
                Ok(nullif(&array, &BooleanArray::from(fill::nulls(key, numbers, rows, threshold)))?)
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        self.field.name()
    }

    pub(super) fn type_name(&self) -> String {
        sql_name(self.field.data_type())
    }

    /// How many bytes of text a row has.
    pub(super) fn width(&self) -> usize {
        match self.kind {
            Kind::Letters(length) => length,
            Kind::Choice(ref values) => values.get_array_memory_size(),
            _ => 0,
        }
    }

    /// Whole numbers as the type of the column.
    fn whole(&self, values: Vec<i64>) -> Result<ArrayRef> {
        match self.field.data_type() {
            DataType::Timestamp(_, zone) => {
                Ok(Arc::new(TimestampMicrosecondArray::from(values).with_timezone_opt(zone.clone())))
            }
            DataType::Time64(_) => Ok(Arc::new(Time64MicrosecondArray::from(values))),
            DataType::Date32 => Ok(Arc::new(Date32Array::from_iter_values(values.into_iter().map(|day| day as i32)))),
            _ => self.cast(Arc::new(Int64Array::from(values))),
        }
    }

    fn cast(&self, array: ArrayRef) -> Result<ArrayRef> {
        let data_type = self.field.data_type();
        Ok(if array.data_type() == data_type { array } else { cast(&array, data_type)? })
    }
}
