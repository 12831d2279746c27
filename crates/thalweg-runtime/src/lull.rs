//! How long nothing has to come before rows are looked at of which many together cost less.

use std::time::{Duration, Instant};

/// The time in which a task had nothing to do while rows waited.
///
/// More may be on their way, and who waits for them as long as it takes to do without them never needs more than twice the time.
#[derive(Debug, Default)]
pub struct Lull {
    /// Since when nothing has come.
    since: Option<Instant>,
    /// How long that was before, since the first of these rows have waited.
    before: Duration,
    /// How many waited when nothing came.
    rows: usize,
}

/// About as long as it takes to look at a row without others.
const ROW: Duration = Duration::from_nanos(100);

/// No row waits longer while nothing comes.
const MOST: Duration = Duration::from_millis(1);

impl Lull {
    /// Nothing comes now, and so many rows wait: until when others may come before they are looked at.
    pub fn until(&mut self, rows: usize, now: Instant) -> Instant {
        if rows < self.rows {
            // Somebody has looked at them.
            *self = Self::default();
        }
        self.rows = rows;
        let wait = u32::try_from(rows).map_or(MOST, |rows| (ROW * rows).min(MOST));
        *self.since.get_or_insert(now) + wait.saturating_sub(self.before)
    }

    /// Something has come.
    pub fn end(&mut self, now: impl FnOnce() -> Instant) {
        if let Some(since) = self.since.take() {
            self.before += now().saturating_duration_since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_wait_about_as_long_as_they_take_whether_at_once_or_in_parts() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut lull = Lull::default();
        assert_eq!(lull.until(0, at(0)), at(0), "none wait");
        assert_eq!(lull.until(50, at(0)), at(5));
        assert_eq!(lull.until(50, at(3)), at(5), "since nothing comes");
        lull.end(|| at(4));
        lull.end(|| panic!("it has ended"));
        assert_eq!(lull.until(100, at(20)), at(26));
        assert_eq!(lull.until(1_000_000, at(21)), at(20 + 996), "no longer");
        lull.end(|| at(5_000));
        assert_eq!(lull.until(1_000_000, at(6_000)), at(6_000));
        assert_eq!(lull.until(10, at(6_010)), at(6_011), "those from before do not wait any more");
    }
}
