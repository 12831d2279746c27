//! The other inputs of a window over a union: the columns that are read, under the names that they have in the first input.

use std::collections::BTreeSet;

use arrow_schema::{DataType, Field};
use datafusion_common::Column;
use datafusion_expr::{Expr, ExprSchemable, UserDefinedLogicalNodeCore, type_coercion::binary::type_union_resolution};
use thalweg_core::{Error, Result, error::Span};
use thalweg_plan::{NodeId, StreamSchema};

use super::{Hiddens, Lowering, MapBuilder, stream::Stream};
use crate::{over::OverNode, together::Together, types};

/// What another input is called in errors, and where it stands.
pub(super) struct Other<'a> {
    pub name: &'a str,
    pub at: Span,
}

impl Lowering<'_> {
    /// The base with a column of its own for each that is read: what is one column here may be two in other inputs.
    pub(super) fn apart(&mut self, base: Stream, node: &OverNode) -> Result<Stream> {
        let mut seen = BTreeSet::new();
        let is_apart = read(&base, node).into_iter().all(|column| seen.insert(base.slots[column].column()));
        if is_apart || node.inputs.len() == 1 {
            Ok(base)
        } else {
            self.exactly_with(base, Hiddens { position: true, op: true, ..Hiddens::default() })
        }
    }

    /// Another input with the columns of the base that are read, and where its event time is.
    pub(super) fn other(
        &mut self,
        input: Stream,
        base: &Stream,
        node: &OverNode,
        other: &Other<'_>,
    ) -> Result<(NodeId, usize)> {
        let target = self.schema(base).columns.clone();
        let schema = self.schema(&input).clone();
        let (mut map, mut time) = (MapBuilder::default(), None);
        for column in read(base, node) {
            let name = base.columns.field(column).name();
            let given = input.columns.fields().iter().position(|field| field.name() == name);
            let given = given.and_then(|given| input.slots[given].column());
            let (Some(wanted), Some(given)) = (base.slots[column].column(), given) else {
                return Err(Error::bug(format!("{} has a column {name}", other.name)));
            };
            let field = target.field(wanted).as_ref().clone();
            let value = value(&schema, given, field.data_type()).ok_or_else(|| {
                let kind = |of: &DataType| types::flink_name(of);
                let (have, want) = (kind(schema.columns.field(given).data_type()), kind(field.data_type()));
                Error::query(format!("column \"{name}\" of {} is {have}, expected {want}", other.name))
                    .with_hint(format!(
                        "cast it in a query: (SELECT CAST({name} AS {want}) AS {name}, … FROM …), or that of the first stream"
                    ))
                    .at(other.at)
            })?;
            let from = matches!(value, Expr::Column(_)).then_some(given);
            let added = map.add(value, field.with_nullable(schema.columns.field(given).is_nullable()), from);
            if base.slot_of(&node.time) == Some(base.slots[column]) {
                if schema.time != Some(given) {
                    return Err(self.no_time(input.node, given, name, Some(other.name)).at(other.at));
                }
                time = Some(added);
            }
        }
        if let Some(position) = schema.position {
            let field = schema.columns.field(position).as_ref().clone();
            map.add(column(&field), field, Some(position));
        }
        let time = time.ok_or_else(|| Error::bug("a union has the column of its order"))?;
        Ok((self.add_map(input.node, map), time))
    }
}

/// The columns of the base that keys, order and calls read.
fn read(base: &Stream, node: &OverNode) -> BTreeSet<usize> {
    let expressions = node.expressions();
    let columns = expressions.iter().flat_map(|expression| expression.column_refs());
    columns.filter_map(|column| base.columns.maybe_index_of_column(column)).collect()
}

/// A column as a value of a type that it is cast to without a word.
fn value(schema: &StreamSchema, given: usize, want: &DataType) -> Option<Expr> {
    let field = schema.columns.field(given);
    let have = field.data_type();
    // No digit is lost in silence: a whole number that does not fit is an error, and of others the type is the one of UNION ALL.
    let is_wide_enough = || match Together::of([want, have].into_iter()) {
        _ if have.is_integer() && want.is_integer() => true,
        Some(together) => !together.changes(want),
        None => type_union_resolution(&[want.clone(), have.clone()]).as_ref() == Some(want),
    };
    let are_numbers = have.is_numeric() && want.is_numeric();
    let are_alike = have.is_null() || are_numbers && is_wide_enough() || have.is_string() && want.is_string();
    match have == want {
        true => Some(column(field)),
        false if are_alike => column(field).cast_to(want, &*schema.columns).ok(),
        false => None,
    }
}

fn column(field: &Field) -> Expr {
    Expr::Column(Column::from_name(field.name()))
}
