//! A batch's columns as slices of numbers.

use arrow_array::{Array, ArrayRef, cast::AsArray, types::*};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, TimeUnit};

use super::bits::{self, Bits};

/// A column whose values have a fixed width, and which of them are known.
#[allow(missing_docs)] // The variants are named as Arrow's types.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    Int8(&'a [i8], Option<&'a NullBuffer>),
    Int16(&'a [i16], Option<&'a NullBuffer>),
    Int32(&'a [i32], Option<&'a NullBuffer>),
    Int64(&'a [i64], Option<&'a NullBuffer>),
    UInt8(&'a [u8], Option<&'a NullBuffer>),
    UInt16(&'a [u16], Option<&'a NullBuffer>),
    UInt32(&'a [u32], Option<&'a NullBuffer>),
    UInt64(&'a [u64], Option<&'a NullBuffer>),
    Int128(&'a [i128], Option<&'a NullBuffer>),
    Float32(&'a [f32], Option<&'a NullBuffer>),
    Float64(&'a [f64], Option<&'a NullBuffer>),
    Boolean(&'a BooleanBuffer, Option<&'a NullBuffer>),
}

/// Runs an expression with the column's values as a slice, whatever their type.
macro_rules! with_lanes {
    ($column:expr, $lanes:ident => $then:expr) => {
        match $column {
            Column::Int8($lanes, _) => $then,
            Column::Int16($lanes, _) => $then,
            Column::Int32($lanes, _) => $then,
            Column::Int64($lanes, _) => $then,
            Column::UInt8($lanes, _) => $then,
            Column::UInt16($lanes, _) => $then,
            Column::UInt32($lanes, _) => $then,
            Column::UInt64($lanes, _) => $then,
            Column::Int128($lanes, _) => $then,
            Column::Float32($lanes, _) => $then,
            Column::Float64($lanes, _) => $then,
            Column::Boolean(..) => return Err(Undecided),
        }
    };
}

pub(super) use with_lanes;

impl<'a> Column<'a> {
    /// `None` for types that have no fixed width.
    pub fn new(array: &'a ArrayRef) -> Option<Self> {
        let nulls = array.nulls();
        macro_rules! lanes {
            ($variant:ident, $kind:ty) => {
                Self::$variant(array.as_primitive::<$kind>().values(), nulls)
            };
        }
        Some(match array.data_type() {
            DataType::Int8 => lanes!(Int8, Int8Type),
            DataType::Int16 => lanes!(Int16, Int16Type),
            DataType::Int32 => lanes!(Int32, Int32Type),
            DataType::Int64 => lanes!(Int64, Int64Type),
            DataType::UInt8 => lanes!(UInt8, UInt8Type),
            DataType::UInt16 => lanes!(UInt16, UInt16Type),
            DataType::UInt32 => lanes!(UInt32, UInt32Type),
            DataType::UInt64 => lanes!(UInt64, UInt64Type),
            DataType::Float32 => lanes!(Float32, Float32Type),
            DataType::Float64 => lanes!(Float64, Float64Type),
            DataType::Decimal128(..) => lanes!(Int128, Decimal128Type),
            DataType::Date32 => lanes!(Int32, Date32Type),
            DataType::Date64 => lanes!(Int64, Date64Type),
            DataType::Time64(TimeUnit::Microsecond) => lanes!(Int64, Time64MicrosecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => lanes!(Int64, TimestampMicrosecondType),
            DataType::Boolean => Self::Boolean(array.as_boolean().values(), nulls),
            _ => return None,
        })
    }

    fn nulls(&self) -> Option<&'a NullBuffer> {
        match *self {
            Self::Int8(_, nulls)
            | Self::Int16(_, nulls)
            | Self::Int32(_, nulls)
            | Self::Int64(_, nulls)
            | Self::UInt8(_, nulls)
            | Self::UInt16(_, nulls)
            | Self::UInt32(_, nulls)
            | Self::UInt64(_, nulls)
            | Self::Int128(_, nulls)
            | Self::Float32(_, nulls)
            | Self::Float64(_, nulls)
            | Self::Boolean(_, nulls) => nulls,
        }
    }

    /// Whether some row may have no value.
    pub fn has_nulls(&self) -> bool {
        self.nulls().is_some()
    }

    /// Which of some rows have a value.
    pub fn known(&self, from: usize, rows: usize) -> Bits {
        bits::of_nulls(self.nulls(), from, rows)
    }

    /// The values, if they have the type of these.
    pub fn lanes_like<T: Lanes>(&self, _: &[T]) -> Option<&'a [T]> {
        T::lanes(self)
    }
}

/// The type of a column's values.
pub trait Lanes: Sized {
    /// The column's values, if they have this type.
    fn lanes<'a>(column: &Column<'a>) -> Option<&'a [Self]>;
}

macro_rules! lanes {
    ($($kind:ty: $variant:ident),*) => { $(
        impl Lanes for $kind {
            fn lanes<'a>(column: &Column<'a>) -> Option<&'a [Self]> {
                if let Column::$variant(lanes, _) = column { Some(lanes) } else { None }
            }
        }
    )* };
}

lanes!(i8: Int8, i16: Int16, i32: Int32, i64: Int64, u8: UInt8, u16: UInt16, u32: UInt32, u64: UInt64, i128: Int128,
       f32: Float32, f64: Float64);
