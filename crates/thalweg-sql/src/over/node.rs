//! The node of the logical plan that computes aggregates over the rows around a row.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashSet},
    fmt,
    sync::Arc,
};

use arrow_schema::Field;
use datafusion_common::{DFSchema, DFSchemaRef, Result, TableReference};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, UserDefinedLogicalNodeCore};
use thalweg_core::{Error, error::Span};

use super::Shape;
use crate::windowing::ours;

/// Appends aggregates over the rows around each row of the first input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OverNode {
    /// The base, and the other inputs of a union, which have columns of the same names.
    pub inputs: Vec<LogicalPlan>,
    /// Over columns of the base.
    pub keys: Vec<Expr>,
    /// What rows are ordered by: a column of the base.
    pub time: Expr,
    /// Where it is written: line, column, width; nowhere in text that somebody else wrote.
    pub at: Option<(usize, usize, usize)>,
    /// What the other inputs are called in errors, and where they stand.
    pub others: Vec<(String, (usize, usize, usize))>,
    pub calls: Vec<Call>,
    pub schema: DFSchemaRef,
}

/// An aggregate over the rows around a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    /// What DataFusion calls its column.
    pub name: String,
    /// A call of an aggregate, over columns of the base.
    pub function: Expr,
    pub shape: Shape,
}

impl OverNode {
    pub fn new(
        inputs: Vec<LogicalPlan>,
        keys: Vec<Expr>,
        time: (Expr, Option<(usize, usize, usize)>),
        others: Vec<(String, (usize, usize, usize))>,
        calls: Vec<Call>,
    ) -> Result<Self> {
        let schema = schema(&inputs, &calls)?;
        let (time, at) = time;
        Ok(Self { inputs, keys, time, at, others, calls, schema })
    }

    /// Where the order is written.
    pub fn span(&self) -> Option<Span> {
        self.at.map(|(line, column, width)| Span { line, column, width })
    }

    /// The names of the base's columns that keys, order and calls read.
    pub fn read(&self) -> BTreeSet<String> {
        let calls = self.calls.iter().map(|call| &call.function);
        let all = self.keys.iter().chain([&self.time]).chain(calls);
        all.flat_map(|expression| expression.column_refs().into_iter().map(|column| column.name.clone())).collect()
    }
}

fn schema(inputs: &[LogicalPlan], calls: &[Call]) -> Result<DFSchemaRef> {
    let Some(base) = inputs.first() else { return Err(ours(Error::bug("OVER has an input"))) };
    let base = base.schema();
    let mut fields: Vec<(Option<TableReference>, Arc<Field>)> =
        base.iter().map(|(table, field)| (table.cloned(), Arc::clone(field))).collect();
    for call in calls {
        let (_, field) = call.function.to_field(&**base)?;
        fields.push((None, Arc::new(Field::new(&call.name, field.data_type().clone(), field.is_nullable()))));
    }
    Ok(Arc::new(DFSchema::new_with_metadata(fields, Default::default())?))
}

impl PartialOrd for OverNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for OverNode {
    fn name(&self) -> &str {
        "Over"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let calls = self.calls.iter().map(|call| call.function.clone());
        self.keys.iter().cloned().chain([self.time.clone()]).chain(calls).collect()
    }

    /// What is asked of keys may be asked of the rows: rows see only those of their key.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let is_key = |table: Option<&TableReference>, name: &str| {
            self.inputs.len() == 1
                && self
                    .keys
                    .iter()
                    .any(|key| matches!(key, Expr::Column(key) if key.name == name && key.relation.as_ref() == table))
        };
        let kept = self.schema.iter().filter(|(table, field)| !is_key(*table, field.name()));
        kept.map(|(_, field)| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let calls: Vec<_> = self.calls.iter().map(|call| call.function.to_string()).collect();
        write!(f, "Over: {} by {}", calls.join(", "), self.time)
    }

    fn with_exprs_and_inputs(&self, expressions: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut bare = expressions.into_iter().map(|expression| expression.unalias_nested().data);
        let keys: Vec<_> = bare.by_ref().take(self.keys.len()).collect();
        let Some(time) = bare.next() else { return Err(ours(Error::bug("OVER has an order"))) };
        let calls: Vec<_> =
            self.calls.iter().zip(bare).map(|(call, function)| Call { function, ..call.clone() }).collect();
        if calls.len() != self.calls.len() || inputs.len() != self.inputs.len() {
            return Err(ours(Error::bug("OVER keeps its inputs and its calls")));
        }
        Self::new(inputs, keys, (time, self.at), self.others.clone(), calls)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let read = self.read();
        let of = |input: &LogicalPlan, also: &[usize]| {
            let fields = input.schema().fields().iter().enumerate();
            let read = fields.filter(|(_, field)| read.contains(field.name())).map(|(i, _)| i);
            let also = also.iter().copied().filter(|i| *i < input.schema().fields().len());
            read.chain(also).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        let wanted = |i: usize| if i == 0 { output_columns } else { &[] };
        Some(self.inputs.iter().enumerate().map(|(i, input)| of(input, wanted(i))).collect())
    }
}
