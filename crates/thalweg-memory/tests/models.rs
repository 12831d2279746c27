//! What threads do to a page, to a pool and to an index, in all orders that there are (loom); `make loom` runs it.
#![cfg(loom)]

#[path = "models/index.rs"]
mod index;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema};
use loom::{
    sync::{
        Mutex, Notify,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use thalweg_memory::{
    page::{
        Page,
        layout::RowLayout,
        rows::{Picked, Rows},
        shared::SharedPage,
        source::Source,
        writer::Growth,
    },
    pool::Pool,
};

/// All orders with up to three points at which a thread is interrupted: more have not found more, and take a minute.
fn model(all: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(all);
}

fn layout() -> Arc<RowLayout> {
    let field = Field::new("v", DataType::Int64, true);
    Arc::new(RowLayout::new(Arc::new(Schema::new(vec![field]))).unwrap())
}

fn batch(values: Vec<i64>) -> RecordBatch {
    RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(values)) as ArrayRef)]).unwrap()
}

fn page(pool: &Pool, layout: &Arc<RowLayout>) -> SharedPage {
    Growth::new(4 << 10, 4 << 10).open_shared(layout, pool, 0).unwrap().unwrap()
}

/// Reserves and writes; what is filled goes to `filled`.
fn put(page: &SharedPage, layout: &RowLayout, values: Vec<i64>, filled: &Mutex<Vec<Page>>) -> usize {
    let batch = batch(values);
    let source = Source::new(layout, &batch).unwrap();
    let numbers: Vec<u32> = (0..batch.num_rows() as u32).collect();
    let rows = Picked { source: &source, rows: &numbers };
    let reserved = page.reserve(&rows);
    let taken = reserved.slots.as_ref().map_or(0, |slots| slots.len());
    let written = reserved.slots.and_then(|slots| slots.write(&rows.first(taken)));
    filled.lock().unwrap().extend(reserved.page.into_iter().chain(written));
    taken
}

#[test]
fn a_page_that_is_closed_meanwhile_comes_once_with_all_rows_that_were_reserved() {
    model(|| {
        let (layout, pool) = (layout(), Pool::new(1 << 20));
        let page = loom::sync::Arc::new(page(&pool, &layout));
        let filled = loom::sync::Arc::new(Mutex::new(Vec::new()));
        let writers: Vec<_> = [vec![1, 2], vec![3]]
            .into_iter()
            .map(|values| {
                let (page, layout, filled) = (page.clone(), Arc::clone(&layout), filled.clone());
                thread::spawn(move || put(&page, &layout, values, &filled))
            })
            .collect();
        filled.lock().unwrap().extend(page.close());
        let reserved: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        let filled = filled.lock().unwrap();
        assert_eq!(filled.len(), 1, "one thread has the page");
        let batch = filled[0].batch().unwrap();
        assert_eq!(batch.num_rows(), reserved);
        let mut values = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        let neighbours = values.windows(2).any(|pair| pair == [1, 2]);
        assert!(neighbours || !values.contains(&1), "what was reserved together lies together: {values:?}");
        values.sort_unstable();
        assert!([&[][..], &[3], &[1, 2], &[1, 2, 3]].contains(&&values[..]), "{values:?}");
    });
}

#[test]
fn a_page_that_runs_full_is_closed_by_one_thread() {
    model(|| {
        let (layout, pool) = (layout(), Pool::new(1 << 20));
        let page = loom::sync::Arc::new(page(&pool, &layout));
        let filled = loom::sync::Arc::new(Mutex::new(Vec::new()));
        let room = layout.capacity(4 << 10, 0);
        // All but one slot; then two threads want two each.
        assert_eq!(put(&page, &layout, vec![0; room - 1], &filled), room - 1);
        let writers: Vec<_> = [7, 8]
            .into_iter()
            .map(|value| {
                let (page, layout, filled) = (page.clone(), Arc::clone(&layout), filled.clone());
                thread::spawn(move || put(&page, &layout, vec![value, value], &filled))
            })
            .collect();
        let taken: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        assert_eq!(taken, 1);
        let filled = filled.lock().unwrap();
        assert_eq!((filled.len(), filled[0].rows()), (1, room));
    });
}

#[test]
fn who_was_refused_a_block_does_not_sleep_for_ever() {
    model(|| {
        let pool = Pool::new(4 << 10);
        let held = pool.take(4 << 10).unwrap();
        let woken = loom::sync::Arc::new(Notify::new());
        let attempts = loom::sync::Arc::new(AtomicUsize::new(0));
        let waits = thread::spawn({
            let (pool, woken, attempts) = (pool.clone(), woken.clone(), attempts.clone());
            move || {
                while pool.take(4 << 10).is_none() {
                    attempts.fetch_add(1, Ordering::Relaxed);
                    let wakes = woken.clone();
                    pool.when_free(move || wakes.notify());
                    // It may have come back before we were heard.
                    if pool.take(4 << 10).is_some() {
                        return;
                    }
                    woken.wait();
                }
            }
        });
        drop(held);
        waits.join().unwrap();
        assert!(attempts.load(Ordering::Relaxed) <= 1);
    });
}
