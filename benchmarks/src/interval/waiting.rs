//! Base rows that wait until no probe row can come for their window.

use std::collections::VecDeque;

use super::workload::Row;

/// Rows in slices of event time, so that none is looked at again and again while it waits.
pub struct Waiting {
    width: i64,
    /// The number of the first slice.
    first: i64,
    slices: VecDeque<Vec<Row>>,
    /// Slices that were emptied.
    spare: Vec<Vec<Row>>,
}

impl Waiting {
    /// None; in slices of this width.
    pub fn new(width: i64) -> Self {
        Self { width, first: 0, slices: VecDeque::new(), spare: Vec::new() }
    }

    /// A row begins to wait. Its time is behind the watermark.
    pub fn push(&mut self, row: Row) {
        let slice = row.time.div_euclid(self.width);
        if self.slices.is_empty() {
            self.first = slice;
        }
        for _ in slice..self.first {
            self.slices.push_front(self.spare.pop().unwrap_or_default());
        }
        self.first = self.first.min(slice);
        let place = (slice - self.first) as usize;
        while self.slices.len() <= place {
            self.slices.push_back(self.spare.pop().unwrap_or_default());
        }
        self.slices[place].push(row);
    }

    /// Takes out the rows whose time the watermark has reached. The order depends only on how rows came and watermarks went.
    pub fn take(&mut self, watermark: i64, mut take: impl FnMut(&Row)) {
        let reached = watermark.div_euclid(self.width);
        while self.first < reached
            && let Some(mut slice) = self.slices.pop_front()
        {
            slice.drain(..).for_each(|row| take(&row));
            self.spare.push(slice);
            self.first += 1;
        }
        if self.first == reached
            && let Some(slice) = self.slices.front_mut()
        {
            slice.retain(|row| {
                let waits = row.time > watermark;
                if !waits {
                    take(row);
                }
                waits
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_wait_for_the_watermark_and_no_longer_and_come_out_once() {
        let mut waiting = Waiting::new(1_000);
        let mut out = Vec::new();
        let row = |time: i64| Row { time, payload: 0, key: 0, is_base: true };
        let mut step = |rows: &[i64], watermark: i64| {
            rows.iter().for_each(|time| waiting.push(row(*time)));
            out.clear();
            waiting.take(watermark, |row| out.push(row.time));
            out.sort();
            out.clone()
        };
        assert_eq!(step(&[2_500, 700, 2_400, 9_000], 2_399), [700]);
        assert_eq!(step(&[], 2_400), [2_400]);
        assert_eq!(step(&[4_000, 2_401], 4_000), [2_401, 2_500, 4_000]);
        assert_eq!(step(&[], i64::MAX), [9_000]);
        // Behind an end all may begin anew.
        assert_eq!(step(&[5_000, -3_000], 0), [-3_000]);
        assert_eq!(step(&[], i64::MAX), [5_000]);
    }
}
