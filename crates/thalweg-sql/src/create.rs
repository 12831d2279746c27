//! `CREATE TABLE` and `CREATE VIEW`: what was declared, checked and completed.

use std::sync::Arc;

use datafusion_common::DFSchema;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use thalweg_core::{
    Error, Interval, Result,
    connector::{Connector, TableDefinition},
};

use crate::{
    catalog::{Column, Table, View, Watermark, in_zone},
    diagnose, lateness,
    parse::{ColumnKind, CreateTable, CreateView, WatermarkDeclaration},
    planner::{self, Planner},
    refuse,
    script::Words,
    types,
    windowing::{self, NotFixed, TOO_LONG},
};

/// The table that was declared; physical columns that were left out are inferred by its connector.
pub(crate) fn table(
    declared: &CreateTable,
    planner: &Planner,
    connectors: &[Arc<dyn Connector>],
    words: &Words,
) -> Result<Table> {
    let mut table = Table {
        name: declared.name.text.clone(),
        columns: Vec::new(),
        watermark: None,
        primary_key: declared.primary_key.iter().map(|name| name.text.clone()).collect(),
        options: declared.options.clone(),
        comment: declared.comment.clone(),
        is_temporary: declared.is_temporary,
    };
    let connector = planner::connector(connectors, &table.definition(planner.zone()));
    let at_option = |error: Error| located(error, declared);
    let connector = connector.map_err(at_option)?;
    let has_physical = declared.columns.iter().any(|c| matches!(c.kind, ColumnKind::Physical { .. }));
    if !has_physical {
        let inferred = connector.infer(&table.definition(planner.zone())).map_err(at_option)?;
        table.columns.extend(inferred.fields().iter().map(|field| Column {
            name: field.name().clone(),
            data_type: in_zone(field.data_type(), planner.zone()),
            is_nullable: field.is_nullable(),
            computed: None,
            comment: None,
        }));
    }
    for column in &declared.columns {
        if table.columns.iter().any(|known| known.name == column.name.text) {
            let message = format!("column {:?} is declared twice", column.name.text);
            let hint = if has_physical {
                "name one of them anew"
            } else {
                "the connector found a column of this name; choose another"
            };
            return Err(Error::query(message).with_hint(hint).at(column.name.at));
        }
        let (data_type, is_nullable, computed) = match &column.kind {
            ColumnKind::Physical { sql_type, is_nullable, at } => {
                let data_type = types::arrow_type(sql_type, planner.zone()).map_err(|error| error.at(*at))?;
                if matches!(data_type, arrow_schema::DataType::Interval(_)) {
                    return Err(Error::query("columns cannot be of type INTERVAL yet")
                        .with_hint("declare it as BIGINT, and compute with it")
                        .at(*at));
                }
                (data_type, *is_nullable, None)
            }
            // Its type follows from the physical columns, once they are all known.
            ColumnKind::Computed(written) => (arrow_schema::DataType::Null, true, Some((**written).clone())),
        };
        let name = column.name.text.clone();
        table.columns.push(Column { name, data_type, is_nullable, computed, comment: column.comment.clone() });
    }
    connector.check(&table.definition(planner.zone())).map_err(at_option)?;
    settle_computed(&mut table, planner, words)?;
    if let Some(unknown) = declared.primary_key.iter().find(|key| !table.columns.iter().any(|c| c.name == key.text)) {
        return Err(no_column(&table, &unknown.text).at(unknown.at));
    }
    if let Some(declared) = &declared.watermark {
        table.watermark = Some(watermark(declared, &table, planner, words)?);
    }
    table.watermark = lateness::complete(table.watermark.take(), &table.options).map_err(at_option)?;
    Ok(table)
}

/// An error of the connector with its place: the option that it names, WITH if that is missing, or else the table's name.
fn located(error: Error, declared: &CreateTable) -> Error {
    let places = &declared.option_places;
    let named = |text: &str| {
        text.split_once("option '")?.1.split_once('\'').map(|(key, rest)| (key.to_string(), rest.to_string()))
    };
    let message = error.message();
    let connector =
        places.entries.iter().find(|(key, ..)| key == "connector" && message.starts_with("unknown connector"));
    if let Some((_, _, at_value)) = connector {
        return error.at(*at_value);
    }
    let at = match named(message).or_else(|| named(error.hint()?)) {
        Some((_, rest)) if rest.starts_with(" is missing") => places.with,
        Some((key, rest)) => {
            let entry = places.entries.iter().find(|(name, ..)| *name == key);
            let is_value = rest.starts_with(" is '") || rest.starts_with(" is empty") || !message.contains("option '");
            entry.map_or(places.with, |(_, at_key, at_value)| if is_value { *at_value } else { *at_key })
        }
        None => declared.name.at,
    };
    error.at(at)
}

fn no_column(table: &Table, name: &str) -> Error {
    let names = || table.columns.iter().map(|column| column.name.as_str());
    let hint = diagnose::near(name, names()).unwrap_or_else(|| diagnose::known("columns", names()));
    Error::query(format!("column \"{name}\" not found")).with_hint(hint)
}

/// The types of computed columns.
fn settle_computed(table: &mut Table, planner: &Planner, words: &Words) -> Result<()> {
    let TableDefinition { columns: physical, .. } = table.definition(planner.zone());
    for i in 0..table.columns.len() {
        let Some(written) = &table.columns[i].computed else { continue };
        let at = written.at;
        let settle = || {
            let one = [(table.columns[i].name.clone(), written.expression.clone())];
            let planned = planner.expressions(&table.name, &physical, &one)?;
            let columns = DFSchema::try_from(Arc::clone(&physical))?;
            let (_, field) = planned[0].to_field(&columns)?;
            Ok((planned, field))
        };
        let (planned, field) = settle().map_err(|error| diagnose::planning(error, words).at(at))?;
        refuse::check_expressions(&planned, words)?;
        let column = &mut table.columns[i];
        column.data_type = field.data_type().clone();
        column.is_nullable = field.is_nullable();
    }
    Ok(())
}

fn watermark(declared: &WatermarkDeclaration, table: &Table, planner: &Planner, words: &Words) -> Result<Watermark> {
    let name = &declared.column;
    let found = table.columns.iter().position(|column| column.name == name.text);
    let column = found.ok_or_else(|| no_column(table, &name.text).at(name.at))?;
    let data_type = &table.columns[column].data_type;
    if !windowing::is_time(data_type) {
        let message = format!(
            "column \"{}\" is {}, expected TIMESTAMP or TIMESTAMP_LTZ to carry event time",
            name.text,
            types::flink_name(data_type)
        );
        return Err(Error::query(message).with_hint(windowing::cast_hint(&name.text, data_type)).at(name.at));
    }
    let written = &declared.expression;
    let columns = DFSchema::try_from(table.schema(planner.zone())).map_err(|e| diagnose::planning(e, words))?;
    let planned = planner.one_expression(&written.expression, &columns);
    let planned = planned.map_err(|error| diagnose::planning(error, words).at(written.at))?;
    let delay = delay(&planned, &name.text).map_err(|reason| {
        Error::query(format!("the watermark of \"{}\" is {}: {reason}", name.text, written.text))
            .with_hint(format!("write WATERMARK FOR {0} AS {0} - INTERVAL '5' SECOND", name.text))
            .at(written.at)
    })?;
    Ok(Watermark { column, delay, accuracy: None, text: written.text.clone() })
}

fn delay(expression: &Expr, time: &str) -> Result<Interval, &'static str> {
    const SHAPE: &str = "expected the column itself, or the column minus an interval";
    let is_time = |e: &Expr| matches!(e, Expr::Column(column) if column.name == time);
    let micros = match expression {
        column if is_time(column) => 0,
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_time(left) => {
            let span = windowing::micros(right).map_err(|reason| match reason {
                NotFixed::Months => "months and years differ in length",
                NotFixed::TooFine => "time is counted in whole microseconds",
                NotFixed::TooLong => TOO_LONG,
                NotFixed::NoInterval => SHAPE,
            })?;
            match op {
                Operator::Minus => span,
                Operator::Plus => -span,
                _ => return Err(SHAPE),
            }
        }
        _ => return Err(SHAPE),
    };
    if micros < 0 { Err("it would run ahead of the rows") } else { Ok(Interval(micros)) }
}

/// The view that was declared; its query is planned to see that it can be.
pub(crate) fn view(declared: &CreateView, planner: &Planner, words: &Words) -> Result<View> {
    let planned = planner.query(&declared.query).map_err(|error| diagnose::planning(error, words))?;
    refuse::check(&planned, words)?;
    let uses = planner.used();
    if uses.contains(&declared.name.text) {
        let message = format!("view {:?} cannot read itself", declared.name.text);
        return Err(Error::query(message).with_hint("give it another name").at(declared.name.at));
    }
    let view = View {
        columns: declared.columns.clone(),
        comment: declared.comment.clone(),
        query: declared.query.clone(),
        text: declared.text.clone(),
        is_temporary: declared.is_temporary,
        uses,
    };
    let renamed = planner::rename(planned, &view).map_err(|error| diagnose::planning(error, words))?;
    crate::optimize::analyze(renamed, planner.options()).map_err(|error| diagnose::planning(error, words))?;
    Ok(view)
}
