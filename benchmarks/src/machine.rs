//! What the machine can do, and what was taken of it.

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// How fast memory is read, bytes a second, by one core and by all.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth {
    /// By one core.
    pub one: f64,
    /// By all cores.
    pub all: f64,
}

/// More than any cache holds.
const BYTES: usize = 512 << 20;
const TIMES: usize = 7;

impl Bandwidth {
    /// Reads a large block of memory several times; the median counts.
    pub fn measure() -> Self {
        let block = vec![1u64; BYTES / 8];
        let read = |threads: usize| {
            let share = block.len() / threads;
            let mut rates: Vec<f64> = (0..TIMES)
                .map(|_| {
                    let start = Instant::now();
                    thread::scope(|scope| {
                        for part in block.chunks_exact(share) {
                            scope.spawn(move || black_box(sum(part)));
                        }
                    });
                    (share * threads * 8) as f64 / start.elapsed().as_secs_f64()
                })
                .collect();
            rates.sort_by(f64::total_cmp);
            rates[TIMES / 2]
        };
        Self { one: read(1), all: read(cores()) }
    }

    /// What so many cores read.
    pub fn of(&self, cores: usize) -> f64 {
        if cores <= 1 { self.one } else { self.all }
    }
}

/// How many cores there are.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// The sum of all numbers, in several chains so that none waits for another.
fn sum(block: &[u64]) -> u64 {
    let (chunks, _) = block.as_chunks::<32>();
    let mut sums = [0u64; 32];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}

/// The time and the CPU time (of all threads) that something takes.
pub struct Stopwatch {
    start: Instant,
    cpu: Duration,
}

impl Stopwatch {
    /// Starts both clocks.
    pub fn start() -> Self {
        Self { start: Instant::now(), cpu: cpu_time() }
    }

    /// Seconds, and CPU seconds.
    pub fn stop(&self) -> (f64, f64) {
        (self.start.elapsed().as_secs_f64(), (cpu_time() - self.cpu).as_secs_f64())
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
