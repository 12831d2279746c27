//! How our SQL is cut into words, and the expressions that sqlparser does not read as we do.

use sqlparser::{
    ast::{CastKind, Expr, Ident},
    dialect::{Dialect, Precedence},
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

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    /// `a IS DISTINCT FROM b AND c` asks two things: sqlparser would compare `a` with `b AND c`.
    fn parse_infix(&self, parser: &mut Parser, left: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
        let is_distinct = parser.parse_keywords(&[IS, DISTINCT, FROM]);
        if !is_distinct && !parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) {
            return None;
        }
        let make = if is_distinct { Expr::IsDistinctFrom } else { Expr::IsNotDistinctFrom };
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is));
        Some(right.map(|right| make(Box::new(left.clone()), Box::new(right))))
    }

    /// `TIMESTAMP_LTZ '2024-01-01 00:00:00'`; and `TABLE t` and `TABLE (SELECT …)`, the input of a window function.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if is_instant(parser) {
            let data_type = parser.parse_data_type();
            return Some(data_type.and_then(|data_type| {
                let expr = Box::new(parser.parse_prefix()?);
                Ok(Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None })
            }));
        }
        if !parser.peek_keyword(Keyword::TABLE) || matches!(parser.peek_nth_token_ref(1).token, Token::Comma) {
            return None;
        }
        let span = parser.next_token().span;
        let prefix = Ident::with_span(span, TABLE_ARGUMENT);
        Some(parser.parse_expr().map(|value| Expr::Prefixed { prefix, value: Box::new(value) }))
    }
}

fn is_instant(parser: &Parser) -> bool {
    let is_type =
        matches!(&parser.peek_token_ref().token, Token::Word(word) if word.value.eq_ignore_ascii_case("TIMESTAMP_LTZ"));
    is_type && matches!(parser.peek_nth_token_ref(1).token, Token::SingleQuotedString(_))
}
