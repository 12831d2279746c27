//! Which pane a row goes into, and which panes make a window.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use arrow_array::{ArrayRef, TimestampMicrosecondArray, UInt32Array};
use arrow_schema::Fields;
use thalweg_core::{Batch, Result, Timestamp, Window};

use thalweg_memory::{kernels::bounds::bounds, simd::Level};

use super::pane::Pane;
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
        clock: crate::window::Clock,
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

/// Where the rows of a batch go.
pub struct Assigned {
    /// Panes and the rows (numbered among the selected ones) that go into them; `None` is all.
    pub panes: Vec<(PaneId, Option<UInt32Array>)>,
    /// How many rows came too late for at least one window.
    pub late: usize,
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
            Self::Whole => Ok(Assigned { panes: vec![(PaneId::WHOLE, None)], late: 0 }),
            Self::Assigned(spec) => {
                let times = batch.times(spec.time)?.values();
                let mut slices = Slices { spec, last: None };
                if batch.behind().is_none()
                    && let Some((first, last)) = bounds(Level::best(), times)
                    && let Some(id) = slices.shared(Timestamp(first), Timestamp(last), reached)
                {
                    return Ok(Assigned { panes: vec![(id, None)], late: 0 });
                }
                Ok(collect(batch, |row| {
                    let met = batch.behind().map_or(reached, |behind| behind[row].max(reached));
                    slices.pane(Timestamp(times[row]), met)
                }))
            }
            Self::Columns { start, end, .. } => {
                let (starts, ends) = (batch.times(*start)?.values(), batch.times(*end)?.values());
                Ok(collect(batch, |row| {
                    let window = Window { start: Timestamp(starts[row]), end: Timestamp(ends[row]) };
                    match self.is_closed(window.end, reached) {
                        true => Place::Late(None),
                        false => Place::OnTime(PaneId { first_end: window.end, slice: window }),
                    }
                }))
            }
        }
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
}

/// The panes that a window sees, in order.
pub fn members(window: Window, panes: &mut BTreeMap<PaneId, Pane>) -> Vec<(PaneId, &mut Pane)> {
    let sees = |id: &PaneId| window.start <= id.slice.start && id.slice.end <= window.end;
    let ended = panes.iter_mut().take_while(|(id, _)| id.first_end <= window.end);
    ended.filter(|(id, _)| sees(id)).map(|(id, pane)| (*id, pane)).collect()
}

enum Place {
    OnTime(PaneId),
    /// Late for some windows, or for all.
    Late(Option<PaneId>),
    /// Between two windows.
    Nowhere,
}

/// Finds panes, remembering the last slice: neighbours are usually in the same one.
struct Slices<'a> {
    spec: &'a WindowSpec,
    last: Option<Slice>,
}

#[derive(Clone, Copy)]
struct Slice {
    span: Window,
    /// The end of the earliest window that contains it.
    first_end: Timestamp,
    /// When that window takes no more rows.
    closes: Timestamp,
}

impl Slices<'_> {
    /// The pane of all rows between two times, if it is one that takes them.
    fn shared(&mut self, first: Timestamp, last: Timestamp, reached: Timestamp) -> Option<PaneId> {
        match (self.spec.clock, self.pane(first, reached), self.pane(last, reached)) {
            // The clock of a zone may be set back between the two.
            (Clock::Utc, Place::OnTime(one), Place::OnTime(other)) if one == other => Some(one),
            _ => None,
        }
    }

    fn pane(&mut self, t: Timestamp, met: Timestamp) -> Place {
        let local = self.spec.clock.local(t);
        let Slice { span: slice, first_end, closes } = match self.last {
            Some(slice) if slice.span.start <= local && local < slice.span.end => slice,
            _ => {
                let Some(span) = self.spec.grid.slice(local) else { return Place::Nowhere };
                let first_end = self.spec.grid.first_end(span.start);
                *self.last.insert(Slice { span, first_end, closes: self.spec.closes(first_end) })
            }
        };
        if met < closes {
            return Place::OnTime(PaneId { first_end, slice });
        }
        let still_open = self.spec.grid.windows(local).find(|window| !self.spec.is_closed(window.end, met));
        Place::Late(still_open.map(|window| PaneId { first_end: window.end, slice }))
    }
}

fn collect(batch: &Batch, mut place: impl FnMut(usize) -> Place) -> Assigned {
    let mut panes: Vec<(PaneId, Vec<u32>)> = Vec::new();
    let mut late = 0;
    let mut known: HashMap<PaneId, usize> = HashMap::new();
    let mut last = 0;
    for (number, row) in batch.rows().enumerate() {
        let id = match place(row) {
            Place::OnTime(id) => id,
            Place::Late(id) => {
                late += 1;
                let Some(id) = id else { continue };
                id
            }
            Place::Nowhere => continue,
        };
        if panes.get(last).is_none_or(|(other, _)| *other != id) {
            last = *known.entry(id).or_insert_with(|| {
                panes.push((id, Vec::new()));
                panes.len() - 1
            });
        }
        panes[last].1.push(number as u32);
    }
    let all = batch.len();
    let whole = |rows: Vec<u32>| (rows.len() < all).then(|| UInt32Array::from(rows));
    Assigned { panes: panes.into_iter().map(|(id, rows)| (id, whole(rows))).collect(), late }
}
