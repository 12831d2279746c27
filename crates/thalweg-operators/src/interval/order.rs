//! Sorts rows by key and time.
//!
//! Few bits tell most rows apart: those of the number of a key, and of how far a time is behind the earliest one. They are sorted digit by
//! digit, with the rows' numbers below them in the same word, and the rows move once. Where rows are sorted by time alone, and there are
//! about as many of them as times, these are counted, and each row goes to its place at once.

use std::{cmp::Ordering, ops::Range};

use thalweg_memory::{kernels::bounds::bounds, simd::Level};

use super::{
    columns::Columns,
    due::Due,
    entry::{At, Entry},
    words::{Patience, Words, bits, scatter},
};

/// By what rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Time, then the place among rows of one time.
    Time,
    /// Key, then as above.
    Key,
}

impl By {
    /// How two rows follow each other.
    pub fn compare(self, a: &Entry, b: &Entry) -> Ordering {
        match self {
            Self::Time => a.by_time(b),
            Self::Key => a.by_key(b),
        }
    }
}

/// Sorts rows, in memory that it keeps.
#[derive(Debug, Default)]
pub struct Sorter {
    short: Words<u64>,
    long: Words<u128>,
    /// Where the next row of each time goes.
    places: Vec<u32>,
    /// Rows that are put into another order.
    others: Due,
    /// Of rows by time, and by key.
    patience: [Patience; 2],
    /// Whether rows that key, time and position do not tell apart may stand in any order.
    leaves_ties: bool,
}

impl Sorter {
    /// Rows that key, time and position do not tell apart stand in any order from now on.
    pub fn leave_ties(&mut self) {
        self.leaves_ties = true;
    }

    /// Sorts rows that are due; they leave. Those that are equal, which stand at no place of their own, are sorted by their content, which
    /// `hashes` tells: then the order does not depend on how they arrived.
    pub fn sort<E>(
        &mut self,
        due: &mut Due,
        by: By,
        hashes: impl Fn(&[At]) -> Result<Vec<u64>, E>,
        sorted: &mut Vec<Entry>,
    ) -> Result<(), E> {
        let (spread, numbers) = (Spread::of(due, by), Numbers::of(due));
        if spread.is_sorted || numbers.bits() > u32::BITS {
            sorted.clear();
            due.leave(sorted);
            if spread.is_sorted {
                return Ok(());
            }
            sorted.sort_unstable_by(|a, b| by.compare(a, b));
            return if self.leaves_ties { Ok(()) } else { tell_apart(sorted, by, hashes) };
        }
        if by == By::Time && is_dense(spread.of_time, due.len()) {
            // All of them are written over.
            sorted.resize(due.len(), Entry::default());
            let time = |entry: &Entry| spread.high(entry).1 as usize;
            scatter(due.iter(), sorted, &mut self.places, spread.of_time, time);
            due.clear();
            // Rows of a time that arrived in order still are.
            let are_before = |a: &Entry, b: &Entry| match by.compare(a, b) {
                Ordering::Equal => self.leaves_ties,
                order => order.is_lt(),
            };
            if !sorted.is_sorted_by(are_before) {
                for rows in sorted.chunk_by_mut(|a, b| a.time == b.time).filter(|rows| rows.len() > 1) {
                    rows.sort_unstable_by(|a, b| by.compare(a, b));
                    if !self.leaves_ties {
                        tell_apart(rows, by, &hashes)?;
                    }
                }
            }
            return Ok(());
        }
        sorted.clear();
        let mut unsure: Vec<Range<usize>> = Vec::new();
        if spread.bits() + numbers.bits() <= u64::BITS {
            let words = self.short.sort_due(due, &spread, numbers, &mut self.patience[usize::from(by == By::Key)]);
            sorted.extend(words.iter().map(|word| *numbers.row(*word, due)));
            ties(words, |word| word >> numbers.bits(), &mut unsure);
        } else {
            self.long.clear();
            for (rows, first) in numbers.pieces(due) {
                self.long.extend(rows.iter().zip(first..).map(|(entry, number)| {
                    let (key, time) = spread.high(entry);
                    (u128::from(key) << spread.of_time | u128::from(time)) << u32::BITS | u128::from(number)
                }));
            }
            let words = self.long.sort_all(u32::BITS, spread.bits());
            sorted.extend(words.iter().map(|word| *numbers.row(*word as u64, due)));
            ties(words, |word| word >> u32::BITS, &mut unsure);
        }
        due.clear();
        for rows in unsure {
            sorted[rows.clone()].sort_unstable_by(|a, b| by.compare(a, b));
            if !self.leaves_ties {
                tell_apart(&mut sorted[rows], by, &hashes)?;
            }
        }
        Ok(())
    }

    /// The same for rows in one piece.
    pub fn sort_rows<E>(
        &mut self,
        rows: &mut Vec<Entry>,
        by: By,
        hashes: impl Fn(&[At]) -> Result<Vec<u64>, E>,
    ) -> Result<(), E> {
        let mut others = std::mem::take(&mut self.others);
        others.take(rows);
        // The memory of those before goes round; there is never more.
        if rows.capacity() == 0 {
            *rows = others.memory().next().unwrap_or_default();
        }
        let done = self.sort(&mut others, by, hashes, rows);
        self.others = others;
        done
    }

    /// The same by time for rows in columns.
    pub fn sort_columns<E>(
        &mut self,
        rows: &mut Columns,
        hashes: impl Fn(&[At]) -> Result<Vec<u64>, E>,
    ) -> Result<(), E> {
        let Some((earliest, latest)) = bounds(Level::best(), rows.times()) else { return Ok(()) };
        if rows.times().is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        let (of_time, of_number) = (bits(latest.wrapping_sub(earliest) as u64), bits(rows.len() as u64 - 1));
        if of_time + of_number > u64::BITS || of_number > u32::BITS {
            let mut all = rows.take();
            self.sort_rows(&mut all, By::Time, hashes)?;
            rows.put_rows(&all);
            return Ok(());
        }
        let Self { short, patience: [patience, _], leaves_ties, .. } = self;
        let words = rows.times().iter().zip(0..);
        short.clear();
        short.extend(words.map(|(time, number)| (time.wrapping_sub(earliest) as u64) << of_number | number));
        let words = match is_dense(of_time, rows.len()) {
            true => short.sort_at_once(of_number, of_time),
            false => short.sort_nearly(patience, of_number, of_time, 0),
        };
        let numbers: Vec<u32> = words.iter().map(|word| (*word & ((1 << of_number) - 1)) as u32).collect();
        *rows = rows.gathered(&numbers);
        // Rows of a time that arrived in order still are.
        let (times, positions) = (rows.times(), rows.positions());
        let is_unsure = |row: usize| times[row] == times[row - 1] && positions[row] <= positions[row - 1];
        if !(1..rows.len()).any(is_unsure) {
            return Ok(());
        }
        let mut all = 0..rows.len();
        while let Some(first) = all.next() {
            let time = rows.times()[first];
            let count = 1 + rows.times()[all.clone()].iter().take_while(|other| **other == time).count();
            all.start = first + count;
            let mut same: Vec<Entry> = if count > 1 { rows.some(first..first + count).collect() } else { Vec::new() };
            if !same.is_sorted_by(|a, b| a.by_time(b).is_lt()) {
                same.sort_unstable_by(Entry::by_time);
                if !*leaves_ties {
                    tell_apart(&mut same, By::Time, &hashes)?;
                }
                same.iter().zip(first..).for_each(|(entry, row)| rows.set(row, entry));
            }
        }
        Ok(())
    }

    /// The order of rows that are due by key, and of those of a key by time alone; `None` if these are too far from each other.
    pub fn by_key_and_time<'a>(&'a mut self, due: &'a Due) -> Option<ByKeyAndTime<'a>> {
        let (spread, numbers) = (Spread::of(due, By::Key), Numbers::of(due));
        if spread.bits() + numbers.bits() > u64::BITS {
            return None;
        }
        debug_assert!(spread.of_time < u64::BITS, "several rows have numbers");
        let words = self.short.sort_due(due, &spread, numbers, &mut self.patience[1]);
        Some(ByKeyAndTime { words, due, spread, numbers })
    }

    /// The numbers of rows in the order of their keys; those of a key stay in the order that they have.
    pub fn by_key(&mut self, entries: &[Entry], order: &mut Vec<u32>) {
        let largest = entries.iter().map(|entry| entry.key).max().unwrap_or(0);
        let words = entries.iter().zip(0..).map(|(entry, number)| u64::from(entry.key) << u32::BITS | number);
        let words = self.short.sort(words, u32::BITS, bits(u64::from(largest)));
        order.clear();
        order.extend(words.iter().map(|word| *word as u32));
    }

    /// How many bytes of memory it keeps.
    pub fn bytes(&self) -> usize {
        self.short.bytes() + self.long.bytes() + self.others.bytes() + self.places.capacity() * size_of::<u32>()
    }
}

/// By how many bits rows differ.
struct Spread {
    /// Whether they are in order as they stand, each at a place of its own.
    is_sorted: bool,
    earliest: i64,
    of_time: u32,
    of_key: u32,
    /// Which bits of a key count.
    keys: u32,
}

impl Spread {
    fn of(due: &Due, by: By) -> Self {
        let (mut earliest, mut latest, mut largest) = (i64::MAX, i64::MIN, 0);
        for rows in due.pieces() {
            for Entry { time, key, .. } in rows {
                (earliest, latest, largest) = (earliest.min(*time), latest.max(*time), largest.max(*key));
            }
        }
        let (of_key, keys) = if by == By::Key { (bits(u64::from(largest)), u32::MAX) } else { (0, 0) };
        let is_sorted = due.iter().is_sorted_by(|a, b| by.compare(a, b).is_lt());
        Self { is_sorted, earliest, of_time: bits(latest.wrapping_sub(earliest) as u64), of_key, keys }
    }

    fn bits(&self) -> u32 {
        self.of_time + self.of_key
    }

    /// What the highest bits of a row's word are.
    fn high(&self, entry: &Entry) -> (u32, u64) {
        (entry.key & self.keys, entry.time.wrapping_sub(self.earliest) as u64)
    }
}

/// Whether there are about as many rows as times, which have so many bits.
fn is_dense(of_time: u32, rows: usize) -> bool {
    of_time < usize::BITS && 1 << of_time <= 4 * rows
}

/// How rows that are due are numbered: by their piece, and then by their place there.
#[derive(Clone, Copy)]
struct Numbers {
    of_piece: u32,
    of_row: u32,
}

impl Numbers {
    fn of(due: &Due) -> Self {
        let longest = due.pieces().iter().map(Vec::len).max().unwrap_or(0);
        let [of_piece, of_row] = [due.pieces().len(), longest].map(|count| bits(count.saturating_sub(1) as u64));
        Self { of_piece, of_row }
    }

    fn bits(self) -> u32 {
        self.of_piece + self.of_row
    }

    /// The pieces, and the number of the first row of each.
    fn pieces(self, due: &Due) -> impl Iterator<Item = (&[Entry], u64)> {
        due.pieces().iter().zip(0..).map(move |(rows, piece)| (&rows[..], piece << self.of_row))
    }

    /// The row of which the lowest bits of a word are the number.
    #[inline]
    fn row(self, word: u64, due: &Due) -> &Entry {
        let lowest = |word: u64, bits: u32| word as usize & ((1 << bits) - 1);
        &due.pieces()[lowest(word >> self.of_row, self.of_piece)][lowest(word, self.of_row)]
    }
}

/// Rows by key, and those of a key by time alone.
pub struct ByKeyAndTime<'a> {
    words: &'a [u64],
    due: &'a Due,
    spread: Spread,
    numbers: Numbers,
}

impl ByKeyAndTime<'_> {
    /// The key and the time of each row, and where it lies, for so many rows at a time at most.
    pub fn chunks(&self, most: usize) -> impl Iterator<Item = impl Iterator<Item = (u32, i64, At)>> {
        let Self { words, due, spread: Spread { earliest, of_time, .. }, numbers } = *self;
        words.chunks(most).map(move |words| {
            words.iter().map(move |word| {
                let high = word >> numbers.bits();
                let time = high & ((1 << of_time) - 1);
                ((high >> of_time) as u32, earliest.wrapping_add(time as i64), numbers.row(*word, due).at)
            })
        })
    }
}

/// The ranges of words that are the same but for the numbers of their rows.
fn ties<W: Copy, V: PartialEq>(words: &[W], value: impl Fn(W) -> V, found: &mut Vec<Range<usize>>) {
    for second in (1..words.len()).filter(|second| value(words[*second]) == value(words[second - 1])) {
        match found.last_mut() {
            Some(last) if last.end == second => last.end = second + 1,
            _ => found.push(second - 1..second + 1),
        }
    }
}

/// Sorts rows that are equal, of those that are sorted, by their content.
fn tell_apart<E>(entries: &mut [Entry], by: By, hashes: impl Fn(&[At]) -> Result<Vec<u64>, E>) -> Result<(), E> {
    for ties in entries.chunk_by_mut(|a, b| by.compare(a, b).is_eq()).filter(|ties| ties.len() > 1) {
        let places: Vec<At> = ties.iter().map(|entry| entry.at).collect();
        let mut hashed: Vec<_> = hashes(&places)?.into_iter().zip(ties.iter().copied()).collect();
        // Equal rows may have results that differ, as their numbers do: these follow each other as the rows do, by key and by time.
        hashed.sort_by_key(|(hash, entry)| (*hash, entry.at));
        ties.iter_mut().zip(hashed).for_each(|(tie, (_, entry))| *tie = entry);
    }
    Ok(())
}

impl Words<u64> {
    /// Sorts rows that are due: keys above times, above the rows' numbers. Those of a key are nearly in order as they come, unless it has many
    /// within lateness.
    fn sort_due(&mut self, due: &Due, spread: &Spread, numbers: Numbers, patience: &mut Patience) -> &[u64] {
        self.clear();
        for (rows, first) in numbers.pieces(due) {
            self.extend(rows.iter().zip(first..).map(|(entry, number)| {
                let (key, time) = spread.high(entry);
                (u64::from(key) << spread.of_time | time) << numbers.bits() | number
            }));
        }
        self.sort_nearly(patience, numbers.bits(), spread.bits(), spread.of_key)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

    use super::{
        super::{
            entry::{At, BASE},
            words::FEW,
        },
        *,
    };

    #[test]
    fn rows_are_sorted_whatever_their_keys_and_times() {
        for seed in 0..200 {
            let random = &mut StdRng::seed_from_u64(seed);
            let spans = [1, 50, 5_000, 1 << 40, i64::MAX / 2];
            let (span, keys) = (*spans.choose(random).unwrap(), *[1, 7, 100_000, u32::MAX].choose(random).unwrap());
            let start = *[0, -(span / 2), i64::MIN / 2].choose(random).unwrap();
            let count = *[0, 1, FEW - 1, FEW, 3_000].choose(random).unwrap();
            let entry = |row: u32| Entry {
                time: start + random.random_range(0..span),
                position: random.random_range(0..3),
                key: random.random_range(0..keys),
                rank: *[1, BASE].choose(random).unwrap(),
                at: At { batch: 0, row },
            };
            let rows: Vec<Entry> = (0..count as u32).map(entry).collect();
            let mut sorter = Sorter::default();
            for by in [By::Time, By::Key] {
                let mut sorted = rows.clone();
                let hashes = |places: &[At]| Ok::<_, ()>(places.iter().map(|at| u64::from(!at.row)).collect());
                sorter.sort_rows(&mut sorted, by, hashes).unwrap();
                let mut leaves = Sorter::default();
                leaves.leave_ties();
                let mut any = rows.clone();
                leaves.sort_rows(&mut any, by, |_| Err("nobody asks")).unwrap();
                let compare = |(a, b): (&Entry, &Entry)| by.compare(a, b).is_eq();
                assert!(any.len() == count && any.iter().zip(&sorted).all(compare), "seed {seed}, {by:?}");
                let mut expected = rows.clone();
                expected.sort_by(|a, b| by.compare(a, b).then(b.at.cmp(&a.at)));
                assert_eq!(sorted, expected, "seed {seed}, {by:?}");
                if by == By::Time {
                    let mut columns = Columns::default();
                    for (sorter, leaves_ties) in [(&mut sorter, false), (&mut leaves, true)] {
                        columns.truncate(0);
                        columns.put_rows(&rows);
                        sorter.sort_columns(&mut columns, hashes).unwrap();
                        let found: Vec<Entry> = columns.iter().collect();
                        assert!(leaves_ties || found == expected, "seed {seed}");
                        assert!(found.iter().zip(&expected).all(compare) && found.len() == count, "seed {seed}");
                    }
                }
            }
            let mut expected: Vec<u32> = (0..count as u32).collect();
            expected.sort_by_key(|row| rows[*row as usize].key);
            let mut order = Vec::new();
            sorter.by_key(&rows, &mut order);
            assert_eq!(order, expected, "seed {seed}");
        }
    }

    #[test]
    fn rows_that_are_due_in_pieces_are_sorted_by_key_and_time_alone() {
        for seed in 0..100 {
            let random = &mut StdRng::seed_from_u64(seed);
            let spans = [1, 50, 5_000, 1 << 40, i64::MAX];
            let (span, keys) = (*spans.choose(random).unwrap(), *[1, 7, 100_000].choose(random).unwrap());
            let mut due = Due::default();
            for piece in 0..random.random_range(0..9_u32) {
                let count = *[1, 30, 900].choose(random).unwrap();
                let entry = |row: u32| Entry {
                    time: i64::MIN / 2 + random.random_range(0..span),
                    position: 0,
                    key: random.random_range(0..keys),
                    rank: 0,
                    at: At { batch: piece, row },
                };
                due.take(&mut (0..count).map(entry).collect());
            }
            let mut expected: Vec<_> = due.iter().map(|entry| (entry.key, entry.time, entry.at)).collect();
            expected.sort();
            let mut sorter = Sorter::default();
            let Some(sorted) = sorter.by_key_and_time(&due) else {
                assert!(span > 5_000, "seed {seed}: they fit");
                continue;
            };
            let mut found: Vec<_> = sorted.chunks(100).flatten().collect();
            assert!(found.is_sorted_by_key(|(key, time, _)| (*key, *time)), "seed {seed}");
            found.sort();
            assert_eq!(found, expected, "seed {seed}");
        }
    }

    #[test]
    fn rows_of_one_time_stand_by_input_then_by_position_then_by_content() {
        let entry = |time, rank, position, row| Entry { time, position, key: 0, rank, at: At { batch: 0, row } };
        let mut entries =
            vec![entry(1, BASE, 0, 0), entry(1, 0, 9, 1), entry(1, 0, 2, 2), entry(0, BASE, 5, 3), entry(1, 0, 9, 4)];
        let hashes = |places: &[At]| Ok::<_, ()>(places.iter().map(|at| 100 - u64::from(at.row)).collect());
        Sorter::default().sort_rows(&mut entries, By::Time, hashes).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.at.row).collect::<Vec<_>>(), [3, 2, 4, 1, 0]);
    }
}
