//! `median`.

use std::{any::Any, marker::PhantomData, mem, ops::Range, sync::Arc};

use arrow_array::{
    ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, BooleanArray, PrimitiveArray, builder::PrimitiveBuilder,
    cast::AsArray, types::*,
};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Follower, Signature, Slide, Windows},
    moving::Bagged,
    ordered::Ordered,
    ranked::Ranked,
};

use super::{
    Function,
    extreme::canonical,
    lists,
    rows::{alike, counted, counting, not_a_state},
};

/// The value in the middle, or half the sum of both: that of integers is rounded towards zero, and NaN is above all numbers.
pub fn median(signature: &Signature<'_>) -> Option<Function> {
    let [kind] = signature.arguments else { return None };
    if kind != signature.output {
        return None;
    }
    let state = [("values", lists::kind(kind))];
    macro_rules! of {
        ($primitive:ty) => {{
            let slide = Sliding::<$primitive> { kind: kind.clone(), of: PhantomData };
            let kind = kind.clone();
            let function = Function::new(signature, &state, move || Medians::<$primitive> {
                kind: kind.clone(),
                values: Vec::new(),
                groups: Vec::new(),
                count: 0,
            });
            Some(function.with_slide(slide))
        }};
    }
    match kind {
        DataType::Int8 => of!(Int8Type),
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::UInt8 => of!(UInt8Type),
        DataType::UInt16 => of!(UInt16Type),
        DataType::UInt32 => of!(UInt32Type),
        DataType::UInt64 => of!(UInt64Type),
        DataType::Float32 => of!(Float32Type),
        DataType::Float64 => of!(Float64Type),
        DataType::Decimal128(..) => of!(Decimal128Type),
        DataType::Decimal256(..) => of!(Decimal256Type),
        _ => None,
    }
}

/// All values as they came, each with its group beside it.
struct Medians<T: ArrowPrimitiveType> {
    kind: DataType,
    values: Vec<T::Native>,
    groups: Vec<u32>,
    count: usize,
}

impl<T: ArrowPrimitiveType> Medians<T> {
    /// How many values each group has, and all values by group.
    fn by_group(&self) -> (Vec<usize>, Vec<T::Native>) {
        let mut lengths = vec![0; self.count];
        self.groups.iter().for_each(|group| lengths[*group as usize] += 1);
        let starts = lengths.iter().scan(0, |end, length| Some(mem::replace(end, *end + length)));
        let mut next: Vec<usize> = starts.collect();
        let mut values = vec![T::Native::default(); self.values.len()];
        for (value, group) in self.values.iter().zip(&self.groups) {
            let place = &mut next[*group as usize];
            values[*place] = *value;
            *place += 1;
        }
        (lengths, values)
    }
}

impl<T: ArrowPrimitiveType> Accumulator for Medians<T> {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.count = self.count.max(count);
        let column = canonical(&arguments[0])?;
        let values = column.as_primitive_opt::<T>().ok_or_else(not_a_state)?.values();
        match counting(arguments, filter) {
            None => {
                self.values.extend_from_slice(values);
                self.groups.extend_from_slice(groups);
            }
            Some(counting) => {
                self.values.extend(counting.set_indices().map(|row| values[row]));
                self.groups.extend(counting.set_indices().map(|row| groups[row]));
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        let (values, groups) = lists::read(&states[0], groups)?;
        self.update(&[values], None, &groups, count)
    }

    fn can_absorb(&self) -> bool {
        true
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        self.count = self.count.max(count);
        let other: &Self = alike(other)?;
        self.values.extend_from_slice(&other.values);
        self.groups.extend(other.groups.iter().map(|group| groups[*group as usize]));
        Ok(())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        let (lengths, values) = self.by_group();
        (self.values, self.groups, self.count) = (Vec::new(), Vec::new(), 0);
        let values = PrimitiveArray::<T>::new(values.into(), None).with_data_type(self.kind.clone());
        Ok(vec![lists::written(&lengths, Arc::new(values))?])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let (lengths, mut values) = self.by_group();
        let mut rest = &mut values[..];
        let middles = lengths.into_iter().map(|length| {
            let (group, others) = mem::take(&mut rest).split_at_mut(length);
            rest = others;
            middle(group)
        });
        let result: PrimitiveArray<T> = middles.collect();
        self.values.clear();
        self.groups.clear();
        self.count = 0;
        Ok(Arc::new(result.with_data_type(self.kind.clone())))
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.groups.capacity() * size_of::<u32>()
    }
}

/// Medians of windows that move on.
struct Sliding<T> {
    kind: DataType,
    of: PhantomData<fn() -> T>,
}

impl<T: ArrowPrimitiveType> Slide for Sliding<T> {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        let column = canonical(&windows.arguments[0])?;
        let values = column.as_primitive_opt::<T>().ok_or_else(not_a_state)?.values();
        let counting = counting(windows.arguments, windows.filter);
        let counts = |row: &usize| counting.as_ref().is_none_or(|counting| counting.value(*row));
        let mut ranked = Ranked::new(values.len(), |one, other| values[one].compare(values[other]));
        let change = |ranked: &mut Ranked, rows: Range<usize>, comes: bool| {
            rows.filter(counts).for_each(|row| ranked.change(row, comes));
            Ok(())
        };
        let results = windows.follow(&mut ranked, change, |ranked| {
            Ok(middle_of(ranked.count(), |place| Some(values[ranked.nth(place)])))
        })?;
        let result: PrimitiveArray<T> = results.into_iter().collect();
        Ok(Some(Arc::new(result.with_data_type(self.kind.clone()))))
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        Some(Bagged::follower(self))
    }
}

impl<T: ArrowPrimitiveType> Clone for Sliding<T> {
    fn clone(&self) -> Self {
        Self { kind: self.kind.clone(), of: PhantomData }
    }
}

impl<T: ArrowPrimitiveType> Bagged for Sliding<T> {
    type Bag = Ordered<T::Native>;
    type Builder = PrimitiveBuilder<T>;

    fn bag(&self) -> Ordered<T::Native> {
        Ordered::new(|one, other| one.compare(*other))
    }

    fn values(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<T::Native>>> {
        let column = canonical(&arguments[0])?;
        let values = column.as_primitive_opt::<T>().ok_or_else(not_a_state)?.values();
        Ok(counted(arguments, filter, values.iter().copied()))
    }

    fn put(&self, ordered: &Ordered<T::Native>, found: &mut PrimitiveBuilder<T>) -> Result<()> {
        found.append_option(middle_of(ordered.count(), |place| ordered.nth(place)));
        Ok(())
    }
}

/// The middle of so many values, of which `at` knows each in the order of values.
fn middle_of<N: ArrowNativeTypeOp + ArrowNativeType>(count: usize, at: impl Fn(usize) -> Option<N>) -> Option<N> {
    let half = count / 2;
    match count {
        0 => None,
        odd if odd % 2 == 1 => at(half),
        _ => Some(between(at(half - 1)?, at(half)?)),
    }
}

/// The value that half of the others are not above and half not below; between two, half their sum.
fn middle<N: ArrowNativeTypeOp + ArrowNativeType>(values: &mut [N]) -> Option<N> {
    let half = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_between = values.len().is_multiple_of(2);
    let (below, high, _) = values.select_nth_unstable_by(half, |a, b| a.compare(*b));
    if !is_between {
        return Some(*high);
    }
    let low = below.iter().copied().reduce(|a, b| if a.is_gt(b) { a } else { b })?;
    Some(between(low, *high))
}

/// Half the sum of two values, of which the first is not above the other.
fn between<N: ArrowNativeTypeOp + ArrowNativeType>(low: N, high: N) -> N {
    let two = N::usize_as(2);
    match low.add_checked(high).map(|sum| sum.div_wrapping(two)) {
        // The sum of large floats is infinite, and not between them.
        Ok(half) if low.is_le(half) && half.is_le(high) => half,
        // Half of each, and half of what that leaves.
        _ => {
            let rests = low.mod_wrapping(two).add_wrapping(high.mod_wrapping(two));
            low.div_wrapping(two).add_wrapping(high.div_wrapping(two)).add_wrapping(rests.div_wrapping(two))
        }
    }
}
