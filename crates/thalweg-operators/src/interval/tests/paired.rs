//! Aggregates over pairs, and of rows that have none.

use super::*;
use crate::interval::paired::{Paired, Side};

/// Whether one column is less than another; null where one of them is.
#[derive(Debug)]
struct LessOf(usize, usize);

impl Expression for LessOf {
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        let value = |column: usize| batch.column(column).as_primitive::<Int64Type>();
        let pairs = value(self.0).iter().zip(value(self.1).iter());
        Ok(Arc::new(arrow_array::BooleanArray::from_iter(pairs.map(|(one, other)| Some(one? < other?)))))
    }
}

/// How many values the second column of pairs has, and what they add up to; of the row itself, where it has no pair, its own value.
fn paired(column: Side, condition: bool, is_alone: bool) -> Option<Arc<Paired>> {
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    let over_second = |call: Call| Call { arguments: vec![Arc::new(Column(1)) as _], ..call };
    Some(Arc::new(Paired {
        schema: Arc::new(Schema::new(vec![field("own"), field("other")])),
        columns: vec![Side::Base(2), column],
        condition: condition.then(|| Arc::new(LessOf(0, 1)) as _),
        is_alone,
        takes_last: false,
        calls: calls().into_iter().take(2).map(over_second).collect(),
    }))
}

#[test]
fn aggregates_over_pairs_are_those_of_nested_loops() {
    for seed in 0..150 {
        let random = &mut StdRng::seed_from_u64(seed);
        let (from, to) = *[(-7, 0), (-5, 6), (0, 0), (-20, -3), (2, 8), (-60, 0)].choose(random).unwrap();
        let has_condition = random.random_bool(0.6);
        let frame = |bounds: FrameBounds, excludes_row: bool| Frame {
            bounds,
            most: None,
            excludes_row,
            excludes_time: false,
            excludes_base: true,
        };
        let around = frame(FrameBounds::Range { from: Some(Interval(from)), to: Interval(to) }, true);
        let itself = frame(FrameBounds::Rows { from: Some(0), to: 0 }, false);
        let (keys, count) = (*[1, 5, 40].choose(random).unwrap(), random.random_range(0..250));
        let rows = rows(random, count, keys);
        let whole = (0..4).map(|i| Field::new(format!("a{i}"), DataType::Int64, true));
        let output: SchemaRef = Arc::new(Schema::new(fields().into_iter().chain(whole).collect::<Vec<_>>()));
        let parts = |output: SchemaRef| {
            let of_pairs: Vec<Call> = calls().into_iter().take(2).collect();
            let of_itself = of_pairs.iter().map(|call| Call { arguments: Vec::new(), ..call.clone() });
            let calls: Vec<Call> = of_pairs.iter().cloned().chain(of_itself).collect();
            let over = || over::OverInput { input: input(), calls: calls.clone() };
            over::Parts {
                paired: vec![paired(Side::Seen(0), has_condition, false), paired(Side::Base(2), false, true)],
                has_positions: seed % 2 == 0,
                ..asked(vec![over(), over()], vec![(around.clone(), 2), (itself.clone(), 2)], output, 9)
            }
        };
        let make = || Box::new(Over::new(parts(Arc::clone(&output))).unwrap()) as Box<dyn Operator>;
        let eager = || Box::new(EagerOver::new(parts(with_op(&output))).unwrap()) as Box<dyn Operator>;
        let result = |(row, seen): (Row, Vec<Row>)| {
            let is_partner = |other: &&Row| !has_condition || row.value.zip(other.value).is_some_and(|(a, b)| a < b);
            let partners: Vec<&Row> = seen.iter().filter(is_partner).collect();
            let of = |values: Vec<i64>| {
                let sum = (!values.is_empty()).then(|| values.iter().sum());
                format!("{} {}", values.len(), show(sum))
            };
            let others = of(partners.iter().filter_map(|row| row.value).collect());
            let alone = of(row.value.filter(|_| partners.is_empty()).into_iter().collect());
            format!("{} {others} {alone}", shown(Some(&row)))
        };
        let mut expected: Vec<String> = seen_by(&around, &rows[0], &rows[1]).into_iter().map(result).collect();
        let what = |how: &str| format!("seed {seed}: {from} to {to}, condition {has_condition}, {how}");
        same(&run(&make, &rows, random, 1), &expected, &what("one instance"));
        expected.sort();
        same(&run(&make, &rows, random, 3), &expected, &what("three instances"));
        for members in [1, 3] {
            same(&folded(run(&eager, &rows, random, members)), &expected, &what("eager"));
        }
        let sharing = [Sharing::Dealt, Sharing::Seen];
        same(&run_shared(&make, &rows, random, sharing), &expected, &what("shared"));
        same(&folded(run_shared(&eager, &rows, random, sharing)), &expected, &what("eager, shared"));
    }
}
