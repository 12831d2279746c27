//! Where in a statement's text something stands that went wrong while it ran.
//!
//! Below SQL nobody knows the text: an error only says what it is about, an expression in its written form, and perhaps the
//! plan's node. Here the expression is looked for in the statement, in the views that it reads, and in the computed columns of
//! its tables.
//!
//! * [`matching`]: whether an expression of the plan is one of the text
//! * [`extent`]: the tokens of an expression

mod aliases;
mod extent;
mod matching;

use std::{collections::HashMap, ops::ControlFlow};

use sqlparser::{
    ast::{Expr, Query, SetExpr, Value, Visit, visit_expressions},
    parser::Parser,
};
use thalweg_core::{
    Error,
    error::{Span, Subject},
};

use crate::{
    catalog::{Catalog, Relation},
    depth, diagnose,
    dialect::ThalwegDialect,
    parse::{Insert, Kind},
    script::{Statement, Words, is_word},
};
pub(crate) use extent::extent;
pub(crate) use matching::parts;

use aliases::Aliases;
use matching::Matching;

/// The text of a statement, and of the views and computed columns that it uses.
#[derive(Debug)]
pub struct Places {
    words: Words,
    code: Vec<Code>,
    insert: Option<Target>,
    elsewhere: Vec<Elsewhere>,
    /// The columns of the tables and views that are read, in order.
    columns: HashMap<String, Vec<String>>,
}

/// What INSERT writes into.
#[derive(Debug)]
struct Target {
    insert: Box<Insert>,
    /// The names of the columns that get values, in the order of the query's columns.
    columns: Vec<String>,
}

/// Something that expressions stand in.
#[derive(Debug)]
enum Code {
    Query(Box<Query>),
    Expression(Box<Expr>),
}

/// Expressions that stand in another statement.
#[derive(Debug)]
struct Elsewhere {
    /// `view "v"`, `column "q" of table "t"`.
    what: String,
    /// The place in this statement that leads there.
    at: Span,
    /// The table whose column is computed so.
    table: Option<String>,
    code: Code,
}

impl Places {
    /// What a statement says, and what it uses of the catalog as it is now.
    pub(crate) fn new(statement: &Statement, catalog: &Catalog) -> Self {
        let words = statement.words.clone();
        let mut kind = &statement.kind;
        while let Kind::Explain(inner, _) = kind {
            kind = inner;
        }
        let mut places = Self { words, code: Vec::new(), insert: None, elsewhere: Vec::new(), columns: HashMap::new() };
        match kind {
            Kind::Query(query, _) => places.code.push(Code::Query(query.clone())),
            Kind::CreateView(view) => places.code.push(Code::Query(view.query.clone())),
            Kind::Insert(insert) => {
                places.code.push(Code::Query(insert.query.clone()));
                places.insert = Some(Target { insert: insert.clone(), columns: written_columns(insert, catalog) });
            }
            _ => {}
        }
        for (name, relation) in catalog.iter() {
            let Some(at) = places.relation(name) else { continue };
            places.add(name, relation, at);
            if let Relation::View(view) = relation {
                view.uses.iter().filter_map(|inner| Some((inner, catalog.get(inner)?))).for_each(
                    |(inner, relation)| {
                        places.add(inner, relation, at);
                    },
                );
            }
        }
        places
    }

    fn add(&mut self, name: &str, relation: &Relation, at: Span) {
        self.columns.insert(name.to_string(), relation.column_names());
        match relation {
            Relation::View(view) => {
                let code = Code::Query(view.query.clone());
                self.elsewhere.push(Elsewhere { what: format!("view \"{name}\""), at, table: None, code });
            }
            Relation::Table(table) => {
                let computed =
                    table.columns.iter().filter_map(|column| Some((&column.name, column.computed.as_ref()?)));
                self.elsewhere.extend(computed.map(|(column, written)| Elsewhere {
                    what: format!("column \"{column}\" of table \"{name}\""),
                    at,
                    table: Some(name.to_string()),
                    code: Code::Expression(Box::new(written.expression.clone())),
                }));
                // A table that a view reads has its place at the view.
                let code = Code::Expression(Box::new(Expr::value(Value::Null)));
                self.elsewhere.push(Elsewhere { what: String::new(), at, table: Some(name.to_string()), code });
            }
        }
    }

    /// The error with its place in the text, if that can be found and is not known already.
    pub fn locate(&self, error: Error) -> Error {
        if error.span().is_some() {
            return diagnose::in_our_words(error);
        }
        let unlocated = error.clone();
        diagnose::in_our_words(depth::with_room(|| Ok(self.find(error))).unwrap_or(unlocated))
    }

    fn find(&self, error: Error) -> Error {
        match error.subject().cloned() {
            Some(Subject::Expression(text)) => self.expression(error, &text),
            Some(Subject::Target(column)) => match self.target(&column) {
                Some(at) => error.at(at),
                None => self.by_node(error),
            },
            _ => self.by_node(error),
        }
    }

    fn expression(&self, error: Error, text: &str) -> Error {
        let Some(wanted) = read(text) else { return self.by_node(error) };
        let mut aliases = Aliases::new(&self.columns);
        let elsewhere = self.elsewhere.iter().map(|elsewhere| &elsewhere.code);
        self.code.iter().chain(elsewhere).for_each(|code| code.visit(&mut aliases));
        let matching = Matching { wanted: &wanted, aliases: &aliases };
        let source = error.node().and_then(source_table);
        let in_text = self.code.iter().filter_map(|code| self.best(code, &matching)).min_by_key(|(cost, ..)| *cost);
        let in_text = in_text.filter(|_| source.is_none());
        let others = self.elsewhere.iter().filter(|other| other.table.as_deref() == source);
        let others = others.filter_map(|other| Some((matching.cheapest(&other.code)?, other)));
        let other = others.min_by_key(|(cost, _)| *cost);
        match (in_text, other) {
            (Some((cost, at, found)), Some((less, _))) if cost <= less => {
                as_written(error, &wanted, text, &found).at(at)
            }
            (_, Some((_, other))) => error.within(&other.what).at(other.at),
            (Some((_, at, found)), None) => as_written(error, &wanted, text, &found).at(at),
            (None, None) => self.by_node(error),
        }
    }

    /// The place that matches best, the first of several.
    fn best(&self, code: &Code, matching: &Matching<'_>) -> Option<(u32, Span, Expr)> {
        let mut best: Option<(u32, Span, Expr)> = None;
        code.each(&mut |found| {
            if let Some(cost) = matching.cost(found)
                && best.as_ref().is_none_or(|(least, ..)| cost < *least)
                && let Some(at) = extent(found, &self.words)
            {
                best = Some((cost, at, found.clone()));
            }
        });
        best
    }

    /// What gives a column of INSERT its values: the expression, or the column's name, or the table's.
    fn target(&self, column: &str) -> Option<Span> {
        let Target { insert, columns } = self.insert.as_ref()?;
        let position = columns.iter().position(|name| name == column);
        let values = position.and_then(|position| self.values(&insert.query.body, position));
        let named = || insert.columns.iter().find(|name| name.text == column).map(|name| name.at);
        values.or_else(named).or(Some(insert.table.at))
    }

    /// The expression that gives a column of a query, or the NULL that is written there.
    fn values(&self, body: &SetExpr, position: usize) -> Option<Span> {
        let is_null = |value: &&Expr| matches!(value, Expr::Value(value) if value.value == Value::Null);
        let found = match body {
            SetExpr::Query(query) => return self.values(&query.body, position),
            SetExpr::Values(values) => values.rows.iter().filter_map(|row| row.get(position)).find(is_null)?,
            SetExpr::Select(select) => {
                let items = select.projection.iter().map(aliases::item).collect::<Option<Vec<_>>>()?;
                items.get(position).copied()?
            }
            _ => return None,
        };
        extent(found, &self.words)
    }

    /// The clause or the table that the plan's node is made of.
    fn by_node(&self, error: Error) -> Error {
        let Some(node) = error.node() else { return error };
        let at = match node.split(' ').next() {
            Some("Source") => source_table(node).and_then(|table| {
                let reached = self.elsewhere.iter().find(|other| other.table.as_deref() == Some(table));
                reached.map(|other| other.at).or_else(|| self.relation(table))
            }),
            Some("Sink") => self.insert.as_ref().map(|target| target.insert.table.at),
            Some("Filter") => self.only(&["WHERE", "HAVING"]),
            Some("Aggregate") => self.only(&["GROUP"]).or_else(|| self.only(&["SELECT"])),
            // Without either it is a join, or what is grouped behind one.
            Some("Over") => {
                let clauses = ["OVER", "WINDOW", "JOIN", "GROUP"];
                clauses.iter().find_map(|clause| self.only(&[clause]))
            }
            Some("IntervalJoin") => self.only(&["JOIN"]),
            Some("Sort") => self.only(&["ORDER"]),
            Some("Limit") => self.only(&["LIMIT", "OFFSET"]),
            _ => None,
        };
        match at {
            Some(at) => error.at(at),
            None => error,
        }
    }

    /// The only one of these keywords in the statement.
    fn only(&self, keywords: &[&str]) -> Option<Span> {
        let mut found = self.words.tokens.iter().filter(|token| keywords.iter().any(|word| is_word(token, word)));
        let first = found.next()?;
        found.next().is_none().then(|| crate::script::span(first.span))
    }

    /// Where a table or a view is first read.
    fn relation(&self, name: &str) -> Option<Span> {
        self.words.find_relation(name)
    }
}

impl Code {
    /// Calls `look` with each expression, those that contain others first.
    fn each(&self, look: &mut dyn FnMut(&Expr)) {
        let mut visit = |expression: &Expr| {
            look(expression);
            ControlFlow::<()>::Continue(())
        };
        let _: ControlFlow<()> = match self {
            Self::Query(query) => visit_expressions(query, &mut visit),
            Self::Expression(expression) => visit_expressions(expression, &mut visit),
        };
    }

    fn visit(&self, aliases: &mut Aliases<'_>) {
        let _: ControlFlow<()> = match self {
            Self::Query(query) => query.visit(aliases),
            Self::Expression(expression) => expression.visit(aliases),
        };
    }
}

impl Matching<'_> {
    fn cheapest(&self, code: &Code) -> Option<u32> {
        let mut least = None;
        code.each(&mut |found| least = self.cost(found).into_iter().chain(least).min());
        least
    }
}

/// The error with the expression as it stands in the text, where the plan has names in it that nobody wrote.
fn as_written(error: Error, wanted: &Expr, text: &str, found: &Expr) -> Error {
    let is_foreign = ["__common_expr", "column", "INTERVAL '", "to_timestamp"].iter().any(|part| text.contains(part));
    let (planned, written) = match (wanted, found) {
        (Expr::Cast { expr: planned, .. }, Expr::Cast { expr: written, .. }) => {
            (planned.to_string(), written.to_string())
        }
        (Expr::Cast { expr: planned, .. }, written) => (planned.to_string(), written.to_string()),
        (_, written) => (text.to_string(), written.to_string()),
    };
    let Some((before, after)) = error.message().rsplit_once(&format!(" in {planned}")).filter(|_| is_foreign) else {
        return error;
    };
    let message = format!("{before} in {written}{after}");
    error.with_message(message)
}

fn written_columns(insert: &Insert, catalog: &Catalog) -> Vec<String> {
    if !insert.columns.is_empty() {
        return insert.columns.iter().map(|name| name.text.clone()).collect();
    }
    let Some(Relation::Table(table)) = catalog.get(&insert.table.text) else { return Vec::new() };
    let physical = table.columns.iter().filter(|column| column.computed.is_none());
    physical.map(|column| column.name.clone()).collect()
}

/// The table of a source, out of `Source t (0)`.
fn source_table(node: &str) -> Option<&str> {
    node.strip_prefix("Source ")?.rsplit_once(" (").map(|(table, _)| table)
}

fn read(text: &str) -> Option<Expr> {
    let mut parser = Parser::new(&ThalwegDialect).try_with_sql(text).ok()?;
    let read = parser.parse_expr().ok()?;
    (parser.peek_token().token == sqlparser::tokenizer::Token::EOF).then_some(read)
}
