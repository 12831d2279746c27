//! How many rows a source puts into a batch.
//!
//! Pipes hold batches, however long these take: with rows that take a millisecond each, what is on its way of full batches takes
//! minutes. A row that comes waits for all of them, and so do barriers, and whoever wants to know what there is to do. So batches
//! become smaller where the next steps take long for each; and they begin small, since a pipe that is empty says nothing of these.
//!
//! Source: what Flink calls buffer debloating, Apache Flink FLIP-183: buffers shrink until what is on its way takes a second.

use std::time::{Duration, Instant};

use crate::share::ALIVE;

/// The size of the next batch.
#[derive(Debug)]
pub struct BatchRows {
    most: usize,
    now: usize,
    /// How many batches were put out since it was last judged by them, how many of these more than half full, and how long all were held up.
    passed: usize,
    filled: usize,
    held: Duration,
    /// Whether nothing, or smaller batches, were on their way before these: for how long they are held up says nothing of their size.
    is_first: bool,
    /// Whether some took too long: from then on they grow step by step, as after congestion in a network.
    was_long: bool,
    /// When the last batch was put out, and whether it was more than half full.
    last: Option<(Instant, bool)>,
}

/// So many batches may be on their way to an instance.
const ON_THEIR_WAY: usize = ALIVE;

/// When so many batches take longer than this, they become smaller. One alone may take long: work comes in bursts, with each watermark.
const LONG: Duration = Duration::from_secs(1);

/// Batches have so many rows at first, unless fewer are allowed.
const FIRST: usize = 256;

/// No batch need be smaller than that.
const LEAST: usize = 16;

impl BatchRows {
    /// Batches of at most so many rows.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            now: FIRST.min(most),
            passed: 0,
            filled: 0,
            held: Duration::ZERO,
            is_first: true,
            was_long: false,
            last: None,
        }
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
        self.held += now.saturating_duration_since(since);
        (self.passed, self.filled) = (self.passed + 1, self.filled + usize::from(is_filled));
        let before = self.now;
        if self.held > LONG {
            // By as much as they took too long, and not by far more: that may have been for another reason.
            let times = (self.held.as_secs_f64() / LONG.as_secs_f64()).ceil().clamp(2.0, 16.0) as usize;
            self.now = (self.now / times).max(LEAST.min(self.most));
            self.was_long = true;
        } else if self.passed < ON_THEIR_WAY {
            return;
        } else if !self.is_first && 2 * self.filled > self.passed {
            // So many times as large they take half of what they may.
            let times = (LONG / 2).as_nanos() / self.held.as_nanos().max(1);
            let times = usize::try_from(times).unwrap_or(usize::MAX).min(if self.was_long { 2 } else { usize::MAX });
            let most = self.now.saturating_mul(times);
            self.now = self.now.max(most.min(self.most));
        }
        (self.passed, self.filled, self.held, self.is_first) = (0, 0, Duration::ZERO, self.now > before);
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
        let sizes = sizes(100, 8192, Duration::from_nanos(100), 8);
        let (small, large) = sizes.split_at(2 * ON_THEIR_WAY);
        assert!(small.iter().all(|size| *size == FIRST) && large.iter().all(|size| *size == 8192), "{sizes:?}");
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
    fn a_batch_that_takes_long_now_and_then_changes_nothing() {
        let (mut rows, mut now) = (BatchRows::new(8192), Instant::now());
        for batch in 0..1000 {
            rows.put(rows.now(), now);
            now += Duration::from_millis(if batch % 10 == 0 { 100 } else { 0 });
            rows.asked(now);
        }
        assert_eq!(rows.now(), 8192);
    }

    #[test]
    fn batches_do_not_grow_while_fewer_rows_come() {
        let (mut rows, now) = (BatchRows::new(8192), Instant::now());
        for batch in 0..10_000 {
            rows.put(100, now + Duration::from_millis(batch));
            rows.asked(now + Duration::from_millis(batch + 1));
        }
        assert_eq!(rows.now(), FIRST);
    }

    #[test]
    fn batches_become_no_smaller_than_need_be_and_are_never_larger_than_allowed() {
        let (mut rows, mut now) = (BatchRows::new(8192), Instant::now());
        for _ in 0..10 {
            rows.put(rows.now(), now);
            now += Duration::from_millis(1001);
            rows.asked(now);
        }
        assert_eq!(rows.now(), LEAST);
        assert_eq!(sizes(100, 1, Duration::from_secs(1), 8), [1; 100]);
        assert!(sizes(400, 1000, Duration::ZERO, 8).iter().all(|size| *size <= 1000));
    }
}
