//! All ways in which threads fill pages together, by name.

use std::{fmt, str::FromStr, sync::Arc};

use thalweg_core::{Error, Result};
use thalweg_memory::{
    page::layout::{RowLayout, SMALLEST},
    pool::Pool,
};

use super::{
    Sizes,
    buffered::{Buffered, Buffers},
    local::LocalMerge,
    manager::{Agreement, PageManager},
    ordered::{Hybrid, OnDemand},
    radix::Radix,
    ranges::Collaborative,
    work::Scatter,
};

/// A way to scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Row by row, under a lock for each.
    OnDemand,
    /// Row by row, with a compare-and-exchange for each.
    OnDemandLockFree,
    /// From buffers, under a lock for each row.
    Buffered,
    /// From buffers, under a lock for each buffer.
    BufferedBatched,
    /// From buffers, with a compare-and-exchange for each row.
    BufferedLockFree,
    /// From buffers, with a compare-and-exchange for each buffer.
    BufferedLockFreeBatched,
    /// By a histogram of all rows since the last flush.
    Radix,
    /// By a histogram of each batch.
    Hybrid,
    /// All threads look at all rows, each for a range of partitions.
    Ranges,
    /// Pairs of threads look at the rows of a pair of senders.
    Units,
    /// Into pages of threads, which are merged.
    LocalMerge,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::OnDemand,
        Self::OnDemandLockFree,
        Self::Buffered,
        Self::BufferedBatched,
        Self::BufferedLockFree,
        Self::BufferedLockFreeBatched,
        Self::Radix,
        Self::Hybrid,
        Self::Ranges,
        Self::Units,
        Self::LocalMerge,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::OnDemandLockFree => "on-demand-lock-free",
            Self::Buffered => "buffered",
            Self::BufferedBatched => "buffered-batched",
            Self::BufferedLockFree => "buffered-lock-free",
            Self::BufferedLockFreeBatched => "buffered-lock-free-batched",
            Self::Radix => "radix",
            Self::Hybrid => "hybrid",
            Self::Ranges => "ranges",
            Self::Units => "units",
            Self::LocalMerge => "local-merge",
        }
    }

    /// How many bytes of pages it needs at least: one that is open for whoever has pages of their own, and one on its way.
    pub fn least_memory(self, setup: &Setup) -> usize {
        let writers = match self {
            // Its pages are open while a partition is written only.
            Self::Radix => 0,
            Self::LocalMerge => setup.threads,
            _ => 1,
        };
        setup.partitions * writers * setup.sizes.largest.max(SMALLEST) * 2
    }

    /// Makes it.
    ///
    /// Errors: `Error::Environment` where the pool is too small for a page that each partition has open.
    pub fn make(self, setup: &Setup) -> Result<Box<dyn Scatter>> {
        let Setup { layout, pool, partitions, threads, sizes, buffers } = setup;
        let (partitions, threads) = (*partitions, *threads);
        let least = self.least_memory(setup);
        if least > pool.budget() {
            let message = format!(
                "{self} scattering into {partitions} partitions needs at least {least} bytes for pages, and has {}",
                pool.budget()
            );
            return Err(Error::environment(message).with_hint("give it more memory, or smaller pages"));
        }
        let pages = |agreement| PageManager::new(Arc::clone(layout), pool.clone(), partitions, *sizes, agreement);
        let (locked, lock_free) = (|| pages(Agreement::Lock), || pages(Agreement::LockFree));
        let buffered = |pages, is_batched| -> Result<Box<dyn Scatter>> {
            Ok(Box::new(Buffered::new(pages, layout, threads, *buffers, is_batched)?))
        };
        Ok(match self {
            Self::OnDemand => Box::new(OnDemand::new(locked(), threads)),
            Self::OnDemandLockFree => Box::new(OnDemand::new(lock_free(), threads)),
            Self::Buffered => buffered(locked(), false)?,
            Self::BufferedBatched => buffered(locked(), true)?,
            Self::BufferedLockFree => buffered(lock_free(), false)?,
            Self::BufferedLockFreeBatched => buffered(lock_free(), true)?,
            Self::Radix => Box::new(Radix::new(locked(), threads)),
            Self::Hybrid => Box::new(Hybrid::new(locked(), threads)),
            Self::Ranges => Box::new(Collaborative::new(locked(), layout, threads, 1, *buffers)?),
            Self::Units => Box::new(Collaborative::new(locked(), layout, threads, threads.div_ceil(2), *buffers)?),
            Self::LocalMerge => {
                Box::new(LocalMerge::new(Arc::clone(layout), pool.clone(), partitions, threads, *sizes, *buffers)?)
            }
        })
    }
}

/// What a variant is made for.
#[derive(Clone)]
pub struct Setup {
    /// The rows.
    pub layout: Arc<RowLayout>,
    /// Where pages come from.
    pub pool: Pool,
    /// To how many partitions.
    pub partitions: usize,
    /// How many threads, and senders.
    pub threads: usize,
    /// How large pages are.
    pub sizes: Sizes,
    /// The buffers of the variants that have some.
    pub buffers: Buffers,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Variant {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::query(format!("there is no way to scatter rows that is called \"{name}\""))
                .with_hint(format!("one of {names}"))
        })
    }
}
