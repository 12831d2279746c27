//! The tables and views of a session.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use sqlparser::ast::{Expr, Query, SelectItem, SetExpr};
use thalweg_core::{
    Error, Interval, Result,
    connector::{Options, TableDefinition},
};
use thalweg_plan::Accuracy;

use crate::{
    diagnose,
    parse::{Exists, Name, Written},
    types,
};

/// Tables and views by name.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    relations: BTreeMap<String, Relation>,
}

/// What stands in FROM.
#[derive(Debug)]
pub(crate) enum Relation {
    Table(Table),
    View(View),
}

/// A table as it was declared, with the columns that were inferred.
#[derive(Debug)]
pub(crate) struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    pub watermark: Option<Watermark>,
    pub primary_key: Vec<String>,
    pub options: Options,
    pub comment: Option<String>,
    pub is_temporary: bool,
}

/// A column, physical unless it is computed.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: String,
    pub data_type: DataType,
    pub is_nullable: bool,
    pub computed: Option<Written>,
    pub comment: Option<String>,
}

/// `WATERMARK FOR`, checked.
#[derive(Clone, Debug)]
pub(crate) struct Watermark {
    pub column: usize,
    pub delay: Interval,
    pub accuracy: Option<Accuracy>,
    pub text: String,
}

/// A query under a name. It is planned anew wherever it is used, so that it follows the session's zone.
#[derive(Debug)]
pub(crate) struct View {
    pub columns: Vec<Name>,
    pub comment: Option<String>,
    pub query: Box<Query>,
    pub text: String,
    pub is_temporary: bool,
    /// The tables and views that it reads, and those that they read.
    pub uses: BTreeSet<String>,
}

impl Catalog {
    pub fn get(&self, name: &str) -> Option<&Relation> {
        self.relations.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.relations.keys().map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Relation)> {
        self.relations.iter().map(|(name, relation)| (name.as_str(), relation))
    }

    /// Whether a new relation of this name is wanted: `Ok(false)` keeps the one that is there.
    pub fn admits(&self, name: &Name, exists: Exists, is_view: bool) -> Result<bool> {
        let Some(there) = self.get(&name.text) else { return Ok(true) };
        let kind = there.kind();
        match exists {
            Exists::Keep => Ok(false),
            _ if is_view != matches!(there, Relation::View(_)) => {
                Err(Error::query(format!("{:?} is a {kind}", name.text))
                    .with_hint(format!("choose another name, or DROP {} {} first", kind.to_uppercase(), name.text))
                    .at(name.at))
            }
            Exists::Replace => Ok(true),
            Exists::Refuse => Err(Error::query(format!("{kind} {:?} is there already", name.text))
                .with_hint(format!(
                    "CREATE OR REPLACE {0} changes it, CREATE {0} IF NOT EXISTS keeps it",
                    kind.to_uppercase()
                ))
                .at(name.at)),
        }
    }

    pub fn insert(&mut self, name: String, relation: Relation) {
        self.relations.insert(name, relation);
    }

    /// Removes a table or a view that no view reads.
    pub fn remove(&mut self, name: &Name, is_view: bool, if_exists: bool) -> Result<()> {
        let kind = if is_view { "view" } else { "table" };
        match self.get(&name.text) {
            None if if_exists => return Ok(()),
            None => return Err(self.not_found(&name.text, kind).at(name.at)),
            Some(there) if is_view != matches!(there, Relation::View(_)) => {
                let there = there.kind();
                let hint = format!("write DROP {} {}", there.to_uppercase(), name.text);
                return Err(Error::query(format!("{:?} is a {there}", name.text)).with_hint(hint).at(name.at));
            }
            Some(_) => {}
        }
        let reads = |relation: &Relation| matches!(relation, Relation::View(view) if view.uses.contains(&name.text));
        if let Some((view, _)) = self.iter().find(|(_, relation)| reads(relation)) {
            let message = format!("{kind} {:?} is read by view {view:?}", name.text);
            return Err(Error::query(message).with_hint(format!("DROP VIEW {view} first")).at(name.at));
        }
        self.relations.remove(&name.text);
        Ok(())
    }

    /// The error for a name that nobody knows.
    pub fn not_found(&self, name: &str, kind: &str) -> Error {
        let error = Error::query(format!("{kind} \"{name}\" not found"));
        match diagnose::near(name, self.names()) {
            Some(hint) => error.with_hint(hint),
            None if self.relations.is_empty() => error.with_hint("CREATE TABLE declares one"),
            None => error.with_hint(diagnose::known("tables and views", self.names())),
        }
    }
}

impl Relation {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Table(_) => "table",
            Self::View(_) => "view",
        }
    }

    /// The names of its columns as far as its text tells them: those of a view that ends in a star are not known.
    pub fn column_names(&self) -> Vec<String> {
        match self {
            Self::Table(table) => table.columns.iter().map(|column| column.name.clone()).collect(),
            Self::View(view) if !view.columns.is_empty() => view.columns.iter().map(|name| name.text.clone()).collect(),
            Self::View(view) => match &*view.query.body {
                SetExpr::Select(select) => select.projection.iter().map_while(item_name).collect(),
                _ => Vec::new(),
            },
        }
    }
}

impl Table {
    /// What connectors are told.
    pub fn definition(&self, zone: &str) -> TableDefinition {
        let physical = self.columns.iter().filter(|column| column.computed.is_none());
        let fields: Vec<_> = physical.map(|column| column.field(zone)).collect();
        let time = self.watermark.as_ref().and_then(|w| {
            let before = self.columns[..w.column].iter().filter(|column| column.computed.is_none()).count();
            self.columns[w.column].computed.is_none().then_some(before)
        });
        TableDefinition {
            name: self.name.clone(),
            columns: Arc::new(Schema::new(fields)),
            options: self.options.without(&Options::OF_TABLES),
            time,
        }
    }

    /// The columns that queries see, in the order of their declaration.
    pub fn schema(&self, zone: &str) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(|column| column.field(zone)).collect::<Vec<_>>()))
    }
}

impl Column {
    fn field(&self, zone: &str) -> Field {
        Field::new(&self.name, in_zone(&self.data_type, zone), self.is_nullable)
    }
}

/// The name of a column of SELECT: empty where none is written.
fn item_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.value.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().map(|name| name.value.clone()),
        SelectItem::UnnamedExpr(_) => Some(String::new()),
        _ => None,
    }
}

/// Instants follow the session's zone, whichever they were declared in.
pub(crate) fn in_zone(data_type: &DataType, zone: &str) -> DataType {
    match data_type {
        DataType::Timestamp(_, Some(_)) => types::instant(zone),
        other => other.clone(),
    }
}
