//! Which of many senders is next, where a word says so: a tree of losers that no branch waits for.
//!
//! A row's word compares as its time and the first bytes of its key do. Whose turn it is cannot be foreseen, so matches are decided without
//! branches; only where two words are the same, the caller is asked.
//!
//! Source: as of [`losers`](super::losers).

use std::hint::select_unpredictable;

use thalweg_core::Timestamp;

/// No row: behind all others.
pub const NONE: u128 = u128::MAX;

/// The word of a row of this time.
#[inline]
pub fn word(time: i64, prefix: u64) -> u128 {
    u128::from(ordered(time)) << 64 | u128::from(prefix)
}

/// Rows of a time before this one have smaller words, and no others.
pub fn before(time: Timestamp) -> u128 {
    word(time.0, 0)
}

/// A number without a sign that compares as one with a sign does.
fn ordered(number: i64) -> u64 {
    number as u64 ^ 1 << 63
}

/// The next row of each player.
#[derive(Debug, Default)]
pub struct Words {
    /// As many as were added, by the player; once they have played, the loser of each match, and at 0 who has won.
    matches: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    word: u128,
    player: usize,
}

impl Words {
    /// Nobody plays.
    pub fn clear(&mut self) {
        self.matches.clear();
    }

    /// One more plays.
    pub fn add(&mut self, word: u128) {
        let player = self.matches.len();
        self.matches.push(Entry { word, player });
    }

    /// Plays all matches; `is_before` says of two players with the same word who is first, also where neither has a row.
    pub fn play(&mut self, is_before: impl Fn(usize, usize) -> bool) {
        let players = std::mem::take(&mut self.matches);
        let (count, nobody) = (players.len(), Entry { word: NONE, player: 0 });
        // The winner of each node, from the last match to the first; players stand at `count..`.
        let mut winners = [vec![nobody; count], players].concat();
        let mut losers = vec![nobody; count];
        for at in (1..count).rev() {
            let (mut winner, mut loser) = (winners[2 * at], winners[2 * at + 1]);
            if is_first(&loser, &winner, &is_before) {
                (winner, loser) = (loser, winner);
            }
            (winners[at], losers[at]) = (winner, loser);
        }
        losers[0] = winners[1];
        self.matches = losers;
    }

    /// The smallest word, and whose it is.
    #[inline]
    pub fn first(&self) -> (u128, usize) {
        (self.matches[0].word, self.matches[0].player)
    }

    /// The winner has another row.
    #[inline]
    pub fn replace(&mut self, word: u128, is_before: impl Fn(usize, usize) -> bool) {
        let mut winner = Entry { word, player: self.matches[0].player };
        let mut at = (winner.player + self.matches.len()) / 2;
        while at > 0 {
            let loser = self.matches[at];
            let is_other = is_first(&loser, &winner, &is_before);
            self.matches[at] = Entry {
                word: select_unpredictable(is_other, winner.word, loser.word),
                player: select_unpredictable(is_other, winner.player, loser.player),
            };
            winner = Entry {
                word: select_unpredictable(is_other, loser.word, winner.word),
                player: select_unpredictable(is_other, loser.player, winner.player),
            };
            at /= 2;
        }
        self.matches[0] = winner;
    }
}

#[inline(always)]
fn is_first(a: &Entry, b: &Entry, is_before: impl Fn(usize, usize) -> bool) -> bool {
    if a.word == b.word {
        return is_before(a.player, b.player);
    }
    a.word < b.word
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn words_compare_as_times_and_what_is_behind_them() {
        let times = [i64::MIN, -5, -1, 0, 1, 300, i64::MAX];
        let words: Vec<u128> =
            times.iter().flat_map(|time| [0, 7, u64::MAX].map(|prefix| word(*time, prefix))).collect();
        assert!(words.is_sorted());
        for (number, time) in times.into_iter().enumerate() {
            let earlier = words.iter().filter(|word| **word < before(Timestamp(time))).count();
            assert_eq!(earlier, 3 * number, "{time}");
        }
    }

    #[test]
    fn the_smallest_is_first_and_of_equal_ones_who_is_said_to_be() {
        let mut random = StdRng::seed_from_u64(0);
        for players in 1..40 {
            let mut words: Vec<u128> = (0..players).map(|_| random.random_range(0..30)).collect();
            let is_before = |a: usize, b: usize| a > b;
            let mut tree = Words::default();
            words.iter().for_each(|word| tree.add(*word));
            tree.play(is_before);
            for _ in 0..200 {
                let smallest = words.iter().enumerate().min_by_key(|(player, word)| (**word, usize::MAX - player));
                let (player, word) = smallest.unwrap();
                assert_eq!(tree.first().0, *word);
                if *word == NONE {
                    break;
                }
                assert_eq!(tree.first().1, player);
                words[player] = if random.random_bool(0.05) { NONE } else { word + random.random_range(0..20) };
                tree.replace(words[player], is_before);
            }
        }
    }
}
