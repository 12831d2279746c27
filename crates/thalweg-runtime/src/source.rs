//! Partitions become batches and watermarks.
//!
//! The watermark of a partition follows from its rows in sequence alone: the highest event time so far, minus the delay. So
//! which rows are late depends neither on batches nor on how partitions interleave ([`partition`]).

mod partition;

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use arrow_schema::SchemaRef;
use partition::{Partition, PartitionState};
use thalweg_core::{
    Event, Result, Timestamp,
    connector::{Read, Reader},
    expression::Expression,
};
use thalweg_plan::node::WatermarkStrategy;

use crate::{
    align,
    clock::Clock,
    metrics::{Counters, NodeCounters},
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

impl SourceReader {
    /// A reader of these partitions, given with their numbers and names.
    pub fn new(
        partitions: Vec<(u32, String, Box<dyn Reader>)>,
        shape: Arc<SourceShape>,
        counters: Arc<Counters>,
    ) -> Self {
        let has_watermark = shape.watermark.is_some();
        let open =
            |(number, name, reader)| Partition::new(number, reader, counters.partition(name, has_watermark), &shape);
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

#[cfg(test)]
mod tests {
    use arrow_array::{RecordBatch, TimestampMicrosecondArray};
    use thalweg_core::Interval;
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
