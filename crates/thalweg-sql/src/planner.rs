//! What DataFusion's planner asks for: tables, views, types and functions.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use arrow_schema::{DataType, FieldRef, SchemaRef};
use datafusion_common::{
    Column, DFSchema, DFSchemaRef, DataFusionError, Result, TableReference, config::ConfigOptions,
    datatype::DataTypeExt,
};
use datafusion_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource, WindowUDF,
    planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner},
};
use datafusion_sql::planner::{NullOrdering, ParserOptions, PlannerContext, SqlToRel};
use sqlparser::ast::{Expr as SqlExpr, Ident, Query, SelectItem, SetExpr, Statement};
use thalweg_core::{
    Error,
    connector::{Connector, Options, TableDefinition},
};
use thalweg_plan::{
    Settings, StreamSchema,
    node::{Anchor, WatermarkStrategy},
};

use crate::{
    catalog::{Catalog, Relation, Table, View},
    forms,
    functions::Functions,
    last, optimize,
    over::{self, OverCalls},
    types, unions,
    windowing::{WindowFunctions, ours},
};

/// Plans queries over a catalog, with the settings of a session.
pub(crate) struct Planner<'a> {
    catalog: &'a Catalog,
    connectors: &'a [Arc<dyn Connector>],
    functions: &'a Functions,
    zone: &'a str,
    options: ConfigOptions,
    types: Arc<dyn TypePlanner>,
    expressions: Vec<Arc<dyn ExprPlanner>>,
    relations: Vec<Arc<dyn RelationPlanner>>,
    /// Streams by name, which stand before tables.
    streams: &'a [(&'a str, StreamSchema)],
    used: RefCell<BTreeSet<String>>,
    /// The inputs of unions that were planned so far: queries in WITH, which they may name, are part of each of them.
    unions: RefCell<HashMap<Query, LogicalPlan>>,
    /// Columns that only other inputs of a union have.
    foreign: RefCell<Vec<over::Foreign>>,
}

impl<'a> Planner<'a> {
    pub fn new(
        catalog: &'a Catalog,
        connectors: &'a [Arc<dyn Connector>],
        functions: &'a Functions,
        settings: &'a Settings,
    ) -> Self {
        let mut options = ConfigOptions::default();
        options.execution.time_zone = Some(settings.time_zone.clone());
        Self {
            catalog,
            connectors,
            functions,
            zone: &settings.time_zone,
            options,
            types: Arc::new(OurTypes { zone: settings.time_zone.clone() }),
            expressions: vec![
                Arc::new(OverCalls {
                    count: functions.aggregate_named("count"),
                    first_value: functions.aggregate_named("first_value"),
                    last_value: functions.aggregate_named("last_value"),
                    nth_value: functions.aggregate_named("nth_value"),
                }),
                Arc::new(datafusion_functions::core::planner::CoreFunctionPlanner::default()),
                Arc::new(datafusion_functions::datetime::planner::DatetimeFunctionPlanner),
                Arc::new(datafusion_functions::unicode::planner::UnicodeFunctionPlanner),
                Arc::new(datafusion_functions_aggregate::planner::AggregateFunctionPlanner),
                Arc::new(datafusion_functions_window::planner::WindowFunctionPlanner),
            ],
            relations: vec![Arc::new(WindowFunctions { from_first_row: settings.window_anchor == Anchor::FirstRow })],
            streams: &[],
            used: RefCell::default(),
            unions: RefCell::default(),
            foreign: RefCell::default(),
        }
    }

    /// The same planner, which also knows these streams.
    pub fn over(self, streams: &'a [(&'a str, StreamSchema)]) -> Self {
        Self { streams, ..self }
    }

    pub fn options(&self) -> &ConfigOptions {
        &self.options
    }

    pub fn zone(&self) -> &str {
        self.zone
    }

    /// The tables and views that were planned so far.
    pub fn used(&self) -> BTreeSet<String> {
        self.used.borrow().clone()
    }

    /// A query as DataFusion understands it.
    pub fn query(&self, query: &Query) -> Result<LogicalPlan> {
        let planner = SqlToRel::new_with_options(self, parser_options());
        let mut query = query.clone();
        let mut clauses = over::take(&mut query).map_err(ours)?;
        name_columns(&mut query.body);
        unions::tell_apart(&mut query);
        over::resolve(&mut query, &mut clauses).map_err(ours)?;
        forms::rewrite(&mut query).map_err(ours)?;
        let planned = clauses.into_iter().map(|clauses| self.union(clauses)).collect::<Result<Vec<_>>>()?;
        let plan = loop {
            match planner.sql_statement_to_plan(Statement::Query(Box::new(query.clone()))) {
                Ok(plan) => break plan,
                // Each time there is one column less that is not known.
                Err(error) if over::supply(&mut query, &error, &planned, &mut self.foreign.borrow_mut()) => {}
                Err(error) => return Err(error),
            }
        };
        over::convert(last::convert(plan)?, &planned)
    }

    /// The clauses of a window, with the queries of its union planned.
    fn union(&self, clauses: over::Clauses) -> Result<over::Planned> {
        let inputs = clauses.inputs.iter().enumerate();
        let inputs = inputs.map(|(i, query)| {
            let known = self.unions.borrow().get(query).cloned();
            let plan = known.map_or_else(|| self.query(query), Ok)?;
            self.unions.borrow_mut().insert(query.clone(), plan.clone());
            Ok(over::Input::new(plan, query, i + 1))
        });
        Ok(over::Planned { inputs: inputs.collect::<Result<_>>()?, clauses })
    }

    /// Expressions over a table's physical columns, with their types settled and constants computed.
    pub fn expressions(&self, table: &str, physical: &SchemaRef, written: &[(String, SqlExpr)]) -> Result<Vec<Expr>> {
        let columns = DFSchema::try_from_qualified_schema(table, physical)?;
        let planner = SqlToRel::new_with_options(self, parser_options());
        let mut context = PlannerContext::new();
        let planned = written.iter().map(|(name, sql)| {
            let mut sql = sql.clone();
            forms::rewrite(&mut sql).map_err(ours)?;
            Ok(planner.sql_to_expr(sql, &columns, &mut context)?.alias(name))
        });
        let planned = planned.collect::<Result<Vec<_>>>()?;
        let source: Arc<dyn TableSource> = Arc::new(Columns(Arc::clone(physical)));
        let plan = LogicalPlanBuilder::scan(table, source, None)?.project(planned)?.build()?;
        let plan = optimize::simplify(optimize::analyze(plan, &self.options)?, &self.options)?;
        match plan {
            LogicalPlan::Projection(projection) => projection.expr.into_iter().map(unqualified).collect(),
            // All are columns as they stand: nothing was computed.
            other => {
                Ok(other.schema().columns().into_iter().map(|c| Expr::Column(Column::from_name(c.name))).collect())
            }
        }
    }

    /// One expression as it is written, over any columns.
    pub fn one_expression(&self, written: &SqlExpr, columns: &DFSchema) -> Result<Expr> {
        let planner = SqlToRel::new_with_options(self, parser_options());
        let mut written = written.clone();
        forms::rewrite(&mut written).map_err(ours)?;
        planner.sql_to_expr(written, columns, &mut PlannerContext::new())
    }

    /// What a connector says of a table that is to be read.
    pub fn readable(&self, table: &Table) -> Result<Readable> {
        let definition = table.definition(self.zone);
        let connector = connector(self.connectors, &definition).map_err(ours)?;
        let source = connector.source(&definition).map_err(ours)?;
        let physical = Arc::clone(&definition.columns);
        let mut computed = None;
        if table.columns.iter().any(|column| column.computed.is_some()) {
            let written: Vec<_> = table
                .columns
                .iter()
                .map(|column| {
                    let itself = || SqlExpr::Identifier(sqlparser::ast::Ident::with_quote('`', &column.name));
                    let sql = column.computed.as_ref().map_or_else(itself, |written| written.expression.clone());
                    (column.name.clone(), sql)
                })
                .collect();
            computed = Some(self.expressions(&table.name, &physical, &written)?);
        }
        Ok(Readable {
            columns: table.schema(self.zone),
            physical: Arc::new(DFSchema::try_from(physical)?),
            computed,
            watermark: table.watermark.as_ref().map(|w| WatermarkStrategy {
                column: w.column,
                delay: w.delay,
                accuracy: w.accuracy,
            }),
            is_bounded: source.is_bounded(),
            partitions: source.partitions().len(),
            key: table.primary_key.clone(),
            definition,
            stream: None,
        })
    }

    fn view(&self, name: &str, view: &View) -> Result<LogicalPlan> {
        let named = |error: DataFusionError| {
            // What is wrong stands in the view's text, not in this one.
            let error = crate::diagnose::planning(error, &crate::script::Words::none());
            ours(
                Error::query(format!("view \"{name}\": {}", error.message()))
                    .with_hint(error.hint().unwrap_or("CREATE OR REPLACE VIEW mends it")),
            )
        };
        let plan = self.query(&view.query).map_err(named)?;
        rename(plan, view)
    }
}

/// The view's query under the names of the view's columns.
pub(crate) fn rename(plan: LogicalPlan, view: &View) -> Result<LogicalPlan> {
    if view.columns.is_empty() {
        return Ok(plan);
    }
    let given = plan.schema().fields().len();
    if given != view.columns.len() {
        let message = format!("the view names {} columns, its query has {given}", view.columns.len());
        return Err(ours(Error::query(message).with_hint("name every column, or none").at(view.columns[0].at)));
    }
    let columns = plan.schema().columns().into_iter().zip(&view.columns);
    let renamed: Vec<_> = columns.map(|(column, name)| Expr::Column(column).alias(&name.text)).collect();
    LogicalPlanBuilder::from(plan).project(renamed)?.build()
}

/// The connector that a table names.
pub(crate) fn connector<'a>(
    connectors: &'a [Arc<dyn Connector>],
    table: &TableDefinition,
) -> thalweg_core::Result<&'a Arc<dyn Connector>> {
    let known = || connectors.iter().map(|c| format!("'{}'", c.name())).collect::<Vec<_>>().join(", ");
    let Some(name) = table.options.get("connector") else {
        return Err(Error::query("option 'connector' is missing").with_hint(format!("the connectors are {}", known())));
    };
    connectors.iter().find(|connector| connector.name() == name).ok_or_else(|| {
        let near = crate::diagnose::near(name, connectors.iter().map(|connector| connector.name()));
        Error::query(format!("unknown connector '{name}'"))
            .with_hint(near.unwrap_or_else(|| format!("the connectors are {}", known())))
    })
}

/// Columns that nobody named are called as they are written: `count(*)`, `CAST(delay AS BIGINT)`.
fn name_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                let SelectItem::UnnamedExpr(expr) = item else { continue };
                if !matches!(expr, SqlExpr::Identifier(_) | SqlExpr::CompoundIdentifier(_)) {
                    let alias = Ident::with_quote('`', over::written(expr));
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
        }
        SetExpr::Query(query) => name_columns(&mut query.body),
        // A union is called like its first query.
        SetExpr::SetOperation { left, .. } => name_columns(left),
        _ => {}
    }
}

fn parser_options() -> ParserOptions {
    ParserOptions::new()
        .with_enable_ident_normalization(false)
        .with_map_string_types_to_utf8view(false)
        .with_parse_float_as_decimal(true)
        .with_collect_spans(true)
        // As in Flink, null is less than everything else.
        .with_default_null_ordering(NullOrdering::NullsMin)
}

fn unqualified(expression: Expr) -> Result<Expr> {
    use datafusion_common::tree_node::{Transformed, TreeNode};
    let bare = expression.unalias().transform(|part| match part {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::from_name(column.name)))),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(bare.data)
}

/// A table that a query reads: what lowering needs to know of it.
pub(crate) struct Readable {
    pub definition: TableDefinition,
    /// The columns that queries see.
    pub columns: SchemaRef,
    pub physical: DFSchemaRef,
    pub computed: Option<Vec<Expr>>,
    pub watermark: Option<WatermarkStrategy>,
    pub is_bounded: bool,
    pub partitions: usize,
    /// The columns that no two rows have alike, as is promised.
    pub key: Vec<String>,
    /// What is known of it, if it is no table but a stream that is planned elsewhere.
    pub stream: Option<StreamSchema>,
}

impl Readable {
    fn stream(name: &str, schema: &StreamSchema) -> Self {
        let columns = schema.arrow();
        let definition = TableDefinition {
            name: name.to_string(),
            columns: Arc::clone(&columns),
            options: Options::default(),
            time: None,
        };
        Self {
            definition,
            columns,
            physical: Arc::clone(&schema.columns),
            computed: None,
            watermark: None,
            is_bounded: schema.is_bounded,
            partitions: 1,
            key: Vec::new(),
            stream: Some(schema.clone()),
        }
    }
}

/// Takes no filters, so that they stay in the plan as nodes.
impl TableSource for Readable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns)
    }
}

struct Columns(SchemaRef);

impl TableSource for Columns {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }
}

struct Inlined {
    plan: LogicalPlan,
}

impl TableSource for Inlined {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.plan.schema().inner())
    }

    fn get_logical_plan(&self) -> Option<std::borrow::Cow<'_, LogicalPlan>> {
        Some(std::borrow::Cow::Borrowed(&self.plan))
    }
}

/// The same types in CAST and in CREATE TABLE.
#[derive(Debug)]
struct OurTypes {
    zone: String,
}

impl TypePlanner for OurTypes {
    fn plan_type_field(&self, sql: &sqlparser::ast::DataType) -> Result<Option<FieldRef>> {
        let data_type = types::arrow_type(sql, &self.zone).map_err(ours)?;
        Ok(Some(data_type.into_nullable_field_ref()))
    }
}

impl ContextProvider for Planner<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let TableReference::Bare { table } = &name else {
            let error = Error::query(format!("table \"{name}\" not found"));
            return Err(ours(error.with_hint("names of tables have one part: there are no catalogs and databases")));
        };
        if let Some((name, schema)) = self.streams.iter().find(|(name, _)| *name == table.as_ref()) {
            return Ok(Arc::new(Readable::stream(name, schema)));
        }
        let Some(relation) = self.catalog.get(table) else {
            return Err(ours(self.catalog.not_found(table, "table")));
        };
        self.used.borrow_mut().insert(table.to_string());
        match relation {
            Relation::Table(found) => Ok(Arc::new(self.readable(found)?)),
            Relation::View(view) => Ok(Arc::new(Inlined { plan: self.view(table, view)? })),
        }
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.expressions
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::clone(&self.types))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let stand_in = over::stand_in(name, &self.foreign.borrow());
        over::marker(name)
            .or_else(|| last::marker(name))
            .or(stand_in)
            .or_else(|| self.functions.scalar(name, &self.options))
    }

    fn get_higher_order_meta(&self, _: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.functions.aggregate.get(&name.to_lowercase()).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.functions.window.get(&name.to_lowercase()).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        self.functions.scalar.keys().cloned().chain(forms::names()).collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.functions.aggregate.keys().cloned().chain(forms::aggregates().map(String::from)).collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.functions.window.keys().cloned().collect()
    }
}
