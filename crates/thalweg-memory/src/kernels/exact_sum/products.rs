//! Exact sums of products, for variances and what is like them.

use super::{UNIT, dyadic::Dyadic, parts};

/// A product of two values counts units of 2^-148.
const PRODUCT_UNIT: i32 = 2 * UNIT;
/// The widest shift of a product of 106 bits that stays within 254 bits.
const WIDEST: i32 = 148;

/// A sum of products of two floats, exact. Values that are not finite are left out: the sums beside it know of them.
///
/// 256-bit fixed point takes the square of whatever an [`ExactSum`](super::ExactSum) takes into its window.
#[derive(Clone, Debug, Default)]
pub struct ExactProducts {
    low: u128,
    high: i128,
    rest: Option<Box<Dyadic>>,
}

impl ExactProducts {
    /// Adds `x * y`.
    #[inline]
    pub fn add(&mut self, x: f64, y: f64) {
        self.change(x, y, false);
    }

    /// Takes back `x * y`.
    #[inline]
    pub fn subtract(&mut self, x: f64, y: f64) {
        self.change(x, y, true);
    }

    /// Adds all that another sum has.
    pub fn merge(&mut self, other: &Self) {
        if !self.add_window(other.low, other.high) {
            let mut exact = self.exact();
            exact.add(&other.window());
            *self = Self { low: 0, high: 0, rest: Some(Box::new(exact)) };
        }
        if let Some(rest) = &other.rest {
            self.rest.get_or_insert_default().add(rest);
        }
    }

    /// The sum.
    pub fn exact(&self) -> Dyadic {
        let mut exact = self.window();
        if let Some(rest) = &self.rest {
            exact.add(rest);
        }
        exact
    }

    /// Appends the sum as plain bytes; equal sums give equal bytes.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        self.exact().write(bytes);
    }

    /// Reads what [`ExactProducts::write`] wrote; `None` if it did not write this.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let exact = Dyadic::read(bytes)?;
        Some(Self { low: 0, high: 0, rest: (!exact.is_zero()).then(|| Box::new(exact)) })
    }

    /// How many bytes it keeps beside itself.
    pub fn bytes(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| size_of::<Dyadic>() + rest.bytes())
    }

    #[inline]
    fn change(&mut self, x: f64, y: f64, is_taken_back: bool) {
        let ((m, e), (n, f)) = (parts(x), parts(y));
        let (product, exponent) = (u128::from(m) * u128::from(n), e + f);
        let is_negative = (x.is_sign_negative() != y.is_sign_negative()) != is_taken_back;
        let shift = exponent - PRODUCT_UNIT;
        if product == 0 || !(x.is_finite() && y.is_finite()) {
            return;
        }
        if (0..=WIDEST).contains(&shift) {
            let (low, high) = shifted(product, shift as u32);
            let (low, high) = if is_negative { negated(low, high) } else { (low, high as i128) };
            if self.add_window(low, high) {
                return;
            }
        }
        self.rest.get_or_insert_default().add_scaled(product, exponent, is_negative);
    }

    /// Adds to the window, unless it would overflow.
    #[inline]
    fn add_window(&mut self, low: u128, high: i128) -> bool {
        let (low, carry) = self.low.overflowing_add(low);
        let sum = self.high.checked_add(high).and_then(|sum| sum.checked_add(i128::from(carry)));
        if let Some(high) = sum {
            (self.low, self.high) = (low, high);
        }
        sum.is_some()
    }

    fn window(&self) -> Dyadic {
        let mut exact = Dyadic::default();
        exact.add_scaled(self.low, PRODUCT_UNIT, false);
        exact.add_scaled(self.high.unsigned_abs(), PRODUCT_UNIT + 128, self.high < 0);
        exact
    }
}

/// A product of at most 106 bits, shifted by at most 148, in 256 bits.
#[inline]
fn shifted(product: u128, shift: u32) -> (u128, u128) {
    match shift {
        0 => (product, 0),
        1..128 => (product << shift, product >> (128 - shift)),
        _ => (0, product << (shift - 128)),
    }
}

#[inline]
fn negated(low: u128, high: u128) -> (u128, i128) {
    let (low, carry) = (!low).overflowing_add(1);
    (low, (!high).wrapping_add(u128::from(carry)) as i128)
}
