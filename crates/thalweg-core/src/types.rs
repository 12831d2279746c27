//! What Arrow's types are called in SQL.

use arrow_schema::{DataType, TimeUnit};

/// What a type is called in SQL, for errors.
///
/// ```
/// assert_eq!(thalweg_core::types::sql_name(&arrow_schema::DataType::Utf8), "STRING");
/// ```
pub fn sql_name(kind: &DataType) -> String {
    use DataType::*;
    let name = match kind {
        Null => "NULL",
        Boolean => "BOOLEAN",
        Int8 => "TINYINT",
        Int16 => "SMALLINT",
        Int32 => "INT",
        Int64 => "BIGINT",
        UInt8 => "TINYINT UNSIGNED",
        UInt16 => "SMALLINT UNSIGNED",
        UInt32 => "INT UNSIGNED",
        UInt64 => "BIGINT UNSIGNED",
        Float32 => "FLOAT",
        Float64 => "DOUBLE",
        Utf8 | LargeUtf8 | Utf8View => "STRING",
        Binary | LargeBinary | BinaryView => "BYTES",
        Decimal128(precision, scale) | Decimal256(precision, scale) => return format!("DECIMAL({precision}, {scale})"),
        Date32 => "DATE",
        Time32(_) | Time64(_) => "TIME",
        Timestamp(TimeUnit::Microsecond, None) => "TIMESTAMP",
        Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP(9)",
        Timestamp(_, None) => "TIMESTAMP",
        Timestamp(_, Some(_)) => "TIMESTAMP_LTZ",
        Interval(_) | Duration(_) => "INTERVAL",
        other => return other.to_string(),
    };
    name.into()
}
