//! The node of the logical plan that computes aggregates over the rows around a row.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashSet},
    fmt,
    sync::Arc,
};

use arrow_schema::Field;
use datafusion_common::{Column, DFSchema, DFSchemaRef, Result, TableReference};
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
    /// The number of the union that the other inputs are.
    pub union: Option<usize>,
    /// What the other inputs are called in errors, and where they stand.
    pub others: Vec<(String, (usize, usize, usize))>,
    pub calls: Vec<Call>,
    /// The columns of the base that go on; `None` is all.
    kept: Option<BTreeSet<Column>>,
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
        let schema = schema(&inputs, &calls, None)?;
        let (time, at) = time;
        Ok(Self { inputs, keys, time, at, union: None, others, calls, kept: None, schema })
    }

    /// Whether other calls may be computed beside these: they have these keys and this order, over the same inputs.
    pub fn is_like(&self, keys: &[Expr], time: &Expr, union: Option<usize>) -> bool {
        self.keys == keys && self.time == *time && self.union == union && self.kept.is_none()
    }

    /// The node of which only these columns are read; `None` if that is all it has.
    pub fn pruned(&self, read: &BTreeSet<Column>) -> Result<Option<Self>> {
        let found = read.iter().filter_map(|column| self.schema.maybe_index_of_column(column));
        let read: BTreeSet<Column> = found.map(|index| Column::from(self.schema.qualified_field(index))).collect();
        let is_read = |column: &Column| read.contains(column);
        let columns = self.schema.columns();
        if columns.iter().all(is_read) {
            return Ok(None);
        }
        let (base, calls) = columns.split_at(columns.len() - self.calls.len());
        let kept: BTreeSet<Column> = base.iter().filter(|column| is_read(column)).cloned().collect();
        let calls = self.calls.iter().zip(calls).filter(|(_, column)| is_read(column));
        let calls: Vec<Call> = calls.map(|(call, _)| call.clone()).collect();
        let schema = schema(&self.inputs, &calls, Some(&kept))?;
        Ok(Some(Self { calls, kept: Some(kept), schema, ..self.clone() }))
    }

    /// Whether a column of the base goes on.
    pub fn keeps(&self, column: &Column) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.contains(column))
    }

    /// Where the order is written.
    pub fn span(&self) -> Option<Span> {
        self.at.map(|(line, column, width)| Span { line, column, width })
    }

    /// The columns of the base that keys and order read, and those that calls read.
    pub fn read_columns(&self) -> (BTreeSet<Column>, BTreeSet<Column>) {
        let read = |expressions: &mut dyn Iterator<Item = &Expr>| {
            expressions.flat_map(|expression| expression.column_refs().into_iter().cloned()).collect::<BTreeSet<_>>()
        };
        let needed = read(&mut self.keys.iter().chain([&self.time]));
        (needed, read(&mut self.calls.iter().map(|call| &call.function)))
    }

    /// The names of the base's columns that keys, order and calls read.
    fn read(&self) -> BTreeSet<String> {
        let (needed, taken) = self.read_columns();
        needed.into_iter().chain(taken).map(|column| column.name).collect()
    }
}

/// The node of ours that a node of a plan is.
pub(super) fn over(plan: &LogicalPlan) -> Option<&OverNode> {
    match plan {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
        _ => None,
    }
}

fn schema(inputs: &[LogicalPlan], calls: &[Call], kept: Option<&BTreeSet<Column>>) -> Result<DFSchemaRef> {
    let Some(base) = inputs.first() else { return Err(ours(Error::bug("OVER has an input"))) };
    let base = base.schema();
    let mut fields: Vec<(Option<TableReference>, Arc<Field>)> =
        base.iter().map(|(table, field)| (table.cloned(), Arc::clone(field))).collect();
    fields.retain(|(table, field)| {
        kept.is_none_or(|kept| kept.contains(&Column::new(table.clone(), field.name().as_str())))
    });
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
        let schema = schema(&inputs, &calls, self.kept.as_ref())?;
        Ok(Self { inputs, keys, time, calls, schema, ..self.clone() })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let (base, others) = self.inputs.split_first()?;
        let expressions = self.expressions();
        let read = expressions.iter().flat_map(|expression| expression.column_refs());
        let read = read.filter_map(|column| base.schema().maybe_index_of_column(column));
        let given = self.schema.columns();
        let output = output_columns.iter().filter_map(|i| base.schema().maybe_index_of_column(given.get(*i)?));
        let of_base: BTreeSet<usize> = read.chain(output).collect();
        let names = self.read();
        let of_other = |input: &LogicalPlan| {
            let fields = input.schema().fields().iter().enumerate();
            fields.filter(|(_, field)| names.contains(field.name())).map(|(i, _)| i).collect::<Vec<_>>()
        };
        Some(std::iter::once(of_base.into_iter().collect()).chain(others.iter().map(of_other)).collect())
    }
}
