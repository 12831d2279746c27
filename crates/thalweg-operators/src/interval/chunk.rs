//! Rows whose aggregates are computed together.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use thalweg_core::{
    Batch, Result,
    aggregate::{Accumulator, Amounts},
};

use super::{
    asked::{Asked, Looked, Summed},
    entry::{At, Entry},
    frame::Spans,
    kept::{Kept, hashes},
    lines::Lines,
    order::Sorter,
    places::positions,
    totals::Total,
};

/// So many rows that are seen are aggregated together.
const SEEN: usize = 16_384;

/// After so many rows that were seen others may run.
const TURN: usize = 1 << 20;

/// Rows whose aggregates are being computed.
pub struct Chunk {
    /// In the order of time.
    bases: Vec<Entry>,
    /// Their numbers in the order of keys.
    order: Vec<u32>,
    /// How many of these have been looked at for aggregates that need all rows that are seen.
    done: usize,
    accumulators: Vec<Box<dyn Accumulator>>,
    /// For each aggregate that follows from totals those of each row.
    totals: Vec<Sums>,
    /// By frame the rows whose totals are no numbers for certain.
    unsure: Vec<Unsure>,
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
    /// These rows, which are in the order of time, with what follows from totals.
    pub fn new(bases: Vec<Entry>, asked: &Asked, lines: &mut Lines, kept: &Kept, sorter: &mut Sorter) -> Result<Self> {
        let accumulators = asked.functions.iter().map(|function| function.accumulator()).collect::<Result<_>>()?;
        let mut chunk = Self {
            order: sorter.by_key(&bases),
            bases,
            done: 0,
            accumulators,
            totals: asked.functions.iter().map(|_| Sums::default()).collect(),
            unsure: asked.frames.iter().map(|_| Unsure::default()).collect(),
        };
        let adds_own = asked.frames.iter().any(|looked| looked.adds_own && looked.is_contiguous);
        let own = if adds_own { asked.amounts(kept, &chunk.bases)? } else { Vec::new() };
        for (frame, looked) in asked.frames.iter().enumerate() {
            if looked.calls.clone().any(|call| asked.summed[call].is_some()) {
                let spans = chunk.spans(frame, looked, asked, lines);
                chunk.sum(frame, looked, asked, lines, &spans, &own);
            }
        }
        Ok(chunk)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.bases.len()
    }

    /// In the order of keys: the numbers of rows of one key, and where these stand.
    fn keys(&self) -> impl Iterator<Item = (u32, std::ops::Range<usize>)> {
        let mut done = 0;
        let key = |number: &u32| self.bases[*number as usize].key;
        self.order.chunk_by(move |a, b| key(a) == key(b)).map(move |rows| {
            let from = done;
            done += rows.len();
            (key(&rows[0]), from..done)
        })
    }

    /// Which rows those of this chunk see, in the order of keys.
    fn spans(&self, frame: usize, looked: &Looked, asked: &Asked, lines: &mut Lines) -> Spans {
        let mut spans = Spans::default();
        for (key, rows) in self.keys() {
            let bases = self.order[rows].iter().map(|number| &self.bases[*number as usize]);
            let (line, near) = lines.followed(key, frame);
            looked.frame.spans(bases, line, asked.is_base_seen, near, &mut spans);
        }
        spans
    }

    /// Finds the totals for the aggregates of a frame that follow from totals.
    fn sum(&mut self, frame: usize, looked: &Looked, asked: &Asked, lines: &Lines, spans: &Spans, own: &[Amounts]) {
        let count = self.bases.len();
        let mut unsure = Unsure::default();
        for call in looked.calls.clone() {
            let Some(summed) = asked.summed[call] else { continue };
            let mut found = Sums { counts: vec![0; count], sums: vec![0; count] };
            let mut put = |place: usize, total: Option<Total>| {
                let row = self.order[place] as usize;
                let total = match summed {
                    Summed::Total(kind) if looked.adds_own => {
                        total.and_then(|total| total.plus(amount(&own[kind], row)?))
                    }
                    Summed::Rows if looked.adds_own => total.and_then(|total| total.plus(Total { count: 1, sum: 0 })),
                    _ => total,
                };
                match total {
                    Some(Total { count, sum }) => (found.counts[row], found.sums[row]) = (count, sum),
                    None => unsure.put(row, count),
                }
            };
            match summed {
                Summed::Rows => {
                    for (place, (start, end)) in spans.starts.iter().zip(&spans.ends).enumerate() {
                        put(place, Some(Total { count: (end - start) as u64, sum: 0 }));
                    }
                }
                Summed::Total(kind) => {
                    for (key, places) in self.keys() {
                        let (starts, ends) = (&spans.starts[places.clone()], &spans.ends[places.clone()]);
                        match lines.line(key).running(kind) {
                            Some((running, gone)) => {
                                running.of(starts, ends, gone, |number, total| put(places.start + number, total));
                            }
                            None => places.for_each(|place| put(place, Some(Total::default()))),
                        }
                    }
                }
            }
            self.totals[call] = found;
        }
        // All totals of such a row are found from the rows that it sees.
        for (row, _) in unsure.are.iter().enumerate().filter(|(_, is_unsure)| **is_unsure) {
            for Sums { counts, sums } in &mut self.totals[looked.calls.clone()] {
                counts.get_mut(row).into_iter().for_each(|count| *count = 0);
                sums.get_mut(row).into_iter().for_each(|sum| *sum = 0);
            }
        }
        self.unsure[frame] = unsure;
    }

    /// Looks at rows one by one where that must be; whether all is done.
    pub fn look(&mut self, asked: &Asked, lines: &Lines, kept: &Kept) -> Result<bool> {
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
            let base = self.bases[number as usize];
            if std::mem::replace(&mut last, base.key) != base.key {
                near.fill(0..0);
            }
            let line = lines.line(base.key);
            for frame in &frames {
                let (looked, seen, near) = (&asked.frames[*frame], &mut seen[*frame], &mut near[*frame]);
                let wanted = [needs_all[*frame], self.unsure[*frame].has(number as usize)];
                for (seen, _) in seen.iter_mut().zip(wanted).filter(|(_, is_wanted)| *is_wanted) {
                    looked.frame.rows(&base, line, asked.is_base_seen, near, &mut seen.rows);
                    left = left.saturating_sub(seen.rows.len() - seen.groups.len());
                    seen.groups.resize(seen.rows.len(), number);
                }
                left = left.saturating_sub(1);
                if seen.iter().any(|seen| seen.rows.len() >= SEEN) {
                    self.update(looked, asked, kept, seen)?;
                }
            }
            self.done += 1;
        }
        for (looked, seen) in asked.frames.iter().zip(&mut seen) {
            self.update(looked, asked, kept, seen)?;
        }
        Ok(self.done == self.order.len())
    }

    /// Adds rows that were seen to the aggregates of a frame.
    fn update(&mut self, looked: &Looked, asked: &Asked, kept: &Kept, seen: &mut [Seen; 2]) -> Result<()> {
        for (follows, seen) in [false, true].into_iter().zip(seen) {
            if seen.rows.is_empty() {
                continue;
            }
            for call in looked.calls.clone().filter(|call| asked.summed[*call].is_some() == follows) {
                let (arguments, filter) = asked.gathered(call, kept, &seen.rows)?;
                self.accumulators[call].update(&arguments, filter.as_ref(), &seen.groups, self.bases.len())?;
            }
            seen.rows.clear();
            seen.groups.clear();
        }
        Ok(())
    }

    /// The results; nobody asks for them again.
    pub fn batch(mut self, asked: &Asked, kept: &mut Kept, output: &SchemaRef, has_positions: bool) -> Result<Batch> {
        let rows: Vec<At> = self.bases.iter().map(|base| base.at).collect();
        let mut columns = kept.gather_all(&asked.layout.passed, &rows)?;
        for (frame, looked) in asked.frames.iter().enumerate() {
            for call in looked.calls.clone() {
                columns.push(self.results(call, frame, asked, kept)?);
            }
        }
        let batch = Batch::new(RecordBatch::try_new(Arc::clone(output), columns)?);
        let batch = match has_positions {
            false => batch,
            true => batch.with_positions(Arc::new(positions(&self.bases, &hashes(kept, &rows)?))),
        };
        kept.release_all(rows);
        Ok(batch)
    }

    /// The results of an aggregate.
    fn results(&mut self, call: usize, frame: usize, asked: &Asked, kept: &Kept) -> Result<ArrayRef> {
        let accumulator = &mut self.accumulators[call];
        if asked.summed[call].is_none() {
            // Rows at the end may have seen nothing.
            let arguments = asked.layout.calls[call].0.iter();
            let nothing: Vec<_> = arguments.map(|column| kept.nothing(*column, self.bases[0].at)).collect();
            accumulator.update(&nothing, None, &[], self.bases.len())?;
            return accumulator.take_result();
        }
        let (totals, Sums { counts, sums }) = (asked.totals(call)?, &self.totals[call]);
        if self.unsure[frame].are.is_empty()
            && let Some(results) = totals.results(counts, sums)?
        {
            return Ok(results);
        }
        let groups: Vec<u32> = (0..self.bases.len() as u32).collect();
        accumulator.merge(&totals.states(counts, sums)?, &groups, self.bases.len())?;
        accumulator.take_result()
    }
}

/// What a row adds to totals itself, if that is a number.
fn amount(own: &Amounts, row: usize) -> Option<Total> {
    if own.beyond.binary_search(&row).is_ok() {
        return None;
    }
    let counts = own.counted.as_ref().is_none_or(|counted| counted.value(row));
    Some(Total { count: u64::from(counts), sum: own.amounts[row] })
}
