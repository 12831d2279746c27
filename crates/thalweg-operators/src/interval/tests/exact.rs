//! Sums of floats are exact.

use super::*;

/// Values that are far from each other, and some that are no numbers.
#[derive(Debug)]
struct Odd;

impl Expression for Odd {
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        let odd = |value: i64| match value {
            19 => 1e300,
            18 => -1e300,
            17 => f64::NAN,
            16 => 1e15,
            15 => f64::INFINITY,
            -5 => -0.0,
            value => value as f64 / 3.0,
        };
        let values = batch.column(2).as_primitive::<Int64Type>().iter().map(|value| value.map(odd));
        Ok(Arc::new(values.collect::<arrow_array::Float64Array>()))
    }
}

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
            FrameBounds::Rows(Some(4)),
            FrameBounds::Rows(None),
            forever(0),
            forever(-3),
        ];
        let totals = Frame {
            bounds: *bounds.choose(random).unwrap(),
            most: None,
            excludes_row: false,
            excludes_time: false,
            excludes_base: random.random_bool(0.5),
        };
        // The last of all rows are all rows, but are looked for one by one.
        let fresh = Frame { most: Some(usize::MAX), ..totals.clone() };
        let kinds = [DataType::Float64, DataType::Float64, DataType::Int64];
        let results = kinds.iter().chain(&kinds).map(|kind| Field::new("a", kind.clone(), true)).collect();
        let output: SchemaRef = Arc::new(Schema::new([fields(), results].concat()));
        let make = |frames: [&Frame; 2]| {
            let over = || over::OverInput { input: input(), calls: calls.clone() };
            let parts = over::Parts {
                inputs: vec![over(), over()],
                input_of: vec![0, 1],
                key_types: vec![DataType::Int64],
                passes: (0..fields().len()).collect(),
                frames: frames.into_iter().map(|frame| (frame.clone(), 3)).collect(),
                output: Arc::clone(&output),
                batch_rows: 9,
                key_groups: KeyGroups::new(KEY_GROUPS).unwrap(),
                divided_by: vec![0],
                has_positions: false,
                allowed: Interval(0),
            };
            Box::new(Over::new(parts).unwrap()) as Box<dyn Operator>
        };
        let rows = rows(random, 200, 3);
        let found = run(&|| make([&totals, &fresh]), &rows, random, 1);
        assert_eq!(found.len(), rows[0].len());
        for row in &found {
            let values: Vec<&str> = row.split(' ').collect();
            assert_eq!(values[4..7], values[7..10], "seed {seed}: {row}");
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
