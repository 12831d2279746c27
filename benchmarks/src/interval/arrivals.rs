//! When rows came.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// From packet to packet where rows come when they are due, in microseconds.
pub const TICK_US: u64 = 200;

/// Nobody has taken the packet yet.
const NOT_YET: u64 = u64::MAX;

/// When each packet came, rows that come together; in microseconds.
pub struct Arrivals {
    packet: usize,
    micros: Vec<AtomicU64>,
}

impl Arrivals {
    /// Packets that are due one after the other.
    pub fn due(rows: usize, packet: usize) -> Self {
        Self::new(rows, packet, |number| number as u64 * TICK_US)
    }

    /// Packets that come when somebody takes them.
    pub fn when_taken(rows: usize, packet: usize) -> Self {
        Self::new(rows, packet, |_| NOT_YET)
    }

    fn new(rows: usize, packet: usize, micros: impl Fn(usize) -> u64) -> Self {
        assert!(packet > 0, "each packet has rows");
        Self { packet, micros: (0..rows.div_ceil(packet)).map(|number| AtomicU64::new(micros(number))).collect() }
    }

    /// The first row behind the packet of this one, by its number.
    pub fn behind(&self, row: usize) -> usize {
        (row / self.packet + 1) * self.packet
    }

    /// The first row that is not due by now.
    pub fn behind_due(&self, now: u64) -> usize {
        ((now / TICK_US) as usize + 1) * self.packet
    }

    /// The packet of this row has come now, if no part of it has before.
    pub fn take(&self, row: usize, now: u64) {
        // One thread takes packets; those who look at this got their rows from it.
        let micros = &self.micros[row / self.packet];
        if micros.load(Relaxed) == NOT_YET {
            micros.store(now, Relaxed);
        }
    }

    /// When a row came, or is due; by its number.
    pub fn of(&self, row: usize) -> u64 {
        self.micros[row / self.packet].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_when_it_is_due_or_when_its_first_row_is_taken() {
        let due = Arrivals::due(7, 3);
        assert_eq!([0, 2, 3, 6].map(|row| due.of(row)), [0, 0, 200, 400]);
        let taken = Arrivals::when_taken(7, 3);
        taken.take(3, 50);
        taken.take(4, 60);
        assert_eq!([2, 3, 5].map(|row| taken.of(row)), [NOT_YET, 50, 50]);
        assert_eq!((due.behind(5), due.behind_due(199), due.behind_due(200)), (6, 3, 6));
    }
}
