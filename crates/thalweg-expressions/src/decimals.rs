//! Arithmetic of decimals that fails where a result has too many digits, and rounds quotients. Arrow's wraps around in
//! places, and cuts them off.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow_array::{Array, Decimal128Array, RecordBatch, cast::AsArray, types::Decimal128Type};
use arrow_schema::{ArrowError, DataType, Schema};
use datafusion_common::{Result, ScalarValue, internal_datafusion_err, internal_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::{PhysicalExpr, expressions::BinaryExpr};
use thalweg_core::decimal::{Failure, Operation, Scales, compute, text};

/// An operator between two decimals.
#[derive(Debug, Eq)]
pub struct DecimalArithmetic {
    left: Arc<dyn PhysicalExpr>,
    operation: Operation,
    right: Arc<dyn PhysicalExpr>,
    precision: u8,
    scales: Scales,
}

// Derived, it would move out of the trait objects.
impl PartialEq for DecimalArithmetic {
    fn eq(&self, other: &Self) -> bool {
        self.operation == other.operation && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Hash for DecimalArithmetic {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.left, self.operation, &self.right).hash(state);
    }
}

impl DecimalArithmetic {
    /// The operator, if it computes with decimals.
    pub fn of(binary: &BinaryExpr, schema: &Schema) -> Result<Option<Self>> {
        let operation = match binary.op() {
            Operator::Plus => Operation::Add,
            Operator::Minus => Operation::Subtract,
            Operator::Multiply => Operation::Multiply,
            Operator::Divide => Operation::Divide,
            Operator::Modulo => Operation::Remainder,
            _ => return Ok(None),
        };
        let (left, right) = (binary.left().data_type(schema)?, binary.right().data_type(schema)?);
        let (DataType::Decimal128(_, left), DataType::Decimal128(_, right)) = (left, right) else { return Ok(None) };
        let DataType::Decimal128(precision, result) = binary.data_type(schema)? else { return Ok(None) };
        let scales = Scales { left, right, result };
        let (left, right) = (Arc::clone(binary.left()), Arc::clone(binary.right()));
        Ok(Some(Self { left, operation, right, precision, scales }))
    }

    fn sign(&self) -> char {
        match self.operation {
            Operation::Add => '+',
            Operation::Subtract => '-',
            Operation::Multiply => '*',
            Operation::Divide => '/',
            Operation::Remainder => '%',
        }
    }

    fn compute(&self, left: i128, right: i128) -> Result<i128, ArrowError> {
        compute(self.operation, left, right, self.scales).map_err(|failure| match failure {
            Failure::Zero => ArrowError::DivideByZero,
            Failure::Range => {
                let (left, right) = (text(left, self.scales.left), text(right, self.scales.right));
                ArrowError::ArithmeticOverflow(format!("Overflow happened on: {left} {} {right}", self.sign()))
            }
        })
    }
}

impl fmt::Display for DecimalArithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} {} {})", self.left, self.sign(), self.right)
    }
}

impl PhysicalExpr for DecimalArithmetic {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Decimal128(self.precision, self.scales.result))
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        Ok(self.left.nullable(schema)? || self.right.nullable(schema)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let (left, right) = (self.left.evaluate(batch)?, self.right.evaluate(batch)?);
        if let (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) = (&left, &right) {
            let value = value(left)?.zip(value(right)?).map(|(left, right)| self.compute(left, right)).transpose()?;
            return Ok(ColumnarValue::Scalar(ScalarValue::Decimal128(value, self.precision, self.scales.result)));
        }
        let rows = batch.num_rows();
        let (left, right) = (left.into_array(rows)?, right.into_array(rows)?);
        let (left, right) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
        let both =
            |row: usize| (left.is_valid(row) && right.is_valid(row)).then(|| (left.value(row), right.value(row)));
        let values = (0..rows).map(|row| both(row).map(|(left, right)| self.compute(left, right)).transpose());
        let values = values.collect::<Result<Decimal128Array, ArrowError>>()?;
        Ok(ColumnarValue::Array(Arc::new(values.with_precision_and_scale(self.precision, self.scales.result)?)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let [left, right] = <[_; 2]>::try_from(children).map_err(|_| internal_datafusion_err!("two children"))?;
        let Self { operation, precision, scales, .. } = *self;
        Ok(Arc::new(Self { left, operation, right, precision, scales }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn value(scalar: &ScalarValue) -> Result<Option<i128>> {
    match scalar {
        ScalarValue::Decimal128(value, ..) => Ok(*value),
        other => internal_err!("{other} is not a decimal"),
    }
}
