//! Rows scattered into the pages of partitions, by every variant there is.
//!
//! * [`rows`]: the rows, and what they are like
//! * [`receiver`]: counts what comes
//! * [`reference`]: the best that could be

mod receiver;
mod reference;
mod rows;

use std::{cell::RefCell, rc::Rc, sync::Arc};

use arrow_array::RecordBatch;
use clap::Args;
use serde_json::json;
use thalweg_core::Result as Outcome;
use thalweg_memory::{page::layout::RowLayout, pool::Pool};
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
    measure::{Case, Report, Run, parameters},
};
use receiver::{Receiver, Sent};
use reference::Reference;
use rows::Kind;

/// Which of the shuffle's variants are measured. Several are given as `--partitions 32,1024`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// shuffle: rows of 4, 16 or 100 bytes; of 16v or 100v, of which 12 or 96 are in a column of any length; of two strings (text).
    #[arg(long, value_delimiter = ',', default_values_t = Kind::ALL)]
    row_bytes: Vec<Kind>,
    /// shuffle: to how many partitions.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 32, 1024])]
    partitions: Vec<usize>,
    /// shuffle: by how many threads; by one and by all cores, if none is given.
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// shuffle: by these variants; by all, if none is given.
    #[arg(long, value_delimiter = ',')]
    variant: Vec<Variant>,
    /// shuffle: buffers of so many KiB for all threads together.
    #[arg(long, value_delimiter = ',', default_values_t = [1024])]
    buffer_kib: Vec<usize>,
    /// shuffle: so many rows in a batch.
    #[arg(long, value_delimiter = ',', default_values_t = [16_384])]
    batch_rows: Vec<usize>,
    /// shuffle: so many million rows; by default as many as make 256 MB.
    #[arg(long)]
    million_rows: Option<f64>,
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

/// How many bytes of rows there are.
const BYTES: usize = 256 << 20;

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
            let all = options.million_rows.map_or(BYTES / kind.bytes(), |millions| (millions * 1e6) as usize);
            let rows = if report.is_quick() { all / 16 } else { all };
            let batches = rows::batches(*kind, rows, *batch_rows)?;
            for threads in &threads {
                let input = Input::new(*kind, batches.clone(), *threads)?;
                for partitions in &options.partitions {
                    for kib in &options.buffer_kib {
                        let point = Point { input: &input, partitions: *partitions, buffer_bytes: kib << 10, options };
                        report.measure_beside(point.cases(report)?)?;
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
    Variant(Variant),
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Reference(reference) => reference.name(),
            Self::Variant(variant) => variant.name(),
        }
    }

    fn make(self, setup: &Setup) -> Outcome<Box<dyn Scatter>> {
        match self {
            Self::Reference(reference) => Ok(reference.make(setup)),
            Self::Variant(variant) => variant.make(setup),
        }
    }
}

impl<'a> Point<'a> {
    fn cases(self, report: &Report) -> Result<Vec<(Case<'a>, Run<'a>)>, String> {
        let chosen = if self.options.variant.is_empty() { &Variant::ALL[..] } else { &self.options.variant };
        let variants = chosen.iter().map(|variant| Way::Variant(*variant));
        let ways = Reference::ALL.into_iter().map(Way::Reference).chain(variants);
        let wanted = ways.filter(|way| report.wants(&self.called(*way)));
        let sent = Rc::new(Sent::new(&self.input.senders, Range::new(self.partitions as u32)));
        wanted.map(|way| self.case(way, &sent).map_err(|error| format!("{}: {error}", self.called(way)))).collect()
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
        let is_apart = [Way::Variant(Variant::LocalMerge), Way::Reference(Reference::Apart)].contains(&way);
        // Radix plans pages for all rows at once.
        let holds_all = options.keep || way == Way::Variant(Variant::Radix);
        Setup {
            layout: Arc::clone(&input.layout),
            pool: Pool::new(if holds_all { 16 * BUDGET } else { BUDGET }),
            partitions,
            threads,
            sizes: Sizes::within(BUDGET / 2, if is_apart { threads } else { 1 }, partitions),
            buffers: Buffers { bytes: buffer_bytes, past_caches: options.past_caches },
        }
    }

    fn case(self, way: Way, sent: &Rc<Sent>) -> Outcome<(Case<'a>, Run<'a>)> {
        let Self { input, partitions, options, .. } = self;
        let threads = input.senders.len();
        let setup = self.setup(way);
        let scatter = RefCell::new(way.make(&setup)?);
        let range = Range::new(partitions as u32);
        let once = Rc::new(move |is_thorough: bool, scatter: &mut dyn Scatter, pool: &Pool| -> Outcome<Receiver> {
            let receiver = Receiver::new(partitions, is_thorough.then_some(input.kind), options.keep, pool);
            let route =
                |batch: &RecordBatch, _: Option<&[u32]>| -> Outcome<Destinations> { Ok(rows::route(batch, range)) };
            let work = Work::new(&input.layout, &input.senders, &route, &input.all, true);
            fork_join(scatter, threads, &work, &receiver)?;
            Ok(receiver)
        });
        let is_routed = matches!(way, Way::Variant(_));
        // Behind this the pages have been touched, each row looked at once, and the memory is known.
        let first = once(true, scatter.borrow_mut().as_mut(), &setup.pool)?;
        first.check(sent, is_routed).map_err(thalweg_core::Error::bug)?;
        drop(first);
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
                ("past_caches", json!(options.past_caches)),
                ("cold", json!(options.cold)),
                ("pages_are_kept", json!(options.keep)),
                ("largest_page", json!(setup.sizes.largest)),
                ("bytes_of_rows", json!(input.rows * input.kind.bytes())),
                ("bytes_of_pages_at_most", json!(setup.pool.reserved())),
            ]),
            rows: input.rows as u64,
            // Read once and written once.
            bytes_per_row: 2.0 * input.kind.bytes() as f64,
            workers: threads.min(cores()),
        };
        let sent = Rc::clone(sent);
        let run: Run<'a> = Box::new(move || {
            let text = |error: thalweg_core::Error| error.to_string();
            let received = if options.cold {
                let setup = Setup { pool: Pool::new(setup.pool.budget()), ..setup.clone() };
                once(false, way.make(&setup).map_err(text)?.as_mut(), &setup.pool)
            } else {
                once(false, scatter.borrow_mut().as_mut(), &setup.pool)
            };
            let received = received.map_err(text)?;
            let sent = Rc::clone(&sent);
            Ok(Box::new(move || received.check(&sent, is_routed)))
        });
        Ok((case, run))
    }
}
