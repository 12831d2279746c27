//! Does reading a page that came from elsewhere ever fault? `make fuzz` runs it.
//!
//! ```text
//! input    u16 columns │ u8 rows │ changes of 8 bytes each
//! change   u8 what │ u8 - │ u16 where │ u32 new value
//! ```
#![no_main]

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Int8Array, Int32Array, RecordBatch,
    RecordBatchOptions, StringViewArray, TimestampMicrosecondArray, builder::BinaryViewBuilder, cast::AsArray,
};
use arrow_schema::{DataType, Field, Schema};
use libfuzzer_sys::{Corpus, fuzz_target};
use thalweg_memory::{
    page::{Page, layout::RowLayout, rows::Picked, source::Source, writer::PageWriter},
    pool::Pool,
};

/// Texts of up to 12 bytes lie in their views, longer ones at the page's end.
fn text(row: i32) -> Option<String> {
    (row % 5 != 3).then(|| "väl".chars().cycle().take((row * 7 % 40) as usize).collect())
}

/// One of the columns that a schema may have, and whether it is nullable.
fn column(number: usize, rows: i32) -> (ArrayRef, bool) {
    let all = 0..rows;
    let known = |row: i32| (row % 3 != 1).then_some(row);
    let binary = |texts: &mut dyn Iterator<Item = Option<String>>| {
        let mut builder = BinaryViewBuilder::new();
        texts.for_each(|text| builder.append_option(text));
        builder.finish()
    };
    let fixed = |width: usize| {
        let bytes = vec![7_u8; width * rows as usize];
        FixedSizeBinaryArray::try_new_with_len(width as i32, bytes.into(), None, rows as usize).unwrap()
    };
    match number {
        0 => (Arc::new(StringViewArray::from_iter(all.map(text))), true),
        1 => (Arc::new(StringViewArray::from_iter_values(all.map(|row| text(row).unwrap_or_default()))), false),
        2 => (Arc::new(binary(&mut all.map(text))), true),
        3 => (Arc::new(BooleanArray::from_iter(all.map(|row| known(row).map(|row| row % 2 == 0)))), true),
        4 => (Arc::new(BooleanArray::from_iter(all.map(|row| Some(row % 2 == 0)))), false),
        5 => (Arc::new(Int32Array::from_iter(all.map(known))), true),
        6 => (Arc::new(Int8Array::from_iter_values(all.map(|row| row as i8))), false),
        7 => (Arc::new(TimestampMicrosecondArray::from_iter(all.map(|row| known(row).map(i64::from)))), true),
        8 => (Arc::new(Decimal128Array::from_iter(all.map(|row| known(row).map(i128::from)))), true),
        9 => (Arc::new(fixed(3)), false),
        _ => (Arc::new(fixed(0)), false),
    }
}

/// A sound page of the columns that these bits say.
fn sound(columns: u16, rows: i32) -> (Arc<RowLayout>, Vec<u8>) {
    let columns = (0..11).filter(|number| columns >> number & 1 == 1).map(|number| column(number, rows));
    let name = |(number, (array, is_nullable)): (usize, (ArrayRef, bool))| {
        (Field::new(format!("c{number}"), array.data_type().clone(), is_nullable), array)
    };
    let (fields, columns): (Vec<_>, Vec<_>) = columns.enumerate().map(name).unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap();
    let layout = Arc::new(RowLayout::new(batch.schema()).unwrap());
    let source = Source::new(&layout, &batch).unwrap();
    let rows: Vec<u32> = (0..rows as u32).collect();
    let block = Pool::new(16 << 10).take(16 << 10).unwrap();
    let mut writer = PageWriter::new(Arc::clone(&layout), block, 20, 0).unwrap();
    writer.append(&Picked { source: &source, rows: &rows });
    (layout, writer.finish().bytes().to_vec())
}

/// Changes a byte, a word, a number of the header, or how long the page is and says it is.
fn change(page: &mut Vec<u8>, [what, _, low, high, value @ ..]: [u8; 8]) {
    let at = usize::from(u16::from_le_bytes([low, high]));
    let word = |page: &mut Vec<u8>, at: usize| page.get_mut(at..at + 4).map(|word| word.copy_from_slice(&value));
    match what % 4 {
        0 => {
            let at = at % page.len().max(1);
            page.get_mut(at..=at).map(|byte| byte[0] = value[0])
        }
        1 => word(page, at % page.len().max(1) / 4 * 4),
        2 => word(page, at % 6 * 4),
        _ => {
            page.truncate(at);
            let length = page.len() as u32;
            page.get_mut(8..12).map(|word| word.copy_from_slice(&length.to_le_bytes()))
        }
    };
}

/// Reads every value. A column of no width has as many as it says, and no byte to be read.
fn look_at(column: &dyn Array) {
    column.to_data().validate_full().unwrap();
    match column.data_type() {
        DataType::Utf8View => {
            let texts = column.as_string_view().iter().flatten();
            texts.for_each(|text| assert!(std::str::from_utf8(text.as_bytes()).is_ok(), "a text is UTF-8"));
        }
        DataType::BinaryView => {
            let values = column.as_binary_view().iter().flatten().flatten();
            std::hint::black_box(values.fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
        }
        _ => {
            let values = column.to_data().buffers().iter().flat_map(|buffer| buffer.to_vec()).collect::<Vec<u8>>();
            std::hint::black_box(values);
        }
    }
}

fuzz_target!(|input: &[u8]| -> Corpus {
    let [low, high, rows, changes @ ..] = input else { return Corpus::Reject };
    let (layout, mut page) = sound(u16::from_le_bytes([*low, *high]), i32::from(*rows) % 64);
    changes.as_chunks::<8>().0.iter().for_each(|one| change(&mut page, *one));
    // A pool of one block, so that the sanitizer sees a read behind it.
    let pool = Pool::new(page.len().next_power_of_two().max(4 << 10));
    match Page::read(&layout, &page, &pool) {
        Err(error) => assert!(error.to_string().contains("cannot be read"), "{error}"),
        Ok(read) => {
            let read = read.expect("there is room for a page");
            assert_eq!(read.bytes(), page);
            let batch = read.batch().unwrap();
            assert_eq!(batch.num_rows(), read.rows());
            batch.columns().iter().for_each(|column| look_at(column));
        }
    }
    Corpus::Keep
});
