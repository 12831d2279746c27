//! `sum` and `avg` of floats: exact and rounded once, or plain where speed was asked for.

use std::{any::Any, mem, ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float32Array, Float64Array, UInt64Array,
    cast::AsArray, new_null_array, types::*,
};
use arrow_schema::DataType;
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Addends, Amounts, Signature, Slide, Totals, Windows},
};
use thalweg_memory::{
    kernels::{
        exact_sum::{
            ExactSum,
            dyadic::{DOUBLE, SINGLE},
            fixed,
            many::{add_all, add_grouped},
        },
        sums::plain_sum,
    },
    simd::Level,
};

use super::{
    Function,
    rows::{alike, bytes_of, counting, each, not_a_state, written},
};

/// A sum or mean of floats.
pub fn float(signature: &Signature<'_>) -> Option<Function> {
    let [DataType::Float32 | DataType::Float64] = signature.arguments else { return None };
    let is_single = match signature.output {
        DataType::Float32 => true,
        DataType::Float64 => false,
        _ => return None,
    };
    let shape = Shape { is_mean: signature.name != "sum", is_single };
    let count = ("count", DataType::UInt64);
    Some(match signature.exact_floats {
        true => {
            let state = [count, ("sum", DataType::FixedSizeBinary(WINDOW as i32)), ("beyond", DataType::Binary)];
            let sums = move || Exact { shape, sums: Vec::new(), is_beyond: false };
            let exact = Function::new(signature, &state, sums);
            exact.with_totals(FloatTotals(shape)).with_slide(FloatTotals(shape)).with_floats(shape)
        }
        false => {
            Function::new(signature, &[count, ("sum", DataType::Float64)], move || Plain { shape, sums: Vec::new() })
        }
    })
}

/// Exact sums of floats: the amounts are the numbers in units of the window of a sum, where they fit it.
struct FloatTotals(Shape);

impl Totals for FloatTotals {
    fn amounts(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, _: usize) -> Result<Amounts> {
        let (values, counted) = (doubles(&arguments[0]), counting(arguments, filter));
        let counts = |row: usize| counted.as_ref().is_none_or(|counted| counted.value(row));
        let mut beyond = Vec::new();
        let amounts = values.values().iter().enumerate().map(|(row, value)| match (counts(row), fixed(*value)) {
            (true, Some(amount)) => amount,
            (true, None) => {
                beyond.push(row);
                0
            }
            (false, _) => 0,
        });
        Ok(Amounts { amounts: Addends::Wide(amounts.collect()), counted, beyond })
    }

    fn states(&self, counts: &[u64], sums: &[i128]) -> Result<Vec<ArrayRef>> {
        let bytes = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect::<Vec<u8>>();
        let windows = FixedSizeBinaryArray::try_new_with_len(WINDOW as i32, bytes.into(), None, sums.len())?;
        let counts = UInt64Array::from(counts.to_vec());
        Ok(vec![Arc::new(counts), Arc::new(windows), new_null_array(&DataType::Binary, sums.len())])
    }

    fn results(&self, counts: &[u64], sums: &[i128]) -> Result<Option<ArrayRef>> {
        let value = |(sum, count): (&i128, &u64)| {
            let mut exact = ExactSum::default();
            exact.add_window(*sum, *count);
            (*count > 0).then(|| self.0.rounded(&exact))
        };
        Ok(Some(self.0.column(sums.iter().zip(counts).map(value))))
    }
}

/// Where values are too far apart for totals: what comes is added, what goes is taken back.
impl Slide for FloatTotals {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        let (values, counted) = (doubles(&windows.arguments[0]), counting(windows.arguments, windows.filter));
        let counts = |row: &usize| counted.as_ref().is_none_or(|counted| counted.value(*row));
        let change = |sum: &mut ExactSum, rows: Range<usize>, comes: bool| {
            let values = rows.filter(counts).map(|row| values.value(row));
            values.for_each(|value| if comes { sum.add(value) } else { sum.subtract(value) });
            Ok(())
        };
        let value = |sum: &mut ExactSum| Ok(self.0.value(sum));
        let mut before = Exact { shape: self.0, sums: vec![ExactSum::default()], is_beyond: false };
        if !windows.before.is_empty() {
            before.merge(windows.before, &[0], 1)?;
        }
        let found = windows.follow(&mut before.sums[0], change, value)?;
        Ok(Some(self.0.column(found.into_iter())))
    }

    fn goes_on(&self) -> bool {
        true
    }
}

/// What becomes of a sum.
#[derive(Clone, Copy)]
pub struct Shape {
    is_mean: bool,
    is_single: bool,
}

impl Shape {
    /// The float nearest to a sum, or to its mean.
    fn rounded(self, sum: &ExactSum) -> f64 {
        match (self.is_mean, self.is_single) {
            (false, false) => sum.value(),
            (true, false) => sum.rounded_mean(DOUBLE),
            (false, true) => sum.rounded(SINGLE),
            (true, true) => sum.rounded_mean(SINGLE),
        }
    }

    /// The same, unless nothing was added.
    pub fn value(self, sum: &ExactSum) -> Option<f64> {
        (sum.count() > 0).then(|| self.rounded(sum))
    }

    /// Such values as a column.
    pub fn column(self, values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
        match self.is_single {
            true => Arc::new(values.map(|value| value.map(|value| value as f32)).collect::<Float32Array>()),
            false => Arc::new(values.collect::<Float64Array>()),
        }
    }
}

/// The values of a column of floats; nulls become zeros.
pub fn doubles(column: &ArrayRef) -> Float64Array {
    match column.as_primitive_opt::<Float32Type>() {
        Some(singles) => singles.unary(f64::from),
        None => column.as_primitive::<Float64Type>().clone(),
    }
}

/// How many bytes a sum takes that fits its window.
const WINDOW: usize = size_of::<i128>();

/// Sums that round once.
///
/// Its states have a fixed size, so that they travel as numbers do: the sum in its window, or, where it does not fit, zero there and
/// the number as bytes beside it.
struct Exact {
    shape: Shape,
    sums: Vec<ExactSum>,
    /// Whether some sum keeps bytes beside itself.
    is_beyond: bool,
}

impl Accumulator for Exact {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.sums.resize_with(count, ExactSum::default);
        let mask = counting(arguments, filter);
        let values = doubles(&arguments[0]);
        self.is_beyond |= add_grouped(Level::best(), &mut self.sums, values.values(), mask.as_ref(), groups);
        Ok(())
    }

    fn update_one(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        group: u32,
        rows: usize,
        count: usize,
    ) -> Result<()> {
        let mask = counting(arguments, filter);
        if mask.is_some() {
            return self.update(arguments, filter, &vec![group; rows], count);
        }
        self.sums.resize_with(count, ExactSum::default);
        self.is_beyond |= add_all(Level::best(), &mut self.sums[group as usize], doubles(&arguments[0]).values());
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.sums.resize_with(count, ExactSum::default);
        let counts = states[0].as_primitive_opt::<UInt64Type>().ok_or_else(not_a_state)?.values();
        let windows = states[1].as_fixed_size_binary_opt().ok_or_else(not_a_state)?;
        let (windows, []) = windows.value_data().as_chunks::<WINDOW>() else { return Err(not_a_state()) };
        for ((window, more), group) in windows.iter().zip(counts).zip(groups) {
            self.is_beyond |= self.sums[*group as usize].add_window(i128::from_le_bytes(*window), *more);
        }
        if states[2].null_count() < states[2].len() {
            let beyond = bytes_of(&states[2])?;
            for (row, group) in groups.iter().enumerate().filter(|(row, _)| states[2].is_valid(*row)) {
                let sum = ExactSum::read(beyond(row), 0).ok_or_else(not_a_state)?;
                self.is_beyond |= self.sums[*group as usize].merge(&sum);
            }
        }
        Ok(())
    }

    fn can_absorb(&self) -> bool {
        true
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        self.sums.resize_with(count, ExactSum::default);
        let other: &Self = alike(other)?;
        self.is_beyond |= other.is_beyond;
        other.sums.iter().zip(groups).for_each(|(sum, group)| self.is_beyond |= self.sums[*group as usize].merge(sum));
        Ok(())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        let sums = mem::take(&mut self.sums);
        let counts = UInt64Array::from_iter_values(sums.iter().map(ExactSum::count));
        let windows: Vec<_> = sums.iter().map(ExactSum::window).collect();
        let bytes = windows.iter().flat_map(|window| window.unwrap_or(0).to_le_bytes()).collect::<Vec<u8>>();
        let beyond: ArrayRef = match mem::take(&mut self.is_beyond) {
            true => {
                let of = |(sum, window): (&ExactSum, &Option<i128>)| {
                    window.is_none().then(|| written(|bytes| sum.write(bytes)))
                };
                Arc::new(sums.iter().zip(&windows).map(of).collect::<BinaryArray>())
            }
            false => new_null_array(&DataType::Binary, sums.len()),
        };
        let windows = FixedSizeBinaryArray::try_new_with_len(WINDOW as i32, bytes.into(), None, sums.len())?;
        Ok(vec![Arc::new(counts), Arc::new(windows), beyond])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let column = self.shape.column(self.sums.iter().map(|sum| self.shape.value(sum)));
        self.sums.clear();
        self.is_beyond = false;
        Ok(column)
    }

    fn bytes(&self) -> usize {
        let beside = if self.is_beyond { self.sums.iter().map(ExactSum::bytes).sum() } else { 0 };
        self.sums.capacity() * size_of::<ExactSum>() + beside
    }
}

struct Plain {
    shape: Shape,
    sums: Vec<(f64, u64)>,
}

impl Accumulator for Plain {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.sums.resize(count, (0.0, 0));
        let values = doubles(&arguments[0]);
        let values = values.values();
        each(counting(arguments, filter).as_ref(), groups, |row, group| {
            let (sum, count) = &mut self.sums[group];
            *sum += values[row];
            *count += 1;
        });
        Ok(())
    }

    fn update_one(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        group: u32,
        rows: usize,
        count: usize,
    ) -> Result<()> {
        let mask = counting(arguments, filter);
        if mask.is_some() {
            return self.update(arguments, filter, &vec![group; rows], count);
        }
        self.sums.resize(count, (0.0, 0));
        let (sum, counted) = &mut self.sums[group as usize];
        *sum += plain_sum(Level::best(), doubles(&arguments[0]).values());
        *counted += rows as u64;
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.sums.resize(count, (0.0, 0));
        let counts = states[0].as_primitive::<UInt64Type>().values();
        let sums = states[1].as_primitive::<Float64Type>().values();
        for ((group, more), sum) in groups.iter().zip(counts).zip(sums) {
            let (total, count) = &mut self.sums[*group as usize];
            *total += sum;
            *count += more;
        }
        Ok(())
    }

    fn can_absorb(&self) -> bool {
        true
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        self.sums.resize(count, (0.0, 0));
        let other: &Self = alike(other)?;
        for ((sum, more), group) in other.sums.iter().zip(groups) {
            let (total, count) = &mut self.sums[*group as usize];
            *total += sum;
            *count += more;
        }
        Ok(())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        let (sums, counts): (Vec<_>, Vec<_>) = mem::take(&mut self.sums).into_iter().unzip();
        Ok(vec![Arc::new(UInt64Array::from(counts)), Arc::new(Float64Array::from(sums))])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let is_mean = self.shape.is_mean;
        let rounded = |(sum, count): (f64, u64)| if is_mean { sum / count as f64 } else { sum };
        let column = self.shape.column(self.sums.iter().map(|sum| (sum.1 > 0).then(|| rounded(*sum))));
        self.sums.clear();
        Ok(column)
    }

    fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<(f64, u64)>()
    }
}
