//! How many results are to be exact, where lateness is learnt.

use std::{fmt, str::FromStr};

/// The share of results that is to be final and exact, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accuracy(u32);

const WHOLE: u32 = 1_000_000_000;

impl Accuracy {
    /// The share of results that need not be.
    pub fn misses(self) -> f64 {
        f64::from(WHOLE - self.0) / f64::from(WHOLE)
    }
}

impl FromStr for Accuracy {
    type Err = ();

    /// A number from 0.5 on, below 1, such as `0.999`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let share: f64 = text.parse().map_err(drop)?;
        let billionths = (share * f64::from(WHOLE)).round();
        ((0.5..1.0).contains(&share) && billionths < f64::from(WHOLE)).then_some(Self(billionths as u32)).ok_or(())
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:09}", self.0);
        write!(f, "0.{}", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_at_least_a_half_and_less_than_all() {
        for good in ["0.5", "0.999", "0.999999999"] {
            let accuracy: Accuracy = good.parse().unwrap();
            assert_eq!(accuracy.to_string(), good);
        }
        assert!(("0.999".parse::<Accuracy>().unwrap().misses() - 0.001).abs() < 1e-12);
        for bad in ["1", "0.49", "-1", "99.9", "0.9999999999", "NaN", "inf", "much", ""] {
            assert!(bad.parse::<Accuracy>().is_err(), "{bad}");
        }
    }
}
