//! Reads the rows of one partition, at their pace.

use std::time::{Duration, Instant};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use thalweg_core::{
    Result,
    connector::{Read, Reader},
};

use super::{fill::Numbers, kinds::Column, rate::Rate};

/// At most this many rows are made at once, and at most this many bytes of text.
const ROWS_LIMIT: usize = 1 << 16;
const BYTES_LIMIT: usize = 16 << 20;

/// Makes the rows of one partition, one after another.
pub(super) struct RowReader {
    schema: SchemaRef,
    columns: Vec<Column>,
    numbers: Numbers,
    place: u64,
    end: u64,
    most: usize,
    pace: Option<Pace>,
    /// When it had last given all rows that were due.
    caught_up: Option<Instant>,
}

/// So long after those that were due the next rows come at the earliest: rows one by one would cost more than they are.
const GRAIN: Duration = Duration::from_micros(500);

impl RowReader {
    /// A reader of the rows with these numbers, as far as they are below `rows`.
    pub(super) fn new(
        schema: SchemaRef,
        columns: Vec<Column>,
        numbers: Numbers,
        rows: u64,
        pace: Option<Pace>,
    ) -> Self {
        let widest = columns.iter().map(Column::width).max().unwrap_or(0);
        let most = ROWS_LIMIT.min(BYTES_LIMIT / widest.max(1)).max(1);
        Self { schema, columns, numbers, place: 0, end: numbers.below(rows), most, pace, caught_up: None }
    }
}

impl Reader for RowReader {
    fn read(&mut self, rows: usize) -> Result<Read> {
        let left = self.end - self.place;
        if left == 0 {
            return Ok(Read::End);
        }
        let mut rows = left.min(rows.clamp(1, self.most) as u64);
        if let Some(pace) = &self.pace {
            let now = Instant::now();
            let due = self.numbers.below(pace.due(now));
            let next = pace.instant(self.numbers.at(self.place));
            let next = self.caught_up.map_or(next, |since| next.max(since + GRAIN));
            if due <= self.place || now < next {
                return Ok(Read::Wait(Some(next)));
            }
            self.caught_up = (due - self.place <= rows).then_some(now);
            rows = rows.min(due - self.place);
        }
        let (numbers, count) = (self.numbers.skip(self.place), rows as usize);
        let columns = self.columns.iter().map(|column| column.fill(numbers, count)).collect::<Result<_>>()?;
        self.place += rows;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(Read::Rows(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?))
    }
}

const NANOS: u64 = 1_000_000_000;

/// When rows are due: row *n* comes `n / rate` seconds after the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    start: Instant,
    rate: Rate,
}

impl Pace {
    /// So many rows a second from now on.
    pub(super) fn new(rate: Rate) -> Self {
        Self { start: Instant::now(), rate }
    }

    /// How many rows were due by then.
    pub(super) fn due(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.start).as_nanos();
        u64::try_from(self.rate.rows(elapsed, NANOS) + 1).unwrap_or(u64::MAX)
    }

    /// When a row is due.
    pub(super) fn instant(&self, number: u64) -> Instant {
        let (nanos, rest) = self.rate.parts(number, NANOS);
        let nanos = nanos + u128::from(rest > 0);
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_due_shortly_after_each_other_come_together() {
        let pace = Pace::new(Rate::parse("1000000").unwrap());
        let schema = SchemaRef::new(arrow_schema::Schema::empty());
        let mut reader = RowReader::new(schema, Vec::new(), Numbers { first: 0, step: 1 }, 20_000, Some(pace));
        let (mut reads, mut count) = (0, 0);
        while count < 20_000 {
            match reader.read(8192).unwrap() {
                Read::Rows(rows) => (reads, count) = (reads + 1, count + rows.num_rows()),
                Read::Wait(Some(until)) => std::thread::sleep(until.saturating_duration_since(Instant::now())),
                _ => panic!("the rows have not ended"),
            }
        }
        // Twenty milliseconds.
        assert!(reads <= 42, "{reads} reads");
    }

    #[test]
    fn a_row_is_due_at_its_instant_and_not_before() {
        for rate in ["3", "0.7", "1000000"] {
            let pace = Pace::new(Rate::parse(rate).unwrap());
            for number in 0..100 {
                let instant = pace.instant(number);
                assert_eq!(pace.due(instant), number + 1, "row {number}");
                if number > 0 {
                    assert_eq!(pace.due(instant - Duration::from_nanos(1)), number, "row {number}");
                }
            }
        }
    }
}
