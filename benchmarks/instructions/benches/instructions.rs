//! How many instructions the hot kernels take, counted by callgrind: the same on every run and every machine of a kind, so that a
//! kernel which became slower is found without a clock. Each has a limit, a tenth above what it took when the limit was set;
//! who makes a kernel better lowers it.
//!
//! ```text
//! make instructions
//! ```

use std::{hint::black_box, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};
use thalweg_core::Selection;
use thalweg_memory::{
    kernels::{
        behind::has_behind,
        bounds::{bounds, extent},
        exact_sum::{
            ExactSum,
            many::{add_all, add_grouped},
            quotient,
        },
        fields::{Marks, field_ends},
        hash::hash_columns,
        members::member_ends,
        select::{Comparison, Constant, Predicate, Value, number::Residue, select},
        sums::{plain_sum, whole_sum},
        walk::Walk,
    },
    simd::Level,
};

/// How many rows each kernel is given.
const ROWS: usize = 16_384;

/// At most so many instructions, by the level that the kernel is compiled for.
fn at_most(portable: u64, avx2: u64) -> LibraryBenchmarkConfig {
    let limit = if Level::best().name() == "portable" { portable } else { avx2 };
    let mut config = LibraryBenchmarkConfig::default();
    config.pass_through_env("THALWEG_SIMD");
    config.tool(Callgrind::default().hard_limits([(EventKind::Ir, limit)]));
    config
}

/// Numbers that are spread evenly, the same on every run.
fn numbers() -> Vec<i64> {
    let next = |seed: &mut u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((*seed >> 34) as i64)
    };
    let mut seed = 7;
    std::iter::from_fn(|| next(&mut seed)).take(ROWS).collect()
}

fn keys() -> RecordBatch {
    RecordBatch::try_from_iter([("key", Arc::new(Int64Array::from(numbers())) as ArrayRef)]).expect("one column")
}

fn floats() -> Vec<f64> {
    numbers().into_iter().map(|number| number as f64 / 64.0).collect()
}

fn sums() -> (Vec<ExactSum>, Vec<f64>, Vec<u32>) {
    let groups = numbers().into_iter().map(|number| (number % 1000) as u32).collect();
    (vec![ExactSum::default(); 1000], floats(), groups)
}

fn text() -> (Vec<u8>, Vec<u32>) {
    let line = |number: i64| format!("{number},{}.25,2024-05-01 10:00:00,JFK\n", number % 100);
    let text: Vec<u8> = numbers().into_iter().take(1000).flat_map(|number| line(number).into_bytes()).collect();
    let ends = vec![0; text.len()];
    (text, ends)
}

/// Times that are out of order by a hundred at most, which none is behind.
fn times() -> Vec<i64> {
    numbers().into_iter().zip(0..).map(|(number, time)| time + number % 100).collect()
}

/// Times in order, and others between them.
fn in_order() -> [Vec<i64>; 2] {
    [0, 7].map(|more| {
        let mut some: Vec<i64> = times().into_iter().map(|time| time + more).collect();
        some.sort_unstable();
        some
    })
}

#[library_benchmark(config = at_most(345_000, 87_000))]
#[bench::rows(keys())]
fn a_comparison(rows: RecordBatch) -> Option<Selection> {
    let predicate = Predicate::Compare(Comparison::Less, Value::Column(0), Value::Constant(Constant::Whole(1 << 28)));
    black_box(select(&predicate, &rows, None, Level::best()).ok()?)
}

#[library_benchmark(config = at_most(445_000, 166_000))]
#[bench::rows(keys())]
fn a_remainder(rows: RecordBatch) -> Option<Selection> {
    let predicate = Predicate::Residue(0, Residue::new(10, 0).expect("ten is no zero"));
    black_box(select(&predicate, &rows, None, Level::best()).ok()?)
}

#[library_benchmark(config = at_most(158_000, 36_000))]
#[bench::rows(numbers())]
fn smallest_and_largest(values: Vec<i64>) -> Option<(i64, i64)> {
    black_box(bounds(Level::best(), &values))
}

#[library_benchmark(config = at_most(150_000, 40_500))]
#[bench::rows((0..ROWS as i64).collect())]
fn whether_they_ascend(values: Vec<i64>) -> bool {
    black_box(extent(Level::best(), &values).is_some_and(|extent| extent.ascends))
}

#[library_benchmark(config = at_most(229_000, 41_000))]
#[bench::rows(times())]
fn whether_one_is_behind(times: Vec<i64>) -> bool {
    let (parts, _) = times.as_chunks::<{ ROWS / 4 }>();
    let parts = [&parts[0], &parts[1], &parts[2], &parts[3]].map(|part| &part[..]);
    black_box(has_behind(Level::best(), parts, [i64::MIN; 4], 100))
}

#[library_benchmark(config = at_most(1_044_000, 653_000))]
#[bench::rows(in_order())]
fn how_many_are_earlier([times, limits]: [Vec<i64>; 2]) -> [Vec<usize>; 2] {
    let mut found = [vec![0; ROWS], vec![0; ROWS]];
    let [one, two] = &mut found;
    Walk::both(Level::best(), [Walk::new(0, &limits, one), Walk::new(0, &limits, two)], &times);
    black_box(found)
}

#[library_benchmark(config = at_most(182_000, 182_000))]
#[bench::rows(keys())]
fn a_hash_per_row(rows: RecordBatch) -> Option<Vec<u64>> {
    black_box(hash_columns(rows.columns(), ROWS).ok())
}

#[library_benchmark(config = at_most(840_000, 460_000))]
#[bench::rows(sums())]
fn exact_sums_per_group(input: (Vec<ExactSum>, Vec<f64>, Vec<u32>)) -> Vec<ExactSum> {
    let (mut sums, values, groups) = input;
    black_box(add_grouped(Level::best(), &mut sums, &values, None, &groups));
    sums
}

#[library_benchmark(config = at_most(248_000, 128_000))]
#[bench::rows(floats())]
fn an_exact_sum(values: Vec<f64>) -> f64 {
    let mut sum = ExactSum::default();
    add_all(Level::best(), &mut sum, &values);
    black_box(sum.value())
}

#[library_benchmark(config = at_most(2_200_000, 2_200_000))]
#[bench::rows(numbers())]
fn exact_means(values: Vec<i64>) -> f64 {
    black_box(values.iter().map(|value| quotient(i128::from(*value) << 40, -74, 1000)).sum())
}

#[library_benchmark(config = at_most(23_700, 10_100))]
#[bench::rows(floats())]
fn a_plain_sum(values: Vec<f64>) -> f64 {
    black_box(plain_sum(Level::best(), &values))
}

#[library_benchmark(config = at_most(78_000, 32_000))]
#[bench::rows(numbers())]
fn a_sum_of_whole_numbers(values: Vec<i64>) -> i128 {
    black_box(whole_sum(Level::best(), &values))
}

#[library_benchmark(config = at_most(146_000, 66_500))]
#[bench::lines(text())]
fn fields_of_a_thousand_lines(input: (Vec<u8>, Vec<u32>)) -> usize {
    let (text, mut ends) = input;
    let marks = Marks { delimiter: b',', quote: Some(b'"'), escape: None };
    black_box(field_ends(Level::best(), &text, marks, &mut ends).ends)
}

fn objects() -> (Vec<u8>, Vec<u32>) {
    let line = |number: i64| format!("{{\"number\":{number},\"price\":{}.25,\"airport\":\"JFK\"}}\n", number % 100);
    let text: Vec<u8> = numbers().into_iter().take(1000).flat_map(|number| line(number).into_bytes()).collect();
    let ends = vec![0; text.len()];
    (text, ends)
}

#[library_benchmark(config = at_most(354_000, 138_000))]
#[bench::lines(objects())]
fn members_of_a_thousand_objects(input: (Vec<u8>, Vec<u32>)) -> usize {
    let (text, mut ends) = input;
    black_box(member_ends(Level::best(), &text, &mut ends))
}

library_benchmark_group!(
    name = kernels,
    benchmarks = [
        a_comparison,
        a_remainder,
        smallest_and_largest,
        whether_they_ascend,
        whether_one_is_behind,
        how_many_are_earlier,
        a_hash_per_row,
        exact_sums_per_group,
        an_exact_sum,
        exact_means,
        a_plain_sum,
        a_sum_of_whole_numbers,
        fields_of_a_thousand_lines,
        members_of_a_thousand_objects
    ]
);

main!(library_benchmark_groups = kernels);
