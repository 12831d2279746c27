//! The sending ends of the running engine's exchange: each thread has pages of its own, which nobody merges.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use thalweg_core::Result;
use thalweg_memory::page::Page;
use thalweg_shuffle::{
    route::hash::Range,
    scatter::{
        choice::Walk,
        manager::{Filled, Outlet},
        outbox::{Outbox, Progress},
        variant::Setup,
        work::{Morsel, Scatter, Work},
    },
};

use super::rows;

/// How a sender walks through batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exchange {
    /// From buffers.
    Buffered,
    /// By a histogram of each batch.
    Hybrid,
}

impl Exchange {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Buffered, Self::Hybrid];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Buffered => "exchange-buffered",
            Self::Hybrid => "exchange-hybrid",
        }
    }

    /// Makes an outbox for each thread.
    pub fn make(self, setup: &Setup, senders: &[Vec<Morsel>]) -> Result<Box<dyn Scatter>> {
        let Setup { layout, pool, partitions, threads, sizes, buffers } = setup;
        let walk = match self {
            Self::Buffered => Walk::Buffered { bytes: buffers.bytes / threads },
            Self::Hybrid => Walk::Hybrid,
        };
        let outbox = |_| Ok(Mutex::new(Outbox::new(layout.clone(), pool.clone(), *partitions, *sizes, walk)?));
        Ok(Box::new(Senders {
            outboxes: (0..*threads).map(outbox).collect::<Result<_>>()?,
            passed: (0..*partitions).map(|_| AtomicUsize::new(0)).collect(),
            batches: senders.to_vec(),
            range: Range::new(*partitions as u32),
        }))
    }
}

struct Senders {
    outboxes: Vec<Mutex<Outbox>>,
    /// How many pages of each partition were passed on.
    passed: Vec<AtomicUsize>,
    batches: Vec<Vec<Morsel>>,
    range: Range,
}

impl Senders {
    fn finish(
        &self,
        outbox: &mut Outbox,
        mut progress: Progress,
        pages: &mut Vec<(u32, Page)>,
        outlet: &dyn Outlet,
    ) -> Result<()> {
        loop {
            for (partition, page) in pages.drain(..) {
                let number = self.passed[partition as usize].fetch_add(1, Ordering::Relaxed);
                outlet.take(Filled { partition, number, page })?;
            }
            match progress {
                Progress::Done => return Ok(()),
                Progress::NoRoom => outlet.wait()?,
            }
            progress = outbox.resume(pages)?;
        }
    }
}

impl Scatter for Senders {
    fn steps(&self, _: &Work<'_>) -> usize {
        1
    }

    fn step(&self, _: usize, thread: usize, _: &Work<'_>, outlet: &dyn Outlet) -> Result<()> {
        let mut outbox = self.outboxes[thread].lock().unwrap_or_else(PoisonError::into_inner);
        let mut pages = Vec::new();
        for Morsel { batch, selected, .. } in &self.batches[thread] {
            let to = rows::route(batch, self.range);
            let progress = outbox.scatter(batch, selected.as_deref(), to, &mut pages)?;
            self.finish(&mut outbox, progress, &mut pages, outlet)?;
        }
        let progress = outbox.seal(&mut pages)?;
        self.finish(&mut outbox, progress, &mut pages, outlet)
    }

    fn settle(&mut self) {
        self.passed.iter_mut().for_each(|passed| *passed.get_mut() = 0);
    }
}
