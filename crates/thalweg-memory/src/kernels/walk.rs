//! How many numbers of an ascending sequence are less than each of some others, which ascend as well.

#[cfg(target_arch = "x86_64")]
use super::four::Avx2;
use super::four::{Four, Portable};
use crate::simd::{Level, at_level};

/// Looks for how many numbers are less than each of some limits.
#[derive(Debug)]
pub struct Walk<'a> {
    /// So many are less than the next limit at least.
    first: usize,
    limits: &'a [i64],
    found: &'a mut [usize],
}

impl<'a> Walk<'a> {
    /// What is found for each limit is written in its place; so many numbers are known to be less than the first.
    pub fn new(first: usize, limits: &'a [i64], found: &'a mut [usize]) -> Self {
        assert_eq!(limits.len(), found.len(), "a place for each limit");
        Self { first, limits, found }
    }

    /// Two, of which neither waits for the other.
    pub fn halves(self, numbers: &[i64]) -> [Self; 2] {
        let middle = self.limits.len() / 2;
        let (limits, others) = self.limits.split_at(middle);
        let (found, found_others) = self.found.split_at_mut(middle);
        let less = |limit: &i64| numbers[self.first..].partition_point(|number| number < limit);
        let first = self.first + others.first().map_or(0, less);
        [Self::new(self.first, limits, found), Self::new(first, others, found_others)]
    }

    /// To the end of both, side by side: each number waits for the one before.
    pub fn both(level: Level, walks: [Self; 2], numbers: &[i64]) {
        if walks[0].limits.len().max(walks[1].limits.len()) < FEW {
            return all_of(Portable, walks, numbers);
        }
        two(level, walks, numbers);
    }

    /// The same for four.
    pub fn all(level: Level, walks: [Self; 4], numbers: &[i64]) {
        four(level, walks, numbers);
    }
}

/// For fewer limits no other instructions are asked for.
const FEW: usize = 8;

at_level! {
    fn two(walks: [Walk<'_>; 2], numbers: &[i64]) = all_of, Portable, Avx2::new()
}

at_level! {
    fn four(walks: [Walk<'_>; 4], numbers: &[i64]) = all_of, Portable, Avx2::new()
}

#[inline(always)]
fn all_of<const N: usize>(by: impl Four, walks: [Walk<'_>; N], numbers: &[i64]) {
    let beside = walks.iter().map(|walk| walk.limits.len()).min().unwrap_or(0);
    let mut firsts = walks.each_ref().map(|walk| walk.first);
    let limits = walks.each_ref().map(|walk| &walk.limits[..beside]);
    let mut walks = walks;
    let mut found = walks.each_mut().map(|walk| &mut walk.found[..beside]);
    for place in 0..beside {
        for ((limits, found), first) in limits.iter().zip(&mut found).zip(&mut firsts) {
            *first = passed(by, numbers, *first, limits[place]);
            found[place] = *first;
        }
    }
    for (walk, mut first) in walks.into_iter().zip(firsts) {
        for (limit, found) in walk.limits[beside..].iter().zip(&mut walk.found[beside..]) {
            first = passed(by, numbers, first, *limit);
            *found = first;
        }
    }
}

/// How many numbers are less than a limit; so many are at least. As a rule few more are, and four are compared at once: nobody could foretell
/// where the first one is that is not.
#[inline(always)]
#[allow(unsafe_code)]
fn passed(by: impl Four, numbers: &[i64], mut first: usize, limit: i64) -> usize {
    let (all, fours) = (by.all(limit), numbers.len().saturating_sub(3));
    while first < fours {
        // SAFETY: there are four from there on.
        let four = unsafe { &*numbers.as_ptr().add(first).cast() };
        let less = by.negative(by.less(by.of(four), all));
        first += less;
        if less < 4 {
            return first;
        }
    }
    first + numbers[first..].iter().take_while(|number| **number < limit).count()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn what_is_found_is_what_a_search_finds() {
        for seed in 0..300 {
            let random = &mut StdRng::seed_from_u64(seed);
            let mut some = |most: usize| {
                let (count, span) = (random.random_range(0..=most), [3, 200, 1_000_000][random.random_range(0..3)]);
                let mut some: Vec<i64> = (0..count).map(|_| random.random_range(-span..span)).collect();
                some.sort_unstable();
                some
            };
            let (numbers, limits, others) = (some(300), some(300), some(40));
            let less = |limit: &i64| numbers.partition_point(|number| number < limit);
            let expected = [&limits, &others].map(|limits| limits.iter().map(less).collect::<Vec<_>>());
            let first = limits.first().map_or(0, less);
            for level in Level::all() {
                let mut found = [vec![9; limits.len()], vec![9; others.len()]];
                let [one, two] = &mut found;
                let walks = [Walk::new(first, &limits, one), Walk::new(0, &others, two)];
                if seed % 2 == 0 {
                    Walk::both(level, walks, &numbers);
                } else {
                    let [[one, two], [three, four]] = walks.map(|walk| walk.halves(&numbers));
                    Walk::all(level, [one, two, three, four], &numbers);
                }
                assert_eq!(found, expected, "seed {seed}, {level:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "a place for each limit")]
    fn there_is_a_place_for_each_limit() {
        Walk::new(0, &[1, 2], &mut [0]);
    }
}
