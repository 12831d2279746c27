//! How far rows have come that did not wait for all senders.

use std::cmp::Ordering;

use thalweg_core::{PositionKey, Positions, Timestamp, Window};

/// Where a row stands among those of all senders.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The positions of its batch.
    pub positions: &'a Positions,
    /// The physical row.
    pub row: usize,
    /// Who sent it: of rows that stand at the same place, the first sender's is first.
    pub sender: usize,
}

/// Where the furthest row stood that has left. It holds no view into a batch.
#[derive(Debug)]
pub struct Furthest {
    window: Window,
    over: Timestamp,
    key: Key,
    sender: usize,
}

/// A key that is kept.
#[derive(Debug)]
enum Key {
    Number(i64),
    Bytes(Vec<u8>),
}

impl Key {
    fn of(key: PositionKey<'_>) -> Self {
        match key {
            PositionKey::Number(number) => Self::Number(number),
            PositionKey::Bytes(key) => Self::Bytes(key.to_vec()),
        }
    }

    fn get(&self) -> PositionKey<'_> {
        match self {
            Self::Number(number) => PositionKey::Number(*number),
            Self::Bytes(key) => PositionKey::Bytes(key),
        }
    }
}

impl Furthest {
    /// A row has come so far.
    pub fn new(place: Place<'_>) -> Self {
        let Place { positions, row, sender } = place;
        let key = Key::of(positions.key(row));
        Self { window: positions.window(row), over: positions.over(row), key, sender }
    }

    /// Whether a row that stands there belongs before it.
    pub fn is_behind(&self, place: Place<'_>) -> bool {
        let window = place.positions.window(place.row);
        let windows = (window.end, window.start).cmp(&(self.window.end, self.window.start));
        let order = windows.then_with(|| place.positions.key(place.row).cmp(&self.key.get()));
        order.then(place.sender.cmp(&self.sender)) == Ordering::Less
    }

    /// Whether nothing of its window, or of an earlier one, comes behind a watermark.
    pub fn is_over(&self, watermark: Timestamp) -> bool {
        self.over <= watermark
    }
}
