//! Streams of the program that embeds the engine: batches in memory, read without a copy.

use std::{collections::HashMap, sync::Arc};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use thalweg_core::{
    Error, Result,
    connector::{Connector, Host, Read, Reader, Source, TableDefinition},
};
use thalweg_memory::{pool::Pool, preallocate::preallocate};

/// `'connector' = 'memory', 'stream' = 'ticks'`: named streams whose batches the program gave.
///
/// Any number of tables and queries read a stream; each reads it from its beginning to its end, and shares the batches.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use thalweg_connectors::Memory;
///
/// let streams = Memory::default();
/// let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
/// let batch = RecordBatch::try_from_iter([("key", keys)]).unwrap();
/// streams.put("ticks", vec![vec![batch]])?;
/// # Ok::<(), thalweg_core::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Memory {
    streams: Arc<Mutex<HashMap<String, Arc<Stream>>>>,
}

struct Stream {
    schema: SchemaRef,
    names: Vec<String>,
    partitions: Vec<Vec<RecordBatch>>,
}

impl Memory {
    /// Gives a stream its partitions, each a sequence of batches. Queries that read an older stream of this name read on there.
    ///
    /// Errors: `Error::Query` if there is no batch, or the batches' columns differ.
    pub fn put(&self, name: &str, partitions: Vec<Vec<RecordBatch>>) -> Result<()> {
        let batches = || partitions.iter().flatten();
        let Some(first) = batches().next() else {
            return Err(Error::query(format!("stream \"{name}\" has no batch"))
                .with_hint("a batch without rows tells the columns of an empty stream"));
        };
        let schema = first.schema();
        if batches().any(|batch| batch.schema().fields() != schema.fields()) {
            return Err(Error::query(format!("the batches of stream \"{name}\" have different columns")));
        }
        let digits = partitions.len().to_string().len();
        let names = (0..partitions.len()).map(|number| format!("{number:0digits$}")).collect();
        self.streams.lock().insert(name.to_string(), Arc::new(Stream { schema, names, partitions }));
        Ok(())
    }

    /// The same rows, copied into memory that is read fastest: in huge pages, where the system has them. Pays for a stream that
    /// is read more than once.
    ///
    /// Errors: `Error::Environment` if there is not so much memory.
    pub fn preallocated(partitions: &[Vec<RecordBatch>]) -> Result<Vec<Vec<RecordBatch>>> {
        let pool = Pool::new(usize::MAX);
        let copy = |batch| {
            preallocate(batch, &pool)?
                .ok_or_else(|| Error::environment("there is no memory for the batches of a stream"))
        };
        partitions.iter().map(|batches| batches.iter().map(copy).collect()).collect()
    }

    fn stream(&self, table: &TableDefinition) -> Result<Arc<Stream>> {
        table.options.check(&["connector", "stream", "bad.rows"])?;
        let name = table.options.required("stream")?;
        self.streams.lock().get(name).cloned().ok_or_else(|| {
            Error::query(format!("table \"{}\": there is no stream \"{name}\" in memory", table.name))
                .with_hint("the program that holds the engine puts it there")
        })
    }
}

impl Connector for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn infer(&self, table: &TableDefinition) -> Result<SchemaRef> {
        Ok(Arc::clone(&self.stream(table)?.schema))
    }

    fn check(&self, table: &TableDefinition) -> Result<()> {
        table.options.check(&["connector", "stream", "bad.rows"])?;
        table.options.required("stream").map(drop)
    }

    fn source(&self, table: &TableDefinition) -> Result<Box<dyn Source>> {
        let stream = self.stream(table)?;
        let kinds = |schema: &SchemaRef| schema.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
        if kinds(&table.columns) != kinds(&stream.schema) {
            return Err(Error::query(format!("table \"{}\": the stream's columns have other types", table.name))
                .with_hint("leave the columns out: they are those of the stream"));
        }
        Ok(Box::new(Partitions { stream, columns: Arc::clone(&table.columns) }))
    }
}

struct Partitions {
    stream: Arc<Stream>,
    /// The columns under the names that the table gives them.
    columns: SchemaRef,
}

impl Source for Partitions {
    fn partitions(&self) -> &[String] {
        &self.stream.names
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn open(&self, partition: usize, _: Host) -> Result<Box<dyn Reader>> {
        Ok(Box::new(Batches {
            stream: Arc::clone(&self.stream),
            columns: Arc::clone(&self.columns),
            partition,
            batch: 0,
            row: 0,
        }))
    }
}

/// Where a query stands in a partition.
struct Batches {
    stream: Arc<Stream>,
    columns: SchemaRef,
    partition: usize,
    batch: usize,
    row: usize,
}

impl Reader for Batches {
    fn read(&mut self, rows: usize) -> Result<Read> {
        while let Some(batch) = self.stream.partitions[self.partition].get(self.batch) {
            let rows = rows.min(batch.num_rows() - self.row);
            if rows == 0 {
                (self.batch, self.row) = (self.batch + 1, 0);
                continue;
            }
            let columns = batch.columns().iter().map(|column| column.slice(self.row, rows)).collect();
            self.row += rows;
            return Ok(Read::Rows(RecordBatch::try_new(Arc::clone(&self.columns), columns)?));
        }
        Ok(Read::End)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array};
    use thalweg_core::connector::Options;

    use super::*;

    fn batch(keys: Vec<i64>) -> RecordBatch {
        RecordBatch::try_from_iter([("key", Arc::new(Int64Array::from(keys)) as ArrayRef)]).unwrap()
    }

    fn table(stream: &str) -> TableDefinition {
        let columns = batch(vec![]).schema();
        let options = Options::new([("connector".into(), "memory".into()), ("stream".into(), stream.into())]);
        TableDefinition { name: "t".into(), columns, options, time: None }
    }

    fn rows(reader: &mut dyn Reader, most: usize) -> Vec<Vec<i64>> {
        let mut read = Vec::new();
        while let Read::Rows(rows) = reader.read(most).unwrap() {
            let keys = arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Int64Type>(rows.column(0));
            read.push(keys.values().to_vec());
        }
        read
    }

    #[test]
    fn a_stream_is_read_in_pieces_and_by_many() {
        let memory = Memory::default();
        let partitions = vec![vec![batch(vec![1, 2, 3]), batch(vec![]), batch(vec![4])], vec![batch(vec![5])]];
        let host = Host { wake: Arc::new(|| {}), threads: 1 };
        for partitions in [Memory::preallocated(&partitions).unwrap(), partitions] {
            memory.put("s", partitions).unwrap();
            let source = memory.source(&table("s")).unwrap();
            assert_eq!(source.partitions(), ["0", "1"]);
            let mut first = source.open(0, host.clone()).unwrap();
            assert_eq!(rows(first.as_mut(), 2), [vec![1, 2], vec![3], vec![4]]);
            assert_eq!(rows(source.open(1, host.clone()).unwrap().as_mut(), 9), [[5]]);
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        let memory = Memory::default();
        let missing = memory.source(&table("s")).err().unwrap();
        assert_eq!(missing.to_string(), "table \"t\": there is no stream \"s\" in memory");
        assert_eq!(memory.put("s", vec![]).unwrap_err().to_string(), "stream \"s\" has no batch");
        let other = RecordBatch::try_from_iter([("k", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
        let mixed = memory.put("s", vec![vec![batch(vec![1])], vec![other]]).unwrap_err();
        assert_eq!(mixed.to_string(), "the batches of stream \"s\" have different columns");
    }
}
