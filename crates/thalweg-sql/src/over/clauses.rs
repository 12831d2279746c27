//! The clauses of a window that sqlparser does not know: taken out of a query before it is planned, and put aside under a number.

use std::{ops::ControlFlow, sync::Arc};

use arrow_schema::DataType;
use datafusion_common::{Result as PlanResult, internal_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use sqlparser::ast::{
    Cte, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, SelectItem, SetExpr, Spanned,
    TableFactor, Value, VisitMut, VisitorMut, WindowType, With, helpers::attached_token::AttachedToken,
    visit_expressions_mut,
};
use thalweg_core::{Error, Result, error::Span};

use super::foreign;
use crate::{
    dialect::{LAST_JOIN, WINDOW_CLAUSES},
    script,
};

/// What a window says besides keys, order and bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clauses {
    /// UNION: the queries of the other inputs.
    pub inputs: Vec<Query>,
    /// MAXSIZE.
    pub most: Option<usize>,
    /// EXCLUDE CURRENT_ROW.
    pub excludes_row: bool,
    /// EXCLUDE CURRENT_TIME.
    pub excludes_time: bool,
    /// INSTANCE_NOT_IN_WINDOW.
    pub excludes_base: bool,
}

impl Clauses {
    /// Whether there is more than a union.
    pub fn has_flags(&self) -> bool {
        self.most.is_some() || self.excludes_row || self.excludes_time || self.excludes_base
    }
}

/// Takes the clauses out of a query's windows, and leaves their number among the keys.
pub(crate) fn take(query: &mut Query) -> Result<Vec<Clauses>> {
    let mut taking = Taking { found: Vec::new(), scopes: Vec::new() };
    match query.visit(&mut taking) {
        ControlFlow::Continue(()) => Ok(taking.found),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Taking {
    found: Vec<Clauses>,
    /// The queries in WITH that can be named here, those of outer queries first.
    scopes: Vec<Vec<Cte>>,
}

impl VisitorMut for Taking {
    type Break = Box<Error>;

    /// Queries in WITH see only those before them.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<Error>> {
        let mut known = Vec::new();
        for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let written = table.clone();
            self.scopes.push(known.clone());
            VisitMut::visit(&mut table.query, self)?;
            self.scopes.pop();
            known.push(written);
        }
        self.scopes.push(known);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Box<Error>> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Box<Error>> {
        let is_clauses = is_clauses(expression);
        let Expr::Function(call) = expression else { return ControlFlow::Continue(()) };
        if let Some(name) = quoted(call) {
            let error = Error::query(format!("function \"{name}\" not found"));
            return ControlFlow::Break(Box::new(error.at(script::span(call.name.span()))));
        }
        if !is_clauses {
            return ControlFlow::Continue(());
        }
        let FunctionArguments::List(list) = &mut call.args else { return ControlFlow::Continue(()) };
        // Queries in WITH are visited by themselves, and once more with the query that they belong to.
        if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(_)))] = list.args.as_slice() {
            return ControlFlow::Continue(());
        }
        let clauses = self.clauses(std::mem::take(&mut list.args));
        // A clause that stands twice is planned once.
        let number = self.found.iter().position(|found| *found == clauses).unwrap_or(self.found.len());
        if number == self.found.len() {
            self.found.push(clauses);
        }
        list.args = vec![numbered(number)];
        ControlFlow::Continue(())
    }
}

impl Taking {
    fn clauses(&self, arguments: Vec<FunctionArg>) -> Clauses {
        let mut clauses = Clauses::default();
        for argument in arguments {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(mut query))) => {
                    self.add_with(&mut query);
                    clauses.inputs.push(*query);
                }
                FunctionArg::Named { name, arg, .. } => match name.value.as_str() {
                    "MAXSIZE" => clauses.most = arg.to_string().parse().ok(),
                    "CURRENT_ROW" => clauses.excludes_row = true,
                    "CURRENT_TIME" => clauses.excludes_time = true,
                    _ => clauses.excludes_base = true,
                },
                _ => {}
            }
        }
        clauses
    }

    /// Gives a query what it can name here, since it is planned by itself.
    fn add_with(&self, query: &mut Query) {
        let mut tables: Vec<Cte> = Vec::new();
        for table in self.scopes.iter().flatten().chain(query.with.iter().flat_map(|with| &with.cte_tables)) {
            tables.retain(|known| known.alias.name != table.alias.name);
            tables.push(table.clone());
        }
        if !tables.is_empty() {
            query.with = Some(With { with_token: AttachedToken::empty(), recursive: false, cte_tables: tables });
        }
    }
}

/// Whether a key of a window holds its clauses.
pub(crate) fn is_clauses(key: &Expr) -> bool {
    let Expr::Function(call) = key else { return false };
    call.name.0.first().and_then(|part| part.as_ident()).is_some_and(|name| name.value == WINDOW_CLAUSES)
}

/// The name of a function that only the parser may call, if somebody has written it.
fn quoted(call: &Function) -> Option<&str> {
    let name = call.name.0.first()?.as_ident().filter(|name| name.quote_style.is_some())?;
    let is_ours = [WINDOW_CLAUSES, LAST_JOIN].contains(&name.value.as_str()) || name.value.starts_with(foreign::PREFIX);
    is_ours.then_some(&name.value)
}

/// The expression as it is written, without what has been put aside.
pub(crate) fn written(expression: &Expr) -> String {
    let mut shown = expression.clone();
    let _: ControlFlow<()> = visit_expressions_mut(&mut shown, |part| {
        if let Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) = part {
            spec.partition_by.retain(|key| !is_clauses(key));
        }
        ControlFlow::Continue(())
    });
    shown.to_string()
}

/// The number of the clauses that stand among the keys of a window.
pub(super) fn number(key: &Expr) -> Option<usize> {
    let Expr::Function(call) = key else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    list.args.first().filter(|_| is_clauses(key))?.to_string().parse().ok()
}

/// The clauses that stand among the keys of a window are others.
pub(super) fn set_number(key: &mut Expr, number: usize) {
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = key {
        list.args = vec![numbered(number)];
    }
}

fn numbered(number: usize) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::value(Value::Number(number.to_string(), false))))
}

/// What an input of a union is called, and where it stands.
pub(super) fn place(query: &Query, number: usize) -> (String, Span) {
    let at = script::span(query.body.span());
    let name = || {
        let SetExpr::Select(select) = &*query.body else { return None };
        let [item] = select.from.as_slice() else { return None };
        let TableFactor::Table { name, .. } = &item.relation else { return None };
        let is_all = matches!(select.projection.as_slice(), [SelectItem::Wildcard(_)]);
        (is_all && item.joins.is_empty()).then(|| name.to_string())
    };
    match name() {
        Some(name) => (format!("table \"{name}\""), at),
        None => (format!("query {number} of UNION"), at),
    }
}

/// What stands for the clauses of a window while DataFusion plans it.
pub(crate) fn marker(name: &str) -> Option<Arc<ScalarUDF>> {
    let signature = Signature::any(1, Volatility::Immutable);
    (name == WINDOW_CLAUSES).then(|| Arc::new(ScalarUDF::from(Marker { signature })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    signature: Signature,
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        WINDOW_CLAUSES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        internal_err!("the clauses of a window are no value")
    }
}
