//! The part of one column in a code.

use arrow_array::UInt32Array;

use crate::aggregate::groups::{Groups, Keys, Numbers, whole::Integers};

/// One of the columns of keys: what its values are in a code.
pub struct Column {
    /// Numbers the values, unless they stand for themselves.
    pub names: Option<Groups>,
    /// Whether they could stand for themselves.
    pub is_whole: bool,
    /// The smallest and largest values so far.
    pub seen: Option<(i64, i64)>,
    /// The value of the first code.
    pub base: i64,
    /// How many bits it has in a code; none before there was a key.
    pub bits: u32,
    /// How many bits the columns behind it have.
    pub shift: u32,
}

/// The values in one column of some rows.
pub enum Cells {
    /// They stand for themselves.
    Whole(Integers),
    /// Their numbers in a table.
    Numbers(Vec<u32>),
}

impl Column {
    /// A column whose values are looked up in this table, unless they stand for themselves.
    pub fn new(table: Groups) -> Self {
        let is_whole = matches!(table, Groups::Integers(_));
        let names = if is_whole { None } else { Some(table) };
        Self { names, is_whole, seen: None, base: 0, bits: 0, shift: 0 }
    }

    /// What it has for some rows' keys.
    pub fn cells(&mut self, keys: &Keys, rows: Option<&UInt32Array>) -> Cells {
        match (&mut self.names, keys) {
            (Some(names), keys) => Cells::Numbers(numbers_in(names, keys, rows)),
            (None, Keys::Integers(integers)) => Cells::Whole(integers.of(rows)),
            (None, _) => unreachable!("whole numbers stand for themselves"),
        }
    }

    /// Between which values these cells are, of those that are not null.
    pub fn range(&self, cells: &Cells) -> Option<(i64, i64)> {
        match (cells, &self.names) {
            (Cells::Whole(integers), _) => integers.bounds(),
            (Cells::Numbers(_), Some(names)) => range_of_numbers(names),
            (Cells::Numbers(_), None) => None,
        }
    }

    /// Takes note of the smallest and largest values of some rows.
    pub fn see(&mut self, seen: Option<(i64, i64)>) {
        self.seen = match (self.seen, seen) {
            (Some((low, high)), Some((lower, higher))) => Some((low.min(lower), high.max(higher))),
            (before, now) => before.or(now),
        };
    }

    /// Whether there are codes for all values of a range.
    pub fn holds(&self, (low, high): (i64, i64)) -> bool {
        self.bits > 0 && low >= self.base && (high.wrapping_sub(self.base) as u64) < self.most()
    }

    /// How many bits are needed for what was seen; `None` if a word has too few.
    pub fn need(&self) -> Option<u32> {
        let (low, high) = self.seen.unwrap_or((0, 0));
        // Null is one value more.
        let values = (high.wrapping_sub(low) as u64).checked_add(1)?;
        Some(u64::BITS - values.leading_zeros())
    }

    /// The value of the first code, so that what was seen, and more of what may come, has one.
    pub fn suitable_base(&self) -> i64 {
        let (low, high) = self.seen.unwrap_or((0, 0));
        let most = self.most() - 1;
        if low >= 0 && high as u64 <= most {
            return 0;
        }
        let spare = most - high.wrapping_sub(low) as u64;
        i64::try_from(spare / 2).ok().and_then(|spare| low.checked_sub(spare)).unwrap_or(low)
    }

    /// The largest part of a code.
    pub fn most(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.bits)
    }

    /// This column's part of a code.
    pub fn part(&self, code: u128) -> u64 {
        (code >> self.shift) as u64 & self.most()
    }

    /// The value of such a part, which is not that of null.
    pub fn value(&self, part: u64) -> i64 {
        self.base.wrapping_add(part.wrapping_sub(1) as i64)
    }

    /// Puts this column's part into each code.
    pub fn pack<C>(&self, cells: &Cells, codes: &mut [C], put: impl Fn(&mut C, u64)) {
        let part = |value: i64| (value.wrapping_sub(self.base) as u64).wrapping_add(1);
        match cells {
            Cells::Whole(Integers { values, nulls: None }) => {
                codes.iter_mut().zip(values).for_each(|(code, value)| put(code, part(*value)));
            }
            Cells::Whole(Integers { values, nulls: Some(nulls) }) => {
                let both = codes.iter_mut().zip(values).zip(nulls);
                both.for_each(|((code, value), is_there)| put(code, if is_there { part(*value) } else { 0 }));
            }
            Cells::Numbers(numbers) => {
                codes.iter_mut().zip(numbers).for_each(|(code, number)| put(code, part(i64::from(*number))));
            }
        }
    }

    /// Where the value of each number is in the order of all; `None` if they stand for themselves.
    pub fn ranks(&self) -> Option<Vec<u32>> {
        let names = self.names.as_ref()?;
        let mut ranks = vec![0; names.count()];
        names.sorted().values().iter().zip(0..).for_each(|(number, rank)| ranks[*number as usize] = rank);
        Some(ranks)
    }
}

impl Cells {
    /// Of how many rows they are.
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(integers) => integers.values.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }
}

/// Between which numbers those of a table are.
pub fn range_of_numbers(names: &Groups) -> Option<(i64, i64)> {
    names.count().checked_sub(1).map(|last| (0, last as i64))
}

/// The numbers of some rows' keys.
pub fn numbers_in(groups: &mut Groups, keys: &Keys, rows: Option<&UInt32Array>) -> Vec<u32> {
    match groups.number(keys, rows) {
        Numbers::Each(numbers) => numbers,
        Numbers::One(number) => vec![number; rows.map_or(keys.len(), |rows| rows.len())],
    }
}
