//! Functions under Flink's names, as expressions of the functions that are there.

use sqlparser::{
    ast::{
        CeilFloorKind, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Spanned, Value,
        ValueWithSpan, VisitMut, VisitorMut,
    },
    parser::Parser,
    tokenizer::Tokenizer,
};
use thalweg_core::{Error, Result, error::Span};

use crate::{dialect::ThalwegDialect, script};

use super::patterns;

/// A function, how many arguments it takes, and what it means. `$1` is the first argument.
const CALLS: &[(&str, usize, &str)] = &[
    ("IF", 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("MOD", 2, "($1) % ($2)"),
    ("YEAR", 1, "EXTRACT(YEAR FROM $1)"),
    ("QUARTER", 1, "EXTRACT(QUARTER FROM $1)"),
    ("MONTH", 1, "EXTRACT(MONTH FROM $1)"),
    ("WEEK", 1, "EXTRACT(WEEK FROM $1)"),
    ("DAYOFYEAR", 1, "EXTRACT(DOY FROM $1)"),
    ("DAYOFMONTH", 1, "EXTRACT(DAY FROM $1)"),
    ("DAYOFWEEK", 1, "EXTRACT(DOW FROM $1) + 1"),
    ("HOUR", 1, "EXTRACT(HOUR FROM $1)"),
    ("MINUTE", 1, "EXTRACT(MINUTE FROM $1)"),
    ("SECOND", 1, "EXTRACT(SECOND FROM $1)"),
    ("LOCATE", 2, "strpos($2, $1)"),
    (
        "LOCATE",
        3,
        "CASE WHEN $3 < 1 OR strpos(substr($2, $3), $1) = 0 THEN 0 ELSE strpos(substr($2, $3), $1) + $3 - 1 END",
    ),
    (
        "SPLIT_INDEX",
        3,
        "CASE WHEN $3 >= 0 AND $3 <= (char_length($1) - char_length(replace($1, $2, ''))) / nullif(char_length($2), 0) \
         THEN split_part($1, $2, $3 + 1) END",
    ),
    // The first match alone is left of the text, then what its group holds.
    (
        "REGEXP_EXTRACT",
        2,
        r"CASE WHEN regexp_like($1, $2) THEN regexp_replace($1, concat('^(?s:.*?)(', $2, ')(?s:.*)$'), '\1') END",
    ),
    (
        "REGEXP_EXTRACT",
        3,
        r"CASE WHEN regexp_like($1, $2)
          THEN regexp_replace($1, concat('^(?s:.*?)(', $2, ')(?s:.*)$'), concat('\', CAST($3 + 1 AS STRING))) END",
    ),
    ("UNIX_TIMESTAMP", 0, "CAST(to_unixtime(now()) AS BIGINT)"),
    ("UNIX_TIMESTAMP", 1, "CAST(to_unixtime(CAST($1 AS TIMESTAMP_LTZ)) AS BIGINT)"),
    (
        "FROM_UNIXTIME",
        1,
        "to_char(CAST(to_timestamp_seconds($1) AT TIME ZONE 'UTC' AS TIMESTAMP), '%Y-%m-%d %H:%M:%S')",
    ),
    ("TO_TIMESTAMP_LTZ", 1, "CAST(to_timestamp_millis($1) AT TIME ZONE 'UTC' AS TIMESTAMP_LTZ)"),
];

/// Functions whose second argument is a pattern, a constant.
const PATTERNS: &[(&str, &str)] = &[
    ("DATE_FORMAT", "to_char($1, $2)"),
    ("TO_CHAR", "to_char($1, $2)"),
    ("TO_TIMESTAMP", "to_timestamp($1, $2)"),
    ("TO_DATE", "to_date($1, $2)"),
    ("UNIX_TIMESTAMP", "CAST(to_unixtime(CAST(to_timestamp($1, $2) AS TIMESTAMP_LTZ)) AS BIGINT)"),
    (
        "FROM_UNIXTIME",
        "to_char(CAST(CAST(to_timestamp_seconds($1) AT TIME ZONE 'UTC' AS TIMESTAMP_LTZ) AS TIMESTAMP), $2)",
    ),
];

/// `TO_TIMESTAMP_LTZ(n, digits)`: what n counts.
const PRECISIONS: [(&str, &str); 4] = [
    ("0", "CAST(to_timestamp_seconds($1) AT TIME ZONE 'UTC' AS TIMESTAMP_LTZ)"),
    ("3", "CAST(to_timestamp_millis($1) AT TIME ZONE 'UTC' AS TIMESTAMP_LTZ)"),
    ("6", "CAST(to_timestamp_micros($1) AT TIME ZONE 'UTC' AS TIMESTAMP_LTZ)"),
    ("9", "CAST(to_timestamp_nanos($1) AT TIME ZONE 'UTC' AS TIMESTAMP_LTZ)"),
];

/// Units of time in calls.
const UNITS: [&str; 10] =
    ["MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"];

/// The unit as so many of one that intervals have.
fn counted(unit: &str) -> (i64, &str) {
    if unit == "QUARTER" { (3, "MONTH") } else { (1, unit) }
}

/// What a call means, if DataFusion does not know it.
pub(super) fn call(expression: &Expr) -> Result<Option<Expr>> {
    match expression {
        Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(unit) } if *unit != DateTimeField::NoDateTime => {
            let unit = unit_of(&unit.to_string(), "CEIL", script::span(expression.span()))?;
            let (count, counted) = counted(unit);
            let form = format!(
                "CASE WHEN date_trunc('{unit}', $1) = $1 THEN date_trunc('{unit}', $1) \
                 ELSE date_trunc('{unit}', $1) + INTERVAL '{count}' {counted} END"
            );
            fill(&form, &[(**expr).clone()]).map(Some)
        }
        Expr::Floor { expr, field: CeilFloorKind::DateTimeField(unit) } if *unit != DateTimeField::NoDateTime => {
            let unit = unit_of(&unit.to_string(), "FLOOR", script::span(expression.span()))?;
            fill(&format!("date_trunc('{unit}', $1)"), &[(**expr).clone()]).map(Some)
        }
        Expr::Function(function) => named(function),
        _ => Ok(None),
    }
}

fn named(function: &Function) -> Result<Option<Expr>> {
    let name = function.name.to_string().to_uppercase();
    let Some(arguments) = plain(function) else { return Ok(None) };
    let at = script::span(function.name.span());
    match (name.as_str(), arguments.as_slice()) {
        ("TIMESTAMPADD", [unit, count, time]) => {
            let unit = unit_of(&unit.to_string(), &name, at)?;
            let (times, unit) = counted(unit);
            let form = match count.to_string().parse::<i32>() {
                Ok(count) => format!("$2 + INTERVAL '{}' {unit}", i64::from(count) * times),
                Err(_) => format!("$2 + CAST(concat(CAST($1 * {times} AS STRING), ' {unit}') AS INTERVAL)"),
            };
            fill(&form, &[count.clone(), time.clone()]).map(Some)
        }
        ("TIMESTAMPDIFF", [unit, from, to]) => {
            let unit = unit_of(&unit.to_string(), &name, at)?;
            fill(&format!("timestampdiff('{unit}', $1, $2)"), &[from.clone(), to.clone()]).map(Some)
        }
        ("TO_TIMESTAMP_LTZ", [value @ Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. })]) => {
            fill("CAST($1 AS TIMESTAMP_LTZ)", std::slice::from_ref(value)).map(Some)
        }
        ("TO_TIMESTAMP_LTZ", [value, digits]) => {
            let digits = digits.to_string();
            let Some((_, form)) = PRECISIONS.iter().find(|(known, _)| *known == digits) else {
                return Err(Error::query(format!("the precision of {name} is {digits}"))
                    .with_hint("it is 0 for seconds, 3 for milliseconds, 6 for microseconds or 9 for nanoseconds")
                    .at(at));
            };
            fill(form, std::slice::from_ref(value)).map(Some)
        }
        (_, [value, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(pattern), span })]) => {
            match PATTERNS.iter().find(|(known, _)| *known == name) {
                Some((_, form)) => {
                    let at = script::span(*span);
                    let letters = patterns::strftime(pattern).map_err(|what| {
                        Error::query(format!("the pattern '{pattern}' has {what}, which no time is written with"))
                            .with_hint("write it as in 'yyyy-MM-dd HH:mm:ss.SSS', or as in '%Y-%m-%d %H:%M:%S'")
                            .at(at)
                    })?;
                    // Texts are read by functions of ours, which know Java's letters and name them in their errors.
                    let letters = if form.contains("to_char") { letters } else { pattern.clone() };
                    let letters = Value::SingleQuotedString(letters).with_span(*span);
                    fill(form, &[value.clone(), Expr::Value(letters)]).map(Some)
                }
                None => by_count(&name, &arguments, at),
            }
        }
        ("DATE_FORMAT", [_, _]) => Err(Error::query("the pattern of DATE_FORMAT is no constant")
            .with_hint("write it as a text, as in 'yyyy-MM-dd'")
            .at(at)),
        _ => by_count(&name, &arguments, at),
    }
}

fn by_count(name: &str, arguments: &[Expr], at: Span) -> Result<Option<Expr>> {
    let mut known = CALLS.iter().filter(|(known, ..)| *known == name).peekable();
    let is_pattern = PATTERNS.iter().any(|(known, _)| *known == name) || matches!(name, "TO_TIMESTAMP_LTZ");
    if known.peek().is_none() || is_pattern && arguments.len() == 2 {
        return Ok(None);
    }
    let counts: Vec<_> = known.clone().map(|(_, count, _)| count.to_string()).collect();
    match known.find(|(_, count, _)| *count == arguments.len()) {
        Some((.., form)) => fill(form, arguments).map(Some),
        None => {
            let (some, given) = (counts.join(" or "), arguments.len());
            let plural = if some == "1" { "" } else { "s" };
            Err(Error::query(format!("{name} takes {some} argument{plural}, and {given} are given")).at(at))
        }
    }
}

/// The functions that are written out here, in lower case.
pub(crate) fn names() -> impl Iterator<Item = String> {
    let calls = CALLS.iter().map(|(name, ..)| *name).chain(PATTERNS.iter().map(|(name, _)| *name));
    calls.chain(["TIMESTAMPADD", "TIMESTAMPDIFF"]).map(str::to_lowercase)
}

/// The arguments of a call that has nothing but arguments.
fn plain(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_plain = list.duplicate_treatment.is_none() && list.clauses.is_empty() && function.filter.is_none();
    let is_plain = is_plain && function.over.is_none() && function.within_group.is_empty();
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    });
    arguments.collect::<Option<Vec<_>>>().filter(|_| is_plain)
}

fn unit_of(written: &str, function: &str, at: Span) -> Result<&'static str> {
    let upper = written.to_uppercase();
    let unit = upper.strip_prefix("SQL_TSI_").unwrap_or(&upper);
    let found = UNITS.into_iter().find(|name| unit == *name || unit.strip_suffix('S') == Some(name));
    found.ok_or_else(|| {
        let known = UNITS.join(", ");
        Error::query(format!("{function} counts no {written}")).with_hint(format!("the units are {known}")).at(at)
    })
}

/// The form with these arguments.
fn fill(form: &str, arguments: &[Expr]) -> Result<Expr> {
    struct Fill<'a>(&'a [Expr]);
    impl VisitorMut for Fill<'_> {
        type Break = ();
        // Behind an argument comes nothing that could be one: what has been put in is not looked at again.
        fn post_visit_expr(&mut self, part: &mut Expr) -> std::ops::ControlFlow<()> {
            if let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = part
                && let Some(argument) = name[1..].parse::<usize>().ok().and_then(|i| self.0.get(i - 1))
            {
                *part = Expr::Nested(Box::new(argument.clone()));
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let unread = |error: String| Error::bug(format!("a form that is not read: {error}"));
    // Without places: nobody has written it.
    let tokens = Tokenizer::new(&ThalwegDialect, form).tokenize().map_err(|error| unread(error.to_string()))?;
    let mut parser = Parser::new(&ThalwegDialect).with_tokens(tokens);
    let mut expression = parser.parse_expr().map_err(|error| unread(error.to_string()))?;
    let _ = expression.visit(&mut Fill(arguments));
    Ok(expression)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_takes_its_arguments() {
        let forms = CALLS.iter().map(|(_, count, form)| (*count, *form));
        let forms = forms.chain(PATTERNS.iter().map(|(_, form)| (2, *form)));
        for (count, form) in forms.chain(PRECISIONS.iter().map(|(_, form)| (1, *form))) {
            let arguments: Vec<_> = (0..count)
                .map(|i| Parser::new(&ThalwegDialect).try_with_sql(&format!("a{i}")).unwrap().parse_expr().unwrap())
                .collect();
            let filled = fill(form, &arguments).unwrap().to_string();
            assert!(!(1..9).any(|i| filled.contains(&format!("${i}"))), "{filled}");
            (0..count).for_each(|i| assert!(filled.contains(&format!("(a{i})")), "{filled}"));
        }
    }
}
