//! Aggregates over the rows around each row.
//!
//! * [`arrivals`]: rows as they arrive
//! * [`faults`]: rows for which an argument cannot be computed
//! * [`state`]: what is saved, loaded and handed over
//! * [`told`]: how many results lack rows that came too late

mod arrivals;
mod faults;
mod state;
mod told;

use std::{ops::Range, sync::Arc};

use arrow_schema::{DataType, SchemaRef};
use faults::Faults;
use thalweg_core::{
    Batch, Frontier, Interval, KeyGroups, Operator, Output, Port, Progress, Result, State, Timestamp,
    operator::{MadeOf, Search},
};

use super::{
    asked::{Asked, Looked},
    chunk::Chunk,
    columns::Columns,
    due::Due,
    entries::Entries,
    entry::Entry,
    frame::{Frame, Spared},
    input::Input,
    kept::{Kept, hashes},
    light,
    lines::{Before, Lines},
    order::{By, Sorter},
    paired::Paired,
    past::Past,
    places::Tells,
    spoilt::{Of, Spoilt},
    sweep::Sweep,
    waiting::{STEPS, Waiting, next},
};
use crate::aggregate::{Call, groups::KeyEncoder};

/// Appends to each row of the first input aggregates over the rows of all inputs, with the same key, around it.
///
/// Rows wait, in no order, until the watermark has passed them; then they are put into the order of their keys and times, and each row
/// of the first input looks at its frame once the last row that it may see is there. Results come in the order of time and position if that is
/// asked for.
///
/// Shape:  a row of the first input → those of its columns that pass, then the aggregates of all frames.
/// State:  rows that a later row may see, and those that wait: O(rows within the frames and the watermark's delay).
/// Errors: what an expression or an aggregate gives for rows it cannot be computed for.
/// Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", definition 2.
pub struct Over {
    pub(super) inputs: Vec<OverInput>,
    /// Which of the inputs the rows of each port belong to.
    pub(super) input_of: Vec<usize>,
    pub(super) asked: Asked,
    key_groups: KeyGroups,
    divided_by: Vec<usize>,
    has_positions: bool,
    are_in_order: bool,
    pub(super) output: SchemaRef,
    pub(super) batch_rows: usize,
    /// So many rows are looked at together.
    pub(super) at_once: usize,
    pub(super) allowed: i64,
    /// How far behind a row the last one may be that it sees.
    ahead: i64,
    /// How far before it the first one may be; `None` where that has no end.
    back: Option<i64>,
    /// Which rows of each key are seen however old they are.
    spared: Vec<Spared>,
    /// How far time has come, and how far it goes.
    pub(super) reached: Timestamp,
    goes_to: Timestamp,
    /// What rows come to that were seen for ever, and are gone.
    pub(super) past: Past,
    /// Rows of other inputs for which an argument cannot be computed.
    pub(super) faults: Faults,
    pub(super) kept: Kept,
    pub(super) lines: Lines,
    /// Rows that may be seen where they are not in lines, if that can be; and some that wait.
    pub(super) sweep: Option<Sweep>,
    /// Whether lines need not keep rows themselves.
    pub(super) may_be_light: bool,
    /// Rows that may be seen, and wait, where they do not wait among those that are swept.
    members: Waiting,
    /// Rows of the first input that wait for those that they see; and others, as they came, while rows are swept. So many of these had not left
    /// when some did last.
    bases: Waiting,
    fresh: Entries,
    left: usize,
    pub(super) due: Due,
    /// Those in the order of their keys, while they are put into lines.
    sorted: Vec<Entry>,
    /// Rows of the first input that see no more rows.
    final_bases: Due,
    /// Rows whose results are next, in the order of time; and those whose results were found without an index.
    pub(super) ready: Vec<Entry>,
    pub(super) swept: Columns,
    /// How many of them have theirs.
    pub(super) done: usize,
    /// Those whose results are being computed, if this has begun.
    pub(super) chunk: Chunk,
    begun: bool,
    /// How many rows were looked at for them.
    visited: u64,
    /// Results that were found together, and how many of them have gone out.
    rest: Option<(Batch, usize)>,
    /// Whether the results of all rows that are next are found.
    pub(super) is_swept: bool,
    pub(super) sorter: Sorter,
    /// Which results lack rows that came too late, if that is asked for and can be said.
    pub(super) spoilt: Option<Spoilt>,
    /// The output column of how many rows each sees, where those that see none have no results.
    partners: Option<usize>,
    /// Whether what is aggregated are results of others.
    pub(super) of_results: bool,
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
    /// Which of them the rows of each port belong to.
    pub input_of: Vec<usize>,
    /// The types of the keys.
    pub key_types: Vec<DataType>,
    /// Which columns of the first input pass.
    pub passes: Vec<usize>,
    /// What is looked at, and how many of the aggregates are computed of that.
    pub frames: Vec<(Frame, usize)>,
    /// By frame what its aggregates are, if they are over pairs; the arguments of those of the inputs are then columns of the rows that are
    /// seen. Frames at the end may be left out.
    pub paired: Vec<Option<Arc<Paired>>>,
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
    /// Whether results come in the order of time and position.
    pub are_in_order: bool,
    /// How far behind the watermark rows still count.
    pub allowed: Interval,
    /// Whether aggregates are found without looking at all rows of each window, where that can be.
    pub is_incremental: bool,
    /// Whether it is to be known how many results lack rows that came too late.
    pub tells_spoilt: bool,
    /// The output column of how many rows each sees, where rows that see none are dropped behind it.
    pub partners: Option<usize>,
    /// Whether what is aggregated are results of others that bring rows together.
    pub of_results: bool,
    /// How rows of the first input are corrected, if they are.
    pub corrected: Option<Corrected>,
}

/// How rows are corrected: their key, time and position stay.
#[derive(Clone, Debug)]
pub struct Corrected {
    /// The column of the first input that says what becomes of a row.
    pub op: usize,
    /// Which of the columns that pass may change, by their number among these.
    pub columns: Vec<usize>,
}

pub(super) const VERSION: u16 = 5;

/// So many rows are looked at together at first: nobody knows how much that takes.
const AT_FIRST: usize = 128;

/// Where the states of their aggregates take so many bytes they are fewer next time, and where these take less they are more. (Tests have
/// little.)
const MUCH: usize = if cfg!(test) { 1 << 16 } else { 32 << 20 };
const LITTLE: usize = MUCH / 8;

/// Where windows have so many rows, more of them are looked at together than a batch may have, up to so many: blocks of these rows, and all else that
/// is made once for all windows, would be made for each batch.
const WIDE: u64 = if cfg!(test) { 4 } else { 64 };
const MANY: usize = if cfg!(test) { 16 } else { 1024 };

/// So many rows are added to running totals together.
const TOGETHER: usize = 2048;

impl Over {
    /// An operator without rows.
    ///
    /// Errors: `Error::Query` if a key's type cannot be compared; `Error::Bug` if there is no input.
    pub fn new(parts: Parts) -> Result<Self> {
        let Parts {
            inputs,
            input_of,
            key_types,
            passes,
            frames,
            paired,
            output,
            batch_rows,
            key_groups,
            divided_by,
            has_positions,
            are_in_order,
            allowed,
            is_incremental,
            tells_spoilt,
            partners,
            of_results,
            corrected: _,
        } = parts;
        let asked = Asked::new(&inputs, (&frames, &paired), &passes, is_incremental)?;
        let ahead = frames.iter().map(|(frame, _)| frame.ahead());
        let back = asked.frames.iter().map(
            |Looked { frame, has_past, .. }| {
                if *has_past { Some(frame.end()) } else { frame.back() }
            },
        );
        let back = back.collect::<Option<Vec<_>>>().map(|back| back.into_iter().max().unwrap_or(0));
        let spared = asked.frames.iter().filter_map(
            |Looked { frame, has_past, .. }| {
                if *has_past { frame.unseen() } else { frame.spared() }
            },
        );
        let with_others = asked.frames.iter().map(|looked| &looked.frame).filter(|frame| !frame.is_of_the_row());
        let spoilt = with_others.map(|frame| frame.seen_from().1).reduce(|one, other| Some(one?.max(other?)));
        let of = if partners.is_some() { Of::Partners } else { Of::Rows };
        let spoilt = spoilt.filter(|_| tells_spoilt).map(|reach| Spoilt::new(of, reach));
        let (sweep, may_be_light) = (asked.can_sweep().then(Sweep::new), asked.is_light());
        let with_base = asked.frames.iter().map(|looked| looked.has_base).collect();
        Ok(Self {
            ahead: ahead.max().unwrap_or(0),
            back,
            spared: spared.collect(),
            past: Past::default(),
            lines: Lines::new(KeyEncoder::new(&key_types)?, asked.kinds.len(), with_base),
            inputs,
            input_of,
            asked,
            key_groups,
            divided_by,
            has_positions,
            are_in_order,
            output,
            batch_rows,
            at_once: batch_rows.min(AT_FIRST),
            allowed: allowed.0,
            reached: Timestamp::MIN,
            goes_to: Timestamp::MIN,
            faults: Faults::default(),
            kept: Kept::default(),
            sweep,
            may_be_light,
            members: Waiting::default(),
            bases: Waiting::default(),
            fresh: Entries::default(),
            left: 0,
            due: Due::default(),
            sorted: Vec::new(),
            final_bases: Due::default(),
            ready: Vec::new(),
            swept: Columns::default(),
            done: 0,
            chunk: Chunk::default(),
            begun: false,
            visited: 0,
            rest: None,
            is_swept: false,
            sorter: Sorter::default(),
            spoilt,
            partners,
            of_results,
        })
    }

    /// How far time has come for results.
    pub(super) fn final_before(&self) -> Timestamp {
        self.reached.minus(Interval(self.ahead))
    }

    /// Time goes on, where it leaps not all the way: puts rows that are due into the order of their keys, and finds those whose results are
    /// next.
    fn advance(&mut self) -> Result<()> {
        let ahead = Interval(self.ahead);
        self.reached = next(self.reached, self.goes_to, &mut self.members, (&mut self.bases, ahead));
        let final_before = self.final_before();
        let Self { members, bases, fresh, due, final_bases, swept, .. } = self;
        members.take(self.reached.0, due);
        bases.take(final_before.0, final_bases);
        fresh.leave_before(final_before.0, |leaving| leaving.put_behind(swept));
        self.left = fresh.len();
        self.is_swept = self.is_swept_at_once()?;
        if self.is_swept {
            return Ok(());
        }
        let Self { kept, final_bases, swept, sorter, ready, faults, asked, .. } = self;
        if !swept.is_empty() {
            final_bases.take(&mut swept.take());
        }
        sorter.sort(final_bases, By::Time, |rows| hashes(kept, rows), ready)?;
        faults.check(ready.iter().copied(), asked.computed())?;
        self.append()
    }

    /// Finds the results of all rows that are next without an index, where that costs less and no rows are known by their totals alone; if not,
    /// rows that may be seen are due.
    fn is_swept_at_once(&mut self) -> Result<bool> {
        let Self { lines, due, final_bases, swept, asked, kept, chunk, reached, sorter, are_in_order, .. } = self;
        let Some(sweep) = &mut self.sweep else {
            return Ok(false);
        };
        if !lines.keep_rows() {
            return Ok(false);
        }
        let was_on = sweep.is_on();
        let (new, old) = (due.len() + sweep.arrived(), if was_on { sweep.passed() } else { lines.rows() });
        if !sweep.choose(new, swept.len() + final_bases.len(), old) {
            self.leave_sweep();
            return Ok(false);
        }
        if !was_on {
            lines.take_all(due);
        }
        sweep.put(due);
        final_bases.pieces().iter().for_each(|rows| swept.put_rows(rows));
        final_bases.clear();
        if *are_in_order {
            sorter.sort_columns(swept, |rows| hashes(kept, rows))?;
        }
        self.faults.check(swept.iter(), asked.computed())?;
        if !swept.is_empty() && !sweep.look((swept, *are_in_order), reached.0, lines.keys(), asked, kept, chunk)? {
            self.leave_sweep();
            self.sweep = None;
            return Ok(false);
        }
        Ok(true)
    }

    /// Rows that would be swept are due, and those that wait do so elsewhere.
    fn leave_sweep(&mut self) {
        let Self { sweep, members, due, reached, .. } = self;
        if let Some(sweep) = sweep {
            sweep.give_waiting(reached.0, |entry| members.put_one(entry));
            sweep.give(due);
        }
    }

    /// Appends the rows that are due to those of their keys.
    pub(super) fn append(&mut self) -> Result<()> {
        let Self { due, sorted, kept, lines, sorter, asked, may_be_light, batch_rows, .. } = self;
        if lines.is_light()
            && let Some(rows) = sorter.by_key_and_time(due)
        {
            rows.chunks(TOGETHER).try_for_each(|rows| light::append(rows, lines, asked, kept))?;
            due.clear();
            return Ok(());
        }
        sorter.sort(due, By::Key, |rows| hashes(kept, rows), sorted)?;
        if lines.is_light() {
            let known = |entry: &Entry| (entry.key, entry.time, entry.at);
            let mut chunks = sorted.chunks(TOGETHER).map(|rows| rows.iter().map(known));
            return chunks.try_for_each(|rows| light::append(rows, lines, asked, kept));
        }
        for first in (0..sorted.len()).step_by(TOGETHER) {
            let some = first..sorted.len().min(first + TOGETHER);
            lines.append(&sorted[some.clone()], &asked.amounts(kept, sorted, some)?);
        }
        if *may_be_light && lines.rows() > *batch_rows {
            // There are too many for the caches, and for being sorted with each batch.
            lines.lighten(|rows| kept.release_all(rows.iter().map(|entry| entry.at)));
        }
        Ok(())
    }

    /// The rows of the first input that wait.
    fn waiting(&self) -> impl Iterator<Item = Entry> {
        self.bases.iter().copied().chain(self.fresh.iter())
    }

    /// How many rows there are whose results are next, or have been since some were.
    pub(super) fn next_rows(&self) -> usize {
        if self.is_swept { self.swept.len() } else { self.ready.len() }
    }

    /// All of these have their results.
    pub(super) fn forget_next(&mut self) {
        self.ready.clear();
        self.swept.truncate(0);
        self.done = 0;
    }

    /// The rows that may be seen, where they are not in lines.
    fn seen_at_once(&self) -> impl Iterator<Item = Entry> {
        self.sweep.iter().flat_map(|sweep| sweep.rows().iter())
    }

    /// Looks on at what the next rows see, a batch of them at most; returns which these are once all is found.
    pub(super) fn look(&mut self) -> Result<Option<Range<usize>>> {
        let rows = if self.is_swept { self.batch_rows } else { self.at_once };
        let next = self.done..self.next_rows().min(self.done + rows);
        if self.is_swept {
            self.done = next.end;
            return Ok(Some(next));
        }
        let Self { asked, lines, kept, past, sorter, chunk, .. } = self;
        let (bases, before) = (&self.ready[next.clone()], chunk.search.visited);
        if !std::mem::replace(&mut self.begun, true) {
            chunk.begin(bases, asked, lines, kept, sorter)?;
        }
        let is_found = chunk.look(bases, asked, lines, (kept, past))?;
        self.visited += chunk.search.visited - before;
        if !is_found {
            return Ok(None);
        }
        self.begun = false;
        let is_wide = std::mem::take(&mut self.visited) >= WIDE * next.len() as u64;
        let most = if is_wide { self.batch_rows.max(MANY) } else { self.batch_rows };
        self.done = next.end;
        // Where aggregates keep the values of all rows that are seen, few rows are looked at together.
        self.at_once = match chunk.at_hand() {
            MUCH.. => (self.at_once / 2).max(1),
            // Fewer rows than might have been say nothing of how much more would take.
            ..LITTLE if next.len() == self.at_once => (self.at_once * 2).min(most).max(self.at_once),
            _ => self.at_once,
        };
        Ok(Some(next))
    }

    /// Computes on; returns a batch if one is complete.
    fn compute(&mut self) -> Result<Option<Batch>> {
        let Some(computed) = self.look()? else { return Ok(None) };
        let tells = if self.inputs[0].input.has_own_positions { Tells::Position } else { Tells::Content };
        let positions = self.has_positions.then_some(tells);
        let chosen = self.spoilt.as_mut().map(|spoilt| spoilt.choose(computed.len())).unwrap_or_default();
        let of = |row: &usize| match self.is_swept {
            true => self.swept.get(computed.start + row),
            false => self.ready[computed.start + row],
        };
        let bases: Vec<Entry> = chosen.iter().map(of).collect();
        let Self { asked, past, kept, chunk, lines, output, .. } = self;
        let mut seen = chunk.seen(&chosen, &bases, asked, lines);
        let batch = match self.is_swept {
            true => chunk.batch_swept((&self.swept, computed), asked, kept, output, positions)?,
            false => chunk.batch(&self.ready[computed], asked, past, kept, output, positions)?,
        };
        if let Some(partners) = self.partners {
            told::saw(&mut seen, &chosen, batch.column(partners));
        }
        self.remember(&bases, &seen)?;
        Ok(Some(batch))
    }

    /// What is to go out next of the results that were found together.
    fn next_of_rest(&mut self) -> Option<Batch> {
        let (batch, gone) = self.rest.take()?;
        if gone == 0 && batch.len() <= self.batch_rows {
            return Some(batch);
        }
        let end = batch.len().min(gone + self.batch_rows);
        let next = batch.slice(gone..end);
        if end < batch.len() {
            self.rest = Some((batch, end));
        }
        Some(next)
    }

    /// Drops rows that nobody will look at any more; returns how long they were there for nobody.
    pub(super) fn drop_unseen(&mut self) -> Result<Interval> {
        let reach = self.asked.computed().map(|frame| frame.seen_from().1).reduce(|one, other| Some(one?.max(other?)));
        self.faults.expire(self.reached.minus(Interval(self.ahead)).0, reach.unwrap_or(Some(0)));
        let Self { kept, lines, sweep, past, asked, back, spared, .. } = self;
        let mut lag = Interval::ZERO;
        if let Some(back) = back {
            let next = self.reached.minus(Interval(self.ahead));
            if let Some(sweep) = sweep.as_mut().filter(|sweep| sweep.is_on()) {
                return Ok(sweep.expire(next.minus(Interval(*back)).0, kept));
            }
            let before = |rows: &[Entry]| {
                let before = spared.iter().map(|spared| spared.before(rows, next.0)).min().unwrap_or(rows.len());
                // Rows of a time go together, since times are counted.
                let is_first = |row: &usize| *row == rows.len() || *row == 0 || rows[*row - 1].time != rows[*row].time;
                (0..=before).rev().find(is_first).unwrap_or(0)
            };
            let spared = (!spared.is_empty()).then_some(&before as Before<'_>);
            let (has_past, mut gone) = (asked.frames.iter().any(|looked| looked.has_past), Vec::new());
            lag = lines.expire(next.minus(Interval(*back)).0, next.0, spared, |line, old| {
                let rows = line.rows().get(..old).unwrap_or_default();
                if has_past {
                    past.count_times(rows[0].key, line, old, asked);
                    gone.extend_from_slice(rows);
                } else {
                    kept.release_all(rows.iter().map(|entry| entry.at));
                }
            });
            past.add(&gone, asked, kept)?;
            kept.release_all(gone.iter().map(|entry| entry.at));
        }
        Ok(lag)
    }

    /// Drops what nobody will look at any more; returns how long it was there for nobody.
    fn expire(&mut self) -> Result<Interval> {
        let lag = self.drop_unseen()?;
        let Self { lines, sweep, past, members, bases, fresh, faults, .. } = self;
        let swept = sweep.as_ref().map(Sweep::rows);
        let waiting = members.rows() + bases.rows() + fresh.len() + past.keys() + swept.map_or(0, Entries::len);
        if lines.is_sparse(waiting) {
            let mut is_wanted: Vec<bool> = (0..lines.keys() as u32).map(|key| past.has(key)).collect();
            members.iter().chain(bases.iter()).for_each(|entry| is_wanted[entry.key as usize] = true);
            let as_they_came = swept.into_iter().chain([&*fresh]).flat_map(Entries::keys);
            as_they_came.for_each(|key| is_wanted[*key as usize] = true);
            faults.keys().for_each(|key| is_wanted[key as usize] = true);
            let moved = lines.forget_keys(|key| is_wanted[key as usize]);
            past.renumber(&moved);
            faults.renumber(&moved);
            let renumber = |entry: &mut Entry| {
                entry.key = moved[entry.key as usize];
                true
            };
            members.retain(renumber);
            bases.retain(renumber);
            fresh.renumber(&moved);
            sweep.iter_mut().for_each(|sweep| sweep.renumber(&moved));
        }
        Ok(lag)
    }
}

impl Operator for Over {
    fn searches(&self) -> Option<MadeOf> {
        Some(self.asked.made_of(self.of_results))
    }

    fn on_batch(&mut self, port: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        if let Some(arrived) = self.arrive(port, batch, out)? {
            if arrived.is_seen && !arrived.wait_in(self.sweep.as_mut()) {
                self.members.put(&arrived.rows());
            }
            self.wait(&arrived);
        }
        Ok(Progress::Done)
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        self.goes_to = self.reached.max(frontier.combined().minus(Interval(self.allowed)));
        self.advance()?;
        out.hold(self.goes_to.minus(Interval(self.ahead)));
        self.resume(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        let room = out.room();
        for _ in 0..STEPS {
            while self.rest.is_some() || self.done < self.next_rows() {
                if out.room() == 0 {
                    return Ok(Progress::More);
                }
                if let Some(batch) = self.next_of_rest() {
                    out.emit(batch)?;
                    continue;
                }
                let computed = self.compute()?;
                out.count_search(std::mem::take(&mut self.chunk.search));
                match computed {
                    Some(batch) => self.rest = Some((batch, 0)),
                    None => return Ok(Progress::More),
                }
            }
            self.forget_next();
            let lag = self.expire()?;
            out.count_search(Search { lag, ..Search::default() });
            if self.reached >= self.goes_to {
                self.tell_spoilt(self.final_before(), self.goes_to == Timestamp::MAX, out);
                return Ok(Progress::Done);
            }
            self.advance()?;
            if out.room() < room {
                break;
            }
        }
        Ok(Progress::More)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}
