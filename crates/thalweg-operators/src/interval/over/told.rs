//! How many results lack rows that came too late, as it is remembered and told.

use arrow_array::{ArrayRef, cast::AsArray, types::Int64Type};
use thalweg_core::{Output, Result, Timestamp};

use super::{
    super::{
        eager::watched::Watched,
        entry::{At, Entry},
        spoilt::Seen,
    },
    Over,
};

impl Over {
    /// Remembers what rows have seen that were chosen; returns in which place each is.
    ///
    /// Errors: `Error::Bug` if keys are not there any more.
    pub(super) fn remember(&mut self, bases: &[Entry], seen: &[Seen]) -> Result<Vec<usize>> {
        let Some(spoilt) = self.spoilt.as_mut().filter(|_| !bases.is_empty()) else { return Ok(Vec::new()) };
        let [asked, held] = std::mem::take(&mut self.chunk.pairs);
        spoilt.ask(asked, held);
        spoilt.remember(&self.lines.columns(bases.iter().map(|base| base.key).collect())?, seen)
    }

    /// Remembers what some rows have seen of those that were just answered, by what was given for them before and is found now, and looks again
    /// at what was remembered.
    ///
    /// Errors: as [`Over::remember`].
    pub(in super::super) fn watch(
        &mut self,
        bases: &[Entry],
        given: &[Option<At>],
        found: &[ArrayRef],
        watched: &mut Watched,
    ) -> Result<()> {
        let Some(spoilt) = &mut self.spoilt else { return Ok(()) };
        let new: Vec<usize> = (0..bases.len()).filter(|row| given[*row].is_none()).collect();
        let mut rows: Vec<usize> = spoilt.choose(new.len()).into_iter().map(|row| new[row]).collect();
        let chosen = rows.len();
        rows.extend((0..bases.len()).filter(|row| given[*row].is_some() && watched.place(bases[*row].at).is_some()));
        let entries: Vec<Entry> = rows.iter().map(|row| bases[*row]).collect();
        let mut seen = self.chunk.seen(&rows, &entries, &self.asked, &self.lines);
        if let Some(partners) = self.partners {
            saw(&mut seen, &rows, &found[partners - self.asked.layout.passed.len()]);
        }
        for (place, base) in self.remember(&entries[..chosen], &seen[..chosen])?.into_iter().zip(&entries) {
            watched.put(place, base.at);
        }
        for (base, seen) in entries.iter().zip(&seen).skip(chosen) {
            if let (Some(spoilt), Some(place)) = (&mut self.spoilt, watched.place(base.at)) {
                spoilt.see_again(place, *seen);
            }
        }
        Ok(())
    }

    /// Says how many results lack rows that came too late, where those of rows before this time are final; whether these are all.
    pub(in super::super) fn tell_spoilt(&mut self, final_before: Timestamp, are_all: bool, out: &mut Output) {
        let told = self.spoilt.as_mut().and_then(|spoilt| spoilt.tell(final_before, are_all));
        told.into_iter().for_each(|told| out.tell(told));
    }
}

/// Some rows have partners, or none: a column says how many each has.
pub(super) fn saw(seen: &mut [Seen], rows: &[usize], partners: &ArrayRef) {
    let partners = partners.as_primitive::<Int64Type>();
    for (seen, row) in seen.iter_mut().zip(rows) {
        (seen.asked, seen.rows) = (seen.rows, u32::try_from(partners.value(*row).max(0)).unwrap_or(u32::MAX));
    }
}
