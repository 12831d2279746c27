//! Puts the rows of a batch into panes: many neighbours at once, where all are in one pane.

use std::{collections::HashMap, ops::Range};

use arrow_array::UInt32Array;
use thalweg_core::{Batch, Selection, Timestamp, Window};
use thalweg_memory::{kernels::bounds::bounds, simd::Level};

use super::windowing::PaneId;
use crate::window::{Clock, WindowSpec};

/// Where the rows of a batch go.
pub struct Assigned {
    /// Panes and the rows that go into them. A pane may be named several times, a row once.
    pub panes: Vec<(PaneId, Rows)>,
    /// How many rows came too late for at least one window.
    pub late: usize,
}

/// Some of the selected rows of a batch, numbered among them.
#[derive(Clone, Debug, PartialEq)]
pub enum Rows {
    /// All.
    All,
    /// Those that stand beside each other.
    Range(Range<usize>),
    /// These.
    Some(UInt32Array),
}

/// Finds the pane of a row.
pub trait Find {
    /// That of a row of this time, which met this watermark.
    fn pane(&mut self, time: Timestamp, met: Timestamp) -> Place;

    /// Whether all times between two that are in one pane are in it.
    fn is_even(&self) -> bool;
}

/// The pane of each selected row by its time, where time has come to `reached`.
pub fn place(batch: &Batch, times: &[i64], reached: Timestamp, panes: &mut impl Find) -> Assigned {
    let mut places = ByPane::default();
    for from in (0..batch.len()).step_by(RUN) {
        let run = Run { batch, times, reached, rows: from..batch.len().min(from + RUN) };
        match run.shared(panes) {
            Some(id) => places.put_run(id, run.rows),
            None => run.rows().for_each(|(number, row)| {
                let met = batch.behind().map_or(reached, |behind| behind[row].max(reached));
                places.put(number, panes.pane(Timestamp(times[row]), met));
            }),
        }
    }
    places.finish(batch.len())
}

/// Where a row goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// Into this pane.
    OnTime(PaneId),
    /// Late for some windows, or for all.
    Late(Option<PaneId>),
    /// Between two windows.
    Nowhere,
}

/// Finds the panes of slices, remembering the last one: neighbours are usually in it.
pub struct Slices<'a> {
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

impl<'a> Slices<'a> {
    /// Those of these windows.
    pub fn new(spec: &'a WindowSpec) -> Self {
        Self { spec, last: None }
    }
}

impl Find for Slices<'_> {
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

    fn is_even(&self) -> bool {
        // The clock of a zone may be set back between the two.
        matches!(self.spec.clock, Clock::Utc)
    }
}

/// So many neighbours are looked at together first: most often all are in one pane.
const RUN: usize = 256;

/// Some selected rows that stand beside each other.
struct Run<'a> {
    batch: &'a Batch,
    times: &'a [i64],
    reached: Timestamp,
    /// Numbered among the selected ones.
    rows: Range<usize>,
}

impl Run<'_> {
    /// The pane that takes all of them, if there is one.
    fn shared(&self, panes: &mut impl Find) -> Option<PaneId> {
        if !panes.is_even() {
            return None;
        }
        let (first, last) = match self.batch.selection() {
            None => bounds(Level::best(), &self.times[self.rows.clone()])?,
            Some(_) => {
                let times = self.rows().map(|(_, row)| self.times[row]);
                times.fold((i64::MAX, i64::MIN), |(first, last), t| (first.min(t), last.max(t)))
            }
        };
        // What is on time for the latest watermark is so for all of them.
        let met = match self.batch.behind() {
            None => self.reached,
            Some(behind) => self.rows().fold(self.reached, |met, (_, row)| met.max(behind[row])),
        };
        match (panes.pane(Timestamp(first), met), panes.pane(Timestamp(last), met)) {
            (Place::OnTime(one), Place::OnTime(other)) if one == other => Some(one),
            _ => None,
        }
    }

    /// The number of each row among the selected ones, and among all.
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let selected = self.batch.selection().map(Selection::rows);
        self.rows.clone().map(move |number| (number, selected.map_or(number, |rows| rows[number] as usize)))
    }
}

/// The rows that were given a place so far, by pane.
#[derive(Default)]
pub struct ByPane {
    panes: Vec<(PaneId, Vec<Range<usize>>, Vec<u32>)>,
    known: HashMap<PaneId, usize>,
    /// The pane of the row before.
    last: usize,
    late: usize,
}

impl ByPane {
    fn of(&mut self, id: PaneId) -> &mut (PaneId, Vec<Range<usize>>, Vec<u32>) {
        if self.panes.get(self.last).is_none_or(|(other, ..)| *other != id) {
            self.last = *self.known.entry(id).or_insert_with(|| {
                self.panes.push((id, Vec::new(), Vec::new()));
                self.panes.len() - 1
            });
        }
        &mut self.panes[self.last]
    }

    /// Gives neighbours their place; rows come in order.
    pub fn put_run(&mut self, id: PaneId, rows: Range<usize>) {
        let (_, ranges, _) = self.of(id);
        match ranges.last_mut() {
            Some(last) if last.end == rows.start => last.end = rows.end,
            _ => ranges.push(rows),
        }
    }

    /// Gives a row its place; rows come in order.
    pub fn put(&mut self, number: usize, place: Place) {
        let id = match place {
            Place::OnTime(id) => id,
            Place::Late(id) => {
                self.late += 1;
                let Some(id) = id else { return };
                id
            }
            Place::Nowhere => return,
        };
        self.of(id).2.push(number as u32);
    }

    /// The rows of each pane, of so many in all.
    pub fn finish(self, all: usize) -> Assigned {
        let mut panes = Vec::with_capacity(self.panes.len());
        for (id, ranges, some) in self.panes {
            let rows = |range: Range<usize>| if range == (0..all) { Rows::All } else { Rows::Range(range) };
            panes.extend(ranges.into_iter().map(|range| (id, rows(range))));
            match some.len() {
                0 => {}
                count if count == all => panes.push((id, Rows::All)),
                _ => panes.push((id, Rows::Some(some.into()))),
            }
        }
        Assigned { panes, late: self.late }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use thalweg_core::{Interval, window::Grid};

    use super::*;

    #[test]
    fn runs_go_where_their_rows_would_go_one_by_one() {
        let mut random = StdRng::seed_from_u64(11);
        for round in 0..500 {
            let (size, slide) = [(1000, 1000), (1000, 300), (700, 900), (5, 5)][random.random_range(0..4)];
            let grid = Grid::new(Interval(size), Interval(slide), Interval(0)).unwrap();
            let allowed = Interval([0, 0, 400][random.random_range(0..3)]);
            let spec = WindowSpec { time: 0, grid, clock: Clock::Utc, allowed, from_first_row: false };
            let rows = random.random_range(0..2000);
            let disorder = [1, 1, 200, 5000][random.random_range(0..4)];
            let times: Vec<i64> = (0..rows).map(|row| 10_000 + row as i64 + random.random_range(0..disorder)).collect();
            let column: ArrayRef = Arc::new(TimestampMicrosecondArray::from(times.clone()));
            let mut batch = Batch::new(RecordBatch::try_from_iter([("ts", column)]).unwrap());
            if random.random_bool(0.3) {
                let kept: Vec<u32> = (0..rows as u32).filter(|_| random.random_bool(0.6)).collect();
                batch = batch.with_selection(Selection::new(kept));
            }
            if random.random_bool(0.3) {
                let lag = random.random_range(-1500..1500);
                batch = batch.with_behind((0..rows as i64).map(|row| Timestamp(10_000 + row - lag)).collect());
            }
            let reached = Timestamp(random.random_range(8_000..13_000));

            let mut slices = Slices::new(&spec);
            let (mut expected, mut late) = (vec![None; batch.len()], 0);
            for (number, row) in batch.rows().enumerate() {
                let met = batch.behind().map_or(reached, |behind| behind[row].max(reached));
                expected[number] = match slices.pane(Timestamp(times[row]), met) {
                    Place::OnTime(id) => Some(id),
                    Place::Late(id) => {
                        late += 1;
                        id
                    }
                    Place::Nowhere => None,
                };
            }
            let assigned = place(&batch, &times, reached, &mut Slices::new(&spec));
            let mut found = vec![None; batch.len()];
            for (id, rows) in assigned.panes {
                let rows: Vec<usize> = match rows {
                    Rows::All => (0..batch.len()).collect(),
                    Rows::Range(range) => range.collect(),
                    Rows::Some(rows) => rows.values().iter().map(|row| *row as usize).collect(),
                };
                for row in rows {
                    assert_eq!(found[row].replace(id), None, "round {round}: row {row} is put twice");
                }
            }
            let differs = (0..found.len()).find(|row| found[*row] != expected[*row]);
            let what = differs.map(|row| (row, found[row], expected[row]));
            assert_eq!(what, None, "round {round}: a row, where it went and where it should");
            assert_eq!(assigned.late, late, "round {round}");
        }
    }
}
