//! Numbers and times in their usual form, read eight or sixteen digits together.
//!
//! Each function reads `text[start..end]` and may load bytes that stand before or behind it. What is not in the usual form it
//! leaves to [`number`](super::number) and [`time`](super::time), which decide: `None` says nothing about the text.

use super::{
    number::POWERS,
    time::{DAY, SECOND, date},
    words::{broadcast, zeros},
};

/// A whole number of at most sixteen digits.
#[inline]
pub(crate) fn integer(text: &[u8], start: usize, end: usize) -> Option<i64> {
    let is_negative = *text[..end].get(start)? == b'-';
    let digits = end - start - usize::from(is_negative);
    let value = match digits {
        1..=8 => eight(last_eight(text, end, digits)?)?,
        9..=16 => sixteen(last_sixteen(text, end, digits)?)?,
        _ => return None,
    } as i64;
    Some(if is_negative { -value } else { value })
}

/// A plain decimal of at most sixteen characters: both parts are exact in a double, so one operation rounds right (Clinger 1990).
#[inline]
pub(crate) fn double(text: &[u8], start: usize, end: usize) -> Option<f64> {
    let is_negative = *text[..end].get(start)? == b'-';
    let length = end - start - usize::from(is_negative);
    let (mantissa, fraction) = match length {
        1..=8 => {
            let word = last_eight(text, end, length)?;
            let point = zeros(word ^ broadcast(b'.'));
            match point {
                0 => (eight(word)?, 0),
                _ => {
                    // The digits before the point move up by one place, onto the point.
                    let at = point.trailing_zeros() / 8;
                    let before = word & !(u64::MAX << (8 * at));
                    let behind = word & u64::MAX.checked_shl(8 * (at + 1)).unwrap_or(0);
                    is_between_digits(length, 8, at).then_some(())?;
                    (eight(before << 8 | behind | u64::from(b'0'))?, 7 - at)
                }
            }
        }
        9..=16 => {
            let word = last_sixteen(text, end, length)?;
            let (low, high) = (zeros(word as u64 ^ broadcast(b'.')), zeros((word >> 64) as u64 ^ broadcast(b'.')));
            match u128::from(low) | u128::from(high) << 64 {
                0 => (sixteen(word)?, 0),
                point => {
                    let at = point.trailing_zeros() / 8;
                    let before = word & !(u128::MAX << (8 * at));
                    let behind = word & u128::MAX.checked_shl(8 * (at + 1)).unwrap_or(0);
                    is_between_digits(length, 16, at).then_some(())?;
                    (sixteen(before << 8 | behind | u128::from(b'0'))?, 15 - at)
                }
            }
        }
        _ => return None,
    };
    if mantissa > 1 << 53 {
        return None;
    }
    let value = mantissa as f64 / POWERS[fraction as usize];
    Some(if is_negative { -value } else { value })
}

/// Whether the byte at this place, of so many that end at `width`, is neither the first nor the last.
fn is_between_digits(length: usize, width: usize, at: u32) -> bool {
    at as usize > width - length && at as usize + 1 < width
}

/// Reads moments in UTC, and remembers the day: most have that of the one before.
#[derive(Default)]
pub(crate) struct Moments {
    day: [u8; 10],
    midnight: i64,
}

impl Moments {
    /// `2013-01-01T10:15:30`, perhaps with a fraction of at most seven digits and a `Z`: microseconds, and whether UTC is said.
    #[inline]
    pub(crate) fn read(&mut self, text: &[u8], start: usize, end: usize) -> Option<(i64, bool)> {
        const SHAPE: u64 = u64::from_le_bytes(*b"00:00:00");
        const COLONS: u64 = 0x0000_ff00_00ff_0000;
        let (day, rest) = text.get(start..end)?.split_first_chunk::<10>()?;
        let ([separator, clock @ ..], rest) = rest.split_first_chunk::<9>()?;
        if *day != self.day {
            self.midnight = i64::from(date_of(*day).or_else(|| date(day).ok())?) * DAY;
            self.day = *day;
        }
        let clock = u64::from_le_bytes(*clock) ^ SHAPE;
        let is_usual = are_digits(clock) && clock & COLONS == 0 && matches!(separator, b'T' | b' ');
        let pairs = clock.wrapping_mul(10).wrapping_add(clock >> 8);
        let (hours, minutes, seconds) = (pairs & 0xff, pairs >> 24 & 0xff, pairs >> 48 & 0xff);
        if !is_usual || hours > 23 || minutes > 59 || seconds > 59 {
            return None;
        }
        let seconds = ((hours * 60 + minutes) * 60 + seconds) as i64;
        let (micros, zone) = match rest {
            [b'.', ..] => fraction(text, end - rest.len() + 1, end)?,
            rest => (0, rest),
        };
        let is_utc = match zone {
            [] => false,
            [b'Z'] => true,
            _ => return None,
        };
        Some((self.midnight + seconds * SECOND + micros, is_utc))
    }
}

/// `2013-01-01` as days since the epoch.
#[inline]
fn date_of(text: [u8; 10]) -> Option<i32> {
    const SHAPE: u64 = u64::from_le_bytes(*b"0000-00-");
    const HYPHENS: u64 = 0xff00_00ff_0000_0000;
    const LENGTHS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let [start @ .., tens, ones] = text;
    let word = u64::from_le_bytes(start) ^ SHAPE;
    let (tens, ones) = (u32::from(tens ^ b'0'), u32::from(ones ^ b'0'));
    if !are_digits(word) || word & HYPHENS != 0 || tens > 9 || ones > 9 {
        return None;
    }
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8);
    let pair = |at: u32| (pairs >> (8 * at)) as u32 & 0xff;
    let (year, month, day) = (100 * pair(0) + pair(2), pair(5), 10 * tens + ones);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = LENGTHS.get(month.wrapping_sub(1) as usize)? + u32::from(is_leap && month == 2);
    if day < 1 || day > length {
        return None;
    }
    // As for any year, but that four centuries more make all numbers positive.
    let years = year + 400 - u32::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = years * 365 + years / 4 - years / 100 + years / 400 + day_of_year;
    Some(days as i32 - 719_468 - 146_097)
}

/// The microseconds of up to seven digits, and what comes behind them.
#[inline]
fn fraction(text: &[u8], start: usize, end: usize) -> Option<(i64, &[u8])> {
    let rest = &text[start..end];
    let (is_utc, digits) = match rest {
        [digits @ .., b'Z'] => (true, digits.len()),
        digits => (false, digits.len()),
    };
    if !(1..=7).contains(&digits) {
        return None;
    }
    let value = eight(last_eight(text, start + digits, digits)?)?;
    let micros = if digits == 7 { value / 10 } else { value * MICROS[digits] };
    Some((micros as i64, if is_utc { &rest[digits..] } else { &[] }))
}

const MICROS: [u64; 7] = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/// The eight characters before `end`, of which all but the last `count` are zeros instead.
#[inline]
fn last_eight(text: &[u8], end: usize, count: usize) -> Option<u64> {
    let word = u64::from_le_bytes(*text.get(..end)?.last_chunk()?);
    let others = u64::MAX.checked_shr(8 * count as u32).unwrap_or(0);
    Some(word & !others | broadcast(b'0') & others)
}

/// The same with sixteen.
#[inline]
fn last_sixteen(text: &[u8], end: usize, count: usize) -> Option<u128> {
    let word = u128::from_le_bytes(*text.get(..end)?.last_chunk()?);
    let others = u128::MAX.checked_shr(8 * count as u32).unwrap_or(0);
    Some(word & !others | (u128::MAX / 255 * u128::from(b'0')) & others)
}

/// Whether all bytes, from each of which `0` was taken, are digits.
#[inline]
fn are_digits(word: u64) -> bool {
    (word | ((word & broadcast(0x7f)) + broadcast(0x76))) & broadcast(0x80) == 0
}

/// The number that eight digits mean (Lemire, "Quickly parsing eight digits").
#[inline]
fn eight(word: u64) -> Option<u64> {
    let word = word ^ broadcast(b'0');
    if !are_digits(word) {
        return None;
    }
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

#[inline]
fn sixteen(word: u128) -> Option<u64> {
    Some(eight(word as u64)? * 100_000_000 + eight((word >> 64) as u64)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing::Random,
        text::{number, time},
    };

    /// Random texts of these characters, each in the middle of others.
    fn texts(alphabet: &[u8], longest: u64, mut check: impl FnMut(&[u8], usize, usize) -> bool) {
        let mut usual = 0;
        for seed in 0..60_000 {
            let mut random = Random::new(seed);
            let mut any = |most: u64| -> Vec<u8> {
                let count = random.below(most);
                (0..count).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect()
            };
            let (before, own, behind) = (any(20), any(longest), any(3));
            let text = [&before[..], &own, &behind].concat();
            usual += usize::from(check(&text, before.len(), before.len() + own.len()));
        }
        assert!(usual > 3_000, "{usual} texts were usual");
    }

    #[test]
    fn integers_are_those_read_one_by_one() {
        texts(b"0123456789012345678901234567890123456789-", 19, |text, start, end| {
            let value = integer(text, start, end);
            let expected = number::integer(&text[start..end]);
            assert!(value.is_none_or(|value| expected == Ok(value)), "{:?}", std::str::from_utf8(&text[start..end]));
            value.is_some()
        });
    }

    #[test]
    fn doubles_are_those_of_the_standard_library() {
        texts(b"01234567890123456789....--e", 19, |text, start, end| {
            let own = std::str::from_utf8(&text[start..end]).unwrap();
            let value = double(text, start, end);
            let expected = own.parse::<f64>().map(f64::to_bits);
            assert!(value.is_none_or(|value| expected == Ok(value.to_bits())), "{own:?}");
            value.is_some()
        });
    }

    #[test]
    fn every_length_of_a_double_is_usual() {
        for length in 1..=15 {
            for point in 1..length {
                let own: String = (0..length).map(|i| if i == point { '.' } else { '1' }).collect();
                let text = format!("0123456789abcdef-{own}");
                let expected: f64 = own.parse().unwrap();
                let usual = point + 1 < length;
                assert_eq!(double(text.as_bytes(), 17, text.len()), usual.then_some(expected), "{own}");
                assert_eq!(double(text.as_bytes(), 16, text.len()), usual.then_some(-expected), "-{own}");
            }
        }
    }

    #[test]
    fn dates_are_those_read_in_general() {
        for year in [0, 1, 4, 100, 400, 1600, 1899, 1900, 1969, 1970, 1999, 2000, 2023, 2024, 2100, 9999] {
            for (month, day) in (0..14).flat_map(|month| (0..33).map(move |day| (month, day))) {
                let text = format!("{year:04}-{month:02}-{day:02}");
                assert_eq!(date_of(*text.as_bytes().first_chunk().unwrap()), date(text.as_bytes()).ok(), "{text}");
            }
        }
        for text in ["2013/01-01", "2013-01/01", "201:-01-01", "2013-0:-01", "2013-01-0:", "2013-01-/1", "-201-01-01"] {
            assert_eq!(date_of(*text.as_bytes().first_chunk().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn moments_are_those_read_in_general() {
        let (mut moments, mut usual) = (Moments::default(), 0);
        for seed in 0..40_000 {
            let mut random = Random::new(seed);
            let mut two = |most| format!("{:02}", random.below(most));
            let mut own = format!("201{}-{}-{}", &two(2)[1..], two(14), two(33));
            own += if two(20) == "00" { "x" } else { "T" };
            own += &format!("{}:{}:{}", two(26), two(62), two(62));
            let digits = two(10).parse().unwrap();
            own += &format!(".{}", &"123456789"[..digits])[..if digits == 0 { 0 } else { digits + 1 }];
            own += ["", "Z", "+02", "."][random.below(4) as usize];
            if random.below(10) == 0 {
                let at = random.below(own.len() as u64) as usize;
                own.replace_range(at..=at, ["/", ":", ";", "-", "0", " "][random.below(6) as usize]);
            }
            let text = format!("12345678,{own},");
            if let Some((clock, is_utc)) = moments.read(text.as_bytes(), 9, 9 + own.len()) {
                let expected = time::Moment { clock, offset: is_utc.then_some(0) };
                assert_eq!(time::moment(own.as_bytes()), Ok(expected), "{own}");
                usual += 1;
            }
        }
        assert!(usual > 8_000, "{usual} moments were usual");
    }
}
