//! The state of aggregates that keep values: a list for each group.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, cast::AsArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use thalweg_core::{Error, Result};

use super::rows::not_a_state;

/// The type of lists of values of this type.
pub fn kind(values: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(values.clone(), true)))
}

/// Lists of these lengths, of values that stand in their order.
///
/// Errors: `Error::Environment` if there are more values than a list's offsets can count.
pub fn written(lengths: &[usize], values: ArrayRef) -> Result<ArrayRef> {
    i32::try_from(values.len())
        .map_err(|_| Error::environment("an aggregate has more values than a snapshot can hold"))?;
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    Ok(Arc::new(ListArray::try_new(item, offsets, values, None)?))
}

/// The values of all lists, each with its list's group beside it.
pub fn read(lists: &ArrayRef, groups: &[u32]) -> Result<(ArrayRef, Vec<u32>)> {
    let lists = lists.as_list_opt::<i32>().ok_or_else(not_a_state)?;
    let offsets = lists.offsets();
    let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
    let each = groups.iter().zip(offsets.lengths());
    let groups = each.flat_map(|(group, length)| std::iter::repeat_n(*group, length)).collect();
    Ok((lists.values().slice(first, last - first), groups))
}
