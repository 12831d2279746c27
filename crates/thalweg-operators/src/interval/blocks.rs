//! Aggregates over windows that overlap, from the states of blocks of rows.
//!
//! ```text
//! rows     a b c d e f g h i j k l m n o p …
//! blocks   [a b c d] [e f g h] [i j k l] …      the state of each is made once
//! window       c d   [e f g h] [i j k l] m      two rows, two blocks, a row
//! ```
//!
//! Blocks are of 16 rows, and of 16 blocks: a window merges a few dozen states, however many rows it sees. Nothing is ever taken away,
//! which not every aggregate could.
//!
//! Source: Tangwongsan, Hirzel, Schneider, Wu, "General incremental sliding-window aggregation" (PVLDB 2015): a tree of partial aggregates.
//! Here it is wider, and made for the windows of some rows at a time, level by level, so that each step is one call for many windows.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array, cast::AsArray};
use arrow_schema::DataType;
use arrow_select::take::take;
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Aggregate, Exactness},
};

/// How many rows, or blocks, are in a block.
const WIDTH: usize = 16;

/// So many states are merged together.
const TOGETHER: usize = 16_384;

/// The window of a group: which rows it sees.
pub type Window = (Range<usize>, u32);

/// Whether states of blocks are as good as rows, and smaller.
pub fn can_merge(function: &dyn Aggregate) -> Result<bool> {
    let is_small = |kind: &DataType| !kind.is_nested();
    Ok(function.exactness() == Exactness::Exact && function.state()?.iter().all(|field| is_small(field.data_type())))
}

/// Whether windows overlap so much that it pays to make blocks of the rows that they see.
pub fn pay(windows: usize, rows: usize, seen: usize) -> bool {
    let levels = (seen / windows.max(1)).max(1).ilog(WIDTH) as usize + 1;
    seen > 2 * (rows + windows * WIDTH * levels)
}

/// Adds to each of some groups what the rows of its window come to. The windows are of these rows; the accumulator has `count` groups.
pub fn add(
    function: &dyn Aggregate,
    (arguments, filter): &(Vec<ArrayRef>, Option<BooleanArray>),
    rows: usize,
    mut windows: Vec<Window>,
    accumulator: &mut dyn Accumulator,
    count: usize,
) -> Result<()> {
    for (wanted, groups) in edges(&mut windows) {
        let taken = taken(arguments, &wanted)?;
        let filter = filter.as_ref().map(|mask| take(mask, &wanted, None)).transpose()?;
        accumulator.update(&taken, filter.as_ref().map(|mask| mask.as_boolean()), &groups, count)?;
    }
    if windows.is_empty() {
        return Ok(());
    }
    let mut blocks = rows.div_ceil(WIDTH);
    let mut states = function.accumulator()?;
    states.update(arguments, filter.as_ref(), &blocks_of(rows), blocks)?;
    while !windows.is_empty() {
        let columns = states.take_state()?;
        for (wanted, groups) in edges(&mut windows) {
            accumulator.merge(&taken(&columns, &wanted)?, &groups, count)?;
        }
        states = function.accumulator()?;
        states.merge(&columns, &blocks_of(blocks), blocks.div_ceil(WIDTH))?;
        blocks = blocks.div_ceil(WIDTH);
    }
    Ok(())
}

/// The block of each of so many rows.
fn blocks_of(rows: usize) -> Vec<u32> {
    (0..rows).map(|row| (row / WIDTH) as u32).collect()
}

fn taken(columns: &[ArrayRef], rows: &UInt32Array) -> Result<Vec<ArrayRef>> {
    columns.iter().map(|column| Ok(take(column.as_ref() as &dyn Array, rows, None)?)).collect()
}

/// What windows see outside of whole blocks, some at a time, each with its group; the windows become those of the blocks.
fn edges(windows: &mut Vec<Window>) -> Vec<(UInt32Array, Vec<u32>)> {
    let (mut all, mut rows, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    windows.retain_mut(|(window, group)| {
        let blocks = window.start.div_ceil(WIDTH)..window.end / WIDTH;
        let inside = if blocks.is_empty() { window.end..window.end } else { blocks.start * WIDTH..blocks.end * WIDTH };
        let outside = (window.start..inside.start).chain(inside.end..window.end);
        rows.extend(outside.map(|row| row as u32));
        groups.resize(rows.len(), *group);
        if rows.len() >= TOGETHER {
            all.push((UInt32Array::from(std::mem::take(&mut rows)), std::mem::take(&mut groups)));
        }
        let goes_on = !blocks.is_empty();
        *window = blocks;
        goes_on
    });
    all.push((rows.into(), groups));
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, types::Int64Type};
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use thalweg_core::aggregate::Signature;

    use super::*;
    use crate::aggregate::functions::native;

    #[test]
    fn windows_of_blocks_see_the_same_as_windows_of_rows() {
        for seed in 0..50 {
            let random = &mut StdRng::seed_from_u64(seed);
            let count = random.random_range(1..6_000);
            let values: Vec<Option<i64>> =
                (0..count).map(|_| random.random_bool(0.9).then(|| random.random_range(-1_000..1_000))).collect();
            let mask: Vec<Option<bool>> = (0..count).map(|_| Some(random.random_bool(0.7))).collect();
            let filter = random.random_bool(0.5).then(|| BooleanArray::from(mask.clone()));
            let signature = Signature {
                name: "max",
                arguments: &[DataType::Int64],
                is_distinct: false,
                output: &DataType::Int64,
                exact_floats: true,
            };
            let function = native(&signature).unwrap();
            assert!(can_merge(function.as_ref()).unwrap());
            let window = |group: u32| {
                let start = random.random_range(0..=count);
                (start..random.random_range(start..=count), group)
            };
            let windows: Vec<Window> = (0..40).map(window).collect();
            let seen = |row: &usize| filter.is_none() || mask[*row] == Some(true);
            let largest = |(window, _): &Window| window.clone().filter(seen).filter_map(|row| values[row]).max();
            let expected: Vec<Option<i64>> = windows.iter().map(largest).collect();
            let arguments = vec![Arc::new(Int64Array::from(values.clone())) as ArrayRef];
            let mut accumulator = function.accumulator().unwrap();
            add(function.as_ref(), &(arguments, filter.clone()), count, windows, accumulator.as_mut(), 40).unwrap();
            let found = accumulator.take_result().unwrap();
            assert_eq!(found.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), expected, "seed {seed}");
        }
    }

    #[test]
    fn what_keeps_all_values_or_depends_on_their_order_is_made_of_rows() {
        let can_merge = |name: &str, kind: DataType, output: DataType, is_distinct: bool| {
            let arguments = [kind];
            let signature = Signature { name, arguments: &arguments, is_distinct, output: &output, exact_floats: true };
            can_merge(native(&signature).unwrap().as_ref()).unwrap()
        };
        assert!(can_merge("stddev_samp", DataType::Float64, DataType::Float64, false));
        assert!(can_merge("min", DataType::Utf8, DataType::Utf8, false));
        assert!(!can_merge("count", DataType::Int64, DataType::Int64, true));
        assert!(!can_merge("median", DataType::Float64, DataType::Float64, false));
    }
}
