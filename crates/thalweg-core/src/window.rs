//! Window arithmetic: half-open windows of any size and slide, aligned to the epoch plus an offset, and the slices they share.

use crate::{Interval, Timestamp};

/// A half-open span of event time, `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// The first instant inside.
    pub start: Timestamp,
    /// The first instant after.
    pub end: Timestamp,
}

/// Where windows lie: one starts at every `offset + k * slide` and lasts for `size`. Tumbling windows have `slide == size`.
///
/// Cumulating windows start every `size`, and end after each `step` of it, the last one after all.
///
/// Slices are *paired windows*: each edge of a window is an edge of a slice, so that a row is aggregated into exactly one
/// slice and every window is a run of whole slices.
///
/// ```text
/// size 5, slide 3    0    3    6    9          windows  [0,5) [3,8) [6,11)
///                    |--|-|--|-|--|-|          slices   [0,2) [2,3) [3,5) [5,6) ...
/// ```
///
/// Source: Krishnamurthy, Wu, Franklin, "On-the-fly sharing for streamed aggregation".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    size: i64,
    slide: i64,
    offset: i64,
    /// How far apart the ends of windows are that start together; the size, where each starts by itself.
    step: i64,
}

impl Grid {
    /// Windows of `size` that start every `slide`, shifted by `offset`; `None` unless size and slide are positive and
    /// shorter than 100 years, which keeps all arithmetic below in range.
    pub fn new(size: Interval, slide: Interval, offset: Interval) -> Option<Self> {
        const LONGEST: i64 = 100 * 366 * 86_400_000_000;
        let fits = |i: Interval| (1..=LONGEST).contains(&i.0);
        let offset = |slide: Interval| offset.0.rem_euclid(slide.0);
        (fits(size) && fits(slide)).then(|| Self { size: size.0, slide: slide.0, offset: offset(slide), step: size.0 })
    }

    /// Windows that start every `size`, shifted by `offset`, and end after each `step`; `None` unless `size` is a multiple of
    /// `step`, and both are as for [`Grid::new`].
    pub fn cumulating(size: Interval, step: Interval, offset: Interval) -> Option<Self> {
        let whole = Self::new(size, size, offset)?;
        Self::new(step, step, Interval::ZERO)?;
        (size.0 % step.0 == 0).then_some(Self { step: step.0, ..whole })
    }

    /// How long a window lasts; the last of those that start together.
    pub fn size(&self) -> Interval {
        Interval(self.size)
    }

    /// How far apart two windows start.
    pub fn slide(&self) -> Interval {
        Interval(self.slide)
    }

    /// How far after the epoch a window starts; less than the slide.
    pub fn offset(&self) -> Interval {
        Interval(self.offset)
    }

    /// The same windows, one of which starts as far after `t` as one of these starts after the epoch.
    pub fn anchored_at(self, t: Timestamp) -> Self {
        Self { offset: (t.0 + self.offset).rem_euclid(self.slide), ..self }
    }

    /// The windows that contain `t`, earliest first; none where `t` falls into a gap.
    pub fn windows(&self, t: Timestamp) -> impl Iterator<Item = Window> + use<> {
        let (first, last) = (self.first_start(t.0), self.last_start(t.0));
        let Self { size, slide, step, .. } = *self;
        let starts = (0..).map(move |k| first + k * slide).take_while(move |start| *start <= last);
        // Where several start together, those that end after `t`.
        let first_length = if step == size { size } else { self.length_until(t.0) };
        let lengths = move || (0..).map(move |k| first_length + k * step).take_while(move |length| *length <= size);
        starts.flat_map(move |start| lengths().map(move |length| span(start, start + length)))
    }

    /// The end of the earliest window that ends after `t`; it contains `t` unless `t` falls into a gap.
    pub fn first_end(&self, t: Timestamp) -> Timestamp {
        let length = if self.step == self.size { self.size } else { self.length_until(t.0) };
        Timestamp(self.first_start(t.0) + length)
    }

    /// The end of the latest window that starts at or before `t`; it contains `t` unless `t` falls into a gap.
    pub fn last_end(&self, t: Timestamp) -> Timestamp {
        Timestamp(self.last_start(t.0) + self.size)
    }

    /// The slice that contains `t`, or `None` in a gap between windows.
    pub fn slice(&self, t: Timestamp) -> Option<Window> {
        let start = self.last_start(t.0);
        if self.step < self.size {
            let end = start + self.length_until(t.0);
            return Some(span(end - self.step, end));
        }
        if self.slide > self.size {
            return (t.0 < start + self.size).then(|| span(start, start + self.size));
        }
        let split = start + self.size % self.slide;
        Some(if t.0 < split { span(start, split) } else { span(split, start + self.slide) })
    }

    /// How long the shortest of the cumulating windows is that contains `t`.
    fn length_until(&self, t: i64) -> i64 {
        ((t - self.last_start(t)) / self.step + 1) * self.step
    }

    /// The latest start at or before `t`.
    fn last_start(&self, t: i64) -> i64 {
        (t - self.offset).div_euclid(self.slide) * self.slide + self.offset
    }

    /// The earliest start whose window ends after `t`.
    fn first_start(&self, t: i64) -> i64 {
        self.last_start(t - self.size) + self.slide
    }
}

fn span(start: i64, end: i64) -> Window {
    Window { start: Timestamp(start), end: Timestamp(end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(size: i64, slide: i64, offset: i64) -> Grid {
        Grid::new(Interval(size), Interval(slide), Interval(offset)).expect("positive")
    }

    /// Each window whose bounds hold `t`, found by looking at all of them.
    fn naive(g: &Grid, t: i64) -> Vec<Window> {
        (-60..60)
            .map(|k| g.offset + k * g.slide)
            .filter(|s| (*s..s + g.size).contains(&t))
            .map(|s| span(s, s + g.size))
            .collect()
    }

    #[test]
    fn windows_slices_and_ends_agree_with_the_definition_for_every_small_grid() {
        for (size, slide, offset) in (1..9).flat_map(|a| (1..9).flat_map(move |b| (-3..4).map(move |c| (a, b, c)))) {
            let g = grid(size, slide, offset);
            for t in -40..40 {
                let windows: Vec<_> = g.windows(Timestamp(t)).collect();
                assert_eq!(windows, naive(&g, t), "{size} {slide} {offset} {t}");
                let slice = g.slice(Timestamp(t));
                assert_eq!(slice.is_none(), windows.is_empty());
                let Some(slice) = slice else { continue };
                assert_eq!(g.first_end(Timestamp(t)), windows[0].end);
                assert_eq!(g.last_end(Timestamp(t)), windows[windows.len() - 1].end);
                for u in slice.start.0..slice.end.0 {
                    assert_eq!(naive(&g, u), windows, "all rows of a slice share their windows");
                }
                assert!((slice.start.0..slice.end.0).contains(&t));
            }
        }
    }

    #[test]
    fn cumulating_windows_start_together_and_end_step_by_step() {
        for (step, steps, offset) in (1..5).flat_map(|a| (1..5).flat_map(move |b| (-3..4).map(move |c| (a, b, c)))) {
            let size = step * steps;
            let g = Grid::cumulating(Interval(size), Interval(step), Interval(offset)).unwrap();
            let naive = |t: i64| -> Vec<Window> {
                let starts = (-60..60).map(|k| g.offset + k * size);
                let all = starts.flat_map(|start| (1..=steps).map(move |k| span(start, start + k * step)));
                all.filter(|window| (window.start.0..window.end.0).contains(&t)).collect()
            };
            for t in -40..40 {
                let windows: Vec<_> = g.windows(Timestamp(t)).collect();
                assert_eq!(windows, naive(t), "{size} {step} {offset} {t}");
                assert_eq!(g.first_end(Timestamp(t)), windows[0].end);
                assert_eq!(g.last_end(Timestamp(t)), windows[windows.len() - 1].end);
                let slice = g.slice(Timestamp(t)).unwrap();
                assert!((slice.start.0..slice.end.0).contains(&t));
                (slice.start.0..slice.end.0).for_each(|u| assert_eq!(naive(u), windows));
            }
        }
        assert!(Grid::cumulating(Interval(10), Interval(3), Interval(0)).is_none());
        assert!(Grid::cumulating(Interval(10), Interval(0), Interval(0)).is_none());
    }

    #[test]
    fn sizes_must_be_positive_and_below_a_century() {
        assert!(Grid::new(Interval(0), Interval(1), Interval(0)).is_none());
        assert!(Grid::new(Interval(1), Interval(-1), Interval(0)).is_none());
        assert!(Grid::new(Interval(i64::MAX), Interval(1), Interval(0)).is_none());
    }

    #[test]
    fn an_anchor_moves_the_grid() {
        let windows: Vec<_> = grid(10, 10, 0).anchored_at(Timestamp(-7)).windows(Timestamp(2)).collect();
        assert_eq!(windows, [span(-7, 3)]);
        let shifted: Vec<_> = grid(10, 10, 2).anchored_at(Timestamp(-7)).windows(Timestamp(2)).collect();
        assert_eq!(shifted, [span(-5, 5)]);
    }
}
