//! The groups of windows that follow one another: each pane is merged a few times, however many windows contain it.
//!
//! ```text
//! window n           a b c d        front: abc, bc, c (merged ahead, oldest last)   back: d
//! window n+1           b c d e      front: bc, c                                    back: de
//! window n+2             c d e f    front: c                                        back: def
//! window n+3               d e f g  d has left, and is in the back: the front is made anew from d, e, f, g
//! ```
//!
//! So a window costs the merge of its new pane, of front and back, and its share of a new front: about four merges, where all
//! its panes would be as many as it has. Nothing is ever taken away from a group, which not every aggregate could.
//!
//! Source: Tangwongsan, Hirzel, Schneider, "Low-latency sliding-window aggregation in worst-case constant time": two stacks.

use std::sync::Arc;

use thalweg_core::{Result, Timestamp, Window, aggregate::Aggregate};

use super::{groups::KeyEncoder, pane::Pane, windowing::PaneId};

/// Panes of windows that are closed one after the other, merged ahead.
#[derive(Default)]
pub struct Sliding {
    /// Panes from a slice on, up to the newest when the front was made; the oldest slice last.
    front: Vec<Merged>,
    /// The panes that came since.
    back: Option<Merged>,
    /// The end of the window that was closed last.
    closed: Option<Timestamp>,
}

/// Several panes in one.
struct Merged {
    /// Where the first of their slices starts.
    oldest: Timestamp,
    pane: Pane,
}

/// Makes panes.
pub struct Maker<'a> {
    /// The aggregates.
    pub functions: &'a [Arc<dyn Aggregate>],
    /// The keys.
    pub encoder: &'a KeyEncoder,
}

impl Maker<'_> {
    fn fresh(&self) -> Result<Pane> {
        Pane::new(self.functions, self.encoder)
    }
}

impl Sliding {
    /// The groups of a window, which follows those that were closed before; `members` are the panes that it sees.
    ///
    /// No row comes any more into a pane that a closed window has seen: a late row goes into one of its own.
    pub fn close(&mut self, window: Window, mut members: Vec<(PaneId, &mut Pane)>, make: &Maker<'_>) -> Result<Pane> {
        while self.front.pop_if(|merged| merged.oldest < window.start).is_some() {}
        let is_stale = self.back.as_ref().is_some_and(|back| back.oldest < window.start);
        if is_stale {
            self.turn(members, make)?;
        } else {
            let closed = self.closed;
            members.retain(|(id, _)| closed.is_none_or(|closed| id.first_end > closed));
            self.push(members, make)?;
        }
        self.closed = Some(window.end);
        self.groups(make)
    }

    /// How many bytes of memory the merged panes take.
    pub fn bytes(&self) -> usize {
        self.front.iter().chain(&self.back).map(|merged| merged.pane.bytes()).sum()
    }

    /// Adds panes that no window has seen yet.
    fn push(&mut self, panes: Vec<(PaneId, &mut Pane)>, make: &Maker<'_>) -> Result<()> {
        for (id, pane) in panes {
            let start = id.slice.start;
            let back = match &mut self.back {
                Some(back) => back,
                None => self.back.insert(Merged { oldest: start, pane: make.fresh()? }),
            };
            back.oldest = back.oldest.min(start);
            back.pane.merge(make.functions, pane)?;
        }
        Ok(())
    }

    /// Makes the front anew.
    fn turn(&mut self, mut panes: Vec<(PaneId, &mut Pane)>, make: &Maker<'_>) -> Result<()> {
        (self.front, self.back) = (Vec::new(), None);
        panes.sort_by_key(|(id, _)| std::cmp::Reverse(id.slice.start));
        for (id, pane) in panes {
            let oldest = id.slice.start;
            // A slice has several panes if rows came late for its first window.
            if self.front.last().is_none_or(|merged| merged.oldest != oldest) {
                let mut ahead = make.fresh()?;
                if let Some(newer) = self.front.last_mut() {
                    ahead.merge(make.functions, &mut newer.pane)?;
                }
                self.front.push(Merged { oldest, pane: ahead });
            }
            if let Some(merged) = self.front.last_mut() {
                merged.pane.merge(make.functions, pane)?;
            }
        }
        Ok(())
    }

    /// Front and back in one.
    fn groups(&mut self, make: &Maker<'_>) -> Result<Pane> {
        let mut groups = make.fresh()?;
        for merged in self.front.last_mut().into_iter().chain(&mut self.back) {
            groups.merge(make.functions, &mut merged.pane)?;
        }
        Ok(groups)
    }
}
