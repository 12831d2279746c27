//! `percentile_cont` of windows that move on: values come and go, and two of them make the result.

use std::{marker::PhantomData, ops::Range, sync::Arc};

use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, BooleanArray, ArrowPrimitiveType, PrimitiveArray, cast::AsArray, types::*};
use arrow_schema::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, expr::AggregateFunctionParams};
use thalweg_core::{
    Error, Result,
    aggregate::{Follower, Slide, Windows},
    moving::Moving,
    ordered::Ordered,
    ranked::Ranked,
};

/// How far between two values a result lies is a multiple of one part of so many: DataFusion's results are the same to the bit.
const PARTS: f64 = 1_000_000.0;

/// What follows windows for a percentile of values of this type, where it is one that can.
pub fn percentile(name: &str, params: &AggregateFunctionParams, kind: &DataType) -> Option<Box<dyn Slide>> {
    let ("percentile_cont", [_, Expr::Literal(ScalarValue::Float64(Some(share)), _)], false) =
        (name, params.args.as_slice(), params.distinct)
    else {
        return None;
    };
    let is_ascending = params.order_by.first().is_none_or(|key| key.asc);
    let share = if is_ascending { *share } else { 1.0 - share };
    match kind {
        DataType::Float32 => Some(Box::new(Percentile::<Float32Type> { share, of: PhantomData })),
        DataType::Float64 => Some(Box::new(Percentile::<Float64Type> { share, of: PhantomData })),
        _ => None,
    }
}

struct Percentile<T> {
    share: f64,
    of: PhantomData<fn() -> T>,
}

impl<T> Slide for Percentile<T>
where
    T: ArrowPrimitiveType<Native: Into<f64> + FromFloat>,
{
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        let column = windows.arguments[0].as_primitive_opt::<T>();
        let column = column.ok_or_else(|| Error::bug("a percentile of values of another type"))?;
        let values = column.values();
        let counts = |row: &usize| column.is_valid(*row) && windows.is_counted(*row);
        let mut ranked = Ranked::new(values.len(), |one, other| values[one].compare(values[other]));
        let change = |ranked: &mut Ranked, rows: Range<usize>, comes: bool| {
            rows.filter(counts).for_each(|row| ranked.change(row, comes));
            Ok(())
        };
        let results = windows
            .follow(&mut ranked, change, |ranked| Ok(self.of(ranked.count(), |place| Some(values[ranked.nth(place)]))))?;
        Ok(Some(Arc::new(results.into_iter().collect::<PrimitiveArray<T>>())))
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        let ordered = Ordered::new(|one: &T::Native, other: &T::Native| one.compare(*other));
        Some(Box::new(Following::<T> { percentile: Self { ..*self }, moving: Moving::new(ordered) }))
    }
}

impl<T> Percentile<T>
where
    T: ArrowPrimitiveType<Native: Into<f64> + FromFloat>,
{
    /// That of so many values, of which `at` knows each in the order of values.
    fn of(&self, count: usize, at: impl Fn(usize) -> Option<T::Native>) -> Option<T::Native> {
        let place = self.share * count.checked_sub(1)? as f64;
        let low = at(place.floor() as usize)?;
        if place.fract() == 0.0 {
            return Some(low);
        }
        let (low, high): (f64, f64) = (low.into(), at(place.ceil() as usize)?.into());
        let part = (place.fract() * PARTS).floor() / PARTS;
        Some(T::Native::of(low + (high - low) * part))
    }
}

/// Percentiles of the windows of a key, from batch to batch.
struct Following<T: ArrowPrimitiveType> {
    percentile: Percentile<T>,
    moving: Moving<Ordered<T::Native>>,
}

impl<T: ArrowPrimitiveType> Following<T> {
    fn values(arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<T::Native>>> {
        let column = arguments[0].as_primitive_opt::<T>();
        let column = column.ok_or_else(|| Error::bug("a percentile of values of another type"))?;
        let counts = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        Ok(column.iter().enumerate().map(|(row, value)| value.filter(|_| counts(row))).collect())
    }
}

impl<T> Follower for Following<T>
where
    T: ArrowPrimitiveType<Native: Into<f64> + FromFloat>,
{
    fn insert(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, places: &[usize]) -> Result<()> {
        self.moving.insert(Self::values(arguments, filter)?, places);
        Ok(())
    }

    fn drop_first(&mut self, rows: usize) {
        self.moving.drop_first(rows, |_, _| ());
    }

    fn results(&mut self, windows: &Windows<'_>) -> Result<ArrayRef> {
        let own = if windows.own.is_some() { Self::values(windows.arguments, windows.filter)? } else { Vec::new() };
        let percentile = &self.percentile;
        let result = |ordered: &mut Ordered<_>| Ok(percentile.of(ordered.count(), |place| ordered.nth(place)));
        Ok(Arc::new(self.moving.follow(windows, &own, result)?.into_iter().collect::<PrimitiveArray<T>>()))
    }

    fn bytes(&self) -> usize {
        self.moving.bytes() + self.moving.bag.bytes()
    }
}

/// The nearest value.
trait FromFloat {
    fn of(value: f64) -> Self;
}

impl FromFloat for f64 {
    fn of(value: f64) -> Self {
        value
    }
}

impl FromFloat for f32 {
    fn of(value: f64) -> Self {
        value as Self
    }
}
