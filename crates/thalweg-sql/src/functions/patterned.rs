//! `TO_TIMESTAMP(text, pattern)` and `TO_DATE(text, pattern)`. What a pattern leaves out is filled in as in Flink: the year
//! 1970, the first month and day, midnight, and zeros behind the hour. DataFusion forgets hours that have no minutes.

use std::sync::Arc;

use arrow_array::{Array, Date32Array, TimestampMicrosecondArray, cast::AsArray};
use arrow_schema::{DataType, TimeUnit};
use chrono::format::{Item, Parsed, StrftimeItems, parse};
use datafusion_common::{DataFusionError, Result, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::forms::strftime;

const DAY: i64 = 86_400_000_000;

/// The function in the place of DataFusion's of that name, if it is one that reads patterns.
pub(super) fn patterned(name: &str) -> Option<Arc<ScalarUDF>> {
    const NAMES: [&str; 6] = [
        "to_timestamp",
        "to_timestamp_seconds",
        "to_timestamp_millis",
        "to_timestamp_micros",
        "to_timestamp_nanos",
        "to_date",
    ];
    let name = NAMES.into_iter().find(|known| *known == name)?;
    Some(Arc::new(ScalarUDF::from(Patterned {
        name,
        signature: Signature::variadic(vec![DataType::Utf8], Volatility::Immutable),
    })))
}

/// Whether this is one of them already.
pub(super) fn is_patterned(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<Patterned>().is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Patterned {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Patterned {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.name == "to_date" { DataType::Date32 } else { DataType::Timestamp(TimeUnit::Microsecond, None) })
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = call.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { call.number_rows };
        let texts = call.args[0].to_array(rows)?;
        let texts = texts.as_string::<i32>();
        let patterns = call.args[1..].iter().map(|pattern| Patterns::of(pattern, rows));
        let patterns = patterns.collect::<Result<Vec<_>>>()?;
        let read = |row: usize| -> Result<Option<i64>> {
            if texts.is_null(row) {
                return Ok(None);
            }
            let mut failure = None;
            for pattern in &patterns {
                match pattern.read(texts.value(row), row)? {
                    Read::Null => return Ok(None),
                    Read::Time(micros) => return Ok(Some(micros)),
                    Read::Not(message) => failure = failure.or(Some(message)),
                }
            }
            Err(DataFusionError::Execution(failure.unwrap_or_default()))
        };
        let times = (0..rows).map(read);
        let values: Arc<dyn Array> = if self.name == "to_date" {
            let day = |micros: i64| micros.div_euclid(DAY) as i32;
            Arc::new(times.map(|time| Ok(time?.map(day))).collect::<Result<Date32Array>>()?)
        } else {
            Arc::new(times.collect::<Result<TimestampMicrosecondArray>>()?)
        };
        if is_constant {
            return Ok(ColumnarValue::Scalar(datafusion_common::ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }
}

/// One pattern for all rows, or one for each.
enum Patterns {
    Same(Option<Pattern>),
    Each(Arc<dyn Array>),
}

enum Read {
    Null,
    Time(i64),
    Not(String),
}

impl Patterns {
    fn of(argument: &ColumnarValue, rows: usize) -> Result<Self> {
        match argument {
            ColumnarValue::Scalar(scalar) => {
                Ok(Self::Same(scalar.try_as_str().flatten().map(Pattern::of).transpose()?))
            }
            ColumnarValue::Array(_) => Ok(Self::Each(argument.to_array(rows)?)),
        }
    }

    fn read(&self, text: &str, row: usize) -> Result<Read> {
        let read = |pattern: &Pattern| match pattern.read(text) {
            Ok(micros) => Read::Time(micros),
            Err(why) => Read::Not(format!("'{text}' is not written as '{}': {why}", pattern.written)),
        };
        match self {
            Self::Same(None) => Ok(Read::Null),
            Self::Same(Some(pattern)) => Ok(read(pattern)),
            Self::Each(patterns) if patterns.is_null(row) => Ok(Read::Null),
            Self::Each(patterns) => Ok(read(&Pattern::of(patterns.as_string::<i32>().value(row))?)),
        }
    }
}

struct Pattern {
    written: String,
    items: Vec<Item<'static>>,
}

impl Pattern {
    fn of(written: &str) -> Result<Self> {
        let letters = strftime(written);
        let items = letters.ok().and_then(|letters| StrftimeItems::new(&letters).parse_to_owned().ok());
        match items {
            Some(items) => Ok(Self { written: written.to_string(), items }),
            None => exec_err!("'{written}' is no pattern of times"),
        }
    }

    /// Microseconds since 1970, of text without an offset in UTC.
    fn read(&self, text: &str) -> Result<i64, String> {
        let mut parsed = Parsed::new();
        parse(&mut parsed, text, self.items.iter()).map_err(|error| error.to_string())?;
        filled(&mut parsed)?;
        let offset = parsed.offset().unwrap_or(0);
        let local = parsed.to_naive_datetime_with_offset(offset).map_err(|error| error.to_string())?;
        Ok(local.and_utc().timestamp_micros() - i64::from(offset) * 1_000_000)
    }
}

/// Fills in what the pattern does not have.
fn filled(parsed: &mut Parsed) -> Result<(), String> {
    if parsed.timestamp().is_some() {
        return Ok(());
    }
    let wrong = |error: chrono::ParseError| error.to_string();
    if parsed.to_naive_date().is_err() {
        let has_year = [parsed.year(), parsed.year_div_100(), parsed.year_mod_100(), parsed.isoyear()];
        if has_year.iter().all(Option::is_none) && parsed.isoyear_mod_100().is_none() {
            parsed.set_year(1970).map_err(wrong)?;
        }
        let has_week = [parsed.week_from_sun(), parsed.week_from_mon(), parsed.isoweek()];
        if parsed.ordinal().is_none() && has_week.iter().all(Option::is_none) {
            if parsed.month().is_none() {
                parsed.set_month(1).map_err(wrong)?;
            }
            if parsed.day().is_none() {
                parsed.set_day(1).map_err(wrong)?;
            }
        }
    }
    match (parsed.hour_div_12(), parsed.hour_mod_12()) {
        (None, Some(_)) => return Err("hours up to 12 need AM or PM".into()),
        (None, None) => parsed.set_hour(0).map_err(wrong)?,
        (Some(half), None) => parsed.set_hour(i64::from(half) * 12).map_err(wrong)?,
        (Some(_), Some(_)) => {}
    }
    if parsed.minute().is_none() {
        parsed.set_minute(0).map_err(wrong)?;
    }
    if parsed.second().is_none() {
        parsed.set_second(0).map_err(wrong)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, pattern: &str) -> Result<String, String> {
        let micros = Pattern::of(pattern).unwrap().read(text)?;
        Ok(chrono::DateTime::from_timestamp_micros(micros).unwrap().format("%FT%T%.f").to_string())
    }

    #[test]
    fn what_a_pattern_leaves_out_is_filled_in() {
        for (text, pattern, expected) in [
            ("2013-02-01 10", "yyyy-MM-dd HH", "2013-02-01T10:00:00"),
            ("2013-02-01 10 PM", "yyyy-MM-dd hh a", "2013-02-01T22:00:00"),
            ("2013-02-01 12 AM", "yyyy-MM-dd hh a", "2013-02-01T00:00:00"),
            ("2013-02-01 10", "%Y-%m-%d %H", "2013-02-01T10:00:00"),
            ("2013-02-01", "yyyy-MM-dd", "2013-02-01T00:00:00"),
            ("2013-02", "yyyy-MM", "2013-02-01T00:00:00"),
            ("2013", "yyyy", "2013-01-01T00:00:00"),
            ("2013 060", "yyyy DDD", "2013-03-01T00:00:00"),
            ("10:15", "HH:mm", "1970-01-01T10:15:00"),
            ("15.250", "ss.SSS", "1970-01-01T00:00:15.250"),
            ("2013-02-01 10 +0200", "yyyy-MM-dd HH Z", "2013-02-01T08:00:00"),
            ("1359712800", "%s", "2013-02-01T10:00:00"),
        ] {
            assert_eq!(read(text, pattern).as_deref(), Ok(expected), "{text} {pattern}");
        }
    }

    #[test]
    fn text_that_is_no_time_is_an_error() {
        assert!(read("2013-02-01 10", "yyyy-MM-dd hh").unwrap_err().contains("AM or PM"));
        for (text, pattern) in
            [("2013-13", "yyyy-MM"), ("2013-02-30", "yyyy-MM-dd"), ("2013-02-01 1x", "yyyy-MM-dd HH")]
        {
            assert!(read(text, pattern).is_err(), "{text}");
        }
        assert!(Pattern::of("yyyy VV").is_err());
    }
}
