//! The columns of a batch as a page takes them in.

use arrow_array::{
    Array, ArrayRef, RecordBatch, cast::AsArray, downcast_primitive_array, types::ByteArrayType, types::*,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use thalweg_core::{Error, Result};

use super::layout::{RowLayout, Shape};

/// Values up to this length lie in their view.
pub const INLINE: usize = 12;

/// A batch whose rows go into pages, with what each row takes at a page's end.
pub struct Source<'a> {
    columns: Vec<SourceColumn<'a>>,
    rows: usize,
    tails: Option<Vec<u32>>,
    fingerprint: u64,
}

/// A column of a batch.
pub struct SourceColumn<'a> {
    /// The values.
    pub values: Values<'a>,
    /// Where there is a value, if not everywhere.
    pub nulls: Option<NullBuffer>,
}

/// The values of a column.
pub enum Values<'a> {
    /// Of so many bytes each, side by side.
    Fixed(&'a [u8], usize),
    /// Bits.
    Bits(&'a BooleanBuffer),
    /// Bytes of any length, none where there is no value.
    Bytes(Vec<&'a [u8]>),
}

impl<'a> Source<'a> {
    /// The columns of a batch, which must be those of the layout; text and binary of any kind, and dictionaries of them, go into
    /// views.
    ///
    /// Errors: `Error::Bug` where a column is none of the layout's; `Error::Environment` where the values of a row are longer
    /// than a page can say.
    pub fn new(layout: &RowLayout, batch: &'a RecordBatch) -> Result<Self> {
        if batch.num_columns() != layout.columns().len() {
            return Err(Error::bug("a batch has other columns than its page"));
        }
        let fits = batch.columns().iter().zip(layout.columns()).zip(layout.schema().fields());
        let columns = fits.map(|((array, column), field)| {
            let is_same =
                array.data_type() == field.data_type() || column.shape == Shape::View && is_bytes(array.data_type());
            let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            match (is_same, &nulls) {
                (false, _) => {
                    Err(Error::bug(format!("a page of {} was given {}", field.data_type(), array.data_type())))
                }
                (_, Some(_)) if !column.is_nullable => {
                    Err(Error::bug(format!("null in {:?}, which has none", field.name())))
                }
                _ => Ok(SourceColumn { values: values(array)?, nulls }),
            }
        });
        let columns: Vec<SourceColumn<'_>> = columns.collect::<Result<_>>()?;
        let rows = batch.num_rows();
        let tails = layout.has_views().then(|| tails(&columns, rows)).transpose()?;
        Ok(Self { columns, rows, tails, fingerprint: layout.fingerprint() })
    }

    /// The layout that it is for: see [`RowLayout::fingerprint`].
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The columns.
    pub fn columns(&self) -> &[SourceColumn<'a>] {
        &self.columns
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many bytes a row takes at a page's end.
    #[inline]
    pub fn tail(&self, row: usize) -> usize {
        self.tails.as_ref().map_or(0, |tails| tails[row] as usize)
    }

    /// Whether some rows take bytes at a page's end.
    pub fn has_tails(&self) -> bool {
        self.tails.is_some()
    }
}

fn is_bytes(kind: &DataType) -> bool {
    use DataType::*;
    match kind {
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
        Dictionary(_, values) => is_bytes(values),
        _ => false,
    }
}

fn values(array: &ArrayRef) -> Result<Values<'_>> {
    let array = array.as_ref();
    Ok(match array.data_type() {
        DataType::Boolean => Values::Bits(array.as_boolean().values()),
        DataType::FixedSizeBinary(width) => Values::Fixed(array.as_fixed_size_binary().value_data(), *width as usize),
        kind if is_bytes(kind) => Values::Bytes(bytes(array)?),
        _ => downcast_primitive_array!(
            array => {
                let values: &ScalarBuffer<_> = array.values();
                let bytes = values.inner().as_slice();
                Values::Fixed(bytes, bytes.len().checked_div(values.len()).unwrap_or(1))
            },
            other => return Err(Error::bug(format!("a page does not hold {other}"))),
        ),
    })
}

/// The bytes of each value.
fn bytes(array: &dyn Array) -> Result<Vec<&[u8]>> {
    fn plain<T: ByteArrayType>(array: &dyn Array) -> Vec<&[u8]> {
        let array = array.as_bytes::<T>();
        let (offsets, bytes) = (array.value_offsets(), array.value_data());
        let at = |offset: T::Offset| arrow_buffer::ArrowNativeType::as_usize(offset);
        offsets.windows(2).map(|ends| &bytes[at(ends[0])..at(ends[1])]).collect()
    }
    let mut values: Vec<&[u8]> = match array.data_type() {
        DataType::Utf8 => plain::<Utf8Type>(array),
        DataType::LargeUtf8 => plain::<LargeUtf8Type>(array),
        DataType::Binary => plain::<BinaryType>(array),
        DataType::LargeBinary => plain::<LargeBinaryType>(array),
        DataType::Utf8View => (0..array.len()).map(|row| array.as_string_view().value(row).as_bytes()).collect(),
        DataType::BinaryView => (0..array.len()).map(|row| array.as_binary_view().value(row)).collect(),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = bytes(dictionary.values().as_ref())?;
            // Without a value there are only nulls, and keys that name nothing.
            if values.is_empty() {
                return Ok(vec![&[]; array.len()]);
            }
            // The key of a row without value may be anything.
            let value = |key: usize| values.get(key).copied().unwrap_or_default();
            dictionary.normalized_keys().into_iter().map(value).collect()
        }
        other => return Err(Error::bug(format!("{other} is no text"))),
    };
    if let Some(nulls) = array.logical_nulls() {
        values.iter_mut().zip(nulls.iter()).filter(|(_, is_valid)| !is_valid).for_each(|(value, _)| *value = &[]);
    }
    Ok(values)
}

fn tails(columns: &[SourceColumn<'_>], rows: usize) -> Result<Vec<u32>> {
    let mut tails = vec![0_u32; rows];
    for column in columns {
        let Values::Bytes(values) = &column.values else { continue };
        for (tail, value) in tails.iter_mut().zip(values) {
            let more = if value.len() > INLINE { u32::try_from(value.len()).ok() } else { Some(0) };
            // Offsets in a page have 31 bits, as Arrow's do.
            let sum = more.and_then(|more| tail.checked_add(more)).filter(|sum| *sum < 1 << 30);
            *tail = sum.ok_or_else(|| {
                let message = "a row of more than 1 GiB does not go into a page";
                Error::environment(message).with_hint("divide its texts among several rows")
            })?;
        }
    }
    Ok(tails)
}
