//! What is new of some rows' results.

use arrow_array::{ArrayRef, UInt32Array};
use arrow_ord::ord::make_comparator;
use arrow_schema::SortOptions;
use arrow_select::interleave::interleave;
use thalweg_core::{Error, Result};

use super::{super::entry::At, answers::Answers, op::Op};

/// What is new of some rows' results.
pub struct Changes {
    /// What becomes of which row, in the order of rows.
    pub rows: Vec<(Op, usize)>,
    /// Of rows that had a result before, its columns, and which of these are whose.
    before: Vec<ArrayRef>,
    before_of: Vec<Option<usize>>,
}

impl Changes {
    /// What is new where these columns are found, and those were given before that lie here; `None` is a row that is new.
    pub fn of(given: &[Option<At>], found: &[ArrayRef], answers: &Answers) -> Result<Self> {
        let some: Vec<At> = given.iter().flatten().copied().collect();
        let mut numbers = 0..;
        let before_of: Vec<Option<usize>> = given.iter().map(|given| given.and_then(|_| numbers.next())).collect();
        let mut before = Vec::new();
        if !some.is_empty() {
            before = (0..found.len()).map(|column| answers.gather(column, &some)).collect::<Result<_>>()?;
        }
        let compared =
            before.iter().zip(found).map(|(before, found)| make_comparator(before, found, SortOptions::default()));
        let compared = compared.collect::<Result<Vec<_>, _>>()?;
        let mut rows = Vec::new();
        for (row, before) in before_of.iter().enumerate() {
            match before {
                None => rows.push((Op::Insert, row)),
                Some(before) if compared.iter().any(|compare| compare(*before, row).is_ne()) => {
                    rows.extend([(Op::Before, row), (Op::After, row)]);
                }
                Some(_) => {}
            }
        }
        Ok(Self { rows, before, before_of })
    }

    /// The rows of which something is new, each once, and for each that goes out which of these it is.
    pub fn distinct(&self) -> (Vec<usize>, UInt32Array) {
        let (mut rows, mut of_rows): (Vec<usize>, _) = (Vec::with_capacity(self.rows.len()), Vec::new());
        for (_, row) in &self.rows {
            if rows.last() != Some(row) {
                rows.push(*row);
            }
            of_rows.push(rows.len() as u32 - 1);
        }
        (rows, of_rows.into())
    }

    /// The rows that are given a result which they did not have.
    pub fn given(&self) -> impl Iterator<Item = usize> {
        self.rows.iter().filter(|(op, _)| *op != Op::Before).map(|(_, row)| *row)
    }

    /// One of the columns, of each row that goes out.
    pub fn column(&self, column: usize, found: &ArrayRef) -> Result<ArrayRef> {
        let Some(before) = self.before.get(column) else { return Ok(found.clone()) };
        let place = |(op, row): &(Op, usize)| match op {
            Op::Before => self.before_of[*row].map(|before| (0, before)),
            _ => Some((1, *row)),
        };
        let places = self.rows.iter().map(place).collect::<Option<Vec<_>>>();
        let places = places.ok_or_else(|| Error::bug("a row is corrected that had no result"))?;
        Ok(interleave(&[before.as_ref(), found.as_ref()], &places)?)
    }
}
