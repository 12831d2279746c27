//! What one thread joins at once, and corrects when a probe row comes behind base rows that see it: buffers of both, by key.

use thalweg_memory::simd::Level;

use super::{
    buffer::{Buffer, Expiry, Found},
    joiner::step,
    watermark::Watermark,
    workload::{Row, Workload},
};

/// Joins the rows of the keys that it is given.
pub struct Correcting<B> {
    window: i64,
    /// How far event time goes from step to step.
    step: i64,
    /// As of the last row.
    latest: Watermark,
    /// As of the last step.
    watermark: i64,
    probes: Vec<B>,
    answered: Vec<Answered>,
    level: Level,
}

/// The base rows of a key whose results may change.
#[derive(Default)]
struct Answered {
    rows: Vec<(Row, Found)>,
    expiry: Expiry,
}

/// What becomes of a base row's result.
pub enum Given {
    /// It is the first.
    First(Found),
    /// It is another one than before: before, and now.
    Another([Found; 2]),
}

impl<B: Buffer> Correcting<B> {
    /// Without rows.
    pub fn new(workload: &Workload) -> Self {
        let keys = 0..workload.keys.count();
        Self {
            window: workload.window,
            step: step(workload),
            latest: Watermark::new(workload.lateness),
            watermark: i64::MIN,
            probes: keys.clone().map(|_| B::default()).collect(),
            answered: keys.map(|_| Answered::default()).collect(),
            level: Level::best(),
        }
    }

    /// A row has come: gives its result, or those that it changes; says how many rows were looked at.
    pub fn take(&mut self, row: &Row, mut give: impl FnMut(i64, Given)) -> u64 {
        let Self { window, step, watermark, level, .. } = *self;
        let (probes, answered) = (&mut self.probes[row.key as usize], &mut self.answered[row.key as usize]);
        let visited = if row.is_base {
            probes.expire(watermark.saturating_sub(window - 1), step);
            let found = probes.scan(level, row.time - window, row.time);
            give(row.payload, Given::First(found));
            // No probe row that it sees comes behind the watermark.
            if answered.expiry.is_due(watermark.saturating_add(1), step) {
                answered.rows.retain(|(base, _)| base.time > watermark);
            }
            answered.rows.push((*row, found));
            found.visited
        } else {
            probes.expire(watermark.saturating_sub(window - 1), step);
            probes.push(row);
            for (base, found) in &mut answered.rows {
                if (row.time..=row.time + window).contains(&base.time) {
                    let before = *found;
                    found.add(&Found { count: 1, sum: row.payload, visited: 0 });
                    give(base.payload, Given::Another([before, *found]));
                }
            }
            answered.rows.len() as u64
        };
        self.latest.follow(row);
        let passed = self.latest.passed();
        if passed >= watermark.saturating_add(step) {
            self.watermark = passed;
        }
        visited
    }
}
