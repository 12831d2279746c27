//! What a state has saved: numbers and rows, which go to another instance as they lie, and to other programs as bytes.

use std::io::Cursor;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_ipc::{reader::StreamReader, writer::StreamWriter};

use crate::{Error, Result, views::with_own_memory};

/// What belongs to one key group of a state: a version of its layout, then numbers and rows in the order in which they will be read.
///
/// An instance hands it to another one as it is: rows by pointer, nothing is written. [`to_bytes`](Self::to_bytes) is for what
/// leaves the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    version: u16,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Number(i64),
    Rows(RecordBatch),
}

const NUMBER: u8 = 0;
const ROWS: u8 = 1;

impl Snapshot {
    /// A snapshot whose layout has this version, with nothing in it yet.
    pub fn new(version: u16) -> Self {
        Self { version, parts: Vec::new() }
    }

    /// Appends a number.
    pub fn number(&mut self, value: i64) {
        self.parts.push(Part::Number(value));
    }

    /// Appends rows. Whoever has the snapshot keeps them alive: they must be no part of something larger. Texts that are views into something
    /// larger get memory of their own.
    pub fn rows(&mut self, rows: RecordBatch) {
        let columns = rows.columns().iter().map(with_own_memory).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        // Columns of the same types fit the same schema.
        let own = RecordBatch::try_new_with_options(rows.schema(), columns, &options).unwrap_or(rows);
        self.parts.push(Part::Rows(own));
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let part = |part: &Part| match part {
            Part::Number(_) => size_of::<Part>(),
            Part::Rows(rows) => size_of::<Part>() + rows.get_array_memory_size(),
        };
        self.parts.iter().map(part).sum()
    }

    /// Reads what is in it, from the start.
    ///
    /// Errors: `Error::Environment` if it has another version.
    pub fn read(&self, version: u16) -> Result<Reader<'_>> {
        if self.version != version {
            return Err(Error::environment(format!("the snapshot has version {}, expected {version}", self.version)));
        }
        Ok(Reader(self.parts.iter()))
    }

    /// The snapshot as bytes, none if there is nothing in it.
    ///
    /// ```text
    /// u16 version | 0, i64 | 1, u64 length, Arrow IPC stream | ...       all little-endian
    /// ```
    ///
    /// Errors: what Arrow's writer gives.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let mut bytes = self.version.to_le_bytes().to_vec();
        for part in &self.parts {
            match part {
                Part::Number(value) => {
                    bytes.push(NUMBER);
                    bytes.extend(value.to_le_bytes());
                }
                Part::Rows(rows) => {
                    bytes.push(ROWS);
                    let at = bytes.len();
                    bytes.extend([0; 8]);
                    let mut stream = StreamWriter::try_new(&mut bytes, &rows.schema())?;
                    stream.write(rows)?;
                    stream.finish()?;
                    drop(stream);
                    let length = (bytes.len() - at - 8) as u64;
                    bytes[at..at + 8].copy_from_slice(&length.to_le_bytes());
                }
            }
        }
        Ok(bytes)
    }

    /// The snapshot that was written as these bytes.
    ///
    /// Errors: `Error::Environment` if they are cut short or damaged; never a panic.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut rest = Bytes(bytes);
        let mut snapshot = Self::new(u16::from_le_bytes(rest.array()?));
        while !rest.0.is_empty() {
            match u8::from_le_bytes(rest.array()?) {
                NUMBER => snapshot.number(i64::from_le_bytes(rest.array()?)),
                ROWS => {
                    let length = usize::try_from(u64::from_le_bytes(rest.array()?)).map_err(|_| cut_short())?;
                    let mut stream = StreamReader::try_new(Cursor::new(rest.take(length)?), None)?;
                    snapshot.rows(stream.next().ok_or_else(cut_short)??);
                }
                other => return Err(Error::environment(format!("the snapshot has a part of unknown kind {other}"))),
            }
        }
        Ok(snapshot)
    }
}

/// Reads the parts of a [`Snapshot`] in turn; one that has others than are asked for is an error, never a panic.
pub struct Reader<'a>(std::slice::Iter<'a, Part>);

impl Reader<'_> {
    /// The next number.
    ///
    /// Errors: `Error::Environment` if none is next.
    pub fn number(&mut self) -> Result<i64> {
        match self.0.next() {
            Some(Part::Number(value)) => Ok(*value),
            Some(Part::Rows(_)) => Err(foreign()),
            None => Err(cut_short()),
        }
    }

    /// The next rows.
    ///
    /// Errors: `Error::Environment` if none are next.
    pub fn rows(&mut self) -> Result<RecordBatch> {
        match self.0.next() {
            Some(Part::Rows(rows)) => Ok(rows.clone()),
            Some(Part::Number(_)) => Err(foreign()),
            None => Err(cut_short()),
        }
    }

    /// Whether all has been read.
    pub fn is_at_end(&self) -> bool {
        self.0.as_slice().is_empty()
    }
}

/// What is left of bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length).ok_or_else(cut_short)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| cut_short())
    }
}

fn cut_short() -> Error {
    Error::environment("the snapshot is cut short")
}

fn foreign() -> Error {
    Error::environment("the snapshot is that of another state")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array};

    use super::*;

    fn rows() -> RecordBatch {
        RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef)]).unwrap()
    }

    fn snapshot() -> Snapshot {
        let mut snapshot = Snapshot::new(3);
        snapshot.number(-7);
        snapshot.rows(rows());
        snapshot
    }

    #[test]
    fn what_was_saved_is_read_back_in_order() {
        let (snapshot, rows) = (snapshot(), rows());
        let mut reader = snapshot.read(3).unwrap();
        assert_eq!(reader.number().unwrap(), -7);
        assert_eq!(reader.rows().unwrap(), rows);
        assert!(reader.is_at_end());
        assert_eq!(reader.number().unwrap_err().to_string(), "the snapshot is cut short");
        let other =
            |wrong: Result<()>| assert_eq!(wrong.unwrap_err().to_string(), "the snapshot is that of another state");
        other(snapshot.read(3).unwrap().rows().map(drop));
        let error = snapshot.read(4).err().unwrap();
        assert_eq!(error.to_string(), "the snapshot has version 3, expected 4");
        assert!(snapshot.bytes() > 8 && Snapshot::default().is_empty() && !snapshot.is_empty());
    }

    #[test]
    fn rows_are_handed_on_by_pointer() {
        let rows = rows();
        let mut snapshot = Snapshot::new(1);
        snapshot.rows(rows.clone());
        let read = snapshot.read(1).unwrap().rows().unwrap();
        assert!(Arc::ptr_eq(read.column(0), rows.column(0)));
    }

    #[test]
    fn bytes_are_the_same_snapshot_and_bad_ones_an_error() {
        let bytes = snapshot().to_bytes().unwrap();
        assert_eq!(Snapshot::from_bytes(&bytes).unwrap(), snapshot());
        assert_eq!(Snapshot::from_bytes(&Snapshot::new(3).to_bytes().unwrap()).unwrap(), Snapshot::default());
        for end in 1..bytes.len() {
            let read = Snapshot::from_bytes(&bytes[..end]);
            // Behind the version, and behind the number, it is one of fewer parts.
            assert!(read.is_err() || end == 2 || end == 11, "cut at {end}");
        }
        let mut unknown = bytes.clone();
        unknown[2] = 9;
        let error = Snapshot::from_bytes(&unknown).unwrap_err();
        assert_eq!(error.to_string(), "the snapshot has a part of unknown kind 9");
    }
}
