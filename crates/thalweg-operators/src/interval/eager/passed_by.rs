//! Rows that time has passed leave others.

use super::super::entry::Entry;

/// Takes the rows before this time away from others, both in their order. Rows of either kind follow each other, as a rule.
pub fn take_before(rows: &mut Vec<Entry>, end: i64, taken: &mut Vec<Entry>) {
    let goes = |row: &Entry| row.time < end;
    let first = rows.iter().take_while(|row| goes(row)).count();
    if taken.is_empty() && first > rows.len() / 2 {
        // Most go: the others are moved.
        std::mem::swap(rows, taken);
        move_some(taken, first, |row| !goes(row), rows);
    } else {
        move_some(rows, 0, goes, taken);
    }
}

/// Moves those of some rows, from one of them on, for which this holds behind others.
fn move_some(rows: &mut Vec<Entry>, first: usize, moves: impl Fn(&Entry) -> bool, moved: &mut Vec<Entry>) {
    let (mut next, mut stay) = (first, first);
    while next < rows.len() {
        let gone = rows[next..].iter().take_while(|row| moves(row)).count();
        moved.extend_from_slice(&rows[next..next + gone]);
        next += gone;
        let others = rows[next..].iter().take_while(|row| !moves(row)).count();
        if stay < next {
            rows.copy_within(next..next + others, stay);
        }
        (next, stay) = (next + others, stay + others);
    }
    rows.truncate(stay);
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn those_before_a_time_leave_and_both_stay_in_order() {
        for seed in 0..200 {
            let random = &mut StdRng::seed_from_u64(seed);
            let mut row =
                |position| Entry { time: position + random.random_range(0..20), position, ..Entry::default() };
            let all: Vec<Entry> = (0..50).map(&mut row).collect();
            let end = random.random_range(-5..80);
            // Behind some that have left before, or behind none.
            let before = all[..seed as usize % 2].to_vec();
            let (mut rows, mut taken) = (all.clone(), before.clone());
            take_before(&mut rows, end, &mut taken);
            let (gone, stay): (Vec<Entry>, Vec<Entry>) = all.iter().partition(|row| row.time < end);
            assert_eq!((taken, rows), ([before, gone].concat(), stay), "seed {seed}");
        }
    }
}
