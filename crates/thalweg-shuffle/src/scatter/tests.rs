//! Each row exactly once, in its partition, in the order in which it came; and pages that are full.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Int32Array, Int64Array, RecordBatch,
    StringArray, StringViewArray, UInt32Array,
    cast::AsArray,
    types::{Int32Type, Int64Type},
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::{concat::concat_batches, take::take_record_batch};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use thalweg_memory::{
    page::{Page, layout::RowLayout},
    pool::Pool,
};

use super::{
    choice::Walk,
    outbox::{Outbox, Progress, Sizes},
};
use crate::route::Destinations;

/// Rows of a kind, and the same values in the types that pages hold.
pub(super) fn rows(random: &mut StdRng, kind: usize, count: usize) -> (RecordBatch, RecordBatch) {
    let number = Arc::new(Int32Array::from_iter_values((0..count).map(|_| random.random()))) as ArrayRef;
    let text = |random: &mut StdRng| -> Vec<Option<String>> {
        let longest = [3, 12, 40, 3000][random.random_range(0..4)];
        let one = |random: &mut StdRng| "väl".chars().cycle().take(random.random_range(0..=longest)).collect();
        (0..count).map(|_| random.random_bool(0.9).then(|| one(random))).collect()
    };
    let wide = |width: usize| {
        Arc::new(FixedSizeBinaryArray::new(width as i32, vec![7_u8; width * count].into(), None)) as ArrayRef
    };
    let view = |text: &[Option<String>]| Arc::new(StringViewArray::from_iter(text.iter())) as ArrayRef;
    let same = |columns: Vec<ArrayRef>| (columns.clone(), columns);
    let (given, held) = match kind {
        0 => same(vec![number]),
        1 => same(vec![number, Arc::new(Int64Array::from_iter_values(0..count as i64)), wide(4)]),
        2 => same(vec![number, wide(96)]),
        3 => {
            let (first, second) = (text(random), text(random));
            let plain = |text: &[Option<String>]| Arc::new(StringArray::from_iter(text.iter())) as ArrayRef;
            (vec![plain(&first), plain(&second)], vec![view(&first), view(&second)])
        }
        _ => {
            let words = text(random);
            let flags =
                BooleanArray::from_iter((0..count).map(|_| random.random_bool(0.9).then(|| random.random::<bool>())));
            let flags = Arc::new(flags) as ArrayRef;
            let dictionary: DictionaryArray<Int32Type> = words.iter().map(|word| word.as_deref()).collect();
            (vec![Arc::clone(&flags), number.clone(), Arc::new(dictionary)], vec![flags, number, view(&words)])
        }
    };
    (batch(given), batch(held))
}

pub(super) fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let field = |(i, column): (usize, &ArrayRef)| {
        let is_fixed = matches!(column.data_type(), DataType::FixedSizeBinary(_));
        Field::new(format!("c{i}"), column.data_type().clone(), !is_fixed)
    };
    let fields: Vec<_> = columns.iter().enumerate().map(field).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// The partition of each row: evenly, most to few, or all to one.
pub(super) fn destinations(random: &mut StdRng, skew: usize, rows: usize, partitions: usize) -> Destinations {
    let one = |random: &mut StdRng| match skew {
        0 => random.random_range(0..partitions),
        1 => (partitions as f64).powf(random.random::<f64>()) as usize % partitions,
        _ => partitions / 2,
    };
    Destinations::One((0..rows).map(|_| one(random) as u32).collect())
}

/// What a receiver has.
#[derive(Default)]
struct Received {
    batches: Vec<RecordBatch>,
    expected: Vec<RecordBatch>,
    /// The pages since the last flush.
    pages: Vec<(usize, usize, usize)>,
}

impl Received {
    fn take(&mut self, page: &Page) {
        self.pages.push((page.rows(), page.capacity(), page.free()));
        // Copied, so that the page goes back to its pool.
        let batch = page.batch().unwrap();
        batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
        let all = UInt32Array::from_iter_values(0..batch.num_rows() as u32);
        let copied: Vec<ArrayRef> = take_record_batch(&batch, &all).unwrap().columns().iter().map(deep).collect();
        self.batches.push(RecordBatch::try_new(batch.schema(), copied).unwrap());
    }

    fn check(&self, schema: &SchemaRef) {
        let together = |batches: &[RecordBatch]| concat_batches(schema, batches).unwrap();
        assert!(together(&self.batches) == together(&self.expected), "the rows of a partition");
    }
}

/// At a flush, all pages of a partition but the last are full: no row of so many bytes would have found room.
pub(super) fn full_but_the_last(pages: &[(usize, usize, usize)], longest: usize) {
    for (rows, capacity, free) in &pages[..pages.len().saturating_sub(1)] {
        assert!(rows == capacity || *free < longest, "{rows} of {capacity} rows, {free} bytes free");
    }
}

/// A copy that shares no buffer.
pub(super) fn deep(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => {
            let views: StringViewArray = column.as_any().downcast_ref::<StringViewArray>().unwrap().iter().collect();
            Arc::new(views)
        }
        _ => Arc::clone(column),
    }
}

/// Takes pages, and goes on until all is done; returns whether there was no room in between.
fn finish(outbox: &mut Outbox, mut progress: Progress, full: &mut Vec<(u32, Page)>, received: &mut [Received]) -> bool {
    let was_full = progress == Progress::NoRoom;
    loop {
        full.drain(..).for_each(|(partition, page)| received[partition as usize].take(&page));
        if progress == Progress::Done {
            return was_full;
        }
        progress = outbox.resume(full).unwrap();
        assert!(progress == Progress::Done || !full.is_empty(), "no room though pages came back");
    }
}

#[test]
fn each_row_once_in_its_partition_and_pages_are_full() {
    let (mut short, mut short_seals) = (0, 0);
    for seed in 0..300 {
        let mut random = StdRng::seed_from_u64(seed);
        let partitions = [1, 2, 3, 32, 1000, 1024][random.random_range(0..6)];
        let (kind, skew) = (random.random_range(0..5), random.random_range(0..3));
        let held = rows(&mut random, kind, 0).1.schema();
        let layout = Arc::new(RowLayout::new(Arc::clone(&held)).unwrap());
        // Sometimes so little that pages must come back first.
        let is_tight = partitions <= 32 && random.random_bool(0.5);
        let pool = Pool::new(if is_tight { (partitions + 1) * (8 << 10) } else { 1 << 30 });
        let largest = if is_tight { 4 << 10 } else { [4 << 10, 64 << 10][random.random_range(0..2)] };
        let walk = match seed % 3 {
            0 => Walk::Hybrid,
            // From a row in each buffer to more than a batch has.
            _ => Walk::Buffered { bytes: [0, 10_000, 1 << 20][random.random_range(0..3)] },
        };
        let sizes = Sizes { smallest: 4 << 10, largest };
        let mut outbox = Outbox::new(Arc::clone(&layout), pool.clone(), partitions, sizes, walk).unwrap();
        let mut received: Vec<Received> = (0..partitions).map(|_| Received::default()).collect();
        let mut was_full = false;
        for _ in 0..random.random_range(1..6) {
            let count = random.random_range(0..3000);
            let (given, same) = rows(&mut random, kind, count);
            let kept: Vec<u32> = (0..count as u32).filter(|_| random.random_bool(0.6)).collect();
            let selected = random.random_bool(0.5).then_some(&kept[..]);
            let moved = selected.map_or(count, <[u32]>::len);
            let to = destinations(&mut random, skew, moved, partitions);
            let Destinations::One(of) = &to else { panic!("one each") };
            for (partition, received) in received.iter_mut().enumerate() {
                let mine = (0..moved).filter(|number| of[*number] as usize == partition);
                let mine = mine.map(|number| selected.map_or(number as u32, |rows| rows[number]));
                received.expected.push(take_record_batch(&same, &UInt32Array::from_iter_values(mine)).unwrap());
            }
            let mut full = Vec::new();
            let progress = outbox.scatter(&given, selected, to.clone(), &mut full).unwrap();
            let is_short = finish(&mut outbox, progress, &mut full, &mut received);
            short += u32::from(is_short);
            was_full |= is_short;
            if random.random_bool(0.4) {
                let progress = outbox.seal(&mut full).unwrap();
                let is_short = finish(&mut outbox, progress, &mut full, &mut received);
                short_seals += u32::from(is_short);
                was_full |= is_short;
                assert!(outbox.is_empty());
                let pages = received.iter_mut().map(|received| std::mem::take(&mut received.pages));
                pages.filter(|_| !was_full).for_each(|pages| full_but_the_last(&pages, 8010));
                was_full = false;
            }
        }
        let mut last = Vec::new();
        let progress = outbox.seal(&mut last).unwrap();
        finish(&mut outbox, progress, &mut last, &mut received);
        received.iter().for_each(|received| received.check(&held));
        drop(outbox);
        assert_eq!(pool.used(), 0, "seed {seed}: every page went back");
    }
    assert!(short > 20 && short_seals > 5, "{short} batches and {short_seals} seals had to wait for room");
}

#[test]
fn rows_that_go_to_several_partitions_get_to_each_whatever_rows_are_selected() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(10..16));
    let schema = Arc::new(Schema::new(vec![Field::new("c0", DataType::Int64, false)]));
    let layout = Arc::new(RowLayout::new(schema).unwrap());
    for walk in [Walk::Hybrid, Walk::Buffered { bytes: 1000 }] {
        for selected in [&[0, 3][..], &[0, 1, 2, 3, 4, 5], &[5], &[1, 2]] {
            let sizes = Sizes { smallest: 4 << 10, largest: 4 << 10 };
            let mut outbox = Outbox::new(Arc::clone(&layout), Pool::new(1 << 20), 3, sizes, walk).unwrap();
            let to = Destinations::Lines { line: vec![0; selected.len()], lines: vec![vec![0, 2]] };
            let mut pages = Vec::new();
            outbox.scatter(&batch(vec![Arc::clone(&numbers)]), Some(selected), to, &mut pages).unwrap();
            outbox.seal(&mut pages).unwrap();
            let expected = Int64Array::from_iter_values(selected.iter().map(|row| i64::from(*row) + 10));
            let found: Vec<_> = pages.iter().map(|(partition, page)| (*partition, page.batch().unwrap())).collect();
            assert_eq!(found.iter().map(|(partition, _)| *partition).collect::<Vec<_>>(), [0, 2]);
            found.iter().for_each(|(_, batch)| assert_eq!(batch.column(0).as_primitive::<Int64Type>(), &expected));
        }
    }
}

#[test]
fn rows_behind_one_of_a_page_of_its_own_share_pages_as_before() {
    let long = "x".repeat(200_000);
    let texts = (0..500).map(|row| if row % 2 == 0 { long.as_str() } else { "short" });
    let schema = Arc::new(Schema::new(vec![Field::new("c0", DataType::Utf8View, true)]));
    let layout = Arc::new(RowLayout::new(schema).unwrap());
    let pool = Pool::new(1 << 30);
    let sizes = Sizes { smallest: 4 << 10, largest: 128 << 10 };
    let mut outbox = Outbox::new(layout, pool.clone(), 2, sizes, Walk::Hybrid).unwrap();
    let mut pages = Vec::new();
    // The long ones to one partition, but for a few; the short ones to the other.
    let to = (0..500).map(|row| if row % 100 == 0 { 1 } else { row % 2 }).collect();
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    outbox.scatter(&batch(vec![texts]), None, Destinations::One(to), &mut pages).unwrap();
    outbox.seal(&mut pages).unwrap();
    let of_short = pages.iter().filter(|(partition, page)| *partition == 1 && page.size() < 200_000);
    assert!(of_short.count() <= 8, "five long rows, and short ones between them");
}

#[test]
fn a_row_larger_than_a_page_gets_one_of_its_own() {
    let long = "x".repeat(100_000);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["short", long.as_str(), "short again"]));
    let schema = Arc::new(Schema::new(vec![Field::new("c0", DataType::Utf8View, true)]));
    let layout = Arc::new(RowLayout::new(schema).unwrap());
    let rows = batch(vec![texts]);
    for walk in [Walk::Hybrid, Walk::Buffered { bytes: 1000 }] {
        let sizes = Sizes { smallest: 4 << 10, largest: 4 << 10 };
        let mut outbox = Outbox::new(Arc::clone(&layout), Pool::new(1 << 20), 1, sizes, walk).unwrap();
        let mut pages = Vec::new();
        let to = Destinations::One(vec![0; 3]);
        assert_eq!(outbox.scatter(&rows, None, to, &mut pages).unwrap(), Progress::Done);
        assert_eq!(outbox.seal(&mut pages).unwrap(), Progress::Done);
        let rows: Vec<usize> = pages.iter().map(|(_, page)| page.rows()).collect();
        assert_eq!(rows, [1, 1, 1]);
        assert!(pages[1].1.size() > 100_000 && pages[2].1.size() == 4 << 10);
    }
}
