//! Rows scattered into the pages of partitions, by every variant there is.
//!
//! * [`rows`]: the rows, and what they are like
//! * [`receiver`]: counts what comes
//! * [`reference`]: the best that could be
//! * [`exchange`]: the running engine's senders
//! * [`keyed`]: the same question to Apache Flink
//! * [`plot`]: the measurements as lines

mod exchange;
pub mod keyed;
pub mod plot;
mod receiver;
mod reference;
mod rows;

use std::{cell::Cell, rc::Rc, sync::Arc};

use arrow_array::RecordBatch;
use clap::Args;
use serde_json::json;
use thalweg_core::Result as Outcome;
use thalweg_memory::{
    page::layout::RowLayout,
    pool::{Peak as PoolPeak, Pool},
};
use thalweg_shuffle::{
    route::{Destinations, hash::Range},
    scatter::{
        Sizes,
        buffered::Buffers,
        variant::{Setup, Variant},
        work::{Morsel, Scatter, Work, all_rows, fork_join},
    },
};

use crate::{
    machine::cores,
    measure::{Case, Peak, Report, Run, parameters},
};
use exchange::Exchange;
use receiver::{Receiver, Sent};
use reference::Reference;
use rows::Kind;

/// Which of the shuffle's variants are measured. Several are given as `--partitions 32,1024`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// shuffle: rows of 4, 16 or 100 bytes; of 16v or 100v, of which 12 or 96 are in a column of any length; of two strings (text).
    #[arg(long, value_delimiter = ',', default_values_t = Kind::USUAL)]
    row_bytes: Vec<Kind>,
    /// shuffle: to how many partitions.
    #[arg(long, value_delimiter = ',', value_parser = positive, default_values_t = [2, 32, 1024])]
    partitions: Vec<usize>,
    /// shuffle: by how many threads; by one and by all cores, if none is given.
    #[arg(long, value_delimiter = ',', value_parser = positive)]
    threads: Vec<usize>,
    /// shuffle: by these variants; by default, all but those that agree on each row, which take 10 to 100 times as long.
    #[arg(long, value_delimiter = ',', default_values_t = USUAL, value_parser = variant)]
    variant: Vec<Variant>,
    /// shuffle: buffers of so many KiB for all threads together.
    #[arg(long, value_delimiter = ',', value_parser = positive, default_values_t = [BUFFER_KIB])]
    buffer_kib: Vec<usize>,
    /// shuffle: so many rows in a batch.
    #[arg(long, value_delimiter = ',', value_parser = positive, default_values_t = [BATCH_ROWS])]
    batch_rows: Vec<usize>,
    /// shuffle: so many million rows.
    #[arg(long, default_value_t = 8.0, value_parser = some_rows)]
    million_rows: f64,
    /// shuffle: what leaves buffers goes past the caches.
    #[arg(long)]
    past_caches: bool,
    /// shuffle: all is made anew for each run, and all memory taken from the system.
    #[arg(long)]
    cold: bool,
    /// shuffle: the receiver keeps all pages until the end, so that the memory is that of all rows.
    #[arg(long)]
    keep: bool,
}

/// A number that a run can have of its parameters.
fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse().map_err(|error| format!("{error}"))?;
    if (1..=1 << 16).contains(&number) { Ok(number) } else { Err("expected a number from 1 to 65536".to_string()) }
}

/// How many million rows.
fn some_rows(text: &str) -> Result<f64, String> {
    let millions = text.parse().map_err(|error| format!("{error}"))?;
    if (0.001..=10_000.0).contains(&millions) { Ok(millions) } else { Err("expected 0.001 to 10000".to_string()) }
}

/// A variant by its name.
fn variant(name: &str) -> Result<Variant, String> {
    let text = |error: thalweg_core::Error| format!("{error}: {}", error.hint().unwrap_or_default());
    name.parse().map_err(text)
}

/// What is usual where nothing is said.
const BUFFER_KIB: usize = 1024;
const BATCH_ROWS: usize = 16_384;

/// The variants that agree on many rows at a time.
const USUAL: [Variant; 7] = [
    Variant::BufferedBatched,
    Variant::BufferedLockFreeBatched,
    Variant::Radix,
    Variant::Hybrid,
    Variant::Ranges,
    Variant::Units,
    Variant::LocalMerge,
];

/// Pages that are open, or on their way, take so much at most.
const BUDGET: usize = 1 << 30;

/// Measures each of the variants asked for, beside the best that could be.
pub fn run(report: &mut Report, options: &Options) -> Result<(), String> {
    let threads = match &options.threads[..] {
        [] if cores() > 1 => vec![1, cores()],
        [] => vec![1],
        some => some.to_vec(),
    };
    for kind in &options.row_bytes {
        for batch_rows in &options.batch_rows {
            let all = (options.million_rows * 1e6) as usize;
            let rows = if report.is_quick() { all / 16 } else { all };
            let batches = rows::batches(*kind, rows, *batch_rows)?;
            for threads in &threads {
                let input = Input::new(*kind, batches.clone(), *threads)?;
                for partitions in &options.partitions {
                    for kib in &options.buffer_kib {
                        let point = Point { input: &input, partitions: *partitions, buffer_bytes: kib << 10, options };
                        point.measure(report)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// The rows, by sender.
struct Input {
    kind: Kind,
    layout: Arc<RowLayout>,
    senders: Vec<Vec<Morsel>>,
    all: Vec<u32>,
    rows: usize,
    batch_rows: usize,
}

impl Input {
    fn new(kind: Kind, batches: Vec<RecordBatch>, threads: usize) -> Result<Self, String> {
        let layout = Arc::new(RowLayout::new(kind.schema()).map_err(|error| error.to_string())?);
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let batch_rows = batches.first().map_or(0, RecordBatch::num_rows);
        let mut senders = vec![Vec::new(); threads];
        for (number, batch) in batches.into_iter().enumerate() {
            senders[number % threads].push(Morsel { batch, selected: None, destinations: None });
        }
        let all = all_rows(&senders);
        Ok(Self { kind, layout, senders, all, rows, batch_rows })
    }

    fn bytes(&self) -> usize {
        self.rows * self.kind.bytes()
    }
}

/// One place in the space of parameters.
#[derive(Clone, Copy)]
struct Point<'a> {
    input: &'a Input,
    partitions: usize,
    buffer_bytes: usize,
    options: &'a Options,
}

/// What scatters.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Reference(Reference),
    Exchange(Exchange),
    Variant(Variant),
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Reference(reference) => reference.name(),
            Self::Exchange(exchange) => exchange.name(),
            Self::Variant(variant) => variant.name(),
        }
    }

    /// How many threads have pages of their own.
    fn writers(self, threads: usize) -> usize {
        match self {
            Self::Variant(Variant::LocalMerge) | Self::Reference(Reference::Apart) | Self::Exchange(_) => threads,
            _ => 1,
        }
    }

    fn make(self, setup: &Setup, senders: &[Vec<Morsel>]) -> Outcome<Box<dyn Scatter>> {
        match self {
            Self::Exchange(exchange) => exchange.make(setup, senders),
            Self::Reference(reference) => Ok(reference.make(setup)),
            Self::Variant(variant) => variant.make(setup),
        }
    }
}

impl<'a> Point<'a> {
    fn measure(self, report: &mut Report) -> Result<(), String> {
        let variants = self.options.variant.iter().map(|variant| Way::Variant(*variant));
        let exchanges = Exchange::ALL.into_iter().map(Way::Exchange);
        let ways = Reference::ALL.into_iter().map(Way::Reference).chain(exchanges).chain(variants);
        let wanted: Vec<Way> = ways.filter(|way| report.wants(&self.called(*way))).collect();
        let sent = Rc::new(Sent::new(&self.input.senders, Range::new(self.partitions as u32)));
        // Where each keeps all rows, there is memory for one at a time.
        for ways in wanted.chunks(if self.options.keep { 1 } else { wanted.len().max(1) }) {
            let case = |way: &Way| self.case(*way, &sent).map_err(|error| format!("{}: {error}", self.called(*way)));
            report.measure_beside(ways.iter().map(case).collect::<Result<_, _>>()?)?;
        }
        Ok(())
    }

    fn called(&self, way: Way) -> String {
        let Self { input, partitions, buffer_bytes, options } = *self;
        let threads = input.senders.len();
        let mut called = format!("{} B, {partitions} partitions, {threads} threads, {}", input.kind, way.name());
        if options.buffer_kib.len() > 1 {
            called += &format!(", buffers of {} KiB", buffer_bytes >> 10);
        }
        if options.batch_rows.len() > 1 {
            called += &format!(", batches of {}", input.batch_rows);
        }
        let said = [(options.past_caches, ", past caches"), (options.cold, ", cold"), (options.keep, ", kept")];
        called.extend(said.into_iter().filter(|(is, _)| *is).map(|(_, said)| said));
        called
    }

    fn setup(&self, way: Way) -> Setup {
        let Self { input, partitions, buffer_bytes, options } = *self;
        let threads = input.senders.len();
        // Radix plans pages for all rows at once.
        let holds_all = options.keep || way == Way::Variant(Variant::Radix);
        // Views take more than the bytes they name, and sizes that pages grew out of lie in the pool.
        let held = if holds_all { 3 * input.bytes() } else { 0 };
        Setup {
            layout: Arc::clone(&input.layout),
            pool: Pool::new(BUDGET + held),
            partitions,
            threads,
            sizes: Sizes::within(BUDGET / 2, way.writers(threads), partitions),
            buffers: Buffers { bytes: buffer_bytes, past_caches: options.past_caches },
        }
    }

    fn case(self, way: Way, sent: &Rc<Sent>) -> Outcome<(Case<'a>, Run<'a>)> {
        let Self { input, partitions, options, .. } = self;
        let threads = input.senders.len();
        let mut setup = self.setup(way);
        let mut first = way.make(&setup, &input.senders)?;
        let range = Range::new(partitions as u32);
        let once = Rc::new(move |is_thorough: bool, scatter: &mut dyn Scatter, pool: &Pool| -> Outcome<Receiver> {
            let receiver = Receiver::new(partitions, is_thorough.then_some(input.kind), options.keep, pool);
            let route =
                |batch: &RecordBatch, _: Option<&[u32]>| -> Outcome<Destinations> { Ok(rows::route(batch, range)) };
            let work = Work::new(&input.layout, &input.senders, &route, &input.all, true);
            fork_join(scatter, threads, &work, &receiver)?;
            Ok(receiver)
        });
        let is_routed = !matches!(way, Way::Reference(_));
        // Behind this the pages have been touched, and each row looked at once.
        once(true, first.as_mut(), &setup.pool)?.check(sent, is_routed).map_err(thalweg_core::Error::bug)?;
        let peak = Rc::new(Cell::new(setup.pool.peak()));
        let mut scatter = (!options.cold).then_some(first);
        if options.cold {
            setup.pool = Pool::new(setup.pool.budget());
        }
        let most = Rc::clone(&peak);
        let open_pages = setup.sizes.largest * way.writers(threads) * partitions;
        let case = Case {
            workload: "shuffle",
            variant: self.called(way),
            parameters: parameters([
                ("query", json!(format!("rows to {partitions} partitions by the lowest bits of a 4-byte key"))),
                ("input", json!(format!("{}, uniform keys, in memory", input.kind.said()))),
                ("variant", json!(way.name())),
                ("row_bytes", json!(input.kind.to_string())),
                ("partitions", json!(partitions)),
                ("threads", json!(threads)),
                ("buffer_bytes", json!(self.buffer_bytes)),
                ("batch_rows", json!(input.batch_rows)),
                ("chosen", json!(way == Way::Variant(Variant::choose(&setup, input.batch_rows)))),
                ("past_caches", json!(options.past_caches)),
                ("cold", json!(options.cold)),
                ("pages_are_kept", json!(options.keep)),
                ("largest_page", json!(setup.sizes.largest)),
            ]),
            rows: input.rows as u64,
            // Read once and written once.
            bytes_per_row: 2.0 * input.kind.bytes() as f64,
            workers: threads.min(cores()),
            peak: Some(Box::new(move || {
                let PoolPeak { reserved, used } = most.get();
                Peak {
                    reserved: reserved as u64,
                    pages: Some(used as u64),
                    open_pages: Some(open_pages as u64),
                    rows: input.bytes() as u64,
                }
            })),
        };
        let sent = Rc::clone(sent);
        let run: Run<'a> = Box::new(move || {
            let text = |error: thalweg_core::Error| error.to_string();
            let (received, pool) = match &mut scatter {
                Some(scatter) => (once(false, scatter.as_mut(), &setup.pool), setup.pool.clone()),
                None => {
                    let setup = Setup { pool: Pool::new(setup.pool.budget()), ..setup.clone() };
                    (once(false, way.make(&setup, &input.senders).map_err(text)?.as_mut(), &setup.pool), setup.pool)
                }
            };
            let received = received.map_err(text)?;
            peak.set(larger(peak.get(), pool.peak()));
            let sent = Rc::clone(&sent);
            Ok(Box::new(move || received.check(&sent, is_routed)))
        });
        Ok((case, run))
    }
}

/// The larger of each.
fn larger(left: PoolPeak, right: PoolPeak) -> PoolPeak {
    PoolPeak { reserved: left.reserved.max(right.reserved), used: left.used.max(right.used) }
}
