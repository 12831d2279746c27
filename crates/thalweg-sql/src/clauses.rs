//! What cannot stand in a clause or behind a call, said before DataFusion looks: it knows no places.

use std::{collections::HashSet, ops::ControlFlow};

use sqlparser::ast::{
    Expr, GroupByExpr, NullTreatment, OrderByKind, Query, Select, SelectItem, SetExpr, Spanned, Value, Values, Visit,
    Visitor, visit_expressions,
};
use thalweg_core::{Error, Result};

use crate::{forms, functions::Functions, over, places::extent, script::Words, unions};

/// Refuses aggregates where single rows are looked at, columns by a number that there is not, two columns of one name, and clauses of
/// calls that take none.
pub(crate) fn check(query: &Query, functions: &Functions, words: &Words) -> Result<()> {
    let mut clauses = Clauses { functions, words };
    // Later inputs of a union may have names twice.
    let mut query = query.clone();
    unions::tell_apart(&mut query);
    match query.visit(&mut clauses) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Clauses<'a> {
    functions: &'a Functions,
    words: &'a Words,
}

impl Visitor for Clauses<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Box<Error>> {
        done(self.body(&query.body).and_then(|()| self.order(query)))
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<Box<Error>> {
        done(self.over(expression).and_then(|()| self.nulls(expression)))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Box<Error>> {
        done(self.select(select))
    }
}

fn done(result: Result<()>) -> ControlFlow<Box<Error>> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(Box::new(error)),
    }
}

impl Clauses<'_> {
    fn at(&self, expression: &Expr, error: Error) -> Error {
        error.at(extent(expression, self.words).unwrap_or(self.words.start()))
    }

    /// The first call of an aggregate in an expression.
    fn aggregate(&self, expression: &Expr) -> Option<Expr> {
        let found = visit_expressions(expression, |part| match part {
            Expr::Function(call) if call.over.is_none() => {
                let name = call.name.to_string().to_lowercase();
                let is_written_out = forms::aggregates().any(|known| known == name);
                let is_aggregate = is_written_out || self.functions.aggregate.contains_key(&name);
                let is_aggregate = is_aggregate && !self.functions.scalar.contains_key(&name);
                if is_aggregate { ControlFlow::Break(part.clone()) } else { ControlFlow::Continue(()) }
            }
            Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => ControlFlow::Break(part.clone()),
            _ => ControlFlow::Continue(()),
        });
        match found {
            ControlFlow::Break(call @ Expr::Function(_)) => Some(call),
            _ => None,
        }
    }

    /// OVER behind a function of one row, which DataFusion does not see.
    fn over(&self, expression: &Expr) -> Result<()> {
        let Expr::Function(call) = expression else { return Ok(()) };
        let name = call.name.to_string().to_lowercase();
        let is_known = self.functions.aggregate.contains_key(&name) || self.functions.window.contains_key(&name);
        if call.over.is_none() || is_known || !self.functions.scalar.contains_key(&name) {
            return Ok(());
        }
        let error = Error::query(format!("{name} is of one row, and OVER looks at others"));
        Err(error.with_hint("leave OVER out, or compute an aggregate").at(crate::script::span(call.name.span())))
    }

    /// IGNORE NULLS behind a call that takes none, which DataFusion passes over in silence.
    fn nulls(&self, expression: &Expr) -> Result<()> {
        const TAKING: [&str; 6] = ["array_agg", "first", "first_value", "last", "last_value", "nth_value"];
        let Expr::Function(call) = expression else { return Ok(()) };
        let name = call.name.to_string().to_lowercase();
        let clause = match call.null_treatment {
            Some(NullTreatment::IgnoreNulls) => "IGNORE NULLS",
            Some(NullTreatment::RespectNulls) if name != "lag" => "RESPECT NULLS",
            _ => return Ok(()),
        };
        if TAKING.contains(&name.as_str()) || name == "lead" {
            return Ok(());
        }
        let error = match name.as_str() {
            "lag" => Error::query("lag counts rows, and IGNORE NULLS values: both together are not there").with_hint(
                "write nth_value(x, -1) IGNORE NULLS OVER (… ORDER BY ts ROWS BETWEEN 100 PRECEDING AND CURRENT ROW EXCLUDE \
                 CURRENT_ROW) for the last value of the 100 rows before",
            ),
            _ => Error::query(format!("{clause} means nothing to {name}")).with_hint(
                "leave it out: first_value, last_value and nth_value take nulls for values, or ignore them",
            ),
        };
        let call = crate::script::span(call.name.span());
        Err(error.at(self.words.find_behind(call, clause).unwrap_or(call)))
    }

    fn select(&self, select: &Select) -> Result<()> {
        self.names(select)?;
        if let Some(condition) = &select.selection
            && let Some(call) = self.aggregate(condition)
        {
            let error = Error::query(format!("{call} is of many rows, and WHERE looks at single rows"));
            return Err(self.at(&call, error.with_hint("ask it behind GROUP BY, in HAVING")));
        }
        let items: Vec<_> = select.projection.iter().map(expression).collect();
        for call in items.iter().flatten().filter_map(|item| self.aggregate(item)) {
            let inner = crate::places::parts(&call).iter().find_map(|argument| self.aggregate(argument));
            if let Some(inner) = inner {
                let error = Error::query(format!("{inner} stands in an aggregate"));
                return Err(self.at(&inner, error.with_hint("compute the inner one in a subquery in FROM")));
            }
        }
        let GroupByExpr::Expressions(keys, _) = &select.group_by else { return Ok(()) };
        keys.iter().try_for_each(|key| self.key(key, &items))?;
        if let Some(condition) = &select.having {
            let mut all = items.iter().flatten().copied().chain([condition]);
            if keys.is_empty() && !all.any(|part| self.aggregate(part).is_some()) {
                let error = Error::query("HAVING looks at groups, and there are none");
                return Err(self.at(condition, error.with_hint("write WHERE, or QUALIFY for what OVER gives")));
            }
        }
        Ok(())
    }

    /// Two columns that are given one name, or are written alike.
    fn names(&self, select: &Select) -> Result<()> {
        let (mut taken, mut unnamed) = (HashSet::new(), HashSet::new());
        for item in &select.projection {
            let name = match item {
                SelectItem::ExprWithAlias { alias, .. } => alias,
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => name,
                SelectItem::UnnamedExpr(expr) if !matches!(expr, Expr::CompoundIdentifier(_)) => {
                    let name = over::written(expr);
                    if !unnamed.insert(name.clone()) {
                        let error = Error::query(format!("two columns are named \"{name}\""));
                        return Err(self.at(expr, error.with_hint("name one of them anew with AS")));
                    }
                    continue;
                }
                _ => continue,
            };
            if !taken.insert(name.value.as_str()) {
                let error = Error::query(format!("two columns are named \"{}\"", name.value));
                return Err(error.with_hint("name one of them anew with AS").at(crate::script::span(name.span)));
            }
        }
        Ok(())
    }

    fn key(&self, key: &Expr, items: &[Option<&Expr>]) -> Result<()> {
        if let Expr::Tuple(parts) = key
            && parts.is_empty()
        {
            let error = Error::query("GROUP BY () is not there")
                .with_hint("leave it out: an aggregate without GROUP BY is of all rows");
            return Err(error.at(self.words.find_keywords("GROUP").unwrap_or(self.words.start())));
        }
        let chosen = match number(key) {
            Some(position) => self.item("GROUP BY", key, position, items)?,
            None => Some(key),
        };
        let Some(call) = chosen.and_then(|chosen| self.aggregate(chosen)) else { return Ok(()) };
        let which = if number(key).is_some() { format!("GROUP BY {key} is") } else { "GROUP BY has".to_string() };
        let error = Error::query(format!("{which} {call}, which is computed of each group"));
        Err(self.at(key, error.with_hint("group by columns, or by what is computed from single rows")))
    }

    /// The column that a number means; none if a star may stand for it.
    fn item<'e>(
        &self,
        clause: &str,
        key: &Expr,
        position: usize,
        items: &[Option<&'e Expr>],
    ) -> Result<Option<&'e Expr>> {
        if items.iter().any(Option::is_none) {
            return Ok(None);
        }
        match position.checked_sub(1).and_then(|i| items.get(i)) {
            Some(item) => Ok(*item),
            None => {
                let count = items.len();
                let columns = if count == 1 { "column" } else { "columns" };
                let error = Error::query(format!("{clause} {position}, and SELECT has {count} {columns}"));
                Err(self.at(key, error.with_hint("columns are counted from 1")))
            }
        }
    }

    fn order(&self, query: &Query) -> Result<()> {
        let Some(order) = &query.order_by else { return Ok(()) };
        let OrderByKind::Expressions(keys) = &order.kind else { return Ok(()) };
        if let SetExpr::SetOperation { .. } = &*query.body
            && let Some(call) = keys.iter().find_map(|key| self.aggregate(&key.expr))
        {
            let error =
                Error::query(format!("{call} is of many rows, and ORDER BY behind a union looks at single rows"));
            return Err(self.at(
                &call,
                error.with_hint("sort by columns of the union, which are called like those of its first query"),
            ));
        }
        let SetExpr::Select(select) = &*query.body else { return Ok(()) };
        let items: Vec<_> = select.projection.iter().map(expression).collect();
        for key in keys {
            if let Some(position) = number(&key.expr) {
                self.item("ORDER BY", &key.expr, position, &items)?;
            }
        }
        Ok(())
    }

    fn body(&self, body: &SetExpr) -> Result<()> {
        match body {
            SetExpr::SetOperation { left, right, .. } => self.body(left).and_then(|()| self.body(right)),
            SetExpr::Values(values) => self.values(values),
            SetExpr::Table(table) => {
                let name = table.table_name.as_deref().unwrap_or("t");
                let error = Error::query(format!("TABLE {name} is not there as a query"))
                    .with_hint(format!("write SELECT * FROM {name}"));
                Err(error.at(self.words.find_keywords(&format!("TABLE {name}")).unwrap_or(self.words.start())))
            }
            _ => Ok(()),
        }
    }

    fn values(&self, values: &Values) -> Result<()> {
        let width = values.rows.first().map_or(0, |row| row.len());
        let Some(i) = values.rows.iter().position(|row| row.len() != width) else { return Ok(()) };
        let row = &values.rows[i];
        let of = |count: usize| if count == 1 { "1 value".to_string() } else { format!("{count} values") };
        let message = format!("row {} of VALUES has {}, and row 1 has {}", i + 1, of(row.len()), of(width));
        let error = Error::query(message).with_hint("write NULL where there is no value");
        Err(match row.first() {
            Some(first) => self.at(first, error),
            None => error.at(self.words.find_keywords("VALUES").unwrap_or(self.words.start())),
        })
    }
}

fn expression(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn number(key: &Expr) -> Option<usize> {
    match key {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
