//! Lists, structs and maps as bytes, a row at a time, in Arrow's row format.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, LargeBinaryArray, UInt32Array, cast::AsArray};
use arrow_buffer::OffsetBuffer;
use arrow_cast::{can_cast_types, cast};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, FieldRef, Fields};
use arrow_select::take::take;
use thalweg_core::{Error, Result};

/// Writes the values of a nested type as bytes, and reads them again.
#[derive(Debug)]
pub struct Nested {
    kind: DataType,
    converter: RowConverter,
}

impl Nested {
    /// For the values of a nested type; `None` where the type is flat, or would not come out as it was.
    pub fn of(kind: &DataType) -> Option<Self> {
        let resolved = resolved(kind).filter(|_| kind.is_nested())?;
        let converter = RowConverter::new(vec![SortField::new(kind.clone())]).ok()?;
        (resolved == *kind || can_cast_types(&resolved, kind)).then(|| Self { kind: kind.clone(), converter })
    }

    /// The bytes of each of these rows (`None` is all), which say of themselves whether there is a value. Other rows have none.
    ///
    /// Errors: those of Arrow, where all these bytes together are more than it counts.
    pub fn encode(&self, column: &ArrayRef, selected: Option<&[u32]>) -> Result<ArrayRef> {
        let taken = match selected {
            Some(rows) => take(column, &UInt32Array::from(rows.to_vec()), None)?,
            None => Arc::clone(column),
        };
        let rows = self.converter.convert_columns(&[taken])?;
        let mut lengths = vec![0; column.len()];
        let mut bytes = Vec::with_capacity(rows.lengths().sum());
        for (number, row) in rows.iter().enumerate() {
            let place = selected.map_or(number, |selected| selected[number] as usize);
            lengths[place] = row.data().len();
            bytes.extend_from_slice(row.data());
        }
        Ok(Arc::new(LargeBinaryArray::try_new(OffsetBuffer::from_lengths(lengths), bytes.into(), None)?))
    }

    /// The values of rows that were [`Nested::encode`]d, which share nothing with their bytes.
    ///
    /// Errors: `Error::Bug` where Arrow does not take them.
    pub fn decode(&self, bytes: &ArrayRef) -> Result<ArrayRef> {
        let parser = self.converter.parser();
        let rows = bytes.as_binary_view().iter().map(|row| parser.parse(row.unwrap_or_default()));
        let column = self.converter.convert_rows(rows)?.pop();
        let column = column.ok_or_else(|| Error::bug("a column of nested values did not come out of its bytes"))?;
        // A dictionary comes out as its words.
        Ok(if *column.data_type() == self.kind { column } else { cast(&column, &self.kind)? })
    }
}

/// The type as which values come out of the row format: with words in place of dictionaries. `None` where that is not known to be
/// what went in.
fn resolved(kind: &DataType) -> Option<DataType> {
    use DataType::*;
    Some(match kind {
        List(item) => List(resolved_field(item)?),
        LargeList(item) => LargeList(resolved_field(item)?),
        ListView(item) => ListView(resolved_field(item)?),
        LargeListView(item) => LargeListView(resolved_field(item)?),
        // Arrow does not, in all places, count lists that can have no items.
        FixedSizeList(_, 0) => return None,
        FixedSizeList(item, length) => FixedSizeList(resolved_field(item)?, *length),
        Map(entry, is_sorted) => Map(resolved_field(entry)?, *is_sorted),
        // The row format does not count the rows of a struct without fields.
        Struct(fields) if fields.is_empty() => return None,
        Struct(fields) => Struct(fields.iter().map(resolved_field).collect::<Option<Fields>>()?),
        Dictionary(key, words) if is_wide(key) && is_text(words) => words.as_ref().clone(),
        // A value of type null has no byte, which ends a list.
        Null | Dictionary(..) | Union(..) | RunEndEncoded(..) => return None,
        flat => flat.clone(),
    })
}

fn resolved_field(field: &FieldRef) -> Option<FieldRef> {
    Some(Arc::new(field.as_ref().clone().with_data_type(resolved(field.data_type())?)))
}

/// Whether keys of a type can number the words of many batches.
pub fn is_wide(key: &DataType) -> bool {
    matches!(key, DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64)
}

fn is_text(words: &DataType) -> bool {
    use DataType::*;
    matches!(words, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}
