//! When a row that comes too late would have changed what rows see.

use super::{
    super::{
        asked::{Asked, Looked},
        entry::Entry,
        frame::{Hole, Spans},
        lines::Lines,
        spoilt::Seen,
    },
    Chunk,
};

impl Chunk {
    /// When rows that come too late would have changed what some rows see: `chosen` has their numbers among the next to be given, and these are
    /// `bases`.
    pub fn seen(&self, chosen: &[usize], bases: &[Entry], asked: &Asked, lines: &Lines) -> Vec<Seen> {
        let mut places = Vec::new();
        if !chosen.is_empty() {
            places.resize(self.order.len(), 0);
            self.order.iter().enumerate().for_each(|(place, number)| places[*number as usize] = place);
        }
        let others = || asked.frames.iter().enumerate().filter(|(_, looked)| !looked.frame.is_of_the_row());
        let seen = |(row, base): (&usize, &Entry)| {
            let place = places[self.given + row];
            let seen = others().map(|(number, looked)| {
                let spans = &self.spans[number];
                let rows = found(looked, spans, place);
                let (from, to) = looked.frame.sees_between(base.time);
                let is_full = looked.frame.size().is_some_and(|size| rows >= size);
                let first = || {
                    let rows = lines.seen(base.key, number).rows();
                    let seen = rows.get(spans.starts[place]..spans.ends[place]);
                    seen.and_then(<[Entry]>::first).map_or(base.time, |first| first.time)
                };
                // One before the first row would not be among them, and one before the last one not the last.
                let first = if is_full { Some(first()) } else { self.last(number, self.order[place]) };
                let from = first.map_or(from, |first| first.saturating_add(1).max(from));
                let [rows, asked] = match looked.takes_last() {
                    true => self.behind[number].asked[self.order[place] as usize],
                    false => [u32::try_from(rows).unwrap_or(u32::MAX), 0],
                };
                Seen { time: base.time, from, to, rows, asked }
            });
            let both = |one: Seen, other: Seen| Seen {
                from: one.from.min(other.from),
                to: one.to.max(other.to),
                rows: one.rows.max(other.rows),
                asked: one.asked.max(other.asked),
                ..one
            };
            seen.reduce(both).unwrap_or(Seen { time: base.time, from: 1, to: 0, rows: 1, asked: 0 })
        };
        chosen.iter().zip(bases).map(seen).collect()
    }

    /// When the last row is that a row of this number sees in a frame, where no more than that is asked.
    fn last(&self, frame: usize, number: u32) -> Option<i64> {
        self.behind.get(frame)?.times.get(number as usize).copied().flatten()
    }
}

/// How many rows a row sees in a frame, that of this place.
fn found(looked: &Looked, spans: &Spans, place: usize) -> usize {
    let [first, last] = &spans.holes;
    let left_out = match looked.hole {
        Some(Hole::Itself) if first.is_empty() => 1,
        _ => first.get(place).zip(last.get(place)).map_or(0, |(first, last)| last - first),
    };
    let own = usize::from(looked.adds_own && spans.owns(place));
    (spans.ends[place] - spans.starts[place] + own).saturating_sub(left_out)
}
