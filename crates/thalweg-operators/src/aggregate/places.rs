//! Where the rows of an aggregate stand among those of all its instances.

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;
use thalweg_core::{Positions, Result, Timestamp, Window};

/// Makes positions of keys.
pub struct Places {
    converter: RowConverter,
}

impl Places {
    /// Positions of keys of these types.
    ///
    /// Errors: `Error::Query` if a key's type cannot be compared.
    pub fn new(key_types: &[DataType]) -> Result<Self> {
        // Ascending, nulls first: as groups are sorted.
        let fields = key_types.iter().map(|kind| SortField::new(kind.clone()));
        Ok(Self { converter: RowConverter::new(fields.collect())? })
    }

    /// The positions of a window's rows, which is over at `over`, with these keys.
    ///
    /// Errors: if the keys of one batch take more than 2 GiB.
    pub fn of(&self, window: Window, over: Timestamp, keys: &[ArrayRef]) -> Result<Positions> {
        let keys = self.converter.convert_columns(keys)?.try_into_binary()?;
        Ok(Positions::new(window, over, keys))
    }
    /// The positions of rows of instants, one after the other, with these times and keys.
    ///
    /// Errors: as [`Places::of`].
    pub fn in_time(&self, times: Box<[i64]>, keys: &[ArrayRef]) -> Result<Positions> {
        let keys = self.converter.convert_columns(keys)?.try_into_binary()?;
        Ok(Positions::in_time(times, keys))
    }
}
