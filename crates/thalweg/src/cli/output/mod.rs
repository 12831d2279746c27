//! Rows on standard output, as a table, JSON lines or CSV.

mod layout;
mod table;

use std::{
    fs::File,
    io::{self, ErrorKind, IsTerminal, Write},
};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thalweg_connectors::{RowWriter, unbuffered_stdout};
use thalweg_core::{Batch, Error, Progress, Result};

use super::{Ending, arguments::Format, screen};
use table::{Looks, TableWriter};

/// Writes the rows of one statement on standard output.
pub enum Output {
    /// For people.
    Table(TableWriter<File>),
    /// For programs.
    Rows(RowWriter<File>),
}

impl Output {
    /// An output in a format; without one, that which suits whoever reads.
    pub fn new(format: Option<Format>) -> Result<Self> {
        let is_terminal = io::stdout().is_terminal();
        let default = if is_terminal { Format::Table } else { Format::Json };
        let stdout = unbuffered_stdout()?;
        Ok(match format.unwrap_or(default) {
            Format::Table => {
                let looks = Looks {
                    has_colour: is_terminal && screen::wants_colour(),
                    screen: is_terminal.then(|| screen::width(io::stdout())),
                };
                Self::Table(TableWriter::new(stdout, looks))
            }
            Format::Json => Self::Rows(thalweg_connectors::json_lines(stdout)),
            Format::Csv => Self::Rows(thalweg_connectors::csv(stdout, true)),
        })
    }

    /// Writes what stands before the first row, where that does not depend on the rows; a table that is not the first stands
    /// apart from the one before.
    pub fn begin(&mut self, schema: &Schema, is_first: bool) -> Result<Progress> {
        match self {
            Self::Table(table) => table.begin(schema, is_first),
            Self::Rows(rows) => rows.begin(schema),
        }
    }

    /// Writes rows. [`Progress::Finished`]: nobody reads any more.
    pub fn write(&mut self, rows: RecordBatch) -> Result<Progress> {
        match self {
            Self::Table(table) => table.write(&rows),
            Self::Rows(writer) => writer.write(&Batch::new(rows)),
        }
    }

    /// There are no more rows.
    pub fn finish(&mut self) -> Result<Progress> {
        match self {
            Self::Table(table) => table.finish(),
            Self::Rows(rows) => rows.flush(),
        }
    }
}

/// Writes text. [`Progress::Finished`]: nobody reads any more.
pub fn write(writer: &mut impl Write, text: &[u8]) -> Result<Progress> {
    match writer.write_all(text).and_then(|()| writer.flush()) {
        Ok(()) => Ok(Progress::Done),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Progress::Finished),
        Err(error) => Err(Error::environment(format!("cannot write the output: {error}"))),
    }
}

/// How a task ends after its last writing.
pub fn ending(progress: Progress) -> Ending {
    if progress == Progress::Finished { Ending::Unread } else { Ending::Done }
}

/// Whether the reader of standard output has left. So a query ends that has nothing to write at the moment, too.
pub fn is_unread() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    // What cannot be asked is taken as being read: writing will tell.
    let is_asked = poll(&mut polled, Some(&Timespec::default())).is_ok();
    is_asked && polled[0].revents().contains(PollFlags::ERR)
}
