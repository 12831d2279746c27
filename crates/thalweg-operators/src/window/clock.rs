//! Which time windows follow: UTC, or the local time of a zone.

use arrow_array::timezone::Tz;
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use thalweg_core::{Error, Result, Timestamp};

/// The time that windows follow. In a zone, a day is a local day: 23 or 25 hours long when the clocks change.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// Coordinated universal time.
    Utc,
    /// The local time of a zone.
    Zone(Tz),
}

impl Clock {
    /// The clock of a zone by its name.
    ///
    /// Errors: `Error::Query` if there is no such zone.
    pub fn of_zone(name: &str) -> Result<Self> {
        let zone = name.parse().map_err(|_| Error::query(format!("there is no time zone '{name}'")))?;
        Ok(Self::Zone(zone))
    }

    /// What the clock shows at an instant.
    pub fn local(&self, instant: Timestamp) -> Timestamp {
        match self {
            Self::Zone(zone) => {
                naive(instant).map_or(instant, |utc| shifted(instant, zone.offset_from_utc_datetime(&utc)))
            }
            Self::Utc => instant,
        }
    }

    /// The first instant from which on the clock never shows anything before `local` again.
    pub fn instant(&self, local: Timestamp) -> Timestamp {
        let Self::Zone(zone) = self else { return local };
        let Some(shown) = naive(local) else { return local };
        let offset = match zone.offset_from_local_datetime(&shown) {
            MappedLocalTime::Single(offset) => offset,
            // The time comes twice; only the second time is it over, unless the clock is set back to just this time.
            MappedLocalTime::Ambiguous(earlier, later) => match zone.offset_from_local_datetime(&just_before(shown)) {
                MappedLocalTime::Ambiguous(..) => later,
                _ => earlier,
            },
            // The clock jumps over it: it is over when the clock is changed.
            MappedLocalTime::None => return jump(zone, local, shown),
        };
        Timestamp(local.0 - seconds(offset) * 1_000_000)
    }
}

fn just_before(shown: NaiveDateTime) -> NaiveDateTime {
    shown - TimeDelta::microseconds(1)
}

/// When the clock of a zone jumps over the time `shown`.
fn jump(zone: &Tz, local: Timestamp, shown: NaiveDateTime) -> Timestamp {
    // No clock jumps by more than a day: a day before it shows what it did until the jump.
    let before = zone.offset_from_utc_datetime(&(shown - TimeDelta::hours(26))).fix();
    let is_over = |second: i64| {
        let utc = DateTime::from_timestamp(second, 0).map(|t| t.naive_utc());
        utc.is_none_or(|utc| zone.offset_from_utc_datetime(&utc).fix() != before)
    };
    let mut over = (local.0 - seconds(before) * 1_000_000).div_euclid(1_000_000) + 1;
    let mut open = over - 26 * 3600;
    while over - open > 1 {
        let middle = open + (over - open) / 2;
        if is_over(middle) { over = middle } else { open = middle }
    }
    Timestamp(over * 1_000_000)
}

fn naive(t: Timestamp) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_micros(t.0).map(|t| t.naive_utc())
}

fn shifted(t: Timestamp, offset: impl Offset) -> Timestamp {
    Timestamp(t.0 + seconds(offset) * 1_000_000)
}

fn seconds(offset: impl Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp(text.parse::<DateTime<chrono::Utc>>().unwrap().timestamp_micros())
    }

    #[test]
    fn a_zone_shows_its_local_time() {
        let berlin = Clock::of_zone("Europe/Berlin").unwrap();
        assert_eq!(berlin.local(at("2013-01-01T10:00:00Z")), at("2013-01-01T11:00:00Z"));
        assert_eq!(berlin.local(at("2013-07-01T10:00:00Z")), at("2013-07-01T12:00:00Z"));
        assert_eq!(Clock::of_zone("Mars/Base").unwrap_err().to_string(), "there is no time zone 'Mars/Base'");
    }

    #[test]
    fn once_an_instant_has_come_the_clock_never_shows_less() {
        let berlin = Clock::of_zone("Europe/Berlin").unwrap();
        // Around both changes of the clocks of 2013, every ten minutes.
        for change in ["2013-03-31T01:00:00Z", "2013-10-27T01:00:00Z"] {
            for step in -30..30 {
                let shown = Timestamp(berlin.local(at(change)).0 + step * 600_000_000);
                let over = berlin.instant(shown);
                for later in 0..40 {
                    assert!(berlin.local(Timestamp(over.0 + later * 600_000_000)) >= shown, "{shown}");
                }
                assert!(berlin.local(Timestamp(over.0 - 1)) < shown, "{shown} is not over before");
            }
        }
    }
}
