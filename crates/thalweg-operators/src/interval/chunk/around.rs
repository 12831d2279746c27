//! Which rows those of a chunk see, and what follows from that alone: totals, and values of single rows.

use std::ops::Range;

use thalweg_core::aggregate::{Amounts, Pick};

use super::{
    super::{
        asked::{Asked, Looked, Summed},
        entry::Entry,
        frame::{Hole, Spans},
        line::Line,
        lines::Lines,
        totals::Total,
    },
    Chunk,
};

/// What is looked for around the rows of a chunk: what is asked of a frame, and what these rows add themselves to each of the running
/// totals.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub asked: &'a Asked,
    pub frame: usize,
    pub own: &'a [Amounts],
}

impl<'a> Around<'a> {
    fn looked(&self) -> &'a Looked {
        &self.asked.frames[self.frame]
    }
}

impl Chunk {
    /// Finds the rows that aggregates of a frame are values of.
    pub(super) fn pick(&mut self, frame: usize, looked: &Looked, bases: &[Entry], asked: &Asked, lines: &Lines) {
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

    /// Finds which rows those of this chunk see, and the totals for the aggregates of a frame that follow from totals.
    pub(super) fn look_around(&mut self, around: Around<'_>, bases: &[Entry], lines: &mut Lines) {
        let calls = self.totals_of(around, bases.len());
        for number in 0..self.keys.len() {
            lines.prefetch(|ahead| self.keys.get(number + ahead).map(|(key, _)| *key));
            let (key, places) = self.keys[number].clone();
            let (line, near) = lines.followed(key, around.frame);
            self.look_along(around, &calls, places, bases, line, near);
        }
    }

    /// The aggregates of a frame that follow from totals, which are found next for so many rows.
    pub(super) fn totals_of(&mut self, around: Around<'_>, rows: usize) -> Vec<usize> {
        let is_total =
            |call: &usize| around.asked.summed[*call].is_some_and(|summed| !matches!(summed, Summed::Row(_)));
        let calls: Vec<usize> = around.looked().calls.clone().filter(is_total).collect();
        calls.iter().for_each(|call| self.totals[*call].begin(rows));
        calls
    }

    /// Finds which rows of a line some of this chunk see, and the totals of some aggregates. Where frames are in time alone, `bases` are not asked
    /// for.
    pub(super) fn look_along(
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
        let some = self.order[places.clone()].iter().filter_map(|number| bases.get(*number as usize));
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
                    unsure.put(call, row, self.order.len());
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

    /// Where what a row does not see is in its line; of rows that follow each other that is empty, where the row would stand if it is seen
    /// and not among them.
    pub(super) fn hole(&self, looked: &Looked, frame: usize, place: usize, line: &Line, base: &Entry) -> Range<usize> {
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
}

/// What a row adds to totals itself, if that is a number.
fn amount(own: &Amounts, row: usize) -> Option<Total> {
    if own.beyond.binary_search(&row).is_ok() {
        return None;
    }
    let counts = own.counted.as_ref().is_none_or(|counted| counted.value(row));
    Some(Total { count: u64::from(counts), sum: own.amounts.get(row) })
}
