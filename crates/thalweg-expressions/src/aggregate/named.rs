//! An aggregate whose errors name it as it was written.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, builder::ArrayBuilder};
use arrow_schema::{DataType, FieldRef};
use thalweg_core::{
    Error, Result,
    aggregate::{Accumulator, Aggregate, Exactness, Follower, Pick, Slide, Totals, Windows},
    error::{Fault, Subject},
};

/// An aggregate with its text, `sum(v)`.
#[derive(Debug)]
pub(super) struct Named {
    pub inner: Arc<dyn Aggregate>,
    pub text: Arc<str>,
}

struct NamedAccumulator {
    inner: Box<dyn Accumulator>,
    text: Arc<str>,
}

impl Aggregate for Named {
    fn output(&self) -> DataType {
        self.inner.output()
    }

    fn state(&self) -> Result<Vec<FieldRef>> {
        self.inner.state()
    }

    fn exactness(&self) -> Exactness {
        self.inner.exactness()
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        let inner = self.inner.accumulator()?;
        Ok(Box::new(NamedAccumulator { inner, text: Arc::clone(&self.text) }))
    }

    fn totals(&self) -> Option<&dyn Totals> {
        self.inner.totals()
    }

    fn pick(&self) -> Option<Pick> {
        self.inner.pick()
    }

    fn slide(&self) -> Option<&dyn Slide> {
        self.inner.slide().map(|_| self as &dyn Slide)
    }

    fn counts_distinct(&self) -> bool {
        self.inner.counts_distinct()
    }
}

impl Slide for Named {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        blame(&self.text, self.inner.slide().map_or(Ok(None), |slide| slide.results(windows)))
    }

    fn cost(&self) -> usize {
        self.inner.slide().map_or(0, |slide| slide.cost())
    }

    fn goes_on(&self) -> bool {
        self.inner.slide().is_some_and(|slide| slide.goes_on())
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        let inner = self.inner.slide()?.follower()?;
        Some(Box::new(NamedFollower { inner, text: Arc::clone(&self.text) }))
    }

    fn follows_rows(&self) -> bool {
        self.inner.slide().is_some_and(|slide| slide.follows_rows())
    }
}

struct NamedFollower {
    inner: Box<dyn Follower>,
    text: Arc<str>,
}

impl Follower for NamedFollower {
    fn insert(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, places: &[usize]) -> Result<()> {
        blame(&self.text, self.inner.insert(arguments, filter, places))
    }

    fn drop_first(&mut self, rows: usize) {
        self.inner.drop_first(rows);
    }

    fn results(&mut self, windows: &Windows<'_>, found: &mut dyn ArrayBuilder) -> Result<()> {
        blame(&self.text, self.inner.results(windows, found))
    }

    fn moves(&self) -> bool {
        self.inner.moves()
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }
}

/// An error of the data names the aggregate.
fn blame<T>(text: &str, done: Result<T>) -> Result<T> {
    let is_data = |error: &Error| error.fault() == Fault::Data && error.subject().is_none();
    done.map_err(|error| match is_data(&error) {
        true => error.within(text).about(Subject::Expression(text.to_string())),
        false => error,
    })
}

impl Accumulator for NamedAccumulator {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        let done = self.inner.update(arguments, filter, groups, count);
        blame(&self.text, done)
    }

    fn update_one(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        group: u32,
        rows: usize,
        count: usize,
    ) -> Result<()> {
        let done = self.inner.update_one(arguments, filter, group, rows, count);
        blame(&self.text, done)
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        let done = self.inner.merge(states, groups, count);
        blame(&self.text, done)
    }

    fn can_absorb(&self) -> bool {
        self.inner.can_absorb()
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        let done = self.inner.absorb(other, groups, count);
        blame(&self.text, done)
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        self.inner.as_any()
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        let done = self.inner.take_state();
        blame(&self.text, done)
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let done = self.inner.take_result();
        blame(&self.text, done)
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }
}
