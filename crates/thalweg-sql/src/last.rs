//! LAST JOIN: to each row the last row of another stream that it may see.
//!
//! DataFusion plans it as a LEFT JOIN whose condition holds a call, [`LAST_JOIN`]. The call becomes a node over the right side, which
//! passes all rows and stays there until the join is lowered.

use std::{cmp::Ordering, fmt, sync::Arc};

use arrow_schema::DataType;
use datafusion_common::{
    DFSchemaRef, JoinType, Result, ScalarValue, internal_err,
    tree_node::{Transformed, TransformedResult},
};
use datafusion_expr::{
    ColumnarValue, Expr, Extension, Join, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    UserDefinedLogicalNodeCore, Volatility,
    utils::{conjunction, split_conjunction_owned},
};
use thalweg_core::{Error, error::Span};

use crate::{dialect::LAST_JOIN, windowing::ours};

/// The right side of a LAST JOIN: all its rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LastNode {
    pub input: LogicalPlan,
    /// What its rows are ordered by, if that is written: a column of the input.
    pub order: Option<Expr>,
    /// Where LAST is written: line, column, width; nowhere in text that somebody else wrote.
    at: Option<(usize, usize, usize)>,
}

impl LastNode {
    /// The node that a plan is, or that rows come from unchanged but for columns and filters.
    pub fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            LogicalPlan::Projection(projection) => Self::of(&projection.input),
            LogicalPlan::Filter(filter) => Self::of(&filter.input),
            _ => None,
        }
    }

    /// Where LAST is written.
    pub fn span(&self) -> Option<Span> {
        self.at.map(|(line, column, width)| Span { line, column, width })
    }
}

/// The plan with a node for the right side of each LAST JOIN.
pub(crate) fn convert(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if join.join_type == JoinType::Left => last(join),
        node => Ok(Transformed::no(node)),
    })
    .data()
}

fn last(join: Join) -> Result<Transformed<LogicalPlan>> {
    let parts = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
    let (markers, others): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_marker);
    let Some(Expr::ScalarFunction(marker)) = markers.into_iter().next() else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let mut args = marker.args.into_iter();
    let place: Vec<usize> = args.by_ref().take(3).filter_map(|number| whole(&number)).collect();
    let at = match place.as_slice() {
        [line, column, width] if *line > 0 => Some((*line, *column, (*width).max(1))),
        _ => None,
    };
    let order = args.next();
    let node = LastNode { input: Arc::unwrap_or_clone(join.right), order, at };
    if node.order.as_ref().is_some_and(|order| !is_column_of(order, &node.input)) {
        let error = Error::query("LAST JOIN is ordered by something that is no column of what is joined");
        let error = error.with_hint("order by its event time: LAST JOIN r ORDER BY r.ts ON …");
        return Err(ours(node.span().into_iter().fold(error, Error::at)));
    }
    let right = Arc::new(LogicalPlan::Extension(Extension { node: Arc::new(node) }));
    Ok(Transformed::yes(LogicalPlan::Join(Join { right, filter: conjunction(others), ..join })))
}

fn is_marker(part: &Expr) -> bool {
    matches!(part, Expr::ScalarFunction(call) if call.name() == LAST_JOIN)
}

fn is_column_of(order: &Expr, input: &LogicalPlan) -> bool {
    matches!(order, Expr::Column(column) if input.schema().has_column(column))
}

fn whole(number: &Expr) -> Option<usize> {
    match number {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => usize::try_from(*number).ok(),
        Expr::Literal(ScalarValue::UInt64(Some(number)), _) => usize::try_from(*number).ok(),
        _ => None,
    }
}

/// What stands for LAST while DataFusion plans the join.
pub(crate) fn marker(name: &str) -> Option<Arc<ScalarUDF>> {
    let signature = Signature::variadic_any(Volatility::Immutable);
    (name == LAST_JOIN).then(|| Arc::new(ScalarUDF::from(Marker { signature })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    signature: Signature,
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        LAST_JOIN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("LAST JOIN is no value")
    }
}

impl PartialOrd for LastNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for LastNode {
    fn name(&self) -> &str {
        "Last"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.order.iter().cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Last")
    }

    fn with_exprs_and_inputs(&self, expressions: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(input) = inputs.into_iter().next() else {
            return Err(ours(Error::bug("LAST JOIN has a right side")));
        };
        let order = expressions.into_iter().next().map(|order| order.unalias_nested().data);
        Ok(Self { input, order, ..self.clone() })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let order = self.order.iter().flat_map(|order| order.column_refs());
        let order = order.filter_map(|column| self.input.schema().maybe_index_of_column(column));
        let mut needed: Vec<usize> = output_columns.iter().copied().chain(order).collect();
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
