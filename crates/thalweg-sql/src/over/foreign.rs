//! Columns that only the other inputs of a union have: null in the rows of the base.
//!
//! DataFusion's planner looks for the arguments of a call among the columns of FROM. What it does not find there, and an input of
//! the window's union has, becomes a call of a function without arguments, and a column of nulls of the base once all is planned.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use arrow_schema::DataType;
use datafusion_common::{
    Column, DataFusionError, Result, ScalarValue, SchemaError, internal_err,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use sqlparser::{
    ast::{
        self, Function, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, WindowType,
        visit_expressions_mut,
    },
    tokenizer::Location,
};

use super::{Planned, clauses, node::Call};

/// What the functions are called that stand for such columns, before their number.
pub(super) const PREFIX: &str = "union column ";

/// A column that only other inputs have.
pub(crate) type Foreign = (String, DataType);

/// Puts functions in the place of columns that were not found, if an input of the union of their window has them; `known` are those
/// that were put there before. Whether there was such a place.
pub(crate) fn supply(
    query: &mut Query,
    error: &DataFusionError,
    planned: &[Planned],
    known: &mut Vec<Foreign>,
) -> bool {
    match error {
        DataFusionError::Collection(all) => {
            let mut is_supplied = false;
            for error in all {
                is_supplied |= supply(query, error, planned, known);
            }
            is_supplied
        }
        error => missing(error, None).is_some_and(|(name, at)| supply_one(query, &name, at, planned, known)),
    }
}

fn supply_one(query: &mut Query, name: &str, at: Location, planned: &[Planned], known: &mut Vec<Foreign>) -> bool {
    let mut is_supplied = false;
    let _: ControlFlow<()> = visit_expressions_mut(query, |expression| {
        if let ast::Expr::Function(call) = expression
            && let Some(kind) = kind(call, name, planned)
        {
            let mut replace = |part: &mut ast::Expr| {
                if matches!(part, ast::Expr::Identifier(found) if found.value == name && found.span.start == at) {
                    *part = function(known.len());
                    is_supplied = true;
                }
                ControlFlow::<()>::Continue(())
            };
            let _ = visit_expressions_mut(&mut call.args, &mut replace);
            let _ = visit_expressions_mut(&mut call.filter, &mut replace);
            if is_supplied {
                known.push((name.to_string(), kind));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    is_supplied
}

/// The column that was not found, and where it is written.
fn missing(error: &DataFusionError, at: Option<Location>) -> Option<(String, Location)> {
    let place = |span: datafusion_common::Span| Location::new(span.start.line, span.start.column);
    match error {
        DataFusionError::Diagnostic(diagnostic, inner) => missing(inner, at.or(diagnostic.span.map(place))),
        DataFusionError::Context(_, inner) => missing(inner, at),
        DataFusionError::SchemaError(error, _) => match &**error {
            SchemaError::FieldNotFound { field, .. } if field.relation.is_none() => {
                let at = at.or(field.spans.first().map(place)).filter(|at| at.line > 0)?;
                Some((field.name.clone(), at))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The type that a column has in an input of the union that a call looks at.
fn kind(call: &Function, name: &str, planned: &[Planned]) -> Option<DataType> {
    let Some(WindowType::WindowSpec(spec)) = &call.over else { return None };
    let planned = planned.get(spec.partition_by.iter().find_map(clauses::number)?)?;
    let mut fields = planned.inputs.iter().flat_map(|input| input.plan.schema().fields());
    fields.find(|field| field.name() == name).map(|field| field.data_type().clone())
}

fn function(number: usize) -> ast::Expr {
    ast::Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(format!("{PREFIX}{number}"))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![],
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// The calls with columns for functions that stand for them, and the base with these columns.
pub(super) fn with_columns(base: LogicalPlan, calls: Vec<Call>) -> Result<(LogicalPlan, Vec<Call>)> {
    let mut foreign: BTreeMap<String, DataType> = BTreeMap::new();
    let mut named = |call: Call| {
        let function = call.function.transform(|part| match part {
            Expr::ScalarFunction(stands) => match stands.func.inner().downcast_ref::<Stands>() {
                Some(Stands { column: (name, kind), .. }) => {
                    foreign.insert(name.clone(), kind.clone());
                    Ok(Transformed::yes(Expr::Column(Column::from_name(name))))
                }
                None => Ok(Transformed::no(Expr::ScalarFunction(stands))),
            },
            part => Ok(Transformed::no(part)),
        });
        Ok(Call { function: function.data()?, ..call })
    };
    let calls = calls.into_iter().map(&mut named).collect::<Result<Vec<_>>>()?;
    // Another window over the same rows may have brought them.
    foreign.retain(|name, _| !base.schema().has_column_with_unqualified_name(name));
    if foreign.is_empty() {
        return Ok((base, calls));
    }
    let nulls = foreign.into_iter().map(|(name, kind)| Ok(null(&kind)?.alias(name)));
    let all = base.schema().columns().into_iter().map(Expr::Column).map(Ok).chain(nulls);
    let all = all.collect::<Result<Vec<_>>>()?;
    Ok((LogicalPlanBuilder::from(base).project(all)?.build()?, calls))
}

/// The null of a type.
pub(super) fn null(kind: &DataType) -> Result<Expr> {
    Ok(Expr::Literal(ScalarValue::try_from(kind)?, None))
}

/// A value of the base's rows, in which such columns are null.
pub(super) fn of_base(value: Expr) -> Result<Expr> {
    let nulls = value.transform(|part| match &part {
        Expr::ScalarFunction(stands) => match stands.func.inner().downcast_ref::<Stands>() {
            Some(Stands { column: (_, kind), .. }) => Ok(Transformed::yes(null(kind)?)),
            None => Ok(Transformed::no(part)),
        },
        _ => Ok(Transformed::no(part)),
    });
    nulls.data()
}

/// The function of a name that stands for a column.
pub(crate) fn stand_in(name: &str, known: &[Foreign]) -> Option<Arc<ScalarUDF>> {
    let number: usize = name.strip_prefix(PREFIX)?.parse().ok()?;
    let stands = Stands {
        name: name.to_string(),
        column: known.get(number)?.clone(),
        signature: Signature::nullary(Volatility::Immutable),
    };
    Some(Arc::new(ScalarUDF::from(stands)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Stands {
    name: String,
    column: Foreign,
    signature: Signature,
}

impl ScalarUDFImpl for Stands {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.column.1.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a column of a union is no value")
    }
}
