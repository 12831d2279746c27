//! AND and OR whose right side is computed only for rows that the left side does not decide.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow_arith::boolean::{and_kleene, or_kleene};
use arrow_array::{Array, BooleanArray, RecordBatch, cast::AsArray};
use arrow_schema::{DataType, Schema};
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::{PhysicalExpr, expressions::BinaryExpr};

/// `left AND right` or `left OR right` where the right side may fail: `x <> 0 AND 1 / x > 2`.
///
/// DataFusion decides by the share of rows that are left, so whether such a query fails would depend on the size of batches.
#[derive(Debug, Eq)]
pub struct Lazy {
    left: Arc<dyn PhysicalExpr>,
    operator: Operator,
    right: Arc<dyn PhysicalExpr>,
}

// Derived, it would move out of the trait objects.
impl PartialEq for Lazy {
    fn eq(&self, other: &Self) -> bool {
        self.operator == other.operator && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Hash for Lazy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.left, self.operator, &self.right).hash(state);
    }
}

impl Lazy {
    /// The lazy form of a conjunction or disjunction.
    pub fn new(binary: &BinaryExpr) -> Self {
        Self { left: Arc::clone(binary.left()), operator: *binary.op(), right: Arc::clone(binary.right()) }
    }

    /// The rows whose left side leaves the answer open: null, or true for AND, false for OR.
    fn open(&self, left: &BooleanArray) -> BooleanArray {
        let open = if self.operator == Operator::Or { !left.values() } else { left.values().clone() };
        let open = match left.nulls() {
            Some(nulls) => &open | &!nulls.inner(),
            None => open,
        };
        BooleanArray::new(open, None)
    }
}

impl fmt::Display for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} {} {})", self.left, self.operator, self.right)
    }
}

impl PhysicalExpr for Lazy {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        Ok(self.left.nullable(schema)? || self.right.nullable(schema)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let left = booleans(self.left.evaluate(batch)?, batch.num_rows())?;
        let open = self.open(&left);
        if !open.has_true() {
            return Ok(ColumnarValue::Array(Arc::new(left)));
        }
        let right = booleans(self.right.evaluate_selection(batch, &open)?, batch.num_rows())?;
        // Rows that were not computed are null or false on the right: the left decides them.
        let answer = match self.operator {
            Operator::Or => or_kleene(&left, &right),
            _ => and_kleene(&left, &right),
        };
        Ok(ColumnarValue::Array(Arc::new(answer?)))
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

fn booleans(value: ColumnarValue, rows: usize) -> Result<BooleanArray> {
    let array = value.into_array(rows)?;
    array.as_boolean_opt().cloned().ok_or_else(|| internal_datafusion_err!("AND and OR are of booleans"))
}
