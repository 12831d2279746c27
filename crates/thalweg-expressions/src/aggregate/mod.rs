//! An aggregate call of a plan becomes accumulators.
//!
//! A function is taken, in this order, from
//! * the engine's own implementations, which the caller passes in,
//! * [`merging`]: DataFusion's, where any order of rows and merges gives the same bits ([`merging::REASONS`]),
//! * [`collected`]: DataFusion's, over all rows of a group, which wait until the result is wanted and are sorted then.
//!
//! Those of our own may be computed in two [`phases`] that stand in nodes of their own.

mod collected;
mod groups;
mod merging;
mod named;
mod percentile;
mod phases;
mod picked;
mod retracted;
mod sketch;

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::{
    Expr, ExprSchemable, cast,
    expr::{AggregateFunctionParams, NullTreatment},
    lit,
};
use datafusion_physical_expr::{
    PhysicalSortExpr,
    aggregate::{AggregateExprBuilder, AggregateFunctionExpr},
};
use thalweg_core::{
    Error, Result,
    aggregate::{Aggregate, Signature},
    error::Subject,
    expression::Expression,
};
use thalweg_plan::node::{AggregateCall, Phase};

use crate::{
    compile::{compile, physical},
    error::from_datafusion,
};

/// What an aggregate operator needs of one aggregate.
#[derive(Debug)]
pub struct Call {
    /// Makes accumulators.
    pub function: Arc<dyn Aggregate>,
    /// The columns that the accumulators take.
    pub arguments: Vec<Arc<dyn Expression>>,
    /// Which rows count.
    pub filter: Option<Arc<dyn Expression>>,
}

/// Finds an implementation of the engine's own, if there is one.
pub type Native<'a> = &'a dyn Fn(&Signature<'_>) -> Option<Arc<dyn Aggregate>>;

/// Compiles an aggregate over the columns of `input`; `exact_floats` asks for sums of floats that do not depend on order.
///
/// Errors: `Error::Query` for what DataFusion cannot compute, and for a function whose result depends on the order of rows
///         where no order is given.
pub fn aggregate(call: &AggregateCall, input: &DFSchema, exact_floats: bool, native: Native<'_>) -> Result<Call> {
    compiled(call, input, exact_floats, native, Arrival::AnyOrder)
}

/// Compiles an aggregate whose rows come in the order that it sees them in: an ORDER BY in the call is that order.
///
/// Errors: as [`aggregate`].
pub fn aggregate_in_order(
    call: &AggregateCall,
    input: &DFSchema,
    exact_floats: bool,
    native: Native<'_>,
) -> Result<Call> {
    compiled(call, input, exact_floats, native, Arrival::InOrder)
}

/// How the rows of a group come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// So they are sorted, where the order matters.
    AnyOrder,
    /// In the order that matters.
    InOrder,
}

fn compiled(
    call: &AggregateCall,
    input: &DFSchema,
    exact_floats: bool,
    native: Native<'_>,
    arrival: Arrival,
) -> Result<Call> {
    let text = match call.phase {
        // What is written is what the first phase has.
        Phase::Second { .. } => call.output.name().clone(),
        _ => thalweg_plan::written(&Expr::AggregateFunction(call.function.clone())),
    };
    let about = |error: Error| error.about(Subject::Expression(text.clone()));
    let texts = of_texts(call, input)?;
    let call = texts.as_ref().unwrap_or(call);
    let compiled = match call.phase {
        Phase::Only => unnamed(call, input, exact_floats, native, arrival),
        Phase::First { .. } | Phase::Second { .. } => in_phases(call, input, exact_floats, native),
    };
    let Call { function, arguments, filter } = compiled.map_err(about)?;
    let function = Arc::new(named::Named { inner: function, text: text.as_str().into() });
    Ok(Call { function, arguments, filter })
}

/// DataFusion's sketch takes no floats, but their texts, of which there are as many: both zeros have one, and so have all NaNs.
fn of_texts(call: &AggregateCall, input: &DFSchema) -> Result<Option<AggregateCall>> {
    let ("approx_distinct", [value]) = (call.function.func.name(), &call.function.params.args[..]) else {
        return Ok(None);
    };
    let zero = match value.get_type(input).map_err(|e| from_datafusion(&e))? {
        DataType::Float32 => lit(0_f32),
        DataType::Float64 => lit(0_f64),
        _ => return Ok(None),
    };
    let mut call = call.clone();
    call.function.params.args = vec![cast(value.clone() + zero, DataType::Utf8)];
    Ok(Some(call))
}

fn unnamed(
    call: &AggregateCall,
    input: &DFSchema,
    exact_floats: bool,
    native: Native<'_>,
    arrival: Arrival,
) -> Result<Call> {
    let name = call.function.func.name();
    let params = &call.function.params;
    if name == "nth_value" {
        has_number(params)?;
    }
    let filter = filter(name, params).map(|filter| compile(&filter, input)).transpose()?;
    let given = arguments(name, params, input)?;
    let kinds = given.iter().map(|argument| argument.get_type(input)).collect::<Result<Vec<_>, _>>();
    let kinds = kinds.map_err(|e| from_datafusion(&e))?;
    let signature = Signature {
        name,
        arguments: &kinds,
        is_distinct: params.distinct,
        output: call.output.data_type(),
        exact_floats,
    };
    let keeps_nulls = params.null_treatment != Some(NullTreatment::IgnoreNulls);
    if keeps_nulls && let Some(function) = native(&signature) {
        return Ok(Call { function, arguments: compile_all(&given, input)?, filter });
    }
    foreign(call, input, &kinds, filter, arrival)
}

/// One of two phases of a function of the engine's own.
fn in_phases(call: &AggregateCall, input: &DFSchema, exact_floats: bool, native: Native<'_>) -> Result<Call> {
    let (name, params) = (call.function.func.name(), &call.function.params);
    let find = |arguments: &[DataType], output: &DataType| {
        let signature = Signature { name, arguments, is_distinct: params.distinct, output, exact_floats };
        native(&signature).ok_or_else(|| Error::bug(format!("{name} has one phase")))
    };
    Ok(match &call.phase {
        Phase::Second { arguments } => {
            let function = Arc::new(phases::Second(find(arguments, call.output.data_type())?));
            Call { function, arguments: compile_all(&params.args, input)?, filter: None }
        }
        Phase::First { result } => {
            let given = arguments(name, params, input)?;
            let function = Arc::new(phases::First::new(find(&kinds_of(&given, input)?, result)?)?);
            let filter = filter(name, params).map(|filter| compile(&filter, input)).transpose()?;
            Call { function, arguments: compile_all(&given, input)?, filter }
        }
        Phase::Only => return Err(Error::bug(format!("{name} has two phases"))),
    })
}

/// Which rows count. DataFusion's `nth_value` takes IGNORE NULLS and does not ignore them.
fn filter(name: &str, params: &AggregateFunctionParams) -> Option<Expr> {
    let written = params.filter.as_deref().cloned();
    match params.args.first() {
        Some(value) if name == "nth_value" && params.null_treatment == Some(NullTreatment::IgnoreNulls) => {
            let is_there = value.clone().is_not_null();
            Some(written.map_or(is_there.clone(), |filter| filter.and(is_there)))
        }
        _ => written,
    }
}

/// The arguments that matter: `count` only asks whether they are null.
fn arguments(name: &str, params: &AggregateFunctionParams, input: &DFSchema) -> Result<Vec<Expr>> {
    if name == "count" && !params.distinct {
        let mut some = Vec::new();
        for argument in &params.args {
            if argument.nullable(input).map_err(|e| from_datafusion(&e))? {
                some.push(argument.clone());
            }
        }
        return Ok(some);
    }
    Ok(params.args.clone())
}

/// The call through DataFusion.
fn foreign(
    call: &AggregateCall,
    input: &DFSchema,
    kinds: &[DataType],
    filter: Option<Arc<dyn Expression>>,
    arrival: Arrival,
) -> Result<Call> {
    let (function, params) = (&call.function.func, &call.function.params);
    let name = function.name();
    // The first of the distinct values is that of the first row, and the last that of the last.
    let is_distinct = params.distinct && !matches!(name, "first_value" | "last_value");
    let has_order = !is_distinct || name == "nth_value";
    let comes_in_order = arrival == Arrival::InOrder && has_order && !function.supports_within_group_clause();
    if name == "grouping" {
        return Err(Error::query("grouping() has no meaning without GROUPING SETS"));
    }
    // DataFusion's sums of these wrap around.
    if matches!(name, "sum" | "avg")
        && kinds.iter().any(|kind| matches!(kind, DataType::Interval(_) | DataType::Decimal256(..)))
    {
        return Err(Error::query(format!("there is no {name} of {}", thalweg_core::types::sql_name(&kinds[0])))
            .with_hint("add up seconds: sum(date_part('epoch', x))"));
    }
    if merging::is_merging(name, kinds, params.distinct) {
        let built = build(call, input, params.distinct)?;
        let arguments = compile_all(&params.args, input)?;
        let of = |kind| percentile::percentile(name, params, kind).or_else(|| sketch::sketch(name, kind));
        let slide = kinds.first().and_then(of);
        return Ok(Call { function: Arc::new(merging::Merging::new(built, slide)), arguments, filter });
    }
    if params.order_by.is_empty() && has_order && !comes_in_order && collected::needs_order(name) {
        return Err(Error::query(format!("{name} depends on the order of rows, and none is given"))
            .with_hint(format!("say the order: {name}(… ORDER BY …)")));
    }
    // The rows come sorted and without doubles, so the function itself need not know of that.
    let built = build(call, input, false)?;
    let mut arguments = compile_all(&params.args, input)?;
    let order = params.order_by.iter().filter(|_| !comes_in_order);
    arguments.extend(order.clone().map(|key| compile(&key.expr, input)).collect::<Result<Vec<_>>>()?);
    let mut columns = kinds_of(&params.args, input)?;
    columns.extend(kinds_of(order.clone().map(|key| &key.expr), input)?);
    let options = order.map(|key| arrow_schema::SortOptions::new(!key.asc, key.nulls_first)).collect();
    let is_sorted = comes_in_order && collected::needs_order(name);
    let pick = if is_sorted && !is_distinct { picked::picked(name, params) } else { None };
    let function = collected::Collected::new(built, columns, options, is_distinct, is_sorted, pick)?;
    Ok(Call { function: Arc::new(function), arguments, filter })
}

/// DataFusion takes any number of a row, and gives up when it is used.
fn has_number(params: &AggregateFunctionParams) -> Result<()> {
    match params.args.get(1) {
        Some(Expr::Literal(ScalarValue::Int64(Some(number)), _)) if *number != 0 => Ok(()),
        _ => Err(Error::query("nth_value takes the number of a row: 1 is the first one, -1 the last one")
            .with_hint("write nth_value(v, 2)")),
    }
}

fn compile_all(expressions: &[Expr], input: &DFSchema) -> Result<Vec<Arc<dyn Expression>>> {
    expressions.iter().map(|expression| compile(expression, input)).collect()
}

fn kinds_of<'a>(expressions: impl IntoIterator<Item = &'a Expr>, input: &DFSchema) -> Result<Vec<DataType>> {
    expressions.into_iter().map(|e| e.get_type(input).map_err(|e| from_datafusion(&e))).collect()
}

fn build(call: &AggregateCall, input: &DFSchema, is_distinct: bool) -> Result<AggregateFunctionExpr> {
    build_physical(call, input, is_distinct).map_err(|e| from_datafusion(&e))
}

fn build_physical(
    call: &AggregateCall,
    input: &DFSchema,
    is_distinct: bool,
) -> datafusion_common::Result<AggregateFunctionExpr> {
    let (function, params) = (&call.function.func, &call.function.params);
    let arguments = params.args.iter().map(|argument| physical(argument, input));
    let mut builder = AggregateExprBuilder::new(Arc::clone(function), arguments.collect::<Result<_, _>>()?)
        .schema(Arc::clone(input.inner()))
        .alias(call.output.name())
        .with_distinct(is_distinct)
        .with_ignore_nulls(params.null_treatment == Some(NullTreatment::IgnoreNulls));
    // WITHIN GROUP (ORDER BY …) is an argument in disguise.
    if function.supports_within_group_clause() {
        let keys = params.order_by.iter().map(|key| {
            let options = arrow_schema::SortOptions::new(!key.asc, key.nulls_first);
            Ok(PhysicalSortExpr::new(physical(&key.expr, input)?, options))
        });
        builder = builder.order_by(keys.collect::<datafusion_common::Result<_>>()?);
    }
    let built = builder.build()?;
    // Some functions only say here that they do not take these arguments.
    built.create_accumulator()?;
    Ok(built)
}

#[cfg(test)]
mod tests;
