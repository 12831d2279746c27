//! The last row of a window for which a condition holds, looked for from behind: a few rows, then more and more.

use std::collections::VecDeque;

use thalweg_core::Result;

use super::{
    super::{
        asked::{Asked, Looked},
        entry::{At, Entry},
        kept::Kept,
        lines::Lines,
        paired::{Paired, Pairs},
    },
    Chunk, SEEN,
};

/// So many rows of each window are looked at first, and each time so many times more.
const FIRST: usize = 4;
const MORE: usize = 4;

/// What is looked for in a frame.
#[derive(Default)]
pub(super) struct Behind {
    /// Windows in which nothing was found yet.
    open: VecDeque<Open>,
    /// The rows that were found, and by which row of a chunk they are seen.
    found: Vec<At>,
    groups: Vec<u32>,
    /// When each of these is, by the number of the row that sees it; empty where that is not looked for.
    pub times: Vec<Option<i64>>,
    /// By the same number for how many rows the condition held, and of how many it was asked.
    pub asked: Vec<[u32; 2]>,
}

/// A window.
#[derive(Clone, Copy)]
struct Open {
    /// Whose it is, in the order of keys.
    place: usize,
    /// Where what was looked at begins.
    end: usize,
    /// How many rows are looked at next.
    step: usize,
}

impl Behind {
    /// Whether nothing is left to be looked for.
    pub fn is_done(&self) -> bool {
        self.open.is_empty() && self.found.is_empty()
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.open.capacity() * size_of::<Open>()
            + self.found.capacity() * size_of::<(At, u32)>()
            + self.times.capacity() * size_of::<(Option<i64>, [u32; 2])>()
    }
}

impl Chunk {
    /// Begins to look for the last rows of all windows of the frames of which no more is asked.
    pub(super) fn begin_behind(&mut self, asked: &Asked) {
        self.behind.resize_with(asked.frames.len(), Behind::default);
        for (frame, behind) in self.behind.iter_mut().enumerate() {
            *behind = Behind::default();
            if asked.frames[frame].takes_last() {
                let ends = self.spans[frame].ends.iter().enumerate();
                behind.open.extend(ends.map(|(place, end)| Open { place, end: *end, step: FIRST }));
                behind.times.resize(self.order.len(), None);
                behind.asked.resize(self.order.len(), [0; 2]);
            }
        }
    }

    /// Looks on for the last rows of the windows of a frame, at about so many rows at most; returns how many might follow.
    pub(super) fn look_behind(
        &mut self,
        frame: usize,
        asked: &Asked,
        lines: &Lines,
        kept: &Kept,
        bases: &[Entry],
        most: usize,
    ) -> Result<usize> {
        let (looked, mut left) = (&asked.frames[frame], most);
        let Some(paired) = &looked.paired else { return Ok(left) };
        while !self.behind[frame].open.is_empty() && left > 0 {
            let visited = self.look_at_some(frame, (asked, looked, paired), lines, kept, bases)?;
            self.search.visited += visited as u64;
            left = left.saturating_sub(visited + 1);
        }
        if !self.behind[frame].open.is_empty() {
            return Ok(left);
        }
        let found = std::mem::take(&mut self.behind[frame].found);
        let groups = std::mem::take(&mut self.behind[frame].groups);
        let arguments = &asked.layout.calls[looked.calls.start].0;
        for (rows, groups) in found.chunks(SEEN).zip(groups.chunks(SEEN)) {
            let Pairs { values, groups } = paired.of((&asked.layout, arguments), kept, rows, (bases, groups))?;
            for ((call, arguments), filter) in looked.calls.clone().zip(&values.arguments).zip(&values.filters) {
                self.accumulators[call].update(arguments, filter.as_ref(), &groups, bases.len())?;
            }
        }
        Ok(left)
    }

    /// Looks at the last rows of some windows; returns at how many.
    fn look_at_some(
        &mut self,
        frame: usize,
        (asked, looked, paired): (&Asked, &Looked, &Paired),
        lines: &Lines,
        kept: &Kept,
        bases: &[Entry],
    ) -> Result<usize> {
        let Self { behind, spans, order, pairs, .. } = self;
        let Behind { open, found, groups, times, asked: all_asked } = &mut behind[frame];
        let (starts, mut some, mut rows, mut of_rows) = (&spans[frame].starts, Vec::new(), Vec::new(), Vec::new());
        while rows.len() < SEEN
            && let Some(window) = open.pop_front()
        {
            let number = order[window.place];
            let from = window.end.saturating_sub(window.step).max(starts[window.place]);
            let line = lines.seen(bases[number as usize].key, frame).rows();
            rows.extend_from_slice(line.get(from..window.end).unwrap_or_default());
            of_rows.resize(rows.len(), number);
            some.push((Open { end: from, step: (window.step * MORE).min(SEEN), ..window }, rows.len()));
        }
        let at: Vec<At> = rows.iter().map(|row| row.at).collect();
        let arguments = &asked.layout.calls[looked.calls.start].0;
        let held = match at.is_empty() {
            true => Vec::new(),
            false => paired.held((&asked.layout, arguments), kept, &at, (bases, &of_rows))?,
        };
        pairs[0] += rows.len();
        pairs[1] += held.len();
        let (mut held, mut first) = (held.into_iter().peekable(), 0);
        for (window, end) in some {
            let number = order[window.place];
            let [of_row, of_rows] = &mut all_asked[number as usize];
            *of_rows += (end - first) as u32;
            first = end;
            let mut last = None;
            while let Some(pair) = held.next_if(|pair| (*pair as usize) < end) {
                last = Some(&rows[pair as usize]);
                *of_row += 1;
            }
            match last {
                Some(row) => {
                    found.push(row.at);
                    groups.push(number);
                    times[number as usize] = Some(row.time);
                }
                None if window.end > starts[window.place] => open.push_back(window),
                None => {}
            }
        }
        Ok(rows.len())
    }
}
