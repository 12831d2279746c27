//! `min`, `max`, and `any_value`, which is the smallest.

use std::{any::Any, mem, sync::Arc};

use arrow_array::ArrowNativeTypeOp;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, LargeBinaryArray, PrimitiveArray, UInt32Array,
    cast::AsArray, downcast_primitive, types::*,
};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::take::take;
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Follower, Signature, Slide, Windows},
};

use super::{
    Function,
    best::best,
    rows::{alike, counting, each},
    stacks,
};

/// The smallest or largest value: numbers and times by their order, floats with NaN above all, text by
/// its bytes, intervals by their months, then their days, then the rest: a month has no length to compare by.
pub fn extreme(signature: &Signature<'_>) -> Option<Function> {
    let [kind] = signature.arguments else { return None };
    if kind != signature.output {
        return None;
    }
    let is_max = signature.name == "max";
    let state = [("value", kind.clone())];
    macro_rules! values {
        ($primitive:ty) => {{
            let kind = kind.clone();
            Function::new(signature, &state, move || Values::<$primitive> {
                is_max,
                kind: kind.clone(),
                values: Vec::new(),
                seen: Vec::new(),
            })
        }};
    }
    let function = match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary => {
            let kind = kind.clone();
            Function::new(signature, &state, move || Texts { is_max, kind: kind.clone(), values: Vec::new(), bytes: 0 })
        }
        kind => downcast_primitive!(kind => (values), _ => return None),
    };
    Some(function.with_slide(Best { is_max, kind: kind.clone() }))
}

/// Which value of a window is the smallest or largest.
struct Best {
    is_max: bool,
    kind: DataType,
}

impl Slide for Best {
    fn cost(&self) -> usize {
        1
    }

    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        let column = canonical(&windows.arguments[0])?;
        let counting = counting(windows.arguments, windows.filter);
        let counts = |row: usize| counting.as_ref().is_none_or(|counting| counting.value(row));
        let is_max = self.is_max;
        macro_rules! values {
            ($primitive:ty) => {{
                let values = column.as_primitive::<$primitive>().values();
                let is_better = |a: u32, b: u32| {
                    let (a, b) = (values[a as usize], values[b as usize]);
                    if is_max { a.is_gt(b) } else { a.is_lt(b) }
                };
                stacks::best(windows, counts, is_better)
            }};
        }
        macro_rules! texts {
            ($column:expr) => {{
                let column = $column;
                let is_better = |a: u32, b: u32| {
                    let [a, b]: [&[u8]; 2] = [a, b].map(|row| column.value(row as usize).as_ref());
                    if is_max { a > b } else { a < b }
                };
                stacks::best(windows, counts, is_better)
            }};
        }
        let rows = match column.data_type() {
            DataType::Utf8 => texts!(column.as_string::<i32>()),
            DataType::LargeUtf8 => texts!(column.as_string::<i64>()),
            DataType::Utf8View => texts!(column.as_string_view()),
            DataType::Binary => texts!(column.as_binary::<i32>()),
            DataType::LargeBinary => texts!(column.as_binary::<i64>()),
            kind => downcast_primitive!(kind => (values), _ => return Ok(None)),
        };
        Ok(Some(take(&column, &UInt32Array::from(rows), None)?))
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        best(&self.kind, self.is_max)
    }
}

struct Values<T: ArrowPrimitiveType> {
    is_max: bool,
    kind: DataType,
    values: Vec<T::Native>,
    seen: Vec<bool>,
}

impl<T: ArrowPrimitiveType> Accumulator for Values<T> {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.values.resize(count, T::Native::default());
        self.seen.resize(count, false);
        let column = canonical(&arguments[0])?;
        let new = column.as_primitive::<T>().values();
        let (values, seen, is_max) = (&mut self.values, &mut self.seen, self.is_max);
        each(counting(arguments, filter).as_ref(), groups, |row, group| {
            let (value, best) = (new[row], values[group]);
            // NaN is above all numbers in Arrow's total order too, now that there is only one of it.
            let is_better = if is_max { value.is_gt(best) } else { value.is_lt(best) };
            if is_better || !seen[group] {
                values[group] = value;
                seen[group] = true;
            }
        });
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.update(states, None, groups, count)
    }

    fn can_absorb(&self) -> bool {
        true
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        self.values.resize(count, T::Native::default());
        self.seen.resize(count, false);
        let other: &Self = alike(other)?;
        for ((value, is_seen), group) in other.values.iter().zip(&other.seen).zip(groups) {
            let group = *group as usize;
            let best = self.values[group];
            let is_better = if self.is_max { value.is_gt(best) } else { value.is_lt(best) };
            if *is_seen && (is_better || !self.seen[group]) {
                self.values[group] = *value;
                self.seen[group] = true;
            }
        }
        Ok(())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take_result()?])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let nulls = NullBuffer::from(mem::take(&mut self.seen));
        let values = PrimitiveArray::<T>::try_new(mem::take(&mut self.values).into(), Some(nulls))?;
        Ok(Arc::new(values.with_data_type(self.kind.clone())))
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.seen.capacity()
    }
}

/// The same column, with one NaN and one zero if it is of floats.
pub fn canonical(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Float16 => cast(&canonical(&cast(column, &DataType::Float32)?)?, &DataType::Float16)?,
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        _ => Arc::clone(column),
    })
}

/// Text or bytes, one copy per group.
struct Texts {
    is_max: bool,
    kind: DataType,
    values: Vec<Option<Box<[u8]>>>,
    bytes: usize,
}

impl Texts {
    fn offer(&mut self, value: &[u8], group: usize) {
        let best = &mut self.values[group];
        let is_better = match best.as_deref() {
            None => true,
            Some(best) if self.is_max => value > best,
            Some(best) => value < best,
        };
        if is_better {
            self.bytes += value.len();
            self.bytes -= best.as_ref().map_or(0, |best| best.len());
            *best = Some(value.into());
        }
    }
}

impl Accumulator for Texts {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.values.resize(count, None);
        let (column, mask) = (arguments[0].as_ref(), counting(arguments, filter));
        macro_rules! offer {
            ($column:expr) => {{
                let column = $column;
                each(mask.as_ref(), groups, |row, group| self.offer(column.value(row).as_ref(), group))
            }};
        }
        match column.data_type() {
            DataType::Utf8 => offer!(column.as_string::<i32>()),
            DataType::LargeUtf8 => offer!(column.as_string::<i64>()),
            DataType::Utf8View => offer!(column.as_string_view()),
            DataType::Binary => offer!(column.as_binary::<i32>()),
            _ => offer!(column.as_binary::<i64>()),
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.update(states, None, groups, count)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take_result()?])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let values = mem::take(&mut self.values);
        self.bytes = 0;
        let values = values.iter().map(|value| value.as_deref());
        let column: ArrayRef = match self.kind {
            DataType::LargeUtf8 | DataType::LargeBinary => Arc::new(values.collect::<LargeBinaryArray>()),
            _ => Arc::new(values.collect::<BinaryArray>()),
        };
        Ok(cast(&column, &self.kind)?)
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<Option<Box<[u8]>>>() + self.bytes
    }
}
