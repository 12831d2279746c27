//! Comparisons of floats as in PostgreSQL: −0.0 equals 0.0, and all NaNs are one value, larger than every number. Arrow
//! compares their bits.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, cast::AsArray, types::*};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Schema};
use datafusion_common::{Result, ScalarValue, internal_datafusion_err, internal_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::{PhysicalExpr, expressions::Literal};

/// A comparison of two floats of one type.
#[derive(Debug, Eq)]
pub struct FloatComparison {
    left: Arc<dyn PhysicalExpr>,
    operator: Operator,
    right: Arc<dyn PhysicalExpr>,
}

// Derived, it would move out of the trait objects.
impl PartialEq for FloatComparison {
    fn eq(&self, other: &Self) -> bool {
        self.operator == other.operator && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Hash for FloatComparison {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.left, self.operator, &self.right).hash(state);
    }
}

impl FloatComparison {
    /// `left operator right`.
    pub fn new(left: Arc<dyn PhysicalExpr>, operator: Operator, right: Arc<dyn PhysicalExpr>) -> Self {
        Self { left, operator, right }
    }
}

impl fmt::Display for FloatComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.left, self.operator, self.right)
    }
}

impl PhysicalExpr for FloatComparison {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        use Operator::{IsDistinctFrom, IsNotDistinctFrom};
        let is_total = matches!(self.operator, IsDistinctFrom | IsNotDistinctFrom);
        Ok(!is_total && (self.left.nullable(schema)? || self.right.nullable(schema)?))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let (left, right) = (Side::new(self.left.evaluate(batch)?)?, Side::new(self.right.evaluate(batch)?)?);
        let equals = match self.operator {
            Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => true,
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => false,
            other => return internal_err!("{other} compares nothing"),
        };
        // a > b is b < a, and a >= b is not a < b.
        let swaps = matches!(self.operator, Operator::Gt | Operator::LtEq);
        let (first, second) = if swaps { (&right, &left) } else { (&left, &right) };
        let bits = if equals { same(first, second, rows)? } else { below(first, second, rows)? };
        let nulls = NullBuffer::union(left.nulls(rows).as_ref(), right.nulls(rows).as_ref());
        let answer = match self.operator {
            Operator::Eq | Operator::Lt | Operator::Gt => BooleanArray::new(bits, nulls),
            Operator::NotEq | Operator::LtEq | Operator::GtEq => BooleanArray::new(!&bits, nulls),
            operator => {
                let same = alike(&bits, &left, &right, rows);
                BooleanArray::new(if operator == Operator::IsDistinctFrom { !&same } else { same }, None)
            }
        };
        Ok(ColumnarValue::Array(Arc::new(answer)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let [left, right] = <[_; 2]>::try_from(children).map_err(|_| internal_datafusion_err!("two children"))?;
        Ok(Arc::new(Self { left, operator: self.operator, right }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One operand: a value per row, or one for all.
struct Side {
    values: ArrayRef,
    is_one: bool,
}

impl Side {
    fn new(value: ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Array(values) => Self { values, is_one: false },
            ColumnarValue::Scalar(value) => Self { values: value.to_array()?, is_one: true },
        })
    }

    fn nulls(&self, rows: usize) -> Option<NullBuffer> {
        match self.values.nulls() {
            Some(_) if self.is_one => Some(NullBuffer::new_null(rows)),
            nulls => nulls.cloned(),
        }
    }
}

/// The rows that `IS NOT DISTINCT FROM` holds for.
fn alike(bits: &BooleanBuffer, left: &Side, right: &Side, rows: usize) -> BooleanBuffer {
    let valid = |side: &Side| side.nulls(rows).map_or_else(|| BooleanBuffer::new_set(rows), |nulls| nulls.into_inner());
    let (left, right) = (valid(left), valid(right));
    let (both, neither) = (&left & &right, !&(&left | &right));
    &(bits & &both) | &neither
}

macro_rules! over_rows {
    ($left:expr, $right:expr, $rows:expr, $test:expr) => {{
        let (left, right, rows) = ($left, $right, $rows);
        macro_rules! with {
            ($kind:ty) => {{
                let (a, b) =
                    (left.values.as_primitive::<$kind>().values(), right.values.as_primitive::<$kind>().values());
                match (left.is_one, right.is_one) {
                    (false, false) => BooleanBuffer::collect_bool(rows, |i| $test(a[i], b[i])),
                    (false, true) => {
                        let b = b[0];
                        BooleanBuffer::collect_bool(rows, |i| $test(a[i], b))
                    }
                    (true, false) => {
                        let a = a[0];
                        BooleanBuffer::collect_bool(rows, |i| $test(a, b[i]))
                    }
                    (true, true) => {
                        let answer = $test(a[0], b[0]);
                        if answer { BooleanBuffer::new_set(rows) } else { BooleanBuffer::new_unset(rows) }
                    }
                }
            }};
        }
        match (left.values.data_type(), right.values.data_type()) {
            (DataType::Float64, DataType::Float64) => with!(Float64Type),
            (DataType::Float32, DataType::Float32) => with!(Float32Type),
            (left, right) => return internal_err!("{left} and {right} are not floats of one type"),
        }
    }};
}

fn same(left: &Side, right: &Side, rows: usize) -> Result<BooleanBuffer> {
    Ok(over_rows!(left, right, rows, |a, b| a == b || (is_nan(a) & is_nan(b))))
}

fn below(left: &Side, right: &Side, rows: usize) -> Result<BooleanBuffer> {
    Ok(over_rows!(left, right, rows, |a, b| a < b || (is_nan(b) & !is_nan(a))))
}

/// Whether a float is no number; without the trait that f32 and f64 do not share.
#[inline]
#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_nan<F: PartialEq>(value: F) -> bool {
    value != value
}

/// A float with one NaN and one zero, for what compares bits.
#[derive(Debug, Eq)]
pub struct Canonical {
    inner: Arc<dyn PhysicalExpr>,
}

impl PartialEq for Canonical {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Hash for Canonical {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Canonical {
    /// The expression, whose floats are canonical; a constant is made so at once, and what is no float stays as it is.
    pub fn of(inner: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        if let Some(literal) = inner.downcast_ref::<Literal>() {
            return Ok(Arc::new(Literal::new(one(literal.value().clone()))));
        }
        let is_float = matches!(inner.data_type(schema)?, DataType::Float32 | DataType::Float64);
        Ok(if is_float { Arc::new(Self { inner: Arc::clone(inner) }) } else { Arc::clone(inner) })
    }
}

impl fmt::Display for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl PhysicalExpr for Canonical {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.inner.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        Ok(match self.inner.evaluate(batch)? {
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(one(value)),
            ColumnarValue::Array(values) => ColumnarValue::Array(match values.data_type() {
                DataType::Float64 => Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(canonical)),
                DataType::Float32 => {
                    let short = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
                    Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(short))
                }
                _ => values,
            }),
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let [inner] = <[_; 1]>::try_from(children).map_err(|_| internal_datafusion_err!("one child"))?;
        Ok(Arc::new(Self { inner }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn one(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(value)) => ScalarValue::Float64(Some(canonical(value))),
        ScalarValue::Float32(Some(value)) => {
            ScalarValue::Float32(Some(if value.is_nan() { f32::NAN } else { value + 0.0 }))
        }
        other => other,
    }
}

#[inline]
fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use arrow_array::Float64Array;
    use datafusion_common::DFSchema;
    use datafusion_expr::{Expr, binary_expr, case, cast, col, in_list, lit};
    use thalweg_core::Batch;

    use super::*;
    use crate::compile::compile;

    /// PostgreSQL's order of floats, naively.
    fn order(a: f64, b: f64) -> Ordering {
        match (a.is_nan(), b.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => a.partial_cmp(&b).unwrap(),
        }
    }

    fn values() -> Vec<Option<f64>> {
        let mut values: Vec<_> =
            [-f64::NAN, -f64::INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN].map(Some).into();
        values.push(None);
        values
    }

    fn literal(value: Option<f64>) -> Expr {
        lit(ScalarValue::Float64(value))
    }

    fn pairs() -> Vec<(Option<f64>, Option<f64>)> {
        values().into_iter().flat_map(|a| values().into_iter().map(move |b| (a, b))).collect()
    }

    fn batch() -> Batch {
        let (a, b): (Vec<_>, Vec<_>) = pairs().into_iter().unzip();
        let short = |values: &[Option<f64>]| values.iter().map(|v| v.map(|v| v as f32)).collect();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("c", Arc::new(arrow_array::Float32Array::from_iter::<Vec<Option<f32>>>(short(&a)))),
            ("d", Arc::new(arrow_array::Float32Array::from_iter::<Vec<Option<f32>>>(short(&b)))),
            ("a", Arc::new(Float64Array::from(a))),
            ("b", Arc::new(Float64Array::from(b))),
        ];
        Batch::new(RecordBatch::try_from_iter(columns).unwrap())
    }

    fn computed(expression: &Expr) -> ArrayRef {
        compile(expression, &DFSchema::try_from(batch().schema()).unwrap()).unwrap().evaluate(&batch()).unwrap()
    }

    fn answers(expression: &Expr) -> Vec<Option<bool>> {
        computed(expression).as_boolean().iter().collect()
    }

    fn naive(operator: Operator, a: Option<f64>, b: Option<f64>) -> Option<bool> {
        use Operator::*;
        let Some(ordering) = a.zip(b).map(|(a, b)| order(a, b)) else {
            return match operator {
                IsDistinctFrom => Some(a.is_some() != b.is_some()),
                IsNotDistinctFrom => Some(a.is_some() == b.is_some()),
                _ => None,
            };
        };
        Some(match operator {
            Eq | IsNotDistinctFrom => ordering.is_eq(),
            NotEq | IsDistinctFrom => ordering.is_ne(),
            Lt => ordering.is_lt(),
            LtEq => ordering.is_le(),
            Gt => ordering.is_gt(),
            _ => ordering.is_ge(),
        })
    }

    #[test]
    fn every_comparison_of_every_pair_is_postgresqls() {
        use Operator::*;
        for operator in [Eq, NotEq, Lt, LtEq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom] {
            let expected: Vec<_> = pairs().into_iter().map(|(a, b)| naive(operator, a, b)).collect();
            assert_eq!(answers(&binary_expr(col("a"), operator, col("b"))), expected, "{operator}");
            assert_eq!(answers(&binary_expr(col("c"), operator, col("d"))), expected, "{operator} of FLOAT");
            for value in values() {
                let expected: Vec<_> = pairs().into_iter().map(|(a, _)| naive(operator, a, value)).collect();
                assert_eq!(answers(&binary_expr(col("a"), operator, literal(value))), expected, "{operator} {value:?}");
                let expected: Vec<_> = pairs().into_iter().map(|(_, b)| naive(operator, value, b)).collect();
                assert_eq!(answers(&binary_expr(literal(value), operator, col("b"))), expected, "{value:?} {operator}");
            }
        }
    }

    #[test]
    fn lists_ranges_and_cases_compare_alike() {
        let equal = |a, b| naive(Operator::Eq, a, b);
        for value in values() {
            let expected: Vec<_> = pairs().into_iter().map(|(a, _)| equal(a, value)).collect();
            assert_eq!(answers(&in_list(col("a"), vec![literal(value)], false)), expected, "IN ({value:?})");
            let or_seven = in_list(col("a"), vec![literal(value), lit(7.0)], false);
            assert_eq!(answers(&or_seven), expected, "IN ({value:?}, 7)");
            let seen = case(col("a")).when(literal(value), lit(true)).otherwise(lit(false)).unwrap();
            let expected: Vec<_> = expected.into_iter().map(|answer| Some(answer == Some(true))).collect();
            assert_eq!(answers(&seen), expected, "CASE a WHEN {value:?}");
        }
        let either = in_list(col("a"), vec![col("b"), lit(-1.0)], false);
        for ((a, b), answer) in pairs().into_iter().zip(answers(&either)) {
            let expected = match (equal(a, b), equal(a, Some(-1.0))) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (None, _) | (_, None) => None,
                _ => Some(false),
            };
            assert_eq!(answer, expected, "{a:?} IN ({b:?}, -1)");
        }
        let within = answers(&col("a").between(lit(0.0), col("b")));
        for ((a, b), answer) in pairs().into_iter().zip(within) {
            let expected = match (naive(Operator::GtEq, a, Some(0.0)), naive(Operator::LtEq, a, b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (None, _) | (_, None) => None,
                _ => Some(true),
            };
            assert_eq!(answer, expected, "{a:?} BETWEEN 0 AND {b:?}");
        }
    }

    #[test]
    fn nullif_greatest_and_least_compare_alike() {
        use datafusion_functions::core::{greatest, least, nullif};
        let of = |function: Arc<datafusion_expr::ScalarUDF>| {
            let values = computed(&function.call(vec![col("a"), col("b")]));
            values.as_primitive::<Float64Type>().iter().collect::<Vec<_>>()
        };
        let equal = |a: Option<f64>, b: Option<f64>| naive(Operator::IsNotDistinctFrom, a, b) == Some(true);
        for ((a, b), ((differs, most), fewest)) in
            pairs().into_iter().zip(of(nullif()).into_iter().zip(of(greatest())).zip(of(least())))
        {
            let expected = if a.is_some() && equal(a, b) { None } else { a };
            assert_eq!(differs.map(f64::to_bits), expected.map(f64::to_bits), "nullif({a:?}, {b:?})");
            let both = a.zip(b).map(|(a, b)| if order(a, b).is_gt() { (a, b) } else { (b, a) });
            let (larger, smaller) = (both.map(|both| both.0).or(a).or(b), both.map(|both| both.1).or(a).or(b));
            assert!(equal(most, larger), "greatest({a:?}, {b:?}) is {most:?}");
            assert!(equal(fewest, smaller), "least({a:?}, {b:?}) is {fewest:?}");
        }
    }

    #[test]
    fn a_cast_is_compared_by_what_it_gives() {
        let expression = cast(col("c"), DataType::Float64).eq(col("a"));
        let expected: Vec<_> = pairs().into_iter().map(|(a, _)| a.map(|_| true)).collect();
        assert_eq!(answers(&expression), expected);
    }
}
