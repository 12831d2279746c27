//! DataFusion's aggregates in parts: any order of rows, parts and merges gives the same bits.

mod followed;

use std::{collections::BTreeSet, ops::Range};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array, cast::AsArray,
};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::take::take;
use datafusion_expr::{
    AggregateUDF, col,
    expr::{AggregateFunction, Sort},
    lit,
};
use datafusion_functions_aggregate::all_default_aggregate_functions;
use rand::{
    RngExt, SeedableRng,
    rngs::StdRng,
    seq::{IndexedRandom, SliceRandom},
};
use thalweg_core::{
    Batch,
    aggregate::{Amounts, Exactness, Totals, Windows},
};

use super::*;

fn schema() -> DFSchema {
    let fields = [
        ("i", DataType::Int64),
        ("f", DataType::Float64),
        ("s", DataType::Utf8),
        ("b", DataType::Boolean),
        ("g", DataType::Float64),
    ];
    let fields: Vec<_> = fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect();
    DFSchema::try_from(Schema::new(fields)).unwrap()
}

/// Rows with nulls and many equal values, and the group of each.
fn rows(random: &mut StdRng, length: usize) -> RecordBatch {
    let numbers: Vec<_> = (0..length).map(|_| random.random_bool(0.8).then(|| random.random_range(0..9i64))).collect();
    let floats = |random: &mut StdRng| -> ArrayRef {
        Arc::new(
            (0..length)
                .map(|_| random.random_bool(0.9).then(|| random.random_range(-1.0..1.0)))
                .collect::<Float64Array>(),
        )
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(numbers.clone())),
        floats(random),
        Arc::new(numbers.iter().map(|n| n.map(|n| format!("text {n}"))).collect::<StringArray>()),
        Arc::new(numbers.iter().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
        floats(random),
    ];
    RecordBatch::try_new(Arc::clone(schema().inner()), columns).unwrap()
}

fn function(name: &str) -> Arc<AggregateUDF> {
    let is_it = |f: &Arc<AggregateUDF>| f.name() == name;
    all_default_aggregate_functions().into_iter().find(is_it).unwrap_or_else(|| panic!("no function {name}"))
}

fn ascending(key: &str) -> Sort {
    col(key).sort(true, false)
}

/// A call over the columns above.
fn call(name: &str, args: Vec<Expr>, distinct: bool, order_by: Vec<Sort>) -> AggregateCall {
    let func = function(name);
    let fields: Vec<_> = args.iter().map(|arg| arg.to_field(&schema()).unwrap().1).collect();
    let output = func.return_field(&fields).unwrap().data_type().clone();
    let params = AggregateFunctionParams { args, distinct, filter: None, order_by, null_treatment: None };
    let output = Arc::new(Field::new("x", output, true));
    AggregateCall { function: AggregateFunction { func, params }, output, phase: Phase::Only }
}

fn foreign_only(call: &AggregateCall) -> Result<Call> {
    aggregate(call, &schema(), true, &|_| None)
}

/// Every function of DataFusion that we admit, with arguments it takes.
fn calls() -> Vec<AggregateCall> {
    let mut calls = Vec::new();
    for is_distinct in [false, true] {
        for column in ["i", "f", "s", "b"] {
            for name in ["approx_distinct", "count", "min", "max", "any_value"] {
                calls.push(call(name, vec![col(column)], is_distinct, vec![]));
            }
            calls.push(call("array_agg", vec![col(column)], is_distinct, vec![ascending(column)]));
        }
        for column in ["i", "f"] {
            for name in ["sum", "median"] {
                calls.push(call(name, vec![col(column)], is_distinct, vec![]));
            }
        }
        for name in ["approx_median", "avg", "var", "var_pop", "stddev", "stddev_pop"] {
            calls.push(call(name, vec![col("f")], is_distinct, vec![]));
        }
        for name in ["bit_and", "bit_or", "bit_xor"] {
            calls.push(call(name, vec![col("i")], is_distinct, vec![]));
        }
        for name in ["bool_and", "bool_or"] {
            calls.push(call(name, vec![col("b")], is_distinct, vec![]));
        }
        calls.push(call("string_agg", vec![col("s"), lit(",")], is_distinct, vec![ascending("s")]));
        let within = vec![col("f"), lit(0.3)];
        calls.push(call("percentile_cont", within.clone(), is_distinct, vec![ascending("f")]));
        calls.push(call("approx_percentile_cont", within, is_distinct, vec![ascending("f")]));
    }
    for name in ["covar_samp", "covar_pop", "corr"].into_iter().chain(REGRESSION) {
        calls.push(call(name, vec![col("f"), col("g")], false, vec![]));
    }
    for name in ["first_value", "last_value"] {
        calls.push(call(name, vec![col("s")], false, vec![ascending("f")]));
    }
    calls.push(call("nth_value", vec![col("s"), lit(2i64)], false, vec![ascending("f")]));
    let weighted = vec![col("f"), col("g") * col("g"), lit(0.5)];
    calls.push(call("approx_percentile_cont_with_weight", weighted, false, vec![ascending("f")]));
    calls
}

const REGRESSION: [&str; 9] = [
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
];

fn arguments(call: &Call, rows: &RecordBatch) -> Vec<ArrayRef> {
    let batch = Batch::new(rows.clone());
    call.arguments.iter().map(|argument| argument.evaluate(&batch).unwrap()).collect()
}

fn taken(rows: &RecordBatch, which: &[u32]) -> RecordBatch {
    arrow_select::take::take_record_batch(rows, &arrow_array::UInt32Array::from(which.to_vec())).unwrap()
}

#[test]
fn any_order_and_any_parts_give_the_same_bits() {
    let mut random = StdRng::seed_from_u64(5);
    let mut tested = BTreeSet::new();
    for call in calls() {
        let title = format!("{:?} {}", call.function.func.name(), call.function.params.distinct);
        tested.insert(call.function.func.name().to_string());
        let compiled = foreign_only(&call).unwrap_or_else(|error| panic!("{title}: {error}"));
        let function = &compiled.function;
        assert_eq!(function.exactness(), Exactness::Exact);
        assert_eq!(function.output(), *call.output.data_type(), "{title}");
        for round in 0..6 {
            let length = random.random_range(1..40);
            let rows = rows(&mut random, length);
            let groups: Vec<u32> = (0..length).map(|_| random.random_range(0..3)).collect();
            let filter: BooleanArray =
                (0..length).map(|_| [Some(true), Some(true), None, Some(false)][random.random_range(0..4)]).collect();
            let mut once = function.accumulator().unwrap();
            once.update(&arguments(&compiled, &rows), Some(&filter), &groups, 4).unwrap();
            let once = once.take_result().unwrap();

            let mut order: Vec<u32> = (0..length as u32).collect();
            order.shuffle(&mut random);
            let mut states = Vec::new();
            let mut reused = function.accumulator().unwrap();
            for part in order.chunks(random.random_range(1..12)) {
                let groups: Vec<u32> = part.iter().map(|row| groups[*row as usize]).collect();
                let filter: BooleanArray = part
                    .iter()
                    .map(|row| filter.is_valid(*row as usize).then(|| filter.value(*row as usize)))
                    .collect();
                reused.update(&arguments(&compiled, &taken(&rows, part)), Some(&filter), &groups, 4).unwrap();
                let state = reused.take_state().unwrap();
                let fields = function.state().unwrap();
                fields
                    .iter()
                    .zip(&state)
                    .for_each(|(field, column)| assert_eq!(field.data_type(), column.data_type(), "{title}"));
                states.push(state);
            }
            assert_eq!(reused.take_result().unwrap().len(), 0, "{title}");
            states.shuffle(&mut random);
            for state in &states {
                reused.merge(state, &[3, 2, 1, 0], 4).unwrap();
            }
            let mut last = function.accumulator().unwrap();
            last.merge(&reused.take_state().unwrap(), &[3, 2, 1, 0], 4).unwrap();
            assert_eq!(&last.take_result().unwrap(), &once, "{title} round {round}");
        }
    }
    let all: BTreeSet<_> = all_default_aggregate_functions().iter().map(|f| f.name().to_string()).collect();
    assert_eq!(all.difference(&tested).collect::<Vec<_>>(), ["grouping"], "every function is tested");
}

/// The results of a call over three rows of one group, and of a group without rows.
fn of_three(call: &AggregateCall) -> [String; 2] {
    let compiled = foreign_only(call).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![3, 1, 2])),
        Arc::new(Float64Array::from(vec![0.5, 0.75, 0.25])),
        Arc::new(StringArray::from(vec!["x", "z", "y"])),
        Arc::new(BooleanArray::from(vec![true, false, true])),
        Arc::new(Float64Array::from(vec![1.0, 1.0, 2.0])),
    ];
    let rows = RecordBatch::try_new(Arc::clone(schema().inner()), columns).unwrap();
    let mut accumulator = compiled.function.accumulator().unwrap();
    accumulator.update(&arguments(&compiled, &rows), None, &[0, 0, 0], 2).unwrap();
    assert!(accumulator.bytes() > 0, "what waits is charged");
    let result = accumulator.take_result().unwrap();
    assert!(accumulator.bytes() < 1000, "and given back");
    [0, 1].map(|row| if result.is_null(row) { "null".into() } else { array_value_to_string(&result, row).unwrap() })
}

#[test]
fn an_order_that_is_given_is_kept() {
    let last_first = vec![col("i").sort(false, false)];
    assert_eq!(of_three(&call("array_agg", vec![col("s")], false, last_first.clone())), ["[x, y, z]", "null"]);
    assert_eq!(of_three(&call("first_value", vec![col("s")], false, last_first.clone())), ["x", "null"]);
    assert_eq!(of_three(&call("last_value", vec![col("s")], false, last_first.clone())), ["z", "null"]);
    assert_eq!(of_three(&call("string_agg", vec![col("s"), lit("-")], false, last_first)), ["x-y-z", "null"]);
    let ties = vec![ascending("g")];
    assert_eq!(of_three(&call("array_agg", vec![col("i")], false, ties)), ["[1, 3, 2]", "null"], "by content");
    let largest = vec![col("f").sort(false, false)];
    assert_eq!(of_three(&call("percentile_cont", vec![col("f"), lit(0.0)], false, largest)), ["0.75", "null"]);
}

#[test]
fn a_group_may_come_from_no_rows_and_no_states() {
    for call in calls() {
        let title = format!("{:?} {}", call.function.func.name(), call.function.params.distinct);
        let compiled = foreign_only(&call).unwrap();
        let nothing = RecordBatch::new_empty(Arc::clone(schema().inner()));
        let mut updated = compiled.function.accumulator().unwrap();
        updated.update(&arguments(&compiled, &nothing), None, &[], 1).unwrap();
        let mut merged = compiled.function.accumulator().unwrap();
        let fields = compiled.function.state().unwrap();
        let states: Vec<_> = fields.iter().map(|field| arrow_array::new_empty_array(field.data_type())).collect();
        merged.merge(&states, &[], 1).unwrap();
        let result = merged.take_result().unwrap();
        assert_eq!((result.len(), &result), (1, &updated.take_result().unwrap()), "{title}");
    }
}

#[test]
fn groups_without_rows_are_empty() {
    assert_eq!(of_three(&call("count", vec![col("i")], true, vec![])), ["3", "0"]);
    assert_eq!(of_three(&call("median", vec![col("i")], false, vec![])), ["2", "null"]);
    assert_eq!(of_three(&call("bit_or", vec![col("i")], false, vec![])), ["3", "null"]);
    assert_eq!(of_three(&call("approx_distinct", vec![col("s")], false, vec![])), ["3", "0"]);
    assert_eq!(of_three(&call("array_agg", vec![col("g")], true, vec![])), ["[1.0, 2.0]", "null"]);
}

#[test]
fn what_depends_on_an_order_nobody_gave_is_refused() {
    let error = foreign_only(&call("first_value", vec![col("s")], false, vec![])).unwrap_err();
    assert_eq!(error.message(), "first_value depends on the order of rows, and none is given");
    assert_eq!(error.hint(), Some("say the order: first_value(… ORDER BY …)"));
    let error = foreign_only(&call("bit_and", vec![col("b")], false, vec![])).unwrap_err();
    assert_eq!(error.fault(), thalweg_core::error::Fault::Query, "not only once rows come");
    let error = foreign_only(&call("grouping", vec![col("s")], false, vec![])).unwrap_err();
    assert_eq!(error.message(), "grouping() has no meaning without GROUPING SETS");
}

#[test]
fn the_engines_own_functions_come_first_and_count_asks_only_for_what_may_be_null() {
    #[derive(Debug)]
    struct Ours;
    impl Aggregate for Ours {
        fn output(&self) -> DataType {
            DataType::Int64
        }
        fn state(&self) -> Result<Vec<arrow_schema::FieldRef>> {
            Ok(vec![])
        }
        fn exactness(&self) -> Exactness {
            Exactness::Exact
        }
        fn accumulator(&self) -> Result<Box<dyn thalweg_core::aggregate::Accumulator>> {
            Err(Error::bug("not asked for"))
        }
        fn totals(&self) -> Option<&dyn Totals> {
            Some(self)
        }
    }
    impl Totals for Ours {
        fn amounts(&self, _: &[ArrayRef], _: Option<&BooleanArray>, _: usize) -> Result<Amounts> {
            Err(Error::bug("not asked for"))
        }
        fn states(&self, _: &[u64], _: &[i128]) -> Result<Vec<ArrayRef>> {
            Err(Error::bug("not asked for"))
        }
    }
    let seen = std::cell::RefCell::new(Vec::new());
    let native = |signature: &Signature<'_>| -> Option<Arc<dyn Aggregate>> {
        seen.borrow_mut().push((signature.name.to_string(), signature.arguments.to_vec(), signature.is_distinct));
        Some(Arc::new(Ours))
    };
    let mut filtered = call("count", vec![lit(1i64)], false, vec![]);
    filtered.function.params.filter = Some(Box::new(col("b")));
    let all = aggregate(&filtered, &schema(), true, &native).unwrap();
    assert!(all.arguments.is_empty() && all.filter.and_then(|filter| filter.column()) == Some(3));
    aggregate(&call("count", vec![col("s")], true, vec![]), &schema(), true, &native).unwrap();
    let sum = aggregate(&call("sum", vec![col("i") + lit(1i64)], false, vec![]), &schema(), true, &native).unwrap();
    assert_eq!(sum.arguments.len(), 1);
    assert!(sum.function.totals().is_some(), "what it follows from is not lost behind its name");
    let expected =
        [("count", vec![], false), ("count", vec![DataType::Utf8], true), ("sum", vec![DataType::Int64], false)];
    let expected = expected.map(|(name, kinds, is_distinct)| (name.to_string(), kinds, is_distinct));
    assert_eq!(*seen.borrow(), expected);
}

#[test]
fn count_of_everything_works_without_the_engines_own() {
    let [three, none] = of_three(&call("count", vec![lit(1i64)], false, vec![]));
    assert_eq!((three.as_str(), none.as_str()), ("3", "0"));
    let compiled = foreign_only(&call("count", vec![lit(1i64)], false, vec![])).unwrap();
    let mut accumulator = compiled.function.accumulator().unwrap();
    accumulator.update(&[Arc::new(Int64Array::from(vec![1, 1]))], None, &[1, 1], 2).unwrap();
    let counts = accumulator.take_result().unwrap();
    assert_eq!(counts.as_primitive::<arrow_array::types::Int64Type>().values(), &[0, 2]);
}

#[test]
fn texts_of_groups_that_move_to_and_fro_keep_no_others_alive() {
    let text = datafusion_expr::cast(col("s"), DataType::Utf8View);
    let compiled = foreign_only(&call("array_agg", vec![text.clone()], false, vec![text.sort(true, false)])).unwrap();
    let mut accumulator = compiled.function.accumulator().unwrap();
    let groups: Vec<u32> = (0..1_000).map(|row| row % 10).collect();
    let texts =
        StringArray::from_iter_values((0..1_000).map(|row| format!("a text that is long enough, number {row}")));
    let texts = arrow_cast::cast(&texts, &DataType::Utf8View).unwrap();
    accumulator.update(&[texts.clone(), texts], None, &groups, 10).unwrap();
    let before = accumulator.bytes();
    for _ in 0..12 {
        let states = accumulator.take_state().unwrap();
        for some in [[0_u32, 2, 4, 6, 8], [1, 3, 5, 7, 9]] {
            let picked = arrow_array::UInt32Array::from(some.to_vec());
            let states: Vec<_> =
                states.iter().map(|state| arrow_select::take::take(state, &picked, None).unwrap()).collect();
            accumulator.merge(&states, &some, 10).unwrap();
        }
        assert!(accumulator.bytes() < 3 * before, "{} of {before} bytes", accumulator.bytes());
    }
    let all = accumulator.take_result().unwrap();
    assert_eq!(all.as_list::<i32>().value_length(3), 100);
}

/// Of rows in order: windows that move on and back, with holes, and rows of their own in the holes' places.
#[test]
fn windows_that_move_on_give_what_their_rows_give() {
    let with = |name: &str, arguments: Vec<Expr>, order_by, null_treatment| {
        let mut call = call(name, arguments, false, order_by);
        call.function.params.null_treatment = null_treatment;
        call
    };
    let (ignoring, in_time) = (Some(NullTreatment::IgnoreNulls), || vec![ascending("i")]);
    let shares = [0.0, 0.1, 0.3, 0.5, 0.99, 1.0];
    let percentiles = shares.into_iter().flat_map(|share| {
        let of = |order: Sort| with("percentile_cont", vec![col("f"), lit(share)], vec![order], None);
        [of(ascending("f")), of(col("f").sort(false, false))]
    });
    let picked = [
        with("first_value", vec![col("f")], in_time(), None),
        with("first_value", vec![col("s")], in_time(), ignoring),
        with("last_value", vec![col("f")], in_time(), ignoring),
        with("nth_value", vec![col("f"), lit(2_i64)], in_time(), ignoring),
        with("nth_value", vec![col("s"), lit(-3_i64)], in_time(), None),
    ];
    for (seed, call) in percentiles.chain(picked).enumerate() {
        let random = &mut StdRng::seed_from_u64(seed as u64);
        let compiled = aggregate_in_order(&call, &schema(), true, &|_| None).unwrap();
        let slide = compiled.function.slide().unwrap();
        let (count, windows) = (60, 40);
        let mut columns = rows(random, count + windows).columns().to_vec();
        let odd = [f64::NAN, -f64::NAN, -0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX];
        let floats = columns[1].as_primitive::<arrow_array::types::Float64Type>().iter();
        let floats =
            floats.map(|value| value.map(|value| if value > 0.8 { *odd.choose(random).unwrap() } else { value }));
        columns[1] = Arc::new(floats.collect::<Float64Array>());
        let rows = RecordBatch::try_new(Arc::clone(schema().inner()), columns).unwrap();
        let all = arguments(&compiled, &rows);
        let mask: BooleanArray = (0..count + windows).map(|_| Some(random.random_bool(0.7))).collect();
        // What a call itself leaves out.
        let written = compiled.filter.as_ref().map(|filter| filter.evaluate(&Batch::new(rows.clone())).unwrap());
        let written = written.map(|mask| mask.as_boolean().clone());
        let both = written.as_ref().map_or(mask.clone(), |written| arrow_arith::boolean::and(written, &mask).unwrap());
        for (has_own, filter) in [(false, written.as_ref()), (true, written.as_ref()), (true, Some(&both))] {
            let mut start = 0_usize;
            let spans: Vec<Range<usize>> = (0..windows)
                .map(|_| {
                    start = (start + random.random_range(0..6)).saturating_sub(random.random_range(0..4)).min(count);
                    start..random.random_range(start..=count.min(start + 15))
                })
                .collect();
            let lacks: Vec<Range<usize>> = spans
                .iter()
                .map(|span| {
                    let first = random.random_range(span.start..=span.end);
                    first..random.random_range(first..=span.end)
                })
                .collect();
            let own = has_own.then_some(count);
            let of = Windows { arguments: &all, filter, windows: &spans, own, lacks: &lacks, before: &[] };
            let found = slide.results(&of).unwrap().unwrap();
            for (number, (span, hole)) in spans.iter().zip(&lacks).enumerate() {
                let seen = (span.start..hole.start).chain(own.map(|own| own + number)).chain(hole.end..span.end);
                let seen = UInt32Array::from_iter_values(seen.map(|row| row as u32));
                let taken: Vec<_> = all.iter().map(|column| take(column, &seen, None).unwrap()).collect();
                let filter = filter.map(|mask| take(mask, &seen, None).unwrap().as_boolean().clone());
                let mut accumulator = compiled.function.accumulator().unwrap();
                accumulator.update(&taken, filter.as_ref(), &vec![0; seen.len()], 1).unwrap();
                let expected = accumulator.take_result().unwrap();
                assert_eq!(found.slice(number, 1).to_data(), expected.to_data(), "{call:?}, window {number}");
            }
        }
    }
}

#[test]
fn the_first_of_distinct_values_is_that_of_the_first_row() {
    let of = |name: &str, args: Vec<Expr>| {
        let call = call(name, args, true, vec![]);
        let error = aggregate(&call, &schema(), true, &|_| None).unwrap_err();
        assert_eq!(error.message(), format!("{name} depends on the order of rows, and none is given"));
        let function = aggregate_in_order(&call, &schema(), true, &|_| None).unwrap().function;
        let mut accumulator = function.accumulator().unwrap();
        let values: ArrayRef = Arc::new(StringArray::from(vec!["z", "z", "a", "m", "a"]));
        let number: ArrayRef = Arc::new(Int64Array::from(vec![2; 5]));
        let arguments = [values, number];
        accumulator.update(&arguments[..call.function.params.args.len()], None, &[0; 5], 1).unwrap();
        array_value_to_string(&accumulator.take_result().unwrap(), 0).unwrap()
    };
    assert_eq!(of("first_value", vec![col("s")]), "z");
    assert_eq!(of("last_value", vec![col("s")]), "a");
    assert_eq!(of("nth_value", vec![col("s"), lit(2_i64)]), "a", "the second of z, a and m");
}
