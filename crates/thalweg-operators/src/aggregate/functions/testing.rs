//! Our aggregate functions against naive definitions, row at a time, and against themselves in parts.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, IntervalMonthDayNanoArray,
    builder::make_builder, new_empty_array,
};
use arrow_buffer::IntervalMonthDayNano;
use arrow_cast::{cast, display::array_value_to_string};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use thalweg_core::aggregate::{Accumulator, Aggregate, Exactness, Signature, Windows};

use super::native;

/// A function on some columns, and what comes of it.
struct Case {
    name: &'static str,
    arguments: Vec<DataType>,
    output: DataType,
    is_distinct: bool,
}

impl Case {
    fn function(&self) -> Arc<dyn Aggregate> {
        let signature = Signature {
            name: self.name,
            arguments: &self.arguments,
            is_distinct: self.is_distinct,
            output: &self.output,
            exact_floats: true,
        };
        native(&signature).unwrap_or_else(|| panic!("{}({:?}) is not ours", self.name, self.arguments))
    }

    fn title(&self) -> String {
        format!("{}{}({:?})", self.name, if self.is_distinct { " distinct" } else { "" }, self.arguments)
    }
}

fn cases() -> Vec<Case> {
    use DataType::*;
    let mut cases = Vec::new();
    let mut case = |name, arguments: &[DataType], output: DataType| {
        for is_distinct in [false, true] {
            if !is_distinct || arguments.len() == 1 {
                cases.push(Case { name, arguments: arguments.to_vec(), output: output.clone(), is_distinct });
            }
        }
    };
    let whole = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];
    let floats = [Float32, Float64];
    let times = [Date32, Timestamp(TimeUnit::Microsecond, Some("UTC".into())), Duration(TimeUnit::Second)];
    let texts = [Utf8, LargeUtf8, Utf8View, Binary, LargeBinary];
    let others = [Decimal128(10, 2), Decimal256(40, 2), Interval(IntervalUnit::MonthDayNano)];
    for kind in whole.iter().chain(&floats).chain(&times).chain(&texts).chain(&others) {
        for name in ["min", "any_value"] {
            case(name, std::slice::from_ref(kind), kind.clone());
        }
        case("max", std::slice::from_ref(kind), kind.clone());
        if !matches!(kind, Duration(_) | Decimal256(..) | Interval(_)) {
            case("count", std::slice::from_ref(kind), Int64);
        }
    }
    for kind in &whole {
        case("sum", std::slice::from_ref(kind), if kind.is_signed_integer() { Int64 } else { UInt64 });
        case("avg", std::slice::from_ref(kind), Float64);
        for name in ["bit_and", "bit_or", "bit_xor"] {
            case(name, std::slice::from_ref(kind), kind.clone());
        }
    }
    for kind in whole.iter().chain(&floats).chain(&[Decimal128(10, 2), Decimal256(40, 2)]) {
        case("median", std::slice::from_ref(kind), kind.clone());
    }
    case("sum", &[Decimal128(10, 2)], Decimal128(20, 2));
    case("avg", &[Decimal128(10, 2)], Decimal128(14, 6));
    for kind in &floats {
        case("sum", std::slice::from_ref(kind), Float64);
        case("avg", std::slice::from_ref(kind), kind.clone());
        for name in ["var", "var_pop", "stddev", "stddev_pop"] {
            case(name, std::slice::from_ref(kind), Float64);
        }
    }
    for name in ["covar_samp", "covar_pop", "corr", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy"] {
        case(name, &[Float64, Float64], Float64);
    }
    for name in ["regr_slope", "regr_intercept", "regr_r2"] {
        case(name, &[Float64, Float64], Float64);
    }
    case("regr_count", &[Float64, Float64], UInt64);
    for name in ["bool_and", "bool_or", "min", "max", "any_value"] {
        case(name, &[Boolean], Boolean);
    }
    case("count", &[], Int64);
    cases
}

/// Rows of small numbers, some null, in few groups.
#[derive(Clone)]
struct Rows {
    /// One per argument.
    columns: Vec<Vec<Option<i64>>>,
    filter: Option<Vec<Option<bool>>>,
    groups: Vec<u32>,
    count: usize,
}

fn rows(random: &mut StdRng, columns: usize) -> Rows {
    let length = random.random_range(0..60);
    // Columns without nulls, and filters, take other paths.
    let nulls = if random.random() { 0.0 } else { random.random_range(0.0..0.7) };
    let widest = if random.random() { 3 } else { 60 };
    let value = |random: &mut StdRng| (!random.random_bool(nulls)).then(|| random.random_range(0..widest));
    let count = random.random_range(1..6);
    Rows {
        columns: (0..columns).map(|_| (0..length).map(|_| value(random)).collect()).collect(),
        filter: random.random::<bool>().then(|| {
            (0..length).map(|_| [Some(true), Some(true), Some(false), None][random.random_range(0..4)]).collect()
        }),
        groups: (0..length).map(|_| random.random_range(0..count)).collect(),
        count: count as usize,
    }
}

/// The numbers in a type: floats in quarters around zero, decimals in hundredths, truth where odd.
fn column(values: &[Option<i64>], kind: &DataType) -> ArrayRef {
    let numbers: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    match kind {
        DataType::Float32 | DataType::Float64 => {
            let quarters: Float64Array = values.iter().map(|value| value.map(quarter)).collect();
            cast(&quarters, kind).unwrap()
        }
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            let hundredths: Float64Array = values.iter().map(|value| value.map(|v| (v - 20) as f64 / 100.0)).collect();
            cast(&hundredths, kind).unwrap()
        }
        DataType::Boolean => Arc::new(values.iter().map(|value| value.map(|v| v % 2 == 1)).collect::<BooleanArray>()),
        DataType::Date32 | DataType::Duration(_) => cast(
            &cast(&numbers, &DataType::Int32)
                .map(|days| if *kind == DataType::Date32 { days } else { Arc::clone(&numbers) })
                .unwrap(),
            kind,
        )
        .unwrap(),
        DataType::Interval(_) => {
            // The later a number, the shorter the rest.
            let months = |number: i64| IntervalMonthDayNano::new(number as i32 / 2, number as i32 % 2, -number);
            Arc::new(values.iter().map(|value| value.map(months)).collect::<IntervalMonthDayNanoArray>())
        }
        DataType::Binary | DataType::LargeBinary => cast(&cast(&numbers, &DataType::Utf8).unwrap(), kind).unwrap(),
        kind => cast(&numbers, kind).unwrap(),
    }
}

fn quarter(value: i64) -> f64 {
    (value - 20) as f64 / 4.0
}

/// The arguments and the filter for some of the rows.
fn some(case: &Case, rows: &Rows, which: &[usize]) -> (Vec<ArrayRef>, Option<BooleanArray>) {
    let some = |values: &Vec<Option<i64>>| which.iter().map(|row| values[*row]).collect::<Vec<_>>();
    let arguments = rows.columns.iter().zip(&case.arguments).map(|(values, kind)| column(&some(values), kind));
    let filter = rows.filter.as_ref().map(|f| which.iter().map(|row| f[*row]).collect::<BooleanArray>());
    (arguments.collect(), filter)
}

/// Adds some of the rows.
fn add(accumulator: &mut dyn Accumulator, case: &Case, rows: &Rows, which: &[usize], count: usize) {
    let (arguments, filter) = some(case, rows, which);
    let groups: Vec<u32> = which.iter().map(|row| rows.groups[*row]).collect();
    match groups.first() {
        Some(one) if groups.iter().all(|group| group == one) => {
            accumulator.update_one(&arguments, filter.as_ref(), *one, which.len(), count).unwrap();
        }
        _ => accumulator.update(&arguments, filter.as_ref(), &groups, count).unwrap(),
    }
}

/// The result where the rows of each group come together.
fn by_group(case: &Case, rows: &Rows) -> ArrayRef {
    let mut accumulator = case.function().accumulator().unwrap();
    add(accumulator.as_mut(), case, rows, &[], rows.count);
    for group in 0..rows.count as u32 {
        let of_group: Vec<usize> = (0..rows.groups.len()).filter(|row| rows.groups[*row] == group).collect();
        let (some, others) = of_group.split_at(of_group.len() / 2);
        add(accumulator.as_mut(), case, rows, some, rows.count);
        add(accumulator.as_mut(), case, rows, others, rows.count);
    }
    accumulator.take_result().unwrap()
}

/// The result over all rows at once.
fn whole(case: &Case, rows: &Rows) -> ArrayRef {
    let mut accumulator = case.function().accumulator().unwrap();
    let all: Vec<usize> = (0..rows.groups.len()).collect();
    add(accumulator.as_mut(), case, rows, &all, rows.count);
    accumulator.take_result().unwrap()
}

/// The same in shuffled parts, whose states go through columns, are merged in any order and moved between groups.
fn in_parts(case: &Case, rows: &Rows, random: &mut StdRng) -> ArrayRef {
    let function = case.function();
    let mut order: Vec<usize> = (0..rows.groups.len()).collect();
    order.shuffle(random);
    let mut states = Vec::new();
    let mut reused = function.accumulator().unwrap();
    for part in order.chunks(random.random_range(1..20)) {
        for half in part.chunks(part.len().div_ceil(2)) {
            add(reused.as_mut(), case, rows, half, rows.count);
        }
        let state = reused.take_state().unwrap();
        let fields = function.state().unwrap();
        assert_eq!(fields.len(), state.len(), "{}", case.title());
        fields.iter().zip(&state).for_each(|(field, column)| assert_eq!(field.data_type(), column.data_type()));
        states.push(state);
    }
    assert_eq!(reused.take_result().unwrap().len(), 0, "drained");
    states.shuffle(random);
    let same: Vec<u32> = (0..rows.count as u32).collect();
    let backwards: Vec<u32> = same.iter().rev().copied().collect();
    for state in &states {
        reused.merge(state, &backwards, rows.count).unwrap();
    }
    let mut last = function.accumulator().unwrap();
    if !states.is_empty() {
        if reused.can_absorb() && random.random_bool(0.5) {
            last.absorb(reused.as_ref(), &backwards, rows.count).unwrap();
        } else {
            last.merge(&reused.take_state().unwrap(), &backwards, rows.count).unwrap();
        }
    } else {
        let fields = function.state().unwrap();
        let nothing: Vec<_> = fields.iter().map(|field| new_empty_array(field.data_type())).collect();
        last.merge(&nothing, &[], rows.count).unwrap();
    }
    last.take_result().unwrap()
}

#[test]
fn any_order_and_any_parts_give_the_same_bits() {
    let mut random = StdRng::seed_from_u64(11);
    for case in cases() {
        assert_eq!(case.function().exactness(), Exactness::Exact);
        for round in 0..25 {
            let rows = rows(&mut random, case.arguments.len());
            let (once, parts) = (whole(&case, &rows), in_parts(&case, &rows, &mut random));
            assert_eq!(once.data_type(), &case.output, "{}", case.title());
            assert_eq!(&once, &parts, "{} round {round}", case.title());
            assert_eq!(&once, &by_group(&case, &rows), "{} round {round}", case.title());
        }
    }
}

/// Windows that mostly move on, and the results of an accumulator for each.
#[test]
fn windows_that_move_on_give_what_their_rows_give() {
    let mut random = StdRng::seed_from_u64(12);
    let (mut followed, mut lacking_rounds) = (BTreeSet::new(), 0);
    for case in cases() {
        let function = case.function();
        let Some(slide) = function.slide() else { continue };
        for round in 0..25 {
            let rows = rows(&mut random, case.arguments.len());
            let count = random.random_range(0..=rows.groups.len());
            let own = random.random_bool(0.3).then_some(count).filter(|own| rows.groups.len() > *own);
            let mut last = 0..0;
            let window = |number: usize| {
                let is_back = random.random_bool(0.1);
                let start = random.random_range(if is_back { 0 } else { last.start.min(count) }..=count);
                let end = random.random_range(if is_back { 0 } else { last.end.min(count) }..=count);
                last = start..end;
                (last.clone(), own.map(|own| own + number))
            };
            let windows: Vec<_> = (0..own.map_or(30, |own| rows.groups.len() - own)).map(window).collect();
            // Or some of those in each window are left out.
            let lacks_own = own.is_none() && count > 0 && random.random_bool(0.5);
            let mut some_of = |(window, own): (Range<usize>, Option<usize>)| {
                let window = if window.is_empty() { window.start.min(count - 1)..count } else { window };
                let first = random.random_range(window.clone());
                (window.clone(), own, first..random.random_range(first..window.end) + 1)
            };
            let (windows, lacked): (Vec<_>, Vec<Range<usize>>) = match lacks_own {
                true => windows.into_iter().map(&mut some_of).map(|(window, own, row)| ((window, own), row)).unzip(),
                false => (windows, Vec::new()),
            };
            let mut accumulator = function.accumulator().unwrap();
            add(accumulator.as_mut(), &case, &rows, &[], windows.len());
            for (number, (window, own)) in windows.iter().enumerate() {
                let lacked = lacked.get(number);
                let seen: Vec<usize> = window
                    .clone()
                    .filter(|row| lacked.is_none_or(|lacked| !lacked.contains(row)))
                    .chain(*own)
                    .collect();
                let rows = Rows { groups: vec![number as u32; rows.groups.len()], ..rows.clone() };
                add(accumulator.as_mut(), &case, &rows, &seen, windows.len());
            }
            let all: Vec<usize> = (0..rows.groups.len()).collect();
            let (arguments, filter) = some(&case, &rows, &all);
            let windows: Vec<_> = windows.into_iter().map(|(window, _)| window).collect();
            let windows = Windows {
                arguments: &arguments,
                filter: filter.as_ref(),
                windows: &windows,
                own,
                lacks: &lacked,
                before: &[],
            };
            let Some(found) = slide.results(&windows).unwrap() else { continue };
            assert_eq!(&found, &accumulator.take_result().unwrap(), "{} round {round}", case.title());
            followed.insert(case.title());
            lacking_rounds += usize::from(lacks_own);
        }
    }
    assert!(followed.len() > 90 && lacking_rounds > 50, "{followed:?}, {lacking_rounds}");
}

/// What follows windows from batch to batch, while rows come anywhere and go at the front, and the results of an accumulator for each.
#[test]
fn windows_are_followed_from_batch_to_batch_wherever_rows_come() {
    let mut random = StdRng::seed_from_u64(13);
    let mut followed = BTreeSet::new();
    for case in cases() {
        let function = case.function();
        for round in 0..25 {
            let Some(mut follower) = function.slide().and_then(|slide| slide.follower()) else { continue };
            followed.insert(case.title());
            let (rows, mut there): (_, Vec<usize>) = (rows(&mut random, case.arguments.len()), Vec::new());
            let all = rows.groups.len();
            let mut last = 0..0_usize;
            for _ in 0..if all == 0 { 0 } else { 12 } {
                let some: Vec<usize> = (0..random.random_range(0..5)).map(|_| random.random_range(0..all)).collect();
                let late = random.random_bool(0.5);
                let place = |random: &mut StdRng| if late { random.random_range(0..=there.len()) } else { there.len() };
                let mut places: Vec<usize> = some.iter().map(|_| place(&mut random)).collect();
                places.sort_unstable();
                let (arguments, filter) = self::some(&case, &rows, &some);
                follower.insert(&arguments, filter.as_ref(), &places).unwrap();
                for (number, (row, place)) in some.iter().zip(&places).enumerate() {
                    there.insert(place + number, *row);
                }
                let gone = random.random_range(0..=there.len().min(4));
                if random.random_bool(0.5) {
                    follower.drop_first(gone);
                    there.drain(..gone);
                    last = last.start.saturating_sub(gone)..last.end.saturating_sub(gone);
                }
                let asked = random.random_range(0..4);
                let window = |_| {
                    let back = if random.random_bool(0.2) { there.len() } else { 0 };
                    let start = random.random_range(last.start.min(there.len()).saturating_sub(back)..=there.len());
                    last = start..random.random_range(start..=there.len());
                    last.clone()
                };
                let windows: Vec<Range<usize>> = (0..asked).map(window).collect();
                let own: Option<Vec<usize>> =
                    random.random_bool(0.3).then(|| windows.iter().map(|_| random.random_range(0..all)).collect());
                let have_holes = own.is_some() || random.random_bool(0.3);
                let lacked = |window: &Range<usize>| {
                    let first = random.random_range(window.start..=window.end);
                    first..random.random_range(first..=window.end)
                };
                let lacks: Vec<Range<usize>> = match have_holes {
                    true => windows.iter().map(lacked).collect(),
                    false => Vec::new(),
                };
                let mut accumulator = function.accumulator().unwrap();
                add(accumulator.as_mut(), &case, &rows, &[], asked);
                for (number, window) in windows.iter().enumerate() {
                    let is_seen = |place: &usize| lacks.get(number).is_none_or(|lacked| !lacked.contains(place));
                    let seen: Vec<usize> = window.clone().filter(is_seen).map(|place| there[place]).collect();
                    let seen: Vec<usize> = seen.into_iter().chain(own.as_ref().map(|own| own[number])).collect();
                    let rows = Rows { groups: vec![number as u32; all], ..rows.clone() };
                    add(accumulator.as_mut(), &case, &rows, &seen, asked);
                }
                let (arguments, filter) = self::some(&case, &rows, own.as_deref().unwrap_or_default());
                let windows = Windows {
                    arguments: &arguments,
                    filter: filter.as_ref(),
                    windows: &windows,
                    own: own.map(|_| there.len()),
                    lacks: &lacks,
                    before: &[],
                };
                let mut found = make_builder(&case.output, asked);
                follower.results(&windows, found.as_mut()).unwrap();
                assert_eq!(&found.finish(), &accumulator.take_result().unwrap(), "{} round {round}", case.title());
            }
        }
    }
    assert!(followed.len() > 130, "{}: {followed:?}", followed.len());
}

/// The rows of a group that count, as the numbers they were made of.
fn group(case: &Case, rows: &Rows, group: u32) -> Vec<Vec<i64>> {
    let is_in = |row: &usize| {
        rows.groups[*row] == group && rows.filter.as_ref().is_none_or(|filter| filter[*row] == Some(true))
    };
    let found = (0..rows.groups.len()).filter(is_in);
    let found = found.filter_map(|row| rows.columns.iter().map(|column| column[row]).collect::<Option<Vec<_>>>());
    if case.is_distinct && case.arguments != [DataType::Boolean] {
        let distinct: BTreeSet<_> = found.collect();
        return distinct.into_iter().collect();
    }
    found.collect()
}

/// What the function gives by its definition, as text.
fn expected(case: &Case, rows: &[Vec<i64>]) -> Option<String> {
    let n = rows.len() as i64;
    let argument = case.arguments.first().unwrap_or(&DataType::Null);
    let values = || rows.iter().map(|row| row[0]);
    let is_float = matches!(argument, DataType::Float32 | DataType::Float64);
    let text = |value: f64| match case.output {
        DataType::Float32 => array_value_to_string(&Float32Array::from(vec![value as f32]), 0).ok(),
        _ => array_value_to_string(&Float64Array::from(vec![value]), 0).ok(),
    };
    if case.name == "count" || case.name == "regr_count" {
        return Some(n.to_string());
    }
    if n == 0 {
        return None;
    }
    let sum: i64 = values().sum();
    let (shifted, squares): (i64, i64) = (sum - 20 * n, values().map(|v| (v - 20) * (v - 20)).sum());
    let spread = (n * squares - shifted * shifted) as f64 / 16.0;
    match case.name {
        "sum" if is_float => text(shifted as f64 / 4.0),
        "avg" if is_float => text(shifted as f64 / n as f64 / 4.0),
        "sum" if matches!(argument, DataType::Decimal128(..)) => Some(format!("{:.2}", shifted as f64 / 100.0 + 0.0)),
        "avg" if matches!(argument, DataType::Decimal128(..)) => {
            let scaled = shifted * 10_000;
            let rounded = (2 * scaled.abs() + n) / (2 * n) * scaled.signum();
            let sign = if rounded < 0 { "-" } else { "" };
            Some(format!("{sign}{}.{:06}", rounded.abs() / 1_000_000, rounded.abs() % 1_000_000))
        }
        "sum" => Some(sum.to_string()),
        "avg" => text(sum as f64 / n as f64),
        "var" | "stddev" | "covar_samp" if n < 2 => None,
        "var" => text(spread / (n * (n - 1)) as f64),
        "var_pop" => text(spread / (n * n) as f64),
        "stddev" => text((spread / (n * (n - 1)) as f64).sqrt()),
        "stddev_pop" => text((spread / (n * n) as f64).sqrt()),
        "bit_and" => values().reduce(|one, other| one & other).map(|bits| bits.to_string()),
        "bit_or" => values().reduce(|one, other| one | other).map(|bits| bits.to_string()),
        "bit_xor" => values().reduce(|one, other| one ^ other).map(|bits| bits.to_string()),
        "bool_and" => Some(values().all(|v| v % 2 == 1).to_string()),
        "bool_or" => Some(values().any(|v| v % 2 == 1).to_string()),
        "median" => {
            let mut sorted: Vec<i64> = values().collect();
            sorted.sort_unstable();
            let twice = sorted[sorted.len() / 2] + sorted[(sorted.len() - 1) / 2];
            match argument {
                DataType::Float32 | DataType::Float64 => text((twice - 40) as f64 / 8.0),
                DataType::Decimal128(..) | DataType::Decimal256(..) => {
                    let hundredths = (twice - 40) / 2;
                    array_value_to_string(&column(&[Some(hundredths + 20)], argument), 0).ok()
                }
                _ => Some((twice / 2).to_string()),
            }
        }
        "min" | "max" | "any_value" => {
            let is_text = matches!(argument, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
            let is_bytes = matches!(argument, DataType::Binary | DataType::LargeBinary);
            let key = |v: &i64| match argument {
                DataType::Boolean => (v % 2, String::new()),
                _ if is_text || is_bytes => (0, v.to_string()),
                _ => (*v, String::new()),
            };
            let best = if case.name == "max" { values().max_by_key(key) } else { values().min_by_key(key) };
            array_value_to_string(&column(&[best], argument), 0).ok()
        }
        _ => two_columns(case.name, rows).and_then(text),
    }
}

/// Statistics of two columns by the textbook.
fn two_columns(name: &str, rows: &[Vec<i64>]) -> Option<f64> {
    let n = rows.len() as f64;
    let mean = |i: usize| rows.iter().map(|row| quarter(row[i])).sum::<f64>() / n;
    let (y, x) = (mean(0), mean(1));
    let sum =
        |f: &dyn Fn(f64, f64) -> f64| rows.iter().map(|row| f(quarter(row[1]) - x, quarter(row[0]) - y)).sum::<f64>();
    let (sxx, syy, sxy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    let is_level = |s: f64| s < 1e-9;
    match name {
        "covar_samp" => Some(sxy / (n - 1.0)),
        "covar_pop" => Some(sxy / n),
        "regr_avgx" => Some(x),
        "regr_avgy" => Some(y),
        "regr_sxx" => Some(sxx),
        "regr_syy" => Some(syy),
        "regr_sxy" => Some(sxy),
        "corr" => (!is_level(sxx) && !is_level(syy)).then(|| sxy / (sxx * syy).sqrt()),
        _ if is_level(sxx) => None,
        "regr_slope" => Some(sxy / sxx),
        "regr_intercept" => Some(y - x * sxy / sxx),
        "regr_r2" => Some(if is_level(syy) { 1.0 } else { sxy * sxy / (sxx * syy) }),
        other => panic!("{other} has no definition here"),
    }
}

#[test]
fn results_are_those_of_the_definition() {
    let mut random = StdRng::seed_from_u64(12);
    for case in cases() {
        for round in 0..25 {
            let rows = rows(&mut random, case.arguments.len());
            let result = whole(&case, &rows);
            assert_eq!(result.len(), rows.count);
            for number in 0..rows.count {
                let found = result.is_valid(number).then(|| array_value_to_string(&result, number).unwrap());
                let expected = expected(&case, &group(&case, &rows, number as u32));
                let close = || {
                    let (a, b) = (found.as_ref()?.parse::<f64>().ok()?, expected.as_ref()?.parse::<f64>().ok()?);
                    Some(case.arguments.len() == 2 && (a - b).abs() <= 1e-9 * (1.0 + b.abs()))
                };
                let is_same = found == expected || close() == Some(true);
                assert!(is_same, "{} round {round}: found {found:?}, expected {expected:?}", case.title());
            }
        }
    }
}

#[test]
fn memory_follows_the_groups_and_is_given_back() {
    for case in cases() {
        let mut accumulator = case.function().accumulator().unwrap();
        let arguments: Vec<_> = case.arguments.iter().map(|kind| column(&vec![Some(1); 1000], kind)).collect();
        let groups: Vec<u32> = (0..1000).collect();
        accumulator.update(&arguments, None, &groups, 1000).unwrap();
        let held = accumulator.bytes();
        assert!((1000..2_000_000).contains(&held), "{}: {held}", case.title());
        accumulator.take_result().unwrap();
        assert!(accumulator.bytes() <= held, "{}: what is kept serves the next groups", case.title());
        accumulator.update(&arguments, None, &groups, 1000).unwrap();
        assert!(accumulator.bytes() <= held, "{}: {} after {held}", case.title(), accumulator.bytes());
        accumulator.take_state().unwrap();
        assert!(accumulator.bytes() < 1000, "{}: {}", case.title(), accumulator.bytes());
    }
}
