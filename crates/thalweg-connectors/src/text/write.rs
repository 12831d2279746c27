//! Writes values as text, one column at a time prepared, one value at a time written.

use std::io::Write;

use arrow_array::{Array, ArrayRef, BooleanArray, StructArray, cast::AsArray, types::*};
use arrow_buffer::OffsetBuffer;
use arrow_cast::{cast, display::ArrayFormatter, display::FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use thalweg_core::{Result, time::civil_from_days};

use super::{
    time::{DAY, SECOND},
    zone::Zone,
};

/// One column, ready to be written as text value by value, in the same words in every format.
pub struct Cells {
    column: ArrayRef,
    kind: Kind,
}

enum Kind {
    Boolean(BooleanArray),
    Number(fn(&dyn Array, usize, &mut Vec<u8>)),
    Double,
    Decimal(i8),
    Text,
    Binary,
    Date,
    Time,
    Timestamp(Option<Zone>),
    List(OffsetBuffer<i32>, Box<Cells>),
    Struct(Vec<(String, Cells)>),
    Other,
}

impl Cells {
    /// Prepares a column. Types that have no text of their own here are written as Arrow displays them.
    pub fn new(column: &ArrayRef) -> Result<Self> {
        use DataType::*;
        let widened = match column.data_type() {
            Utf8View | LargeUtf8 | Dictionary(..) => Some(Utf8),
            LargeBinary | BinaryView | FixedSizeBinary(_) => Some(Binary),
            Float16 => Some(Float32),
            Date64 => Some(Date32),
            Time32(_) | Time64(TimeUnit::Nanosecond) => Some(Time64(TimeUnit::Microsecond)),
            Decimal32(p, s) | Decimal64(p, s) => Some(Decimal128(*p, *s)),
            Timestamp(unit, zone) if *unit != TimeUnit::Microsecond => {
                Some(Timestamp(TimeUnit::Microsecond, zone.clone()))
            }
            _ => None,
        };
        let column = match &widened {
            Some(wide) => cast(column, wide)?,
            None => column.clone(),
        };
        let kind = match column.data_type() {
            Boolean => Kind::Boolean(column.as_boolean().clone()),
            Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => Kind::Number(whole_number(&column)),
            Float32 | Float64 => Kind::Double,
            Decimal128(_, scale) => Kind::Decimal(*scale),
            Utf8 => Kind::Text,
            Binary => Kind::Binary,
            Date32 => Kind::Date,
            Time64(_) => Kind::Time,
            Timestamp(_, zone) => Kind::Timestamp(zone.as_deref().map(|zone| Zone::new(Some(zone))).transpose()?),
            List(_) => {
                let list = column.as_list::<i32>();
                Kind::List(list.offsets().clone(), Box::new(Self::new(list.values())?))
            }
            Struct(_) => Kind::Struct(fields(column.as_struct())?),
            _ => Kind::Other,
        };
        Ok(Self { column, kind })
    }

    /// Whether there is no value.
    pub fn is_null(&self, row: usize) -> bool {
        self.column.is_null(row) || *self.column.data_type() == DataType::Null
    }

    /// Writes a value that is not null as bare text.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        match &self.kind {
            Kind::Boolean(values) => out.extend_from_slice(if values.value(row) { b"true" } else { b"false" }),
            Kind::Number(write) => write(&self.column, row, out),
            Kind::Double => double(&self.column, row, out),
            Kind::Decimal(scale) => decimal(self.column.as_primitive::<Decimal128Type>().value(row), *scale, out),
            Kind::Text => out.extend_from_slice(self.column.as_string::<i32>().value(row).as_bytes()),
            Kind::Binary => hex(self.column.as_binary::<i32>().value(row), out),
            Kind::Date => date(self.column.as_primitive::<Date32Type>().value(row).into(), out),
            Kind::Time => time(self.column.as_primitive::<Time64MicrosecondType>().value(row).rem_euclid(DAY), out),
            Kind::Timestamp(zone) => {
                timestamp(self.column.as_primitive::<TimestampMicrosecondType>().value(row), zone.as_ref(), out)
            }
            Kind::List(..) | Kind::Struct(_) => self.write_json(row, out)?,
            Kind::Other => self.write_other(row, out)?,
        }
        Ok(())
    }

    /// Writes a value, null included, as JSON: numbers and truth values bare, NaN and infinities and all else as strings.
    pub(crate) fn write_json(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match &self.kind {
            Kind::Boolean(_) | Kind::Number(_) | Kind::Decimal(_) => self.write(row, out)?,
            Kind::Double if is_finite(&self.column, row) => self.write(row, out)?,
            Kind::Text => json_string(self.column.as_string::<i32>().value(row), out),
            Kind::Other => {
                let mut text = Vec::new();
                self.write(row, &mut text)?;
                json_string(&String::from_utf8_lossy(&text), out);
            }
            Kind::List(offsets, values) => {
                out.push(b'[');
                for (i, value) in (offsets[row]..offsets[row + 1]).enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    values.write_json(value as usize, out)?;
                }
                out.push(b']');
            }
            Kind::Struct(fields) => write_object(fields, row, out)?,
            Kind::Double | Kind::Binary | Kind::Date | Kind::Time | Kind::Timestamp(_) => {
                out.push(b'"');
                self.write(row, out)?;
                out.push(b'"');
            }
        }
        Ok(())
    }

    fn write_other(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let options = FormatOptions::default();
        let formatter = ArrayFormatter::try_new(&self.column, &options)?;
        out.extend_from_slice(formatter.value(row).to_string().as_bytes());
        Ok(())
    }
}

/// Writes one object from columns with their names already in JSON, followed by colons.
pub(crate) fn write_object(fields: &[(String, Cells)], row: usize, out: &mut Vec<u8>) -> Result<()> {
    out.push(b'{');
    for (i, (name, cells)) in fields.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(name.as_bytes());
        cells.write_json(row, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// A column's name as a JSON key with its colon.
pub(crate) fn json_key(name: &str) -> String {
    let mut key = Vec::new();
    json_string(name, &mut key);
    key.push(b':');
    String::from_utf8_lossy(&key).into_owned()
}

fn fields(values: &StructArray) -> Result<Vec<(String, Cells)>> {
    let cells =
        |(field, column): (&std::sync::Arc<arrow_schema::Field>, _)| Ok((json_key(field.name()), Cells::new(column)?));
    values.fields().iter().zip(values.columns()).map(cells).collect()
}

fn json_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[written..at]);
        written = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => display(out, format_args!("\\u{byte:04x}")),
        }
    }
    out.extend_from_slice(&text.as_bytes()[written..]);
    out.push(b'"');
}

/// Appending to memory cannot fail.
fn display(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("memory takes any text");
}

fn whole_number(column: &dyn Array) -> fn(&dyn Array, usize, &mut Vec<u8>) {
    fn write<T: ArrowPrimitiveType<Native: std::fmt::Display>>(column: &dyn Array, row: usize, out: &mut Vec<u8>) {
        display(out, format_args!("{}", column.as_primitive::<T>().value(row)));
    }
    match column.data_type() {
        DataType::Int8 => write::<Int8Type>,
        DataType::Int16 => write::<Int16Type>,
        DataType::Int32 => write::<Int32Type>,
        DataType::UInt8 => write::<UInt8Type>,
        DataType::UInt16 => write::<UInt16Type>,
        DataType::UInt32 => write::<UInt32Type>,
        DataType::UInt64 => write::<UInt64Type>,
        _ => write::<Int64Type>,
    }
}

fn is_finite(column: &dyn Array, row: usize) -> bool {
    match column.data_type() {
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).is_finite(),
        _ => column.as_primitive::<Float64Type>().value(row).is_finite(),
    }
}

/// The shortest digits that read back as the same number; `1.0`, `1e300`, `NaN`, `-Infinity`.
fn double(column: &dyn Array, row: usize, out: &mut Vec<u8>) {
    let wide = match column.data_type() {
        DataType::Float32 => f64::from(column.as_primitive::<Float32Type>().value(row)),
        _ => column.as_primitive::<Float64Type>().value(row),
    };
    match (wide.is_infinite(), column.data_type()) {
        (true, _) => out.extend_from_slice(if wide > 0.0 { b"Infinity" } else { b"-Infinity" }),
        (_, DataType::Float32) => display(out, format_args!("{:?}", wide as f32)),
        _ => display(out, format_args!("{wide:?}")),
    }
}

fn decimal(value: i128, scale: i8, out: &mut Vec<u8>) {
    let (sign, digits) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    match usize::try_from(scale) {
        Ok(0) => display(out, format_args!("{sign}{digits}")),
        Err(_) => {
            display(out, format_args!("{sign}{digits}{:0>zeros$}", "", zeros = usize::from(scale.unsigned_abs())))
        }
        Ok(scale) => {
            let text = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = text.split_at(text.len() - scale);
            display(out, format_args!("{sign}{whole}.{fraction}"));
        }
    }
}

fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend(bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]));
}

fn two(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
}

fn date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    match year {
        0..=9999 => {
            two(year / 100, out);
            two(year % 100, out);
        }
        _ => display(out, format_args!("{year:+05}")),
    }
    out.push(b'-');
    two(month, out);
    out.push(b'-');
    two(day, out);
}

/// Hours, minutes, seconds, and as many digits of a second as are needed, of a time since midnight.
fn time(micros: i64, out: &mut Vec<u8>) {
    let (seconds, micros) = (micros / SECOND, micros % SECOND);
    two(seconds / 3600, out);
    out.push(b':');
    two(seconds / 60 % 60, out);
    out.push(b':');
    two(seconds % 60, out);
    if micros != 0 {
        display(out, format_args!(".{micros:06}"));
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// ISO 8601, with `Z` for an instant without a zone and the zone's offset at that instant otherwise.
fn timestamp(instant: i64, zone: Option<&Zone>, out: &mut Vec<u8>) {
    let offset = zone.map_or(0, |zone| zone.offset(instant));
    let clock = instant.saturating_add(offset * SECOND);
    date(clock.div_euclid(DAY), out);
    out.push(b'T');
    time(clock.rem_euclid(DAY), out);
    match zone {
        None => out.push(b'Z'),
        Some(_) => {
            out.push(if offset < 0 { b'-' } else { b'+' });
            two(offset.abs() / 3600, out);
            out.push(b':');
            two(offset.abs() / 60 % 60, out);
            // Local mean times, before there were zones.
            if offset % 60 != 0 {
                out.push(b':');
                two(offset.abs() % 60, out);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use arrow_array::*;

    use super::*;

    /// The rows of a batch, values as bare text with spaces between.
    pub(crate) fn rows(batch: &RecordBatch) -> Vec<String> {
        let cells = batch.columns().iter().map(|column| Cells::new(column).unwrap()).collect::<Vec<_>>();
        let text = |cells: &Cells, row| {
            let mut out = Vec::new();
            match cells.is_null(row) {
                true => out.extend_from_slice(b"null"),
                false => cells.write(row, &mut out).unwrap(),
            }
            String::from_utf8(out).unwrap()
        };
        let row = |row| cells.iter().map(|cells| text(cells, row)).collect::<Vec<_>>().join(" ");
        (0..batch.num_rows()).map(row).collect()
    }

    fn texts(column: impl Array + 'static) -> Vec<String> {
        let column: ArrayRef = Arc::new(column);
        let cells = Cells::new(&column).unwrap();
        let text = |row| {
            let mut out = Vec::new();
            cells.write_json(row, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        (0..column.len()).map(text).collect()
    }

    #[test]
    fn numbers_are_exact_and_what_json_lacks_is_a_string() {
        assert_eq!(texts(Int64Array::from(vec![Some(i64::MIN), None])), ["-9223372036854775808", "null"]);
        assert_eq!(texts(UInt64Array::from(vec![u64::MAX])), ["18446744073709551615"]);
        let doubles = vec![1.0, -0.0, 0.1, 1e300, f64::NAN, f64::NEG_INFINITY];
        assert_eq!(texts(Float64Array::from(doubles)), ["1.0", "-0.0", "0.1", "1e300", "\"NaN\"", "\"-Infinity\""]);
        assert_eq!(texts(Float32Array::from(vec![0.1])), ["0.1"]);
        let decimals = |scale| Decimal128Array::from(vec![5, -12345]).with_precision_and_scale(9, scale).unwrap();
        assert_eq!(texts(decimals(3)), ["0.005", "-12.345"]);
        assert_eq!(
            (texts(decimals(0)), texts(decimals(-2))),
            (vec!["5".into(), "-12345".into()], vec!["500".into(), "-1234500".into()])
        );
    }

    #[test]
    fn times_are_iso_8601() {
        let times = vec![1_357_035_300_000_000, -1, 253_402_300_800_000_000];
        let utc = TimestampMicrosecondArray::from(times.clone());
        assert_eq!(
            texts(utc.clone()),
            ["\"2013-01-01T10:15:00Z\"", "\"1969-12-31T23:59:59.999999Z\"", "\"+10000-01-01T00:00:00Z\""]
        );
        let local = utc.with_timezone("America/New_York");
        assert_eq!(texts(local)[0], "\"2013-01-01T05:15:00-05:00\"");
        let mean = TimestampMicrosecondArray::from(vec![-3_000_000_000_000_000]).with_timezone("Europe/Berlin");
        assert_eq!(texts(mean), ["\"1874-12-07T19:33:28+00:53:28\""]);
        assert_eq!(texts(Date32Array::from(vec![0, -1])), ["\"1970-01-01\"", "\"1969-12-31\""]);
        assert_eq!(texts(Time64MicrosecondArray::from(vec![36_930_250_000])), ["\"10:15:30.25\""]);
    }

    #[test]
    fn strings_are_escaped_and_bytes_are_hex() {
        assert_eq!(texts(StringArray::from(vec!["a\"\\\n\u{1}ä"])), ["\"a\\\"\\\\\\n\\u0001ä\""]);
        assert_eq!(texts(StringViewArray::from(vec!["view"])), ["\"view\""]);
        assert_eq!(texts(BinaryArray::from(vec![&[0u8, 255][..]])), ["\"00ff\""]);
    }

    #[test]
    fn lists_and_structs_are_arrays_and_objects() {
        let list =
            ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None]), Some(vec![]), None]);
        assert_eq!(texts(list), ["[1,null]", "[]", "null"]);
        let field = Arc::new(arrow_schema::Field::new("a", DataType::Int32, true));
        let object = StructArray::from(vec![(field, Arc::new(Int32Array::from(vec![7])) as ArrayRef)]);
        assert_eq!(texts(object), ["{\"a\":7}"]);
    }
}
