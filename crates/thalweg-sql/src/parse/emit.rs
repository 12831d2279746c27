//! `… EMIT EAGER`, `… EMIT ON WATERMARK`: the end of a statement, which sqlparser does not know.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};
use thalweg_core::{Error, Result, error::Span};
use thalweg_plan::node::Emission;

use super::Kind;
use crate::{
    refuse,
    script::{self, is_word},
};

/// When results come out, and where that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emit {
    pub emission: Emission,
    pub at: Span,
}

/// The tokens before an EMIT at the end, and what it says.
///
/// Errors: `Error::Query` with the place, for an EMIT that says nothing, where it could be the name of a table.
pub(super) fn taken(tokens: &[TokenWithSpan]) -> Result<(&[TokenWithSpan], Option<Emit>)> {
    const CLAUSES: [(&[&str], Emission); 2] =
        [(&["EMIT", "EAGER"], Emission::Eager), (&["EMIT", "ON", "WATERMARK"], Emission::OnWatermark)];
    for (words, emission) in CLAUSES {
        // A statement does not begin with it.
        let Some(first) = tokens.len().checked_sub(words.len()).filter(|first| *first > 0) else { continue };
        if tokens[first..].iter().zip(words).all(|(token, word)| is_word(token, word)) {
            return Ok((&tokens[..first], Some(Emit { emission, at: script::span(tokens[first].span) })));
        }
    }
    match tokens {
        [before @ .., table, emit]
            if is_word(emit, "EMIT")
                && is_end_of_table(&table.token)
                && !before.iter().any(|token| is_word(token, "EMIT")) =>
        {
            Err(refuse::by_name("EMIT").at(script::span(emit.span)))
        }
        _ => Ok((tokens, None)),
    }
}

/// Whether what follows may be the name of what was named before: a table, a query or a function.
fn is_end_of_table(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.keyword == Keyword::NoKeyword,
        token => *token == Token::RParen,
    }
}

/// The statement with what an EMIT behind it says.
///
/// Errors: `Error::Query` with the place, for a statement that has no results of its own.
pub(super) fn behind(kind: Kind, emit: Emit) -> Result<Kind> {
    match kind {
        Kind::Query(query, _) => Ok(Kind::Query(query, Some(emit))),
        Kind::Insert(mut insert) => {
            insert.emit = Some(emit);
            Ok(Kind::Insert(insert))
        }
        Kind::Explain(inner, format) => Ok(Kind::Explain(Box::new(behind(*inner, emit)?), format)),
        Kind::CreateView(_) => {
            Err(Error::query("a view does not say when results come out: the query that reads it does")
                .with_hint("write EMIT behind that query")
                .at(emit.at))
        }
        _ => Err(Error::query("EMIT stands behind SELECT and INSERT").with_hint("leave it out").at(emit.at)),
    }
}
