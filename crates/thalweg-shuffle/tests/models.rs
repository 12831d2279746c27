//! What threads do when a partition's page is full, in all orders that there are (loom); `make loom` runs it.
#![cfg(loom)]

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema};
use loom::{sync::Mutex, thread};
use thalweg_core::Result;
use thalweg_memory::{
    page::{layout::RowLayout, rows::Picked, source::Source},
    pool::Pool,
};
use thalweg_shuffle::scatter::{
    Sizes,
    manager::{Agreement, Filled, Outlet, PageManager},
};

struct Keeps(Mutex<Vec<Filled>>);

impl Outlet for Keeps {
    fn take(&self, filled: Filled) -> Result<()> {
        self.0.lock().unwrap().push(filled);
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        panic!("the pool has room")
    }
}

fn put(pages: &PageManager, layout: &RowLayout, values: &[i64], outlet: &dyn Outlet) {
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    let batch = RecordBatch::try_from_iter([("v", column)]).unwrap();
    let source = Source::new(layout, &batch).unwrap();
    let numbers: Vec<u32> = (0..values.len() as u32).collect();
    pages.put(0, Picked { source: &source, rows: &numbers }, outlet).unwrap();
}

fn model(agreement: Agreement) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let field = Field::new("v", DataType::Int64, true);
        let layout = Arc::new(RowLayout::new(Arc::new(Schema::new(vec![field]))).unwrap());
        let sizes = Sizes { smallest: 4 << 10, largest: 4 << 10 };
        let pages = PageManager::new(Arc::clone(&layout), Pool::new(1 << 20), 1, sizes, agreement);
        let (pages, outlet) = (loom::sync::Arc::new(pages), loom::sync::Arc::new(Keeps(Mutex::new(Vec::new()))));
        let room = layout.capacity(4 << 10, 0);
        // One slot is left, and both threads want two.
        put(&pages, &layout, &vec![0; room - 1], &*outlet);
        let other = thread::spawn({
            let (pages, layout, outlet) = (pages.clone(), Arc::clone(&layout), outlet.clone());
            move || put(&pages, &layout, &[1, 2], &*outlet)
        });
        put(&pages, &layout, &[3, 4], &*outlet);
        other.join().unwrap();
        pages.seal(0, &*outlet).unwrap();
        let mut filled = std::mem::take(&mut *outlet.0.lock().unwrap());
        filled.sort_by_key(|filled| filled.number);
        let numbers: Vec<usize> = filled.iter().map(|filled| filled.number).collect();
        assert_eq!(numbers, [0, 1], "two pages, each once");
        assert_eq!(filled[0].page.rows(), room, "the first is full");
        let values: Vec<i64> = filled
            .iter()
            .flat_map(|filled| filled.page.batch().unwrap().column(0).as_primitive::<Int64Type>().values().to_vec())
            .skip(room - 1)
            .collect();
        let place = |value: i64| values.iter().position(|other| *other == value).unwrap();
        assert_eq!(values.len(), 4, "{values:?}");
        assert!(place(1) < place(2) && place(3) < place(4), "each sender's order: {values:?}");
    });
}

#[test]
fn no_row_is_lost_where_the_next_page_is_opened_without_a_lock() {
    model(Agreement::LockFree);
}

#[test]
fn no_row_is_lost_where_slots_are_reserved_under_a_lock() {
    model(Agreement::Lock);
}
