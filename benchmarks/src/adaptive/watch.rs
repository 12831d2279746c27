//! What a query does from moment to moment: how many rows its aggregate takes, and how they are spread over its instances.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use thalweg::{Control, Metrics};

const PERIOD: Duration = Duration::from_millis(250);

/// Between two looks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Moment {
    /// Since the first row, in seconds.
    pub at_s: f64,
    /// Rows that the aggregate took.
    pub rows_per_s: f64,
    /// How many instances had rows.
    pub instances: usize,
    /// Rows of the busiest of them, as many times the average of all that had some.
    pub imbalance: f64,
}

/// Looks at a query until it ends.
pub struct Watch {
    origin: Instant,
    control: Control,
    seen: Vec<u64>,
    looked: Instant,
}

impl Watch {
    /// Looks at this query, whose first row came then.
    pub fn new(origin: Instant, control: Control) -> Self {
        Self { origin, control, seen: Vec::new(), looked: origin }
    }

    /// All moments until the query ended.
    pub fn moments(mut self) -> Vec<Moment> {
        let mut moments = Vec::new();
        while !self.control.is_ended() {
            thread::sleep(PERIOD);
            let now = Instant::now();
            let rows = rows(&self.control.metrics());
            moments.push(self.moment(&rows, now));
            (self.seen, self.looked) = (rows, now);
        }
        moments
    }

    fn moment(&self, rows: &[u64], now: Instant) -> Moment {
        let before = self.seen.iter().copied().chain(std::iter::repeat(0));
        let fresh: Vec<u64> =
            rows.iter().zip(before).map(|(rows, before)| rows - before).filter(|rows| *rows > 0).collect();
        let all = fresh.iter().sum::<u64>() as f64;
        let average = all / fresh.len().max(1) as f64;
        let most = fresh.iter().copied().max().unwrap_or(0) as f64;
        let since = now.saturating_duration_since(self.looked).as_secs_f64();
        Moment {
            at_s: now.saturating_duration_since(self.origin).as_secs_f64(),
            rows_per_s: if since > 0.0 { all / since } else { 0.0 },
            instances: fresh.len(),
            imbalance: if average > 0.0 { most / average } else { 1.0 },
        }
    }
}

/// Rows that each instance of the aggregate has taken.
fn rows(metrics: &Metrics) -> Vec<u64> {
    let aggregate = metrics.nodes.iter().find(|node| node.label.starts_with("Aggregate"));
    aggregate.map(|node| node.rows_in_each.clone()).unwrap_or_default()
}
