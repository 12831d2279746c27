//! Arrays of texts that are views: what such an array keeps alive.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, cast::AsArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;

/// The same values in memory of their own, where they are views, or lists of views. What is picked out of such an array, and what several are
/// put together to, keeps all the memory of what it came from.
pub fn with_own_memory(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::List(item) if matches!(item.data_type(), DataType::Utf8View | DataType::BinaryView) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.offsets();
            let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
            let values = with_own_memory(&lists.values().slice(first, last - first));
            let lengths = OffsetBuffer::from_lengths(offsets.lengths());
            Arc::new(ListArray::new(Arc::clone(item), lengths, values, lists.nulls().cloned()))
        }
        _ => Arc::clone(array),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringViewArray, UInt32Array};
    use arrow_schema::Field;

    use super::*;

    fn texts() -> ArrayRef {
        let text =
            |number: usize| (number % 7 != 3).then(|| format!("a text that is too long for a view, number {number}"));
        Arc::new((0..1_000).map(text).collect::<StringViewArray>())
    }

    #[test]
    fn what_is_picked_out_keeps_only_its_own_texts() {
        let all = texts();
        let some = all.slice(10, 5);
        assert!(some.get_array_memory_size() > 40_000, "it keeps all");
        let own = with_own_memory(&some);
        assert_eq!(&own, &some);
        assert!(own.get_array_memory_size() < 1_000, "{}", own.get_array_memory_size());
        let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let lists: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([3, 0, 7, 990]), all, None));
        let some = lists.slice(1, 2);
        let own = with_own_memory(&some);
        assert_eq!(&own, &some);
        assert!(own.get_array_memory_size() < 2_000, "{}", own.get_array_memory_size());
    }

    #[test]
    fn what_is_no_view_stays_as_it_is() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        assert!(Arc::ptr_eq(&numbers, &with_own_memory(&numbers)));
        let few: ArrayRef = Arc::new(UInt32Array::from(vec![1]));
        assert!(Arc::ptr_eq(&few, &with_own_memory(&few)));
    }
}
