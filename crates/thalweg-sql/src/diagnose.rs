//! Errors in our words, with their place in the text.

use datafusion_common::{Column, DataFusionError, SchemaError, TableReference};
use sqlparser::{parser::ParserError, tokenizer::Token};
use thalweg_core::{
    Error,
    error::{Span, lower_first},
};

use crate::{refuse, script::Words, types, windowing};

/// The error as a person reads it: the message, the line of SQL with a caret under the place, and what to do.
///
/// ```
/// # use thalweg_core::{Error, error::Span};
/// let error = Error::query("column \"speeed\" not found").at(Span { line: 1, column: 8, width: 6 });
/// let shown = thalweg_sql::caret("SELECT speeed FROM t", &error);
/// assert_eq!(shown, "column \"speeed\" not found\n  1 | SELECT speeed FROM t\n    |        ^^^^^^");
/// ```
pub fn caret(text: &str, error: &Error) -> String {
    let mut shown = error.to_string();
    if let Some(span) = error.span()
        && let Some(line) = text.lines().nth(span.line - 1)
    {
        let number = format!("  {} ", span.line);
        let margin = " ".repeat(number.len());
        // Tabs are kept, so that the caret stands under its word at any width of them.
        let before = line.chars().take(span.column - 1).map(|letter| if letter == '\t' { '\t' } else { ' ' });
        let lead: String = before.collect();
        let longest = line.chars().count().saturating_sub(span.column - 1).max(1);
        let marks = "^".repeat(span.width.min(longest));
        shown += &format!("\n{number}| {line}\n{margin}| {lead}{marks}");
    }
    if let Some(hint) = error.hint() {
        shown += &format!("\nhint: {hint}");
    }
    shown
}

/// A token as messages name it.
pub(crate) fn quoted(token: &Token) -> String {
    match token {
        Token::EOF => "the end of the statement".to_string(),
        other => format!("\"{other}\""),
    }
}

/// What sqlparser could not read.
pub(crate) fn syntax(error: &ParserError, words: &Words) -> Error {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => {
            return Error::query("the statement is nested too deeply")
                .with_hint("name the inner parts in WITH, or make them views")
                .at(words.start());
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
        None => lower_first(message.trim_start_matches("sql parser error: ")),
    };
    Error::query(message).at(at.unwrap_or(words.end()))
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
            Ok(ours) => ours.at(fallback),
            Err(other) => Error::query(plain(&other.to_string())).at(fallback),
        },
        DataFusionError::SchemaError(error, _) => schema(*error, words, place),
        DataFusionError::SQL(error, _) => syntax(&error, words),
        DataFusionError::NotImplemented(message) => refuse::clause(words).unwrap_or_else(|| {
            let message = plain(&message);
            let error = match message.to_lowercase().contains("ast node") {
                // It would print the whole tree.
                true => Error::query("this expression is not there").with_hint("SHOW FUNCTIONS lists the functions"),
                false if message.contains("not ") => Error::query(message),
                false => Error::query(format!("not there yet: {message}")),
            };
            error.at(fallback)
        }),
        DataFusionError::Internal(message) => {
            let first = message.split(".\n").next().unwrap_or_default();
            refuse::clause(words).unwrap_or_else(|| Error::bug(lower_first(first)).at(fallback))
        }
        DataFusionError::Plan(message) => plan_message(&message, words, place),
        DataFusionError::ArrowError(error, _) => {
            // Constants are computed when the query is planned: the text that cannot be read stands in it.
            let message = error.to_string();
            let text = between(&message, "string '", "'").and_then(|(text, _)| words.find_text(text));
            Error::query(plain(&message)).at(place.or(text).unwrap_or(fallback))
        }
        DataFusionError::Execution(message) | DataFusionError::Configuration(message) => {
            plan_message(&message, words, place)
        }
        other => Error::query(plain(&other.to_string())).at(fallback),
    }
}

fn schema(error: SchemaError, words: &Words, place: Option<Span>) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let at = place.or_else(|| words.find_identifier(&field.name)).unwrap_or(words.start());
            column_not_found(&field, &valid_fields).at(at)
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
    Error::query(format!("two columns are named \"{name}\"")).with_hint("name one of them anew with AS")
}

fn column_not_found(field: &Column, valid: &[Column]) -> Error {
    let table = field.relation.as_ref().map(TableReference::table);
    let tables = || valid.iter().filter_map(|c| c.relation.as_ref().map(TableReference::table));
    if let Some(table) = table
        && !tables().any(|known| known == table)
    {
        let error = Error::query(format!("table \"{table}\" of column \"{}\" is not in FROM", field.name));
        return error.with_hint(known("tables", tables()));
    }
    let here = valid.iter().filter(|c| table.is_none() || c.relation.as_ref().map(TableReference::table) == table);
    let error = Error::query(format!("column \"{}\" not found", field.name));
    match near(&field.name, here.clone().map(|c| c.name.as_str())) {
        Some(hint) => error.with_hint(hint),
        None => error.with_hint(known("columns", here.map(|c| c.name.as_str()))),
    }
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

/// `did you mean "b"?`, for a name that is nearly one of these.
pub(crate) fn near<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let wanted = name.to_lowercase();
    let allowed = 1 + wanted.chars().count() / 4;
    let ranked = names.map(|known| (distance(&wanted, &known.to_lowercase()), known));
    let (steps, nearest) = ranked.min()?;
    (steps <= allowed.min(3) && steps < wanted.chars().count()).then(|| format!("did you mean \"{nearest}\"?"))
}

/// How many letters must be changed, added or dropped.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..b.len() {
            let changed = diagonal + usize::from(letter != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// DataFusion's messages that users meet often, in our words.
fn plan_message(message: &str, words: &Words, place: Option<Span>) -> Error {
    let message = message.trim_start_matches("Error during planning: ");
    let at = |name: &str| place.or_else(|| words.find_identifier(name)).unwrap_or(words.start());
    if let Some((function, rest)) = between(message, "Invalid function '", "'") {
        return function_not_found(function, rest).at(at(function));
    }
    if let Some((name, _)) = between(message, "Projections require unique expression names but the expression \"", "\"")
    {
        let bare = name.rsplit('.').next().unwrap_or(name);
        return two_columns(bare).at(at(bare));
    }
    if message.starts_with("Column in ")
        && let Some((name, _)) = between(message, "column \"", "\"")
    {
        let bare = name.rsplit('.').next().unwrap_or(name);
        return Error::query(format!("column \"{bare}\" is neither grouped by nor aggregated"))
            .with_hint("add it to GROUP BY, or put it into an aggregate such as max(…)")
            .at(at(bare));
    }
    if let Some((function, types)) = wrong_arguments(message) {
        let message = format!("function \"{function}\" does not take {}", flink_words(types));
        return Error::query(message).with_hint("cast the arguments: CAST(x AS DOUBLE)").at(at(function));
    }
    if message.contains("LIMIT to be") || message.contains("OFFSET to be") {
        let clause = if message.contains("LIMIT to be") { "LIMIT" } else { "OFFSET" };
        let at = words.find_keywords(clause).unwrap_or(words.start());
        return Error::query(format!("{clause} must be a whole number written in the query")).at(at);
    }
    let at = place.unwrap_or(words.start());
    if let Some((pair, _)) =
        between(message, "comparison operation ", "\u{0}").or_else(|| tail(message, "comparison operation "))
    {
        return Error::query(format!("cannot compare {}", flink_words(pair)))
            .with_hint("cast one side to the other's type")
            .at(at);
    }
    if let Some((pair, _)) = between(message, "Cannot coerce arithmetic expression ", " to valid types") {
        return Error::query(format!("cannot compute {}", flink_words(pair)))
            .with_hint("cast one side: CAST(x AS DOUBLE)")
            .at(at);
    }
    if let Some((pair, _)) = between(message, "temporal operation ", ": ") {
        return Error::query(format!(
            "cannot compute {}",
            flink_words(pair).replace("Interval(MonthDayNano)", "INTERVAL")
        ))
        .with_hint("compute a number, and turn it into time: to_timestamp_seconds(…)")
        .at(at);
    }
    if let Some((_, found)) = message.split_once("non-boolean predicate ")
        && let Some((_, found)) = found.rsplit_once(" returning ")
    {
        let clause = words.find_keywords("WHERE").or_else(|| words.find_keywords("HAVING"));
        return Error::query(format!("the condition is {}, expected BOOLEAN", flink_words(found)))
            .with_hint("compare it with something: x > 0")
            .at(clause.unwrap_or(at));
    }
    Error::query(plain(message)).at(at)
}

/// The function and the types that it was given, out of the several ways in which DataFusion says so.
fn wrong_arguments(message: &str) -> Option<(&str, &str)> {
    if let Some((call, _)) = between(message, "given name and argument types '", "'")
        && let Some((function, types)) = call.split_once('(')
    {
        return Some((function, types.trim_end_matches(')')));
    }
    let quoted = |start| between(message, start, "'").map(|(function, _)| function);
    let function = quoted("unction '").or_else(|| quoted("call to '"))?;
    let (types, _) = between(message, "(DataType: ", ")").or_else(|| between(message, "coercion from ", " to "))?;
    Some((function, types))
}

fn function_not_found(function: &str, rest: &str) -> Error {
    let error = Error::query(format!("function \"{function}\" not found"));
    match function.to_ascii_uppercase().as_str() {
        name @ ("TUMBLE" | "HOP" | "TUMBLE_START" | "TUMBLE_END" | "HOP_START" | "HOP_END") => {
            let window = if name.starts_with("HOP") { "HOP" } else { "TUMBLE" };
            Error::query(format!("{name} in GROUP BY and SELECT is not there: windows stand in FROM")).with_hint(
                format!(
                    "write FROM {window}(t, ts, INTERVAL …) GROUP BY window_start, window_end, and SELECT window_start"
                ),
            )
        }
        "SESSION" | "CUMULATE" => Error::query(format!("{} windows are not there yet", function.to_ascii_uppercase()))
            .with_hint("use TUMBLE or HOP in FROM"),
        "PROCTIME" | "CURRENT_ROW_TIMESTAMP" => {
            Error::query(format!("{function} is not there: results must not depend on when rows arrive"))
                .with_hint("use the event time of the rows; now() is fixed when the query starts")
        }
        "DATE_FORMAT" => error.with_hint("use to_char(x, '%Y-%m-%d'), with the letters of strftime"),
        "ROW_NUMBER" | "RANK" | "DENSE_RANK" | "LAG" | "LEAD" => {
            error.with_hint("it belongs to OVER, which is not there yet")
        }
        _ => match between(rest, "Did you mean '", "'") {
            Some((nearest, _)) if near(function, std::iter::once(nearest)).is_some() => {
                error.with_hint(format!("did you mean \"{nearest}\"?"))
            }
            _ => error.with_hint("SHOW FUNCTIONS lists those that are there"),
        },
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<(&'a str, &'a str)> {
    text.split_once(start)?.1.split_once(end)
}

fn tail<'a>(text: &'a str, start: &str) -> Option<(&'a str, &'a str)> {
    Some((text.split_once(start)?.1, ""))
}

/// DataFusion's phrasing without its own names for things.
fn plain(message: &str) -> String {
    let mut text = message;
    for prefix in [
        "Error during planning: ",
        "This feature is not implemented: ",
        "Execution error: ",
        "Schema error: ",
        "Arrow error: ",
        "Parser error: ",
        "External error: ",
        "type_coercion caused by ",
        "Cast error: ",
    ] {
        text = text.trim_start_matches(prefix);
    }
    let first_line = text.lines().next().unwrap_or_default();
    lower_first(flink_words(first_line).trim_end_matches('.'))
}

/// Arrow's names of types as Flink writes them, wherever they stand in a text.
fn flink_words(text: &str) -> String {
    use arrow_schema::DataType::*;
    let mut text = text.replace("Timestamp(µs)", "TIMESTAMP(6)").replace("Timestamp(ns)", "TIMESTAMP(9)");
    for data_type in [Boolean, Int8, Int16, Int32, Int64, Float32, Float64, Utf8View, Utf8, Binary, Date32] {
        let name = data_type.to_string();
        let is_edge = |letter: Option<char>| letter.is_none_or(|c| !c.is_alphanumeric());
        let mut from = 0;
        while let Some(found) = text[from..].find(&name).map(|at| at + from) {
            let end = found + name.len();
            if is_edge(text[..found].chars().last()) && is_edge(text[end..].chars().next()) {
                text.replace_range(found..end, &types::flink_name(&data_type));
            }
            from = found + 1;
        }
    }
    text
}
