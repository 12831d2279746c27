//! What DataFusion says of OVER, in our words.

use thalweg_core::Error;

use crate::script::Words;

/// The parts of a message that give it away, what is said, and what to do.
const SAYINGS: [(&str, &str, &str); 9] = [
    (
        "Aggregate ORDER BY is not implemented for window",
        "a call with OVER has no order of its own",
        "leave ORDER BY out: rows stand in the order of the window",
    ),
    (
        "OVER and WITHIN GROUP clause cannot be used together",
        "WITHIN GROUP and OVER do not stand behind one call",
        "write the value as the first argument: percentile_cont(x, 0.5) OVER (…)",
    ),
    (
        "requires exactly one ORDER BY column",
        "a frame of RANGE asks for one ORDER BY: that of the event time",
        "write OVER (PARTITION BY … ORDER BY ts RANGE …)",
    ),
    (
        "frame offsets for ROWS",
        "ROWS counts rows, and no whole number of them stands here",
        "write ROWS BETWEEN 9 PRECEDING AND CURRENT ROW",
    ),
    (
        "frame offsets for RANGE",
        "a frame of RANGE reaches a span of time that is written in the query",
        "write RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW",
    ),
    (
        "INTERVAL expression cannot be",
        "a frame of RANGE reaches a span of time that is written in the query",
        "write RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW",
    ),
    (
        "start bound cannot be UNBOUNDED FOLLOWING",
        "the frame begins behind the last row",
        "begin it with UNBOUNDED PRECEDING, or a span before the row",
    ),
    (
        "end bound cannot be UNBOUNDED PRECEDING",
        "the frame ends before the first row",
        "end it with CURRENT ROW, or a span around the row",
    ),
    ("GROUPS requires an ORDER BY", "GROUPS is not there", "write RANGE or ROWS"),
];

/// The error that a message is about OVER.
pub(super) fn message(message: &str, words: &Words) -> Option<Error> {
    if message.starts_with("Window function calls cannot be nested") || message.contains("contain window function") {
        let error = Error::query("OVER stands in a call of an aggregate");
        let error = error.with_hint("compute the inner one in a subquery in FROM");
        return Some(words.find_keywords("OVER").into_iter().fold(error, Error::at));
    }
    let (_, saying, hint) = SAYINGS.iter().find(|(part, ..)| message.contains(part))?;
    Some(Error::query(*saying).with_hint(*hint))
}
