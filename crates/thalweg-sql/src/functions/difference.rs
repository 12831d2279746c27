//! `TIMESTAMPDIFF(unit, from, to)`: how many whole units lie between two times.

use std::sync::Arc;

use arrow_array::{Array, Int64Array, cast::AsArray, types::TimestampMicrosecondType};
use arrow_schema::{DataType, TimeUnit};
use datafusion_common::{Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use thalweg_core::time::civil_from_days;

/// The name that the planner finds it under.
pub(super) const NAME: &str = "timestampdiff";

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TimestampDifference {
    signature: Signature,
}

impl TimestampDifference {
    pub fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TimestampDifference {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let [unit, from, to] = given else { return plan_err!("TIMESTAMPDIFF takes a unit and two times") };
        let zone = |kind: &DataType| match kind {
            DataType::Timestamp(_, zone) => Some(zone.clone()),
            DataType::Date32 | DataType::Null => Some(None),
            _ => None,
        };
        match (zone(from), zone(to)) {
            (Some(from), Some(to)) => {
                let time = DataType::Timestamp(TimeUnit::Microsecond, from.or(to));
                Ok(vec![unit.clone(), time.clone(), time])
            }
            _ => plan_err!("TIMESTAMPDIFF takes a unit and two times"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let unit = match &call.args[0] {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(unit))) => unit.clone(),
            _ => return exec_err!("the unit of TIMESTAMPDIFF is a constant"),
        };
        let times = ColumnarValue::values_to_arrays(&call.args[1..])?;
        let times: Vec<_> = times.iter().map(|times| times.as_primitive::<TimestampMicrosecondType>()).collect();
        let (from, to) = (times[0], times[1]);
        let both = |row: usize| from.is_valid(row) && to.is_valid(row);
        let counts = (0..from.len()).map(|row| both(row).then(|| count(&unit, from.value(row), to.value(row))));
        Ok(ColumnarValue::Array(Arc::new(counts.collect::<Int64Array>())))
    }
}

/// How many whole units lie between two times; negative, if the second is the earlier.
fn count(unit: &str, from: i64, to: i64) -> i64 {
    let micros = match unit {
        "MICROSECOND" => 1,
        "MILLISECOND" => 1000,
        "SECOND" => SECOND,
        "MINUTE" => 60 * SECOND,
        "HOUR" => 3600 * SECOND,
        "DAY" => DAY,
        "WEEK" => 7 * DAY,
        "QUARTER" => return months(from, to) / 3,
        "YEAR" => return months(from, to) / 12,
        _ => return months(from, to),
    };
    to.saturating_sub(from) / micros
}

/// Whole months: from the 15th at noon, the first ends on the next 15th at noon.
fn months(from: i64, to: i64) -> i64 {
    let month = |time: i64| {
        let (year, month, day) = civil_from_days(time.div_euclid(DAY));
        (year * 12 + month, (day, time.rem_euclid(DAY)))
    };
    let ((first, start), (last, end)) = (month(from), month(to));
    let between = last - first;
    match (from <= to, between) {
        (true, 1..) if end < start => between - 1,
        (false, ..=-1) if end > start => between + 1,
        _ => between,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_that_are_not_over_do_not_count() {
        assert_eq!(count("HOUR", 0, 3600 * SECOND - 1), 0);
        assert_eq!(count("HOUR", 0, 3600 * SECOND), 1);
        assert_eq!(count("HOUR", 3600 * SECOND, 0), -1);
        // 1970-01-15, 1970-02-14 and 1970-02-15
        assert_eq!((count("MONTH", 14 * DAY, 44 * DAY), count("MONTH", 14 * DAY, 45 * DAY)), (0, 1));
        assert_eq!((count("MONTH", 44 * DAY, 14 * DAY), count("MONTH", 45 * DAY, 14 * DAY)), (0, -1));
        assert_eq!((count("YEAR", 0, 365 * DAY), count("QUARTER", 0, 365 * DAY)), (1, 4));
    }
}
