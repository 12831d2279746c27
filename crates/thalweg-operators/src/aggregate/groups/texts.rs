//! Keys that are text or bytes.
//!
//! ```text
//! a word of 16 bytes:  up to 15 bytes, then zeros              | 0..=15: how many
//!                      hash of the bytes (8), how many (7)     | 255: these are longer
//!                                                              | 254: null
//! ```
//!
//! Words that differ are different keys, and short ones that are equal are the same. Long bytes are looked at where words are
//! equal: each group's lie in one run.

use std::sync::{Arc, Weak};

use arrow_array::{Array, ArrayRef};

use super::table::{Table, mix, mix_wide};

/// So many bytes are within a word.
const SHORT: usize = 15;

const LONG: u128 = 255 << 120;

/// The word of no text.
pub const NULL: u128 = 254 << 120;

/// The word of some bytes.
pub fn word(bytes: &[u8]) -> u128 {
    if bytes.len() > SHORT {
        return long(bytes);
    }
    let mut word = [0; 16];
    word[..bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(word) | (bytes.len() as u128) << 120
}

/// The word of bytes from `start` to `end` of a longer run.
#[inline]
pub fn word_within(run: &[u8], start: usize, end: usize) -> u128 {
    let length = end - start;
    match run.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
        Some(all) if length <= SHORT => {
            let mask = (1 << (length * 8)) - 1;
            u128::from_le_bytes(*all) & mask | (length as u128) << 120
        }
        _ => word(&run[start..end]),
    }
}

/// The word of bytes of which all that there are stand in the upper twelve of a view.
#[inline]
pub fn word_of_view(view: u128) -> u128 {
    view >> 32 | u128::from(view as u32) << 120
}

#[cold]
fn long(bytes: &[u8]) -> u128 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut tail = [0; 8];
    tail[..rest.len()].copy_from_slice(rest);
    let hash = words.iter().fold(0, |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
    let hash = mix(hash ^ u64::from_le_bytes(tail));
    LONG | (bytes.len() as u128) << 64 | u128::from(hash)
}

/// Whether the bytes are not all within the word.
#[inline]
pub fn is_long(word: u128) -> bool {
    word >= LONG
}

/// Distinct texts, numbered from zero in the order of their first appearance.
#[derive(Default)]
pub struct TextGroups {
    words: Vec<u128>,
    table: Table,
    /// The bytes of the long ones.
    bytes: Vec<u8>,
    /// Where a group's bytes begin; those of short ones say nothing, and behind the last long one there are none.
    starts: Vec<usize>,
    known: Option<Known>,
}

/// The groups of the values of a dictionary.
struct Known {
    /// Says whether it is the same, and does not keep it.
    dictionary: Weak<dyn Array>,
    /// [`ABSENT`] for those that no row had; behind them that of null.
    groups: Vec<u32>,
}

/// No group.
pub const ABSENT: u32 = u32::MAX;

impl TextGroups {
    /// How many distinct texts there are.
    pub fn count(&self) -> usize {
        self.words.len()
    }

    /// The group of a text, new if it has not been seen; `bytes` are those of a long one.
    #[inline]
    pub fn number<'a>(&mut self, word: u128, bytes: impl FnOnce() -> &'a [u8]) -> u32 {
        if is_long(word) {
            return self.number_long(word, bytes());
        }
        let Self { words, table, .. } = self;
        let new = words.len() as u32;
        let number = table.number(mix_wide(word), new, |number| words[number as usize] == word);
        if number == new {
            words.push(word);
        }
        number
    }

    fn number_long(&mut self, word: u128, text: &[u8]) -> u32 {
        let Self { words, table, bytes, starts, .. } = self;
        let new = words.len() as u32;
        let number = table.number(mix_wide(word), new, |number| {
            let number = number as usize;
            words[number] == word && &bytes[starts[number]..starts[number] + text.len()] == text
        });
        if number == new {
            words.push(word);
            starts.resize(words.len(), bytes.len());
            bytes.extend_from_slice(text);
        }
        number
    }

    /// The groups of a dictionary's values, as far as they are known, and behind them that of null.
    pub fn take_known(&mut self, dictionary: &ArrayRef) -> Vec<u32> {
        let is_same = |known: &Known| Weak::ptr_eq(&known.dictionary, &Arc::downgrade(dictionary));
        match self.known.take() {
            Some(known) if is_same(&known) => known.groups,
            _ => vec![ABSENT; dictionary.len() + 1],
        }
    }

    /// Keeps the groups of a dictionary's values for the next rows.
    pub fn keep_known(&mut self, dictionary: &ArrayRef, groups: Vec<u32>) {
        self.known = Some(Known { dictionary: Arc::downgrade(dictionary), groups });
    }

    /// Calls `take` with the bytes of a group's text, `None` if it has none.
    pub fn with<T>(&self, number: u32, take: impl FnOnce(Option<&[u8]>) -> T) -> T {
        match self.words[number as usize] {
            NULL => take(None),
            word if is_long(word) => take(Some(self.long(number))),
            word => take(Some(&word.to_le_bytes()[..(word >> 120) as usize])),
        }
    }

    fn long(&self, number: u32) -> &[u8] {
        let (start, word) = (self.starts[number as usize], self.words[number as usize]);
        &self.bytes[start..start + ((word & !LONG) >> 64) as usize]
    }

    /// How many bytes these groups' texts have together.
    pub fn length(&self, numbers: &[u32]) -> usize {
        let length = |number: &u32| match self.words[*number as usize] {
            NULL => 0,
            word if is_long(word) => ((word & !LONG) >> 64) as usize,
            word => (word >> 120) as usize,
        };
        numbers.iter().map(length).sum()
    }

    /// Takes in the texts of these groups of another table.
    pub fn absorb(&mut self, other: &Self, numbers: impl Iterator<Item = u32>) -> Vec<u32> {
        numbers.map(|number| self.number(other.words[number as usize], || other.long(number))).collect()
    }

    /// The groups in the order of their bytes, the one without first.
    pub fn sorted(&self) -> Vec<u32> {
        // Read as a number from the first byte on, a short word is in order: of texts that differ in zeros at the end only, the
        // shorter one comes first. What is longer than its first bytes comes behind what is not.
        let rank = |word: u128, number: u32| match is_long(word) {
            false => word.swap_bytes(),
            true => {
                let mut first = [u8::MAX; 16];
                first[..SHORT].copy_from_slice(&self.long(number)[..SHORT]);
                u128::from_be_bytes(first)
            }
        };
        let all = self.words.iter().zip(0..);
        let null = all.clone().find(|(word, _)| **word == NULL).map(|(_, number)| number);
        let known = all.filter(|(word, _)| **word != NULL);
        let mut order: Vec<(u128, u32)> = known.map(|(word, number)| (rank(*word, number), number)).collect();
        order.sort_unstable_by(|a, b| {
            let further = || if a.0 as u8 == u8::MAX { self.long(a.1).cmp(self.long(b.1)) } else { a.1.cmp(&b.1) };
            a.0.cmp(&b.0).then_with(further)
        });
        null.into_iter().chain(order.into_iter().map(|(_, number)| number)).collect()
    }

    /// Forgets all texts, and keeps the memory for those to come.
    pub fn clear(&mut self) {
        self.words.clear();
        self.table.clear();
        self.bytes.clear();
        self.starts.clear();
        self.known = None;
    }

    /// How many bytes of memory the table takes.
    pub fn size(&self) -> usize {
        self.words.capacity() * size_of::<u128>()
            + self.table.size()
            + self.bytes.capacity()
            + self.starts.capacity() * size_of::<usize>()
            + self.known.as_ref().map_or(0, |known| known.groups.capacity() * size_of::<u32>())
    }
}
