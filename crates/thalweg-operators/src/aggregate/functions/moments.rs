//! Variances, covariances, correlation and linear regression, from exact sums of values and of products.
//!
//! All is computed from whole numbers and rounded at the end, so that nothing cancels and no order of rows shows. As in
//! PostgreSQL, `f(y, x)` regresses y on x, and what is divided by nothing is null.

use std::{any::Any, mem, sync::Arc};

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, UInt64Array, builder::Float64Builder, cast::AsArray,
    types::UInt64Type,
};
use arrow_schema::DataType;
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Follower, Signature, Slide, Windows},
    moving::{Bag, Bagged},
};
use thalweg_memory::kernels::exact_sum::{
    ExactSum,
    dyadic::{DOUBLE, Dyadic, power_of_two},
    products::ExactProducts,
};

use super::{
    Function,
    float::doubles,
    rows::{alike, bytes_of, counted, counting, each, not_a_state, out_of_range, written},
};

/// One of the functions of moments over floats.
pub fn moments(signature: &Signature<'_>) -> Option<Function> {
    let statistic = Statistic::of(signature.name)?;
    let is_float = |kind: &DataType| matches!(kind, DataType::Float32 | DataType::Float64);
    let is_ours = signature.arguments.len() == statistic.arguments() && signature.arguments.iter().all(is_float);
    if !is_ours || *signature.output != DataType::Float64 {
        return None;
    }
    let sums = ["sum_0", "sum_1"].map(|name| (name, DataType::Binary));
    let products = ["products_00", "products_01", "products_11"].map(|name| (name, DataType::Binary));
    let columns = statistic.arguments();
    let mut state = vec![("count", DataType::UInt64)];
    state.extend(sums.into_iter().take(columns));
    state.extend(products.into_iter().take(columns * 2 - 1));
    let (one, two) = (Sliding::<1, 1>(statistic), Sliding::<2, 3>(statistic));
    Some(match columns {
        1 => Function::new(signature, &state, move || Groups::<1, 1>::new(statistic)).with_slide(one),
        _ => Function::new(signature, &state, move || Groups::<2, 3>::new(statistic)).with_slide(two),
    })
}

/// The statistic of windows that move on: what comes is added, what goes is taken back.
#[derive(Clone, Copy)]
struct Sliding<const N: usize, const P: usize>(Statistic);

impl<const N: usize, const P: usize> Bagged for Sliding<N, P> {
    type Bag = Moments<N, P>;
    type Builder = Float64Builder;

    fn bag(&self) -> Moments<N, P> {
        Moments::default()
    }

    fn values(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<[f64; N]>>> {
        let columns: [_; N] = std::array::from_fn(|i| doubles(&arguments[i]));
        let rows = (0..columns[0].len()).map(|row| columns.each_ref().map(|column| column.value(row)));
        Ok(counted(arguments, filter, rows))
    }

    fn put(&self, moments: &Moments<N, P>, found: &mut Float64Builder) -> Result<()> {
        found.append_option(self.0.fitting(moments)?);
        Ok(())
    }
}

impl<const N: usize, const P: usize> Slide for Sliding<N, P> {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        let mut found = Float64Builder::with_capacity(windows.windows.len());
        self.follow(self.bag(), windows, &mut found)?;
        Ok(Some(Arc::new(found.finish())))
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        Some(Bagged::follower(self))
    }
}

#[derive(Clone, Copy)]
enum Statistic {
    Variance { is_sample: bool, is_root: bool },
    Covariance { is_sample: bool },
    Correlation,
    MeanX,
    MeanY,
    SquaresX,
    SquaresY,
    Products,
    Slope,
    Intercept,
    Determination,
}

impl Statistic {
    fn of(name: &str) -> Option<Self> {
        use Statistic::*;
        Some(match name {
            "var" | "var_samp" | "var_sample" => Variance { is_sample: true, is_root: false },
            "var_pop" | "var_population" => Variance { is_sample: false, is_root: false },
            "stddev" | "stddev_samp" => Variance { is_sample: true, is_root: true },
            "stddev_pop" => Variance { is_sample: false, is_root: true },
            "covar" | "covar_samp" => Covariance { is_sample: true },
            "covar_pop" => Covariance { is_sample: false },
            "corr" => Correlation,
            "regr_avgx" => MeanX,
            "regr_avgy" => MeanY,
            "regr_sxx" => SquaresX,
            "regr_syy" => SquaresY,
            "regr_sxy" => Products,
            "regr_slope" => Slope,
            "regr_intercept" => Intercept,
            "regr_r2" => Determination,
            _ => return None,
        })
    }

    fn arguments(self) -> usize {
        if matches!(self, Self::Variance { .. }) { 1 } else { 2 }
    }

    /// The value of the statistic, if there is one.
    fn value<const N: usize, const P: usize>(self, moments: &Moments<N, P>) -> Option<f64> {
        use Statistic::*;
        let n = moments.count();
        let needed = if let Variance { is_sample: true, .. } | Covariance { is_sample: true } = self { 2 } else { 1 };
        if n < needed {
            return None;
        }
        // The last column is x, the first is y.
        let (x, y) = (N - 1, 0);
        match self {
            MeanX => return Some(moments.sums[x].mean()),
            MeanY => return Some(moments.sums[y].mean()),
            _ if !moments.sums.iter().all(ExactSum::is_finite) => return Some(f64::NAN),
            _ => {}
        }
        let spread = |a, b| moments.spread(a, b);
        Some(match self {
            Variance { is_sample, is_root } => {
                let divisors = [n, n - u64::from(is_sample)];
                let variance = spread(0, 0).over(&divisors, DOUBLE);
                match is_root {
                    true if variance.is_normal() || spread(0, 0).is_zero() => variance.sqrt(),
                    true => root(&spread(0, 0), divisors),
                    false => variance,
                }
            }
            Covariance { is_sample } => spread(x, y).over(&[n, n - u64::from(is_sample)], DOUBLE),
            SquaresX => spread(x, x).over(&[n], DOUBLE),
            SquaresY => spread(y, y).over(&[n], DOUBLE),
            Products => spread(x, y).over(&[n], DOUBLE),
            Slope => ratio(&spread(x, y), &spread(x, x))?,
            Intercept => {
                let (sum_x, sum_y) = (moments.sums[x].exact(), moments.sums[y].exact());
                let mut above = sum_y.times(&spread(x, x));
                above.subtract(&sum_x.times(&spread(x, y)));
                ratio(&above, &spread(x, x).times(&whole(n)))?
            }
            Correlation => {
                let squares = ratio(&spread(x, y).times(&spread(x, y)), &spread(x, x).times(&spread(y, y)))?;
                let root = squares.min(1.0).sqrt();
                if spread(x, y).is_negative() { -root } else { root }
            }
            Determination => {
                let (xx, yy) = (spread(x, x), spread(y, y));
                if !xx.is_zero() && yy.is_zero() {
                    return Some(1.0); // A level line explains itself.
                }
                ratio(&spread(x, y).times(&spread(x, y)), &xx.times(&yy))?.min(1.0)
            }
            MeanX | MeanY => return None,
        })
    }
}

impl Statistic {
    /// The value of the statistic: from finite values comes a finite one, or none that a DOUBLE holds.
    fn fitting<const N: usize, const P: usize>(self, moments: &Moments<N, P>) -> Result<Option<f64>> {
        match self.value(moments) {
            Some(value) if value.is_infinite() && moments.sums.iter().all(ExactSum::is_finite) => {
                Err(out_of_range("double").with_hint("divide the argument by a constant"))
            }
            value => Ok(value),
        }
    }
}

/// Sums of N columns, and of the P products of two of them.
#[derive(Clone)]
struct Moments<const N: usize, const P: usize> {
    sums: [ExactSum; N],
    products: [ExactProducts; P],
}

impl<const N: usize, const P: usize> Default for Moments<N, P> {
    fn default() -> Self {
        Self {
            sums: std::array::from_fn(|_| ExactSum::default()),
            products: std::array::from_fn(|_| Default::default()),
        }
    }
}

impl<const N: usize, const P: usize> Bag for Moments<N, P> {
    type Value = [f64; N];

    fn change(&mut self, values: [f64; N], comes: bool) {
        let sums = self.sums.iter_mut().zip(values);
        sums.for_each(|(sum, value)| if comes { sum.add(value) } else { sum.subtract(value) });
        for (i, sum) in self.products.iter_mut().enumerate() {
            let (x, y) = (values[i / 2], values[i.div_ceil(2)]);
            if comes { sum.add(x, y) } else { sum.subtract(x, y) }
        }
    }

    fn bytes(&self) -> usize {
        let sums: usize = self.sums.iter().map(ExactSum::bytes).sum();
        sums + self.products.iter().map(ExactProducts::bytes).sum::<usize>()
    }
}

impl<const N: usize, const P: usize> Moments<N, P> {
    fn count(&self) -> u64 {
        self.sums[0].count()
    }

    /// `n Σab − Σa Σb`: n times the sum of the products of the distances from the means.
    fn spread(&self, a: usize, b: usize) -> Dyadic {
        let mut spread = self.products[a + b].exact().times(&whole(self.count()));
        spread.subtract(&self.sums[a].exact().times(&self.sums[b].exact()));
        spread
    }
}

fn whole(number: u64) -> Dyadic {
    let mut whole = Dyadic::default();
    whole.add_scaled(u128::from(number), 0, false);
    whole
}

/// The quotient, nearly rounded; nothing if the divisor is zero.
fn ratio(above: &Dyadic, below: &Dyadic) -> Option<f64> {
    if below.is_zero() {
        return None;
    }
    let ((above, up), (below, down)) = (above.scaled(), below.scaled());
    let exponent = up - down;
    // In two steps, because the power alone may be beyond all floats.
    Some(above / below * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2))
}

/// The root of a quotient that is itself beyond all floats, or between the smallest: nearly rounded.
fn root(square: &Dyadic, divisors: [u64; 2]) -> f64 {
    let (square, exponent) = square.scaled();
    let quotient = square / divisors[0] as f64 / divisors[1] as f64;
    let (quotient, exponent) = if exponent % 2 == 0 { (quotient, exponent) } else { (quotient * 2.0, exponent - 1) };
    let half = exponent / 2;
    quotient.sqrt() * power_of_two(half / 2) * power_of_two(half - half / 2)
}

struct Groups<const N: usize, const P: usize> {
    statistic: Statistic,
    groups: Vec<Moments<N, P>>,
}

impl<const N: usize, const P: usize> Groups<N, P> {
    fn new(statistic: Statistic) -> Self {
        Self { statistic, groups: Vec::new() }
    }
}

impl<const N: usize, const P: usize> Accumulator for Groups<N, P> {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.groups.resize_with(count, Moments::default);
        let columns: [_; N] = std::array::from_fn(|i| doubles(&arguments[i]));
        let columns = columns.each_ref().map(|column| column.values());
        each(counting(arguments, filter).as_ref(), groups, |row, group| {
            self.groups[group].change(columns.map(|column| column[row]), true);
        });
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.groups.resize_with(count, Moments::default);
        let counts = states[0].as_primitive_opt::<UInt64Type>().ok_or_else(not_a_state)?;
        let (sums, products) = states[1..].split_at(N);
        for (i, column) in sums.iter().enumerate() {
            let bytes = bytes_of(column)?;
            for (row, group) in groups.iter().enumerate() {
                let sum = ExactSum::read(bytes(row), counts.value(row)).ok_or_else(not_a_state)?;
                self.groups[*group as usize].sums[i].merge(&sum);
            }
        }
        for (i, column) in products.iter().enumerate() {
            let bytes = bytes_of(column)?;
            for (row, group) in groups.iter().enumerate() {
                let sum = ExactProducts::read(bytes(row)).ok_or_else(not_a_state)?;
                self.groups[*group as usize].products[i].merge(&sum);
            }
        }
        Ok(())
    }

    fn can_absorb(&self) -> bool {
        true
    }

    fn absorb(&mut self, other: &dyn Accumulator, groups: &[u32], count: usize) -> Result<()> {
        self.groups.resize_with(count, Moments::default);
        let other: &Self = alike(other)?;
        for (theirs, group) in other.groups.iter().zip(groups) {
            let ours = &mut self.groups[*group as usize];
            ours.sums.iter_mut().zip(&theirs.sums).for_each(|(ours, theirs)| {
                ours.merge(theirs);
            });
            ours.products.iter_mut().zip(&theirs.products).for_each(|(ours, theirs)| ours.merge(theirs));
        }
        Ok(())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        let groups = mem::take(&mut self.groups);
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(UInt64Array::from_iter_values(groups.iter().map(Moments::count)))];
        for i in 0..N {
            let sums = groups.iter().map(|group| Some(written(|bytes| group.sums[i].write(bytes))));
            columns.push(Arc::new(sums.collect::<BinaryArray>()));
        }
        for i in 0..P {
            let products = groups.iter().map(|group| Some(written(|bytes| group.products[i].write(bytes))));
            columns.push(Arc::new(products.collect::<BinaryArray>()));
        }
        Ok(columns)
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let groups = mem::take(&mut self.groups);
        let fit = |moments: &Moments<N, P>| self.statistic.fitting(moments);
        Ok(Arc::new(groups.iter().map(fit).collect::<Result<Float64Array>>()?))
    }

    fn bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Moments<N, P>>() + self.groups.iter().map(Bag::bytes).sum::<usize>()
    }
}
