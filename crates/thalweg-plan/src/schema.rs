//! What an edge of a plan carries, and what is promised of it.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion_common::DFSchemaRef;

/// The columns of a stream and what is known of its event time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSchema {
    /// Names (with the tables they came from) and types.
    pub columns: DFSchemaRef,
    /// The column that carries the event time of which the watermarks speak.
    pub time: Option<usize>,
    /// The columns that name the window each row belongs to, below a window function.
    pub window: Option<WindowColumns>,
    /// The column that says where each row stands in its source, if somebody asks ([`crate::Node::Position`]).
    pub position: Option<usize>,
    /// The column that says what becomes of each row, behind results that are not final ([`crate::node::OP`]).
    pub op: Option<usize>,
    /// Whether the stream ends by itself.
    pub is_bounded: bool,
}

/// Where the bounds of a row's window stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowColumns {
    /// The column `window_start`.
    pub start: usize,
    /// The column `window_end`.
    pub end: usize,
    /// Whether several windows start together, so that only the end tells them apart.
    pub is_cumulating: bool,
}

impl StreamSchema {
    /// A stream of these columns of which nothing else is known.
    pub fn plain(columns: DFSchemaRef, is_bounded: bool) -> Self {
        Self { columns, time: None, window: None, position: None, op: None, is_bounded }
    }

    /// The columns as Arrow sees them: names without tables.
    pub fn arrow(&self) -> SchemaRef {
        Arc::clone(self.columns.inner())
    }

    /// What remains known when the output columns are the input columns of these numbers (`None`: computed anew).
    pub fn project(&self, columns: DFSchemaRef, from: &[Option<usize>]) -> Self {
        let moved = |column: usize| from.iter().position(|f| *f == Some(column));
        let window = self.window.and_then(|w| Some(WindowColumns { start: moved(w.start)?, end: moved(w.end)?, ..w }));
        let [time, position, op] = [self.time, self.position, self.op].map(|column| column.and_then(moved));
        Self { columns, time, window, position, op, is_bounded: self.is_bounded }
    }
}
