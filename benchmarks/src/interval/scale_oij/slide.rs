//! A window that goes on from base row to base row: what leaves it is subtracted, and what comes is added.
//!
//! Source: Scale-OIJ, §V-C (subtract-on-evict). The paper's windows go forward; these go either way, since base rows are out of order.

use super::super::buffer::Found;

/// The part of a key's last window that cannot change any more.
#[derive(Clone, Copy, Default)]
pub struct Slide {
    /// From the first time to the last; `None` if there is no window to go on from.
    times: Option<(i64, i64)>,
    count: u64,
    sum: i64,
}

impl Slide {
    /// Goes on to the rows of the times `from..=to`; `visited` is how many were looked at for that. `look` finds the rows of a span, of
    /// which those before `gone` may not be there any more.
    pub fn go(&mut self, from: i64, to: i64, gone: i64, mut look: impl FnMut(i64, i64) -> Found) -> Found {
        let (mut all, mut visited) = (Found::default(), 0);
        let near =
            |(first, last): (i64, i64)| first >= gone && first.abs_diff(from) + last.abs_diff(to) < to.abs_diff(from);
        if let Some((first, last)) = self.times.filter(|times| near(*times)) {
            let mut part = |from: i64, to: i64| {
                let found = if from <= to { look(from, to) } else { Found::default() };
                visited += found.visited;
                found
            };
            let came = [part(from, first.saturating_sub(1)), part(last.saturating_add(1), to)];
            let left = [part(first, from.saturating_sub(1)), part(to.saturating_add(1), last)];
            let sum = |of: &[Found; 2]| (of[0].count + of[1].count, of[0].sum.wrapping_add(of[1].sum));
            let ((more, added), (fewer, subtracted)) = (sum(&came), sum(&left));
            all.count = self.count + more - fewer;
            all.sum = self.sum.wrapping_add(added).wrapping_sub(subtracted);
        } else if from <= to {
            all = look(from, to);
            visited = all.visited;
        }
        *self = Self { times: (from <= to).then_some((from, to)), count: all.count, sum: all.sum };
        Found { visited, ..all }
    }

    /// Leaves out the rows before a time, which no later window has, while they are still there.
    pub fn trim(&mut self, before: i64, look: impl FnMut(i64, i64) -> Found) -> u64 {
        match self.times {
            Some((first, last)) if first < before && before <= last => self.go(before, last, first, look).visited,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_go_forward_and_back_have_what_all_their_rows_have_and_look_at_what_is_new() {
        // A row at each time, whose value is the square.
        let look = |from: i64, to: i64| {
            let times = from..=to;
            let count = times.clone().count() as u64;
            Found { count, sum: times.map(|time| time * time).sum(), visited: count }
        };
        let mut slide = Slide::default();
        let windows =
            [(0, 99, 100), (10, 109, 20), (8, 107, 4), (8, 107, 0), (500, 599, 100), (520, 590, 29), (6, 5, 0)];
        for (from, to, visited) in windows {
            assert_eq!(slide.go(from, to, 0, look), Found { visited, ..look(from, to) }, "{from} to {to}");
        }
        slide.go(0, 99, 0, look);
        assert_eq!(slide.trim(30, look), 30);
        assert_eq!(slide.go(31, 130, 30, look), Found { visited: 32, ..look(31, 130) });
        // Rows that have to be subtracted are gone.
        assert_eq!(slide.go(32, 131, 32, look).visited, 100);
    }
}
