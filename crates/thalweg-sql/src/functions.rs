//! The functions of a query: DataFusion's, with time in microseconds and under Flink's names.

use std::{collections::BTreeMap, sync::Arc};

use arrow_schema::{DataType, TimeUnit};
use datafusion_common::{Result, config::ConfigOptions, tree_node::Transformed};
use datafusion_expr::{
    AggregateUDF, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, WindowUDF, expr::ScalarFunction, expr_rewriter::FunctionRewrite,
};

use crate::{bounded::bounded, types};

mod average;
mod difference;
mod frequent;
mod patterned;
mod real;

pub(crate) use frequent::NAME as FREQUENT;

/// Functions by name, lower case.
#[derive(Debug)]
pub(crate) struct Functions {
    pub scalar: BTreeMap<String, Arc<ScalarUDF>>,
    pub aggregate: BTreeMap<String, Arc<AggregateUDF>>,
    pub window: BTreeMap<String, Arc<WindowUDF>>,
}

/// Flink's and PostgreSQL's names for functions that are there under another name.
const ALIASES: [(&str, &str); 6] = [
    ("ceiling", "ceil"),
    ("char_length", "character_length"),
    ("len", "character_length"),
    ("rand", "random"),
    ("sign", "signum"),
    ("truncate", "trunc"),
];

/// Names that mean something else in Flink than in DataFusion, so that neither meaning is taken in silence.
const LEFT_OUT: [&str; 2] = ["date_format", "arrow_cast"];

impl Functions {
    /// All functions there are.
    pub fn new() -> Self {
        let mut scalar = BTreeMap::new();
        for function in datafusion_functions::all_default_functions().into_iter().map(bounded).map(real::real) {
            for name in std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str)) {
                scalar.insert(name.to_lowercase(), Arc::clone(&function));
            }
        }
        for (alias, name) in ALIASES {
            if let Some(function) = scalar.get(name).cloned() {
                scalar.entry(alias.to_string()).or_insert(function);
            }
        }
        for name in LEFT_OUT {
            scalar.remove(name);
        }
        scalar.insert(difference::NAME.to_string(), Arc::new(ScalarUDF::from(difference::TimestampDifference::new())));
        scalar.insert(LOCAL_TIMESTAMP.to_string(), Arc::new(ScalarUDF::from(LocalTimestamp::new())));
        let mut aggregate = BTreeMap::new();
        for function in
            datafusion_functions_aggregate::all_default_aggregate_functions().into_iter().map(average::average)
        {
            for name in std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str)) {
                aggregate.insert(name.to_lowercase(), Arc::clone(&function));
            }
        }
        aggregate.insert(FREQUENT.to_string(), Arc::new(AggregateUDF::from(frequent::Frequent::new())));
        let window = datafusion_functions_window::all_default_window_functions();
        let window = window.into_iter().map(|function| (function.name().to_lowercase(), function)).collect();
        Self { scalar, aggregate, window }
    }

    /// An aggregate of DataFusion, which is there.
    pub fn aggregate_named(&self, name: &str) -> Arc<AggregateUDF> {
        Arc::clone(self.aggregate.get(name).expect("DataFusion has it"))
    }

    /// The scalar function of a name, as the session's zone makes it. `to_timestamp` and its kind give a TIMESTAMP, as in
    /// Flink, not an instant of the session's zone.
    pub fn scalar(&self, name: &str, options: &ConfigOptions) -> Option<Arc<ScalarUDF>> {
        let function = self.scalar.get(&name.to_lowercase())?;
        if function.name().starts_with("to_timestamp") {
            return Some(Arc::clone(function));
        }
        Some(function.inner().with_updated_config(options).map_or_else(|| Arc::clone(function), Arc::new))
    }
}

const LOCAL_TIMESTAMP: &str = "localtimestamp";

/// `LOCALTIMESTAMP`: the query's start on the session's clock. It never runs: [`Microseconds`] puts `now()` in its place.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LocalTimestamp {
    signature: Signature,
}

impl LocalTimestamp {
    fn new() -> Self {
        Self { signature: Signature::nullary(Volatility::Stable) }
    }
}

impl ScalarUDFImpl for LocalTimestamp {
    fn name(&self) -> &str {
        LOCAL_TIMESTAMP
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, None))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        datafusion_common::internal_err!("localtimestamp is replaced when the query is planned")
    }
}

/// Keeps time in microseconds: what functions give in other units is cast where it arises, before types are coerced.
/// A cast from an instant to a TIMESTAMP gives the session's clock, as in Flink; Arrow's own gives that of UTC.
#[derive(Debug)]
pub(crate) struct Microseconds;

impl FunctionRewrite for Microseconds {
    fn name(&self) -> &str {
        "microseconds"
    }

    fn rewrite(
        &self,
        expression: Expr,
        schema: &datafusion_common::DFSchema,
        options: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        use DataType::Timestamp;
        match &expression {
            Expr::ScalarFunction(call) if call.name() == LOCAL_TIMESTAMP => {
                let now = datafusion_functions::datetime::now(options);
                let zone = options.execution.time_zone.as_deref().unwrap_or("UTC");
                let now = cast(Expr::ScalarFunction(ScalarFunction::new_udf(now, vec![])), types::instant(zone));
                Ok(Transformed::yes(local(now)))
            }
            Expr::ScalarFunction(call) if call.args.len() > 1 && !patterned::is_patterned(&call.func) => {
                match patterned::patterned(call.name()) {
                    Some(function) => {
                        let call = ScalarFunction::new_udf(function, call.args.clone());
                        Ok(Transformed::yes(Expr::ScalarFunction(call)))
                    }
                    None => in_microseconds(expression, schema),
                }
            }
            Expr::ScalarFunction(_) => in_microseconds(expression, schema),
            Expr::Cast(found) if matches!(found.field.data_type(), Timestamp(_, None)) => {
                match found.expr.get_type(schema) {
                    Ok(Timestamp(_, Some(_))) => {
                        Ok(Transformed::yes(cast(local((*found.expr).clone()), found.field.data_type().clone())))
                    }
                    _ => Ok(Transformed::no(expression)),
                }
            }
            _ => Ok(Transformed::no(expression)),
        }
    }
}

fn in_microseconds(expression: Expr, schema: &datafusion_common::DFSchema) -> Result<Transformed<Expr>> {
    match expression.get_type(schema) {
        Ok(DataType::Timestamp(unit, zone)) if unit != TimeUnit::Microsecond => {
            Ok(Transformed::yes(cast(expression, DataType::Timestamp(TimeUnit::Microsecond, zone))))
        }
        Ok(DataType::Time64(TimeUnit::Nanosecond)) => {
            Ok(Transformed::yes(cast(expression, DataType::Time64(TimeUnit::Microsecond))))
        }
        _ => Ok(Transformed::no(expression)),
    }
}

fn cast(expression: Expr, to: DataType) -> Expr {
    Expr::Cast(datafusion_expr::Cast::new(Box::new(expression), to))
}

fn local(instant: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(datafusion_functions::datetime::to_local_time(), vec![instant]))
}
