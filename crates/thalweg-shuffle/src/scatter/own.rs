//! The page of a partition that is one thread's own.

use std::sync::Arc;

use thalweg_core::Result;
use thalweg_memory::{
    page::{
        Page,
        layout::RowLayout,
        rows::Rows,
        writer::{Growth, PageWriter},
    },
    pool::Pool,
};

use super::Sizes;

/// The page of a partition that one thread fills, and how large the next one will be.
pub(super) struct OwnPage {
    growth: Growth,
    pub(super) open: Option<PageWriter>,
}

impl OwnPage {
    /// None yet.
    pub(super) fn new(sizes: Sizes) -> Self {
        Self { growth: Growth::new(sizes.smallest, sizes.largest), open: None }
    }

    /// Goes on with a page; those behind it are as large, if they may be.
    pub(super) fn with(page: PageWriter, sizes: Sizes) -> Self {
        Self { growth: Growth::new(page.size().min(sizes.largest), sizes.largest), open: Some(page) }
    }

    /// Puts rows into it, and into those behind it when it is full; returns how many the pool had room for.
    ///
    /// Errors: those of whoever takes full pages.
    pub(super) fn fill<R: Rows + Copy>(
        &mut self,
        layout: &Arc<RowLayout>,
        pool: &Pool,
        rows: R,
        mut full: impl FnMut(Page) -> Result<()>,
    ) -> Result<usize> {
        let mut left = rows;
        while !left.is_empty() {
            let page = match &mut self.open {
                Some(page) => page,
                None => match self.growth.open(layout, pool, left.tail(0))? {
                    Some(page) => self.open.insert(page),
                    None => break,
                },
            };
            left = left.behind(page.append(&left));
            // A page of one long row is full, and leaves at once: others may wait for its memory.
            if (!left.is_empty() || self.growth.is_for_one(page.size()))
                && let Some(page) = self.open.take()
            {
                self.growth.closed(layout, page.rows(), page.tail_bytes(), true);
                full(page.finish())?;
            }
        }
        Ok(rows.len() - left.len())
    }

    /// Takes the page away if it has rows.
    pub(super) fn close(&mut self, layout: &RowLayout) -> Option<PageWriter> {
        let page = self.open.take_if(|page| page.rows() > 0)?;
        self.growth.closed(layout, page.rows(), page.tail_bytes(), false);
        Some(page)
    }
}
