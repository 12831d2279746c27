//! What must come out of windows, computed the plain way: dense arrays over a stream that is known in advance.

use arrow_array::{Array, RecordBatch, cast::AsArray, types::*};

/// Windows of a size that start every slide, both in microseconds; the size is a multiple of the slide.
#[derive(Clone, Copy)]
pub struct Windows {
    /// From start to end.
    pub size: i64,
    /// From start to start.
    pub slide: i64,
}

/// What rows belong together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// All rows of a window.
    One,
    /// Those of one of so many keys.
    Keys(usize),
}

/// One value per window and group that has rows.
pub struct Expected {
    /// The number of the first window: its start is this many slides behind the epoch.
    first: i64,
    slide: i64,
    groups: usize,
    /// By window, then by group; NaN where there is no row.
    values: Vec<f64>,
}

impl Expected {
    /// The averages of the values in `stream`. They are eighths, so that their sums are exact in any order.
    pub fn averages(stream: &[Vec<RecordBatch>], windows: Windows, groups: Groups) -> Self {
        let panes = Panes::of(stream, windows.slide, groups);
        let mut sums = vec![(0.0, 0u32); panes.cells()];
        rows(stream).for_each(|row| {
            let (sum, count) = &mut sums[panes.cell(row)];
            (*sum, *count) = (*sum + row.value, *count + 1);
        });
        let overlap = (windows.size / windows.slide) as usize;
        let count = panes.count + overlap - 1;
        let mut values = Vec::with_capacity(count * panes.groups);
        for window in 0..count {
            // Window `w` begins `overlap - 1` panes before pane `w`, and ends with it.
            let mine = (window + 1).saturating_sub(overlap)..(window + 1).min(panes.count);
            values.extend((0..panes.groups).map(|group| {
                let cells = mine.clone().map(|pane| sums[pane * panes.groups + group]);
                let (sum, count) = cells.fold((0.0, 0), |(s, c), (sum, count)| (s + sum, c + count));
                sum / f64::from(count)
            }));
        }
        Self { first: panes.first + 1 - overlap as i64, slide: windows.slide, groups: panes.groups, values }
    }

    /// What `value` makes of the sorted values of each window and group, of windows that do not overlap.
    pub fn of_sorted(
        stream: &[Vec<RecordBatch>],
        size: i64,
        groups: Groups,
        get: impl Fn(Row) -> f64,
        value: impl Fn(&[f64]) -> f64,
    ) -> Self {
        let panes = Panes::of(stream, size, groups);
        let mut cells = vec![Vec::new(); panes.cells()];
        rows(stream).for_each(|row| cells[panes.cell(row)].push(get(row)));
        let values = cells.into_iter().map(|mut cell| {
            cell.sort_by(f64::total_cmp);
            if cell.is_empty() { f64::NAN } else { value(&cell) }
        });
        Self { first: panes.first, slide: size, groups: panes.groups, values: values.collect() }
    }

    /// How many rows must come out.
    pub fn rows(&self) -> u64 {
        self.values.iter().filter(|value| !value.is_nan()).count() as u64
    }

    /// Compares all of it with rows of window start, key (if there are keys) and value; says how many there were.
    pub fn compare(&self, found: &[RecordBatch]) -> Result<u64, String> {
        let (mut checked, mut seen) = (0, vec![false; self.values.len()]);
        for batch in found {
            let starts = batch.column(0).as_primitive::<TimestampMicrosecondType>();
            let keys = (batch.num_columns() == 3).then(|| batch.column(1).as_primitive::<Int64Type>());
            let values = batch.column(batch.num_columns() - 1);
            for row in 0..batch.num_rows() {
                let (start, key) = (starts.value(row), keys.map_or(0, |keys| keys.value(row)));
                let value = match values.as_primitive_opt::<Float64Type>() {
                    Some(values) => values.value(row),
                    None => values.as_primitive::<Int64Type>().value(row) as f64,
                };
                let Some(place) = self.place(start, key) else {
                    return Err(format!("there is no window at {start} with key {key}"));
                };
                if std::mem::replace(&mut seen[place], true) {
                    return Err(format!("the window at {start} with key {key} came twice"));
                }
                let expected = self.values[place];
                if values.is_null(row) || value != expected {
                    return Err(format!("the value at {start} of key {key} is {value}, it must be {expected}"));
                }
                checked += 1;
            }
        }
        let count = self.rows();
        if checked != count {
            return Err(format!("{checked} rows came out, {count} must"));
        }
        Ok(checked)
    }

    fn place(&self, start: i64, key: i64) -> Option<usize> {
        let window = usize::try_from(start.div_euclid(self.slide) - self.first).ok()?;
        let group = usize::try_from(key).ok().filter(|group| *group < self.groups)?;
        let place = window * self.groups + group;
        let is_there = start % self.slide == 0 && self.values.get(place).is_some_and(|value| !value.is_nan());
        is_there.then_some(place)
    }
}

/// A row of `stream::readings`.
#[derive(Clone, Copy)]
pub struct Row {
    time: i64,
    /// Its key.
    pub key: i64,
    /// Its value.
    pub value: f64,
}

fn rows(stream: &[Vec<RecordBatch>]) -> impl Iterator<Item = Row> {
    stream.iter().flatten().flat_map(|batch| {
        let times = batch.column(0).as_primitive::<TimestampMicrosecondType>().values();
        let keys = batch.column(1).as_primitive::<Int64Type>().values();
        let values = batch.column(2).as_primitive::<Float64Type>().values();
        let columns = times.iter().zip(keys).zip(values);
        columns.map(|((time, key), value)| Row { time: *time, key: *key, value: *value })
    })
}

/// Spans of time that do not overlap, and the groups in each.
struct Panes {
    first: i64,
    count: usize,
    size: i64,
    groups: usize,
    is_keyed: bool,
}

impl Panes {
    fn of(stream: &[Vec<RecordBatch>], size: i64, groups: Groups) -> Self {
        let span = rows(stream).map(|row| row.time.div_euclid(size)).fold(None, |span: Option<(i64, i64)>, pane| {
            let (first, last) = span.unwrap_or((pane, pane));
            Some((first.min(pane), last.max(pane)))
        });
        let (first, count) = span.map_or((0, 0), |(first, last)| (first, (last - first + 1) as usize));
        let (groups, is_keyed) = match groups {
            Groups::One => (1, false),
            Groups::Keys(keys) => (keys, true),
        };
        Self { first, count, size, groups, is_keyed }
    }

    fn cells(&self) -> usize {
        self.count * self.groups
    }

    fn cell(&self, row: Row) -> usize {
        let group = if self.is_keyed { row.key as usize } else { 0 };
        (row.time.div_euclid(self.size) - self.first) as usize * self.groups + group
    }
}

/// Takes what is found out of what is expected: rows of a window's start, a key, and its count and sum, which are exact. Returns how
/// many rows there were; or what is wrong, be it that a row comes twice or never.
pub fn take_groups<T: ArrowPrimitiveType>(
    expected: &mut [(i64, T::Native)],
    found: &[RecordBatch],
    place: impl Fn(i64, i64) -> usize,
) -> Result<u64, String> {
    let mut rows = 0;
    for batch in found {
        let starts = batch.column(0).as_primitive::<TimestampMicrosecondType>().values();
        let [keys, counts] = [1, 2].map(|column| batch.column(column).as_primitive::<Int64Type>().values());
        let sums = batch.column(3).as_primitive::<T>().values();
        for row in 0..batch.num_rows() {
            let (start, key, found) = (starts[row], keys[row], (counts[row], sums[row]));
            // What was found is taken away, so that nothing can come twice and the rest is what is missing.
            let there = expected.get_mut(place(start, key)).map(std::mem::take).unwrap_or_default();
            if there != found {
                return Err(format!("count and sum at {start} of key {key} are {found:?}, they must be {there:?}"));
            }
            rows += 1;
        }
    }
    match expected.iter().filter(|(count, _)| *count > 0).count() {
        0 => Ok(rows),
        missing => Err(format!("{missing} rows did not come out")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{self, Keys};

    /// The same, row by row and window by window.
    fn naive(stream: &[Vec<RecordBatch>], windows: Windows, start: i64, key: i64) -> Option<f64> {
        let is_in = |row: &Row| (start..start + windows.size).contains(&row.time) && row.key == key;
        let values: Vec<f64> = rows(stream).filter(is_in).map(|row| row.value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn at(expected: &Expected, start: i64, key: i64) -> Option<f64> {
        expected.place(start, key).map(|place| expected.values[place])
    }

    #[test]
    fn dense_averages_are_those_of_each_window() {
        let stream = stream::readings(300, 1, Keys::Uniform(3), 1_000, 20_000).unwrap();
        let windows = Windows { size: 60_000, slide: 20_000 };
        let expected = Expected::averages(&stream, windows, Groups::Keys(3));
        let mut found = 0;
        for start in (-200_000..600_000).step_by(10_000) {
            for key in 0..3 {
                let value = naive(&stream, windows, start, key).filter(|_| start % windows.slide == 0);
                assert_eq!(at(&expected, start, key), value, "window {start}, key {key}");
                found += u64::from(value.is_some());
            }
        }
        assert_eq!(expected.rows(), found);
        assert_eq!(at(&expected, 0, 3), None);
    }

    #[test]
    fn a_wrong_value_and_a_missing_row_are_found() {
        use std::sync::Arc;

        use arrow_array::{ArrayRef, Float64Array, TimestampMicrosecondArray};

        let stream = stream::readings(2_000, 1, Keys::Uniform(1), 1_000, 0).unwrap();
        let expected = Expected::averages(&stream, Windows { size: 1_000_000, slide: 1_000_000 }, Groups::One);
        let rows = |rows: &[(i64, f64)]| {
            let starts = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|(start, _)| *start));
            let values = Float64Array::from_iter_values(rows.iter().map(|(_, value)| *value));
            let columns: [(_, ArrayRef); 2] = [("start", Arc::new(starts)), ("mean", Arc::new(values))];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let [first, second] = [0, 1_000_000].map(|start| (start, at(&expected, start, 0).unwrap()));
        assert_eq!(expected.compare(&[rows(&[first, second])]), Ok(2));
        assert!(expected.compare(&[rows(&[first, first])]).unwrap_err().contains("came twice"));
        assert!(expected.compare(&[rows(&[first])]).unwrap_err().contains("1 rows came out, 2 must"));
        assert!(expected.compare(&[rows(&[first, (1_000_000, 0.5)])]).unwrap_err().contains("it must be"));
        assert!(expected.compare(&[rows(&[first, (2_000_000, 0.5)])]).unwrap_err().contains("there is no window"));
    }

    #[test]
    fn a_group_that_is_wrong_comes_twice_or_never_is_found() {
        use std::sync::Arc;

        use arrow_array::{ArrayRef, Int64Array, TimestampMicrosecondArray};

        let rows = |rows: &[[i64; 3]]| {
            let column = |i: usize| Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row[i]))) as ArrayRef;
            let starts = Arc::new(TimestampMicrosecondArray::from(vec![0; rows.len()])) as ArrayRef;
            let columns = [("start", starts), ("key", column(0)), ("n", column(1)), ("sum", column(2))];
            [RecordBatch::try_from_iter(columns).unwrap()]
        };
        let take = |found: &[[i64; 3]]| {
            let mut expected = [(2, 7), (0, 0), (1, 5)];
            take_groups::<Int64Type>(&mut expected, &rows(found), |_, key| key as usize)
        };
        assert_eq!(take(&[[2, 1, 5], [0, 2, 7]]), Ok(2));
        assert!(take(&[[2, 1, 5]]).unwrap_err().contains("1 rows did not come out"));
        for wrong in [[0, 2, 8], [2, 1, 5], [1, 1, 0], [9, 1, 0]] {
            assert!(take(&[[2, 1, 5], [0, 2, 7], wrong]).unwrap_err().contains("they must be"), "{wrong:?}");
        }
    }
}
