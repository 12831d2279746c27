//! Results that aggregates find by following windows of rows that stand in order.

use std::ops::Range;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_select::{concat::concat, take::take};
use thalweg_core::{Result, aggregate::Windows};

use super::{asked::Asked, entry::At, kept::Kept, past::Past};

/// Results of some rows.
#[derive(Default)]
pub struct Followed {
    /// Their numbers.
    pub rows: Vec<u32>,
    /// Some together, one after the other.
    pub results: Vec<ArrayRef>,
}

/// Rows of a key that stand in order, and which of them some windows see; see [`Windows`].
#[derive(Clone, Copy)]
pub struct Stretch<'a> {
    /// The rows.
    pub rows: &'a [At],
    /// Which of them each window sees.
    pub windows: &'a [Range<usize>],
    /// From which on there is one for each window that it alone sees.
    pub own: Option<usize>,
    /// What each does not see between its ends.
    pub lacks: &'a [Range<usize>],
    /// Of which key they are, if each sees what is past of it, too.
    pub past_of: Option<u32>,
}

/// The results of some aggregates, each of which can follow windows, with the number of each; `None` if one of them cannot follow these.
pub fn follow(
    asked: &Asked,
    (kept, past): (&Kept, &Past),
    calls: &[usize],
    stretch: Stretch<'_>,
) -> Result<Option<Vec<(usize, ArrayRef)>>> {
    let Stretch { rows, windows, own, lacks, past_of } = stretch;
    let mut last = None;
    let results = calls.iter().map(|call| {
        let Some(slide) = asked.functions[*call].slide() else { return Ok(None) };
        // Several are often asked of one column.
        let (_, (arguments, filter)) = match last.take().filter(|(other, _)| asked.takes_the_same(*call, *other)) {
            Some(gathered) => last.insert(gathered),
            None => last.insert((*call, asked.gathered(*call, kept, rows)?)),
        };
        let before = past_of.map(|key| past.state(*call, key)).transpose()?.unwrap_or_default();
        let windows = Windows { arguments, filter: filter.as_ref(), windows, own, lacks, before: &before };
        Ok(slide.results(&windows)?.map(|results| (*call, results)))
    });
    results.collect()
}

/// Notes the results of some aggregates for these rows.
pub fn put_followed(followed: &mut [Followed], numbers: &[u32], results: Option<Vec<(usize, ArrayRef)>>) {
    for (call, results) in results.into_iter().flatten() {
        followed[call].rows.extend(numbers);
        followed[call].results.push(results);
    }
}

/// The results of all rows, of which some have others.
pub fn with_followed(all: ArrayRef, followed: Vec<u32>, results: Vec<ArrayRef>) -> Result<ArrayRef> {
    if followed.is_empty() {
        return Ok(all);
    }
    let rows: Vec<u32> = (0..all.len() as u32).chain(followed).collect();
    in_order(&rows, &[vec![all], results].concat())
}

/// The results of some rows, one after the other, in the order of these; of those of a row the last one counts.
pub fn in_order(rows: &[u32], results: &[ArrayRef]) -> Result<ArrayRef> {
    let results = concat(&results.iter().map(AsRef::as_ref).collect::<Vec<_>>())?;
    let mut places = vec![0; rows.iter().max().map_or(0, |last| *last as usize + 1)];
    rows.iter().zip(0..).for_each(|(row, place)| places[*row as usize] = place);
    Ok(take(&results, &UInt32Array::from(places), None)?)
}
