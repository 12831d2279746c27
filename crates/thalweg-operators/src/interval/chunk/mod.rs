//! Rows whose aggregates are computed together.
//!
//! * [`around`]: which rows they see, and what follows from that alone
//! * [`settle`]: what is found of the rows of a key without looking at all rows of each window
//! * [`stand`]: what is found from what earlier batches have left
//! * [`behind`]: the last row for which a condition holds
//! * [`results`]: what comes out
//! * [`seen`]: when a row that comes too late would have changed that

mod around;
mod behind;
mod results;
mod seen;
mod settle;
mod stand;

use std::{collections::VecDeque, ops::Range};

use around::Around;
use behind::Behind;
pub use results::{passed, times};
use stand::Stands;
use thalweg_core::{Result, aggregate::Accumulator, operator::Search};

use super::{
    asked::{Asked, Looked},
    entry::{At, Entry},
    followed::Followed,
    frame::Spans,
    kept::Kept,
    line::Line,
    lines::Lines,
    order::Sorter,
    paired::Pairs,
    past::Past,
    sums::Sums,
};

/// So many rows that are seen are aggregated together. (Tests have few rows, here and below.)
const SEEN: usize = if cfg!(test) { 64 } else { 16_384 };

/// After so many rows that were seen others may run.
const TURN: usize = if cfg!(test) { 128 } else { 1 << 17 };

/// So many rows of a key at most are looked at together for windows that overlap.
const TOGETHER: usize = if cfg!(test) { 100 } else { 1 << 24 };

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
    /// How many of them have their results.
    given: usize,
    /// By frame which rows they see, in the order of keys, where these follow each other.
    spans: Vec<Spans>,
    /// How many of these have been looked at for aggregates that need all rows that are seen.
    done: usize,
    /// By frame up to where it is settled whether rows need not be looked at one by one.
    settled: Vec<Settled>,
    accumulators: Vec<Box<dyn Accumulator>>,
    /// For each aggregate that follows from totals those of each row.
    totals: Vec<Sums>,
    /// For each aggregate that is a value of a row, which one it is for each row, if there is one.
    picked: Vec<Vec<Option<At>>>,
    /// For each aggregate what was found by following windows, and for which rows.
    followed: Vec<Followed>,
    /// Whether it is known which windows are followed from batch to batch: that is chosen once, for all rows.
    has_stood: bool,
    /// What is asked of these.
    stands: VecDeque<Stands>,
    /// By frame whether they have for each row, in the order of keys; empty if they have for none.
    stood: Vec<Vec<bool>>,
    /// By frame the rows whose totals are no numbers for certain.
    unsure: Vec<Unsure>,
    /// By frame for how many rows blocks were merged.
    merged: Vec<usize>,
    /// Whether all was found from rows as they are sorted each time.
    is_swept: bool,
    /// By frame what is looked for from behind.
    behind: Vec<Behind>,
    /// Which rows have a pair that they are asked for, where that matters.
    have_pairs: Vec<bool>,
    /// By frame rows that are seen and not aggregated yet, for aggregates of each kind.
    seen: Vec<[Seen; KINDS.len()]>,
    /// What was looked at and found since this was last taken.
    pub search: Search,
    /// Of how many pairs a condition was asked since, and for how many it held.
    pub pairs: [usize; 2],
}

/// Up to where in the order of keys something is known, and whether all has been found there.
#[derive(Clone, Copy, Default)]
struct Settled {
    end: usize,
    /// For aggregates that need all rows.
    is_found: bool,
    /// For those that follow windows.
    is_followed: bool,
    /// For those whose totals are no numbers.
    is_sure: bool,
}

/// Some of the rows of a chunk.
#[derive(Default)]
struct Unsure {
    /// Whether each is among them; empty if none is.
    are: Vec<bool>,
    /// For which aggregates.
    calls: Vec<usize>,
}

impl Unsure {
    fn put(&mut self, call: usize, row: usize, rows: usize) {
        self.are.resize(rows, false);
        self.are[row] = true;
        if !self.calls.contains(&call) {
            self.calls.push(call);
        }
    }

    fn count(&self, rows: Range<usize>) -> usize {
        self.are.get(rows).unwrap_or_default().iter().filter(|is_unsure| **is_unsure).count()
    }

    fn has(&self, row: usize) -> bool {
        self.are.get(row).is_some_and(|is_unsure| *is_unsure)
    }
}

/// For which aggregates of a frame rows are looked at.
#[derive(Clone, Copy)]
enum Kind {
    /// Those that need all rows.
    NeedsAll,
    /// Those that could follow windows, where that does not pay.
    Slides,
    /// Those whose totals are no numbers.
    Unsure,
}

const KINDS: [Kind; 3] = [Kind::NeedsAll, Kind::Slides, Kind::Unsure];

/// Rows that are seen, and by which row of a chunk.
#[derive(Default)]
struct Seen {
    rows: Vec<At>,
    groups: Vec<u32>,
    /// How many of them have been aggregated.
    done: usize,
}

impl Seen {
    fn left(&self) -> usize {
        self.rows.len() - self.done
    }

    /// Leaves those alone of which none was aggregated, and which rows see of these numbers.
    fn retain(&mut self, is_wanted: impl Fn(u32) -> bool) {
        if self.done == 0 {
            let wanted: Vec<bool> = self.groups.iter().map(|number| is_wanted(*number)).collect();
            let (mut of_rows, mut of_groups) = (wanted.iter(), wanted.iter());
            self.rows.retain(|_| of_rows.next().is_some_and(|is_wanted| *is_wanted));
            self.groups.retain(|_| of_groups.next().is_some_and(|is_wanted| *is_wanted));
        }
    }

    /// Forgets all rows; where rows saw many more before, their memory is given back.
    fn forget(&mut self) {
        if self.rows.capacity() > 4 * SEEN.max(self.rows.len()) {
            *self = Self::default();
        }
        self.rows.clear();
        self.groups.clear();
        self.done = 0;
    }
}

impl Chunk {
    /// Begins with these rows, which are in the order of time, and finds what follows from totals; the results of some of them after the
    /// others may be asked for.
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
        self.reset(bases.iter().map(|base| base.at), asked)?;
        let own = if asked.reads_own() { asked.amounts(kept, bases, 0..bases.len())? } else { Vec::new() };
        for (frame, looked) in asked.frames.iter().enumerate() {
            self.look_around(Around { asked, frame, own: &own }, bases, lines);
            self.pick(frame, looked, bases, asked, lines);
        }
        self.begin_behind(asked);
        Ok(())
    }

    /// Begins with rows whose values lie there, and finds what all that is asked for follows from: the times of all rows, and of these, tell keys apart. Of
    /// these rows come, in the order of keys, their numbers in the order of time, and their times. Returns whether that is all: if not, nothing
    /// is known for certain.
    pub fn begin_swept(
        &mut self,
        bases: &[At],
        asked: &Asked,
        kept: &Kept,
        line: &Line,
        (numbers, those): (impl Iterator<Item = u32>, impl Iterator<Item = i64>),
    ) -> Result<bool> {
        let Self { order, times, keys, .. } = self;
        keys.clear();
        order.clear();
        order.extend(numbers);
        times.clear();
        times.extend(those);
        self.reset(std::iter::empty(), asked)?;
        let own = if asked.reads_own() { asked.amounts_at(kept, bases)? } else { Vec::new() };
        self.is_swept = true;
        for frame in 0..asked.frames.len() {
            let around = Around { asked, frame, own: &own };
            let calls = self.totals_of(around, bases.len());
            // Frames in time alone ask nothing else of them.
            self.look_along(around, &calls, 0..bases.len(), &[], line, &mut (0..0));
        }
        Ok(self.unsure.iter().all(|unsure| unsure.are.is_empty()))
    }

    /// Forgets what was found for other rows than these, of which `order` has the numbers and `rows` say where their values lie.
    fn reset(&mut self, rows: impl Iterator<Item = At>, asked: &Asked) -> Result<()> {
        let count = self.order.len();
        self.rows.clear();
        self.rows.extend(rows);
        (self.done, self.given, self.is_swept, self.has_stood) = (0, 0, false, false);
        self.stands.clear();
        self.accumulators = asked.functions.iter().map(|function| function.accumulator()).collect::<Result<_>>()?;
        self.totals.resize_with(asked.functions.len(), Sums::default);
        self.picked.resize_with(asked.functions.len(), Vec::new);
        self.followed.clear();
        self.followed.resize_with(asked.functions.len(), Followed::default);
        self.spans.resize_with(asked.frames.len(), Spans::default);
        self.spans.iter_mut().for_each(Spans::clear);
        self.settled = vec![Settled::default(); asked.frames.len()];
        self.stood.resize_with(asked.frames.len(), Vec::new);
        self.stood.iter_mut().for_each(Vec::clear);
        self.unsure = asked.frames.iter().map(|_| Unsure::default()).collect();
        self.merged = vec![0; asked.frames.len()];
        self.seen.resize_with(asked.frames.len(), Default::default);
        self.have_pairs.clear();
        if asked.frames.iter().any(Looked::is_alone) {
            self.have_pairs.resize(count, false);
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

    /// Looks at rows one by one where that must be; whether all is done.
    pub fn look(
        &mut self,
        bases: &[Entry],
        asked: &Asked,
        lines: &mut Lines,
        (kept, past): (&Kept, &Past),
    ) -> Result<bool> {
        let looks = |frame: usize| {
            let looked = &asked.frames[frame];
            !looked.takes_last() && (looked.needs_all || looked.slides || !self.unsure[frame].are.is_empty())
        };
        let frames: Vec<usize> = (0..asked.frames.len()).filter(|frame| looks(*frame)).collect();
        if frames.is_empty() {
            self.done = self.order.len();
        }
        let (mut left, mut near) = (TURN, vec![0..0; asked.frames.len()]);
        for frame in 0..asked.frames.len() {
            if !self.behind[frame].is_done() {
                left = self.look_behind(frame, asked, lines, kept, bases, left)?;
                if !self.behind[frame].is_done() {
                    return Ok(false);
                }
            }
        }
        if !std::mem::replace(&mut self.has_stood, true) {
            for frame in frames.iter().copied().filter(|frame| asked.frames[*frame].can_stand) {
                let visited = self.stand((frame, &asked.frames[frame]), (asked, kept), lines)?;
                self.search.visited += visited as u64;
                left = left.saturating_sub(visited);
            }
        }
        while !self.stands.is_empty() {
            if left == 0 {
                return Ok(false);
            }
            let visited = self.ask_next(bases, (asked, kept), lines)?;
            self.search.visited += visited as u64;
            left = left.saturating_sub(visited);
        }
        // What is found by then is used.
        left = left.max(1);
        let mut last = u32::MAX;
        loop {
            let is_last = self.done == self.order.len();
            for frame in &frames {
                // A row may see very many; who sees none is known at last.
                let is_alone = asked.frames[*frame].is_alone();
                if is_last || !is_alone && self.seen[*frame].iter().any(|seen| seen.left() >= SEEN) {
                    left = self.update(*frame, asked, kept, bases, left)?;
                }
            }
            if is_last || left == 0 {
                return Ok(is_last && self.seen.iter().flatten().all(|seen| seen.left() == 0));
            }
            let number = self.order[self.done];
            let base = bases[number as usize];
            if std::mem::replace(&mut last, base.key) != base.key {
                near.fill(0..0);
            }
            for frame in &frames {
                let (looked, near) = (&asked.frames[*frame], &mut near[*frame]);
                if looked.is_alone() && self.sees_some(frame.saturating_sub(1), asked) {
                    continue;
                }
                let may_settle = looked.has_blocks || looked.slides || !self.unsure[*frame].are.is_empty();
                if may_settle && self.settled[*frame].end <= self.done {
                    left = left.saturating_sub(self.settle(*frame, looked, bases, asked, lines, (kept, past))?);
                }
                let Settled { is_found, is_followed, is_sure, .. } = self.settled[*frame];
                let wanted = KINDS.map(|kind| match kind {
                    Kind::NeedsAll => looked.needs_all && !is_found,
                    Kind::Slides => looked.slides && !is_followed,
                    Kind::Unsure => self.unsure[*frame].has(number as usize) && !is_sure,
                });
                if let [.., true] = wanted {
                    // All totals of such a row are found from the rows that it sees.
                    let calls = looked.calls.clone().filter(|call| asked.may_be_unsure(*call));
                    calls.for_each(|call| self.totals[call].forget(number as usize));
                }
                for (seen, _) in self.seen[*frame].iter_mut().zip(wanted).filter(|(_, is_wanted)| *is_wanted) {
                    looked.frame.rows(&base, lines.seen(base.key, *frame), looked.has_base, near, &mut seen.rows);
                    seen.groups.resize(seen.rows.len(), number);
                }
            }
            left = left.saturating_sub(1);
            self.done += 1;
        }
    }

    /// Whether the next row sees others in a frame, where no condition is asked of these.
    fn sees_some(&self, frame: usize, asked: &Asked) -> bool {
        let Spans { starts, ends, .. } = &self.spans[frame];
        let has_condition = asked.frames[frame].paired.as_ref().is_some_and(|paired| paired.condition.is_some());
        !has_condition && starts[self.done] < ends[self.done]
    }

    /// Adds rows that were seen to the aggregates of a frame, so many at most, some at a time; returns how many might follow.
    fn update(&mut self, frame: usize, asked: &Asked, kept: &Kept, bases: &[Entry], most: usize) -> Result<usize> {
        let (looked, mut left, count) = (&asked.frames[frame], most, bases.len());
        if looked.is_alone() && most > 0 {
            let have_pairs = &self.have_pairs;
            self.seen[frame].iter_mut().for_each(|seen| seen.retain(|number| !have_pairs[number as usize]));
        }
        for (kind, seen) in KINDS.into_iter().zip(&mut self.seen[frame]) {
            let slides = |call: usize| asked.slide(looked, call).is_some();
            let is_wanted = |call: &usize| match kind {
                Kind::NeedsAll => asked.summed[*call].is_none() && !slides(*call),
                Kind::Slides => slides(*call),
                Kind::Unsure => asked.may_be_unsure(*call),
            };
            while seen.left() > 0 && left > 0 {
                let some = seen.done..seen.done + seen.left().min(SEEN).min(left);
                let (rows, groups) = (&seen.rows[some.clone()], &seen.groups[some.clone()]);
                let accumulators = &mut self.accumulators;
                if let Some(paired) = &looked.paired {
                    let kept_at = &asked.layout.calls[looked.calls.start].0;
                    let Pairs { values, groups } = paired.of((&asked.layout, kept_at), kept, rows, (bases, groups))?;
                    if paired.condition.is_some() {
                        self.pairs[0] += some.len();
                        self.pairs[1] += groups.len();
                    }
                    if !self.have_pairs.is_empty() && !paired.is_alone {
                        groups.iter().for_each(|number| self.have_pairs[*number as usize] = true);
                    }
                    for ((call, arguments), filter) in looked.calls.clone().zip(&values.arguments).zip(&values.filters)
                    {
                        accumulators[call].update(arguments, filter.as_ref(), &groups, count)?;
                    }
                } else {
                    for call in looked.calls.clone().filter(is_wanted) {
                        let (arguments, filter) = asked.gathered(call, kept, rows)?;
                        accumulators[call].update(&arguments, filter.as_ref(), groups, count)?;
                    }
                }
                self.search.visited += some.len() as u64;
                left -= some.len();
                seen.done = some.end;
            }
            if seen.left() == 0 {
                seen.forget();
            }
        }
        Ok(left)
    }

    /// The next so many of the rows have their results.
    pub fn go_on(&mut self, rows: usize) {
        self.given += rows;
    }

    /// How many bytes the states of aggregates take that are at hand.
    pub fn at_hand(&self) -> usize {
        self.accumulators.iter().map(|accumulator| accumulator.bytes()).sum()
    }

    /// How many bytes of memory it keeps.
    pub fn bytes(&self) -> usize {
        let spans: usize = self.spans.iter().map(Spans::bytes).sum();
        let totals: usize = self.totals.iter().map(Sums::bytes).sum();
        let keys = self.keys.capacity() * size_of::<(u32, Range<usize>)>() + self.times.capacity() * size_of::<i64>();
        let seen = |seen: &Seen| seen.rows.capacity() * size_of::<At>() + seen.groups.capacity() * size_of::<u32>();
        let seen: usize = self.seen.iter().flatten().map(seen).sum();
        let stood: usize = self.stood.iter().map(Vec::capacity).sum();
        let behind: usize = self.behind.iter().map(Behind::bytes).sum();
        stood
            + behind
            + self.order.capacity() * size_of::<u32>()
            + self.rows.capacity() * size_of::<At>()
            + keys
            + spans
            + totals
            + seen
            + self.at_hand()
    }
}
