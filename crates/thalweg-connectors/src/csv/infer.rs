//! Names and types of columns from the beginning of a file, as DuckDB finds them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use thalweg_core::Result;

use super::{
    Csv,
    header::column_names,
    split::{Next, Record, Splitter, line_length},
};
use crate::text::{
    number::{double, integer},
    time::{date, moment},
};

/// At most this many records are looked at.
const SAMPLE_ROWS: usize = 20_000;

/// The columns of a sample of bytes, if there is a record in it.
pub(crate) fn infer(csv: &Csv, sample: &[u8], is_all: bool) -> Result<Option<SchemaRef>> {
    let mut sample = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
    let mut splitter = Splitter::new(csv);
    let mut first: Option<First> = None;
    for _ in 0..SAMPLE_ROWS {
        let length = match splitter.next(sample, is_all) {
            Next::Record { length, .. } => {
                let record = splitter.record(sample);
                match &mut first {
                    None => first = Some(First::new(&record, csv)),
                    Some(first) => first.see(&record, csv),
                }
                length
            }
            Next::Blank { length } | Next::Comment { length } => length,
            // What is malformed is reported when it is read.
            Next::Unterminated { .. } | Next::Stray { .. } => line_length(sample, true).unwrap_or(sample.len()),
            Next::Incomplete | Next::End => break,
        };
        sample = &sample[length..];
    }
    Ok(first.map(|first| first.schema(csv)))
}

/// The first record, which may be a header, and what the others have in its place.
struct First {
    names: Vec<String>,
    own: Vec<Seen>,
    below: Vec<Seen>,
    has_others: bool,
}

impl First {
    fn new(record: &Record<'_>, csv: &Csv) -> Self {
        let mut own = vec![Seen::default(); record.len()];
        see(&mut own, record, csv);
        let below = vec![Seen::default(); record.len()];
        Self { names: column_names(record), own, below, has_others: false }
    }

    fn see(&mut self, record: &Record<'_>, csv: &Csv) {
        if record.len() == self.names.len() {
            see(&mut self.below, record, csv);
            self.has_others = true;
        }
    }

    fn schema(self, csv: &Csv) -> SchemaRef {
        let has_header = csv.header.unwrap_or_else(|| self.is_header());
        let field = |i: usize| match has_header {
            true => Field::new(&self.names[i], self.below[i].data_type(), true),
            false => Field::new(format!("column{i}"), self.below[i].and(self.own[i]).data_type(), true),
        };
        Arc::new(Schema::new((0..self.names.len()).map(field).collect::<Vec<_>>()))
    }

    /// All text, and the first record too, looks like a header over text; otherwise one stands out from the types below it.
    fn is_header(&self) -> bool {
        let is_text = |seen: &Seen| seen.data_type() == DataType::Utf8;
        let below = if self.has_others { &self.below } else { &self.own };
        let stands_out =
            |(own, below): (&Seen, &Seen)| !is_text(below) && own.and(*below).data_type() == DataType::Utf8;
        below.iter().all(is_text) || self.own.iter().zip(&self.below).any(stands_out)
    }
}

fn see(columns: &mut [Seen], record: &Record<'_>, csv: &Csv) {
    for (i, seen) in columns.iter_mut().enumerate() {
        let (text, _) = record.field(i);
        if !text.is_empty() && text != csv.null.as_bytes() {
            seen.see(text.trim_ascii());
        }
    }
}

/// Which types all values so far can be read as.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    boolean: bool,
    integer: bool,
    double: bool,
    date: bool,
    timestamp: bool,
    has_digits: bool,
    is_empty: bool,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            boolean: true,
            integer: true,
            double: true,
            date: true,
            timestamp: true,
            has_digits: false,
            is_empty: true,
        }
    }
}

impl Seen {
    /// Takes another value into account.
    pub(crate) fn see(&mut self, text: &[u8]) {
        self.is_empty = false;
        self.boolean = self.boolean && [&b"true"[..], b"false"].iter().any(|word| text.eq_ignore_ascii_case(word));
        self.integer = self.integer && !text.contains(&b'.') && integer(text).is_ok();
        self.double = self.double && double(text).is_ok();
        self.date = self.date && date(text).is_ok();
        self.timestamp = self.timestamp && moment(text).is_ok();
        self.has_digits = self.has_digits || text.iter().any(u8::is_ascii_digit);
    }

    /// Both values that were seen here and there.
    fn and(self, other: Self) -> Self {
        Self {
            boolean: self.boolean && other.boolean,
            integer: self.integer && other.integer,
            double: self.double && other.double,
            date: self.date && other.date,
            timestamp: self.timestamp && other.timestamp,
            has_digits: self.has_digits || other.has_digits,
            is_empty: self.is_empty && other.is_empty,
        }
    }

    /// The narrowest type; text where nothing was seen. Words like `nan` alone make no number.
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            seen if seen.is_empty => DataType::Utf8,
            seen if seen.boolean => DataType::Boolean,
            seen if seen.integer => DataType::Int64,
            seen if seen.double && seen.has_digits => DataType::Float64,
            seen if seen.date => DataType::Date32,
            seen if seen.timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            _ => DataType::Utf8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_core::types::sql_name;

    fn columns(csv: &Csv, text: &str) -> String {
        let Some(schema) = infer(csv, text.as_bytes(), true).unwrap() else { return "none".into() };
        let column = |f: &Arc<Field>| format!("{} {}", f.name(), sql_name(f.data_type()));
        schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(columns(&Csv::default(), text), expected, "{text:?}");
    }

    #[test]
    fn a_header_stands_out_from_the_types_below() {
        check("a,b\n1,x\n,y\n", "a BIGINT, b STRING");
        check("1,x\n2,y\n", "column0 BIGINT, column1 STRING");
        check("code,name\nAA,American\n", "code STRING, name STRING");
        check("a,A,,a\n1,2,3,4", "a BIGINT, A BIGINT, column2 BIGINT, a_1 BIGINT");
        check("a,b\n", "a STRING, b STRING");
        check("1,2\n", "column0 BIGINT, column1 BIGINT");
        check("\n\n", "none");
        let csv = Csv { header: Some(false), ..Csv::default() };
        assert_eq!(columns(&csv, "a,1\nb,2"), "column0 STRING, column1 BIGINT");
    }

    #[test]
    fn types_widen_to_what_all_values_are() {
        check("v\n1\n2.5\n", "v DOUBLE");
        check("v\n9223372036854775808\n", "v DOUBLE");
        check("v\n2013-01-01\n2013-01-02\n", "v DATE");
        check("v\n2013-01-01\n2013-01-02T00:00:00Z\n", "v TIMESTAMP");
        check("v\ntrue\nFALSE\n", "v BOOLEAN");
        check("v\n1\nx\n", "v STRING");
        check("v,w\nNAN,1\n", "v STRING, w BIGINT");
        check("v\nnan\n1.0\n", "v DOUBLE");
        check("v,w\n1,\"two\nlines\"\n2,\"", "v BIGINT, w STRING");
        let csv = Csv { null: "NA".into(), ..Csv::default() };
        assert_eq!(columns(&csv, "v\nNA\n1\n"), "v BIGINT");
    }

    #[test]
    fn a_record_that_is_cut_off_does_not_count() {
        let schema = infer(&Csv::default(), b"v\n1\n2x", false).unwrap().unwrap();
        assert_eq!(schema.field(0).data_type(), &DataType::Int64);
    }
}
