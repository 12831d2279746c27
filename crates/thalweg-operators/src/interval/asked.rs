//! What is asked of the rows around each row, and how it is found.

use std::{ops::Range, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, cast::AsArray};
use thalweg_core::{
    Error, Result,
    aggregate::{Aggregate as Function, Amounts, Totals},
};

use super::{
    blocks::can_merge,
    entry::{At, Entry},
    frame::Frame,
    kept::Kept,
    layout::Layout,
};
use crate::aggregate::Call;

/// The aggregates over the rows around each row.
pub struct Asked {
    /// The aggregates of all frames, one after the other.
    pub functions: Vec<Arc<dyn Function>>,
    /// Where their arguments are.
    pub layout: Layout,
    /// Which rows are looked at.
    pub frames: Vec<Looked>,
    /// The running totals.
    pub kinds: Vec<Kind>,
    /// For each aggregate how it follows from them, if it does.
    pub summed: Vec<Option<Summed>>,
    /// Whether rows of the first input are seen by others.
    pub is_base_seen: bool,
}

/// A frame, and what is computed of it.
pub struct Looked {
    /// Which rows around a row.
    pub frame: Frame,
    /// Which of the aggregates.
    pub calls: Range<usize>,
    /// Whether rows that are seen follow each other, so that totals will do.
    pub is_contiguous: bool,
    /// Whether those that do not follow from totals may be found from states of blocks of rows.
    pub has_blocks: bool,
    /// Whether a row sees itself although it does not stand among those that may be seen.
    pub adds_own: bool,
}

/// One of the running totals that are kept for each key.
pub struct Kind {
    /// The aggregate that says what rows add to it.
    call: usize,
    /// Its arguments, and its filter, among the columns that are kept.
    columns: (Vec<usize>, Option<usize>),
    /// How many columns its state has: one that has only a count makes do with any other's totals.
    width: usize,
}

/// Where the totals of an aggregate are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Summed {
    /// It counts all rows.
    Rows,
    /// Among the running totals.
    Total(usize),
}

impl Asked {
    /// The aggregates of some frames, each with how many of them are its own; `width` columns of the first input pass.
    pub fn new(calls: &[Call], frames: &[(Frame, usize)], width: usize) -> Result<Self> {
        let functions: Vec<_> = calls.iter().map(|call| Arc::clone(&call.function)).collect();
        let layout = Layout::new(calls, width);
        let is_base_seen = frames.iter().any(|(frame, _)| !frame.excludes_base);
        let mut first = 0;
        let looked = |(frame, count): &(Frame, usize)| {
            first += count;
            Looked {
                frame: frame.clone(),
                calls: first - count..first,
                is_contiguous: frame.is_contiguous(is_base_seen),
                has_blocks: false,
                adds_own: !is_base_seen && frame.sees_itself(),
            }
        };
        let mut frames: Vec<Looked> = frames.iter().map(looked).collect();
        let (kinds, summed) = totals(&functions, &layout, &frames)?;
        for looked in frames.iter_mut().filter(|looked| looked.is_contiguous) {
            let mut others = looked.calls.clone().filter(|call| summed[*call].is_none()).peekable();
            let is_needed = others.peek().is_some();
            let can_merge = others.map(|call| can_merge(functions[call].as_ref())).collect::<Result<Vec<_>>>()?;
            looked.has_blocks = is_needed && can_merge.into_iter().all(|can_merge| can_merge);
        }
        Ok(Self { functions, layout, frames, kinds, summed, is_base_seen })
    }

    /// The totals that an aggregate follows from.
    ///
    /// Errors: `Error::Bug` if it does not.
    pub fn totals(&self, call: usize) -> Result<&dyn Totals> {
        self.functions[call].totals().ok_or_else(|| Error::bug("an aggregate has no totals any more"))
    }

    /// What rows add to each of the running totals.
    pub fn amounts(&self, kept: &Kept, rows: &[Entry]) -> Result<Vec<Amounts>> {
        if rows.is_empty() || self.kinds.is_empty() {
            return Ok(vec![Amounts::default(); self.kinds.len()]);
        }
        let rows: Vec<At> = rows.iter().map(|entry| entry.at).collect();
        let amounts = |kind: &Kind| {
            let (arguments, filter) = gathered(&kind.columns, kept, &rows)?;
            self.totals(kind.call)?.amounts(&arguments, filter.as_ref(), rows.len())
        };
        self.kinds.iter().map(amounts).collect()
    }

    /// Arguments and filter of an aggregate for these rows.
    pub fn gathered(&self, call: usize, kept: &Kept, rows: &[At]) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        gathered(&self.layout.calls[call], kept, rows)
    }
}

fn gathered(
    (arguments, filter): &(Vec<usize>, Option<usize>),
    kept: &Kept,
    rows: &[At],
) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
    let arguments = arguments.iter().map(|column| kept.gather(*column, rows)).collect::<Result<Vec<_>>>()?;
    let filter = filter.map(|column| kept.gather(column, rows)).transpose()?;
    Ok((arguments, filter.map(|mask| mask.as_boolean().clone())))
}

/// The running totals that the aggregates need, and how each follows from them.
fn totals(
    functions: &[Arc<dyn Function>],
    layout: &Layout,
    frames: &[Looked],
) -> Result<(Vec<Kind>, Vec<Option<Summed>>)> {
    let (mut kinds, mut summed): (Vec<Kind>, _) = (Vec::new(), Vec::new());
    let frame_of = |call: usize| frames.iter().find(|looked| looked.calls.contains(&call));
    for (call, (function, columns)) in functions.iter().zip(&layout.calls).enumerate() {
        let is_contiguous = frame_of(call).is_some_and(|looked| looked.is_contiguous);
        if function.totals().is_none() || !is_contiguous {
            summed.push(None);
            continue;
        }
        if columns.0.is_empty() && columns.1.is_none() {
            summed.push(Some(Summed::Rows));
            continue;
        }
        let width = function.state()?.len();
        let place = kinds.iter().position(|kind| kind.columns == *columns).unwrap_or(kinds.len());
        if place == kinds.len() {
            kinds.push(Kind { call, columns: columns.clone(), width });
        } else if kinds[place].width < width {
            (kinds[place].call, kinds[place].width) = (call, width);
        }
        summed.push(Some(Summed::Total(place)));
    }
    Ok((kinds, summed))
}
