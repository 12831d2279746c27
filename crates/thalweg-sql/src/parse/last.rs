//! `a LAST JOIN b ORDER BY b.ts ON …`, as a LEFT JOIN whose condition begins with what sqlparser does not know of it.
//!
//! ```text
//! a LAST JOIN b ORDER BY b.ts ON a.k = b.k
//! a LEFT JOIN b ON ⟨last join⟩(b.ts) a.k = b.k
//! ```
//!
//! Each token keeps the place of the one that it was made of.

use sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_core::{Error, Result};

use super::over::{token, word};
use crate::{
    dialect::LAST_JOIN,
    script::{self, is_word},
};

const HINT: &str = "order by the event time alone, earliest first: LAST JOIN r ORDER BY r.ts ON …";

/// What may stand before the name of a table, so that LAST is that name.
const BEFORE_NAMES: [&str; 3] = ["FROM", "JOIN", "AS"];

/// What ends a table that is joined.
const ENDS: [&str; 16] = [
    "ON", "USING", "JOIN", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "WINDOW", "LEFT", "RIGHT", "FULL",
    "INNER", "CROSS", "NATURAL",
];

/// The tokens with each LAST JOIN as sqlparser reads it.
///
/// Errors: `Error::Query` with the place, for a LAST JOIN without a condition, and for an order that has no last row.
pub(super) fn rewritten(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let joins: Vec<usize> = (1..tokens.len()).filter(|at| is_last_join(&tokens, *at)).collect();
    let mut edits = joins.into_iter().map(|last| Edit::new(&tokens, last)).collect::<Result<Vec<_>>>()?;
    // A query in a parenthesis, as a table that is joined, has its condition before that of the join around it.
    edits.sort_by_key(|edit| edit.order);
    let is_join = |at: usize| edits.iter().any(|edit| edit.last == at);
    let mut out = Vec::with_capacity(tokens.len());
    let (mut at, mut next) = (0, edits.iter().peekable());
    while at < tokens.len() {
        let edit = next.next_if(|edit| edit.order == at);
        at = edit.map_or(at, |edit| edit.on);
        out.push(if is_join(at) { word("LEFT", tokens[at].span) } else { tokens[at].clone() });
        out.extend(edit.into_iter().flat_map(|edit| edit.marker(&tokens)));
        at += 1;
    }
    Ok(out)
}

/// Whether LAST stands between two tables.
fn is_last_join(tokens: &[TokenWithSpan], at: usize) -> bool {
    let before = &tokens[at - 1];
    let is_behind_table = match &before.token {
        Token::Word(_) => !BEFORE_NAMES.iter().any(|name| is_word(before, name)),
        // The end of the condition of a join before it.
        Token::RParen | Token::RBracket | Token::Number(..) | Token::SingleQuotedString(_) => true,
        _ => false,
    };
    is_behind_table && is_word(&tokens[at], "LAST") && tokens.get(at + 1).is_some_and(|next| is_word(next, "JOIN"))
}

/// Where the parts of a LAST JOIN stand.
struct Edit {
    last: usize,
    /// ORDER BY, or ON where there is none.
    order: usize,
    on: usize,
}

impl Edit {
    fn new(tokens: &[TokenWithSpan], last: usize) -> Result<Self> {
        let no_condition = |at: usize| {
            Error::query("LAST JOIN has a condition behind ON")
                .with_hint("write s LAST JOIN r ORDER BY r.ts ON s.k = r.k AND r.ts <= s.ts")
                .at(script::span(tokens[at].span))
        };
        let is_end = |at: usize| ENDS.iter().any(|word| is_word(&tokens[at], word));
        let order = next_at_top(tokens, last + 2, is_end).ok_or_else(|| no_condition(last))?;
        let is = |at: usize, expected: &str| tokens.get(at).is_some_and(|token| is_word(token, expected));
        let has_order = is(order, "ORDER") && is(order + 1, "BY");
        let on = match has_order {
            true => next_at_top(tokens, order + 2, is_end).ok_or_else(|| no_condition(last))?,
            false => order,
        };
        if !is(on, "ON") {
            return Err(no_condition(if is(on, "USING") { on } else { last }));
        }
        let refused = |what: &str, at: usize| {
            Err(Error::query(format!("LAST JOIN is ordered {what}")).with_hint(HINT).at(script::span(tokens[at].span)))
        };
        if has_order {
            if let Some(comma) =
                next_at_top(tokens, order + 2, |at| tokens[at].token == Token::Comma).filter(|at| *at < on)
            {
                return refused("by several values", comma);
            }
            if is(on - 1, "DESC") {
                return refused("from the latest row to the earliest", on - 1);
            }
            if on == order + 2 {
                return refused("by nothing", order);
            }
        }
        Ok(Self { last, order, on })
    }

    /// What stands behind ON: the place of LAST, and what is ordered by.
    fn marker(&self, tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
        let at = tokens[self.on].span;
        let name = token(Token::CustomBinaryOperator(LAST_JOIN.to_string()), tokens[self.last].span);
        let mut out = vec![name, token(Token::LParen, at)];
        let order = tokens.get(self.order + 2..self.on).unwrap_or_default();
        let end = order.len() - usize::from(order.last().is_some_and(|token| is_word(token, "ASC")));
        let is_name = |token: &TokenWithSpan| matches!(token.token, Token::Word(_));
        // It is a column of the table that is joined: who writes no table's name means that.
        let table = &tokens[self.order - 1];
        if end == 1 && is_name(&order[0]) && is_name(table) {
            let at = order[0].span;
            out.extend([token(table.token.clone(), at), token(Token::Period, at)]);
        }
        out.extend_from_slice(&order[..end]);
        out.push(token(Token::RParen, at));
        out
    }
}

/// The first place from here on that no parentheses enclose, up to the end of those around it.
fn next_at_top(tokens: &[TokenWithSpan], from: usize, test: impl Fn(usize) -> bool) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, next) in tokens.iter().enumerate().skip(from) {
        match next.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ if depth == 0 && test(at) => return Some(at),
            _ => {}
        }
    }
    None
}
