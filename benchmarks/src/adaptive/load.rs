//! A source whose rate goes up and down, or whose hot keys change.
//!
//! A row's event time is when it is due by the schedule. Where there is no schedule for the clock to keep, rows come as fast as they
//! are taken, and event time goes by their number.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use arrow_array::{Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use thalweg_core::{
    Result,
    connector::{Connector, Host, Read, Reader, Source, TableDefinition},
};

/// How many keys rows have.
pub const KEYS: u64 = 1_000;

/// From packet to packet, in microseconds.
const TICK_US: u64 = 1_000;

/// Keys that are hot at a time, and how many of a hundred rows they have.
const HOT: u64 = 4;
const HOT_PERCENT: u64 = 80;

/// What rows come, and when.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// One after the other: for how many seconds, how many rows a second; a multiple of 1,000.
    pub rates: Vec<(u64, u64)>,
    /// After how many seconds of event time other keys are hot; `None` if none ever is.
    pub hot_s: Option<u64>,
    /// Whether rows wait until they are due.
    pub is_paced: bool,
}

impl Schedule {
    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.rates.iter().map(|(seconds, rate)| seconds * rate).sum()
    }

    /// When a row is due, in microseconds since the start.
    pub fn time_us(&self, row: u64) -> i64 {
        let (mut left, mut began) = (row, 0);
        for (seconds, rate) in &self.rates {
            if left < seconds * rate {
                let packet = rate * TICK_US / 1_000_000;
                return (began + left / packet * TICK_US) as i64;
            }
            (left, began) = (left - seconds * rate, began + seconds * 1_000_000);
        }
        began as i64
    }

    /// How many rows are due so long after the start.
    fn due(&self, mut us: u64) -> u64 {
        let mut rows = 0;
        for (seconds, rate) in &self.rates {
            let part = us.min(seconds * 1_000_000);
            rows += (part / TICK_US + u64::from(part < seconds * 1_000_000)) * (rate * TICK_US / 1_000_000);
            if part < seconds * 1_000_000 {
                break;
            }
            us -= part;
        }
        rows
    }

    /// The key of a row that is due then.
    pub fn key(&self, row: u64, time_us: i64) -> i64 {
        let random = mixed(row);
        let key = match self.hot_s {
            Some(seconds) if random % 100 < HOT_PERCENT => {
                let span = time_us as u64 / (seconds * 1_000_000);
                mixed(span * HOT + (random >> 32) % HOT + 0x5EED) % KEYS
            }
            _ => (random >> 16) % KEYS,
        };
        key as i64
    }
}

/// A number that looks random, the same for the same row (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators").
fn mixed(row: u64) -> u64 {
    let z = row.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// `'connector' = 'load'`: columns `ts`, `n` (the row's number) and `key`.
#[derive(Clone)]
pub struct Load {
    schedule: Arc<Schedule>,
    names: Vec<String>,
    origin: Arc<OnceLock<Instant>>,
}

impl Load {
    /// One partition that keeps this schedule.
    pub fn new(schedule: Schedule) -> Self {
        Self { schedule: Arc::new(schedule), names: vec!["0".to_string()], origin: Arc::default() }
    }

    /// When rows began to come; now, if none has.
    pub fn origin(&self) -> Instant {
        *self.origin.get_or_init(Instant::now)
    }
}

impl Connector for Load {
    fn name(&self) -> &'static str {
        "load"
    }

    fn infer(&self, _: &TableDefinition) -> Result<SchemaRef> {
        let field = |name, data_type| Field::new(name, data_type, false);
        Ok(Arc::new(Schema::new(vec![
            field("ts", DataType::Timestamp(TimeUnit::Microsecond, None)),
            field("n", DataType::Int64),
            field("key", DataType::Int64),
        ])))
    }

    fn source(&self, _: &TableDefinition) -> Result<Box<dyn Source>> {
        Ok(Box::new(self.clone()))
    }
}

impl Source for Load {
    fn partitions(&self) -> &[String] {
        &self.names
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn open(&self, _: usize, _: Host) -> Result<Box<dyn Reader>> {
        Ok(Box::new(Rows { load: self.clone(), next: 0 }))
    }
}

struct Rows {
    load: Load,
    next: u64,
}

impl Reader for Rows {
    fn read(&mut self, rows: usize) -> Result<Read> {
        let schedule = &self.load.schedule;
        let all = schedule.rows();
        if self.next == all {
            return Ok(Read::End);
        }
        let origin = self.load.origin();
        let due = if schedule.is_paced { schedule.due(origin.elapsed().as_micros() as u64).min(all) } else { all };
        if due <= self.next {
            return Ok(Read::Wait(Some(origin + Duration::from_micros(schedule.time_us(self.next) as u64))));
        }
        let rows = self.next..due.min(self.next + rows as u64);
        self.next = rows.end;
        let times: Vec<i64> = rows.clone().map(|row| schedule.time_us(row)).collect();
        let keys = rows.clone().zip(&times).map(|(row, time)| schedule.key(row, *time));
        let columns: Vec<Arc<dyn Array>> = vec![
            Arc::new(TimestampMicrosecondArray::from(times.clone())),
            Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64))),
            Arc::new(Int64Array::from_iter_values(keys)),
        ];
        Ok(Read::Rows(RecordBatch::try_from_iter(["ts", "n", "key"].into_iter().zip(columns))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_due_by_the_rates_and_hot_keys_change() {
        let schedule = Schedule { rates: vec![(1, 1_000), (2, 5_000)], hot_s: Some(1), is_paced: true };
        assert_eq!(schedule.rows(), 11_000);
        assert_eq!(
            [0, 1, 999, 1_000, 1_004, 1_005].map(|row| schedule.time_us(row)),
            [0, 1_000, 999_000, 1_000_000, 1_000_000, 1_001_000]
        );
        // A row is due as soon as its time has come, and not before.
        for row in (0..11_000).step_by(7) {
            let time = schedule.time_us(row) as u64;
            assert!(schedule.due(time) > row && (time == 0 || schedule.due(time - 1) <= row), "row {row}");
        }
        let most = |from: u64, to: u64| {
            let mut counts = vec![0; KEYS as usize];
            (from..to).for_each(|row| counts[schedule.key(row, schedule.time_us(row)) as usize] += 1);
            let key = (0..counts.len()).max_by_key(|key| counts[*key]).unwrap();
            (key, counts[key])
        };
        let ((first, rows), (second, _)) = (most(1_000, 6_000), most(6_000, 11_000));
        assert!(first != second && rows > 500, "{first} {second} {rows}");
    }
}
