//! Rows as they arrive: who of them counts, what is kept of them, and where they wait.

use std::ops::Range;

use arrow_buffer::ScalarBuffer;
use thalweg_core::{
    Batch, Output, Port, Result, Selection,
    operator::{Came, Search},
};

use super::{
    super::{
        entries::{Memory, Piece},
        entry::{Arrived, At, BASE},
        input::{Arrivals, OnTime, Times},
        sweep::{self, Sweep},
    },
    Over, OverInput,
    faults::set_aside,
};
use crate::aggregate::values::Values;

impl Over {
    /// Rows of the first input wait: as they came, while rows are swept, unless more wait longer than these are.
    pub(super) fn wait(&mut self, arrived: &NewRows) {
        let (some, Self { fresh, left, sweep, .. }) = (arrived.bases.clone(), &mut *self);
        let may_be_swept = sweep.as_ref().is_some_and(Sweep::is_on);
        if may_be_swept && *left <= some.len() && fresh.len() + some.len() <= sweep::MOST {
            arrived.piece(some).into_iter().for_each(|rows| fresh.put(rows));
        } else {
            self.bases.put(&arrived.rows().slice(some));
        }
    }

    /// The rows of a batch of an input for which all arguments can be computed; the others are kept with what is wrong with them.
    fn without_faults(&mut self, number: usize, batch: Batch) -> Result<Batch> {
        let OverInput { input, calls } = &self.inputs[number];
        let (rest, faults) = set_aside(batch.clone(), calls)?;
        if faults.is_empty() {
            return Ok(rest);
        }
        let rows = faults.iter().map(|(row, _)| *row).collect();
        let batch = batch.with_selection(Selection::new(rows));
        let (keys, times) = (Values::new(&input.keys, &[], &batch)?.keys, input.times(&batch)?.values);
        let keys = self.lines.encoder().encode(&keys, batch.len())?;
        let numbers = self.lines.number(&keys, batch.len());
        for ((key, time), (_, error)) in numbers.into_iter().zip(times.iter()).zip(faults) {
            self.faults.put(key, *time, error);
        }
        Ok(rest)
    }

    /// The rows of a batch that are on time, with what is kept of them.
    pub(in super::super) fn arrive(&mut self, port: Port, batch: Batch, out: &mut Output) -> Result<Option<NewRows>> {
        let number = self.input_of[port];
        let (is_base, is_seen) = (number == 0, number != 0 || self.asked.is_base_seen);
        let all = self.spoilt.is_some().then(|| batch.clone());
        let input = &self.inputs[number].input;
        let OnTime { batch, times, came } = input.on_time(batch, self.reached, self.allowed)?;
        out.count_late(came.late as usize);
        if let (Some(spoilt), Some(all)) = (&mut self.spoilt, all) {
            let filters = self.asked.filters(&self.inputs[number].calls);
            spoilt.leave_out(input, all, &batch, (is_seen, &filters, is_base))?;
        }
        let of = |is_one: bool| if is_one { came } else { Came::default() };
        let keys = self.lines.keys() as u64;
        out.count_search(Search { bases: of(is_base), seen: of(is_seen), keys, ..Search::default() });
        let own = if is_base { batch.own() } else { 0..0 };
        if own.is_empty() && (!is_seen || batch.is_empty()) {
            return Ok(None);
        }
        let is_read = !is_base || self.asked.layout.is_base_read;
        let values = |over: &Self, batch: &Batch| {
            let OverInput { input, calls } = &over.inputs[number];
            match is_read {
                true => Values::new(&input.keys, calls, batch),
                false => Ok(Values {
                    count: batch.len(),
                    keys: Values::new(&input.keys, &[], batch)?.keys,
                    ..Values::new(&[], calls, &batch.clone().with_selection(Selection::new(Vec::new())))?
                }),
            }
        };
        let (batch, values, times) = match values(self, &batch) {
            Ok(found) => (batch, found, times),
            // Of rows that nobody sees nothing is asked.
            Err(_) if !is_base => {
                let batch = self.without_faults(number, batch)?;
                let found = values(self, &batch)?;
                (batch, found, None)
            }
            Err(error) => return Err(error),
        };
        if batch.is_empty() {
            return Ok(None);
        }
        let input = &self.inputs[number].input;
        let (arrivals, is_own) = (input.arrivals(&batch, times)?, batch.selection().is_some());
        let has_positions = input.position.is_some();
        let keys = self.lines.encoder().encode(&values.keys, values.count)?;
        let keys = self.lines.number(&keys, values.count);
        let keyed = (values, &self.inputs[number].input.keys[..]);
        let columns = self.asked.layout.columns(keyed, &batch, is_base, &mut self.kept.spare)?;
        let uses = own.len() + if is_seen { batch.len() } else { 0 };
        let batch = self.kept.keep(columns, uses);
        let rank = if is_base { BASE } else { number as u32 };
        Ok(Some(NewRows { bases: own, is_seen, batch, keys: keys.into(), arrivals, is_own, has_positions, rank }))
    }
}

/// Rows that have arrived, and are kept.
pub(in super::super) struct NewRows {
    /// For which of them there are results.
    pub bases: Range<usize>,
    /// Whether others see them.
    pub is_seen: bool,
    batch: u32,
    keys: ScalarBuffer<u32>,
    arrivals: Arrivals,
    /// Whether times and positions are in memory that nobody else waits for.
    is_own: bool,
    /// Whether positions are known.
    has_positions: bool,
    rank: u32,
}

impl NewRows {
    /// Some of them, to be kept.
    pub fn piece(&self, rows: Range<usize>) -> Option<Piece> {
        let Arrivals { times, positions } = &self.arrivals;
        let some = |values: &ScalarBuffer<i64>, is_own: bool| match is_own {
            true => values.slice(rows.start, rows.len()),
            false => values[rows.clone()].to_vec().into(),
        };
        let values = some(&times.values, self.is_own);
        let times = match rows.len() == times.values.len() {
            true => Times { values, bounds: times.bounds },
            false => Times::of(values),
        };
        let arrivals = Arrivals { times, positions: some(positions, self.is_own || !self.has_positions) };
        let at = At { batch: self.batch, row: rows.start as u32 };
        let keys = self.keys.slice(rows.start, rows.len());
        Piece::new(arrivals, keys, (self.rank, at), Memory { rows: self.count(), has_positions: self.has_positions })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// They wait in a sweep, if it takes them.
    pub fn wait_in(&self, sweep: Option<&mut Sweep>) -> bool {
        sweep.is_some_and(|sweep| sweep.take_arrived(self.count(), || self.piece(0..self.count())))
    }

    /// What is known of them.
    pub fn rows(&self) -> Arrived<'_> {
        Arrived {
            times: &self.arrivals.times.values,
            positions: &self.arrivals.positions,
            keys: &self.keys,
            rank: self.rank,
            at: At { batch: self.batch, row: 0 },
        }
    }
}
