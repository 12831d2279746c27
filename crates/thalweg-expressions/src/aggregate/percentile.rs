//! `percentile_cont` of windows that move on: values come and go, and two of them make the result.

use std::{marker::PhantomData, ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, BooleanArray, PrimitiveArray, builder::PrimitiveBuilder,
    cast::AsArray, types::*,
};
use arrow_schema::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, expr::AggregateFunctionParams};
use thalweg_core::{
    Error, Result,
    aggregate::{Follower, Slide, Windows, is_counted},
    moving::Bagged,
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
        let results = windows.follow(&mut ranked, change, |ranked| {
            Ok(self.of(ranked.count(), |place| Some(values[ranked.nth(place)])))
        })?;
        Ok(Some(Arc::new(results.into_iter().collect::<PrimitiveArray<T>>())))
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        Some(Bagged::follower(self))
    }
}

impl<T> Clone for Percentile<T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<T> Bagged for Percentile<T>
where
    T: ArrowPrimitiveType<Native: Into<f64> + FromFloat>,
{
    type Bag = Ordered<T::Native>;
    type Builder = PrimitiveBuilder<T>;

    fn bag(&self) -> Ordered<T::Native> {
        Ordered::new(|one, other| one.compare(*other))
    }

    fn values(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<T::Native>>> {
        let column = arguments[0].as_primitive_opt::<T>();
        let column = column.ok_or_else(|| Error::bug("a percentile of values of another type"))?;
        Ok(column.iter().enumerate().map(|(row, value)| value.filter(|_| is_counted(filter, row))).collect())
    }

    fn put(&self, ordered: &Ordered<T::Native>, found: &mut PrimitiveBuilder<T>) -> Result<()> {
        found.append_option(self.of(ordered.count(), |place| ordered.nth(place)));
        Ok(())
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
