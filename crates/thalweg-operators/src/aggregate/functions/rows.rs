//! Which rows count, and columns of states.

use arrow_array::{Array, ArrayRef, BooleanArray, cast::AsArray};
use arrow_buffer::BooleanBuffer;
use thalweg_core::{Error, Result, aggregate::Accumulator};

/// The rows that count: no argument is null, and the filter is true; `None` is all.
pub fn counting(arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let both = |a: Option<BooleanBuffer>, b: Option<BooleanBuffer>| match (a, b) {
        (Some(a), Some(b)) => Some(&a & &b),
        (a, b) => a.or(b),
    };
    let filter = filter.map(|filter| match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    });
    arguments.iter().fold(filter, |mask, argument| {
        let valid = argument.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        both(mask, valid.map(|nulls| nulls.into_inner()))
    })
}

/// Calls `visit` with the number and the group of each row that counts.
#[inline]
pub fn each(counting: Option<&BooleanBuffer>, groups: &[u32], mut visit: impl FnMut(usize, usize)) {
    match counting {
        None => groups.iter().enumerate().for_each(|(row, group)| visit(row, *group as usize)),
        Some(counting) => counting.set_indices().for_each(|row| visit(row, groups[row] as usize)),
    }
}

/// The values of the rows that count.
pub fn counted<V>(
    arguments: &[ArrayRef],
    filter: Option<&BooleanArray>,
    values: impl Iterator<Item = V>,
) -> Vec<Option<V>> {
    match counting(arguments, filter) {
        None => values.map(Some).collect(),
        Some(counting) => values.zip(&counting).map(|(value, counts)| counts.then_some(value)).collect(),
    }
}

/// Another accumulator of the same kind.
pub fn alike<A: 'static>(other: &dyn Accumulator) -> Result<&A> {
    let found = other.as_any().and_then(|other| other.downcast_ref());
    found.ok_or_else(|| Error::bug("an accumulator of another function"))
}

/// The bytes in a row of a column of states.
pub fn bytes_of<'a>(column: &'a ArrayRef) -> Result<impl Fn(usize) -> &'a [u8]> {
    let column = column.as_binary_opt::<i32>().ok_or_else(not_a_state)?;
    Ok(move |row| column.value(row))
}

/// The bytes that something writes.
pub fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    bytes
}

/// The error for bytes that no accumulator has written.
pub fn not_a_state() -> Error {
    Error::environment("the state of an aggregate cannot be read")
}

/// What a result is that does not fit this type.
pub fn out_of_range(kind: &str) -> Error {
    Error::data(format!("{kind} out of range")).with_hint("cast the argument to a wider type")
}
