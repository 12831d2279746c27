//! What is asked of the rows around each row, and how it is found.

use std::{ops::Range, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, cast::AsArray};
use thalweg_core::{
    Error, Interval, Result,
    aggregate::{Addends, Aggregate as Function, Amounts, Follower, Pick, Slide, Totals},
    expression::Expression,
    operator::{MadeOf, Way},
};

use super::{
    blocks::can_merge,
    entry::{At, Entry},
    frame::{Frame, Hole},
    kept::{Kept, Locations},
    layout::Layout,
    over::OverInput,
    paired::Paired,
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
    /// For each aggregate what it follows from, if that is not all of its rows.
    pub summed: Vec<Option<Summed>>,
    /// Whether rows of the first input are seen by others.
    pub is_base_seen: bool,
}

/// Frames, each with how many of the aggregates are its own, and for each what these are, if they are over pairs; those at the end may be
/// left out.
pub type Frames<'a> = (&'a [(Frame, usize)], &'a [Option<Arc<Paired>>]);

/// A frame, and what is computed of it.
pub struct Looked {
    /// Which rows around a row.
    pub frame: Frame,
    /// Which of the aggregates.
    pub calls: Range<usize>,
    /// Whether rows of the first input are among those that it looks through.
    pub has_base: bool,
    /// Whether there are such that need all rows of each window.
    pub needs_all: bool,
    /// Whether these may be found from states of blocks of rows.
    pub has_blocks: bool,
    /// Whether there are such that may be found by following windows as they move on.
    pub slides: bool,
    /// Whether all of these may do so from batch to batch.
    pub can_stand: bool,
    /// Whether one of them moves from window to window then.
    pub moves: bool,
    /// Whether rows that are seen for ever may go, and what they come to stays.
    pub has_past: bool,
    /// Whether its aggregates follow windows from there on, those that are no totals.
    pub goes_on: bool,
    /// Whether a row sees itself although it does not stand among the rows of its span that it sees.
    pub adds_own: bool,
    /// What it does not see of what stands between those that it sees.
    pub hole: Option<Hole>,
    /// What its aggregates are where they are over pairs.
    pub paired: Option<Arc<Paired>>,
}

impl Looked {
    /// Whether it is for rows alone that see nothing in the frame before.
    pub fn is_alone(&self) -> bool {
        self.paired.as_ref().is_some_and(|paired| paired.is_alone)
    }

    /// Whether of all rows for which a condition holds the last one is looked for.
    pub fn takes_last(&self) -> bool {
        self.paired.as_ref().is_some_and(|paired| paired.takes_last)
    }

    /// Whether a row that is not in the line of those that it sees is read as one of them, and not as one of a pair.
    pub fn reads_own(&self) -> bool {
        self.adds_own && self.paired.is_none()
    }

    /// Whether what a row sees follows each other without a hole.
    pub fn is_contiguous(&self) -> bool {
        self.hole.is_none()
    }
}

/// One of the running totals that are kept for each key.
pub struct Kind {
    /// The aggregate that says what rows add to it.
    call: usize,
    /// Its arguments, and its filter, among the columns that are kept.
    columns: (Vec<usize>, Option<usize>),
    /// How many columns its state has: one that has only a count makes do with any other's totals.
    width: usize,
    /// Whether it is how many times of rows there are instead: equal ones follow each other.
    is_of_times: bool,
}

/// What an aggregate follows from, for which its rows need not be looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Summed {
    /// It counts all rows.
    Rows,
    /// Among the running totals.
    Total(usize),
    /// It counts the times of rows, and is one of the running totals.
    Times(usize),
    /// It is a value of one of the rows.
    Row(Pick),
}

/// In which ways an aggregate that may be found in this one may be found, as users see it.
pub fn possible(way: Way) -> &'static str {
    match way {
        Way::Sorting => "sorting or running totals, by cost",
        Way::Sliding => "sliding or all rows, by cost",
        Way::Blocks => "blocks or all rows, by cost",
        Way::RunningTotals | Way::OneRow | Way::AllRows | Way::Pairs => way.name(),
    }
}

/// How each of the aggregates of some frames is found; see [`Asked::new`].
///
/// Errors: as there.
pub fn ways(
    inputs: &[OverInput],
    (frames, paired): Frames<'_>,
    passes: &[usize],
    is_incremental: bool,
) -> Result<Vec<Way>> {
    let asked = Asked::new(inputs, (frames, paired), passes, is_incremental)?;
    if asked.can_sweep() {
        return Ok(vec![Way::Sorting; asked.functions.len()]);
    }
    let of = |looked: &Looked| looked.calls.clone().map(|call| asked.way(looked, call)).collect::<Vec<_>>();
    Ok(asked.frames.iter().flat_map(of).collect())
}

impl Asked {
    /// The aggregates of some frames over these inputs; which of the columns of the first one pass; whether aggregates are found without looking at all rows of each window, where that can be.
    ///
    /// Errors: `Error::Bug` if there is no input.
    pub fn new(
        inputs: &[OverInput],
        (frames, paired): Frames<'_>,
        passes: &[usize],
        is_incremental: bool,
    ) -> Result<Self> {
        let Some(base) = inputs.first() else { return Err(Error::bug("aggregates over the rows of no input")) };
        let functions: Vec<_> = base.calls.iter().map(|call| Arc::clone(&call.function)).collect();
        let is_base_seen = frames.iter().any(|(frame, _)| !frame.excludes_base);
        let mut first = 0;
        let looked = |(number, (frame, count)): (usize, &(Frame, usize))| {
            first += count;
            let frame = frame.clone().simplified();
            Looked {
                calls: first - count..first,
                has_base: !frame.excludes_base,
                hole: frame.hole(!frame.excludes_base),
                needs_all: false,
                has_blocks: false,
                slides: false,
                can_stand: false,
                moves: false,
                has_past: false,
                goes_on: false,
                adds_own: frame.adds_own(!frame.excludes_base),
                paired: paired.get(number).cloned().flatten(),
                frame,
            }
        };
        let mut frames: Vec<Looked> = frames.iter().enumerate().map(looked).collect();
        let is_base_read = is_base_seen || frames.iter().any(Looked::reads_own);
        let layout = Layout::new(&base.calls, passes, base.input.time, is_base_read);
        let (kinds, summed) = match is_incremental {
            true => totals(inputs, &layout, &frames)?,
            false => (Vec::new(), vec![None; functions.len()]),
        };
        for looked in &mut frames {
            let others: Vec<usize> = looked.calls.clone().filter(|call| summed[*call].is_none()).collect();
            // Which pairs there are is different for each row.
            let is_alone = is_incremental && looked.paired.is_none();
            let merge = |calls: &[usize]| {
                let merges = calls.iter().map(|call| can_merge(functions[*call].as_ref()));
                Ok::<_, Error>(is_alone && merges.collect::<Result<Vec<_>>>()?.into_iter().all(|merges| merges))
            };
            let picks = looked.calls.clone().any(|call| matches!(summed[call], Some(Summed::Row(_))));
            // Rows need not be kept for ever where what they come to can be merged.
            looked.has_past = looked.is_contiguous() && looked.frame.is_unbounded() && merge(&others)? && !picks;
            let slides = |call: &usize| is_alone && !looked.has_past && functions[*call].slide().is_some();
            let (sliding, others): (Vec<_>, Vec<_>) = others.into_iter().partition(slides);
            looked.slides = !sliding.is_empty();
            let follower = |call: &usize| functions[*call].slide().and_then(Slide::follower);
            let followers: Option<Vec<_>> = sliding.iter().map(follower).collect();
            looked.can_stand = looked.slides && followers.is_some();
            looked.moves = followers.iter().flatten().any(|follower| follower.moves());
            looked.needs_all = !others.is_empty();
            looked.has_blocks = looked.needs_all && merge(&others)?;
            let goes_on = |call: &usize| functions[*call].slide().is_some_and(Slide::goes_on);
            looked.goes_on = looked.has_past && looked.needs_all && others.iter().all(goes_on);
        }
        Ok(Self { functions, layout, frames, kinds, summed, is_base_seen })
    }

    /// The frames for which arguments are computed when rows come.
    pub fn computed(&self) -> impl Iterator<Item = &Frame> + Clone {
        let computed = self.frames.iter().filter(|looked| looked.paired.is_none() && !looked.frame.is_of_the_row());
        computed.map(|looked| &looked.frame)
    }

    /// The filters of these aggregates over the rows of an input, if a row for which none of them holds changes nothing: with `ROWS` it would move
    /// others out of the frame.
    pub fn filters(&self, calls: &[Call]) -> Vec<Arc<dyn Expression>> {
        let may_pass = |looked: &Looked| looked.paired.is_none() && looked.frame.is_of_times();
        let filters = calls.iter().map(|call| call.filter.clone()).collect::<Option<Vec<_>>>();
        filters.filter(|_| self.frames.iter().all(may_pass)).unwrap_or_default()
    }

    /// Of which rows each result is made, which may be results of others.
    pub fn made_of(&self, of_results: bool) -> MadeOf {
        MadeOf::Around {
            of_results,
            has_itself: self.frames.iter().any(|looked| looked.frame.sees_itself()),
            reach: self
                .frames
                .iter()
                .map(|looked| looked.frame.reach())
                .try_fold(Interval::ZERO, |most, reach| Some(most.max(reach?))),
        }
    }

    /// Whether an aggregate follows from totals where these are numbers for certain, and from the rows that are seen where not.
    pub fn may_be_unsure(&self, call: usize) -> bool {
        matches!(self.summed[call], Some(Summed::Rows | Summed::Total(_)))
    }

    /// What it takes to follow the windows of a frame: as [`Slide::cost`], of those that do so.
    pub fn cost_of_following(&self, looked: &Looked) -> usize {
        let slides = looked.calls.clone().filter_map(|call| self.slide(looked, call));
        slides.map(Slide::cost).max().unwrap_or_default()
    }

    /// Whether times of rows are counted.
    pub fn counts_times(&self) -> bool {
        self.kinds.iter().any(|kind| kind.is_of_times)
    }

    /// How an aggregate of a frame follows its windows, if it does.
    pub fn slide(&self, looked: &Looked, call: usize) -> Option<&dyn Slide> {
        if self.summed[call].is_none() && looked.slides { self.functions[call].slide() } else { None }
    }

    /// What follows the windows of a frame from batch to batch, for each of its aggregates that follows windows and can.
    pub fn followers(&self, looked: &Looked) -> Vec<Box<dyn Follower>> {
        looked.calls.clone().filter_map(|call| self.slide(looked, call)?.follower()).collect()
    }

    /// Whether what follows the windows of an aggregate says in which row each result is.
    pub fn follows_rows(&self, call: usize) -> bool {
        self.functions[call].slide().is_some_and(Slide::follows_rows)
    }

    fn way(&self, looked: &Looked, call: usize) -> Way {
        match self.summed[call] {
            Some(Summed::Row(_)) => Way::OneRow,
            Some(Summed::Rows | Summed::Total(_) | Summed::Times(_)) => Way::RunningTotals,
            None if self.slide(looked, call).is_some() => Way::Sliding,
            None if looked.goes_on => Way::Sliding,
            None if looked.has_blocks => Way::Blocks,
            None if looked.paired.is_some() => Way::Pairs,
            None => Way::AllRows,
        }
    }

    /// The totals that an aggregate follows from.
    ///
    /// Errors: `Error::Bug` if it does not.
    pub fn totals(&self, call: usize) -> Result<&dyn Totals> {
        self.functions[call].totals().ok_or_else(|| Error::bug("an aggregate has no totals any more"))
    }

    /// What some of these rows, which are in the order of their keys, add to each of the running totals.
    pub fn amounts(&self, kept: &Kept, all: &[Entry], some: Range<usize>) -> Result<Vec<Amounts>> {
        if some.is_empty() || self.kinds.is_empty() {
            return Ok(vec![Amounts::default(); self.kinds.len()]);
        }
        let rows: Vec<At> = all[some.clone()].iter().map(|entry| entry.at).collect();
        let amounts = |kind: &Kind| {
            if kind.is_of_times {
                Ok(first_of_times(all, some.clone()))
            } else {
                self.amounts_of(kind, kept, rows[..].into())
            }
        };
        self.kinds.iter().map(amounts).collect()
    }

    /// What rows add to each of the running totals, none of which is of times.
    pub fn amounts_at(&self, kept: &Kept, rows: &[At]) -> Result<Vec<Amounts>> {
        if rows.is_empty() {
            return Ok(vec![Amounts::default(); self.kinds.len()]);
        }
        self.kinds.iter().map(|kind| self.amounts_of(kind, kept, rows.into())).collect()
    }

    /// Whether it is asked what the rows for which there are results add to running totals themselves.
    pub fn reads_own(&self) -> bool {
        self.frames.iter().any(|looked| looked.reads_own() || looked.hole.is_some())
    }

    /// What rows add to one of the running totals, which is none of times.
    pub fn amounts_of(&self, kind: &Kind, kept: &Kept, rows: Locations<'_>) -> Result<Amounts> {
        let (arguments, filter) = gathered(&kind.columns, kept, rows)?;
        self.totals(kind.call)?.amounts(&arguments, filter.as_ref(), rows.count())
    }

    /// Whether all that is asked for are totals over rows within a span of time, so that these may be sorted whenever they are looked at.
    pub fn can_sweep(&self) -> bool {
        let is_total = |summed: &Option<Summed>| matches!(summed, Some(Summed::Rows | Summed::Total(_)));
        let has_span =
            |looked: &Looked| looked.is_contiguous() && looked.frame.has_span() && looked.has_base == self.is_base_seen;
        self.frames.iter().all(has_span) && self.summed.iter().all(is_total)
    }

    /// Whether what rows add to totals is all that is asked of them, whatever they are.
    pub fn is_light(&self) -> bool {
        let is_narrow = |kind: &Kind| self.functions[kind.call].totals().is_some_and(Totals::are_narrow);
        self.can_sweep() && self.kinds.iter().all(is_narrow)
    }

    /// Whether two aggregates have the same arguments and filter.
    pub fn takes_the_same(&self, call: usize, other: usize) -> bool {
        self.layout.calls[call] == self.layout.calls[other]
    }

    /// Arguments and filter of an aggregate for these rows.
    pub fn gathered(&self, call: usize, kept: &Kept, rows: &[At]) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        gathered(&self.layout.calls[call], kept, rows.into())
    }
}

/// One for each row of which the one before has another time, or another key. No row has the time of one that was due before.
fn first_of_times(all: &[Entry], some: Range<usize>) -> Amounts {
    let place = |row: usize| (all[row].key, all[row].time);
    let is_first = |row: usize| row == 0 || place(row - 1) != place(row);
    let amounts = some.map(|row| i64::from(is_first(row))).collect();
    Amounts { amounts: Addends::Narrow(amounts), ..Amounts::default() }
}

/// Whether an aggregate counts the times of rows, in each of the inputs.
fn counts_times(inputs: &[OverInput], call: usize) -> bool {
    let is_time = |OverInput { input, calls }: &OverInput| {
        let Call { function, arguments, filter, .. } = &calls[call];
        let columns = arguments.iter().map(|argument| argument.column());
        function.counts_distinct() && filter.is_none() && columns.eq([Some(input.time)])
    };
    inputs.iter().all(is_time)
}

fn gathered(
    (arguments, filter): &(Vec<usize>, Option<usize>),
    kept: &Kept,
    rows: Locations<'_>,
) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
    let arguments = arguments.iter().map(|column| kept.gather_all(*column, rows)).collect::<Result<Vec<_>>>()?;
    let filter = filter.map(|column| kept.gather_all(column, rows)).transpose()?;
    Ok((arguments, filter.map(|mask| mask.as_boolean().clone())))
}

/// The running totals that the aggregates need, and how each follows from them.
fn totals(inputs: &[OverInput], layout: &Layout, frames: &[Looked]) -> Result<(Vec<Kind>, Vec<Option<Summed>>)> {
    let (mut kinds, mut summed): (Vec<Kind>, _) = (Vec::new(), Vec::new());
    let frame_of = |call: usize| frames.iter().find(|looked| looked.calls.contains(&call));
    for (call, columns) in layout.calls.iter().enumerate() {
        let function = &inputs[0].calls[call].function;
        if frame_of(call).is_some_and(|looked| looked.paired.is_some()) {
            summed.push(None);
            continue;
        }
        let frame = frame_of(call).filter(|looked| looked.is_contiguous());
        // A frame of times has all rows of a time or none; but a row that is not in the line may have a time of its own.
        if frame.is_some_and(|looked| looked.frame.is_of_times() && !looked.adds_own) && counts_times(inputs, call) {
            let place = kinds.iter().position(|kind| kind.is_of_times).unwrap_or(kinds.len());
            if place == kinds.len() {
                kinds.push(Kind { call, columns: columns.clone(), width: 0, is_of_times: true });
            }
            summed.push(Some(Summed::Times(place)));
            continue;
        }
        if let Some(pick) = function.pick().filter(|_| columns.1.is_none()) {
            summed.push(Some(Summed::Row(pick)));
            continue;
        }
        if function.totals().is_none() {
            summed.push(None);
            continue;
        }
        if columns.0.is_empty() && columns.1.is_none() {
            summed.push(Some(Summed::Rows));
            continue;
        }
        let width = function.state()?.len();
        let is_same = |kind: &Kind| kind.columns == *columns && !kind.is_of_times;
        let place = kinds.iter().position(is_same).unwrap_or(kinds.len());
        if place == kinds.len() {
            kinds.push(Kind { call, columns: columns.clone(), width, is_of_times: false });
        } else if kinds[place].width < width {
            (kinds[place].call, kinds[place].width) = (call, width);
        }
        summed.push(Some(Summed::Total(place)));
    }
    Ok((kinds, summed))
}
