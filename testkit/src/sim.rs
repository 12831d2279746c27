//! Schedules from seeds: a query runs on one thread, in an order that its seed decides, so that a failure can be repeated.

use std::{
    num::ParseIntError,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use thalweg::{Pick, Schedule};

/// The schedule of a seed, with so many barriers at most.
pub fn schedule(seed: u64, barriers: usize) -> Schedule {
    Schedule { pick: pick(seed), barriers }
}

/// Numbers by chance, the same for the same seed.
pub fn pick(seed: u64) -> Pick {
    let mut random = StdRng::seed_from_u64(seed);
    Box::new(move |among| random.random_range(0..among))
}

/// The seeds that a test tries: so many, or as many as `THALWEG_SEEDS` says, or the only one that `THALWEG_SEED` names.
///
/// Errors: where one of them is no number.
pub fn seeds(usual: u64) -> Result<Range<u64>, ParseIntError> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>()).transpose();
    if let Some(seed) = number("THALWEG_SEED")? {
        return Ok(seed..seed + 1);
    }
    Ok(0..number("THALWEG_SEEDS")?.unwrap_or(usual))
}

/// Tries each seed, on all cores; the seed of what fails is printed, with how it is repeated.
pub fn each(seeds: Range<u64>, run: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                return;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
                next.store(seeds.end, Relaxed);
                eprintln!("to repeat it: THALWEG_SEED={seed}");
                resume_unwind(panic);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
}
