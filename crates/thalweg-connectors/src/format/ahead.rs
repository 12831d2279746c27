//! How far a decoder looks ahead for records that it can take together.

/// How many bytes are looked at together at most: they stay in the nearest cache.
pub(crate) const BLOCK: usize = 16 << 10;

/// How many bytes are looked at together at least.
const LEAST: usize = 1 << 10;

/// How many records go one by one where few came together, so that looking ahead in vain costs little.
const PAUSE: usize = 8;

/// Looks farther ahead as long as that goes well.
pub(crate) struct Ahead {
    bytes: usize,
    /// How many records are to go one by one.
    pause: usize,
}

impl Ahead {
    /// Far ahead.
    pub(crate) fn new() -> Self {
        Self { bytes: BLOCK, pause: 0 }
    }

    /// Lets every record go by itself.
    #[cfg(test)]
    pub(crate) fn stop(&mut self) {
        self.pause = usize::MAX;
    }

    /// How many bytes to look at for so many rows, which may be as long as this; `None` if the next record is to go by itself.
    pub(crate) fn look(&mut self, rows: usize, row_bytes: usize) -> Option<usize> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        // A batch of few rows must not look far ahead each time.
        Some(self.bytes.min(rows.saturating_mul(row_bytes)))
    }

    /// So many rows, in so many bytes, were taken together; `is_all` says that the one behind them is not known to be unusual.
    pub(crate) fn took(&mut self, rows: usize, bytes: usize, is_all: bool) {
        if is_all {
            self.bytes = (2 * self.bytes).min(BLOCK);
        } else {
            self.bytes = (2 * bytes).clamp(LEAST, BLOCK);
            self.pause = if rows < PAUSE { PAUSE } else { 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_as_far_as_went_well() {
        let mut ahead = Ahead::new();
        assert_eq!((ahead.look(3, 100), ahead.look(4096, 100)), (Some(300), Some(BLOCK)));
        ahead.took(20, 3000, false);
        assert_eq!((ahead.look(4096, 100), ahead.look(4096, 100)), (None, Some(6000)));
        ahead.took(60, 5900, true);
        assert_eq!(ahead.look(4096, 100), Some(12_000));
        ahead.took(0, 0, false);
        assert_eq!((0..9).map(|_| ahead.look(4096, 100)).position(|look| look == Some(LEAST)), Some(8));
    }
}
