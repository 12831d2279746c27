//! `topn_frequency(x, n)`: the most frequent values, as a text.

use std::{collections::HashMap, mem::size_of_val};

use arrow_array::{Array, ArrayRef, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, FieldRef};
use datafusion_common::{Result, ScalarValue, internal_err, plan_err};
use datafusion_expr::{
    Accumulator, AggregateUDFImpl, Signature, Volatility,
    function::{AccumulatorArgs, StateFieldsArgs},
    utils::AggregateOrderSensitivity,
};

/// The name that the planner finds it under.
pub(crate) const NAME: &str = "topn_frequency";

/// Takes the value, which says how values are ordered, its text, and how many values the result has.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Frequent {
    signature: Signature,
}

impl Frequent {
    pub fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Frequent {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [value, _, _] => Ok(vec![value.clone(), DataType::Utf8, DataType::Int64]),
            _ => plan_err!("{NAME} takes a value, and how many of the most frequent ones"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Values::default()))
    }

    fn state_fields(&self, _: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(Vec::new())
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The texts of values that come in their order, in one piece, and how often each came.
#[derive(Debug, Default)]
struct Values {
    /// Of each text where it came last, and how often.
    counts: HashMap<String, (usize, usize)>,
    seen: usize,
    most: usize,
}

impl Accumulator for Values {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let [values, texts, numbers] = columns else { return internal_err!("{NAME} has three arguments") };
        let (is_float, texts) = (values.data_type().is_floating(), texts.as_string::<i32>());
        let number = numbers.as_primitive::<Int64Type>().values().first();
        self.most = number.map_or(self.most, |number| usize::try_from(*number).unwrap_or(0));
        for text in texts.iter() {
            self.seen += 1;
            let Some(text) = text else { continue };
            // Both zeros are one value.
            let text = if is_float && text == "-0.0" { "0.0" } else { text };
            match self.counts.get_mut(text) {
                Some((last, count)) => (*last, *count) = (self.seen, *count + 1),
                None => drop(self.counts.insert(text.to_string(), (self.seen, 1))),
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.counts.is_empty() {
            return Ok(ScalarValue::Utf8(None));
        }
        let mut all: Vec<(&str, usize, usize)> =
            self.counts.iter().map(|(text, (last, count))| (text.as_str(), *last, *count)).collect();
        all.sort_unstable_by_key(|(_, last, count)| (usize::MAX - count, *last));
        let texts = all.iter().map(|(text, ..)| *text).chain(std::iter::repeat("NULL")).take(self.most);
        Ok(ScalarValue::Utf8(Some(texts.collect::<Vec<_>>().join(","))))
    }

    fn size(&self) -> usize {
        let texts: usize = self.counts.keys().map(String::capacity).sum();
        size_of_val(self) + texts + self.counts.capacity() * size_of::<(String, (usize, usize))>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("{NAME} is computed of all values at once")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("{NAME} is computed of all values at once")
    }
}
