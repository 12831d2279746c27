//! What our aggregate functions do at the edges: NaN and zeros, overflow, bytes that are no state.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int8Array, Int64Array, StringArray,
    UInt32Array, builder::make_builder, cast::AsArray, types::*,
};
use arrow_schema::DataType;
use arrow_select::take::take;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use thalweg_core::aggregate::{Accumulator, Aggregate, Signature, Windows};

use super::native;

fn function(name: &str, arguments: &[DataType], output: &DataType, is_distinct: bool) -> Arc<dyn Aggregate> {
    native(&Signature { name, arguments, is_distinct, output, exact_floats: true }).unwrap()
}

/// The result of a function over one group of values.
fn of(name: &'static str, values: ArrayRef, output: DataType, is_distinct: bool) -> thalweg_core::Result<ArrayRef> {
    let mut accumulator = function(name, &[values.data_type().clone()], &output, is_distinct).accumulator()?;
    accumulator.update(&[Arc::clone(&values)], None, &vec![0; values.len()], 1)?;
    accumulator.take_result()
}

fn float(name: &'static str, values: &[f64]) -> f64 {
    let values = Arc::new(Float64Array::from(values.to_vec()));
    of(name, values, DataType::Float64, false).unwrap().as_primitive::<Float64Type>().value(0)
}

#[test]
fn nan_is_above_all_numbers_and_zeros_are_one() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    assert!(float("max", &[1.0, -nan, inf]).is_nan());
    assert_eq!(float("min", &[nan, inf, nan]), inf);
    assert!(float("min", &[nan, -nan]).is_nan());
    for zeros in [[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0]] {
        assert_eq!([float("min", &zeros), float("max", &zeros)].map(f64::to_bits), [0, 0]);
    }
    let odd = f64::from_bits(nan.to_bits() | 7);
    let values: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, nan, -nan, odd, 1.0]));
    let distinct = of("count", values, DataType::Int64, true).unwrap();
    assert_eq!(distinct.as_primitive::<Int64Type>().value(0), 3);
}

#[test]
fn what_is_not_finite_has_no_spread() {
    assert_eq!(float("sum", &[1.0, f64::INFINITY]), f64::INFINITY);
    assert!(float("avg", &[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    assert!(float("var_pop", &[f64::INFINITY]).is_nan());
    assert!(float("stddev", &[1.0, f64::NAN]).is_nan());
}

#[test]
fn spread_does_not_cancel() {
    assert_eq!(float("var", &[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0]), 1.0);
    assert_eq!(float("var_pop", &[0.1; 7]), 0.0);
    // Its square is beyond all floats.
    assert!((float("stddev", &[1e300, -1e300]) / 1e300 / 2f64.sqrt() - 1.0).abs() < 1e-15);
    assert_eq!(float("sum", &[1e100, 1.0, -1e100]), 1.0);
}

#[test]
fn only_the_whole_sum_is_in_range_or_not() {
    let sum = |values: Vec<i64>| of("sum", Arc::new(Int64Array::from(values)), DataType::Int64, false);
    assert_eq!(sum(vec![i64::MAX, 1, -1]).unwrap().as_primitive::<Int64Type>().value(0), i64::MAX);
    assert_eq!(sum(vec![i64::MIN, -1]).unwrap_err().message(), "bigint out of range");
    let most = 10i128.pow(38) - 1;
    let decimals = |values: Vec<i128>| {
        let values = arrow_array::Decimal128Array::from(values).with_precision_and_scale(38, 2).unwrap();
        of("sum", Arc::new(values), DataType::Decimal128(38, 2), false)
    };
    let back = decimals(vec![most, most, most, -most, -most]).unwrap();
    assert_eq!(back.as_primitive::<Decimal128Type>().value(0), most);
    assert_eq!(decimals(vec![most, 1]).unwrap_err().message(), "decimal(38, 2) out of range");
}

#[test]
fn means_of_large_integers_round_once() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, i64::MAX - 2, 5]));
    let mean = of("avg", values, DataType::Float64, false).unwrap();
    let exact = (2 * i128::from(i64::MAX) + 3) / 3;
    assert_eq!(mean.as_primitive::<Float64Type>().value(0), exact as f64);
}

#[test]
fn bits_of_negative_numbers_are_those_of_their_type() {
    let bits = |name: &'static str| {
        let values: ArrayRef = Arc::new(Int8Array::from(vec![-1, -128, 3, 3]));
        of(name, values, DataType::Int8, name == "bit_xor").unwrap().as_primitive::<Int8Type>().value(0)
    };
    assert_eq!(["bit_and", "bit_or", "bit_xor"].map(bits), [0, -1, -1 ^ -128 ^ 3]);
}

/// Sums of distinct values where these are beyond what is added up fast, or their sum is now and then.
#[test]
fn distinct_values_that_no_sum_holds_are_followed_all_the_same() {
    let most = 10i128.pow(38) - 1;
    let decimals = Decimal128Array::from(vec![most, -most, most - 1, most - 2, 1 - most, 5, -7])
        .with_precision_and_scale(38, 0)
        .unwrap();
    let floats = Float64Array::from(vec![1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-300, 0.1, -1e300]);
    let decimal = DataType::Decimal128(38, 0);
    let columns: [(ArrayRef, [(&str, DataType); 2]); 2] = [
        (Arc::new(decimals), [("sum", decimal.clone()), ("avg", DataType::Decimal128(38, 4))]),
        (Arc::new(floats), [("sum", DataType::Float64), ("avg", DataType::Float64)]),
    ];
    let mut random = StdRng::seed_from_u64(9);
    let mut fitting = 0;
    for (values, calls) in columns {
        for (name, output) in calls {
            let function = function(name, &[values.data_type().clone()], &output, true);
            let slide = function.slide().unwrap();
            for _ in 0..20 {
                let mut follower = slide.follower().unwrap();
                let rows: Vec<u32> = (0..40).map(|_| random.random_range(0..values.len() as u32)).collect();
                let all = take(&values, &UInt32Array::from(rows), None).unwrap();
                follower.insert(&[Arc::clone(&all)], None, &[0; 40]).unwrap();
                for start in 0..34 {
                    let window = start..start + random.random_range(0..6);
                    let mut accumulator = function.accumulator().unwrap();
                    let seen = all.slice(window.start, window.len());
                    accumulator.update(&[seen], None, &vec![0; window.len()], 1).unwrap();
                    let expected = accumulator.take_result().map_err(|error| error.message().to_string());
                    let of = |arguments| Windows {
                        arguments,
                        filter: None,
                        windows: std::slice::from_ref(&window),
                        own: None,
                        lacks: &[],
                        before: &[],
                    };
                    let mut builder = make_builder(&output, 1);
                    let found = follower.results(&of(&[]), builder.as_mut()).map(|()| builder.finish());
                    let once = slide.results(&of(&[Arc::clone(&all)])).map(|found| found.unwrap());
                    for found in [found, once] {
                        let found = found.map_err(|error| error.message().to_string());
                        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{name} of {window:?} of {all:?}");
                    }
                    fitting += usize::from(expected.is_ok());
                }
            }
        }
    }
    assert!(fitting > 1_600, "{fitting}");
}

#[test]
fn bytes_that_are_no_state_are_an_error() {
    let sum = function("sum", &[DataType::Float64], &DataType::Float64, false);
    let counts: ArrayRef = Arc::new(arrow_array::UInt64Array::from(vec![1]));
    let bytes: ArrayRef = Arc::new(arrow_array::BinaryArray::from_vec(vec![b"nothing"]));
    let fixed = |width| Arc::new(FixedSizeBinaryArray::new(width, vec![0; width as usize].into(), None)) as ArrayRef;
    for [sums, beyond] in [[&bytes, &bytes], [&fixed(16), &bytes], [&fixed(7), &bytes]] {
        let states = [&counts, sums, beyond].map(Arc::clone);
        let error = sum.accumulator().unwrap().merge(&states, &[0], 1).unwrap_err();
        assert_eq!(error.message(), "the state of an aggregate cannot be read");
    }
}

#[test]
fn sums_beyond_their_window_travel_beside_those_within() {
    let mean = function("avg", &[DataType::Float64], &DataType::Float64, false);
    let values = [[1e300, 1.0, -0.0, f64::NAN, f64::INFINITY], [-1e300, 1e-300, 5e-324, 2.0, 7.0]];
    let [mut whole, mut left, mut right] = std::array::from_fn(|_| mean.accumulator().unwrap());
    for (values, share) in values.into_iter().zip([&mut left, &mut right]) {
        let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        whole.update(&[Arc::clone(&column)], None, &[0, 1, 2, 3, 4], 6).unwrap();
        share.update(&[column], None, &[0, 1, 2, 3, 4], 6).unwrap();
    }
    let states = right.take_state().unwrap();
    assert_eq!(states[2].null_count(), 3, "of which one has no values");
    left.merge(&states, &[0, 1, 2, 3, 4, 5], 6).unwrap();
    let states = left.take_state().unwrap();
    assert_eq!(states[2].null_count(), 2, "what has come back into its window does not stand beside it");
    let mut merged = mean.accumulator().unwrap();
    merged.merge(&states, &[0, 1, 2, 3, 4, 5], 6).unwrap();
    let bits = |mut of: Box<dyn Accumulator>| {
        let column = of.take_result().unwrap();
        column.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect::<Vec<_>>()
    };
    assert_eq!(bits(merged), bits(whole));
}

#[test]
fn what_is_not_ours_is_left_to_others() {
    let none = |name, arguments: &[DataType], output: &DataType| {
        let signature = Signature { name, arguments, is_distinct: false, output, exact_floats: true };
        assert!(native(&signature).is_none(), "{name}");
    };
    none("median", &[DataType::Float16], &DataType::Float16);
    none("sum", &[DataType::Utf8], &DataType::Utf8);
    none("bit_or", &[DataType::Boolean], &DataType::Boolean);
    none("count", &[DataType::Utf8], &DataType::Utf8);
}

#[test]
fn a_median_does_not_overflow_and_nan_is_above_all_numbers() {
    let between = |values: Vec<i64>| {
        let found = of("median", Arc::new(Int64Array::from(values)), DataType::Int64, false).unwrap();
        found.as_primitive::<Int64Type>().value(0)
    };
    assert_eq!(between(vec![i64::MAX, i64::MAX - 2]), i64::MAX - 1);
    assert_eq!(between(vec![i64::MIN, i64::MIN + 1]), i64::MIN + 1, "towards zero");
    assert_eq!(between(vec![i64::MIN, i64::MAX]), 0, "towards zero");
    let floats = |values: Vec<f64>| {
        let found = of("median", Arc::new(Float64Array::from(values)), DataType::Float64, false).unwrap();
        found.as_primitive::<Float64Type>().value(0)
    };
    assert_eq!(floats(vec![f64::NAN, 1.0, -f64::NAN, 3.0, 2.0]), 3.0);
    assert!(floats(vec![f64::NAN, 1.0]).is_nan());
    assert!(floats(vec![-0.0]).is_sign_positive());
}

#[test]
fn plain_sums_are_plain() {
    let function = |exact_floats| {
        let (arguments, output) = ([DataType::Float64], DataType::Float64);
        native(&Signature { name: "sum", arguments: &arguments, is_distinct: false, output: &output, exact_floats })
            .unwrap()
    };
    let values: ArrayRef = Arc::new(Float64Array::from(vec![1e100, 1.0, -1e100]));
    let sum = |exact| {
        let mut accumulator = function(exact).accumulator().unwrap();
        accumulator.update(&[Arc::clone(&values)], None, &[0, 0, 0], 2).unwrap();
        let state = accumulator.take_state().unwrap();
        accumulator.merge(&state, &[0, 1], 2).unwrap();
        accumulator.take_result().unwrap()
    };
    assert_eq!(sum(false).as_ref(), &Float64Array::from(vec![Some(0.0), None]));
    assert_eq!(sum(true).as_ref(), &Float64Array::from(vec![Some(1.0), None]));
}

#[test]
fn text_is_ordered_by_its_bytes() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["b", "Z", "é", "a", ""]));
    let best = |name| of(name, Arc::clone(&values), DataType::Utf8, false).unwrap();
    assert_eq!((best("min").as_string::<i32>().value(0), best("max").as_string::<i32>().value(0)), ("", "é"));
}
