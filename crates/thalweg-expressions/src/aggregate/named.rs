//! An aggregate whose errors name it as it was written.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::{DataType, FieldRef};
use thalweg_core::{
    Error, Result,
    aggregate::{Accumulator, Aggregate, Exactness, Totals},
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

    fn counts_distinct(&self) -> bool {
        self.inner.counts_distinct()
    }
}

impl NamedAccumulator {
    fn blame<T>(&self, done: Result<T>) -> Result<T> {
        let is_data = |error: &Error| error.fault() == Fault::Data && error.subject().is_none();
        done.map_err(|error| match is_data(&error) {
            true => error.within(&self.text).about(Subject::Expression(self.text.to_string())),
            false => error,
        })
    }
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
        self.blame(done)
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
        self.blame(done)
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        let done = self.inner.merge(states, groups, count);
        self.blame(done)
    }

    fn can_absorb(&self) -> bool {
        self.inner.can_absorb()
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        let done = self.inner.absorb(other, groups, count);
        self.blame(done)
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        self.inner.as_any()
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        let done = self.inner.take_state();
        self.blame(done)
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let done = self.inner.take_result();
        self.blame(done)
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }
}
