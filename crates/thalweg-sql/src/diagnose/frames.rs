//! Which frame of a window a query cannot be planned with, where the planner does not say so.
//!
//! It is found by trying: a frame is to blame if the same error does not come back once its window, and those behind it, have none.

use std::ops::ControlFlow;

use sqlparser::{
    ast::{Expr, NamedWindowExpr, Query, Select, Spanned, VisitMut, VisitorMut, WindowSpec, WindowType},
    tokenizer::Location,
};
use thalweg_core::error::Span;

use crate::{
    over::is_clauses,
    parse,
    script::{self, Words},
};

/// Where the first frame stands that is to blame, unless there are more to be tried than these.
pub(super) fn to_blame(query: &Query, words: &Words, most: usize, comes_back: &dyn Fn(&Query) -> bool) -> Option<Span> {
    let first = |kept: usize| {
        let (mut query, mut frames) = (query.clone(), Frames { kept, found: Vec::new() });
        let _: ControlFlow<()> = VisitMut::visit(&mut query, &mut frames);
        (query, frames.found)
    };
    let (_, found) = first(usize::MAX);
    if found.len() > most {
        return None;
    }
    let at = (0..found.len()).rev().find(|at| !comes_back(&first(*at).0))?;
    let behind = words.tokens.iter().position(|token| token.span.start >= found[at])?;
    Some(script::first_line(parse::frame(&words.tokens[behind..])?))
}

/// The frames of a query, each by a place before it, with no other frame between them.
struct Frames {
    /// So many stay, and the others are taken out.
    kept: usize,
    found: Vec<Location>,
}

impl Frames {
    fn add(&mut self, spec: &mut WindowSpec, before: Location) {
        if spec.window_frame.is_none() {
            return;
        }
        // Clauses stand among the keys, and are written behind the frame.
        let partition_by = spec.partition_by.iter().filter(|key| !is_clauses(key));
        let keys = spec.order_by.iter().map(|key| &key.expr).chain(partition_by);
        let ends = keys.map(|key| key.span().end).chain(spec.window_name.iter().map(|name| name.span.end));
        if self.found.len() >= self.kept {
            spec.window_frame = None;
        }
        self.found.push(ends.fold(before, Location::max));
    }
}

impl VisitorMut for Frames {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expression
            && let Some(WindowType::WindowSpec(spec)) = &mut call.over
        {
            self.add(spec, call.name.span().end);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for window in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(spec) = &mut window.1 {
                self.add(spec, window.0.span.end);
            }
        }
        ControlFlow::Continue(())
    }
}
