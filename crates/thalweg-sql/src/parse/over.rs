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

use super::frame as bounds;
use crate::{
    diagnose,
    dialect::WINDOW_CLAUSES,
    script::{self, is_word},
};

/// The words that a window may begin with, or that follow the name of another window.
const HEADS: [&str; 9] =
    ["UNION", "PARTITION", "ORDER", "ROWS", "RANGE", "ROWS_RANGE", "MAXSIZE", "EXCLUDE", "INSTANCE_NOT_IN_WINDOW"];

/// The words that a frame begins with.
const FRAMES: [&str; 4] = ["ROWS", "RANGE", "ROWS_RANGE", "GROUPS"];

/// Words of keys behind which a value stands.
const BEFORE_VALUES: [&str; 12] =
    ["BY", "CASE", "WHEN", "THEN", "ELSE", "AND", "OR", "NOT", "LIKE", "IN", "BETWEEN", "FROM"];

/// The tokens with each window as sqlparser reads it.
///
/// Errors: `Error::Query` with the place, for clauses that are there twice and for bounds that say nothing.
pub(super) fn rewritten(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        out.push(tokens[at].clone());
        if !is_window(tokens, at) {
            at += 1;
            continue;
        }
        let Some(close) = closing(tokens, at) else {
            return Err(Error::query("the window that begins here has no end")
                .with_hint("close its parenthesis: WINDOW w AS (PARTITION BY … ORDER BY … ROWS_RANGE BETWEEN … AND …)")
                .at(script::span(tokens[at].span)));
        };
        out.extend(Window::new(&rewritten(&tokens[at + 1..close])?).rewritten()?);
        at = close;
    }
    Ok(out)
}

/// Whether a parenthesis opens a window: behind OVER, or in `WINDOW w AS (…)`.
fn is_window(tokens: &[TokenWithSpan], at: usize) -> bool {
    let is_head = |i: usize| is(tokens, i, &HEADS);
    let is_behind = |word: &str| at > 0 && is(tokens, at - 1, &[word]);
    let is_name = || tokens.get(at + 1).is_some_and(|token| matches!(token.token, Token::Word(_)));
    tokens[at].token == Token::LParen
        && (is_behind("OVER")
            || is_behind("AS") && (is_head(at + 1) || is_name() && (is_head(at + 2) || is(tokens, at + 2, &["BY"]))))
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

/// The parts of a window, in the order in which they stand.
struct Window<'a> {
    /// The name of the window that it builds on.
    name: &'a [TokenWithSpan],
    /// UNION, and the inputs behind it.
    union: Option<(&'a TokenWithSpan, &'a [TokenWithSpan])>,
    /// PARTITION BY and ORDER BY.
    keys: &'a [TokenWithSpan],
    frame: &'a [TokenWithSpan],
    clauses: &'a [TokenWithSpan],
}

impl<'a> Window<'a> {
    fn new(tokens: &'a [TokenWithSpan]) -> Self {
        let tops = top_level(tokens);
        let find = |from: usize, test: &dyn Fn(&[TokenWithSpan]) -> bool| {
            tops.iter().copied().find(|i| *i >= from && test(&tokens[*i..])).unwrap_or(tokens.len())
        };
        let has_name = matches!(tokens, [TokenWithSpan { token: Token::Word(_), .. }, ..]) && !is(tokens, 0, &HEADS);
        let name = usize::from(has_name);
        let has_union = is(tokens, name, &["UNION"]);
        let ends_union =
            |rest: &[TokenWithSpan]| is(rest, 0, &["PARTITION", "ORDER"]) || begins_frame(rest) || begins_clause(rest);
        let keys = if has_union { find(name + 1, &ends_union) } else { name };
        let clauses = find(keys, &begins_clause);
        let frame = find(keys, &begins_frame).min(clauses);
        // What stands behind the bounds is a clause, or was meant to be one.
        let clauses = clauses.min(frame + length(&tokens[frame..]));
        Self {
            name: &tokens[..name],
            union: has_union.then(|| (&tokens[name], &tokens[name + 1..keys])),
            keys: &tokens[keys..frame],
            frame: &tokens[frame..clauses],
            clauses: &tokens[clauses..],
        }
    }

    /// The window as sqlparser reads it.
    fn rewritten(&self) -> Result<Vec<TokenWithSpan>> {
        let misplaced = top_level(self.keys).into_iter().find(|i| is(self.keys, *i, &["UNION"]));
        if let Some(union) = misplaced.filter(|i| *i > 0) {
            return Err(Error::query("UNION stands first in a window")
                .with_hint("write WINDOW w AS (UNION r PARTITION BY … ORDER BY …)")
                .at(script::span(self.keys[union].span)));
        }
        self.check_words()?;
        let mut out = self.name.to_vec();
        let first = self.union.map(|(union, _)| union).or(self.clauses.first());
        let mut keys = self.keys;
        if let Some(at) = first.map(|token| token.span) {
            let has_keys = is(keys, 0, &["PARTITION"]) && is(keys, 1, &["BY"]);
            out.extend([word("PARTITION", at), word("BY", at)]);
            out.push(token(Token::CustomBinaryOperator(WINDOW_CLAUSES.to_string()), at));
            out.push(token(Token::LParen, at));
            if let Some((union, tokens)) = self.union {
                out.extend(inputs(union, tokens)?);
            }
            out.push(token(Token::SemiColon, at));
            out.extend(flags(self.clauses)?);
            out.push(token(Token::RParen, at));
            if has_keys {
                out.push(token(Token::Comma, at));
                keys = &keys[2..];
            }
        }
        out.extend_from_slice(keys);
        out.extend(bounds::rewritten(self.frame)?);
        Ok(out)
    }

    /// Words that are nearly those of a window are said to be so, where sqlparser would expect others.
    fn check_words(&self) -> Result<()> {
        let refused = |wrong: &TokenWithSpan, hint: String| {
            let message = format!("unexpected {} in a window", diagnose::quoted(&wrong.token));
            Err(Error::query(message).with_hint(hint).at(script::span(wrong.span)))
        };
        let near = |token: &TokenWithSpan, words: &[&'static str]| {
            let is_other = matches!(token.token, Token::Word(_)) && !words.iter().any(|word| is_word(token, word));
            if is_other { diagnose::near(&token.token.to_string(), words.iter().copied()) } else { None }
        };
        if let ([name], true) = (self.name, is(self.keys, 0, &["BY"])) {
            let hint = near(name, &["PARTITION", "ORDER"]);
            return refused(name, hint.unwrap_or_else(|| "write PARTITION BY, or ORDER BY".to_string()));
        }
        // A column may have such a name, where one is to stand.
        let is_name = |token: &TokenWithSpan| matches!(token.token, Token::Word(_));
        let ends_key = |at: usize| match &self.keys[at].token {
            Token::Word(_) => !is(self.keys, at, &BEFORE_VALUES),
            token => *token == Token::RParen,
        };
        for at in top_level(self.keys).into_iter().filter(|at| is(self.keys, *at, &["PARTITION", "ORDER"])) {
            let next = self.keys.get(at + 1).filter(|next| is_name(next) && !is_word(next, "BY"));
            if next.is_some() && (at == 0 || ends_key(at - 1)) {
                let key = self.keys[at].token.to_string().to_uppercase();
                let error = Error::query(format!("{key} stands here without BY")).with_hint(format!("write {key} BY"));
                return Err(error.at(script::span(self.keys[at].span)));
            }
        }
        let ordered = top_level(self.keys).into_iter().skip_while(|at| !is(self.keys, *at, &["ORDER"]));
        let mut keys = ordered.clone().filter(|at| is(self.keys, *at, &["PARTITION"]));
        if let Some(at) = keys.find(|at| is(self.keys, at + 1, &["BY"])) {
            let error = Error::query("PARTITION BY stands before ORDER BY");
            let hint = "write OVER (PARTITION BY … ORDER BY …)";
            return Err(error.with_hint(hint).at(script::span(self.keys[at].span)));
        }
        // Behind ORDER BY stands a column; what else is called like a frame may be one.
        for at in ordered.skip(1) {
            let begins = is(self.keys, at + 1, &["BETWEEN", "UNBOUNDED", "CURRENT"])
                || self.keys.get(at + 1).is_some_and(|next| matches!(next.token, Token::Number(..)));
            let is_behind_name = is_name(&self.keys[at - 1]) && !is(self.keys, at - 1, &["BY"]);
            if begins
                && is_behind_name
                && let Some(hint) = near(&self.keys[at], &FRAMES)
            {
                return refused(&self.keys[at], hint);
            }
        }
        Ok(())
    }
}

/// Whether the token at a place is one of these words.
fn is(tokens: &[TokenWithSpan], at: usize, words: &[&str]) -> bool {
    tokens.get(at).is_some_and(|token| words.iter().any(|word| is_word(token, word)))
}

/// Columns may be called like clauses, so that what follows is asked too.
fn begins_clause(tokens: &[TokenWithSpan]) -> bool {
    let is_value = |token: &TokenWithSpan| matches!(token.token, Token::Number(..) | Token::SingleQuotedString(_));
    is(tokens, 0, &["MAXSIZE"]) && tokens.get(1).is_some_and(is_value)
        || is(tokens, 0, &["EXCLUDE"]) && is(tokens, 1, &["CURRENT", "CURRENT_ROW", "CURRENT_TIME"])
        || is(tokens, 0, &["INSTANCE_NOT_IN_WINDOW"])
}

fn begins_frame(tokens: &[TokenWithSpan]) -> bool {
    let is_bound = || tokens.get(1).is_some_and(|next| matches!(next.token, Token::Number(..)));
    is(tokens, 0, &FRAMES) && (is(tokens, 1, &["BETWEEN", "UNBOUNDED", "CURRENT", "INTERVAL"]) || is_bound())
}

/// The tokens of the first frame, as it is written, where there is one.
pub(crate) fn frame(tokens: &[TokenWithSpan]) -> Option<&[TokenWithSpan]> {
    let first = (0..tokens.len()).find(|at| is(tokens, *at, &FRAMES))?;
    Some(&tokens[first..first + length(&tokens[first..])])
}

/// How many tokens a frame has, up to its last bound.
fn length(tokens: &[TokenWithSpan]) -> usize {
    let ends = |at: &usize| {
        is(tokens, *at, &["PRECEDING", "FOLLOWING"])
            || *at > 0 && is(tokens, at - 1, &["CURRENT"]) && is(tokens, *at, &["ROW"])
    };
    let bounds = if is(tokens, 1, &["BETWEEN"]) { 2 } else { 1 };
    top_level(tokens).into_iter().filter(ends).nth(bounds - 1).map_or(tokens.len(), |last| last + 1)
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
        if input.len() > 1 && is(input, 0, &["ALL", "DISTINCT"]) {
            return Err(Error::query(format!(
                "{} does not stand behind UNION of a window, which takes all rows",
                first.token
            ))
            .with_hint("leave it out: OVER (UNION r, (SELECT …) PARTITION BY …)")
            .at(script::span(first.span)));
        }
        if input.len() > 1 && is(input, 0, &["SELECT"]) {
            return Err(Error::query("a query behind UNION of a window stands in parentheses")
                .with_hint("write OVER (UNION (SELECT …) PARTITION BY …)")
                .at(script::span(first.span)));
        }
        match first.token {
            Token::LParen if closing(input, 0) == Some(input.len() - 1) => out.extend_from_slice(input),
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
            // Of EXCLUDE what is to be left out is unknown.
            let unknown = tokens.get(at + usize::from(is(0, "EXCLUDE"))).unwrap_or(first);
            return Err(Error::query(format!("unexpected {} in a window", diagnose::quoted(&unknown.token)))
                .with_hint("behind the frame stand MAXSIZE n, EXCLUDE CURRENT_ROW, EXCLUDE CURRENT_TIME and INSTANCE_NOT_IN_WINDOW")
                .at(script::span(unknown.span)));
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
                let many = number.map(|number| number.token.to_string()).filter(|text| {
                    text.len() > 1 && text.bytes().all(|digit| digit.is_ascii_digit()) && !text.starts_with('0')
                });
                match many {
                    Some(many) => Error::query(format!("MAXSIZE {many} is more rows than there can be"))
                        .with_hint("leave it out, or write less"),
                    None => Error::query("MAXSIZE is a number of rows, from 1 on").with_hint("write MAXSIZE 100"),
                }
                .at(script::span(number.unwrap_or(first).span))
            })?;
            out.push(number.clone());
        }
        at += taken;
    }
    Ok(out)
}

pub(super) fn word(text: &str, span: TokenSpan) -> TokenWithSpan {
    token(Token::make_keyword(text), span)
}

pub(super) fn token(token: Token, span: TokenSpan) -> TokenWithSpan {
    TokenWithSpan { token, span }
}
