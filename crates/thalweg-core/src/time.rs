//! Event time: microseconds since the Unix epoch, and spans of it.

use std::fmt;

/// An instant of event time, in microseconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use thalweg_core::Timestamp;
/// assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00Z");
/// assert_eq!(Timestamp(-1).to_string(), "1969-12-31T23:59:59.999999Z");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// A span of event time in microseconds; negative where it reaches back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval(pub i64);

impl Timestamp {
    /// Before every row: no watermark has been seen.
    pub const MIN: Self = Self(i64::MIN);
    /// After every row: the true end of a stream.
    pub const MAX: Self = Self(i64::MAX);
    /// The largest distance from the epoch that a row's event time may have (146,000 years), so that window arithmetic
    /// never overflows.
    pub const LIMIT: i64 = i64::MAX / 2;

    /// The instant `interval` later; the two ends of time stay where they are.
    pub fn plus(self, interval: Interval) -> Self {
        match self {
            Self::MIN | Self::MAX => self,
            Self(t) => Self(t.saturating_add(interval.0)),
        }
    }

    /// The instant `interval` earlier; the two ends of time stay where they are.
    pub fn minus(self, interval: Interval) -> Self {
        match self {
            Self::MIN | Self::MAX => self,
            Self(t) => Self(t.saturating_sub(interval.0)),
        }
    }

    /// Whether a row may carry this event time.
    pub fn is_in_range(self) -> bool {
        (-Self::LIMIT..=Self::LIMIT).contains(&self.0)
    }
}

impl Interval {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// So many seconds.
    pub const fn seconds(seconds: i64) -> Self {
        Self(seconds * 1_000_000)
    }

    /// So many milliseconds.
    pub const fn millis(millis: i64) -> Self {
        Self(millis * 1_000)
    }
}

impl fmt::Display for Timestamp {
    /// ISO 8601 in UTC, with as many digits of a second as are needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::MIN => return f.write_str("-infinity"),
            Self::MAX => return f.write_str("infinity"),
            _ => {}
        }
        let (seconds, micros) = (self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)?;
        if micros != 0 {
            write!(f, "{}", format!(".{micros:06}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

impl fmt::Display for Interval {
    /// The largest unit that divides it: `90 s`, `2 h`, `250 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(i64, &str); 6] = [
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "min"),
            (1_000_000, "s"),
            (1_000, "ms"),
            (1, "us"),
        ];
        let (size, unit) =
            UNITS.iter().find(|(size, _)| self.0 % size == 0 && self.0 != 0).unwrap_or(&(1_000_000, "s"));
        write!(f, "{} {unit}", self.0 / size)
    }
}

/// Year, month and day, in the proleptic Gregorian calendar, of a day counted from the epoch.
///
/// Source: Hinnant, "chrono-compatible low-level date algorithms".
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_as_iso_8601() {
        assert_eq!(Timestamp(1_357_035_300_000_000).to_string(), "2013-01-01T10:15:00Z");
        assert_eq!(Timestamp(951_782_400_500_000).to_string(), "2000-02-29T00:00:00.5Z");
        assert_eq!(Timestamp(-62_135_596_800_000_000).to_string(), "0001-01-01T00:00:00Z");
    }

    #[test]
    fn intervals_read_in_their_largest_unit() {
        assert_eq!(Interval::seconds(90).to_string(), "90 s");
        assert_eq!(Interval::seconds(7200).to_string(), "2 h");
        assert_eq!(Interval::millis(250).to_string(), "250 ms");
        assert_eq!(Interval::ZERO.to_string(), "0 s");
    }

    #[test]
    fn the_ends_of_time_stay_where_they_are() {
        assert_eq!(Timestamp::MAX.minus(Interval(5)), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.plus(Interval(5)), Timestamp::MIN);
    }
}
