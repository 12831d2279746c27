//! Which expression of a query cannot be planned, where the planner does not say so.
//!
//! It is found by trying: an expression is to blame if the same error does not come back once NULL stands in its place, and
//! its part is to blame if the same error comes back once the part stands alone.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, Value, Visit, VisitMut, Visitor, VisitorMut};
use thalweg_core::{Error, Result, error::Fault};

use crate::{places, script::Words};

/// More expressions than these are not tried: each costs a plan.
const MOST: usize = 200;

/// The error at the smallest expression that is to blame, if all that is known of its place is the statement.
pub(crate) fn place<T>(error: Error, query: &Query, words: &Words, plan: &dyn Fn(&Query) -> Result<T>) -> Error {
    let is_placed = error.span().is_some_and(|span| span != words.start());
    if is_placed || (error.span().is_none() && error.subject().is_some()) || error.fault() != Fault::Query {
        return error;
    }
    let is_same = |again: Result<T>| again.is_err_and(|again| again.message() == error.message());
    // A message with the window in it is another one without its frame, whatever is to blame.
    if !error.message().contains("OVER (")
        && let Some(at) = super::frames::to_blame(query, words, MOST, &|query| is_same(plan(query)))
    {
        return error.placed(at);
    }
    let mut all = Expressions { depth: 0, found: Vec::new() };
    let _: ControlFlow<()> = query.visit(&mut all);
    let all = all.found;
    if all.len() > MOST {
        return error;
    }
    let comes_back = |at: usize, other: &Expr| {
        let mut query = query.clone();
        let _: ControlFlow<()> = VisitMut::visit(&mut query, &mut Replace { at, seen: 0, other });
        is_same(plan(&query))
    };
    let null = Expr::value(Value::Null);
    let outermost = (0..all.len()).filter(|at| all[*at].0 == 0);
    let Some(mut culprit) = outermost.into_iter().find(|at| !comes_back(*at, &null)) else { return error };
    let top = culprit;
    loop {
        let depth = all[culprit].0;
        let inside = (culprit + 1..all.len()).take_while(|at| all[*at].0 > depth);
        let mut parts = inside.filter(|at| all[*at].0 == depth + 1);
        match parts.find(|at| comes_back(top, &all[*at].1)) {
            Some(part) => culprit = part,
            None => break,
        }
    }
    match places::extent(&all[culprit].1, words) {
        Some(at) => error.placed(at),
        None => error,
    }
}

/// The expressions of a query with their depth, those that contain others first.
struct Expressions {
    depth: usize,
    found: Vec<(usize, Expr)>,
}

impl Visitor for Expressions {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        self.found.push((self.depth, expression.clone()));
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// Puts another expression in the place of one of them.
struct Replace<'a> {
    at: usize,
    seen: usize,
    other: &'a Expr,
}

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if self.seen == self.at {
            *expression = self.other.clone();
            return ControlFlow::Break(());
        }
        self.seen += 1;
        ControlFlow::Continue(())
    }
}
