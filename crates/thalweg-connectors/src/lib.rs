//! Where rows come from and go to: transports (files, standard input and output, a generator) and formats (CSV, JSON lines).
//!
//! [`all`] is the list of them. A transport moves bytes, or makes rows by itself; a format turns bytes into typed columns and
//! back. Read `text` for how each type is written, `columns` for how rows become columns, `format` for how a transport and a
//! format meet, and then any one transport or format.
//!
//! | `'connector'` | source | sink | `'format'` |
//! | --- | --- | --- | --- |
//! | `file` | one file, a glob or a directory | one file, complete or not there at all | `csv`, `json` |
//! | `stdin` | yes | | `csv`, `json` |
//! | `stdout` | | yes | `csv`, `json` |
//! | `generator` | rows made up from a seed | | |
//! | `print` | | lines for people | |
//! | `blackhole` | | takes everything | |
//! | `memory` | batches of the program that embeds the engine | | |

mod blackhole;
mod columns;
mod csv;
mod file;
mod format;
mod generator;
mod json;
mod memory;
mod print;
mod row_writer;
mod stdin;
mod stdout;
#[cfg(test)]
mod testing;
mod text;

use std::sync::Arc;

use thalweg_core::connector::Connector;

pub use memory::Memory;
pub use row_writer::{RowWriter, csv, json_lines};
pub use stdin::reserve_stdin;
pub use stdout::unbuffered_stdout;
pub use text::write::Cells;

/// Every connector there is.
///
/// ```
/// let names: Vec<_> = thalweg_connectors::all().iter().map(|connector| connector.name()).collect();
/// assert_eq!(names, ["file", "generator", "stdin", "stdout", "print", "blackhole"]);
/// ```
pub fn all() -> Vec<Arc<dyn Connector>> {
    vec![
        Arc::new(file::File),
        Arc::new(generator::Generator),
        Arc::new(stdin::Stdin),
        Arc::new(stdout::Stdout),
        Arc::new(print::Print),
        Arc::new(blackhole::Blackhole),
    ]
}
