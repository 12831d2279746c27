//! How far event time has come, and when: the lower of both streams' watermarks, as an operator with two inputs has it.

use super::workload::Row;

/// Follows the rows that come.
pub struct Watermark {
    lateness: i64,
    /// The latest time of each stream.
    last: [i64; 2],
}

impl Watermark {
    /// No row has come.
    pub fn new(lateness: i64) -> Self {
        Self { lateness, last: [i64::MIN; 2] }
    }

    /// A row has come.
    #[inline]
    pub fn follow(&mut self, row: &Row) {
        let last = &mut self.last[stream_of(row)];
        *last = row.time.max(*last);
    }

    /// No row of this time or an earlier one comes any more.
    #[inline]
    pub fn passed(&self) -> i64 {
        // A row may be behind by just the lateness.
        self.last[0].min(self.last[1]).saturating_sub(self.lateness + 1)
    }
}

/// The number of a row's stream.
pub fn stream_of(row: &Row) -> usize {
    usize::from(row.is_base)
}

/// Which rows bring the watermark on: a window's result can be final once they have come, and no earlier.
pub struct Passing {
    lateness: i64,
    /// The rows of each stream that are later than all before them: their times and their numbers, and both grow.
    records: [Vec<(i64, usize)>; 2],
}

impl Passing {
    /// Of rows in the order in which they come.
    pub fn of(rows: &[Row], lateness: i64) -> Self {
        let mut records = [Vec::new(), Vec::new()];
        for (number, row) in rows.iter().enumerate() {
            let records: &mut Vec<(i64, usize)> = &mut records[stream_of(row)];
            if records.last().is_none_or(|(last, _)| row.time > *last) {
                records.push((row.time, number));
            }
        }
        Self { lateness, records }
    }

    /// The numbers of the two rows, one of each stream, with which the watermark has passed a time: with the later of them it is known that
    /// no row of this time or an earlier one comes any more. `None` if that is known at the end of the streams only.
    pub fn with(&self, time: i64) -> Option<[usize; 2]> {
        let first = |stream: usize| {
            let records = &self.records[stream];
            let place = records.partition_point(|(record, _)| record - self.lateness <= time);
            records.get(place).map(|(_, number)| *number)
        };
        Some([first(0)?, first(1)?])
    }
}

#[cfg(test)]
mod tests {
    use super::{super::workload::Workload, *};

    /// With which row the watermark has passed a time, from a look at all that have come; `None` if it never does.
    fn naive(rows: &[Row], lateness: i64, time: i64) -> Option<usize> {
        let last = |come: &[Row], is_base| come.iter().filter(|row| row.is_base == is_base).map(|row| row.time).max();
        let passed = |come: &[Row]| {
            [true, false].into_iter().all(|of| last(come, of).is_some_and(|last| last - lateness > time))
        };
        (0..rows.len()).find(|last| passed(&rows[..=*last]))
    }

    #[test]
    fn the_watermark_passes_with_the_first_rows_of_both_streams_that_are_late_enough() {
        for mut workload in Workload::all() {
            workload.lateness = workload.lateness.min(150);
            let rows = workload.generate(200);
            let passing = Passing::of(&rows, workload.lateness);
            let mut watermark = Watermark::new(workload.lateness);
            let followed: Vec<i64> = rows
                .iter()
                .map(|row| {
                    watermark.follow(row);
                    watermark.passed()
                })
                .collect();
            for time in -10..210 {
                let last = passing.with(time).and_then(|both| both.into_iter().max());
                assert_eq!(last, naive(&rows, workload.lateness, time), "{}, {time}", workload.name);
                // The watermark says the same, and it is true.
                assert_eq!(last, followed.iter().position(|passed| *passed >= time), "{}, {time}", workload.name);
                let behind = &rows[last.map_or(rows.len(), |last| last + 1)..];
                assert!(behind.iter().all(|row| row.time > time), "{}, {time}", workload.name);
            }
        }
    }

    #[test]
    fn a_stream_that_is_behind_holds_the_watermark() {
        let row = |time, is_base| Row { time, payload: 0, key: 0, is_base };
        let rows = [row(5, true), row(90, true), row(14, false), row(15, false), row(13, false)];
        let passing = Passing::of(&rows, 10);
        assert_eq!(passing.with(3), Some([2, 1]));
        assert_eq!(passing.with(4), Some([3, 1]));
        assert_eq!(passing.with(5), None);
    }
}
