//! Where rows are whose results are remembered while these may still change.

use std::{collections::HashMap, ops::Range};

use arrow_array::{Array, ArrayRef};
use thalweg_core::{Interval, Result, Timestamp, told::Told};
use thalweg_plan::node::{Distance, JoinKind};

use super::super::{
    entry::At,
    spoilt::{Of, Seen, Spoilt, taken_rows},
};

/// In which place each of some rows is remembered, by where it lies, and the other way around.
#[derive(Default)]
pub struct Watched {
    places: HashMap<At, usize>,
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
        if let Some(place) = self.places.remove(&at) {
            self.rows[place] = None;
        }
    }
}

/// How many partners some rows of one side of a join have met.
pub struct Partners {
    /// Which side: the one whose rows come out alone.
    pub base: usize,
    /// Which of them lack rows that came too late.
    pub spoilt: Spoilt,
    distance: Distance,
    watched: Watched,
}

impl Partners {
    /// Of a join of this kind, whose right rows lie so far behind their left ones.
    pub fn new(kind: JoinKind, distance: Distance) -> Self {
        let base = usize::from(kind == JoinKind::Right);
        let distance = if base == 0 { distance } else { distance.mirrored() };
        let spoilt = Spoilt::new(Of::Join(kind), Some(distance.from.0.saturating_neg()));
        Self { base, spoilt, distance, watched: Watched::default() }
    }

    /// Rows of this side came, with these keys and times, of which those of `own` have results; the first of all lies there.
    ///
    /// Errors: those of hashing keys.
    pub fn come(&mut self, keys: &[ArrayRef], times: &[i64], own: Range<usize>, first: At) -> Result<()> {
        let chosen: Vec<usize> = self.spoilt.choose(own.len()).into_iter().map(|row| own.start + row).collect();
        let is_null = |row: usize| keys.iter().any(|key| key.is_null(row));
        let seen = chosen.iter().map(|row| Seen::within(self.distance, times[*row], 0, is_null(*row)));
        let seen: Vec<Seen> = seen.collect();
        let keys = keys.iter().map(|key| taken_rows(key, &chosen)).collect::<Result<Vec<_>>>()?;
        for (place, row) in self.spoilt.remember(&keys, &seen)?.into_iter().zip(chosen) {
            self.watched.put(place, At { row: first.row + row as u32, ..first });
        }
        Ok(())
    }

    /// Of a pair the left and the right row lie there.
    pub fn meet(&mut self, [left, right]: [At; 2]) {
        if let Some(place) = self.watched.place(if self.base == 0 { left } else { right }) {
            self.spoilt.meet(place);
        }
    }

    /// What is known now, where rows before `reached` are late; as [`Spoilt::tell`].
    pub fn tell(&mut self, reached: Timestamp, are_all: bool) -> Option<Told> {
        self.spoilt.tell(reached.minus(Interval(self.distance.to.0.max(0))), are_all)
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.spoilt.bytes() + self.watched.bytes()
    }

    /// A row that lay there meets no partner any more: another one may lie there.
    pub fn leave(&mut self, at: At) {
        self.watched.leave(at);
    }
}
