//! The values of one column of any type that can be read from text.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int64Array,
    StringArray, Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use thalweg_core::Result;

use crate::text::{
    Wrong,
    digits::Moments,
    number,
    time::{self, SECOND},
    zone::Zone,
};

/// Values in the widest form of their kind; [`finish`](Self::finish) narrows them to the declared type.
pub(super) enum Values {
    Boolean(BooleanBufferBuilder),
    Integer(Vec<i64>, i64, i64),
    Unsigned(Vec<u64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal(Vec<i128>, u8, i8),
    Text(Bytes),
    Binary(Bytes),
    Date(Vec<i32>),
    Time(Vec<i64>),
    /// With the day that was read last.
    Timestamp(Vec<i64>, Zone, Moments),
}

/// Values of any length, end to end.
#[derive(Default)]
pub(super) struct Bytes {
    bytes: Vec<u8>,
    ends: Vec<i32>,
}

impl Values {
    /// No values yet of a type, if it can be read from text.
    pub(super) fn new(data_type: &DataType) -> Result<Option<Self>> {
        use DataType::*;
        Ok(Some(match data_type {
            Boolean => Self::Boolean(BooleanBufferBuilder::new(0)),
            Int8 => Self::Integer(vec![], i8::MIN.into(), i8::MAX.into()),
            Int16 => Self::Integer(vec![], i16::MIN.into(), i16::MAX.into()),
            Int32 => Self::Integer(vec![], i32::MIN.into(), i32::MAX.into()),
            Int64 => Self::Integer(vec![], i64::MIN, i64::MAX),
            UInt8 => Self::Integer(vec![], 0, u8::MAX.into()),
            UInt16 => Self::Integer(vec![], 0, u16::MAX.into()),
            UInt32 => Self::Integer(vec![], 0, u32::MAX.into()),
            UInt64 => Self::Unsigned(vec![]),
            Float32 => Self::Float(vec![]),
            Float64 => Self::Double(vec![]),
            Decimal128(precision, scale) => Self::Decimal(vec![], *precision, *scale),
            Utf8 | LargeUtf8 | Utf8View => Self::Text(Bytes::default()),
            Binary | LargeBinary | BinaryView => Self::Binary(Bytes::default()),
            Date32 => Self::Date(vec![]),
            Time64(TimeUnit::Microsecond) => Self::Time(vec![]),
            Timestamp(TimeUnit::Microsecond, zone) => {
                Self::Timestamp(vec![], Zone::new(zone.as_deref())?, Moments::default())
            }
            _ => return Ok(None),
        }))
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    pub(super) fn is_binary(&self) -> bool {
        matches!(self, Self::Binary(_))
    }

    /// Adds the value of a text; gives the instant if it is one.
    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) -> Result<Option<i64>, Wrong> {
        match self {
            Self::Text(values) => {
                // Plain ASCII is the usual case, and cheaper to see.
                if !text.is_ascii() && std::str::from_utf8(text).is_err() {
                    return Err(Wrong::Utf8);
                }
                values.push(text);
            }
            Self::Integer(values, min, max) => {
                let value = number::integer(text.trim_ascii())?;
                if value < *min || value > *max {
                    return Err(Wrong::Range);
                }
                values.push(value);
            }
            Self::Double(values) => values.push(number::double(text.trim_ascii())?),
            Self::Timestamp(values, zone, moments) => {
                let instant = match moments.read(text, 0, text.len()) {
                    Some((clock, true)) => clock,
                    Some((clock, false)) => zone.instant(clock),
                    None => general_instant(text, zone)?,
                };
                values.push(instant);
                return Ok(Some(instant));
            }
            Self::Boolean(values) => values.append(number::boolean(text.trim_ascii())?),
            Self::Unsigned(values) => values.push(number::unsigned(text.trim_ascii())?),
            Self::Float(values) => values.push(number::float(text.trim_ascii())?),
            Self::Decimal(values, precision, scale) => {
                values.push(number::decimal(text.trim_ascii(), *precision, *scale)?);
            }
            Self::Binary(values) => values.push_hex(text.trim_ascii())?,
            Self::Date(values) => values.push(time::date(text.trim_ascii())?),
            Self::Time(values) => values.push(time::time_of_day(text.trim_ascii())?),
        }
        Ok(None)
    }

    /// Adds a place without a value.
    pub(super) fn push_null(&mut self) {
        match self {
            Self::Boolean(values) => values.append(false),
            Self::Integer(values, ..) | Self::Time(values) | Self::Timestamp(values, ..) => values.push(0),
            Self::Unsigned(values) => values.push(0),
            Self::Float(values) => values.push(0.0),
            Self::Double(values) => values.push(0.0),
            Self::Decimal(values, ..) => values.push(0),
            Self::Text(values) | Self::Binary(values) => values.push(b""),
            Self::Date(values) => values.push(0),
        }
    }

    /// Keeps only the first `len` values.
    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Self::Boolean(values) => values.truncate(len),
            Self::Integer(values, ..) | Self::Time(values) | Self::Timestamp(values, ..) => values.truncate(len),
            Self::Unsigned(values) => values.truncate(len),
            Self::Float(values) => values.truncate(len),
            Self::Double(values) => values.truncate(len),
            Self::Decimal(values, ..) => values.truncate(len),
            Self::Text(values) | Self::Binary(values) => values.truncate(len),
            Self::Date(values) => values.truncate(len),
        }
    }

    /// The values as an array of the declared type; none are left.
    pub(super) fn finish(&mut self, data_type: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let array: ArrayRef = match self {
            Self::Boolean(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Self::Integer(values, ..) => Arc::new(Int64Array::new(leave(values), nulls)),
            Self::Unsigned(values) => Arc::new(UInt64Array::new(leave(values), nulls)),
            Self::Float(values) => Arc::new(Float32Array::new(leave(values), nulls)),
            Self::Double(values) => Arc::new(Float64Array::new(leave(values), nulls)),
            Self::Decimal(values, precision, scale) => {
                Arc::new(Decimal128Array::new(leave(values), nulls).with_precision_and_scale(*precision, *scale)?)
            }
            Self::Text(values) => {
                let (bytes, offsets) = values.finish();
                Arc::new(StringArray::try_new(offsets, bytes.into(), nulls)?)
            }
            Self::Binary(values) => {
                let (bytes, offsets) = values.finish();
                Arc::new(BinaryArray::try_new(offsets, bytes.into(), nulls)?)
            }
            Self::Date(values) => Arc::new(Date32Array::new(leave(values), nulls)),
            Self::Time(values) => Arc::new(Time64MicrosecondArray::new(leave(values), nulls)),
            Self::Timestamp(values, ..) => {
                let DataType::Timestamp(_, zone) = data_type else { unreachable!("made from this type") };
                Arc::new(TimestampMicrosecondArray::new(leave(values), nulls).with_timezone_opt(zone.clone()))
            }
        };
        Ok(if array.data_type() == data_type { array } else { cast(&array, data_type)? })
    }
}

impl Bytes {
    /// Adds `text[start..end]`.
    #[inline]
    pub(super) fn push_from(&mut self, text: &[u8], start: usize, end: usize) {
        const SHORT: usize = 32;
        // To copy a fixed number of bytes, and forget some, costs less than to copy just so many.
        match text[start..].first_chunk::<SHORT>().filter(|_| end - start <= SHORT) {
            Some(chunk) => {
                let len = self.bytes.len() + end - start;
                self.bytes.extend_from_slice(chunk);
                self.bytes.truncate(len);
            }
            None => self.bytes.extend_from_slice(&text[start..end]),
        }
        self.end();
    }

    fn end(&mut self) {
        self.ends.push(i32::try_from(self.bytes.len()).expect("a decoder ends its batches long before"));
    }

    pub(super) fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.end();
    }

    fn push_hex(&mut self, text: &[u8]) -> Result<(), Wrong> {
        let start = self.bytes.len();
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|d| d as u8);
        let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
        for pair in text.chunks(2) {
            match (pair.len() == 2).then(|| byte(pair)).flatten() {
                Some(byte) => self.bytes.push(byte),
                None => {
                    self.bytes.truncate(start);
                    return Err(Wrong::Type);
                }
            }
        }
        self.push(b"");
        Ok(())
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().map_or(0, |end| *end as usize));
    }

    fn finish(&mut self) -> (Vec<u8>, OffsetBuffer<i32>) {
        let (bytes, ends) = (self.bytes.capacity(), self.ends.capacity());
        let mut offsets = Vec::with_capacity(self.ends.len() + 1);
        offsets.push(0);
        offsets.append(&mut self.ends);
        self.ends = Vec::with_capacity(ends.min(RESERVED));
        let next = Vec::with_capacity(bytes.min(RESERVED));
        (std::mem::replace(&mut self.bytes, next), OffsetBuffer::new(offsets.into()))
    }
}

/// The instant of any text of a timestamp.
pub(super) fn general_instant(text: &[u8], zone: &Zone) -> Result<i64, Wrong> {
    let moment = time::moment(text.trim_ascii())?;
    match moment.offset {
        Some(offset) => moment.clock.checked_sub(offset * SECOND).ok_or(Wrong::Range),
        None => Ok(zone.instant(moment.clock)),
    }
}

/// The most that is reserved for a batch before its rows are there, on the guess that it is like the one before.
const RESERVED: usize = 1 << 16;

fn leave<T: arrow_buffer::ArrowNativeType>(values: &mut Vec<T>) -> ScalarBuffer<T> {
    let next = Vec::with_capacity(values.len().min(RESERVED));
    std::mem::replace(values, next).into()
}
