//! What the options of a generated table say about its columns.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};
use thalweg_core::{
    Error, Result, Timestamp,
    connector::{Options, TableDefinition, parse_interval},
    types::sql_name,
};

use super::{fill::Spacing, kinds::Kind, rate::Rate};
use crate::{
    columns::Columns,
    text::{
        number,
        time::{self, DAY, SECOND},
        zone::Zone,
    },
};

/// The longest text that is made, in bytes.
const LENGTH_LIMIT: usize = 1 << 20;

/// What the options say about one column.
pub(super) struct Said<'a> {
    pub(super) field: &'a FieldRef,
    pub(super) options: &'a Options,
}

/// A kind, how many rows it can make, and whether the user said where it ends.
type Ending = (Kind, Option<u64>, bool);

impl Said<'_> {
    /// How the column is filled.
    pub(super) fn kind(&self, rate: Option<Rate>) -> Result<Ending> {
        let default = match self.field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string",
            DataType::Timestamp(TimeUnit::Microsecond, _) => "time",
            _ => "random",
        };
        match self.get("kind").unwrap_or(default) {
            "random" => Ok((self.random()?, None, false)),
            "sequence" => self.sequence(),
            "choice" => Ok((self.choice()?, None, false)),
            "string" => Ok((self.string()?, None, false)),
            "time" => self.time(rate),
            other => {
                let known = "expected 'random', 'sequence', 'choice', 'string' or 'time'";
                Err(Error::query(format!("option '{}' is '{other}', {known}", self.key("kind"))))
            }
        }
    }

    fn random(&self) -> Result<Kind> {
        self.check(&["min", "max"])?;
        match self.field.data_type() {
            DataType::Boolean => {
                self.check(&[])?;
                Ok(Kind::Booleans)
            }
            DataType::Float32 | DataType::Float64 => {
                let bound = |key, default| self.value(key, "a number", default, |text| number::double(text).ok());
                let (min, max) = (bound("min", 0.0)?, bound("max", 1.0)?);
                self.ordered(min <= max && (max - min).is_finite())?;
                Ok(Kind::Doubles(min, max))
            }
            DataType::Decimal128(precision, scale) => {
                let most = 10i128.pow((*precision).into()) - 1;
                let read = |text: &[u8]| number::decimal(text, *precision, *scale).ok();
                let what = sql_name(self.field.data_type());
                let (min, max) = (self.value("min", &what, 0, read)?, self.value("max", &what, most, read)?);
                self.ordered(min <= max)?;
                Ok(Kind::Decimals(min, max))
            }
            data_type => {
                let (least, most) = range(data_type).ok_or_else(|| self.unfit("random"))?;
                let (min, max) = (self.whole("min", least)?, self.whole("max", most)?);
                self.ordered(min <= max)?;
                Ok(Kind::Integers(min, max))
            }
        }
    }

    fn sequence(&self) -> Result<Ending> {
        self.check(&["start", "step", "end"])?;
        // Doubles hold whole numbers exactly up to 2^53.
        let (least, most) = match self.field.data_type() {
            DataType::Float32 => (-(1 << 24), 1 << 24),
            DataType::Float64 => (-(1 << 53), 1 << 53),
            DataType::Decimal128(precision, scale) => {
                let digits = (i32::from(*precision) - i32::from(*scale)).clamp(0, 18) as u32;
                (1 - 10i64.pow(digits), 10i64.pow(digits) - 1)
            }
            DataType::Timestamp(..) | DataType::Time64(_) => return Err(self.unfit("sequence")),
            DataType::Date32 => (i32::MIN.into(), i32::MAX.into()),
            data_type => range(data_type).ok_or_else(|| self.unfit("sequence"))?,
        };
        let start = self.whole("start", 0)?;
        let step = self.value("step", "a whole number other than 0", 1, |text| {
            number::integer(text).ok().filter(|step| *step != 0)
        })?;
        let end = self.whole("end", if step > 0 { most } else { least })?;
        let is_in_range = |value| (least..=most).contains(&value);
        self.ordered(is_in_range(start) && is_in_range(end) && if step > 0 { start <= end } else { end <= start })?;
        let rows = (i128::from(end) - i128::from(start)) / i128::from(step) + 1;
        Ok((Kind::Sequence(start, step), u64::try_from(rows).ok(), self.get("end").is_some()))
    }

    fn choice(&self) -> Result<Kind> {
        self.check(&["values"])?;
        let values = self.options.required(&self.key("values"))?;
        let field = Field::new(self.field.name(), self.field.data_type().clone(), true);
        let columns = Arc::new(Schema::new(vec![field]));
        let table = TableDefinition { name: String::new(), columns, options: Options::default(), time: None };
        let mut columns = Columns::new(&table)?;
        for value in values.split(',').map(str::trim) {
            let column = &mut columns.each()[0];
            if let Err(wrong) = column.push(value.as_bytes()) {
                let what = column.describe(wrong, value.as_bytes());
                return Err(Error::query(format!("option '{}': {what}", self.key("values"))));
            }
            columns.commit();
        }
        Ok(Kind::Choice(columns.take()?.column(0).clone()))
    }

    fn string(&self) -> Result<Kind> {
        self.check(&["length"])?;
        if !matches!(self.field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            return Err(self.unfit("string"));
        }
        let what = format!("a number of at most {LENGTH_LIMIT}");
        let length = self.value("length", &what, 16, |text| {
            number::unsigned(text).ok().and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= LENGTH_LIMIT)
        })?;
        Ok(Kind::Letters(length))
    }

    fn time(&self, rate: Option<Rate>) -> Result<Ending> {
        self.check(&["start", "step", "disorder"])?;
        if !matches!(self.field.data_type(), DataType::Timestamp(TimeUnit::Microsecond, _)) {
            return Err(self.unfit("time"));
        }
        let start = self.whole("start", 0)?;
        let interval = |text: &[u8]| std::str::from_utf8(text).ok().and_then(parse_interval).map(|i| i.0);
        let disorder = self.value("disorder", "a duration such as '5 s'", 0, interval)?;
        let spacing = match (self.get("step"), rate) {
            (None, Some(rate)) => Spacing::PerSecond(rate),
            _ => Spacing::Micros(self.value("step", "a duration such as '10 ms'", 1_000, interval)?),
        };
        self.ordered(start.checked_sub(disorder).is_some_and(|least| Timestamp(least).is_in_range()))?;
        Ok((Kind::Times { start, spacing, disorder }, Some(spacing.rows(start)), false))
    }

    /// How many in 2^64 values are null.
    pub(super) fn null_rate(&self, is_time: bool) -> Result<Option<u64>> {
        let rate = self.value("null-rate", "a number from 0 to 1", 0.0, |text| {
            number::double(text).ok().filter(|rate| (0.0..=1.0).contains(rate))
        })?;
        if rate > 0.0 && (is_time || !self.field.is_nullable()) {
            let why = if is_time { "carries event time" } else { "is declared NOT NULL" };
            return Err(Error::query(format!("option '{}': the column {why}", self.key("null-rate"))));
        }
        Ok((rate > 0.0).then_some((rate * 2f64.powi(64)) as u64))
    }

    fn key(&self, key: &str) -> String {
        format!("fields.{}.{key}", self.field.name())
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.options.get(&self.key(key))
    }

    /// Refuses options of this column that its kind does not have.
    fn check(&self, known: &[&str]) -> Result<()> {
        let prefix = self.key("");
        let own =
            |(key, _): (&str, _)| key.strip_prefix(&prefix).filter(|rest| !rest.contains('.')).map(str::to_string);
        let known = [&["kind", "null-rate"], known].concat();
        match self.options.iter().filter_map(own).find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let known = known.iter().map(|k| format!("'{}'", self.key(k))).collect::<Vec<_>>().join(", ");
                Err(Error::query(format!("option '{}' does not go with this kind of column", self.key(&key)))
                    .with_hint(format!("the options here are {known}")))
            }
        }
    }

    fn value<T>(&self, key: &str, what: &str, default: T, read: impl Fn(&[u8]) -> Option<T>) -> Result<T> {
        let Some(text) = self.get(key) else { return Ok(default) };
        read(text.trim().as_bytes())
            .ok_or_else(|| Error::query(format!("option '{}' is '{text}', expected {what}", self.key(key))))
    }

    /// A value of the column's type as a whole number: days, microseconds, or the number itself.
    fn whole(&self, key: &str, default: i64) -> Result<i64> {
        let data_type = self.field.data_type();
        let zone = match data_type {
            DataType::Timestamp(_, zone) => Zone::new(zone.as_deref())?,
            _ => Zone::Utc,
        };
        let read = |text: &[u8]| match data_type {
            DataType::Date32 => time::date(text).ok().map(i64::from),
            DataType::Time64(_) => time::time_of_day(text).ok(),
            DataType::Timestamp(..) => time::moment(text).ok().and_then(|moment| match moment.offset {
                Some(offset) => moment.clock.checked_sub(offset * SECOND),
                None => Some(zone.instant(moment.clock)),
            }),
            _ => {
                number::integer(text).ok().filter(|n| range(data_type).is_none_or(|(min, max)| (min..=max).contains(n)))
            }
        };
        self.value(key, &format!("a value of type {}", sql_name(data_type)), default, read)
    }

    fn ordered(&self, is_ordered: bool) -> Result<()> {
        match is_ordered {
            true => Ok(()),
            false => Err(Error::query(format!("the options 'fields.{}.*' leave no value in range", self.field.name()))),
        }
    }

    fn unfit(&self, kind: &str) -> Error {
        let (name, type_name) = (self.field.name(), sql_name(self.field.data_type()));
        Error::query(format!("column \"{name}\" is {type_name}, which kind '{kind}' cannot make")).with_hint(format!(
            "give it values: '{}' = 'choice', '{}' = 'a,b'",
            self.key("kind"),
            self.key("values")
        ))
    }
}

/// The values of a type that is made of whole numbers.
fn range(data_type: &DataType) -> Option<(i64, i64)> {
    /// 1970-01-01 to 2069-12-31.
    const DAYS: i64 = 36_525;
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN, i64::MAX),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, i64::MAX),
        DataType::Date32 => (0, DAYS - 1),
        DataType::Time64(TimeUnit::Microsecond) => (0, DAY - 1),
        DataType::Timestamp(TimeUnit::Microsecond, _) => (0, DAYS * DAY - 1),
        _ => return None,
    })
}
