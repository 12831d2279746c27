//! The probe rows of a key, as they came.

use thalweg_memory::{
    kernels::between::{count_between, sum_between},
    simd::Level,
};

/// Times and values in two columns. They are in no order, so that a base row has to look at all of them.
#[derive(Default)]
pub struct Buffer {
    times: Vec<i64>,
    values: Vec<i64>,
    /// Rows are looked through for such as are over when the watermark has come so far.
    next_expiry: i64,
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

impl Buffer {
    /// Stores a row.
    pub fn push(&mut self, time: i64, value: i64) {
        self.times.push(time);
        self.values.push(value);
    }

    /// Drops rows of earlier times; not at each call, but once so much time has passed since the last.
    pub fn expire(&mut self, before: i64, every: i64) {
        if before < self.next_expiry {
            return;
        }
        self.next_expiry = before + every;
        let mut kept = 0;
        for row in 0..self.times.len() {
            self.times[kept] = self.times[row];
            self.values[kept] = self.values[row];
            kept += usize::from(self.times[row] >= before);
        }
        self.times.truncate(kept);
        self.values.truncate(kept);
    }

    /// Looks at all rows for those of times in `[from, to]`.
    pub fn scan(&self, level: Level, from: i64, to: i64) -> Found {
        let (count, sum) = sum_between(level, &self.times, &self.values, from, to);
        Found { count, sum, visited: self.times.len() as u64 }
    }

    /// The same without the values: what it takes to know which rows are in the window.
    pub fn look_up(&self, level: Level, from: i64, to: i64) -> u64 {
        count_between(level, &self.times, from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_both_ends_and_what_is_over_goes_after_a_while() {
        let mut buffer = Buffer::default();
        [(7, 1), (3, 10), (5, 100), (5, 1_000)].into_iter().for_each(|(time, value)| buffer.push(time, value));
        let scan = |buffer: &Buffer, from, to| buffer.scan(Level::best(), from, to);
        assert_eq!(scan(&buffer, 3, 5), Found { count: 3, sum: 1_110, visited: 4 });
        assert_eq!(buffer.look_up(Level::best(), 4, 7), 3);
        buffer.expire(5, 10);
        assert_eq!(scan(&buffer, 0, 9), Found { count: 3, sum: 1_101, visited: 3 });
        buffer.expire(14, 10);
        assert_eq!(scan(&buffer, 0, 9).visited, 3);
        buffer.expire(15, 10);
        assert_eq!(scan(&buffer, 0, 9), Found::default());
    }
}
