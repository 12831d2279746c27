//! What the machine can do, and what was taken of it.

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use thalweg_memory::pool::{Block, Pool};

/// How fast memory is read, bytes a second.
pub struct Bandwidth {
    /// As the engine's own memory: in huge pages, where the system has them.
    block: Block,
    /// By one core, when it was measured first.
    pub one: f64,
    /// By all cores, when it was measured first.
    pub all: f64,
}

/// More than any cache holds.
const BYTES: usize = 512 << 20;
const TIMES: usize = 7;

impl Bandwidth {
    /// Reads a large block of memory several times; the median counts.
    ///
    /// Errors: if there is no room for the block.
    pub fn measure() -> Result<Self, String> {
        let mut block = Pool::new(BYTES).take(BYTES).ok_or("there is no memory to measure its bandwidth with")?;
        block.bytes_mut().fill(1);
        let mut measured = Self { block, one: 0.0, all: 0.0 };
        let median = |cores: usize| {
            let mut rates: Vec<f64> = (0..TIMES).map(|_| measured.now(cores)).collect();
            rates.sort_by(f64::total_cmp);
            rates[TIMES / 2]
        };
        (measured.one, measured.all) = (median(1), median(cores()));
        Ok(measured)
    }

    /// What so many cores read, when it was measured first.
    pub fn of(&self, cores: usize) -> f64 {
        if cores <= 1 { self.one } else { self.all }
    }

    /// What so many cores read now: one reading of a large block of memory.
    pub fn now(&self, cores: usize) -> f64 {
        let share = self.block.len() / cores.max(1) / 64 * 64;
        let start = Instant::now();
        thread::scope(|scope| {
            for part in self.block.bytes().chunks_exact(share) {
                scope.spawn(move || black_box(sum(part)));
            }
        });
        (share * cores.max(1)) as f64 / start.elapsed().as_secs_f64()
    }
}

/// How many cores there are.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// The sum of all numbers, in several chains so that none waits for another.
fn sum(block: &[u8]) -> u64 {
    let (chunks, _) = block.as_chunks::<8>().0.as_chunks::<32>();
    let mut sums = [0u64; 32];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum = sum.wrapping_add(u64::from_le_bytes(*value)));
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
