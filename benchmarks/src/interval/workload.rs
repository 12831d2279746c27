//! The workloads of Scale-OIJ's evaluation, and rows that are like them.
//!
//! The paper gives windows and lateness in seconds (table II) and in rows (§III-C), and the two disagree; here the rows count. Both
//! streams have as many. Where rows come as fast as can be there is one of each in a microsecond of event time, and seconds follow
//! from the counts; where they come at the paper's rate, half of it is each stream's, and they follow from that.

use std::cmp::Reverse;

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

use super::arrivals::TICK_US;

const SECOND: i64 = 1_000_000;

/// What rows are like, and what is asked of them.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The paper's, or what it is about.
    pub name: String,
    /// The parameter of which there are others with other values, where that is what it is about.
    pub along: Option<&'static str>,
    /// Which keys rows have.
    pub keys: Keys,
    /// How far before a base row's time the window begins, in microseconds of event time; it ends with that time.
    pub window: i64,
    /// How far rows may be out of order, in microseconds of event time.
    pub lateness: i64,
    /// Rows in a second of event time, of the base stream and of the probe stream each.
    pub rate: u64,
    /// Rows in a second of the clock, of each stream; `None` if they come as fast as can be.
    pub arrival: Option<u64>,
    /// How many rows each stream has where they come as fast as can be: enough to fill window and lateness several times.
    pub rows: usize,
}

/// Which keys rows have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// Each below this number equally often.
    Uniform(u32),
    /// Below a number, of which some are hot for a while, and then others, all in turn.
    Hot(Hot),
}

/// A random set of keys is hot, and after some time another, until each has been hot once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hot {
    /// How many keys there are.
    pub keys: u32,
    /// How many are hot at a time.
    pub hot: u32,
    /// How many of a hundred rows they have.
    pub percent: u32,
    /// How long they are, in microseconds of event time.
    pub period: i64,
}

impl Keys {
    /// How many there are.
    pub fn count(self) -> u32 {
        match self {
            Self::Uniform(keys) | Self::Hot(Hot { keys, .. }) => keys,
        }
    }
}

/// A row of either stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Event time, in microseconds.
    pub time: i64,
    /// The value of a probe row; of a base row its number, which is its place among the rows of both streams as they arrive.
    pub payload: i64,
    /// Rows of one key belong together.
    pub key: u32,
    /// Whether a result is wanted for it.
    pub is_base: bool,
}

/// What a row takes in memory.
pub const BYTES: f64 = size_of::<Row>() as f64;

/// A workload by its counts: its name, keys, rows of a key within the window and within lateness, both streams' rows in a second of
/// the clock, and how many rows each has.
type Counts = (&'static str, u32, i64, i64, Option<u64>, usize);

/// D has A's distribution, twice the lateness (table II), and comes more slowly. Of B the paper says only the seconds of lateness, which
/// are a fifteenth of its window.
const COUNTED: [Counts; 4] = [
    ("A", 5, 4_000, 400, Some(120_000), 1 << 19),
    ("B", 111, 6_000, 400, Some(200_000), 3 << 19),
    ("C", 45, 300, 10_000, None, 1 << 21),
    ("D", 5, 4_000, 800, Some(15_000), 1 << 19),
];

/// What a query takes until it runs is seen in these, which take little more than a tenth of a second.
const SHORT: [&str; 5] = ["A", "B", "D", "default", "table V"];

/// Where a window has fewer rows it costs less to look at one after the other.
const FEW: i64 = 64;

impl Workload {
    /// A to D, the default (table IV), the one of table V, and the default with hot keys that change (figure 14).
    pub fn all() -> Vec<Self> {
        let counted = COUNTED.map(|(name, keys, matches, late, arrival, rows)| Self {
            arrival: arrival.map(|both| both / 2),
            rows,
            ..Self::dense(name, Keys::Uniform(keys), matches * i64::from(keys), late * i64::from(keys))
        });
        // In one cycle each key has as many rows as any other.
        let hot = Hot { keys: 10_000, hot: 100, percent: 80, period: 20_000 };
        let others = [
            Self::dense("default", Keys::Uniform(100), 1_000, 100),
            Self::dense("table V", Keys::Uniform(1_000), 100, 10),
            Self { rows: 2_000_000, ..Self::dense("hot keys", Keys::Hot(hot), 1_000, 100) },
        ];
        counted.into_iter().chain(others).collect()
    }

    /// The short ones for four times as long: until windows are full, and until a query runs, is a small part of it then.
    pub fn long() -> Vec<Self> {
        let short = Self::all().into_iter().filter(|workload| SHORT.contains(&workload.name.as_str()));
        short.map(|short| Self { name: format!("{}, long", short.name), rows: 4 * short.rows, ..short }).collect()
    }

    /// Whether few rows of a key lie in a window.
    pub fn has_few(&self) -> bool {
        self.window < FEW * i64::from(self.keys.count())
    }

    /// One row of each stream in a microsecond of event time.
    pub fn dense(name: &str, keys: Keys, window: i64, lateness: i64) -> Self {
        Self {
            name: name.to_string(),
            along: None,
            keys,
            window,
            lateness,
            rate: SECOND as u64,
            arrival: None,
            rows: 1 << 21,
        }
    }

    /// The same rows with the times that the clock has when they come; `None` if they come as fast as can be.
    pub fn paced(&self) -> Option<Self> {
        let rate = self.arrival?;
        let stretched = |time: i64| time * self.rate as i64 / rate as i64;
        Some(Self { window: stretched(self.window), lateness: stretched(self.lateness), rate, ..self.clone() })
    }

    /// How many rows of both streams come together where they come when they are due; `None` if they come as fast as can be.
    pub fn packet(&self) -> Option<usize> {
        self.arrival.map(|rate| (2 * rate * TICK_US / 1_000_000) as usize)
    }

    /// Makes so many rows of each stream, in the order in which they arrive, the same each time: a row of each at a time, which then is
    /// behind by up to the lateness.
    pub fn generate(&self, rows: usize) -> Vec<Row> {
        let mut random = StdRng::seed_from_u64(24);
        let mut hot = Vec::new();
        let mut arriving = Vec::with_capacity(2 * rows);
        for row in 0..rows as i64 {
            let time = row * SECOND / self.rate as i64;
            if let Keys::Hot(Hot { period, .. }) = self.keys
                && (hot.is_empty() || time % period == 0)
            {
                self.change(&mut hot, &mut random);
            }
            for is_base in [false, true] {
                let key = self.key(&hot, &mut random);
                let payload = random.random_range(0..100);
                let arrival = time + random.random_range(0..=self.lateness);
                arriving.push((arrival, Row { time, payload, key, is_base }));
            }
        }
        // Of those that arrive at an instant the latest first: so rows are behind by just the lateness, too.
        arriving.sort_by_key(|(arrival, row)| (*arrival, Reverse(row.time)));
        let numbered = |(number, (_, row)): (usize, (i64, Row))| match row.is_base {
            true => Row { payload: number as i64, ..row },
            false => row,
        };
        arriving.into_iter().enumerate().map(numbered).collect()
    }

    /// Takes away the keys at the end, which were hot, so that those before them are; starts anew with all if none are left.
    fn change(&self, deck: &mut Vec<u32>, random: &mut StdRng) {
        let Keys::Hot(Hot { keys, hot, .. }) = self.keys else { return };
        deck.truncate(deck.len().saturating_sub(hot as usize));
        if deck.is_empty() {
            deck.extend(0..keys);
            deck.shuffle(random);
        }
    }

    fn key(&self, deck: &[u32], random: &mut StdRng) -> u32 {
        match self.keys {
            Keys::Hot(Hot { hot, percent, .. }) if random.random_range(0..100) < percent => {
                let hot = &deck[deck.len().saturating_sub(hot as usize)..];
                hot[random.random_range(0..hot.len())]
            }
            keys => random.random_range(0..keys.count()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many probe rows a key has in so much time, on average.
    fn rows_in(workload: &Workload, rows: &[Row], span: i64) -> f64 {
        let probes = rows.iter().filter(|row| !row.is_base).count() as f64;
        let last = rows.iter().map(|row| row.time).max().unwrap();
        probes / (last + 1) as f64 * (span + 1) as f64 / f64::from(workload.keys.count())
    }

    /// How many probe rows of its key lie in the windows of some base rows, on average; counted row by row.
    fn matches(workload: &Workload, rows: &[Row]) -> f64 {
        let bases: Vec<&Row> = rows.iter().filter(|row| row.is_base && row.time >= workload.window).collect();
        let some: Vec<&&Row> = bases.iter().step_by(bases.len() * rows.len() / 20_000_000 + 1).collect();
        let of = |base: &Row| {
            let window = base.time - workload.window..=base.time;
            rows.iter().filter(|row| !row.is_base && row.key == base.key && window.contains(&row.time)).count()
        };
        some.iter().map(|base| of(base)).sum::<usize>() as f64 / some.len() as f64
    }

    fn named(name: &str) -> Workload {
        Workload::all().into_iter().find(|workload| workload.name == name).unwrap()
    }

    #[test]
    fn windows_and_lateness_hold_as_many_rows_as_the_paper_says_at_any_rate() {
        let near = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 0.05, "{found}, not {wanted}");
        for (name, keys, in_window, late, arrival, _) in COUNTED {
            let dense = named(name);
            assert_eq!(dense.paced().map(|paced| 2 * paced.rate), arrival);
            for workload in [Some(dense.clone()), dense.paced()].into_iter().flatten() {
                let rows = workload.generate(in_window as usize * keys as usize * 5 / 4);
                near(matches(&workload, &rows), in_window as f64);
                near(rows_in(&workload, &rows, workload.lateness), late as f64);
            }
        }
        near(matches(&named("default"), &named("default").generate(1 << 16)), 10.0);
        let (few, default) = (named("table V"), named("default"));
        near(rows_in(&few, &few.generate(1 << 18), few.window), 0.1);
        near(rows_in(&few, &few.generate(1 << 18), few.lateness), 0.011);
        near(rows_in(&default, &default.generate(1 << 16), default.lateness), 1.01);
    }

    #[test]
    fn rows_are_behind_by_the_lateness_at_most_and_some_nearly_so() {
        for workload in Workload::all().into_iter().flat_map(|workload| [workload.paced(), Some(workload)]).flatten() {
            let rows = workload.generate(1 << 14);
            assert_eq!(rows, workload.generate(1 << 14));
            let mut last = i64::MIN;
            let mut behind = 0;
            for (number, row) in rows.iter().enumerate() {
                last = last.max(row.time);
                behind = behind.max(last - row.time);
                assert!(!row.is_base || row.payload == number as i64);
            }
            // Where lateness is longer than these rows take, they are as far behind as they can be.
            let most = workload.lateness.min(last);
            assert!(behind == most || most > 100);
            assert!((most * 4 / 5..=workload.lateness).contains(&behind), "{}: {behind}", workload.name);
            assert_eq!(rows.iter().filter(|row| row.is_base).count(), 1 << 14);
        }
    }

    #[test]
    fn hot_keys_change_and_in_a_cycle_all_have_as_many_rows() {
        let mut workload = named("hot keys");
        let Keys::Hot(Hot { keys, hot, period, .. }) = workload.keys else { panic!("keys are not hot") };
        // As many periods as there are sets of keys.
        assert_eq!(workload.rows as i64, i64::from(keys / hot) * period);
        // The same with fewer keys.
        let (keys, hot, percent, period) = (1_000, 100, 80, 20_000);
        workload.keys = Keys::Hot(Hot { keys, hot, percent, period });
        let rows = workload.generate(200_000);
        let counts = |from: i64, to: i64| {
            let mut counts = vec![0u32; keys as usize];
            rows.iter().filter(|row| (from..to).contains(&row.time)).for_each(|row| counts[row.key as usize] += 1);
            counts
        };
        let hottest = |first: i64| {
            let counts = counts(first * period, (first + 1) * period);
            let mut keys: Vec<u32> = (0..keys).collect();
            keys.sort_by_key(|key| Reverse(counts[*key as usize]));
            keys.truncate(hot as usize);
            let share: u32 = keys.iter().map(|key| counts[*key as usize]).sum();
            (keys, f64::from(share) / (2 * period) as f64 * 100.0)
        };
        let ((first, share), (second, _)) = (hottest(3), hottest(4));
        assert!((share - f64::from(percent)).abs() < 2.0, "{share} %");
        assert!(first.iter().all(|key| !second.contains(key)));
        let all = counts(0, i64::MAX);
        assert!(all.iter().all(|count| (300..500).contains(count)), "{:?}", all.iter().max());
    }
}
