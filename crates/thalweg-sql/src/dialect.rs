//! How our SQL is cut into words, and the one expression that Flink adds: `TABLE t` as an argument.

use sqlparser::{
    ast::{Expr, Ident},
    dialect::Dialect,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

/// Flink's dialect with ANSI's and PostgreSQL's spellings.
#[derive(Debug, Default)]
pub(crate) struct ThalwegDialect;

/// The prefix under which `TABLE t` travels through sqlparser's expressions.
pub(crate) const TABLE_ARGUMENT: &str = "TABLE";

impl Dialect for ThalwegDialect {
    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        letter == '`' || letter == '"'
    }

    fn is_identifier_start(&self, letter: char) -> bool {
        letter.is_alphabetic() || letter == '_'
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        letter.is_alphanumeric() || letter == '_' || letter == '$'
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    /// `TABLE t` and `TABLE (SELECT …)`, the input of a window function.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if !parser.peek_keyword(Keyword::TABLE) || matches!(parser.peek_nth_token_ref(1).token, Token::Comma) {
            return None;
        }
        let span = parser.next_token().span;
        let prefix = Ident::with_span(span, TABLE_ARGUMENT);
        Some(parser.parse_expr().map(|value| Expr::Prefixed { prefix, value: Box::new(value) }))
    }
}
