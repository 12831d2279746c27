//! Whole numbers of any length times a power of two: what any sum or product of floats is, exactly.

/// A whole number times a power of two.
///
/// ```text
/// limbs[0] * 2^(64 low) + limbs[1] * 2^(64 (low + 1)) + ...      two's complement
/// ```
///
/// No limbs are zero. Otherwise the last limb is nothing but the sign (0 or all ones), so that adding never overflows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dyadic {
    low: i32,
    limbs: Vec<u64>,
}

/// The precision of a float type: how many bits a mantissa has, and the exponent of its smallest number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Precision {
    bits: i32,
    smallest: i32,
}

/// Of `f64`.
pub const DOUBLE: Precision = Precision { bits: 53, smallest: -1074 };
/// Of `f32`.
pub const SINGLE: Precision = Precision { bits: 24, smallest: -149 };

impl Dyadic {
    /// Adds `magnitude * 2^exponent`, or subtracts it.
    pub fn add_scaled(&mut self, magnitude: u128, exponent: i32, is_negative: bool) {
        if magnitude == 0 {
            return;
        }
        let (limb, bit) = (exponent.div_euclid(64), exponent.rem_euclid(64));
        let (low, high) = (magnitude as u64, (magnitude >> 64) as u64);
        let carried = |word: u64| if bit == 0 { 0 } else { word >> (64 - bit) };
        self.add_limbs(limb, &[low << bit, (high << bit) | carried(low), carried(high)], is_negative);
    }

    /// Adds another number.
    pub fn add(&mut self, other: &Self) {
        let (magnitude, is_negative) = other.magnitude();
        self.add_limbs(other.low, &magnitude, is_negative);
    }

    /// Subtracts another number.
    pub fn subtract(&mut self, other: &Self) {
        let (magnitude, is_negative) = other.magnitude();
        self.add_limbs(other.low, &magnitude, !is_negative);
    }

    /// The product.
    pub fn times(&self, other: &Self) -> Self {
        let ((left, left_negative), (right, right_negative)) = (self.magnitude(), other.magnitude());
        let mut product = vec![0; left.len() + right.len()];
        for (i, a) in left.iter().enumerate() {
            let mut carry = 0;
            for (j, b) in right.iter().enumerate() {
                let sum = u128::from(*a) * u128::from(*b) + u128::from(product[i + j]) + carry;
                product[i + j] = sum as u64;
                carry = sum >> 64;
            }
            product[i + right.len()] = carry as u64;
        }
        let mut result = Self::default();
        result.add_limbs(self.low + other.low, &product, left_negative != right_negative);
        result
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.limbs.iter().all(|limb| *limb == 0)
    }

    /// The nearest float after division by all `divisors`, none of them zero; ties go to the even mantissa.
    pub fn over(&self, divisors: &[u64], precision: Precision) -> f64 {
        let (magnitude, is_negative) = self.magnitude();
        // As many zeros below that the quotient has more bits than a mantissa.
        let zeros = if divisors.is_empty() { 0 } else { divisors.len() + 1 };
        let mut limbs = vec![0; zeros];
        limbs.extend(magnitude);
        let mut is_inexact = false;
        for divisor in divisors {
            is_inexact |= divide(&mut limbs, *divisor) != 0;
        }
        let rounded = round(&limbs, self.low - zeros as i32, is_inexact, precision);
        if is_negative { -rounded } else { rounded }
    }

    /// A float near to it and an exponent: the number is nearly `float * 2^exponent`, also where it is beyond all floats.
    pub fn scaled(&self) -> (f64, i32) {
        let shifted = Self { low: -(self.limbs.len() as i32), limbs: self.limbs.clone() };
        (shifted.over(&[], DOUBLE), 64 * (self.low - shifted.low))
    }

    /// How many times `2^exponent` it is, if that is a whole number of 128 bits.
    pub fn in_units(&self, exponent: i32) -> Option<i128> {
        let (magnitude, is_negative) = self.magnitude();
        let Some(top) = magnitude.iter().rposition(|limb| *limb != 0) else { return Some(0) };
        let below = exponent - 64 * self.low;
        let start = below.max(0);
        let units = u128::from(word(&magnitude, start)) | (u128::from(word(&magnitude, start + 64)) << 64);
        let highest = 64 * top as i32 + 63 - magnitude[top].leading_zeros() as i32;
        let is_whole = !any_below(&magnitude, start);
        if !is_whole || !(0..128).contains(&(highest - below)) {
            return None;
        }
        let units = units << (start - below);
        match is_negative {
            true if units == 1 << 127 => Some(i128::MIN),
            true => i128::try_from(units).ok().map(|units| -units),
            false => i128::try_from(units).ok(),
        }
    }

    /// Appends the number as plain bytes; equal numbers give equal bytes.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let zeros = self.limbs.iter().take_while(|limb| **limb == 0).count();
        let limbs = &self.limbs[zeros..];
        let sign = if self.is_negative() { u64::MAX } else { 0 };
        let signs = limbs.iter().rev().take_while(|limb| **limb == sign).count();
        let limbs = &limbs[..limbs.len() - signs];
        if limbs.is_empty() && sign == 0 {
            return; // Zero.
        }
        bytes.extend((self.low + zeros as i32).to_le_bytes());
        limbs.iter().chain([&sign]).for_each(|limb| bytes.extend(limb.to_le_bytes()));
    }

    /// Reads what [`Dyadic::write`] wrote; `None` if it did not write this.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let (low, limbs) = bytes.split_first_chunk::<4>()?;
        let (limbs, rest) = limbs.as_chunks::<8>();
        let limbs: Vec<u64> = limbs.iter().map(|limb| u64::from_le_bytes(*limb)).collect();
        let ends_in_sign = matches!(limbs.last(), Some(0 | &u64::MAX));
        let low = i32::from_le_bytes(*low);
        // Numbers of floats reach from 2^-2148 to far below 2^8192.
        (rest.is_empty() && ends_in_sign && limbs.len() < 256 && (-256..256).contains(&low))
            .then_some(Self { low, limbs })
    }

    /// How many bytes it keeps beside itself.
    pub fn bytes(&self) -> usize {
        self.limbs.capacity() * 8
    }

    /// Whether it is below zero.
    pub fn is_negative(&self) -> bool {
        self.limbs.last() == Some(&u64::MAX)
    }

    fn magnitude(&self) -> (Vec<u64>, bool) {
        let mut limbs = self.limbs.clone();
        if !self.is_negative() {
            return (limbs, false);
        }
        let mut carry = true;
        for limb in &mut limbs {
            (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
        }
        (limbs, true)
    }

    fn add_limbs(&mut self, low: i32, other: &[u64], is_negative: bool) {
        let length = other.iter().rposition(|limb| *limb != 0).map_or(0, |last| last + 1);
        let other = &other[..length];
        if other.is_empty() {
            return;
        }
        self.cover(low, length as i32);
        let start = (low - self.low) as usize;
        let mut carry = false;
        for (i, limb) in self.limbs[start..].iter_mut().enumerate() {
            if i >= length && !carry {
                break;
            }
            let with = other.get(i).copied().unwrap_or(0);
            let (once, first) = if is_negative { limb.overflowing_sub(with) } else { limb.overflowing_add(with) };
            let step = u64::from(carry);
            let (twice, second) = if is_negative { once.overflowing_sub(step) } else { once.overflowing_add(step) };
            (*limb, carry) = (twice, first || second);
        }
        match self.limbs.last() {
            Some(0 | &u64::MAX) | None => {}
            Some(top) => self.limbs.push(if (*top as i64) < 0 { u64::MAX } else { 0 }),
        }
    }

    /// Makes room for limbs at `low..low + length`, below one that is nothing but the sign.
    fn cover(&mut self, low: i32, length: i32) {
        if self.limbs.is_empty() {
            self.low = low;
        }
        if low < self.low {
            self.limbs.splice(0..0, std::iter::repeat_n(0, (self.low - low) as usize));
            self.low = low;
        }
        let sign = if self.is_negative() { u64::MAX } else { 0 };
        let needed = (low - self.low + length) as usize + 1;
        if self.limbs.len() < needed {
            self.limbs.resize(needed, sign);
        }
    }
}

/// Divides by a small number, and returns the remainder.
fn divide(limbs: &mut [u64], divisor: u64) -> u64 {
    limbs.iter_mut().rev().fold(0, |rest, limb| {
        let dividend = (u128::from(rest) << 64) | u128::from(*limb);
        *limb = (dividend / u128::from(divisor)) as u64;
        (dividend % u128::from(divisor)) as u64
    })
}

/// The float nearest to `limbs * 2^(64 low)`, and a little more if `is_inexact`.
fn round(limbs: &[u64], low: i32, is_inexact: bool, precision: Precision) -> f64 {
    let Some(top) = limbs.iter().rposition(|limb| *limb != 0) else { return 0.0 };
    let base = 64 * low;
    let highest = base + 64 * top as i32 + 63 - limbs[top].leading_zeros() as i32;
    // The exponent of the last bit that the float has.
    let last = (highest - precision.bits + 1).max(precision.smallest);
    let below = last - base;
    let (mantissa, half, rest) = match below {
        ..=0 => ((word(limbs, 0)) << -below, false, false),
        _ => {
            let is_set = |bit: i32| limbs.get(bit as usize / 64).is_some_and(|limb| limb >> (bit % 64) & 1 == 1);
            (word(limbs, below), is_set(below - 1), any_below(limbs, below - 1))
        }
    };
    let up = half && (rest || is_inexact || mantissa & 1 == 1);
    (mantissa + u64::from(up)) as f64 * power_of_two(last)
}

/// The 64 bits that start at `bit`.
fn word(limbs: &[u64], bit: i32) -> u64 {
    let (limb, bit) = ((bit / 64) as usize, bit % 64);
    let at = |limb: usize| u128::from(limbs.get(limb).copied().unwrap_or(0));
    ((at(limb) | (at(limb + 1) << 64)) >> bit) as u64
}

/// Whether any bit below `bit` is set.
fn any_below(limbs: &[u64], bit: i32) -> bool {
    let (limb, bit) = ((bit / 64) as usize, bit % 64);
    limbs.iter().take(limb).any(|limb| *limb != 0) || limbs.get(limb).is_some_and(|limb| limb & ((1 << bit) - 1) != 0)
}

/// `2^exponent`, infinite where that is beyond all floats.
pub fn power_of_two(exponent: i32) -> f64 {
    match exponent {
        1024.. => f64::INFINITY,
        -1022.. => f64::from_bits(((exponent + 1023) as u64) << 52),
        -1074.. => f64::from_bits(1 << (exponent + 1074)),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    fn number(value: i128) -> Dyadic {
        let mut number = Dyadic::default();
        number.add_scaled(value.unsigned_abs(), 0, value < 0);
        number
    }

    #[test]
    fn arithmetic_agrees_with_whole_numbers() {
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..20_000 {
            let (width_a, width_b) = (random.random_range(0..62), random.random_range(0..62));
            let a = i128::from(random.random::<i64>() >> width_a);
            let b = i128::from(random.random::<i64>() >> width_b);
            let mut sum = number(a);
            sum.add(&number(b));
            assert_eq!(sum.over(&[], DOUBLE), (a + b) as f64, "{a} + {b}");
            sum.subtract(&number(a));
            assert_eq!(sum.over(&[], DOUBLE), b as f64, "{a} + {b} - {a}");
            sum.subtract(&number(b));
            assert!(sum.is_zero() && sum.over(&[], DOUBLE).is_sign_positive());
            assert_eq!(number(a).times(&number(b)).over(&[], DOUBLE), (a * b) as f64, "{a} * {b}");
            let (float, exponent) = number(a * b).scaled();
            assert_eq!(float * power_of_two(exponent), (a * b) as f64);
            // Numbers below 2^53 divide as floats do.
            let (few, by) = (a >> 11, ((b >> 11).unsigned_abs() as u64).max(1));
            assert_eq!(number(few).over(&[by], DOUBLE), few as f64 / by as f64, "{few} / {by}");
            assert_eq!(number(few * 3).over(&[by, 3], DOUBLE), few as f64 / by as f64, "{few} / {by}");
        }
    }

    #[test]
    fn rounding_keeps_to_the_precision_of_the_type() {
        let mut third = number(1);
        assert_eq!(third.over(&[3], DOUBLE), 1.0 / 3.0);
        assert_eq!(third.over(&[3], SINGLE), f64::from(1.0f32 / 3.0));
        third.add_scaled(1, -1074, false);
        assert_eq!(third.over(&[], DOUBLE), 1.0);
        let mut tiny = Dyadic::default();
        tiny.add_scaled(3, -1075, true);
        assert_eq!(tiny.over(&[], DOUBLE), -2.0 * f64::from_bits(1), "a tie goes to even");
        assert_eq!(tiny.over(&[4], DOUBLE).to_bits(), (-0.0f64).to_bits());
        let mut huge = Dyadic::default();
        huge.add_scaled((1 << 54) - 1, 970, false);
        assert_eq!(huge.over(&[], DOUBLE), f64::INFINITY);
        assert_eq!(huge.over(&[2], DOUBLE), power_of_two(1023));
    }

    #[test]
    fn bytes_are_canonical_and_read_back() {
        let mut long_way = number(5);
        long_way.add_scaled(1, 900, false);
        long_way.add_scaled(1, -900, true);
        long_way.add_scaled(1, 900, true);
        long_way.add_scaled(1, -900, false);
        for (value, other) in
            [(5, long_way), (-1, number(-1)), (0, Dyadic::default()), (i128::MIN + 1, number(i128::MIN + 1))]
        {
            let (mut bytes, mut same) = (Vec::new(), Vec::new());
            number(value).write(&mut bytes);
            other.write(&mut same);
            assert_eq!(bytes, same, "{value}");
            assert_eq!(Dyadic::read(&bytes).unwrap().over(&[], DOUBLE), value as f64);
        }
        assert_eq!(number(i128::MIN + 1).in_units(0), Some(i128::MIN + 1));
        assert_eq!((number(-12).in_units(2), number(-12).in_units(3)), (Some(-3), None));
        assert_eq!((number(3).in_units(-125), number(3).in_units(-126)), (Some(3 << 125), None));
        assert_eq!(Dyadic::read(&[1, 2, 3]), None);
        assert_eq!(Dyadic::read(&[0; 13]), None);
    }
}
