//! Which rows belong together in time, and which panes make a window.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{ArrayRef, TimestampMicrosecondArray};
use arrow_schema::Fields;
use thalweg_core::{Batch, Error, Interval, Result, Timestamp, Window};

use super::{
    pane::Pane,
    placing::{Assigned, ByPane, Place, Rows, Slices, place},
};
use crate::window::{Clock, WindowSpec};

/// Which rows an aggregate puts together in time.
#[derive(Clone, Debug)]
pub enum Windowing {
    /// All rows of a bounded input: one window that the end of the stream closes.
    Whole,
    /// Windows over event time, in slices.
    Assigned(WindowSpec),
    /// The windows that two input columns, start and end, name; a node further up put the rows into them.
    Columns {
        /// The column of the window's start.
        start: usize,
        /// The column of the window's end.
        end: usize,
        /// Which time the windows follow.
        clock: Clock,
    },
}

/// Names a pane: the rows of a slice that count for the windows from a certain one on.
///
/// Ordered by `first_end`, so that the panes of a window that is closed are among the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PaneId {
    /// The end of the earliest window that the rows count for; they came too late for the ones before.
    pub first_end: Timestamp,
    /// The rows' slice: all its rows are in the same windows.
    pub slice: Window,
}

impl PaneId {
    /// The only pane of a whole input.
    pub const WHOLE: Self =
        Self { first_end: Timestamp::MAX, slice: Window { start: Timestamp::MIN, end: Timestamp::MAX } };
}

impl Windowing {
    /// Finds the pane of each selected row, where time has come to `reached`.
    pub fn assign(&self, batch: &Batch, reached: Timestamp) -> Result<Assigned> {
        match self {
            Self::Whole => Ok(Assigned { panes: vec![(PaneId::WHOLE, Rows::All)], late: 0 }),
            Self::Assigned(spec) => Ok(place(batch, batch.times(spec.time)?.values(), reached, &mut Slices::new(spec))),
            Self::Columns { start, end, .. } => {
                let (starts, ends) = (batch.times(*start)?.values(), batch.times(*end)?.values());
                let mut places = ByPane::default();
                for (number, row) in batch.rows().enumerate() {
                    let window = Window { start: Timestamp(starts[row]), end: Timestamp(ends[row]) };
                    let place = match self.is_closed(window.end, reached) {
                        true => Place::Late(None),
                        false => Place::OnTime(PaneId { first_end: window.end, slice: window }),
                    };
                    places.put(number, place);
                }
                Ok(places.finish(batch.len()))
            }
        }
    }

    /// How many columns name a pane.
    pub fn name_width(&self) -> usize {
        match self {
            Self::Whole => 0,
            Self::Assigned(_) | Self::Columns { .. } => 2,
        }
    }

    /// The columns that name a pane to another aggregate with these windows: when the first window that sees it ends, and where
    /// its slice starts.
    pub fn name(&self, id: PaneId, rows: usize) -> Vec<ArrayRef> {
        let column = |t: Timestamp| Arc::new(TimestampMicrosecondArray::from_value(t.0, rows)) as ArrayRef;
        let columns = match self {
            Self::Whole => Vec::new(),
            Self::Assigned(_) | Self::Columns { .. } => vec![column(id.first_end), column(id.slice.start)],
        };
        debug_assert_eq!(columns.len(), self.name_width());
        columns
    }

    /// The panes that are named by the first columns of a batch without a selection, each with its rows.
    pub fn named(&self, states: &Batch) -> Result<Vec<(PaneId, Rows)>> {
        if self.name_width() == 0 {
            return Ok(vec![(PaneId::WHOLE, Rows::All)]);
        }
        let (ends, starts) = (states.times(0)?.values(), states.times(1)?.values());
        let (mut places, mut from) = (ByPane::default(), 0);
        while from < ends.len() {
            let is_other = |row: &usize| (ends[*row], starts[*row]) != (ends[from], starts[from]);
            let to = (from + 1..ends.len()).find(is_other).unwrap_or(ends.len());
            let (first_end, start) = (Timestamp(ends[from]), Timestamp(starts[from]));
            let slice = match self {
                Self::Assigned(spec) => spec.grid.slice(start),
                Self::Whole | Self::Columns { .. } => Some(Window { start, end: first_end }),
            };
            let slice = slice.ok_or_else(|| Error::bug("a pane lies between windows"))?;
            places.put_run(PaneId { first_end, slice }, from..to);
            from = to;
        }
        Ok(places.finish(ends.len()).panes)
    }

    /// The windows that see a pane, earliest first.
    pub fn windows(&self, id: PaneId) -> impl Iterator<Item = Window> {
        let (grid, only) = match self {
            Self::Assigned(spec) => (Some(spec.grid.windows(id.slice.start)), None),
            Self::Whole | Self::Columns { .. } => (None, Some(id.slice)),
        };
        grid.into_iter().flatten().filter(move |window| window.end >= id.first_end).chain(only)
    }

    /// The end of the last window that sees a pane.
    pub fn last_end(&self, id: PaneId) -> Timestamp {
        match self {
            Self::Assigned(spec) => spec.grid.last_end(id.slice.start),
            Self::Whole | Self::Columns { .. } => id.slice.end,
        }
    }

    /// Whether the window that ends at `end` takes no more rows where time has come to `reached`.
    pub fn is_closed(&self, end: Timestamp, reached: Timestamp) -> bool {
        match self {
            Self::Whole => reached == Timestamp::MAX,
            Self::Assigned(spec) => spec.is_closed(end, reached),
            Self::Columns { clock, .. } => clock.instant(end) <= reached,
        }
    }

    /// The instant at which a window that ends at `end` is over. Where a watermark has passed behind the aggregate, all windows
    /// that were over then are emitted: they were closed, since [`Windowing::hold`] holds watermarks back for as long as windows stay
    /// open behind their end.
    pub fn over(&self, end: Timestamp) -> Timestamp {
        match self {
            Self::Whole => Timestamp::MAX,
            Self::Assigned(WindowSpec { clock, .. }) | Self::Columns { clock, .. } => clock.instant(end),
        }
    }

    /// Whether a window holds one instant: its rows stand where rows in the order of time do.
    pub fn is_instant(&self, window: Window) -> bool {
        window.start.plus(Interval(1)) == window.end && self.over(window.end) == window.end
    }

    /// How far a watermark may pass when time has come to `reached`: results that are still to come are not behind it.
    pub fn hold(&self, reached: Timestamp) -> Timestamp {
        match self {
            Self::Whole if reached < Timestamp::MAX => Timestamp::MIN,
            Self::Assigned(spec) => reached.minus(spec.allowed),
            Self::Whole | Self::Columns { .. } => reached,
        }
    }

    /// The columns of a window's bounds, if the output has them.
    pub fn bounds(&self, window: Window, rows: usize, output: &Fields) -> Option<[ArrayRef; 3]> {
        let clock = match self {
            Self::Whole => return None,
            Self::Assigned(spec) => &spec.clock,
            Self::Columns { clock, .. } => clock,
        };
        let column = |t: i64| TimestampMicrosecondArray::from_value(t, rows);
        let last = column(clock.instant(window.end).0 - 1);
        let zone = match output[2].data_type() {
            arrow_schema::DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        let last = last.with_timezone_opt(zone);
        Some([Arc::new(column(window.start.0)), Arc::new(column(window.end.0)), Arc::new(last)])
    }

    /// The panes that a window sees, in order.
    pub fn members<'a>(&self, window: Window, panes: &'a mut BTreeMap<PaneId, Pane>) -> Vec<(PaneId, &'a mut Pane)> {
        let sees = |id: &PaneId| match self {
            Self::Assigned(_) => window.start <= id.slice.start && id.slice.end <= window.end,
            // One window may lie within another.
            Self::Whole | Self::Columns { .. } => id.slice == window,
        };
        let ended = panes.iter_mut().take_while(|(id, _)| id.first_end <= window.end);
        ended.filter(|(id, _)| sees(id)).map(|(id, pane)| (*id, pane)).collect()
    }
}
