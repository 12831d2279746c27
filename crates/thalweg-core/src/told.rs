//! How many results there are and how many of them are exact, by event time.
//!
//! Rows that come too late come many at once more often than not, so that results are spoilt where these were: what is made of several
//! results is exact where all of them are, and an average over all times would not say how many that is.

use std::collections::BTreeMap;

/// There are at most about so many slices of time. (Tests have few.)
const MOST: usize = if cfg!(test) { 4 } else { 512 };

/// So many rows of a slice tell of it as much as all others do.
const MANY: f64 = 100.0;

/// How wide a slice is at first, in microseconds.
const NARROW: i64 = 1024;

/// What is known of results, in slices of event time, which are the wider the more time there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    width: i64,
    slices: BTreeMap<i64, Count>,
    sum: Count,
    /// When the first and the last were of which only the sum is known.
    others: Option<(i64, i64)>,
}

/// Some results.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    /// The rows that have them.
    pub rows: f64,
    /// How many others were found for these.
    pub found: f64,
    /// Rows that came too late to have any.
    pub late: f64,
    /// How many results those that are not late should have.
    pub all: f64,
    /// How many results there should be besides, of rows that are not counted here.
    pub besides: f64,
    /// How many of all these are there, and right.
    pub exact: f64,
    /// How many are there that should not be.
    pub wrong: f64,
}

impl Count {
    fn add(&mut self, Self { rows, found, late, all, besides, exact, wrong }: Self) {
        self.rows += rows;
        self.found += found;
        self.late += late;
        self.all += all;
        self.besides += besides;
        self.exact += exact;
        self.wrong += wrong;
    }

    /// How many others were found for each row, if there are any.
    pub fn found_each(&self) -> Option<f64> {
        (self.rows > 0.0).then(|| self.found / self.rows)
    }

    /// For each row that has results how many there should be, those that came too late among them.
    pub fn should_be(&self) -> f64 {
        if self.rows == 0.0 { 1.0 } else { (self.rows + self.late) / self.rows }
    }
}

impl Default for Told {
    fn default() -> Self {
        Self { width: NARROW, slices: BTreeMap::new(), sum: Count::default(), others: None }
    }
}

impl Told {
    /// Whether nothing is known of any time.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// How wide a slice is, in microseconds.
    pub fn width(&self) -> i64 {
        self.width
    }

    /// All slices together.
    pub fn sum(&self) -> Count {
        self.sum
    }

    /// From when to when there are results, as far as slices tell.
    pub fn span(&self) -> Option<(i64, i64)> {
        let at = |slice: i64| slice.saturating_mul(self.width);
        let own = self.slices.first_key_value().zip(self.slices.last_key_value());
        let own = own.map(|((first, _), (last, _))| (at(*first), at(last.saturating_add(1))));
        own.into_iter().chain(self.others).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    /// The slices in their order: when each begins, and what is known of it.
    pub fn slices(&self) -> impl Iterator<Item = (i64, &Count)> {
        self.slices.iter().map(|(slice, count)| (slice.saturating_mul(self.width), count))
    }

    /// How many results there should be of some of these rows: those that came too late would have had as many as those beside them.
    pub fn should_have(&self, count: &Count) -> f64 {
        let all = self.sum.all / f64::max(self.sum.rows, 1.0);
        let each = (count.all + MANY * all) / (count.rows + MANY);
        count.all + count.late * each + count.besides
    }

    /// The same results, as if no row had them: those of rows that others stand for.
    pub fn of_no_rows(&self) -> Self {
        let mut told = Self { width: self.width, ..Self::default() };
        for (time, count) in self.slices() {
            let (besides, Count { exact, wrong, .. }) = (self.should_have(count), *count);
            told.add(time, Count { besides, exact, wrong, ..Count::default() });
        }
        told
    }

    /// Adds what is known of this time.
    pub fn add(&mut self, time: i64, count: Count) {
        self.sum.add(count);
        self.slices.entry(time.div_euclid(self.width)).or_default().add(count);
        while self.slices.len() > MOST {
            self.widen();
        }
    }

    /// Adds what is known of many times, where slices are as wide as this at least.
    pub fn add_all(&mut self, width: i64, counts: impl Iterator<Item = (i64, Count)>) {
        while self.width < width {
            self.widen();
        }
        let counts: Vec<_> = counts.map(|(time, count)| (time.div_euclid(self.width), count)).collect();
        let first = counts.iter().map(|(slice, _)| *slice).min().unwrap_or(0);
        let mut together = vec![Count::default(); 4 * MOST];
        let (mut far, width) = (Vec::new(), self.width);
        for (slice, count) in counts {
            match usize::try_from(slice - first).ok().and_then(|slice| together.get_mut(slice)) {
                Some(slice) => slice.add(count),
                None => far.push((slice, count)),
            }
        }
        let near = together.into_iter().zip(first..).map(|(count, slice)| (slice, count));
        let near = near.filter(|(_, count)| *count != Count::default());
        near.chain(far).for_each(|(slice, count)| self.add(slice.saturating_mul(width), count));
    }

    /// Adds what another instance knows.
    pub fn merge(&mut self, other: &Self) {
        while self.width < other.width {
            self.widen();
        }
        other.slices().for_each(|(time, count)| self.add(time, *count));
    }

    /// Adds what another instance knows, of all times together.
    pub fn merge_sum(&mut self, other: &Self) {
        self.sum.add(other.sum);
        self.others =
            self.span().into_iter().chain(other.span()).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    }

    /// Two slices each become one.
    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        for (slice, count) in std::mem::take(&mut self.slices) {
            self.slices.entry(slice.div_euclid(2)).or_default().add(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: i64) -> Count {
        Count { rows: rows as f64, ..Count::default() }
    }

    #[test]
    fn slices_get_wider_as_time_goes_on_and_nothing_is_lost() {
        let mut told = Told::default();
        (-10..30).for_each(|time| told.add(time * NARROW, rows(1)));
        assert_eq!(told.width(), 16 * NARROW);
        let slices: Vec<_> = told.slices().map(|(time, count)| (time / NARROW, count.rows)).collect();
        assert_eq!(slices, [(-16, 10.0), (0, 16.0), (16, 14.0)]);
    }

    #[test]
    fn what_instances_know_is_added_whoever_has_the_wider_slices() {
        let [mut narrow, mut wide] = [Told::default(), Told::default()];
        narrow.add(5 * NARROW, rows(1));
        (0..8).for_each(|time| wide.add(time * NARROW, rows(10)));
        let mut all = Told::default();
        all.add_all(2 * NARROW, (0..8).map(|time| (time * NARROW, rows(10))));
        assert_eq!(all, wide);
        let mut other = wide.clone();
        other.merge(&narrow);
        narrow.merge(&wide);
        assert_eq!(narrow, other);
        assert_eq!(narrow.sum().rows, 81.0);
        assert_eq!(narrow.slices().map(|(_, count)| count.rows).collect::<Vec<_>>(), [20.0, 20.0, 21.0, 20.0]);
        let mut sum = Told::default();
        assert_eq!(sum.span(), None);
        sum.merge_sum(&narrow);
        sum.merge_sum(&Told::default());
        assert_eq!((sum.sum(), sum.span()), (narrow.sum(), Some((0, 8 * NARROW))));
        let late = Count { rows: 100.0, late: 50.0, all: 300.0, ..Count::default() };
        let mut told = Told::default();
        told.add(7, late);
        assert_eq!(told.of_no_rows().sum(), Count { besides: 450.0, ..Count::default() });
        assert_eq!((late.should_be(), Count::default().should_be()), (1.5, 1.0));
    }
}
