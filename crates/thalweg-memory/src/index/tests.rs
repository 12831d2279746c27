//! The index against maps that are sorted, which say what it should give.

use std::{collections::BTreeMap, ops::RangeInclusive, thread};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;

/// What an index is, without threads: values by key and time, as they were inserted.
#[derive(Default)]
struct Twin {
    rows: BTreeMap<u64, BTreeMap<i64, Vec<u64>>>,
}

impl Twin {
    fn insert(&mut self, row: Row) {
        self.rows.entry(row.key).or_default().entry(row.time).or_default().push(row.value);
    }

    fn expire(&mut self, before: i64) -> usize {
        let count = self.count();
        self.rows.values_mut().for_each(|rows| *rows = rows.split_off(&before));
        self.rows.retain(|_, rows| !rows.is_empty());
        count - self.count()
    }

    fn count(&self) -> usize {
        self.rows.values().flat_map(BTreeMap::values).map(Vec::len).sum()
    }

    fn range(&self, key: u64, times: RangeInclusive<i64>) -> Vec<(i64, u64)> {
        if times.is_empty() {
            return Vec::new();
        }
        let rows = self.rows.get(&key).into_iter().flat_map(|rows| rows.range(times.clone()));
        rows.flat_map(|(time, values)| values.iter().map(|value| (*time, *value))).collect()
    }
}

fn row(key: u64, time: i64, value: u64) -> Row {
    Row { key, time, value }
}

fn found(reader: &mut Reader, key: u64, times: RangeInclusive<i64>) -> Vec<(i64, u64)> {
    reader.pin().range(key, times).collect()
}

#[test]
fn rows_of_a_span_come_by_time_and_as_they_were_inserted() {
    let mut writer = Writer::default();
    let mut reader = writer.reader();
    writer.insert_batch([row(1, 5, 50), row(1, 3, 30), row(2, 4, 99), row(1, 5, 51), row(1, -7, 1), row(1, 3, 31)]);
    assert_eq!(found(&mut reader, 1, i64::MIN..=i64::MAX), [(-7, 1), (3, 30), (3, 31), (5, 50), (5, 51)]);
    assert_eq!(found(&mut reader, 1, 3..=4), [(3, 30), (3, 31)]);
    assert_eq!(found(&mut reader, 1, 5..=5), [(5, 50), (5, 51)]);
    assert_eq!(found(&mut reader, 1, 6..=100), []);
    assert_eq!(found(&mut reader, 1, RangeInclusive::new(5, 3)), []);
    assert_eq!(found(&mut reader, 3, i64::MIN..=i64::MAX), []);
    assert_eq!((writer.rows(), writer.keys(), reader.frontier()), (6, 2, 6));
}

#[test]
fn the_ends_of_keys_and_times_are_as_good_as_any() {
    let mut writer = Writer::default();
    let mut reader = writer.reader();
    for key in [0, u64::MAX] {
        for time in [i64::MAX, i64::MIN] {
            writer.insert(row(key, time, key ^ 7));
        }
        assert_eq!(found(&mut reader, key, i64::MIN..=i64::MAX), [(i64::MIN, key ^ 7), (i64::MAX, key ^ 7)]);
        assert_eq!(found(&mut reader, key, i64::MAX..=i64::MAX), [(i64::MAX, key ^ 7)]);
    }
    assert_eq!(writer.expire(i64::MIN).rows, 0);
    assert_eq!(writer.expire(i64::MAX).rows, 2);
    assert_eq!(found(&mut reader, 0, i64::MIN..=i64::MAX), [(i64::MAX, 7)]);
}

#[test]
fn keys_without_rows_are_gone_and_may_come_back() {
    let mut writer = Writer::default();
    let mut reader = writer.reader();
    writer.insert_batch((0..100).map(|key| row(key, key as i64, key)));
    assert_eq!(writer.expire(60).rows, 60);
    assert_eq!((writer.rows(), writer.keys()), (40, 40));
    assert_eq!(found(&mut reader, 59, 0..=100), []);
    assert_eq!(found(&mut reader, 60, 0..=100), [(60, 60)]);
    // Earlier than what was expired: it stays until rows are expired again.
    writer.insert(row(59, 1, 7));
    assert_eq!(found(&mut reader, 59, 0..=100), [(1, 7)]);
    assert_eq!(writer.expire(60).rows, 1);
    assert_eq!(found(&mut reader, 59, 0..=100), []);
}

#[test]
fn what_was_expired_in_an_epoch_is_seen_by_readers_that_pinned_it() {
    let mut writer = Writer::default();
    let (mut first, mut second) = (writer.reader(), writer.reader());
    writer.insert_batch((0..10).map(|n| row(1, n, n as u64)));
    let view = first.pin();
    let mut range = view.range(1, 0..=20);
    assert_eq!(range.next(), Some((0, 0)));
    let expired = writer.expire(5);
    assert_eq!(expired.rows, 5);
    assert_eq!(writer.earliest_epoch(), expired.epoch, "the first reader may still see the rows");
    // These would be used again.
    writer.insert_batch((10..15).map(|n| row(1, n, n as u64)));
    writer.expire(5);
    writer.insert_batch((15..20).map(|n| row(1, n, n as u64)));
    assert!(range.eq((1..20).map(|n| (n, n as u64))), "who was there goes on");
    let later = second.pin();
    assert!(later.range(1, 0..=20).eq((5..20).map(|n| (n, n as u64))));
    drop(view);
    assert!(writer.earliest_epoch() > expired.epoch, "the second reader pinned a later epoch");
    let expired = writer.expire(6);
    drop(later);
    assert!(writer.earliest_epoch() > expired.epoch, "nobody looks");
}

#[test]
fn a_writer_and_its_readers_may_go_to_other_threads() {
    let mut writer = Writer::default();
    let mut reader = writer.reader();
    thread::spawn(move || writer.insert(row(1, 2, 3))).join().unwrap();
    assert_eq!(thread::spawn(move || found(&mut reader, 1, 2..=2)).join().unwrap(), [(2, 3)]);
}

#[test]
fn slots_of_readers_that_are_gone_are_taken_again() {
    let mut writer = Writer::default();
    let reader = writer.reader();
    let slots: Vec<usize> = (0..3).map(|_| reader.clone().slot).collect();
    assert_eq!(slots, [1, 1, 1]);
    let clones = [reader.clone(), reader.clone()];
    assert_eq!(clones.each_ref().map(|clone| clone.slot), [1, 2]);
    let expired = writer.expire(0);
    assert!(writer.earliest_epoch() > expired.epoch, "nobody looks");
}

#[test]
fn memory_is_used_again() {
    let mut writer = Writer::default();
    let mut reader = writer.reader();
    let mut peak = 0;
    for second in 0..100_i64 {
        // Other keys in each second, so that they come and go.
        let rows = (0..1000).map(|n| row((second as u64 * 31 + n % 10) % 1000, second * 1000 + n as i64, n));
        writer.insert_batch(rows);
        writer.expire((second - 4) * 1000);
        assert_eq!(reader.pin().range(second as u64 * 31 % 1000, second * 1000..=i64::MAX).count(), 100);
        match second {
            ..10 => peak = writer.bytes(),
            // One block more, where nodes happen to be higher.
            _ => assert!(writer.bytes() <= peak + (32 << 10), "{} bytes at second {second}", writer.bytes()),
        }
    }
    assert!(writer.rows() >= 5000 && peak < 5000 * 60, "{} rows in {peak} bytes", writer.rows());
    writer.expire(i64::MAX);
    assert_eq!((writer.rows(), writer.keys()), (0, 0));
}

#[test]
fn a_row_takes_four_words_at_most() {
    let mut writer = Writer::default();
    let empty = writer.bytes();
    writer.insert_batch((0..1_000_000).map(|n| row(n % 8, n as i64, n)));
    let bytes = (writer.bytes() - empty) as f64 / 1e6;
    assert!((26.0..32.0).contains(&bytes), "{bytes} bytes a row");
    // Each of them comes before all others, so that its key is due earlier.
    (1..=1_000_000).for_each(|n| writer.insert(row(n % 8, -(n as i64), n)));
    let bytes = (writer.bytes() - empty) as f64 / 2e6;
    assert!((26.0..32.0).contains(&bytes), "{bytes} bytes a row");
}

#[test]
fn random_rows_are_found_as_in_sorted_maps() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let (mut writer, mut twin) = (Writer::default(), Twin::default());
        let mut reader = writer.reader();
        let keys = [1, 3, 40, 1000][seed as usize % 4];
        // From times that are nearly in order to times that are not, and from many that are equal to few.
        let disorder = [1, 20, 300, 100_000][seed as usize / 4 % 4];
        let step = [0, 1, 10][seed as usize % 3];
        let (mut now, mut value) = (0, 0);
        for _ in 0..200 {
            let rows: Vec<Row> = (0..random.random_range(0..60))
                .map(|_| {
                    (now, value) = (now + step, value + 1);
                    row(random.random_range(0..keys), now - random.random_range(0..disorder), value)
                })
                .collect();
            rows.iter().for_each(|row| twin.insert(*row));
            match random.random_bool(0.5) {
                true => writer.insert_batch(rows),
                false => rows.into_iter().for_each(|row| writer.insert(row)),
            }
            if random.random_bool(0.2) {
                let before = now - random.random_range(0..2 * disorder);
                assert_eq!(writer.expire(before).rows, twin.expire(before));
            }
            assert_eq!((writer.rows(), writer.keys()), (twin.count(), twin.rows.len()));
            assert_eq!(reader.frontier(), value);
            let view = reader.pin();
            for _ in 0..10 {
                let key = random.random_range(0..keys + 1);
                let first = now - random.random_range(-10..2 * disorder + 10);
                let times = first..=first + random.random_range(-1..disorder);
                assert_eq!(view.range(key, times.clone()).collect::<Vec<_>>(), twin.range(key, times));
            }
        }
        for key in 0..keys {
            assert_eq!(found(&mut reader, key, i64::MIN..=i64::MAX), twin.range(key, i64::MIN..=i64::MAX));
        }
        // Nothing is left, and all may come again.
        let before = now + 1;
        assert_eq!(writer.expire(before).rows, twin.expire(before));
        assert_eq!((writer.rows(), writer.keys()), (0, 0));
    }
}
