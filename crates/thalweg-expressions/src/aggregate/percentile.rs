//! `percentile_cont` of windows that move on: values come and go, and two of them make the result.

use std::{marker::PhantomData, ops::Range, sync::Arc};

use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, PrimitiveArray, cast::AsArray, types::*};
use arrow_schema::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, expr::AggregateFunctionParams};
use thalweg_core::{
    Error, Result,
    aggregate::{Slide, Windows},
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
            let Some(last) = ranked.count().checked_sub(1) else { return Ok(None) };
            let place = self.share * last as f64;
            let low = values[ranked.nth(place.floor() as usize)];
            if place.fract() == 0.0 {
                return Ok(Some(low));
            }
            let (low, high): (f64, f64) = (low.into(), values[ranked.nth(place.ceil() as usize)].into());
            let part = (place.fract() * PARTS).floor() / PARTS;
            Ok(Some(T::Native::of(low + (high - low) * part)))
        })?;
        Ok(Some(Arc::new(results.into_iter().collect::<PrimitiveArray<T>>())))
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
