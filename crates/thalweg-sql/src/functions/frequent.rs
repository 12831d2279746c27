//! `topn_frequency(x, n)`: the most frequent values, as a text.

use std::{cmp::Ordering, collections::HashMap, mem::size_of_val};

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

/// The texts of values, and how often each is there.
#[derive(Debug, Default)]
struct Values {
    counts: HashMap<String, Counted>,
    most: usize,
}

/// A value, and how often it is there.
#[derive(Debug)]
struct Counted {
    value: ScalarValue,
    count: usize,
}

/// The text by which a value is counted.
fn text_of<'a>(values: &ArrayRef, text: &'a str) -> &'a str {
    // Both zeros are one value.
    if values.data_type().is_floating() && text == "-0.0" { "0.0" } else { text }
}

impl Accumulator for Values {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let [values, texts, numbers] = columns else { return internal_err!("{NAME} has three arguments") };
        let number = numbers.as_primitive::<Int64Type>().values().first();
        self.most = number.map_or(self.most, |number| usize::try_from(*number).unwrap_or(0));
        for (row, text) in texts.as_string::<i32>().iter().enumerate() {
            let Some(text) = text.map(|text| text_of(values, text)) else { continue };
            match self.counts.get_mut(text) {
                Some(counted) => counted.count += 1,
                None => {
                    let value = ScalarValue::try_from_array(values, row)?;
                    self.counts.insert(text.to_string(), Counted { value, count: 1 });
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let [values, texts, _] = columns else { return internal_err!("{NAME} has three arguments") };
        for text in texts.as_string::<i32>().iter().flatten().map(|text| text_of(values, text)) {
            match self.counts.get_mut(text) {
                Some(counted) if counted.count > 1 => counted.count -= 1,
                Some(_) => drop(self.counts.remove(text)),
                None => return internal_err!("{NAME} loses a value that it has not"),
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.counts.is_empty() {
            return Ok(ScalarValue::Utf8(None));
        }
        let mut all: Vec<(&str, &Counted)> =
            self.counts.iter().map(|(text, counted)| (text.as_str(), counted)).collect();
        let order = |(_, one): &(&str, &Counted), (_, other): &(&str, &Counted)| {
            let by_value = one.value.partial_cmp(&other.value).unwrap_or(Ordering::Equal);
            other.count.cmp(&one.count).then(by_value)
        };
        if self.most < all.len() {
            all.select_nth_unstable_by(self.most, order);
            all.truncate(self.most);
        }
        all.sort_unstable_by(order);
        let texts = all.iter().map(|(text, _)| *text).chain(std::iter::repeat("NULL")).take(self.most);
        Ok(ScalarValue::Utf8(Some(texts.collect::<Vec<_>>().join(","))))
    }

    fn size(&self) -> usize {
        let values = self.counts.iter().map(|(text, counted)| text.capacity() + counted.value.size());
        size_of_val(self) + values.sum::<usize>() + self.counts.capacity() * size_of::<(String, Counted)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("{NAME} is computed of all values at once")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("{NAME} is computed of all values at once")
    }
}
