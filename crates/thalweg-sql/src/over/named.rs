//! Windows by their names: `OVER w … WINDOW w AS (…)`, and `OVER (w ROWS …)`, which is `w` with a frame.

use std::{collections::HashMap, ops::ControlFlow};

use sqlparser::ast::{
    Expr, Function, Ident, NamedWindowExpr, Query, Select, SetExpr, Spanned, VisitMut, VisitorMut, WindowSpec,
    WindowType, visit_expressions_mut,
};
use thalweg_core::{Error, Result};

use super::{
    FUNCTIONS,
    clauses::{self, Clauses},
    frame,
};
use crate::{diagnose, script};

/// Puts windows in the place of their names, and refuses what their clauses say nothing to; more clauses are added where a function has a
/// window with less of them.
///
/// Errors: `Error::Query` with the place, for windows that are not there, or there twice.
pub(crate) fn resolve(query: &mut Query, clauses: &mut Vec<Clauses>) -> Result<()> {
    match VisitMut::visit(query, &mut Resolving { clauses }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Resolving<'a> {
    clauses: &'a mut Vec<Clauses>,
}

impl VisitorMut for Resolving<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<Error>> {
        // What is sorted by may have the windows of what is selected.
        match (&mut *query.body, &mut query.order_by) {
            (SetExpr::Select(select), Some(order)) => {
                self.resolve(windows(select), |resolve| visit_expressions_mut(order, resolve))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Box<Error>> {
        self.resolve(windows(select), |resolve| {
            visit_expressions_mut(&mut select.projection, &mut *resolve)?;
            for condition in [&mut select.selection, &mut select.having, &mut select.qualify] {
                visit_expressions_mut(condition, &mut *resolve)?;
            }
            ControlFlow::Continue(())
        })
    }
}

impl Resolving<'_> {
    /// Puts the windows of a query in the place of their names in what is visited.
    fn resolve(
        &mut self,
        windows: Result<HashMap<String, NamedWindowExpr>>,
        visit: impl FnOnce(&mut dyn FnMut(&mut Expr) -> ControlFlow<Box<Error>>) -> ControlFlow<Box<Error>>,
    ) -> ControlFlow<Box<Error>> {
        let windows = match windows {
            Ok(windows) => windows,
            Err(error) => return ControlFlow::Break(Box::new(error)),
        };
        let mut resolve = |expression: &mut Expr| {
            let Expr::Function(call) = expression else { return ControlFlow::Continue(()) };
            let resolved = match &call.over {
                None => return ControlFlow::Continue(()),
                Some(WindowType::NamedWindow(name)) => spec(name, &windows),
                Some(WindowType::WindowSpec(spec)) => whole(spec.clone(), &windows),
            };
            match resolved.and_then(|spec| self.chosen(call, spec)) {
                Ok(mut spec) => {
                    frame::plain(&mut spec);
                    call.over = Some(WindowType::WindowSpec(spec));
                }
                Err(error) => return ControlFlow::Break(Box::new(error)),
            }
            ControlFlow::Continue(())
        };
        visit(&mut resolve)
    }

    /// The window as a function looks at it. Those that count rows have no use for a choice of these: to `lag`, as in OpenMLDB, MAXSIZE and
    /// EXCLUDE CURRENT_ROW mean nothing.
    fn chosen(&mut self, call: &Function, mut spec: WindowSpec) -> Result<WindowSpec> {
        let name = call.name.to_string().to_lowercase();
        let found = spec.partition_by.iter_mut().find_map(|key| clauses::number(key).map(|number| (key, number)));
        let Some((key, number)) = found.filter(|_| FUNCTIONS.contains(&name.as_str())) else { return Ok(spec) };
        let Some(clauses) = self.clauses.get(number).filter(|clauses| clauses.has_flags()) else { return Ok(spec) };
        if name == "lag" {
            let without = Clauses { most: None, excludes_row: false, ..clauses.clone() };
            if !without.has_flags() {
                let known = self.clauses.iter().position(|clauses| *clauses == without);
                if known.is_none() {
                    self.clauses.push(without);
                }
                clauses::set_number(key, known.unwrap_or(self.clauses.len() - 1));
                return Ok(spec);
            }
        }
        let some = if name == "lag" { "EXCLUDE CURRENT_TIME" } else { "MAXSIZE, EXCLUDE" };
        let message =
            format!("{name} counts all rows of a window, and {some} and INSTANCE_NOT_IN_WINDOW leave some out");
        let error = Error::query(message).with_hint("give it a window of its own, without them");
        Err(error.at(script::span(call.name.span())))
    }
}

/// The windows of a query by name.
fn windows(select: &Select) -> Result<HashMap<String, NamedWindowExpr>> {
    let mut windows = HashMap::new();
    for definition in &select.named_window {
        let name = &definition.0;
        if windows.insert(name.value.clone(), definition.1.clone()).is_some() {
            return Err(Error::query(format!("two windows are named \"{}\"", name.value))
                .with_hint("name one of them anew")
                .at(script::span(name.span)));
        }
    }
    Ok(windows)
}

fn spec(name: &Ident, windows: &HashMap<String, NamedWindowExpr>) -> Result<WindowSpec> {
    let mut name = name.clone();
    // Each name leads to another one, as often as there are names.
    for _ in 0..=windows.len() {
        match windows.get(&name.value) {
            Some(NamedWindowExpr::WindowSpec(spec)) => return whole(spec.clone(), windows),
            Some(NamedWindowExpr::NamedWindow(other)) => name = other.clone(),
            None => {
                let error = Error::query(format!("window \"{}\" not found", name.value));
                let known = || {
                    let mut names: Vec<_> = windows.keys().map(String::as_str).collect();
                    names.sort_unstable();
                    names.into_iter()
                };
                let hint = match known().next() {
                    Some(_) => {
                        diagnose::near(&name.value, known()).unwrap_or_else(|| diagnose::known("windows", known()))
                    }
                    None => format!("declare it behind FROM: WINDOW {} AS (PARTITION BY … ORDER BY …)", name.value),
                };
                return Err(error.with_hint(hint).at(script::span(name.span)));
            }
        }
    }
    Err(Error::query(format!("window \"{}\" stands for itself", name.value))
        .with_hint("say what one of them is: WINDOW w AS (PARTITION BY … ORDER BY …)")
        .at(script::span(name.span)))
}

/// The window without a name: what it does not say itself, the window says that it names.
fn whole(mut spec: WindowSpec, windows: &HashMap<String, NamedWindowExpr>) -> Result<WindowSpec> {
    let Some(name) = spec.window_name.take() else { return Ok(spec) };
    let others = windows.iter().filter(|(known, _)| **known != name.value);
    let others_than_it: HashMap<_, _> = others.map(|(name, window)| (name.clone(), window.clone())).collect();
    let base = match windows.get(&name.value) {
        Some(NamedWindowExpr::WindowSpec(base)) => whole(base.clone(), &others_than_it)?,
        _ => self::spec(&name, windows)?,
    };
    let twice = |what: &str| {
        Error::query(format!("window \"{}\" has {what} already", name.value))
            .with_hint("leave one of them out")
            .at(script::span(name.span))
    };
    if spec.partition_by.iter().any(|key| clauses::number(key).is_some()) {
        let message =
            format!("UNION, MAXSIZE, EXCLUDE and INSTANCE_NOT_IN_WINDOW are not added to window \"{}\"", name.value);
        return Err(Error::query(message)
            .with_hint(format!("write them where the window is declared: WINDOW {} AS (…)", name.value))
            .at(script::span(name.span)));
    }
    if !spec.partition_by.is_empty() {
        return Err(twice("its PARTITION BY, or clauses of its own,"));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return Err(twice("an ORDER BY"));
    }
    if spec.window_frame.is_some() && base.window_frame.is_some() {
        return Err(twice("a frame"));
    }
    spec.partition_by = base.partition_by;
    spec.order_by = if spec.order_by.is_empty() { base.order_by } else { spec.order_by };
    spec.window_frame = spec.window_frame.or(base.window_frame);
    Ok(spec)
}
