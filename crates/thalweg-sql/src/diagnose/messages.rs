//! DataFusion's messages that users meet often, in our words.

use thalweg_core::{
    Error,
    error::{Span, lower_first},
};

use super::{near, no_number, over, two_columns};
use crate::{script::Words, types};

/// What DataFusion's planner says, at the place it means.
pub(super) fn plan_message(message: &str, words: &Words, place: Option<Span>) -> Error {
    let message = message.trim_start_matches("Error during planning: ");
    let at = |name: &str| place.or_else(|| words.find_identifier(name)).unwrap_or(words.start());
    if let Some((function, rest)) = between(message, "Invalid function '", "'") {
        return function_not_found(function, rest).at(at(function));
    }
    if let Some((name, _)) = between(message, "Projections require unique expression names but the expression \"", "\"")
    {
        let bare = name.rsplit('.').next().unwrap_or(name);
        let bare = bare.rsplit_once(" AS ").map_or(bare, |(_, alias)| alias);
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
                .with_hint(argument_hint(function, types)),
        };
        return error.at(at(function));
    }
    if let Some((function, _)) = between(message, "[return_type] ", " not supported for Null") {
        let function = function.to_lowercase();
        // The planner has put a null where the star stood.
        let error = match words.is_star(&function) {
            true => Error::query(format!("function \"{function}\" does not take *"))
                .with_hint("name a column; count(*) counts rows"),
            false => Error::query(format!("function \"{function}\" does not take a NULL of no type"))
                .with_hint("say its type: CAST(NULL AS DOUBLE)"),
        };
        return error.at(at(&function));
    }
    if let Some((given, rest)) = between(message, "ource table contains ", " columns but only ")
        && let Some((named, _)) = rest.split_once(" names given")
    {
        return Error::query(format!("the table has {given} columns, and AS names {named}"))
            .with_hint("name every column, or none")
            .at(place.or_else(|| words.find_keywords("AS")).unwrap_or(words.start()));
    }
    if message.starts_with("join condition should not be empty") {
        return Error::query("a join has no condition")
            .with_hint(
                "write which rows belong together: ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '1' MINUTE AND a.ts",
            )
            .at(words.find_keywords("JOIN").unwrap_or(words.start()));
    }
    if let Some(name) = message.strip_prefix("Invalid qualifier ") {
        let name = name.trim_end_matches('.');
        return Error::query(format!("table \"{name}\" is not in FROM")).at(at(name));
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
    if let Some((position, count)) = message
        .to_lowercase()
        .split_once("order by column out of bounds, specified: ")
        .and_then(|(_, rest)| rest.split_once(", max: "))
    {
        let columns = if count == "1" { "column" } else { "columns" };
        return Error::query(format!("ORDER BY {position}, and SELECT has {count} {columns}"))
            .with_hint("columns are counted from 1")
            .at(place.unwrap_or(words.start()));
    }
    if message.contains("HAVING clause references") {
        return Error::query("HAVING looks at groups, and a column of single rows stands in it")
            .with_hint("add the column to GROUP BY, or put it into an aggregate such as max(…)")
            .at(clause("HAVING"));
    }
    if message.starts_with("QUALIFY clause requires window functions") {
        return Error::query("QUALIFY looks at the results of OVER, and there is no OVER")
            .with_hint("write WHERE for a condition on rows, and HAVING for one on groups")
            .at(clause("QUALIFY"));
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
    if let Some((_, found)) = message.split_once("condition must be boolean type, but got ") {
        // Here types are written as in Rust.
        let found = flink_words(&found.replace("Timestamp(Microsecond, None)", "Timestamp(µs)"));
        return Error::query(format!("the condition is {found}, expected BOOLEAN"))
            .with_hint("compare it with something: x > 0")
            .at(place.unwrap_or(words.start()));
    }
    if message.contains("'abs' expects") && ["Interval", "Duration"].iter().any(|span| message.contains(span)) {
        return Error::query("abs takes a number, and a span of time is none")
            .with_hint("write both bounds: b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL '1' SECOND")
            .at(place.unwrap_or(words.start()));
    }
    let is_wrong = |clause: &&str| ["to be", "must be"].iter().any(|be| message.contains(&format!("{clause} {be}")));
    if let Some(clause) = ["LIMIT", "OFFSET"].into_iter().find(is_wrong) {
        return no_number(clause, words);
    }
    if let Some(error) = over::message(message, words) {
        return error.at(place.unwrap_or(words.start()));
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
        let pair = flink_words(pair);
        let hint = match pair.contains("TIMESTAMP") {
            true => "write a span of time as an interval: ts + INTERVAL '1' MINUTE",
            false => "cast one side: CAST(x AS DOUBLE)",
        };
        return Error::query(format!("cannot compute {pair}")).with_hint(hint).at(at);
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

/// What to do about the arguments of a function that takes others.
fn argument_hint(function: &str, types: &str) -> String {
    const OF_TEXT: [&str; 22] = [
        "ascii",
        "btrim",
        "char_length",
        "character_length",
        "initcap",
        "left",
        "length",
        "lower",
        "lpad",
        "ltrim",
        "md5",
        "octet_length",
        "repeat",
        "replace",
        "reverse",
        "right",
        "rpad",
        "rtrim",
        "sha256",
        "split_part",
        "trim",
        "upper",
    ];
    if OF_TEXT.contains(&function) && !types.starts_with("Utf8") {
        return "cast it to text: CAST(x AS STRING)".to_string();
    }
    match function {
        "string_agg" => "write the separator too: string_agg(x, ',' ORDER BY y)".to_string(),
        _ => "give it as many arguments as it takes, and cast them: CAST(x AS DOUBLE)".to_string(),
    }
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
        "CUMULATE" => Error::query("CUMULATE in SELECT is not there: windows stand in FROM")
            .with_hint("write FROM CUMULATE(t, ts, INTERVAL …, INTERVAL …) GROUP BY window_start, window_end"),
        "SESSION" => Error::query("SESSION windows are not there yet").with_hint("use TUMBLE, HOP or CUMULATE in FROM"),
        "PROCTIME" | "CURRENT_ROW_TIMESTAMP" => {
            Error::query(format!("{function} is not there: results must not depend on when rows arrive"))
                .with_hint("use the event time of the rows; now() is fixed when the query starts")
        }
        "DATE_FORMAT" => error.with_hint("use to_char(x, '%Y-%m-%d'), with the letters of strftime"),
        "ROW_NUMBER" | "RANK" | "DENSE_RANK" | "LAG" | "LEAD" => {
            error.with_hint("it belongs to OVER: lag(x) OVER (PARTITION BY … ORDER BY ts)")
        }
        _ => match between(rest, "Did you mean '", "'") {
            Some((nearest, _)) if near(function, std::iter::once(nearest)).is_some() => {
                error.with_hint(format!("did you mean \"{nearest}\"?"))
            }
            _ => error.with_hint("SHOW FUNCTIONS lists those that are there"),
        },
    }
}

pub(super) fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<(&'a str, &'a str)> {
    text.split_once(start)?.1.split_once(end)
}

fn tail<'a>(text: &'a str, start: &str) -> Option<(&'a str, &'a str)> {
    Some((text.split_once(start)?.1, ""))
}

/// DataFusion's phrasing without its own names for things.
pub(super) fn plain(message: &str) -> String {
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
    if let Some(reason) = super::wording::regex(text) {
        return format!("the regular expression is wrong: {reason}");
    }
    let first_line = text.lines().next().unwrap_or_default();
    lower_first(flink_words(first_line).trim_end_matches('.'))
}

/// Arrow's names of types as Flink writes them, wherever they stand in a text.
pub(super) fn flink_words(text: &str) -> String {
    use arrow_schema::DataType::*;
    let mut text = super::wording::types(text);
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
