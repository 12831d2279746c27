//! Which pane the rows of an instant go into, where a window is an instant: one pane holds many.
//!
//! ```text
//! time     0123456789…               each instant is a window
//! panes    [0,4) [4,8) [8,12) …      whose groups have their time as a key
//! ```
//!
//! Spans are as long as a few make up what time goes over at once, and longer where time waits long for many.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{ArrayRef, TimestampMicrosecondArray, cast::AsArray, types::TimestampMicrosecondType};
use thalweg_core::{Batch, Interval, Result, Timestamp, Window};

use super::{
    placing::{Assigned, ByPane, Find, Place, place},
    values::Values,
    windowing::{PaneId, Windowing},
};
use crate::window::{Clock, WindowSpec};

/// Time goes over so many spans at once, about, so that few groups are in a pane of which it passes some alone.
const PARTS: i64 = 4;

/// A span is not shorter than so many parts of the time for which rows wait, so that there are a few thousand at most.
const MOST: i64 = 1024;

/// Finds the panes of rows.
#[derive(Clone, Debug)]
pub struct Spans {
    /// The input column that carries event time.
    time: usize,
    /// How long a row may come after its instant.
    allowed: Interval,
    /// The spans that have a pane, by their starts: where each ends.
    spans: BTreeMap<i64, i64>,
    /// The one that was found last: neighbours are usually in the same one.
    last: Option<Window>,
    /// How far time has come, and how far it goes at once, about.
    reached: Timestamp,
    step: i64,
}

impl Spans {
    /// For windows that hold one instant each; `None` for others.
    pub fn of(windowing: &Windowing) -> Option<Self> {
        let Windowing::Assigned(WindowSpec { time, grid, clock: Clock::Utc, allowed, from_first_row: false }) =
            windowing
        else {
            return None;
        };
        let are_instants = grid.size() == Interval(1) && grid.slide() == Interval(1);
        are_instants.then(|| Self {
            time: *time,
            allowed: *allowed,
            spans: BTreeMap::new(),
            last: None,
            reached: Timestamp::MIN,
            step: 0,
        })
    }

    /// The pane of each selected row.
    pub fn assign(&mut self, batch: &Batch) -> Result<Assigned> {
        let times = batch.times(self.time)?.values();
        if self.step == 0 {
            let (first, last) = batch
                .rows()
                .map(|row| times[row])
                .fold((i64::MAX, i64::MIN), |(first, last), time| (first.min(time), last.max(time)));
            self.step = last.saturating_sub(first).max(1);
        }
        let reached = self.reached;
        Ok(place(batch, times, reached, self))
    }

    /// The panes of groups with these times; those that are late have none, if they may be.
    pub fn divide(&mut self, times: &[i64], may_be_late: bool) -> Assigned {
        self.begin(times.iter().copied());
        let met = if may_be_late { self.reached } else { Timestamp::MIN };
        let mut places = ByPane::default();
        for (number, time) in times.iter().enumerate() {
            places.put(number, self.pane(Timestamp(*time), met));
        }
        places.finish(times.len())
    }

    /// What the expressions give for rows of a batch, with their time as the first key.
    pub fn timed(&self, mut values: Values, batch: &Batch) -> Result<Values> {
        let times = batch.times(self.time)?.values();
        let times = match batch.selection() {
            None => TimestampMicrosecondArray::new(times.clone(), None),
            Some(_) => TimestampMicrosecondArray::from_iter_values(batch.rows().map(|row| times[row])),
        };
        values.keys.insert(0, Arc::new(times));
        Ok(values)
    }

    /// As long as nobody knows how far time goes at once, it goes over the rows of a batch.
    fn begin(&mut self, times: impl Iterator<Item = i64>) {
        if self.step == 0 {
            let ends = |(first, last): (i64, i64), time: i64| (first.min(time), last.max(time));
            let (first, last) = times.fold((i64::MAX, i64::MIN), ends);
            self.step = last.saturating_sub(first).max(1);
        }
    }

    /// Time has come so far.
    pub fn go(&mut self, reached: Timestamp) {
        let step = reached.0.saturating_sub(self.reached.0);
        if step > 0 && self.reached.is_in_range() && reached.is_in_range() {
            // A gap is no pace.
            let step = if self.step == 0 { step } else { step.min(self.step.saturating_mul(8)) };
            self.step = (self.step / 4 * 3 + step / 4).max(1);
        }
        self.reached = self.reached.max(reached);
    }

    /// How far time has come.
    pub fn reached(&self) -> Timestamp {
        self.reached
    }

    /// Time had come so far where groups were saved.
    pub fn reach(&mut self, reached: Timestamp) {
        self.reached = self.reached.max(reached);
    }

    /// Instants before this one take no more rows.
    pub fn closed_before(&self) -> i64 {
        self.reached.minus(self.allowed).0
    }

    /// How far a watermark may pass: results that are still to come are not behind it.
    pub fn hold(&self) -> Timestamp {
        self.reached.minus(self.allowed)
    }

    /// A pane is gone.
    pub fn leave(&mut self, id: PaneId) {
        self.spans.remove(&id.slice.start.0);
        self.last = None;
    }

    /// How many bytes of memory it takes, about.
    pub fn bytes(&self) -> usize {
        self.spans.len() * 4 * size_of::<i64>()
    }

    /// The span of an instant, new if need be.
    fn span(&mut self, time: i64) -> Window {
        let before = self.spans.range(..=time).next_back().map(|(start, end)| (*start, *end));
        if let Some((start, end)) = before.filter(|(_, end)| time < *end) {
            return Window { start: Timestamp(start), end: Timestamp(end) };
        }
        let all = self.spans.first_key_value().zip(self.spans.last_key_value());
        let all = all.map_or(0, |((first, _), (last, _))| last.saturating_sub(*first));
        let length = 1 << (self.step / PARTS).max(all / MOST).max(1).ilog2();
        let start = time & !(length - 1);
        let end = start.saturating_add(length);
        // Spans of another length may stand beside it.
        let start = before.map_or(start, |(_, end)| start.max(end));
        let end = self.spans.range(time..).next().map_or(end, |(next, _)| end.min(*next));
        self.spans.insert(start, end);
        Window { start: Timestamp(start), end: Timestamp(end) }
    }
}

impl Find for Spans {
    fn pane(&mut self, time: Timestamp, met: Timestamp) -> Place {
        if time.plus(Interval(1)).plus(self.allowed) <= met {
            return Place::Late(None);
        }
        let slice = match self.last {
            Some(last) if last.start <= time && time < last.end => last,
            _ => self.span(time.0),
        };
        self.last = Some(slice);
        Place::OnTime(PaneId { first_end: slice.start.plus(Interval(1)), slice })
    }

    fn is_even(&self) -> bool {
        true
    }
}

/// The columns that name panes of groups with these times to another aggregate.
pub fn named(times: &ArrayRef) -> Result<[ArrayRef; 2]> {
    let starts = times.as_primitive::<TimestampMicrosecondType>();
    let ends: TimestampMicrosecondArray = starts.unary(|start| Timestamp(start).plus(Interval(1)).0);
    Ok([Arc::new(ends), ArrayRef::clone(times)])
}

#[cfg(test)]
mod tests {
    use arrow_array::RecordBatch;
    use thalweg_core::window::Grid;

    use super::*;

    fn spans() -> Spans {
        let grid = Grid::new(Interval(1), Interval(1), Interval(0)).unwrap();
        let spec = WindowSpec { time: 0, grid, clock: Clock::Utc, allowed: Interval(0), from_first_row: false };
        Spans::of(&Windowing::Assigned(spec)).unwrap()
    }

    fn assign(spans: &mut Spans, times: impl Iterator<Item = i64>) -> Vec<PaneId> {
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(times));
        let batch = Batch::new(RecordBatch::try_from_iter([("ts", times)]).unwrap());
        spans.assign(&batch).unwrap().panes.into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn only_instants_share_panes() {
        for (size, slide) in [(2, 2), (1, 2), (2, 1)] {
            let grid = Grid::new(Interval(size), Interval(slide), Interval(0)).unwrap();
            let spec = WindowSpec { time: 0, grid, clock: Clock::Utc, allowed: Interval(0), from_first_row: false };
            assert!(Spans::of(&Windowing::Assigned(spec)).is_none());
        }
    }

    #[test]
    fn time_goes_over_a_few_panes_at_once() {
        let mut spans = spans();
        for step in [1_000, 1_000_000, 10] {
            // Until that is known, which takes a while.
            let mut counts = Vec::new();
            for _ in 0..100 {
                let from = spans.reached.0.max(0);
                counts.push(
                    assign(&mut spans, (0..step).step_by(1.max(step as usize / 500)).map(|row| from + row)).len(),
                );
                spans.go(Timestamp(from + step));
                // Of a pane that time has come into the groups go that it has passed, and the others into new panes.
                let gone = spans.spans.range(..from + step).map(|(start, end)| (*start, *end));
                let gone: Vec<_> = gone.collect();
                for (start, end) in gone {
                    let slice = Window { start: Timestamp(start), end: Timestamp(end) };
                    spans.leave(PaneId { first_end: slice.start, slice });
                }
            }
            let count = *counts.last().unwrap();
            assert!((3..20).contains(&count), "{count} panes for a step of {step}");
        }
    }

    #[test]
    fn rows_that_wait_long_are_in_no_more_panes_than_there_may_be() {
        let mut spans = spans();
        assign(&mut spans, 0..4);
        for row in 0..100_000 {
            assign(&mut spans, std::iter::once(row * 100));
            spans.go(Timestamp(row));
        }
        assert!((500..10_000).contains(&spans.spans.len()), "{} panes", spans.spans.len());
        let mut ends = spans.spans.iter().map(|(start, end)| (*start, *end)).peekable();
        while let Some((start, end)) = ends.next() {
            assert!(start < end && ends.peek().is_none_or(|(next, _)| end <= *next), "panes share no time");
        }
    }

    #[test]
    fn what_is_late_has_no_pane() {
        let mut spans = spans();
        spans.go(Timestamp(100));
        let late = |spans: &mut Spans, time| spans.pane(Timestamp(time), Timestamp(100)) == Place::Late(None);
        assert!(late(&mut spans, 99) && !late(&mut spans, 100));
        spans.allowed = Interval(10);
        assert!(late(&mut spans, 89) && !late(&mut spans, 90));
        assert_eq!((spans.closed_before(), spans.hold()), (90, Timestamp(90)));
    }
}
