//! Rows whose aggregates are computed together.

use std::{ops::Range, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, make_array, new_empty_array};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, SchemaRef};
use thalweg_core::{
    Batch, Result,
    aggregate::{Accumulator, Amounts, Pick},
    operator::{Search, Way},
};

use super::{
    asked::{Asked, Looked, Summed},
    blocks,
    entry::{At, Entry},
    followed::{Followed, Stretch, follow, in_order, put_followed, with_followed},
    frame::{Hole, Spans},
    kept::{Kept, hashes},
    layout::Place,
    lines::{Line, Lines},
    order::Sorter,
    past::Past,
    places::{self, Tells},
    sums::Sums,
    totals::Total,
};

/// So many rows that are seen are aggregated together. (Tests have few rows, here and below.)
const SEEN: usize = if cfg!(test) { 64 } else { 16_384 };

/// After so many rows that were seen others may run.
const TURN: usize = if cfg!(test) { 128 } else { 1 << 20 };

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
    /// By frame the rows whose totals are no numbers for certain.
    unsure: Vec<Unsure>,
    /// By frame for how many rows blocks were merged.
    merged: Vec<usize>,
    /// Whether all was found from rows as they are sorted each time.
    is_swept: bool,
    /// By frame rows that are seen and not aggregated yet, for aggregates of each kind.
    seen: Vec<[Seen; KINDS.len()]>,
    /// What was looked at and found since this was last taken.
    pub search: Search,
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

/// What is looked for around the rows of a chunk: what is asked of a frame, and what these rows add themselves to each of the running
/// totals.
#[derive(Clone, Copy)]
struct Around<'a> {
    asked: &'a Asked,
    frame: usize,
    own: &'a [Amounts],
}

impl<'a> Around<'a> {
    fn looked(&self) -> &'a Looked {
        &self.asked.frames[self.frame]
    }
}

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

    /// Forgets all rows; where one row saw very many, their memory is given back.
    fn forget(&mut self) {
        if self.rows.capacity() > 4 * SEEN {
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
        let own = self.reset(bases, asked, kept)?;
        for (frame, looked) in asked.frames.iter().enumerate() {
            self.look_around(Around { asked, frame, own: &own }, bases, lines);
            self.pick(frame, looked, bases, asked, lines);
        }
        Ok(())
    }

    /// Begins with these rows, and finds what all that is asked for follows from: the times of all rows, and of these, tell keys apart. To
    /// each of these rows in the order of keys belongs its number in the order of time. Returns whether that is all: if not, nothing is known
    /// for certain.
    pub fn begin_swept(
        &mut self,
        bases: &[Entry],
        asked: &Asked,
        kept: &Kept,
        line: &Line,
        rows: impl Iterator<Item = (u32, i64)>,
    ) -> Result<bool> {
        let Self { order, times, keys, .. } = self;
        keys.clear();
        order.clear();
        times.clear();
        rows.for_each(|(number, time)| {
            order.push(number);
            times.push(time);
        });
        let own = self.reset(bases, asked, kept)?;
        self.is_swept = true;
        for frame in 0..asked.frames.len() {
            let around = Around { asked, frame, own: &own };
            let calls = self.totals_of(around, bases.len());
            self.look_along(around, &calls, 0..bases.len(), bases, line, &mut (0..0));
        }
        Ok(self.unsure.iter().all(|unsure| unsure.are.is_empty()))
    }

    /// Forgets what was found for other rows; returns what these add themselves to each of the running totals, where that is wanted.
    fn reset(&mut self, bases: &[Entry], asked: &Asked, kept: &Kept) -> Result<Vec<Amounts>> {
        self.rows.clear();
        self.rows.extend(bases.iter().map(|base| base.at));
        (self.done, self.given, self.is_swept) = (0, 0, false);
        self.accumulators = asked.functions.iter().map(|function| function.accumulator()).collect::<Result<_>>()?;
        self.totals.resize_with(asked.functions.len(), Sums::default);
        self.picked.resize_with(asked.functions.len(), Vec::new);
        self.followed.clear();
        self.followed.resize_with(asked.functions.len(), Followed::default);
        self.spans.resize_with(asked.frames.len(), Spans::default);
        self.spans.iter_mut().for_each(Spans::clear);
        self.settled = vec![Settled::default(); asked.frames.len()];
        self.unsure = asked.frames.iter().map(|_| Unsure::default()).collect();
        self.merged = vec![0; asked.frames.len()];
        self.seen.resize_with(asked.frames.len(), Default::default);
        let needs_own = |looked: &Looked| looked.adds_own || looked.hole.is_some();
        if asked.frames.iter().any(needs_own) { asked.amounts(kept, bases, 0..bases.len()) } else { Ok(Vec::new()) }
    }

    /// Finds the rows that aggregates of a frame are values of.
    fn pick(&mut self, frame: usize, looked: &Looked, bases: &[Entry], asked: &Asked, lines: &Lines) {
        for call in looked.calls.clone() {
            let Some(Summed::Row(pick)) = asked.summed[call] else { continue };
            self.picked[call].clear();
            self.picked[call].resize(bases.len(), None);
            for number in 0..self.keys.len() {
                let (key, places) = self.keys[number].clone();
                let line = lines.seen(key, frame);
                for place in places {
                    let Spans { starts, ends, .. } = &self.spans[frame];
                    let (row, seen) = (self.order[place] as usize, starts[place]..ends[place]);
                    let base = &bases[row];
                    let hole = self.hole(looked, frame, place, line, base);
                    let is_apart = looked.adds_own && self.spans[frame].owns(place);
                    let (before, own) = (hole.start - seen.start, usize::from(is_apart));
                    let count = before + own + (seen.end - hole.end);
                    let number = match pick {
                        Pick::First(number) => Some(number),
                        Pick::Last(number) => count.checked_sub(number.saturating_add(1)),
                    };
                    let number = number.filter(|number| *number < count);
                    self.picked[call][row] = number.map(|number| match number {
                        number if number < before => line.rows()[seen.start + number].at,
                        number if number < before + own => base.at,
                        number => line.rows()[hole.end + number - before - own].at,
                    });
                }
            }
        }
    }

    /// Where what a row does not see is in its line; of rows that follow each other that is empty, where the row would stand if it is seen
    /// and not among them.
    fn hole(&self, looked: &Looked, frame: usize, place: usize, line: &Line, base: &Entry) -> Range<usize> {
        let Spans { starts, ends, holes: [first, last], .. } = &self.spans[frame];
        if let (Some(first), Some(last)) = (first.get(place), last.get(place)) {
            return *first..*last;
        }
        let own = || line.place(base, ends[place]);
        let near = || own().clamp(starts[place], ends[place]);
        match looked.hole {
            Some(_) => own()..own() + 1,
            None if looked.adds_own => near()..near(),
            None => ends[place]..ends[place],
        }
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

    /// Finds which rows those of this chunk see, and the totals for the aggregates of a frame that follow from totals.
    fn look_around(&mut self, around: Around<'_>, bases: &[Entry], lines: &mut Lines) {
        let calls = self.totals_of(around, bases.len());
        for number in 0..self.keys.len() {
            lines.prefetch(|ahead| self.keys.get(number + ahead).map(|(key, _)| *key));
            let (key, places) = self.keys[number].clone();
            let (line, near) = lines.followed(key, around.frame);
            self.look_along(around, &calls, places, bases, line, near);
        }
    }

    /// The aggregates of a frame that follow from totals, which are found next for so many rows.
    fn totals_of(&mut self, around: Around<'_>, rows: usize) -> Vec<usize> {
        let is_total =
            |call: &usize| around.asked.summed[*call].is_some_and(|summed| !matches!(summed, Summed::Row(_)));
        let calls: Vec<usize> = around.looked().calls.clone().filter(is_total).collect();
        calls.iter().for_each(|call| self.totals[*call].begin(rows));
        calls
    }

    /// Finds which rows of a line some of this chunk see, and the totals of some aggregates.
    fn look_along(
        &mut self,
        around: Around<'_>,
        calls: &[usize],
        places: Range<usize>,
        bases: &[Entry],
        line: &Line,
        near: &mut Range<usize>,
    ) {
        let (Around { frame, .. }, looked) = (around, around.looked());
        let (last, spans, times) = (near.clone(), &mut self.spans[frame], &self.times[places.clone()]);
        let some = self.order[places.clone()].iter().map(|number| &bases[*number as usize]);
        looked.frame.spans(times, some, line, looked.has_base, near, spans);
        // Both ends have passed the rows in between.
        self.search.visited += (near.start.abs_diff(last.start) + near.end.abs_diff(last.end)) as u64;
        let found = spans.starts[places.clone()].iter().zip(&spans.ends[places.clone()]);
        let found: usize = found.map(|(start, end)| end - start).sum();
        let [first, last] = spans.holes.each_ref().map(|ends| ends.get(places.clone()).unwrap_or(&[]));
        let lacking: usize = match looked.hole {
            Some(Hole::Itself) if first.is_empty() => places.len(),
            _ => first.iter().zip(last).map(|(start, end)| end - start).sum(),
        };
        let own = if looked.adds_own { places.clone().filter(|place| spans.owns(*place)).count() } else { 0 };
        self.search.found += (found + own).saturating_sub(lacking) as u64;
        calls.iter().for_each(|call| self.sum(*call, around, places.clone(), line));
    }

    /// Finds the totals of an aggregate for the rows of one key.
    fn sum(&mut self, call: usize, around: Around<'_>, places: Range<usize>, line: &Line) {
        let (Around { asked, frame, own }, Looked { adds_own, hole, .. }) = (around, around.looked());
        let (spans, order) = (&self.spans[frame], &self.order[places.clone()]);
        let (starts, ends) = (&spans.starts[places.clone()], &spans.ends[places.clone()]);
        let holes = spans.holes.each_ref().map(|ends| ends.get(places.clone()).unwrap_or(&[]));
        let (found, unsure) = (&mut self.totals[call], &mut self.unsure[frame]);
        let kind = match asked.summed[call] {
            Some(Summed::Total(kind) | Summed::Times(kind)) => Some(kind),
            _ => None,
        };
        let running = kind.and_then(|kind| line.running(kind));
        if let Some((running, gone)) = running
            && let Some(sums) = running.narrow()
            && !(*adds_own || hole.is_some())
        {
            found.put_all(order, &sums[gone..], starts, ends);
            return;
        }
        let mut put = |number: usize, total: Option<Total>| {
            let row = order[number] as usize;
            let own = || match kind {
                None => Some(Total { count: 1, sum: 0 }),
                Some(kind) => amount(&own[kind], row),
            };
            let lacking = |range: Range<usize>| match running {
                Some((running, gone)) => running.one(range.start + gone..range.end + gone),
                None => Some(Total { count: range.len() as u64, sum: 0 }),
            };
            let others = match (total, holes.map(|ends| ends.get(number))) {
                (Some(total), [Some(start), Some(end)]) => {
                    lacking(*start..*end).and_then(|lacking| total.minus(lacking))
                }
                (Some(total), _) if *hole == Some(Hole::Itself) => own().and_then(|own| total.minus(own)),
                (total, _) => total,
            };
            let sees_own = *adds_own && spans.owns(places.start + number);
            let total = if sees_own { others.and_then(|others| others.plus(own()?)) } else { others };
            match total {
                Some(total) => found.put(row, total),
                None => {
                    found.forget(row);
                    unsure.put(call, row, self.rows.len());
                }
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

    /// Looks at rows one by one where that must be; whether all is done.
    pub fn look(
        &mut self,
        bases: &[Entry],
        asked: &Asked,
        lines: &Lines,
        (kept, past): (&Kept, &Past),
    ) -> Result<bool> {
        let looks = |frame: usize| {
            let looked = &asked.frames[frame];
            looked.needs_all || looked.slides || !self.unsure[frame].are.is_empty()
        };
        let frames: Vec<usize> = (0..asked.frames.len()).filter(|frame| looks(*frame)).collect();
        if frames.is_empty() {
            self.done = self.order.len();
        }
        let (mut left, mut near) = (TURN, vec![0..0; asked.frames.len()]);
        let mut last = u32::MAX;
        loop {
            let is_last = self.done == self.order.len();
            for frame in &frames {
                // A row may see very many.
                if is_last || self.seen[*frame].iter().any(|seen| seen.left() >= SEEN) {
                    left = self.update(*frame, asked, kept, bases.len(), left)?;
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

    /// Finds what is asked of the next rows of one key without looking at all rows of each window, if that pays; returns how many rows were
    /// looked at.
    fn settle(
        &mut self,
        frame: usize,
        looked: &Looked,
        bases: &[Entry],
        asked: &Asked,
        lines: &Lines,
        (kept, past): (&Kept, &Past),
    ) -> Result<usize> {
        let key = bases[self.order[self.done] as usize].key;
        let same = self.order[self.done..].iter().take_while(|number| bases[**number as usize].key == key).count();
        let end = self.done + same;
        let (order, spans) = (&self.order[self.done..end], &self.spans[frame]);
        let (starts, ends) = (&spans.starts[self.done..end], &spans.ends[self.done..end]);
        // Where frames have a size and leave rows out, one may begin before the one before it.
        let first = starts.iter().copied().min().unwrap_or(0);
        let all = first..ends[same - 1].max(first);
        let seen = starts.iter().zip(ends).map(|(start, end)| end - start).sum();
        let blocks_pay = looked.has_blocks && blocks::pay(same, all.len(), seen);
        let following_pays = looked.slides && seen > 2 * (all.len() + same);
        let unsure: Vec<usize> = (0..same).filter(|place| self.unsure[frame].has(order[*place] as usize)).collect();
        let can_follow =
            |call: &usize| asked.functions[*call].slide().is_some_and(|slide| !looked.has_past || slide.goes_on());
        let can_follow = self.unsure[frame].calls.iter().all(can_follow);
        let seen: usize = unsure.iter().map(|place| ends[*place] - starts[*place]).sum();
        let sure_pays = can_follow && !unsure.is_empty() && seen > 2 * (all.len() + unsure.len());
        self.settled[frame] = Settled { end, ..Settled::default() };
        let lacks_own = looked.adds_own && !(self.done..end).all(|place| spans.owns(place));
        if lacks_own || all.len() > TOGETHER || !(blocks_pay || following_pays || sure_pays) {
            return Ok(0);
        }
        self.search.visited += all.len() as u64;
        let windows = starts.iter().zip(ends).map(|(start, end)| start - all.start..end - all.start);
        let windows: Vec<_> = windows.collect();
        let line = lines.seen(key, frame);
        let mut rows: Vec<At> = line.rows()[all.clone()].iter().map(|entry| entry.at).collect();
        let hole = |place: usize| {
            (looked.hole.is_some() || looked.adds_own).then_some(())?;
            let hole = self.hole(looked, frame, self.done + place, line, &bases[order[place] as usize]);
            Some(hole.start - all.start..hole.end - all.start)
        };
        let lacks: Vec<Range<usize>> = (0..same).map_while(hole).collect();
        let own = looked.adds_own.then_some(rows.len());
        if own.is_some() {
            rows.extend(order.iter().map(|number| self.rows[*number as usize]));
        }
        if following_pays {
            let slides: Vec<_> = looked.calls.clone().filter(|call| asked.slide(looked, *call).is_some()).collect();
            let stretch = Stretch { rows: &rows, windows: &windows, own, lacks: &lacks, past_of: None };
            let results = follow(asked, (kept, past), &slides, stretch)?;
            self.settled[frame].is_followed = results.is_some();
            put_followed(&mut self.followed, order, results);
        }
        if sure_pays {
            let mut rows = rows[..all.len()].to_vec();
            let numbers: Vec<u32> = unsure.iter().map(|place| order[*place]).collect();
            rows.extend(numbers.iter().filter(|_| own.is_some()).map(|number| self.rows[*number as usize]));
            let windows: Vec<_> = unsure.iter().map(|place| windows[*place].clone()).collect();
            let lacks: Vec<_> = unsure.iter().filter_map(|place| lacks.get(*place).cloned()).collect();
            let past_of = looked.has_past.then_some(key);
            let stretch = Stretch { rows: &rows, windows: &windows, own, lacks: &lacks, past_of };
            let results = follow(asked, (kept, past), &self.unsure[frame].calls, stretch)?;
            self.settled[frame].is_sure = results.is_some();
            put_followed(&mut self.followed, &numbers, results);
        }
        if blocks_pay {
            let (rows, apart) = rows.split_at(all.len());
            let slides = |call: &usize| asked.slide(looked, *call).is_some();
            // A window with a hole is two; one that is empty is only where the row itself would stand.
            let parts = |(place, window): (usize, &Range<usize>)| {
                let hole = lacks.get(place).filter(|hole| !hole.is_empty()).cloned();
                let hole = hole.unwrap_or(window.end..window.end);
                [(window.start..hole.start, order[place]), (hole.end..window.end, order[place])]
            };
            let parts: Vec<_> =
                windows.iter().enumerate().flat_map(parts).filter(|(part, _)| !part.is_empty()).collect();
            for call in looked.calls.clone().filter(|call| asked.summed[*call].is_none() && !slides(call)) {
                let (function, accumulator) = (asked.functions[call].as_ref(), self.accumulators[call].as_mut());
                let values = asked.gathered(call, kept, rows)?;
                blocks::add(function, &values, rows.len(), parts.clone(), accumulator, bases.len())?;
                if own.is_some() {
                    let (arguments, filter) = asked.gathered(call, kept, apart)?;
                    accumulator.update(&arguments, filter.as_ref(), order, bases.len())?;
                }
            }
            self.settled[frame].is_found = true;
            self.merged[frame] += same;
        }
        Ok(all.len())
    }

    /// Adds rows that were seen to the aggregates of a frame, so many at most, some at a time; returns how many might follow.
    fn update(&mut self, frame: usize, asked: &Asked, kept: &Kept, count: usize, most: usize) -> Result<usize> {
        let (looked, mut left) = (&asked.frames[frame], most);
        for (kind, seen) in KINDS.into_iter().zip(&mut self.seen[frame]) {
            let slides = |call: usize| asked.slide(looked, call).is_some();
            let is_wanted = |call: &usize| match kind {
                Kind::NeedsAll => asked.summed[*call].is_none() && !slides(*call),
                Kind::Slides => slides(*call),
                Kind::Unsure => asked.may_be_unsure(*call),
            };
            while seen.left() > 0 && left > 0 {
                let some = seen.done..seen.done + seen.left().min(SEEN).min(left);
                for call in looked.calls.clone().filter(is_wanted) {
                    let (arguments, filter) = asked.gathered(call, kept, &seen.rows[some.clone()])?;
                    self.accumulators[call].update(&arguments, filter.as_ref(), &seen.groups[some.clone()], count)?;
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
        let rows = self.given..self.given + bases.len();
        let mut columns = passed(bases, &self.rows[rows.clone()], asked, kept, output)?;
        columns.extend(self.aggregates(bases, asked, past, kept)?);
        let batch = Batch::new(RecordBatch::try_new(Arc::clone(output), columns)?);
        let batch = match positions {
            None => batch,
            Some(Tells::Position) => batch.with_positions(Arc::new(places::positions(bases, None))),
            Some(Tells::Content) => {
                batch.with_positions(Arc::new(places::positions(bases, Some(&hashes(kept, &self.rows[rows.clone()])?))))
            }
        };
        self.given = rows.end;
        kept.release_all(self.rows[rows].iter().copied());
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
        let (rows, count) = (self.given..self.given + bases.len(), bases.len());
        self.count_ways(call, frame, rows.clone(), asked);
        if let Some(Summed::Row(_)) = asked.summed[call] {
            let value = asked.layout.calls[call].0[0];
            return kept.gather_some(value, &self.picked[call][rows], &asked.functions[call].output());
        }
        let Followed { rows: followed, results } = std::mem::take(&mut self.followed[call]);
        if followed.len() == count {
            return in_order(&followed, &results);
        }
        let accumulator = &mut self.accumulators[call];
        let has_past = asked.frames[frame].has_past && bases.iter().any(|base| past.has(base.key));
        if asked.summed[call].is_none() {
            // Rows at the end may have seen nothing.
            let arguments = asked.layout.calls[call].0.iter();
            let nothing: Vec<_> = arguments.map(|column| kept.nothing(*column, self.rows[0])).collect();
            accumulator.update(&nothing, None, &[], count)?;
            if has_past {
                past.merge(call, bases, accumulator.as_mut())?;
            }
            return with_followed(accumulator.take_result()?, followed, results);
        }
        if let Some(Summed::Times(_)) = asked.summed[call] {
            let times = self.totals[call].of(rows).zip(bases);
            let times = times.map(|(times, base)| times as i64 + if has_past { past.times(call, base.key) } else { 0 });
            return Ok(Arc::new(Int64Array::from_iter_values(times)));
        }
        let (totals, sums) = (asked.totals(call)?, &self.totals[call]);
        if self.unsure[frame].are.is_empty()
            && !has_past
            && let Some(results) = sums.results(rows.clone(), totals)?
        {
            return Ok(results);
        }
        let groups: Vec<u32> = (0..count as u32).collect();
        accumulator.merge(&sums.states(rows, totals)?, &groups, count)?;
        if has_past {
            past.merge(call, bases, accumulator.as_mut())?;
        }
        with_followed(accumulator.take_result()?, followed, results)
    }

    /// Counts in which ways the results of an aggregate were found.
    fn count_ways(&mut self, call: usize, frame: usize, rows: Range<usize>, asked: &Asked) {
        let (count, followed) = (rows.len(), self.followed[call].rows.len());
        let mut add = |way: Way, results: usize| self.search.ways[way as usize] += results as u64;
        match asked.summed[call] {
            Some(Summed::Row(_)) => add(Way::OneRow, count),
            Some(_) => {
                let unsure = if asked.may_be_unsure(call) { self.unsure[frame].count(rows) } else { 0 };
                add(if self.is_swept { Way::Sorting } else { Way::RunningTotals }, count - unsure);
                add(Way::Sliding, followed);
                add(Way::AllRows, unsure.saturating_sub(followed));
            }
            None => {
                let slides = asked.slide(&asked.frames[frame], call).is_some();
                let merged = if slides { 0 } else { self.merged[frame] };
                add(Way::Sliding, followed);
                add(Way::Blocks, merged);
                add(Way::AllRows, count.saturating_sub(followed + merged));
            }
        }
    }

    /// How many bytes of memory it keeps.
    pub fn bytes(&self) -> usize {
        let spans: usize = self.spans.iter().map(Spans::bytes).sum();
        let totals: usize = self.totals.iter().map(Sums::bytes).sum();
        let keys = self.keys.capacity() * size_of::<(u32, Range<usize>)>() + self.times.capacity() * size_of::<i64>();
        let seen = |seen: &Seen| seen.rows.capacity() * size_of::<At>() + seen.groups.capacity() * size_of::<u32>();
        let seen: usize = self.seen.iter().flatten().map(seen).sum();
        self.order.capacity() * size_of::<u32>() + self.rows.capacity() * size_of::<At>() + keys + spans + totals + seen
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
