//! Which rows around a row are looked at.

use std::ops::Range;

use thalweg_core::Interval;
use thalweg_plan::node::FrameBounds;

use super::{
    entry::{At, BASE, Entry},
    line::Line,
};

/// Which rows around a row are looked at.
#[derive(Clone, Debug)]
pub struct Frame {
    /// From where to where.
    pub bounds: FrameBounds,
    /// The last so many of these only.
    pub most: Option<usize>,
    /// Not the row itself.
    pub excludes_row: bool,
    /// No other row of the same time.
    pub excludes_time: bool,
    /// No other row of the first input.
    pub excludes_base: bool,
}

/// Which of the rows of their keys some rows see, where these follow each other.
#[derive(Debug, Default)]
pub struct Spans {
    /// For each of them where they begin.
    pub starts: Vec<usize>,
    /// Where they end.
    pub ends: Vec<usize>,
    /// Where what they do not see in between begins and ends, where that is not looked for when it is wanted: their own times, or where
    /// frames have a size.
    pub holes: [Vec<usize>; 2],
    /// Whether each sees itself, where a row that is not among those of its span may have others behind it that fill its frame.
    pub owns: Vec<bool>,
    /// Of one key, from where and up to where in time each looks.
    limits: [Vec<i64>; 2],
}

/// What is left out between the rows that a row sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hole {
    /// The row itself.
    Itself,
    /// All rows of its time, and the row itself with them; where it sees itself, it counts all the same.
    Time,
}

/// The last rows before a row.
#[derive(Clone, Copy, Debug)]
pub struct Spared {
    /// So many.
    rows: usize,
    /// Whether those of the first input do not count.
    but_base: bool,
    /// How far before a row the last of them is, at least.
    before: i64,
}

impl Spans {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.starts.clear();
        self.ends.clear();
        self.holes.iter_mut().for_each(Vec::clear);
        self.owns.clear();
    }

    /// Whether a row that is not among those of its span is seen by itself.
    pub fn owns(&self, place: usize) -> bool {
        self.owns.get(place).is_none_or(|owns| *owns)
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let limits: usize = self.limits.iter().map(Vec::capacity).sum();
        let holes: usize = self.holes.iter().map(Vec::capacity).sum();
        (self.starts.capacity() + self.ends.capacity() + limits + holes) * size_of::<usize>() + self.owns.capacity()
    }
}

impl Spared {
    /// How many rows are before those that a row of a time may see, or one of a later time.
    pub fn before(&self, rows: &[Entry], time: i64) -> usize {
        let end = time.saturating_sub(self.before);
        let rows = &rows[..rows.partition_point(|entry| entry.time < end)];
        if !self.but_base {
            return rows.len().saturating_sub(self.rows);
        }
        let mut counted = (0..rows.len()).rev().filter(|place| rows[*place].rank != BASE);
        match self.rows.checked_sub(1) {
            None => rows.len(),
            Some(others) => counted.nth(others).unwrap_or(0),
        }
    }
}

impl Frame {
    /// How far behind a row the last one may be that it sees.
    pub fn ahead(&self) -> i64 {
        match self.bounds {
            FrameBounds::Range { to, .. } => to.0.max(0),
            FrameBounds::Rows { .. } => 0,
        }
    }

    /// How far before a row the first one may be that it sees; `None` where that has no end.
    pub fn back(&self) -> Option<i64> {
        match self.bounds {
            FrameBounds::Range { from: Some(from), .. } => Some(from.0.min(0).saturating_neg()),
            // What is before the last of them is not seen.
            FrameBounds::Range { from: None, to } => self.most.map(|_| to.0.min(0).saturating_neg()),
            FrameBounds::Rows { .. } => Some(0),
        }
    }

    /// How far apart the first and the last row may be that it sees, the row itself among them, as far as times say that; `None` where it
    /// sees all before its end.
    pub fn reach(&self) -> Option<Interval> {
        let back = self.back().filter(|_| !self.is_unbounded())?;
        Some(Interval(back.saturating_add(self.ahead())))
    }

    /// How far behind a row those may be that see it: from where to where; `None` where that has no end.
    pub fn seen_from(&self) -> (i64, Option<i64>) {
        match self.bounds {
            FrameBounds::Range { from, to } => (to.0.saturating_neg(), from.map(|from| from.0.saturating_neg())),
            FrameBounds::Rows { from: Some(0), .. } => (0, Some(0)),
            // One row more moves the first one out of the frames of all that come behind it.
            FrameBounds::Rows { .. } => (0, None),
        }
    }

    /// Which rows before a row it may see, however old they are.
    pub fn spared(&self) -> Option<Spared> {
        match self.bounds {
            FrameBounds::Range { from: Some(_), .. } => None,
            // A row at the very end of the frame is seen.
            FrameBounds::Range { from: None, to } => {
                let before = to.0.saturating_add(1).min(0).saturating_neg();
                self.most.map(|rows| Spared { rows, but_base: self.excludes_base, before })
            }
            FrameBounds::Rows { from: Some(0), .. } => None,
            FrameBounds::Rows { from, .. } => Some(self.last(from.unwrap_or(usize::MAX))),
        }
    }

    /// From when on, and up to when, rows are that a row of this time may see, as far as times say that.
    pub fn sees_between(&self, time: i64) -> (i64, i64) {
        let (from, to) = match self.bounds {
            FrameBounds::Range { from, to } => (from, to),
            FrameBounds::Rows { .. } => (None, Interval::ZERO),
        };
        let to = if self.excludes_time && to == Interval::ZERO { Interval(-1) } else { to };
        (from.map_or(i64::MIN, |from| time.saturating_add(from.0)), time.saturating_add(to.0))
    }

    /// How many rows it has at most, where that is so.
    pub fn size(&self) -> Option<usize> {
        match self.bounds {
            FrameBounds::Rows { from: Some(from), to } => {
                Some((from + usize::from(self.sees_itself())).saturating_sub(to.saturating_sub(1)))
            }
            FrameBounds::Rows { from: None, .. } => None,
            FrameBounds::Range { .. } => self.most,
        }
    }

    /// Whether it has no other row than the row itself.
    pub fn is_of_the_row(&self) -> bool {
        matches!(self.bounds, FrameBounds::Rows { from: Some(0), to: 0 })
    }

    /// Which rows before a row it may not see yet, however old they are, where it sees all that are older.
    pub fn unseen(&self) -> Option<Spared> {
        match self.bounds {
            FrameBounds::Rows { to: to @ 2.., .. } => Some(self.last(to - 1)),
            FrameBounds::Rows { .. } | FrameBounds::Range { .. } => None,
        }
    }

    /// The last rows before a row that count.
    fn last(&self, rows: usize) -> Spared {
        Spared { rows, but_base: self.excludes_base, before: 0 }
    }

    /// Whether it sees all rows before its end.
    pub fn is_unbounded(&self) -> bool {
        let has_no_beginning =
            matches!(self.bounds, FrameBounds::Range { from: None, .. } | FrameBounds::Rows { from: None, .. });
        has_no_beginning && self.most.is_none()
    }

    /// How far before a row its end is.
    pub fn end(&self) -> i64 {
        match self.bounds {
            FrameBounds::Range { to, .. } => to.0.min(0).saturating_neg(),
            FrameBounds::Rows { .. } => 0,
        }
    }

    /// Whether its ends are times, so that it has all rows of a time or none.
    pub fn is_of_times(&self) -> bool {
        matches!(self.bounds, FrameBounds::Range { .. }) && self.most.is_none()
    }

    /// Whether it is all rows from some time before or behind a row to another.
    pub fn has_span(&self) -> bool {
        matches!(self.bounds, FrameBounds::Range { from: Some(_), .. }) && self.most.is_none()
    }

    /// Whether a row is looked at itself.
    pub fn sees_itself(&self) -> bool {
        let is_within = match self.bounds {
            FrameBounds::Range { from, to } => from.is_none_or(|from| from <= Interval::ZERO) && to >= Interval::ZERO,
            FrameBounds::Rows { to, .. } => to == 0,
        };
        is_within && !self.excludes_row
    }

    /// What is left out of the line between the rows that a row sees, which follow each other otherwise, but perhaps for the row itself;
    /// `is_in_line` says whether rows of the first input are there.
    pub fn hole(&self, is_in_line: bool) -> Option<Hole> {
        match self.bounds {
            // So many rows before it end with the one before it, or with the last of an earlier time.
            FrameBounds::Rows { .. } => None,
            FrameBounds::Range { .. } if self.excludes_time => Some(Hole::Time),
            FrameBounds::Range { .. } => (is_in_line && self.excludes_row).then_some(Hole::Itself),
        }
    }

    /// Whether a row sees itself although it is not among the rows of the line that it sees.
    pub fn adds_own(&self, is_in_line: bool) -> bool {
        self.sees_itself() && (!is_in_line || self.excludes_time)
    }

    /// The same without clauses that change nothing: nothing can be left out of the row's own time where no row of it is seen. A frame of
    /// rows that ends before the row sees others of its time.
    pub fn simplified(self) -> Self {
        let has_row = Self { excludes_row: false, ..self.clone() };
        match self.bounds {
            _ if has_row.sees_itself() => self,
            FrameBounds::Range { .. } => Self { excludes_time: false, ..has_row },
            FrameBounds::Rows { .. } => has_row,
        }
    }

    /// Finds the rows that each of some rows of one key, which have these times and are in their order, sees where they follow each
    /// other. `near` is where the last one's were.
    pub fn spans<'a>(
        &self,
        times: &[i64],
        bases: impl Iterator<Item = &'a Entry> + Clone,
        line: &Line,
        is_in_line: bool,
        near: &mut Range<usize>,
        spans: &mut Spans,
    ) {
        let Spans { starts, ends, holes, limits, .. } = spans;
        let first = starts.len();
        match self.bounds {
            FrameBounds::Range { from, to } => {
                let [from_limits, to_limits] = limits;
                from_limits.clear();
                to_limits.clear();
                match from {
                    Some(from) => shift(times, from.0, from_limits),
                    None => from_limits.resize(times.len(), i64::MIN),
                }
                match to.0.checked_add(1) {
                    Some(behind) => shift(times, behind, to_limits),
                    None => to_limits.extend(times.iter().map(|time| time.saturating_add(to.0).saturating_add(1))),
                }
                line.passed([from_limits, to_limits], [near.start, near.end], [starts, ends]);
                if from.is_some_and(|from| from > to) {
                    ends.truncate(first);
                    ends.extend_from_slice(&starts[first..]);
                }
                if self.excludes_time {
                    // How many rows are earlier than each, and how many are not later.
                    to_limits.clear();
                    to_limits.extend(times.iter().map(|time| time.saturating_add(1)));
                    let near = ends[first..].first().map_or(near.end, |end| *end);
                    line.passed([times, to_limits], [near, near], holes.each_mut());
                }
            }
            FrameBounds::Rows { from, to } => {
                // How many rows that count are before each.
                if self.excludes_time {
                    line.passed([times, times], [near.end, near.end], [starts, ends]);
                } else {
                    let mut own = near.end;
                    for base in bases.clone() {
                        own = line.place(base, own);
                        starts.push(own);
                    }
                    ends.extend_from_slice(&starts[first..]);
                }
                let (from, unseen) = (from.unwrap_or(usize::MAX), to.saturating_sub(1));
                let own = usize::from(is_in_line && !self.excludes_time && self.sees_itself());
                starts[first..].iter_mut().for_each(|start| *start = start.saturating_sub(from));
                ends[first..].iter_mut().for_each(|end| *end = end.saturating_sub(unseen) + own);
            }
        }
        if let (Some(start), Some(end)) = (starts.last(), ends.last()) {
            *near = *start..*end;
        }
        if let Some(most) = self.most {
            self.shorten(most, bases, line, is_in_line, first, spans);
        }
    }

    /// Moves the beginnings of spans behind the `first` ones so far on that no more than `most` rows are seen.
    fn shorten<'a>(
        &self,
        most: usize,
        bases: impl Iterator<Item = &'a Entry>,
        line: &Line,
        is_in_line: bool,
        first: usize,
        spans: &mut Spans,
    ) {
        let (hole, adds_own) = (self.hole(is_in_line), self.adds_own(is_in_line));
        let Spans { starts, ends, holes, owns, .. } = spans;
        let spans = starts[first..].iter_mut().zip(&ends[first..]);
        if hole.is_none() && !adds_own {
            return spans.for_each(|(start, end)| *start = end.saturating_sub(most).max(*start));
        }
        let mut near = starts.get(first).copied().unwrap_or(0);
        for (place, base) in (first..).zip(bases) {
            let (start, end) = (starts[place], ends[place]);
            let left_out = match hole {
                Some(Hole::Time) => holes[0][place]..holes[1][place],
                Some(Hole::Itself) | None => {
                    near = line.place(base, near);
                    let own = near.clamp(start, end);
                    own..(own + usize::from(hole.is_some())).min(end)
                }
            };
            let behind = end - left_out.end;
            let is_full = behind >= most;
            let left_out = if is_full { end - most..end - most } else { left_out };
            if hole != Some(Hole::Time) {
                holes[0].push(0);
                holes[1].push(0);
            }
            (holes[0][place], holes[1][place]) = (left_out.start, left_out.end);
            let before = if is_full { 0 } else { most - behind - usize::from(adds_own) };
            starts[place] = left_out.start.saturating_sub(before).max(start);
            if adds_own {
                owns.push(!is_full);
            }
        }
    }

    /// Appends the rows that `base` sees among those of its key, in their order; `is_in_line` says whether it is one of them. `near` is
    /// where the last search of the same key ended.
    pub fn rows(&self, base: &Entry, line: &Line, is_in_line: bool, near: &mut Range<usize>, seen: &mut Vec<At>) {
        let first_seen = seen.len();
        let rows = line.rows();
        let place = line.place(base, near.end);
        let (from, to) = match self.bounds {
            FrameBounds::Range { from, to } => (from, to),
            FrameBounds::Rows { from, to } => {
                // Those of its own time are the last before it.
                let is_earlier = |entry: &Entry| entry.time < base.time;
                let end = if self.excludes_time { rows[..place].partition_point(is_earlier) } else { place };
                let start = end.saturating_sub(from.unwrap_or(usize::MAX));
                let end = end.saturating_sub(to.saturating_sub(1));
                *near = start..place;
                seen.extend(rows[start..end].iter().map(|entry| entry.at));
                seen.extend(self.sees_itself().then_some(base.at));
                return self.keep_last(first_seen, seen);
            }
        };
        let own = if is_in_line { place } else { rows.len() };
        let found = within(from, to, base, line, near);
        *near = found.clone();
        let is_seen = |(place, entry): (usize, &Entry)| {
            let is_other = !is_in_line || place != own;
            is_other && !(self.excludes_time && entry.time == base.time)
        };
        // The row itself stands behind those of other inputs of its time, and among those of its own by its position.
        let before = found.start..place.clamp(found.start, found.end);
        let behind = before.end..found.end;
        let others = |range: Range<usize>| {
            let places = range.clone().zip(&rows[range]);
            places.filter(|other| is_seen(*other)).map(|(_, entry)| entry.at)
        };
        seen.extend(others(before));
        seen.extend(self.sees_itself().then_some(base.at));
        seen.extend(others(behind));
        self.keep_last(first_seen, seen);
    }

    /// Of the rows that are seen from the `first` on leaves the last ones, as many as it may have.
    fn keep_last(&self, first: usize, seen: &mut Vec<At>) {
        if let Some(most) = self.most {
            let extra = (seen.len() - first).saturating_sub(most);
            seen.drain(first..first + extra);
        }
    }
}

/// Appends times, which ascend, so much later; the last or the first there is where they would be out of range.
fn shift(times: &[i64], by: i64, shifted: &mut Vec<i64>) {
    let fits = |time: Option<&i64>| time.is_none_or(|time| time.checked_add(by).is_some());
    match fits(times.first()) && fits(times.last()) {
        // A plain sum is found for several at once.
        true => shifted.extend(times.iter().map(|time| time.wrapping_add(by))),
        false => shifted.extend(times.iter().map(|time| time.saturating_add(by))),
    }
}

/// The rows of a line whose times lie so far behind that of a row.
fn within(from: Option<Interval>, to: Interval, base: &Entry, line: &Line, near: &Range<usize>) -> Range<usize> {
    let first = from.map_or(i64::MIN, |from| base.time.saturating_add(from.0));
    line.between(first, base.time.saturating_add(to.0), near)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a beginning and with MAXSIZE, only the last rows that the next one may see are kept.
    #[test]
    fn the_last_rows_of_a_frame_without_a_beginning_are_spared() {
        let entry = |time: i64, rank: u32| Entry { time, position: 0, key: 0, rank, at: At { batch: 0, row: 0 } };
        let rows: Vec<Entry> = (0..10).map(|time| entry(time, if time % 2 == 0 { 0 } else { BASE })).collect();
        let frame = |to: i64, most: Option<usize>, excludes_base: bool| Frame {
            bounds: FrameBounds::Range { from: None, to: Interval(to) },
            most,
            excludes_row: false,
            excludes_time: false,
            excludes_base,
        };
        let spared = |frame: &Frame| frame.spared().map(|spared| spared.before(&rows, 10));
        for (to, most, excludes_base, before, back) in [
            (0, Some(1), false, 9, 0),
            (5, Some(3), false, 7, 0),
            (0, Some(1), true, 8, 0),
            (0, Some(3), true, 4, 0),
            // A row of time 10 sees rows up to 7.
            (-3, Some(1), false, 7, 3),
            (-3, Some(2), true, 4, 3),
            (-30, Some(1), false, 0, 30),
        ] {
            let frame = frame(to, most, excludes_base);
            assert_eq!((spared(&frame), frame.back()), (Some(before), Some(back)), "{frame:?}");
        }
        let all = frame(0, None, false);
        assert_eq!((spared(&all), all.back()), (None, None));
    }
}
