//! Arithmetic of decimals: whole numbers that count units of 10^-scale.
//!
//! Sums, differences, products and remainders are exact; quotients are rounded, halves away from zero.

use arrow_buffer::i256;

/// The most digits that a decimal has.
pub const MOST_DIGITS: u8 = 38;

/// What is computed of two decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `a + b`
    Add,
    /// `a - b`
    Subtract,
    /// `a * b`
    Multiply,
    /// `a / b`
    Divide,
    /// `a % b`, with the sign of a
    Remainder,
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It has too many digits.
    Range,
    /// The divisor is zero.
    Zero,
}

/// How many digits the operands and the result have behind the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scales {
    /// Of the first operand.
    pub left: i8,
    /// Of the second operand.
    pub right: i8,
    /// Of the result: for sums and remainders the larger of both, for products their sum.
    pub result: i8,
}

/// Computes with two decimals.
///
/// ```
/// use thalweg_core::decimal::{Operation, Scales, compute};
///
/// // 2.0 / 3 = 0.667
/// assert_eq!(compute(Operation::Divide, 20, 3, Scales { left: 1, right: 0, result: 3 }), Ok(667));
/// ```
pub fn compute(operation: Operation, left: i128, right: i128, scales: Scales) -> Result<i128, Failure> {
    let wide = |value: i128, from: i8| power(i32::from(scales.result) - i32::from(from))?.checked_mul(value);
    let both = || Some((wide(left, scales.left)?, wide(right, scales.right)?));
    let value = match operation {
        Operation::Add => both().and_then(|(left, right)| left.checked_add(right)),
        Operation::Subtract => both().and_then(|(left, right)| left.checked_sub(right)),
        Operation::Multiply => left.checked_mul(right),
        Operation::Divide | Operation::Remainder if right == 0 => return Err(Failure::Zero),
        Operation::Divide => {
            quotient(left, right, i32::from(scales.result) - i32::from(scales.left) + i32::from(scales.right))
        }
        Operation::Remainder => both().map(|(left, right)| left.wrapping_rem(right)),
    };
    value.filter(|value| value.unsigned_abs() < 10_u128.pow(u32::from(MOST_DIGITS))).ok_or(Failure::Range)
}

fn power(digits: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(digits).ok()?)
}

/// The quotient with so many more digits, rounded.
fn quotient(left: i128, right: i128, digits: i32) -> Option<i128> {
    if digits < 0 {
        return quotient(left, right.checked_mul(power(-digits)?)?, 0);
    }
    if let Some(scaled) = power(digits).and_then(|power| left.checked_mul(power)) {
        let (whole, rest) = (scaled.checked_div(right)?, scaled.wrapping_rem(right));
        let is_up = rest.unsigned_abs() >= right.unsigned_abs() - rest.unsigned_abs();
        let away = if (scaled < 0) == (right < 0) { 1 } else { -1 };
        return if is_up { whole.checked_add(away) } else { Some(whole) };
    }
    let (scaled, right) = (wide_power(digits)?.checked_mul(i256::from_i128(left))?, i256::from_i128(right));
    let (whole, rest) = (scaled.checked_div(right)?, scaled.wrapping_rem(right).wrapping_abs());
    let is_up = rest >= right.wrapping_abs().wrapping_sub(rest);
    let away = i256::from_i128(if scaled.is_negative() == right.is_negative() { 1 } else { -1 });
    if is_up { whole.checked_add(away)?.to_i128() } else { whole.to_i128() }
}

fn wide_power(digits: i32) -> Option<i256> {
    i256::from_i128(10).checked_pow(u32::try_from(digits).ok()?)
}

/// The decimal as it is written, with all digits of its scale.
///
/// ```
/// assert_eq!(thalweg_core::decimal::text(-50, 3), "-0.050");
/// ```
pub fn text(value: i128, scale: i8) -> String {
    let digits = value.unsigned_abs().to_string();
    let sign = if value < 0 { "-" } else { "" };
    let Ok(behind) = usize::try_from(scale) else {
        return format!("{sign}{digits}{}", "0".repeat(usize::from(scale.unsigned_abs())));
    };
    if behind == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = behind + 1);
    let (whole, fraction) = digits.split_at(digits.len() - behind);
    format!("{sign}{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: i128 = 10_i128.pow(38) - 1;

    fn scales(left: i8, right: i8, result: i8) -> Scales {
        Scales { left, right, result }
    }

    #[test]
    fn sums_products_and_remainders_are_exact() {
        assert_eq!(compute(Operation::Add, 1, 2, scales(1, 1, 1)), Ok(3));
        assert_eq!(compute(Operation::Add, 15, 25, scales(1, 2, 2)), Ok(175));
        assert_eq!(compute(Operation::Subtract, 1, 15, scales(0, 1, 1)), Ok(-5));
        assert_eq!(compute(Operation::Multiply, -15, 15, scales(1, 1, 2)), Ok(-225));
        assert_eq!(compute(Operation::Remainder, -75, 2, scales(1, 0, 1)), Ok(-15));
        assert_eq!(compute(Operation::Remainder, 1, 0, scales(0, 0, 0)), Err(Failure::Zero));
    }

    #[test]
    fn quotients_are_rounded_away_from_zero_at_the_half() {
        for (left, right, digits, expected) in [
            (1, 3, 2, 33),
            (2, 3, 2, 67),
            (-2, 3, 2, -67),
            (1, 8, 2, 13),
            (-1, 8, 2, -13),
            (1, -8, 2, -13),
            (5, 2, 0, 3),
        ] {
            assert_eq!(compute(Operation::Divide, left, right, scales(0, 0, digits)), Ok(expected), "{left} / {right}");
        }
        let wide = compute(Operation::Divide, MOST, MOST, scales(0, 0, 6));
        assert_eq!(wide, Ok(1_000_000));
        assert_eq!(compute(Operation::Divide, -MOST, 3, scales(10, 10, 0)), Ok(-MOST / 3));
        assert_eq!(compute(Operation::Divide, 1, 0, scales(0, 0, 0)), Err(Failure::Zero));
    }

    #[test]
    fn what_has_more_than_38_digits_fails() {
        assert_eq!(compute(Operation::Add, MOST, 1, scales(0, 0, 0)), Err(Failure::Range));
        assert_eq!(compute(Operation::Add, MOST, 0, scales(0, 1, 1)), Err(Failure::Range));
        assert_eq!(compute(Operation::Multiply, MOST, MOST, scales(0, 0, 0)), Err(Failure::Range));
        assert_eq!(compute(Operation::Divide, MOST, 1, scales(0, 1, 0)), Err(Failure::Range));
        assert_eq!(compute(Operation::Subtract, MOST, MOST, scales(0, 0, 0)), Ok(0));
    }

    #[test]
    fn decimals_are_written_with_all_their_digits() {
        assert_eq!(
            (text(5, 2), text(-1234, 2), text(7, 0), text(3, -2)),
            ("0.05".into(), "-12.34".into(), "7".into(), "300".into())
        );
    }
}
