//! How deep a statement may be nested, and room on the stack for it: parser and planner recurse once per level.

use std::{any::Any, thread};

use sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_core::{Error, Result};

use crate::script::{self, Words, is_word};

/// The most operators one inside the other, and the most unions, in one statement.
const DEEPEST: usize = 250;

/// Enough for the deepest statement in a build without optimization. It is taken from the system only as it is used.
const STACK: usize = 512 << 20;

/// Refuses statements whose expressions or unions are too long to be planned: parentheses and prefixes are the parser's
/// to count, chains of operators are ours. `a + b + c` is `a + b` in a sum, and so on.
pub(crate) fn check(words: &Words) -> Result<()> {
    // One chain per open parenthesis; a comma or a keyword between expressions begins anew.
    let mut chains = vec![0_usize];
    let mut unions = 0;
    for token in words.tokens.iter() {
        let is = |words: &[&str]| words.iter().any(|word| is_word(token, word));
        match &token.token {
            Token::LParen => chains.push(0),
            Token::RParen if chains.len() > 1 => drop(chains.pop()),
            Token::Comma => *chains.last_mut().expect("never empty") = 0,
            Token::Word(_) if is(&["UNION", "EXCEPT", "INTERSECT"]) => unions += 1,
            Token::Word(_) if is(&["WHEN", "THEN", "ELSE", "SELECT", "FROM", "WHERE", "HAVING"]) => {
                *chains.last_mut().expect("never empty") = 0;
            }
            Token::Word(_) if !is(&["AND", "OR", "IS", "JOIN"]) => {}
            Token::Number(..) | Token::SingleQuotedString(_) | Token::Period | Token::RParen => {}
            _ => *chains.last_mut().expect("never empty") += 1,
        }
        if unions.max(chains.iter().sum()) > DEEPEST {
            return Err(Error::query(format!("the statement is nested more than {DEEPEST} levels deep"))
                .with_hint("write IN (…) for many comparisons, and name inner parts in WITH or as views")
                .at(script::span(token.span)));
        }
    }
    Ok(())
}

/// Whether the parser stopped here because CASE or NOT stand too deep in one another: it gives back what it has read by then.
pub(crate) fn ends_too_deep(words: &Words, next: &TokenWithSpan) -> bool {
    /// Fewer are never too many.
    const MANY: usize = 10;
    let is = |token: &TokenWithSpan, word| is_word(token, word);
    let (mut open, mut cases, mut run, mut nots) = (0_usize, 0, 0, 0);
    for token in words.tokens.iter() {
        open = if is(token, "CASE") { open + 1 } else { open.saturating_sub(usize::from(is(token, "END"))) };
        run = if is(token, "NOT") { run + 1 } else { 0 };
        (cases, nots) = (cases.max(open), nots.max(run));
    }
    let is_case = ["CASE", "WHEN", "THEN", "ELSE", "END"].iter().any(|word| is(next, word));
    (is_case && cases >= MANY) || (is(next, "NOT") && nots >= MANY)
}

/// Runs something that recurses with the statement's depth. A panic in a library is an error of this statement alone.
pub(crate) fn with_room<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("sql".to_string()).stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| Error::environment(format!("no thread for planning: {error}")))?;
        thread.join().unwrap_or_else(|panic| Err(Error::bug(format!("planning panicked: {}", message(&*panic)))))
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
