//! The tokens of an expression. sqlparser's spans leave out keywords and parentheses.

use sqlparser::{
    ast::{CastKind, Expr, Spanned},
    tokenizer::{Token, TokenWithSpan},
};
use thalweg_core::error::Span;

use super::matching::parts;
use crate::script::{self, Words, is_word};

/// Where an expression stands: its first line, if it has several.
pub(crate) fn extent(expression: &Expr, words: &Words) -> Option<Span> {
    let Range { first, last, .. } = Range::over(expression, words)?;
    Some(script::first_line(&words.tokens[first..=last]))
}

/// Tokens from the first to the last.
struct Range<'a> {
    words: &'a Words,
    first: usize,
    last: usize,
}

impl<'a> Range<'a> {
    /// From the inside out, so that each keyword is looked for from where its operand begins.
    fn over(expression: &Expr, words: &'a Words) -> Option<Self> {
        let mut all = Self { words, first: usize::MAX, last: 0 };
        for part in parts(expression).iter().filter_map(|part| Self::over(part, words)) {
            all.first = all.first.min(part.first);
            all.last = all.last.max(part.last);
        }
        all.include(expression);
        if all.first > all.last {
            return None;
        }
        all.balance();
        all.extend_left(expression);
        all.extend_right(expression);
        Some(all)
    }

    fn include(&mut self, expression: &Expr) {
        let span = expression.span();
        for (i, token) in self.words.tokens.iter().enumerate() {
            if token.span.start >= span.start && token.span.end <= span.end {
                self.first = self.first.min(i);
                self.last = self.last.max(i);
            }
        }
    }

    /// Takes what stands before: a sign, a parenthesis, or the keyword that the expression begins with.
    fn extend_left(&mut self, expression: &Expr) {
        /// `EXTRACT(HOUR FROM` is as much as stands between.
        const FARTHEST: usize = 6;
        let is_sign = matches!(expression, Expr::UnaryOp { .. });
        let keywords = leads(expression);
        let reach = if is_sign { 1 } else { FARTHEST };
        let tokens = &self.words.tokens;
        let leads = |token: &TokenWithSpan| {
            keywords.iter().any(|word| is_word(token, word) || (is_sign && token.token.to_string() == *word))
        };
        let bracket = match expression {
            Expr::Nested(_) | Expr::Tuple(_) => Some(Token::LParen),
            Expr::Array(_) => Some(Token::LBracket),
            _ => None,
        };
        if bracket.is_some() {
            let is_open = self.first > 0 && Some(&tokens[self.first - 1].token) == bracket.as_ref();
            self.first -= usize::from(is_open);
        } else if let Some(back) = (1..=reach.min(self.first)).find(|back| leads(&tokens[self.first - back])) {
            self.first -= back;
        }
        self.balance();
    }

    /// Takes parentheses and brackets that belong to one inside.
    fn balance(&mut self) {
        let (mut open, mut unopened) = (0usize, 0usize);
        for token in &self.words.tokens[self.first..=self.last] {
            match token.token {
                Token::LParen | Token::LBracket => open += 1,
                Token::RParen | Token::RBracket if open > 0 => open -= 1,
                Token::RParen | Token::RBracket => unopened += 1,
                _ => {}
            }
        }
        while unopened > 0 && self.first > 0 {
            self.first -= 1;
            unopened -= usize::from(matches!(self.words.tokens[self.first].token, Token::LParen | Token::LBracket));
        }
        while open > 0 && self.last + 1 < self.words.tokens.len() {
            self.last += 1;
            match self.words.tokens[self.last].token {
                Token::LParen | Token::LBracket => open += 1,
                Token::RParen | Token::RBracket => open -= 1,
                _ => {}
            }
        }
    }

    /// Takes what stands behind: the parentheses of a call, the unit of an interval, the type of `::`, `IS NULL`.
    fn extend_right(&mut self, expression: &Expr) {
        let next = |at: usize| self.words.tokens.get(at + 1);
        let is_open = |at: usize| next(at).is_some_and(|token| token.token == Token::LParen);
        let is_any = |at: usize, words: &[&str]| next(at).is_some_and(|token| words.iter().any(|w| is_word(token, w)));
        let mut last = self.last;
        match expression {
            Expr::Function(_) if self.words.tokens[last].token != Token::RParen && is_open(last) => last += 1,
            Expr::Interval(_) => {
                const UNITS: [&str; 8] = ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "WEEK", "TO"];
                while is_any(last, &UNITS) {
                    last += 1;
                }
            }
            Expr::Cast { kind: CastKind::DoubleColon, .. } => {
                last = (last + 2).min(self.words.tokens.len() - 1);
                last += usize::from(is_open(last));
            }
            Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_) => {
                while is_any(last, &["IS", "NOT", "NULL", "TRUE", "FALSE", "UNKNOWN"]) {
                    last += 1;
                }
            }
            _ => {}
        }
        self.last = last;
        self.balance();
    }
}

/// The words that an expression begins with, where its span does not.
fn leads(expression: &Expr) -> &'static [&'static str] {
    match expression {
        Expr::Cast { kind: CastKind::DoubleColon, .. } => &[],
        Expr::Cast { .. } => &["CAST", "TRY_CAST", "SAFE_CAST"],
        Expr::UnaryOp { .. } => &["-", "+", "NOT", "~"],
        Expr::TypedString(_) => &["DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"],
        Expr::Interval(_) => &["INTERVAL"],
        Expr::Extract { .. } => &["EXTRACT"],
        Expr::Ceil { .. } => &["CEIL", "CEILING"],
        Expr::Floor { .. } => &["FLOOR"],
        Expr::Substring { .. } => &["SUBSTRING", "SUBSTR"],
        Expr::Trim { .. } => &["TRIM"],
        Expr::Position { .. } => &["POSITION"],
        Expr::Overlay { .. } => &["OVERLAY"],
        _ => &[],
    }
}
