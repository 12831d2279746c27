//! How far apart two event times may be: bounds like `b.ts <= a.ts + INTERVAL '1' SECOND`, in any arrangement.

use arrow_schema::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{BinaryExpr, Expr, Operator};
use thalweg_core::Interval;
use thalweg_plan::node::Distance;

use crate::windowing::{NotFixed, micros};

/// What is known of how far a right row's time may lie behind its left row's, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    from: Option<i64>,
    to: Option<i64>,
}

/// What a comparison says of the distance.
pub(super) enum Said {
    /// Nothing: it is about something else.
    Nothing,
    /// So far at least, or at most.
    Bounds(Bounds),
    /// It would bound the distance, by a span that is not always the same, or is finer than time is kept.
    Unclear(NotFixed),
}

impl Bounds {
    /// Of the same time.
    pub const AT_ONCE: Self = Self { from: Some(0), to: Some(0) };

    /// Both of two.
    pub fn and(self, other: Self) -> Self {
        Self { from: self.from.into_iter().chain(other.from).max(), to: self.to.into_iter().chain(other.to).min() }
    }

    /// The same of times of which others lie so far behind, of a left row and of a right row, which these bounds are said of.
    pub fn between(self, left: Distance, right: Distance) -> Self {
        let from = |from: i64| from.checked_add(left.from.0)?.checked_sub(right.to.0);
        let to = |to: i64| to.checked_add(left.to.0)?.checked_sub(right.from.0);
        Self { from: self.from.and_then(from), to: self.to.and_then(to) }
    }

    /// So far at least, and at most, where that is known.
    pub fn ends(self) -> (Option<i64>, Option<i64>) {
        (self.from, self.to)
    }

    /// The distance, if it is bounded on both sides.
    pub fn distance(self) -> Option<Distance> {
        Some(Distance { from: Interval(self.from?), to: Interval(self.to?) })
    }
}

/// What a comparison says; `side_of` says whose event time an expression is: 0 is the left side's, 1 the right side's.
pub(super) fn said(BinaryExpr { left, op, right }: &BinaryExpr, side_of: &dyn Fn(&Expr) -> Option<usize>) -> Said {
    let (Some(left), Some(right)) = (Sum::of(left, side_of), Sum::of(right, side_of)) else { return Said::Nothing };
    let sum = left.plus(right.negated());
    // right time - left time `op` bound, or the other way round.
    let (is_turned, bound) = match (sum.times, sum.span) {
        ([-1, 1], Ok(span)) => (false, span.checked_neg()),
        ([1, -1], Ok(span)) => (true, Some(span)),
        ([-1, 1] | [1, -1], Err(reason)) => return Said::Unclear(reason),
        _ => return Said::Nothing,
    };
    let Some(bound) = bound else { return Said::Unclear(NotFixed::TooLong) };
    let op = if is_turned { op.swap().unwrap_or(*op) } else { *op };
    let (from, to) = match op {
        Operator::Eq => (Some(bound), Some(bound)),
        Operator::GtEq => (Some(bound), None),
        Operator::Gt => (Some(bound.saturating_add(1)), None),
        Operator::LtEq => (None, Some(bound)),
        Operator::Lt => (None, Some(bound.saturating_sub(1))),
        _ => return Said::Nothing,
    };
    Said::Bounds(Bounds { from, to })
}

/// So many times each event time, and a span.
struct Sum {
    times: [i32; 2],
    span: Result<i64, NotFixed>,
}

impl Sum {
    /// An expression as such a sum, if it is one.
    fn of(expression: &Expr, side_of: &dyn Fn(&Expr) -> Option<usize>) -> Option<Self> {
        if let Some(side) = side_of(expression) {
            let mut times = [0; 2];
            times[side] = 1;
            return Some(Self { times, span: Ok(0) });
        }
        match expression {
            Expr::Alias(alias) => Self::of(&alias.expr, side_of),
            Expr::Negative(inner) => Some(Self::of(inner, side_of)?.negated()),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }) => {
                Some(Self::of(left, side_of)?.plus(Self::of(right, side_of)?))
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => {
                Some(Self::of(left, side_of)?.plus(Self::of(right, side_of)?.negated()))
            }
            // The difference of two times is a duration, which is compared with intervals as one of them.
            Expr::Cast(cast) if matches!(cast.field.data_type(), DataType::Interval(_) | DataType::Duration(_)) => {
                Self::of(&cast.expr, side_of)
            }
            Expr::Literal(value, _) => Some(Self { times: [0; 2], span: span(value, expression)? }),
            _ => None,
        }
    }

    fn plus(self, other: Self) -> Self {
        let span = match (self.span, other.span) {
            (Ok(a), Ok(b)) => a.checked_add(b).ok_or(NotFixed::TooLong),
            (Err(reason), _) | (_, Err(reason)) => Err(reason),
        };
        Self { times: [self.times[0] + other.times[0], self.times[1] + other.times[1]], span }
    }

    fn negated(self) -> Self {
        let span = self.span.and_then(|span| span.checked_neg().ok_or(NotFixed::TooLong));
        Self { times: self.times.map(|times| -times), span }
    }
}

/// A constant in microseconds; `None` if it is no span of time.
fn span(value: &ScalarValue, literal: &Expr) -> Option<Result<i64, NotFixed>> {
    match value {
        ScalarValue::DurationSecond(Some(span)) => Some(span.checked_mul(1_000_000).ok_or(NotFixed::TooLong)),
        ScalarValue::DurationMillisecond(Some(span)) => Some(span.checked_mul(1_000).ok_or(NotFixed::TooLong)),
        ScalarValue::DurationMicrosecond(Some(span)) => Some(Ok(*span)),
        ScalarValue::DurationNanosecond(Some(span)) => {
            Some(if span % 1000 == 0 { Ok(span / 1000) } else { Err(NotFixed::TooFine) })
        }
        ScalarValue::IntervalMonthDayNano(Some(_))
        | ScalarValue::IntervalDayTime(Some(_))
        | ScalarValue::IntervalYearMonth(Some(_)) => Some(micros(literal)),
        _ => None,
    }
}
