//! When a row that comes too late would have changed what rows see.

use super::{
    super::{
        asked::{Asked, Looked},
        entry::Entry,
        frame::Spans,
        lines::{Line, Lines},
        spoilt::Seen,
    },
    Chunk,
};

impl Chunk {
    /// When rows that come too late would have changed what some of these rows see, which are the next to be given: those of the numbers
    /// `chosen`, in their order.
    pub fn seen(&self, chosen: &[usize], bases: &[Entry], asked: &Asked, lines: &Lines) -> Vec<Seen> {
        let mut places = Vec::new();
        if !chosen.is_empty() && asked.frames.iter().any(|looked| !looked.frame.is_of_times()) {
            places.resize(self.order.len(), 0);
            self.order.iter().enumerate().for_each(|(place, number)| places[*number as usize] = place);
        }
        let seen = |row: &usize| {
            let base = &bases[*row];
            between(base, asked, |frame, looked| {
                oldest(looked, &self.spans[frame], places[self.given + row], base, lines.seen(base.key, frame))
            })
        };
        chosen.iter().map(seen).collect()
    }
}

/// The same for one row, where it is known when the first row is of each frame that cannot have more: one before that would not be among them.
fn between(base: &Entry, asked: &Asked, oldest: impl Fn(usize, &Looked) -> Option<i64>) -> Seen {
    let others = asked.frames.iter().enumerate().filter(|(_, looked)| !looked.frame.is_of_the_row());
    let between = others.map(|(number, looked)| {
        let (from, to) = looked.frame.spoilt_between(base.time);
        let oldest = if looked.frame.is_of_times() { None } else { oldest(number, looked) };
        (oldest.map_or(from, |oldest| oldest.saturating_add(1).max(from)), to)
    });
    let (from, to) = between.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))).unwrap_or((1, 0));
    Seen { time: base.time, from, to, rows: 1 }
}

/// When the first row is that a row sees in a frame, which follow each other in this place, if it sees as many as there can be.
fn oldest(looked: &Looked, spans: &Spans, place: usize, base: &Entry, line: &Line) -> Option<i64> {
    let (start, end, [first, last]) = (spans.starts[place], spans.ends[place], &spans.holes);
    let size = looked.frame.size(looked.has_base)?;
    let left_out = first.get(place).zip(last.get(place)).map_or(0, |(first, last)| last - first);
    let own = looked.frame.most.is_some() && looked.adds_own && spans.owns(place);
    let seen = (end - start).saturating_sub(left_out) + usize::from(own);
    let first = line.rows().get(start..end).and_then(<[Entry]>::first);
    (seen >= size).then(|| first.map_or(base.time, |first| first.time))
}
