//! Every variant: each row exactly once, in its partition, in its sender's order; at a flush all pages but a partition's last are full.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::{concat::concat_batches, take::take_record_batch};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use thalweg_core::{Error, Result};
use thalweg_memory::{
    page::layout::RowLayout,
    pool::Pool,
    sync::{AtomicUsize, Mutex, Ordering},
};

use super::{
    Sizes,
    buffered::Buffers,
    manager::{Filled, Outlet},
    tests::{batch, deep, destinations, full_but_the_last, rows},
    variant::{Setup, Variant},
    work::{Morsel, Work, all_rows, fork_join, no_route},
};
use crate::route::Destinations;

/// Copies what comes, so that pages go back at once.
struct Copies {
    pool: Pool,
    received: Mutex<Vec<Vec<Received>>>,
}

/// A page's rows.
struct Received {
    number: usize,
    batch: RecordBatch,
    /// Its rows, for how many it has minipages, and how many bytes are free.
    fill: (usize, usize, usize),
}

impl Outlet for Copies {
    fn take(&self, filled: Filled) -> Result<()> {
        let Filled { partition, number, page } = filled;
        let fill = (page.rows(), page.capacity(), page.free());
        let batch = page.batch()?;
        batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
        let all = UInt32Array::from_iter_values(0..batch.num_rows() as u32);
        let columns: Vec<ArrayRef> = take_record_batch(&batch, &all).unwrap().columns().iter().map(deep).collect();
        let batch = RecordBatch::try_new(batch.schema(), columns).unwrap();
        self.received.lock()[partition as usize].push(Received { number, batch, fill });
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        // All that was passed on went back: what is in use is being filled.
        if self.pool.used() > self.pool.budget() / 2 {
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// With a column that says which sender a row is from, and which of its rows it is.
fn numbered(columns: &RecordBatch, sender: usize, first: usize) -> RecordBatch {
    let rows = columns.num_rows() as u64;
    let numbers = UInt64Array::from_iter_values((0..rows).map(|row| (sender as u64) << 32 | (first as u64 + row)));
    let mut all = columns.columns().to_vec();
    all.push(Arc::new(numbers));
    batch(all)
}

struct Case {
    seed: u64,
    variant: Variant,
    threads: usize,
    partitions: usize,
    kind: usize,
    skew: usize,
}

/// Each row also to the partition behind its own.
fn to_two(to: Destinations, partitions: u32) -> Destinations {
    let Destinations::One(line) = to else { return to };
    let lines = (0..partitions).map(|partition| match partitions {
        1 => vec![0],
        _ => vec![partition, (partition + 1) % partitions],
    });
    Destinations::Lines { line, lines: lines.collect() }
}

fn run(case: &Case) {
    let Case { seed, variant, threads, partitions, kind, skew } = *case;
    let mut random = StdRng::seed_from_u64(seed);
    let said = format!("seed {seed}, {variant}, {threads} threads, {partitions} partitions, kind {kind}, skew {skew}");
    let schema = numbered(&rows(&mut random, kind, 0).1, 0, 0).schema();
    let layout = Arc::new(RowLayout::new(Arc::clone(&schema)).unwrap());
    // Many small pages, or few larger ones; a pool with room for twice the pages that are open and little more, or with plenty.
    let largest = [4 << 10, 16 << 10][random.random_range(0..2)];
    let least = largest * partitions * threads * 2;
    let budget = if random.random_bool(0.5) && variant != Variant::Radix { least + (1 << 20) } else { 1 << 30 };
    let pool = Pool::new(budget.max(least));
    let setup = Setup {
        layout: Arc::clone(&layout),
        pool: pool.clone(),
        partitions,
        threads,
        sizes: Sizes { smallest: 4 << 10, largest },
        buffers: Buffers {
            bytes: [1, 100_000, 1 << 20][random.random_range(0..3)],
            past_caches: random.random_bool(0.5),
        },
    };
    let mut scatter = variant.make(&setup).unwrap();
    let outlet = Copies { pool: pool.clone(), received: Mutex::new((0..partitions).map(|_| Vec::new()).collect()) };
    // What each sender sent to each partition.
    let mut expected: BTreeMap<(usize, usize), Vec<RecordBatch>> = BTreeMap::new();
    let mut sent = vec![0; threads];
    let mut kept: Vec<Vec<Morsel>> = vec![Vec::new(); threads];
    let rounds = random.random_range(1..4);
    for round in 0..rounds {
        let mut senders: Vec<Vec<Morsel>> = vec![Vec::new(); threads];
        for (sender, morsels) in senders.iter_mut().enumerate() {
            for _ in 0..random.random_range(0..3) {
                let count = random.random_range(0..1500);
                let (given, held) = rows(&mut random, kind, count);
                let (given, held) = (numbered(&given, sender, sent[sender]), numbered(&held, sender, sent[sender]));
                sent[sender] += count;
                let some: Vec<u32> = (0..count as u32).filter(|_| random.random_bool(0.7)).collect();
                let selected = random.random_bool(0.5).then_some(some);
                let to = destinations(&mut random, skew, selected.as_ref().map_or(count, Vec::len), partitions);
                let to = if random.random_bool(0.3) { to_two(to, partitions as u32) } else { to };
                let all: Vec<u32> = selected.clone().unwrap_or_else(|| (0..count as u32).collect());
                let (all, of) = to.each(&all);
                let mut mine: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
                all.iter().zip(of).for_each(|(row, partition)| mine.entry(partition).or_default().push(*row));
                for (partition, rows) in mine {
                    let part = take_record_batch(&held, &UInt32Array::from(rows)).unwrap();
                    expected.entry((partition as usize, sender)).or_default().push(part);
                }
                morsels.push(Morsel { batch: given, selected, destinations: Some(to) });
            }
        }
        let is_flush = round + 1 == rounds || random.random_bool(0.4);
        if scatter.materializes() {
            kept.iter_mut().zip(senders).for_each(|(kept, new)| kept.extend(new));
            if !is_flush {
                continue;
            }
            senders = std::mem::replace(&mut kept, vec![Vec::new(); threads]);
        }
        let all = all_rows(&senders);
        let work = Work::new(&layout, &senders, &no_route, &all, is_flush);
        fork_join(scatter.as_mut(), threads, &work, &outlet).expect(&said);
        if is_flush {
            let mut received = outlet.received.lock();
            check(&mut received, &mut expected, &schema, &said);
        }
    }
    drop(scatter);
    assert_eq!(pool.used(), 0, "{said}: every page went back");
}

/// What came since the last flush is what was sent.
fn check(
    received: &mut [Vec<Received>],
    expected: &mut BTreeMap<(usize, usize), Vec<RecordBatch>>,
    schema: &SchemaRef,
    said: &str,
) {
    for (partition, pages) in received.iter_mut().enumerate() {
        pages.sort_by_key(|page| page.number);
        let fills: Vec<_> = pages.iter().map(|page| page.fill).collect();
        full_but_the_last(&fills, 8010);
        let batches: Vec<RecordBatch> = pages.drain(..).map(|page| page.batch).collect();
        let all = concat_batches(schema, &batches).unwrap();
        // Sender by sender, in the order in which they came.
        let numbers = all.column(all.num_columns() - 1);
        let numbers = numbers.as_any().downcast_ref::<UInt64Array>().unwrap();
        let mut of_sender: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (row, number) in numbers.values().iter().enumerate() {
            of_sender.entry((number >> 32) as usize).or_default().push(row as u32);
        }
        for (sender, rows) in of_sender {
            let came = take_record_batch(&all, &UInt32Array::from(rows)).unwrap();
            let sent = expected.remove(&(partition, sender)).unwrap_or_default();
            assert!(came == concat_batches(schema, &sent).unwrap(), "{said}: partition {partition}, sender {sender}");
        }
    }
    assert!(expected.is_empty(), "{said}: rows that did not come: {:?}", expected.keys());
}

#[test]
fn every_variant_at_any_number_of_threads_and_partitions() {
    let mut seed = 0;
    for variant in Variant::ALL {
        for threads in [1, 2, 4, 16] {
            for partitions in [1, 2, 3, 32, 1000, 1024] {
                // Not all of the product: each pair of values with each other, and others each time.
                seed += 1;
                let (kind, skew) = (seed as usize % 5, seed as usize / 5 % 3);
                run(&Case { seed, variant, threads, partitions, kind, skew });
            }
        }
    }
}

#[test]
fn every_variant_with_every_schema_and_skew() {
    let mut seed = 1000;
    for variant in Variant::ALL {
        for kind in 0..5 {
            for skew in 0..3 {
                seed += 1;
                run(&Case { seed, variant, threads: 1 + seed as usize % 4, partitions: 7, kind, skew });
            }
        }
    }
}

struct Fails;

impl Outlet for Fails {
    fn take(&self, _: Filled) -> Result<()> {
        Err(Error::environment("the receiver is gone"))
    }

    fn wait(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_receiver_that_fails_ends_all_threads() {
    let schema = Arc::new(Schema::new(vec![Field::new("c0", DataType::Int32, true)]));
    let layout = Arc::new(RowLayout::new(schema).unwrap());
    for variant in Variant::ALL {
        let buffers = Buffers { bytes: 1 << 16, past_caches: false };
        let sizes = Sizes { smallest: 4 << 10, largest: 4 << 10 };
        let pool = Pool::new(1 << 24);
        let setup = Setup { layout: Arc::clone(&layout), pool, partitions: 3, threads: 4, sizes, buffers };
        let mut scatter = variant.make(&setup).unwrap();
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..10_000));
        let to = Destinations::One((0..10_000).map(|row| row % 3).collect());
        let morsel = Morsel { batch: batch(vec![numbers]), selected: None, destinations: Some(to) };
        let senders = vec![vec![morsel]; 4];
        let all = all_rows(&senders);
        let work = Work::new(&layout, &senders, &no_route, &all, true);
        let error = fork_join(scatter.as_mut(), 4, &work, &Fails).unwrap_err();
        assert_eq!(error.message(), "the receiver is gone", "{variant}");
    }
}

/// Counts rows, and gives up where all pages have come back and somebody waits all the same.
#[derive(Default)]
struct Counts {
    rows: AtomicUsize,
    waits: AtomicUsize,
}

impl Outlet for Counts {
    fn take(&self, filled: Filled) -> Result<()> {
        self.rows.fetch_add(filled.page.rows(), Ordering::Relaxed);
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        std::thread::sleep(Duration::from_micros(50));
        match self.waits.fetch_add(1, Ordering::Relaxed) {
            ..20_000 => Ok(()),
            _ => Err(Error::environment("nobody will give a page back")),
        }
    }
}

#[test]
fn rows_that_are_longer_than_a_page_do_not_wait_for_each_other() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8View, true)]));
    let layout = Arc::new(RowLayout::new(schema).unwrap());
    let morsel = |lengths: &[usize]| {
        let texts: StringArray = lengths.iter().map(|length| Some("x".repeat(*length))).collect();
        let to = Destinations::One(vec![0; lengths.len()]);
        vec![Morsel { batch: batch(vec![Arc::new(texts)]), selected: None, destinations: Some(to) }]
    };
    let few = vec![100; 40];
    for (one, other) in [(vec![9 << 20], few), (vec![5 << 20; 3], vec![5 << 20; 2]), (vec![5 << 20], vec![30_000])] {
        for variant in Variant::ALL {
            // All rows of a partition lie in pages at a time there.
            let budget = if variant == Variant::Radix { 64 << 20 } else { 11 << 20 };
            let sizes = Sizes { smallest: 4 << 10, largest: 64 << 10 };
            let buffers = Buffers { bytes: 1 << 16, past_caches: false };
            let setup = Setup {
                layout: Arc::clone(&layout),
                pool: Pool::new(budget),
                partitions: 1,
                threads: 2,
                sizes,
                buffers,
            };
            let mut scatter = variant.make(&setup).unwrap();
            let senders = vec![morsel(&one), morsel(&other)];
            let (all, counts) = (all_rows(&senders), Counts::default());
            let work = Work::new(&layout, &senders, &no_route, &all, true);
            fork_join(scatter.as_mut(), 2, &work, &counts).unwrap_or_else(|error| panic!("{variant}: {error}"));
            assert_eq!(counts.rows.into_inner(), one.len() + other.len(), "{variant}");
        }
    }
}
