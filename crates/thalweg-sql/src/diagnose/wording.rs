//! What is left of Arrow's and DataFusion's words in a message, wherever it comes from.

use thalweg_core::{Error, error::Fault};

use super::messages::{between, flink_words};

/// Words that nobody wrote who writes SQL.
const FOREIGN: [&str; 12] = [
    "Decimal128",
    "Decimal256",
    "Utf8",
    "Time64",
    "Date32",
    "IntervalMonthDayNano",
    "MonthDayNano",
    "Wildcard {",
    "physical plan",
    "DataFusion",
    "HexString",
    "__common_expr",
];

const FITS: &str = "TRY_CAST gives null where a value does not fit";

/// The parts of a message that give it away, what is said, and what to do.
const SAYINGS: [(&str, &str, &str); 8] = [
    ("nested_expressions", "arrays are not there yet: columns are flat", "write one column per element"),
    ("Wildcard {", "* is not an argument of this function", "name a column; count(*) counts rows"),
    ("DATE_BIN stride must be non-zero", "the width of date_bin is zero", "write an INTERVAL that is longer"),
    (
        "must be non-null scalar Utf8",
        "the unit of date_trunc must be a text that is written in the query",
        "write it: date_trunc('hour', x)",
    ),
    (
        "LIKE does not support escape_char",
        "LIKE with ESCAPE is not there yet: the backslash escapes",
        "write \\% and \\_ for the letters themselves",
    ),
    (
        "COUNT DISTINCT with multiple arguments",
        "count(DISTINCT …) of several columns is not there yet",
        "put them together: count(DISTINCT concat_ws('|', a, b))",
    ),
    ("to grouping function is not in", "grouping(…) has no meaning without GROUPING SETS", "leave it out"),
    ("to Date32 for converting from", "the text is not a value of type DATE", "write it as '2013-02-28'"),
];

/// The error in words of SQL.
pub(crate) fn in_our_words(error: Error) -> Error {
    if error.fault() == Fault::Bug {
        return error;
    }
    let message = error.message().to_string();
    let has_hint = error.hint().is_some();
    let hinted = |error: Error, hint: &str| if has_hint { error } else { error.with_hint(hint) };
    let is_in = |part: &str| message.to_lowercase().contains(&part.to_lowercase());
    if let Some((_, saying, hint)) = SAYINGS.iter().find(|(part, ..)| is_in(part)) {
        return hinted(error.with_message(*saying), hint);
    }
    if let Some((saying, hint)) = said(&message) {
        return hinted(error.with_message(saying), hint);
    }
    let plain = flink_words(&message);
    if FOREIGN.iter().any(|word| plain.contains(word)) {
        return hinted(error.with_message("this cannot be computed"), "write it in another way, or cast its parts");
    }
    if plain == message { error } else { error.with_message(plain) }
}

/// Messages with something in them that is worth keeping.
fn said(message: &str) -> Option<(String, &'static str)> {
    for (lead, word) in
        [(" is too large to store in a Decimal", "largest"), (" is too small to store in a Decimal", "least")]
    {
        if let Some((value, rest)) = message.split_once(lead) {
            let value = value.rsplit(' ').next()?;
            let bound = rest.split_once(". Max is ").or(rest.split_once(". Min is "))?.1;
            let bound = bound.split(' ').next()?.trim_end_matches('.');
            let precision: String = rest.split_once("precision ")?.1.chars().take_while(char::is_ascii_digit).collect();
            let scale = bound.split_once('.').map_or(0, |(_, digits)| digits.len());
            return Some((
                format!("{value} does not fit into DECIMAL({precision}, {scale}): the {word} is {bound}"),
                FITS,
            ));
        }
    }
    if let Some((_, rest)) = message.split_once("annot get result type for decimal operation ") {
        let operation = flink_words(rest.split_once(": ")?.0);
        let hint = "cast one side to fewer digits, or to DOUBLE";
        return Some((format!("the digits of {operation} do not fit into a DECIMAL"), hint));
    }
    if message.contains("converted value exceeds")
        && let Some((value, _)) = between(message, " value ", " to ")
    {
        return Some((format!("{value} is out of range of TIMESTAMP"), "the years are those from -290307 to 294246"));
    }
    if message.contains("annot cast to INTERVAL. Overflowing on ") {
        return Some(("the number of days is too large for a date".to_string(), "add fewer days"));
    }
    if let Some((text, rest)) = between(message, "error parsing timestamp from '", "' using format '")
        && let Some((_, rest)) = rest.split_once("': ")
    {
        return Some((
            format!("'{text}' does not follow the pattern: {rest}"),
            "write the pattern as the text is written",
        ));
    }
    if let Some((digits, _)) = between(message, "nvalid HexStringLiteral '", "'") {
        let hint = "write two of the digits 0 to 9 and A to F for each byte";
        return Some((format!("X'{digits}' is not a value of type BYTES"), hint));
    }
    if let Some((_, found)) = message.split_once("operator 'NOT' requires a boolean expression, got ") {
        return Some((
            format!("NOT stands before {}, expected BOOLEAN", flink_words(found)),
            "compare it with something: x > 0",
        ));
    }
    if let Some((_, found)) = message.split_once("for logical boolean operation ") {
        return Some((
            format!("AND and OR join BOOLEANs, found {}", flink_words(found)),
            "compare with something: x > 0",
        ));
    }
    let reason = regex(message).filter(|reason| *reason != message)?;
    Some((
        format!("the regular expression is wrong: {reason}"),
        "a letter with a meaning is escaped with a backslash: \\(",
    ))
}

/// The reason out of the drawing that the library for regular expressions makes.
pub(super) fn regex(message: &str) -> Option<&str> {
    message.contains("regex parse error").then_some(())?;
    message.lines().find_map(|line| line.trim().strip_prefix("error: "))
}

/// The names of types that have parts.
pub(super) fn types(text: &str) -> String {
    let mut text = text.to_string();
    for (theirs, ours) in [
        ("Timestamp(µs, \"UTC\")", "TIMESTAMP_LTZ(6)"),
        ("Timestamp(µs)", "TIMESTAMP(6)"),
        ("Timestamp(us)", "TIMESTAMP(6)"),
        ("Timestamp(ns)", "TIMESTAMP"),
        ("Timestamp(ms)", "TIMESTAMP(3)"),
        ("Timestamp(s)", "TIMESTAMP(0)"),
        ("of type TIMESTAMP(9)", "of type TIMESTAMP"),
        ("Time64(µs)", "TIME"),
        ("Time64(ns)", "TIME"),
        ("Interval(MonthDayNano)", "INTERVAL"),
        ("Duration(µs)", "INTERVAL"),
        ("Decimal128(", "DECIMAL("),
        ("Decimal256(", "DECIMAL("),
    ] {
        text = text.replace(theirs, ours);
    }
    text
}
