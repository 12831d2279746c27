//! Errors in our words, with their place in the text.
//!
//! * [`caret`]: an error with the line of SQL that it is about
//! * [`messages`]: what DataFusion's planner says, in our words
//! * [`over`]: what it says of OVER
//! * [`wording`]: what is left of Arrow's and DataFusion's words, wherever it comes from
//! * [`culprit`]: which expression a query cannot be planned with
//! * [`frames`]: which frame of a window

mod caret;
mod culprit;
mod frames;
mod messages;
mod over;
mod wording;

use datafusion_common::{Column, DataFusionError, SchemaError, TableReference};
use sqlparser::{parser::ParserError, tokenizer::Token};
use thalweg_core::{
    Error,
    error::{Span, Subject, lower_first},
};

pub use caret::caret;
pub(crate) use culprit::place;
use messages::{between, flink_words, plain, plan_message};
pub(crate) use thalweg_core::near::near;
pub(crate) use wording::in_our_words;

use crate::{refuse, script::Words, windowing};

/// A token as messages name it.
pub(crate) fn quoted(token: &Token) -> String {
    match token {
        Token::EOF => "the end of the statement".to_string(),
        other => format!("\"{other}\""),
    }
}

/// What is nested deeper than the parser reads.
pub(crate) fn too_deep(at: Span) -> Error {
    Error::query("the statement is nested too deeply")
        .with_hint("name the inner parts in WITH, or make them views")
        .at(at)
}

/// What sqlparser could not read.
pub(crate) fn syntax(error: &ParserError, words: &Words) -> Error {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => {
            return too_deep(words.start());
        }
    };
    let (message, place) = match text.rsplit_once(" at Line: ") {
        Some((message, place)) => (message, place.split_once(", Column: ")),
        None => (text.as_str(), None),
    };
    let number = |digits: &str| digits.trim().parse::<usize>().ok().filter(|n| *n > 0);
    let at = place.and_then(|(line, column)| Some(words.at(number(line)?, number(column)?)));
    let message = match message.strip_prefix("Expected: ").and_then(|rest| rest.rsplit_once(", found: ")) {
        Some((what, "EOF")) => format!("expected {what}, found the end of the statement"),
        Some((what, found)) => format!("expected {what}, found \"{found}\""),
        None if message.starts_with("Expected an expression, found: ") => {
            format!(
                "expected an expression, found \"{}\"",
                message.trim_start_matches("Expected an expression, found: ").trim()
            )
        }
        None => lower_first(message.trim_start_matches("sql parser error: ")),
    };
    let mut at = at.unwrap_or(words.end());
    let mut here = words.tokens.iter().position(|token| crate::script::span(token.span) == at);
    // Of a keyword where an expression is expected, sqlparser says the place behind it.
    if let Some(i) = here.filter(|i| *i > 0 && !message.ends_with(&format!("\"{}\"", words.tokens[*i].token)))
        && message.ends_with(&format!("\"{}\"", words.tokens[i - 1].token))
    {
        at = crate::script::span(words.tokens[i - 1].span);
        here = Some(i - 1);
    }
    if message.starts_with("no infix parser for token")
        && let Some(i) = here
    {
        return Error::query(format!("there is no operator {}", quoted(&words.tokens[i].token)))
            .with_hint("SHOW FUNCTIONS lists the functions")
            .at(at);
    }
    let is_behind_comma = here.is_some_and(|i| i > 0 && words.tokens[i - 1].token == Token::Comma);
    let error = Error::query(message.as_str()).at(at);
    match is_behind_comma && message.starts_with("expected an expression") {
        true => error.with_hint("leave out the comma before it"),
        false => error,
    }
}

/// What DataFusion could not plan.
pub(crate) fn planning(error: DataFusionError, words: &Words) -> Error {
    translate(error, words, None)
}

fn translate(error: DataFusionError, words: &Words, place: Option<Span>) -> Error {
    let fallback = place.unwrap_or(words.start());
    match error {
        DataFusionError::Diagnostic(diagnostic, inner) => {
            let at = diagnostic.span.map(|span| {
                let start = words.at(span.start.line as usize, span.start.column as usize);
                let is_one_line = span.start.line == span.end.line;
                let width = span.end.column.saturating_sub(span.start.column) as usize;
                Span { width: if is_one_line { width.max(start.width) } else { start.width }, ..start }
            });
            translate(*inner, words, place.or(at))
        }
        DataFusionError::Context(_, inner) => translate(*inner, words, place),
        DataFusionError::Shared(inner) => match std::sync::Arc::try_unwrap(inner) {
            Ok(inner) => translate(inner, words, place),
            Err(shared) => Error::query(plain(&shared.to_string())).at(fallback),
        },
        DataFusionError::Collection(all) => match all.into_iter().next() {
            Some(first) => translate(first, words, place),
            None => Error::bug("an empty list of errors"),
        },
        DataFusionError::External(ours) => match ours.downcast::<Error>() {
            Ok(ours) => {
                let kind = ["unknown type ", "type "].iter().find_map(|lead| ours.message().strip_prefix(lead));
                let kind = kind.and_then(|rest| words.find_identifier(rest.split([' ', '(']).next()?));
                ours.at(place.or(kind).unwrap_or(fallback))
            }
            Err(other) => Error::query(plain(&other.to_string())).at(fallback),
        },
        DataFusionError::SchemaError(error, _) => schema(*error, words, place),
        DataFusionError::SQL(error, _) => syntax(&error, words),
        DataFusionError::NotImplemented(message) if message.contains("etFieldAccess") => {
            plan_message(&message, words, place)
        }
        DataFusionError::NotImplemented(message) => refuse::clause(words).unwrap_or_else(|| {
            let message = plain(&message);
            let error = match message.to_lowercase().contains("ast node") {
                // It would print the whole tree.
                true => Error::query("this expression is not there").with_hint("SHOW FUNCTIONS lists the functions"),
                false if message.contains("not ") => Error::query(message.clone()),
                false => Error::query(format!("not there yet: {message}")),
            };
            // It may be a clause by its name.
            let error = words.find_keywords(&message).into_iter().fold(error, Error::at);
            error.at(fallback)
        }),
        DataFusionError::Internal(message) if message.contains(" in BETWEEN expression") => {
            let types = between(&message, "coerce types ", " in BETWEEN").map_or("", |(types, _)| types);
            Error::query(format!("cannot compare {} in BETWEEN", flink_words(types)))
                .with_hint("cast one side to the other's type")
                .at(words.find_keywords("BETWEEN").unwrap_or(fallback))
        }
        DataFusionError::Internal(message) => {
            let first = message.split(".\n").next().unwrap_or_default();
            refuse::clause(words).unwrap_or_else(|| Error::bug(lower_first(first)).at(fallback))
        }
        DataFusionError::Plan(message) => plan_message(&message, words, place),
        DataFusionError::ArrowError(error, _) => {
            // Constants are computed when the query is planned.
            let message = error.to_string();
            match constant(&message).or_else(|| long_interval(&message, words)) {
                Some(error) => place.into_iter().fold(error, Error::at),
                None => Error::query(plain(&message)).at(fallback),
            }
        }
        DataFusionError::Execution(message) | DataFusionError::Configuration(message) => {
            plan_message(&message, words, place)
        }
        other => Error::query(plain(&other.to_string())).at(fallback),
    }
}

/// A constant that is no value of the type that it is cast to: `Cannot cast string 'x' to value of Int32 type`.
fn constant(message: &str) -> Option<Error> {
    let text = |text: &str| (format!("\"{text}\""), format!("'{}'", text.replace('\'', "''")));
    let ((shown, written), kind) = if let Some((found, rest)) = between(message, "string '", "' to value of ") {
        (text(found), flink_words(rest.strip_suffix(" type")?))
    } else if let Some((found, _)) = between(message, "parsing timestamp from '", "'") {
        (text(found), "TIMESTAMP".to_string())
    } else {
        let (number, kind) = message.split_once("cast value ")?.1.split_once(" to type ")?;
        ((number.to_string(), number.to_string()), flink_words(kind))
    };
    Some(
        Error::query(format!("{shown} is not a value of type {kind}"))
            .with_hint("TRY_CAST gives null where a value does not fit")
            .about(Subject::Expression(format!("CAST({written} AS {kind})"))),
    )
}

/// An interval of which hours, minutes or seconds are more nanoseconds than there are numbers.
fn long_interval(message: &str, words: &Words) -> Option<Error> {
    let (_, unit) = message.split_once("Overflow happened on: ")?.1.split_once(" * ")?;
    let is_interval = ["1000000000", "60000000000", "3600000000000"].contains(&unit.trim());
    (is_interval && words.find_keywords("INTERVAL").is_some()).then(|| {
        Error::query("an interval that is written in hours, minutes and seconds is no longer than 292 years")
            .with_hint(IN_DAYS)
    })
}

/// How longer intervals are written.
pub(crate) const IN_DAYS: &str = "write days: INTERVAL '200000' DAY";

fn schema(error: SchemaError, words: &Words, place: Option<Span>) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let at = place.or_else(|| words.find_identifier(&field.name)).unwrap_or(words.start());
            let is_limit = |clause: &&str| valid_fields.is_empty() && words.find_no_number(clause) == Some(at);
            match ["LIMIT", "OFFSET"].into_iter().find(is_limit) {
                Some(clause) => no_number(clause, words),
                None => column_not_found(&field, &valid_fields, words).at(at),
            }
        }
        SchemaError::AmbiguousReference { field } => {
            let at = place.or_else(|| words.find_identifier(&field.name)).unwrap_or(words.start());
            Error::query(format!("column \"{}\" is there more than once", field.name))
                .with_hint("write the table's name before it, or name one of them anew with AS")
                .at(at)
        }
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            let at = place.or_else(|| words.find_identifier(&name)).unwrap_or(words.start());
            if windowing::WINDOW_COLUMNS.contains(&name.as_str()) {
                let message = format!("two columns are named \"{name}\": the input has a window already");
                let hint = "name those of the inner window anew: SELECT window_time AS t, …";
                return Error::query(message).with_hint(hint).at(at);
            }
            two_columns(&name).at(at)
        }
    }
}

fn two_columns(name: &str) -> Error {
    // DataFusion's name of a call does not tell `x` from `CAST(x AS …)`.
    if name.ends_with(')') && name.contains('(') {
        return Error::query(format!("{name} stands here twice, with and without a CAST inside"))
            .with_hint("cast in a subquery: SELECT sum(x), sum(y) FROM (SELECT x, CAST(x AS DOUBLE) AS y FROM t)");
    }
    Error::query(format!("two columns are named \"{name}\"")).with_hint("name one of them anew with AS")
}

fn column_not_found(field: &Column, valid: &[Column], words: &Words) -> Error {
    let table = field.relation.as_ref().map(TableReference::table);
    let tables = || valid.iter().filter_map(|c| c.relation.as_ref().map(TableReference::table));
    if let Some(table) = table
        && !tables().any(|known| known == table)
    {
        // Behind a union only its own columns are seen; DataFusion says that of a table's column that is not among them.
        if tables().next().is_none() && !valid.is_empty() {
            let others = valid.iter().map(|c| c.name.as_str()).filter(|name| *name != field.name);
            let error = Error::query(format!("column \"{}\" not found", field.name));
            return error.with_hint(known("columns", others));
        }
        let error = Error::query(format!("table \"{table}\" of column \"{}\" is not in FROM", field.name));
        return match words.is_in_union(table) {
            true => error.with_hint(format!(
                "rows of the UNION of a window have the names of its stream's columns: write \"{}\" alone",
                field.name
            )),
            false if words.find_keywords("SEMI JOIN").or_else(|| words.find_keywords("ANTI JOIN")).is_some() => error
                .with_hint(
                    "of a SEMI or ANTI JOIN the rows of one side come out, with its columns: the left one's, or the right one's if it is a RIGHT one",
                ),
            false if words.is_read(table) => error.with_hint(format!(
                "\"{table}\" is outside of this subquery: EXISTS and IN see the columns that it has, and others none"
            )),
            false => error.with_hint(known("tables", tables())),
        };
    }
    let here = valid.iter().filter(|c| table.is_none() || c.relation.as_ref().map(TableReference::table) == table);
    let error = Error::query(format!("column \"{}\" not found", field.name));
    match near(&field.name, here.clone().map(|c| c.name.as_str())) {
        Some(hint) => error.with_hint(hint),
        None => error.with_hint(known("columns", here.map(|c| c.name.as_str()))),
    }
}

/// What LIMIT and OFFSET say of anything but a number.
pub(crate) fn no_number(clause: &str, words: &Words) -> Error {
    let at = words.find_no_number(clause).or_else(|| words.find_keywords(clause)).unwrap_or(words.start());
    Error::query(format!("{clause} must be a whole number of rows, written as a number")).at(at)
}

/// `the columns here are a, b, c`.
pub(crate) fn known<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.collect();
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    match names.len() {
        0 => format!("there are no {what} here"),
        1..=30 => format!("the {what} here are {}", names.join(", ")),
        _ => format!("the {what} here are {}, … ({} in all)", names[..30].join(", "), names.len()),
    }
}
