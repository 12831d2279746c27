//! TUMBLE, HOP and CUMULATE in FROM: planned into a node of ours that appends the window's columns to its input's.

use std::{cmp::Ordering, collections::HashSet, fmt, sync::Arc};

use arrow_schema::{DataType, Field, TimeUnit};
use datafusion_common::{DFSchema, DFSchemaRef, DataFusionError, ExprSchema, ScalarValue, TableReference};
use datafusion_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore,
    planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning},
};
use sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Spanned, TableAlias,
    TableFactor,
};
use thalweg_core::{Error, Interval, error::Span, window::Grid};

use crate::{dialect::TABLE_ARGUMENT, refuse, script, types};

/// What a window function appends.
pub(crate) const WINDOW_COLUMNS: [&str; 3] = ["window_start", "window_end", "window_time"];

type Result<T> = std::result::Result<T, DataFusionError>;

/// Puts each row into its windows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WindowNode {
    pub input: LogicalPlan,
    /// A column of the input.
    pub time: Expr,
    pub size: i64,
    pub slide: i64,
    /// For cumulating windows: how far apart those that start together end.
    pub step: Option<i64>,
    pub offset: i64,
    /// Whether the first row moves the windows, so that no row may be dropped before them.
    pub from_first_row: bool,
    /// Where the time column is written: line, column, width.
    pub at: (usize, usize, usize),
    schema: DFSchemaRef,
}

/// Where windows lie, in microseconds.
struct Bounds {
    size: i64,
    slide: i64,
    step: Option<i64>,
    offset: i64,
}

impl Bounds {
    /// Whether there are such windows.
    fn are_possible(&self) -> bool {
        let Self { size, slide, step, offset } = *self;
        match step {
            None => Grid::new(Interval(size), Interval(slide), Interval(offset)).is_some(),
            Some(step) => Grid::cumulating(Interval(size), Interval(step), Interval(offset)).is_some(),
        }
    }
}

impl WindowNode {
    fn new(
        input: LogicalPlan,
        time: Expr,
        bounds: Bounds,
        from_first_row: bool,
        at: (usize, usize, usize),
    ) -> Result<Self> {
        let Expr::Column(column) = &time else {
            return Err(ours(Error::bug(format!("the time of a window is {time}, expected a column"))));
        };
        let time_type = input.schema().field_from_column(column)?.data_type().clone();
        let local = DataType::Timestamp(TimeUnit::Microsecond, None);
        let mut fields: Vec<(Option<TableReference>, Arc<Field>)> =
            input.schema().iter().map(|(table, field)| (table.cloned(), Arc::clone(field))).collect();
        for (name, data_type) in WINDOW_COLUMNS.into_iter().zip([local.clone(), local, time_type]) {
            fields.push((None, Arc::new(Field::new(name, data_type, false))));
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        let Bounds { size, slide, step, offset } = bounds;
        Ok(Self { input, time, size, slide, step, offset, from_first_row, at, schema })
    }

    /// Where the time column is written.
    pub fn span(&self) -> Span {
        Span { line: self.at.0, column: self.at.1, width: self.at.2 }
    }
}

impl PartialOrd for WindowNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let bounds = |node: &Self| (node.size, node.slide, node.step, node.offset);
        let order = bounds(self).cmp(&bounds(other));
        (order != Ordering::Equal || self == other).then_some(order)
    }
}

impl UserDefinedLogicalNodeCore for WindowNode {
    fn name(&self) -> &str {
        "Window"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.time.clone()]
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        match self.from_first_row {
            true => self.schema.fields().iter().map(|field| field.name().clone()).collect(),
            false => WINDOW_COLUMNS.map(str::to_string).into(),
        }
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Window: {} size {} slide {} offset {}", self.time, self.size, self.slide, self.offset)?;
        self.step.map_or(Ok(()), |step| write!(f, " step {step}"))
    }

    fn with_exprs_and_inputs(&self, expressions: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Ok([time]), Ok([input])) = (<[Expr; 1]>::try_from(expressions), <[LogicalPlan; 1]>::try_from(inputs))
        else {
            return Err(ours(Error::bug("a window has one input and one time column")));
        };
        let bounds = Bounds { size: self.size, slide: self.slide, step: self.step, offset: self.offset };
        Self::new(input, time.unalias_nested().data, bounds, self.from_first_row, self.at)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let Expr::Column(time) = &self.time else { return None };
        let time = self.input.schema().maybe_index_of_column(time)?;
        let width = self.input.schema().fields().len();
        let mut needed: Vec<_> = output_columns.iter().copied().filter(|column| *column < width).collect();
        needed.push(time);
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}

/// Plans TUMBLE, HOP and CUMULATE.
#[derive(Debug)]
pub(crate) struct WindowFunctions {
    /// Whether windows start at the first row.
    pub from_first_row: bool,
}

impl RelationPlanner for WindowFunctions {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let call = match relation {
            TableFactor::TableFunction { expr: SqlExpr::Function(function), alias } => {
                let FunctionArguments::List(list) = function.args else {
                    return Err(ours(not_a_function(&function.name)));
                };
                Call { name: function.name, arguments: list.args, alias }
            }
            TableFactor::TableFunction { expr, .. } => {
                let error = Error::query(format!("TABLE(…) holds {expr}, expected a table function"));
                let hint = format!("write FROM {expr}, or FROM TABLE(TUMBLE(TABLE {expr}, …))");
                return Err(ours(error.with_hint(hint).at(script::span(expr.span()))));
            }
            TableFactor::Table { name, alias, args: Some(args), .. } => Call { name, arguments: args.args, alias },
            TableFactor::Function { name, args, alias, .. } => Call { name, arguments: args, alias },
            other => {
                refuse::table_factor(&other).map_err(ours)?;
                return Ok(RelationPlanning::Original(Box::new(other)));
            }
        };
        call.plan(context, self.from_first_row)
    }
}

struct Call {
    name: ObjectName,
    arguments: Vec<FunctionArg>,
    alias: Option<TableAlias>,
}

/// What each argument of a window function is, in Flink's order.
const TUMBLE: [&str; 4] = ["DATA", "TIMECOL", "SIZE", "OFFSET"];
const HOP: [&str; 5] = ["DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"];
const CUMULATE: [&str; 5] = ["DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"];

impl Call {
    fn plan(self, context: &mut dyn RelationPlannerContext, from_first_row: bool) -> Result<RelationPlanning> {
        let at = script::span(self.name.span());
        let function = self.name.to_string().to_uppercase();
        let names: &[&str] = match function.as_str() {
            "TUMBLE" => &TUMBLE,
            "HOP" => &HOP,
            "CUMULATE" => &CUMULATE,
            _ => return Err(ours(not_a_function(&self.name))),
        };
        let mut given: Vec<Option<SqlExpr>> = vec![None; names.len()];
        for (position, argument) in self.arguments.into_iter().enumerate() {
            let (place, value) = match argument {
                FunctionArg::Unnamed(value) => (Some(position).filter(|p| *p < names.len()), value),
                FunctionArg::Named { name, arg, .. } => {
                    let place = names.iter().position(|known| name.value.eq_ignore_ascii_case(known));
                    let unknown = || {
                        Error::query(format!("{function} has no argument {}", name.value)).with_hint(usage(&function))
                    };
                    (Some(place.ok_or_else(|| ours(unknown().at(script::span(name.span))))?), arg)
                }
                FunctionArg::ExprNamed { .. } => (None, FunctionArgExpr::Wildcard),
            };
            let (Some(place), FunctionArgExpr::Expr(value)) = (place, value) else {
                return Err(ours(
                    Error::query(format!("{function} has other arguments")).with_hint(usage(&function)).at(at),
                ));
            };
            if given[place].replace(value).is_some() {
                let message = format!("argument {} of {function} is given twice", names[place]);
                return Err(ours(Error::query(message).with_hint(usage(&function)).at(at)));
            }
        }
        let mut take = |name: &str| names.iter().position(|known| *known == name).and_then(|i| given[i].take());
        let mut required = |name: &str| {
            let missing =
                || Error::query(format!("argument {name} of {function} is missing")).with_hint(usage(&function));
            take(name).ok_or_else(|| ours(missing().at(at)))
        };
        let (data, time, size) = (required("DATA")?, required("TIMECOL")?, required("SIZE")?);
        let slide = if function == "HOP" { Some(required("SLIDE")?) } else { None };
        let step = if function == "CUMULATE" { Some(required("STEP")?) } else { None };
        let input = context.plan(relation(data, at)?)?;
        let (time, time_at) = time_column(time, &input, at, context)?;
        let size = interval(size, "size", at, context)?;
        let slide = slide.map_or(Ok(size), |slide| interval(slide, "slide", at, context))?;
        let offset = take("OFFSET").map_or(Ok(0), |offset| interval(offset, "offset", at, context))?;
        let step = step.map(|step| interval(step, "step", at, context)).transpose()?;
        let bounds = Bounds { size, slide, step, offset };
        if !bounds.are_possible() {
            let (message, hint) = match step {
                None if size == slide => (
                    format!("windows of {} cannot be", Interval(size)),
                    "their size is positive and shorter than 100 years",
                ),
                None => (
                    format!("windows of {} every {} cannot be", Interval(size), Interval(slide)),
                    "size and slide are positive and shorter than 100 years",
                ),
                Some(step) => (
                    format!("windows of {} by {} cannot be", Interval(size), Interval(step)),
                    "step and size are positive and shorter than 100 years, and the size is a multiple of the step",
                ),
            };
            return Err(ours(Error::query(message).with_hint(hint).at(at)));
        }
        let span = (time_at.line, time_at.column, time_at.width);
        let node = Arc::new(WindowNode::new(input, time, bounds, from_first_row, span)?);
        let plan = LogicalPlan::Extension(Extension { node });
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, self.alias))))
    }
}

fn usage(function: &str) -> String {
    match function {
        "HOP" => {
            "write HOP(t, ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE): slide, then size, then perhaps an offset"
        }
        "CUMULATE" => {
            "write CUMULATE(t, ts, INTERVAL '10' MINUTE, INTERVAL '1' HOUR): step, then size, then perhaps an offset"
        }
        _ => "write TUMBLE(t, ts, INTERVAL '10' MINUTE): size, then perhaps an offset",
    }
    .to_string()
}

fn not_a_function(name: &ObjectName) -> Error {
    let error = match name.to_string().to_uppercase().as_str() {
        "SESSION" => Error::query("SESSION windows are not there yet").with_hint("use TUMBLE, HOP or CUMULATE"),
        "UNNEST" => Error::query("UNNEST is not there yet: columns are flat")
            .with_hint("write one row per element where the data comes from"),
        _ => Error::query(format!("table function \"{name}\" not found"))
            .with_hint("the table functions are TUMBLE, HOP and CUMULATE"),
    };
    error.at(script::span(name.span()))
}

/// The input: a name, `TABLE` and a name, or a query in parentheses.
fn relation(data: SqlExpr, at: Span) -> Result<TableFactor> {
    let named = |name: Vec<Ident>| TableFactor::Table {
        name: ObjectName::from(name),
        alias: None,
        args: None,
        with_hints: vec![],
        version: None,
        with_ordinality: false,
        partitions: vec![],
        json_path: None,
        sample: None,
        index_hints: vec![],
    };
    match data {
        SqlExpr::Prefixed { prefix, value } if prefix.value == TABLE_ARGUMENT => relation(*value, at),
        SqlExpr::Nested(inner) => relation(*inner, at),
        SqlExpr::Identifier(name) => Ok(named(vec![name])),
        SqlExpr::CompoundIdentifier(names) => Ok(named(names)),
        SqlExpr::Subquery(subquery) => Ok(TableFactor::Derived { lateral: false, subquery, alias: None, sample: None }),
        // TUMBLE(HOP(…), …): a window function over another one.
        SqlExpr::Function(_) => Ok(TableFactor::TableFunction { expr: data, alias: None }),
        other => Err(ours(
            Error::query(format!("the input of a window function is {other}, expected a table"))
                .with_hint("name a table or a view, or write a query in parentheses")
                .at(at),
        )),
    }
}

fn time_column(
    time: SqlExpr,
    input: &LogicalPlan,
    at: Span,
    context: &mut dyn RelationPlannerContext,
) -> Result<(Expr, Span)> {
    let column = match &time {
        SqlExpr::Function(descriptor) if descriptor.name.to_string().eq_ignore_ascii_case("DESCRIPTOR") => {
            match &descriptor.args {
                FunctionArguments::List(list) => match list.args.as_slice() {
                    [FunctionArg::Unnamed(FunctionArgExpr::Expr(column))] => column.clone(),
                    _ => time.clone(),
                },
                _ => time.clone(),
            }
        }
        _ => time.clone(),
    };
    let is_column = matches!(column, SqlExpr::Identifier(_) | SqlExpr::CompoundIdentifier(_));
    if !is_column {
        let message = format!("the time of a window is {column}, expected a column");
        return Err(ours(Error::query(message).with_hint("write DESCRIPTOR(ts), or just the column's name").at(at)));
    }
    let at = script::span(column.span());
    Ok((context.sql_to_expr(column, input.schema())?, at))
}

fn interval(written: SqlExpr, what: &str, at: Span, context: &mut dyn RelationPlannerContext) -> Result<i64> {
    let text = written.to_string();
    let at = match written.span() {
        span if span.start.line == 0 => at,
        span => script::span(span),
    };
    let planned = context.sql_to_expr(written, &DFSchema::empty())?;
    let refused = |message: String| Error::query(message).with_hint("write INTERVAL '10' MINUTE").at(at);
    micros(&planned).map_err(|reason| {
        ours(refused(match reason {
            NotFixed::Months => format!("the window's {what} is {text}: months and years differ in length"),
            NotFixed::TooFine => format!("the window's {what} is {text}: time is counted in whole microseconds"),
            NotFixed::TooLong => format!("the window's {what} is {text}: that is {TOO_LONG}"),
            NotFixed::NoInterval => format!("the window's {what} is {text}, expected an interval"),
        }))
    })
}

/// Of a span of time.
pub(crate) const TOO_LONG: &str = "longer than 292,000 years, or 106,751,991 days";

/// Why an expression is no fixed span of time.
pub(crate) enum NotFixed {
    Months,
    TooFine,
    /// Longer than microseconds in 64 bits.
    TooLong,
    NoInterval,
}

/// So many days in microseconds.
fn days(count: i32) -> std::result::Result<i64, NotFixed> {
    i64::from(count).checked_mul(86_400_000_000).ok_or(NotFixed::TooLong)
}

/// The span of time that an expression always is, in microseconds.
pub(crate) fn micros(expression: &Expr) -> std::result::Result<i64, NotFixed> {
    match expression {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) => {
            if value.months != 0 {
                return Err(NotFixed::Months);
            }
            if value.nanoseconds % 1000 != 0 {
                return Err(NotFixed::TooFine);
            }
            days(value.days)?.checked_add(value.nanoseconds / 1000).ok_or(NotFixed::TooLong)
        }
        Expr::Literal(ScalarValue::IntervalDayTime(Some(value)), _) => {
            days(value.days)?.checked_add(i64::from(value.milliseconds) * 1000).ok_or(NotFixed::TooLong)
        }
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => Err(NotFixed::Months),
        Expr::Negative(inner) => micros(inner).and_then(|value| value.checked_neg().ok_or(NotFixed::TooLong)),
        Expr::Alias(alias) => micros(&alias.expr),
        _ => Err(NotFixed::NoInterval),
    }
}

/// Our error, on its way through DataFusion.
pub(crate) fn ours(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Whether a column can carry event time.
pub(crate) fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Microsecond, _))
}

/// What to do about a time that no table carries.
pub(crate) fn watermark_hint(column: &str, by: &str) -> String {
    format!(
        "declare it in CREATE TABLE: WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND; \
         it must reach {by} as it is, and be the same column in all inputs of UNION ALL"
    )
}

/// What to do about a column that cannot carry event time.
pub(crate) fn cast_hint(column: &str, data_type: &DataType) -> String {
    match data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            format!(
                "add a computed column: event_time AS to_timestamp_millis({column}) (or _seconds, or _micros), \
                 and watermark that one"
            )
        }
        other => format!(
            "it is {}; add a computed column: event_time AS CAST({column} AS TIMESTAMP), and watermark that one",
            types::flink_name(other)
        ),
    }
}
