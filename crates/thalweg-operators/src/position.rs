//! Appends where each row stands in its source.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::SchemaRef;
use thalweg_core::{Batch, Error, Operator, Output, Port, Progress, Result};
use thalweg_memory::{kernels::steps::steps, simd::Level};

/// How many rows of a partition have positions of their own.
const ROWS: u64 = 1 << 44;

/// Appends a column to each batch of a source: the partition's number times 2⁴⁴, plus how many of its rows came before; and that times the
/// number of sources, plus the source's number, so that no row of another one has its position.
pub struct Position {
    output: SchemaRef,
    source: u64,
    sources: u64,
}

impl Position {
    /// Appends the last of these columns, for one of so many sources.
    pub fn new(output: SchemaRef, (source, sources): (u64, u64)) -> Self {
        Self { output, source, sources }
    }
}

impl Operator for Position {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let Some(origin) = batch.origin() else {
            return Err(Error::bug("rows of a source say where they stand"));
        };
        let Self { source, sources, .. } = *self;
        let first = (u64::from(origin.partition) * ROWS + origin.offset).wrapping_mul(sources).wrapping_add(source);
        let positions = steps(Level::best(), first as i64, sources as i64, batch.physical_rows());
        let mut columns = batch.columns().columns().to_vec();
        columns.push(Arc::new(Int64Array::from(positions)) as ArrayRef);
        let columns = RecordBatch::try_new(Arc::clone(&self.output), columns)?;
        out.emit(batch.with_columns(columns))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{cast::AsArray, types::Int64Type};
    use arrow_schema::{DataType, Field, Schema};
    use thalweg_core::{Origin, Selection};

    use super::*;

    #[test]
    fn positions_follow_partitions_and_rows_and_are_those_of_all_rows_that_were_read() {
        let field = |name| Field::new(name, DataType::Int64, true);
        let values =
            RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(vec![7, 8, 9])) as ArrayRef)]).unwrap();
        let output = Arc::new(Schema::new(vec![field("v"), field("position")]));
        let of = |source, origin| {
            let mut position = Position::new(Arc::clone(&output), (source, 3));
            let batch = Batch::new(values.clone()).with_origin(origin).with_selection(Selection::new(vec![0, 2]));
            let mut out = Output::new(10);
            position.on_batch(0, batch, &mut out).unwrap();
            let (_, batch) = out.take(0).remove(0);
            batch.compact().unwrap().column(1).as_primitive::<Int64Type>().values().to_vec()
        };
        let early = of(1, Origin { partition: 1, offset: 40 });
        let late = of(1, Origin { partition: 2, offset: 0 });
        assert_eq!(early[1] - early[0], 2 * 3);
        assert!(early[1] < late[0]);
        let other = of(2, Origin { partition: 1, offset: 40 });
        assert_eq!(other, [early[0] + 1, early[1] + 1], "of another source");
        let nowhere = Batch::new(values.clone());
        assert!(Position::new(output, (0, 1)).on_batch(0, nowhere, &mut Output::new(10)).is_err());
    }
}
