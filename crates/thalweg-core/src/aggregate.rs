//! Aggregates over many groups at a time.

use std::{any::Any, fmt::Debug, ops::Range};

use arrow_array::{Array, ArrayRef, BooleanArray, builder::ArrayBuilder};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use arrow_schema::{DataType, FieldRef};

use crate::{Error, Result};

/// An aggregate function on given argument types: makes accumulators, and says what may be done with them.
pub trait Aggregate: Send + Sync + Debug {
    /// The type of its result.
    fn output(&self) -> DataType;

    /// Names and types of the columns that an accumulator's state has.
    fn state(&self) -> Result<Vec<FieldRef>>;

    /// Whether the order of rows matters.
    fn exactness(&self) -> Exactness;

    /// An accumulator without groups.
    fn accumulator(&self) -> Result<Box<dyn Accumulator>>;

    /// How it follows from amounts that can be taken away again, if it does: a sum over rows that follow each other is then the
    /// difference of two running totals.
    fn totals(&self) -> Option<&dyn Totals> {
        None
    }

    /// Which of the rows it has its value of, if that is all it takes from them: where rows stand in order nobody need look at the others.
    fn pick(&self) -> Option<Pick> {
        None
    }

    /// How it follows a window whose ends move on, if it does.
    fn slide(&self) -> Option<&dyn Slide> {
        None
    }

    /// Whether its result is how many distinct values its only argument has, nulls left out.
    fn counts_distinct(&self) -> bool {
        false
    }
}

/// One of some rows that stand in order; nothing, which is null, where there are not so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// That with so many rows before it.
    First(usize),
    /// That with so many rows behind it.
    Last(usize),
}

/// What can be computed for a window from what it was for the one before: of rows that come and go, each is looked at twice, however
/// many windows see it.
pub trait Slide: Send + Sync {
    /// The results of windows; `None` if these values cannot be followed.
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>>;

    /// What it takes for each row and each window, about, where an accumulator takes 1 for each row of each window.
    fn cost(&self) -> usize {
        2
    }

    /// Whether windows may have something [before](Windows::before) all rows.
    fn goes_on(&self) -> bool {
        false
    }

    /// What follows the windows of a key from batch to batch, if that can be: without rows yet.
    fn follower(&self) -> Option<Box<dyn Follower>> {
        None
    }

    /// Whether such a follower says in which row the first argument is each result, in place of the results.
    fn follows_rows(&self) -> bool {
        false
    }
}

/// The builder of a column to which a [`Follower`] appends.
///
/// Errors: `Error::Bug` if it is of another type.
pub fn builder<B: 'static>(found: &mut dyn ArrayBuilder) -> Result<&mut B> {
    found.as_any_mut().downcast_mut().ok_or_else(|| Error::bug("results of windows of another type"))
}

/// What follows the windows of one key from batch to batch: it is told which rows come and go, and asked for windows of those that are there.
pub trait Follower: Send {
    /// Rows come, all of these columns: before each so many of those that are there already. These numbers ascend, and rows for which they
    /// are equal stay in their order.
    fn insert(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, places: &[usize]) -> Result<()>;

    /// The first rows go.
    fn drop_first(&mut self, rows: usize);

    /// Appends the results of windows of the rows that are there to `found`, a builder of the function's output, or of numbers of rows as
    /// UINT64 (see [`Slide::follows_rows`]). The arguments are those of rows that windows see alone, if there are such: `own` is then the
    /// number of rows that are there. Nothing is before all rows.
    fn results(&mut self, windows: &Windows<'_>, found: &mut dyn ArrayBuilder) -> Result<()>;

    /// Whether it has what is in one window, and moves on to the next: what lies between costs something.
    fn moves(&self) -> bool {
        true
    }

    /// How many bytes of memory it takes, about.
    fn bytes(&self) -> usize;
}

/// Whether a filter, if there is one, lets a row count.
pub fn is_counted(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

/// Windows of rows that stand in order.
#[derive(Clone, Copy, Debug)]
pub struct Windows<'a> {
    /// The arguments, for all rows.
    pub arguments: &'a [ArrayRef],
    /// Which rows count: those for which it is true, or all.
    pub filter: Option<&'a BooleanArray>,
    /// Which rows each window sees. That goes fast where neither end moves far.
    pub windows: &'a [Range<usize>],
    /// From which row on there is one for each window that it alone sees, behind the others, if there are such.
    pub own: Option<usize>,
    /// For each window rows between its ends that it does not see, perhaps none; the one that it alone sees stands in their place. Empty where
    /// all windows see all rows between their ends, and no other.
    pub lacks: &'a [Range<usize>],
    /// What came before all of these rows and is in each window, as a state of the aggregate of one group; empty where there is nothing.
    pub before: &'a [ArrayRef],
}

impl Windows<'_> {
    /// Whether the filter lets a row count.
    pub fn is_counted(&self, row: usize) -> bool {
        is_counted(self.filter, row)
    }

    /// Follows the windows, and says what there is in each: `change` is told of a row whether it comes or goes, and `result` is asked for each
    /// window.
    ///
    /// Errors: those of both.
    pub fn follow<S, R>(
        &self,
        state: &mut S,
        change: impl FnMut(&mut S, Range<usize>, bool) -> Result<()>,
        result: impl FnMut(&mut S) -> Result<R>,
    ) -> Result<Vec<R>> {
        self.follow_from(&mut (0..0), state, change, result)
    }

    /// The same, where these rows are there already; then those of the last window are.
    ///
    /// Errors: those of both.
    pub fn follow_from<S, R>(
        &self,
        near: &mut Range<usize>,
        state: &mut S,
        mut change: impl FnMut(&mut S, Range<usize>, bool) -> Result<()>,
        mut result: impl FnMut(&mut S) -> Result<R>,
    ) -> Result<Vec<R>> {
        let mut results = Vec::with_capacity(self.windows.len());
        for (number, window) in self.windows.iter().enumerate() {
            let window = window.start..window.end.max(window.start);
            if window.start >= near.end || window.end <= near.start {
                // Nothing of the last one stays.
                change(state, std::mem::replace(near, window.start..window.start), false)?;
            }
            change(state, window.start..near.start.max(window.start), true)?;
            change(state, near.end..window.end.max(near.end), true)?;
            change(state, near.start..window.start.max(near.start), false)?;
            change(state, window.end..near.end.max(window.end), false)?;
            *near = window;
            let own = self.own.map(|first| first + number..first + number + 1);
            let lacked = self.lacks.get(number);
            own.iter().try_for_each(|own| change(state, own.clone(), true))?;
            lacked.iter().try_for_each(|lacked| change(state, (*lacked).clone(), false))?;
            results.push(result(state)?);
            lacked.into_iter().try_for_each(|lacked| change(state, lacked.clone(), true))?;
            own.into_iter().try_for_each(|own| change(state, own, false))?;
        }
        Ok(results)
    }
}

/// What an aggregate follows from that can be taken away again: how many rows count, and the sum of an amount of each.
pub trait Totals {
    /// What each of so many rows adds to the totals: row `i` of the arguments, unless `filter` is there and not true for it.
    fn amounts(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, rows: usize) -> Result<Amounts>;

    /// Whether each amount is a whole number of 64 bits, whatever the rows are: then all sums are numbers.
    fn are_narrow(&self) -> bool {
        false
    }

    /// The states of an accumulator to which so many rows, with amounts of this sum, were added: one per group.
    fn states(&self, counts: &[u64], sums: &[i128]) -> Result<Vec<ArrayRef>>;

    /// The results of such accumulators; `None` if nobody gets them faster than an accumulator does.
    fn results(&self, _counts: &[u64], _sums: &[i128]) -> Result<Option<ArrayRef>> {
        Ok(None)
    }

    /// The same where 64 bits hold all sums.
    fn narrow_results(&self, counts: &[u64], sums: &[i64]) -> Result<Option<ArrayRef>> {
        self.results(counts, &sums.iter().map(|sum| i128::from(*sum)).collect::<Vec<_>>())
    }
}

/// What rows add to totals.
#[derive(Clone, Debug, Default)]
pub struct Amounts {
    /// The amount of each row; zero where it does not count.
    pub amounts: Addends,
    /// Which rows count; `None` is all.
    pub counted: Option<BooleanBuffer>,
    /// The rows that count and have an amount that is no whole number of 128 bits: NaN, or what is too large, or too small.
    pub beyond: Vec<usize>,
}

impl Amounts {
    /// Those of some of these rows.
    pub fn of(&self, rows: impl ExactSizeIterator<Item = usize> + Clone) -> Self {
        let amounts = match &self.amounts {
            Addends::Narrow(amounts) => {
                Addends::Narrow(rows.clone().map(|row| amounts[row]).collect::<Vec<_>>().into())
            }
            Addends::Wide(amounts) => Addends::Wide(rows.clone().map(|row| amounts[row]).collect()),
        };
        let counted = self.counted.as_ref().map(|counted| rows.clone().map(|row| counted.value(row)).collect());
        let beyond = match self.beyond.is_empty() {
            true => Vec::new(),
            false => {
                (0..).zip(rows).filter(|(_, row)| self.beyond.binary_search(row).is_ok()).map(|(at, _)| at).collect()
            }
        };
        Self { amounts, counted, beyond }
    }
}

/// Whole numbers that are added up.
#[derive(Clone, Debug)]
pub enum Addends {
    /// All have 64 bits.
    Narrow(ScalarBuffer<i64>),
    /// Some have more.
    Wide(Vec<i128>),
}

impl Addends {
    /// One of them.
    pub fn get(&self, row: usize) -> i128 {
        match self {
            Self::Narrow(amounts) => amounts[row].into(),
            Self::Wide(amounts) => amounts[row],
        }
    }
}

impl Default for Addends {
    fn default() -> Self {
        Self::Narrow(Vec::new().into())
    }
}

/// What is asked for when somebody looks for the implementation of an aggregate function.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'a> {
    /// The function's name, in lower case.
    pub name: &'a str,
    /// The types of its arguments; none for `count(*)`.
    pub arguments: &'a [DataType],
    /// Whether each value counts once only.
    pub is_distinct: bool,
    /// The type that the result must have.
    pub output: &'a DataType,
    /// Whether sums of floats must not depend on the order of rows.
    pub exact_floats: bool,
}

/// Whether an aggregate may be computed in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// Any order of rows and merges gives the same bits: may be split, merged and paned.
    Exact,
    /// Folded once, in the canonical order of event time and position.
    Ordered,
}

/// Running values of one aggregate for many groups. Groups are numbered from zero without gaps.
pub trait Accumulator: Send {
    /// Adds rows: row `i` of the argument columns goes into group `groups[i]`, unless `filter` is there and not true for it.
    /// `count` is the number of groups from now on, at least as many as before.
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()>;

    /// Adds rows that all go into one group, as [`Accumulator::update`] does with rows of many.
    fn update_one(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        group: u32,
        rows: usize,
        count: usize,
    ) -> Result<()> {
        self.update(arguments, filter, &vec![group; rows], count)
    }

    /// Adds states: row `i` of the state columns goes into group `groups[i]`.
    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()>;

    /// Whether [`Accumulator::absorb`] takes in accumulators of the same function as they are, without their states.
    fn can_absorb(&self) -> bool {
        false
    }

    /// Adds the groups of another accumulator of the same function, which stays as it is: its group `i` goes into group
    /// `groups[i]`. To be called only if [`Accumulator::can_absorb`].
    fn absorb(&mut self, _other: &dyn Accumulator, _groups: &[u32], _count: usize) -> Result<()> {
        Err(Error::bug("this accumulator takes in states only"))
    }

    /// The accumulator itself, for another one of the same function.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// The state of every group, in order; the accumulator is left without groups.
    fn take_state(&mut self) -> Result<Vec<ArrayRef>>;

    /// The result of every group, in order; the accumulator is left without groups, and may keep memory for those to come.
    fn take_result(&mut self) -> Result<ArrayRef>;

    /// How many bytes of memory it takes.
    fn bytes(&self) -> usize;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_some_rows_are_those_of_each() {
        let counted = BooleanBuffer::from(vec![true, false, true, true]);
        for amounts in [Addends::Narrow(vec![5, 0, -7, 0].into()), Addends::Wide(vec![5, 0, -7, 0])] {
            let all = Amounts { amounts, counted: Some(counted.clone()), beyond: vec![3] };
            let some = all.of([2, 3, 0, 3, 1].into_iter());
            assert_eq!((0..5).map(|row| some.amounts.get(row)).collect::<Vec<_>>(), [-7, 0, 5, 0, 0]);
            let counted = some.counted.unwrap();
            assert_eq!(
                (counted.iter().collect::<Vec<_>>(), some.beyond),
                (vec![true, true, true, true, false], vec![1, 3])
            );
        }
        assert!(Amounts::default().of(std::iter::empty()).counted.is_none());
    }
}
