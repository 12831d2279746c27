//! When the keys are looked at for rows that time has passed.

/// That time passes counts as so many rows.
pub const PASSING: usize = 16;

/// Of so many rows for each that came, keys are looked at before others have their turn: a round ends when an eighth more have come than it began with.
const TIMES: usize = 8;

/// Keys with so few rows are looked at together. (Tests have few rows.)
const LEAST: usize = if cfg!(test) { 4 } else { 8192 };

/// Rounds in which each key is looked at once.
///
/// One begins when half as many rows have come as there are, so that it costs little for each of these; and now and then where time passes and no rows
/// come. Some keys are looked at each time, for what there is to do with millions of rows together would make others wait.
#[derive(Debug, Default)]
pub struct Rounds {
    /// How many rows came since a round began.
    grown: usize,
    /// How many of them since keys were last looked at.
    come: usize,
    /// The next key to be looked at, while a round is on.
    next: Option<usize>,
    /// How many more rows may be looked at now.
    left: usize,
}

impl Rounds {
    /// So many rows have come.
    pub fn grow(&mut self, rows: usize) {
        self.grown += rows;
        self.come += rows;
    }

    /// So many of the rows that have come are to come again.
    pub fn shrink(&mut self, rows: usize) {
        self.grown = self.grown.saturating_sub(rows);
        self.come = self.come.saturating_sub(rows);
    }

    /// Time has passed, and there are so many rows of so many keys; whether a round begins.
    pub fn pass(&mut self, rows: usize, keys: usize) -> bool {
        self.grow(PASSING);
        self.left = LEAST.max(TIMES * std::mem::take(&mut self.come));
        let begins = self.next.is_none() && self.grown >= rows.max(keys) / 2;
        if begins {
            (self.grown, self.next) = (0, Some(0));
        }
        begins
    }

    /// The next of so many keys to be looked at now, if there is one, with `rows` of that key.
    pub fn next(&mut self, keys: usize, rows: impl Fn(usize) -> usize) -> Option<usize> {
        let next = self.next?;
        if next >= keys {
            self.next = None;
            return None;
        }
        if self.left == 0 {
            return None;
        }
        self.left = self.left.saturating_sub(1 + rows(next));
        self.next = Some(next + 1);
        Some(next)
    }

    /// Keys have new numbers, in the same order, and some are gone: `u32::MAX`.
    pub fn renumber(&mut self, moved: &[u32]) {
        if let Some(next) = &mut self.next {
            *next = moved.iter().take(*next).filter(|new| **new != u32::MAX).count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys that are looked at now, of which each has so many rows.
    fn looked(rounds: &mut Rounds, keys: usize, rows: usize) -> Vec<usize> {
        std::iter::from_fn(|| rounds.next(keys, |_| rows)).collect()
    }

    #[test]
    fn each_key_is_looked_at_once_for_half_as_many_rows_as_there_are() {
        let mut rounds = Rounds::default();
        rounds.grow(33);
        assert!(!rounds.pass(100, 10), "one less than half of them, with the time that passes");
        assert_eq!(looked(&mut rounds, 10, 10), [0; 0]);
        rounds.grow(1);
        assert!(rounds.pass(132, 10));
        // Eight times as many as have come: 8 * 17 rows, and one for each key.
        assert_eq!(looked(&mut rounds, 20, 10), (0..13).collect::<Vec<_>>());
        let moved: Vec<u32> = (0..20).map(|key| if key % 2 == 0 { u32::MAX } else { key / 2 }).collect();
        rounds.renumber(&moved);
        assert!(!rounds.pass(1000, 10), "it is not over");
        assert_eq!(looked(&mut rounds, 10, 0), [6, 7, 8, 9], "those that were left");
        assert!(!rounds.pass(1000, 10));
        assert_eq!(looked(&mut rounds, 10, 0), [0; 0]);
        rounds.grow(500);
        rounds.shrink(100);
        assert!(!rounds.pass(1000, 10));
        rounds.grow(100);
        assert!(rounds.pass(1000, 10));
    }

    #[test]
    fn a_round_is_over_when_an_eighth_more_have_come() {
        let mut rounds = Rounds::default();
        rounds.grow(1_000_000);
        assert!(rounds.pass(1_000_000, 1000));
        let mut done = looked(&mut rounds, 1000, 1000).len();
        let mut come = 0;
        while done < 1000 {
            rounds.grow(1000);
            come += 1000;
            rounds.pass(1_000_000, 1000);
            done += looked(&mut rounds, 1000, 1000).len();
        }
        assert!(come < 130_000, "{come}");
    }
}
