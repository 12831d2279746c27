//! The probe rows of a key, as they came: in no order, so that a base row has to look at all of them.

use thalweg_memory::{
    kernels::between::{count_between, sum_between},
    simd::Level,
};

use super::workload::Row;

/// Probe rows of a key.
pub trait Buffer: Default + Send {
    /// Stores a row.
    fn push(&mut self, row: &Row);

    /// Drops rows of earlier times; not at each call, but once so much time has passed since the last.
    fn expire(&mut self, before: i64, every: i64);

    /// Looks at all rows for those of times in `[from, to]`.
    fn scan(&self, level: Level, from: i64, to: i64) -> Found;

    /// The same without the values: what it takes to know which rows are in the window.
    fn look_up(&self, level: Level, from: i64, to: i64) -> u64;
}

/// Times and values in two columns, looked at with the machine's widest instructions.
#[derive(Default)]
pub struct Columns {
    times: Vec<i64>,
    values: Vec<i64>,
    expiry: Expiry,
}

/// Rows as they were given, looked at one after the other.
#[derive(Default)]
pub struct Rows {
    rows: Vec<Row>,
    expiry: Expiry,
}

/// When rows are looked through for such as are over: when the watermark has come so far.
#[derive(Default)]
pub struct Expiry(i64);

impl Expiry {
    /// Whether the watermark has come so far that it is time to look again for rows before this time, as every so often.
    pub fn is_due(&mut self, before: i64, every: i64) -> bool {
        let is_due = before >= self.0;
        if is_due {
            self.0 = before + every;
        }
        is_due
    }
}

/// What a base row found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// How many rows lie in its window.
    pub count: u64,
    /// The sum of their values.
    pub sum: i64,
    /// How many rows were looked at.
    pub visited: u64,
}

impl Found {
    /// Adds what was found among other rows.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.visited += other.visited;
    }
}

impl Buffer for Columns {
    fn push(&mut self, row: &Row) {
        self.times.push(row.time);
        self.values.push(row.payload);
    }

    fn expire(&mut self, before: i64, every: i64) {
        if !self.expiry.is_due(before, every) {
            return;
        }
        let mut kept = 0;
        for row in 0..self.times.len() {
            self.times[kept] = self.times[row];
            self.values[kept] = self.values[row];
            kept += usize::from(self.times[row] >= before);
        }
        self.times.truncate(kept);
        self.values.truncate(kept);
    }

    fn scan(&self, level: Level, from: i64, to: i64) -> Found {
        let (count, sum) = sum_between(level, &self.times, &self.values, from, to);
        Found { count, sum, visited: self.times.len() as u64 }
    }

    fn look_up(&self, level: Level, from: i64, to: i64) -> u64 {
        count_between(level, &self.times, from, to)
    }
}

impl Buffer for Rows {
    fn push(&mut self, row: &Row) {
        self.rows.push(*row);
    }

    fn expire(&mut self, before: i64, every: i64) {
        if self.expiry.is_due(before, every) {
            self.rows.retain(|row| row.time >= before);
        }
    }

    fn scan(&self, _: Level, from: i64, to: i64) -> Found {
        let mut found = Found { visited: self.rows.len() as u64, ..Found::default() };
        for row in &self.rows {
            if from <= row.time && row.time <= to {
                found.count += 1;
                found.sum = found.sum.wrapping_add(row.payload);
            }
        }
        found
    }

    fn look_up(&self, _: Level, from: i64, to: i64) -> u64 {
        self.rows.iter().filter(|row| from <= row.time && row.time <= to).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<B: Buffer>() {
        let mut buffer = B::default();
        for (time, payload) in [(7, 1), (3, 10), (5, 100), (5, 1_000)] {
            buffer.push(&Row { time, payload, key: 0, is_base: false });
        }
        let scan = |buffer: &B, from, to| buffer.scan(Level::best(), from, to);
        assert_eq!(scan(&buffer, 3, 5), Found { count: 3, sum: 1_110, visited: 4 });
        assert_eq!(buffer.look_up(Level::best(), 4, 7), 3);
        buffer.expire(5, 10);
        assert_eq!(scan(&buffer, 0, 9), Found { count: 3, sum: 1_101, visited: 3 });
        buffer.expire(14, 10);
        assert_eq!(scan(&buffer, 0, 9).visited, 3);
        buffer.expire(15, 10);
        assert_eq!(scan(&buffer, 0, 9), Found::default());
    }

    #[test]
    fn a_window_has_both_ends_and_what_is_over_goes_after_a_while() {
        check::<Columns>();
        check::<Rows>();
    }
}
