//! Which rows of a batch are still in.

use arrow_array::{Array, BooleanArray, UInt32Array};
use arrow_buffer::{BooleanBufferBuilder, ScalarBuffer};

/// The numbers of the rows that are still in, ascending; so a filter drops rows without copying any.
///
/// ```
/// use arrow_array::BooleanArray;
/// use thalweg_core::Selection;
/// let selection = Selection::from_mask(&BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]));
/// assert_eq!(selection.rows(), [0, 3]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Selection(ScalarBuffer<u32>);

impl Selection {
    /// The rows of these numbers, which must ascend.
    pub fn new(rows: Vec<u32>) -> Self {
        debug_assert!(rows.is_sorted_by(|a, b| a < b), "a selection ascends");
        Self(rows.into())
    }

    /// The rows of these numbers, which must ascend, in memory that others may look at as well.
    pub fn of_shared(rows: ScalarBuffer<u32>) -> Self {
        debug_assert!(rows.is_sorted_by(|a, b| a < b), "a selection ascends");
        Self(rows)
    }

    /// The rows for which the mask is true; null counts as false.
    pub fn from_mask(mask: &BooleanArray) -> Self {
        let mut rows = Vec::with_capacity(mask.len());
        match mask.nulls() {
            None => rows.extend(mask.values().set_indices_u32()),
            Some(nulls) => rows.extend((mask.values() & nulls.inner()).set_indices_u32()),
        }
        Self(rows.into())
    }

    /// The numbers of the rows that are in.
    pub fn rows(&self) -> &[u32] {
        &self.0
    }

    /// How many rows are in.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no row is in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of `rows` rows are in.
    pub fn keeps(&self, rows: usize) -> bool {
        self.0.len() == rows
    }

    /// The rows of this selection for which the mask, one value per row *of the whole batch*, is true.
    pub fn and(&self, mask: &BooleanArray) -> Self {
        let is_true = |row: &u32| mask.is_valid(*row as usize) && mask.value(*row as usize);
        Self(self.0.iter().copied().filter(is_true).collect::<Vec<_>>().into())
    }

    /// The rows of a selection (`None` is all) for which the mask, one value per row of the whole batch, is true.
    pub fn narrow(selection: Option<&Self>, mask: &BooleanArray) -> Self {
        selection.map_or_else(|| Self::from_mask(mask), |selection| selection.and(mask))
    }

    /// The selection as a mask over `rows` rows.
    pub fn to_mask(&self, rows: usize) -> BooleanArray {
        let mut bits = BooleanBufferBuilder::new(rows);
        bits.append_n(rows, false);
        self.0.iter().for_each(|row| bits.set_bit(*row as usize, true));
        BooleanArray::new(bits.finish(), None)
    }

    /// The selection as indices that Arrow's `take` understands; nothing is copied.
    pub fn to_indices(&self) -> UInt32Array {
        UInt32Array::new(self.0.clone(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_selections_are_two_views_of_the_same() {
        let mask = BooleanArray::from(vec![true, false, true, true]);
        let selection = Selection::from_mask(&mask);
        assert_eq!(selection.to_mask(4), mask);
        assert!(!selection.keeps(4));
        assert_eq!(selection.and(&BooleanArray::from(vec![Some(true), Some(true), None, Some(true)])).rows(), [0, 3]);
    }
}
