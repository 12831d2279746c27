//! Rows whose aggregates are computed together.

use std::{ops::Range, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, make_array, new_empty_array};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, SchemaRef};
use thalweg_core::{
    Batch, Result,
    aggregate::{Accumulator, Amounts},
    operator::Search,
};

use super::{
    asked::{Asked, Looked, Summed},
    blocks::{self, pay},
    entry::{At, Entry},
    frame::Spans,
    kept::{Kept, hashes},
    layout::Place,
    lines::Lines,
    order::Sorter,
    past::Past,
    places::{self, Tells},
    totals::Total,
};

/// So many rows that are seen are aggregated together.
const SEEN: usize = 16_384;

/// After so many rows that were seen others may run.
const TURN: usize = 1 << 20;

/// Rows whose aggregates are being computed; its memory stays for those to come.
#[derive(Default)]
pub struct Chunk {
    /// The numbers of the rows, which are in the order of time, in the order of keys.
    order: Vec<u32>,
    /// Their times in this order.
    times: Vec<i64>,
    /// Each key, with where its rows are in this order.
    keys: Vec<(u32, Range<usize>)>,
    /// Where their values lie.
    rows: Vec<At>,
    /// By frame which rows they see, in the order of keys, where these follow each other.
    spans: Vec<Spans>,
    /// How many of these have been looked at for aggregates that need all rows that are seen.
    done: usize,
    /// By frame up to where it is settled whether rows need not be looked at one by one.
    settled: Vec<Settled>,
    accumulators: Vec<Box<dyn Accumulator>>,
    /// For each aggregate that follows from totals those of each row.
    totals: Vec<Sums>,
    /// By frame the rows whose totals are no numbers for certain.
    unsure: Vec<Unsure>,
    /// What was looked at and found since this was last taken.
    pub search: Search,
}

/// Up to where in the order of keys something is known, and whether all has been found there.
#[derive(Clone, Copy, Default)]
struct Settled {
    end: usize,
    is_found: bool,
}

/// What rows add up to.
#[derive(Default)]
struct Sums {
    counts: Vec<u64>,
    sums: Vec<i128>,
}

/// Some of the rows of a chunk.
#[derive(Default)]
struct Unsure {
    /// Whether each is among them; empty if none is.
    are: Vec<bool>,
}

impl Sums {
    /// Those of so many rows are found next, each of them.
    fn begin(&mut self, rows: usize) {
        self.counts.resize(rows, 0);
        self.sums.resize(rows, 0);
    }

    /// What some rows of a line, all of which count, add up to.
    fn put_narrow(&mut self, order: &[u32], sums: &[i64], starts: &[usize], ends: &[usize]) {
        for ((row, start), end) in order.iter().zip(starts).zip(ends) {
            self.counts[*row as usize] = (end - start) as u64;
            self.sums[*row as usize] = i128::from(sums[*end].wrapping_sub(sums[*start]));
        }
    }

    fn forget(&mut self, row: usize) {
        self.counts.get_mut(row).into_iter().for_each(|count| *count = 0);
        self.sums.get_mut(row).into_iter().for_each(|sum| *sum = 0);
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>() + self.sums.capacity() * size_of::<i128>()
    }
}

impl Unsure {
    fn put(&mut self, row: usize, rows: usize) {
        self.are.resize(rows, false);
        self.are[row] = true;
    }

    fn has(&self, row: usize) -> bool {
        self.are.get(row).is_some_and(|is_unsure| *is_unsure)
    }
}

/// Rows that are seen, and by which row of a chunk.
#[derive(Default)]
struct Seen {
    rows: Vec<At>,
    groups: Vec<u32>,
}

impl Chunk {
    /// Begins with these rows, which are in the order of time, and finds what follows from totals.
    pub fn begin(
        &mut self,
        bases: &[Entry],
        asked: &Asked,
        lines: &mut Lines,
        kept: &Kept,
        sorter: &mut Sorter,
    ) -> Result<()> {
        sorter.by_key(bases, &mut self.order);
        self.find_keys(bases);
        self.rows.clear();
        self.rows.extend(bases.iter().map(|base| base.at));
        self.done = 0;
        self.accumulators = asked.functions.iter().map(|function| function.accumulator()).collect::<Result<_>>()?;
        self.totals.resize_with(asked.functions.len(), Sums::default);
        self.spans.resize_with(asked.frames.len(), Spans::default);
        self.spans.iter_mut().for_each(Spans::clear);
        self.settled = vec![Settled::default(); asked.frames.len()];
        self.unsure = asked.frames.iter().map(|_| Unsure::default()).collect();
        let adds_own = asked.frames.iter().any(|looked| looked.adds_own && looked.is_contiguous);
        let own = if adds_own { asked.amounts(kept, bases, 0..bases.len())? } else { Vec::new() };
        for (frame, looked) in asked.frames.iter().enumerate().filter(|(_, looked)| looked.is_contiguous) {
            self.look_around(frame, looked, bases, asked, lines);
            self.sum(frame, looked, bases, asked, lines, &own);
        }
        Ok(())
    }

    /// Finds where the rows of each key are.
    fn find_keys(&mut self, bases: &[Entry]) {
        let Self { order, times, keys, .. } = self;
        times.clear();
        keys.clear();
        for (place, number) in order.iter().enumerate() {
            let Entry { key, time, .. } = bases[*number as usize];
            times.push(time);
            match keys.last_mut() {
                Some((last, places)) if *last == key => places.end = place + 1,
                _ => keys.push((key, place..place + 1)),
            }
        }
    }

    /// Finds which rows those of this chunk see.
    fn look_around(&mut self, frame: usize, looked: &Looked, bases: &[Entry], asked: &Asked, lines: &mut Lines) {
        for (key, places) in &self.keys {
            let times = &self.times[places.clone()];
            let bases = self.order[places.clone()].iter().map(|number| &bases[*number as usize]);
            let (line, near) = lines.followed(*key, frame);
            let (last, spans) = (near.clone(), &mut self.spans[frame]);
            let first = spans.starts.len();
            looked.frame.spans(times, bases, line, asked.is_base_seen, near, spans);
            // Both ends have passed the rows in between.
            self.search.visited += (near.start.abs_diff(last.start) + near.end.abs_diff(last.end)) as u64;
            let found = spans.starts[first..].iter().zip(&spans.ends[first..]).map(|(start, end)| end - start);
            self.search.found += found.sum::<usize>() as u64;
        }
    }

    /// Finds the totals for the aggregates of a frame that follow from totals.
    fn sum(&mut self, frame: usize, looked: &Looked, bases: &[Entry], asked: &Asked, lines: &Lines, own: &[Amounts]) {
        let (order, Spans { starts, ends, .. }) = (&self.order, &self.spans[frame]);
        let unsure = &mut self.unsure[frame];
        for call in looked.calls.clone() {
            let Some(summed) = asked.summed[call] else { continue };
            let found = &mut self.totals[call];
            found.begin(bases.len());
            for (key, places) in &self.keys {
                let (order, starts, ends) = (&order[places.clone()], &starts[places.clone()], &ends[places.clone()]);
                let running = match summed {
                    Summed::Rows => None,
                    Summed::Total(kind) | Summed::Times(kind) => lines.line(*key).running(kind),
                };
                if let Some((running, gone)) = running
                    && let Some(sums) = running.narrow()
                    && !looked.adds_own
                {
                    found.put_narrow(order, &sums[gone..], starts, ends);
                    continue;
                }
                let mut put = |number: usize, total: Option<Total>| {
                    let row = order[number] as usize;
                    let own = || match summed {
                        Summed::Rows => Some(Total { count: 1, sum: 0 }),
                        Summed::Total(kind) | Summed::Times(kind) => amount(&own[kind], row),
                    };
                    match if looked.adds_own { total.and_then(|total| total.plus(own()?)) } else { total } {
                        Some(Total { count, sum }) => (found.counts[row], found.sums[row]) = (count, sum),
                        // It is forgotten with all others of the row.
                        None => unsure.put(row, bases.len()),
                    }
                };
                match running {
                    Some((running, gone)) => running.of(starts, ends, gone, put),
                    // Where there are no totals of a key it has no rows.
                    None => starts.iter().zip(ends).enumerate().for_each(|(number, (start, end))| {
                        put(number, Some(Total { count: (end - start) as u64, sum: 0 }));
                    }),
                }
            }
        }
        // All totals of a row of which one is no number are found from the rows that it sees.
        for row in (0..unsure.are.len()).filter(|row| unsure.are[*row]) {
            let unsure = looked.calls.clone().filter(|call| asked.may_be_unsure(*call));
            unsure.for_each(|call| self.totals[call].forget(row));
        }
    }

    /// Looks at rows one by one where that must be; whether all is done.
    pub fn look(&mut self, bases: &[Entry], asked: &Asked, lines: &Lines, kept: &Kept) -> Result<bool> {
        let needs_all = |looked: &Looked| looked.calls.clone().any(|call| asked.summed[call].is_none());
        let needs_all: Vec<bool> = asked.frames.iter().map(needs_all).collect();
        let looks = |frame: usize| needs_all[frame] || !self.unsure[frame].are.is_empty();
        let frames: Vec<usize> = (0..asked.frames.len()).filter(|frame| looks(*frame)).collect();
        if frames.is_empty() {
            self.done = self.order.len();
        }
        let (mut left, mut near) = (TURN, vec![0..0; asked.frames.len()]);
        // Rows that are seen, by frame: for aggregates that need all, and for those whose totals are no numbers.
        let mut seen: Vec<[Seen; 2]> = asked.frames.iter().map(|_| Default::default()).collect();
        let mut last = u32::MAX;
        while self.done < self.order.len() && left > 0 {
            let number = self.order[self.done];
            let base = bases[number as usize];
            if std::mem::replace(&mut last, base.key) != base.key {
                near.fill(0..0);
            }
            let line = lines.line(base.key);
            for frame in &frames {
                let (looked, seen, near) = (&asked.frames[*frame], &mut seen[*frame], &mut near[*frame]);
                if looked.has_blocks && self.settled[*frame].end <= self.done {
                    left = left.saturating_sub(self.settle(*frame, looked, bases, asked, lines, kept)?);
                }
                let is_found = looked.has_blocks && self.settled[*frame].is_found;
                let wanted = [needs_all[*frame] && !is_found, self.unsure[*frame].has(number as usize)];
                for (seen, _) in seen.iter_mut().zip(wanted).filter(|(_, is_wanted)| *is_wanted) {
                    looked.frame.rows(&base, line, asked.is_base_seen, near, &mut seen.rows);
                    let rows = seen.rows.len() - seen.groups.len();
                    self.search.visited += rows as u64;
                    // Those of frames without gaps were found before.
                    self.search.found += if looked.is_contiguous { 0 } else { rows as u64 };
                    left = left.saturating_sub(rows);
                    seen.groups.resize(seen.rows.len(), number);
                }
                left = left.saturating_sub(1);
                if seen.iter().any(|seen| seen.rows.len() >= SEEN) {
                    self.update(looked, asked, kept, seen, bases.len())?;
                }
            }
            self.done += 1;
        }
        for (looked, seen) in asked.frames.iter().zip(&mut seen) {
            self.update(looked, asked, kept, seen, bases.len())?;
        }
        Ok(self.done == self.order.len())
    }

    /// Finds what is asked of the next rows of one key from blocks of those that they see, if that pays; returns how many these are.
    fn settle(
        &mut self,
        frame: usize,
        looked: &Looked,
        bases: &[Entry],
        asked: &Asked,
        lines: &Lines,
        kept: &Kept,
    ) -> Result<usize> {
        let key = bases[self.order[self.done] as usize].key;
        let same = self.order[self.done..].iter().take_while(|number| bases[**number as usize].key == key).count();
        let end = self.done + same;
        let (order, spans) = (&self.order[self.done..end], &self.spans[frame]);
        let (starts, ends) = (&spans.starts[self.done..end], &spans.ends[self.done..end]);
        let all = starts[0]..ends[same - 1].max(starts[0]);
        let seen = starts.iter().zip(ends).map(|(start, end)| end - start).sum();
        let is_found = all.len() <= TURN && pay(same, all.len(), seen);
        self.settled[frame] = Settled { end, is_found };
        if !is_found {
            return Ok(0);
        }
        self.search.visited += all.len() as u64;
        let rows: Vec<At> = lines.line(key).rows()[all.clone()].iter().map(|entry| entry.at).collect();
        let windows = order.iter().zip(starts.iter().zip(ends));
        let windows: Vec<_> = windows.map(|(row, (start, end))| (start - all.start..end - all.start, *row)).collect();
        for call in looked.calls.clone().filter(|call| asked.summed[*call].is_none()) {
            let (function, accumulator) = (asked.functions[call].as_ref(), self.accumulators[call].as_mut());
            let values = asked.gathered(call, kept, &rows)?;
            blocks::add(function, &values, rows.len(), windows.clone(), accumulator, bases.len())?;
            if looked.adds_own {
                let own: Vec<At> = order.iter().map(|number| self.rows[*number as usize]).collect();
                let (arguments, filter) = asked.gathered(call, kept, &own)?;
                accumulator.update(&arguments, filter.as_ref(), order, bases.len())?;
            }
        }
        Ok(all.len())
    }

    /// Adds rows that were seen to the aggregates of a frame.
    fn update(
        &mut self,
        looked: &Looked,
        asked: &Asked,
        kept: &Kept,
        seen: &mut [Seen; 2],
        count: usize,
    ) -> Result<()> {
        for (follows, seen) in [false, true].into_iter().zip(seen) {
            if seen.rows.is_empty() {
                continue;
            }
            let is_wanted =
                |call: &usize| if follows { asked.may_be_unsure(*call) } else { asked.summed[*call].is_none() };
            for call in looked.calls.clone().filter(is_wanted) {
                let (arguments, filter) = asked.gathered(call, kept, &seen.rows)?;
                self.accumulators[call].update(&arguments, filter.as_ref(), &seen.groups, count)?;
            }
            seen.rows.clear();
            seen.groups.clear();
        }
        Ok(())
    }

    /// The results; nobody asks for them again.
    pub fn batch(
        &mut self,
        bases: &[Entry],
        asked: &Asked,
        past: &Past,
        kept: &mut Kept,
        output: &SchemaRef,
        positions: Option<Tells>,
    ) -> Result<Batch> {
        let mut columns = passed(bases, &self.rows, asked, kept, output)?;
        columns.extend(self.aggregates(bases, asked, past, kept)?);
        let batch = Batch::new(RecordBatch::try_new(Arc::clone(output), columns)?);
        let batch = match positions {
            None => batch,
            Some(Tells::Position) => batch.with_positions(Arc::new(places::positions(bases, None))),
            Some(Tells::Content) => {
                batch.with_positions(Arc::new(places::positions(bases, Some(&hashes(kept, &self.rows)?))))
            }
        };
        kept.release_all(self.rows.drain(..));
        Ok(batch)
    }

    /// The results of all aggregates; nobody asks for them again.
    pub fn aggregates(&mut self, bases: &[Entry], asked: &Asked, past: &Past, kept: &Kept) -> Result<Vec<ArrayRef>> {
        let of_frame = |(frame, looked): (usize, &Looked)| looked.calls.clone().map(move |call| (call, frame));
        let calls: Vec<_> = asked.frames.iter().enumerate().flat_map(of_frame).collect();
        calls.into_iter().map(|(call, frame)| self.results(call, frame, bases, asked, past, kept)).collect()
    }

    /// The results of an aggregate.
    fn results(
        &mut self,
        call: usize,
        frame: usize,
        bases: &[Entry],
        asked: &Asked,
        past: &Past,
        kept: &Kept,
    ) -> Result<ArrayRef> {
        let accumulator = &mut self.accumulators[call];
        let has_past = asked.frames[frame].has_past && bases.iter().any(|base| past.has(base.key));
        if asked.summed[call].is_none() {
            // Rows at the end may have seen nothing.
            let arguments = asked.layout.calls[call].0.iter();
            let nothing: Vec<_> = arguments.map(|column| kept.nothing(*column, self.rows[0])).collect();
            accumulator.update(&nothing, None, &[], self.rows.len())?;
            if has_past {
                past.merge(call, bases, accumulator.as_mut())?;
            }
            return accumulator.take_result();
        }
        if let Some(Summed::Times(_)) = asked.summed[call] {
            let times = self.totals[call].sums.iter().zip(bases);
            let times =
                times.map(|(times, base)| *times as i64 + if has_past { past.times(call, base.key) } else { 0 });
            return Ok(Arc::new(Int64Array::from_iter_values(times)));
        }
        let (totals, Sums { counts, sums }) = (asked.totals(call)?, &self.totals[call]);
        if self.unsure[frame].are.is_empty()
            && !has_past
            && let Some(results) = totals.results(counts, sums)?
        {
            return Ok(results);
        }
        let groups: Vec<u32> = (0..self.rows.len() as u32).collect();
        accumulator.merge(&totals.states(counts, sums)?, &groups, self.rows.len())?;
        if has_past {
            past.merge(call, bases, accumulator.as_mut())?;
        }
        accumulator.take_result()
    }

    /// How many bytes of memory it keeps.
    pub fn bytes(&self) -> usize {
        let spans: usize = self.spans.iter().map(Spans::bytes).sum();
        let totals: usize = self.totals.iter().map(Sums::bytes).sum();
        let keys = self.keys.capacity() * size_of::<(u32, Range<usize>)>() + self.times.capacity() * size_of::<i64>();
        self.order.capacity() * size_of::<u32>() + self.rows.capacity() * size_of::<At>() + keys + spans + totals
    }
}

/// The columns of the first input that pass, of rows whose values lie there.
pub fn passed(bases: &[Entry], rows: &[At], asked: &Asked, kept: &Kept, output: &SchemaRef) -> Result<Vec<ArrayRef>> {
    let passed = asked.layout.passed.iter().zip(output.fields()).map(|(passed, field)| match passed.place {
        Place::Time => times(bases, field.data_type()),
        Place::Kept(column) => kept.gather(column, rows),
    });
    passed.collect()
}

/// The times of rows, as a column of this type.
fn times(rows: &[Entry], kind: &DataType) -> Result<ArrayRef> {
    let times = Buffer::from_vec(rows.iter().map(|row| row.time).collect::<Vec<_>>());
    let none = new_empty_array(kind).to_data().into_builder();
    Ok(make_array(none.len(rows.len()).buffers(vec![times]).build()?))
}

/// What a row adds to totals itself, if that is a number.
fn amount(own: &Amounts, row: usize) -> Option<Total> {
    if own.beyond.binary_search(&row).is_ok() {
        return None;
    }
    let counts = own.counted.as_ref().is_none_or(|counted| counted.value(row));
    Some(Total { count: u64::from(counts), sum: own.amounts.get(row) })
}
