//! Partitions become batches and watermarks.
//!
//! The watermark of a partition follows from its rows in sequence alone: the highest event time so far, minus the delay. So
//! which rows are late depends neither on batches nor on how partitions interleave.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use thalweg_core::{
    Batch, Error, Event, Interval, Origin, Result, Selection, Timestamp,
    connector::{Read, Reader},
    expression::Expression,
};
use thalweg_memory::{
    kernels::bounds::{Extent, bounds, extent},
    simd::Level,
};
use thalweg_plan::node::WatermarkStrategy;

use crate::{
    align,
    clock::Clock,
    lateness::Learner,
    metrics::{Counters, NodeCounters, PartitionProgress},
};

/// Some partitions of one source, read by one task.
pub struct SourceReader {
    partitions: Vec<Partition>,
    shape: Arc<SourceShape>,
    counters: Arc<Counters>,
    /// What is measured, if it is.
    timed: Option<Arc<NodeCounters>>,
    emitted: Timestamp,
    is_idle: bool,
    /// Whether rows are on their way that could not be read yet.
    is_busy: bool,
    /// Its part in keeping step with other sources, if there are such.
    step: Option<align::Step>,
}

/// What all instances of a source share.
pub struct SourceShape {
    /// The node's name.
    pub label: String,
    /// What the columns are computed by, if they are not just those that are read.
    pub computed: Option<(Vec<Arc<dyn Expression>>, SchemaRef)>,
    /// How event time is followed.
    pub watermark: Option<WatermarkStrategy>,
    /// Whether rows without a usable event time are counted and dropped.
    pub skips_bad_rows: bool,
    /// The most rows in a batch.
    pub batch_rows: usize,
    /// How long a batch may wait to fill.
    pub linger: Duration,
    /// When a silent partition is no longer waited for.
    pub idle: Option<Duration>,
    /// What time it is.
    pub clock: Clock,
}

/// What a turn at a source gave.
pub enum Step {
    /// Events, caused by an arrival at this time (nanoseconds since the query's start).
    Events(Vec<Event>, u64),
    /// A reader asked for a barrier.
    Barrier,
    /// Nothing until woken, or until the instant.
    Wait(Option<Instant>),
    /// All partitions are at their end.
    End,
}

struct Partition {
    number: u32,
    reader: Box<dyn Reader>,
    /// What the reader gave that comes behind the waiting rows.
    next: Option<Read>,
    progress: Arc<PartitionProgress>,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    /// When the first of the waiting rows arrived.
    arrived: Option<(Instant, u64)>,
    last_rows: Instant,
    offset: u64,
    highest: Timestamp,
    watermark: Timestamp,
    /// What learns how far time stays behind the rows, and that, as far as it is known; if it is learnt.
    learner: Option<(Learner, Option<Interval>)>,
    /// The time of the first row, if it is learnt.
    first: Option<Timestamp>,
    bad_rows: u64,
    is_silence_told: bool,
    state: PartitionState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PartitionState {
    Active,
    Idle,
    Ended,
}

impl SourceReader {
    /// A reader of these partitions, given with their numbers and names.
    pub fn new(
        partitions: Vec<(u32, String, Box<dyn Reader>)>,
        shape: Arc<SourceShape>,
        counters: Arc<Counters>,
    ) -> Self {
        let has_watermark = shape.watermark.is_some();
        let open = |(number, name, reader)| Partition {
            number,
            reader,
            next: None,
            progress: counters.partition(name, has_watermark),
            waiting: Vec::new(),
            waiting_rows: 0,
            arrived: None,
            last_rows: shape.clock.now(),
            offset: 0,
            highest: Timestamp::MIN,
            watermark: Timestamp::MIN,
            learner: shape.watermark.as_ref().and_then(|strategy| {
                let delay = (strategy.delay > Interval(0)).then_some(strategy.delay);
                Some((Learner::new(strategy.accuracy?), delay))
            }),
            first: None,
            bad_rows: 0,
            is_silence_told: false,
            state: PartitionState::Active,
        };
        let partitions = partitions.into_iter().map(open).collect();
        let timed = counters.timed_source(&shape.label);
        Self { partitions, shape, counters, timed, emitted: Timestamp::MIN, is_idle: false, is_busy: false, step: None }
    }

    /// It keeps step with other sources from now on.
    pub fn keep_step(&mut self, step: align::Step) {
        self.step = Some(step);
    }

    /// Reads on, unless others should go first.
    pub fn step(&mut self) -> Result<Step> {
        if let Some(step) = &self.step
            && let Some(until) = step.pause(self.shape.clock.now())
        {
            return Ok(Step::Wait(Some(until)));
        }
        self.is_busy = false;
        let read = self.measured()?;
        if let Some(step) = &self.step {
            let active = self.partitions.iter().filter(|p| p.state == PartitionState::Active);
            let reached = active.map(|p| p.watermark).min();
            let has_rows = self.is_busy || !matches!(read, Step::Wait(_) | Step::End);
            step.reach(reached.unwrap_or(Timestamp::MAX), reached.is_some() && has_rows);
        }
        Ok(read)
    }

    /// Reads on, and measures how long that takes if it is asked for. What readers decode on threads of their own is not in it.
    fn measured(&mut self) -> Result<Step> {
        let Some(timed) = self.timed.clone() else { return self.read_on() };
        let started = Instant::now();
        let step = self.read_on()?;
        timed.nanos.fetch_add(started.elapsed().as_nanos() as u64, Relaxed);
        if let Step::Events(events, _) = &step {
            let rows = events.iter().map(|event| if let Event::Batch(batch) = event { batch.len() } else { 0 });
            let rows = rows.sum::<usize>() as u64;
            timed.rows_in.fetch_add(rows, Relaxed);
            timed.rows_out.fetch_add(rows, Relaxed);
        }
        Ok(step)
    }

    /// Reads on: from the partition that is furthest behind in event time, so that the others do not pile up state.
    fn read_on(&mut self) -> Result<Step> {
        let mut until: Option<Instant> = None;
        let mut order: Vec<usize> = (0..self.partitions.len()).collect();
        order.retain(|i| self.partitions[*i].state != PartitionState::Ended);
        if order.is_empty() {
            return Ok(Step::End);
        }
        order.sort_by_key(|i| (self.partitions[*i].watermark, self.partitions[*i].offset, *i));
        for i in order {
            match self.step_partition(i)? {
                Step::Wait(at) => until = [until, at].into_iter().flatten().min(),
                step => return Ok(step),
            }
        }
        Ok(Step::Wait(until))
    }

    fn step_partition(&mut self, i: usize) -> Result<Step> {
        let (shape, counters) = (Arc::clone(&self.shape), Arc::clone(&self.counters));
        let partition = &mut self.partitions[i];
        loop {
            let room = shape.batch_rows - partition.waiting_rows;
            if room == 0 {
                return self.emit_rows(i);
            }
            let read = match partition.next.take() {
                Some(read) => read,
                None => partition.reader.read(room).map_err(|error| error.in_node(&shape.label))?,
            };
            let bad_rows = partition.reader.bad_rows();
            counters.bad_rows.fetch_add(bad_rows - std::mem::replace(&mut partition.bad_rows, bad_rows), Relaxed);
            match read {
                Read::Rows(rows) => {
                    let now = shape.clock.now();
                    partition.take_in(rows, &counters, now);
                    // To fill up what is half full would copy it; and where rows dribble in, there is always one more.
                    let is_half_full = partition.waiting.len() == 1 && 2 * partition.waiting_rows > shape.batch_rows;
                    let has_lingered = partition.arrived.is_some_and(|(since, _)| now - since > shape.linger);
                    if is_half_full || has_lingered {
                        return self.emit_rows(i);
                    }
                }
                // What waits came before what comes now.
                _ if partition.waiting_rows > 0 && !matches!(read, Read::Wait(_) | Read::Busy) => {
                    partition.next = Some(read);
                    return self.emit_rows(i);
                }
                Read::Wait(at) => return self.wait(i, at),
                Read::Busy => {
                    // Rows are on their way, so that it is not silent.
                    self.is_busy = true;
                    partition.last_rows = shape.clock.now();
                    return self.wait(i, None);
                }
                other => return self.emit_other(i, other),
            }
        }
    }

    /// Nothing more is there: what waits goes when it has lingered, and a silent partition becomes idle.
    fn wait(&mut self, i: usize, at: Option<Instant>) -> Result<Step> {
        let now = self.shape.clock.now();
        let partition = &mut self.partitions[i];
        let mut until = at;
        if let Some((arrived, _)) = partition.arrived {
            let due = arrived + self.shape.linger;
            if due <= now {
                return self.emit_rows(i);
            }
            until = Some(until.map_or(due, |at| at.min(due)));
        }
        if let Some(idle) = self.shape.idle.filter(|_| partition.state == PartitionState::Active) {
            let due = partition.last_rows + idle;
            if due <= now {
                let name = &partition.progress.name;
                let silence =
                    format!("partition {name} has had no rows for {idle:?}: it is not waited for until it has");
                // The first time tells that results may now depend on the clock; a partition that pauses often says it once.
                match std::mem::replace(&mut partition.is_silence_told, true) {
                    false => tracing::warn!("{silence}"),
                    true => tracing::info!("{silence}"),
                }
                return self.emit_other(i, Read::Idle);
            }
            until = Some(until.map_or(due, |at| at.min(due)));
        }
        Ok(Step::Wait(until))
    }

    fn emit_rows(&mut self, i: usize) -> Result<Step> {
        let shape = Arc::clone(&self.shape);
        let partition = &mut self.partitions[i];
        partition.state = PartitionState::Active;
        partition.progress.is_idle.store(false, Relaxed);
        let arrived = partition.arrived.take().map_or(0, |(_, arrived)| arrived);
        let batch = partition.batch(&shape, &self.counters).map_err(|error| error.in_node(&shape.label))?;
        let mut events = vec![Event::Batch(batch)];
        self.is_idle = false;
        events.extend(self.watermark());
        Ok(Step::Events(events, arrived))
    }

    fn emit_other(&mut self, i: usize, read: Read) -> Result<Step> {
        let partition = &mut self.partitions[i];
        match read {
            Read::Barrier => return Ok(Step::Barrier),
            Read::Watermark(t) => {
                partition.state = PartitionState::Active;
                partition.progress.is_idle.store(false, Relaxed);
                partition.move_to(t);
                self.is_idle = false;
            }
            Read::Idle => partition.set_silent(PartitionState::Idle),
            Read::End | Read::Rows(_) | Read::Wait(_) | Read::Busy => partition.set_silent(PartitionState::Ended),
        }
        let now = self.counters.now();
        let is_over = self.partitions.iter().all(|p| p.state == PartitionState::Ended);
        if is_over {
            return Ok(Step::Events(vec![Event::Watermark(Timestamp::MAX)], now));
        }
        let mut events: Vec<Event> = self.watermark().into_iter().collect();
        let is_idle = self.partitions.iter().all(|p| p.state != PartitionState::Active);
        if is_idle && !self.is_idle {
            events.push(Event::Idle);
        }
        self.is_idle = is_idle;
        Ok(Step::Events(events, now))
    }

    /// The slowest active partition's watermark, if it is news.
    fn watermark(&mut self) -> Option<Event> {
        let active = self.partitions.iter().filter(|p| p.state == PartitionState::Active);
        let t = active.map(|p| p.watermark).min()?;
        (t > self.emitted).then(|| {
            self.emitted = t;
            Event::Watermark(t)
        })
    }
}

impl Partition {
    fn take_in(&mut self, rows: RecordBatch, counters: &Counters, now: Instant) {
        self.last_rows = now;
        self.arrived.get_or_insert((self.last_rows, counters.now()));
        self.waiting_rows += rows.num_rows();
        self.waiting.push(rows);
        counters.rows_in.fetch_add(self.waiting.last().map_or(0, RecordBatch::num_rows) as u64, Relaxed);
    }

    fn set_silent(&mut self, state: PartitionState) {
        self.state = state;
        self.progress.is_idle.store(true, Relaxed);
    }

    fn move_to(&mut self, watermark: Timestamp) {
        self.watermark = self.watermark.max(watermark);
        self.progress.watermark.store(self.watermark.0, Relaxed);
    }

    /// The rows that waited, as a batch that knows where it came from and which of its rows are behind the watermark.
    fn batch(&mut self, shape: &SourceShape, counters: &Counters) -> Result<Batch> {
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
                let extent = extent(Level::best(), batch.times(strategy.column)?.values());
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
            None => times.chunks(PASS).for_each(|times| pass.over(times)),
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

/// How many rows are looked at together: if even the earliest of them is not behind the watermark after all of them, none is.
const PASS: usize = 128;

/// The watermark's way through rows.
struct Pass {
    highest: Timestamp,
    watermark: Timestamp,
    delay: Interval,
    /// Whether a row was behind the watermark that it met.
    is_behind: bool,
}

impl Pass {
    fn over(&mut self, times: &[i64]) {
        let Some((first, last)) = bounds(Level::best(), times) else { return };
        let highest = self.highest.max(Timestamp(last));
        let watermark = self.watermark.max(highest.minus(self.delay));
        if watermark > Timestamp(first) {
            // What a row raises the watermark to does not wait for the one before it.
            let (mut reached, mut is_behind) = (self.watermark.0, false);
            for time in times {
                is_behind |= *time < reached;
                reached = reached.max(Timestamp(*time).minus(self.delay).0);
            }
            self.is_behind |= is_behind;
        }
        (self.highest, self.watermark) = (highest, watermark);
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
    use arrow_array::TimestampMicrosecondArray;
    use thalweg_plan::Accuracy;

    use super::*;

    /// Gives what it is told to.
    struct Told(std::vec::IntoIter<Read>);

    impl Reader for Told {
        fn read(&mut self, _: usize) -> Result<Read> {
            Ok(self.0.next().unwrap_or(Read::End))
        }
    }

    fn rows(times: &[i64]) -> Read {
        let column = Arc::new(TimestampMicrosecondArray::from(times.to_vec())) as arrow_array::ArrayRef;
        Read::Rows(RecordBatch::try_from_iter_with_nullable([("ts", column, true)]).unwrap())
    }

    fn reader(partitions: Vec<Vec<Read>>, batch_rows: usize) -> SourceReader {
        learning(partitions, batch_rows, None)
    }

    fn learning(partitions: Vec<Vec<Read>>, batch_rows: usize, accuracy: Option<Accuracy>) -> SourceReader {
        let shape = SourceShape {
            label: "Source".into(),
            computed: None,
            watermark: Some(WatermarkStrategy { column: 0, delay: Interval(2), accuracy }),
            skips_bad_rows: false,
            batch_rows,
            linger: Duration::ZERO,
            idle: None,
            clock: Clock::System,
        };
        let told = partitions.into_iter().enumerate().map(|(number, reads)| {
            let reader: Box<dyn Reader> = Box::new(Told(reads.into_iter()));
            (number as u32, number.to_string(), reader)
        });
        SourceReader::new(told.collect(), Arc::new(shape), Arc::new(Counters::default()))
    }

    /// What the source gives, in words: `rows 5 6 behind 3 4`, `watermark 4`, `idle`, `end`.
    fn story(mut reader: SourceReader) -> Vec<String> {
        let mut story = Vec::new();
        loop {
            match reader.step().unwrap() {
                Step::Events(events, _) => story.extend(events.iter().map(words)),
                Step::Barrier => story.push("barrier".into()),
                Step::Wait(_) => {}
                Step::End => return story,
            }
        }
    }

    fn words(event: &Event) -> String {
        let list = |times: &[i64]| times.iter().map(|t| format!(" {t}")).collect::<String>();
        match event {
            Event::Batch(batch) => {
                let met = batch.behind().map(|met| met.iter().map(|t| t.0.max(-1)).collect::<Vec<_>>());
                let met = met.map(|met| format!(" behind{}", list(&met))).unwrap_or_default();
                format!("rows{}{met}", list(batch.times(0).unwrap().values()))
            }
            Event::Watermark(Timestamp::MAX) => "end".into(),
            Event::Watermark(t) => format!("watermark {}", t.0),
            Event::Idle => "idle".into(),
            Event::Barrier(_) => "barrier".into(),
        }
    }

    #[test]
    fn what_a_row_met_follows_from_the_rows_before_it_and_not_from_batches() {
        let whole = story(reader(vec![vec![rows(&[5, 9, 6, 10, 7])]], 10));
        assert_eq!(whole, ["rows 5 9 6 10 7 behind -1 3 7 7 8", "watermark 8", "end"]);
        let halves = story(reader(vec![vec![rows(&[5, 9]), rows(&[6, 10]), rows(&[7])]], 2));
        assert_eq!(
            halves,
            ["rows 5 9", "watermark 7", "rows 6 10 behind 7 7", "watermark 8", "rows 7 behind 8", "end"]
        );
    }

    #[test]
    fn rows_that_are_looked_at_together_meet_what_they_would_one_by_one() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 33) % below) as i64
        };
        let mut behind = 0;
        for round in 0..300 {
            let (disorder, delay) = (random(50) + 1, Interval(random(60) - 5));
            let times: Vec<i64> = (0..random(700)).map(|i| i - random(disorder as u64)).collect();
            let start = || Pass { highest: Timestamp::MIN, watermark: Timestamp::MIN, delay, is_behind: false };
            let (mut together, mut single) = (start(), start());
            times.chunks(PASS).for_each(|times| together.over(times));
            times.iter().for_each(|t| single.meet(*t));
            let state = |pass: &Pass| (pass.highest, pass.watermark, pass.is_behind);
            assert_eq!(state(&together), state(&single), "round {round}");
            behind += usize::from(single.is_behind);
        }
        assert!((50..250).contains(&behind), "some rounds have rows that are behind, and some have none: {behind}");
    }

    #[test]
    fn a_delay_that_is_learnt_depends_on_the_rows_and_not_on_batches() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 33) % below) as i64
        };
        let times: Vec<i64> = (0..6_000).map(|i| i * 10 - random(1_000)).collect();
        let met = |batch_rows: usize| {
            let reads = times.chunks(batch_rows).map(rows).collect();
            let mut reader = learning(vec![reads], batch_rows, Some("0.99".parse().unwrap()));
            let (mut all, mut last) = (Vec::new(), Timestamp::MIN);
            loop {
                match reader.step().unwrap() {
                    Step::End => return (all, last),
                    Step::Events(events, _) => events.into_iter().for_each(|event| match event {
                        Event::Batch(batch) => all.extend(match batch.behind() {
                            Some(met) => {
                                (0..batch.len()).map(|row| batch.times(0).unwrap().value(row) < met[row].0).collect()
                            }
                            None => vec![false; batch.len()],
                        }),
                        Event::Watermark(t) if t < Timestamp::MAX => last = t,
                        _ => {}
                    }),
                    _ => {}
                }
            }
        };
        let (behind, last) = met(6_000);
        // Before the first 1,024 it is what was declared.
        let late = behind[1024..].iter().filter(|late| **late).count();
        assert!((5..200).contains(&late), "{late} rows are late");
        assert!(last.0 > 58_500 && last.0 < 59_300, "at the end time is {}", last.0);
        for batch_rows in [1, 7, 64, 1000] {
            assert_eq!(met(batch_rows), (behind.clone(), last), "batches of {batch_rows} rows");
        }
    }

    #[test]
    fn the_partition_that_is_furthest_behind_is_read_first_and_holds_time_back() {
        let partitions = vec![vec![rows(&[10]), rows(&[20])], vec![rows(&[5]), rows(&[6]), rows(&[30])]];
        let told = story(reader(partitions, 1));
        let expected = [
            "rows 10",
            "rows 5",
            "watermark 3",
            "rows 6",
            "watermark 4",
            "rows 30",
            "watermark 8",
            "rows 20",
            "watermark 18",
        ];
        assert_eq!(told[..9], expected);
        assert_eq!(told[9..], ["watermark 28", "end"]);
    }

    #[test]
    fn an_idle_partition_is_not_waited_for_until_it_gives_rows_again() {
        let partitions = vec![vec![rows(&[10])], vec![Read::Idle, rows(&[12])]];
        assert_eq!(story(reader(partitions, 1)), ["rows 10", "watermark 8", "rows 12", "watermark 10", "end"]);
        let silent = vec![vec![Read::Idle, rows(&[4])]];
        assert_eq!(story(reader(silent, 1)), ["idle", "rows 4", "watermark 2", "end"]);
    }

    #[test]
    fn what_comes_behind_waiting_rows_waits_for_them() {
        let told = story(reader(vec![vec![rows(&[1]), Read::Barrier, rows(&[2]), Read::Watermark(Timestamp(9))]], 10));
        assert_eq!(told, ["rows 1", "watermark -1", "barrier", "rows 2", "watermark 0", "watermark 9", "end"]);
    }

    #[test]
    fn a_row_without_event_time_is_an_error_that_names_the_row() {
        let column = Arc::new(TimestampMicrosecondArray::from(vec![Some(1), None])) as arrow_array::ArrayRef;
        let bad = || Read::Rows(RecordBatch::try_from_iter_with_nullable([("ts", Arc::clone(&column), true)]).unwrap());
        let error = reader(vec![vec![rows(&[0]), bad()]], 10).step().err().unwrap();
        assert_eq!(error.to_string(), "event time \"ts\" is null in row 3 of 0 (in Source)");
    }
}
