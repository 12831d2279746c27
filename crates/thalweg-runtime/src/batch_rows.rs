//! How many rows a source puts into a batch.
//!
//! Pipes hold batches, however long these take: with rows that take a millisecond each, what is on its way of full batches takes
//! minutes. A row that comes waits for all of them, and so do barriers, and whoever wants to know what there is to do. So batches
//! become smaller where the next steps take long for each; and they begin small, since a pipe that is empty says nothing of these.
//!
//! Source: what Flink calls buffer debloating, Apache Flink FLIP-183: buffers shrink until what is on its way takes a second.

use std::time::{Duration, Instant};

/// The size of the next batch.
#[derive(Debug)]
pub struct BatchRows {
    most: usize,
    now: usize,
    /// How many batches that were more than half full went off at once since the size was changed.
    passed: usize,
    /// When the last batch was put out, and whether it was more than half full.
    last: Option<(Instant, bool)>,
}

/// So many batches may be on their way to an instance: in its pipe, taken out of that, and at both ends.
const ON_THEIR_WAY: usize = 18;

/// When batches take longer than this, they become smaller: what is on its way should take a second.
const LONG: Duration = Duration::from_millis(1000 / ON_THEIR_WAY as u64);

/// Batches have so many rows at first, unless fewer are allowed.
const FIRST: usize = 256;

/// No batch need be smaller than that.
const LEAST: usize = 16;

impl BatchRows {
    /// Batches of at most so many rows.
    pub fn new(most: usize) -> Self {
        Self { most, now: FIRST.min(most), passed: 0, last: None }
    }

    /// How many rows the next batch may have.
    pub fn now(&self) -> usize {
        self.now
    }

    /// A batch of so many rows is put out.
    pub fn put(&mut self, rows: usize, now: Instant) {
        self.last = Some((now, 2 * rows > self.now));
    }

    /// The next batch is asked for: there is room for what was put out.
    pub fn asked(&mut self, now: Instant) {
        let Some((since, is_filled)) = self.last.take() else { return };
        let held = now.saturating_duration_since(since);
        if held > LONG {
            (self.now, self.passed) = ((self.now / 2).max(LEAST.min(self.most)), 0);
        } else if is_filled && held < LONG / 4 {
            self.passed += 1;
            if self.passed == ON_THEIR_WAY {
                (self.now, self.passed) = ((2 * self.now).min(self.most), 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches that are full, of rows that each take so long, of which so many may be on their way: the sizes there were.
    fn sizes(batches: usize, most: usize, row: Duration, on_their_way: usize) -> Vec<usize> {
        let (mut rows, mut now) = (BatchRows::new(most), Instant::now());
        let mut sizes: Vec<usize> = Vec::new();
        let mut free = now;
        let mut ends = Vec::new();
        for batch in 0..batches {
            sizes.push(rows.now());
            rows.put(rows.now(), now);
            free = free.max(now) + row * rows.now() as u32;
            ends.push(free);
            // There is room once the batch is done that came so many before.
            now = batch.checked_sub(on_their_way - 1).map_or(now, |done| now.max(ends[done]));
            rows.asked(now);
        }
        sizes
    }

    #[test]
    fn batches_grow_to_the_most_where_rows_take_no_time() {
        let sizes = sizes(200, 8192, Duration::from_nanos(100), 8);
        assert_eq!(sizes[0], FIRST);
        assert!(sizes.is_sorted());
        assert_eq!(sizes[5 * ON_THEIR_WAY - 1..][..2], [4096, 8192]);
        assert_eq!(sizes[199], 8192);
    }

    #[test]
    fn what_is_on_its_way_takes_about_a_second() {
        for micros in [1, 10, 100, 1000] {
            let (row, on_their_way) = (Duration::from_micros(micros), ON_THEIR_WAY);
            let sizes = sizes(400, 1 << 20, row, on_their_way);
            let took = |size: &usize| (row * *size as u32 * on_their_way as u32).as_secs_f64();
            assert!(sizes.iter().map(took).all(|took| took < 5.0), "{micros}: {sizes:?}");
            let settled: Vec<f64> = sizes[350..].iter().map(took).collect();
            assert!(settled.iter().all(|took| (0.2..1.1).contains(took)), "{micros}: {settled:?}");
        }
    }

    #[test]
    fn batches_do_not_grow_while_fewer_rows_come() {
        let (mut rows, now) = (BatchRows::new(8192), Instant::now());
        for _ in 0..1000 {
            rows.put(100, now);
            rows.asked(now);
        }
        assert_eq!(rows.now(), FIRST);
    }

    #[test]
    fn batches_become_no_smaller_than_need_be_and_are_never_larger_than_allowed() {
        let (mut rows, mut now) = (BatchRows::new(8192), Instant::now());
        for _ in 0..10 {
            rows.put(rows.now(), now);
            now += Duration::from_secs(1);
            rows.asked(now);
        }
        assert_eq!(rows.now(), LEAST);
        assert_eq!(sizes(100, 1, Duration::from_secs(1), 8), [1; 100]);
        assert!(sizes(400, 1000, Duration::ZERO, 8).iter().all(|size| *size <= 1000));
    }
}
