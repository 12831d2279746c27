//! Batches whose buffers lie in a pool's blocks: aligned to cache lines, and in huge pages where the system has them.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use thalweg_core::Result;

use crate::{
    page::layout::LINE,
    pool::{Block, Pool},
};

/// The same rows in one block of the pool; `None` where that has no room.
///
/// What is read once from end to end is read faster so: the processor finds a page of 2 MiB with one look where it needs 512 for
/// small ones, and fetches ahead within it.
///
/// Errors: `Error::Bug` if Arrow does not take the columns.
pub fn preallocate(batch: &RecordBatch, pool: &Pool) -> Result<Option<RecordBatch>> {
    let columns: Vec<ArrayData> = batch.columns().iter().map(|column| column.to_data()).collect();
    let mut bytes = 0;
    columns.iter().for_each(|column| visit(column, &mut |buffer| bytes += buffer.len().next_multiple_of(LINE)));
    let Some(mut block) = pool.take(bytes) else { return Ok(None) };
    let mut at = 0;
    let mut fill = |buffer: &Buffer| {
        block.bytes_mut()[at..at + buffer.len()].copy_from_slice(buffer);
        at += buffer.len().next_multiple_of(LINE);
    };
    columns.iter().for_each(|column| visit(column, &mut fill));
    let block = Arc::new(block);
    let mut at = 0;
    let arrays = columns.into_iter().map(|column| Ok(make_array(moved(&column, &block, &mut at)?)));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(Some(RecordBatch::try_new_with_options(batch.schema(), arrays.collect::<Result<_>>()?, &options)?))
}

/// All buffers of an array, in the order in which [`moved`] takes them.
fn visit(data: &ArrayData, see: &mut impl FnMut(&Buffer)) {
    if let Some(nulls) = data.nulls() {
        see(nulls.buffer());
    }
    data.buffers().iter().for_each(&mut *see);
    data.child_data().iter().for_each(|child| visit(child, see));
}

fn moved(data: &ArrayData, block: &Arc<Block>, at: &mut usize) -> Result<ArrayData> {
    let mut next = |old: &Buffer| {
        let new = Block::buffer(block, *at, old.len());
        *at += old.len().next_multiple_of(LINE);
        new
    };
    let nulls = data.nulls().map(|nulls| {
        let bits = BooleanBuffer::new(next(nulls.buffer()), nulls.offset(), nulls.len());
        NullBuffer::new(bits)
    });
    let buffers = data.buffers().iter().map(&mut next).collect();
    let children = data.child_data().iter().map(|child| moved(child, block, at)).collect::<Result<_>>()?;
    let builder = data.clone().into_builder().nulls(nulls).buffers(buffers).child_data(children);
    #[allow(unsafe_code)]
    // SAFETY: the same bytes as those of an array that was sound.
    Ok(unsafe { builder.build_unchecked() })
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        ArrayRef, DictionaryArray, Int64Array, ListArray, StringArray, StringViewArray, types::Int8Type,
    };

    use super::*;

    #[test]
    fn the_rows_are_the_same_and_lie_in_the_pool() {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("longer than twelve"), None, Some("")]));
        let views: ArrayRef = Arc::new(StringViewArray::from(vec!["b", "also longer than twelve", "", "c"]));
        let known: DictionaryArray<Int8Type> = vec![Some("x"), Some("y"), None, Some("x")].into_iter().collect();
        let lists = ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
            Some(vec![Some(4)]),
        ]);
        let columns: [(&str, ArrayRef); 5] =
            [("k", keys), ("t", texts), ("v", views), ("d", Arc::new(known)), ("l", Arc::new(lists))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        for batch in [batch.clone(), batch.slice(1, 2), batch.slice(3, 0)] {
            let pool = Pool::new(1 << 20);
            let copy = preallocate(&batch, &pool).unwrap().unwrap();
            assert_eq!(copy, batch);
            copy.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
            assert!(pool.used() > 0);
            drop(copy);
            assert_eq!(pool.used(), 0);
        }
        assert!(preallocate(&batch, &Pool::new(100)).unwrap().is_none());
    }
}
