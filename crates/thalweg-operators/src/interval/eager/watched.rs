//! Where rows are whose results are remembered while these may still change.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    ops::Range,
};

use arrow_array::{Array, ArrayRef};
use thalweg_core::{Batch, Interval, Result, Timestamp, told::Told};
use thalweg_plan::node::{Distance, JoinKind};

use super::super::{
    entry::At,
    input::Input,
    spoilt::{OfJoin, Seen, taken_rows},
};

/// In which place each of some rows is remembered, by where it lies, and the other way around.
#[derive(Default)]
pub struct Watched {
    places: HashMap<At, usize, BuildHasherDefault<Spread>>,
    rows: Vec<Option<At>>,
}

impl Watched {
    /// A row that lies there is remembered in a place, in which no other one is any more.
    pub fn put(&mut self, place: usize, at: At) {
        self.rows.resize(self.rows.len().max(place + 1), None);
        if let Some(before) = self.rows[place].replace(at) {
            self.places.remove(&before);
        }
        self.places.insert(at, place);
    }

    /// In which place the row is remembered that lies there, if it is.
    pub fn place(&self, at: At) -> Option<usize> {
        self.places.get(&at).copied()
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<(At, usize)>() + self.rows.capacity() * size_of::<Option<At>>()
    }

    /// The results of the row that lay there do not change any more: another one may lie there.
    pub fn leave(&mut self, at: At) {
        self.leave_all(&[at]);
    }

    /// The same of several rows.
    pub fn leave_all(&mut self, rows: &[At]) {
        // As a rule nobody asks how many results are exact.
        if self.places.is_empty() {
            return;
        }
        for place in rows.iter().filter_map(|at| self.places.remove(at)) {
            self.rows[place] = None;
        }
    }
}

/// How many partners some rows of a join have met.
pub struct Partners {
    /// Which side the base rows are of: the one whose rows come out alone, or the left one.
    base: usize,
    /// Which of them lack rows that came too late.
    spoilt: OfJoin,
    /// How far behind a row of each side its partners lie.
    distances: [Distance; 2],
    /// Where those are that are remembered, of base rows and of others.
    watched: [Watched; 2],
}

impl Partners {
    /// Of a join of this kind, whose right rows lie so far behind their left ones.
    pub fn new(kind: JoinKind, distance: Distance) -> Self {
        let base = usize::from(kind == JoinKind::Right);
        let distances = [distance, distance.mirrored()];
        Self { base, spoilt: OfJoin::new(kind, distances[base]), distances, watched: Default::default() }
    }

    /// Rows of a side came, with these keys and times, of which those of `own` have results; the first of all lies there.
    ///
    /// Errors: those of hashing keys.
    pub fn come(&mut self, side: usize, keys: &[ArrayRef], times: &[i64], own: Range<usize>, first: At) -> Result<()> {
        let OfJoin { bases, others, .. } = &mut self.spoilt;
        let (spoilt, watched) = match side == self.base {
            true => (Some(bases), &mut self.watched[0]),
            false => (others.as_mut(), &mut self.watched[1]),
        };
        let Some(spoilt) = spoilt else { return Ok(()) };
        let chosen: Vec<usize> = spoilt.choose(own.len()).into_iter().map(|row| own.start + row).collect();
        let is_null = |row: usize| keys.iter().any(|key| key.is_null(row));
        let seen = chosen.iter().map(|row| Seen::within(self.distances[side], times[*row], [0; 2], is_null(*row)));
        let seen: Vec<Seen> = seen.collect();
        let keys = keys.iter().map(|key| taken_rows(key, &chosen)).collect::<Result<Vec<_>>>()?;
        for (place, row) in spoilt.remember(&keys, &seen)?.into_iter().zip(chosen) {
            watched.put(place, At { row: first.row + row as u32, ..first });
        }
        Ok(())
    }

    /// Others rows of a side than these came too late. Errors: as [`OfJoin::leave_out`].
    pub fn leave_out(&mut self, side: usize, input: &Input, batch: &Batch, on_time: &Batch) -> Result<()> {
        self.spoilt.leave_out(input, batch, on_time, side == self.base)
    }

    /// A condition was asked of these pairs, whose left and right rows lie there, and held for so many.
    pub fn ask(&mut self, [lefts, rights]: [&[Option<At>]; 2], held: usize) {
        self.spoilt.ask(lefts.len(), held);
        for at in if self.base == 0 { lefts } else { rights } {
            if let Some(place) = at.and_then(|at| self.watched[0].place(at)) {
                self.spoilt.bases.ask_one(place);
            }
        }
    }

    /// Of a pair the left and the right row lie there.
    pub fn meet(&mut self, pair: [At; 2]) {
        if let Some(place) = self.watched[0].place(pair[self.base]) {
            self.spoilt.bases.meet(place);
        }
        if let Some(others) = &mut self.spoilt.others
            && let Some(place) = self.watched[1].place(pair[1 - self.base])
        {
            others.meet(place);
        }
    }

    /// What is known now, where rows before `reached` are late; as [`Spoilt::tell`].
    ///
    /// [`Spoilt::tell`]: super::super::spoilt::Spoilt::tell
    pub fn tell(&mut self, reached: Timestamp, are_all: bool) -> Option<Told> {
        let ahead = self.distances.map(|distance| distance.to.0.max(0));
        self.spoilt.tell(reached.minus(Interval(ahead[0].max(ahead[1]))), are_all)
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.spoilt.bytes() + self.watched.iter().map(Watched::bytes).sum::<usize>()
    }

    /// A row that lay there meets no partner any more: another one may lie there.
    pub fn leave(&mut self, at: At) {
        self.watched.iter_mut().for_each(|watched| watched.leave(at));
    }
}

/// Spreads places among others: who looks for a row mostly finds none.
#[derive(Clone, Copy, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}
