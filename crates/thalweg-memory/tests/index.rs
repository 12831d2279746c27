//! One thread writes an index at full speed, and expires; others look, and check all that they find.

use std::{
    env,
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
    thread,
    time::{Duration, Instant},
};

use thalweg_memory::index::{Reader, Row, View, Writer};

/// How long it takes unless `THALWEG_STRESS_SECONDS` says more.
const SECONDS: u64 = 1;
/// Some keys always have rows; of the others each has them for some time.
const KEYS: u64 = 4;
const COMING_AND_GOING: u64 = 100;
/// How far times are out of order, and how many rows there are at a time, all keys together.
const DISORDER: u64 = 64;
const KEPT: u64 = 20_000;
const BATCH: u64 = 50;
/// More than rows and nodes take that wait for a reader who is not scheduled for a tenth of a second.
const BYTES_MAX: usize = 256 << 20;

/// The row of a number: its time is nearly the number, and many rows have the same.
fn row(number: u64) -> Row {
    let noise = mix(number);
    let key = match noise % 8 {
        0 => KEYS + number / KEPT % COMING_AND_GOING,
        rest => rest % KEYS,
    };
    let time = (number.saturating_sub((noise >> 8) % DISORDER) / 4) as i64;
    Row { key, time, value: checked(number) }
}

/// The number, with what tells whether it is one.
fn checked(number: u64) -> u64 {
    number << 24 | mix(number) & 0xff_ffff
}

fn mix(number: u64) -> u64 {
    let product = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f;
    (product >> 64) as u64 ^ product as u64
}

/// How far rows have been expired, which the writer says before it expires them, and whether it is at its end.
#[derive(Default)]
struct Run {
    horizon: AtomicI64,
    is_over: AtomicBool,
}

/// Inserts batches and single rows until time is over; the most bytes that it had.
fn write(writer: &mut Writer, run: &Run, end: Instant) -> usize {
    let (mut number, mut bytes) = (0, 0);
    while Instant::now() < end {
        for _ in 0..20 {
            writer.insert_batch((number..number + BATCH).map(row));
            writer.insert(row(number + BATCH));
            number += BATCH + 1;
        }
        let horizon = (number.saturating_sub(KEPT) / 4) as i64;
        run.horizon.store(horizon, Ordering::Release);
        writer.expire(horizon);
        bytes = bytes.max(writer.bytes());
    }
    run.is_over.store(true, Ordering::Release);
    bytes
}

/// Looks until the writer is at its end; how many rows it found.
fn look(mut reader: Reader, run: &Run, seed: u64) -> u64 {
    let (mut found, mut random) = (0, seed);
    while !run.is_over.load(Ordering::Acquire) {
        let before = reader.frontier();
        let view = reader.pin();
        for _ in 0..8 {
            random = mix(random);
            // From what is expired meanwhile to what is inserted meanwhile.
            let middle = before.saturating_sub(random % (KEPT + 2000)) + (random >> 32) % 1000;
            found += check(&view, run, middle);
        }
    }
    found
}

/// Looks for the rows around a number, of its key.
fn check(view: &View<'_>, run: &Run, middle: u64) -> u64 {
    let frontier = view.frontier();
    let Row { key, time, .. } = row(middle);
    let (first, last) = (time - 20, time + 20);
    let found: Vec<(i64, u64)> = view.range(key, first..=last).collect();
    for (time, value) in &found {
        let number = value >> 24;
        let expected = row(number);
        assert_eq!((key, *time, *value), (expected.key, expected.time, expected.value), "row {number} of {frontier}");
        assert!((first..=last).contains(time), "row {number} of {first}..={last}");
    }
    // By time, and then as they were inserted.
    let is_sorted = found.is_sorted_by(|one, next| (one.0, one.1 >> 24) < (next.0, next.1 >> 24));
    assert!(is_sorted, "{found:?}");
    // What was inserted before we looked, and not expired before we had found it, is all there.
    let horizon = run.horizon.load(Ordering::Acquire).max(first);
    let numbers = (first.max(0) as u64 * 4)..((last + 1) as u64 * 4 + DISORDER).min(frontier);
    let expected = numbers.map(|number| (number, row(number)));
    let expected = expected.filter(|(_, row)| row.key == key && (horizon..=last).contains(&row.time));
    for (number, row) in expected {
        let is_found = found.contains(&(row.time, row.value));
        assert!(is_found, "row {number} of {frontier}, expired before {horizon}, is not in {found:?}");
    }
    found.len() as u64
}

#[test]
fn who_looks_while_rows_come_and_go_finds_what_there_is() {
    let seconds = env::var("THALWEG_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let (mut writer, run) = (Writer::default(), Run::default());
    let reader = writer.reader();
    let end = Instant::now() + Duration::from_secs(seconds);
    let (bytes, found) = thread::scope(|scope| {
        let looks: Vec<_> = (1..=3)
            .map(|seed| {
                let (reader, run) = (reader.clone(), &run);
                scope.spawn(move || look(reader, run, seed))
            })
            .collect();
        let bytes = write(&mut writer, &run, end);
        (bytes, looks.into_iter().map(|look| look.join().unwrap()).sum::<u64>())
    });
    println!("{} rows inserted, {found} found, {bytes} bytes at most", reader.frontier());
    assert!(found > 0 && writer.rows() as u64 <= KEPT + 2000);
    assert!(bytes < BYTES_MAX, "{bytes} bytes");
}
