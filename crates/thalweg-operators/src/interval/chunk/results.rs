//! The results of a chunk.

use std::{ops::Range, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, make_array, new_empty_array};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, SchemaRef};
use thalweg_core::{Batch, Positions, Result, operator::Way};

use super::{
    super::{
        asked::{Asked, Looked, Summed},
        columns::Columns,
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
        let times = || bases.iter().map(|entry| entry.time);
        let at = &self.rows[rows.clone()];
        let mut columns = passed(|| times().collect(), at, asked, kept, output)?;
        columns.extend(self.aggregates(bases, asked, past, kept)?);
        let at = &self.rows[rows.clone()];
        let batch = Batch::new(RecordBatch::try_new(Arc::clone(output), columns)?);
        let numbers = || bases.iter().map(|entry| entry.position);
        // A column at a time: both at once would be written row by row.
        let placed = |tells| positioned(tells, (times().collect(), numbers().collect()), at, kept);
        let batch = match positions {
            None => batch,
            Some(tells) => batch.with_positions(Arc::new(placed(tells)?)),
        };
        self.given = rows.end;
        kept.release_all(self.rows[rows].iter().copied());
        Ok(batch)
    }

    /// The results of some rows for which all was found without an index; nobody asks for them again.
    pub fn batch_swept(
        &mut self,
        (bases, rows): (&Columns, Range<usize>),
        asked: &Asked,
        kept: &mut Kept,
        output: &SchemaRef,
        positions: Option<Tells>,
    ) -> Result<Batch> {
        let (times, at) = (&bases.times()[rows.clone()], &bases.at()[rows.clone()]);
        let mut columns = passed(|| times.to_vec(), at, asked, kept, output)?;
        columns.extend(self.swept(rows.clone(), asked)?);
        let batch = Batch::new(RecordBatch::try_new(Arc::clone(output), columns)?);
        let numbers = &bases.positions()[rows.clone()];
        let batch = match positions {
            None => batch,
            Some(tells) => batch.with_positions(Arc::new(positioned(tells, (times.into(), numbers.into()), at, kept)?)),
        };
        kept.release_all(at.iter().copied());
        self.given = rows.end;
        Ok(batch)
    }

    /// The results of all aggregates for some rows for which these were found without an index; nobody asks for them again.
    pub fn swept(&mut self, rows: Range<usize>, asked: &Asked) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::with_capacity(asked.functions.len());
        for (frame, looked) in asked.frames.iter().enumerate() {
            for call in looked.calls.clone() {
                self.count_ways(call, frame, rows.clone(), asked);
                let (totals, sums) = (asked.totals(call)?, &self.totals[call]);
                columns.push(match sums.results(rows.clone(), totals)? {
                    Some(results) => results,
                    None => {
                        let (groups, accumulator): (Vec<u32>, _) =
                            ((0..rows.len() as u32).collect(), &mut self.accumulators[call]);
                        accumulator.merge(&sums.states(rows.clone(), totals)?, &groups, rows.len())?;
                        accumulator.take_result()?
                    }
                });
            }
        }
        Ok(columns)
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

/// The columns of the first input that pass, of rows with these times, whose values lie there.
pub fn passed(
    their_times: impl Fn() -> Vec<i64>,
    rows: &[At],
    asked: &Asked,
    kept: &Kept,
    output: &SchemaRef,
) -> Result<Vec<ArrayRef>> {
    let passed = asked.layout.passed.iter().zip(output.fields()).map(|(passed, field)| match passed.place {
        Place::Time => times(their_times(), field.data_type()),
        Place::Kept(column) => kept.gather(column, rows),
    });
    passed.collect()
}

/// Where rows stand among those of all instances: their times, and where they stand in their source.
fn positioned(tells: Tells, (times, numbers): (Box<[i64]>, Box<[i64]>), rows: &[At], kept: &Kept) -> Result<Positions> {
    Ok(match tells {
        Tells::Position => places::positions(times, numbers, None),
        Tells::Content => places::positions(times, numbers, Some(&hashes(kept, rows)?)),
    })
}

/// The times of rows, as a column of this type.
pub fn times(times: Vec<i64>, kind: &DataType) -> Result<ArrayRef> {
    let none = new_empty_array(kind).to_data().into_builder();
    Ok(make_array(none.len(times.len()).buffers(vec![Buffer::from_vec(times)]).build()?))
}
