//! What goes into pages comes out of them, and nothing that comes from elsewhere is trusted.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray, Float64Array,
    Int8Array, Int16Array, Int32Array, LargeStringArray, RecordBatch, StringArray, StringViewArray,
    TimestampMicrosecondArray, builder::BinaryViewBuilder, types::Int32Type,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    Page,
    layout::RowLayout,
    rows::Picked,
    source::Source,
    writer::{Growth, PageWriter},
};
use crate::pool::Pool;

/// A batch of all shapes, and the same values in the types that pages hold.
fn batches(random: &mut StdRng, rows: usize, longest: usize) -> (RecordBatch, RecordBatch) {
    let texts: Vec<Option<String>> = (0..rows)
        .map(|row| {
            let length =
                if random.random_bool(0.5) { random.random_range(0..=12) } else { random.random_range(0..=longest) };
            let text = format!("{row}é").chars().cycle().take(length).collect();
            random.random_bool(0.8).then_some(text)
        })
        .collect();
    let whole: Vec<Option<i32>> = (0..rows).map(|_| random.random_bool(0.9).then(|| random.random())).collect();
    let flags: Vec<Option<bool>> = (0..rows).map(|_| random.random_bool(0.9).then(|| random.random())).collect();
    let text = || texts.iter().map(|text| text.as_deref());
    let bytes: Vec<Option<&[u8]>> = text().map(|text| Some(text?.as_bytes())).collect();
    let same: Vec<(&str, ArrayRef)> = vec![
        ("int", Arc::new(Int32Array::from(whole.clone()))),
        ("byte", Arc::new(Int8Array::from_iter_values((0..rows).map(|row| row as i8)))),
        ("short", Arc::new(Int16Array::from_iter_values((0..rows).map(|row| row as i16)))),
        ("time", Arc::new(TimestampMicrosecondArray::from_iter(whole.iter().map(|v| v.map(i64::from)))) as ArrayRef),
        ("float", Arc::new(Float64Array::from_iter(whole.iter().map(|v| v.map(f64::from))))),
        ("decimal", Arc::new(Decimal128Array::from_iter(whole.iter().map(|v| v.map(i128::from))))),
        ("flag", Arc::new(BooleanArray::from(flags))),
        ("three", Arc::new(FixedSizeBinaryArray::new(3, b"abc".repeat(rows).into(), None))),
    ];
    let dictionary: DictionaryArray<Int32Type> = text().collect();
    let given: Vec<(&str, ArrayRef)> = vec![
        ("utf8", Arc::new(StringArray::from_iter(text()))),
        ("large", Arc::new(LargeStringArray::from_iter(text()))),
        ("view", Arc::new(StringViewArray::from_iter(text()))),
        ("dictionary", Arc::new(dictionary)),
        ("binary", Arc::new(BinaryArray::from_iter(bytes.iter()))),
    ];
    let views = || Arc::new(StringViewArray::from_iter(text())) as ArrayRef;
    let mut binary = BinaryViewBuilder::new();
    bytes.iter().for_each(|bytes| binary.append_option(*bytes));
    let held = vec![
        ("utf8", views()),
        ("large", views()),
        ("view", views()),
        ("dictionary", views()),
        ("binary", Arc::new(binary.finish()) as ArrayRef),
    ];
    let batch = |columns: Vec<(&str, ArrayRef)>| {
        let all = same.iter().cloned().chain(columns);
        let column = |(name, array): (&'static str, ArrayRef)| {
            let is_nullable = !["byte", "short", "three"].contains(&name);
            (Field::new(name, array.data_type().clone(), is_nullable), array)
        };
        let (fields, columns): (Vec<_>, Vec<_>) =
            all.map(|(name, array)| column((name.to_string().leak(), array))).unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    };
    (batch(given), batch(held))
}

/// Puts rows into pages one after the other.
fn fill(layout: &Arc<RowLayout>, pool: &Pool, growth: &mut Growth, batch: &RecordBatch, rows: &[u32]) -> Vec<Page> {
    let source = Source::new(layout, batch).unwrap();
    let (mut pages, mut rest) = (Vec::new(), rows);
    while let Some(first) = rest.first() {
        let mut writer = growth.open(layout, pool, source.tail(*first as usize)).unwrap().unwrap();
        // By pieces, as batches come.
        loop {
            let piece = &rest[..rest.len().min(37)];
            let taken = writer.append(&Picked { source: &source, rows: piece });
            rest = &rest[taken..];
            if taken < piece.len() || rest.is_empty() {
                break;
            }
        }
        assert!(writer.rows() > 0, "an empty page takes a row");
        growth.closed(layout, writer.rows(), writer.tail_bytes(), !rest.is_empty());
        pages.push(writer.finish());
    }
    pages
}

#[test]
fn rows_come_out_as_they_went_in_whatever_their_size() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed);
        let longest = [0, 20, 300, 20_000][seed as usize % 4];
        let rows = random.random_range(0..600);
        let (given, held) = batches(&mut random, rows, longest);
        let layout = Arc::new(RowLayout::new(held.schema()).unwrap());
        let pool = Pool::new(256 << 20);
        let mut growth = Growth::new(4 << 10, [4 << 10, 64 << 10][random.random_range(0..2)]);
        let rows: Vec<u32> = (0..given.num_rows() as u32).filter(|_| random.random_bool(0.7)).collect();
        let pages = fill(&layout, &pool, &mut growth, &given, &rows);
        let mut from = 0;
        for page in &pages {
            let batch = page.batch().unwrap();
            let numbers = arrow_array::UInt32Array::from(rows[from..from + page.rows()].to_vec());
            let expected = arrow_select::take::take_record_batch(&held, &numbers).unwrap();
            assert_eq!(batch, expected, "seed {seed}");
            batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
            let read = Page::read(&layout, page.bytes(), &pool).unwrap().unwrap();
            assert_eq!(read.batch().unwrap(), expected, "seed {seed}, read");
            from += page.rows();
        }
        assert_eq!(from, rows.len());
        let batches: Vec<_> = pages.iter().map(|page| page.batch().unwrap()).collect();
        drop(pages);
        assert!(batches.is_empty() || pool.used() > 0, "a batch keeps its page");
        drop(batches);
        assert_eq!(pool.used(), 0, "and gives it back");
    }
}

#[test]
fn a_page_is_full_when_the_next_row_does_not_fit() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int32, false),
        Field::new("s", DataType::Utf8View, false),
    ]));
    let layout = Arc::new(RowLayout::new(schema).unwrap());
    let pool = Pool::new(16 << 20);
    let text = "a text of twenty-two b".to_string();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from_iter_values(0..1000)), Arc::new(StringArray::from(vec![text.as_str(); 1000]))];
    let given = Schema::new(vec![Field::new("k", DataType::Int32, false), Field::new("s", DataType::Utf8, false)]);
    let batch = RecordBatch::try_new(Arc::new(given), columns).unwrap();
    let source = Source::new(&layout, &batch).unwrap();
    let rows: Vec<u32> = (0..1000).collect();
    let mut writer = PageWriter::new(Arc::clone(&layout), pool.take(4096).unwrap(), 22, 22).unwrap();
    let taken = writer.append(&Picked { source: &source, rows: &rows });
    // 64 for the header, 42 a row, and less than two lines that are not filled.
    assert!(((4096 - 64 - 128) / 42..=(4096 - 64) / 42).contains(&taken), "{taken}");
    assert_eq!(writer.append(&Picked { source: &source, rows: &rows[taken..] }), 0);
    assert_eq!(writer.finish().rows(), taken);
}

#[test]
fn what_a_page_cannot_hold_is_refused() {
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int32, false)]));
    let layout = RowLayout::new(schema).unwrap();
    let with_null: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let other: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1]));
    for column in [with_null, other] {
        let batch = RecordBatch::try_from_iter([("k", column)]).unwrap();
        assert!(Source::new(&layout, &batch).is_err());
    }
    assert_eq!(DataType::Timestamp(TimeUnit::Microsecond, None).primitive_width(), Some(8));
}

#[test]
fn nothing_that_comes_from_elsewhere_is_trusted() {
    let mut random = StdRng::seed_from_u64(3);
    let (given, held) = batches(&mut random, 60, 100);
    let layout = Arc::new(RowLayout::new(held.schema()).unwrap());
    let pool = Pool::new(64 << 20);
    let rows: Vec<u32> = (0..60).collect();
    let pages = fill(&layout, &pool, &mut Growth::new(64 << 10, 64 << 10), &given, &rows);
    let [page] = &pages[..] else { panic!("one page is enough") };
    let sound = page.bytes().to_vec();
    let (mut refused, mut read) = (0, 0);
    for round in 0..20_000 {
        let mut bytes = sound.clone();
        match round % 4 {
            0 => bytes.truncate(random.random_range(0..bytes.len())),
            1 => bytes[random.random_range(0..64)] = random.random(),
            2 => {
                // Views, most of all.
                let at = random.random_range(64..layout.bytes(page.capacity()));
                bytes[at] = random.random();
            }
            _ => (0..20).for_each(|_| {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }),
        }
        match Page::read(&layout, &bytes, &pool) {
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("cannot be read"), "{error}");
            }
            Ok(page) => {
                read += 1;
                // What was taken may be read without a fault.
                let batch = page.unwrap().batch().unwrap();
                batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
            }
        }
    }
    assert!(refused > 5_000 && read > 500, "{refused} refused, {read} read");
}
