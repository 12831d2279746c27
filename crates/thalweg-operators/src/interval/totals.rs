//! Running totals over the rows of a key: what rows that follow each other add up to is the difference of two.

use std::ops::Range;

use thalweg_core::aggregate::{Addends, Amounts};
use thalweg_memory::simd::prefetch;

/// The running totals of one amount over the rows of one key.
#[derive(Debug)]
pub struct Running {
    sums: Sums,
    /// Before each row, and behind the last: how many rows before count, and how many have an amount that is no number. Empty while
    /// all count and are numbers.
    counts: Vec<(u32, u32)>,
    /// No amount has been larger.
    largest: u128,
}

/// Before each row, and behind the last: the sum of all amounts before, which may wrap around.
#[derive(Debug)]
enum Sums {
    /// The amounts are so small that no sum of those that are here is beyond 64 bits.
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

/// So many amounts as a count can count, none larger than this, add up to a number of 128 bits.
const HARMLESS: u128 = 1 << 95;

/// What some rows add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// How many of them count.
    pub count: u64,
    /// The sum of their amounts.
    pub sum: i128,
}

impl Default for Running {
    fn default() -> Self {
        Self { sums: Sums::Narrow(vec![0]), counts: Vec::new(), largest: 0 }
    }
}

/// Before each row, and behind the last, the sum of all before.
fn extend<T: Copy, A: Copy>(sums: &mut Vec<T>, amounts: &[A], add: impl Fn(T, A) -> T) {
    let mut sum = sums[sums.len() - 1];
    sums.extend(amounts.iter().map(|amount| {
        sum = add(sum, *amount);
        sum
    }));
}

/// Puts amounts between those of which there are sums: each where so many are before it. Those behind are moved once.
fn put_between<T: Copy + Default>(
    sums: &mut Vec<T>,
    amounts: impl Iterator<Item = T>,
    places: &[usize],
    add: impl Fn(T, T) -> T,
) {
    let mut sum = T::default();
    let more: Vec<T> = amounts
        .map(|amount| {
            sum = add(sum, amount);
            sum
        })
        .collect();
    let mut end = sums.len();
    sums.resize(end + more.len(), T::default());
    for (number, (place, more)) in places.iter().zip(&more).enumerate().rev() {
        let by = number + 1;
        for old in (place + 1..end).rev() {
            sums[old + by] = add(sums[old], *more);
        }
        sums[place + by] = add(sums[*place], *more);
        end = place + 1;
    }
}

/// How far the amount that is furthest from zero is from it.
fn largest(amounts: &[i64]) -> u64 {
    amounts.iter().fold(0, |largest, amount| largest.max(amount.unsigned_abs()))
}

impl Running {
    /// How many rows there are.
    fn len(&self) -> usize {
        match &self.sums {
            Sums::Narrow(sums) => sums.len() - 1,
            Sums::Wide(sums) => sums.len() - 1,
        }
    }

    /// Drops all rows, and keeps their memory.
    pub fn clear(&mut self) {
        match &mut self.sums {
            Sums::Narrow(sums) => {
                sums.clear();
                sums.push(0);
            }
            sums => *sums = Sums::Narrow(vec![0]),
        }
        (self.counts, self.largest) = (Vec::new(), 0);
    }

    /// Asks for the memory of the sum before a row.
    pub fn prefetch(&self, row: usize) {
        match &self.sums {
            Sums::Narrow(sums) => prefetch(sums.get(row..=row).unwrap_or_default(), 0),
            Sums::Wide(sums) => prefetch(sums.get(row..=row).unwrap_or_default(), 0),
        }
    }

    /// Appends rows.
    pub fn append(&mut self, amounts: &Amounts, rows: Range<usize>) {
        self.count(amounts, rows.clone());
        self.widen(amounts, rows.clone());
        match (&mut self.sums, &amounts.amounts) {
            (Sums::Narrow(sums), Addends::Narrow(amounts)) => extend(sums, &amounts[rows], i64::wrapping_add),
            (Sums::Narrow(sums), Addends::Wide(amounts)) => {
                extend(sums, &amounts[rows], |sum, amount| sum.wrapping_add(amount as i64));
            }
            (Sums::Wide(sums), Addends::Narrow(amounts)) => {
                extend(sums, &amounts[rows], |sum, amount| sum.wrapping_add(amount.into()));
            }
            (Sums::Wide(sums), Addends::Wide(amounts)) => extend(sums, &amounts[rows], i128::wrapping_add),
        }
    }

    /// Puts rows between others: each where so many of those that are there are before it.
    pub fn insert(&mut self, amounts: &Amounts, rows: Range<usize>, places: &[usize]) {
        let Amounts { counted, beyond, amounts: addends } = amounts;
        self.count_from_now_on(amounts);
        if !self.counts.is_empty() {
            let counts = rows.clone().map(|row| {
                let counts = counted.as_ref().is_none_or(|counted| counted.value(row));
                (u32::from(counts), u32::from(beyond.binary_search(&row).is_ok()))
            });
            let add = |(count, beyond): (u32, u32), (more, others): (u32, u32)| {
                (count.wrapping_add(more), beyond.wrapping_add(others))
            };
            put_between(&mut self.counts, counts, places, add);
        }
        self.widen(amounts, rows.clone());
        match &mut self.sums {
            Sums::Narrow(sums) => {
                put_between(sums, rows.map(|row| addends.get(row) as i64), places, i64::wrapping_add);
            }
            Sums::Wide(sums) => put_between(sums, rows.map(|row| addends.get(row)), places, i128::wrapping_add),
        }
    }

    /// Sums get wider if need be, before these rows come.
    fn widen(&mut self, amounts: &Amounts, rows: Range<usize>) {
        let largest = match &amounts.amounts {
            Addends::Narrow(amounts) => largest(&amounts[rows.clone()]).into(),
            Addends::Wide(amounts) => {
                amounts[rows.clone()].iter().map(|amount| amount.unsigned_abs()).max().unwrap_or(0)
            }
        };
        self.largest = self.largest.max(largest);
        let is_narrow = self.fits(self.len() + rows.len(), i64::MAX.into());
        if let Sums::Narrow(sums) = &self.sums
            && !is_narrow
        {
            // What was added before is the difference, which 64 bits hold.
            let mut sum = 0;
            let before = sums.windows(2).map(|pair| {
                sum += i128::from(pair[1].wrapping_sub(pair[0]));
                sum
            });
            self.sums = Sums::Wide([0].into_iter().chain(before).collect());
        }
    }

    /// From these rows on it is counted how many count, unless all do.
    fn count_from_now_on(&mut self, Amounts { counted, beyond, .. }: &Amounts) {
        let all_count = counted.is_none() && beyond.is_empty();
        if self.counts.is_empty() && !all_count {
            self.counts.extend((0..=self.len() as u32).map(|count| (count, 0)));
        }
    }

    /// Appends how many rows count.
    fn count(&mut self, amounts: &Amounts, rows: Range<usize>) {
        self.count_from_now_on(amounts);
        let Amounts { counted, beyond, .. } = amounts;
        let Some((mut count, mut before)) = self.counts.last().copied() else { return };
        self.counts.extend(rows.map(|row| {
            count = count.wrapping_add(u32::from(counted.as_ref().is_none_or(|counted| counted.value(row))));
            if !beyond.is_empty() {
                before = before.wrapping_add(u32::from(beyond.binary_search(&row).is_ok()));
            }
            (count, before)
        }));
    }

    /// Whether no sum of so many amounts is larger.
    fn fits(&self, count: usize, most: i128) -> bool {
        self.largest.checked_mul(count as u128).is_some_and(|sum| sum <= most.unsigned_abs())
    }

    /// The sums before each row, and behind the last, where these are small and all rows count; they may wrap around.
    pub fn narrow(&self) -> Option<&[i64]> {
        match &self.sums {
            Sums::Narrow(sums) if self.counts.is_empty() => Some(sums),
            _ => None,
        }
    }

    /// What the rows of each range add up to, if that is a number of 128 bits for certain; `found` is told in their order. The first
    /// range begins so many rows behind the first.
    pub fn of(&self, starts: &[usize], ends: &[usize], first: usize, mut found: impl FnMut(usize, Option<Total>)) {
        let ranges = starts.iter().zip(ends).map(|(start, end)| start + first..end + first);
        ranges.enumerate().for_each(|(i, range)| found(i, self.one(range)));
    }

    /// The same of one range.
    pub fn one(&self, Range { start, end }: Range<usize>) -> Option<Total> {
        let (count, beyond) = match &self.counts[..] {
            [] => ((end - start) as u64, 0),
            counts => {
                let ((more, beyond), (less, before)) = (counts[end], counts[start]);
                (u64::from(more.wrapping_sub(less)), beyond.wrapping_sub(before))
            }
        };
        let sum = match &self.sums {
            Sums::Narrow(sums) => i128::from(sums[end].wrapping_sub(sums[start])),
            Sums::Wide(sums) => sums[end].wrapping_sub(sums[start]),
        };
        // The difference is right where the sum itself does not wrap around.
        let is_sure = beyond == 0 && self.fits(count as usize, i128::MAX);
        is_sure.then_some(Total { count, sum })
    }

    /// Drops the first rows.
    pub fn drop_first(&mut self, rows: usize) {
        let most = 4 * (self.len() - rows).max(64);
        match &mut self.sums {
            Sums::Narrow(sums) => drop_first(sums, rows, most),
            Sums::Wide(sums) => {
                drop_first(sums, rows, most);
                if self.largest > HARMLESS {
                    let amounts = sums.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).unsigned_abs());
                    self.largest = amounts.max().unwrap_or(0);
                }
            }
        }
        if !self.counts.is_empty() {
            drop_first(&mut self.counts, rows, most);
        }
    }

    /// What each row adds behind the first ones, of which there are so many; `None` where it does not count. All are numbers of 64 bits.
    pub fn amounts(&self, first: usize) -> impl Iterator<Item = Option<i64>> + '_ {
        (first..self.len()).map(|row| {
            let amount = match &self.sums {
                Sums::Narrow(sums) => sums[row + 1].wrapping_sub(sums[row]),
                Sums::Wide(sums) => sums[row + 1].wrapping_sub(sums[row]) as i64,
            };
            let counts = self.counts.get(row).is_none_or(|before| *before != self.counts[row + 1]);
            counts.then_some(amount)
        })
    }

    /// Takes all but the first rows back.
    pub fn truncate(&mut self, rows: usize) {
        match &mut self.sums {
            Sums::Narrow(sums) => sums.truncate(rows + 1),
            Sums::Wide(sums) => sums.truncate(rows + 1),
        }
        self.counts.truncate(rows + 1);
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let sums = match &self.sums {
            Sums::Narrow(sums) => sums.capacity() * size_of::<i64>(),
            Sums::Wide(sums) => sums.capacity() * size_of::<i128>(),
        };
        sums + self.counts.capacity() * size_of::<(u32, u32)>()
    }
}

/// Drops the first of some things, with memory if there is more than for so many.
fn drop_first<T>(things: &mut Vec<T>, count: usize, most: usize) {
    things.drain(..count);
    if things.capacity() > most {
        things.shrink_to(most / 2);
    }
}

impl Total {
    /// What is left without another one, of rows of which its are some, if it is a number of 128 bits.
    pub fn minus(self, other: Self) -> Option<Self> {
        Some(Self { count: self.count.checked_sub(other.count)?, sum: self.sum.checked_sub(other.sum)? })
    }

    /// What both add up to, if it is a number of 128 bits.
    pub fn plus(self, other: Self) -> Option<Self> {
        Some(Self { count: self.count + other.count, sum: self.sum.checked_add(other.sum)? })
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    /// As narrow as can be.
    fn addends(amounts: &[i128]) -> Addends {
        let narrow = amounts.iter().map(|amount| i64::try_from(*amount)).collect::<Result<_, _>>();
        narrow.map_or_else(|_| Addends::Wide(amounts.to_vec()), Addends::Narrow)
    }

    fn amounts(amounts: &[i128], uncounted: &[usize], beyond: &[usize]) -> Amounts {
        let counted = (0..amounts.len()).map(|row| !uncounted.contains(&row)).collect::<Vec<_>>();
        Amounts { amounts: addends(amounts), counted: Some(counted.into()), beyond: beyond.to_vec() }
    }

    fn of<const N: usize>(running: &Running, ranges: [Range<usize>; N], first: usize) -> Vec<Option<Total>> {
        let mut found = Vec::new();
        let (starts, ends) = (ranges.each_ref().map(|range| range.start), ranges.each_ref().map(|range| range.end));
        running.of(&starts, &ends, first, |number, total| {
            assert_eq!(number, found.len());
            found.push(total);
        });
        found
    }

    #[test]
    fn what_rows_add_up_to_is_the_difference_of_two_totals() {
        let mut running = Running::default();
        running.append(&amounts(&[5, -3, 0, 0, 9], &[2], &[3]), 0..5);
        let total = |count, sum| Some(Total { count, sum });
        // One of the last is no number.
        assert_eq!(of(&running, [0..2, 1..3, 2..5], 0), [total(2, 2), total(1, -3), None]);
        running.drop_first(2);
        assert_eq!(of(&running, [0..1, 1..1], 2), [total(1, 9), total(0, 0)]);
    }

    #[test]
    fn rows_may_come_between_others() {
        for seed in 0..200 {
            let random = &mut StdRng::seed_from_u64(seed);
            let (mut rows, mut running): (Vec<(i128, bool, bool)>, _) = (Vec::new(), Running::default());
            for _ in 0..random.random_range(1..12) {
                let large = if random.random_bool(0.1) { i128::from(i64::MAX) * 5 } else { 1 };
                let [misses, beyond] = [0.3, 0.1].map(|chance| if random.random_bool(0.5) { chance } else { 0.0 });
                let new: Vec<_> = (0..random.random_range(0..6))
                    .map(|_| {
                        let counts = !random.random_bool(misses);
                        let amount = if counts { random.random_range(-9..10) * large } else { 0 };
                        (amount, counts, counts && random.random_bool(beyond))
                    })
                    .collect();
                let mut places: Vec<usize> = new.iter().map(|_| random.random_range(0..=rows.len())).collect();
                places.sort_unstable();
                let numbers = |is: &dyn Fn(&(i128, bool, bool)) -> bool| {
                    new.iter().enumerate().filter(|(_, row)| is(row)).map(|(number, _)| number).collect::<Vec<_>>()
                };
                let found = amounts(
                    &new.iter().map(|row| row.0).collect::<Vec<_>>(),
                    &numbers(&|row| !row.1),
                    &numbers(&|row| row.2),
                );
                running.insert(&found, 0..new.len(), &places);
                new.iter().zip(places).enumerate().for_each(|(before, (row, place))| rows.insert(place + before, *row));
            }
            let mut twin = Running::default();
            let numbers = |is: &dyn Fn(&(i128, bool, bool)) -> bool| {
                rows.iter().enumerate().filter(|(_, row)| is(row)).map(|(number, _)| number).collect::<Vec<_>>()
            };
            let all: Vec<i128> = rows.iter().map(|row| row.0).collect();
            twin.append(&amounts(&all, &numbers(&|row| !row.1), &numbers(&|row| row.2)), 0..rows.len());
            for _ in 0..20 {
                let start = random.random_range(0..=rows.len());
                let range = start..random.random_range(start..=rows.len());
                assert_eq!(of(&running, [range.clone()], 0), of(&twin, [range], 0), "seed {seed}");
            }
        }
    }

    #[test]
    fn totals_may_wrap_around_but_sums_of_rows_may_not() {
        let mut running = Running::default();
        let large = i128::MAX / 2;
        running.append(&amounts(&[large; 7], &[], &[]), 0..7);
        assert_eq!(of(&running, [3..5, 3..6], 0), [Some(Total { count: 2, sum: large * 2 }), None]);
        running.append(&amounts(&[1, 1, 1], &[], &[]), 0..3);
        // Nobody knows that the large ones are not among them.
        assert_eq!(of(&running, [7..10, 7..7], 0)[0], None);
        running.drop_first(7);
        assert_eq!(of(&running, [0..3, 0..0], 0)[0], Some(Total { count: 3, sum: 3 }));
    }

    #[test]
    fn sums_get_wider_when_amounts_do() {
        let mut running = Running::default();
        let large = i128::from(i64::MAX);
        for amount in [7, -9, large / 4, -large / 3, large, large, 5, -2 * large, i128::MAX / 100] {
            running.append(&amounts(&[amount], &[], &[]), 0..1);
        }
        let total = |count, sum| Some(Total { count, sum });
        assert_eq!(of(&running, [0..2, 1..4, 2..7], 0)[..2], [total(2, -2), total(3, -9 + large / 4 - large / 3)]);
        assert_eq!(
            of(&running, [2..7, 5..8], 0),
            [total(5, large / 4 - large / 3 + 2 * large + 5), total(3, 5 - large)]
        );
    }
}
