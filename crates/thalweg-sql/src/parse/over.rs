//! Windows of OVER and WINDOW as OpenMLDB writes them, as windows that sqlparser reads.
//!
//! ```text
//! UNION r, (SELECT …) PARTITION BY k ORDER BY ts ROWS_RANGE BETWEEN 1s OPEN PRECEDING AND CURRENT ROW MAXSIZE 9
//! PARTITION BY ⟨clauses⟩(((SELECT * FROM r), (SELECT …); MAXSIZE 9)), k ORDER BY ts
//!     RANGE BETWEEN INTERVAL '0.999999' SECOND PRECEDING AND CURRENT ROW
//! ```
//!
//! Each token keeps the place of the one that it was made of. The dialect reads the clauses as a call of a function whose name
//! nobody can write.

use sqlparser::tokenizer::{Span as TokenSpan, Token, TokenWithSpan};
use thalweg_core::{Error, Result};

use crate::{
    diagnose,
    dialect::WINDOW_CLAUSES,
    script::{self, is_word},
};

/// The words that a window may begin with, or that follow the name of another window.
const HEADS: [&str; 9] =
    ["UNION", "PARTITION", "ORDER", "ROWS", "RANGE", "ROWS_RANGE", "MAXSIZE", "EXCLUDE", "INSTANCE_NOT_IN_WINDOW"];

/// How many microseconds a unit has, in ROWS_RANGE.
const UNITS: [(&str, i64); 4] = [("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000), ("d", 86_400_000_000)];

const BOUND_HINT: &str =
    "write 10s PRECEDING: the units are s, m (minutes), h and d, and a bare number is milliseconds";

/// The tokens with each window as sqlparser reads it.
///
/// Errors: `Error::Query` with the place, for clauses that are there twice and for bounds that say nothing.
pub(super) fn rewritten(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        out.push(tokens[at].clone());
        if is_window(tokens, at)
            && let Some(close) = closing(tokens, at)
        {
            out.extend(window(&rewritten(&tokens[at + 1..close])?)?);
            at = close;
        } else {
            at += 1;
        }
    }
    Ok(out)
}

/// Whether a parenthesis opens a window: behind OVER, or in `WINDOW w AS (…)`.
fn is_window(tokens: &[TokenWithSpan], at: usize) -> bool {
    let is_head = |i: usize| tokens.get(i).is_some_and(|token| HEADS.iter().any(|head| is_word(token, head)));
    let is_behind = |word: &str| at > 0 && is_word(&tokens[at - 1], word);
    let is_name = || tokens.get(at + 1).is_some_and(|token| matches!(token.token, Token::Word(_)));
    tokens[at].token == Token::LParen
        && (is_behind("OVER") || is_behind("AS") && (is_head(at + 1) || is_name() && is_head(at + 2)))
}

fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    (open..tokens.len()).find(|i| {
        match tokens[*i].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// The tokens between the parentheses of a window.
fn window(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let tops = top_level(tokens);
    let is =
        |i: usize, words: &[&str]| tokens.get(i).is_some_and(|token| words.iter().any(|word| is_word(token, word)));
    let name = usize::from(tokens.first().is_some_and(|t| matches!(t.token, Token::Word(_))) && !is(0, &HEADS));
    let find = |from: usize, test: &dyn Fn(usize) -> bool| {
        tops.iter().copied().find(|i| *i >= from && test(*i)).unwrap_or(tokens.len())
    };
    let begins_clause = |i: usize| {
        let is_value = |token: &TokenWithSpan| matches!(token.token, Token::Number(..) | Token::SingleQuotedString(_));
        is(i, &["MAXSIZE"]) && tokens.get(i + 1).is_some_and(is_value)
            || is(i, &["EXCLUDE"]) && is(i + 1, &["CURRENT", "CURRENT_ROW", "CURRENT_TIME"])
            || is(i, &["INSTANCE_NOT_IN_WINDOW"])
    };
    let begins_frame = |i: usize| {
        let is_bound = || tokens.get(i + 1).is_some_and(|next| matches!(next.token, Token::Number(..)));
        is(i, &["ROWS", "RANGE", "ROWS_RANGE"])
            && (is(i + 1, &["BETWEEN", "UNBOUNDED", "CURRENT", "INTERVAL"]) || is_bound())
    };
    let has_union = is(name, &["UNION"]);
    let ends_union = |i: usize| is(i, &["PARTITION", "ORDER"]) || begins_frame(i) || begins_clause(i);
    let keys = if has_union { find(name + 1, &ends_union) } else { name };
    let clauses = find(keys, &begins_clause);
    let frame = find(keys, &begins_frame).min(clauses);
    let mut out = tokens[..name].to_vec();
    let mut rest = &tokens[keys..frame];
    if has_union || clauses < tokens.len() {
        let at = tokens[if has_union { name } else { clauses }].span;
        let has_keys = is(keys, &["PARTITION"]) && is(keys + 1, &["BY"]);
        match has_keys {
            true => out.extend_from_slice(&tokens[keys..keys + 2]),
            false => out.extend([word("PARTITION", at), word("BY", at)]),
        }
        out.push(token(Token::CustomBinaryOperator(WINDOW_CLAUSES.to_string()), at));
        out.push(token(Token::LParen, at));
        if has_union {
            out.extend(inputs(&tokens[name], &tokens[name + 1..keys])?);
        }
        out.push(token(Token::SemiColon, at));
        out.extend(flags(&tokens[clauses..])?);
        out.push(token(Token::RParen, at));
        if has_keys {
            out.push(token(Token::Comma, at));
            rest = &tokens[keys + 2..frame];
        }
    }
    out.extend_from_slice(rest);
    out.extend(bounds(&tokens[frame..clauses])?);
    Ok(out)
}

/// The positions that no parentheses enclose.
fn top_level(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 => found.push(i),
            _ => {}
        }
    }
    found
}

/// The inputs of a union: each name as a query of all its columns.
fn inputs(union: &TokenWithSpan, tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let commas = top_level(tokens).into_iter().filter(|i| tokens[*i].token == Token::Comma);
    let (mut out, mut from) = (Vec::new(), 0);
    for comma in commas.chain([tokens.len()]) {
        let input = &tokens[from..comma];
        let Some(first) = input.first() else {
            let at = if from == 0 { union } else { &tokens[from - 1] };
            return Err(Error::query("UNION of a window names tables")
                .with_hint("write OVER (UNION r, (SELECT …) PARTITION BY …)")
                .at(script::span(at.span)));
        };
        if !out.is_empty() {
            out.push(tokens[from - 1].clone());
        }
        match first.token {
            Token::LParen => out.extend_from_slice(input),
            _ => {
                let at = first.span;
                out.extend([token(Token::LParen, at), word("SELECT", at), token(Token::Mul, at), word("FROM", at)]);
                out.extend_from_slice(input);
                out.push(token(Token::RParen, at));
            }
        }
        from = comma + 1;
    }
    Ok(out)
}

/// `MAXSIZE 9 EXCLUDE CURRENT_ROW`, each as one word, with its number.
fn flags(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let mut out: Vec<TokenWithSpan> = Vec::new();
    let mut at = 0;
    while let Some(first) = tokens.get(at) {
        let is = |i: usize, expected: &str| tokens.get(at + i).is_some_and(|token| is_word(token, expected));
        let (name, taken) = if is(0, "MAXSIZE") {
            ("MAXSIZE", 2)
        } else if is(0, "INSTANCE_NOT_IN_WINDOW") {
            ("INSTANCE_NOT_IN_WINDOW", 1)
        } else if is(0, "EXCLUDE") && is(1, "CURRENT_TIME") {
            ("CURRENT_TIME", 2)
        } else if is(0, "EXCLUDE") && is(1, "CURRENT_ROW") {
            ("CURRENT_ROW", 2)
        } else if is(0, "EXCLUDE") && is(1, "CURRENT") && is(2, "ROW") {
            ("CURRENT_ROW", 3)
        } else {
            return Err(Error::query(format!("unexpected {} in a window", diagnose::quoted(&first.token)))
                .with_hint("behind the frame stand MAXSIZE n, EXCLUDE CURRENT_ROW, EXCLUDE CURRENT_TIME and INSTANCE_NOT_IN_WINDOW")
                .at(script::span(first.span)));
        };
        if out.iter().any(|token| is_word(token, name)) {
            let shown = if name.starts_with("CURRENT") { format!("EXCLUDE {name}") } else { name.to_string() };
            return Err(Error::query(format!("{shown} stands here twice"))
                .with_hint("write it once")
                .at(script::span(first.span)));
        }
        out.push(word(name, first.span));
        if name == "MAXSIZE" {
            let number = tokens.get(at + 1);
            let is_count = |token: &&TokenWithSpan| match &token.token {
                Token::Number(digits, _) => digits.parse::<usize>().is_ok_and(|count| count > 0),
                _ => false,
            };
            let number = number.filter(is_count).ok_or_else(|| {
                Error::query("MAXSIZE is a number of rows, from 1 on")
                    .with_hint("write MAXSIZE 100")
                    .at(script::span(number.unwrap_or(first).span))
            })?;
            out.push(number.clone());
        }
        at += taken;
    }
    Ok(out)
}

/// The frame with intervals for numbers with units, and without OPEN.
fn bounds(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let Some(first) = tokens.first() else { return Ok(Vec::new()) };
    let in_time = is_word(first, "ROWS_RANGE");
    let mut out = vec![if in_time { word("RANGE", first.span) } else { first.clone() }];
    let (mut at, mut is_start) = (1, true);
    while let Some(next) = tokens.get(at) {
        is_start &= !is_word(next, "AND");
        match &next.token {
            Token::Number(digits, _) if in_time || is_word(first, "ROWS") => {
                let (bound, taken) = bound(digits, &tokens[at..], in_time, is_start)?;
                out.extend(bound);
                at += taken;
            }
            Token::Number(digits, _) if is_word(first, "RANGE") && has_unit(tokens.get(at + 1)) => {
                return Err(Error::query("units of one letter belong to ROWS_RANGE")
                    .with_hint(format!("write ROWS_RANGE for RANGE, or INTERVAL '{digits}' SECOND"))
                    .at(script::span(next.span)));
            }
            // Without end there is nothing to leave out.
            _ if is_word(next, "OPEN") && is_word(&tokens[at - 1], "UNBOUNDED") => at += 1,
            _ => {
                out.push(next.clone());
                at += 1;
            }
        }
    }
    Ok(out)
}

fn has_unit(token: Option<&TokenWithSpan>) -> bool {
    token.is_some_and(|token| UNITS.iter().any(|(unit, _)| is_word(token, unit)))
}

/// `10s OPEN PRECEDING`, and how many tokens it has.
fn bound(digits: &str, tokens: &[TokenWithSpan], in_time: bool, is_start: bool) -> Result<(Vec<TokenWithSpan>, usize)> {
    let span = tokens[0].span;
    let refused =
        |message: String, at: TokenSpan| Err(Error::query(message).with_hint(BOUND_HINT).at(script::span(at)));
    let is = |i: usize, expected: &str| tokens.get(i).is_some_and(|token| is_word(token, expected));
    let is_side = |i: usize| is(i, "PRECEDING") || is(i, "FOLLOWING");
    let mut taken = 1;
    let mut size = if in_time { 1_000 } else { 1 };
    if in_time && let Some(TokenWithSpan { token: Token::Word(unit), span }) = tokens.get(1) {
        let known = UNITS.iter().find(|(name, _)| unit.value.eq_ignore_ascii_case(name));
        match known {
            Some((_, micros)) => (size, taken) = (*micros, 2),
            None if is(1, "OPEN") || is_side(1) => {}
            None => return refused(format!("there is no unit \"{}\"", unit.value), *span),
        }
    }
    let is_open = is(taken, "OPEN");
    taken += usize::from(is_open);
    if !is_side(taken) {
        // The parser says what it expects.
        return Ok((tokens[..taken].to_vec(), taken));
    }
    let Some(distance) = digits.parse::<i64>().ok().and_then(|count| count.checked_mul(size)) else {
        return refused(format!("{digits} is no bound of a frame"), span);
    };
    let distance = if is(taken, "PRECEDING") { -distance } else { distance };
    // An end that is left out lies one step further in.
    let distance = distance + if is_open { if is_start { 1 } else { -1 } } else { 0 };
    let side = word(if distance > 0 { "FOLLOWING" } else { "PRECEDING" }, tokens[taken].span);
    let size = distance.unsigned_abs();
    let bound = match in_time {
        true => {
            let text = format!("{}.{:06}", size / 1_000_000, size % 1_000_000);
            let text = text.trim_end_matches('0').trim_end_matches('.').to_string();
            let text = token(Token::SingleQuotedString(text), span);
            vec![word("INTERVAL", span), text, word("SECOND", span), side]
        }
        false => vec![token(Token::Number(size.to_string(), false), span), side],
    };
    Ok((bound, taken + 1))
}

fn word(text: &str, span: TokenSpan) -> TokenWithSpan {
    token(Token::make_keyword(text), span)
}

fn token(token: Token, span: TokenSpan) -> TokenWithSpan {
    TokenWithSpan { token, span }
}
