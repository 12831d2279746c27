//! `INSERT INTO`: the columns of a query matched by position with those of a table.

use arrow_schema::{DataType, Field};
use datafusion_common::ScalarValue;
use datafusion_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder};
use thalweg_core::{Error, Result, connector::TableDefinition};
use thalweg_plan::node::OP;

use crate::{
    catalog::{Catalog, Relation},
    diagnose, emit, optimize,
    parse::Insert,
    planner::Planner,
    refuse,
    script::Words,
    types,
};

/// The query with exactly the table's columns, and the table.
pub(crate) fn plan(
    into: &Insert,
    catalog: &Catalog,
    planner: &Planner,
    words: &Words,
) -> Result<(LogicalPlan, TableDefinition)> {
    let table = match catalog.get(&into.table.text) {
        Some(Relation::Table(table)) => table,
        Some(Relation::View(_)) => {
            return Err(Error::query(format!("{:?} is a view, and rows go into tables", into.table.text))
                .with_hint("INSERT INTO a table")
                .at(into.table.at));
        }
        None => return Err(catalog.not_found(&into.table.text, "table").at(into.table.at)),
    };
    let definition = table.definition(planner.zone());
    let targets = targets(into, &definition, |name| {
        table.columns.iter().any(|column| column.name == name && column.computed.is_some())
    })?;
    let query = planner.query(&into.query).map_err(|error| diagnose::planning(error, words))?;
    let query = emit::emitted(query, into.emit, words)?;
    refuse::check(&query, words)?;
    let query = optimize::analyze(query, planner.options()).map_err(|error| diagnose::planning(error, words))?;
    let given = query.schema().fields().len();
    if given != targets.len() {
        let message = format!("table {:?} takes {} columns, the query has {given}", definition.name, targets.len());
        let names = targets.iter().map(|i| definition.columns.field(*i).name().as_str());
        let columns = diagnose::known("columns", names);
        let hint = match emit::is_eager(into.emit) {
            true => format!("the first column of EMIT EAGER is {OP}, which says what becomes of a row; {columns}"),
            false => columns,
        };
        return Err(Error::query(message).with_hint(hint).at(into.table.at));
    }
    let query = cast_values(query, &targets, &definition).map_err(|error| diagnose::planning(error, words))?;
    let mut expressions = Vec::new();
    for (i, field) in definition.columns.fields().iter().enumerate() {
        let expression = match targets.iter().position(|target| *target == i) {
            Some(position) => assign(&query, position, field).map_err(|error| {
                let is_op = position == 0 && emit::is_eager(into.emit);
                let error =
                    if is_op { error.with_hint(format!("it is {OP}, which EMIT EAGER puts in front")) } else { error };
                error.at(into.table.at)
            })?,
            None if field.is_nullable() => null(field.data_type()).map_err(|error| diagnose::planning(error, words))?,
            None => {
                let message = format!("column \"{}\" is NOT NULL and gets no value", field.name());
                return Err(Error::query(message)
                    .with_hint("name it in INSERT INTO, and give it one")
                    .at(into.table.at));
            }
        };
        expressions.push(expression.alias(field.name()));
    }
    let plan = LogicalPlanBuilder::from(query).project(expressions).and_then(|builder| builder.build());
    Ok((plan.map_err(|error| diagnose::planning(error, words))?, definition))
}

/// Each value of VALUES as its column's type, so that one which does not fit is named as it is written.
fn cast_values(
    query: LogicalPlan,
    targets: &[usize],
    table: &TableDefinition,
) -> datafusion_common::Result<LogicalPlan> {
    let LogicalPlan::Values(mut values) = query else { return Ok(query) };
    let given = values.schema.fields().iter().zip(targets);
    let casts: Vec<_> = given
        .map(|(field, target)| {
            let (from, to) = (field.data_type(), table.columns.field(*target).data_type());
            (from != to && is_assignable(from, to)).then(|| to.clone())
        })
        .collect();
    if casts.iter().all(Option::is_none) {
        return Ok(LogicalPlan::Values(values));
    }
    for (value, to) in values.values.iter_mut().flat_map(|row| row.iter_mut().zip(&casts)) {
        if let Some(to) = to {
            *value = Expr::Cast(Cast::new(Box::new(std::mem::take(value)), to.clone()));
        }
    }
    LogicalPlanBuilder::values(values.values)?.build()
}

/// The table's columns that get values, in the order of the query's columns.
fn targets(into: &Insert, table: &TableDefinition, is_computed: impl Fn(&str) -> bool) -> Result<Vec<usize>> {
    if into.columns.is_empty() {
        return Ok((0..table.columns.fields().len()).collect());
    }
    let mut targets = Vec::new();
    for name in &into.columns {
        if is_computed(&name.text) {
            let message = format!("column \"{}\" is computed and takes no values", name.text);
            return Err(Error::query(message).with_hint("leave it out").at(name.at));
        }
        let Some((i, _)) = table.columns.column_with_name(&name.text) else {
            let names = || table.columns.fields().iter().map(|field| field.name().as_str());
            let hint = diagnose::near(&name.text, names()).unwrap_or_else(|| diagnose::known("columns", names()));
            return Err(Error::query(format!("column \"{}\" not found", name.text)).with_hint(hint).at(name.at));
        };
        if targets.contains(&i) {
            return Err(Error::query(format!("column \"{}\" is named twice", name.text)).at(name.at));
        }
        targets.push(i);
    }
    Ok(targets)
}

fn null(data_type: &DataType) -> datafusion_common::Result<Expr> {
    Ok(Expr::Literal(ScalarValue::try_from(data_type)?, None))
}

fn assign(query: &LogicalPlan, position: usize, target: &Field) -> Result<Expr> {
    let (table, source) = query.schema().qualified_field(position);
    let column = Expr::Column(datafusion_common::Column::from((table, source)));
    let (from, to) = (source.data_type(), target.data_type());
    if from == to {
        return Ok(column);
    }
    if is_assignable(from, to) {
        return Ok(Expr::Cast(Cast::new(Box::new(column), to.clone())));
    }
    let (from, to) = (types::flink_name(from), types::flink_name(to));
    Err(Error::query(format!(
        "column \"{}\" is {to}, and column {} of the query is {from}",
        target.name(),
        position + 1
    ))
    .with_hint(format!("cast it: CAST({} AS {to})", source.name())))
}

/// Whether each value either keeps its meaning or is an error of its row: never a silent loss.
fn is_assignable(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let is_text = |t: &DataType| matches!(t, Utf8 | LargeUtf8 | Utf8View);
    let is_decimal = |t: &DataType| matches!(t, Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..));
    let is_binary = |t: &DataType| matches!(t, Binary | LargeBinary | BinaryView | FixedSizeBinary(_));
    match (from, to) {
        (Null, _) => true,
        (from, to) if from.is_integer() => to.is_integer() || to.is_floating() || is_decimal(to),
        (from, to) if from.is_floating() => to.is_floating() || is_decimal(to),
        (from, to) if is_decimal(from) => is_decimal(to) || to.is_floating(),
        (Date32 | Date64, Timestamp(..) | Date32)
        | (Timestamp(..), Timestamp(..))
        | (Time64(_) | Time32(_), Time64(_)) => true,
        (from, to) => (is_text(from) && is_text(to)) || (is_binary(from) && is_binary(to)),
    }
}
