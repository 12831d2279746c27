//! An expression of a plan becomes something that computes columns.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_empty_array, new_null_array};
use arrow_schema::{ArrowError, DataType};
use arrow_select::{interleave::interleave, take::take};
use datafusion_common::{
    DFSchema, DataFusionError, ScalarValue,
    tree_node::{Transformed, TreeNode},
};
use datafusion_expr::{
    ColumnarValue, Expr,
    execution_props::ExecutionProps,
    expr::ScalarFunction,
    physical_planning_context::PhysicalPlanningContext,
    simplify::{ExprSimplifyResult, SimplifyContext},
};
use datafusion_physical_expr::{PhysicalExpr, create_physical_expr, expressions::Literal};
use thalweg_core::{
    Batch, Result, Selection,
    expression::{Expression, check_text},
};

use crate::{
    blame,
    checked::{checked, is_total},
    error::{from_arrow, from_datafusion},
    fused::fused,
};

/// Compiles an expression over the columns of `input`, whose types must fit already (the plan's compiler sees to casts).
///
/// Errors: `Error::Query` for what DataFusion cannot compute. Later, `Error::Data` names the value that cannot be computed
///         with and the part of the expression that failed.
pub fn compile(expression: &Expr, input: &DFSchema) -> Result<Arc<dyn Expression>> {
    if let Expr::Column(column) = expression.clone().unalias() {
        let index = input.index_of_column(&column).map_err(|e| from_datafusion(&e))?;
        return Ok(fused(expression, input, Arc::new(Column(index))));
    }
    Ok(fused(expression, input, Arc::new(Computed::new(expression, input)?)))
}

/// Passes a column on.
#[derive(Debug)]
struct Column(usize);

impl Expression for Column {
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        Ok(Arc::clone(batch.column(self.0)))
    }

    fn column(&self) -> Option<usize> {
        Some(self.0)
    }
}

/// Computes a column through DataFusion, from the columns it needs and no others.
#[derive(Debug)]
pub struct Computed {
    expression: Expr,
    schema: DFSchema,
    needed: Vec<usize>,
    physical: Arc<dyn PhysicalExpr>,
    kind: DataType,
    is_total: bool,
    /// The column of a literal, for as many rows as there were last; `None` for what is no literal.
    constant: Option<Mutex<ArrayRef>>,
}

impl Computed {
    /// Compiles an expression, also where it is a mere column.
    pub fn new(expression: &Expr, input: &DFSchema) -> Result<Self> {
        Self::plan(expression, input).map_err(|e| blame::refusal(expression, input, &e))
    }

    fn plan(expression: &Expr, input: &DFSchema) -> datafusion_common::Result<Self> {
        let expression = written_out(expression.clone().unalias(), input)?;
        let needed = expression.column_refs().into_iter().map(|column| input.index_of_column(column));
        let needed: Vec<usize> = needed.collect::<datafusion_common::Result<BTreeSet<_>>>()?.into_iter().collect();
        let fields = needed.iter().map(|index| input.qualified_field(*index));
        let fields = fields.map(|(table, field)| (table.cloned(), Arc::clone(field))).collect();
        let schema = DFSchema::new_with_metadata(fields, Default::default())?;
        let physical = physical(&expression, &schema)?;
        let kind = physical.data_type(schema.as_arrow())?;
        let is_total = is_total(&physical, schema.as_arrow());
        // Texts may be long, and are not kept.
        let is_constant = physical.downcast_ref::<Literal>().is_some() && kind.primitive_width().is_some();
        let constant = is_constant.then(|| Mutex::new(new_empty_array(&kind)));
        Ok(Self { expression, schema, needed, physical, kind, is_total, constant })
    }

    /// One value per row of the columns that are needed.
    fn run(&self, columns: &RecordBatch) -> Result<ArrayRef> {
        if columns.num_rows() == 0 {
            return Ok(new_empty_array(&self.kind));
        }
        let rows = columns.num_rows();
        if let Some(constant) = &self.constant {
            // A longer one is not cut: all of it would count as memory of few rows.
            let last = constant.lock().unwrap_or_else(PoisonError::into_inner);
            if last.len() == rows {
                return Ok(Arc::clone(&last));
            }
        }
        let computed = self.physical.evaluate(columns).and_then(|value| {
            // The same text for every row is written down once for each.
            if let ColumnarValue::Scalar(scalar) = &value {
                let length = scalar.try_as_str().flatten().map_or(0, str::len);
                check_text("this expression", length.saturating_mul(rows))
                    .map_err(|error| DataFusionError::External(Box::new(error)))?;
            }
            value.into_array(rows)
        });
        let computed = computed.map_err(|error| blame::explain(&self.expression, &self.schema, columns, &error))?;
        if let Some(constant) = &self.constant {
            *constant.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&computed);
        }
        Ok(computed)
    }
}

impl Expression for Computed {
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        let columns = batch.columns().project(&self.needed).map_err(|e| from_arrow(&e))?;
        match batch.selection() {
            None => self.run(&columns),
            // Computing a few rows more is cheaper than moving all to and fro, where it does no harm.
            Some(selection) if self.is_total && selection.len() * 4 >= columns.num_rows() => self.run(&columns),
            Some(selection) => {
                let few = self.run(&selected(&columns, selection).map_err(|e| from_arrow(&e))?)?;
                spread(&few, selection, columns.num_rows())
            }
        }
    }
}

/// The selected rows, of which there are as many if no column is needed.
fn selected(columns: &RecordBatch, selection: &Selection) -> Result<RecordBatch, ArrowError> {
    if columns.num_columns() > 0 {
        return arrow_select::take::take_record_batch(columns, &selection.to_indices());
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(selection.len()));
    RecordBatch::try_new_with_options(columns.schema(), vec![], &rows)
}

/// The physical expression, checked.
pub fn physical(expression: &Expr, schema: &DFSchema) -> datafusion_common::Result<Arc<dyn PhysicalExpr>> {
    let planned =
        create_physical_expr(expression, schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())?;
    checked(planned, schema.as_arrow())
}

/// The expression with those functions written out that exist only as an abbreviation, as `coalesce` does for CASE.
fn written_out(expression: Expr, schema: &DFSchema) -> datafusion_common::Result<Expr> {
    let context = SimplifyContext::builder().with_schema(Arc::new(schema.clone())).build();
    let transformed = expression.transform_up(|node| match node {
        Expr::ScalarFunction(ScalarFunction { func, args }) => Ok(match func.simplify(args, &context)? {
            ExprSimplifyResult::Simplified(simple) => Transformed::yes(simple),
            ExprSimplifyResult::Original(args) => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
        }),
        other => Ok(Transformed::no(other)),
    });
    transformed.map(|transformed| transformed.data)
}

/// Puts the values of the selected rows where the rows stand; what is between them means nothing, but is not null where
/// no value is.
fn spread(values: &ArrayRef, selection: &Selection, rows: usize) -> Result<ArrayRef> {
    let filler = match ScalarValue::new_default(values.data_type()).and_then(|value| value.to_array()) {
        Ok(filler) => filler,
        Err(_) => new_null_array(values.data_type(), 1),
    };
    let is_wide = values.data_type().primitive_width().is_none() && *values.data_type() != DataType::Boolean;
    if is_wide || values.is_empty() {
        let mut sources = vec![(0, 0); rows];
        selection.rows().iter().enumerate().for_each(|(at, row)| sources[*row as usize] = (1, at));
        return interleave(&[filler.as_ref(), values.as_ref()], &sources).map_err(|e| from_arrow(&e));
    }
    let mut sources = vec![0; rows];
    selection.rows().iter().zip(0..).for_each(|(row, at)| sources[*row as usize] = at);
    take(values.as_ref(), &UInt32Array::from(sources), None).map_err(|e| from_arrow(&e))
}

#[cfg(test)]
pub(crate) mod tests {
    use arrow_array::{Int32Array, Int64Array, StringArray, cast::AsArray, types::*};
    use arrow_schema::{Field, Schema};
    use datafusion_expr::{Operator, binary_expr, cast, col, lit, not, when};
    use thalweg_core::error::Fault;

    use super::*;

    /// a = 1, 0, 5, max; b = 1, 2, null, 1; s = "7", "x", "", "9"; f = 0.5, 0, 2, -1
    fn batch() -> Batch {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(Int64Array::from(vec![1, 0, 5, i64::MAX]))),
            ("b", Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(1)]))),
            ("s", Arc::new(StringArray::from(vec!["7", "x", "", "9"]))),
            ("f", Arc::new(arrow_array::Float64Array::from(vec![0.5, 0.0, 2.0, -1.0]))),
            ("i", Arc::new(Int32Array::from(vec![i32::MIN, 1, 2, 3]))),
        ];
        Batch::new(RecordBatch::try_from_iter(columns).unwrap())
    }

    /// The rows that a predicate leaves.
    pub(crate) fn kept(predicate: &dyn Expression, batch: &Batch) -> Vec<usize> {
        let left = match predicate.select(batch).unwrap() {
            None => batch.clone(),
            Some(selection) => batch.clone().with_selection(selection),
        };
        left.rows().collect()
    }

    fn compiled(expression: &Expr) -> Arc<dyn Expression> {
        compile(expression, &DFSchema::try_from(batch().schema()).unwrap()).unwrap()
    }

    fn integers(expression: Expr, batch: &Batch) -> Vec<Option<i64>> {
        let values = compiled(&expression).evaluate(batch).unwrap();
        assert_eq!(values.len(), batch.physical_rows());
        batch.rows().map(|row| values.is_valid(row).then(|| values.as_primitive::<Int64Type>().value(row))).collect()
    }

    fn failure(expression: Expr) -> String {
        let error = compiled(&expression).evaluate(&batch()).unwrap_err();
        assert_eq!(error.fault(), Fault::Data);
        error.message().to_string()
    }

    fn only(rows: &[u32]) -> Batch {
        batch().with_selection(Selection::new(rows.to_vec()))
    }

    #[test]
    fn a_column_passes_without_a_copy() {
        let expression = compiled(&col("b").alias("c"));
        assert_eq!(expression.column(), Some(1));
        let batch = only(&[2]);
        assert!(Arc::ptr_eq(&expression.evaluate(&batch).unwrap(), batch.column(1)));
    }

    #[test]
    fn literals_have_a_value_for_every_row_even_without_columns() {
        assert_eq!(integers(lit(7i64), &batch()), [Some(7); 4]);
        let rows = RecordBatchOptions::new().with_row_count(Some(3));
        let bare = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &rows).unwrap();
        let seven = compile(&(lit(3i64) + lit(4i64)), &DFSchema::empty()).unwrap();
        assert_eq!(seven.evaluate(&Batch::new(bare)).unwrap().as_ref(), &Int64Array::from(vec![7; 3]));
        // The column that is made once is only that of as many rows.
        let (one, null) = (compiled(&lit(7i64)), compiled(&cast(lit(ScalarValue::Null), DataType::Int64)));
        for rows in [4, 4, 2, 0, 4] {
            let some = Batch::new(batch().columns().slice(0, rows));
            assert_eq!(one.evaluate(&some).unwrap().as_ref(), &Int64Array::from(vec![7; rows]));
            assert_eq!(null.evaluate(&some).unwrap().as_ref(), &Int64Array::new_null(rows));
        }
        // Few rows are computed by themselves.
        let lower = || datafusion_functions::string::lower().call(vec![lit("A")]);
        let few = compiled(&lower()).evaluate(&only(&[3])).unwrap();
        assert_eq!((few.len(), few.as_string::<i32>().value(3)), (4, "a"));
    }

    #[test]
    fn no_rows_are_no_failure() {
        let none = Batch::new(batch().columns().slice(0, 0));
        assert_eq!(compiled(&(lit(1i64) / lit(0i64))).evaluate(&none).unwrap().len(), 0);
        let nobody = compiled(&(lit(1i64) / col("a"))).evaluate(&only(&[])).unwrap();
        assert_eq!((nobody.len(), nobody.null_count()), (4, 0), "a column that is never null stays so");
    }

    #[test]
    fn rows_that_are_out_are_not_computed() {
        assert_eq!(integers(lit(10i64) / col("a"), &only(&[0, 2])), [Some(10), Some(2)]);
        assert_eq!(integers(col("a") + col("b"), &only(&[0, 2])), [Some(2), None]);
        let numbers = cast(col("s"), DataType::Int64);
        assert_eq!(integers(numbers, &only(&[0, 3])), [Some(7), Some(9)]);
    }

    #[test]
    fn values_stand_where_their_rows_stand() {
        let text = compiled(&binary_expr(col("s"), Operator::StringConcat, lit("!")));
        for rows in [vec![1], vec![0, 3], vec![2, 3], vec![]] {
            let values = text.evaluate(&only(&rows)).unwrap();
            assert_eq!((values.len(), values.null_count()), (4, 0));
            for row in rows {
                let expected = format!("{}!", batch().column(2).as_string::<i32>().value(row as usize));
                assert_eq!(values.as_string::<i32>().value(row as usize), expected);
            }
        }
        let predicate = compiled(&col("f").gt(lit(0.1)));
        assert_eq!(kept(predicate.as_ref(), &only(&[1, 2])), [2]);
        assert_eq!(kept(predicate.as_ref(), &only(&[2])), [2]);
        assert_eq!(kept(predicate.as_ref(), &batch()), [0, 2]);
    }

    #[test]
    fn what_overflows_is_an_error_and_never_wraps() {
        assert_eq!(failure(col("a") + col("b")), "bigint out of range: 9223372036854775807 + 1 in a + b");
        assert_eq!(failure(lit(2i64) * col("a")), "bigint out of range: 2 * 9223372036854775807 in 2 * a");
        let below = lit(-2i64) - col("a");
        assert_eq!(failure(below), "bigint out of range: -2 - 9223372036854775807 in -2 - a");
        assert_eq!(failure(-col("i")), "int out of range: -(-2147483648) in -i");
    }

    #[test]
    fn functions_of_datafusion_fail_in_our_words() {
        let abs = datafusion_functions::math::abs();
        let least = abs.call(vec![lit(-1i64) - col("a")]);
        assert_eq!(failure(least), "bigint out of range: abs(-9223372036854775808) in abs(-1 - a)");
        let trimmed = datafusion_functions::string::btrim().call(vec![col("s"), lit("7")]);
        assert_eq!(failure(cast(trimmed, DataType::Int64)), "\"\" in btrim(s, '7') is not a value of type BIGINT");
        let remainder = binary_expr(lit(1i64), Operator::Modulo, col("a"));
        assert_eq!(failure(remainder), "division by zero in 1 % a");
    }

    #[test]
    fn the_part_that_failed_is_named() {
        assert_eq!(failure((lit(1i64) / col("a")) + lit(1i64)), "division by zero in 1 / a");
        let number = cast(col("s"), DataType::Int64) * lit(2i64);
        assert_eq!(failure(number), "\"x\" in s is not a value of type BIGINT");
        let small = cast(col("a"), DataType::Int8);
        assert_eq!(failure(small), "9223372036854775807 in a is not a value of type TINYINT");
    }

    #[test]
    fn and_and_or_spare_their_right_side_whatever_the_share_of_rows() {
        let nonzero = || col("a").not_eq(lit(0i64));
        let risky = || (lit(10i64) / col("a")).gt(lit(3i64));
        let held = compiled(&nonzero().and(risky()));
        assert_eq!(kept(held.as_ref(), &batch()), [0]);
        let open = compiled(&not(nonzero()).or(risky()));
        assert_eq!(kept(open.as_ref(), &batch()), [0, 1]);
        // The left side is null for the third row, so that the right side is asked.
        let unknown = compiled(&col("b").not_eq(lit(2i64)).and(risky()));
        let values = unknown.evaluate(&batch()).unwrap();
        let expected = [Some(true), Some(false), Some(false), Some(false)];
        assert_eq!(values.as_boolean(), &arrow_array::BooleanArray::from(expected.to_vec()));
    }

    #[test]
    fn case_and_coalesce_compute_only_the_branch_they_take() {
        let guarded = when(col("a").eq(lit(0i64)), lit(-1i64)).otherwise(lit(10i64) / col("a")).unwrap();
        assert_eq!(integers(guarded, &batch()), [Some(10), Some(-1), Some(2), Some(0)]);
        let coalesce = datafusion_functions::core::coalesce();
        let first = coalesce.call(vec![col("b"), lit(10i64) / col("a")]);
        assert_eq!(integers(first, &batch()), [Some(1), Some(2), Some(2), Some(1)]);
    }

    #[test]
    fn what_cannot_be_planned_is_the_querys_fault() {
        let schema = DFSchema::try_from(Schema::new(vec![Field::new("a", DataType::Int64, false)])).unwrap();
        let error = compile(&col("nobody"), &schema).unwrap_err();
        assert_eq!(error.fault(), Fault::Query);
        assert!(error.message().contains("nobody"), "{error}");
    }
}
