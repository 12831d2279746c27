//! Time zones: which instant a clock on a wall means, and what it shows at an instant.

use std::str::FromStr;

use arrow_array::timezone::Tz;
use chrono::{DateTime, Offset, TimeZone};
use thalweg_core::{Error, Result};

use super::time::{DAY, SECOND};

/// The zone that texts without an offset are in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Zone {
    /// Clocks show UTC.
    Utc,
    /// Clocks follow the rules of a place.
    Place(Tz),
}

impl Zone {
    /// The zone of a column type: UTC unless it names one.
    pub(crate) fn new(name: Option<&str>) -> Result<Self> {
        match name {
            None | Some("UTC" | "Z" | "+00:00") => Ok(Self::Utc),
            Some(name) => match Tz::from_str(name) {
                Ok(zone) => Ok(Self::Place(zone)),
                Err(_) => Err(Error::query(format!("unknown time zone '{name}'"))
                    .with_hint("name it as in 'Europe/Berlin', 'UTC' or '+02:00'")),
            },
        }
    }

    /// The instant at which clocks show this: the first of two where they were set back; where they were set forward, as if
    /// they had not been yet (as Java's `ZonedDateTime` does).
    pub(crate) fn instant(&self, clock: i64) -> i64 {
        let Self::Place(zone) = self else { return clock };
        let local = DateTime::from_timestamp_micros(clock).map(|t| t.naive_utc());
        let offset = local.and_then(|local| zone.offset_from_local_datetime(&local).earliest());
        let seconds = match offset {
            Some(offset) => i64::from(offset.fix().local_minus_utc()),
            None => self.offset(clock.saturating_sub(DAY)),
        };
        clock.saturating_sub(seconds * SECOND)
    }

    /// How many seconds clocks are ahead of UTC at an instant.
    pub(crate) fn offset(&self, instant: i64) -> i64 {
        let Self::Place(zone) = self else { return 0 };
        match DateTime::from_timestamp_micros(instant) {
            Some(utc) => i64::from(zone.offset_from_utc_datetime(&utc.naive_utc()).fix().local_minus_utc()),
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::time::moment;

    fn instant(zone: &str, text: &str) -> String {
        let clock = moment(text.as_bytes()).unwrap().clock;
        thalweg_core::Timestamp(Zone::new(Some(zone)).unwrap().instant(clock)).to_string()
    }

    #[test]
    fn clocks_follow_the_rules_of_their_place() {
        assert_eq!(instant("America/New_York", "2013-01-01 05:15:00"), "2013-01-01T10:15:00Z");
        assert_eq!(instant("America/New_York", "2013-07-01 06:15:00"), "2013-07-01T10:15:00Z");
        assert_eq!(instant("+05:30", "2013-01-01 05:30:00"), "2013-01-01T00:00:00Z");
    }

    #[test]
    fn an_hour_that_comes_twice_is_its_first_and_one_that_is_skipped_moves_on() {
        assert_eq!(instant("America/New_York", "2013-11-03 01:30:00"), "2013-11-03T05:30:00Z");
        assert_eq!(instant("America/New_York", "2013-03-10 02:30:00"), "2013-03-10T07:30:00Z");
    }

    #[test]
    fn unknown_zones_are_refused() {
        assert_eq!(Zone::new(Some("Mars/Olympus")).unwrap_err().message(), "unknown time zone 'Mars/Olympus'");
    }
}
