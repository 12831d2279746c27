//! Values of at most 64 bits as whole numbers that are equal, and ordered, as the values are.

use std::sync::Arc;

use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, UInt32Array, cast::AsArray, types::*};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};
use thalweg_core::{Error, Result};
use thalweg_memory::{kernels::bounds::bounds, simd::Level};

/// The keys of some rows.
pub struct Integers {
    /// The keys; where there is none, some number.
    pub values: ScalarBuffer<i64>,
    /// Where there is a key, if not everywhere.
    pub nulls: Option<NullBuffer>,
}

impl Integers {
    /// Whether keys of this type are whole numbers, or may be seen as such.
    pub fn are(kind: &DataType) -> bool {
        use DataType::*;
        matches!(kind, Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float32 | Float64)
            || matches!(kind, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_))
    }

    /// The keys in a column; those that are 64-bit whole numbers are not copied.
    pub fn new(column: &ArrayRef) -> Result<Self> {
        fn widened<T: ArrowPrimitiveType>(column: &ArrayRef) -> ScalarBuffer<i64> {
            let column = column.as_primitive::<T>();
            // All that have 64 bits and a sign are here as they are.
            match size_of::<T::Native>() == size_of::<i64>() {
                true => ScalarBuffer::from(column.values().inner().clone()),
                false => column.values().iter().map(|value| value.to_i64().unwrap_or_default()).collect(),
            }
        }
        macro_rules! widen {
            ($primitive:ty) => {
                widened::<$primitive>(column)
            };
        }
        let values = match column.data_type() {
            DataType::Boolean => column.as_boolean().values().iter().map(i64::from).collect(),
            DataType::UInt64 => column.as_primitive::<UInt64Type>().values().iter().map(|v| flip(*v)).collect(),
            DataType::Float32 => {
                column.as_primitive::<Float32Type>().values().iter().map(|v| ordered(f64::from(*v))).collect()
            }
            DataType::Float64 => column.as_primitive::<Float64Type>().values().iter().map(|v| ordered(*v)).collect(),
            DataType::Int8 => widen!(Int8Type),
            DataType::Int16 => widen!(Int16Type),
            DataType::Int32 => widen!(Int32Type),
            DataType::Int64 => widen!(Int64Type),
            DataType::UInt8 => widen!(UInt8Type),
            DataType::UInt16 => widen!(UInt16Type),
            DataType::UInt32 => widen!(UInt32Type),
            DataType::Date32 => widen!(Date32Type),
            DataType::Date64 => widen!(Date64Type),
            DataType::Time32(TimeUnit::Second) => widen!(Time32SecondType),
            DataType::Time32(_) => widen!(Time32MillisecondType),
            DataType::Time64(TimeUnit::Microsecond) => widen!(Time64MicrosecondType),
            DataType::Time64(_) => widen!(Time64NanosecondType),
            DataType::Timestamp(TimeUnit::Second, _) => widen!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => widen!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => widen!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => widen!(TimestampNanosecondType),
            DataType::Duration(TimeUnit::Second) => widen!(DurationSecondType),
            DataType::Duration(TimeUnit::Millisecond) => widen!(DurationMillisecondType),
            DataType::Duration(TimeUnit::Microsecond) => widen!(DurationMicrosecondType),
            DataType::Duration(TimeUnit::Nanosecond) => widen!(DurationNanosecondType),
            other => return Err(no_whole(other)),
        };
        Ok(Self { values, nulls: column.nulls().filter(|nulls| nulls.null_count() > 0).cloned() })
    }

    /// The keys of some of the rows.
    pub fn of(&self, rows: Option<&UInt32Array>) -> Self {
        let Some(rows) = rows else {
            return Self { values: self.values.clone(), nulls: self.nulls.clone() };
        };
        let rows = || rows.values().iter().map(|row| *row as usize);
        let nulls = self.nulls.as_ref().map(|nulls| rows().map(|row| nulls.is_valid(row)).collect());
        Self { values: rows().map(|row| self.values[row]).collect(), nulls }
    }

    /// The smallest and the largest key, if there is one.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        match &self.nulls {
            None => bounds(Level::best(), &self.values),
            Some(nulls) => {
                let known: Vec<i64> = nulls.valid_indices().map(|row| self.values[row]).collect();
                bounds(Level::best(), &known)
            }
        }
    }

    /// The column that such keys were made of.
    pub fn column(self, kind: &DataType) -> Result<ArrayRef> {
        let Self { values, nulls } = self;
        macro_rules! narrow {
            ($primitive:ty, $narrow:expr) => {{
                let values = values.iter().map($narrow).collect();
                Arc::new(PrimitiveArray::<$primitive>::new(values, nulls).with_data_type(kind.clone()))
            }};
        }
        macro_rules! same {
            ($primitive:ty) => {
                Arc::new(PrimitiveArray::<$primitive>::new(values, nulls).with_data_type(kind.clone()))
            };
        }
        Ok(match kind {
            DataType::Boolean => Arc::new(BooleanArray::new(values.iter().map(|value| *value != 0).collect(), nulls)),
            DataType::UInt64 => narrow!(UInt64Type, |value| flip(*value as u64) as u64),
            DataType::Float32 => narrow!(Float32Type, |value| unordered(*value) as f32),
            DataType::Float64 => narrow!(Float64Type, |value| unordered(*value)),
            DataType::Int8 => narrow!(Int8Type, |value| *value as i8),
            DataType::Int16 => narrow!(Int16Type, |value| *value as i16),
            DataType::Int32 => narrow!(Int32Type, |value| *value as i32),
            DataType::Int64 => same!(Int64Type),
            DataType::UInt8 => narrow!(UInt8Type, |value| *value as u8),
            DataType::UInt16 => narrow!(UInt16Type, |value| *value as u16),
            DataType::UInt32 => narrow!(UInt32Type, |value| *value as u32),
            DataType::Date32 => narrow!(Date32Type, |value| *value as i32),
            DataType::Date64 => same!(Date64Type),
            DataType::Time32(TimeUnit::Second) => narrow!(Time32SecondType, |value| *value as i32),
            DataType::Time32(_) => narrow!(Time32MillisecondType, |value| *value as i32),
            DataType::Time64(TimeUnit::Microsecond) => same!(Time64MicrosecondType),
            DataType::Time64(_) => same!(Time64NanosecondType),
            DataType::Timestamp(TimeUnit::Second, _) => same!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => same!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => same!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => same!(TimestampNanosecondType),
            DataType::Duration(TimeUnit::Second) => same!(DurationSecondType),
            DataType::Duration(TimeUnit::Millisecond) => same!(DurationMillisecondType),
            DataType::Duration(TimeUnit::Microsecond) => same!(DurationMicrosecondType),
            DataType::Duration(TimeUnit::Nanosecond) => same!(DurationNanosecondType),
            other => return Err(no_whole(other)),
        })
    }
}

fn no_whole(kind: &DataType) -> Error {
    Error::bug(format!("a key of type {kind} is no whole number"))
}

/// A number without a sign as one with, in the same order; and back.
fn flip(value: u64) -> i64 {
    (value ^ 1 << 63) as i64
}

/// As in PostgreSQL, −0.0 and 0.0 are one key, and so are all NaNs, which come last.
fn ordered(value: f64) -> i64 {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    turned(value.to_bits() as i64)
}

fn unordered(value: i64) -> f64 {
    f64::from_bits(turned(value) as u64)
}

/// Turns the order of what is below zero around.
fn turned(bits: i64) -> i64 {
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, Float32Array, Float64Array, Int64Array, UInt64Array};
    use arrow_cast::cast;

    use super::*;

    #[test]
    fn a_column_comes_back_as_it_was() {
        use DataType::*;
        use TimeUnit::*;
        let units = [Second, Millisecond, Microsecond, Nanosecond];
        let times = units.into_iter().flat_map(|unit| [Timestamp(unit, None), Timestamp(unit, Some("UTC".into()))]);
        let plain = [Boolean, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64, Date64];
        let kinds = plain.into_iter().chain(times).chain(units.map(Duration));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(100), Some(0)]));
        let days = cast(&cast(&numbers, &Int32).unwrap(), &Date32).unwrap();
        let short = [Time32(Second), Time32(Millisecond)].map(|k| cast(&cast(&numbers, &Int32).unwrap(), &k).unwrap());
        let long = [Time64(Microsecond), Time64(Nanosecond)].map(|kind| cast(&numbers, &kind).unwrap());
        let others = kinds.map(|kind| cast(&numbers, &kind).unwrap());
        for column in others.chain([days]).chain(short).chain(long) {
            assert!(Integers::are(column.data_type()));
            let back = Integers::new(&column).unwrap().column(column.data_type()).unwrap();
            assert_eq!(&back, &column);
        }
    }

    #[test]
    fn numbers_are_in_the_order_of_the_values() {
        let wide: ArrayRef = Arc::new(Float64Array::from(vec![
            f64::NEG_INFINITY,
            -1e300,
            -1.5,
            -1.0,
            0.0,
            f64::MIN_POSITIVE,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ]));
        let narrow: ArrayRef = Arc::new(Float32Array::from(vec![f32::MIN, -0.1, 0.0, 0.1, f32::INFINITY, f32::NAN]));
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![0, 1, 1 << 63, u64::MAX]));
        for column in [wide, narrow, unsigned] {
            let keys = Integers::new(&column).unwrap();
            assert!(keys.values.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", keys.values);
            let back = keys.column(column.data_type()).unwrap();
            assert_eq!(back.to_data(), column.to_data());
        }
    }
}
