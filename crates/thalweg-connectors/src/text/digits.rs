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
#[inline(always)]
pub(crate) fn integer(text: &[u8], start: usize, end: usize) -> Option<i64> {
    let is_negative = *text[..end].get(start)? == b'-';
    let value = whole(text, end, end - start - usize::from(is_negative))? as i64;
    Some(if is_negative { -value } else { value })
}

/// A plain decimal of at most sixteen characters: both parts are exact in a double, so one operation rounds right (Clinger 1990).
#[inline(always)]
pub(crate) fn double(text: &[u8], start: usize, end: usize) -> Option<f64> {
    let is_negative = *text[..end].get(start)? == b'-';
    let length = end - start - usize::from(is_negative);
    let word = eight_before(text, end)?;
    // How many digits there are behind the point, if it is one of the last eight characters.
    let fraction = (zeros(word ^ broadcast(b'.')).leading_zeros() / 8) as usize;
    let value = if fraction >= length.min(8) {
        let value = if length <= 8 { whole(text, end, length)? as f64 } else { long_double(text, end, length)? };
        return Some(if is_negative { -value } else { value });
    } else if (1..=8).contains(&(length - fraction - 1)) && fraction > 0 {
        let before = eight(last(eight_before(text, end - fraction - 1)?, length - fraction - 1))?;
        // At most fifteen digits.
        (before * WHOLE_POWERS[fraction] + eight(last(word, fraction))?) as f64 / POWERS[fraction]
    } else {
        long_double(text, end, length)?
    };
    Some(if is_negative { -value } else { value })
}

/// The same without a sign, wherever the point is.
#[inline(never)]
fn long_double(text: &[u8], end: usize, length: usize) -> Option<f64> {
    if length > 16 || length == 0 {
        return None;
    }
    let own = &text[end - length..end];
    let Some(point) = memchr::memchr(b'.', own) else { return exact(whole(text, end, length)?) };
    let fraction = length - point - 1;
    if point == 0 || fraction == 0 {
        return None;
    }
    let before = whole(text, end - fraction - 1, point)?;
    // Of sixteen characters, one is the point.
    let mantissa = before * 10u64.pow(fraction as u32) + whole(text, end, fraction)?;
    Some(exact(mantissa)? / POWERS[fraction])
}

/// The number as a double, if all up to it are exact.
fn exact(number: u64) -> Option<f64> {
    (number <= 1 << 53).then_some(number as f64)
}

/// The number that so many digits before `end` mean, if they are one to sixteen.
#[inline(always)]
fn whole(text: &[u8], end: usize, digits: usize) -> Option<u64> {
    let word = eight_before(text, end)?;
    match digits {
        1..=8 => eight(last(word, digits)),
        9..=16 => {
            let high = last(eight_before(text, end - 8)?, digits - 8);
            Some(eight(high)? * 100_000_000 + eight(last(word, 8))?)
        }
        _ => None,
    }
}

const WHOLE_POWERS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

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
#[inline(always)]
fn fraction(text: &[u8], start: usize, end: usize) -> Option<(i64, &[u8])> {
    let rest = &text[start..end];
    let (is_utc, digits) = match rest {
        [digits @ .., b'Z'] => (true, digits.len()),
        digits => (false, digits.len()),
    };
    if !(1..=7).contains(&digits) {
        return None;
    }
    let value = eight(last(eight_before(text, start + digits)?, digits))?;
    let micros = if digits == 7 { value / 10 } else { value * MICROS[digits] };
    Some((micros as i64, if is_utc { &rest[digits..] } else { &[] }))
}

const MICROS: [u64; 7] = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/// The eight characters before `end`.
#[inline(always)]
fn eight_before(text: &[u8], end: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*text.get(..end)?.last_chunk()?))
}

/// The last one to eight of these characters as digits, behind zeros.
#[inline(always)]
fn last(word: u64, count: usize) -> u64 {
    let others = 64 - 8 * count as u32;
    (word ^ broadcast(b'0')) >> others << others
}

/// Whether all bytes, from each of which `0` was taken, are digits.
#[inline]
fn are_digits(word: u64) -> bool {
    (word | ((word & broadcast(0x7f)) + broadcast(0x76))) & broadcast(0x80) == 0
}

/// The number that eight digits mean (Lemire, "Quickly parsing eight digits").
#[inline(always)]
fn eight(word: u64) -> Option<u64> {
    if !are_digits(word) {
        return None;
    }
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
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
