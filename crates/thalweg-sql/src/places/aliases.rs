//! What names stand for: `SELECT v / 2 AS half`.

use std::{collections::HashMap, ops::ControlFlow};

use sqlparser::ast::{Expr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, Visitor};

/// The expressions that were given a name, by name.
#[derive(Debug)]
pub(super) struct Aliases<'a> {
    meanings: HashMap<String, Vec<Expr>>,
    /// The columns of tables, by the table's name.
    tables: &'a HashMap<String, Vec<String>>,
}

impl<'a> Aliases<'a> {
    pub(super) fn new(tables: &'a HashMap<String, Vec<String>>) -> Self {
        Self { meanings: HashMap::new(), tables }
    }

    /// What a name may stand for.
    pub(super) fn of(&self, name: &str) -> &[Expr] {
        self.meanings.get(name).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, name: &Ident, expression: &Expr) {
        self.meanings.entry(name.value.clone()).or_default().push(expression.clone());
    }

    /// `FROM t AS u (a, b)` names the columns of a table anew.
    fn rename_table(&mut self, table: &ObjectName, alias: &TableAlias) {
        let name = table.0.last().and_then(|part| part.as_ident());
        let Some(columns) = name.and_then(|name| self.tables.get(&name.value)) else { return };
        for (name, column) in alias.columns.iter().zip(columns) {
            self.add(&name.name, &Expr::Identifier(Ident::new(column)));
        }
    }

    /// `AS t (a, b)` names the columns of a query anew.
    fn rename(&mut self, alias: Option<&TableAlias>, query: &Query) {
        let Some(alias) = alias else { return };
        if let SetExpr::Values(_) = &*query.body {
            // Rows without a query have columns of these names.
            for (i, name) in alias.columns.iter().enumerate() {
                self.add(&name.name, &Expr::Identifier(Ident::new(format!("column{}", i + 1))));
            }
        }
        let columns = columns(&query.body);
        for (name, column) in alias.columns.iter().zip(columns) {
            if let Some(expression) = column {
                self.add(&name.name, expression);
            }
        }
    }
}

/// The expressions of a query's columns, where they are known.
fn columns(body: &SetExpr) -> Vec<Option<&Expr>> {
    match body {
        SetExpr::Select(select) => select.projection.iter().map(item).collect(),
        SetExpr::Query(query) => columns(&query.body),
        SetExpr::SetOperation { left, .. } => columns(left),
        SetExpr::Values(values) => values.rows.first().map_or(Vec::new(), |row| row.iter().map(Some).collect()),
        _ => Vec::new(),
    }
}

/// The expression of a column that is no star.
pub(super) fn item(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

impl Visitor for Aliases<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { expr, alias } = item {
                self.add(alias, expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.rename(Some(&table.alias), &table.query);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Derived { subquery, alias, .. } => self.rename(alias.as_ref(), subquery),
            TableFactor::Table { name, alias: Some(alias), .. } => self.rename_table(name, alias),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
