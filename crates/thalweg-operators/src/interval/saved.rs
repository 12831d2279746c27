//! Rows that wait, or may be looked at, as a snapshot.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use thalweg_core::{Error, Result, Snapshot, snapshot::Reader};

use super::{
    entry::{At, Entry},
    kept::Kept,
    lines::Lines,
};

/// Time, position, rank and parts stand before the keys.
const FIRST_KEY: usize = 4;

/// Each row once, with all the parts that it has: bits that mean what the operator says.
pub fn together(mut entries: Vec<(Entry, i64)>) -> Vec<(Entry, i64)> {
    entries.sort_by_key(|(entry, part)| (entry.at, *part));
    entries.dedup_by(|(later, part), (first, parts)| {
        let is_same = later.at == first.at;
        *parts |= if is_same { *part } else { 0 };
        is_same
    });
    entries
}

/// Rows with their parts, divided by the place of their key, of which there are so many; others are left out.
pub fn divided(
    entries: impl Iterator<Item = (Entry, i64)>,
    places: &[Option<usize>],
    count: usize,
) -> Vec<Vec<(Entry, i64)>> {
    let mut divided = vec![Vec::new(); count];
    for (entry, part) in entries {
        if let Some(place) = places[entry.key as usize] {
            divided[place].push((entry, part));
        }
    }
    divided
}

/// Writes rows of which the same columns are kept, with their parts, their keys and these columns.
pub fn write(entries: &[(Entry, i64)], lines: &Lines, kept: &Kept, snapshot: &mut Snapshot) -> Result<()> {
    snapshot.number(entries.len() as i64);
    let Some((first, _)) = entries.first() else { return Ok(()) };
    let rows: Vec<At> = entries.iter().map(|(entry, _)| entry.at).collect();
    let number = |of: &dyn Fn(&(Entry, i64)) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(entries.iter().map(of)))
    };
    let mut columns = vec![
        number(&|(entry, _)| entry.time),
        number(&|(entry, _)| entry.position),
        number(&|(entry, _)| i64::from(entry.rank)),
        number(&|(_, parts)| *parts),
    ];
    columns.extend(lines.columns(entries.iter().map(|(entry, _)| entry.key).collect())?);
    for column in 0..kept.width(first.at) {
        columns.push(kept.gather(column, &rows)?);
    }
    let named = columns.into_iter().enumerate().map(|(number, column)| (number.to_string(), column, true));
    snapshot.rows(RecordBatch::try_from_iter_with_nullable(named)?);
    Ok(())
}

/// Rows that [`write`] wrote.
pub struct Saved {
    rows: RecordBatch,
    keys: usize,
}

impl Saved {
    /// Reads rows with so many key columns; `None` if there were none.
    pub fn read(snapshot: &mut Reader<'_>, keys: usize) -> Result<Option<Self>> {
        if snapshot.number()? == 0 {
            return Ok(None);
        }
        let rows = snapshot.rows()?;
        let is_number = |column: usize| rows.columns().get(column)?.as_primitive_opt::<Int64Type>();
        if rows.num_columns() < FIRST_KEY + keys || (0..FIRST_KEY).any(|column| is_number(column).is_none()) {
            return Err(Error::environment("the rows of a join cannot be read"));
        }
        Ok(Some(Self { rows, keys }))
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key columns.
    pub fn keys(&self) -> &[ArrayRef] {
        &self.rows.columns()[FIRST_KEY..][..self.keys]
    }

    /// The columns that are kept.
    pub fn kept(&self) -> Vec<ArrayRef> {
        self.rows.columns()[FIRST_KEY + self.keys..].to_vec()
    }

    /// The parts of a row.
    pub fn parts(&self, row: usize) -> i64 {
        self.number(3, row)
    }

    /// The time of a row.
    pub fn time(&self, row: usize) -> i64 {
        self.number(0, row)
    }

    /// A row that is kept in this batch, under its key's number here.
    pub fn entry(&self, row: usize, key: u32, batch: u32) -> Entry {
        let [position, rank] = [1, 2].map(|column| self.number(column, row));
        let at = At { batch, row: row as u32 };
        Entry { time: self.time(row), position, key, rank: rank as u32, at }
    }

    fn number(&self, column: usize, row: usize) -> i64 {
        self.rows.column(column).as_primitive::<Int64Type>().value(row)
    }
}
