//! Words that are sorted digit by digit.

use thalweg_memory::{kernels::select::falls, simd::Level};

/// How many bits a digit has at most, and at least where more would only spread few rows: as many places as there are rows are looked
/// through.
const DIGIT: u32 = 12;
const FEW_BITS: u32 = 8;

/// Fewer words than this are compared with each other; fewer yet in tests, so that others are there as well.
pub const FEW: usize = if cfg!(test) { 4 } else { 64 };

/// Where words are far out of order again and again, others are taken to be so this often at most.
const PATIENCE: u32 = 64;

/// How often words are not taken for nearly sorted.
#[derive(Debug, Default)]
pub struct Patience {
    /// So many times from now on, and when they are found far out of order next.
    left: u32,
    next: u32,
}

impl Patience {
    /// Whether they are this time.
    fn tries(&mut self) -> bool {
        let tries = self.left == 0;
        self.left = self.left.saturating_sub(1);
        tries
    }

    /// Whether they were.
    fn learn(&mut self, were_nearly: bool) {
        (self.left, self.next) = if were_nearly { (0, 0) } else { (self.next, (2 * self.next).clamp(1, PATIENCE)) };
    }
}

/// How many bits a number has.
pub fn bits(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// Words that are sorted.
#[derive(Debug)]
pub struct Words<W> {
    words: Vec<W>,
    /// Where they go from.
    other: Vec<W>,
    /// Which words are less than the one before: a bit for each.
    falls: Vec<u64>,
    /// Where the next word goes, by the value of a digit.
    places: Vec<u32>,
}

impl<W> Default for Words<W> {
    fn default() -> Self {
        Self { words: Vec::new(), other: Vec::new(), falls: Vec::new(), places: Vec::new() }
    }
}

/// What has digits.
pub trait Word: Copy + Default + Ord {
    /// The lowest bits of what is above so many.
    fn digit(self, shift: u32, mask: usize) -> usize;
}

impl Word for u64 {
    #[inline]
    fn digit(self, shift: u32, mask: usize) -> usize {
        (self >> shift) as usize & mask
    }
}

impl Word for u128 {
    #[inline]
    fn digit(self, shift: u32, mask: usize) -> usize {
        (self >> shift) as usize & mask
    }
}

impl<W: Word> Words<W> {
    /// Forgets all words.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Takes more words.
    pub fn extend(&mut self, words: impl Iterator<Item = W>) {
        self.words.extend(words);
    }

    /// Sorts words by so many of their bits above the lowest ones, the lowest digit first. Of words that are the same there the smaller one
    /// comes before.
    pub fn sort(&mut self, words: impl Iterator<Item = W>, lowest: u32, of: u32) -> &[W] {
        self.clear();
        self.extend(words);
        self.sort_all(lowest, of)
    }

    /// The same for those that were taken.
    pub fn sort_all(&mut self, lowest: u32, of: u32) -> &[W] {
        let numbers = bits(self.words.len() as u64);
        let widest = numbers.clamp(FEW_BITS, DIGIT);
        let digits = of.div_ceil(widest);
        if self.words.len() < FEW || digits > numbers {
            self.words.sort_unstable();
            return &self.words;
        }
        // All of them are written over.
        self.other.resize(self.words.len(), W::default());
        let mut shift = lowest;
        for digit in 0..digits {
            // All digits have about as many bits.
            let width = of / digits + u32::from(digit < of % digits);
            let value = |word: &W| word.digit(shift, (1 << width) - 1);
            scatter(self.words.iter(), &mut self.other, &mut self.places, width, value);
            std::mem::swap(&mut self.words, &mut self.other);
            shift += width;
        }
        &self.words
    }

    /// The same where so many bits are few beside the words: they are one digit.
    pub fn sort_at_once(&mut self, lowest: u32, of: u32) -> &[W] {
        self.other.resize(self.words.len(), W::default());
        let value = |word: &W| word.digit(lowest, (1 << of) - 1);
        scatter(self.words.iter(), &mut self.other, &mut self.places, of, value);
        std::mem::swap(&mut self.words, &mut self.other);
        &self.words
    }

    /// How many bytes of memory it keeps.
    pub fn bytes(&self) -> usize {
        let places = self.places.capacity() * size_of::<u32>() + self.falls.capacity() * size_of::<u64>();
        (self.words.capacity() + self.other.capacity()) * size_of::<W>() + places
    }
}

impl Words<u64> {
    /// The same for those that may be nearly in order but for their highest bits: only by these, and then the few that stand too far behind
    /// move. Sorts by all bits if they are not few, and for some time whatever comes.
    pub fn sort_nearly(&mut self, patience: &mut Patience, lowest: u32, of: u32, highest: u32) -> &[u64] {
        if !patience.tries() {
            return self.sort_all(lowest, of);
        }
        if highest > 0 {
            self.sort_all(lowest + of - highest, highest);
        }
        let were_nearly = insert(&mut self.words, &mut self.falls);
        patience.learn(were_nearly);
        if !were_nearly {
            self.sort_all(lowest, of);
        }
        &self.words
    }
}

/// Sorts words where each is few places behind its own, on the average; whether all are. Which are less than the one before is found out for
/// many at once, since few are.
fn insert(words: &mut [u64], is_less: &mut Vec<u64>) -> bool {
    let mut left = 2 * words.len();
    falls(Level::best(), words, is_less);
    // Those before this one are in order.
    let mut done = 1;
    for (bits, first) in is_less.iter().zip((0..).step_by(64)) {
        let mut bits = *bits;
        while bits != 0 {
            let mut place = first + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if place < done {
                continue;
            }
            // Those behind it may be less than what it was less than.
            while let Some(word) = words.get(place).copied().filter(|word| *word < words[place - 1]) {
                let mut to = place;
                while to > 0 && words[to - 1] > word && left > 0 {
                    words[to] = words[to - 1];
                    to -= 1;
                    left -= 1;
                }
                words[to] = word;
                if left == 0 {
                    return false;
                }
                place += 1;
            }
            done = place;
        }
    }
    true
}

/// Puts all in the order of a digit of so many bits; those with the same one stay in the order that they have.
pub fn scatter<'a, T: Copy + 'a>(
    all: impl Iterator<Item = &'a T> + Clone,
    sorted: &mut [T],
    places: &mut Vec<u32>,
    width: u32,
    digit: impl Fn(&T) -> usize,
) {
    places.clear();
    places.resize(1 << width, 0);
    let places = places.as_mut_slice();
    all.clone().for_each(|one| places[digit(one)] += 1);
    let mut before = 0;
    for place in &mut *places {
        before += std::mem::replace(place, before);
    }
    all.for_each(|one| {
        let place = &mut places[digit(one)];
        sorted[*place as usize] = *one;
        *place += 1;
    });
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

    use super::*;

    #[test]
    fn words_that_are_nearly_in_order_are_sorted_and_others_too() {
        for (seed, disorder) in (0..60).zip([1, 5, 5_000].into_iter().cycle()) {
            let random = &mut StdRng::seed_from_u64(seed);
            let count = *[0, 1, FEW as u64, 4_000].choose(random).unwrap();
            let word = |number: u64| {
                let time = number + random.random_range(0..disorder);
                (random.random_range(0..7) << 20 | time) << 12 | number
            };
            let words: Vec<u64> = (0..count).map(word).collect();
            let mut sorted = words.clone();
            sorted.sort_unstable();
            let mut sorter = Words::default();
            let mut patience = Patience::default();
            for _ in 0..2 {
                sorter.clear();
                sorter.extend(words.iter().copied());
                assert_eq!(sorter.sort_nearly(&mut patience, 12, 23, 3), sorted, "seed {seed}");
            }
            assert!(count < 4_000 || patience.tries() == (disorder < 5_000), "seed {seed}");
        }
    }
}
