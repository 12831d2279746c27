//! What threads scatter together: batches of several senders, step by step.

use std::{
    ops::Range,
    sync::{Barrier, OnceLock},
    thread,
};

use arrow_array::RecordBatch;
use thalweg_core::{Error, Result};
use thalweg_memory::{
    page::{layout::RowLayout, rows::Picked, source::Source},
    sync::Mutex,
};

use super::manager::Outlet;
use crate::route::Destinations;

/// Rows of a batch, and where they go.
#[derive(Clone, Debug)]
pub struct Morsel {
    /// The columns.
    pub batch: RecordBatch,
    /// Which rows; `None` is all.
    pub selected: Option<Vec<u32>>,
    /// Where each of these goes.
    pub destinations: Destinations,
}

/// A morsel as threads walk through it: a row's number and its partition, in the order in which rows came.
pub struct Prepared<'a> {
    /// The columns.
    pub source: Source<'a>,
    /// The numbers of the rows; one that goes to several partitions stands there as often.
    pub rows: Vec<u32>,
    /// Their partitions.
    pub partitions: Vec<u32>,
}

impl Prepared<'_> {
    /// All rows.
    pub fn picked(&self) -> Picked<'_> {
        Picked { source: &self.source, rows: &self.rows }
    }
}

impl Morsel {
    fn prepare(&self, layout: &RowLayout) -> Result<Prepared<'_>> {
        let source = Source::new(layout, &self.batch)?;
        let row = |number: usize| self.selected.as_ref().map_or(number as u32, |rows| rows[number]);
        let (rows, partitions) = match &self.destinations {
            Destinations::One(of) => ((0..of.len()).map(row).collect(), of.clone()),
            Destinations::Lines { line, lines } => {
                let all =
                    (0..line.len()).flat_map(|number| lines[line[number] as usize].iter().map(move |to| (number, *to)));
                all.map(|(number, to)| (row(number), to)).unzip()
            }
        };
        Ok(Prepared { source, rows, partitions })
    }
}

/// The batches that threads scatter together: each sender's in its order. Thread *t* of a variant has sender *t*.
pub struct Work<'a> {
    layout: &'a RowLayout,
    senders: &'a [Vec<Morsel>],
    prepared: Vec<Vec<OnceLock<Prepared<'a>>>>,
    /// Whether all rows must be in pages at the end, and all pages passed on.
    pub is_flush: bool,
}

impl<'a> Work<'a> {
    /// The work on so many senders' batches.
    pub fn new(layout: &'a RowLayout, senders: &'a [Vec<Morsel>], is_flush: bool) -> Self {
        let prepared = senders.iter().map(|morsels| morsels.iter().map(|_| OnceLock::new()).collect()).collect();
        Self { layout, senders, prepared, is_flush }
    }

    /// Prepares a sender's batches.
    ///
    /// Errors: `Error::Bug` where columns are not the layout's; `Error::Environment` for a row that is too long for any page.
    pub fn prepare(&self, sender: usize) -> Result<()> {
        let Some(morsels) = self.senders.get(sender) else { return Ok(()) };
        for (morsel, place) in morsels.iter().zip(&self.prepared[sender]) {
            drop(place.set(morsel.prepare(self.layout)?));
        }
        Ok(())
    }

    /// How many senders there are.
    pub fn senders(&self) -> usize {
        self.senders.len()
    }

    /// A sender's batches, once all are prepared.
    pub fn of(&self, sender: usize) -> impl Iterator<Item = &Prepared<'a>> {
        self.prepared.get(sender).into_iter().flatten().filter_map(OnceLock::get)
    }
}

/// A way in which threads fill pages together.
pub trait Scatter: Send + Sync {
    /// How many steps a work takes. All threads finish a step before one begins the next.
    fn steps(&self, work: &Work<'_>) -> usize;

    /// A thread's part of a step.
    ///
    /// Errors: those of the outlet.
    fn step(&self, step: usize, thread: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()>;

    /// Tidies up when all threads have finished.
    fn settle(&mut self);

    /// Whether it wants all batches since the last flush at once, when it flushes, and no others.
    fn materializes(&self) -> bool {
        false
    }
}

/// The share of a thread, of things that are shared equally.
pub fn share(things: usize, thread: usize, threads: usize) -> Range<usize> {
    things * thread / threads..things * (thread + 1) / threads
}

/// Runs all steps of a work on so many threads, and waits for them.
///
/// Errors: the first error of a thread; `Error::Bug` if one panicked.
pub fn fork_join(scatter: &mut dyn Scatter, threads: usize, work: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let barrier = Barrier::new(threads);
    let shared = &*scatter;
    let steps = shared.steps(work);
    let run = |thread: usize| {
        let attempt = |part: &dyn Fn() -> Result<()>| {
            // Who waits at the barrier must not wait for ever.
            if failed.lock().is_none() {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(part));
                let outcome = outcome.unwrap_or_else(|_| Err(Error::bug("a thread that scatters rows panicked")));
                if let Err(error) = outcome {
                    failed.lock().get_or_insert(error);
                }
            }
            barrier.wait();
        };
        attempt(&|| work.prepare(thread));
        (0..steps).for_each(|step| attempt(&|| shared.step(step, thread, work, outlet)));
    };
    match threads {
        1 => run(0),
        _ => thread::scope(|scope| {
            for thread in 1..threads {
                scope.spawn(move || run(thread));
            }
            run(0);
        }),
    }
    scatter.settle();
    let error = failed.lock().take();
    error.map_or(Ok(()), Err)
}
