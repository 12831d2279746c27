//! How many rows a sender has for each key group.

use std::sync::Arc;

use thalweg_core::{Batch, Result};
use thalweg_shuffle::route::{Destinations, Route, hash::ByKeyGroup};

use super::team::Team;

/// Counts the rows that one sender routes: all of small batches, and those of one large batch in eight.
///
/// Whole batches, and not every eighth row: keys that come in turns would be counted wrongly.
pub struct Tally {
    team: Arc<Team>,
    rows: Vec<u32>,
    /// How many rows still go uncounted.
    skipped: usize,
}

/// Rows of a batch that is large enough to stand for those that follow.
const LARGE: usize = 1024;

/// How many rows go uncounted for each that is counted in a large batch.
const UNCOUNTED: usize = 7;

impl Tally {
    /// Counts for this team.
    pub fn new(team: Arc<Team>) -> Self {
        let rows = vec![0; team.groups().count()];
        Self { team, rows, skipped: 0 }
    }

    /// The team that is counted for.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Routes the selected rows of a batch, and tells the team if they were counted.
    ///
    /// Errors: what the route gives.
    pub fn route(&mut self, route: &mut ByKeyGroup, keys: &Batch) -> Result<Destinations> {
        let rows = keys.len();
        self.team.came_in_all(rows);
        if self.skipped > 0 {
            self.skipped = self.skipped.saturating_sub(rows);
            return route.route(keys);
        }
        self.skipped = if rows < LARGE { 0 } else { rows * UNCOUNTED };
        self.rows.fill(0);
        let destinations = route.route_and_count(keys, &mut self.rows)?;
        self.team.came(&self.rows);
        Ok(destinations)
    }
}
