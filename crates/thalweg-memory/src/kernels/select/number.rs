//! Arithmetic that says where it does not fit, and remainders without division.

use super::lane::Lane;

/// A number that is computed with. Each operation also says whether its result is not that of the real numbers.
pub trait Number: Lane + Default {
    /// The sum.
    fn plus(self, other: Self) -> (Self, bool);
    /// The difference.
    fn minus(self, other: Self) -> (Self, bool);
    /// The product.
    fn times(self, other: Self) -> (Self, bool);
    /// The remainder, which has the sign of the first; fails for a divisor of zero, and for the least number by -1.
    fn modulo(self, other: Self) -> (Self, bool);
}

macro_rules! whole {
    ($($kind:ty),*) => { $(
        impl Number for $kind {
            #[inline(always)]
            fn plus(self, other: Self) -> (Self, bool) {
                self.overflowing_add(other)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> (Self, bool) {
                self.overflowing_sub(other)
            }

            #[inline(always)]
            fn times(self, other: Self) -> (Self, bool) {
                self.overflowing_mul(other)
            }

            #[inline(always)]
            fn modulo(self, other: Self) -> (Self, bool) {
                if other == 0 { (0, true) } else { self.overflowing_rem(other) }
            }
        }
    )* };
}

macro_rules! float {
    ($($kind:ty),*) => { $(
        impl Number for $kind {
            #[inline(always)]
            fn plus(self, other: Self) -> (Self, bool) {
                (self + other, false)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> (Self, bool) {
                (self - other, false)
            }

            #[inline(always)]
            fn times(self, other: Self) -> (Self, bool) {
                (self * other, false)
            }

            #[inline(always)]
            fn modulo(self, other: Self) -> (Self, bool) {
                (self % other, false)
            }
        }
    )* };
}

whole!(i32, i64);
float!(f32, f64);

/// Tells in a few multiplications whether `x % divisor = remainder`, where `%` has the sign of `x`.
///
/// A multiple of an odd `d` is one that, times the inverse of `d` modulo 2^64, is at most 2^64 / d; the factors of two in a
/// divisor are rotated away. Adding a bias before maps the negative multiples among the positive ones.
///
/// Source: Warren, "Hacker's Delight", 10-17.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residue {
    inverse: u64,
    bias: u64,
    twos: u32,
    limit: i64,
    remainder: i64,
}

impl Residue {
    /// `None` where no `x` has this remainder, or the divisor is 0 or the least number.
    pub fn new(divisor: i64, remainder: i64) -> Option<Self> {
        let d = divisor.checked_abs().filter(|d| *d > 0)? as u64;
        if remainder.unsigned_abs() >= d {
            return None;
        }
        let (twos, odd) = (d.trailing_zeros(), d >> d.trailing_zeros());
        // Each step of Newton's doubles the bits that are right; the number itself has three.
        let inverse = (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse))));
        // The multiples of d that fit are k * d with -least <= k <= most; times the inverse they are k << twos.
        let (least, most) = ((1 << 63) / d, (i64::MAX as u64) / d);
        Some(Self { inverse, bias: least << twos, twos, limit: ((least + most) ^ (1 << 63)) as i64, remainder })
    }

    /// Whether `x % divisor = remainder`.
    #[inline(always)]
    pub fn holds(&self, x: i64) -> bool {
        // With a remainder that is not 0, x has its sign; then the difference cannot overflow.
        let has_sign = (self.remainder == 0) | ((x ^ self.remainder) >= 0) & (x != 0);
        self.is_multiple(self.quotient(x)) & has_sign
    }

    /// The remainder that is asked for.
    #[inline(always)]
    pub fn remainder(&self) -> i64 {
        self.remainder
    }

    /// The bits that no multiple has, if that is all there is to a multiple: the divisor is a power of two.
    #[inline(always)]
    pub fn low_bits(&self) -> Option<i64> {
        (self.inverse == 1).then_some((1 << self.twos) - 1)
    }

    /// What is at most the limit where `x` less the remainder is a multiple. With its upper bit turned, so that it is
    /// compared as a signed number: vectors have no other comparison.
    #[inline(always)]
    pub fn quotient(&self, x: i64) -> i64 {
        let multiple = x.wrapping_sub(self.remainder) as u64;
        (multiple.wrapping_mul(self.inverse).wrapping_add(self.bias).rotate_right(self.twos) ^ 1 << 63) as i64
    }

    /// Whether this is the quotient of a multiple.
    #[inline(always)]
    pub fn is_multiple(&self, quotient: i64) -> bool {
        quotient <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residues_are_remainders() {
        let edges = [i64::MIN, i64::MIN + 1, i64::MIN + 7, -1 << 40, i64::MAX, i64::MAX - 1, i64::MAX - 9, 1 << 50];
        let numbers = || (-70..70).chain(edges);
        let divisors = (-12..=12).chain([100, 1000, -1 << 33, 1 << 62, i64::MAX, i64::MIN + 1, 6 << 40, 999_999_937]);
        for divisor in divisors {
            for remainder in (-13..=13).chain([99, -99, i64::MAX, i64::MIN]) {
                let Some(residue) = Residue::new(divisor, remainder) else {
                    let none = numbers().all(|x| divisor == 0 || x.wrapping_rem(divisor) != remainder);
                    assert!(none, "{divisor} {remainder}");
                    continue;
                };
                let near = numbers().filter_map(|k| k.checked_mul(divisor)?.checked_add(remainder));
                for x in numbers().chain(near) {
                    assert_eq!(residue.holds(x), x.wrapping_rem(divisor) == remainder, "{x} % {divisor} = {remainder}");
                }
            }
        }
    }
}
