//! An aggregate in two phases, of which each stands in a node of its own: some rows become a state, in one column, and states a result.

use std::{any::Any, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, StructArray, cast::AsArray};
use arrow_schema::{DataType, FieldRef, Fields};
use thalweg_core::{
    Error, Result,
    aggregate::{Accumulator, Aggregate, Amounts, Exactness, Totals},
};

/// The first phase: an aggregate whose results are the states of another one, which are no results.
#[derive(Debug)]
pub(super) struct First {
    inner: Arc<dyn Aggregate>,
    /// The columns of its states.
    columns: Fields,
}

/// The second phase: an aggregate whose argument is such a column of states.
#[derive(Debug)]
pub(super) struct Second(pub Arc<dyn Aggregate>);

/// One of them at work.
struct Phased {
    inner: Box<dyn Accumulator>,
    /// The columns of states, if these are its results.
    gives: Option<Fields>,
}

/// The columns of states as one.
fn structured(columns: &Fields, state: Vec<ArrayRef>) -> Result<ArrayRef> {
    Ok(Arc::new(StructArray::try_new(columns.clone(), state, None)?))
}

impl Aggregate for First {
    fn output(&self) -> DataType {
        DataType::Struct(self.columns.clone())
    }

    fn state(&self) -> Result<Vec<FieldRef>> {
        self.inner.state()
    }

    fn exactness(&self) -> Exactness {
        self.inner.exactness()
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Phased { inner: self.inner.accumulator()?, gives: Some(self.columns.clone()) }))
    }

    fn totals(&self) -> Option<&dyn Totals> {
        self.inner.totals().map(|_| self as &dyn Totals)
    }
}

impl First {
    /// That of an aggregate.
    ///
    /// Errors: what the aggregate says of its state.
    pub(super) fn new(inner: Arc<dyn Aggregate>) -> Result<Self> {
        let columns = inner.state()?.into();
        Ok(Self { inner, columns })
    }

    fn sums(&self) -> Result<&dyn Totals> {
        self.inner.totals().ok_or_else(|| Error::bug("an aggregate has no totals any more"))
    }
}

impl Totals for First {
    fn amounts(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, rows: usize) -> Result<Amounts> {
        self.sums()?.amounts(arguments, filter, rows)
    }

    fn are_narrow(&self) -> bool {
        self.inner.totals().is_some_and(Totals::are_narrow)
    }

    fn states(&self, counts: &[u64], sums: &[i128]) -> Result<Vec<ArrayRef>> {
        self.sums()?.states(counts, sums)
    }

    fn results(&self, counts: &[u64], sums: &[i128]) -> Result<Option<ArrayRef>> {
        structured(&self.columns, self.states(counts, sums)?).map(Some)
    }
}

impl Aggregate for Second {
    fn output(&self) -> DataType {
        self.0.output()
    }

    fn state(&self) -> Result<Vec<FieldRef>> {
        self.0.state()
    }

    fn exactness(&self) -> Exactness {
        self.0.exactness()
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Phased { inner: self.0.accumulator()?, gives: None }))
    }
}

impl Accumulator for Phased {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        if self.gives.is_some() {
            return self.inner.update(arguments, filter, groups, count);
        }
        let ([states], None) = (arguments, filter) else {
            return Err(Error::bug("a second phase takes one column of states, and all of them"));
        };
        match states.as_struct_opt() {
            Some(states) => self.inner.merge(states.columns(), groups, count),
            None => self.inner.merge(std::slice::from_ref(states), groups, count),
        }
    }

    fn update_one(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        group: u32,
        rows: usize,
        count: usize,
    ) -> Result<()> {
        match self.gives {
            Some(_) => self.inner.update_one(arguments, filter, group, rows, count),
            None => self.update(arguments, filter, &vec![group; rows], count),
        }
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.inner.merge(states, groups, count)
    }

    fn can_absorb(&self) -> bool {
        self.inner.can_absorb()
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        self.inner.absorb(other, groups, count)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        self.inner.as_any()
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        self.inner.take_state()
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        match &self.gives {
            Some(columns) => structured(columns, self.inner.take_state()?),
            None => self.inner.take_result(),
        }
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }
}
