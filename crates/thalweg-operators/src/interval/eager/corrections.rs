//! Corrections of the rows that results are given for: columns that only pass, and are results of windows with other keys.

use std::collections::VecDeque;

use arrow_array::{ArrayRef, UInt32Array, cast::AsArray};
use arrow_select::{interleave::interleave, take::take};
use thalweg_core::{Batch, Error, Result, Selection};

use super::{
    super::{
        asked::Asked,
        entry::{At, Entry},
        kept::Kept,
        layout::Place,
        over::{Corrected, Over},
    },
    answers::Answers,
    op::Op,
};
use crate::aggregate::values::Values;

/// Corrections that wait until the rows are answered that came before them.
pub struct Corrections {
    corrected: Corrected,
    /// Among the columns of a result that are kept, the first of those that are corrected: they stand behind the aggregates.
    first: usize,
    /// What is said anew.
    waiting: VecDeque<Batch>,
}

/// What is said anew of some rows, each of which is there once.
pub struct Said {
    /// The rows.
    pub bases: Vec<Entry>,
    /// Where the results lie that were last given for them.
    pub given: Vec<At>,
    /// The columns that are corrected.
    pub columns: Vec<ArrayRef>,
}

impl Corrections {
    /// None yet, of rows that are corrected so, for which there are so many aggregates.
    pub fn new(corrected: Corrected, aggregates: usize) -> Self {
        Self { corrected, first: aggregates, waiting: VecDeque::new() }
    }

    /// Which of the columns that pass are corrected.
    pub fn columns(&self) -> &[usize] {
        &self.corrected.columns
    }

    /// Among the columns of a result that are kept, the first of those.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The rows of a batch that are new; what it says anew of others waits, until these are answered.
    pub fn put(&mut self, batch: Batch) -> Result<Batch> {
        let ops = batch.column(self.corrected.op).as_string_opt::<i32>();
        let ops = ops.ok_or_else(|| Error::bug("what becomes of a row is no text"))?;
        let (mut new, mut anew) = (Vec::new(), Vec::new());
        for row in batch.rows() {
            match Op::of(ops.value(row)) {
                Some(Op::Insert) => new.push(row as u32),
                // What was before is known.
                Some(Op::Before) => {}
                Some(Op::After) => anew.push(row as u32),
                _ => return Err(Error::bug("a row that others see is taken back")),
            }
        }
        if !anew.is_empty() {
            self.waiting.push_back(batch.clone().with_selection(Selection::new(anew)));
        }
        Ok(batch.with_selection(Selection::new(new)))
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What was said next of rows that were answered here; of none, if others who share their keys answered.
    pub fn next(&mut self, over: &mut Over, answers: &Answers) -> Result<Option<Said>> {
        let Some(batch) = self.waiting.pop_front() else { return Ok(None) };
        let input = &over.inputs[0].input;
        let arrivals = input.arrivals(&batch, None)?;
        let values = Values::new(&input.keys, &[], &batch)?;
        let keys = over.lines.encoder().encode(&values.keys, values.count)?;
        let keys = over.lines.number(&keys, values.count);
        let mut said = Vec::with_capacity(values.count);
        for (row, (number, key)) in batch.rows().zip(keys.into_iter().enumerate()) {
            let found = answers.find(key, arrivals.times.values[number], arrivals.positions[number]);
            match found {
                Some((base, given)) => said.push((base, given, row as u32)),
                // Whoever shares its key hears of it, and one of them answers for it.
                None if batch.is_shared() => {}
                None => return Err(Error::bug("a row is corrected that is not there")),
            }
        }
        // Of what is said of a row the last counts.
        said.reverse();
        said.sort_by_key(|(base, ..)| base.at);
        said.dedup_by_key(|(base, ..)| base.at);
        let rows = UInt32Array::from_iter_values(said.iter().map(|(.., row)| *row));
        let column = |number: &usize| Ok(take(batch.column(over.asked.layout.passed[*number].column), &rows, None)?);
        let columns = self.corrected.columns.iter().map(column).collect::<Result<_>>()?;
        let (bases, given) = said.into_iter().map(|(base, given, _)| (base, given)).unzip();
        Ok(Some(Said { bases, given, columns }))
    }

    /// The columns that are corrected, as they were last said of rows for which results were given that lie here, or came with rows for
    /// which none was.
    pub fn latest(
        &self,
        bases: &[Entry],
        given: &[Option<At>],
        answers: &Answers,
        asked: &Asked,
        kept: &Kept,
    ) -> Result<Vec<ArrayRef>> {
        let before: Vec<At> = given.iter().flatten().copied().collect();
        let new: Vec<At> =
            bases.iter().zip(given).filter(|(_, given)| given.is_none()).map(|(base, _)| base.at).collect();
        let (mut olds, mut news) = (0.., 0..);
        let place = |given: &Option<At>| match given {
            Some(_) => olds.next().map(|old| (0, old)),
            None => news.next().map(|new| (1, new)),
        };
        let places: Vec<(usize, usize)> = given.iter().filter_map(place).collect();
        let columns = self.corrected.columns.iter().zip(self.first..).map(|(number, column)| {
            let Place::Kept(slot) = asked.layout.passed[*number].place else {
                return Err(Error::bug("the time of a row does not change"));
            };
            Ok(match (before.is_empty(), new.is_empty()) {
                (true, _) => kept.gather(slot, &new)?,
                (_, true) => answers.gather(column, &before)?,
                (false, false) => {
                    let (old, new) = (answers.gather(column, &before)?, kept.gather(slot, &new)?);
                    interleave(&[old.as_ref(), new.as_ref()], &places)?
                }
            })
        });
        columns.collect()
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.waiting.iter().map(|batch| batch.columns().get_array_memory_size()).sum()
    }
}
