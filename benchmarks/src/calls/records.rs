//! Made-up call description records: calling and called number, start and duration, district, place, and time of emission.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray, cast::AsArray, types::*,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::stream::{Keys, parted};

/// What a record takes in memory.
pub const BYTES: f64 = 64.0;

/// Calls that end in a second of event time, all partitions together.
pub const A_SECOND: i64 = 10_000;

/// How many numbers call and are called.
pub const NUMBERS: i64 = 100_000;

/// The longest call, in seconds.
const LONGEST: i64 = 600;

const SECOND: i64 = 1_000_000;

/// So many records in partitions that come as far in time, with districts as asked for. A record is emitted when its call ends, and
/// they come in that order. Places are eighths of a kilometre, so that sums of their squares are exact.
pub fn calls(rows: usize, partitions: usize, districts: Keys) -> Result<Vec<Vec<RecordBatch>>, String> {
    let mut random = StdRng::seed_from_u64(60);
    let mut district = districts.sampler();
    parted(rows, partitions, |first, rows| {
        let end = |row: usize| ((first + row) * partitions) as i64 * (SECOND / A_SECOND);
        let durations: Vec<i64> = (0..rows).map(|_| random.random_range(1..=LONGEST)).collect();
        let starts = durations.iter().enumerate().map(|(row, seconds)| end(row) - seconds * SECOND);
        let starts = TimestampMicrosecondArray::from_iter_values(starts);
        let number = |random: &mut StdRng| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((0..rows).map(|_| random.random_range(0..NUMBERS))))
        };
        let (caller, called) = (number(&mut random), number(&mut random));
        let place = |random: &mut StdRng| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values((0..rows).map(|_| f64::from(random.random_range(0..800)) / 8.0)))
        };
        let (x, y) = (place(&mut random), place(&mut random));
        let districts = Int64Array::from_iter_values((0..rows).map(|_| district(&mut random)));
        vec![
            ("caller", caller),
            ("called", called),
            ("start", Arc::new(starts)),
            ("duration", Arc::new(Int64Array::from(durations))),
            ("district", Arc::new(districts)),
            ("x", x),
            ("y", y),
            ("ts", Arc::new(TimestampMicrosecondArray::from_iter_values((0..rows).map(end)))),
        ]
    })
}

/// What results are computed from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// Who calls.
    pub caller: i64,
    /// Who is called.
    pub called: i64,
    /// In seconds.
    pub duration: i64,
    /// Where.
    pub district: i64,
    /// In kilometres.
    pub x: f64,
    /// In kilometres.
    pub y: f64,
    /// When the record is emitted, in microseconds.
    pub ts: i64,
}

/// All of them, partition by partition.
pub fn each(stream: &[Vec<RecordBatch>]) -> impl Iterator<Item = Call> {
    stream.iter().flatten().flat_map(|batch| {
        let whole = |name: &str| batch[name].as_primitive::<Int64Type>().values();
        let real = |name: &str| batch[name].as_primitive::<Float64Type>().values();
        let (caller, called, duration) = (whole("caller"), whole("called"), whole("duration"));
        let (district, x, y) = (whole("district"), real("x"), real("y"));
        let ts = batch["ts"].as_primitive::<TimestampMicrosecondType>().values();
        (0..batch.num_rows()).map(move |row| Call {
            caller: caller[row],
            called: called[row],
            duration: duration[row],
            district: district[row],
            x: x[row],
            y: y[row],
            ts: ts[row],
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_end_in_order_behind_their_start_and_the_same_each_time() {
        let stream = calls(3_000, 2, Keys::Zipf(5)).unwrap();
        assert!(each(&stream).eq(each(&calls(3_000, 2, Keys::Zipf(5)).unwrap())));
        for partition in &stream {
            let ends: Vec<i64> = each(std::slice::from_ref(partition)).map(|call| call.ts).collect();
            assert_eq!(ends.len(), 1_500);
            assert!(ends.windows(2).all(|pair| pair[1] - pair[0] == 2 * SECOND / A_SECOND));
            for batch in partition {
                let time = |name: &str| batch[name].as_primitive::<TimestampMicrosecondType>().values();
                let durations = batch["duration"].as_primitive::<Int64Type>().values();
                let calls = time("start").iter().zip(durations).zip(time("ts"));
                assert!(calls.into_iter().all(|((start, duration), end)| start + duration * SECOND == *end));
            }
        }
        let first = each(&stream).filter(|call| call.district == 0).count();
        assert!((1_150..1_480).contains(&first), "{first} of 3,000 in the district that has 44 %");
    }
}
