//! What time it is for a query: the machine's, or what a simulation says.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Tells how long rows have waited.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's.
    #[default]
    System,
    /// One that stands still until it is moved.
    Simulated {
        /// When it began.
        began: Instant,
        /// How many nanoseconds have passed on it since.
        passed: Arc<AtomicU64>,
    },
}

impl Clock {
    /// A clock that stands still.
    pub fn simulated() -> Self {
        Self::Simulated { began: Instant::now(), passed: Arc::default() }
    }

    /// What it shows.
    pub fn now(&self) -> Instant {
        match self {
            Self::System => Instant::now(),
            Self::Simulated { began, passed } => *began + Duration::from_nanos(passed.load(Relaxed)),
        }
    }

    /// Moves a simulated clock forward; the machine's moves by itself.
    pub fn move_to(&self, at: Instant) {
        if let Self::Simulated { began, passed } = self {
            passed.fetch_max(at.saturating_duration_since(*began).as_nanos() as u64, Relaxed);
        }
    }
}

/// How long rows may wait for others.
#[derive(Clone, Debug)]
pub struct Linger {
    /// So long.
    pub most: Duration,
    /// By this clock.
    pub clock: Clock,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_clock_moves_when_it_is_moved_and_never_back() {
        let clock = Clock::simulated();
        let began = clock.now();
        assert_eq!(clock.now(), began);
        let later = began + Duration::from_secs(3600);
        clock.move_to(later);
        clock.move_to(began);
        assert_eq!(clock.now(), later);
    }
}
