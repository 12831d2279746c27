//! Takes pages, and counts what is in them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow_array::{cast::AsArray, types::Int32Type};
use thalweg_core::{Error, Result};
use thalweg_memory::{page::Page, pool::Pool, sync::Mutex};
use thalweg_shuffle::{
    route::hash::Range,
    scatter::{
        manager::{Filled, Outlet},
        work::Morsel,
    },
};

use super::rows::{Kind, partition};

/// What came to each partition.
pub struct Receiver {
    rows: Vec<AtomicU64>,
    /// The sum of all keys, if rows are looked at.
    keys: AtomicU64,
    thorough: Option<Kind>,
    kept: Option<Mutex<Vec<Page>>>,
    pool: Pool,
}

impl Receiver {
    /// Counts only, or looks at each row of a kind; gives pages back at once, or keeps them.
    pub fn new(partitions: usize, thorough: Option<Kind>, keeps: bool, pool: &Pool) -> Self {
        let rows = (0..partitions).map(|_| AtomicU64::new(0)).collect();
        let kept = keeps.then(Mutex::default);
        Self { rows, keys: AtomicU64::new(0), thorough, kept, pool: pool.clone() }
    }

    /// Compares with what was sent; says how many partitions it compared.
    pub fn check(&self, sent: &Sent, is_routed: bool) -> std::result::Result<u64, String> {
        let found: Vec<u64> = self.rows.iter().map(|rows| rows.load(Relaxed)).collect();
        let (all, came): (u64, u64) = (sent.rows.iter().sum(), found.iter().sum());
        if all != came || is_routed && found != sent.rows {
            return Err(format!("{came} of {all} rows came, by partition {found:?} instead of {:?}", sent.rows));
        }
        match self.thorough.is_some() && self.keys.load(Relaxed) != sent.keys {
            true => Err("other keys came than were sent".into()),
            false => Ok(found.len() as u64),
        }
    }
}

/// What must come.
pub struct Sent {
    /// How many rows to each partition.
    rows: Vec<u64>,
    /// The sum of all keys.
    keys: u64,
}

impl Sent {
    /// What these senders send.
    pub fn new(senders: &[Vec<Morsel>], range: Range) -> Self {
        let mut sent = Self { rows: vec![0; range.partitions()], keys: 0 };
        for morsel in senders.iter().flatten() {
            for key in morsel.batch.column(0).as_primitive::<Int32Type>().values() {
                sent.rows[partition(*key, range) as usize] += 1;
                sent.keys += *key as u64;
            }
        }
        sent
    }
}

impl Outlet for Receiver {
    fn take(&self, filled: Filled) -> Result<()> {
        let Filled { partition, page, .. } = filled;
        self.rows[partition as usize].fetch_add(page.rows() as u64, Relaxed);
        if let Some(kind) = self.thorough {
            let batch = page.batch()?;
            kind.check(&batch).map_err(Error::bug)?;
            let keys = batch.column(0).as_primitive::<Int32Type>().values();
            self.keys.fetch_add(keys.iter().map(|key| *key as u64).sum(), Relaxed);
        }
        if let Some(kept) = &self.kept {
            kept.lock().push(page);
        }
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        if self.kept.is_some() {
            return Err(Error::environment(format!("the rows do not fit into {} bytes", self.pool.budget())));
        }
        // Pages go back as soon as they come: another thread is about to pass one on.
        std::thread::yield_now();
        Ok(())
    }
}
