//! What follows the windows of a key from batch to batch, where these are long and few rows come at a time.
//!
//! Whatever follows windows within a batch begins anew with all rows that the first of them sees. Where a batch has few rows of a key, and
//! their windows are long, that is most of what is done; then it pays to keep what was found, at some cost for each row that comes and goes.
//! Which it is, is counted as batches go by.

use std::{fmt, ops::Range};

use thalweg_core::{Result, aggregate::Follower};

use super::entry::{At, Entry};

/// What it takes to tell of a row, to find what is in a window, or to have a row come into a window or leave it, and what it takes for all of
/// them together: as many rows as are looked at meanwhile by what begins anew, about. (Tests have few rows, here and below.)
const EACH: usize = if cfg!(test) { 1 } else { 2 };
const ONCE: usize = if cfg!(test) { 0 } else { 50 };

/// Windows of fewer rows are not worth the memory.
const SHORT: usize = if cfg!(test) { 2 } else { 64 };

/// So many rows are told at a time where there are more: others may run before the next.
const TOLD: usize = if cfg!(test) { 64 } else { 16_384 };

/// The other way is chosen once this one has cost so much more, for each row of the key: what it takes to tell of it, and to have it in the
/// first window. (Tests go over whenever they can.)
const BUILD: usize = if cfg!(test) { 0 } else { 2 * EACH };

/// What follows the windows of the frames that see the rows of one key.
#[derive(Debug, Default)]
pub struct Standing {
    frames: Vec<Stand>,
}

/// What follows the windows of one frame.
#[derive(Default)]
struct Stand {
    frame: usize,
    /// How much less the other way would have cost since this one was chosen.
    regret: usize,
    /// For each aggregate, where they stand; empty where windows are followed within a batch.
    followers: Vec<Box<dyn Follower>>,
    /// How many of the key's first rows are known, but for those between them that have come since.
    known: usize,
    /// Which of these have come since, in their order.
    between: Vec<usize>,
    /// How many rows there were when windows were last asked for, less those that are gone.
    seen: usize,
    /// The window that was wanted last, as far as is known.
    near: Range<usize>,
    /// The window that the followers have.
    has: Range<usize>,
    bytes: usize,
}

/// The windows of some rows of a key, in the order of time.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Where each begins, among the key's rows.
    pub starts: &'a [usize],
    /// Where each ends.
    pub ends: &'a [usize],
    /// How many rows are looked at to find what is in them anew.
    pub anew: usize,
    /// Whether what follows windows moves from one to the next.
    pub moves: bool,
}

/// What follows the windows of a key moves over rows that come into one, or leave it.
#[derive(Clone, Debug, Default)]
pub struct Moves {
    /// From this window on.
    pub from: Range<usize>,
    /// So many.
    pub rows: usize,
}

impl Moves {
    /// The next window on the way to another one, so that not many more than so many rows come or leave at once; `None` if it is near
    /// enough itself.
    pub fn step(&self, to: &Range<usize>, most: usize) -> Option<Range<usize>> {
        let from = &self.from;
        if to.start >= from.end || to.end <= from.start {
            // First the rows of the one leave, then those of the other come.
            return match () {
                _ if from.len() > most => Some(from.start + most..from.end),
                _ if to.len() > most => Some(to.start..to.start + most),
                _ => None,
            };
        }
        let toward = |from: usize, to: usize| to.clamp(from.saturating_sub(most), from + most);
        let next = toward(from.start, to.start)..toward(from.end, to.end);
        (next != *to).then_some(next)
    }
}

impl Wanted<'_> {
    /// How many rows come into a window or leave it from the one before on, which is `near` at first and the last one then.
    pub fn moved(&self, near: &mut Range<usize>) -> usize {
        let windows = self.starts.iter().zip(self.ends).map(|(start, end)| *start..*end.max(start));
        let moved = windows.map(|window| {
            let last = std::mem::replace(near, window.clone());
            let is_apart = window.start >= last.end || window.end <= last.start;
            let ends = window.start.abs_diff(last.start) + window.end.abs_diff(last.end);
            if is_apart { window.len() + last.len() } else { ends }
        });
        let moved = moved.sum();
        if self.moves { moved } else { 0 }
    }
}

impl fmt::Debug for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of frame {} know {} rows", self.followers.len(), self.frame, self.known)
    }
}

impl Stand {
    /// Forgets what follows windows, if there is something.
    fn end(&mut self) {
        if !self.followers.is_empty() {
            *self = Self { frame: self.frame, seen: self.seen, near: self.near.clone(), ..Self::default() };
        }
    }
}

impl Standing {
    /// Says whether what follows the windows of a frame stays from batch to batch from now on, where these are wanted of a key that has
    /// so many rows.
    pub fn choose(this: &mut Option<Box<Self>>, frame: usize, wanted: Wanted<'_>, rows: usize) -> bool {
        let (anew, windows) = (wanted.anew, wanted.starts.len());
        if this.is_none() && anew < SHORT {
            return false;
        }
        let frames = &mut this.get_or_insert_default().frames;
        let place = frames.iter().position(|stand| stand.frame == frame).unwrap_or_else(|| {
            // How many rows came with these windows is not known yet.
            frames.push(Stand { frame, seen: rows.saturating_sub(windows), ..Stand::default() });
            frames.len() - 1
        });
        let stand = &mut frames[place];
        // Those that came before were counted, or are what it takes to begin.
        let new = rows - std::mem::replace(&mut stand.seen, rows);
        let kept = ONCE + EACH * (new + windows + wanted.moved(&mut stand.near));
        let is_on = !stand.followers.is_empty();
        let (cost, other) = if is_on { (kept, anew) } else { (anew, kept) };
        stand.regret = (stand.regret + cost).saturating_sub(other);
        if stand.regret <= BUILD * rows {
            return is_on;
        }
        *stand = Stand { frame, seen: rows, near: stand.near.clone(), ..Stand::default() };
        !is_on
    }

    /// Says which rows what follows the windows of a frame, from `begin` if there is nothing yet, is to be told of now: `new` and `places`
    /// get them, with how many of those it knows are before each. Where there are very many, some are told next time, and so on; returns over
    /// which it moves if it will know all, and is asked.
    pub fn tell(
        &mut self,
        frame: usize,
        (rows, wanted): (&[Entry], Wanted<'_>),
        begin: impl FnOnce() -> Vec<Box<dyn Follower>>,
        (new, places): (&mut Vec<At>, &mut Vec<usize>),
    ) -> Option<Moves> {
        let stand = self.frames.iter_mut().find(|stand| stand.frame == frame)?;
        if stand.followers.is_empty() {
            stand.followers = begin();
        }
        let known = rows.len().min(stand.known + TOLD);
        for (before, row) in stand.between.drain(..).chain(stand.known..known).enumerate() {
            new.push(rows[row].at);
            places.push(row - before);
        }
        stand.known = known;
        (known == rows.len()).then(|| Moves { from: stand.has.clone(), rows: wanted.moved(&mut stand.has) })
    }

    /// What follows the windows of a frame, each with its aggregate's number.
    ///
    /// Errors: those of `follow`.
    pub fn follow(
        this: &mut Option<Box<Self>>,
        frame: usize,
        mut follow: impl FnMut(usize, &mut dyn Follower) -> Result<()>,
    ) -> Result<()> {
        let mut frames = this.iter_mut().flat_map(|standing| &mut standing.frames);
        let Some(stand) = frames.find(|stand| stand.frame == frame) else { return Ok(()) };
        let mut followers = stand.followers.iter_mut().enumerate();
        followers.try_for_each(|(number, follower)| follow(number, follower.as_mut()))?;
        stand.bytes = stand.followers.iter().map(|follower| follower.bytes()).sum();
        Ok(())
    }

    /// Rows have come: so many of those that there were are before each.
    pub fn insert(&mut self, places: impl Iterator<Item = usize> + Clone) {
        for stand in &mut self.frames {
            let known = stand.known;
            let new = places.clone().take_while(|place| *place < known).enumerate();
            let new: Vec<usize> = new.map(|(before, place)| place + before).collect();
            if new.is_empty() {
                continue;
            }
            // Each of those before is behind as many more as come before it.
            let mut before = 0;
            for row in &mut stand.between {
                while new.get(before).is_some_and(|new| *new <= *row + before) {
                    before += 1;
                }
                *row += before;
            }
            stand.known += new.len();
            stand.between.extend(new);
            stand.between.sort_unstable();
        }
    }

    /// The first rows are gone.
    pub fn drop_first(&mut self, rows: usize) {
        for stand in &mut self.frames {
            let gone = rows.min(stand.known);
            let unknown = stand.between.partition_point(|row| *row < gone);
            stand.between.drain(..unknown);
            stand.between.iter_mut().for_each(|row| *row -= gone);
            stand.known -= gone;
            stand.seen = stand.seen.saturating_sub(rows);
            for window in [&mut stand.near, &mut stand.has] {
                *window = window.start.saturating_sub(rows)..window.end.saturating_sub(rows);
            }
            match stand.known {
                // Its memory is given back.
                0 => stand.end(),
                _ => stand.followers.iter_mut().for_each(|follower| follower.drop_first(gone - unknown)),
            }
        }
    }

    /// Rows behind so many are taken back.
    pub fn truncate(&mut self, rows: usize) {
        for stand in &mut self.frames {
            stand.seen = stand.seen.min(rows);
            if stand.known > rows {
                // What follows windows cannot do that.
                stand.end();
            }
        }
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.frames.iter().map(|stand| size_of::<Stand>() + stand.bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use arrow_array::{
        Array, ArrayRef, BooleanArray, UInt32Array, builder::ArrayBuilder, cast::AsArray, types::UInt32Type,
    };
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use thalweg_core::aggregate::Windows;

    use super::*;
    use crate::interval::entry::BASE;

    /// The rows that it was told of, and are not gone.
    struct Told(Arc<Mutex<Vec<u32>>>);

    impl Follower for Told {
        fn insert(&mut self, arguments: &[ArrayRef], _: Option<&BooleanArray>, places: &[usize]) -> Result<()> {
            let mut told = self.0.lock().unwrap();
            for (number, (row, place)) in
                arguments[0].as_primitive::<UInt32Type>().values().iter().zip(places).enumerate()
            {
                told.insert(place + number, *row);
            }
            Ok(())
        }

        fn drop_first(&mut self, rows: usize) {
            self.0.lock().unwrap().drain(..rows);
        }

        fn results(&mut self, _: &Windows<'_>, _: &mut dyn ArrayBuilder) -> Result<()> {
            Ok(())
        }

        fn bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn it_is_told_of_all_rows_wherever_they_come_and_while_they_go() {
        let mut told_again = 0;
        for seed in 0..100 {
            let random = &mut StdRng::seed_from_u64(seed);
            let (mut standing, mut rows) = (None, Vec::new());
            let told = Arc::new(Mutex::new(Vec::new()));
            let entry = |row: u32| {
                let at = At { batch: 0, row };
                Entry { time: 0, position: 0, key: 0, rank: BASE, at }
            };
            for row in (0..200).step_by(2) {
                let mut places: Vec<usize> = (0..2).map(|_| random.random_range(0..=rows.len())).collect();
                places.sort_unstable();
                standing.iter_mut().for_each(|standing: &mut Box<Standing>| standing.insert(places.iter().copied()));
                rows.insert(places[0], entry(row));
                rows.insert(places[1] + 1, entry(row + 1));
                if random.random_bool(0.3) {
                    let gone = random.random_range(0..=rows.len().min(9));
                    rows.drain(..gone);
                    standing.iter_mut().for_each(|standing| standing.drop_first(gone));
                }
                if random.random_bool(0.05) {
                    let left = random.random_range(0..=rows.len());
                    rows.truncate(left);
                    standing.iter_mut().for_each(|standing| standing.truncate(left));
                }
                let wanted = Wanted { starts: &[0], ends: &[rows.len()], anew: 100_000, moves: true };
                if random.random_bool(0.6) || !Standing::choose(&mut standing, 0, wanted, rows.len()) {
                    continue;
                }
                let begin = || {
                    told.lock().unwrap().clear();
                    vec![Box::new(Told(Arc::clone(&told))) as Box<dyn Follower>]
                };
                let (mut new, mut before) = (Vec::new(), Vec::new());
                let it = standing.as_mut().unwrap();
                let knows_all = it.tell(0, (&rows, wanted), begin, (&mut new, &mut before)).is_some();
                let new: ArrayRef = Arc::new(UInt32Array::from_iter_values(new.iter().map(|at| at.row)));
                Standing::follow(&mut standing, 0, |_, follower| follower.insert(&[Arc::clone(&new)], None, &before))
                    .unwrap();
                let all: Vec<u32> = rows.iter().map(|entry| entry.at.row).collect();
                let known = told.lock().unwrap();
                assert!(all.starts_with(&known) && knows_all == (all.len() == known.len()), "seed {seed}, row {row}");
                told_again += usize::from(knows_all && new.len() < all.len());
            }
        }
        assert!(told_again > 1_000, "{told_again}");
    }

    #[test]
    fn a_window_is_reached_in_steps_of_which_none_is_long() {
        let random = &mut StdRng::seed_from_u64(7);
        for _ in 0..2_000 {
            let mut range = || {
                let start = random.random_range(0..300);
                start..start + random.random_range(0..300)
            };
            let (mut moves, to, mut steps) = (Moves { from: range(), rows: 0 }, range(), 0);
            let moved = |from: &Range<usize>, to: &Range<usize>| {
                let wanted = Wanted { starts: &[to.start], ends: &[to.end], anew: 0, moves: true };
                wanted.moved(&mut from.clone())
            };
            while let Some(next) = moves.step(&to, 10) {
                assert!(next.start <= next.end && moved(&moves.from, &next) <= 20, "{moves:?} to {to:?}: {next:?}");
                (moves.from, steps) = (next, steps + 1);
            }
            assert!(moved(&moves.from, &to) <= 20 && steps < 70, "{moves:?} to {to:?} after {steps} steps");
        }
    }

    #[test]
    fn windows_of_very_many_rows_are_followed_once_all_are_told() {
        let (mut standing, mut told) = (None, 0);
        let entry = Entry { time: 0, position: 0, key: 0, rank: BASE, at: At { batch: 0, row: 0 } };
        for more in 1..2_000 {
            let rows = vec![entry; 20 * TOLD + more];
            let wanted = Wanted { starts: &[more], ends: &[rows.len()], anew: rows.len(), moves: false };
            if !Standing::choose(&mut standing, 0, wanted, rows.len()) {
                continue;
            }
            let begin = || vec![Box::new(Told(Arc::default())) as Box<dyn Follower>];
            let tells = (&mut Vec::new(), &mut Vec::new());
            told += usize::from(standing.as_mut().unwrap().tell(0, (&rows, wanted), begin, tells).is_some());
        }
        assert!(told > 1_900, "{told}");
    }
}
