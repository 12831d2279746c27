//! Where everything lies in a page.

use arrow_schema::{DataType, Schema, SchemaRef};
use thalweg_core::{Error, Result};

/// The header takes one cache line; so does whatever begins behind it: every minipage starts on a line of its own.
pub const LINE: usize = 64;

/// The smallest page.
pub const SMALLEST: usize = 4 << 10;

/// The largest page that is not made for one row alone: 5 MiB.
pub const LARGEST: usize = 5 << 20;

/// How a column's values lie in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Values of so many bytes each.
    Fixed(usize),
    /// A bit for each value.
    Bits,
    /// A view of 16 bytes for each value: those of up to 12 bytes lie in it, the bytes of others at the page's end.
    View,
}

impl Shape {
    /// The shape of a type; `None` where a page cannot hold it.
    pub fn of(kind: &DataType) -> Option<Self> {
        match kind {
            DataType::Boolean => Some(Self::Bits),
            DataType::Utf8View | DataType::BinaryView => Some(Self::View),
            DataType::FixedSizeBinary(width) => Some(Self::Fixed(usize::try_from(*width).ok()?)),
            _ => kind.primitive_width().map(Self::Fixed),
        }
    }

    /// How many bytes a value takes in a buffer, where a bit is a byte.
    pub fn width(self) -> usize {
        match self {
            Self::Fixed(width) => width,
            Self::Bits => 1,
            Self::View => 16,
        }
    }

    /// How many bytes so many values take, without those at the page's end.
    pub fn bytes(self, rows: usize) -> usize {
        match self {
            Self::Fixed(width) => width * rows,
            Self::Bits => rows.div_ceil(8),
            Self::View => 16 * rows,
        }
    }
}

/// One column of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// How its values lie.
    pub shape: Shape,
    /// Whether a bit for each value says whether there is one.
    pub is_nullable: bool,
}

impl Column {
    fn bytes(self, rows: usize) -> usize {
        let validity = if self.is_nullable { lines(rows.div_ceil(8)) } else { 0 };
        validity + lines(self.shape.bytes(rows))
    }
}

/// Rounded up to whole lines.
fn lines(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE)
}

/// The rows that pages of a schema hold.
#[derive(Clone, Debug)]
pub struct RowLayout {
    schema: SchemaRef,
    columns: Vec<Column>,
    fingerprint: u64,
}

/// Where the minipages of one column begin, in bytes from the page's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The bits of validity, if the column is nullable.
    pub validity: Option<usize>,
    /// The values.
    pub values: usize,
}

impl RowLayout {
    /// The layout of rows of a schema.
    ///
    /// Errors: `Error::Bug` for a type that pages do not hold; see [`Shape::of`].
    pub fn new(schema: SchemaRef) -> Result<Self> {
        let column = |field: &arrow_schema::FieldRef| {
            let shape = Shape::of(field.data_type());
            let shape = shape.ok_or_else(|| Error::bug(format!("a page does not hold {}", field.data_type())))?;
            Ok(Column { shape, is_nullable: field.is_nullable() })
        };
        let columns = schema.fields().iter().map(column).collect::<Result<_>>()?;
        Ok(Self { fingerprint: fingerprint(&schema), columns, schema })
    }

    /// The rows' names and types.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// A number that differs where types, their order or nullability differ: 64 bits of FNV-1a over their text.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether values may lie at the page's end.
    pub fn has_views(&self) -> bool {
        self.columns.iter().any(|column| column.shape == Shape::View)
    }

    /// How many bytes header and minipages take for so many rows.
    pub fn bytes(&self, rows: usize) -> usize {
        LINE + self.columns.iter().map(|column| column.bytes(rows)).sum::<usize>()
    }

    /// How many bytes a row takes in a buffer, where bits are bytes; without those at the page's end.
    pub fn row_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.shape.width() + usize::from(column.is_nullable)).sum()
    }

    /// For how many rows of each partition there is room in buffers that take so many bytes together, where what lies at a page's
    /// end may take as much as all the rest.
    pub fn buffer_rows(&self, bytes: usize, partitions: usize) -> usize {
        let bytes = bytes.saturating_sub(LINE * self.columns.len());
        let (cells, tail) = if self.has_views() { (bytes / 2, 4) } else { (bytes, 0) };
        cells / partitions.max(1) / (self.row_bytes() + tail).max(1)
    }

    /// For how many rows there is room in a page of so many bytes, if each has so many bytes at the page's end on average.
    pub fn capacity(&self, bytes: usize, tail: usize) -> usize {
        let (mut fits, mut too_many) = (0, bytes.saturating_sub(LINE) * 8 + 1);
        while too_many - fits > 1 {
            let rows = (fits + too_many) / 2;
            match self.bytes(rows).saturating_add(rows.saturating_mul(tail)) <= bytes {
                true => fits = rows,
                false => too_many = rows,
            }
        }
        fits
    }

    /// Where the minipages for so many rows begin, column by column.
    pub fn places(&self, rows: usize) -> Vec<Place> {
        let mut at = LINE;
        let mut next = |bytes: usize| {
            let place = at;
            at += lines(bytes);
            place
        };
        let place = |column: &Column| Place {
            validity: column.is_nullable.then(|| next(rows.div_ceil(8))),
            values: next(column.shape.bytes(rows)),
        };
        self.columns.iter().map(place).collect()
    }
}

fn fingerprint(schema: &Schema) -> u64 {
    let text = |field: &arrow_schema::FieldRef| {
        format!("{}{};", field.data_type(), if field.is_nullable() { "?" } else { "" })
    };
    let all: String = schema.fields().iter().map(text).collect();
    all.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::Field;

    use super::*;

    #[test]
    fn as_many_rows_as_fit_and_no_more() {
        let fields = [("k", DataType::Int32, false), ("v", DataType::Float64, true), ("s", DataType::Utf8View, true)];
        let schema = Schema::new(fields.map(|(name, kind, is_nullable)| Field::new(name, kind, is_nullable)).to_vec());
        let layout = RowLayout::new(Arc::new(schema)).unwrap();
        for bytes in [100, SMALLEST, 64 << 10, LARGEST] {
            for tail in [0, 7, 1000, usize::MAX / 2] {
                let rows = layout.capacity(bytes, tail);
                assert!(rows == 0 || layout.bytes(rows) + rows * tail <= bytes, "{bytes} {tail}: {rows}");
                assert!(
                    layout.bytes(rows + 1).saturating_add((rows + 1).saturating_mul(tail)) > bytes,
                    "{bytes} {tail}"
                );
            }
        }
        let places = layout.places(100);
        assert_eq!(places[0], Place { validity: None, values: 64 });
        assert_eq!(places[1], Place { validity: Some(64 + 448), values: 64 + 448 + 64 });
        assert_eq!(places[2].values + 1600, layout.bytes(100));
    }

    #[test]
    fn other_types_have_another_fingerprint() {
        let of = |kind, is_nullable| {
            RowLayout::new(Arc::new(Schema::new(vec![Field::new("a", kind, is_nullable)]))).unwrap().fingerprint()
        };
        assert_eq!(of(DataType::Int64, true), of(DataType::Int64, true));
        assert_ne!(of(DataType::Int64, true), of(DataType::Int64, false));
        assert_ne!(of(DataType::Int64, true), of(DataType::UInt64, true));
        assert!(RowLayout::new(Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]))).is_err());
    }
}
