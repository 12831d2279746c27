//! A logical node on its way into the plan: which columns of which node its columns are.

use std::{collections::HashSet, sync::Arc};

use arrow_schema::{Field, Schema};
use datafusion_common::{
    Column, DFSchema, DFSchemaRef, Result, internal_err,
    tree_node::{Transformed, TreeNode},
};
use datafusion_expr::{Expr, utils::conjunction};
use thalweg_plan::{NodeId, node::Windows};

use super::names;

/// Columns of a node of the plan, under the names of a logical node.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub node: NodeId,
    /// The logical columns.
    pub columns: DFSchemaRef,
    /// Where each logical column is.
    pub slots: Vec<Slot>,
    /// A window function that is not in the plan yet.
    pub pending: Option<Pending>,
}

/// Where a logical column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A column of the node.
    Column(usize),
    /// A column that the pending window function will append.
    Window(WindowColumn),
    /// Nowhere: nothing above reads it.
    Dropped,
}

/// What a window function appends, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowColumn {
    Start,
    End,
    Time,
}

/// A window function that is not in the plan yet, and what is asked of its windows.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub windows: Windows,
    /// Over columns called like those that the window function appends.
    pub predicate: Option<Expr>,
}

impl Slot {
    pub fn column(self) -> Option<usize> {
        match self {
            Self::Column(column) => Some(column),
            Self::Window(_) | Self::Dropped => None,
        }
    }
}

impl WindowColumn {
    pub const ALL: [Self; 3] = [Self::Start, Self::End, Self::Time];

    pub fn name(self) -> &'static str {
        crate::windowing::WINDOW_COLUMNS[self as usize]
    }
}

impl Stream {
    /// All columns of a node, which are the logical columns.
    pub fn whole(node: NodeId, columns: &DFSchemaRef) -> Self {
        let slots = (0..columns.fields().len()).map(Slot::Column).collect();
        Self { node, columns: Arc::clone(columns), slots, pending: None }
    }

    /// The same columns under other names.
    pub fn renamed(self, columns: &DFSchemaRef) -> Self {
        Self { columns: Arc::clone(columns), ..self }
    }

    /// Where a column is, if the expression is nothing but one.
    pub fn slot_of(&self, expression: &Expr) -> Option<Slot> {
        match expression {
            Expr::Column(column) => Some(self.slots[self.columns.maybe_index_of_column(column)?]),
            Expr::Alias(alias) => self.slot_of(&alias.expr),
            _ => None,
        }
    }

    /// What a column is called, with its table where another one has its name too; nothing where it cannot be named.
    pub fn called(&self, column: Option<usize>) -> Option<String> {
        let place = self.slots.iter().position(|slot| column.is_some() && slot.column() == column)?;
        let (table, field) = self.columns.qualified_field(place);
        let namesakes = self.columns.fields().iter().filter(|other| other.name() == field.name()).count();
        Some(match table.filter(|_| namesakes > 1) {
            Some(table) => format!("{}.{}", table.table(), field.name()),
            None => format!("\"{}\"", field.name()),
        })
    }

    /// Whether the expression names a column of the pending window function.
    pub fn reads_window(&self, expression: &Expr) -> bool {
        self.slots_in(expression).any(|slot| matches!(slot, Slot::Window(_)))
    }

    /// Whether the expression names a column of the node.
    pub fn reads_column(&self, expression: &Expr) -> bool {
        self.slots_in(expression).any(|slot| matches!(slot, Slot::Column(_)))
    }

    pub fn slots_in(&self, expression: &Expr) -> impl Iterator<Item = Slot> {
        let columns = expression.column_refs().into_iter();
        let found = columns.filter_map(|column| self.columns.maybe_index_of_column(column).map(|i| self.slots[i]));
        found.collect::<Vec<_>>().into_iter()
    }

    /// The expression over the columns of the node; what the window function appends keeps its own name.
    pub fn rebase(&self, expression: &Expr, columns: &DFSchema) -> Result<Expr> {
        let moved = expression.clone().transform(|part| match part {
            Expr::Column(column) => {
                let name = match self.slots[self.columns.index_of_column(&column)?] {
                    Slot::Column(i) => columns.field(i).name().clone(),
                    Slot::Window(window) => window.name().to_string(),
                    Slot::Dropped => return internal_err!("column {column} was dropped, and is read"),
                };
                Ok(Transformed::yes(Expr::Column(Column::from_name(name))))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(moved.data)
    }

    /// Asks something of the pending windows.
    pub fn filter_windows(mut self, parts: Vec<Expr>) -> thalweg_core::Result<Self> {
        if parts.is_empty() {
            return Ok(self);
        }
        let mut rebased = Vec::new();
        for part in &parts {
            // Only window columns are named here, so that no column of the node is looked up.
            let part = self.rebase(part, &DFSchema::empty());
            rebased.push(part.map_err(|error| thalweg_core::Error::bug(error.to_string()))?);
        }
        let Some(pending) = &mut self.pending else {
            return Err(thalweg_core::Error::bug("window columns are read without a window function"));
        };
        pending.predicate = conjunction(pending.predicate.take().into_iter().chain(rebased));
        Ok(self)
    }
}

/// Columns without tables, each under a name of its own: where two have the same name, the later gets a number.
pub(super) fn unique_columns(fields: impl IntoIterator<Item = Field>, tables: &HashSet<String>) -> DFSchemaRef {
    let mut taken = HashSet::new();
    let named = fields.into_iter().map(|field| {
        let plain = names::readable(field.name(), tables);
        let mut name = plain.clone();
        let mut number = 1;
        while !taken.insert(name.clone()) {
            number += 1;
            name = format!("{plain}:{number}");
        }
        Field::new(name, field.data_type().clone(), field.is_nullable())
    });
    let schema = Schema::new(named.collect::<Vec<_>>());
    Arc::new(DFSchema::try_from(schema).expect("every name is there once"))
}
