//! Names and types of columns from the first objects of a file, as DuckDB finds them.

use std::{collections::HashMap, sync::Arc};

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::object::{Members, walk};
use crate::text::{
    number::integer,
    time::{date, moment},
};

/// At most this many objects are looked at.
const SAMPLE_ROWS: usize = 20_000;

/// The columns of a sample of bytes, if there is a key in it: all keys, in the order in which they came.
pub(crate) fn infer(sample: &[u8], is_all: bool) -> Option<SchemaRef> {
    let sample = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
    // A line that is cut off would be taken for a malformed one.
    let whole = if is_all { sample.len() } else { memchr::memrchr(b'\n', sample).map_or(0, |end| end + 1) };
    let mut keys = Keys::default();
    for line in
        sample[..whole].split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(SAMPLE_ROWS)
    {
        // What is malformed is reported when it is read.
        let _ = walk(line, &mut keys);
    }
    let field = |(name, kind): (String, Kind)| Field::new(name, kind.data_type(), true);
    let fields = keys.names.into_iter().zip(keys.kinds).map(field).collect::<Vec<_>>();
    (!fields.is_empty()).then(|| Arc::new(Schema::new(fields)) as SchemaRef)
}

#[derive(Default)]
struct Keys {
    numbers: HashMap<String, usize>,
    names: Vec<String>,
    kinds: Vec<Kind>,
}

impl Members for Keys {
    fn find(&mut self, key: &str) -> Option<usize> {
        if let Some(number) = self.numbers.get(key) {
            return Some(*number);
        }
        self.numbers.insert(key.to_string(), self.names.len());
        self.names.push(key.to_string());
        self.kinds.push(Kind::Nothing);
        Some(self.names.len() - 1)
    }

    fn take(&mut self, number: usize, json: &[u8]) -> Result<(), ()> {
        self.kinds[number] = self.kinds[number].or(Kind::of(json));
        Ok(())
    }
}

/// What all values of a key so far are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    Boolean,
    Integer,
    Number,
    Date,
    Timestamp,
    Any,
}

impl Kind {
    fn of(text: &[u8]) -> Self {
        match text[0] {
            b'n' => Self::Nothing,
            b't' | b'f' => Self::Boolean,
            b'-' | b'0'..=b'9' if !text.contains(&b'.') && integer(text).is_ok() => Self::Integer,
            b'-' | b'0'..=b'9' => Self::Number,
            b'"' if date(&text[1..text.len() - 1]).is_ok() => Self::Date,
            b'"' if moment(&text[1..text.len() - 1]).is_ok() => Self::Timestamp,
            _ => Self::Any,
        }
    }

    /// What both are.
    fn or(self, other: Self) -> Self {
        use Kind::*;
        match (self, other) {
            (a, b) if a == b => a,
            (Nothing, kind) | (kind, Nothing) => kind,
            (Integer, Number) | (Number, Integer) => Number,
            (Date, Timestamp) | (Timestamp, Date) => Timestamp,
            _ => Any,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Number => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Nothing | Self::Any => DataType::Utf8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_core::types::sql_name;

    fn check(text: &str, expected: &str) {
        let column = |f: &Arc<Field>| format!("{} {}", f.name(), sql_name(f.data_type()));
        let columns =
            infer(text.as_bytes(), true).map(|s| s.fields().iter().map(column).collect::<Vec<_>>().join(", "));
        assert_eq!(columns.as_deref().unwrap_or("none"), expected, "{text}");
    }

    #[test]
    fn columns_are_all_keys_and_types_widen() {
        check("{\"a\":1,\"b\":\"x\"}\n{\"c\":true,\"a\":2.5}\n", "a DOUBLE, b STRING, c BOOLEAN");
        check("{\"t\":\"2013-01-01\"}\n{\"t\":\"2013-01-01T10:00:00Z\"}", "t TIMESTAMP");
        check("{\"d\":\"2013-01-01\",\"n\":null,\"m\":1}\n{\"m\":\"x\"}", "d DATE, n STRING, m STRING");
        check("{\"o\":{\"x\":1},\"big\":9223372036854775808}", "o STRING, big DOUBLE");
        check("nonsense\n{\"a\":1}\n", "a BIGINT");
        check("\n", "none");
    }

    #[test]
    fn a_line_that_is_cut_off_does_not_count() {
        let schema = infer(b"{\"a\":1}\n{\"b\":", false).unwrap();
        assert_eq!(schema.fields().len(), 1);
    }
}
