//! The inputs of UNION, whose columns count by their place: they are called like those of the first input.
//!
//! DataFusion's planner and rules look columns up by their names in all inputs. So in a later input columns that have one name get
//! names of their own before they are planned; and then each input gets the names of the union.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
};

use datafusion_common::{
    Result,
    tree_node::{Transformed, TransformedResult},
};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, logical_plan::Union};
use sqlparser::ast::{
    Expr as SqlExpr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, SetQuantifier, Spanned, VisitMut,
    VisitorMut,
};

use crate::over::written;

/// Gives the columns of later inputs of unions names by which they can be told apart, wherever the unions stand.
pub(crate) fn tell_apart(query: &mut Query) {
    let _: ControlFlow<()> = query.visit(&mut Unions);
}

struct Unions;

impl VisitorMut for Unions {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        inputs(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn inputs(body: &mut SetExpr) {
    use SetQuantifier::{AllByName, ByName, DistinctByName};
    if let SetExpr::SetOperation { left, right, set_quantifier, .. } = body {
        inputs(left);
        match set_quantifier {
            ByName | AllByName | DistinctByName => inputs(right),
            _ => later_input(right, false),
        }
    }
}

/// A later input, whose columns are asked for by name where `is_sorted`.
fn later_input(body: &mut SetExpr, is_sorted: bool) {
    match body {
        SetExpr::Select(select) => columns(select, is_sorted),
        SetExpr::Query(query) => {
            let is_sorted = is_sorted || query.order_by.is_some();
            later_input(&mut query.body, is_sorted);
        }
        SetExpr::SetOperation { left, .. } => {
            later_input(left, is_sorted);
            inputs(body);
        }
        _ => {}
    }
}

fn columns(select: &mut Select, is_sorted: bool) {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        GroupByExpr::All(_) => false,
    };
    // A name that somebody asks for stays, and with it the error if it is there twice.
    let is_asked = is_sorted || is_grouped || select.having.is_some();
    let was_named: Vec<_> = select.projection.iter().map(is_named).collect();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && !matches!(expr, SqlExpr::Identifier(_) | SqlExpr::CompoundIdentifier(_))
        {
            *item = alias(expr, &written(expr));
        }
    }
    let is_all = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let has_wildcard = select.projection.iter().any(is_all);
    // Of several columns with one name, one that was named keeps it.
    let mut keeps: HashMap<String, usize> = HashMap::new();
    for (i, item) in select.projection.iter().enumerate() {
        if let Some(name) = name(item) {
            let is_better = |kept: &usize| was_named[i] && !was_named[*kept];
            if keeps.get(name).is_none_or(is_better) {
                keeps.insert(name.to_string(), i);
            }
        }
    }
    let mut taken: HashSet<String> = keeps.keys().cloned().collect();
    for (i, item) in select.projection.iter_mut().enumerate() {
        let Some(old) = name(item).map(str::to_string) else { continue };
        // Nobody knows here which columns a wildcard has.
        let collides = has_wildcard || keeps.get(&old) != Some(&i);
        let may_change = !is_asked || !was_named[i] && !has_wildcard;
        let mark = format!(":{}", i + 1);
        // Beside a wildcard a name has its mark already where a query is inside of another, and comes by twice.
        let is_marked = has_wildcard && old.ends_with(&mark);
        if collides
            && may_change
            && !is_marked
            && let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
        {
            let mut own = old + &mark;
            while !taken.insert(own.clone()) {
                own += &mark;
            }
            *item = alias(expr, &own);
        }
    }
}

fn alias(expr: &SqlExpr, name: &str) -> SelectItem {
    let alias = Ident { value: name.to_string(), quote_style: Some('`'), span: expr.span() };
    SelectItem::ExprWithAlias { expr: expr.clone(), alias }
}

fn is_named(item: &SelectItem) -> bool {
    matches!(item, SelectItem::ExprWithAlias { .. })
}

fn name(item: &SelectItem) -> Option<&str> {
    match item {
        SelectItem::UnnamedExpr(SqlExpr::Identifier(name)) | SelectItem::ExprWithAlias { alias: name, .. } => {
            Some(&name.value)
        }
        SelectItem::UnnamedExpr(SqlExpr::CompoundIdentifier(names)) => names.last().map(|name| name.value.as_str()),
        _ => None,
    }
}

/// The plan in which the inputs of each union have its names, and none of them is a union itself: which type a column has, and what
/// becomes of its values, does not depend on where brackets stand.
pub(crate) fn rename(plan: LogicalPlan) -> Result<LogicalPlan> {
    let renamed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Union(union) => {
            let inputs = union.inputs.iter().flat_map(|input| match &**input {
                LogicalPlan::Union(inner) => inner.inputs.clone(),
                _ => vec![Arc::clone(input)],
            });
            let inputs = inputs.map(|input| under_names_of(&input, &union));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema: Arc::clone(&union.schema) })))
        }
        other => Ok(Transformed::no(other)),
    });
    renamed.data()
}

fn under_names_of(input: &Arc<LogicalPlan>, union: &Union) -> Result<Arc<LogicalPlan>> {
    let names = union.schema.fields().iter().map(|field| field.name());
    let are_equal = input.schema().fields().iter().map(|field| field.name()).eq(names.clone());
    if are_equal {
        return Ok(Arc::clone(input));
    }
    let columns = input.schema().columns().into_iter().zip(names);
    let columns = columns.map(|(column, name)| Expr::Column(column).alias(name));
    LogicalPlanBuilder::from(LogicalPlan::clone(input)).project(columns)?.build().map(Arc::new)
}
