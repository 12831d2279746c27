//! Frames as OpenMLDB writes them: `ROWS_RANGE BETWEEN 10s OPEN PRECEDING AND CURRENT ROW`, as frames that sqlparser reads.

use sqlparser::tokenizer::{Span as TokenSpan, Token, TokenWithSpan};
use thalweg_core::{Error, Result};

use super::over::{token, word};
use crate::{
    script::{self, is_word},
    windowing::TOO_LONG,
};

/// How many microseconds a unit has, in ROWS_RANGE.
const UNITS: [(&str, i64); 4] = [("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000), ("d", 86_400_000_000)];

/// What they are called in an interval.
const INTERVAL_UNITS: [&str; 4] = ["SECOND", "MINUTE", "HOUR", "DAY"];

const DAY: u64 = 86_400_000_000;

/// As many microseconds an interval in seconds has at most.
const MOST_AS_SECONDS: u64 = i64::MAX as u64 / 1_000;

const HINT: &str = "write 10s PRECEDING: the units are s, m (minutes), h and d, and a bare number is milliseconds";

/// The frame with intervals for numbers with units, and without OPEN.
pub(super) fn rewritten(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
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
            Token::Minus if matches!(tokens.get(at + 1).map(|next| &next.token), Some(Token::Number(..))) => {
                return Err(Error::query(
                    "a bound of a frame is not negative: PRECEDING or FOLLOWING says to which side it lies",
                )
                .with_hint("leave the minus out, and write the other one of them")
                .at(script::span(next.span)));
            }
            Token::Word(_)
                if is_word(next, "OPEN")
                    && matches!(tokens.get(at + 1), Some(TokenWithSpan { token: Token::Number(..), .. })) =>
            {
                return Err(Error::query("OPEN stands before PRECEDING or FOLLOWING, behind the number")
                    .with_hint("write 10s OPEN PRECEDING")
                    .at(script::span(next.span)));
            }
            Token::Word(_)
                if is_word(next, "CURRENT") && tokens.get(at + 1).is_none_or(|next| is_word(next, "AND")) =>
            {
                return Err(Error::query("CURRENT stands here alone")
                    .with_hint("write CURRENT ROW")
                    .at(script::span(next.span)));
            }
            Token::Word(_) if is_word(next, "CURRENT_ROW") => {
                return Err(Error::query("CURRENT_ROW stands behind EXCLUDE: a bound of a frame is two words")
                    .with_hint("write CURRENT ROW")
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

/// What a unit of one letter is called in an interval, if it is one.
pub(super) fn interval_unit(token: &TokenWithSpan) -> Option<&'static str> {
    UNITS.iter().zip(INTERVAL_UNITS).find(|((unit, _), _)| is_word(token, unit)).map(|(_, name)| name)
}

fn has_unit(token: Option<&TokenWithSpan>) -> bool {
    token.is_some_and(|token| UNITS.iter().any(|(unit, _)| is_word(token, unit)))
}

/// `10s OPEN PRECEDING`, and how many tokens it has.
fn bound(digits: &str, tokens: &[TokenWithSpan], in_time: bool, is_start: bool) -> Result<(Vec<TokenWithSpan>, usize)> {
    let span = tokens[0].span;
    let refused = |message: String, at: TokenSpan| {
        let hint = if in_time { HINT } else { "write a whole number: ROWS BETWEEN 9 PRECEDING AND CURRENT ROW" };
        Err(Error::query(message).with_hint(hint).at(script::span(at)))
    };
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
    if is_open && !is_side(taken) {
        let at = tokens.get(taken).unwrap_or(&tokens[taken - 1]).span;
        return Err(Error::query("OPEN stands before PRECEDING or FOLLOWING, and neither stands here")
            .with_hint("write 10s OPEN PRECEDING")
            .at(script::span(at)));
    }
    if !in_time && has_unit(tokens.get(1)) {
        return Err(Error::query("units of one letter belong to ROWS_RANGE: ROWS counts rows")
            .with_hint(format!("write ROWS_RANGE for ROWS, or {digits} PRECEDING"))
            .at(script::span(tokens[1].span)));
    }
    if tokens.get(taken).is_none_or(|next| is_word(next, "AND")) {
        let written: String = tokens[..taken].iter().map(|token| token.token.to_string()).collect();
        return Err(Error::query(format!("of {written} it is not said to which side of the row it lies"))
            .with_hint(format!("write {written} PRECEDING, or {written} FOLLOWING"))
            .at(script::first_line(&tokens[..taken])));
    }
    if !is_side(taken) {
        // The parser says what it expects.
        return Ok((tokens[..taken].to_vec(), taken));
    }
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return refused(format!("{digits} is no bound of a frame"), span);
    }
    let Some(distance) = digits.parse::<i64>().ok().and_then(|count| count.checked_mul(size)) else {
        return Err(too_far(tokens, taken, is_open, in_time));
    };
    let distance = if is(taken, "PRECEDING") { -distance } else { distance };
    // An end that is left out lies one step further in.
    let distance = distance + if is_open { if is_start { 1 } else { -1 } } else { 0 };
    let side = word(if distance > 0 { "FOLLOWING" } else { "PRECEDING" }, tokens[taken].span);
    let size = distance.unsigned_abs();
    let bound = match in_time {
        true => {
            // More seconds than these are no interval: it has nanoseconds.
            let (days, rest) = if size > MOST_AS_SECONDS { (size / DAY, size % DAY) } else { (0, size) };
            let seconds = format!("{}.{:06}", rest / 1_000_000, rest % 1_000_000);
            let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
            let text = |text: String| token(Token::SingleQuotedString(text), span);
            match days {
                0 => vec![word("INTERVAL", span), text(seconds.to_string()), word("SECOND", span), side],
                _ => vec![word("INTERVAL", span), text(format!("{days} days {seconds} seconds")), side],
            }
        }
        false => vec![token(Token::Number(size.to_string(), false), span), side],
    };
    Ok((bound, taken + 1))
}

/// The refusal of a bound that lies beyond all time, or all rows.
fn too_far(tokens: &[TokenWithSpan], side: usize, is_open: bool, in_time: bool) -> Error {
    let written = &tokens[..side - usize::from(is_open)];
    let text: String = written.iter().map(|token| token.token.to_string()).collect();
    let message = match in_time {
        true => format!("the frame reaches {text}: that is {TOO_LONG}"),
        false => format!("the frame reaches {text} rows: that is more than {}", i64::MAX),
    };
    let hint = match is_word(&tokens[side], "PRECEDING") {
        true => "write UNBOUNDED PRECEDING for a frame that begins with the first row, or less",
        false => "write less",
    };
    Error::query(message).with_hint(hint).at(script::first_line(written))
}
