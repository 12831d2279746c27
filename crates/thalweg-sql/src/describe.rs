//! `DESCRIBE`, `SHOW` and `SET` without a value: answers in rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow_schema::DataType;
use datafusion_common::DFSchemaRef;
use thalweg_core::{Error, Result, connector::Options};
use thalweg_plan::Settings;

use crate::{
    catalog::{Relation, Table, in_zone},
    forms,
    functions::Functions,
    over, types,
};

fn rows(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .map_err(Error::from)
}

fn text<T: AsRef<str>>(values: impl IntoIterator<Item = T>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn optional(values: Vec<Option<String>>) -> ArrayRef {
    Arc::new(StringArray::from(values))
}

/// One column of names.
pub(crate) fn names<'a>(title: &str, names: impl Iterator<Item = &'a str>) -> Result<RecordBatch> {
    rows(vec![(title, text(names))])
}

/// All settings with their present values and what they do.
pub(crate) fn settings(settings: &Settings, only: Option<&str>) -> Result<RecordBatch> {
    let meaning = thalweg_plan::settings::KEYS.iter().map(|(_, _, meaning)| *meaning);
    let entries = settings.entries().into_iter().zip(meaning);
    let entries: Vec<_> = entries.filter(|((key, _), _)| only.is_none_or(|only| only == *key)).collect();
    rows(vec![
        ("key", text(entries.iter().map(|((key, _), _)| *key))),
        ("value", text(entries.iter().map(|((_, value), _)| value))),
        ("meaning", text(entries.iter().map(|(_, meaning)| *meaning))),
    ])
}

/// Functions that take or give values which contain others, or that ask of a file's row what no plan of ours knows.
const NESTED: [&str; 14] = [
    "array_agg",
    "arrow_field",
    "arrow_metadata",
    "file_row_index",
    "get_field",
    "grouping",
    "input_file_name",
    "named_struct",
    "regexp_match",
    "row",
    "struct",
    "union_extract",
    "union_tag",
    "with_metadata",
];

/// All functions that can be used: scalar, aggregate and those of OVER.
pub(crate) fn functions(functions: &Functions) -> Result<RecordBatch> {
    let scalar = functions.scalar.keys().cloned().chain(forms::names()).map(|name| (name, "scalar"));
    let aggregates = functions.aggregate.keys().cloned().chain(forms::aggregates().map(String::from));
    let mut all: Vec<_> = scalar.chain(aggregates.map(|name| (name, "aggregate"))).collect();
    all.extend(over::FUNCTIONS.map(|name| (name.to_string(), "window")));
    all.retain(|(name, _)| !NESTED.contains(&name.as_str()));
    all.sort();
    all.dedup();
    rows(vec![
        ("function name", text(all.iter().map(|(name, _)| name))),
        ("kind", text(all.iter().map(|(_, kind)| kind))),
    ])
}

/// What stands behind the type of a column that carries the event time.
fn rowtime(is_time: bool) -> &'static str {
    if is_time { " *ROWTIME*" } else { "" }
}

/// A table's columns, as Flink describes them.
pub(crate) fn table(table: &Table, zone: &str) -> Result<RecordBatch> {
    let (mut names, mut kinds, mut nulls, mut keys, mut extras, mut watermarks) =
        (vec![], vec![], vec![], vec![], vec![], vec![]);
    for (i, column) in table.columns.iter().enumerate() {
        names.push(column.name.clone());
        let watermark = table.watermark.as_ref().filter(|w| w.column == i);
        kinds.push(types::flink_name(&in_zone(&column.data_type, zone)) + rowtime(watermark.is_some()));
        nulls.push(column.is_nullable);
        let is_key = table.primary_key.contains(&column.name);
        keys.push(is_key.then(|| format!("PRI({})", table.primary_key.join(", "))));
        extras.push(column.computed.as_ref().map(|written| format!("AS {}", written.text)));
        watermarks.push(watermark.map(|w| in_force(&w.text, table)));
    }
    rows(vec![
        ("name", text(names)),
        ("type", text(kinds)),
        ("null", Arc::new(BooleanArray::from(nulls))),
        ("key", optional(keys)),
        ("extras", optional(extras)),
        ("watermark", optional(watermarks)),
    ])
}

/// A watermark as it was written, and the option that completes it.
fn in_force(text: &str, table: &Table) -> String {
    let said = Options::OF_TABLES.iter().find_map(|key| table.options.get(key).map(|value| (key, value)));
    said.map_or_else(|| text.to_string(), |(key, value)| format!("{text} WITH {} = {}", quoted(key), quoted(value)))
}

/// A view's columns, of which this one carries the event time.
pub(crate) fn view(columns: &DFSchemaRef, time: Option<usize>) -> Result<RecordBatch> {
    let none = || optional(vec![None; columns.fields().len()]);
    let kinds = columns.fields().iter().enumerate();
    let kinds = kinds.map(|(i, field)| types::flink_name(field.data_type()) + rowtime(time == Some(i)));
    rows(vec![
        ("name", text(columns.fields().iter().map(|field| field.name()))),
        ("type", text(kinds)),
        ("null", Arc::new(BooleanArray::from_iter(columns.fields().iter().map(|field| Some(field.is_nullable()))))),
        ("key", none()),
        ("extras", none()),
        ("watermark", none()),
    ])
}

/// The statement that declares a table or a view.
pub(crate) fn show_create(name: &str, relation: &Relation) -> Result<RecordBatch> {
    let statement = match relation {
        Relation::Table(table) => create_table(table),
        Relation::View(view) => {
            let temporary = if view.is_temporary { "TEMPORARY " } else { "" };
            let names: Vec<_> = view.columns.iter().map(|column| identifier(&column.text)).collect();
            let columns = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            let comment = view.comment.as_ref().map(|text| format!(" COMMENT {}", quoted(text))).unwrap_or_default();
            format!("CREATE {temporary}VIEW {}{columns}{comment} AS {}", identifier(name), view.text)
        }
    };
    rows(vec![("result", text([statement]))])
}

fn create_table(table: &Table) -> String {
    let mut elements = Vec::new();
    for column in &table.columns {
        let mut element = identifier(&column.name);
        match &column.computed {
            Some(written) => element += &format!(" AS {}", written.text),
            None => {
                element += &format!(" {}", declared(&column.data_type));
                if !column.is_nullable {
                    element += " NOT NULL";
                }
            }
        }
        if let Some(comment) = &column.comment {
            element += &format!(" COMMENT {}", quoted(comment));
        }
        elements.push(element);
    }
    if !table.primary_key.is_empty() {
        let names: Vec<_> = table.primary_key.iter().map(|name| identifier(name)).collect();
        elements.push(format!("PRIMARY KEY ({}) NOT ENFORCED", names.join(", ")));
    }
    if let Some(watermark) = &table.watermark {
        let column = identifier(&table.columns[watermark.column].name);
        elements.push(format!("WATERMARK FOR {column} AS {}", watermark.text));
    }
    let temporary = if table.is_temporary { "TEMPORARY " } else { "" };
    let comment = table.comment.as_ref().map(|comment| format!("COMMENT {}\n", quoted(comment))).unwrap_or_default();
    let options = table.options.iter().map(|(key, value)| format!("  {} = {}", quoted(key), quoted(value)));
    let options = options.collect::<Vec<_>>().join(",\n");
    let name = identifier(&table.name);
    format!("CREATE {temporary}TABLE {name} (\n  {}\n) {comment}WITH (\n{options}\n)", elements.join(",\n  "))
}

/// A type that CREATE TABLE reads back.
fn declared(data_type: &DataType) -> String {
    types::flink_name(data_type)
}

fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
