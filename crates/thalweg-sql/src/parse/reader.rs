//! Words, names, texts and expressions, one after the other.

use sqlparser::{
    ast::Ident,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan},
};
use thalweg_core::{Error, Result, error::Span};

use super::{Name, Written};
use crate::{
    diagnose, refuse,
    script::{self, Words, is_word},
};

/// Reads a statement's tokens.
pub(super) struct Reader<'a> {
    pub parser: Parser<'a>,
    pub words: &'a Words,
}

impl Reader<'_> {
    pub(super) fn written(&mut self) -> Result<Written> {
        let (from, at) = (self.parser.index(), self.here());
        let read = self.parser.parse_expr();
        let expression = self.checked(read)?;
        Ok(Written { expression, text: self.words.text_of(from, self.parser.index()).to_string(), at })
    }

    /// A table's name: there is one catalog and one database, so names have one part.
    pub(super) fn table_name(&mut self) -> Result<Name> {
        let name = self.name()?;
        if self.peek().token == Token::Period {
            return Err(Error::query("names of tables have one part: there are no catalogs and databases")
                .with_hint("leave out what stands before the last dot")
                .at(name.at));
        }
        Ok(name)
    }

    /// Names up to the closing parenthesis.
    pub(super) fn names(&mut self) -> Result<Vec<Name>> {
        let mut names = vec![self.name()?];
        while self.parser.consume_token(&Token::Comma) {
            names.push(self.name()?);
        }
        self.expect(Token::RParen)?;
        Ok(names)
    }

    pub(super) fn name(&mut self) -> Result<Name> {
        let next = self.peek();
        if !matches!(next.token, Token::Word(_)) {
            return self.expected("a name");
        }
        let read = self.parser.parse_identifier();
        let Ident { value, .. } = self.checked(read)?;
        Ok(Name { text: value, at: script::span(next.span) })
    }

    pub(super) fn text(&mut self) -> Result<(String, Span)> {
        let next = self.peek();
        match next.token {
            Token::SingleQuotedString(text) => {
                self.parser.next_token();
                Ok((text, script::span(next.span)))
            }
            _ => self.expected("a text in single quotes"),
        }
    }

    pub(super) fn accept(&mut self, word: &str) -> bool {
        let is_next = is_word(&self.peek(), word);
        if is_next {
            self.parser.next_token();
        }
        is_next
    }

    pub(super) fn accept_all(&mut self, words: &[&str]) -> bool {
        let are_next = words.iter().enumerate().all(|(i, word)| is_word(&self.parser.peek_nth_token(i), word));
        if are_next {
            words.iter().for_each(|_| drop(self.parser.next_token()));
        }
        are_next
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.accept(word) { Ok(()) } else { self.expected(word) }
    }

    pub(super) fn expect(&mut self, token: Token) -> Result<()> {
        if self.parser.consume_token(&token) { Ok(()) } else { self.expected(&token.to_string()) }
    }

    pub(super) fn expected<T>(&self, what: &str) -> Result<T> {
        let found = diagnose::quoted(&self.peek().token);
        Err(Error::query(format!("expected {what}, found {found}")).at(self.here()))
    }

    pub(super) fn peek(&self) -> TokenWithSpan {
        self.parser.peek_token()
    }

    pub(super) fn here(&self) -> Span {
        let next = self.peek();
        if next.token == Token::EOF { self.words.end() } else { script::span(next.span) }
    }

    pub(super) fn is_end(&self) -> bool {
        self.peek().token == Token::EOF
    }

    pub(super) fn checked<T>(&self, read: Result<T, ParserError>) -> Result<T> {
        read.map_err(|error| refuse::clause(self.words).unwrap_or_else(|| diagnose::syntax(&error, self.words)))
    }
}
