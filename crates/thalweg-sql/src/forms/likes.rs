//! `LIKE … ESCAPE '!'`: DataFusion knows no letter but the backslash, so the pattern is written with that.

use sqlparser::ast::{Expr, Spanned, Value, ValueWithSpan};
use thalweg_core::{Error, Result};

use crate::script;

/// The comparison with a pattern whose special letters are escaped by backslashes, if it has others.
pub(super) fn like(expression: &Expr) -> Result<Option<Expr>> {
    let mut new = expression.clone();
    let (Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. }) = &mut new else {
        return Ok(None);
    };
    let Some(escape) = escape_char.take() else { return Ok(None) };
    let at = script::span(pattern.span());
    let letter = match &escape.value {
        Value::SingleQuotedString(text) if text.chars().count() < 2 => text.chars().next(),
        _ => return Err(Error::query("ESCAPE takes one letter").with_hint("write LIKE '10!%' ESCAPE '!'").at(at)),
    };
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = &mut **pattern else {
        return Err(Error::query("the pattern before ESCAPE is no constant")
            .with_hint("write it as a text, or with backslashes and without ESCAPE")
            .at(at));
    };
    *text = with_backslashes(text, letter).ok_or_else(|| {
        Error::query(format!("the pattern '{text}' ends with its ESCAPE letter"))
            .with_hint("write that letter twice, if it is meant itself")
            .at(at)
    })?;
    Ok(Some(new))
}

/// The pattern with backslashes where it has the letter; nothing if it ends with it. Without a letter, nothing is escaped.
fn with_backslashes(pattern: &str, escape: Option<char>) -> Option<String> {
    let mut out = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let is_escaped = Some(letter) == escape;
        let letter = if is_escaped { letters.next()? } else { letter };
        if letter == '\\' || is_escaped && matches!(letter, '%' | '_') {
            out.push('\\');
        }
        out.push(letter);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_keep_their_meaning_under_another_letter() {
        for (pattern, escape, expected) in [
            ("10!%%", Some('!'), Some(r"10\%%")),
            ("a!!b!c_", Some('!'), Some("a!bc_")),
            (r"a\%", Some('!'), Some(r"a\\%")),
            (r"a\%\\", Some('\\'), Some(r"a\%\\")),
            (r"a\_", None, Some(r"a\\_")),
            ("a!", Some('!'), None),
        ] {
            assert_eq!(with_backslashes(pattern, escape).as_deref(), expected, "{pattern}");
        }
    }
}
