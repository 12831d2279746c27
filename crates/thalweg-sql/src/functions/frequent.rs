//! `topn_frequency(x, n)`: the most frequent values, as a text.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
    mem::size_of_val,
    sync::Arc,
};

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

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            // Their text need not be one.
            Some(kind) if kind.is_binary() => plan_err!("{NAME} takes no BYTES: write encode(x, 'hex')"),
            _ => Ok(DataType::Utf8),
        }
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
    counts: HashMap<Arc<str>, Counted>,
    /// Those that are there, the most frequent first; kept once results are asked for again and again.
    ranked: Option<BTreeSet<Ranked>>,
    /// Whether a result has been asked for.
    is_asked: bool,
    most: usize,
}

/// A value, and how often it is there.
#[derive(Debug)]
struct Counted {
    value: Arc<Value>,
    count: usize,
}

/// A value and its text.
#[derive(Debug)]
struct Value {
    value: ScalarValue,
    text: Arc<str>,
}

/// The order in which values are given: the most frequent first, and of those that are there as often the smallest.
#[derive(Clone, Debug)]
struct Ranked {
    count: usize,
    value: Arc<Value>,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, another) = (&self.value, &other.value);
        let by_value = || one.value.partial_cmp(&another.value).unwrap_or(Ordering::Equal);
        let by_text = || one.text.cmp(&another.text);
        other.count.cmp(&self.count).then_with(by_value).then_with(by_text)
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

impl Counted {
    fn ranked(&self) -> Ranked {
        Ranked { count: self.count, value: Arc::clone(&self.value) }
    }
}

impl Values {
    /// A value of this text is there `to` times, where it was `from` times.
    fn rank(&mut self, value: &Arc<Value>, from: usize, to: usize) {
        let Some(ranked) = &mut self.ranked else { return };
        let place = |count: usize| Ranked { count, value: Arc::clone(value) };
        if from > 0 {
            ranked.remove(&place(from));
        }
        if to > 0 {
            ranked.insert(place(to));
        }
    }

    fn add(&mut self, text: &str, value: impl FnOnce() -> Result<ScalarValue>) -> Result<()> {
        let (value, count) = match self.counts.get_mut(text) {
            Some(counted) => {
                counted.count += 1;
                (Arc::clone(&counted.value), counted.count)
            }
            None => {
                let text: Arc<str> = text.into();
                let value = Arc::new(Value { value: value()?, text: Arc::clone(&text) });
                self.counts.insert(text, Counted { value: Arc::clone(&value), count: 1 });
                (value, 1)
            }
        };
        self.rank(&value, count - 1, count);
        Ok(())
    }

    fn take_back(&mut self, text: &str) -> Result<()> {
        let Some(counted) = self.counts.get_mut(text) else {
            return internal_err!("{NAME} loses a value that it has not");
        };
        counted.count -= 1;
        let (value, count) = (Arc::clone(&counted.value), counted.count);
        if count == 0 {
            self.counts.remove(text);
        }
        self.rank(&value, count + 1, count);
        Ok(())
    }
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
            self.add(text, || ScalarValue::try_from_array(values, row))?;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let [values, texts, _] = columns else { return internal_err!("{NAME} has three arguments") };
        texts.as_string::<i32>().iter().flatten().try_for_each(|text| self.take_back(text_of(values, text)))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.counts.is_empty() {
            return Ok(ScalarValue::Utf8(None));
        }
        if std::mem::replace(&mut self.is_asked, true) && self.ranked.is_none() {
            self.ranked = Some(self.counts.values().map(Counted::ranked).collect());
        }
        let all: Vec<Ranked> = match &self.ranked {
            Some(ranked) => ranked.iter().take(self.most).cloned().collect(),
            None => {
                let mut all: Vec<Ranked> = self.counts.values().map(Counted::ranked).collect();
                if self.most < all.len() {
                    all.select_nth_unstable(self.most);
                    all.truncate(self.most);
                }
                all.sort_unstable();
                all
            }
        };
        let texts = all.iter().map(|ranked| &*ranked.value.text).chain(std::iter::repeat("NULL")).take(self.most);
        Ok(ScalarValue::Utf8(Some(texts.collect::<Vec<_>>().join(","))))
    }

    fn size(&self) -> usize {
        let values = self.counts.iter().map(|(text, counted)| text.len() + counted.value.value.size());
        let ranked = self.ranked.as_ref().map_or(0, |ranked| ranked.len() * size_of::<Ranked>());
        size_of_val(self) + values.sum::<usize>() + ranked + self.counts.capacity() * size_of::<(Arc<str>, Counted)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("{NAME} is computed of all values at once")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("{NAME} is computed of all values at once")
    }
}
