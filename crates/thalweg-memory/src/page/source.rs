//! The columns of a batch as a page takes them in.

use arrow_array::{
    Array, GenericByteViewArray, RecordBatch, builder::make_view, cast::AsArray, downcast_primitive_array, types::*,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use thalweg_core::{Error, Result};

use super::layout::{RowLayout, Shape};

/// Values up to this length lie in their view.
pub const INLINE: usize = 12;

/// What the values of a row take in a page at most, as offsets there have 31 bits.
const LONGEST_ROW: u32 = 1 << 30;

/// A batch whose rows go into pages, with what each row takes at a page's end.
pub struct Source {
    columns: Vec<SourceColumn>,
    rows: usize,
    /// None, where no row takes any.
    tails: Option<Vec<u32>>,
    fingerprint: u64,
}

/// A column of a batch.
pub struct SourceColumn {
    /// The values.
    pub values: Values,
    /// Where there is a value, if not everywhere.
    pub nulls: Option<NullBuffer>,
}

/// The values of a column.
pub enum Values {
    /// Of so many bytes each, side by side.
    Fixed(Buffer, usize),
    /// Bits.
    Bits(BooleanBuffer),
    /// Bytes of any length, none where there is no value.
    Views(Views),
}

/// Bytes of any length, as Arrow's views name them: those of up to [`INLINE`] lie in their view, others in one of the buffers.
#[derive(Clone)]
pub struct Views {
    views: ScalarBuffer<u128>,
    buffers: Vec<Buffer>,
}

impl Source {
    /// The columns of a batch, which must be those of the layout; text and binary of any kind, and dictionaries of them, go into
    /// views.
    ///
    /// Errors: `Error::Bug` where a column is none of the layout's; `Error::Environment` where the values of a row are longer
    /// than a page can say.
    pub fn new(layout: &RowLayout, batch: &RecordBatch) -> Result<Self> {
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
                _ => Ok(SourceColumn { values: values(array, nulls.as_ref())?, nulls }),
            }
        });
        let columns: Vec<SourceColumn> = columns.collect::<Result<_>>()?;
        let rows = batch.num_rows();
        Ok(Self { tails: tails(&columns, rows)?, columns, rows, fingerprint: layout.fingerprint() })
    }

    /// The layout that it is for: see [`RowLayout::fingerprint`].
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The columns.
    pub fn columns(&self) -> &[SourceColumn] {
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

impl Views {
    /// The view of a row, and its bytes if they do not lie in it.
    #[inline]
    pub fn get(&self, row: usize) -> (u128, Option<&[u8]>) {
        let view = self.views[row];
        let length = view as u32 as usize;
        let longer = (length > INLINE).then(|| {
            let (buffer, from) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
            &self.buffers[buffer].as_slice()[from..from + length]
        });
        (view, longer)
    }

    fn of_views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Self {
        Self { views: array.views().clone(), buffers: array.data_buffers().to_vec() }
    }

    fn of_offsets<T: ByteArrayType>(array: &dyn Array) -> Result<Self> {
        let array = array.as_bytes::<T>();
        let (offsets, bytes) = (array.value_offsets(), array.values());
        // Offsets in views have 32 bits: what lies further behind is named from the beginning of a later buffer.
        let step = 1_usize << 30;
        let last = offsets.last().map_or(0, |offset| offset.as_usize());
        let buffers = (0..=last / step).map(|number| bytes.slice(number * step)).collect();
        let mut is_too_long = false;
        let view = |ends: &[T::Offset]| {
            let (from, to) = (ends[0].as_usize(), ends[1].as_usize());
            is_too_long |= to - from >= LONGEST_ROW as usize;
            make_view(&bytes[from..to], (from / step) as u32, (from % step) as u32)
        };
        let views = offsets.windows(2).map(view).collect();
        if is_too_long { Err(too_long()) } else { Ok(Self { views, buffers }) }
    }

    /// These values in another order: where a place names none, there is none.
    fn picked(&self, places: impl Iterator<Item = usize>) -> Self {
        let views = places.map(|place| self.views.get(place).copied().unwrap_or_default()).collect();
        Self { views, buffers: self.buffers.clone() }
    }

    /// These values, with no bytes where there is none.
    fn known(self, nulls: &NullBuffer) -> Self {
        let known = self.views.iter().zip(nulls).map(|(view, is_known)| if is_known { *view } else { 0 });
        Self { views: known.collect(), buffers: self.buffers }
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

fn values(array: &dyn Array, nulls: Option<&NullBuffer>) -> Result<Values> {
    Ok(match array.data_type() {
        DataType::Boolean => Values::Bits(array.as_boolean().values().clone()),
        DataType::FixedSizeBinary(width) => {
            Values::Fixed(array.as_fixed_size_binary().values().clone(), *width as usize)
        }
        kind if is_bytes(kind) => {
            let views = views(array)?;
            Values::Views(if let Some(nulls) = nulls { views.known(nulls) } else { views })
        }
        _ => downcast_primitive_array!(
            array => {
                let values: &ScalarBuffer<_> = array.values();
                let width = values.inner().len().checked_div(values.len()).unwrap_or(1);
                Values::Fixed(values.inner().clone(), width)
            },
            other => return Err(Error::bug(format!("a page does not hold {other}"))),
        ),
    })
}

/// The values of a column of bytes; what the views of rows without a value say means nothing.
fn views(array: &dyn Array) -> Result<Views> {
    Ok(match array.data_type() {
        DataType::Utf8 => Views::of_offsets::<Utf8Type>(array)?,
        DataType::LargeUtf8 => Views::of_offsets::<LargeUtf8Type>(array)?,
        DataType::Binary => Views::of_offsets::<BinaryType>(array)?,
        DataType::LargeBinary => Views::of_offsets::<LargeBinaryType>(array)?,
        DataType::Utf8View => Views::of_views(array.as_string_view()),
        DataType::BinaryView => Views::of_views(array.as_binary_view()),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let words = views(dictionary.values().as_ref())?;
            // Without a value there are only nulls, and keys that name nothing.
            if words.views.is_empty() {
                return Ok(words.picked(std::iter::repeat_n(0, array.len())));
            }
            words.picked(dictionary.normalized_keys().into_iter())
        }
        other => return Err(Error::bug(format!("{other} is no text"))),
    })
}

/// How many bytes each row takes at a page's end; `None` if none takes any.
fn tails(columns: &[SourceColumn], rows: usize) -> Result<Option<Vec<u32>>> {
    let mut tails: Option<Vec<u32>> = None;
    for column in columns {
        let Values::Views(Views { views, .. }) = &column.values else { continue };
        let is_longer = |view: &u128| *view as u32 > INLINE as u32;
        if !views.iter().fold(false, |any, view| any | is_longer(view)) {
            continue;
        }
        let tails = tails.get_or_insert_with(|| vec![0; rows]);
        for (tail, view) in tails.iter_mut().zip(views) {
            *tail = tail.saturating_add(if is_longer(view) { *view as u32 } else { 0 });
        }
    }
    match tails.iter().flatten().max() {
        Some(longest) if *longest >= LONGEST_ROW => Err(too_long()),
        _ => Ok(tails),
    }
}

fn too_long() -> Error {
    let message = "a row of more than 1 GiB does not go into a page";
    Error::environment(message).with_hint("divide its texts among several rows")
}
