//! An error with the line of SQL that it is about.

use thalweg_core::{Error, error::Span};

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
