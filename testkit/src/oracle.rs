//! Windows and aggregates, one row at a time, as slowly and plainly as can be: what the engine is held to.

use std::collections::BTreeMap;

/// A row of a stream: when, which keys, which values.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Event time in microseconds.
    pub time: i64,
    /// The grouping keys.
    pub keys: Vec<Key>,
    /// A whole number.
    pub whole: Option<i64>,
    /// A float.
    pub float: Option<f64>,
}

/// A grouping key. Ordered as results are: nulls first, then ascending.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// No value.
    Null,
    /// A whole number.
    Whole(i64),
    /// Text.
    Text(String),
    /// A float in tenths; see [`Key::NAN`].
    Tenths(i64),
}

impl Key {
    /// Not a number: larger than all numbers.
    pub const NAN: Self = Self::Tenths(i64::MAX);
}

/// A question: which windows, and which rows are late for them.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// How long a window lasts, microseconds.
    pub size: i64,
    /// How far apart two windows start.
    pub slide: i64,
    /// How far after the epoch a window starts.
    pub offset: i64,
    /// The watermark's delay behind the highest time seen in a partition.
    pub delay: i64,
    /// How long after its end a window takes rows.
    pub allowed: i64,
}

/// The rows of each window and key, by (end, start, keys).
pub type Grouped = BTreeMap<(i64, i64, Vec<Key>), Vec<Row>>;

/// Puts the rows of each partition, in sequence, into the windows that take them and for which `wanted` holds; and counts the
/// wanted rows that came too late for at least one window.
pub fn group(partitions: &[Vec<Row>], windows: Windows, wanted: impl Fn(&Row) -> bool) -> (Grouped, u64) {
    let (mut groups, mut late) = (Grouped::new(), 0);
    for partition in partitions {
        let mut highest: Option<i64> = None;
        for row in partition {
            let watermark = highest.map_or(i64::MIN, |t| t - windows.delay);
            highest = highest.max(Some(row.time));
            if !wanted(row) {
                continue;
            }
            let mut is_late = false;
            for start in starts(row.time, windows) {
                let end = start + windows.size;
                if watermark >= end + windows.allowed {
                    is_late = true;
                } else {
                    groups.entry((end, start, row.keys.clone())).or_default().push(row.clone());
                }
            }
            late += u64::from(is_late);
        }
    }
    (groups, late)
}

/// Every start whose window contains `t`: found by trying all that are near.
fn starts(t: i64, windows: Windows) -> Vec<i64> {
    let near = (t - windows.offset) / windows.slide;
    let reach = windows.size / windows.slide + 2;
    let candidates = (near - reach..=near + reach).map(|k| windows.offset + k * windows.slide);
    candidates.filter(|start| *start <= t && t < start + windows.size).collect()
}

/// The sum of floats, exact and rounded once. Their magnitudes must lie between 2^-7 and 2^40, or be zero.
pub fn sum(values: &[f64]) -> f64 {
    scaled(values) as f64 / SCALE
}

/// The average of floats, exact and rounded once. Their magnitudes must lie between 2^-7 and 2^40, or be zero.
pub fn average(values: &[f64]) -> f64 {
    let (sum, count) = (scaled(values).unsigned_abs() << 16, values.len() as u128);
    // A bit below all others tells the rounding of what the division leaves.
    let quotient = (sum / count) << 1 | u128::from(sum % count != 0);
    let average = quotient as f64 / SCALE / 131_072.0;
    if scaled(values) < 0 { -average } else { average }
}

const SCALE: f64 = (1u64 << 60) as f64;

fn scaled(values: &[f64]) -> i128 {
    values.iter().map(|value| (value * SCALE) as i128).sum()
}
