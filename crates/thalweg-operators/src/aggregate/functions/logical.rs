//! `bool_and` and `bool_or`, which are the smallest and the largest of booleans; `any_value` is the smallest.

use std::{mem, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, builder::BooleanBuilder, cast::AsArray};
use arrow_schema::DataType;
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Follower, Signature, Slide, Windows},
    moving::{Bag, Bagged},
};

use super::{
    Function,
    rows::{counted, counting, each},
};

/// Whether all values are true, which is the smallest of them, or any, which is the largest.
pub fn logical(signature: &Signature<'_>) -> Option<Function> {
    let decisive = matches!(signature.name, "bool_or" | "max");
    let make = move || Logical { decisive, values: Vec::new() };
    (signature.arguments == [DataType::Boolean])
        .then(|| Function::new(signature, &[("value", DataType::Boolean)], make).with_slide(Decided { decisive }))
}

/// How often each value is there decides.
#[derive(Clone, Copy)]
struct Decided {
    decisive: bool,
}

/// How often false and true are there.
#[derive(Default)]
struct Times([usize; 2]);

impl Bag for Times {
    type Value = bool;

    fn change(&mut self, value: bool, comes: bool) {
        let times = &mut self.0[usize::from(value)];
        *times = if comes { *times + 1 } else { *times - 1 };
    }
}

impl Bagged for Decided {
    type Bag = Times;
    type Builder = BooleanBuilder;

    fn bag(&self) -> Times {
        Times::default()
    }

    fn values(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<bool>>> {
        Ok(counted(arguments, filter, arguments[0].as_boolean().values().iter()))
    }

    fn put(&self, Times(times): &Times, found: &mut BooleanBuilder) -> Result<()> {
        let is_there = |value: bool| times[usize::from(value)] > 0;
        let decided = if is_there(self.decisive) { self.decisive } else { !self.decisive };
        found.append_option(is_there(decided).then_some(decided));
        Ok(())
    }
}

impl Slide for Decided {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        let mut found = BooleanBuilder::with_capacity(windows.windows.len());
        self.follow(self.bag(), windows, &mut found)?;
        Ok(Some(Arc::new(found.finish())))
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        Some(Bagged::follower(self))
    }
}

struct Logical {
    /// The value that decides, whatever the others are.
    decisive: bool,
    values: Vec<Option<bool>>,
}

impl Accumulator for Logical {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.values.resize(count, None);
        let values = arguments[0].as_boolean().values();
        each(counting(arguments, filter).as_ref(), groups, |row, group| {
            let value = values.value(row);
            if value == self.decisive || self.values[group].is_none() {
                self.values[group] = Some(value);
            }
        });
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.update(states, None, groups, count)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take_result()?])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(BooleanArray::from(mem::take(&mut self.values))))
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<Option<bool>>()
    }
}
