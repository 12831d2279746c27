//! Puts each row into its windows.

mod clock;

use std::{collections::VecDeque, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch, TimestampMicrosecondArray, UInt32Array};
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use arrow_select::take::take;
pub use clock::Clock;
use thalweg_core::{
    Batch, Frontier, Interval, KeyGroup, Operator, Output, Port, Progress, Result, Snapshot, State, Timestamp,
    window::Grid,
};

use crate::rows;

/// Where windows lie and until when they take rows.
#[derive(Clone, Debug)]
pub struct WindowSpec {
    /// The input column that carries event time.
    pub time: usize,
    /// The windows, in the clock's time.
    pub grid: Grid,
    /// Which time the windows follow.
    pub clock: Clock,
    /// How long after its end a window takes rows.
    pub allowed: Interval,
    /// Whether the grid is moved so that a window starts at the smallest event time.
    pub from_first_row: bool,
}

impl WindowSpec {
    /// Whether the window that ends at `end` takes no more rows from where time has come to `t`.
    pub fn is_closed(&self, end: Timestamp, t: Timestamp) -> bool {
        self.closes(end) <= t
    }

    /// From when on the window that ends at `end` takes no more rows.
    pub fn closes(&self, end: Timestamp) -> Timestamp {
        self.clock.instant(end).plus(self.allowed)
    }
}

/// Gives each row once per window that contains it and still takes it, with the window's bounds behind its columns.
///
/// Shape:  row → row + `window_start`, `window_end` (in the clock's time), `window_time` (the last instant inside).
/// Units:  microseconds of event time.
/// State:  none; with windows from the first row, that row's time, and all rows until it is known.
/// Errors: none. A row that came too late for one of its windows is counted.
pub struct Window {
    spec: WindowSpec,
    output: SchemaRef,
    /// How far time has come.
    reached: Timestamp,
    anchor: Option<Timestamp>,
    /// Rows that wait for the anchor, or for room in the output.
    waiting: VecDeque<Waiting>,
    /// How many rows of the first waiting batch are done.
    done: usize,
}

/// Rows, and how far time had come when they arrived.
struct Waiting {
    reached: Timestamp,
    rows: Batch,
}

const VERSION: u16 = 2;

impl Window {
    /// Puts rows into these windows; `output` is the input's columns and three more.
    pub fn new(spec: WindowSpec, output: SchemaRef) -> Self {
        Self { spec, output, reached: Timestamp::MIN, anchor: None, waiting: VecDeque::new(), done: 0 }
    }

    fn is_anchored(&self) -> bool {
        !self.spec.from_first_row || self.anchor.is_some()
    }

    /// Assigns rows of a batch from the `done`-th on, until about `room` rows are made; returns the rows and how far it got.
    fn assign(&self, waiting: &Waiting, room: usize, out: &mut Output) -> Result<(Batch, usize)> {
        let Waiting { reached, rows: batch } = waiting;
        let times = batch.times(self.spec.time)?.values();
        let (mut from, mut windows, mut done) = (Vec::new(), Vec::new(), self.done);
        for row in batch.rows().skip(self.done) {
            if from.len() >= room {
                break;
            }
            let reached = batch.behind().map_or(*reached, |behind| behind[row].max(*reached));
            let mut is_late = false;
            for window in self.spec.grid.windows(self.spec.clock.local(Timestamp(times[row]))) {
                if self.spec.is_closed(window.end, reached) {
                    is_late = true;
                } else {
                    from.push(row as u32);
                    windows.push(window);
                }
            }
            out.count_late(usize::from(is_late));
            done += 1;
        }
        // The rows that a row becomes stand where it stood, in this order.
        let positions = batch.positions().map(|positions| Arc::new(positions.of(&from)));
        let rows = Batch::new(self.with_bounds(batch, from, &windows)?);
        Ok((positions.map_or(rows.clone(), |positions| rows.with_positions(positions)), done))
    }

    fn with_bounds(&self, batch: &Batch, from: Vec<u32>, windows: &[thalweg_core::Window]) -> Result<RecordBatch> {
        let from = UInt32Array::from(from);
        let taken = batch.columns().columns().iter().map(|column| Ok(take(column, &from, None)?));
        let mut columns = taken.collect::<Result<Vec<_>>>()?;
        columns.extend(bounds(&self.spec, windows, self.output.fields()[columns.len() + 2].data_type()));
        Ok(RecordBatch::try_new(Arc::clone(&self.output), columns)?)
    }

    /// Fixes the anchor when every row that is on time and earlier than `reached` must have arrived, and one has.
    fn find_anchor(&mut self, reached: Timestamp) -> Result<()> {
        let (mut on_time, mut any) = (Timestamp::MAX, Timestamp::MAX);
        for Waiting { rows: batch, .. } in &self.waiting {
            let times = batch.times(self.spec.time)?.values();
            for row in batch.rows() {
                let t = Timestamp(times[row]);
                any = any.min(t);
                if batch.behind().is_none_or(|behind| behind[row] <= t) {
                    on_time = on_time.min(t);
                }
            }
        }
        // If no row ever was on time, the end of the stream still has to decide.
        let first = if on_time == Timestamp::MAX && reached == Timestamp::MAX { any } else { on_time };
        if first < reached {
            self.anchor_at(first);
        }
        Ok(())
    }

    fn anchor_at(&mut self, first: Timestamp) {
        self.anchor = Some(first);
        self.spec.grid = self.spec.grid.anchored_at(self.spec.clock.local(first));
    }
}

/// The columns `window_start`, `window_end` and `window_time` (of the given type) of windows.
fn bounds(spec: &WindowSpec, windows: &[thalweg_core::Window], time: &DataType) -> [ArrayRef; 3] {
    let last = windows.iter().map(|window| spec.clock.instant(window.end).0 - 1);
    let zone = if let DataType::Timestamp(TimeUnit::Microsecond, zone) = time { zone.clone() } else { None };
    let last = TimestampMicrosecondArray::from_iter_values(last).with_timezone_opt(zone);
    let column = |t: fn(&thalweg_core::Window) -> Timestamp| {
        Arc::new(TimestampMicrosecondArray::from_iter_values(windows.iter().map(|window| t(window).0))) as ArrayRef
    };
    [column(|window| window.start), column(|window| window.end), Arc::new(last)]
}

impl Operator for Window {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        self.waiting.push_back(Waiting { reached: self.reached, rows: batch });
        self.resume(out)
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        if !self.is_anchored() {
            self.find_anchor(frontier.combined())?;
        }
        self.reached = frontier.combined();
        self.resume(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        while self.is_anchored()
            && let Some(waiting) = self.waiting.pop_front()
        {
            let (rows, done) = self.assign(&waiting, out.room(), out)?;
            out.emit(rows)?;
            if done < waiting.rows.len() {
                self.done = done;
                self.waiting.push_front(waiting);
                return Ok(Progress::More);
            }
            self.done = 0;
        }
        // Rows that wait are still to come for who is behind.
        let passed = self.waiting.front().map_or(self.reached, |first| first.reached);
        out.hold(passed.minus(self.spec.allowed));
        Ok(Progress::Done)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        if self.spec.from_first_row { Some(self) } else { None }
    }
}

impl State for Window {
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        if group != KeyGroup::FIRST {
            return Ok(Snapshot::default());
        }
        let mut snapshot = Snapshot::new(VERSION);
        snapshot.number(self.reached.0);
        snapshot.number(self.anchor.unwrap_or(Timestamp::MAX).0);
        let batches: Vec<_> = self.waiting.iter().map(|waiting| waiting.rows.clone()).collect();
        rows::save(&batches, &mut snapshot)?;
        self.waiting.iter().for_each(|waiting| snapshot.number(waiting.reached.0));
        Ok(snapshot)
    }

    fn load(&mut self, group: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        if group == KeyGroup::FIRST {
            let mut snapshot = snapshot.read(VERSION)?;
            self.reached = Timestamp(snapshot.number()?);
            match Timestamp(snapshot.number()?) {
                Timestamp::MAX => self.anchor = None,
                first => self.anchor_at(first),
            }
            let batches = rows::load(&mut snapshot)?.into_iter();
            let waiting = batches.map(|rows| Ok(Waiting { reached: Timestamp(snapshot.number()?), rows }));
            self.waiting = waiting.collect::<Result<_>>()?;
        }
        Ok(())
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        if group == KeyGroup::FIRST {
            (self.anchor, self.reached) = (None, Timestamp::MIN);
            self.waiting.clear();
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.waiting.iter().map(|waiting| waiting.rows.bytes()).sum()
    }
}
