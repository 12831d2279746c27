//! Reads numbers and truth values from text.

use super::Wrong;

/// Reads `true`, `false` and their usual short forms, in any case.
pub(crate) fn boolean(text: &[u8]) -> Result<bool, Wrong> {
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    match text {
        b"true" => Ok(true),
        b"false" => Ok(false),
        _ if is(["true", "t", "1", "yes"]) => Ok(true),
        _ if is(["false", "f", "0", "no"]) => Ok(false),
        _ => Err(Wrong::Type),
    }
}

/// Reads a whole number; a fraction of zeros, as in `11.0`, is none.
pub(crate) fn integer(text: &[u8]) -> Result<i64, Wrong> {
    let (negative, digits) = sign(text);
    if digits.is_empty() {
        return Err(Wrong::Type);
    }
    if digits.len() > 18 {
        return long_integer(text);
    }
    let mut value = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return integer(whole(text).ok_or(Wrong::Type)?);
        }
        value = value * 10 + i64::from(digit);
    }
    Ok(if negative { -value } else { value })
}

/// Reads a whole number that is not negative.
pub(crate) fn unsigned(text: &[u8]) -> Result<u64, Wrong> {
    match integer(text) {
        Ok(value) => u64::try_from(value).map_err(|_| Wrong::Range),
        Err(Wrong::Range) => ascii(whole(text).unwrap_or(text))?.parse().map_err(|_| Wrong::Range),
        Err(wrong) => Err(wrong),
    }
}

/// Whole numbers that may not fit.
fn long_integer(text: &[u8]) -> Result<i64, Wrong> {
    let text = whole(text).unwrap_or(text);
    if !sign(text).1.iter().all(u8::is_ascii_digit) {
        return Err(Wrong::Type);
    }
    ascii(text)?.parse().map_err(|_| Wrong::Range)
}

/// The text before a fraction of zeros.
fn whole(text: &[u8]) -> Option<&[u8]> {
    let point = memchr::memchr(b'.', text)?;
    let zeros = &text[point + 1..];
    (!zeros.is_empty() && zeros.iter().all(|b| *b == b'0')).then_some(&text[..point])
}

/// The powers of ten that are exact in a double.
pub(super) const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Reads a floating-point number, `NaN` and `Infinity` included, rounded to the nearest.
pub(crate) fn double(text: &[u8]) -> Result<f64, Wrong> {
    match short_double(text) {
        Some(value) => Ok(value),
        None => finite_or_said_so(text, ascii(text)?.parse().map_err(|_| Wrong::Type)?),
    }
}

/// Reads a floating-point number of single precision.
pub(crate) fn float(text: &[u8]) -> Result<f32, Wrong> {
    let value: f32 = ascii(text)?.parse().map_err(|_| Wrong::Type)?;
    finite_or_said_so(text, value.into()).map(|_| value)
}

/// Plain decimals of few digits: both parts are exact in a double, so one operation rounds right (Clinger 1990).
fn short_double(text: &[u8]) -> Option<f64> {
    let (negative, digits) = sign(text);
    let (mut mantissa, mut fraction, mut point) = (0u64, 0usize, false);
    if digits.len() > 16 || !digits.first()?.is_ascii_digit() || !digits.last()?.is_ascii_digit() {
        return None;
    }
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            mantissa = mantissa * 10 + u64::from(digit);
            fraction += usize::from(point);
        } else if *byte == b'.' && !point {
            point = true;
        } else {
            return None;
        }
    }
    if mantissa > 1 << 53 {
        return None;
    }
    let value = mantissa as f64 / POWERS[fraction];
    Some(if negative { -value } else { value })
}

/// Digits never mean infinity.
fn finite_or_said_so(text: &[u8], value: f64) -> Result<f64, Wrong> {
    match value.is_infinite() && text.iter().any(u8::is_ascii_digit) {
        true => Err(Wrong::Range),
        false => Ok(value),
    }
}

/// Reads a decimal of a precision and a scale as its unscaled value; digits beyond the scale are rounded half up.
pub(crate) fn decimal(text: &[u8], precision: u8, scale: i8) -> Result<i128, Wrong> {
    let (negative, text) = sign(text);
    let (digits, exponent) = match text.iter().position(|b| matches!(b, b'e' | b'E')) {
        None => (text, 0),
        Some(at) => (&text[..at], exponent(&text[at + 1..])?),
    };
    let point = memchr::memchr(b'.', digits).unwrap_or(digits.len());
    let (whole, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
    let count = whole.len() + fraction.len();
    if count == 0 || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return Err(Wrong::Type);
    }
    let digit = |i: i64| match usize::try_from(i) {
        Ok(i) if i < whole.len() => i128::from(whole[i] - b'0'),
        Ok(i) if i < count => i128::from(fraction[i - whole.len()] - b'0'),
        _ => 0,
    };
    let limit = 10i128.checked_pow(precision.into()).ok_or(Wrong::Range)?;
    let kept = whole.len() as i64 + exponent + i64::from(scale);
    let mut value = 0;
    for i in 0..kept {
        value = value * 10 + digit(i);
        if value >= limit {
            return Err(Wrong::Range);
        }
    }
    value += i128::from(digit(kept) >= 5);
    if value >= limit {
        return Err(Wrong::Range);
    }
    Ok(if negative { -value } else { value })
}

/// Exponents beyond this move every digit out of a decimal's range.
const EXPONENT_LIMIT: i64 = 1000;

fn exponent(text: &[u8]) -> Result<i64, Wrong> {
    match integer(text) {
        Ok(value) => Ok(value.clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT)),
        Err(_) => Err(Wrong::Type),
    }
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    }
}

fn ascii(text: &[u8]) -> Result<&str, Wrong> {
    std::str::from_utf8(text).map_err(|_| Wrong::Type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_read_to_their_ends_and_no_further() {
        assert_eq!(integer(b"-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(integer(b"+9223372036854775807"), Ok(i64::MAX));
        assert_eq!(integer(b"9223372036854775808"), Err(Wrong::Range));
        assert_eq!(integer(b"00000000000000000000011"), Ok(11));
        assert_eq!((integer(b"11.0"), integer(b"11.5"), integer(b"11.")), (Ok(11), Err(Wrong::Type), Err(Wrong::Type)));
        for text in ["", "-", "1 2", "0x1", "--1", "1e3", "."] {
            assert_eq!(integer(text.as_bytes()), Err(Wrong::Type), "{text:?}");
        }
        assert_eq!(unsigned(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!((unsigned(b"-1"), unsigned(b"18446744073709551616")), (Err(Wrong::Range), Err(Wrong::Range)));
    }

    #[test]
    fn doubles_are_those_of_the_standard_library() {
        let texts =
            ["0", "-0", "1.5", "39.02", "0.1", "123456789012345.6", "9007199254740993", "1e22", "1e-7", "5e-324"];
        for text in texts {
            let expected: f64 = text.parse().unwrap();
            assert_eq!(double(text.as_bytes()).unwrap().to_bits(), expected.to_bits(), "{text}");
        }
        assert!(double(b"NaN").unwrap().is_nan());
        assert_eq!(double(b"-Infinity"), Ok(f64::NEG_INFINITY));
        assert_eq!(
            (double(b"1e999"), double(b"abc"), double(b"")),
            (Err(Wrong::Range), Err(Wrong::Type), Err(Wrong::Type))
        );
        assert_eq!((float(b"0.1"), float(b"1e39")), (Ok(0.1), Err(Wrong::Range)));
    }

    #[test]
    fn decimals_are_exact_and_round_half_up() {
        let read = |text: &str| decimal(text.as_bytes(), 5, 2);
        assert_eq!((read("123.45"), read("-1"), read(".5"), read("5.")), (Ok(12345), Ok(-100), Ok(50), Ok(500)));
        assert_eq!((read("1.005"), read("-1.005"), read("1.0049")), (Ok(101), Ok(-101), Ok(100)));
        assert_eq!(
            (read("1.2e2"), read("1234e-3"), read("1e-999999"), read("4e-3")),
            (Ok(12000), Ok(123), Ok(0), Ok(0))
        );
        assert_eq!(
            (read("1000"), read("999.995"), read("1e99999")),
            (Err(Wrong::Range), Err(Wrong::Range), Err(Wrong::Range))
        );
        assert_eq!(
            (read("."), read("1e"), read("1.2.3"), read("x")),
            (Err(Wrong::Type), Err(Wrong::Type), Err(Wrong::Type), Err(Wrong::Type))
        );
        assert_eq!(decimal(b"0e99999", 38, 10), Ok(0));
        assert_eq!(decimal(&[b'9'; 38], 38, 0), Ok(10i128.pow(38) - 1));
    }
}
