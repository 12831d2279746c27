//! DataFusion's node of window functions → ours.

use std::{collections::BTreeMap, sync::Arc};

use datafusion_common::{
    Column, ExprSchema, Result,
    tree_node::{Transformed, TransformedResult},
};
use datafusion_expr::{
    AggregateUDF, Expr, Extension, LogicalPlan, LogicalPlanBuilder, WindowFunctionDefinition,
    expr::{AggregateFunction, Sort, WindowFunction},
    logical_plan::Window,
};
use sqlparser::ast::Query;
use thalweg_core::{Error, error::Span};

use super::{
    Clauses, Shape, absent, calls,
    clauses::place,
    foreign,
    node::{Call, OverNode, over},
    otherwise,
};
use crate::{diagnose, dialect::WINDOW_CLAUSES, windowing::ours};

/// The clauses of a window with its other inputs planned.
pub(crate) struct Planned {
    pub clauses: Clauses,
    pub inputs: Vec<Input>,
}

/// Another input of a union.
pub(crate) struct Input {
    pub(super) plan: LogicalPlan,
    /// What it is called in errors.
    name: String,
    at: Span,
}

impl Input {
    /// An input that a query gives, the first one being number 1.
    pub fn new(plan: LogicalPlan, query: &Query, number: usize) -> Self {
        let (name, at) = place(query, number);
        Self { plan, name, at }
    }

    /// The only column of a name.
    fn find(&self, name: &str) -> Option<Column> {
        let mut found = self.plan.schema().columns().into_iter().filter(|column| column.name == name);
        found.next().filter(|_| found.next().is_none())
    }

    /// Whether a row may have no value in the column of this name.
    fn may_be_null(&self, name: &str) -> bool {
        self.find(name).is_none_or(|column| self.plan.schema().nullable(&column).unwrap_or(true))
    }
}

/// Calls with the same keys and order, over the same inputs.
struct Group {
    keys: Vec<Expr>,
    order: Vec<Sort>,
    /// The number of the union.
    union: Option<usize>,
    calls: Vec<Call>,
}

/// The plan with nodes of ours for all calls with OVER.
pub(crate) fn convert(plan: LogicalPlan, planned: &[Planned]) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Window(window) => windows(window, planned).map(Transformed::yes),
        node => otherwise::settled(node),
    })
    .data()
}

fn windows(window: Window, planned: &[Planned]) -> Result<LogicalPlan> {
    let mut groups: Vec<Group> = Vec::new();
    for expression in &window.window_expr {
        let name = expression.schema_name().to_string();
        let Expr::WindowFunction(call) = expression.clone().unalias() else {
            return Err(ours(Error::bug(format!("{name} is no window function"))));
        };
        if call.params.order_by.is_empty() {
            return Err(ours(calls::no_order()));
        }
        let (marker, keys): (Vec<_>, Vec<_>) = call.params.partition_by.iter().cloned().partition(is_marker);
        let number = marker.first().and_then(number);
        let clauses = number.and_then(|number| planned.get(number));
        let shape = Shape::new(&call.params.window_frame, clauses.map(|planned| &planned.clauses)).map_err(ours)?;
        // Windows over the same inputs may have other flags.
        let union = clauses.filter(|found| !found.inputs.is_empty());
        let union =
            union.and_then(|found| planned.iter().position(|other| other.clauses.inputs == found.clauses.inputs));
        let order = call.params.order_by.clone();
        let call = Call { name, function: aggregate(*call)?, shape };
        match groups.iter_mut().find(|g| g.keys == keys && g.order == order && g.union == union) {
            Some(group) => group.calls.push(call),
            None => groups.push(Group { keys, order, union, calls: vec![call] }),
        }
    }
    let mut plan = Arc::unwrap_or_clone(window.input);
    for Group { keys, order, union, calls } in groups {
        let inputs = union.and_then(|number| planned.get(number)).map_or(&[][..], |planned| &planned.inputs);
        plan = node(plan, keys, &order, (union, inputs), calls)?;
    }
    Ok(plan)
}

fn node(
    base: LogicalPlan,
    keys: Vec<Expr>,
    order: &[Sort],
    (number, union): (Option<usize>, &[Input]),
    calls: Vec<Call>,
) -> Result<LogicalPlan> {
    let (time, at) = time(order)?;
    let may_be_null = |column: &Column| union.iter().any(|input| input.may_be_null(&column.name));
    let marked = |expression| absent::marked(expression, base.schema(), may_be_null);
    let keys = keys.into_iter().map(marked).collect::<Result<Vec<_>>>()?;
    let marked = |call: Call| Ok(Call { function: marked(call.function)?, ..call });
    let calls = calls.into_iter().map(|call| marked(ordered(call, order))).collect::<Result<Vec<_>>>()?;
    // DataFusion puts windows with other clauses into a node of their own.
    let (base, calls) = match over(&base).filter(|below| below.is_like(&keys, &time, number)) {
        Some(below) => (below.inputs[0].clone(), below.calls.iter().cloned().chain(calls).collect()),
        None => (base, calls),
    };
    let (base, calls) = foreign::with_columns(base, calls)?;
    let place = |at: Span| (at.line, at.column, at.width);
    let others = union.iter().map(|input| (input.name.clone(), place(input.at))).collect();
    let mut node = OverNode::new(vec![base], keys, (time, at.map(place)), others, calls)?;
    node.union = number;
    for (i, input) in union.iter().enumerate() {
        node.inputs.push(columns(input, &node, i)?);
    }
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// The column of the event time, and where it is written.
fn time(order: &[Sort]) -> Result<(Expr, Option<Span>)> {
    const HINT: &str = "order by the event time alone, earliest first: OVER (PARTITION BY … ORDER BY ts)";
    let [key] = order else {
        return Err(ours(match order.is_empty() {
            true => calls::no_order(),
            false => Error::query("OVER is ordered by several values").with_hint(HINT),
        }));
    };
    let Expr::Column(column) = &key.expr else {
        return Err(ours(match &key.expr {
            Expr::Literal(..) => calls::no_order(),
            _ => Error::query("OVER is ordered by something that is computed").with_hint(HINT),
        }));
    };
    let at = column.spans.first().map(|span| Span {
        line: span.start.line as usize,
        column: span.start.column as usize,
        width: (span.end.column.saturating_sub(span.start.column) as usize).max(1),
    });
    if !key.asc {
        let error = Error::query("OVER is ordered from the latest row to the earliest").with_hint(HINT);
        return Err(ours(at.into_iter().fold(error, Error::at)));
    }
    Ok((key.expr.clone(), at))
}

/// Aggregates whose result depends on the order of rows.
const DEPENDS: [&str; 5] = ["array_agg", "string_agg", "first_value", "last_value", "nth_value"];

/// Whether an aggregate sees rows in an order, or is given one.
pub(crate) fn depends_on_order(function: &AggregateUDF) -> bool {
    DEPENDS.contains(&function.name()) || function.supports_within_group_clause()
}

/// Functions that depend on the order of rows see them in that of the window.
fn ordered(call: Call, order: &[Sort]) -> Call {
    let Expr::AggregateFunction(mut function) = call.function else { return call };
    // What stands in WITHIN GROUP elsewhere is the first argument.
    match function.params.args.first() {
        Some(value) if function.func.supports_within_group_clause() => {
            function.params.order_by = vec![value.clone().sort(true, true)];
        }
        _ if DEPENDS.contains(&function.func.name()) && !function.params.distinct => {
            function.params.order_by = order.to_vec();
        }
        _ => {}
    }
    Call { function: Expr::AggregateFunction(function), ..call }
}

fn aggregate(call: WindowFunction) -> Result<Expr> {
    let WindowFunctionDefinition::AggregateUDF(function) = call.fun else {
        return Err(ours(Error::bug(format!("{} is no aggregate", call.fun.name()))));
    };
    let params = call.params;
    let AggregateFunction { func, params } = AggregateFunction::new_udf(
        function,
        params.args,
        params.distinct,
        params.filter,
        vec![],
        params.null_treatment,
    );
    Ok(Expr::AggregateFunction(AggregateFunction { func, params }))
}

fn is_marker(key: &Expr) -> bool {
    matches!(key, Expr::ScalarFunction(call) if call.name() == WINDOW_CLAUSES)
}

fn number(marker: &Expr) -> Option<usize> {
    let Expr::ScalarFunction(call) = marker else { return None };
    call.args.first()?.to_string().trim_start_matches("Int64(").trim_end_matches(')').parse().ok()
}

/// The columns of another input that are read, under a table's name that nobody can write. What only calls read may be missing, if
/// they read some of it: it is null there.
fn columns(input: &Input, node: &OverNode, number: usize) -> Result<LogicalPlan> {
    let (given, Some(base)) = (input.plan.schema(), node.inputs.first()) else {
        return Err(ours(Error::bug("OVER has an input")));
    };
    let (needed, taken) = node.read_columns();
    let is_of_use = taken.is_empty() || taken.iter().any(|column| input.find(&column.name).is_some());
    let mut chosen: BTreeMap<String, Expr> = BTreeMap::new();
    let mut read: Vec<_> = needed.union(&taken).collect();
    read.sort_by_key(|column| &column.name);
    for column in read {
        let name = &column.name;
        let chosen_expression = match input.find(name) {
            Some(found) => Expr::Column(found),
            None if is_of_use && !needed.contains(column) => {
                foreign::null(base.schema().field_from_column(column)?.data_type())?
            }
            None => {
                let names = given.fields().iter().map(|field| field.name().as_str());
                let hint = diagnose::near(name, names.clone()).unwrap_or_else(|| {
                    format!("{}; name one so: (SELECT x AS {name}, … FROM …)", diagnose::known("columns", names))
                });
                let error = Error::query(format!("{} has no column \"{name}\", which the window reads", input.name));
                return Err(ours(error.with_hint(hint).at(input.at)));
            }
        };
        chosen.insert(name.clone(), chosen_expression.alias(name));
    }
    let table = format!("union {}", number + 1);
    LogicalPlanBuilder::from(input.plan.clone()).project(chosen.into_values())?.alias(table)?.build()
}
