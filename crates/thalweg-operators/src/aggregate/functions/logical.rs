//! `bool_and`, `bool_or`, and `any_value` of booleans.

use std::{mem, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, cast::AsArray};
use arrow_schema::DataType;
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Signature},
};

use super::{
    Function,
    rows::{counting, each},
};

/// Whether all values are true, which is the smallest of them, or any.
pub fn logical(signature: &Signature<'_>) -> Option<Function> {
    let decisive = signature.name == "bool_or";
    let make = move || Logical { decisive, values: Vec::new() };
    (signature.arguments == [DataType::Boolean])
        .then(|| Function::new(signature, &[("value", DataType::Boolean)], make))
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
