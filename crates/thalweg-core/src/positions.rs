//! Where rows stand among those of all instances.

use std::{cmp::Ordering, ops::Range};

use arrow_array::{Array, BinaryArray};

use crate::{Interval, Timestamp, Window};

/// Where each physical row of a batch stands among the rows of all instances of an operator that emits in an order.
///
/// An operator that emits window by window says of a batch of one window which that is, and orders its rows by their keys. One that
/// emits in the order of event time says each row's time, as if it were a window of the shortest length there is. What an operator makes
/// of a row stands where the row stood.
#[derive(Clone, Debug)]
pub struct Positions {
    place: Place,
    keys: Keys,
}

#[derive(Clone, Debug)]
enum Place {
    /// All rows are of this window, which is over at this instant.
    Window(Window, Timestamp),
    /// The time of each row, ascending.
    Times(Box<[i64]>),
}

/// How the rows of one place follow each other.
#[derive(Clone, Debug)]
enum Keys {
    Bytes(BinaryArray),
    Numbers(Box<[i64]>),
}

/// A key: two of them compare as their rows do, where both are of one kind, as those of all instances of an operator are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PositionKey<'a> {
    /// A number.
    Number(i64),
    /// Bytes.
    Bytes(&'a [u8]),
}

impl PositionKey<'_> {
    /// What decides most comparisons: the number, or the first bytes. Of two keys the smaller one has no larger one.
    #[inline]
    pub fn prefix(self) -> u64 {
        match self {
            Self::Number(number) => number as u64 ^ 1 << 63,
            Self::Bytes(key) => match key.first_chunk() {
                Some(bytes) => u64::from_be_bytes(*bytes),
                None => key.iter().rev().fold(0, |rest, byte| rest >> 8 | u64::from(*byte) << 56),
            },
        }
    }
}

impl Positions {
    /// The positions of a window's rows by their keys: bytes that compare as the rows do, one per physical row.
    ///
    /// `over` is the instant, in event time, at which the window is over: who emits in order has emitted all windows that were over at
    /// the watermark that it passed, and emits none of them later. Never earlier for a window that ends later.
    pub fn new(window: Window, over: Timestamp, keys: BinaryArray) -> Self {
        Self { place: Place::Window(window, over), keys: Keys::Bytes(keys) }
    }

    /// The positions of rows by their event times, ascending, and those of one time by their keys. Who emits them has emitted all rows
    /// before the watermark that it passed.
    pub fn in_time(times: Box<[i64]>, keys: BinaryArray) -> Self {
        assert_eq!(times.len(), keys.len(), "one time per row");
        Self { place: Place::Times(times), keys: Keys::Bytes(keys) }
    }

    /// The same, for rows of which each has a number of its own among those of its time.
    pub fn in_time_by_number(times: Box<[i64]>, numbers: Box<[i64]>) -> Self {
        assert_eq!(times.len(), numbers.len(), "one time per row");
        Self { place: Place::Times(times), keys: Keys::Numbers(numbers) }
    }

    /// The positions of some of the rows, which follow each other.
    pub fn slice(&self, rows: Range<usize>) -> Self {
        let place = match &self.place {
            Place::Times(times) => Place::Times(times[rows.clone()].into()),
            of_one_window @ Place::Window(..) => of_one_window.clone(),
        };
        let keys = match &self.keys {
            Keys::Bytes(keys) => Keys::Bytes(keys.slice(rows.start, rows.len())),
            Keys::Numbers(numbers) => Keys::Numbers(numbers[rows].into()),
        };
        Self { place, keys }
    }

    /// Of how many rows these are the positions.
    pub fn len(&self) -> usize {
        match &self.keys {
            Keys::Bytes(keys) => keys.len(),
            Keys::Numbers(numbers) => numbers.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The window of a row.
    #[inline]
    pub fn window(&self, row: usize) -> Window {
        match &self.place {
            Place::Window(window, _) => *window,
            Place::Times(times) => {
                let start = Timestamp(times[row]);
                Window { start, end: start.plus(Interval(1)) }
            }
        }
    }

    /// When the window of a row is over.
    #[inline]
    pub fn over(&self, row: usize) -> Timestamp {
        match &self.place {
            Place::Window(_, over) => *over,
            Place::Times(_) => self.window(row).end,
        }
    }

    /// The time of each row, where rows are in the order of time.
    pub fn times(&self) -> Option<&[i64]> {
        if let Place::Times(times) = &self.place { Some(times) } else { None }
    }

    /// The number of each row, where rows of one time follow each other by numbers.
    pub fn numbers(&self) -> Option<&[i64]> {
        if let Keys::Numbers(numbers) = &self.keys { Some(numbers) } else { None }
    }

    /// Whether all rows are of one window.
    pub fn is_of_one_window(&self) -> bool {
        matches!(self.place, Place::Window(..))
    }

    /// How a row and one of other positions follow each other.
    pub fn compare(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        let place = |positions: &Self, row| {
            let Window { start, end } = positions.window(row);
            (end, start)
        };
        place(self, row).cmp(&place(other, other_row)).then_with(|| self.key(row).cmp(&other.key(other_row)))
    }

    /// The key of a row: it compares as the rows of a window, or of one time, do.
    #[inline]
    pub fn key(&self, row: usize) -> PositionKey<'_> {
        match &self.keys {
            Keys::Bytes(keys) => PositionKey::Bytes(keys.value(row)),
            Keys::Numbers(numbers) => PositionKey::Number(numbers[row]),
        }
    }

    /// The positions of these rows, in this order; a row may be there more than once.
    pub fn of(&self, rows: &[u32]) -> Self {
        let rows_of = || rows.iter().map(|row| *row as usize);
        let keys = match &self.keys {
            Keys::Bytes(keys) => Keys::Bytes(BinaryArray::from_iter_values(rows_of().map(|row| keys.value(row)))),
            Keys::Numbers(numbers) => Keys::Numbers(rows_of().map(|row| numbers[row]).collect()),
        };
        let place = match &self.place {
            Place::Times(times) => Place::Times(rows_of().map(|row| times[row]).collect()),
            window => window.clone(),
        };
        Self { place, keys }
    }

    /// How many bytes of memory they keep alive.
    pub fn bytes(&self) -> usize {
        let times = if let Place::Times(times) = &self.place { size_of_val(&times[..]) } else { 0 };
        let keys = match &self.keys {
            Keys::Bytes(keys) => keys.get_array_memory_size(),
            Keys::Numbers(numbers) => size_of_val(&numbers[..]),
        };
        keys + times
    }
}
