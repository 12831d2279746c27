//! How many rows come in a second, exactly as it was written.

/// So many rows in so many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    rows: u64,
    seconds: u64,
}

/// Digits behind the point that a rate may have.
const DIGITS: usize = 9;

impl Rate {
    /// The rate that a text such as `100` or `0.5` says, if it is a positive number.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let is_number = [whole, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_number || fraction.len() > DIGITS {
            return None;
        }
        let rows = format!("{whole}{fraction}").parse().ok().filter(|rows| *rows > 0)?;
        Some(Self { rows, seconds: 10u64.pow(fraction.len() as u32) })
    }

    /// How many whole rows come in so many parts of a second.
    pub(super) fn rows(self, parts: u128, in_a_second: u64) -> u128 {
        parts * u128::from(self.rows) / (u128::from(self.seconds) * u128::from(in_a_second))
    }

    /// After how many parts of a second a row comes, and the remainder of the division by the number of rows.
    pub(super) fn parts(self, row: u64, in_a_second: u64) -> (u128, u128) {
        let parts = u128::from(row) * u128::from(self.seconds) * u128::from(in_a_second);
        (parts / u128::from(self.rows), parts % u128::from(self.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_positive_numbers_that_may_have_a_fraction() {
        let rate = |rows, seconds| Some(Rate { rows, seconds });
        assert_eq!(
            ["100", " 0.5", ".25", "3."].map(Rate::parse),
            [rate(100, 1), rate(5, 10), rate(25, 100), rate(3, 1)]
        );
        assert_eq!(
            ["", ".", "0", "0.0", "-1", "1e3", "1.5.5", "0.0000000001", "99999999999999999999"].map(Rate::parse),
            [None; 9]
        );
    }

    #[test]
    fn half_a_row_in_a_second_is_a_row_every_two() {
        let rate = Rate::parse("0.5").unwrap();
        assert_eq!([0, 1, 3].map(|row| rate.parts(row, 1000)), [(0, 0), (2000, 0), (6000, 0)]);
        assert_eq!([0, 1999, 2000, 5999].map(|millis| rate.rows(millis, 1000)), [0, 0, 1, 2]);
    }
}
