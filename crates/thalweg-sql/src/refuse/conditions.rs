//! EXISTS and IN over a query, which become joins.

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan};
use thalweg_core::{Error, Result};

use crate::{diagnose, script::Words};

/// The query of a condition that becomes a join, and the value that is looked for in it.
pub(super) fn becomes_join(condition: &Expr) -> Option<(&LogicalPlan, Option<&Expr>)> {
    match condition {
        Expr::Not(inner) => match &**inner {
            Expr::Exists(exists) => Some((&exists.subquery.subquery, None)),
            _ => None,
        },
        Expr::Exists(exists) => Some((&exists.subquery.subquery, None)),
        Expr::InSubquery(found) if !found.negated => Some((&found.subquery.subquery, Some(&found.expr))),
        _ => None,
    }
}

/// Refuses conditions that should have become joins, and have not.
pub(crate) fn remains(plan: &LogicalPlan, words: &Words) -> Result<()> {
    let mut found = false;
    let walked = plan.apply(|node| {
        let is_condition = |part: &Expr| Ok(matches!(part, Expr::Exists(_) | Expr::InSubquery(_)));
        for expression in node.expressions() {
            found |= expression.exists(is_condition)?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(|error| diagnose::planning(error, words))?;
    if found { Err(no_join(words)) } else { Ok(()) }
}

/// What is said of the query of EXISTS or IN that is more than a choice of rows.
pub(super) fn no_join(words: &Words) -> Error {
    let at = words.find_keywords("EXISTS").or_else(|| words.find_keywords("IN ( SELECT"));
    Error::query("the query in EXISTS or IN is none that rows can be joined with")
        .with_hint("select rows with WHERE alone: EXISTS (SELECT * FROM b WHERE b.k = a.k AND b.ts BETWEEN a.ts AND …)")
        .at(at.unwrap_or(words.start()))
}
