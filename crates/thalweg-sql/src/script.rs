//! A script: its text, cut into tokens and statements that know where they stand.

use std::sync::Arc;

use sqlparser::tokenizer::{Location, Span as TokenSpan, Token, TokenWithSpan, Tokenizer, Whitespace, Word};
use thalweg_core::{Error, Result, error::Span};

use crate::{
    depth,
    dialect::ThalwegDialect,
    parse::{self, Kind},
};

/// One statement of a script: what it says, its text, and where it stands.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(crate) kind: Kind,
    pub(crate) words: Words,
}

impl Statement {
    /// The statement's text, without the semicolon.
    pub fn text(&self) -> &str {
        self.words.text()
    }

    /// Where the statement starts in the text that was parsed.
    pub fn span(&self) -> Span {
        self.words.start()
    }
}

/// The tokens of a statement, without blanks and comments, and the text they were cut from.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub tokens: Arc<[TokenWithSpan]>,
    text: Arc<Text>,
}

/// Cuts a script into statements and parses each.
pub(crate) fn parse(text: &str) -> Result<Vec<Statement>> {
    let tokens = Tokenizer::new(&ThalwegDialect, text)
        .tokenize_with_location()
        .map_err(|error| Error::query(thalweg_core::error::lower_first(&error.message)).at(place(error.location, 1)))?;
    let text = Arc::new(Text::new(text));
    let tokens: Vec<_> = tokens.into_iter().filter(|token| !is_blank(&token.token)).collect();
    let statements = tokens.split(|token| token.token == Token::SemiColon).filter(|tokens| !tokens.is_empty());
    statements
        .map(|tokens| {
            let words = Words { tokens: without_local_zone(tokens).into(), text: Arc::clone(&text) };
            depth::check(&words)?;
            Ok(Statement { kind: parse::statement(&words)?, words })
        })
        .collect()
}

/// `TIMESTAMP WITH LOCAL TIME ZONE` is read as `TIMESTAMP WITH TIME ZONE`: both are instants, shown in the session's zone.
fn without_local_zone(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let is_local = |i: usize| {
        i > 0
            && is_word(&tokens[i], "LOCAL")
            && is_word(&tokens[i - 1], "WITH")
            && tokens.get(i + 1).is_some_and(|next| is_word(next, "TIME"))
    };
    let kept = (0..tokens.len()).filter(|i| !is_local(*i));
    kept.map(|i| tokens[i].clone()).collect()
}

impl Words {
    /// No words: for what was not written here.
    pub fn none() -> Self {
        Self { tokens: Arc::new([]), text: Arc::new(Text::new("")) }
    }

    /// Other tokens of the same text.
    pub fn with_tokens(&self, tokens: Vec<TokenWithSpan>) -> Self {
        Self { tokens: tokens.into(), text: Arc::clone(&self.text) }
    }

    pub fn text(&self) -> &str {
        match (self.tokens.first(), self.tokens.last()) {
            (Some(first), Some(last)) => self.text.between(first.span.start, last.span.end),
            _ => "",
        }
    }

    /// The text of tokens `from..to`.
    pub fn text_of(&self, from: usize, to: usize) -> &str {
        match self.tokens.get(from..to.min(self.tokens.len())) {
            Some([first, .., last]) => self.text.between(first.span.start, last.span.end),
            Some([only]) => self.text.between(only.span.start, only.span.end),
            _ => "",
        }
    }

    /// The first word of the statement.
    pub fn start(&self) -> Span {
        self.tokens.first().map_or(Span { line: 1, column: 1, width: 1 }, |token| span(token.span))
    }

    /// Just behind the statement's last token.
    pub fn end(&self) -> Span {
        self.tokens.last().map_or(self.start(), |token| place(token.span.end, 1))
    }

    /// The token that starts at a place, or a place one character wide.
    pub fn at(&self, line: usize, column: usize) -> Span {
        let starts_here = |token: &&TokenWithSpan| {
            token.span.start.line as usize == line && token.span.start.column as usize == column
        };
        let found = self.tokens.iter().find(starts_here);
        found.map_or(Span { line, column, width: 1 }, |token| span(token.span))
    }

    /// Where an identifier is first written, quoted or not.
    pub fn find_identifier(&self, name: &str) -> Option<Span> {
        let identifiers = || self.tokens.iter().filter_map(|token| Some((identifier(&token.token)?, token.span)));
        let exact = identifiers().find(|(word, _)| word.value == name);
        exact.or_else(|| identifiers().find(|(word, _)| word.value.eq_ignore_ascii_case(name))).map(|(_, at)| span(at))
    }

    /// Where a table or a view of this name is first read or written.
    pub fn find_relation(&self, name: &str) -> Option<Span> {
        let is_name = |token: &TokenWithSpan| identifier(&token.token).is_some_and(|word| word.value == name);
        let leads = |token: &TokenWithSpan| {
            matches!(token.token, Token::LParen | Token::Comma | Token::RArrow)
                || ["FROM", "TABLE", "INTO", "JOIN", "UNION"].iter().any(|word| is_word(token, word))
        };
        let certain = self.tokens.windows(2).find(|pair| {
            is_name(&pair[1]) && !matches!(pair[0].token, Token::LParen | Token::Comma) && leads(&pair[0])
        });
        let found = certain.or_else(|| self.tokens.windows(2).find(|pair| leads(&pair[0]) && is_name(&pair[1])))?;
        Some(span(found[1].span))
    }

    /// Where a run of keywords is first written.
    pub fn find_keywords(&self, keywords: &str) -> Option<Span> {
        let keywords: Vec<_> = keywords.split(' ').collect();
        let found = self.tokens.windows(keywords.len()).find(|run| {
            run.iter().zip(&keywords).all(|(token, keyword)| {
                is_word(token, keyword) || (!is_name(keyword) && token.token.to_string() == **keyword)
            })
        })?;
        Some(span(found[0].span))
    }

    /// Whether a table of this name stands behind UNION, as in a window.
    pub fn is_in_union(&self, name: &str) -> bool {
        let is_name = |token: &TokenWithSpan| identifier(&token.token).is_some_and(|word| word.value == name);
        self.tokens.windows(2).any(|pair| is_word(&pair[0], "UNION") && is_name(&pair[1]))
    }

    /// Whether a table is read under this name, its own or the one behind AS.
    pub fn is_read(&self, name: &str) -> bool {
        let is_name = |token: &TokenWithSpan| identifier(&token.token).is_some_and(|word| word.value == name);
        let is_one = |at: usize, words: &[&str]| words.iter().any(|word| is_word(&self.tokens[at], word));
        (1..self.tokens.len()).any(|at| {
            let is_column = self.tokens.get(at + 1).is_some_and(|next| next.token == Token::Period);
            let begins = |at: usize| is_one(at, &["FROM", "JOIN"]);
            let is_alias = is_one(at - 1, &["AS"]) || at > 1 && begins(at - 2);
            is_name(&self.tokens[at]) && !is_column && (begins(at - 1) || is_alias)
        })
    }

    /// Where a run of keywords is first written behind a place, outside of parentheses that open there.
    pub fn find_behind(&self, place: Span, keywords: &str) -> Option<Span> {
        let keywords: Vec<_> = keywords.split(' ').collect();
        let first = self.tokens.iter().position(|token| span(token.span) == place)?;
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().skip(first) {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.checked_sub(1)?,
                _ => {}
            }
            let run = self.tokens.get(at..at + keywords.len())?;
            if depth == 0 && run.iter().zip(&keywords).all(|(token, keyword)| is_word(token, keyword)) {
                return Some(first_line(run));
            }
        }
        None
    }

    /// Where the join is written whose right side has this name, its own or the one behind AS.
    pub fn find_join(&self, name: &str) -> Option<Span> {
        let is_join = |at: &usize| is_word(&self.tokens[*at], "JOIN");
        let named = |at: &usize| {
            let (mut depth, mut end) = (0_usize, at + 1);
            for token in &self.tokens[at + 1..] {
                match token.token {
                    Token::LParen => depth += 1,
                    Token::RParen => depth = depth.checked_sub(1)?,
                    _ => {}
                }
                let is_next = depth == 0 && ["ON", "JOIN", "USING", "WHERE"].iter().any(|word| is_word(token, word));
                if is_next {
                    break;
                }
                end += 1;
            }
            // A name of its own is the last word before the condition.
            let of_table = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value == name);
            let relation = &self.tokens[at + 1..end];
            [relation.first()?, relation.last()?].into_iter().any(of_table).then(|| span(self.tokens[*at].span))
        };
        (0..self.tokens.len()).filter(is_join).find_map(|at| named(&at))
    }

    /// What stands behind a keyword that a number belongs to, where something else does.
    pub fn find_no_number(&self, keyword: &str) -> Option<Span> {
        let ends = |token: &TokenWithSpan| {
            token.token == Token::RParen
                || ["LIMIT", "OFFSET", "UNION", "ROW", "ROWS"].iter().any(|w| is_word(token, w))
        };
        (0..self.tokens.len()).filter(|i| is_word(&self.tokens[*i], keyword)).find_map(|i| {
            let operand = self.tokens[i + 1..].split(ends).next()?;
            match operand {
                [] | [TokenWithSpan { token: Token::Number(..), .. }] => None,
                [first, .., last] if last.span.end.line == first.span.start.line => {
                    let start = span(first.span);
                    Some(Span { width: (last.span.end.column as usize).saturating_sub(start.column).max(1), ..start })
                }
                [first, ..] => Some(span(first.span)),
            }
        })
    }

    /// Whether this function is written with a star for its arguments.
    pub fn is_star(&self, function: &str) -> bool {
        self.tokens
            .windows(3)
            .any(|run| is_word(&run[0], function) && run[1].token == Token::LParen && run[2].token == Token::Mul)
    }

    /// Where a query in parentheses stands for a value, and not in FROM.
    pub fn find_subquery(&self) -> Option<Span> {
        let is_table = |before: &TokenWithSpan| ["FROM", "JOIN", "AS"].iter().any(|word| is_word(before, word));
        let found = self
            .tokens
            .windows(3)
            .find(|run| !is_table(&run[0]) && run[1].token == Token::LParen && is_word(&run[2], "SELECT"))?;
        Some(span(found[1].span))
    }

    /// Where a text literal is first written.
    pub fn find_text(&self, value: &str) -> Option<Span> {
        let found = self.tokens.iter().find(|t| matches!(&t.token, Token::SingleQuotedString(text) if text == value));
        found.map(|token| span(token.span))
    }
}

fn is_name(keyword: &str) -> bool {
    keyword.starts_with(|letter: char| letter.is_alphabetic())
}

fn identifier(token: &Token) -> Option<&Word> {
    match token {
        Token::Word(word) => Some(word),
        _ => None,
    }
}

/// Whether a token is this unquoted word.
pub(crate) fn is_word(token: &TokenWithSpan, expected: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected))
}

fn is_blank(token: &Token) -> bool {
    matches!(
        token,
        Token::Whitespace(
            Whitespace::Space
                | Whitespace::Newline
                | Whitespace::Tab
                | Whitespace::SingleLineComment { .. }
                | Whitespace::MultiLineComment(_)
        )
    )
}

/// The place of a run of tokens that is not empty: its first line, if it has several.
pub(crate) fn first_line(run: &[TokenWithSpan]) -> Span {
    let line = run[0].span.start.line;
    let last = run.iter().rev().find(|token| token.span.end.line == line).unwrap_or(&run[0]);
    let start = span(run[0].span);
    Span { width: (last.span.end.column as usize).saturating_sub(start.column).max(start.width), ..start }
}

/// A token's place as our errors say it.
pub(crate) fn span(of: TokenSpan) -> Span {
    let is_one_line = of.start.line == of.end.line;
    let width = if is_one_line { of.end.column.saturating_sub(of.start.column) as usize } else { 1 };
    place(of.start, width)
}

fn place(at: Location, width: usize) -> Span {
    Span { line: (at.line as usize).max(1), column: (at.column as usize).max(1), width: width.max(1) }
}

/// Text that is addressed by lines and columns.
#[derive(Debug)]
struct Text {
    text: String,
    lines: Vec<usize>,
}

impl Text {
    fn new(text: &str) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text: text.to_string(), lines }
    }

    fn between(&self, start: Location, end: Location) -> &str {
        self.text.get(self.byte(start)..self.byte(end)).unwrap_or("")
    }

    fn byte(&self, at: Location) -> usize {
        let line = self.lines.get((at.line as usize).saturating_sub(1)).copied().unwrap_or(self.text.len());
        let rest = &self.text[line..];
        let column = (at.column as usize).saturating_sub(1);
        line + rest.char_indices().nth(column).map_or(rest.len(), |(byte, _)| byte)
    }
}
