//! How our SQL is cut into words, and the expressions that sqlparser does not read as we do.

use sqlparser::{
    ast::{
        BinaryOperator, CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgOperator,
        FunctionArgumentList, FunctionArguments, Ident, ObjectName, Value, WindowType,
    },
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

/// The function as whose call the clauses of a window travel that sqlparser does not know. A blank stands in its name, so that
/// nobody can write it but in quotes.
pub(crate) const WINDOW_CLAUSES: &str = "window clauses";

/// The function as whose call LAST JOIN stands in the condition of a LEFT JOIN: where it is written, and what it is ordered by.
pub(crate) const LAST_JOIN: &str = "last join";

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

    /// `WINDOW w AS (…), x AS w`
    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    /// FILTER behind IGNORE NULLS belongs to the call, more than to any operator.
    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        is_late_filter(parser).then_some(Ok(u8::MAX))
    }

    /// `a IS DISTINCT FROM b AND c` asks two things: sqlparser would compare `a` with `b AND c`. `first_value(v) IGNORE NULLS
    /// FILTER (…) OVER (…)`: sqlparser reads FILTER only before IGNORE NULLS.
    fn parse_infix(&self, parser: &mut Parser, left: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
        if let Expr::Function(call) = left
            && call.filter.is_none()
            && is_late_filter(parser)
        {
            return Some(filtered(parser, call.clone()));
        }
        let is_distinct = parser.parse_keywords(&[IS, DISTINCT, FROM]);
        if !is_distinct && !parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) {
            return None;
        }
        let make = if is_distinct { Expr::IsDistinctFrom } else { Expr::IsNotDistinctFrom };
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is));
        Some(right.map(|right| make(Box::new(left.clone()), Box::new(right))))
    }

    /// `TIMESTAMP_LTZ '2024-01-01 00:00:00'`; `TABLE t` and `TABLE (SELECT …)`, the input of a window function; the clauses
    /// of a window; and what LAST JOIN says.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if let Token::CustomBinaryOperator(name) = &parser.peek_token_ref().token {
            match name.as_str() {
                WINDOW_CLAUSES => return Some(window_clauses(parser)),
                LAST_JOIN => return Some(last_join(parser)),
                _ => {}
            }
        }
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

/// Whether FILTER follows IGNORE NULLS or RESPECT NULLS.
fn is_late_filter(parser: &Parser) -> bool {
    let is = |at: usize, keyword| matches!(&parser.peek_nth_token_ref(at).token, Token::Word(word) if word.keyword == keyword);
    let is_behind_nulls =
        matches!(&parser.get_current_token().token, Token::Word(word) if word.keyword == Keyword::NULLS);
    is_behind_nulls
        && is(0, Keyword::FILTER)
        && parser.peek_nth_token_ref(1).token == Token::LParen
        && is(2, Keyword::WHERE)
}

/// The call with its FILTER, and OVER behind it.
fn filtered(parser: &mut Parser, call: Function) -> Result<Expr, ParserError> {
    parser.expect_keyword_is(Keyword::FILTER)?;
    parser.expect_token(&Token::LParen)?;
    parser.expect_keyword_is(Keyword::WHERE)?;
    let filter = Some(Box::new(parser.parse_expr()?));
    parser.expect_token(&Token::RParen)?;
    let over = match parser.parse_keyword(Keyword::OVER) {
        true if parser.consume_token(&Token::LParen) => Some(WindowType::WindowSpec(parser.parse_window_spec()?)),
        true => Some(WindowType::NamedWindow(parser.parse_identifier()?)),
        false => None,
    };
    Ok(Expr::Function(Function { filter, over, ..call }))
}

/// `⟨clauses⟩((SELECT …), (SELECT …); MAXSIZE 9)`: the queries as arguments, and each clause as one with a name.
fn window_clauses(parser: &mut Parser) -> Result<Expr, ParserError> {
    let name = Ident::with_span(parser.next_token().span, WINDOW_CLAUSES);
    parser.expect_token(&Token::LParen)?;
    let mut args = Vec::new();
    while !parser.consume_token(&Token::SemiColon) {
        if !args.is_empty() {
            parser.expect_token(&Token::Comma)?;
        }
        parser.expect_token(&Token::LParen)?;
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(query))));
    }
    while !parser.consume_token(&Token::RParen) {
        let name = parser.parse_identifier()?;
        let number = match parser.peek_token_ref().token {
            Token::Number(..) => Expr::Value(parser.parse_value()?),
            _ => Expr::value(Value::Boolean(true)),
        };
        let (arg, operator) = (FunctionArgExpr::Expr(number), FunctionArgOperator::RightArrow);
        args.push(FunctionArg::Named { name, arg, operator });
    }
    Ok(call(name, args))
}

/// `⟨last join⟩(r.ts) condition`: the call, AND the condition.
fn last_join(parser: &mut Parser) -> Result<Expr, ParserError> {
    let span = parser.next_token().span;
    let place = [span.start.line, span.start.column, span.end.column.saturating_sub(span.start.column)];
    let place = place.map(|number| Expr::value(Value::Number(number.to_string(), false)));
    parser.expect_token(&Token::LParen)?;
    let mut args: Vec<Expr> = place.into();
    if !parser.consume_token(&Token::RParen) {
        args.push(parser.parse_expr()?);
        parser.expect_token(&Token::RParen)?;
    }
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    let call = call(Ident::with_span(span, LAST_JOIN), args);
    let condition = Expr::Nested(Box::new(parser.parse_expr()?));
    Ok(Expr::BinaryOp { left: Box::new(call), op: BinaryOperator::And, right: Box::new(condition) })
}

fn call(name: Ident, args: Vec<FunctionArg>) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![name]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}
