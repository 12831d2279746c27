//! Misses of the last level of caches, where the machine has a counter for them and lets us read it.

pub use system::Misses;

#[cfg(target_os = "linux")]
mod system {
    use perf_event::{
        Builder, Counter,
        events::{Event, Hardware},
    };

    /// Counts how often this thread, and those that it starts from now on, look for something in memory that no cache has.
    pub struct Misses(Counter);

    impl Misses {
        /// Begins; `None` where nobody counts, as in most virtual machines.
        pub fn start() -> Option<Self> {
            start(Hardware::CACHE_MISSES).map(Self)
        }

        /// How many there were, if the counter counted all the time.
        pub fn stop(self) -> Option<u64> {
            stop(self.0)
        }
    }

    pub(super) fn start(event: impl Into<Event>) -> Option<Counter> {
        let mut builder = Builder::new().kind(event);
        builder.inherit(true);
        let mut counter = builder.build().ok()?;
        counter.enable().ok()?;
        Some(counter)
    }

    pub(super) fn stop(mut counter: Counter) -> Option<u64> {
        counter.disable().ok()?;
        let read = counter.read_count_and_time().ok()?;
        (read.time_running == read.time_enabled).then_some(read.count)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    /// Nobody counts here.
    pub enum Misses {}

    impl Misses {
        /// Does not begin.
        pub fn start() -> Option<Self> {
            None
        }

        /// There are none.
        pub fn stop(self) -> Option<u64> {
            match self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use perf_event::events::Software;

    use super::system::{start, stop};
    use crate::interval::thread_time;

    #[test]
    fn what_threads_do_that_are_started_meanwhile_counts_too() {
        // The system counts nanoseconds of work itself, where it lets anybody look.
        let Some(counter) = start(Software::TASK_CLOCK) else { return };
        let work = Duration::from_millis(20);
        std::thread::spawn(move || while thread_time() < work {}).join().unwrap();
        assert!(stop(counter).is_some_and(|nanos| u128::from(nanos) >= work.as_nanos()));
    }
}
