//! Intervals with several units: `INTERVAL '1-2' YEAR TO MONTH`, `INTERVAL '1 10:00:00' DAY TO SECOND`.

use sqlparser::ast::{DateTimeField, Expr, Interval, Spanned, Value, ValueWithSpan};
use thalweg_core::{Error, Result};

use crate::script;

/// The units from largest to smallest, and what follows each number in the text.
const UNITS: [(DateTimeField, &str, char); 6] = [
    (DateTimeField::Year, "YEAR", '-'),
    (DateTimeField::Month, "MONTH", ' '),
    (DateTimeField::Day, "DAY", ' '),
    (DateTimeField::Hour, "HOUR", ':'),
    (DateTimeField::Minute, "MINUTE", ':'),
    (DateTimeField::Second, "SECOND", ' '),
];

/// An interval from one unit to another, as one that names the unit of each number.
pub(super) fn interval(interval: &Interval) -> Result<Option<Expr>> {
    let at = script::span(interval.value.span());
    if interval.leading_field.is_none()
        && let Some(number) = bare_number(&interval.value)
    {
        // A unit that the parser does not know it takes for the name of the column.
        return Err(Error::query(format!("INTERVAL {number} has no unit that is known"))
            .with_hint(
                "the units are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND and MICROSECOND",
            )
            .at(at));
    }
    let (Some(first), Some(last)) = (&interval.leading_field, &interval.last_field) else { return Ok(None) };
    let place = |field: &DateTimeField| UNITS.iter().position(|(unit, ..)| unit == field);
    let units = match (place(first), place(last)) {
        // Months have no fixed number of days.
        (Some(first), Some(last)) if first < last && (first >= 2) == (last >= 2) => &UNITS[first..=last],
        _ => {
            return Err(Error::query(format!("there are no intervals {first} TO {last}"))
                .with_hint("there are YEAR TO MONTH, and DAY, HOUR and MINUTE TO a smaller unit")
                .at(at));
        }
    };
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), span }) = &*interval.value else {
        return Err(Error::query(format!("an interval {first} TO {last} is a text, as in {}", example(units))).at(at));
    };
    let wrong = || {
        Error::query(format!("'{text}' is no interval {first} TO {last}"))
            .with_hint(format!("write INTERVAL {} {first} TO {last}", example(units)))
            .at(at)
    };
    let (sign, mut rest) = match text.trim().strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.trim().trim_start_matches('+')),
    };
    let mut parts = Vec::new();
    for (i, (_, unit, behind)) in units.iter().enumerate() {
        let is_last = i + 1 == units.len();
        let (number, after) = if is_last { (rest, "") } else { rest.split_once(*behind).ok_or_else(wrong)? };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let has_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let may_break = number == whole || *unit == "SECOND";
        if !has_digits(whole) || !has_digits(fraction) || !may_break {
            return Err(wrong());
        }
        // The first unit is free, and the others fill up the one before.
        let most = match *unit {
            "MONTH" => 11,
            "HOUR" => 23,
            _ => 59,
        };
        if i > 0 && whole.parse::<u64>().ok().is_none_or(|value| value > most) {
            return Err(wrong());
        }
        parts.push(format!("{sign}{number} {unit}"));
        rest = after;
    }
    let value = Value::SingleQuotedString(parts.join(" ")).with_span(*span);
    Ok(Some(Expr::Interval(Interval {
        value: Box::new(Expr::Value(value)),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })))
}

/// The value of an interval as it is written, if it is nothing but a number.
fn bare_number(value: &Expr) -> Option<String> {
    let Expr::Value(ValueWithSpan { value, .. }) = value else { return None };
    let digits = match value {
        Value::Number(digits, _) | Value::SingleQuotedString(digits) => digits,
        _ => return None,
    };
    digits.trim().parse::<f64>().is_ok().then(|| value.to_string())
}

fn example(units: &[(DateTimeField, &str, char)]) -> String {
    let mut text = String::new();
    for (i, (_, unit, behind)) in units.iter().enumerate() {
        text += match (i, *unit) {
            (0, _) | (_, "MONTH") => "1",
            _ => "30",
        };
        if i + 1 < units.len() {
            text.push(*behind);
        }
    }
    format!("'{}'", text.replace("1 30:", "1 12:"))
}
