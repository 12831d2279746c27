//! What a writer and readers do to an index, in all orders that there are.

use loom::{cell::UnsafeCell, sync::Arc, thread};
use thalweg_memory::index::{Reader, Row, View, Writer};

use super::model;

/// A row whose value tells whether it is this row.
fn row(key: u64, time: i64) -> Row {
    Row { key, time, value: value(key, time) }
}

fn value(key: u64, time: i64) -> u64 {
    key * 1000 + time as u64
}

/// The times of a key's rows, which are sorted and are its own.
fn times(view: &View<'_>, key: u64) -> Vec<i64> {
    let rows: Vec<(i64, u64)> = view.range(key, i64::MIN..=i64::MAX).collect();
    assert!(rows.is_sorted() && rows.iter().all(|(time, found)| *found == value(key, *time)), "key {key}: {rows:?}");
    rows.into_iter().map(|(time, _)| time).collect()
}

/// Another thread looks while this one writes.
fn meanwhile(mut reader: Reader, look: impl Fn(&mut Reader) + Send + 'static, write: impl FnOnce()) {
    let looks = thread::spawn(move || look(&mut reader));
    write();
    looks.join().unwrap();
}

#[test]
fn all_rows_up_to_the_frontier_are_found() {
    const TIMES: [i64; 5] = [30, 10, 40, 20, 5];
    model(|| {
        let mut writer = Writer::default();
        writer.insert(row(1, TIMES[0]));
        let look = |reader: &mut Reader| {
            let view = reader.pin();
            let frontier = view.frontier() as usize;
            let found = times(&view, 1);
            assert!(TIMES[..frontier].iter().all(|time| found.contains(time)), "{found:?} of {frontier}");
        };
        meanwhile(writer.reader(), look, || {
            writer.insert_batch(TIMES[1..3].iter().map(|time| row(1, *time)));
            TIMES[3..].iter().for_each(|time| writer.insert(row(1, *time)));
        });
    });
}

#[test]
fn rows_are_found_among_keys_that_come_and_go() {
    model(|| {
        let mut writer = Writer::default();
        writer.insert_batch([row(2, 1), row(4, 9)]);
        let look = |reader: &mut Reader| {
            let frontier = reader.frontier();
            let view = reader.pin();
            assert_eq!(times(&view, 4), [9]);
            let found = times(&view, 3);
            assert!(frontier < 3 || found == [8], "{found:?} of {frontier}");
            let found = times(&view, 2);
            assert!(frontier < 4 || found == [7], "{found:?} of {frontier}");
        };
        meanwhile(writer.reader(), look, || {
            // Key 2 goes while somebody may stand there on the way to 3 and 4.
            writer.expire(5);
            writer.insert(row(3, 8));
            writer.insert(row(2, 7));
        });
    });
}

#[test]
fn nodes_that_are_seen_are_not_used_again() {
    model(|| {
        let mut writer = Writer::default();
        writer.insert_batch([row(1, 1), row(1, 2), row(1, 3), row(1, 9)]);
        let look = |reader: &mut Reader| {
            for _ in 0..2 {
                let found = times(&reader.pin(), 1);
                assert!(found.contains(&9), "{found:?}");
            }
        };
        meanwhile(writer.reader(), look, || {
            writer.expire(3);
            // These are of another key: who comes upon one on its way has lost it.
            writer.insert_batch([row(2, 4), row(2, 5)]);
            writer.expire(4);
            writer.insert(row(2, 6));
        });
    });
}

/// What a value leads to: the model says so if who reads it and who drops it may be there at once.
#[derive(Clone)]
struct Referent(Arc<UnsafeCell<()>>);

// SAFETY: nothing is read or written through its pointer; that threads might is what the model watches.
#[allow(unsafe_code)]
unsafe impl Send for Referent {}

impl Referent {
    fn read(&self) {
        self.0.with(|_| ());
    }

    fn drop(&self) {
        self.0.with_mut(|_| ());
    }
}

#[test]
fn values_of_an_epoch_that_is_over_are_seen_by_nobody() {
    model(|| {
        let mut writer = Writer::default();
        writer.insert_batch([row(1, 1), row(1, 9)]);
        let referent = Referent(Arc::new(UnsafeCell::new(())));
        let seen = referent.clone();
        let look = move |reader: &mut Reader| {
            for _ in 0..2 {
                let view = reader.pin();
                if times(&view, 1).contains(&1) {
                    seen.read();
                }
            }
        };
        meanwhile(writer.reader(), look, || {
            let expired = writer.expire(5);
            if writer.earliest_epoch() > expired.epoch {
                referent.drop();
            }
        });
    });
}

#[test]
fn readers_that_come_meanwhile_are_waited_for() {
    model(|| {
        let mut writer = Writer::default();
        writer.insert_batch([row(1, 1), row(1, 2), row(1, 9)]);
        let look = |reader: &mut Reader| {
            let mut clone = reader.clone();
            let found = times(&clone.pin(), 1);
            assert!(found.contains(&9), "{found:?}");
        };
        meanwhile(writer.reader(), look, || {
            writer.expire(2);
            writer.insert(row(2, 4));
            writer.expire(3);
            writer.insert(row(2, 5));
        });
    });
}
