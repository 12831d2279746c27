//! A source that releases rows by the wall clock, in packets at fixed instants, as a network does.
//!
//! A row's event time is the instant at which its packet is due, whenever it is read: what comes late because the reader, the
//! worker or the machine was busy shows as latency.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use arrow_array::{Array, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use thalweg_core::{
    Result,
    connector::{Connector, Host, Read, Reader, Source, TableDefinition},
};

/// From packet to packet, in microseconds.
pub const TICK_US: u64 = 100;

/// Packets in a second.
const TICKS: u64 = 1_000_000 / TICK_US;

/// How many keys rows have.
pub const KEYS: u64 = 1_000;

/// `'connector' = 'live'`: columns `ts`, `n` (the row's number), `key` and `value`.
#[derive(Clone)]
pub struct Live {
    rows_per_s: u64,
    rows: u64,
    names: Vec<String>,
    origin: Arc<OnceLock<Instant>>,
}

impl Live {
    /// So many rows a second, a multiple of the packets, for so many seconds.
    pub fn new(rows_per_s: u64, seconds: u64) -> Self {
        assert!(rows_per_s.is_multiple_of(TICKS), "each packet has as many rows");
        // One packet more, whose rows tell that the last window is over.
        let rows = rows_per_s * seconds + rows_per_s / TICKS;
        Self { rows_per_s, rows, names: vec!["0".to_string()], origin: Arc::default() }
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How long after the instant that an event time, in microseconds, stands for; early is none at all.
    pub fn since(&self, event_us: i64, now: Instant) -> Duration {
        let origin = self.origin.get().copied().unwrap_or(now);
        now.saturating_duration_since(origin + Duration::from_micros(event_us.max(0) as u64))
    }

    /// The event time of a row, in microseconds.
    pub fn time_us(&self, row: u64) -> i64 {
        (row / self.packet() * TICK_US) as i64
    }

    fn packet(&self) -> u64 {
        self.rows_per_s / TICKS
    }
}

/// The key of a row.
pub fn key(row: u64) -> i64 {
    // Neighbours differ, and all keys are about as frequent.
    ((row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % KEYS) as i64
}

/// The value of a row, a number of eighths.
pub fn value(row: u64) -> f64 {
    (row % 1_009) as f64 / 8.0
}

impl Connector for Live {
    fn name(&self) -> &'static str {
        "live"
    }

    fn infer(&self, _: &TableDefinition) -> Result<SchemaRef> {
        let field = |name, data_type| Field::new(name, data_type, false);
        Ok(Arc::new(Schema::new(vec![
            field("ts", DataType::Timestamp(TimeUnit::Microsecond, None)),
            field("n", DataType::Int64),
            field("key", DataType::Int64),
            field("value", DataType::Float64),
        ])))
    }

    fn source(&self, _: &TableDefinition) -> Result<Box<dyn Source>> {
        Ok(Box::new(self.clone()))
    }
}

impl Source for Live {
    fn partitions(&self) -> &[String] {
        &self.names
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn open(&self, _: usize, _: Host) -> Result<Box<dyn Reader>> {
        Ok(Box::new(Packets { live: self.clone(), next: 0 }))
    }
}

struct Packets {
    live: Live,
    next: u64,
}

impl Reader for Packets {
    fn read(&mut self, rows: usize) -> Result<Read> {
        let live = &self.live;
        if self.next == live.rows {
            return Ok(Read::End);
        }
        // Time begins with the first row that is asked for, so that the start of the query is no latency.
        let origin = *live.origin.get_or_init(Instant::now);
        let ticks = origin.elapsed().as_micros() as u64 / TICK_US;
        let due = live.rows.min((ticks + 1) * live.packet());
        if due <= self.next {
            return Ok(Read::Wait(Some(origin + Duration::from_micros(live.time_us(self.next) as u64))));
        }
        let rows = self.next..due.min(self.next + rows as u64);
        self.next = rows.end;
        let columns: Vec<Arc<dyn Array>> = vec![
            Arc::new(TimestampMicrosecondArray::from_iter_values(rows.clone().map(|row| live.time_us(row)))),
            Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64))),
            Arc::new(Int64Array::from_iter_values(rows.clone().map(key))),
            Arc::new(Float64Array::from_iter_values(rows.map(value))),
        ];
        let names = ["ts", "n", "key", "value"];
        Ok(Read::Rows(RecordBatch::try_from_iter(names.into_iter().zip(columns))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_when_they_are_due_and_all_of_them() {
        let live = Live::new(20_000, 0);
        assert_eq!([0, 1, 2, 5].map(|row| live.time_us(row)), [0, 0, 100, 200]);
        let mut packets = Packets { live: Live { rows: 9, ..live.clone() }, next: 0 };
        let (mut rows, mut waits) = (0, 0);
        loop {
            match packets.read(1_000).unwrap() {
                Read::Rows(batch) => rows += batch.num_rows(),
                Read::Wait(until) => {
                    assert!(until.unwrap() > Instant::now() - Duration::from_millis(100));
                    waits += 1;
                }
                Read::End => break,
                other => panic!("{other:?}"),
            }
            assert!(waits < 10_000_000);
        }
        assert_eq!(rows, 9);
        let last = live.time_us(8);
        assert!(live.since(last, Instant::now()) < Duration::from_secs(100));
        assert_eq!(live.since(last + 3_600_000_000, Instant::now()), Duration::ZERO);
    }
}
