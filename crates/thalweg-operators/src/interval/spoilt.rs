//! How many results lack rows that came too late.
//!
//! Some of the rows with results are remembered, all of them alike likely, with what they have seen: their keys, and a span of time. A row
//! that is late is looked for in these. That is exact for as many results as are remembered, and for more it is what a poll is: whether
//! late rows come alone or many at once does not matter.
//!
//! ```text
//! 3 PRECEDING     r ── r ── r ── row     a late row from the first r on would have been one of the three
//! LAST JOIN                 r ── row     one behind r would have been the last one
//! ```
//!
//! Source: Li, "Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n)))", algorithm L.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{Array, ArrayRef, UInt32Array, cast::AsArray};
use thalweg_core::{
    Batch, Result, Selection, Timestamp,
    expression::Expression,
    told::{Count, Told},
};
use thalweg_memory::kernels::hash::hash_columns;
use thalweg_plan::node::{Distance, JoinKind};

use super::input::Input;
use crate::{aggregate::values::Values, rows::taken};

/// So many rows are remembered. (Tests have few.)
const REMEMBERED: usize = if cfg!(test) { 400 } else { 1 << 15 };

/// Rows that are late are looked for among those that are remembered once there are so many of them, or a part of these.
const TOGETHER: usize = 64;

/// After so many batches they are in any case.
const BATCHES: usize = 16;

/// It is told anew when there are so many more rows, where there are few, and one in so many more where there are many.
const FEW: u64 = 512;
const MORE: u64 = 8;

/// What the results of a row are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// One result, of the row and all that it sees.
    Rows,
    /// The same, for rows that see something.
    Partners,
    /// What this kind of join makes of the row and those that it sees.
    Join(JoinKind),
}

/// What a row with results has seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When it is.
    pub time: i64,
    /// From when on a row that came too late would have changed what it sees.
    pub from: i64,
    /// Up to when.
    pub to: i64,
    /// How many rows it saw.
    pub rows: u32,
    /// Of so many a condition was asked, which held for those; 0 where that is not known, or none was asked.
    pub asked: u32,
}

impl Seen {
    /// What a row has seen that is joined with others so far behind it, unless a part of its key is null, which equals nothing.
    pub fn within(Distance { from, to }: Distance, time: i64, [rows, asked]: [u32; 2], is_null: bool) -> Self {
        let (from, to) = if is_null { (1, 0) } else { (time.saturating_add(from.0), time.saturating_add(to.0)) };
        Self { time, from, to, rows, asked }
    }
}

/// Which results lack rows that came too late.
#[derive(Debug)]
pub struct Spoilt {
    of: Of,
    /// How far behind a row those may be that see it, without end if they may be so for ever.
    reach: Option<i64>,
    remembered: Vec<Remembered>,
    /// How many rows had results, and which of them is remembered next in place of another one.
    rows: u64,
    next: u64,
    weight: f64,
    random: u64,
    /// By key when rows came too late, in the order of time, as far as others may see these.
    lacking: HashMap<u64, Vec<i64>>,
    /// Those that were not yet looked for among the rows that are remembered, and how many there were before them; and how many batches ago
    /// the first of them came.
    new: Vec<(u64, i64)>,
    looked_for: u64,
    batches: usize,
    /// When rows came too late to have results.
    late: Told,
    /// How many pairs a condition was asked of, and for how many it held.
    pairs: [u64; 2],
    /// How many rows, of those and of these, there were when this was told.
    told: u64,
    /// How wide slices of time were then.
    width: i64,
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    key: u64,
    seen: Seen,
    /// How many rows it lacks.
    lacks: u32,
    /// So many late rows were known then.
    known: u64,
}

/// The rows of a batch for which one of these filters holds; all of them where that cannot be said.
fn wanted(batch: Batch, filters: &[Arc<dyn Expression>]) -> Batch {
    let masks: Result<Vec<ArrayRef>> = filters.iter().map(|filter| filter.evaluate(&batch)).collect();
    let Ok(masks) = masks else { return batch };
    let holds = |row: usize| masks.iter().any(|mask| mask.is_valid(row) && mask.as_boolean().value(row));
    let rows = batch.rows().filter(|row| holds(*row)).map(|row| row as u32).collect();
    batch.with_selection(Selection::new(rows))
}

impl Spoilt {
    /// Of rows that are seen by those so far behind them, at most.
    pub fn new(of: Of, reach: Option<i64>) -> Self {
        Self {
            of,
            reach,
            remembered: Vec::new(),
            rows: 0,
            next: 0,
            weight: 1.0,
            random: 0x9e37_79b9_7f4a_7c15,
            lacking: HashMap::new(),
            new: Vec::new(),
            looked_for: 0,
            batches: 0,
            late: Told::default(),
            pairs: [0; 2],
            told: 0,
            width: 0,
        }
    }

    /// There are results for so many more rows: which of them, in their order, are to be remembered.
    pub fn choose(&mut self, rows: usize) -> Vec<usize> {
        let end = self.rows + rows as u64;
        let mut chosen = Vec::new();
        while self.next < end {
            chosen.push((self.next - self.rows) as usize);
            self.next += if (self.next as usize) < REMEMBERED - 1 { 1 } else { self.leap() };
        }
        self.rows = end;
        chosen
    }

    /// Remembers what rows have seen that were chosen, all that these columns have keys of; returns in which place each is, where one was
    /// before that is forgotten.
    ///
    /// Errors: those of hashing keys.
    pub fn remember(&mut self, keys: &[ArrayRef], rows: &[Seen]) -> Result<Vec<usize>> {
        let mut places = Vec::new();
        let known = self.looked_for + self.new.len() as u64;
        for (key, seen) in hash_columns(keys, rows.len())?.into_iter().zip(rows.iter().copied()) {
            let lacks = self.lacking.get(&key).map_or(0, |times| between(times, seen).len() as u32);
            let remembered = Remembered { key, seen, lacks, known };
            if self.remembered.len() < REMEMBERED {
                places.push(self.remembered.len());
                self.remembered.push(remembered);
            } else {
                let place = (self.uniform() * REMEMBERED as f64) as usize;
                places.push(place.min(REMEMBERED - 1));
                self.remembered[place.min(REMEMBERED - 1)] = remembered;
            }
        }
        Ok(places)
    }

    /// Of a batch of an input others rows than these came too late, which others would have seen, if any of these filters had held, or
    /// which have results themselves.
    ///
    /// Errors: those of hashing keys.
    pub fn leave_out(
        &mut self,
        input: &Input,
        batch: Batch,
        on_time: &Batch,
        (are_seen, filters, are_bases): (bool, &[Arc<dyn Expression>], bool),
    ) -> Result<()> {
        if on_time.len() == batch.len() {
            return Ok(());
        }
        let late = input.late(batch, on_time);
        if are_bases {
            self.lose(&input.times(&late)?.values[late.own()]);
        }
        let late = if filters.is_empty() { late } else { wanted(late, filters) };
        // Nobody asks for the keys of rows that are dropped.
        if are_seen && let Ok(Values { keys, .. }) = Values::new(&input.keys, &[], &late) {
            self.miss(&keys, &input.times(&late)?.values)?;
        }
        Ok(())
    }

    /// A row that is remembered in this place has other results now, of what it sees now.
    pub fn see_again(&mut self, place: usize, seen: Seen) {
        let before = self.remembered[place];
        let is_same = (before.seen.from, before.seen.to) == (seen.from, seen.to);
        if is_same {
            self.remembered[place].seen = seen;
            return;
        }
        let known = self.looked_for + self.new.len() as u64;
        let lacks = self.lacking.get(&before.key).map_or(0, |times| between(times, seen).len() as u32);
        self.remembered[place] = Remembered { seen, lacks, known, ..before };
    }

    /// Of a row that is remembered in this place and another one a condition was asked.
    pub fn ask_one(&mut self, place: usize) {
        let asked = &mut self.remembered[place].seen.asked;
        *asked = asked.saturating_add(1);
    }

    /// A row that is remembered in this place has seen one more.
    pub fn meet(&mut self, place: usize) {
        let rows = &mut self.remembered[place].seen.rows;
        *rows = rows.saturating_add(1);
    }

    /// Rows came too late that others would have seen.
    ///
    /// Errors: those of hashing keys.
    fn miss(&mut self, keys: &[ArrayRef], times: &[i64]) -> Result<()> {
        for (key, time) in hash_columns(keys, times.len())?.into_iter().zip(times) {
            self.new.push((key, *time));
            let of_key = self.lacking.entry(key).or_default();
            of_key.insert(of_key.partition_point(|other| other <= time), *time);
        }
        Ok(())
    }

    /// Rows came too late to have results.
    fn lose(&mut self, times: &[i64]) {
        times.iter().for_each(|time| self.late.add(*time, Count { late: 1.0, ..Count::default() }));
    }

    /// A condition was asked of so many pairs, and held for some of them.
    pub fn ask(&mut self, asked: usize, held: usize) {
        self.pairs[0] += asked as u64;
        self.pairs[1] += held as u64;
    }

    /// A batch was taken, and no row before this time has results any more; what is known now, if that is worth telling, or if these are all.
    pub fn tell(&mut self, final_before: Timestamp, are_all: bool) -> Option<Told> {
        self.batches += usize::from(!self.new.is_empty());
        let many = TOGETHER.max(self.remembered.len() / TOGETHER);
        let known = self.rows + self.looked_for + self.new.len() as u64;
        let more = if self.told > 2 * REMEMBERED as u64 { self.told / MORE } else { self.told.min(FEW) };
        let is_worth_it = are_all || known > self.told + more;
        if self.new.len() >= many || self.batches >= BATCHES || is_worth_it {
            self.look();
            self.forget(final_before.0);
        }
        if !is_worth_it {
            return None;
        }
        self.told = known;
        let weight = self.rows as f64 / self.remembered.len().max(1) as f64;
        let [asked, held] = self.pairs;
        let all_held = if asked == 0 { 1.0 } else { held as f64 / asked as f64 };
        // It may hold for all others of one row and for none of another's: what is known of all counts as one pair.
        let held = |seen: &Seen| match seen.asked {
            0 => all_held,
            asked => ((f64::from(seen.rows) + all_held) / (f64::from(asked) + 1.0)).min(1.0),
        };
        // Of the others it is not known yet what they will see.
        let known = self.remembered.iter().filter(|row| are_all || row.seen.time < final_before.0);
        let counts = known.map(|Remembered { seen, lacks, .. }| {
            let found = f64::from(seen.rows) * weight;
            let [all, exact, wrong] =
                self.of.results(f64::from(seen.rows), f64::from(*lacks), held(seen)).map(|count| count * weight);
            (seen.time, Count { rows: weight, found, all, exact, wrong, ..Count::default() })
        });
        let mut told = self.late.clone();
        told.add_all(self.width, counts);
        self.width = told.width();
        Some(told)
    }

    /// Looks for rows that were late among those that are remembered.
    fn look(&mut self) {
        self.batches = 0;
        if self.new.is_empty() {
            return;
        }
        let mut late: HashMap<u64, Vec<(i64, u64)>> = HashMap::new();
        let before = self.looked_for;
        self.looked_for += self.new.len() as u64;
        for ((key, time), number) in self.new.drain(..).zip(before..) {
            late.entry(key).or_default().push((time, number));
        }
        for row in self.remembered.iter_mut().filter(|row| row.known < self.looked_for) {
            let Some(times) = late.get(&row.key) else { continue };
            let lacks =
                |(time, number): &&(i64, u64)| *number >= row.known && (row.seen.from..=row.seen.to).contains(time);
            row.lacks += times.iter().filter(lacks).count() as u32;
        }
    }

    /// Forgets late rows that nobody sees who has results from this time on. Of those that may be seen for ever the first and the last one
    /// stay: whoever sees one of them sees the first, or the last.
    fn forget(&mut self, final_before: i64) {
        let reach = self.reach;
        self.lacking.retain(|_, times| {
            match reach {
                Some(reach) => {
                    drop(times.drain(..times.partition_point(|time| time.saturating_add(reach) < final_before)))
                }
                None => {
                    let old = times.partition_point(|time| *time < final_before);
                    if old > 2 {
                        times.drain(1..old - 1);
                    }
                }
            }
            !times.is_empty()
        });
    }

    /// How far it is to the next row that is remembered.
    fn leap(&mut self) -> u64 {
        self.weight *= (self.uniform().ln() / REMEMBERED as f64).exp();
        let rows = self.uniform().ln() / (1.0 - self.weight).ln();
        (rows as u64).saturating_add(1)
    }

    /// Between 0 and 1, and neither of them.
    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let of_key = size_of::<(u64, Vec<i64>)>() + size_of::<i64>();
        self.remembered.capacity() * size_of::<Remembered>()
            + self.lacking.len() * of_key
            + self.new.capacity() * size_of::<(u64, i64)>()
    }
}

/// Which pairs of a join are there, and which rows without a partner.
#[derive(Debug)]
pub struct OfJoin {
    /// Of the side that comes out alone where it has no partner, or the left one.
    pub bases: Spoilt,
    /// Of a full join also of the other one: which of its rows are alone.
    pub others: Option<Spoilt>,
    /// What was told of them.
    told: [Told; 2],
}

impl OfJoin {
    /// Of a join of this kind, where others lie so far behind the base rows.
    pub fn new(kind: JoinKind, distance: Distance) -> Self {
        let reach = |distance: Distance| Some(distance.from.0.saturating_neg());
        let is_full = kind == JoinKind::Full;
        Self {
            bases: Spoilt::new(Of::Join(kind), reach(distance)),
            others: is_full.then(|| Spoilt::new(Of::Join(JoinKind::Anti), reach(distance.mirrored()))),
            told: Default::default(),
        }
    }

    /// Of a batch of an input others rows than these came too late; whether these are base rows. Errors: as [`Spoilt::leave_out`].
    pub fn leave_out(&mut self, input: &Input, batch: &Batch, on_time: &Batch, are_bases: bool) -> Result<()> {
        if let Some(others) = &mut self.others {
            others.leave_out(input, batch.clone(), on_time, (are_bases, &[], !are_bases))?;
        }
        self.bases.leave_out(input, batch.clone(), on_time, (!are_bases, &[], are_bases))
    }

    /// A condition was asked of so many pairs, and held for some of them.
    pub fn ask(&mut self, asked: usize, held: usize) {
        [Some(&mut self.bases), self.others.as_mut()].into_iter().flatten().for_each(|spoilt| spoilt.ask(asked, held));
    }

    /// As [`Spoilt::tell`].
    pub fn tell(&mut self, final_before: Timestamp, are_all: bool) -> Option<Told> {
        let told = [Some(&mut self.bases), self.others.as_mut()].map(|spoilt| spoilt?.tell(final_before, are_all));
        if told.iter().all(Option::is_none) {
            return None;
        }
        for (told, last) in told.into_iter().zip(&mut self.told) {
            *last = told.unwrap_or_else(|| last.clone());
        }
        let mut all = self.told[0].clone();
        all.merge(&self.told[1].of_no_rows());
        Some(all)
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.bases.bytes() + self.others.as_ref().map_or(0, Spoilt::bytes)
    }
}

/// Those of some times, which are in order, that a row would have seen.
fn between(times: &[i64], seen: Seen) -> &[i64] {
    let from = times.partition_point(|time| *time < seen.from);
    let to = times.partition_point(|time| *time <= seen.to);
    &times[from.min(to)..to]
}

impl Of {
    /// How many results a row should have that saw so many others and lacks so many, of which a condition holds for this share; and how many
    /// of these are there, and right; and how many are there that should not be.
    fn results(self, rows: f64, lacks: f64, held: f64) -> [f64; 3] {
        // How likely one of those that it lacks would have been its partner, and how many would have.
        let (one, some) = (1.0 - (1.0 - held).powf(lacks), held * lacks);
        match (self, rows == 0.0) {
            (Self::Rows, _) | (Self::Partners, false) => [1.0, 1.0 - one, 0.0],
            (Self::Partners | Self::Join(JoinKind::Semi), true) => [one, 0.0, 0.0],
            (Self::Join(JoinKind::Semi), false) => [1.0, 1.0, 0.0],
            (Self::Join(JoinKind::Anti), true) => [1.0 - one, 1.0 - one, one],
            (Self::Join(JoinKind::Anti), false) => [0.0; 3],
            (Self::Join(JoinKind::Inner), _) | (Self::Join(_), false) => [rows + some, rows, 0.0],
            (Self::Join(JoinKind::Left | JoinKind::Right | JoinKind::Full), true) => [1.0 - one + some, 1.0 - one, one],
        }
    }
}

/// The values of some rows.
///
/// Errors: those of Arrow's `take`.
pub fn taken_rows(column: &ArrayRef, rows: &[usize]) -> Result<ArrayRef> {
    taken(column, &UInt32Array::from_iter_values(rows.iter().map(|row| *row as u32)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    fn keys(rows: &[(i64, i64)]) -> Vec<ArrayRef> {
        vec![Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)))]
    }

    fn times(rows: &[(i64, i64)]) -> Vec<i64> {
        rows.iter().map(|row| row.1).collect()
    }

    /// How many results are exact, of how many.
    fn share(told: &Told) -> f64 {
        let count = |of: fn(&Count) -> f64| told.slices().map(|(_, count)| of(count)).sum::<f64>();
        count(|count| count.exact) / count(|count| count.all + count.wrong)
    }

    /// Rows of ten keys, one a microsecond; of a stretch of time every fifth one is late by a hundred. Rows see others so far before them.
    /// What share of results is said to be right, and what is.
    fn told(of: Of, rows: i64, stretch: std::ops::Range<i64>, (from, to): (i64, i64)) -> (f64, f64) {
        let random = &mut StdRng::seed_from_u64(rows as u64);
        let rows: Vec<(i64, i64)> = (0..rows).map(|time| (random.random_range(0..10), time)).collect();
        let is_late = |(_, time): &(i64, i64)| stretch.contains(time) && time % 5 == 0;
        let (late, in_time): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_late);
        let span = |time: i64| time.saturating_sub(to)..=time.saturating_sub(from);
        let sees = |row: (i64, i64), others: &[(i64, i64)]| {
            let others = others.iter().filter(|other| other.0 == row.0 && span(row.1).contains(&other.1));
            others.count() as u32
        };
        let (mut spoilt, mut late_done) = (Spoilt::new(of, (to < i64::MAX).then_some(to)), 0);
        for some in in_time.chunks(50) {
            let chosen = spoilt.choose(some.len());
            let rows: Vec<Seen> = chosen
                .iter()
                .map(|row| some[*row])
                .map(|(key, time)| Seen {
                    time,
                    from: *span(time).start(),
                    to: *span(time).end(),
                    rows: sees((key, time), &in_time),
                    asked: 0,
                })
                .collect();
            spoilt.remember(&[taken_rows(&keys(some)[0], &chosen).unwrap()], &rows).unwrap();
            let reached = some[0].1;
            let missed = &late[late_done..late.partition_point(|row| row.1 < reached - 100)];
            spoilt.miss(&keys(missed), &times(missed)).unwrap();
            late_done += missed.len();
            spoilt.tell(Timestamp(reached), false);
        }
        spoilt.miss(&keys(&late[late_done..]), &times(&late[late_done..])).unwrap();
        let said = spoilt.tell(Timestamp::MAX, true).unwrap();
        let true_ones = in_time.iter().map(|row| {
            let (seen, lacking) = (sees(*row, &in_time), sees(*row, &late));
            let is_exact = f64::from(lacking == 0);
            match of {
                Of::Rows => [1.0, is_exact],
                Of::Partners if seen + lacking == 0 => [0.0, 0.0],
                Of::Partners => [1.0, is_exact * f64::from(seen > 0)],
                Of::Join(JoinKind::Inner) => [f64::from(seen + lacking), f64::from(seen)],
                Of::Join(JoinKind::Semi) => [f64::from(seen + lacking > 0), f64::from(seen > 0)],
                Of::Join(JoinKind::Anti) => [f64::from(seen == 0), f64::from(seen + lacking == 0)],
                Of::Join(_) if seen == 0 => [f64::from(lacking + 1), is_exact],
                Of::Join(_) => [f64::from(seen + lacking), f64::from(seen)],
            }
        });
        let [all, exact] = true_ones.fold([0.0, 0.0], |[all, exact], [more, right]| [all + more, exact + right]);
        (share(&said), exact / all)
    }

    #[test]
    fn as_many_results_are_right_as_are_said_to() {
        let joins = [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti].map(Of::Join);
        for of in [Of::Rows, Of::Partners].into_iter().chain(joins) {
            for (stretch, seen) in
                [(0..300, (0, 20)), (100..130, (0, 200)), (50..60, (-5, 5)), (200..220, (0, i64::MAX)), (0..0, (0, 20))]
            {
                if seen.1 == i64::MAX && matches!(of, Of::Join(JoinKind::Inner | JoinKind::Left)) {
                    continue; // How many rows are seen is known within a span of time only.
                }
                let (said, is) = told(of, 300, stretch.clone(), seen);
                let is_same = (said - is).abs() < 1e-9 || said.is_nan() && is.is_nan();
                assert!(is_same, "all are remembered: {said} for {is}, {of:?} {stretch:?} {seen:?}");
            }
        }
        for (stretch, seen) in [(0..18_000, (0, 20)), (6000..7800, (0, 200)), (12_000..13_200, (0, i64::MAX))] {
            let (said, is) = told(Of::Rows, 20_000, stretch.clone(), seen);
            assert!((said - is).abs() < 0.08, "{said} for {is}, {stretch:?} {seen:?}");
        }
    }

    #[test]
    fn a_condition_holds_for_late_rows_as_often_as_for_others() {
        let mut spoilt = Spoilt::new(Of::Join(JoinKind::Inner), Some(10));
        spoilt.ask(40, 10);
        assert_eq!(spoilt.choose(1), [0]);
        spoilt.remember(&keys(&[(1, 20)]), &[Seen { time: 20, from: 10, to: 20, rows: 3, asked: 0 }]).unwrap();
        spoilt.miss(&keys(&[(1, 15), (1, 20), (1, 21), (2, 15), (1, 12), (1, 13)]), &[15, 20, 21, 15, 12, 13]).unwrap();
        assert_eq!(share(&spoilt.tell(Timestamp::MAX, true).unwrap()), 0.75);
    }

    #[test]
    fn late_rows_are_forgotten_once_nobody_sees_them() {
        let mut spoilt = Spoilt::new(Of::Rows, Some(10));
        let late: Vec<_> = (0..1000).map(|time| (time % 3, time)).collect();
        spoilt.miss(&keys(&late), &times(&late)).unwrap();
        spoilt.tell(Timestamp(1000), false);
        assert_eq!(spoilt.lacking.values().map(Vec::len).sum::<usize>(), 10);
        let mut spoilt = Spoilt::new(Of::Rows, None);
        spoilt.miss(&keys(&late), &times(&late)).unwrap();
        spoilt.tell(Timestamp(990), false);
        assert_eq!(spoilt.lacking.values().map(Vec::len).sum::<usize>(), 6 + 10);
        spoilt.lose(&[5, 7]);
        let late = spoilt.tell(Timestamp(990), true).unwrap().slices().map(|(_, count)| count.late).sum::<f64>();
        assert_eq!(late, 2.0);
    }
}
