//! When a task does what it has put off that takes long.

use std::time::{Duration, Instant};

/// What may wait is begun no sooner than so many times as long as it took the last time behind its end: a tenth of the time is its.
const TIMES: u32 = 9;

/// What a task has put off that takes long.
///
/// Rows that come meanwhile are done first, and do not make it wait anew: where rows always come it would never have its turn.
#[derive(Debug, Default)]
pub struct Backlog {
    /// When there was first nothing else to do since something was put off.
    since: Option<Instant>,
    /// Since when some of it is done.
    begun: Option<Instant>,
    /// How long all of it took, as far as it is done.
    took: Duration,
    /// When the last of it was done.
    ended: Option<Instant>,
}

impl Backlog {
    /// Nothing else is to be done now: when it is begun, if it waits at least so long.
    pub fn until(&mut self, least: Duration, now: Instant) -> Instant {
        let due = *self.since.get_or_insert(now) + least;
        self.ended.map_or(due, |ended| due.max(ended + TIMES * self.took))
    }

    /// It is begun now.
    pub fn begin(&mut self, now: Instant) {
        (self.since, self.took, self.ended) = (None, Duration::ZERO, None);
        self.go_on(now);
    }

    /// Some more of it is done now.
    pub fn go_on(&mut self, now: Instant) {
        self.begun = Some(now);
    }

    /// Something else may be done, if it was not before.
    pub fn end(&mut self, now: impl FnOnce() -> Instant) {
        if let Some(begun) = self.begun.take() {
            let now = now();
            self.took += now.saturating_duration_since(begun);
            self.ended = Some(now);
        }
    }

    /// Nothing is put off.
    pub fn forget(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_begun_less_often() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let (mut backlog, least) = (Backlog::default(), Duration::from_millis(10));
        assert_eq!(backlog.until(least, at(0)), at(10));
        assert_eq!(backlog.until(least, at(7)), at(10), "since there was nothing else to do");
        backlog.begin(at(10));
        backlog.end(|| at(12));
        backlog.end(|| panic!("it has ended"));
        backlog.go_on(at(20));
        backlog.end(|| at(23));
        assert_eq!(backlog.until(least, at(24)), at(23 + 9 * 5));
        assert_eq!(backlog.until(least, at(60)), at(23 + 9 * 5));
        backlog.begin(at(70));
        backlog.end(|| at(70));
        backlog.forget();
        assert_eq!(backlog.until(least, at(90)), at(100), "it took no time");
    }
}
