//! Slotted pages: rows in a block of memory, read as an Arrow batch without a copy, and sent as they lie.
//!
//! ```text
//!  0  "TWPG"                                    header, 64 bytes; numbers are little-endian
//!  4  u16  version: 1
//!  6  u16  number of columns
//!  8  u32  bytes of the page
//! 12  u32  capacity: for how many rows there are minipages
//! 16  u32  rows
//! 20  u32  tail: where the bytes at the end begin
//! 24  u64  fingerprint of the types
//! 32  zeros
//! 64  minipages, column by column, each from a multiple of 64 on:
//!       if the column is nullable: a bit for each slot, 1 where there is a value, the first slot in a byte's lowest bit
//!       its values, growing up: of a fixed width; or a bit each; or a view of 16 bytes each
//!           view of up to 12 bytes: u32 length | the bytes, then zeros
//!           view of more:           u32 length | the first 4 bytes | u32 0 | u32 where they begin in the page
//!  …  free
//! tail  bytes of what is longer than 12, growing down from the end
//! ```
//!
//! A view is Arrow's: buffer 0 of a column is the page. Slots behind the last row, and values of rows without one, mean nothing;
//! views must be well-formed all the same, since Arrow looks at all.
//!
//! * [`layout`]: where everything lies
//! * [`source`]: the columns of a batch as a page takes them in
//! * [`rows`]: some of their rows, and how these get into slots
//! * [`writer`]: one thread fills a page
//! * [`shared`]: several threads fill a page
//! * [`staging`]: rows that wait until there are enough of them for a page

pub mod layout;
pub mod rows;
pub mod shared;
pub mod source;
pub mod staging;
pub mod writer;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, RecordBatch, RecordBatchOptions, StringViewArray,
    make_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use thalweg_core::{Error, Result};

use crate::pool::{Block, Pool};
use layout::{LINE, RowLayout, Shape};

#[cfg(target_endian = "big")]
compile_error!("pages are little-endian, and so must be the machine");

const MAGIC: [u8; 4] = *b"TWPG";
const VERSION: u16 = 1;

/// What a page says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    columns: u16,
    bytes: u32,
    capacity: u32,
    rows: u32,
    tail: u32,
    fingerprint: u64,
}

impl Header {
    fn write(&self, page: &mut [u8]) {
        page[..LINE].fill(0);
        page[..4].copy_from_slice(&MAGIC);
        page[4..6].copy_from_slice(&VERSION.to_le_bytes());
        page[6..8].copy_from_slice(&self.columns.to_le_bytes());
        page[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        page[12..16].copy_from_slice(&self.capacity.to_le_bytes());
        page[16..20].copy_from_slice(&self.rows.to_le_bytes());
        page[20..24].copy_from_slice(&self.tail.to_le_bytes());
        page[24..32].copy_from_slice(&self.fingerprint.to_le_bytes());
    }

    fn read(page: &[u8]) -> Result<Self> {
        let header = page.get(..LINE).ok_or_else(|| foreign("it is shorter than its header"))?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if header[..4] != MAGIC {
            return Err(foreign("it is no page"));
        }
        let version = u16::from_le_bytes([header[4], header[5]]);
        if version != VERSION {
            return Err(foreign(&format!("its version is {version}, and this program reads {VERSION}")));
        }
        Ok(Self {
            columns: u16::from_le_bytes([header[6], header[7]]),
            bytes: word(8),
            capacity: word(12),
            rows: word(16),
            tail: word(20),
            fingerprint: u64::from_le_bytes(std::array::from_fn(|i| header[24 + i])),
        })
    }
}

fn foreign(what: &str) -> Error {
    Error::environment(format!("a page that came from elsewhere cannot be read: {what}"))
}

/// Rows that do not change any more. Clones share them; the block goes back to its pool with the last.
#[derive(Clone, Debug)]
pub struct Page {
    layout: Arc<RowLayout>,
    block: Arc<Block>,
    header: Header,
}

impl Page {
    fn new(layout: Arc<RowLayout>, block: Block, header: Header) -> Self {
        Self { layout, block: Arc::new(block), header }
    }

    /// Reads what [`Page::bytes`] gave, perhaps on another machine, into a block of the pool; `None` where that has no room.
    ///
    /// Errors: `Error::Environment` if these bytes are no page of this layout, or not a sound one. Nothing of it is trusted.
    pub fn read(layout: &Arc<RowLayout>, bytes: &[u8], pool: &Pool) -> Result<Option<Self>> {
        let header = Header::read(bytes)?;
        let Header { columns, capacity, rows, tail, fingerprint, .. } = header;
        if usize::from(columns) != layout.columns().len() || fingerprint != layout.fingerprint() {
            return Err(foreign("its columns are others"));
        }
        if header.bytes as usize != bytes.len() || bytes.len() > writer::LONGEST {
            return Err(foreign(&format!("it has {} bytes, and says {}", bytes.len(), header.bytes)));
        }
        let is_within =
            rows <= capacity && layout.bytes(capacity as usize) <= tail as usize && tail as usize <= bytes.len();
        if !is_within {
            return Err(foreign(&format!("{rows} rows of {capacity}, and bytes from {tail} on, do not lie in it")));
        }
        let Some(mut block) = pool.take(bytes.len()) else { return Ok(None) };
        block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        let page = Self::new(Arc::clone(layout), block, header);
        page.check()?;
        Ok(Some(page))
    }

    /// Its bytes, as they are sent.
    pub fn bytes(&self) -> &[u8] {
        &self.block.bytes()[..self.header.bytes as usize]
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.header.rows as usize
    }

    /// For how many rows it has minipages.
    pub fn capacity(&self) -> usize {
        self.header.capacity as usize
    }

    /// How many bytes there are between its minipages and what lies at its end.
    pub fn free(&self) -> usize {
        self.header.tail as usize - self.layout.bytes(self.capacity())
    }

    /// How many bytes its rows take: of its minipages as far as they are filled, and what lies at its end.
    pub fn used(&self) -> usize {
        self.layout.bytes(self.rows()) + (self.header.bytes - self.header.tail) as usize
    }

    /// How many bytes its block has.
    pub fn size(&self) -> usize {
        self.block.len()
    }

    /// The rows, as columns that lie in the page.
    ///
    /// Errors: `Error::Bug` if Arrow does not take them.
    pub fn batch(&self) -> Result<RecordBatch> {
        let columns = self.columns(false)?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(self.layout.schema()), columns, &options)?)
    }

    /// Looks at everything that a reader would rely on.
    fn check(&self) -> Result<()> {
        let sound = |error: Error| foreign(&error.to_string());
        for column in self.columns(true).map_err(sound)? {
            column.to_data().validate_full().map_err(|error| foreign(&error.to_string()))?;
        }
        Ok(())
    }

    fn columns(&self, is_foreign: bool) -> Result<Vec<ArrayRef>> {
        let places = self.layout.places(self.capacity());
        let all = Block::buffer(&self.block, 0, self.header.bytes as usize);
        let columns = self.layout.columns().iter().zip(&places).zip(self.layout.schema().fields());
        let array = |((column, place), field): ((&layout::Column, &layout::Place), &arrow_schema::FieldRef)| {
            let bits =
                |at: usize| BooleanBuffer::new(Block::buffer(&self.block, at, self.rows().div_ceil(8)), 0, self.rows());
            let nulls = place.validity.map(|at| NullBuffer::new(bits(at))).filter(|nulls| nulls.null_count() > 0);
            let values = Block::buffer(&self.block, place.values, column.shape.bytes(self.rows()));
            self.array(field.data_type(), column.shape, nulls, values, &all, is_foreign)
        };
        columns.map(array).collect()
    }

    fn array(
        &self,
        kind: &DataType,
        shape: Shape,
        nulls: Option<NullBuffer>,
        values: Buffer,
        page: &Buffer,
        is_foreign: bool,
    ) -> Result<ArrayRef> {
        let rows = self.rows();
        Ok(match shape {
            Shape::Bits => Arc::new(BooleanArray::new(BooleanBuffer::new(values, 0, rows), nulls)),
            Shape::Fixed(width) => match kind {
                DataType::FixedSizeBinary(_) => {
                    let width = i32::try_from(width).map_err(|_| Error::bug("a width beyond Arrow's"))?;
                    Arc::new(FixedSizeBinaryArray::try_new_with_len(width, values, nulls, rows)?)
                }
                _ => make_array(ArrayData::builder(kind.clone()).len(rows).nulls(nulls).add_buffer(values).build()?),
            },
            Shape::View => {
                let views = ScalarBuffer::<u128>::new(values, 0, rows);
                match (kind, is_foreign) {
                    (DataType::Utf8View, true) => Arc::new(StringViewArray::try_new(views, [page.clone()], nulls)?),
                    (_, true) => Arc::new(BinaryViewArray::try_new(views, [page.clone()], nulls)?),
                    #[allow(unsafe_code)]
                    // SAFETY: a writer wrote these views, of what was text and lies in the page; or they were checked.
                    (DataType::Utf8View, false) => {
                        Arc::new(unsafe { StringViewArray::new_unchecked(views, [page.clone()], nulls) })
                    }
                    #[allow(unsafe_code)]
                    // SAFETY: as above.
                    (_, false) => Arc::new(unsafe { BinaryViewArray::new_unchecked(views, [page.clone()], nulls) }),
                }
            }
        })
    }
}
