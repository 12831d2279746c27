//! Sums of floats that do not depend on the order of the values: they accumulate exactly, and round once.
//!
//! * [`ExactSum`]: of values
//! * [`many`]: of many values at once
//! * [`products::ExactProducts`]: of products of two values
//! * [`dyadic::Dyadic`]: what both are beyond their fast window, and what is computed from them

pub mod dyadic;
pub mod many;
pub mod products;

use dyadic::{DOUBLE, Dyadic, Precision, power_of_two};

/// The window counts units of 2^-74.
const UNIT: i32 = -74;
/// The widest shift of a mantissa of 53 bits that stays within 127 bits.
const WIDEST: u64 = 74;

/// A sum of floats, exact, with how many there are.
///
/// ```text
/// 2^53 ... 1 ... 2^-74        128-bit fixed point: values from 2^-22 to 2^53, and zero
/// beyond                      a number of any length, where some value asks for it
/// NaN, infinity, -infinity    counted, so that they can be subtracted again
/// ```
///
/// The sum of nothing, and of zeros of either sign, is 0.0.
///
/// ```
/// use thalweg_memory::kernels::exact_sum::ExactSum;
/// let mut sum = ExactSum::default();
/// [1e100, 0.1, -1e100].into_iter().for_each(|value| sum.add(value));
/// assert_eq!(sum.value(), 0.1);
/// sum.subtract(0.1);
/// assert_eq!(sum.value(), 0.0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExactSum {
    window: i128,
    count: u64,
    rest: Option<Box<Rest>>,
}

/// What does not fit the window.
#[derive(Clone, Debug, Default)]
struct Rest {
    finite: Dyadic,
    nans: u64,
    infinities: u64,
    negative_infinities: u64,
}

impl ExactSum {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.add_if(value, true);
    }

    /// Adds a value if it `is_in`, without a branch; returns whether it did not fit the window.
    #[inline]
    fn add_if(&mut self, value: f64, is_in: bool) -> bool {
        let value = if is_in { value } else { 0.0 };
        self.count = self.count.wrapping_add(u64::from(is_in));
        match fixed(value).map(|part| self.window.overflowing_add(part)) {
            Some((window, false)) => {
                self.window = window;
                false
            }
            _ => {
                self.add_to_rest(value);
                true
            }
        }
    }

    /// Takes back a value that was added.
    #[inline]
    pub fn subtract(&mut self, value: f64) {
        self.count = self.count.wrapping_sub(1);
        match fixed(value).map(|part| self.window.overflowing_sub(part)) {
            Some((window, false)) => self.window = window,
            _ => self.subtract_from_rest(value),
        }
    }

    /// Adds all that another sum has; returns whether it keeps bytes beside itself then.
    pub fn merge(&mut self, other: &Self) -> bool {
        self.add_window(other.window, other.count);
        if let Some(theirs) = &other.rest {
            let rest = self.rest();
            rest.finite.add(&theirs.finite);
            rest.nans += theirs.nans;
            rest.infinities += theirs.infinities;
            rest.negative_infinities += theirs.negative_infinities;
        }
        self.rest.is_some()
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The float nearest to the sum; infinite only where the sum itself is beyond all floats.
    pub fn value(&self) -> f64 {
        if self.rest.is_none() {
            return self.window as f64 * power_of_two(UNIT); // The conversion rounds, the product is exact.
        }
        self.special().unwrap_or_else(|| self.exact().over(&[], DOUBLE))
    }

    /// The float nearest to the mean; NaN of nothing.
    pub fn mean(&self) -> f64 {
        self.rounded_mean(DOUBLE)
    }

    /// The mean, rounded once to a precision.
    pub fn rounded_mean(&self, precision: Precision) -> f64 {
        match (self.count, self.special()) {
            (0, _) => f64::NAN,
            (count, None) if self.rest.is_none() && precision == DOUBLE => quotient(self.window, UNIT, count),
            (_, Some(special)) => special,
            (count, None) => self.exact().over(&[count], precision),
        }
    }

    /// The sum, rounded once to a precision.
    pub fn rounded(&self, precision: Precision) -> f64 {
        self.special().unwrap_or_else(|| self.exact().over(&[], precision))
    }

    /// Whether NaN or an infinity was added.
    pub fn is_finite(&self) -> bool {
        self.special().is_none()
    }

    /// The sum of the finite values.
    pub fn exact(&self) -> Dyadic {
        let mut exact = self.rest.as_ref().map_or_else(Dyadic::default, |rest| rest.finite.clone());
        exact.add_scaled(self.window.unsigned_abs(), UNIT, self.window < 0);
        exact
    }

    /// Appends the sum without the count as plain bytes; equal sums give equal bytes.
    ///
    /// ```text
    /// i128 window                                                   where that is all
    /// u64 NaNs | u64 infinities | u64 -infinities | the number      else; all little-endian
    /// ```
    pub fn write(&self, bytes: &mut Vec<u8>) {
        if let Some(window) = self.window() {
            return bytes.extend(window.to_le_bytes());
        }
        let counts = self.rest.as_ref().map(|rest| [rest.nans, rest.infinities, rest.negative_infinities]);
        counts.unwrap_or_default().iter().for_each(|count| bytes.extend(count.to_le_bytes()));
        self.exact().write(bytes);
    }

    /// The sum in units of 2^-74, where that is all there is to it: what [`ExactSum::add_window`] takes.
    #[inline]
    pub fn window(&self) -> Option<i128> {
        let Some(rest) = &self.rest else { return Some(self.window) };
        // A sum that has come back into the window is as if it had never left it.
        rest.is_finite().then(|| self.exact().in_units(UNIT)).flatten()
    }

    /// Adds a sum of so many values, in units of 2^-74; returns whether it keeps bytes beside itself then.
    #[inline]
    pub fn add_window(&mut self, window: i128, count: u64) -> bool {
        self.count += count;
        match self.window.overflowing_add(window) {
            (window, false) => self.window = window,
            _ => self.rest().add_units(window),
        }
        self.rest.is_some()
    }

    /// Reads what [`ExactSum::write`] wrote, of a sum of so many values; `None` if it did not write this.
    pub fn read(bytes: &[u8], count: u64) -> Option<Self> {
        if let Ok(window) = bytes.try_into() {
            return Some(Self { window: i128::from_le_bytes(window), count, rest: None });
        }
        let (counts, number) = bytes.split_at_checked(24)?;
        let [nans, infinities, negative_infinities] =
            [0, 8, 16].map(|at| u64::from_le_bytes(std::array::from_fn(|i| counts[at + i])));
        let rest = Rest { finite: Dyadic::read(number)?, nans, infinities, negative_infinities };
        Some(Self { window: 0, count, rest: Some(Box::new(rest)) })
    }

    /// How many bytes it keeps beside itself.
    pub fn bytes(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| size_of::<Rest>() + rest.finite.bytes())
    }

    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    #[cold]
    #[inline(never)]
    fn add_to_rest(&mut self, value: f64) {
        let full = if fixed(value).is_some() { std::mem::take(&mut self.window) } else { 0 };
        let rest = self.rest();
        rest.add_units(full);
        match value {
            f64::INFINITY => rest.infinities += 1,
            f64::NEG_INFINITY => rest.negative_infinities += 1,
            _ if value.is_nan() => rest.nans += 1,
            _ => rest.add_finite(value),
        }
    }

    #[cold]
    #[inline(never)]
    fn subtract_from_rest(&mut self, value: f64) {
        let rest = self.rest();
        match value {
            f64::INFINITY => rest.infinities -= 1,
            f64::NEG_INFINITY => rest.negative_infinities -= 1,
            _ if value.is_nan() => rest.nans -= 1,
            _ => rest.add_finite(-value),
        }
        if rest.is_finite() && rest.finite.is_zero() {
            self.rest = None;
        }
    }

    /// What the sum is where not all values are finite.
    fn special(&self) -> Option<f64> {
        let rest = self.rest.as_ref()?;
        match (rest.nans, rest.infinities, rest.negative_infinities) {
            (0, 0, 0) => None,
            (0, _, 0) => Some(f64::INFINITY),
            (0, 0, _) => Some(f64::NEG_INFINITY),
            _ => Some(f64::NAN),
        }
    }
}

impl Rest {
    fn is_finite(&self) -> bool {
        (self.nans, self.infinities, self.negative_infinities) == (0, 0, 0)
    }

    fn add_finite(&mut self, value: f64) {
        let (mantissa, exponent) = parts(value);
        self.finite.add_scaled(u128::from(mantissa), exponent, value < 0.0);
    }

    fn add_units(&mut self, units: i128) {
        self.finite.add_scaled(units.unsigned_abs(), UNIT, units < 0);
    }
}

/// `whole * 2^exponent / count`, rounded once, where that is a normal double.
pub fn quotient(whole: i128, exponent: i32, count: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    // With the highest bit set, the quotient has 64 bits or more: 53 that count, and the rest only tells which way to round.
    let magnitude = whole.unsigned_abs();
    let shift = magnitude.leading_zeros();
    let (scaled, count) = (magnitude << shift, u128::from(count));
    let quotient = scaled / count;
    let is_inexact = quotient * count != scaled;
    let rounded = (quotient | u128::from(is_inexact)) as f64 * power_of_two(exponent - shift as i32);
    if whole < 0 { -rounded } else { rounded }
}

/// The value in units of the window, 2^-74, if it fits; zero does, and is not treated apart, because streams are full of zeros.
#[inline]
pub fn fixed(value: f64) -> Option<i128> {
    let bits = value.to_bits();
    let is_nonzero = u64::from(bits << 1 != 0);
    let mantissa = (bits & ((1 << 52) - 1)) | (is_nonzero << 52);
    let shift = ((bits >> 52) & 0x7ff).wrapping_sub((1075 + UNIT) as u64) & is_nonzero.wrapping_neg();
    if shift > WIDEST {
        return None;
    }
    let sign = -i128::from(bits >> 63);
    Some(((i128::from(mantissa) << shift) ^ sign) - sign)
}

/// Mantissa and exponent of the magnitude of a finite value.
fn parts(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let (mantissa, exponent) = (bits & ((1 << 52) - 1), ((bits >> 52) & 0x7ff) as i32);
    if exponent == 0 { (mantissa, -1074) } else { (mantissa | (1 << 52), exponent - 1075) }
}

#[cfg(test)]
mod tests;
