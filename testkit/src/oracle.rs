//! Windows and aggregates, one row at a time, as slowly and plainly as can be: what the engine is held to.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;

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
    /// For windows that start together: how far apart they end, the last one when its size is over.
    pub step: Option<i64>,
    /// How far after the epoch a window starts.
    pub offset: i64,
    /// The watermark's delay behind the highest time seen in a partition.
    pub delay: i64,
    /// How long after its end a window takes rows.
    pub allowed: i64,
    /// The zone in whose local time windows lie.
    pub zone: Tz,
    /// Whether the grid is moved so that a window starts at the smallest time of a row that was on time.
    pub from_first_row: bool,
}

/// The rows of each window and key, by (end, start, keys).
pub type Grouped = BTreeMap<(i64, i64, Vec<Key>), Vec<Row>>;

/// Puts the rows of each partition, in sequence, into the windows that take them and for which `wanted` holds; and counts the
/// rows that came too late for at least one window.
pub fn group(partitions: &[Vec<Row>], mut windows: Windows, wanted: impl Fn(&Row) -> bool) -> (Grouped, u64) {
    let (mut groups, mut late) = (Grouped::new(), 0);
    if windows.from_first_row {
        windows.offset += first_row(partitions, windows).map_or(0, |t| local(t, windows.zone));
    }
    let mut known = BTreeMap::new();
    for (row, watermark) in with_watermarks(partitions, windows) {
        let is_wanted = wanted(row);
        let mut is_late = false;
        for (start, end) in spans(local(row.time, windows.zone), windows) {
            let over = *known.entry(end).or_insert_with(|| over(end, windows.zone));
            if watermark >= over + windows.allowed {
                is_late = true;
            } else if is_wanted {
                groups.entry((end, start, row.keys.clone())).or_default().push(row.clone());
            }
        }
        // Rows that are not wanted are dropped before the windows, unless those start at the first row.
        late += u64::from(is_late && (is_wanted || windows.from_first_row));
    }
    (groups, late)
}

/// Each row with the watermark that its partition had reached before it.
fn with_watermarks(partitions: &[Vec<Row>], windows: Windows) -> impl Iterator<Item = (&Row, i64)> {
    partitions.iter().flat_map(move |partition| {
        partition.iter().scan(None, move |highest: &mut Option<i64>, row| {
            let watermark = highest.map_or(i64::MIN, |t| t - windows.delay);
            *highest = (*highest).max(Some(row.time));
            Some((row, watermark))
        })
    })
}

/// The smallest time of a row that is not behind its watermark.
fn first_row(partitions: &[Vec<Row>], windows: Windows) -> Option<i64> {
    with_watermarks(partitions, windows).filter(|(row, met)| row.time >= *met).map(|(row, _)| row.time).min()
}

/// Every start whose window contains `t`: found by trying all that are near.
fn starts(t: i64, windows: Windows) -> Vec<i64> {
    let near = (t - windows.offset) / windows.slide;
    let reach = windows.size / windows.slide + 2;
    let candidates = (near - reach..=near + reach).map(|k| windows.offset + k * windows.slide);
    candidates.filter(|start| *start <= t && t < start + windows.size).collect()
}

/// Every window that contains `t`: found by trying all lengths.
fn spans(t: i64, windows: Windows) -> Vec<(i64, i64)> {
    let step = windows.step.unwrap_or(windows.size);
    let lengths = (1..=windows.size / step).map(|k| k * step);
    let spans = lengths.flat_map(|length| starts(t, windows).into_iter().map(move |start| (start, start + length)));
    spans.filter(|(_, end)| t < *end).collect()
}

/// What clocks in the zone show at an instant.
fn local(instant: i64, zone: Tz) -> i64 {
    instant + offset(instant, zone)
}

fn offset(instant: i64, zone: Tz) -> i64 {
    let utc: NaiveDateTime = DateTime::from_timestamp_micros(instant).expect("times are of our era").naive_utc();
    i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()) * 1_000_000
}

/// The instant from which on clocks in the zone never show a time before `end` again, by trying each where that may change:
/// where a clock shows `end`, and each full minute (clocks are changed at full minutes) of the hours around it.
fn over(end: i64, zone: Tz) -> i64 {
    const MINUTE: i64 = 60_000_000;
    let about = (end - offset(end, zone)).div_euclid(MINUTE);
    let minutes = (-150..=150).map(|k| (about + k) * MINUTE);
    let shown = [-15 * 60, 0, 15 * 60].map(|k| end - offset(end + k * MINUTE, zone));
    let is_before = |instant: &i64| local(instant - 1, zone) < end;
    minutes.chain(shown).filter(is_before).max().unwrap_or(end)
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
