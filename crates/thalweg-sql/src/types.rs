//! SQL's types and Arrow's: Flink's names, ANSI's and PostgreSQL's spellings.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use sqlparser::ast::{CharacterLength, DataType as SqlType, ExactNumberInfo, TimezoneInfo};
use thalweg_core::{Error, Result};

/// A type that columns have, for a type written in SQL.
///
/// Errors: `Error::Query` for types that columns cannot have yet, with the reason.
pub(crate) fn arrow_type(sql: &SqlType, zone: &str) -> Result<DataType> {
    use SqlType::*;
    Ok(match sql {
        Boolean | Bool => DataType::Boolean,
        TinyInt(None) => DataType::Int8,
        SmallInt(None) | Int2(None) => DataType::Int16,
        Int(None) | Integer(None) | Int4(None) => DataType::Int32,
        BigInt(None) | Int8(None) => DataType::Int64,
        Float(ExactNumberInfo::Precision(bits)) if *bits > 24 => DataType::Float64,
        Float(ExactNumberInfo::None | ExactNumberInfo::Precision(_)) | Real | Float4 => DataType::Float32,
        Double(ExactNumberInfo::None) | DoublePrecision | Float8 => DataType::Float64,
        Decimal(digits) | Numeric(digits) | Dec(digits) => decimal(digits)?,
        Char(n) | Character(n) | Varchar(n) | CharVarying(n) | CharacterVarying(n) | Nvarchar(n) => {
            check_length(sql, n)?;
            DataType::Utf8
        }
        String(None) | Text => DataType::Utf8,
        Binary(_) | Varbinary(_) | Bytes(None) | Bytea => DataType::Binary,
        Date => DataType::Date32,
        Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            check_digits("TIME", *digits)?;
            DataType::Time64(TimeUnit::Microsecond)
        }
        Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            check_digits("TIMESTAMP", *digits)?;
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        Timestamp(digits, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
            check_digits("TIMESTAMP_LTZ", *digits)?;
            instant(zone)
        }
        Custom(name, arguments) => return custom(&name.to_string(), arguments, zone),
        Interval { .. } => DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano),
        Array(_) | Map(..) | Struct(..) | Nested(_) | Tuple(_) | Union(_) => return Err(nested(&sql.to_string())),
        other => {
            let known = "the types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, \
                         BYTES, DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ";
            return Err(Error::query(format!("unknown type {other}")).with_hint(known));
        }
    })
}

/// An instant, shown in the session's zone.
pub(crate) fn instant(zone: &str) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from(zone)))
}

/// The refusal of types that contain others.
pub(crate) fn nested(what: &str) -> Error {
    Error::query(format!("type {what} is not there yet: columns are flat"))
        .with_hint("read the column as STRING, or declare its parts as columns of their own")
}

/// The type as Flink writes it.
pub(crate) fn flink_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "NULL",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => return format!("DECIMAL({p}, {s})"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTES",
        DataType::Date32 => "DATE",
        DataType::Time64(TimeUnit::Microsecond) => "TIME(6)",
        DataType::Timestamp(unit, None) => return format!("TIMESTAMP({})", digits(*unit)),
        DataType::Timestamp(unit, Some(_)) => return format!("TIMESTAMP_LTZ({})", digits(*unit)),
        DataType::Interval(_) => "INTERVAL",
        other => return other.to_string().to_uppercase(),
    }
    .to_string()
}

fn digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

fn decimal(digits: &ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match digits {
        ExactNumberInfo::None => (10, 0),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    let fits = (1..=38).contains(&precision) && (0..=precision as i64).contains(&scale);
    if !fits {
        let message = format!("type DECIMAL({precision}, {scale}) has no such precision or scale");
        return Err(Error::query(message).with_hint("precision is from 1 to 38, and scale from 0 to precision"));
    }
    Ok(DataType::Decimal128(precision as u8, scale as i8))
}

fn check_length(sql: &SqlType, length: &Option<CharacterLength>) -> Result<()> {
    match length {
        Some(CharacterLength::IntegerLength { length: 0, .. }) => {
            Err(Error::query(format!("type {sql} holds nothing, expected a length of at least 1")))
        }
        _ => Ok(()),
    }
}

fn check_digits(name: &str, digits: Option<u64>) -> Result<()> {
    match digits {
        Some(digits) if digits > 6 => {
            let message = format!("type {name}({digits}) is finer than time is kept: microseconds are the finest");
            Err(Error::query(message).with_hint(format!("declare it as {name}(6)")))
        }
        _ => Ok(()),
    }
}

fn custom(name: &str, arguments: &[String], zone: &str) -> Result<DataType> {
    let upper = name.to_uppercase();
    match upper.as_str() {
        "TIMESTAMP_LTZ" => {
            let digits = match arguments {
                [] => None,
                [digits] => Some(digits.parse().map_err(|_| Error::query(format!("unknown type {name}({digits})")))?),
                _ => return Err(Error::query(format!("type {name} has one argument, how many digits seconds have"))),
            };
            check_digits("TIMESTAMP_LTZ", digits)?;
            Ok(instant(zone))
        }
        "ROW" | "MAP" | "MULTISET" | "ARRAY" | "STRUCT" | "RAW" | "VARIANT" => Err(nested(&upper)),
        _ => arrow_type(&SqlType::JSONB, zone)
            .map_err(|known| Error::query(format!("unknown type {name}")).with_hint(known.hint().unwrap_or_default())),
    }
}
