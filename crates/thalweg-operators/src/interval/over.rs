//! Aggregates over the rows around each row.

use std::{ops::Range, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, cast::AsArray};
use arrow_schema::{DataType, SchemaRef};
use thalweg_core::{
    Batch, Error, Frontier, Interval, KeyGroup, KeyGroups, Operator, Output, Port, Progress, Result, State, Timestamp,
    aggregate::{Accumulator, Aggregate as Function, Amounts},
    state::{Reader, Writer},
};

use super::{
    entry::{At, BASE, Entry, sort},
    frame::{Frame, Spared},
    input::Input,
    kept::{Kept, hashes},
    layout::Layout,
    lines::Lines,
    order::By,
    places::positions,
    saved::{self, Saved, together},
    totals::Total,
    waiting::Waiting,
};
use crate::aggregate::{Call, groups::KeyEncoder, values::Values};

/// Appends to each row of the first input aggregates over the rows of all inputs, with the same key, around it.
///
/// Rows wait, in no order, until the watermark has passed them; then they are put into the order of their keys and times, and each row
/// of the first input looks at its frame once the last row that it may see is there. Results come in the order of time and position.
///
/// Shape:  a row of the first input → its columns, then the aggregates of all frames.
/// State:  rows that a later row may see, and those that wait: O(rows within the frames and the watermark's delay).
/// Errors: what an expression or an aggregate gives for rows it cannot be computed for.
/// Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", definition 2.
pub struct Over {
    inputs: Vec<OverInput>,
    functions: Vec<Arc<dyn Function>>,
    frames: Vec<Looked>,
    layout: Layout,
    /// The running totals.
    kinds: Vec<Kind>,
    /// For each aggregate how it follows from them, if it does.
    summed: Vec<Option<Summed>>,
    key_groups: KeyGroups,
    divided_by: Vec<usize>,
    has_positions: bool,
    output: SchemaRef,
    batch_rows: usize,
    allowed: i64,
    /// How far behind a row the last one may be that it sees.
    ahead: i64,
    /// How far before it the first one may be; `None` where that has no end.
    back: Option<i64>,
    /// Which rows of each key are seen however old they are.
    spared: Vec<Spared>,
    /// Whether rows of the first input are seen by others.
    is_base_seen: bool,
    reached: Timestamp,
    kept: Kept,
    lines: Lines,
    /// Rows that may be seen.
    members: Waiting,
    /// Rows of the first input that wait for those that they see.
    bases: Waiting,
    due: Vec<Entry>,
    /// Rows whose results are next, in the order of time.
    ready: Vec<Entry>,
    done: usize,
    chunk: Option<Chunk>,
}

/// A frame, and what is computed of it.
struct Looked {
    frame: Frame,
    calls: Range<usize>,
    /// Whether rows that are seen follow each other, so that totals will do.
    is_contiguous: bool,
}

/// One of the inputs of an [`Over`].
#[derive(Clone)]
pub struct OverInput {
    /// Time, position and keys.
    pub input: Input,
    /// The aggregates over its columns, those of all frames one after the other.
    pub calls: Vec<Call>,
}

/// How an [`Over`] is made.
pub struct Parts {
    /// The inputs; there are results for the rows of the first.
    pub inputs: Vec<OverInput>,
    /// The types of the keys.
    pub key_types: Vec<DataType>,
    /// What is looked at, and how many of the aggregates are computed of that.
    pub frames: Vec<(Frame, usize)>,
    /// The output columns.
    pub output: SchemaRef,
    /// How many rows an emitted batch has at most.
    pub batch_rows: usize,
    /// Into how many groups keys are divided.
    pub key_groups: KeyGroups,
    /// The keys, by number, that decide on the key group: all, unless the rows were divided for another node before.
    pub divided_by: Vec<usize>,
    /// Whether rows say where they stand among those of all instances.
    pub has_positions: bool,
    /// How far behind the watermark rows still count.
    pub allowed: Interval,
}

/// One of the running totals that are kept for each key.
struct Kind {
    /// The aggregate that says what rows add to it.
    call: usize,
    /// Its arguments, and its filter, among the columns that are kept.
    columns: (Vec<usize>, Option<usize>),
    /// How many columns its state has: one that has only a count makes do with any other's totals.
    width: usize,
}

/// Where the totals of an aggregate are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Summed {
    /// It counts all rows.
    Rows,
    /// Among the running totals.
    Total(usize),
}

/// Rows whose aggregates are being computed.
struct Chunk {
    /// In the order of time.
    bases: Vec<Entry>,
    /// Their numbers in the order of keys.
    order: Vec<u32>,
    done: usize,
    accumulators: Vec<Box<dyn Accumulator>>,
    /// For each aggregate that follows from totals those of each row.
    totals: Vec<(Vec<u64>, Vec<i128>)>,
    /// What rows add to each of the running totals themselves, where they are not among the rows they see.
    own: Vec<Amounts>,
}

const VERSION: u16 = 1;

/// So many rows that are seen are aggregated together.
const SEEN: usize = 16_384;

/// After so many rows that were seen others may run.
const TURN: usize = 1 << 20;

impl Over {
    /// An operator without rows.
    ///
    /// Errors: `Error::Query` if a key's type cannot be compared; `Error::Bug` if there is no input.
    pub fn new(parts: Parts) -> Result<Self> {
        let Parts { inputs, key_types, frames, output, batch_rows, key_groups, divided_by, has_positions, allowed } =
            parts;
        let Some(base) = inputs.first() else { return Err(Error::bug("aggregates over the rows of no input")) };
        let functions: Vec<_> = base.calls.iter().map(|call| Arc::clone(&call.function)).collect();
        let layout = Layout::new(&base.calls, output.fields().len() - functions.len());
        let (ahead, back) =
            (frames.iter().map(|(frame, _)| frame.ahead()), frames.iter().map(|(frame, _)| frame.back()));
        let back = back.collect::<Option<Vec<_>>>().map(|back| back.into_iter().max().unwrap_or(0));
        let is_base_seen = frames.iter().any(|(frame, _)| !frame.excludes_base);
        let mut first = 0;
        let looked = |(frame, count): &(Frame, usize)| {
            first += count;
            let is_contiguous = frame.is_contiguous(is_base_seen);
            Looked { frame: frame.clone(), calls: first - count..first, is_contiguous }
        };
        let looked: Vec<Looked> = frames.iter().map(looked).collect();
        let (kinds, summed) = totals(&functions, &layout, &looked)?;
        Ok(Self {
            ahead: ahead.max().unwrap_or(0),
            back,
            spared: frames.iter().filter_map(|(frame, _)| frame.spared()).collect(),
            is_base_seen,
            frames: looked,
            lines: Lines::new(KeyEncoder::new(&key_types)?, kinds.len()),
            kinds,
            summed,
            inputs,
            functions,
            layout,
            key_groups,
            divided_by,
            has_positions,
            output,
            batch_rows,
            allowed: allowed.0,
            reached: Timestamp::MIN,
            kept: Kept::default(),
            members: Waiting::default(),
            bases: Waiting::default(),
            due: Vec::new(),
            ready: Vec::new(),
            done: 0,
            chunk: None,
        })
    }

    /// How far time has come for results.
    fn final_before(&self) -> Timestamp {
        self.reached.minus(Interval(self.ahead))
    }

    /// Puts rows that are due into the order of their keys, and finds those whose results are next.
    fn advance(&mut self) -> Result<()> {
        let final_before = self.final_before();
        self.members.take(self.reached.0, &mut self.due);
        self.append()?;
        let Self { kept, bases, ready, .. } = self;
        bases.take(final_before.0, ready);
        sort(ready, By::Time, |rows| hashes(kept, rows))
    }

    /// Appends the rows that are due to those of their keys.
    fn append(&mut self) -> Result<()> {
        let mut due = std::mem::take(&mut self.due);
        sort(&mut due, By::Key, |rows| hashes(&self.kept, rows))?;
        let amounts = if self.kinds.is_empty() { Vec::new() } else { self.amounts(&due)? };
        self.lines.append(&due, &amounts);
        due.clear();
        self.due = due;
        Ok(())
    }

    /// What rows add to each of the running totals.
    fn amounts(&self, rows: &[Entry]) -> Result<Vec<Amounts>> {
        if rows.is_empty() {
            return Ok(vec![Amounts::default(); self.kinds.len()]);
        }
        let rows: Vec<At> = rows.iter().map(|entry| entry.at).collect();
        let amounts = |kind: &Kind| {
            let (arguments, filter) = self.gathered(&kind.columns, &rows)?;
            let totals = self.functions[kind.call].totals();
            let totals = totals.ok_or_else(|| Error::bug("an aggregate has no totals any more"))?;
            totals.amounts(&arguments, filter.as_ref(), rows.len())
        };
        self.kinds.iter().map(amounts).collect()
    }

    /// Arguments and filter of an aggregate for these rows.
    fn gathered(
        &self,
        (arguments, filter): &(Vec<usize>, Option<usize>),
        rows: &[At],
    ) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        let arguments = arguments.iter().map(|column| self.kept.gather(*column, rows)).collect::<Result<Vec<_>>>()?;
        let filter = filter.map(|column| self.kept.gather(column, rows)).transpose()?;
        Ok((arguments, filter.map(|mask| mask.as_boolean().clone())))
    }

    /// The next rows whose results are computed together.
    fn chunk(&self) -> Result<Chunk> {
        let bases = self.ready[self.done..self.ready.len().min(self.done + self.batch_rows)].to_vec();
        let mut order: Vec<u32> = (0..bases.len() as u32).collect();
        order.sort_by_key(|base| bases[*base as usize].key);
        let accumulators = self.functions.iter().map(|function| function.accumulator()).collect::<Result<_>>()?;
        let total = |summed: &Option<Summed>| {
            let rows = if summed.is_some() { bases.len() } else { 0 };
            (vec![0; rows], vec![0; rows])
        };
        let totals = self.summed.iter().map(total).collect();
        let own = if self.is_base_seen || self.kinds.is_empty() { Vec::new() } else { self.amounts(&bases)? };
        Ok(Chunk { bases, order, done: 0, accumulators, totals, own })
    }

    /// Computes on; returns a batch if one is complete.
    fn compute(&mut self) -> Result<Option<Batch>> {
        let mut chunk = match self.chunk.take() {
            Some(chunk) => chunk,
            None => self.chunk()?,
        };
        let (mut left, mut near) = (TURN, vec![0..0; self.frames.len()]);
        // Rows that are seen, by frame: for aggregates that need all, and for those whose totals are no numbers.
        let mut seen: Vec<[Seen; 2]> = self.frames.iter().map(|_| Default::default()).collect();
        let mut last = u32::MAX;
        while chunk.done < chunk.order.len() && left > 0 {
            let number = chunk.order[chunk.done];
            let base = chunk.bases[number as usize];
            if std::mem::replace(&mut last, base.key) != base.key {
                near.fill(0..0);
            }
            for (i, looked) in self.frames.iter().enumerate() {
                let is_summed = !looked.is_contiguous || self.sum(looked, &mut chunk, number, &mut near[i]);
                let needs_all = looked.calls.clone().any(|call| self.summed[call].is_none());
                let wanted = [needs_all, !is_summed];
                for (seen, _) in seen[i].iter_mut().zip(wanted).filter(|(_, is_wanted)| *is_wanted) {
                    let line = self.lines.line(base.key);
                    looked.frame.rows(&base, line, self.is_base_seen, &mut near[i], &mut seen.rows);
                    left = left.saturating_sub(seen.rows.len() - seen.groups.len());
                    seen.groups.resize(seen.rows.len(), number);
                }
                left = left.saturating_sub(1);
                if seen[i].iter().any(|seen| seen.rows.len() >= SEEN) {
                    self.update(looked, &mut chunk, &mut seen[i])?;
                }
            }
            chunk.done += 1;
        }
        for (looked, seen) in self.frames.iter().zip(&mut seen) {
            self.update(looked, &mut chunk, seen)?;
        }
        if chunk.done < chunk.order.len() {
            self.chunk = Some(chunk);
            return Ok(None);
        }
        self.done += chunk.bases.len();
        self.batch(chunk).map(Some)
    }

    /// Finds the totals of a row for the aggregates of a frame that follow from totals; whether they are numbers for certain.
    fn sum(&self, looked: &Looked, chunk: &mut Chunk, number: u32, near: &mut Range<usize>) -> bool {
        let row = number as usize;
        let base = &chunk.bases[row];
        let line = self.lines.line(base.key);
        let (rows, adds_own) = looked.frame.contiguous(base, line, self.is_base_seen, near);
        let own = |kind: usize| -> Option<Total> {
            let own = &chunk.own[kind];
            if own.beyond.binary_search(&row).is_ok() {
                return None;
            }
            let counts = own.counted.as_ref().is_none_or(|counted| counted.value(row));
            Some(Total { count: u64::from(counts), sum: own.amounts[row] })
        };
        let total = |summed: Summed| match summed {
            Summed::Rows => Some(Total { count: rows.len() as u64 + u64::from(adds_own), sum: 0 }),
            Summed::Total(kind) => {
                let total = line.total(kind, &rows)?;
                if adds_own { total.plus(own(kind)?) } else { Some(total) }
            }
        };
        let found: Option<Vec<(usize, Total)>> = looked
            .calls
            .clone()
            .filter_map(|call| self.summed[call].map(|summed| Some((call, total(summed)?))))
            .collect();
        let Some(found) = found else { return false };
        for (call, total) in found {
            (chunk.totals[call].0[row], chunk.totals[call].1[row]) = (total.count, total.sum);
        }
        true
    }

    /// Adds rows that were seen to the aggregates of a frame.
    fn update(&self, looked: &Looked, chunk: &mut Chunk, seen: &mut [Seen; 2]) -> Result<()> {
        for (follows, seen) in [false, true].into_iter().zip(seen) {
            if seen.rows.is_empty() {
                continue;
            }
            for call in looked.calls.clone().filter(|call| self.summed[*call].is_some() == follows) {
                let (arguments, filter) = self.gathered(&self.layout.calls[call], &seen.rows)?;
                chunk.accumulators[call].update(&arguments, filter.as_ref(), &seen.groups, chunk.bases.len())?;
            }
            seen.rows.clear();
            seen.groups.clear();
        }
        Ok(())
    }

    /// The results of rows.
    fn batch(&mut self, mut chunk: Chunk) -> Result<Batch> {
        let rows: Vec<At> = chunk.bases.iter().map(|base| base.at).collect();
        let passed = self.layout.passed.iter().map(|column| self.kept.gather(*column, &rows));
        let mut columns = passed.collect::<Result<Vec<_>>>()?;
        for (call, accumulator) in chunk.accumulators.iter_mut().enumerate() {
            let (counts, sums) = &chunk.totals[call];
            match self.functions[call].totals().filter(|_| self.summed[call].is_some()) {
                Some(totals) => {
                    let groups: Vec<u32> = (0..rows.len() as u32).collect();
                    accumulator.merge(&totals.states(counts, sums)?, &groups, rows.len())?;
                }
                // Rows at the end may have seen nothing.
                None => {
                    let arguments = self.layout.calls[call].0.iter();
                    let nothing: Vec<_> = arguments.map(|column| self.kept.nothing(*column, rows[0])).collect();
                    accumulator.update(&nothing, None, &[], rows.len())?;
                }
            }
            columns.push(accumulator.take_result()?);
        }
        let batch = Batch::new(RecordBatch::try_new(Arc::clone(&self.output), columns)?);
        let batch = match self.has_positions {
            false => batch,
            true => {
                let hashes = hashes(&self.kept, &rows)?;
                batch.with_positions(Arc::new(positions(&chunk.bases, &hashes)))
            }
        };
        rows.into_iter().for_each(|at| self.kept.release(at));
        Ok(batch)
    }

    /// Drops what nobody will see any more.
    fn expire(&mut self) {
        let Self { kept, lines, members, bases, back, spared, .. } = self;
        if let Some(back) = back {
            let next = self.reached.minus(Interval(self.ahead));
            let spared = |rows: &[Entry]| spared.iter().map(|spared| spared.before(rows)).min().unwrap_or(rows.len());
            lines.expire(next.minus(Interval(*back)).0, next.0, spared, |entry| kept.release(entry.at));
        }
        let waiting = members.rows() + bases.rows();
        if lines.is_sparse(waiting) {
            let mut is_wanted = vec![false; lines.keys()];
            members.iter().chain(bases.iter()).for_each(|entry| is_wanted[entry.key as usize] = true);
            let moved = lines.forget_keys(|key| is_wanted[key as usize]);
            let renumber = |entry: &mut Entry| {
                entry.key = moved[entry.key as usize];
                true
            };
            members.retain(renumber);
            bases.retain(renumber);
        }
    }

    /// Takes in rows with what is kept of them.
    fn put(&mut self, port: Port, columns: Vec<ArrayRef>, entries: impl ExactSizeIterator<Item = Entry>) {
        let is_base = port == 0;
        let is_seen = !is_base || self.is_base_seen;
        let uses = entries.len() * (usize::from(is_base) + usize::from(is_seen));
        let batch = self.kept.keep(columns, uses);
        for entry in entries {
            let entry = Entry { at: At { batch, ..entry.at }, ..entry };
            if is_seen {
                self.members.put(entry);
            }
            if is_base {
                self.bases.put(entry);
            }
        }
    }
}

/// The running totals that the aggregates need, and how each follows from them.
fn totals(
    functions: &[Arc<dyn Function>],
    layout: &Layout,
    frames: &[Looked],
) -> Result<(Vec<Kind>, Vec<Option<Summed>>)> {
    let (mut kinds, mut summed): (Vec<Kind>, _) = (Vec::new(), Vec::new());
    let frame_of = |call: usize| frames.iter().find(|looked| looked.calls.contains(&call));
    for (call, (function, columns)) in functions.iter().zip(&layout.calls).enumerate() {
        let is_contiguous = frame_of(call).is_some_and(|looked| looked.is_contiguous);
        if function.totals().is_none() || !is_contiguous {
            summed.push(None);
            continue;
        }
        if columns.0.is_empty() && columns.1.is_none() {
            summed.push(Some(Summed::Rows));
            continue;
        }
        let width = function.state()?.len();
        let place = kinds.iter().position(|kind| kind.columns == *columns).unwrap_or(kinds.len());
        if place == kinds.len() {
            kinds.push(Kind { call, columns: columns.clone(), width });
        } else if kinds[place].width < width {
            (kinds[place].call, kinds[place].width) = (call, width);
        }
        summed.push(Some(Summed::Total(place)));
    }
    Ok((kinds, summed))
}

/// Rows that are seen, and by which row of a chunk.
#[derive(Default)]
struct Seen {
    rows: Vec<At>,
    groups: Vec<u32>,
}

impl Operator for Over {
    fn on_batch(&mut self, port: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let OverInput { input, calls } = &self.inputs[port];
        let (batch, late) = input.on_time(batch, self.reached, self.allowed)?;
        out.count_late(late);
        if batch.is_empty() {
            return Ok(Progress::Done);
        }
        let arrivals = input.arrivals(&batch)?;
        let values = Values::new(&input.keys, calls, &batch)?;
        let keys = self.lines.encoder().encode(&values.keys, values.count)?;
        let numbers = self.lines.number(&keys, values.count);
        let columns = self.layout.columns(values, (port == 0).then_some(&batch))?;
        let rank = if port == 0 { BASE } else { port as u32 };
        let entry = |row: usize| Entry {
            time: arrivals.times[row],
            position: arrivals.positions[row],
            key: numbers[row],
            rank,
            at: At { batch: 0, row: row as u32 },
        };
        self.put(port, columns, (0..numbers.len()).map(entry));
        Ok(Progress::Done)
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        self.reached = self.reached.max(frontier.combined().minus(Interval(self.allowed)));
        self.advance()?;
        out.hold(self.final_before());
        self.resume(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        while self.done < self.ready.len() {
            if out.room() == 0 {
                return Ok(Progress::More);
            }
            match self.compute()? {
                Some(batch) => out.emit(batch)?,
                None => return Ok(Progress::More),
            };
        }
        self.ready.clear();
        self.done = 0;
        self.expire();
        Ok(Progress::Done)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

/// Which part a row has when it is saved.
const IS_BASE: i64 = 1;
const IS_MEMBER: i64 = 2;

impl Over {
    /// The rows of a key group: those of the first input, then others.
    fn entries_of(&self, group: KeyGroup) -> Result<[Vec<(Entry, i64)>; 2]> {
        let groups = self.lines.key_groups_by(self.key_groups, &self.divided_by)?;
        let is_of = |entry: &&Entry| groups[entry.key as usize] == group;
        let members = self.lines.iter().chain(self.members.iter()).filter(is_of).map(|entry| (*entry, IS_MEMBER));
        let bases = self.bases.iter().filter(is_of).map(|entry| (*entry, IS_BASE));
        // A row that waits for what it sees, and is seen itself, is one row.
        let entries = together(members.chain(bases).collect());
        let (bases, others) = entries.into_iter().partition(|(entry, _)| entry.rank == BASE);
        Ok([bases, others])
    }
}

impl State for Over {
    fn save(&mut self, group: KeyGroup) -> Result<Vec<u8>> {
        let mut snapshot = Writer::new(VERSION);
        snapshot.number(self.reached.0);
        for entries in self.entries_of(group)? {
            saved::write(&entries, &self.lines, &self.kept, &mut snapshot)?;
        }
        Ok(snapshot.finish())
    }

    fn load(&mut self, _: KeyGroup, bytes: &[u8]) -> Result<()> {
        let mut snapshot = Reader::new(bytes, VERSION)?;
        let reached = Timestamp(snapshot.number()?);
        self.reached = self.reached.max(reached);
        let key_columns = self.inputs[0].input.keys.len();
        for _ in 0..2 {
            let Some(saved) = Saved::read(&mut snapshot, key_columns)? else { continue };
            let keys = self.lines.encoder().encode(saved.keys(), saved.len())?;
            let numbers = self.lines.number(&keys, saved.len());
            let uses = (0..saved.len()).map(|row| saved.parts(row).count_ones() as usize).sum();
            let batch = self.kept.keep(saved.kept(), uses);
            for (row, key) in numbers.into_iter().enumerate() {
                let (entry, parts) = (saved.entry(row, key, batch), saved.parts(row));
                match () {
                    _ if parts & IS_MEMBER == 0 => {}
                    _ if entry.time < reached.0 => self.due.push(entry),
                    _ => self.members.put(entry),
                }
                if parts & IS_BASE != 0 {
                    self.bases.put(entry);
                }
            }
        }
        self.append()
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        let groups = self.lines.key_groups_by(self.key_groups, &self.divided_by)?;
        let Self { kept, lines, members, bases, .. } = self;
        lines.forget(|key| groups[key as usize] == group, |at| kept.release(at));
        for waiting in [members, bases] {
            waiting.retain(|entry| {
                let stays = groups[entry.key as usize] != group;
                if !stays {
                    kept.release(entry.at);
                }
                stays
            });
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let entries = self.due.capacity() + self.ready.capacity();
        let waiting = self.members.bytes() + self.bases.bytes();
        self.kept.bytes() + self.lines.bytes() + waiting + entries * size_of::<Entry>()
    }

    fn held(&self) -> String {
        let (seen, waiting) = (self.lines.rows(), self.members.rows().max(self.bases.rows()));
        match (seen, waiting) {
            (0, 0) => String::new(),
            _ => format!("{seen} rows that may be seen, {waiting} that wait for the watermark"),
        }
    }
}
