//! Random predicates over random rows, at every level of instructions: the rows are those of an interpreter that looks at
//! one row at a time.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array};
use arrow_array::{Decimal128Array, RecordBatch, TimestampMicrosecondArray, UInt64Array};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::*;

/// Columns: two of each number type that is computed with, and one of others.
const NAMES: [&str; 11] = ["a", "b", "i", "j", "f", "g", "s", "flag", "small", "big", "wide"];
const TIME: usize = 11;

fn rows(random: &mut StdRng, count: usize) -> RecordBatch {
    let edges = [i64::MIN, i64::MIN + 1, i64::MAX, -1, 0, 1];
    let whole = |random: &mut StdRng| match random.random_range(0..12) {
        0 => edges[random.random_range(0..edges.len())],
        _ => random.random_range(-40..40),
    };
    let float = |random: &mut StdRng| match random.random_range(0..10) {
        0 => [f64::NAN, -f64::NAN, -0.0, f64::INFINITY, f64::NEG_INFINITY][random.random_range(0..5)],
        _ => f64::from(random.random_range(-8..8)) / 2.0,
    };
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    for name in NAMES {
        let nulls = [0.0, 0.1, 1.0][random.random_range(0..3)];
        let known = |random: &mut StdRng| !random.random_bool(nulls * 0.9);
        let mut wholes: Vec<Option<i64>> = (0..count).map(|_| known(random).then(|| whole(random))).collect();
        // A column without nulls takes another path.
        if random.random_bool(0.5) {
            wholes.iter_mut().for_each(|value| *value = Some(value.unwrap_or(3)));
        }
        let floats: Vec<Option<f64>> = wholes.iter().map(|value| value.map(|_| float(random))).collect();
        let array: ArrayRef = match name {
            "a" | "b" => Arc::new(Int64Array::from(wholes)),
            "i" | "j" => Arc::new(wholes.iter().map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
            "f" | "g" => Arc::new(Float64Array::from(floats)),
            "s" => Arc::new(floats.iter().map(|v| v.map(|v| v as f32)).collect::<Float32Array>()),
            "flag" => Arc::new(wholes.iter().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>()),
            "small" => Arc::new(wholes.iter().map(|v| v.map(|v| v as i8)).collect::<Int8Array>()),
            "big" => Arc::new(wholes.iter().map(|v| v.map(|v| v as u64)).collect::<UInt64Array>()),
            _ => Arc::new(wholes.iter().map(|v| v.map(i128::from)).collect::<Decimal128Array>()),
        };
        columns.push((name, array));
    }
    let times: TimestampMicrosecondArray = (0..count).map(|_| Some(whole(random))).collect();
    columns.push(("t", Arc::new(times)));
    let offset = random.random_range(0..=count.min(9));
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
        .slice(offset, count - offset)
}

fn comparison(random: &mut StdRng) -> Comparison {
    use Comparison::*;
    [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual][random.random_range(0..6)]
}

fn constant(random: &mut StdRng, column: usize) -> Constant {
    let whole = if random.random_bool(0.1) { i64::MAX } else { random.random_range(-10..10) };
    match NAMES.get(column) {
        Some(&("f" | "g")) if random.random_bool(0.2) => Constant::Float(f64::NAN),
        Some(&("f" | "g" | "s")) => Constant::Float(f64::from(random.random_range(-4..4)) / 2.0),
        Some(&"small") => Constant::Whole(whole % 100),
        Some(&"big") => Constant::Unsigned(if random.random_bool(0.2) { u64::MAX } else { whole.unsigned_abs() }),
        Some(&"wide") => Constant::Wide(i128::from(whole)),
        Some(&("i" | "j")) => Constant::Whole(whole % 100),
        _ => Constant::Whole(whole),
    }
}

fn value(random: &mut StdRng, kind: NumberType, depth: usize) -> Value {
    let columns: &[usize] = match kind {
        NumberType::Int32 => &[2, 3, 8],
        NumberType::Int64 => &[0, 1, 2, 8],
        NumberType::Float32 => &[6, 8],
        NumberType::Float64 => &[4, 5, 6, 2],
    };
    match random.random_range(0..if depth == 0 { 2 } else { 5 }) {
        0 => Value::Widened(kind, columns[random.random_range(0..columns.len())]),
        1 if matches!(kind, NumberType::Int32 | NumberType::Int64) => Value::Constant(constant(random, 2)),
        1 => Value::Constant(Constant::Float(f64::from(random.random_range(-4..4)) / 2.0)),
        _ => {
            let operation =
                [Operation::Plus, Operation::Minus, Operation::Times, Operation::Modulo][random.random_range(0..4)];
            let mut operand = || Box::new(value(random, kind, depth - 1));
            let (left, right) = (operand(), operand());
            Value::Arithmetic(kind, operation, left, right)
        }
    }
}

fn predicate(random: &mut StdRng, depth: usize) -> Predicate {
    let column = random.random_range(0..12);
    match random.random_range(0..if depth == 0 { 7 } else { 10 }) {
        0 | 1 if column != 7 => {
            Predicate::Compare(comparison(random), Value::Column(column), Value::Constant(constant(random, column)))
        }
        2 => {
            let (left, right) = [(0, 1), (2, 3), (4, 5), (0, TIME)][random.random_range(0..4)];
            Predicate::Compare(comparison(random), Value::Column(left), Value::Column(right))
        }
        3 => {
            use NumberType::*;
            let kind = [Int32, Int64, Float32, Float64][random.random_range(0..4)];
            let operand = Box::new(value(random, kind, 1));
            let right = value(random, kind, 1);
            let left = Value::Arithmetic(kind, Operation::Plus, operand, Box::new(value(random, kind, 0)));
            Predicate::Compare(comparison(random), left, right)
        }
        4 => Predicate::In(
            [0, 1, 2, 8, 9, 10][random.random_range(0..6)],
            (0..random.random_range(0..4)).map(|_| random.random_range(-50..50)).collect(),
        ),
        5 => match Residue::new(random.random_range(-9..9), random.random_range(-4..4)) {
            Some(residue) => Predicate::Residue([0, 1, 2, 3][random.random_range(0..4)], residue),
            None => Predicate::Always([Some(true), Some(false), None][random.random_range(0..3)]),
        },
        6 => Predicate::IsNull(column),
        7 => Predicate::Not(Box::new(predicate(random, depth - 1))),
        8 => Predicate::And((0..random.random_range(1..4)).map(|_| predicate(random, depth - 1)).collect()),
        9 => Predicate::Or((0..random.random_range(1..4)).map(|_| predicate(random, depth - 1)).collect()),
        _ => Predicate::Flag(7),
    }
}

/// A value as a person knows it.
#[derive(Clone, Copy, Debug)]
enum Plain {
    Whole(i128),
    Float(f64),
}

fn order(a: Plain, b: Plain) -> Ordering {
    match (a, b) {
        (Plain::Whole(a), Plain::Whole(b)) => a.cmp(&b),
        (Plain::Float(a), Plain::Float(b)) => match (a.is_nan(), b.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => a.partial_cmp(&b).unwrap(),
        },
        other => panic!("{other:?} are of two types"),
    }
}

fn plain_column(rows: &RecordBatch, column: usize, row: usize) -> Option<Plain> {
    let array = rows.column(column);
    array.is_valid(row).then(|| match Column::new(array).unwrap() {
        Column::Int8(values, _) => Plain::Whole(values[row].into()),
        Column::Int32(values, _) => Plain::Whole(values[row].into()),
        Column::Int64(values, _) => Plain::Whole(values[row].into()),
        Column::UInt64(values, _) => Plain::Whole(values[row].into()),
        Column::Int128(values, _) => Plain::Whole(values[row]),
        Column::Float32(values, _) => Plain::Float(values[row].into()),
        Column::Float64(values, _) => Plain::Float(values[row]),
        other => panic!("no column of the test is {other:?}"),
    })
}

/// The value; `Err` if it does not fit.
fn plain_value(rows: &RecordBatch, value: &Value, row: usize, is_float: bool) -> Result<Option<Plain>> {
    let cast = |plain: Plain| match plain {
        Plain::Whole(v) if is_float => Plain::Float(v as f64),
        other => other,
    };
    Ok(match value {
        Value::Column(column) | Value::Widened(_, column) => plain_column(rows, *column, row).map(cast),
        Value::Constant(Constant::Whole(v)) => Some(Plain::Whole((*v).into())),
        Value::Constant(Constant::Unsigned(v)) => Some(Plain::Whole((*v).into())),
        Value::Constant(Constant::Wide(v)) => Some(Plain::Whole(*v)),
        Value::Constant(Constant::Float(v)) => Some(Plain::Float(*v)),
        Value::Arithmetic(kind, operation, left, right) => {
            let (left, right) = (plain_value(rows, left, row, is_float)?, plain_value(rows, right, row, is_float)?);
            let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
            Some(match (left, right) {
                (Plain::Whole(a), Plain::Whole(b)) => {
                    let least = if *kind == NumberType::Int32 { i32::MIN.into() } else { i64::MIN.into() };
                    let result = match operation {
                        Operation::Plus => a + b,
                        Operation::Minus => a - b,
                        Operation::Times => a * b,
                        Operation::Modulo if b == 0 || b == -1 && a <= least => return Err(Undecided),
                        Operation::Modulo => a % b,
                    };
                    let fits = match kind {
                        NumberType::Int32 => i32::try_from(result).is_ok(),
                        _ => i64::try_from(result).is_ok(),
                    };
                    if !fits {
                        return Err(Undecided);
                    }
                    Plain::Whole(result)
                }
                (Plain::Float(a), Plain::Float(b)) if *kind == NumberType::Float32 => {
                    let (a, b) = (a as f32, b as f32);
                    Plain::Float(f64::from(computed_float(*operation, a, b)))
                }
                (Plain::Float(a), Plain::Float(b)) => Plain::Float(computed_float(*operation, a, b)),
                other => panic!("{other:?} are of two types"),
            })
        }
    })
}

fn computed_float<T>(operation: Operation, a: T, b: T) -> T
where
    T: std::ops::Add<Output = T> + std::ops::Sub<Output = T> + std::ops::Mul<Output = T> + std::ops::Rem<Output = T>,
{
    match operation {
        Operation::Plus => a + b,
        Operation::Minus => a - b,
        Operation::Times => a * b,
        Operation::Modulo => a % b,
    }
}

fn is_float(value: &Value) -> bool {
    match value {
        Value::Column(column) | Value::Widened(_, column) => [4, 5, 6].contains(column),
        Value::Constant(constant) => matches!(constant, Constant::Float(_)),
        Value::Arithmetic(kind, ..) => matches!(kind, NumberType::Float32 | NumberType::Float64),
    }
}

/// SQL's three-valued logic; what comes after a part that decides is not asked.
fn plain(rows: &RecordBatch, predicate: &Predicate, row: usize) -> Result<Option<bool>> {
    Ok(match predicate {
        Predicate::Compare(comparison, left, right) => {
            let is_float = is_float(left) || is_float(right);
            let (left, right) = (plain_value(rows, left, row, is_float)?, plain_value(rows, right, row, is_float)?);
            let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
            let order = order(left, right);
            Some(match comparison {
                Comparison::Equal => order.is_eq(),
                Comparison::NotEqual => order.is_ne(),
                Comparison::Less => order.is_lt(),
                Comparison::LessOrEqual => order.is_le(),
                Comparison::Greater => order.is_gt(),
                Comparison::GreaterOrEqual => order.is_ge(),
            })
        }
        Predicate::In(column, list) => plain_column(rows, *column, row).map(|value| match value {
            Plain::Whole(value) => list.iter().any(|one| i128::from(*one) == value),
            Plain::Float(_) => panic!("a list is of whole numbers"),
        }),
        Predicate::Residue(column, residue) => plain_column(rows, *column, row).map(|value| match value {
            Plain::Whole(value) => residue.holds(value as i64),
            Plain::Float(_) => panic!("a remainder is of whole numbers"),
        }),
        Predicate::Flag(column) => {
            let flags = arrow_array::cast::AsArray::as_boolean(rows.column(*column));
            flags.is_valid(row).then(|| flags.value(row))
        }
        Predicate::IsNull(column) => Some(rows.column(*column).is_null(row)),
        Predicate::Always(value) => *value,
        Predicate::Not(inner) => plain(rows, inner, row)?.map(|is_true| !is_true),
        Predicate::And(parts) => {
            let mut all = Some(true);
            for part in parts {
                match plain(rows, part, row)? {
                    Some(false) => return Ok(Some(false)),
                    None => all = None,
                    Some(true) => {}
                }
            }
            all
        }
        Predicate::Or(parts) => {
            let mut any = Some(false);
            for part in parts {
                match plain(rows, part, row)? {
                    Some(true) => return Ok(Some(true)),
                    None => any = None,
                    Some(false) => {}
                }
            }
            any
        }
    })
}

#[test]
fn the_rows_are_those_of_an_interpreter() {
    let (mut decided, mut undecided, mut kept) = (0, 0, 0);
    for seed in 0..3000 {
        let mut random = StdRng::seed_from_u64(seed);
        let count = [0, 1, 63, 64, 65, 200, 1023, 1024, 1025, 2500][random.random_range(0..10)];
        let rows = rows(&mut random, count);
        let predicate = predicate(&mut random, 3);
        let share = random.random_range(0..4) as f64 / 3.0;
        let selection = random
            .random_bool(0.4)
            .then(|| Selection::new((0..rows.num_rows() as u32).filter(|_| random.random_bool(share)).collect()));
        let asked = |row: &usize| selection.as_ref().is_none_or(|s| s.rows().contains(&(*row as u32)));
        let expected: Result<Vec<u32>> = (0..rows.num_rows())
            .filter(asked)
            .filter_map(|row| match plain(&rows, &predicate, row) {
                Ok(Some(true)) => Some(Ok(row as u32)),
                Ok(_) => None,
                Err(Undecided) => Some(Err(Undecided)),
            })
            .collect();
        for level in Level::all() {
            let found = select(&predicate, &rows, selection.as_ref(), level);
            let all = || (0..rows.num_rows()).filter(asked).map(|row| row as u32).collect();
            let found = found.map(|selection| selection.map_or_else(all, |selection| selection.rows().to_vec()));
            assert_eq!(found, expected, "seed {seed}, {}: {predicate:?}", level.name());
        }
        match expected {
            Ok(rows) => (decided, kept) = (decided + 1, kept + rows.len()),
            Err(Undecided) => undecided += 1,
        }
    }
    assert!(decided > 1500 && undecided > 30 && kept > 10_000, "{decided} {undecided} {kept}");
}

#[test]
fn numbers_fall_where_a_loop_says_so() {
    for (seed, level) in (0..60).flat_map(|seed| Level::all().into_iter().map(move |level| (seed, level))) {
        let random = &mut StdRng::seed_from_u64(seed);
        let count = *[0, 1, 2, 63, 64, 65, 128, 129, 700].choose(random).unwrap();
        let most = *[1, 50, u64::MAX].choose(random).unwrap();
        let numbers: Vec<u64> = (0..count).map(|_| random.random_range(0..=most)).collect();
        let mut found = vec![7; 3];
        falls(level, &numbers, &mut found);
        let has = |row: usize| found[row / 64] >> (row % 64) & 1 == 1;
        let fall = |row: usize| row > 0 && numbers[row] < numbers[row - 1];
        assert!((0..64 * found.len()).all(|row| has(row) == (row < count && fall(row))), "seed {seed}, {level:?}");
        assert_eq!(found.len(), count.div_ceil(64));
    }
}
