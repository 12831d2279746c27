//! EMIT EAGER: a node at the top of a query, which puts the column in front that says what becomes of each row.
//!
//! Below it the query is planned as if its results were final; the node below that can be eager is found when it is lowered.

use std::{cmp::Ordering, fmt, sync::Arc};

use arrow_schema::{DataType, Field};
use datafusion_common::{DFSchema, DFSchemaRef, Result as Planned};
use datafusion_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore, logical_plan::Extension};
use thalweg_core::{Error, Result, error::Span};
use thalweg_plan::node::{Emission, OP};

use crate::{diagnose, parse::Emit, script::Words, windowing::ours};

/// Results of its input that are not final, with what becomes of each row in front.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EagerNode {
    pub input: LogicalPlan,
    /// Where EMIT is written: line, column, width.
    at: (usize, usize, usize),
    pub schema: DFSchemaRef,
}

impl EagerNode {
    fn new(input: LogicalPlan, at: (usize, usize, usize)) -> Planned<Self> {
        let op = (None, Arc::new(Field::new(OP, DataType::Utf8, false)));
        let given = input.schema().iter().map(|(table, field)| (table.cloned(), Arc::clone(field)));
        let fields = std::iter::once(op).chain(given).collect();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        Ok(Self { input, at, schema })
    }

    /// Where EMIT is written.
    pub fn span(&self) -> Span {
        let (line, column, width) = self.at;
        Span { line, column, width }
    }
}

/// A query whose results come out when EMIT says.
///
/// Errors: `Error::Query` with the place, if the query has a column of the name that eager results need.
pub(crate) fn emitted(query: LogicalPlan, emit: Option<Emit>, words: &Words) -> Result<LogicalPlan> {
    let Some(emit) = emit.filter(|emit| emit.emission == Emission::Eager) else { return Ok(query) };
    if query.schema().fields().iter().any(|field| field.name() == OP) {
        return Err(Error::query(format!(
            "the query has a column \"{OP}\", and EMIT EAGER puts one of this name in front"
        ))
        .with_hint(format!("give it another name: {OP} AS kind"))
        .at(words.find_identifier(OP).unwrap_or(emit.at)));
    }
    let Span { line, column, width } = emit.at;
    let node = EagerNode::new(query, (line, column, width)).map_err(|error| diagnose::planning(error, words))?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// Whether results come out before they are final.
pub(crate) fn is_eager(emit: Option<Emit>) -> bool {
    emit.is_some_and(|emit| emit.emission == Emission::Eager)
}

/// Refuses a step of a topology whose results are not final: the steps behind it take them for rows.
pub(crate) fn check_step(emit: Option<Emit>) -> Result<()> {
    match emit.filter(|emit| emit.emission == Emission::Eager) {
        None => Ok(()),
        Some(emit) => Err(Error::query("EMIT EAGER is not there for the steps of a topology")
            .with_hint("leave it out, or write the whole query in SQL")
            .at(emit.at)),
    }
}

impl PartialOrd for EagerNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for EagerNode {
    fn name(&self) -> &str {
        "Eager"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Eager")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Planned<Self> {
        match inputs.into_iter().next() {
            Some(input) => Self::new(input, self.at),
            None => Err(ours(Error::bug("EMIT EAGER has a query"))),
        }
    }

    /// All columns of the query, whoever reads them: they are its own.
    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}
