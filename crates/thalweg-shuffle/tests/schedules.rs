//! Every variant in random orders of its threads (shuttle), with a pool so tight that senders wait for pages to come back; `make
//! shuttle` runs it. Each row comes once, in its partition, in its sender's order, and all pages but a partition's last are full.
#![cfg(shuttle)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_array::{
    Array, ArrayRef, FixedSizeBinaryArray, Int64Array, RecordBatch, StringViewArray, cast::AsArray, types::Int64Type,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use shuttle::{
    Config, Runner,
    rand::{Rng, thread_rng},
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
    sync::{Barrier, Condvar, Mutex},
    thread,
};
use thalweg_core::Result;
use thalweg_memory::{page::layout::RowLayout, pool::Pool};
use thalweg_shuffle::{
    route::Destinations,
    scatter::{
        Sizes,
        buffered::Buffers,
        manager::{Filled, Outlet},
        variant::{Setup, Variant},
        work::{Morsel, Scatter, Work, all_rows, no_route},
    },
};

const PAGE: usize = 4 << 10;
const PARTITIONS: usize = 2;
const SENDERS: i64 = 1 << 20;
/// Four or five rows fill a page.
const WIDE: usize = 700;
const LONGEST_TEXT: i64 = 300;

/// All columns of a row follow from its number.
fn text(number: i64) -> Option<String> {
    let letter = char::from(b'a' + (number % 26) as u8);
    (number % 7 != 0).then(|| letter.to_string().repeat((number * 37 % (LONGEST_TEXT + 1)) as usize))
}

fn wide(number: i64) -> [u8; WIDE] {
    [number as u8; WIDE]
}

fn schema() -> SchemaRef {
    let number = Field::new("number", DataType::Int64, false);
    let wide = Field::new("wide", DataType::FixedSizeBinary(WIDE as i32), false);
    Arc::new(Schema::new(vec![number, wide, Field::new("text", DataType::Utf8View, true)]))
}

fn batch(numbers: &[i64]) -> RecordBatch {
    let wide: Vec<u8> = numbers.iter().flat_map(|number| wide(*number)).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(numbers.to_vec())),
        Arc::new(FixedSizeBinaryArray::new(WIDE as i32, wide.into(), None)),
        Arc::new(StringViewArray::from_iter(numbers.iter().map(|number| text(*number)))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// When a page goes back to the pool.
#[derive(Clone, Copy, Debug)]
enum Back {
    /// When another thread has read it.
    FromAThread,
    /// When a sender waits.
    WhenAsked,
}

/// A page's rows.
struct Received {
    number: usize,
    rows: Vec<i64>,
    is_full: bool,
}

struct Receiver {
    back: Back,
    pool: Pool,
    inbox: Mutex<Inbox>,
    came: Condvar,
    received: Mutex<[Vec<Received>; PARTITIONS]>,
    /// How often a sender waited, in all schedules.
    waits: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Inbox {
    pages: Vec<Filled>,
    is_closed: bool,
}

impl Receiver {
    /// Copies a page's rows, and gives it back.
    fn read(&self, filled: Filled) {
        let Filled { partition, number, page } = filled;
        let batch = page.batch().unwrap();
        let rows = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        let (wides, texts) = (batch.column(1).as_fixed_size_binary(), batch.column(2).as_string_view());
        for (row, number) in rows.iter().enumerate() {
            assert_eq!(wides.value(row), wide(*number), "row {number:#x} was written before its page was passed on");
            assert_eq!(texts.is_valid(row).then(|| texts.value(row)), text(*number).as_deref(), "row {number:#x}");
        }
        let is_full = page.rows() == page.capacity() || page.free() < LONGEST_TEXT as usize;
        self.received.lock().unwrap()[partition as usize].push(Received { number, rows, is_full });
    }

    /// Reads pages until there will be no more.
    fn serve(&self) {
        loop {
            let mut inbox = self.inbox.lock().unwrap();
            while inbox.pages.is_empty() && !inbox.is_closed {
                inbox = self.came.wait(inbox).unwrap();
            }
            let Some(filled) = inbox.pages.pop() else { return };
            drop(inbox);
            self.read(filled);
        }
    }

    /// Ends [`Receiver::serve`], when all was read.
    fn close(&self) {
        self.inbox.lock().unwrap().is_closed = true;
        self.came.notify_all();
    }
}

impl Outlet for Receiver {
    fn take(&self, filled: Filled) -> Result<()> {
        self.inbox.lock().unwrap().pages.push(filled);
        self.came.notify_all();
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        match self.back {
            Back::WhenAsked => {
                let pages = std::mem::take(&mut self.inbox.lock().unwrap().pages);
                if pages.is_empty() {
                    thread::yield_now();
                }
                pages.into_iter().for_each(|page| self.read(page));
            }
            // Sleeps until a page comes back: where none does, shuttle finds that all threads sleep.
            Back::FromAThread => {
                let free = Arc::new((Mutex::new(false), Condvar::new()));
                let waker = Arc::clone(&free);
                self.pool.when_free(move || {
                    *waker.0.lock().unwrap() = true;
                    waker.1.notify_all();
                });
                let mut is_free = free.0.lock().unwrap();
                while !*is_free && self.pool.used() + PAGE > self.pool.budget() {
                    is_free = free.1.wait(is_free).unwrap();
                }
            }
        }
        Ok(())
    }
}

/// All steps of a work, on threads of shuttle, while the receiver has one of its own.
fn fork_join(scatter: &mut dyn Scatter, threads: usize, work: &Work<'_>, receiver: &Receiver) {
    let barrier = Barrier::new(threads);
    let shared = &*scatter;
    let run = |thread: usize| {
        for step in 0..shared.steps(work) {
            shared.step(step, thread, work, receiver).unwrap();
            barrier.wait();
        }
    };
    receiver.inbox.lock().unwrap().is_closed = false;
    thread::scope(|scope| {
        if let Back::FromAThread = receiver.back {
            scope.spawn(|| receiver.serve());
        }
        let senders: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        receiver.close();
    });
    // What nobody asked back.
    receiver.serve();
    scatter.settle();
}

/// One schedule: batches that stay in open pages and buffers, a flush, and a flush of what comes behind it.
fn schedule(variant: Variant, threads: usize, back: Back, waits: &Arc<AtomicUsize>) {
    let layout = Arc::new(RowLayout::new(schema()).unwrap());
    let setup = |pool| Setup {
        layout: Arc::clone(&layout),
        pool,
        partitions: PARTITIONS,
        threads,
        sizes: Sizes { smallest: PAGE, largest: PAGE },
        buffers: Buffers { bytes: 0, past_caches: false },
    };
    // It plans all pages before it writes one, and is refused less.
    let least = if variant == Variant::Radix { 1 << 20 } else { variant.least_memory(&setup(Pool::new(0))) };
    let pool = Pool::new(least);
    let mut scatter = variant.make(&setup(pool.clone())).unwrap();
    let receiver = Receiver {
        back,
        pool: pool.clone(),
        inbox: Mutex::default(),
        came: Condvar::new(),
        received: Mutex::default(),
        waits: Arc::clone(waits),
    };
    let mut expected: BTreeMap<(usize, i64), Vec<i64>> = BTreeMap::new();
    let mut kept: Vec<Vec<Morsel>> = vec![Vec::new(); threads];
    let mut sent = vec![0; threads];
    let mut first_page = [0; PARTITIONS];
    for is_flush in [false, true, true] {
        for (sender, morsels) in kept.iter_mut().enumerate() {
            for _ in 0..thread_rng().gen_range(1..3) {
                let count = thread_rng().gen_range(1..8);
                let numbers: Vec<i64> =
                    (sent[sender]..sent[sender] + count).map(|n| sender as i64 * SENDERS + n).collect();
                sent[sender] += count;
                let to: Vec<u32> = numbers.iter().map(|_| thread_rng().gen_range(0..PARTITIONS as u32)).collect();
                for (number, partition) in numbers.iter().zip(&to) {
                    expected.entry((*partition as usize, sender as i64)).or_default().push(*number);
                }
                let destinations = Some(Destinations::One(to));
                morsels.push(Morsel { batch: batch(&numbers), selected: None, destinations });
            }
        }
        if scatter.materializes() && !is_flush {
            continue;
        }
        let senders = std::mem::replace(&mut kept, vec![Vec::new(); threads]);
        let all = all_rows(&senders);
        let work = Work::new(&layout, &senders, &no_route, &all, is_flush);
        fork_join(scatter.as_mut(), threads, &work, &receiver);
        if is_flush {
            check(&receiver, &mut expected, &mut first_page);
        }
    }
    drop(scatter);
    assert_eq!(pool.used(), 0, "every page went back");
}

/// What came since the last flush is what was sent.
fn check(receiver: &Receiver, expected: &mut BTreeMap<(usize, i64), Vec<i64>>, first_page: &mut [usize; PARTITIONS]) {
    let received = std::mem::take(&mut *receiver.received.lock().unwrap());
    let mut found: BTreeMap<(usize, i64), Vec<i64>> = BTreeMap::new();
    for (partition, mut pages) in received.into_iter().enumerate() {
        pages.sort_by_key(|page| page.number);
        let numbers: Vec<usize> = pages.iter().map(|page| page.number).collect();
        let first = first_page[partition];
        assert_eq!(numbers, (first..first + pages.len()).collect::<Vec<_>>(), "each page of {partition} once");
        first_page[partition] += pages.len();
        let last = pages.len().saturating_sub(1);
        assert!(pages[..last].iter().all(|page| page.is_full), "a page of {partition} before the last is not full");
        for number in pages.iter().flat_map(|page| &page.rows) {
            found.entry((partition, number / SENDERS)).or_default().push(*number);
        }
    }
    assert_eq!(found, std::mem::take(expected), "each row once, in its partition and its sender's order");
}

/// Random walks, and walks in which threads have priorities: each finds what the other rarely does.
fn all_variants(back: Back) {
    for variant in Variant::ALL {
        for threads in [2, 3] {
            let waits = Arc::new(AtomicUsize::new(0));
            // Printed if it fails; shuttle adds the schedule.
            println!("{variant}, {threads} threads, pages come back {back:?}");
            let mut config = Config::new();
            config.stack_size = 1 << 18;
            let schedulers: [Box<dyn Scheduler + Send>; 2] =
                [Box::new(RandomScheduler::new_from_seed(1, 100)), Box::new(PctScheduler::new_from_seed(2, 3, 100))];
            for scheduler in schedulers {
                let waits = Arc::clone(&waits);
                let runner = Runner::new(scheduler, config.clone());
                runner.run(move || schedule(variant, threads, back, &waits));
            }
            let waits = waits.load(Ordering::Relaxed);
            println!("senders waited {waits} times");
            assert!(waits > 0 || variant == Variant::Radix, "{variant}: no sender waited for a page");
        }
    }
}

#[test]
fn no_row_is_lost_where_pages_come_back_from_another_thread() {
    all_variants(Back::FromAThread);
}

#[test]
fn no_row_is_lost_where_pages_come_back_when_a_sender_waits() {
    all_variants(Back::WhenAsked);
}
