//! A partition's rows become batches, and its watermark follows from them.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use arrow_array::{Array, RecordBatch};
use arrow_select::concat::concat_batches;
use thalweg_core::{
    Batch, Error, Interval, Origin, Result, Selection, Timestamp,
    connector::{Read, Reader},
};
use thalweg_memory::{
    kernels::{
        behind::{SEQUENCES, has_behind},
        bounds::{Extent, PART, bounds_of_parts, extent_in_parts},
    },
    simd::Level,
};
use thalweg_plan::node::WatermarkStrategy;

use super::SourceShape;
use crate::{
    lateness::Learner,
    metrics::{Counters, PartitionProgress},
};

/// A partition on its way from rows to batches.
pub(super) struct Partition {
    number: u32,
    pub reader: Box<dyn Reader>,
    /// What the reader gave that comes behind the waiting rows.
    pub next: Option<Read>,
    pub progress: Arc<PartitionProgress>,
    pub waiting: Vec<RecordBatch>,
    pub waiting_rows: usize,
    /// When the first of the waiting rows arrived.
    pub arrived: Option<(Instant, u64)>,
    pub last_rows: Instant,
    pub offset: u64,
    highest: Timestamp,
    /// The bounds of some of a batch's times each, unless these ascend.
    parts: Vec<(i64, i64)>,
    pub watermark: Timestamp,
    /// What learns how far time stays behind the rows, and that, as far as it is known; if it is learnt.
    learner: Option<(Learner, Option<Interval>)>,
    /// The time of the first row, if it is learnt.
    first: Option<Timestamp>,
    pub bad_rows: u64,
    pub is_silence_told: bool,
    pub state: PartitionState,
}

/// Whether rows of a partition are waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PartitionState {
    Active,
    Idle,
    Ended,
}

impl Partition {
    /// That of this number, at its beginning.
    pub fn new(number: u32, reader: Box<dyn Reader>, progress: Arc<PartitionProgress>, shape: &SourceShape) -> Self {
        Self {
            number,
            reader,
            next: None,
            progress,
            waiting: Vec::new(),
            waiting_rows: 0,
            arrived: None,
            last_rows: shape.clock.now(),
            offset: 0,
            highest: Timestamp::MIN,
            parts: Vec::new(),
            watermark: Timestamp::MIN,
            learner: shape.watermark.as_ref().and_then(|strategy| {
                let delay = (strategy.delay > Interval(0)).then_some(strategy.delay);
                Some((Learner::new(strategy.accuracy?), delay))
            }),
            first: None,
            bad_rows: 0,
            is_silence_told: false,
            state: PartitionState::Active,
        }
    }

    /// Takes rows that were read, which wait to become a batch.
    pub fn take_in(&mut self, rows: RecordBatch, counters: &Counters, now: Instant) {
        self.last_rows = now;
        self.arrived.get_or_insert((self.last_rows, counters.now()));
        self.waiting_rows += rows.num_rows();
        self.waiting.push(rows);
        counters.rows_in.fetch_add(self.waiting.last().map_or(0, RecordBatch::num_rows) as u64, Relaxed);
    }

    /// Nobody waits for its rows any more, for now or for good.
    pub fn set_silent(&mut self, state: PartitionState) {
        self.state = state;
        self.progress.is_idle.store(true, Relaxed);
    }

    /// Its watermark moves on.
    pub fn move_to(&mut self, watermark: Timestamp) {
        self.watermark = self.watermark.max(watermark);
        self.progress.watermark.store(self.watermark.0, Relaxed);
    }

    /// The rows that waited, as a batch that knows where it came from and which of its rows are behind the watermark.
    pub fn batch(&mut self, shape: &SourceShape, counters: &Counters) -> Result<Batch> {
        let rows = match &self.waiting[..] {
            [only] => only.clone(),
            several => concat_batches(&several[0].schema(), several)?,
        };
        self.waiting.clear();
        self.waiting_rows = 0;
        let origin = Origin { partition: self.number, offset: self.offset };
        self.offset += rows.num_rows() as u64;
        let mut batch = Batch::new(rows).with_origin(origin);
        if let Some((expressions, schema)) = &shape.computed {
            let columns = expressions.iter().map(|e| e.evaluate(&batch)).collect::<Result<_>>()?;
            batch = batch.with_columns(RecordBatch::try_new(Arc::clone(schema), columns)?);
        }
        match &shape.watermark {
            None => Ok(batch),
            Some(strategy) => {
                let times = batch.times(strategy.column)?.values();
                let extent = extent_in_parts(Level::best(), times, &mut self.parts);
                let batch = self.without_unusable_times(batch, extent, *strategy, shape, counters)?;
                match self.learner.take() {
                    None => self.follow(batch, extent, *strategy),
                    Some(learning) => self.learn(batch, *strategy, learning, counters),
                }
            }
        }
    }

    /// A row must have an event time, within range.
    fn without_unusable_times(
        &self,
        batch: Batch,
        extent: Option<Extent>,
        strategy: WatermarkStrategy,
        shape: &SourceShape,
        counters: &Counters,
    ) -> Result<Batch> {
        let times = batch.times(strategy.column)?;
        if times.null_count() == 0
            && extent.is_none_or(|all| Timestamp(all.least).is_in_range() && Timestamp(all.most).is_in_range())
        {
            return Ok(batch);
        }
        let is_usable = |row: usize| times.is_valid(row) && Timestamp(times.value(row)).is_in_range();
        let Some(bad) = (0..times.len()).find(|row| !is_usable(*row)) else { return Ok(batch) };
        if shape.skips_bad_rows {
            let good: Vec<u32> = (0..times.len()).filter(|row| is_usable(*row)).map(|row| row as u32).collect();
            counters.bad_rows.fetch_add((times.len() - good.len()) as u64, Relaxed);
            return Ok(batch.with_selection(Selection::new(good)));
        }
        let schema = batch.schema();
        let column = schema.field(strategy.column).name();
        let what = if times.is_null(bad) { "is null" } else { "is out of range" };
        let row = batch.origin().map_or(0, |origin| origin.offset) + bad as u64 + 1;
        let message = format!("event time {column:?} {what} in row {row} of {}", self.progress.name);
        Err(Error::data(message).with_hint("'bad.rows' = 'skip' in the table's options counts and drops such rows"))
    }

    /// Moves the partition's watermark through the rows, and notes what each met if one is behind it.
    fn follow(&mut self, batch: Batch, extent: Option<Extent>, strategy: WatermarkStrategy) -> Result<Batch> {
        let Interval(delay) = strategy.delay;
        let times = batch.times(strategy.column)?.values();
        if let Some(highest) =
            extent.filter(|_| batch.selection().is_none()).and_then(|all| self.undisturbed(all, delay))
        {
            self.highest = highest;
            self.progress.latest.fetch_max(highest.0, Relaxed);
            self.move_to(highest.minus(strategy.delay));
            return Ok(batch);
        }
        // Only a row that is earlier than one before it by more than the delay is behind.
        let mut pass =
            Pass { highest: self.highest, watermark: self.watermark, delay: strategy.delay, is_behind: false };
        match batch.selection() {
            None => {
                if self.parts.is_empty() {
                    bounds_of_parts(Level::best(), times, &mut self.parts);
                }
                pass.over(times, &self.parts);
            }
            Some(selection) => selection.rows().iter().for_each(|row| pass.meet(times[*row as usize])),
        }
        let mut met = vec![Timestamp::MIN; if pass.is_behind { batch.physical_rows() } else { 0 }];
        if pass.is_behind {
            self.meet(&batch, times, delay, &mut met);
        }
        self.highest = pass.highest;
        self.progress.latest.fetch_max(pass.highest.0, Relaxed);
        self.move_to(pass.watermark);
        Ok(if pass.is_behind { batch.with_behind(met.into()) } else { batch })
    }

    /// The same where the delay is learnt from the rows as they come.
    fn learn(
        &mut self,
        batch: Batch,
        strategy: WatermarkStrategy,
        (mut learner, mut delay): (Learner, Option<Interval>),
        counters: &Counters,
    ) -> Result<Batch> {
        let times = batch.times(strategy.column)?.values();
        let (mut met, mut is_behind) = (vec![Timestamp::MIN; batch.physical_rows()], false);
        let (mut highest, mut watermark) = (self.highest, self.watermark);
        for row in batch.rows() {
            let t = Timestamp(times[row]);
            met[row] = watermark;
            is_behind |= t < watermark;
            let is_time = learner.see(if highest == Timestamp::MIN { 0 } else { highest.0 - t.0 }, t < watermark);
            highest = highest.max(t);
            let first = *self.first.get_or_insert(t);
            if is_time {
                let time = Interval(highest.0.saturating_sub(first.0));
                if let Some(learnt) = learner.delay(counters.results(time), time) {
                    self.progress.tell_lateness(delay.unwrap_or(Interval(0)), learnt);
                    delay = Some(learnt);
                }
            }
            if let Some(delay) = delay {
                watermark = watermark.max(highest.minus(delay));
            }
        }
        self.learner = Some((learner, delay));
        self.highest = highest;
        self.progress.latest.fetch_max(highest.0, Relaxed);
        self.move_to(watermark);
        Ok(if is_behind { batch.with_behind(met.into()) } else { batch })
    }

    /// The highest time so far, if it is plain that no row is behind: the rows ascend, or differ by less than the delay.
    fn undisturbed(&self, Extent { least, most, ascends }: Extent, delay: i64) -> Option<Timestamp> {
        let highest = self.highest.max(Timestamp(most));
        let is_close = self.watermark.max(highest.minus(Interval(delay))) <= Timestamp(least);
        let is_calm = is_close || self.watermark <= Timestamp(least) && delay >= 0 && ascends;
        is_calm.then_some(highest)
    }

    fn meet(&self, batch: &Batch, times: &[i64], delay: i64, met: &mut [Timestamp]) {
        let (mut highest, mut watermark) = (self.highest, self.watermark);
        for row in batch.rows() {
            met[row] = watermark;
            highest = highest.max(Timestamp(times[row]));
            watermark = watermark.max(highest.minus(Interval(delay)));
        }
    }
}

/// If even the earliest row of a part is not behind the watermark after all of them, none is. If some may be, so many parts are gone through
/// side by side, row by row: each row waits for the one before it.
const PARTS: usize = SEQUENCES;

/// The watermark's way through rows.
struct Pass {
    highest: Timestamp,
    watermark: Timestamp,
    delay: Interval,
    /// Whether a row was behind the watermark that it met.
    is_behind: bool,
}

impl Pass {
    /// All rows, of which the bounds of each part are known.
    fn over(&mut self, times: &[i64], bounds: &[(i64, i64)]) {
        for (times, bounds) in times.chunks(PARTS * PART).zip(bounds.chunks(PARTS)) {
            let (mut parts, mut met, mut are_close) = ([&times[..0]; PARTS], [i64::MIN; PARTS], true);
            for (((part, met), times), (first, last)) in
                parts.iter_mut().zip(&mut met).zip(times.chunks(PART)).zip(bounds.iter().copied())
            {
                (*part, *met) = (times, self.watermark.0);
                self.highest = self.highest.max(Timestamp(last));
                self.watermark = self.watermark.max(self.highest.minus(self.delay));
                are_close &= self.watermark <= Timestamp(first);
            }
            self.is_behind |= !are_close && self.has_behind(parts, met);
        }
    }

    /// Whether a row is behind the watermark that it meets; the first of each part meets one of these.
    fn has_behind(&self, parts: [&[i64]; PARTS], met: [i64; PARTS]) -> bool {
        // Times are in range.
        if Timestamp(self.delay.0).is_in_range() {
            return has_behind(Level::best(), parts, met, self.delay.0);
        }
        parts.into_iter().zip(met).any(|(times, mut met)| {
            times.iter().any(|time| {
                let is_behind = *time < met;
                met = met.max(Timestamp(*time).minus(self.delay).0);
                is_behind
            })
        })
    }

    #[inline]
    fn meet(&mut self, t: i64) {
        self.is_behind |= Timestamp(t) < self.watermark;
        self.highest = self.highest.max(Timestamp(t));
        self.watermark = self.watermark.max(self.highest.minus(self.delay));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts_of(times: &[i64]) -> Vec<(i64, i64)> {
        let mut parts = Vec::new();
        bounds_of_parts(Level::best(), times, &mut parts);
        parts
    }

    #[test]
    fn rows_that_are_looked_at_together_meet_what_they_would_one_by_one() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 33) % below) as i64
        };
        let mut behind = 0;
        for round in 0..300_usize {
            // Some are longer than times are apart.
            let delay = [i64::MAX, i64::MIN, random(60) - 5, random(60) - 5, random(60) - 5][round % 5];
            let (disorder, delay) = (random(50) + 1, Interval(delay));
            let times: Vec<i64> = (0..random(700)).map(|i| i - random(disorder as u64)).collect();
            let start = || Pass { highest: Timestamp::MIN, watermark: Timestamp::MIN, delay, is_behind: false };
            let (mut together, mut single) = (start(), start());
            together.over(&times, &parts_of(&times));
            times.iter().for_each(|t| single.meet(*t));
            let state = |pass: &Pass| (pass.highest, pass.watermark, pass.is_behind);
            assert_eq!(state(&together), state(&single), "round {round}");
            behind += usize::from(single.is_behind);
        }
        assert!((50..250).contains(&behind), "some rounds have rows that are behind, and some have none: {behind}");
    }

    #[test]
    fn one_row_that_is_behind_is_found_wherever_it_is() {
        let ascending: Vec<i64> = (0..3 * (PARTS * PART) as i64 - 7).collect();
        for row in 1..ascending.len() {
            for (late, is_behind) in [(10, false), (11, true)] {
                let mut times = ascending.clone();
                times[row] = times[row - 1] - late;
                let mut pass =
                    Pass { highest: Timestamp::MIN, watermark: Timestamp::MIN, delay: Interval(10), is_behind: false };
                pass.over(&times, &parts_of(&times));
                assert_eq!(pass.is_behind, is_behind, "row {row}");
            }
        }
    }
}
