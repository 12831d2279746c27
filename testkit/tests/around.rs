//! Random streams through windows around each row: what each aggregate gives of them, and which rows each clause leaves, is what loops
//! over all rows say, at every batch size and parallelism, with state saved and loaded, and moved, at random barriers, and with results
//! that come at once.

use std::collections::BTreeSet;

use rand::{
    RngExt, SeedableRng,
    rngs::StdRng,
    seq::{IndexedRandom, SliceRandom},
};
use testkit::streams::{Check, Row, Stream, show};

const CASES: u64 = 36;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What is computed of a list of rows, and how it is written.
type Function = (&'static str, fn(&[Row]) -> String);

/// Aggregates of the rows of a window. Only rows have their order that are given to functions that ask for it.
const AGGREGATES: [Function; 54] = [
    ("count_where(v, v > 3)", |rows| large(rows).len().to_string()),
    ("count_where(*, v IS NULL)", |rows| rows.iter().filter(|row| row.value.is_none()).count().to_string()),
    ("sum_where(v, v > 3)", |rows| show(sum(&large(rows)))),
    ("avg_where(v, v > 3)", |rows| mean(&large(rows))),
    ("min_where(v, v > 3)", |rows| show(large(rows).into_iter().min())),
    ("max_where(s, v > 3)", |rows| text(above(rows).filter_map(|row| row.text).max())),
    ("min_where(p, b)", |rows| cents(marked(rows).filter_map(|row| row.price).min())),
    ("max_where(v, b) FILTER (WHERE v < 15)", |rows| {
        show(marked(rows).filter_map(|row| row.value).filter(|v| *v < 15).max())
    }),
    ("distinct_count(v)", |rows| distinct(values(rows)).len().to_string()),
    ("count(DISTINCT s)", |rows| distinct(texts(rows)).len().to_string()),
    ("distinct_count(p) FILTER (WHERE b)", |rows| distinct(marked(rows).filter_map(|row| row.price)).len().to_string()),
    ("approx_distinct(v)", |rows| distinct(values(rows)).len().to_string()),
    ("approx_distinct(s)", |rows| distinct(texts(rows)).len().to_string()),
    ("approx_distinct(CAST(v AS DOUBLE)) FILTER (WHERE b)", |rows| {
        distinct(marked(rows).filter_map(|row| row.value)).len().to_string()
    }),
    ("topn_frequency(v, 2)", |rows| frequent(values(rows), 2)),
    ("topn_frequency(s, 3)", |rows| frequent(texts(rows), 3)),
    ("topn_frequency(b, 1)", |rows| frequent(flags(rows), 1)),
    ("first_value(id)", |rows| show(rows.first().map(|row| row.id))),
    ("first(v)", |rows| show(rows.first().and_then(|row| row.value))),
    ("first_value(v) IGNORE NULLS", |rows| show(values(rows).into_iter().next())),
    ("first_value(s) FILTER (WHERE b)", |rows| text(marked(rows).next().and_then(|row| row.text))),
    ("last_value(v)", |rows| show(rows.last().and_then(|row| row.value))),
    ("last(s)", |rows| text(rows.last().and_then(|row| row.text))),
    ("last_value(p) IGNORE NULLS", |rows| cents(prices(rows).last().copied())),
    ("last_value(id) FILTER (WHERE v > 3)", |rows| show(above(rows).last().map(|row| row.id))),
    ("nth_value(v, 2)", |rows| show(rows.get(1).and_then(|row| row.value))),
    ("nth_value(id, -3)", |rows| show(rows.iter().nth_back(2).map(|row| row.id))),
    ("nth_value(s, 2)", |rows| text(rows.get(1).and_then(|row| row.text))),
    ("nth_value(s, 2) IGNORE NULLS", |rows| text(texts(rows).get(1).copied())),
    ("nth_value(v, -2) FILTER (WHERE b) IGNORE NULLS", |rows| {
        show(marked(rows).filter_map(|row| row.value).nth_back(1))
    }),
    ("string_agg(s, ',')", |rows| text((!texts(rows).is_empty()).then(|| texts(rows).join(",")).as_deref())),
    ("string_agg(s, '+') FILTER (WHERE v > 3)", |rows| {
        let texts: Vec<&str> = above(rows).filter_map(|row| row.text).collect();
        text((!texts.is_empty()).then(|| texts.join("+")).as_deref())
    }),
    ("var_pop(v)", |rows| float(variance(&values(rows), 0))),
    ("var_samp(v)", |rows| float(variance(&values(rows), 1))),
    ("stddev_pop(v)", |rows| float(variance(&values(rows), 0).map(f64::sqrt))),
    ("stddev(v) FILTER (WHERE b)", |rows| {
        let values: Vec<i64> = marked(rows).filter_map(|row| row.value).collect();
        float(variance(&values, 1).map(f64::sqrt))
    }),
    ("percentile_cont(v, 0.75)", |rows| float(percentile(values(rows), 0.75))),
    ("median(v)", |rows| float(percentile(values(rows), 0.5))),
    ("bit_and(v)", |rows| show(values(rows).into_iter().reduce(|one, other| one & other))),
    ("bit_or(v)", |rows| show(values(rows).into_iter().reduce(|one, other| one | other))),
    ("bit_xor(v)", |rows| show(values(rows).into_iter().reduce(|one, other| one ^ other))),
    ("bool_and(b)", |rows| flag((!flags(rows).is_empty()).then(|| flags(rows).into_iter().all(|flag| flag)))),
    ("bool_or(b)", |rows| flag((!flags(rows).is_empty()).then(|| flags(rows).into_iter().any(|flag| flag)))),
    ("min(p)", |rows| cents(prices(rows).into_iter().min())),
    ("max(p)", |rows| cents(prices(rows).into_iter().max())),
    ("sum(p)", |rows| cents(sum(&prices(rows)))),
    ("avg(p)", |rows| decimal(sum(&prices(rows)).map(|sum| rounded(sum * 10_000, prices(rows).len() as i64)), 6)),
    ("any_value(v)", |rows| show(values(rows).into_iter().min())),
    ("sum(DISTINCT v)", |rows| show(sum(&distinct(values(rows)).into_iter().collect::<Vec<_>>()))),
    ("sum(DISTINCT p)", |rows| cents(sum(&distinct(prices(rows)).into_iter().collect::<Vec<_>>()))),
    ("avg(DISTINCT v)", |rows| mean(&distinct(values(rows)).into_iter().collect::<Vec<_>>())),
    ("max(b)", |rows| flag(flags(rows).into_iter().max())),
    ("regr_count(v, p)", |rows| rows.iter().filter(|row| row.value.and(row.price).is_some()).count().to_string()),
    ("min(s)", |rows| text(texts(rows).into_iter().min())),
];

/// What is said of a row and those of its key before it, of which it is the last.
const OF_ORDER: [Function; 8] = [
    ("lag(id)", |line| show(line.iter().nth_back(1).map(|row| row.id))),
    ("lag(v, 2)", |line| show(line.iter().nth_back(2).and_then(|row| row.value))),
    ("lag(s, 1, 'none')", |line| text(line.iter().nth_back(1).map_or(Some("none"), |row| row.text))),
    ("lag(p, 3)", |line| cents(line.iter().nth_back(3).and_then(|row| row.price))),
    ("lag(v, 0)", |line| show(line[line.len() - 1].value)),
    ("row_number()", |line| line.len().to_string()),
    ("rank()", |line| (1 + line.iter().filter(|row| row.time < line[line.len() - 1].time).count()).to_string()),
    ("dense_rank()", |line| distinct(line.iter().map(|row| row.time)).len().to_string()),
];

/// Aggregates by what they need: totals, states of blocks, values that come and go, and some rows. The first one says which rows there are.
const NEEDS: [Function; 10] = [
    ("string_agg(CAST(id AS STRING), ',')", |rows| {
        let ids: Vec<String> = rows.iter().map(|row| row.id.to_string()).collect();
        text((!ids.is_empty()).then(|| ids.join(",")).as_deref())
    }),
    ("count(*)", |rows| rows.len().to_string()),
    ("sum(v)", |rows| show(sum(&values(rows)))),
    ("avg(v)", |rows| mean(&values(rows))),
    ("max(v)", |rows| show(values(rows).into_iter().max())),
    ("median(v)", |rows| float(percentile(values(rows), 0.5))),
    ("last_value(id)", |rows| show(rows.last().map(|row| row.id))),
    ("percentile_cont(v, 0.25)", |rows| float(percentile(values(rows), 0.25))),
    ("first_value(v) IGNORE NULLS", |rows| show(values(rows).into_iter().next())),
    ("nth_value(id, -2) FILTER (WHERE b)", |rows| show(marked(rows).nth_back(1).map(|row| row.id))),
];

fn values(rows: &[Row]) -> Vec<i64> {
    rows.iter().filter_map(|row| row.value).collect()
}

fn texts(rows: &[Row]) -> Vec<&'static str> {
    rows.iter().filter_map(|row| row.text).collect()
}

fn prices(rows: &[Row]) -> Vec<i64> {
    rows.iter().filter_map(|row| row.price).collect()
}

fn flags(rows: &[Row]) -> Vec<bool> {
    rows.iter().filter_map(|row| row.flag).collect()
}

/// The rows of which `v > 3` is true.
fn above(rows: &[Row]) -> impl DoubleEndedIterator<Item = &Row> {
    rows.iter().filter(|row| row.value.is_some_and(|value| value > 3))
}

fn large(rows: &[Row]) -> Vec<i64> {
    above(rows).filter_map(|row| row.value).collect()
}

/// The rows of which `b` is true.
fn marked(rows: &[Row]) -> impl DoubleEndedIterator<Item = &Row> {
    rows.iter().filter(|row| row.flag == Some(true))
}

fn distinct<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    values.into_iter().collect()
}

fn sum(values: &[i64]) -> Option<i64> {
    (!values.is_empty()).then(|| values.iter().sum())
}

fn mean(values: &[i64]) -> String {
    float(sum(values).map(|sum| sum as f64 / values.len() as f64))
}

/// Of whole numbers, so that nothing is rounded but the quotient.
fn variance(values: &[i64], fewer: usize) -> Option<f64> {
    let (count, of) = (values.len() as i64, values.len().checked_sub(fewer).filter(|of| *of > 0)? as i64);
    let squares: i64 = values.iter().map(|value| value * value).sum();
    let sum: i64 = values.iter().sum();
    Some((count * squares - sum * sum) as f64 / (count * of) as f64)
}

fn percentile(mut values: Vec<i64>, share: f64) -> Option<f64> {
    values.sort_unstable();
    let place = share * values.len().checked_sub(1)? as f64;
    let (below, above) = (values[place.floor() as usize] as f64, values[place.ceil() as usize] as f64);
    Some(below + (above - below) * place.fract())
}

/// The most frequent values, of several of one frequency the smaller ones.
fn frequent<T: Ord + ToString>(values: Vec<T>, most: usize) -> String {
    if values.is_empty() {
        return "null".to_string();
    }
    let count = |one: &T| values.iter().filter(|other| *other == one).count();
    let mut kinds: Vec<&T> = distinct(&values).into_iter().collect();
    kinds.sort_by_key(|one| std::cmp::Reverse(count(one)));
    let kinds = kinds.into_iter().map(T::to_string).chain(std::iter::repeat("NULL".to_string()));
    kinds.take(most).collect::<Vec<_>>().join(",")
}

fn text(value: Option<&str>) -> String {
    value.unwrap_or("null").to_string()
}

fn flag(value: Option<bool>) -> String {
    value.map_or("null".to_string(), |value| value.to_string())
}

fn float(value: Option<f64>) -> String {
    value.map_or("null".to_string(), |value| format!("{value:?}"))
}

fn cents(value: Option<i64>) -> String {
    decimal(value, 2)
}

fn decimal(value: Option<i64>, scale: u32) -> String {
    let (one, width) = (10_i64.pow(scale), scale as usize);
    let sign = if value.is_some_and(|value| value < 0) { "-" } else { "" };
    let shown = |value: i64| format!("{sign}{}.{:0width$}", value.abs() / one, value.abs() % one);
    value.map_or("null".to_string(), shown)
}

/// A quotient, halves away from zero.
fn rounded(value: i64, by: i64) -> i64 {
    (value.abs() * 2 + by) / (by * 2) * value.signum()
}

/// An end of a window in time: so many seconds behind the row's, which belong to it or not.
#[derive(Clone, Copy, Debug)]
struct End {
    seconds: i64,
    is_open: bool,
}

#[derive(Clone, Copy, Debug)]
enum Bounds {
    /// From so many rows before the row, or all, to so many before it.
    Rows(Option<usize>, usize),
    /// Without a first end, from the first row on.
    Time(Option<End>, End),
}

/// A window around each row of `a`.
#[derive(Clone, Debug)]
struct Window {
    /// The streams of UNION, by their number.
    union: Vec<usize>,
    has_key: bool,
    bounds: Bounds,
    most: Option<usize>,
    no_row: bool,
    no_time: bool,
    no_base: bool,
}

impl Window {
    fn random(random: &mut StdRng) -> Self {
        let union = *[&[][..], &[1], &[1], &[2], &[1, 2], &[2, 1]].choose(random).unwrap();
        let spans = [(-3, 2), (-1, 0), (0, 1), (1, 6), (-9, -2), (-30, 0), (-30, 30)];
        let bounds = match random.random_range(0..10) {
            0 => Bounds::Rows(None, *[0, 0, 1, 3].choose(random).unwrap()),
            1..3 => {
                let to = *[0, 0, 1, 2, 4].choose(random).unwrap();
                Bounds::Rows(Some(to + random.random_range(0..6)), to)
            }
            3 => Bounds::Time(None, End { seconds: *[-3, 0, 0, 2].choose(random).unwrap(), is_open: false }),
            4 => Bounds::Time(Some(End { seconds: 0, is_open: false }), End { seconds: 0, is_open: false }),
            _ => {
                let (from, to) = *spans.choose(random).unwrap();
                let [first, last] = [0.2, 0.2].map(|chance| random.random_bool(chance));
                Bounds::Time(Some(End { seconds: from, is_open: first }), End { seconds: to, is_open: last })
            }
        };
        let most = random.random_bool(0.3).then(|| random.random_range(1..6));
        let [no_row, no_time, no_base] = [0.25, 0.25, 0.25].map(|chance| random.random_bool(chance));
        let (union, has_key) = (union.to_vec(), random.random_bool(0.8));
        Self { union, has_key, bounds, most, no_row, no_time, no_base }
    }

    /// With bounds alone.
    fn plain(self) -> Self {
        Self { most: None, no_row: false, no_time: false, no_base: false, ..self }
    }

    /// The window, in one of the ways in which it can be written.
    fn sql(&self, random: &mut StdRng) -> String {
        let union: Vec<&str> = self.union.iter().map(|input| NAMES[*input]).collect();
        let union = if union.is_empty() { String::new() } else { format!("UNION {}", union.join(", ")) };
        let keys = if self.has_key { "PARTITION BY k" } else { "" };
        let side = |of: i64| if of > 0 { "FOLLOWING" } else { "PRECEDING" };
        let bounds = match self.bounds {
            Bounds::Rows(None, 0) => "ROWS UNBOUNDED PRECEDING".to_string(),
            Bounds::Rows(Some(rows), 0) if random.random_bool(0.3) => format!("ROWS {} OPEN PRECEDING", rows + 1),
            Bounds::Rows(from, to) => {
                let from = from.map_or("UNBOUNDED".to_string(), |rows| rows.to_string());
                let end = match to {
                    0 => "CURRENT ROW".to_string(),
                    _ if random.random_bool(0.3) => format!("{} OPEN PRECEDING", to - 1),
                    _ => format!("{to} PRECEDING"),
                };
                format!("ROWS BETWEEN {from} PRECEDING AND {end}")
            }
            Bounds::Time(from, to) => {
                let is_closed = ![from, Some(to)].into_iter().flatten().any(|end| end.is_open);
                let kind = if is_closed { random.random_range(0..3) } else { random.random_range(0..2) };
                let end = |end: End| match (end.seconds.abs(), if end.is_open { "OPEN " } else { "" }) {
                    (0, "") => "CURRENT ROW".to_string(),
                    (size, open) if kind == 0 => format!("{size}s {open}{}", side(end.seconds)),
                    (size, open) if kind == 1 => format!("{size}000 {open}{}", side(end.seconds)),
                    (size, _) => format!("INTERVAL '{size}' SECOND {}", side(end.seconds)),
                };
                let from = from.map_or("UNBOUNDED PRECEDING".to_string(), end);
                format!("{} BETWEEN {from} AND {}", if kind == 2 { "RANGE" } else { "ROWS_RANGE" }, end(to))
            }
        };
        let mut options = [
            self.most.map(|most| format!("MAXSIZE {most}")),
            self.no_row.then(|| "EXCLUDE CURRENT_ROW".to_string()),
            self.no_time.then(|| "EXCLUDE CURRENT_TIME".to_string()),
            self.no_base.then(|| "INSTANCE_NOT_IN_WINDOW".to_string()),
        ];
        options.shuffle(random);
        let options = options.into_iter().flatten().collect::<Vec<_>>().join(" ");
        format!("{union} {keys} ORDER BY ts {bounds} {options}")
    }

    /// All rows of the window's streams that have the row's key, in their order, and where it is itself.
    fn line(&self, streams: &[Vec<Row>; 3], row: &Row) -> (Vec<(usize, Row)>, usize) {
        // Those of the union stand before those of the base, in the order of the list.
        let inputs = self.union.iter().chain(&[0]);
        let rows = inputs.flat_map(|input| streams[*input].iter().map(move |other| (*input, *other)));
        let mut rows: Vec<(usize, Row)> = rows.filter(|(_, other)| !self.has_key || other.key == row.key).collect();
        // This leaves rows of one time as they are.
        rows.sort_by_key(|(_, other)| other.time);
        let own = rows.iter().position(|(_, other)| other.id == row.id).unwrap();
        (rows, own)
    }

    /// The rows that a row sees.
    fn seen(&self, streams: &[Vec<Row>; 3], row: &Row) -> Vec<Row> {
        let (line, own) = self.line(streams, row);
        let is_seen = |place: &usize| {
            let (input, other) = &line[*place];
            let behind = other.time - row.time;
            let is_near = match self.bounds {
                Bounds::Rows(_, 0) => *place <= own,
                Bounds::Rows(..) => *place < own,
                Bounds::Time(from, to) => {
                    from.is_none_or(|from| behind > from.seconds || behind == from.seconds && !from.is_open)
                        && (behind < to.seconds || behind == to.seconds && !to.is_open)
                }
            };
            let is_left_out = match *place == own {
                true => self.no_row,
                false => self.no_time && behind == 0 || self.no_base && *input == 0,
            };
            is_near && !is_left_out
        };
        let mut seen: Vec<usize> = (0..line.len()).filter(is_seen).collect();
        // So many of them are wanted, without so many at the end.
        let (rows, without) = match self.bounds {
            Bounds::Rows(from, 0) => (from.map(|from| from + usize::from(!self.no_row)), 0),
            Bounds::Rows(from, to) => (from.map(|from| from - to + 1), to - 1),
            Bounds::Time(..) => (None, 0),
        };
        seen.truncate(seen.len().saturating_sub(without));
        for most in rows.into_iter().chain(self.most) {
            seen.drain(..seen.len().saturating_sub(most));
        }
        seen.into_iter().map(|place| line[place].1).collect()
    }
}

/// Streams, windows over them, and what is computed of each.
struct Case {
    seed: u64,
    streams: [Stream; 3],
    allowed: i64,
    windows: Vec<(Window, Vec<Function>, Vec<Function>)>,
}

impl Case {
    fn random(seed: u64, random: &mut StdRng) -> Self {
        let keys = *[1, 4, 30].choose(random).unwrap();
        let streams = [0, 10_000, 20_000].map(|first| Stream::random(random, first, keys));
        let [a, b, c] = streams;
        Self {
            seed,
            streams: [a, b, c.without_texts()],
            allowed: *[0, 0, 3].choose(random).unwrap(),
            windows: Vec::new(),
        }
    }

    fn check(&self, random: &mut StdRng) {
        let (mut calls, mut windows) = (vec!["id".to_string()], Vec::new());
        for (number, (window, of_frame, of_order)) in self.windows.iter().enumerate() {
            let name = format!("w{number}");
            calls.extend(of_frame.iter().chain(of_order).map(|(function, _)| format!("{function} OVER {name}")));
            windows.push(format!("{name} AS ({})", window.sql(random)));
        }
        let sql = format!("SELECT {} FROM a WINDOW {}", calls.join(", "), windows.join(", "));
        let rows = self.streams.each_ref().map(|stream| stream.on_time(self.allowed).0);
        let result = |row: &Row| {
            let mut fields = vec![row.id.to_string()];
            for (window, of_frame, of_order) in &self.windows {
                let seen = window.seen(&rows, row);
                let (line, own) = window.line(&rows, row);
                let line: Vec<Row> = line[..=own].iter().map(|(_, row)| *row).collect();
                fields.extend(of_frame.iter().map(|(_, function)| function(&seen)));
                fields.extend(of_order.iter().map(|(_, function)| function(&line)));
            }
            fields.join(" | ")
        };
        let expected: Vec<String> = rows[0].iter().map(result).collect();
        // A stream that is looked at in two places is late in both.
        let inputs: BTreeSet<(bool, &[usize])> =
            self.windows.iter().map(|(window, ..)| (window.has_key, &window.union[..])).collect();
        let late = |input: &usize| self.streams[*input].late(self.allowed);
        let late = late(&0) + inputs.iter().flat_map(|(_, union)| union.iter()).map(late).sum::<usize>();
        let Self { seed, allowed, .. } = *self;
        let streams = &self.streams.each_ref();
        let check = Check { seed, streams, allowed, sql: &sql, expected: &expected, is_in_order: true, late };
        match inputs.len() {
            1 => check.both(),
            _ => check.once(),
        }
    }
}

#[test]
fn every_aggregate_is_what_the_rows_of_its_window_say() {
    for seed in 0..CASES {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut case = Case::random(seed, random);
        let window = Window::random(random);
        let window = if random.random_bool(0.6) { window.plain() } else { window };
        let has_clauses = window.most.is_some() || window.no_row || window.no_time || window.no_base;
        // Each stream has something of it.
        let of_frame = AGGREGATES.sample(random, 7).chain(&NEEDS[2..3]).copied().collect();
        let of_order = OF_ORDER.sample(random, if has_clauses { 0 } else { 2 }).copied().collect();
        case.windows.push((window, of_frame, of_order));
        case.check(random);
    }
}

/// What follows windows from batch to batch where these are long.
const FOLLOWING: [&str; 31] = [
    "first_value(v) IGNORE NULLS",
    "first_value(s) FILTER (WHERE b)",
    "last_value(p) IGNORE NULLS",
    "last_value(id) FILTER (WHERE v > 3)",
    "nth_value(s, 2) IGNORE NULLS",
    "nth_value(v, -2) FILTER (WHERE b) IGNORE NULLS",
    "bit_and(v)",
    "bit_or(v)",
    "bit_xor(v)",
    "sum(DISTINCT p)",
    "avg(DISTINCT v)",
    "max(b)",
    "min_where(p, b)",
    "max_where(s, v > 3)",
    "distinct_count(v)",
    "count(DISTINCT s)",
    "distinct_count(p) FILTER (WHERE b)",
    "approx_distinct(v)",
    "approx_distinct(CAST(v AS DOUBLE)) FILTER (WHERE b)",
    "topn_frequency(v, 2)",
    "topn_frequency(s, 3)",
    "var_pop(v)",
    "stddev(v) FILTER (WHERE b)",
    "percentile_cont(v, 0.75)",
    "median(v)",
    "bool_and(b)",
    "bool_or(b)",
    "min(p)",
    "max(p)",
    "any_value(v)",
    "min(s)",
];

#[test]
fn long_windows_are_followed_from_batch_to_batch() {
    for seed in 3000..3016 {
        let random = &mut StdRng::seed_from_u64(seed);
        let keys = random.random_range(1..3);
        let streams = [0, 10_000, 20_000].map(|first| Stream::of(random, first, keys, 100..300));
        let [a, b, c] = streams;
        let first = End { seconds: *[-500, -150].choose(random).unwrap(), is_open: random.random_bool(0.3) };
        let last = End { seconds: *[0, 0, -20, 30].choose(random).unwrap(), is_open: false };
        let window = Window {
            union: vec![1; random.random_range(0..2)],
            most: random.random_bool(0.2).then_some(90),
            bounds: Bounds::Time(Some(first), last),
            ..Window::random(random)
        };
        let of_frame = AGGREGATES.iter().filter(|(name, _)| FOLLOWING.contains(name)).copied();
        let of_frame = of_frame.collect::<Vec<_>>().sample(random, 7).copied().collect();
        let mut case = Case { seed, streams: [a, b, c.without_texts()], allowed: 0, windows: Vec::new() };
        case.windows.push((window, of_frame, Vec::new()));
        case.check(random);
    }
}

#[test]
fn every_window_has_the_rows_that_its_clauses_leave() {
    for seed in 1000..1000 + CASES {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut case = Case::random(seed, random);
        let mut first = Window::random(random);
        // Those of the same streams and keys are computed together.
        let beside =
            |first: &Window, other: Window| Window { union: first.union.clone(), has_key: first.has_key, ..other };
        let second = match random.random_range(0..5) {
            0 => Some(Window::random(random)),
            1 | 2 => Some(beside(&first, Window::random(random))),
            // One counts rows of the other streams alone, however many of the base the other one keeps behind them.
            3 => {
                first = Window {
                    bounds: Bounds::Rows(Some(random.random_range(1..6)), random.random_range(0..2)),
                    no_base: true,
                    ..first
                };
                let span = Bounds::Time(Some(End { seconds: -1, is_open: false }), End { seconds: 0, is_open: false });
                Some(beside(&first, Window { bounds: span, ..Window::random(random).plain() }))
            }
            _ => None,
        };
        for window in [Some(first), second].into_iter().flatten() {
            // Some need no index, if they are alone.
            let needs = [&NEEDS[..], &NEEDS[..4], &NEEDS[1..4], &NEEDS[1..6]].choose(random).unwrap().to_vec();
            case.windows.push((window, needs, Vec::new()));
        }
        case.check(random);
    }
}
