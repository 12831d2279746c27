//! `sum` and `avg` of integers, decimals and spans of time: whole numbers, which are only in range or not once all are added.

use std::{any::Any, mem, sync::Arc};

use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int64Array, UInt64Array,
    cast::AsArray, types::*,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, i256};
use arrow_schema::{DataType, TimeUnit};
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Addends, Amounts, Signature, Totals},
};
use thalweg_memory::{
    kernels::{exact_sum::quotient, select::above, sums::whole_sum},
    simd::Level,
};

use super::{
    Function,
    rows::{alike, counting, each, not_a_state, out_of_range},
};

/// Does something for the type of the values in a column.
macro_rules! by_type {
    ($kind:expr, $do:ident) => {
        match $kind {
            DataType::Int8 => $do!(Int8Type),
            DataType::Int16 => $do!(Int16Type),
            DataType::Int32 => $do!(Int32Type),
            DataType::Int64 => $do!(Int64Type),
            DataType::UInt8 => $do!(UInt8Type),
            DataType::UInt16 => $do!(UInt16Type),
            DataType::UInt32 => $do!(UInt32Type),
            DataType::UInt64 => $do!(UInt64Type),
            DataType::Duration(TimeUnit::Second) => $do!(DurationSecondType),
            DataType::Duration(TimeUnit::Millisecond) => $do!(DurationMillisecondType),
            DataType::Duration(TimeUnit::Microsecond) => $do!(DurationMicrosecondType),
            DataType::Duration(TimeUnit::Nanosecond) => $do!(DurationNanosecondType),
            _ => $do!(Decimal128Type),
        }
    };
}

/// A sum or mean of whole numbers.
pub fn whole(signature: &Signature<'_>) -> Option<Function> {
    let [argument] = signature.arguments else { return None };
    let result = match (signature.name, argument, signature.output) {
        ("sum", kind, DataType::Int64) if kind.is_integer() => Output::Signed,
        ("sum", kind, DataType::UInt64) if kind.is_integer() => Output::Unsigned,
        ("sum", DataType::Decimal128(_, from), DataType::Decimal128(precision, to)) if from == to => {
            Output::Decimal { precision: *precision, scale: *to, shift: 0, is_mean: false }
        }
        (name, DataType::Duration(unit), DataType::Duration(to)) if unit == to => {
            Output::Span { unit: *unit, is_mean: name != "sum" }
        }
        ("sum", ..) => return None,
        (_, kind, DataType::Float64) if kind.is_integer() => Output::Mean,
        (_, DataType::Decimal128(_, from), DataType::Decimal128(precision, to)) if from <= to => {
            let shift = u32::from((*to - *from).unsigned_abs());
            Output::Decimal { precision: *precision, scale: *to, shift, is_mean: true }
        }
        _ => return None,
    };
    let is_wide = matches!(argument, DataType::UInt64 | DataType::Decimal128(..));
    let are_narrow = !is_wide && (argument.is_integer() || matches!(argument, DataType::Duration(_)));
    let state = [("count", DataType::UInt64), ("sum", DataType::FixedSizeBinary(WIDTH as i32))];
    Some(
        Function::new(signature, &state, move || Sums { result, sums: Vec::new() })
            .with_totals(WholeTotals { result, are_narrow }),
    )
}

/// Sums of whole numbers: the amounts are the numbers.
struct WholeTotals {
    result: Output,
    /// Whether these have 64 bits.
    are_narrow: bool,
}

impl Totals for WholeTotals {
    fn amounts(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, _: usize) -> Result<Amounts> {
        let (column, counted) = (arguments[0].as_ref(), counting(arguments, filter));
        if let Some(values) = column.as_primitive_opt::<Int64Type>() {
            let amounts = match &counted {
                None => values.values().clone(),
                Some(counted) => {
                    values.values().iter().zip(counted).map(|(value, counts)| if counts { *value } else { 0 }).collect()
                }
            };
            return Ok(Amounts { amounts: Addends::Narrow(amounts), counted, beyond: Vec::new() });
        }
        macro_rules! amounts {
            ($kind:ty) => {
                column.as_primitive::<$kind>().values().iter().map(|value| i128::from(*value)).collect()
            };
        }
        let mut amounts: Vec<i128> = by_type!(column.data_type(), amounts);
        if let Some(counted) = &counted {
            amounts.iter_mut().zip(counted).filter(|(_, counts)| !counts).for_each(|(amount, _)| *amount = 0);
        }
        Ok(Amounts { amounts: Addends::Wide(amounts), counted, beyond: Vec::new() })
    }

    fn are_narrow(&self) -> bool {
        self.are_narrow
    }

    fn states(&self, counts: &[u64], sums: &[i128]) -> Result<Vec<ArrayRef>> {
        let counts = UInt64Array::from(counts.to_vec());
        let sums = states(sums.iter().map(|sum| Sum { low: *sum, ..Sum::default() }), sums.len());
        Ok(vec![Arc::new(counts), Arc::new(sums)])
    }

    fn results(&self, counts: &[u64], sums: &[i128]) -> Result<Option<ArrayRef>> {
        let sums = sums.iter().zip(counts).map(|(low, count)| Sum { low: *low, high: 0, count: *count });
        // What does not fit is left to the accumulator, whose errors say where they are from.
        Ok(self.result.column(sums).ok())
    }

    fn narrow_results(&self, counts: &[u64], sums: &[i64]) -> Result<Option<ArrayRef>> {
        if matches!(self.result, Output::Signed) {
            let some = Buffer::from_vec(above(Level::best(), counts, 0));
            let nulls = NullBuffer::new(BooleanBuffer::new(some, 0, counts.len()));
            return Ok(Some(Arc::new(Int64Array::new(sums.to_vec().into(), Some(nulls)))));
        }
        self.results(counts, &sums.iter().map(|sum| i128::from(*sum)).collect::<Vec<_>>())
    }
}

/// Sums as the column of a state.
fn states(sums: impl Iterator<Item = Sum>, count: usize) -> FixedSizeBinaryArray {
    let mut bytes = Vec::with_capacity(count * WIDTH);
    for sum in sums {
        bytes.extend(sum.low.to_le_bytes());
        bytes.extend(sum.high.to_le_bytes());
    }
    FixedSizeBinaryArray::new(WIDTH as i32, Buffer::from_vec(bytes), None)
}

#[derive(Clone, Copy)]
enum Output {
    Signed,
    Unsigned,
    Mean,
    Decimal { precision: u8, scale: i8, shift: u32, is_mean: bool },
    Span { unit: TimeUnit, is_mean: bool },
}

impl Output {
    /// The results of sums.
    fn column(self, sums: impl Iterator<Item = Sum>) -> Result<ArrayRef> {
        let some = |sum: Sum| (sum.count > 0).then_some(sum);
        Ok(match self {
            Output::Signed => {
                let fit = |sum: Sum| {
                    sum.narrow().and_then(|sum| i64::try_from(sum).ok()).ok_or_else(|| out_of_range("bigint"))
                };
                Arc::new(sums.map(|sum| some(sum).map(fit).transpose()).collect::<Result<Int64Array>>()?)
            }
            Output::Unsigned => {
                let fit = |sum: Sum| {
                    sum.narrow().and_then(|sum| u64::try_from(sum).ok()).ok_or_else(|| out_of_range("bigint unsigned"))
                };
                Arc::new(sums.map(|sum| some(sum).map(fit).transpose()).collect::<Result<UInt64Array>>()?)
            }
            Output::Span { unit, is_mean } => {
                let fit = |sum: Sum| {
                    let value = if is_mean { decimal_mean(&sum, 0) } else { sum.narrow() };
                    value.and_then(|value| i64::try_from(value).ok()).ok_or_else(|| out_of_range("span of time"))
                };
                let values = sums.map(|sum| some(sum).map(fit).transpose()).collect::<Result<Int64Array>>()?;
                match unit {
                    TimeUnit::Second => Arc::new(values.reinterpret_cast::<DurationSecondType>()),
                    TimeUnit::Millisecond => Arc::new(values.reinterpret_cast::<DurationMillisecondType>()),
                    TimeUnit::Microsecond => Arc::new(values.reinterpret_cast::<DurationMicrosecondType>()),
                    TimeUnit::Nanosecond => Arc::new(values.reinterpret_cast::<DurationNanosecondType>()),
                }
            }
            Output::Mean => Arc::new(sums.map(|sum| some(sum).map(|sum| mean(&sum))).collect::<Float64Array>()),
            Output::Decimal { precision, scale, shift, is_mean } => {
                let fit = |sum: Sum| {
                    let value = if is_mean { decimal_mean(&sum, shift) } else { sum.narrow() };
                    let value = value.filter(|value| value.unsigned_abs() < 10u128.pow(u32::from(precision)));
                    value.ok_or_else(|| out_of_range(&format!("decimal({precision}, {scale})")))
                };
                let values = sums.map(|sum| some(sum).map(fit).transpose());
                let values = values.collect::<Result<Decimal128Array>>()?;
                Arc::new(values.with_precision_and_scale(precision, scale)?)
            }
        })
    }
}

/// How many bytes a sum takes in a state: the low 16, then the high 8.
const WIDTH: usize = 24;

/// `high * 2^128 + low`, which no number of rows overflows.
#[derive(Clone, Copy, Default)]
struct Sum {
    low: i128,
    high: i64,
    count: u64,
}

impl Sum {
    #[inline]
    fn add(&mut self, value: i128) {
        let (low, has_overflowed) = self.low.overflowing_add(value);
        self.low = low;
        if has_overflowed {
            self.high += if value < 0 { -1 } else { 1 };
        }
    }

    fn merge(&mut self, low: i128, high: i64, count: u64) {
        self.add(low);
        self.high += high;
        self.count += count;
    }

    /// The sum, if 128 bits hold it.
    fn narrow(&self) -> Option<i128> {
        (self.high == 0).then_some(self.low)
    }

    fn wide(&self) -> i256 {
        let sign = if self.low < 0 { -1 } else { 0 };
        i256::from_parts(self.low as u128, i128::from(self.high) + sign)
    }
}

struct Sums {
    result: Output,
    sums: Vec<Sum>,
}

impl Accumulator for Sums {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.sums.resize(count, Sum::default());
        let (column, mask) = (arguments[0].as_ref(), counting(arguments, filter));
        macro_rules! add {
            ($kind:ty) => {{
                let values = column.as_primitive::<$kind>().values();
                each(mask.as_ref(), groups, |row, group| {
                    let sum = &mut self.sums[group];
                    sum.add(i128::from(values[row]));
                    sum.count += 1;
                })
            }};
        }
        by_type!(column.data_type(), add);
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
        let counted = counting(arguments, filter);
        match arguments[0].as_primitive_opt::<Int64Type>() {
            Some(values) if counted.is_none() => {
                self.sums.resize(count, Sum::default());
                let sum = &mut self.sums[group as usize];
                sum.add(whole_sum(Level::best(), values.values()));
                sum.count += rows as u64;
                Ok(())
            }
            _ => self.update(arguments, filter, &vec![group; rows], count),
        }
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.sums.resize(count, Sum::default());
        let counts = states[0].as_primitive_opt::<UInt64Type>().ok_or_else(not_a_state)?;
        let sums = states[1].as_fixed_size_binary_opt().ok_or_else(not_a_state)?;
        for (row, group) in groups.iter().enumerate() {
            let (low, high) = sums.value(row).split_first_chunk::<16>().ok_or_else(not_a_state)?;
            let high = i64::from_le_bytes(high.try_into().map_err(|_| not_a_state())?);
            self.sums[*group as usize].merge(i128::from_le_bytes(*low), high, counts.value(row));
        }
        Ok(())
    }

    fn can_absorb(&self) -> bool {
        true
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        self.sums.resize(count, Sum::default());
        let other: &Self = alike(other)?;
        let theirs = other.sums.iter().zip(groups);
        theirs.for_each(|(sum, group)| self.sums[*group as usize].merge(sum.low, sum.high, sum.count));
        Ok(())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        let sums = mem::take(&mut self.sums);
        let counts = UInt64Array::from_iter_values(sums.iter().map(|sum| sum.count));
        let sums = states(sums.iter().copied(), sums.len());
        Ok(vec![Arc::new(counts), Arc::new(sums)])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let column = self.result.column(self.sums.iter().copied())?;
        self.sums.clear();
        Ok(column)
    }

    fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<Sum>()
    }
}

/// The float nearest to the mean. No number of rows brings a sum of 64-bit numbers beyond 128 bits.
fn mean(sum: &Sum) -> f64 {
    quotient(sum.low, 0, sum.count)
}

/// The mean with `shift` more digits, halves rounded away from zero.
fn decimal_mean(sum: &Sum, shift: u32) -> Option<i128> {
    let count = i256::from_i128(i128::from(sum.count));
    let scaled = sum.wide().checked_mul(i256::from_i128(10i128.checked_pow(shift)?))?;
    let (quotient, rest) = (scaled.checked_div(count)?, scaled.checked_rem(count)?);
    let is_up = rest.wrapping_abs().checked_mul(i256::from_i128(2))? >= count;
    let away = i256::from_i128(if scaled.is_negative() { -1 } else { 1 });
    let rounded = if is_up { quotient.checked_add(away)? } else { quotient };
    rounded.to_i128()
}
