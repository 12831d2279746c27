//! Predicates that kernels of ours compute: comparisons, arithmetic, remainders and logic over numbers and times.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::{
    Between, Expr, ExprSchemable, Operator,
    expr::{BinaryExpr, InList},
};
use thalweg_core::{Batch, Result, Selection, expression::Expression};
use thalweg_memory::{
    kernels::select::{Comparison, Constant, NumberType, Operation, Predicate, Value, number::Residue, select},
    simd::Level,
};

/// A predicate on kernels. What they cannot decide, a value that overflows, is computed again in the other way, which has
/// the words for the error.
#[derive(Debug)]
struct Fused {
    predicate: Predicate,
    otherwise: Arc<dyn Expression>,
}

/// The predicate on kernels, if they can compute all of it; `otherwise` as it is, if not.
pub fn fused(expression: &Expr, input: &DFSchema, otherwise: Arc<dyn Expression>) -> Arc<dyn Expression> {
    match predicate(expression, input) {
        Some(predicate) => Arc::new(Fused { predicate, otherwise }),
        None => otherwise,
    }
}

impl Expression for Fused {
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        self.otherwise.evaluate(batch)
    }

    fn column(&self) -> Option<usize> {
        self.otherwise.column()
    }

    fn selects_by_kernels(&self) -> bool {
        true
    }

    fn select(&self, batch: &Batch) -> Result<Option<Selection>> {
        select(&self.predicate, batch.columns(), batch.selection(), Level::best())
            .or_else(|_| self.otherwise.select(batch))
    }
}

/// The expression as kernels know it, if they can compute all of it.
pub fn predicate(expression: &Expr, input: &DFSchema) -> Option<Predicate> {
    let translate = |part: &Expr| predicate(part, input);
    match expression {
        Expr::Alias(alias) => translate(&alias.expr),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            Some(Predicate::And(vec![translate(left)?, translate(right)?]))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            Some(Predicate::Or(vec![translate(left)?, translate(right)?]))
        }
        Expr::Not(inner) => Some(Predicate::Not(Box::new(translate(inner)?))),
        Expr::IsNull(inner) => Some(Predicate::IsNull(column(inner, input)?)),
        Expr::IsNotNull(inner) => Some(Predicate::Not(Box::new(Predicate::IsNull(column(inner, input)?)))),
        Expr::Literal(ScalarValue::Boolean(value), _) => Some(Predicate::Always(*value)),
        Expr::Column(_) if kind(expression, input)? == DataType::Boolean => {
            Some(Predicate::Flag(column(expression, input)?))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => compare(left, comparison(*op)?, right, input),
        Expr::Between(Between { expr, negated, low, high }) => {
            let within = Predicate::And(vec![
                compare(expr, Comparison::GreaterOrEqual, low, input)?,
                compare(expr, Comparison::LessOrEqual, high, input)?,
            ]);
            Some(if *negated { Predicate::Not(Box::new(within)) } else { within })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let listed = Predicate::In(column(expr, input)?, whole_numbers(list)?);
            Some(if *negated { Predicate::Not(Box::new(listed)) } else { listed })
        }
        _ => None,
    }
}

/// Each number of a list costs a comparison; a long one is looked up in a table by DataFusion.
const LONGEST_LIST: usize = 16;

fn whole_numbers(list: &[Expr]) -> Option<Vec<i64>> {
    let whole = |part: &Expr| match literal(part)? {
        Constant::Whole(value) => Some(value),
        _ => None,
    };
    (list.len() <= LONGEST_LIST).then(|| list.iter().map(whole).collect())?
}

fn comparison(operator: Operator) -> Option<Comparison> {
    Some(match operator {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// The comparison with its sides exchanged.
fn turned(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        same => same,
    }
}

fn compare(left: &Expr, comparison: Comparison, right: &Expr, input: &DFSchema) -> Option<Predicate> {
    if literal(left).is_some() && literal(right).is_none() {
        return compare(right, turned(comparison), left, input);
    }
    let shared = kind(left, input)?;
    if shared != kind(right, input)? {
        return None;
    }
    if let Some(residue) = residue(left, comparison, right, input) {
        return Some(residue);
    }
    Some(Predicate::Compare(comparison, value(left, &shared, input)?, value(right, &shared, input)?))
}

/// `column % divisor = remainder`, and the same with `<>`.
fn residue(left: &Expr, comparison: Comparison, right: &Expr, input: &DFSchema) -> Option<Predicate> {
    let Expr::BinaryExpr(BinaryExpr { left: of, op: Operator::Modulo, right: divisor }) = left else { return None };
    let (Constant::Whole(divisor), Constant::Whole(remainder)) = (literal(divisor)?, literal(right)?) else {
        return None;
    };
    // A divisor of one or none has cases that fail.
    let residue = (divisor.checked_abs()? > 1).then(|| Residue::new(divisor, remainder))??;
    let of = match &**of {
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Int64 => &cast.expr,
        other => other,
    };
    let is_whole = matches!(kind(of, input)?, DataType::Int32 | DataType::Int64);
    let predicate = is_whole.then(|| Some(Predicate::Residue(column(of, input)?, residue)))??;
    match comparison {
        Comparison::Equal => Some(predicate),
        Comparison::NotEqual => Some(Predicate::Not(Box::new(predicate))),
        _ => None,
    }
}

fn value(expression: &Expr, shared: &DataType, input: &DFSchema) -> Option<Value> {
    match expression {
        Expr::Alias(alias) => value(&alias.expr, shared, input),
        Expr::Column(_) => is_lane(shared).then(|| Some(Value::Column(column(expression, input)?)))?,
        Expr::Literal(..) => Some(Value::Constant(literal(expression)?)),
        Expr::Cast(cast) => {
            let from = kind(&cast.expr, input)?;
            let number = number_type(cast.field.data_type())?;
            is_widened(&from, number).then(|| Some(Value::Widened(number, column(&cast.expr, input)?)))?
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let operation = match op {
                Operator::Plus => Operation::Plus,
                Operator::Minus => Operation::Minus,
                Operator::Multiply => Operation::Times,
                Operator::Modulo => Operation::Modulo,
                _ => return None,
            };
            let number = number_type(shared)?;
            let operand = |part: &Expr| -> Option<Box<Value>> {
                (kind(part, input)? == *shared).then(|| value(part, shared, input).map(Box::new))?
            };
            Some(Value::Arithmetic(number, operation, operand(left)?, operand(right)?))
        }
        _ => None,
    }
}

/// Whether kernels compare columns of this type.
fn is_lane(kind: &DataType) -> bool {
    use arrow_schema::TimeUnit::Microsecond;
    kind.is_integer()
        || matches!(kind, DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) | DataType::Date32)
        || matches!(kind, DataType::Timestamp(Microsecond, _) | DataType::Time64(Microsecond))
}

fn number_type(kind: &DataType) -> Option<NumberType> {
    Some(match kind {
        DataType::Int32 => NumberType::Int32,
        DataType::Int64 => NumberType::Int64,
        DataType::Float32 => NumberType::Float32,
        DataType::Float64 => NumberType::Float64,
        _ => return None,
    })
}

/// Whether every number of a column's type is one of the wider type.
fn is_widened(from: &DataType, to: NumberType) -> bool {
    use DataType::*;
    match to {
        NumberType::Int32 => matches!(from, Int8 | Int16 | UInt8 | UInt16),
        NumberType::Int64 => matches!(from, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32),
        NumberType::Float32 => matches!(from, Int8 | Int16 | UInt8 | UInt16),
        NumberType::Float64 => matches!(from, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 | Float32),
    }
}

fn kind(expression: &Expr, input: &DFSchema) -> Option<DataType> {
    expression.get_type(input).ok()
}

fn column(expression: &Expr, input: &DFSchema) -> Option<usize> {
    let Expr::Column(column) = expression else { return None };
    input.index_of_column(column).ok()
}

fn literal(expression: &Expr) -> Option<Constant> {
    let Expr::Literal(value, _) = expression else { return None };
    Some(match value {
        ScalarValue::Int8(Some(value)) => Constant::Whole((*value).into()),
        ScalarValue::Int16(Some(value)) => Constant::Whole((*value).into()),
        ScalarValue::Int32(Some(value)) | ScalarValue::Date32(Some(value)) => Constant::Whole((*value).into()),
        ScalarValue::Int64(Some(value))
        | ScalarValue::TimestampMicrosecond(Some(value), _)
        | ScalarValue::Time64Microsecond(Some(value)) => Constant::Whole(*value),
        ScalarValue::UInt8(Some(value)) => Constant::Whole((*value).into()),
        ScalarValue::UInt16(Some(value)) => Constant::Whole((*value).into()),
        ScalarValue::UInt32(Some(value)) => Constant::Whole((*value).into()),
        ScalarValue::UInt64(Some(value)) => Constant::Unsigned(*value),
        ScalarValue::Decimal128(Some(value), ..) => Constant::Wide(*value),
        ScalarValue::Float32(Some(value)) => Constant::Float((*value).into()),
        ScalarValue::Float64(Some(value)) => Constant::Float(*value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int32Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
    use arrow_schema::TimeUnit;
    use datafusion_expr::{binary_expr, cast, col, in_list, lit, not};

    use super::*;
    use crate::compile::{compile, tests::kept};

    fn batch() -> Batch {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(Int64Array::from(vec![Some(1), None, Some(20), Some(i64::MAX)]))),
            ("i", Arc::new(Int32Array::from(vec![7, -20, 30, 41]))),
            ("f", Arc::new(Float64Array::from(vec![0.5, f64::NAN, -0.0, 2.0]))),
            ("s", Arc::new(arrow_array::StringArray::from(vec!["7", "x", "", "9"]))),
            ("t", Arc::new(TimestampMicrosecondArray::from(vec![1, 2, 3, 4]))),
        ];
        Batch::new(RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap())
    }

    fn schema() -> DFSchema {
        DFSchema::try_from(batch().schema()).unwrap()
    }

    fn modulo(left: Expr, right: Expr) -> Expr {
        binary_expr(left, Operator::Modulo, right)
    }

    #[test]
    fn what_kernels_compute_is_what_datafusion_computes() {
        let time = |micros| lit(ScalarValue::TimestampMicrosecond(Some(micros), None));
        let wide = || cast(col("i"), DataType::Int64);
        for (expression, rows) in [
            (col("a").gt(lit(1i64)), vec![2, 3]),
            (lit(1i64).lt(col("a")), vec![2, 3]),
            (modulo(col("a"), lit(10i64)).eq(lit(0i64)), vec![2]),
            (modulo(wide(), lit(10i64)).eq(lit(0i64)), vec![1, 2]),
            (modulo(wide(), lit(10i64)).not_eq(lit(0i64)), vec![0, 3]),
            ((wide() + lit(1i64)).gt(wide() * lit(2i64)), vec![1]),
            (col("f").gt(lit(0.0)).and(not(col("a").is_null())), vec![0, 3]),
            (in_list(col("i"), vec![lit(7i32), lit(41i32)], true), vec![1, 2]),
            (col("t").between(time(2), time(3)), vec![1, 2]),
            (col("a").eq(lit(1i64)).or(col("i").is_not_null().and(col("f").eq(lit(0.0)))), vec![0, 2]),
        ] {
            assert!(predicate(&expression, &schema()).is_some(), "{expression} is not on kernels");
            let found = kept(compile(&expression, &schema()).unwrap().as_ref(), &batch());
            assert_eq!(found, rows, "{expression}");
        }
    }

    #[test]
    fn what_kernels_do_not_know_is_left_to_datafusion() {
        let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
        for expression in [
            col("s").eq(lit("7")),
            col("a").eq(lit(1i32)),
            cast(col("a"), DataType::Int32).gt(lit(1i32)),
            cast(col("t"), nanos.clone()).gt(lit(ScalarValue::TimestampNanosecond(Some(1), None))),
            (col("a") / lit(2i64)).gt(lit(1i64)),
            in_list(col("a"), vec![lit(ScalarValue::Int64(None))], false),
        ] {
            assert!(predicate(&expression, &schema()).is_none(), "{expression}");
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_an_error_in_words() {
        let expression = (col("a") + lit(1i64)).gt(lit(0i64));
        let compiled = compile(&expression, &schema()).unwrap();
        let error = compiled.select(&batch()).unwrap_err();
        assert_eq!(error.message(), "bigint out of range: 9223372036854775807 + 1 in a + 1");
        let small = batch().with_selection(Selection::new(vec![0, 1, 2]));
        assert_eq!(kept(compiled.as_ref(), &small), [0, 2]);
    }
}
