//! Reads dates, times of day and timestamps from ISO 8601, RFC 3339 and SQL text.

use super::Wrong;

pub(crate) const SECOND: i64 = 1_000_000;
pub(crate) const DAY: i64 = 86_400 * SECOND;

/// What a clock on a wall shows, and where it hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Microseconds since 1970-01-01T00:00:00 on that clock.
    pub(crate) clock: i64,
    /// How many seconds it is ahead of UTC, if the text says so.
    pub(crate) offset: Option<i64>,
}

/// Reads `2013-01-01` as days since the epoch. Years have four digits; with a sign, one to six.
pub(crate) fn date(text: &[u8]) -> Result<i32, Wrong> {
    match date_prefix(text)? {
        (days, []) => i32::try_from(days).map_err(|_| Wrong::Range),
        _ => Err(Wrong::Type),
    }
}

/// Reads `10:15`, `10:15:30` or `10:15:30.25` as microseconds since midnight; digits beyond the sixth are dropped.
pub(crate) fn time_of_day(text: &[u8]) -> Result<i64, Wrong> {
    match time_prefix(text)? {
        (micros, []) => Ok(micros),
        _ => Err(Wrong::Type),
    }
}

/// Reads a date, and where there is more after a `T` or a space, a time of day and an offset from UTC.
pub(crate) fn moment(text: &[u8]) -> Result<Moment, Wrong> {
    let (days, rest) = date_prefix(text)?;
    let midnight = days.checked_mul(DAY).ok_or(Wrong::Range)?;
    let Some((separator, rest)) = rest.split_first() else { return Ok(Moment { clock: midnight, offset: None }) };
    if !matches!(separator, b'T' | b't' | b' ') {
        return Err(Wrong::Type);
    }
    let (micros, zone) = time_prefix(rest)?;
    let clock = midnight.checked_add(micros).ok_or(Wrong::Range)?;
    Ok(Moment { clock, offset: offset(zone)? })
}

fn date_prefix(text: &[u8]) -> Result<(i64, &[u8]), Wrong> {
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        rest => (0, rest),
    };
    let length = digits.iter().take(7).take_while(|b| b.is_ascii_digit()).count();
    if length == 0 || length > 6 || (sign == 0 && length < 4) {
        return Err(Wrong::Type);
    }
    let year = digits[..length].iter().fold(0, |year, digit| year * 10 + i64::from(digit - b'0'));
    let year = if sign < 0 { -year } else { year };
    let [b'-', m1, m2, b'-', d1, d2, rest @ ..] = &digits[length..] else { return Err(Wrong::Type) };
    let (month, day) = (two(*m1, *m2)?, two(*d1, *d2)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return Err(Wrong::Type);
    }
    Ok((days_from_civil(year, month, day), rest))
}

fn time_prefix(text: &[u8]) -> Result<(i64, &[u8]), Wrong> {
    let [h1, h2, b':', m1, m2, rest @ ..] = text else { return Err(Wrong::Type) };
    let (hour, minute) = (two(*h1, *h2)?, two(*m1, *m2)?);
    let (second, micros, rest) = match rest {
        [b':', s1, s2, b'.', rest @ ..] => {
            let (micros, rest) = fraction(rest)?;
            (two(*s1, *s2)?, micros, rest)
        }
        [b':', s1, s2, rest @ ..] => (two(*s1, *s2)?, 0, rest),
        rest => (0, 0, rest),
    };
    if hour > 23 || minute > 59 || second > 59 {
        return Err(Wrong::Type);
    }
    Ok((((hour * 60 + minute) * 60 + second) * SECOND + micros, rest))
}

fn fraction(text: &[u8]) -> Result<(i64, &[u8]), Wrong> {
    let length = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if length == 0 {
        return Err(Wrong::Type);
    }
    let digit = |i: usize| if i < length { i64::from(text[i] - b'0') } else { 0 };
    Ok(((0..6).fold(0, |micros, i| micros * 10 + digit(i)), &text[length..]))
}

/// Reads nothing, `Z`, `UTC`, `+02`, `+0200`, `+02:00` or `+00:53:28`, after an optional space.
fn offset(text: &[u8]) -> Result<Option<i64>, Wrong> {
    let (sign, hours, minutes, seconds) = match text {
        [] => return Ok(None),
        [b'Z' | b'z'] => return Ok(Some(0)),
        [b' ', zone @ ..] if !zone.is_empty() && zone[0] != b' ' => return offset(zone),
        zone if zone.eq_ignore_ascii_case(b"UTC") => return Ok(Some(0)),
        [sign, h1, h2] => (sign, two(*h1, *h2)?, 0, 0),
        [sign, h1, h2, m1, m2] | [sign, h1, h2, b':', m1, m2] => (sign, two(*h1, *h2)?, two(*m1, *m2)?, 0),
        [sign, h1, h2, b':', m1, m2, b':', s1, s2] => (sign, two(*h1, *h2)?, two(*m1, *m2)?, two(*s1, *s2)?),
        _ => return Err(Wrong::Type),
    };
    let sign = match sign {
        b'+' => 1,
        b'-' => -1,
        _ => return Err(Wrong::Type),
    };
    if hours > 18 || minutes > 59 || seconds > 59 {
        return Err(Wrong::Type);
    }
    Ok(Some(sign * ((hours * 60 + minutes) * 60 + seconds)))
}

fn two(tens: u8, ones: u8) -> Result<i64, Wrong> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 {
        return Err(Wrong::Type);
    }
    Ok(i64::from(tens * 10 + ones))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The day, counted from the epoch, of a proleptic Gregorian date (Hinnant, "chrono-compatible low-level date algorithms").
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use thalweg_core::{Timestamp, time::civil_from_days};

    use super::*;

    fn utc(text: &str) -> String {
        let Moment { clock, offset } = moment(text.as_bytes()).unwrap();
        Timestamp(clock - offset.unwrap_or(0) * SECOND).to_string()
    }

    #[test]
    fn timestamps_read_with_and_without_an_offset() {
        for text in [
            "2013-01-01T10:15:00Z",
            "2013-01-01T12:15:00+02:00",
            "2013-01-01 10:15",
            "2013-01-01 10:15:00.000000",
            "2013-01-01t05:15:00-0500",
            "2013-01-01 10:15:00 UTC",
            "2013-01-01 11:15:00+01",
            "2013-01-01T11:08:28+00:53:28",
        ] {
            assert_eq!(utc(text), "2013-01-01T10:15:00Z", "{text}");
        }
        assert_eq!(utc("2013-01-01"), "2013-01-01T00:00:00Z");
        assert_eq!(utc("2013-01-01 00:00:00.1234567891"), "2013-01-01T00:00:00.123456Z");
    }

    #[test]
    fn what_is_written_can_be_read_at_any_distance() {
        for micros in [0, -1, 951_782_400_500_000, -62_135_596_800_000_001, Timestamp::LIMIT, -Timestamp::LIMIT] {
            let text = Timestamp(micros).to_string();
            assert_eq!(moment(text.as_bytes()), Ok(Moment { clock: micros, offset: Some(0) }), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "2013",
            "2013-1-1",
            "2013-02-29",
            "2013-00-01",
            "2013-13-01",
            "2013-01-01T",
            "2013-01-01T24:00:00",
            "2013-01-01T10:60",
            "2013-01-01T10:15:60Z",
            "2013-01-01T10:15:00.Z",
            "2013-01-01T10:15:00+99:00",
            "2013-01-01T10:15:00 ",
            "2013-01-01 10:15:00 Europe/Berlin",
            "20130101",
            "1357035300000",
            "13-01-01",
        ] {
            assert_eq!(moment(text.as_bytes()), Err(Wrong::Type), "{text:?}");
        }
        assert_eq!(moment(b"+999999-01-01"), Err(Wrong::Range));
    }

    #[test]
    fn every_day_of_nine_centuries_goes_there_and_back() {
        for days in -164_000..164_000 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn times_of_day_read() {
        assert_eq!(time_of_day(b"10:15:30.25"), Ok(36_930_250_000));
        assert_eq!((time_of_day(b"00:00"), time_of_day(b"10:15Z")), (Ok(0), Err(Wrong::Type)));
    }
}
