//! The keys of objects that are like each other: each key is expected behind the one that it came behind the last time.

use std::collections::HashMap;

/// How many keys are known that are no column's, or are written in other ways.
const SPARE: usize = 32;

/// Which column has a key's values.
pub(super) struct Names {
    exact: HashMap<String, usize>,
    any_case: HashMap<String, usize>,
    count: usize,
}

impl Names {
    /// Of columns in their order.
    pub(super) fn new<'a>(names: impl DoubleEndedIterator<Item = &'a str> + ExactSizeIterator + Clone) -> Self {
        let count = names.len();
        let numbered =
            |name: fn(&str) -> String| names.clone().enumerate().rev().map(move |(i, n)| (name(n), i)).collect();
        Self { exact: numbered(str::to_string), any_case: numbered(str::to_lowercase), count }
    }

    /// The column that is called exactly so.
    pub(super) fn exact(&self, key: &str) -> Option<usize> {
        self.exact.get(key).copied()
    }

    /// The column that is called so in any case.
    pub(super) fn any_case(&self, key: &str) -> Option<usize> {
        self.any_case.get(&key.to_lowercase()).copied()
    }
}

/// Keys as they stand in objects.
pub(super) struct Keys {
    known: Vec<Key>,
    /// The most that are known.
    most: usize,
    /// Which of them the last object began with.
    first: usize,
    /// Which of them is the last key, and which is expected.
    last: Option<usize>,
    expected: usize,
}

struct Key {
    /// The first sixteen bytes of what stands before a value, from the end of the member before on; and which of them count.
    head: u128,
    mask: u128,
    text: Vec<u8>,
    column: Option<usize>,
    /// The key that came behind it the last time.
    next: usize,
}

impl Keys {
    /// None known yet.
    pub(super) fn new(names: &Names) -> Self {
        Self { known: Vec::new(), most: 2 * names.count + SPARE, first: 0, last: None, expected: 0 }
    }

    /// Begins an object.
    pub(super) fn begin(&mut self) {
        (self.last, self.expected) = (None, self.first);
    }

    /// The column of the member that begins at `start`, if it has one, and where the member's value begins.
    #[inline(always)]
    pub(super) fn find(&mut self, text: &[u8], start: usize, names: &Names) -> Option<(Option<usize>, usize)> {
        match self.known.get(self.expected) {
            Some(key) if key.is_at(text, start) => {
                let found = (key.column, start + key.text.len());
                (self.last, self.expected) = (Some(self.expected), key.next);
                Some(found)
            }
            _ => self.search(text, start, names),
        }
    }

    /// Looks among all keys, first those behind the last one, and gets to know a new one.
    #[inline(never)]
    fn search(&mut self, text: &[u8], start: usize, names: &Names) -> Option<(Option<usize>, usize)> {
        let from = self.last.map_or(0, |last| last + 1);
        let known = self.known.len();
        let order = (from..known).chain(0..from.min(known));
        let found = match order.into_iter().find(|i| self.known[*i].is_at(text, start)) {
            Some(found) => found,
            None if known < self.most => {
                self.known.push(Key::new(text, start, names)?);
                known
            }
            None => return None,
        };
        match self.last {
            Some(last) => self.known[last].next = found,
            None => self.first = found,
        }
        let key = &self.known[found];
        (self.last, self.expected) = (Some(found), key.next);
        Some((key.column, start + key.text.len()))
    }
}

impl Key {
    /// What stands at `start`, if it is a key without escapes.
    fn new(text: &[u8], start: usize, names: &Names) -> Option<Self> {
        let spaces = |at: usize| at + text[at..].iter().take_while(|byte| **byte == b' ').count();
        let open = spaces(start);
        let key = text[open..].strip_prefix(b"\"")?;
        let key = &key[..memchr::memchr2(b'"', b'\\', key)?];
        let close = open + 1 + key.len();
        if text[close] != b'"' || text.get(close + 1) != Some(&b':') || key.iter().any(|byte| *byte < b' ') {
            return None;
        }
        let key = std::str::from_utf8(key).ok()?;
        let column = names.exact(key).or_else(|| names.any_case(key));
        let text = text[start..spaces(close + 2)].to_vec();
        let mut head = [0; 16];
        let length = text.len().min(16);
        head[..length].copy_from_slice(&text[..length]);
        let mask = u128::MAX >> (128 - 8 * length);
        Some(Self { head: u128::from_le_bytes(head), mask, text, column, next: usize::MAX })
    }

    #[inline(always)]
    fn is_at(&self, text: &[u8], start: usize) -> bool {
        match text[start..].first_chunk() {
            Some(chunk) => {
                (u128::from_le_bytes(*chunk) ^ self.head) & self.mask == 0
                    && (self.text.len() <= 16 || text[start + 16..].starts_with(&self.text[16..]))
            }
            None => text[start..].starts_with(&self.text),
        }
    }
}
