//! Senders, rows, watermarks and their interleaving at random: what comes out is the stable merge of all, and nothing is held back that
//! cannot be overtaken any more.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use arrow_array::{
    ArrayRef, BinaryArray, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, cast::AsArray, types::Int64Type,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use thalweg_core::{Batch, Positions, Selection, Timestamp, Window};

use super::Ordered;

/// A row: its window's end and start, its key, its sender, and a number that tells it from all others of its sender.
type Row = (i64, i64, Vec<u8>, usize, i64);

#[derive(Clone)]
enum Event {
    Batch(Batch),
    Watermark(i64),
}

/// A row is known by its number: there are no more than these of a sender.
const MOST: i64 = 1 << 32;

/// Windows that end within four of each other are over together, as when a clock jumps.
fn over(end: i64) -> i64 {
    end.div_euclid(4) * 4 + 3
}

/// What a sender sends: windows in their order, each in batches, with watermarks that say nothing wrong.
fn sender(random: &mut StdRng, sender: usize, keys: usize) -> (Vec<Event>, Vec<Row>) {
    let (mut events, mut rows, mut end, mut start) = (Vec::new(), Vec::new(), 0, 0);
    for _ in 0..random.random_range(0..8) {
        if random.random_bool(0.8) {
            let next = end + random.random_range(1..9);
            if random.random_bool(0.6) {
                // The next window is not over before it ends; that it is over is said only when it was sent.
                let promised = random.random_range(over(end) - 4..over(next));
                events.push(Event::Watermark(promised.min(over(next) - 1)));
            }
            (end, start) = (next, next - random.random_range(1..5));
        } else {
            start += 1;
        }
        let mut of_window: Vec<Vec<u8>> = (0..random.random_range(0..keys)).map(|_| key(random)).collect();
        of_window.sort();
        let first = rows.len();
        let numbered = of_window.into_iter().zip(first as i64..);
        rows.extend(numbered.map(|(key, number)| (end, start, key, sender, sender as i64 * MOST + number)));
        let mut left = &rows[first..];
        while !left.is_empty() {
            let (now, later) = left.split_at(random.random_range(1..=left.len()));
            events.push(Event::Batch(batch(random, now)));
            left = later;
        }
    }
    events.push(Event::Watermark(i64::MAX));
    (events, rows)
}

/// What a sender sends that emits in the order of time, and has bytes that tell rows of one time apart.
fn sender_in_time(random: &mut StdRng, sender: usize, keys: usize) -> (Vec<Event>, Vec<Row>) {
    in_time(random, sender, keys, false)
}

/// The same with numbers.
fn sender_by_number(random: &mut StdRng, sender: usize, keys: usize) -> (Vec<Event>, Vec<Row>) {
    in_time(random, sender, keys, true)
}

/// A number as bytes that compare as it does.
fn ordered(number: i64) -> Vec<u8> {
    (number ^ i64::MIN).to_be_bytes().to_vec()
}

/// Rows of several times in a batch.
fn in_time(random: &mut StdRng, sender: usize, keys: usize, by_number: bool) -> (Vec<Event>, Vec<Row>) {
    let span = [40, 8 * keys as i64, 64 * keys as i64][random.random_range(0..3)];
    // All rows of one source have numbers of their own.
    let numbers = if random.random() { -3..3 } else { 0..1 << 40 };
    let mut rows: Vec<Row> = (0..random.random_range(0..8 * keys))
        .map(|_| {
            let time = random.random_range(0..span);
            let key = if by_number { ordered(random.random_range(numbers.clone())) } else { key(random) };
            (time + 1, time, key, sender, 0)
        })
        .collect();
    rows.sort();
    rows.iter_mut().zip(0..).for_each(|(row, number)| row.4 = sender as i64 * MOST + number);
    let (mut events, mut left) = (Vec::new(), &rows[..]);
    while !left.is_empty() {
        let (now, later) = left.split_at(random.random_range(1..=left.len()));
        let (times, keys) = (now.iter().map(|row| row.1).collect(), now.iter().map(|row| row.2.as_slice()));
        let number = |key: &[u8]| i64::from_be_bytes(key.try_into().unwrap()) ^ i64::MIN;
        let positions = match by_number {
            true => Positions::in_time_by_number(times, keys.map(number).collect()),
            false => Positions::in_time(times, BinaryArray::from_iter_values(keys)),
        };
        let batch = Batch::new(columns(&now.iter().map(|row| row.4).collect::<Vec<_>>()));
        events.push(Event::Batch(batch.with_positions(Arc::new(positions))));
        left = later;
        if random.random_bool(0.5) {
            let next = left.first().map_or(span + 10, |row| row.1);
            events.push(Event::Watermark(random.random_range(now[0].1..=next)));
        }
    }
    events.push(Event::Watermark(i64::MAX));
    (events, rows)
}

fn key(random: &mut StdRng) -> Vec<u8> {
    let length = [0, 1, 3, 8, 12][random.random_range(0..5)];
    (0..length).map(|_| random.random_range(0..3)).collect()
}

/// A batch in which these rows are selected, among others which are not.
fn batch(random: &mut StdRng, rows: &[Row]) -> Batch {
    let (mut numbers, mut keys, mut selected) = (Vec::new(), Vec::new(), Vec::new());
    for (_, _, key, _, number) in rows {
        while random.random_bool(0.2) {
            numbers.push(-1);
            keys.push(&b"filtered"[..]);
        }
        selected.push(numbers.len() as u32);
        numbers.push(*number);
        keys.push(key);
    }
    let (end, start, ..) = rows[0];
    let window = Window { start: Timestamp(start), end: Timestamp(end) };
    let positions = Positions::new(window, Timestamp(over(end)), BinaryArray::from_iter_values(keys));
    Batch::new(columns(&numbers)).with_positions(Arc::new(positions)).with_selection(Selection::new(selected))
}

/// Rows that are known by their numbers, of which all other columns are made.
fn columns(numbers: &[i64]) -> RecordBatch {
    let some = |of: i64| numbers.iter().map(move |number| (number % of > 0).then_some(*number));
    let columns: [(_, ArrayRef); 6] = [
        ("n", Arc::new(Int64Array::from(numbers.to_vec()))),
        ("instant", Arc::new(TimestampMicrosecondArray::from(numbers.to_vec()))),
        ("double", Arc::new(some(3).map(|number| number.map(|number| number as f64 / 2.0)).collect::<Float64Array>())),
        ("int", Arc::new(some(2).map(|number| number.map(|number| number as i32)).collect::<Int32Array>())),
        ("text", Arc::new(some(5).map(|number| number.map(|number| number.to_string())).collect::<StringArray>())),
        ("decimal", Arc::new(some(7).map(|number| number.map(i128::from)).collect::<Decimal128Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// The numbers of the selected rows, whose other columns are theirs.
fn numbers(batch: &Batch) -> Vec<i64> {
    let numbers = batch.column(0).as_primitive::<Int64Type>();
    let rows: Vec<usize> = batch.rows().collect();
    if batch.columns().num_columns() > 1 {
        let expected = columns(numbers.values());
        for row in &rows {
            assert_eq!(batch.columns().slice(*row, 1), expected.slice(*row, 1));
        }
    }
    rows.into_iter().map(|row| numbers.value(row)).collect()
}

#[test]
fn what_comes_out_is_the_stable_merge_of_what_senders_send() {
    for seed in 0..250 {
        let random = &mut StdRng::seed_from_u64(seed);
        let (mut senders, mut batch_rows) = ([1, 2, 3, 8, 17][seed as usize % 5], [1, 7, 1000][seed as usize % 3]);
        let mut keys = if seed % 7 == 0 { 700 } else { 12 };
        let mut sender = [sender, sender_in_time, sender, sender_by_number][seed as usize % 4];
        // Two instances, as most machines have at least.
        if seed >= 210 {
            (senders, batch_rows, keys, sender) = (2, 1000 + 500 * (seed as usize % 3), 700, sender_by_number);
        }
        let is_in_time = seed % 2 == 1 || seed >= 210;
        let (mut events, mut expected) = (Vec::new(), Vec::new());
        for number in 0..senders {
            let (sent, rows) = sender(random, number, keys);
            events.push(VecDeque::from(sent));
            expected.extend(rows);
        }
        expected.sort();
        let mut gather = Ordered::new(senders, batch_rows);
        let (mut reached, mut found) = (vec![i64::MIN; senders], Vec::new());
        while events.iter().any(|events| !events.is_empty()) {
            // Some are far ahead of others.
            let from = random.random_range(0..senders).min(random.random_range(0..senders));
            match events[from].pop_front() {
                Some(Event::Batch(batch)) => gather.put(from, batch, found.len() as u64).unwrap(),
                Some(Event::Watermark(t)) => reached[from] = reached[from].max(t),
                None => continue,
            }
            if random.random_bool(0.3) {
                continue;
            }
            while let Some((batch, _)) = gather.next(|sender| Timestamp(reached[sender])).unwrap() {
                assert!(batch.len() <= batch_rows.max(1), "seed {seed}");
                assert!(batch.positions().is_none(), "they are in order");
                found.extend(numbers(&batch));
            }
            let passed = *reached.iter().min().unwrap();
            let over = |end| if is_in_time { end } else { over(end) };
            let due = expected.iter().take_while(|row| over(row.0) <= passed).count();
            assert!(found.len() >= due, "seed {seed}: {due} rows are final, {} came out", found.len());
        }
        while let Some((batch, _)) = gather.next(|sender| Timestamp(reached[sender])).unwrap() {
            found.extend(numbers(&batch));
        }
        let expected: Vec<i64> = expected.into_iter().map(|row| row.4).collect();
        assert!(found == expected, "seed {seed}: {found:?}\nexpected {expected:?}");
        assert_eq!((gather.rows(), gather.bytes(), gather.oldest()), (0, 0, None));
    }
}

/// How many rows come behind one that belongs behind them.
fn out_of_order(places: &[usize]) -> u64 {
    let mut furthest = 0;
    let is_behind = |place: &&usize| {
        let is_behind = **place < furthest;
        furthest = furthest.max(**place);
        is_behind
    };
    places.iter().filter(is_behind).count() as u64
}

#[test]
fn rows_that_were_passed_over_leave_at_once_and_are_counted() {
    let mut all = 0;
    for seed in 0..105 {
        let random = &mut StdRng::seed_from_u64(seed);
        let (senders, batch_rows) = ([2, 3, 8, 17][seed as usize % 4], [1, 7, 1000][seed as usize % 3]);
        let keys = if seed % 7 == 0 { 300 } else { 12 };
        let (mut events, mut expected) = (Vec::new(), Vec::new());
        for number in 0..senders {
            let sender = [sender, sender_in_time, sender, sender_by_number][seed as usize % 4];
            let (sent, rows) = sender(random, number, keys);
            events.push(VecDeque::from(sent));
            expected.extend(rows);
        }
        expected.sort();
        let places: HashMap<i64, usize> = expected.iter().enumerate().map(|(place, row)| (row.4, place)).collect();
        let mut gather = Ordered::new(senders, batch_rows);
        let (mut reached, mut found) = (vec![i64::MIN; senders], Vec::new());
        // Which rows wait, and the place of the furthest that does not any more.
        let (mut waits, mut furthest) = (vec![false; expected.len()], 0);
        while events.iter().any(|events| !events.is_empty()) {
            let from = random.random_range(0..senders).min(random.random_range(0..senders));
            match events[from].pop_front() {
                Some(Event::Batch(batch)) => {
                    numbers(&batch).iter().for_each(|number| waits[places[number]] = true);
                    gather.put(from, batch, 0).unwrap();
                }
                Some(Event::Watermark(t)) => reached[from] = reached[from].max(t),
                None => continue,
            }
            gather.hear(from);
            let before = found.len();
            loop {
                while let Some((batch, _)) = gather.next(|sender| Timestamp(reached[sender])).unwrap() {
                    found.extend(numbers(&batch).iter().map(|number| places[number]));
                }
                let awaited: Vec<usize> = gather.awaited(|sender| Timestamp(reached[sender])).collect();
                if awaited.is_empty() || random.random_bool(0.9) {
                    break;
                }
                awaited.into_iter().for_each(|sender| gather.pass_over(sender));
            }
            found[before..].iter().for_each(|place| waits[*place] = false);
            furthest = furthest.max(found[before..].iter().copied().max().unwrap_or(0));
            assert!(!waits[..furthest].contains(&true), "seed {seed}: nothing that is overtaken waits");
        }
        assert_eq!(gather.out_of_order(), out_of_order(&found), "seed {seed}");
        assert_eq!((gather.rows(), gather.awaited(|_| Timestamp::MIN).count()), (0, 0));
        all += gather.out_of_order();
        found.sort();
        assert!(found.into_iter().eq(0..expected.len()), "seed {seed}: each row comes once");
    }
    assert!(all > 1000, "{all} rows came out of order");
}

#[test]
fn a_sender_that_is_passed_over_is_waited_for_again_once_it_is_heard() {
    let mut gather = Ordered::new(3, 100);
    let reached = |_| Timestamp(9);
    let next = |gather: &mut Ordered| gather.next(reached).unwrap().map(|(batch, _)| numbers(&batch));
    gather.put(0, plain(10, 3..6), 0).unwrap();
    assert_eq!(next(&mut gather), None);
    assert_eq!(gather.awaited(reached).collect::<Vec<_>>(), [1, 2]);
    gather.pass_over(1);
    assert_eq!(gather.awaited(reached).collect::<Vec<_>>(), [2]);
    assert_eq!(next(&mut gather), None, "the third one may have rows of the window");
    gather.pass_over(2);
    assert_eq!(next(&mut gather), Some(vec![3, 4, 5]));
    // What belongs before these waits for nobody, and what does not waits for the two others.
    gather.hear(2);
    gather.put(1, plain(10, 1..9), 0).unwrap();
    gather.hear(1);
    assert_eq!((next(&mut gather), next(&mut gather)), (Some(vec![1, 2, 3, 4]), None));
    assert_eq!((gather.out_of_order(), gather.rows()), (4, 4));
    assert_eq!(gather.awaited(reached).collect::<Vec<_>>(), [0, 2]);
    [0, 2].into_iter().for_each(|sender| gather.pass_over(sender));
    assert_eq!(next(&mut gather), Some(vec![5, 6, 7, 8]));
    assert_eq!(gather.out_of_order(), 4, "row 5 of the second sender belongs behind that of the first");
}

fn plain(end: i64, keys: std::ops::Range<i64>) -> Batch {
    let positions = Positions::new(
        Window { start: Timestamp(end - 10), end: Timestamp(end) },
        Timestamp(end),
        BinaryArray::from_iter_values(keys.clone().map(|key| key.to_be_bytes())),
    );
    let column = Arc::new(Int64Array::from_iter_values(keys)) as ArrayRef;
    Batch::new(RecordBatch::try_from_iter([("n", column)]).unwrap()).with_positions(Arc::new(positions))
}

#[test]
fn rows_wait_for_a_silent_sender_until_its_time_has_come_or_nothing_is_waited_for() {
    let mut gather = Ordered::new(2, 100);
    gather.put(0, plain(10, 0..3), 7).unwrap();
    assert!(gather.next(|_| Timestamp(9)).unwrap().is_none(), "sender 1 may have rows of the window");
    assert_eq!((gather.rows(), gather.oldest()), (3, Some(7)));
    let (batch, arrived) = gather.next(|_| Timestamp(10)).unwrap().unwrap();
    assert_eq!((numbers(&batch), arrived), (vec![0, 1, 2], 7));
    gather.put(0, plain(20, 0..3), 8).unwrap();
    assert!(gather.next(|_| Timestamp(10)).unwrap().is_none());
    assert_eq!(numbers(&gather.next(|_| Timestamp::MAX).unwrap().unwrap().0), [0, 1, 2]);
    assert_eq!(gather.bytes(), 0);
}

#[test]
fn runs_are_passed_on_where_they_lie() {
    let mut gather = Ordered::new(2, 5000);
    let (first, second, third) = (plain(10, 0..3000), plain(10, 3000..3500), plain(20, 0..400));
    let place = |batch: &Batch| batch.column(0).as_primitive::<Int64Type>().values().as_ptr();
    let lies = [place(&first), place(&second), place(&third)];
    for (from, batch) in [(0, &first), (1, &second), (0, &third)] {
        gather.put(from, batch.clone(), 0).unwrap();
    }
    for (lies, rows) in lies.into_iter().zip([3000, 500, 400]) {
        let (batch, _) = gather.next(|_| Timestamp::MAX).unwrap().unwrap();
        assert_eq!((place(&batch), batch.len()), (lies, rows), "nothing is copied");
    }
}

#[test]
fn rows_without_columns_are_counted() {
    let schema = Arc::new(arrow_schema::Schema::empty());
    let bare = |batch: Batch| {
        let rows = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.len()));
        batch.with_columns(RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &rows).unwrap())
    };
    let mut gather = Ordered::new(2, 5000);
    gather.put(0, bare(plain(10, 0..3)), 0).unwrap();
    gather.put(1, bare(plain(10, 1..5)), 0).unwrap();
    assert_eq!(gather.next(|_| Timestamp::MAX).unwrap().unwrap().0.len(), 7);
}

#[test]
fn rows_that_do_not_say_where_they_stand_are_refused() {
    let column = Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let batch = Batch::new(RecordBatch::try_from_iter([("n", column)]).unwrap());
    assert!(Ordered::new(1, 1).put(0, batch, 0).unwrap_err().message().contains("where they stand"));
}
