//! What threads scatter together: batches of several senders, step by step.

use std::{
    borrow::Cow,
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
    /// Where each of these goes; `None` asks the work's route.
    pub destinations: Option<Destinations>,
}

/// Decides where the selected rows of a batch go.
pub type RouteOf<'a> = dyn Fn(&RecordBatch, Option<&[u32]>) -> Result<Destinations> + Sync + 'a;

/// A morsel as threads walk through it: a row's number and its partition, in the order in which rows came.
pub struct Prepared<'a> {
    /// The columns.
    pub source: Source,
    /// The numbers of the rows; one that goes to several partitions stands there as often.
    pub rows: Cow<'a, [u32]>,
    /// Their partitions.
    pub partitions: Cow<'a, [u32]>,
}

impl Prepared<'_> {
    /// All rows.
    pub fn picked(&self) -> Picked<'_> {
        Picked { source: &self.source, rows: &self.rows }
    }
}

/// The batches that threads scatter together: each sender's in its order. Thread *t* of a variant has sender *t*.
pub struct Work<'a> {
    layout: &'a RowLayout,
    senders: &'a [Vec<Morsel>],
    route: &'a RouteOf<'a>,
    /// 0, 1, 2 … for batches of which all rows are meant.
    all: &'a [u32],
    prepared: Vec<Vec<OnceLock<Prepared<'a>>>>,
    /// Whether all rows must be in pages at the end, and all pages passed on.
    pub is_flush: bool,
}

/// Numbers as many as the largest batch has rows, for [`Work::new`].
pub fn all_rows(senders: &[Vec<Morsel>]) -> Vec<u32> {
    let most = senders.iter().flatten().map(|morsel| morsel.batch.num_rows()).max();
    (0..most.unwrap_or_default() as u32).collect()
}

/// The route of morsels that all say where they go.
pub fn no_route(_: &RecordBatch, _: Option<&[u32]>) -> Result<Destinations> {
    Err(Error::bug("a morsel does not say where it goes"))
}

impl<'a> Work<'a> {
    /// The work on so many senders' batches; `all` are [`all_rows`].
    pub fn new(
        layout: &'a RowLayout,
        senders: &'a [Vec<Morsel>],
        route: &'a RouteOf<'a>,
        all: &'a [u32],
        is_flush: bool,
    ) -> Self {
        let prepared = senders.iter().map(|morsels| morsels.iter().map(|_| OnceLock::new()).collect()).collect();
        Self { layout, senders, route, all, prepared, is_flush }
    }

    fn prepared(&self, morsel: &'a Morsel) -> Result<Prepared<'a>> {
        let source = Source::new(self.layout, &morsel.batch)?;
        let rows = morsel.selected.as_deref().unwrap_or_else(|| &self.all[..morsel.batch.num_rows()]);
        let destinations = match &morsel.destinations {
            Some(Destinations::One(of)) => {
                return Ok(Prepared { source, rows: Cow::Borrowed(rows), partitions: Cow::Borrowed(of) });
            }
            Some(lines) => lines.clone(),
            None => (self.route)(&morsel.batch, morsel.selected.as_deref())?,
        };
        Ok(match destinations {
            Destinations::One(of) => Prepared { source, rows: Cow::Borrowed(rows), partitions: Cow::Owned(of) },
            lines => {
                let (rows, partitions) = lines.each(rows);
                Prepared { source, rows: Cow::Owned(rows), partitions: Cow::Owned(partitions) }
            }
        })
    }

    /// Prepares a sender's batches for all threads.
    ///
    /// Errors: `Error::Bug` where columns are not the layout's; `Error::Environment` for a row that is too long for any page; those of
    /// the route.
    pub fn prepare(&self, sender: usize) -> Result<()> {
        let Some(morsels) = self.senders.get(sender) else { return Ok(()) };
        for (morsel, place) in morsels.iter().zip(&self.prepared[sender]) {
            drop(place.set(self.prepared(morsel)?));
        }
        Ok(())
    }

    /// How many senders there are.
    pub fn senders(&self) -> usize {
        self.senders.len()
    }

    /// A sender's batches, which were prepared.
    pub fn of(&self, sender: usize) -> impl Iterator<Item = &Prepared<'a>> {
        self.prepared.get(sender).into_iter().flatten().filter_map(OnceLock::get)
    }

    /// A sender's batches one after the other, each prepared when it is its turn, while it is in the caches.
    ///
    /// Errors: as [`Work::prepare`], and what is done gives.
    pub fn each(&self, sender: usize, mut then: impl FnMut(&Prepared<'a>) -> Result<()>) -> Result<()> {
        let mut morsels = self.senders.get(sender).into_iter().flatten();
        morsels.try_for_each(|morsel| then(&self.prepared(morsel)?))
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
