//! Which of many senders is next: a tournament in which only the winner's matches are played again.
//!
//! Source: Knuth, "The Art of Computer Programming", vol. 3, §5.4.1, tree of losers.

/// A tree of losers over players that are known by their numbers. Who is before whom is asked of the caller, who sees to it that the
/// answers change for the winner alone, or builds the tree anew.
#[derive(Debug)]
pub struct Losers {
    /// The loser of each match; the match of nodes `2 i` and `2 i + 1` is `i`, and players stand at `players..`. At 0, the winner.
    matches: Vec<usize>,
}

impl Losers {
    /// A tree over so many players, at least one, of which 0 wins until it is built.
    pub fn new(players: usize) -> Self {
        assert!(players > 0, "somebody plays");
        Self { matches: vec![0; players] }
    }

    /// Who wins.
    pub fn winner(&self) -> usize {
        self.matches[0]
    }

    /// Plays all matches.
    pub fn build(&mut self, is_before: impl Fn(usize, usize) -> bool) {
        let players = self.matches.len();
        // The winner of each node, from the last match to the first.
        let mut winners: Vec<usize> = (0..2 * players).map(|node| node.saturating_sub(players)).collect();
        for at in (1..players).rev() {
            let (a, b) = (winners[2 * at], winners[2 * at + 1]);
            let (winner, loser) = if is_before(b, a) { (b, a) } else { (a, b) };
            (winners[at], self.matches[at]) = (winner, loser);
        }
        self.matches[0] = if players == 1 { 0 } else { winners[1] };
    }

    /// Plays the winner's matches again.
    pub fn replay(&mut self, is_before: impl Fn(usize, usize) -> bool) {
        let mut winner = self.winner();
        let mut at = (winner + self.matches.len()) / 2;
        while at > 0 {
            if is_before(self.matches[at], winner) {
                std::mem::swap(&mut self.matches[at], &mut winner);
            }
            at /= 2;
        }
        self.matches[0] = winner;
    }

    /// Who would win without the winner: the best of those who lost to it. `None` where it plays alone.
    pub fn runner_up(&self, is_before: impl Fn(usize, usize) -> bool) -> Option<usize> {
        let mut best = None;
        let mut at = (self.winner() + self.matches.len()) / 2;
        while at > 0 {
            let loser = self.matches[at];
            best = Some(best.filter(|best| is_before(*best, loser)).unwrap_or(loser));
            at /= 2;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    /// Numbers that are equal come in the order of the players.
    fn is_before(heads: &[u32]) -> impl Fn(usize, usize) -> bool + '_ {
        |a, b| (heads[a], a) < (heads[b], b)
    }

    #[test]
    fn the_winner_and_the_runner_up_are_the_two_smallest() {
        let mut random = StdRng::seed_from_u64(0);
        for players in 1..40 {
            let mut heads: Vec<u32> = (0..players).map(|_| random.random_range(0..30)).collect();
            let mut tree = Losers::new(players);
            tree.build(is_before(&heads));
            for _ in 0..200 {
                let mut order: Vec<usize> = (0..players).collect();
                order.sort_by_key(|player| (heads[*player], *player));
                assert_eq!(tree.winner(), order[0]);
                assert_eq!(tree.runner_up(is_before(&heads)), order.get(1).copied());
                heads[order[0]] += random.random_range(0..20);
                tree.replay(is_before(&heads));
            }
        }
    }
}
