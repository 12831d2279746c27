//! Looks for how many rows of a key are earlier than some times, which ascend.

use thalweg_memory::{kernels::walk::Walk, simd::Level};

/// Where there are so many times as many rows as times, rows are left out in a search.
const SPARSE: usize = 8;

/// So few rows are looked at one by one.
const SHORT: usize = 32;

/// What is no more rows away is found as fast by looking at one after the other.
const NEXT: usize = 8;

/// Among so many rows it is guessed where a time is.
pub const EVEN: usize = 512;

/// Where there are so many times as many rows, at least, those that come find none of them in the caches.
pub const RARE: usize = 64;

/// So many rows look for others in two halves, side by side.
const LONG: usize = 512;

/// Appends for each of some times, which ascend, how many of these are earlier; does so for two lists of them, of as many times. `near` is what
/// it was for times not much before the first.
pub fn passed(times: &[i64], limits: [&[i64]; 2], near: [usize; 2], found: [&mut Vec<usize>; 2]) {
    let [Some((one, last_one)), Some((two, last_two))] = limits.map(|limits| limits.first().zip(limits.last())) else {
        return;
    };
    let among = |near: usize, limit: &i64| search_by_time(times, near, *limit, |time| *time, |time| time < limit);
    let first = |near: usize, limit: &i64| {
        let near = near.min(times.len());
        let is_before = near == 0 || times[near - 1] < *limit;
        // What is not far is found on the way.
        if is_before && times.len() - near <= SHORT { near } else { among(near, limit) }
    };
    let [one, two] = [first(near[0], one), first(near[1], two)];
    let [found_one, found_two] = found.map(|found| {
        let start = found.len();
        found.resize(start + limits[0].len(), 0);
        &mut found[start..]
    });
    let span = |row: usize, last: &i64| search(&times[row..], 0, |time| time < last);
    if span(one, last_one).max(span(two, last_two)) > SPARSE * limits[0].len() {
        for (limits, (row, found)) in limits.into_iter().zip([(one, found_one), (two, found_two)]) {
            let mut row = row;
            for (found, limit) in found.iter_mut().zip(limits) {
                row = search(times, row, |time| time < limit);
                *found = row;
            }
        }
        return;
    }
    let walks = [Walk::new(one, limits[0], found_one), Walk::new(two, limits[1], found_two)];
    if limits[0].len() < LONG {
        return Walk::both(Level::best(), walks, times);
    }
    let [[one, two], [three, four]] = walks.map(|walk| walk.halves(times));
    Walk::all(Level::best(), [one, two, three, four], times);
}

/// How many of the first rows are before something of this time: looked for at `near`, or where it would be if the rows not far from there were
/// evenly spread in time, which takes few looks at memory.
pub fn search_by_time<T>(
    rows: &[T],
    near: usize,
    time: i64,
    time_of: impl Fn(&T) -> i64,
    is_before: impl Fn(&T) -> bool,
) -> usize {
    let near = near.min(rows.len());
    let is_behind = near == 0 || is_before(&rows[near - 1]);
    if is_behind && rows.get(near + NEXT).is_none_or(|row| !is_before(row)) {
        return search(rows, near, is_before);
    }
    let place = match is_behind {
        true => near + guess(&rows[near..rows.len().min(near + EVEN)], time, time_of),
        false => guess_back(&rows[..near], time, time_of),
    };
    search(rows, place, is_before)
}

/// Where a row of this time would be, not far from the end, if rows there were evenly spread in time.
pub fn guess_back<T>(rows: &[T], time: i64, time_of: impl Fn(&T) -> i64) -> usize {
    let before = rows.len().saturating_sub(EVEN);
    before + guess(&rows[before..], time, time_of)
}

fn guess<T>(rows: &[T], time: i64, time_of: impl Fn(&T) -> i64) -> usize {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return 0 };
    let [first, last] = [first, last].map(|row| time_of(row) as f64);
    let share = (time as f64 - first) / (last - first);
    // What is no number is the first.
    (share.clamp(0.0, 1.0) * rows.len() as f64) as usize
}

/// How many of the first rows are before something, looked for in steps that double from `near` on, either way.
pub fn search<T>(rows: &[T], near: usize, is_before: impl Fn(&T) -> bool) -> usize {
    let near = near.min(rows.len());
    if near > 0 && !is_before(&rows[near - 1]) {
        let (mut high, mut step) = (near - 1, 1);
        while high >= step && !is_before(&rows[high - step]) {
            high -= step;
            step *= 2;
        }
        let low = high.saturating_sub(step);
        return low + rows[low..high].partition_point(is_before);
    }
    let (mut low, mut step) = (near, 1);
    while low + step <= rows.len() && is_before(&rows[low + step - 1]) {
        low += step;
        step *= 2;
    }
    let high = rows.len().min(low + step);
    low + rows[low..high].partition_point(is_before)
}
