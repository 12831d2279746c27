//! Sums of floats are exact.

use super::*;

/// Values that are far from each other, and some that are no numbers.
fn odd(value: i64) -> f64 {
    match value {
        19 => 1e300,
        18 => -1e300,
        17 => f64::NAN,
        16 => 1e15,
        15 => f64::INFINITY,
        -5 => -0.0,
        value => value as f64 / 3.0,
    }
}

/// The sum, rounded once: of parts of which none overlaps another.
///
/// Source: Shewchuk, "Adaptive Precision Floating-Point Arithmetic".
fn summed(values: &[f64]) -> f64 {
    if values.iter().any(|value| !value.is_finite()) {
        return values.iter().sum();
    }
    let mut parts: Vec<f64> = Vec::new();
    for value in values {
        let mut rest = *value;
        let mut left = Vec::new();
        for part in parts {
            let (large, small) = if rest.abs() < part.abs() { (part, rest) } else { (rest, part) };
            rest = large + small;
            let lost = small - (rest - large);
            left.extend((lost != 0.0).then_some(lost));
        }
        left.push(rest);
        parts = left;
    }
    // The largest ones first, up to where something is lost.
    let mut sum = parts.pop().unwrap_or(0.0);
    while let Some(part) = parts.pop() {
        let before = sum;
        sum = before + part;
        let lost = part - (sum - before);
        if lost != 0.0 {
            // In the middle between two numbers what is left decides.
            let next = parts.last().copied().unwrap_or(0.0);
            let twice = 2.0 * lost;
            if lost * next > 0.0 && (sum + twice) - sum == twice {
                sum += twice;
            }
            break;
        }
    }
    // Zeros have no sign.
    sum + 0.0
}

#[derive(Debug)]
struct Odd;

impl Expression for Odd {
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        let values = batch.column(2).as_primitive::<Int64Type>().iter().map(|value| value.map(odd));
        Ok(Arc::new(values.collect::<arrow_array::Float64Array>()))
    }
}

/// Sums and means of frames that follow from totals, of those of which all rows are looked at, and sums of nested loops: of one instance and
/// of three whose key groups move, on the watermark and at once.
#[test]
fn differences_of_totals_are_to_the_bit_what_a_fresh_sum_is() {
    for seed in 0..200 {
        let random = &mut StdRng::seed_from_u64(seed);
        let call = |name: &str, output: DataType| {
            let signature = Signature {
                name,
                arguments: &[DataType::Float64],
                is_distinct: false,
                output: &output,
                exact_floats: true,
            };
            let filter = (name == "avg").then(|| Arc::new(Positive) as Arc<dyn Expression>);
            Call { function: native(&signature).unwrap(), arguments: vec![Arc::new(Odd) as _], filter }
        };
        let calls = [call("sum", DataType::Float64), call("avg", DataType::Float64), call("count", DataType::Int64)];
        let calls = [&calls[..], &calls[..]].concat();
        let range = |from: i64, to| FrameBounds::Range { from: Some(Interval(from)), to: Interval(to) };
        let forever = |to| FrameBounds::Range { from: None, to: Interval(to) };
        let bounds = [
            range(-7, 0),
            range(-5, 6),
            range(-40, 0),
            FrameBounds::Rows { from: Some(4), to: 0 },
            FrameBounds::Rows { from: None, to: 0 },
            FrameBounds::Rows { from: Some(6), to: 2 },
            FrameBounds::Rows { from: None, to: 3 },
            forever(0),
            forever(-3),
        ];
        let totals = Frame {
            bounds: *bounds.choose(random).unwrap(),
            most: None,
            excludes_row: random.random_bool(0.3),
            excludes_time: random.random_bool(0.3),
            excludes_base: random.random_bool(0.5),
        };
        // The last of all rows are all rows; where a row itself is left out, they are looked for one by one.
        let fresh = Frame { most: Some(usize::MAX), ..totals.clone() };
        let kinds = [DataType::Float64, DataType::Float64, DataType::Int64];
        let results = kinds.iter().chain(&kinds).map(|kind| Field::new("a", kind.clone(), true)).collect();
        let output: SchemaRef = Arc::new(Schema::new([fields(), results].concat()));
        let parts = |frames: [&Frame; 2], output: &SchemaRef| {
            let over = || over::OverInput { input: input(), calls: calls.clone() };
            asked(
                vec![over(), over()],
                frames.into_iter().map(|frame| (frame.clone(), 3)).collect(),
                Arc::clone(output),
                9,
            )
        };
        let make = |frames| Box::new(Over::new(parts(frames, &output)).unwrap()) as Box<dyn Operator>;
        let eager =
            || Box::new(EagerOver::new(parts([&totals, &fresh], &with_op(&output))).unwrap()) as Box<dyn Operator>;
        let rows = rows(random, 200, 3);
        let found = run(&|| make([&totals, &fresh]), &rows, random, 1);
        let seen = seen_by(&totals, &rows[0], &rows[1]);
        assert_eq!(found.len(), seen.len());
        for (row, (base, seen)) in found.iter().zip(&seen) {
            let values: Vec<&str> = row.split(' ').collect();
            assert_eq!(values[4..7], values[7..10], "seed {seed}: {row}");
            let floats: Vec<f64> = seen.iter().filter_map(|other| other.value.map(odd)).collect();
            let sum = (!floats.is_empty()).then(|| summed(&floats));
            // As text that says each bit.
            let sum: ArrayRef = Arc::new(arrow_array::Float64Array::from(vec![sum]));
            let sum = if sum.is_null(0) { "-".to_string() } else { array_value_to_string(&sum, 0).unwrap() };
            assert_eq!(values[4], sum, "seed {seed}: {base:?}, {totals:?}, {floats:?}");
        }
        let mut in_any_order = found.clone();
        in_any_order.sort();
        same(
            &run(&|| make([&totals, &fresh]), &rows, random, 3),
            &in_any_order,
            &format!("seed {seed}: three instances"),
        );
        for members in [1, 3] {
            let found = folded(run(&eager, &rows, random, members));
            same(&found, &in_any_order, &format!("seed {seed}: {totals:?}, eager, {members} instances"));
        }
        // Where no rows have to stay.
        same(&run(&|| make([&totals, &totals]), &rows, random, 1), &found, &format!("seed {seed}: {totals:?}"));
    }
}

/// Whether a value is above zero; null where there is none.
#[derive(Debug)]
struct Positive;

impl Expression for Positive {
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        let values = batch.column(2).as_primitive::<Int64Type>().iter().map(|value| Some(value? > 0));
        Ok(Arc::new(arrow_array::BooleanArray::from_iter(values)))
    }
}
