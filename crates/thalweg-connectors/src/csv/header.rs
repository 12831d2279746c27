//! Which field of a record belongs to which column.

use arrow_schema::{DataType, FieldRef, Schema};
use thalweg_core::{Error, Result};

use super::split::Record;

/// How many fields records have, and for each column of the table the number of its field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) width: usize,
    pub(super) fields: Vec<usize>,
}

impl Layout {
    /// Fields by position.
    pub(super) fn by_position(columns: usize) -> Self {
        Self { width: columns, fields: (0..columns).collect() }
    }

    /// Fields by the names in a header.
    pub(super) fn by_name(header: &Record<'_>, columns: &Schema, input: &str) -> Result<Self> {
        let names = column_names(header);
        let field = |column: &FieldRef| {
            position(&names, column.name()).ok_or_else(|| {
                let message = format!("column \"{}\" is not in the header of {input}", column.name());
                let hint = format!("the header is {}; 'csv.header' = 'false' if it is none", names.join(", "));
                Error::query(message).with_hint(hint)
            })
        };
        Ok(Self { width: names.len(), fields: columns.fields().iter().map(field).collect::<Result<_>>()? })
    }
}

/// Whether the first record of a file is a header, given whether it `fits` the columns as a row.
///
/// It is one if its fields name all columns. If they name only some, it is one if it cannot be a row; or if nothing but text
/// speaks for a row, and most columns are named: a value or two may happen to be called like a column.
pub(super) fn is_header(record: &Record<'_>, columns: &Schema, fits: bool) -> bool {
    let texts: Vec<String> = record.texts().map(|text| text.trim().to_string()).collect();
    // A field without text names no column, though the column may be called as if it were in a header.
    let names: Vec<String> = texts.iter().filter(|text| !text.is_empty()).cloned().collect();
    let (all, named) = (columns.fields().len(), columns.fields().iter());
    let named = named.filter(|column| position(&names, column.name()).is_some()).count();
    let is_typed_value =
        |(column, text): (&FieldRef, &String)| *column.data_type() != DataType::Utf8 && !text.is_empty();
    match named {
        0 => false,
        _ if named == all || !fits => true,
        _ => 2 * named > all && !columns.fields().iter().zip(&texts).any(is_typed_value),
    }
}

/// The names in a header: trimmed, `column3` for an empty one, and `name_1`, `name_2` where a name comes again.
pub(super) fn column_names(header: &Record<'_>) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    for (i, text) in header.texts().enumerate() {
        let name = match text.trim() {
            "" => format!("column{i}"),
            name => name.to_string(),
        };
        let taken = |name: &str| names.iter().any(|other| other == name);
        let free = (1..).map(|n| format!("{name}_{n}")).find(|name| !taken(name));
        let name = if taken(&name) { free.expect("one of all numbers is free") } else { name };
        names.push(name);
    }
    names
}

/// The name exactly, or else in another case.
fn position(names: &[String], column: &str) -> Option<usize> {
    let exact = names.iter().position(|name| name == column);
    exact.or_else(|| names.iter().position(|name| name.eq_ignore_ascii_case(column.trim())))
}
