//! Windows that are followed from batch to batch by an accumulator of DataFusion that takes rows away as it takes them in.

use std::collections::HashMap;

use arrow_array::{
    ArrayRef, BooleanArray,
    builder::{ArrayBuilder, StringBuilder},
};
use arrow_row::{OwnedRow, RowConverter};
use datafusion_common::ScalarValue;
use datafusion_expr::Accumulator;
use thalweg_core::{
    Error, Result,
    aggregate::{Follower, Windows, builder},
    moving::{Bag, Moving},
    views::with_own_memory,
};

use super::groups::{kept, slice};
use crate::error::from_datafusion;

/// The rows of a key: equal ones are one, and there several times.
pub(super) struct Retracted {
    converter: RowConverter,
    numbers: HashMap<OwnedRow, u32>,
    /// Numbers that no row has.
    free: Vec<u32>,
    moving: Moving<Counted>,
    /// How many bytes of memory all rows take.
    bytes: usize,
}

/// Rows, by their numbers, of which some are in a window.
struct Counted {
    accumulator: Box<dyn Accumulator>,
    rows: Vec<Equal>,
    /// What went wrong, if something did.
    failed: Option<Error>,
}

/// Rows that are equal.
struct Equal {
    key: Option<OwnedRow>,
    /// The arguments of one.
    arguments: Vec<ArrayRef>,
    /// How many there are.
    count: usize,
}

impl Bag for Counted {
    type Value = u32;

    fn change(&mut self, number: u32, comes: bool) {
        let arguments = &self.rows[number as usize].arguments;
        let changed = match comes {
            true => self.accumulator.update_batch(arguments),
            false => self.accumulator.retract_batch(arguments),
        };
        if let Err(error) = changed {
            self.failed.get_or_insert(from_datafusion(&error));
        }
    }
}

impl Equal {
    /// How many bytes of memory it takes, with what the accumulator may keep of it.
    fn bytes(&self) -> usize {
        let arguments: usize = self.arguments.iter().map(|column| column.get_buffer_memory_size()).sum();
        let keys = self.key.as_ref().map_or(0, |key| key.as_ref().len());
        2 * (arguments + keys)
    }
}

impl Retracted {
    /// Without rows; the accumulator gives text, and `converter` tells rows of its arguments apart.
    pub fn new(accumulator: Box<dyn Accumulator>, converter: RowConverter) -> Self {
        let counted = Counted { accumulator, rows: Vec::new(), failed: None };
        Self { converter, numbers: HashMap::new(), free: Vec::new(), moving: Moving::new(counted), bytes: 0 }
    }

    /// The number of each row that counts, which has one more from now on.
    fn numbers(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<u32>>> {
        let count = arguments.first().map_or(0, |column| column.len());
        let keys = self.converter.convert_columns(arguments)?;
        let mut numbers = vec![None; count];
        for row in kept(filter, count) {
            let row = row as usize;
            let key = keys.row(row).owned();
            let number = match self.numbers.get(&key) {
                Some(number) => *number,
                None => {
                    let one = slice(arguments, &(row..row + 1));
                    let arguments = one.iter().map(with_own_memory).collect();
                    let equal = Equal { key: Some(key.clone()), arguments, count: 0 };
                    self.bytes += equal.bytes();
                    let rows = &mut self.moving.bag.rows;
                    let number = self.free.pop().unwrap_or(rows.len() as u32);
                    match rows.get_mut(number as usize) {
                        Some(free) => *free = equal,
                        None => rows.push(equal),
                    }
                    self.numbers.insert(key, number);
                    number
                }
            };
            self.moving.bag.rows[number as usize].count += 1;
            numbers[row] = Some(number);
        }
        Ok(numbers)
    }

    /// Each of these rows goes.
    fn release(&mut self, gone: Vec<u32>) {
        for number in gone {
            let equal = &mut self.moving.bag.rows[number as usize];
            equal.count -= 1;
            if equal.count == 0 {
                self.bytes -= equal.bytes();
                equal.arguments.clear();
                if let Some(key) = equal.key.take() {
                    self.numbers.remove(&key);
                }
                self.free.push(number);
            }
        }
    }
}

impl Follower for Retracted {
    fn insert(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, places: &[usize]) -> Result<()> {
        let numbers = self.numbers(arguments, filter)?;
        self.moving.insert(numbers, places);
        Ok(())
    }

    fn drop_first(&mut self, rows: usize) {
        let mut gone = Vec::new();
        self.moving.drop_first(rows, |_, number| gone.push(number));
        self.release(gone);
    }

    fn results(&mut self, windows: &Windows<'_>, found: &mut dyn ArrayBuilder) -> Result<()> {
        let own = match windows.own {
            Some(_) => self.numbers(windows.arguments, windows.filter)?,
            None => Vec::new(),
        };
        let found: &mut StringBuilder = builder(found)?;
        self.moving.follow(windows, &own, |Counted { accumulator, failed, .. }| {
            if let Some(error) = failed.take() {
                return Err(error);
            }
            match accumulator.evaluate().map_err(|error| from_datafusion(&error))? {
                ScalarValue::Utf8(text) => found.append_option(text),
                other => return Err(Error::bug(format!("{other} is no text"))),
            }
            Ok(())
        })?;
        self.release(own.into_iter().flatten().collect());
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.moving.bytes() + self.bytes + self.moving.bag.rows.capacity() * size_of::<Equal>()
    }
}
