//! What must come out, computed the plain way: all rows of a key sorted by time, and two ends that move through them.

use super::workload::{Row, Workload};

/// When a base row's result is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When no row can come any more that lies in its window: the result is exact.
    Final,
    /// When it comes, as the paper does it: of the rows that have come.
    Eager,
    /// When it comes, and again with each row that changes it: the last result is exact. Of the baselines only Key-OIJ does so.
    Corrected,
}

impl Mode {
    /// Those of the paper, and of all that join.
    pub const ALL: [Self; 2] = [Self::Final, Self::Eager];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Eager => "eager",
            Self::Corrected => "corrected",
        }
    }
}

/// Results in short: how many there are, and a sum over all values of each, in whatever order they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// How many results there are.
    pub rows: u64,
    checksum: u64,
}

impl Answer {
    /// A base row has so many rows in its window, with this sum.
    pub fn add(&mut self, number: i64, count: u64, sum: i64) {
        self.add_result([number as u64, count, sum as u64]);
    }

    /// A result has these values.
    pub fn add_result(&mut self, values: [u64; 3]) {
        self.rows += 1;
        self.checksum = self.checksum.wrapping_add(values.into_iter().fold(0, |so_far, value| mixed(so_far ^ value)));
    }

    /// A result with these values does not hold any more.
    pub fn take_back(&mut self, values: [u64; 3]) {
        let mut one = Self::default();
        one.add_result(values);
        self.rows = self.rows.wrapping_sub(1);
        self.checksum = self.checksum.wrapping_sub(one.checksum);
    }

    /// Adds the results of another part.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.checksum = self.checksum.wrapping_add(other.checksum);
    }

    /// What must come out for the base rows among these, which arrive in this order.
    pub fn of(rows: &[Row], workload: &Workload, mode: Mode) -> Self {
        let mut answer = Self::default();
        each(rows, workload, mode, |base, count, sum| answer.add(base.payload, count, sum));
        answer
    }

    /// Compares with what came out; says how many results there were.
    pub fn compare(&self, found: &Self) -> Result<u64, String> {
        match (found.rows == self.rows, found.checksum == self.checksum) {
            (true, true) => Ok(self.rows),
            (true, false) => Err(format!("the checksum of {} results is not that of the right ones", self.rows)),
            (false, _) => Err(format!("{} results came out, {} must", found.rows, self.rows)),
        }
    }
}

/// A number that looks random, the same for the same number (SplitMix64's last step).
pub fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Gives each base row, how many rows its window has, and their sum.
pub fn each(rows: &[Row], workload: &Workload, mode: Mode, mut give: impl FnMut(&Row, u64, i64)) {
    // A probe row's number is its place among the rows, as a base row's is.
    let mut probes = vec![Vec::new(); workload.keys.count() as usize];
    let mut bases = vec![Vec::new(); workload.keys.count() as usize];
    for (number, row) in rows.iter().enumerate() {
        if row.is_base {
            bases[row.key as usize].push(row);
        } else {
            probes[row.key as usize].push((row.time, number as i64, row.payload));
        }
    }
    for (mut probes, mut bases) in probes.into_iter().zip(bases) {
        probes.sort_unstable();
        bases.sort_unstable_by_key(|base| base.time);
        let (mut first, mut end, mut sum) = (0, 0, 0);
        for base in bases {
            while end < probes.len() && probes[end].0 <= base.time {
                sum += probes[end].2;
                end += 1;
            }
            while first < end && probes[first].0 < base.time - workload.window {
                sum -= probes[first].2;
                first += 1;
            }
            let (mut count, mut sum) = ((end - first) as u64, sum);
            if mode == Mode::Eager {
                // Only rows within lateness can come later than the base row, and they are the last of its window.
                let late = probes[first..end].iter().rev().take_while(|probe| probe.0 >= base.time - workload.lateness);
                for (_, _, value) in late.filter(|(_, number, _)| *number > base.payload) {
                    (count, sum) = (count - 1, sum - value);
                }
            }
            give(base, count, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_those_of_a_look_at_all_rows_and_a_wrong_one_is_found() {
        for mut workload in Workload::all() {
            // The shapes are kept, and all is small enough for that.
            (workload.window, workload.lateness) = (workload.window.min(600), workload.lateness.min(900));
            let rows = workload.generate(1 << 10);
            for mode in Mode::ALL {
                let mut naive = Answer::default();
                for base in rows.iter().filter(|row| row.is_base) {
                    let come = match mode {
                        Mode::Final | Mode::Corrected => &rows[..],
                        Mode::Eager => &rows[..base.payload as usize],
                    };
                    let window = base.time - workload.window..=base.time;
                    let values = come.iter().filter(|row| !row.is_base && row.key == base.key);
                    let values: Vec<i64> =
                        values.filter(|row| window.contains(&row.time)).map(|row| row.payload).collect();
                    naive.add(base.payload, values.len() as u64, values.iter().sum());
                }
                let answer = Answer::of(&rows, &workload, mode);
                assert_eq!(answer.compare(&naive), Ok(1 << 10), "{} {}", workload.name, mode.name());
                naive.add(0, 0, 0);
                assert!(answer.compare(&naive).unwrap_err().contains("1025 results came out, 1024 must"));
            }
        }
        let of = |results: &[(i64, u64, i64)]| {
            let mut answer = Answer::default();
            results.iter().for_each(|(number, count, sum)| answer.add(*number, *count, *sum));
            answer
        };
        let right = of(&[(1, 2, 3), (2, 2, 4)]);
        assert_eq!(right.compare(&of(&[(2, 2, 4), (1, 2, 3)])), Ok(2));
        for wrong in [[(1, 2, 4), (2, 2, 3)], [(1, 2, 3), (2, 3, 4)], [(1, 2, 3), (1, 2, 3)]] {
            assert!(right.compare(&of(&wrong)).unwrap_err().contains("checksum"), "{wrong:?}");
        }
    }
}
