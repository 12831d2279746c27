//! What rows come to that nobody looks at one by one any more: those that a frame without a beginning sees for ever.
//!
//! ```text
//! rows of a key   a b c d e f │ g h i j          the frame of h: UNBOUNDED PRECEDING to CURRENT ROW
//!                 └────┬─────┘  └┬┘
//!                  one state   two rows
//! ```
//!
//! So a frame without a beginning takes as much memory as there are keys, and not as there are rows.

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array, cast::AsArray, types::Int64Type};
use arrow_select::take::take;
use thalweg_core::{Error, Result, Snapshot, aggregate::Accumulator, snapshot::Reader};

use super::{
    asked::{Asked, Summed},
    entry::{At, BASE, Entry},
    kept::Kept,
    line::Line,
    lines::Lines,
};

/// For keys of which rows are past what these come to.
#[derive(Default)]
pub struct Past {
    /// The place of each key, by its number, as far as there is one.
    places: Vec<Option<u32>>,
    /// The number of the key of each place.
    keys: Vec<u32>,
    /// For each aggregate the states of all places; none where it does not need them.
    states: Vec<Vec<ArrayRef>>,
    /// For each aggregate that counts the times of rows how many there were, by place.
    times: Vec<Vec<i64>>,
}

/// So many rows are added together.
const TOGETHER: usize = 16_384;

impl Past {
    /// The place of a key.
    fn place(&mut self, key: u32) -> usize {
        let at = key as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
        }
        let next = self.keys.len() as u32;
        let place = *self.places[at].get_or_insert(next);
        if place == next {
            self.keys.push(key);
        }
        place as usize
    }

    fn place_of(&self, key: u32) -> Option<u32> {
        self.places.get(key as usize).copied().flatten()
    }

    /// Whether rows of a key are past.
    pub fn has(&self, key: u32) -> bool {
        self.place_of(key).is_some()
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Counts the times of the first rows of a key, which are about to leave.
    pub fn count_times(&mut self, key: u32, line: &Line, rows: usize, asked: &Asked) {
        for (call, kind, with_base) in asked.past_times() {
            let (rows, line) = (line.first(rows, with_base), line.seen(with_base));
            let Some((running, gone)) = line.running(kind) else { continue };
            let place = self.place(key);
            if self.times.len() <= call {
                self.times.resize_with(call + 1, Vec::new);
            }
            let times = &mut self.times[call];
            times.resize(times.len().max(place + 1), 0);
            running.of(&[0], &[rows], gone, |_, total| {
                times[place] += total.map_or(0, |total| total.sum as i64);
            });
        }
    }

    /// Adds rows, whose values are still there.
    ///
    /// Errors: what an aggregate gives.
    pub fn add(&mut self, rows: &[Entry], asked: &Asked, kept: &Kept) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let places: Vec<u32> = rows.iter().map(|entry| self.place(entry.key) as u32).collect();
        let count = self.keys.len();
        self.states.resize_with(asked.functions.len(), Vec::new);
        for (call, with_base) in asked.past_states() {
            let mut accumulator = asked.functions[call].accumulator()?;
            if let Some(first) = self.states[call].first() {
                let before: Vec<u32> = (0..first.len() as u32).collect();
                accumulator.merge(&self.states[call], &before, count)?;
            }
            for (rows, places) in rows.chunks(TOGETHER).zip(places.chunks(TOGETHER)) {
                let seen = rows.iter().zip(places).filter(|(entry, _)| with_base || entry.rank != BASE);
                let (at, places): (Vec<At>, Vec<u32>) = seen.map(|(entry, place)| (entry.at, *place)).unzip();
                if !at.is_empty() {
                    let (arguments, filter) = asked.gathered(call, kept, &at)?;
                    accumulator.update(&arguments, filter.as_ref(), &places, count)?;
                }
            }
            // Of the last keys no row may count.
            let columns = asked.layout.calls[call].0.iter();
            let nothing: Vec<_> = columns.map(|column| kept.nothing(*column, rows[0].at)).collect();
            accumulator.update(&nothing, None, &[], count)?;
            self.states[call] = accumulator.take_state()?;
        }
        Ok(())
    }

    /// Adds what is past of the keys of some rows to an aggregate of these, in which each is a group.
    ///
    /// Errors: what the aggregate gives.
    pub fn merge(&self, call: usize, rows: &[Entry], accumulator: &mut dyn Accumulator) -> Result<()> {
        let Some(states) = self.states.get(call).filter(|states| !states.is_empty()) else { return Ok(()) };
        let places = rows.iter().zip(0_u32..).filter_map(|(row, group)| Some((self.place_of(row.key)?, group)));
        let (places, groups): (Vec<u32>, Vec<u32>) = places.unzip();
        accumulator.merge(&taken(states, places)?, &groups, rows.len())
    }

    /// What is past of a key, as the state of an aggregate of one group; empty where nothing is.
    ///
    /// Errors: those of Arrow's `take`.
    pub fn state(&self, call: usize, key: u32) -> Result<Vec<ArrayRef>> {
        let place = self.place_of(key).zip(self.states.get(call));
        place.map_or(Ok(Vec::new()), |(place, states)| taken(states, vec![place]))
    }

    /// How many times rows of a key had that are past.
    pub fn times(&self, call: usize, key: u32) -> i64 {
        let times = self.times.get(call).zip(self.place_of(key));
        times.and_then(|(times, place)| times.get(place as usize)).copied().unwrap_or(0)
    }

    /// Keys have other numbers now, but for those that are forgotten.
    pub fn renumber(&mut self, moved: &[u32]) {
        self.keys.iter_mut().for_each(|key| *key = moved[*key as usize]);
        self.find_places();
    }

    fn find_places(&mut self) {
        self.places.clear();
        let most = self.keys.iter().max().map_or(0, |most| *most as usize + 1);
        self.places.resize(most, None);
        for (key, place) in self.keys.iter().zip(0..) {
            self.places[*key as usize] = Some(place);
        }
    }

    /// Drops what there is of keys for which `is_gone` is true.
    ///
    /// Errors: those of Arrow's `take`.
    pub fn forget(&mut self, is_gone: impl Fn(u32) -> bool) -> Result<()> {
        if !self.keys.iter().any(|key| is_gone(*key)) {
            return Ok(());
        }
        let stay: Vec<u32> = (0..).zip(&self.keys).filter(|(_, key)| !is_gone(**key)).map(|(place, _)| place).collect();
        for states in self.states.iter_mut().filter(|states| !states.is_empty()) {
            *states = taken(states, stay.clone())?;
        }
        let of = |times: &[i64], place: &u32| times.get(*place as usize).copied().unwrap_or(0);
        for times in &mut self.times {
            *times = stay.iter().map(|place| of(times, place)).collect();
        }
        self.keys = stay.iter().map(|place| self.keys[*place as usize]).collect();
        self.find_places();
        Ok(())
    }

    /// Writes what there is of the keys for which `is_wanted` is true.
    ///
    /// Errors: those of Arrow's `take`.
    pub fn save(
        &self,
        is_wanted: impl Fn(u32) -> bool,
        lines: &Lines,
        asked: &Asked,
        snapshot: &mut Snapshot,
    ) -> Result<()> {
        let places: Vec<u32> =
            (0..).zip(&self.keys).filter(|(_, key)| is_wanted(**key)).map(|(place, _)| place).collect();
        snapshot.number(places.len() as i64);
        if places.is_empty() {
            return Ok(());
        }
        let keys: Vec<u32> = places.iter().map(|place| self.keys[*place as usize]).collect();
        let mut columns = lines.columns(keys.clone())?;
        for (call, _) in asked.past_states() {
            columns.extend(taken(&self.states[call], places.clone())?);
        }
        for (call, ..) in asked.past_times() {
            columns
                .push(std::sync::Arc::new(Int64Array::from_iter_values(keys.iter().map(|key| self.times(call, *key)))));
        }
        let named = columns.into_iter().enumerate().map(|(number, column)| (number.to_string(), column, true));
        snapshot.rows(RecordBatch::try_from_iter_with_nullable(named)?);
        Ok(())
    }

    /// Takes in what [`Past::save`] wrote, of keys of which nothing is here.
    ///
    /// Errors: `Error::Environment` if it is something else; what an aggregate gives.
    pub fn load(
        &mut self,
        snapshot: &mut Reader<'_>,
        key_columns: usize,
        lines: &mut Lines,
        asked: &Asked,
    ) -> Result<()> {
        if snapshot.number()? == 0 {
            return Ok(());
        }
        let (rows, foreign) = (snapshot.rows()?, || Error::environment("what rows of a window come to cannot be read"));
        let keys = rows.columns().get(..key_columns).ok_or_else(foreign)?;
        let keys = lines.encoder().encode(keys, rows.num_rows())?;
        let numbers = lines.number(&keys, rows.num_rows());
        let places: Vec<u32> = numbers.iter().map(|key| self.place(*key) as u32).collect();
        let count = self.keys.len();
        self.states.resize_with(asked.functions.len(), Vec::new);
        let mut next = key_columns;
        for (call, _) in asked.past_states() {
            let mut accumulator = asked.functions[call].accumulator()?;
            if let Some(first) = self.states[call].first() {
                let before: Vec<u32> = (0..first.len() as u32).collect();
                accumulator.merge(&self.states[call], &before, count)?;
            }
            let width = asked.functions[call].state()?.len();
            let states = rows.columns().get(next..next + width).ok_or_else(foreign)?;
            accumulator.merge(states, &places, count)?;
            self.states[call] = accumulator.take_state()?;
            next += width;
        }
        for (call, ..) in asked.past_times() {
            let counts = rows.columns().get(next).and_then(|column| column.as_primitive_opt::<Int64Type>());
            let counts = counts.ok_or_else(foreign)?;
            self.times.resize_with(self.times.len().max(call + 1), Vec::new);
            self.times[call].resize(count, 0);
            for (place, row) in places.iter().zip(0..) {
                self.times[call][*place as usize] += counts.value(row);
            }
            next += 1;
        }
        Ok(())
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let states: usize = self.states.iter().flatten().map(|state| state.get_array_memory_size()).sum();
        let times: usize = self.times.iter().map(|times| times.capacity() * size_of::<i64>()).sum();
        let keys = self.keys.capacity() * size_of::<u32>() + self.places.capacity() * size_of::<Option<u32>>();
        states + times + keys
    }
}

fn taken(columns: &[ArrayRef], places: Vec<u32>) -> Result<Vec<ArrayRef>> {
    let places = UInt32Array::from(places);
    columns.iter().map(|column| Ok(take(column.as_ref(), &places, None)?)).collect()
}

impl Asked {
    /// The aggregates for which states of rows that are past are kept, and whether rows of the first input are among these.
    fn past_states(&self) -> impl Iterator<Item = (usize, bool)> + '_ {
        self.past_calls().filter(|(call, _)| !matches!(self.summed[*call], Some(Summed::Times(_))))
    }

    /// The aggregates that count times of rows that are past, with the running totals in which these are, and whether rows of the first
    /// input are among them.
    fn past_times(&self) -> impl Iterator<Item = (usize, usize, bool)> + '_ {
        self.past_calls().filter_map(|(call, with_base)| match self.summed[call] {
            Some(Summed::Times(kind)) => Some((call, kind, with_base)),
            _ => None,
        })
    }

    fn past_calls(&self) -> impl Iterator<Item = (usize, bool)> + '_ {
        let frames = self.frames.iter().filter(|looked| looked.has_past);
        frames.flat_map(|looked| looked.calls.clone().map(|call| (call, looked.has_base)))
    }
}
