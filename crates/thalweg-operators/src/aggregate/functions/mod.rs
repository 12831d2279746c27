//! Aggregate functions of our own: vectorized by groups, and the same to the bit in whatever order rows and states come.
//!
//! Nulls, empty groups, NaN and overflow are as in PostgreSQL: a row with a null argument does not count, the aggregate of
//! no rows is null (a count is 0), NaN is above all numbers, and what does not fit the output type is an error.
//!
//! * [`count`] has `count` and `regr_count`
//! * [`whole`] has `sum` and `avg` of integers and decimals
//! * [`float`] has `sum` and `avg` of floats
//! * [`extreme`] has `min` and `max`, [`stacks`] how they follow windows, and [`best`] how from batch to batch, in a [`tree`]
//! * [`median`] has `median`
//! * [`logical`] has `bool_and` and `bool_or`, and `min` and `max` of booleans
//! * [`bits`] has `bit_and`, `bit_or` and `bit_xor`
//! * [`moments`] has variances, covariances, correlation and linear regression
//! * [`distinct`] makes any of them one over distinct values, [`present`] is how that follows windows
//! * [`lists`] has the state of those that keep values

mod best;
mod bits;
mod count;
mod distinct;
#[cfg(test)]
mod edges;
mod extreme;
mod float;
mod lists;
mod logical;
mod median;
mod moments;
mod present;
mod rows;
mod stacks;
#[cfg(test)]
mod testing;
mod tree;
mod whole;

use std::{fmt, sync::Arc};

use arrow_schema::{DataType, Field, FieldRef};
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Aggregate, Exactness, Signature, Slide, Totals},
};

/// Our own implementation of an aggregate function on these argument types, if there is one.
pub fn native(signature: &Signature<'_>) -> Option<Arc<dyn Aggregate>> {
    // The largest of all values is the largest of the distinct ones.
    let is_of_one =
        matches!(signature.name, "min" | "max" | "any_value" | "bool_and" | "bool_or" | "bit_and" | "bit_or");
    let is_distinct = signature.is_distinct && !is_of_one;
    let function = plain(&Signature { is_distinct, ..*signature })?;
    if is_distinct { distinct::distinct(function, signature.arguments) } else { Some(Arc::new(function)) }
}

fn plain(signature: &Signature<'_>) -> Option<Function> {
    match signature.name {
        "count" | "regr_count" => count::count(signature),
        "sum" | "avg" | "mean" => whole::whole(signature).or_else(|| float::float(signature)),
        // Any value is the smallest, whatever comes first.
        "min" | "max" | "any_value" if signature.arguments == [DataType::Boolean] => logical::logical(signature),
        "min" | "max" | "any_value" => extreme::extreme(signature),
        "bool_and" | "bool_or" => logical::logical(signature),
        "bit_and" | "bit_or" | "bit_xor" => bits::bits(signature),
        "median" => median::median(signature),
        _ => moments::moments(signature),
    }
}

/// A function with its accumulators, all of one kind.
struct Function {
    name: String,
    output: DataType,
    state: Vec<FieldRef>,
    accumulator: Box<dyn Fn() -> Box<dyn Accumulator> + Send + Sync>,
    totals: Option<Box<dyn Totals + Send + Sync>>,
    slide: Option<Box<dyn Slide + Send + Sync>>,
    /// What becomes of an exact sum of floats, if it is one.
    floats: Option<float::Shape>,
}

impl Function {
    fn new<A: Accumulator + 'static>(
        signature: &Signature<'_>,
        state: &[(&str, DataType)],
        accumulator: impl Fn() -> A + Send + Sync + 'static,
    ) -> Self {
        let field = |(name, kind): &(&str, DataType)| Arc::new(Field::new(*name, kind.clone(), true));
        Self {
            name: signature.name.into(),
            output: signature.output.clone(),
            state: state.iter().map(field).collect(),
            accumulator: Box::new(move || Box::new(accumulator())),
            totals: None,
            slide: None,
            floats: None,
        }
    }

    /// The same function, which follows from totals.
    fn with_totals(self, totals: impl Totals + Send + Sync + 'static) -> Self {
        Self { totals: Some(Box::new(totals)), ..self }
    }

    /// The same function, which is made of an exact sum of floats.
    fn with_floats(self, shape: float::Shape) -> Self {
        Self { floats: Some(shape), ..self }
    }

    /// The same function, which follows windows.
    fn with_slide(self, slide: impl Slide + 'static) -> Self {
        Self { slide: Some(Box::new(slide)), ..self }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

impl Aggregate for Function {
    fn output(&self) -> DataType {
        self.output.clone()
    }

    fn state(&self) -> Result<Vec<FieldRef>> {
        Ok(self.state.clone())
    }

    fn exactness(&self) -> Exactness {
        // Plain float sums, where somebody asked for them, are not exact, but may be computed in parts all the same.
        Exactness::Exact
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        Ok((self.accumulator)())
    }

    fn totals(&self) -> Option<&dyn Totals> {
        Some(self.totals.as_deref()?)
    }

    fn slide(&self) -> Option<&dyn Slide> {
        Some(self.slide.as_deref()?)
    }
}
