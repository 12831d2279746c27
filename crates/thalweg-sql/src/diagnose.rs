//! Errors in our words, with their place in the text.

use datafusion_common::{Column, DataFusionError, SchemaError, TableReference};
use sqlparser::{parser::ParserError, tokenizer::Token};
use thalweg_core::{
    Error,
    error::{Span, Subject, lower_first},
};

pub(crate) use thalweg_core::near::near;

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
        let (line, column) = window(line, span);
        // Tabs are kept, so that the caret stands under its word at any width of them.
        let before = line.chars().take(column - 1).map(|letter| if letter == '\t' { '\t' } else { ' ' });
        let lead: String = before.collect();
        let longest = line.chars().count().saturating_sub(column - 1).max(1);
        let marks = "^".repeat(span.width.min(longest));
        shown += &format!("\n{number}| {line}\n{margin}| {lead}{marks}");
    }
    if let Some(hint) = error.hint() {
        shown += &format!("\nhint: {hint}");
    }
    shown
}

/// How many letters of a long line are shown, and how many of them before the caret at most.
const SHOWN: usize = 160;
const BEFORE: usize = 60;

/// The part of a line around a place, and the column of the place in it.
fn window(line: &str, span: Span) -> (String, usize) {
    let length = line.chars().count();
    if length <= SHOWN {
        return (line.to_string(), span.column);
    }
    let first = (span.column - 1).saturating_sub(BEFORE).min(length - (SHOWN - BEFORE));
    let last = (first + SHOWN - BEFORE).max(span.column - 1 + span.width.min(SHOWN)).min(length);
    let part: String = line.chars().skip(first).take(last - first).collect();
    let (lead, end) = (if first > 0 { "…" } else { "" }, if last < length { "…" } else { "" });
    (format!("{lead}{part}{end}"), span.column - first + lead.chars().count())
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
                false if message.contains("not ") => Error::query(message),
                false => Error::query(format!("not there yet: {message}")),
            };
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
            match constant(&message) {
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

fn schema(error: SchemaError, words: &Words, place: Option<Span>) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let at = place.or_else(|| words.find_identifier(&field.name)).unwrap_or(words.start());
            let is_limit = |clause: &&str| valid_fields.is_empty() && words.find_no_number(clause) == Some(at);
            match ["LIMIT", "OFFSET"].into_iter().find(is_limit) {
                Some(clause) => no_number(clause, words),
                None => column_not_found(&field, &valid_fields).at(at),
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
        let error = match types.is_empty() {
            true => Error::query(format!("function \"{function}\" takes arguments")),
            false => Error::query(format!("function \"{function}\" does not take {}", flink_words(types)))
                .with_hint("give it as many arguments as it takes, and cast them: CAST(x AS DOUBLE)"),
        };
        return error.at(at(function));
    }
    if let Some((function, _)) = between(message, "[return_type] ", " not supported for Null") {
        let function = function.to_lowercase();
        return Error::query(format!("function \"{function}\" does not take *"))
            .with_hint("name a column; count(*) counts rows")
            .at(at(&function));
    }
    let clause = |words_of: &str| place.or_else(|| words.find_keywords(words_of)).unwrap_or(words.start());
    if message.starts_with("UNION queries have different number") {
        return Error::query("the queries of UNION have different numbers of columns")
            .with_hint("CAST(NULL AS type) fills in a column that one of them does not have")
            .at(words.find_keywords("UNION").unwrap_or(words.start()));
    }
    if let Some((first, rest)) = between(message, "inputs were of type ", ", but got incompatible type ")
        && let Some((second, column)) = rest.split_once(" on column ")
    {
        let column = column.trim_matches('\'').replace('\'', "");
        return Error::query(format!(
            "column \"{column}\" of UNION is {} and {}",
            flink_words(first),
            flink_words(second)
        ))
        .with_hint("cast one to the other's type")
        .at(words.find_keywords("UNION").unwrap_or(words.start()));
    }
    if let Some((_, rest)) = message
        .split_once("inconsistent data type across values list at row ")
        .or(message.split_once("Inconsistent data type across values list at row "))
        && let Some((place, types)) = rest.split_once(". Was ")
        && let Some((row, column)) = place.split_once(" column ")
        && let (Ok(row), Ok(column)) = (row.parse::<usize>(), column.parse::<usize>())
    {
        let types = flink_words(&types.replace(" but found ", " above and ")) + " here";
        return Error::query(format!("column {} of VALUES is {types}, in row {}", column + 1, row + 1))
            .with_hint("cast one to the other's type")
            .at(clause("VALUES"));
    }
    if message.contains("HAVING clause references") {
        return Error::query("HAVING looks at groups, and a column of single rows stands in it")
            .with_hint("add the column to GROUP BY, or put it into an aggregate such as max(…)")
            .at(clause("HAVING"));
    }
    if let Some((left, right)) =
        tail(message, "compatible types to compare ").and_then(|(pair, _)| pair.split_once(" with "))
    {
        let message =
            format!("cannot compare {} with {}", flink_words(left), flink_words(right.trim_matches(['[', ']'])));
        return Error::query(message).with_hint("cast one side to the other's type").at(clause("IN"));
    }
    if message.contains("etFieldAccess") || message.contains("cannot access field") {
        return Error::query("columns are flat: there is nothing in them to be chosen with […] or a dot")
            .with_hint("read the parts as columns of their own")
            .at(words.find_keywords("[").unwrap_or(words.start()));
    }
    if message.contains("nary operator '-' only supports") {
        return Error::query("- stands before what is no number and no interval")
            .with_hint("cast it: -CAST(x AS DOUBLE)")
            .at(place.unwrap_or(words.start()));
    }
    let is_wrong = |clause: &&str| ["to be", "must be"].iter().any(|be| message.contains(&format!("{clause} {be}")));
    if let Some(clause) = ["LIMIT", "OFFSET"].into_iter().find(is_wrong) {
        return no_number(clause, words);
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
        return Some((function, types.strip_suffix(')').unwrap_or(types)));
    }
    let quoted = |start| between(message, start, "'").map(|(function, _)| function);
    let function = quoted("unction '").or_else(|| quoted("call to '"))?;
    let types = match message.split_once("(DataType: ") {
        Some((_, types)) => up_to_parenthesis(types),
        None => between(message, "coercion from ", " to ")?.0,
    };
    Some((function, types))
}

/// The text before the parenthesis that closes one before it.
fn up_to_parenthesis(text: &str) -> &str {
    let mut open = 0_usize;
    let end = text.char_indices().find(|(_, letter)| match letter {
        '(' => {
            open += 1;
            false
        }
        ')' if open == 0 => true,
        ')' => {
            open -= 1;
            false
        }
        _ => false,
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
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
