//! Rows of which nothing is kept but their times and what they add to running totals.
//!
//! Where counts, sums and means of whole numbers are all that is asked for, nobody looks at a row again once it is in a line: its values are
//! given back, and it takes 8 bytes, and 8 or 16 for each total.

use std::{iter::repeat_n, sync::Arc};

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use thalweg_core::{
    Error, Result, Snapshot,
    aggregate::{Addends, Amounts},
    snapshot::Reader,
};

use super::{asked::Asked, entry::At, kept::Kept, lines::Lines};

/// Appends rows, of which these are the keys, the times, and where they lie, in this order; they are wanted once less.
pub fn append(
    rows: impl Iterator<Item = (u32, i64, At)>,
    lines: &mut Lines,
    asked: &Asked,
    kept: &mut Kept,
) -> Result<()> {
    let (keys, times, places): (Vec<u32>, Vec<i64>, Vec<At>) = rows.collect();
    let amounts = asked.kinds.iter().map(|kind| asked.amounts_of(kind, kept, places[..].into()));
    lines.append_light(&keys, &times, &amounts.collect::<Result<Vec<_>>>()?);
    kept.release_all(places);
    Ok(())
}

/// Writes such rows of the keys for which `is_wanted` is true, with what each adds to each of so many totals.
pub fn save(lines: &Lines, is_wanted: impl Fn(u32) -> bool, totals: usize, snapshot: &mut Snapshot) -> Result<()> {
    let keys = 0..if lines.is_light() { lines.keys() as u32 } else { 0 };
    let keys: Vec<u32> = keys.filter(|key| is_wanted(*key)).collect();
    let of_rows: Vec<u32> = keys.iter().flat_map(|key| repeat_n(*key, lines.seen(*key, 0).count())).collect();
    snapshot.number(of_rows.len() as i64);
    if of_rows.is_empty() {
        return Ok(());
    }
    let with_rows = || keys.iter().map(|key| lines.seen(*key, 0));
    let times = with_rows().flat_map(|line| line.times().iter().copied());
    let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(times))];
    columns.extend(lines.columns(of_rows)?);
    for total in 0..totals {
        let amounts = with_rows().filter_map(|line| line.running(total));
        let amounts = amounts.flat_map(|(running, gone)| running.amounts(gone));
        columns.push(Arc::new(Int64Array::from_iter(amounts)));
    }
    let named = columns.into_iter().enumerate().map(|(number, column)| (number.to_string(), column, true));
    snapshot.rows(RecordBatch::try_from_iter_with_nullable(named)?);
    Ok(())
}

/// Reads what [`save`] wrote; `None` if there were no rows.
pub fn read(snapshot: &mut Reader<'_>) -> Result<Option<RecordBatch>> {
    if snapshot.number()? == 0 { Ok(None) } else { snapshot.rows().map(Some) }
}

/// Appends such rows, which have so many key columns and totals, to lines that keep nothing else.
///
/// Errors: `Error::Environment` if they are something else.
pub fn load(rows: &RecordBatch, key_columns: usize, totals: usize, lines: &mut Lines) -> Result<()> {
    let foreign = || Error::environment("the running totals of a window cannot be read");
    let numbers = |column: &ArrayRef| column.as_primitive_opt::<Int64Type>().cloned().ok_or_else(foreign);
    let (Some(times), Some(keys)) = (rows.columns().first(), rows.columns().get(1..=key_columns)) else {
        return Err(foreign());
    };
    if rows.num_columns() != 1 + key_columns + totals {
        return Err(foreign());
    }
    let keys = lines.encoder().encode(keys, rows.num_rows())?;
    let keys = lines.number(&keys, rows.num_rows());
    let amounts = rows.columns()[1 + key_columns..].iter().map(|column| {
        let column = numbers(column)?;
        let counted = column.nulls().map(|nulls| nulls.inner().clone());
        let amounts = column.iter().map(|amount| amount.unwrap_or(0)).collect();
        Ok(Amounts { amounts: Addends::Narrow(amounts), counted, beyond: Vec::new() })
    });
    let amounts = amounts.collect::<Result<Vec<_>>>()?;
    lines.append_light(&keys, numbers(times)?.values(), &amounts);
    Ok(())
}
