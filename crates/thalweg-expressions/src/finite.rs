//! Casts to floats that fail where no float holds the value. Arrow's give infinity.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch,
    cast::AsArray,
    types::{Float32Type, Float64Type},
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Schema};
use arrow_select::nullif::nullif;
use datafusion_common::{Result, exec_err, internal_datafusion_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{CastExpr, TryCastExpr},
};
use thalweg_core::types::sql_name;

/// A cast of text or of a wider float to a float, whose infinities are infinities of the operand.
#[derive(Debug, Eq)]
pub struct Finite {
    operand: Arc<dyn PhysicalExpr>,
    cast: Arc<dyn PhysicalExpr>,
    /// Whether what does not fit is null, as of `TRY_CAST`.
    is_try: bool,
}

// Derived, it would move out of the trait objects.
impl PartialEq for Finite {
    fn eq(&self, other: &Self) -> bool {
        self.cast.eq(&other.cast)
    }
}

impl Hash for Finite {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cast.hash(state);
    }
}

impl Finite {
    /// The cast, if it may make an infinity of something else.
    pub fn of(node: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Self>> {
        let (operand, is_try) = match (node.downcast_ref::<CastExpr>(), node.downcast_ref::<TryCastExpr>()) {
            (Some(cast), _) => (cast.expr(), false),
            (None, Some(cast)) => (cast.expr(), true),
            (None, None) => return Ok(None),
        };
        let may_overflow = match (operand.data_type(schema)?, node.data_type(schema)?) {
            (from, DataType::Float32) => from.is_string() || from == DataType::Float64,
            (from, DataType::Float64) => from.is_string(),
            _ => false,
        };
        let operand = Arc::clone(operand);
        Ok(may_overflow.then(|| Self { operand, cast: Arc::clone(node), is_try }))
    }
}

impl fmt::Display for Finite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cast.fmt(f)
    }
}

impl PhysicalExpr for Finite {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.cast.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.cast.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let value = self.cast.evaluate(batch)?;
        let values = value.to_array(1)?;
        if !(0..values.len()).any(|row| is_infinite(&values, row)) {
            return Ok(value);
        }
        let given = self.operand.evaluate(batch)?.into_array(values.len())?;
        let overflows = |row: usize| is_infinite(&values, row) && !says_infinity(&given, row);
        if self.is_try {
            let mask = BooleanArray::from_iter((0..values.len()).map(|row| Some(overflows(row))));
            return Ok(ColumnarValue::Array(spread(nullif(&values, &mask)?, batch.num_rows())?));
        }
        match (0..values.len()).find(|row| overflows(*row)) {
            Some(row) => {
                let text = ArrayFormatter::try_new(&given, &FormatOptions::default())?.value(row).to_string();
                exec_err!("{text} does not fit into {}", sql_name(values.data_type()))
            }
            None => Ok(value),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.operand]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let [operand] = <[_; 1]>::try_from(children).map_err(|_| internal_datafusion_err!("one child"))?;
        let cast = Arc::clone(&self.cast).with_new_children(vec![Arc::clone(&operand)])?;
        Ok(Arc::new(Self { operand, cast, is_try: self.is_try }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cast.fmt_sql(f)
    }
}

/// A value for every row: a constant is one for all.
fn spread(values: ArrayRef, rows: usize) -> Result<ArrayRef> {
    if values.len() == rows {
        return Ok(values);
    }
    datafusion_common::ScalarValue::try_from_array(&values, 0)?.to_array_of_size(rows)
}

fn is_infinite(values: &ArrayRef, row: usize) -> bool {
    if values.is_null(row) {
        return false;
    }
    match values.data_type() {
        DataType::Float64 => values.as_primitive::<Float64Type>().value(row).is_infinite(),
        DataType::Float32 => values.as_primitive::<Float32Type>().value(row).is_infinite(),
        _ => false,
    }
}

/// Whether the value is an infinity itself: a float, or text such as `-inf`.
fn says_infinity(values: &ArrayRef, row: usize) -> bool {
    let spells = |text: &str| text.contains(['n', 'N']);
    match values.data_type() {
        DataType::Utf8 => spells(values.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => spells(values.as_string::<i64>().value(row)),
        DataType::Utf8View => spells(values.as_string_view().value(row)),
        _ => is_infinite(values, row),
    }
}
