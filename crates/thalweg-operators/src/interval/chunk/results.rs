//! The results of a chunk.

use std::{ops::Range, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, make_array, new_empty_array};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, SchemaRef};
use thalweg_core::{Batch, Result, operator::Way};

use super::{
    super::{
        asked::{Asked, Looked, Summed},
        entry::{At, Entry},
        followed::{Followed, in_order, with_followed},
        kept::{Kept, hashes},
        layout::Place,
        past::Past,
        places::{self, Tells},
    },
    Chunk,
};

impl Chunk {
    /// The results; nobody asks for them again.
    pub fn batch(
        &mut self,
        bases: &[Entry],
        asked: &Asked,
        past: &Past,
        kept: &mut Kept,
        output: &SchemaRef,
        positions: Option<Tells>,
    ) -> Result<Batch> {
        let rows = self.given..self.given + bases.len();
        let mut columns = passed(bases, &self.rows[rows.clone()], asked, kept, output)?;
        columns.extend(self.aggregates(bases, asked, past, kept)?);
        let batch = Batch::new(RecordBatch::try_new(Arc::clone(output), columns)?);
        let batch = match positions {
            None => batch,
            Some(Tells::Position) => batch.with_positions(Arc::new(places::positions(bases, None))),
            Some(Tells::Content) => {
                batch.with_positions(Arc::new(places::positions(bases, Some(&hashes(kept, &self.rows[rows.clone()])?))))
            }
        };
        self.given = rows.end;
        kept.release_all(self.rows[rows].iter().copied());
        Ok(batch)
    }

    /// The results of all aggregates; nobody asks for them again.
    pub fn aggregates(&mut self, bases: &[Entry], asked: &Asked, past: &Past, kept: &Kept) -> Result<Vec<ArrayRef>> {
        let of_frame = |(frame, looked): (usize, &Looked)| looked.calls.clone().map(move |call| (call, frame));
        let calls: Vec<_> = asked.frames.iter().enumerate().flat_map(of_frame).collect();
        calls.into_iter().map(|(call, frame)| self.results(call, frame, bases, asked, past, kept)).collect()
    }

    /// The results of an aggregate.
    fn results(
        &mut self,
        call: usize,
        frame: usize,
        bases: &[Entry],
        asked: &Asked,
        past: &Past,
        kept: &Kept,
    ) -> Result<ArrayRef> {
        let (rows, count) = (self.given..self.given + bases.len(), bases.len());
        self.count_ways(call, frame, rows.clone(), asked);
        if let Some(Summed::Row(_)) = asked.summed[call] {
            let value = asked.layout.calls[call].0[0];
            return kept.gather_some(value, &self.picked[call][rows], &asked.functions[call].output());
        }
        let Followed { rows: followed, results } = std::mem::take(&mut self.followed[call]);
        if followed.len() == count {
            return in_order(&followed, &results);
        }
        let accumulator = &mut self.accumulators[call];
        let has_past = asked.frames[frame].has_past && bases.iter().any(|base| past.has(base.key));
        if asked.summed[call].is_none() {
            // Rows at the end may have seen nothing.
            let nothing = match &asked.frames[frame] {
                Looked { paired: Some(paired), calls, .. } => paired.nothing(call - calls.start)?,
                _ => {
                    let arguments = asked.layout.calls[call].0.iter();
                    arguments.map(|column| kept.nothing(*column, self.rows[0])).collect()
                }
            };
            accumulator.update(&nothing, None, &[], count)?;
            if has_past {
                past.merge(call, bases, accumulator.as_mut())?;
            }
            return with_followed(accumulator.take_result()?, followed, results);
        }
        if let Some(Summed::Times(_)) = asked.summed[call] {
            let times = self.totals[call].of(rows).zip(bases);
            let times = times.map(|(times, base)| times as i64 + if has_past { past.times(call, base.key) } else { 0 });
            return Ok(Arc::new(Int64Array::from_iter_values(times)));
        }
        let (totals, sums) = (asked.totals(call)?, &self.totals[call]);
        if self.unsure[frame].are.is_empty()
            && !has_past
            && let Some(results) = sums.results(rows.clone(), totals)?
        {
            return Ok(results);
        }
        let groups: Vec<u32> = (0..count as u32).collect();
        accumulator.merge(&sums.states(rows, totals)?, &groups, count)?;
        if has_past {
            past.merge(call, bases, accumulator.as_mut())?;
        }
        with_followed(accumulator.take_result()?, followed, results)
    }

    /// Counts in which ways the results of an aggregate were found.
    fn count_ways(&mut self, call: usize, frame: usize, rows: Range<usize>, asked: &Asked) {
        let (count, followed) = (rows.len(), self.followed[call].rows.len());
        let mut add = |way: Way, results: usize| self.search.ways[way as usize] += results as u64;
        match asked.summed[call] {
            Some(Summed::Row(_)) => add(Way::OneRow, count),
            Some(_) => {
                let unsure = if asked.may_be_unsure(call) { self.unsure[frame].count(rows) } else { 0 };
                add(if self.is_swept { Way::Sorting } else { Way::RunningTotals }, count - unsure);
                add(Way::Sliding, followed);
                add(Way::AllRows, unsure.saturating_sub(followed));
            }
            None if asked.frames[frame].paired.is_some() => add(Way::Pairs, count),
            None => {
                let slides = asked.slide(&asked.frames[frame], call).is_some();
                let merged = if slides { 0 } else { self.merged[frame] };
                add(Way::Sliding, followed);
                add(Way::Blocks, merged);
                add(Way::AllRows, count.saturating_sub(followed + merged));
            }
        }
    }
}

/// The columns of the first input that pass, of rows whose values lie there.
pub fn passed(bases: &[Entry], rows: &[At], asked: &Asked, kept: &Kept, output: &SchemaRef) -> Result<Vec<ArrayRef>> {
    let passed = asked.layout.passed.iter().zip(output.fields()).map(|(passed, field)| match passed.place {
        Place::Time => times(bases.iter().map(|row| row.time), field.data_type()),
        Place::Kept(column) => kept.gather(column, rows),
    });
    passed.collect()
}

/// The times of rows, as a column of this type.
pub fn times(times: impl Iterator<Item = i64>, kind: &DataType) -> Result<ArrayRef> {
    let times = times.collect::<Vec<_>>();
    let none = new_empty_array(kind).to_data().into_builder();
    Ok(make_array(none.len(times.len()).buffers(vec![Buffer::from_vec(times)]).build()?))
}
