//! Rows that are due.

use super::entry::Entry;

/// So many rows leave in the memory in which they waited; fewer are copied. (Tests have few rows.)
const PIECE: usize = if cfg!(test) { 4 } else { 256 };

/// The memory of so many pieces is kept at most until somebody asks for it.
const EMPTY: usize = 96;

/// Memory for so many pieces of copies is kept.
const COPIES: usize = 4;

/// Rows that are due, as they were taken: in the memory in which they waited. Who sorts them has little to do where they waited in order.
#[derive(Debug, Default)]
pub struct Due {
    pieces: Vec<Vec<Entry>>,
    /// Which of these have copies.
    copied: Vec<usize>,
    rows: usize,
    /// Memory of rows that have left, and of copies.
    empty: Vec<Vec<Entry>>,
    spare: Vec<Vec<Entry>>,
}

impl Due {
    /// Takes rows, and their memory if they are many.
    pub fn take(&mut self, rows: &mut Vec<Entry>) {
        if rows.len() < PIECE {
            self.copy(rows);
            rows.clear();
        } else {
            self.rows += rows.len();
            self.pieces.push(std::mem::take(rows));
        }
    }

    /// Takes copies of rows.
    pub fn copy(&mut self, rows: &[Entry]) {
        let last = self.pieces.len();
        if self.copied.last().is_none_or(|copied| copied + 1 < last) {
            self.copied.push(last);
            self.pieces.push(self.spare.pop().unwrap_or_default());
        }
        self.rows += rows.len();
        self.pieces.last_mut().into_iter().for_each(|copies| copies.extend_from_slice(rows));
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The rows, in pieces.
    pub fn pieces(&self) -> &[Vec<Entry>] {
        &self.pieces
    }

    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.pieces.iter().flatten()
    }

    /// All rows leave, behind others.
    pub fn leave(&mut self, others: &mut Vec<Entry>) {
        if others.is_empty()
            && let [rows] = &mut self.pieces[..]
        {
            std::mem::swap(rows, others);
        }
        self.pieces.iter_mut().for_each(|rows| others.append(rows));
        self.clear();
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.rows = 0;
        let mut copied = self.copied.drain(..).peekable();
        for (number, mut piece) in self.pieces.drain(..).enumerate() {
            piece.clear();
            let (memory, most) = match copied.next_if_eq(&number) {
                Some(_) => (&mut self.spare, COPIES),
                None => (&mut self.empty, EMPTY),
            };
            if memory.len() < most {
                memory.push(piece);
            }
        }
    }

    /// Memory of rows that have left.
    pub fn memory(&mut self) -> impl Iterator<Item = Vec<Entry>> {
        self.empty.drain(..)
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().chain(&self.empty).chain(&self.spare).map(|rows| rows.capacity() * size_of::<Entry>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::entry::{At, BASE},
        *,
    };

    fn rows(times: std::ops::Range<i64>) -> Vec<Entry> {
        let at = At { batch: 0, row: 0 };
        times.map(|time| Entry { time, position: 0, key: 0, rank: BASE, at }).collect()
    }

    #[test]
    fn many_rows_leave_in_their_memory_and_few_are_copied() {
        let (mut due, mut many, mut few) = (Due::default(), rows(0..PIECE as i64), rows(90..92));
        let memory = many.as_ptr();
        due.take(&mut few);
        due.take(&mut many);
        due.copy(&rows(70..73));
        assert_eq!((due.len(), few.len(), many.len()), (PIECE + 5, 0, 0));
        assert!(few.capacity() > 0 && many.capacity() == 0);
        let mut left = Vec::new();
        due.leave(&mut left);
        let mut expected = [rows(90..92), rows(0..PIECE as i64), rows(70..73)].concat();
        assert_eq!(left, expected, "as they were taken");
        assert!(due.is_empty() && due.memory().any(|rows| rows.as_ptr() == memory));
        // Those of one piece need not be copied.
        let memory = expected.as_ptr();
        due.take(&mut expected);
        left.clear();
        due.leave(&mut left);
        assert_eq!((left.as_ptr(), left.len()), (memory, PIECE + 5));
    }
}
