//! What a user holds: tables, views and settings, and a way to run statements.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use datafusion_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast::{Query, SelectItem, SetExpr};
use thalweg_core::{
    Error, Result,
    connector::Connector,
    error::{Fault, Span},
};
use thalweg_plan::{Plan, Settings, StreamSchema, node::Sink};

use crate::{
    catalog::{Catalog, Relation},
    clauses, create, depth, describe, diagnose, emit,
    functions::Functions,
    insert,
    lower::{self, States},
    optimize,
    parse::{CreateView, Emit, Explaining, Insert, Kind},
    places::Places,
    planner::Planner,
    refuse,
    script::{self, Statement, Words},
};

/// What a stream is called in the planning of expressions over it.
const STREAM: &str = "stream";

/// Tables, views and settings, and a way to run statements.
pub struct Session {
    catalog: Catalog,
    connectors: Vec<Arc<dyn Connector>>,
    functions: Functions,
    settings: Settings,
    states: Option<States>,
}

/// What came of a statement.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It answers with these rows.
    Rows(RecordBatch),
    /// It is a query to run.
    Plan(Plan),
    /// It asks to see a query's plan.
    Explain(Plan, ExplainFormat),
    /// It asks to run a query, and to see its plan and how its nodes did.
    Analyze(Plan, ExplainFormat),
}

/// How a plan is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainFormat {
    /// A tree of lines.
    Text,
    /// JSON, for programs.
    Json,
    /// Graphviz's language, for pictures.
    Dot,
}

impl Session {
    /// A session without tables, which knows these connectors.
    pub fn new(connectors: Vec<Arc<dyn Connector>>) -> Self {
        Self {
            catalog: Catalog::default(),
            connectors,
            functions: Functions::new(),
            settings: Settings::default(),
            states: None,
        }
    }

    /// The same session, which knows the states of aggregates: what is asked of a join's pairs is then found without these, where it can be.
    pub fn with_states(self, states: States) -> Self {
        Self { states: Some(states), ..self }
    }

    /// How queries are run.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How queries are run, to be changed.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Splits and parses a whole script, so that a mistake anywhere is found before anything runs.
    ///
    /// Errors: `Error::Query` with the place in `text`.
    pub fn parse(&self, text: &str) -> Result<Vec<Statement>> {
        depth::with_room(|| script::parse(text)).map_err(diagnose::in_our_words)
    }

    /// Runs one statement as far as SQL goes: a query becomes a plan.
    ///
    /// Errors: `Error::Query` with the place in the text that was parsed; what a connector says of its table.
    pub fn execute(&mut self, statement: &Statement) -> Result<Outcome> {
        use Kind::{CreateTable, CreateView, Describe, Explain, Insert, Query};
        let answer = match &statement.kind {
            CreateTable(_) | CreateView(_) | Describe(_) | Query(..) | Insert(_) | Explain(..) => {
                depth::with_room(|| self.answer(statement))
            }
            // No other statement has anything in it that could be deep.
            _ => self.answer(statement),
        };
        let answer = answer.map_err(diagnose::in_our_words);
        answer.map_err(|error| match self.places(statement) {
            Ok(places) => places.locate(error),
            Err(_) => error,
        })
    }

    /// What is needed to find the places of this statement's errors, while it is planned and later, when it runs.
    ///
    /// Errors: `Error::Environment` if there is no thread for it.
    pub fn places(&self, statement: &Statement) -> Result<Places> {
        depth::with_room(|| Ok(Places::new(statement, &self.catalog)))
    }

    fn answer(&mut self, statement: &Statement) -> Result<Outcome> {
        let words = &statement.words;
        match &statement.kind {
            Kind::CreateTable(declared) => {
                if self.catalog.admits(&declared.name, declared.exists, false)? {
                    let table = create::table(declared, &self.planner(), &self.connectors, words)?;
                    self.catalog.insert(declared.name.text.clone(), Relation::Table(table));
                }
                Ok(Outcome::Done)
            }
            Kind::CreateView(declared) => {
                if self.catalog.admits(&declared.name, declared.exists, true)? {
                    clauses::check(&declared.query, &self.functions, words)?;
                    let plan = |query: &Query| {
                        let declared = CreateView { query: Box::new(query.clone()), ..(**declared).clone() };
                        create::view(&declared, &self.planner(), words)
                    };
                    let view = plan(&declared.query);
                    let view = view.map_err(|error| diagnose::place(error, &declared.query, words, &plan))?;
                    self.catalog.insert(declared.name.text.clone(), Relation::View(view));
                }
                Ok(Outcome::Done)
            }
            Kind::Drop { is_view, name, if_exists } => {
                self.catalog.remove(name, *is_view, *if_exists)?;
                Ok(Outcome::Done)
            }
            Kind::Query(query, emit) => Ok(Outcome::Plan(self.select(query, *emit, words)?)),
            Kind::Insert(into) => Ok(Outcome::Plan(self.insert(into, words)?)),
            Kind::Explain(inner, Explaining { format, runs }) => {
                let plan = match &**inner {
                    Kind::Insert(into) => self.insert(into, words)?,
                    Kind::Query(query, emit) => self.select(query, *emit, words)?,
                    _ => return Err(Error::bug("only queries are explained")),
                };
                Ok(if *runs { Outcome::Analyze(plan, *format) } else { Outcome::Explain(plan, *format) })
            }
            Kind::Set { key, value, at } => {
                self.set(key, value, words.find_text(value).unwrap_or(*at), *at)?;
                Ok(Outcome::Done)
            }
            Kind::ShowSettings(key) => {
                if let Some((key, at)) = key {
                    self.known_setting(key, *at)?;
                }
                let key = key.as_ref().map(|(key, _)| key.as_str());
                describe::settings(&self.settings, key).map(Outcome::Rows)
            }
            Kind::Reset(key) => {
                self.reset(key.as_ref())?;
                Ok(Outcome::Done)
            }
            Kind::ShowTables => describe::names("table name", self.catalog.names()).map(Outcome::Rows),
            Kind::ShowViews => {
                let views = self.catalog.iter().filter(|(_, relation)| matches!(relation, Relation::View(_)));
                describe::names("view name", views.map(|(name, _)| name)).map(Outcome::Rows)
            }
            Kind::ShowFunctions => describe::functions(&self.functions).map(Outcome::Rows),
            Kind::ShowCreate { is_view, name } => {
                let kind = if *is_view { "view" } else { "table" };
                let relation = self.catalog.get(&name.text);
                let relation = relation.filter(|found| found.kind() == kind);
                let relation = relation.ok_or_else(|| self.catalog.not_found(&name.text, kind).at(name.at))?;
                describe::show_create(&name.text, relation).map(Outcome::Rows)
            }
            Kind::Describe(name) => match self.catalog.get(&name.text) {
                None => Err(self.catalog.not_found(&name.text, "table").at(name.at)),
                Some(Relation::Table(table)) => describe::table(table, &self.settings.time_zone).map(Outcome::Rows),
                Some(Relation::View(view)) => {
                    let planner = self.planner();
                    let planning = |error| diagnose::planning(error, &Words::none()).at(name.at);
                    let plan = planner.query(&view.query).and_then(|plan| crate::planner::rename(plan, view));
                    let plan = plan.map_err(planning)?;
                    let analyzed = optimize::analyze(plan.clone(), planner.options()).map_err(planning)?;
                    let columns = Arc::clone(analyzed.schema());
                    let time = match self.lower(plan, Sink::Result, &planner, &Words::none()) {
                        Ok(lowered) => lowered.node(lowered.sink()?).schema.time,
                        // It may be of use though it cannot be run as it stands: then it has no event time.
                        Err(error) if error.fault() == Fault::Query => None,
                        Err(error) => return Err(error.at(name.at)),
                    };
                    describe::view(&columns, time).map(Outcome::Rows)
                }
            },
        }
    }

    /// Plans a query, or an INSERT, over streams that are planned elsewhere. In the plan each stands as a source without a
    /// connector, to be replaced.
    ///
    /// Errors: as [`Session::execute`]; `Error::Query` if the text is something else.
    pub fn plan_over(&self, streams: &[(&str, StreamSchema)], text: &str) -> Result<Plan> {
        let plan = || {
            let statements = script::parse(text)?;
            match &statements[..] {
                [Statement { kind: Kind::Query(query, emit), words }] => {
                    emit::check_step(*emit)?;
                    self.select_over(streams, query, *emit, words)
                }
                [Statement { kind: Kind::Insert(into), words }] => {
                    emit::check_step(into.emit)?;
                    self.insert_over(streams, into, words)
                }
                _ => Err(Error::query("this is not one query").with_hint("write one SELECT")),
            }
        };
        depth::with_room(plan).map_err(diagnose::in_our_words)
    }

    /// Expressions over the columns of a stream, with their types settled and constants computed.
    ///
    /// Errors: `Error::Query` that says which text is wrong.
    pub fn expressions_over(&self, stream: &StreamSchema, texts: &[&str]) -> Result<Vec<Expr>> {
        let plan = |text: &str| {
            let written = one_expression(text)?;
            let physical = stream.arrow();
            let planned = self.planner().expressions(STREAM, &physical, &[(text.to_string(), written)]);
            let planned = planned.map_err(|error| diagnose::planning(error, &Words::none()))?;
            refuse::check_expressions(&planned, &Words::none())?;
            planned.into_iter().next().ok_or_else(|| Error::bug("one expression gives one"))
        };
        let all = || texts.iter().map(|text| plan(text).map_err(|error| error.within(&format!("{text:?}")))).collect();
        depth::with_room(all).map_err(diagnose::in_our_words)
    }

    fn planner(&self) -> Planner<'_> {
        Planner::new(&self.catalog, &self.connectors, &self.functions, &self.settings)
    }

    fn select(&self, query: &Query, emit: Option<Emit>, words: &Words) -> Result<Plan> {
        self.select_over(&[], query, emit, words)
    }

    fn select_over(
        &self,
        streams: &[(&str, StreamSchema)],
        query: &Query,
        emit: Option<Emit>,
        words: &Words,
    ) -> Result<Plan> {
        self.settings.check().map_err(|error| error.at(words.start()))?;
        let plan = |query: &Query| self.plan_select(streams, query, emit, words);
        plan(query).map_err(|error| diagnose::place(error, query, words, &plan))
    }

    fn plan_select(
        &self,
        streams: &[(&str, StreamSchema)],
        query: &Query,
        emit: Option<Emit>,
        words: &Words,
    ) -> Result<Plan> {
        let planner = self.planner().over(streams);
        refuse::query(query, words)?;
        clauses::check(query, &self.functions, words)?;
        let plan = planner.query(query).map_err(|error| diagnose::planning(error, words))?;
        let plan = emit::emitted(plan, emit, words)?;
        self.lower(plan, Sink::Result, &planner, words)
    }

    fn insert(&self, into: &Insert, words: &Words) -> Result<Plan> {
        self.insert_over(&[], into, words)
    }

    fn insert_over(&self, streams: &[(&str, StreamSchema)], into: &Insert, words: &Words) -> Result<Plan> {
        self.settings.check().map_err(|error| error.at(words.start()))?;
        let of = |query: &Query| Insert { query: Box::new(query.clone()), ..into.clone() };
        let plan = |query: &Query| self.plan_insert(streams, &of(query), words);
        plan(&into.query).map_err(|error| diagnose::place(error, &into.query, words, &plan))
    }

    fn plan_insert(&self, streams: &[(&str, StreamSchema)], into: &Insert, words: &Words) -> Result<Plan> {
        let planner = self.planner().over(streams);
        clauses::check(&into.query, &self.functions, words)?;
        let (plan, table) = insert::plan(into, &self.catalog, &planner, words)?;
        crate::planner::connector(&self.connectors, &table).map_err(|error| error.at(into.table.at))?;
        self.lower(plan, Sink::Table(table), &planner, words)
    }

    fn lower(&self, plan: LogicalPlan, sink: Sink, planner: &Planner, words: &Words) -> Result<Plan> {
        refuse::check(&plan, words)?;
        let plan = flatten(plan, words)?;
        let optimized =
            optimize::analyze(plan, planner.options()).and_then(|p| optimize::optimize(p, planner.options()));
        let optimized = optimized.map_err(|error| diagnose::planning(error, words))?;
        // Some queries in EXISTS and IN cannot be made a join.
        refuse::remains(&optimized, words)?;
        lower::lower(&optimized, sink, &self.settings, self.states, words)
    }

    fn set(&mut self, key: &str, value: &str, at_value: Span, at_key: Span) -> Result<()> {
        if key == "time.zone" && value.parse::<chrono_tz::Tz>().is_err() && !is_offset(value) {
            return Err(Error::query(format!("setting 'time.zone' is '{value}', which is no time zone"))
                .with_hint("zones are named 'UTC', 'Europe/Berlin' or '+02:00'")
                .at(at_value));
        }
        self.known_setting(key, at_key)?;
        self.settings.set(key, value).map_err(|error| error.at(at_value))
    }

    fn known_setting(&self, key: &str, at: Span) -> Result<()> {
        let keys = || thalweg_plan::settings::KEYS.iter().map(|(name, ..)| *name);
        if keys().any(|name| name == key) {
            return Ok(());
        }
        let error = self.settings.clone().set(key, "").err().unwrap_or_else(|| Error::bug("no key, and no error"));
        let error = match diagnose::near(key, keys()) {
            Some(hint) => error.with_hint(hint),
            None => error,
        };
        Err(error.at(at))
    }

    fn reset(&mut self, key: Option<&(String, Span)>) -> Result<()> {
        let fresh = Settings::default();
        let Some((key, at)) = key else {
            self.settings = fresh;
            return Ok(());
        };
        match fresh.entries().into_iter().find(|(name, _)| name == key) {
            Some((_, value)) => {
                self.set(key, &value, *at, *at)?;
                if key == "parallelism" {
                    // Nobody asks for it any more.
                    self.settings.divides_keys = fresh.divides_keys;
                }
                Ok(())
            }
            None => self.known_setting(key, *at),
        }
    }
}

/// A text that is one expression.
fn one_expression(text: &str) -> Result<sqlparser::ast::Expr> {
    let statements = script::parse(&format!("SELECT {text}"))?;
    if let [Statement { kind: Kind::Query(query, None), .. }] = &statements[..]
        && let SetExpr::Select(select) = &*query.body
        && let [SelectItem::UnnamedExpr(written) | SelectItem::ExprWithAlias { expr: written, .. }] =
            &select.projection[..]
        && select.from.is_empty()
        && select.selection.is_none()
    {
        return Ok(written.clone());
    }
    Err(Error::query("this is not one expression"))
}

/// The plan with columns that every sink can take: texts of one kind, and nothing that contains others.
fn flatten(plan: LogicalPlan, words: &Words) -> Result<LogicalPlan> {
    let mut is_flat = true;
    let mut columns = Vec::new();
    for (table, field) in plan.schema().iter() {
        let column = Expr::Column(datafusion_common::Column::from((table, field)));
        columns.push(match field.data_type() {
            DataType::LargeUtf8 | DataType::Utf8View => {
                is_flat = false;
                Expr::Cast(Cast::new(Box::new(column), DataType::Utf8)).alias(field.name())
            }
            nested if nested.is_nested() => {
                return Err(Error::query(format!(
                    "column \"{}\" contains other values, and columns are flat",
                    field.name()
                ))
                .with_hint("string_agg(…) and concat(…) give one text")
                .at(words.start()));
            }
            _ => column,
        });
    }
    if is_flat {
        return Ok(plan);
    }
    let plan = LogicalPlanBuilder::from(plan).project(columns).and_then(|builder| builder.build());
    plan.map_err(|error| diagnose::planning(error, words))
}

/// `+02:00` and the like.
fn is_offset(zone: &str) -> bool {
    let digits = |text: &str, most: u32| text.len() == 2 && text.parse::<u32>().is_ok_and(|n| n <= most);
    let signed = zone.strip_prefix(['+', '-']).and_then(|rest| rest.split_once(':'));
    signed.is_some_and(|(hours, minutes)| digits(hours, 14) && digits(minutes, 59))
}
