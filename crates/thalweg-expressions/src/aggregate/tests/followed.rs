//! What follows windows from batch to batch, against what begins anew.

use std::{ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, UInt32Array, builder::UInt64Builder, cast::AsArray, new_null_array,
};
use arrow_cast::cast;
use arrow_schema::{DataType::*, Field, Schema, TimeUnit};
use arrow_select::take::take;
use datafusion_common::DFSchema;
use datafusion_expr::col;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use thalweg_core::aggregate::{Follower, Pick, Windows};

use super::{
    super::{aggregate, picked},
    call, rows,
};

/// A follower against what begins anew with all rows that are there, while rows of these values come anywhere and go.
fn followed_wherever_rows_come(
    random: &mut StdRng,
    values: &ArrayRef,
    follower: &mut dyn Follower,
    mut results: impl FnMut(&mut dyn Follower, &Windows<'_>, &[ArrayRef]) -> ArrayRef,
    expected: impl Fn(&Windows<'_>) -> ArrayRef,
) {
    let (count, mut there) = (values.len() as u32, Vec::<u32>::new());
    let mask: BooleanArray = (0..count).map(|_| Some(random.random_bool(0.7))).collect();
    let filter = random.random::<bool>().then_some(&mask);
    let taken = |rows: &[u32]| {
        let rows = UInt32Array::from(rows.to_vec());
        let filter = filter.map(|mask| take(mask, &rows, None).unwrap().as_boolean().clone());
        (vec![take(values, &rows, None).unwrap()], filter)
    };
    for round in 0..20 {
        let new: Vec<u32> =
            (0..random.random_range(0..6 * count / 60)).map(|_| random.random_range(0..count)).collect();
        let first = if random.random() { 0 } else { there.len() };
        let mut places: Vec<usize> = new.iter().map(|_| random.random_range(first..=there.len())).collect();
        places.sort_unstable();
        let (arguments, counts) = taken(&new);
        follower.insert(&arguments, counts.as_ref(), &places).unwrap();
        for (number, (row, place)) in new.iter().zip(&places).enumerate() {
            there.insert(place + number, *row);
        }
        let gone = random.random_range(0..=there.len().min(4 * count as usize / 60));
        follower.drop_first(gone);
        there.drain(..gone);
        let windows: Vec<Range<usize>> = (0..4)
            .map(|_| {
                let start = random.random_range(0..=there.len());
                start..random.random_range(start..=there.len())
            })
            .collect();
        let own = random.random::<bool>().then(|| [0; 4].map(|_| random.random_range(0..count)));
        let lacked = |window: &Range<usize>| {
            let first = random.random_range(window.start..=window.end);
            first..random.random_range(first..=window.end)
        };
        let lacks: Vec<Range<usize>> = windows.iter().map(lacked).collect();
        let all = [&there[..], own.as_ref().map_or(&[][..], |own| own)].concat();
        let (arguments, counts) = taken(&all);
        let of = Windows {
            arguments: &arguments,
            filter: counts.as_ref(),
            windows: &windows,
            own: own.map(|_| there.len()),
            lacks: &lacks,
            before: &[],
        };
        let expected = expected(&of);
        let (of_own, counts) = taken(own.as_ref().map_or(&[][..], |own| own));
        let found = results(follower, &Windows { arguments: &of_own, filter: counts.as_ref(), ..of }, &arguments);
        assert_eq!(found.to_data(), expected.to_data(), "round {round}");
    }
}

#[test]
fn picked_rows_are_followed_from_batch_to_batch_wherever_rows_come() {
    let mut random = StdRng::seed_from_u64(6);
    let random = &mut random;
    let picks = [Pick::First(0), Pick::First(2), Pick::Last(0), Pick::Last(1)];
    for pick in picks.into_iter().cycle().take(60) {
        let picked = picked::Picked { pick, skips_nulls: random.random() };
        let values = rows(random, 60).column(0).clone();
        let results = |follower: &mut dyn Follower, of: &Windows<'_>, all: &[ArrayRef]| {
            let mut found = UInt64Builder::new();
            follower.results(of, &mut found).unwrap();
            take(&all[0], &found.finish(), None).unwrap()
        };
        let expected = |of: &Windows<'_>| picked.results(of).unwrap();
        followed_wherever_rows_come(random, &values, &mut picked::Counted::new(picked), results, expected);
    }
}

/// Values of each type, more than there are in a register by far, against DataFusion's sketch of the rows of each window.
#[test]
fn sketches_follow_windows_from_batch_to_batch_wherever_rows_come() {
    let random = &mut StdRng::seed_from_u64(7);
    let whole = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Boolean];
    let others = [Utf8, LargeUtf8, Utf8View, Date32, Timestamp(TimeUnit::Microsecond, None), Decimal128(20, 2), Null];
    for kind in whole.iter().chain(&others) {
        let numbers: Int64Array =
            (0..6000).map(|_| random.random_bool(0.9).then(|| random.random_range(0..4000))).collect();
        let values = match kind {
            Boolean | Int8 | UInt8 => {
                let few: Int64Array = numbers.iter().map(|number| number.map(|number| number % 100)).collect();
                cast(&few, kind).unwrap()
            }
            Null => new_null_array(kind, numbers.len()),
            Date32 => cast(&cast(&numbers, &Int32).unwrap(), kind).unwrap(),
            kind => cast(&numbers, kind).unwrap(),
        };
        let schema = DFSchema::try_from(Schema::new(vec![Field::new("v", kind.clone(), true)])).unwrap();
        let mut call = call("approx_distinct", vec![col("i")], false, vec![]);
        call.function.params.args = vec![col("v")];
        let function = aggregate(&call, &schema, true, &|_| None).unwrap().function;
        let Some(slide) = function.slide() else {
            assert_eq!(kind, &Null);
            continue;
        };
        // The rows of each window, in an accumulator.
        let expected = |of: &Windows<'_>| {
            let mut accumulator = function.accumulator().unwrap();
            for (number, (window, hole)) in of.windows.iter().zip(of.lacks).enumerate() {
                let own = of.own.map(|own| own + number);
                let seen = (window.start..hole.start).chain(own).chain(hole.end..window.end);
                let seen = UInt32Array::from_iter_values(seen.map(|row| row as u32));
                let filter = of.filter.map(|mask| take(mask, &seen, None).unwrap().as_boolean().clone());
                let taken = take(&of.arguments[0], &seen, None).unwrap();
                accumulator.update(&[taken], filter.as_ref(), &vec![number as u32; seen.len()], number + 1).unwrap();
            }
            let expected = accumulator.take_result().unwrap();
            assert_eq!(&slide.results(of).unwrap().unwrap(), &expected, "{kind}");
            expected
        };
        let results = |follower: &mut dyn Follower, of: &Windows<'_>, _: &[ArrayRef]| -> ArrayRef {
            let mut found = UInt64Builder::new();
            follower.results(of, &mut found).unwrap();
            Arc::new(found.finish())
        };
        // Windows of the last rows, before which there was nothing, few values, or many.
        for first in [0, 50, 5900] {
            let of_rows = |rows: Range<usize>| {
                let mut accumulator = function.accumulator().unwrap();
                accumulator.update(&[values.slice(rows.start, rows.len())], None, &vec![0; rows.len()], 1).unwrap();
                accumulator
            };
            let last = values.slice(first, values.len() - first);
            let windows: Vec<Range<usize>> = (1..100).map(|end| 0..end).collect();
            let before = of_rows(0..first).take_state().unwrap();
            let of =
                Windows { arguments: &[last], filter: None, windows: &windows, own: None, lacks: &[], before: &before };
            let found = slide.results(&of).unwrap().unwrap();
            for (number, window) in windows.iter().enumerate() {
                let expected = of_rows(0..first + window.end).take_result().unwrap();
                assert_eq!(found.slice(number, 1).to_data(), expected.to_data(), "{kind}, {first} rows before");
            }
        }
        let mut follower = slide.follower().unwrap();
        followed_wherever_rows_come(random, &values, follower.as_mut(), results, expected);
    }
}
