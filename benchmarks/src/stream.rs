//! Made-up streams in memory.

use std::{fmt, sync::Arc};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use thalweg::Memory;

/// How many rows a batch has.
const BATCH: usize = 1 << 20;

/// 64-bit keys, uniform below a billion, in as many partitions.
pub fn keys(rows: usize, partitions: usize) -> Result<Vec<Vec<RecordBatch>>, String> {
    let mut random = StdRng::seed_from_u64(18);
    parted(rows, partitions, |_, rows| {
        let keys: Vec<i64> = (0..rows).map(|_| random.random_range(0..1_000_000_000)).collect();
        vec![("key", Arc::new(Int64Array::from(keys)) as ArrayRef)]
    })
}

/// Which keys rows have.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// Each below this number equally often.
    Uniform(usize),
    /// Those below this number, key *k* in proportion to 1 / (*k* + 1).
    Zipf(usize),
}

impl Keys {
    /// How many different ones there are.
    pub fn count(self) -> usize {
        match self {
            Self::Uniform(count) | Self::Zipf(count) => count,
        }
    }

    /// Makes as many as are asked for.
    pub fn sampler(self) -> impl FnMut(&mut StdRng) -> i64 {
        // Up to which share of all rows each key goes.
        let mut shares = Vec::new();
        if let Self::Zipf(count) = self {
            let weights = (0..count).map(|key| 1.0 / (key + 1) as f64);
            shares.extend(weights.scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            }));
        }
        move |random| match shares.last() {
            None => random.random_range(0..self.count() as i64),
            Some(all) => {
                let share = random.random::<f64>() * all;
                shares.partition_point(|end| *end <= share).min(shares.len() - 1) as i64
            }
        }
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform(count) => write!(f, "{count}, uniform"),
            Self::Zipf(count) => write!(f, "{count}, zipf with exponent 1"),
        }
    }
}

/// Rows of 24 bytes in partitions that come as far in time: event time, key, value, which is a number of eighths. Times go up by `step` microseconds
/// from row to row of all, and a row may be out of order by as much as `disorder`.
pub fn readings(
    rows: usize,
    partitions: usize,
    keys: Keys,
    step: i64,
    disorder: i64,
) -> Result<Vec<Vec<RecordBatch>>, String> {
    let mut random = StdRng::seed_from_u64(42);
    let mut key = keys.sampler();
    parted(rows, partitions, |first, rows| {
        let times = (0..rows).map(|row| {
            let late = if disorder > 0 { random.random_range(0..disorder) } else { 0 };
            ((first + row) * partitions) as i64 * step - late
        });
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(times));
        let keyed: Vec<i64> = (0..rows).map(|_| key(&mut random)).collect();
        let values: Vec<f64> = (0..rows).map(|_| f64::from(random.random_range(0..100_000)) / 8.0).collect();
        vec![
            ("ts", times),
            ("key", Arc::new(Int64Array::from(keyed)) as ArrayRef),
            ("value", Arc::new(Float64Array::from(values)) as ArrayRef),
        ]
    })
}

/// Rows in partitions of the same size, made batch by batch: by the number of the first in its partition, and how many.
pub fn parted(
    rows: usize,
    partitions: usize,
    mut make: impl FnMut(usize, usize) -> Vec<(&'static str, ArrayRef)>,
) -> Result<Vec<Vec<RecordBatch>>, String> {
    let share = rows / partitions;
    let mut batches = |_| {
        let starts = (0..share).step_by(BATCH);
        let made = starts
            .map(|first| RecordBatch::try_from_iter(make(first, BATCH.min(share - first))).expect("equal lengths"));
        // One by one, so that there are never two copies of all.
        let kept = made.map(|batch| Memory::preallocated(&[vec![batch]]));
        let kept = kept.collect::<thalweg::Result<Vec<_>>>().map_err(|error| error.to_string())?;
        Ok(kept.into_iter().flatten().flatten().collect())
    };
    (0..partitions).map(&mut batches).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_keys_are_as_frequent_as_their_rank_says() {
        let (mut random, mut key) = (StdRng::seed_from_u64(1), Keys::Zipf(100).sampler());
        let mut counts = [0f64; 100];
        (0..1_000_000).for_each(|_| counts[key(&mut random) as usize] += 1.0);
        for rank in [2usize, 10, 100] {
            let ratio = counts[0] / counts[rank - 1] / rank as f64;
            assert!((0.9..1.1).contains(&ratio), "rank {rank}: {ratio}");
        }
    }
}
