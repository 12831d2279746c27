//! Random pipelines of filters, maps, unions, distinct, sorts and limits over random rows: the engine's rows are those of a
//! definition that takes one row at a time.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::{
    script::{Item, Script, Scripts},
    show,
};
use thalweg::Engine;

/// Two whole numbers, each of which may be null.
type Row = [Option<i64>; 2];

/// A pipeline: where rows come from and what is done with them.
enum Relation {
    Table(usize),
    Filter(Box<Relation>, Condition),
    Map(Box<Relation>, [Value; 2]),
    Union(Box<Relation>, Box<Relation>),
    Distinct(Box<Relation>),
    /// Sorted by both columns, then some rows skipped and some passed.
    Top(Box<Relation>, [(usize, bool, bool); 2], usize, Option<usize>),
}

/// A column, or what is computed from the columns.
#[derive(Clone, Copy)]
enum Value {
    Column(usize),
    Sum,
    Negative(usize),
    /// The first column if it is not null, else the second.
    Coalesce,
    Remainder(usize, i64),
}

#[derive(Clone, Copy)]
enum Condition {
    Less(Value, i64),
    IsNull(Value),
    /// Not (a = b), which null does not fulfil.
    Differ,
    /// A division that would fail if it saw the rows that the first part drops.
    Guarded,
}

impl Relation {
    fn random(random: &mut StdRng, depth: u32) -> Self {
        let inner = |random: &mut StdRng| Box::new(Self::random(random, depth - 1));
        match if depth == 0 { 0 } else { random.random_range(0..8) } {
            0 => Self::Table(random.random_range(0..2)),
            1 | 2 => Self::Filter(inner(random), Condition::random(random)),
            3 | 4 => Self::Map(inner(random), [Value::random(random), Value::random(random)]),
            5 => Self::Union(inner(random), inner(random)),
            6 => Self::Distinct(inner(random)),
            _ => {
                let first = random.random_range(0..2);
                let key = |random: &mut StdRng, column| (column, random.random_bool(0.5), random.random_bool(0.5));
                let keys = [key(random, first), key(random, 1 - first)];
                let fetch = random.random_bool(0.7).then(|| random.random_range(0..30));
                Self::Top(inner(random), keys, random.random_range(0..5), fetch)
            }
        }
    }

    fn sql(&self) -> String {
        match self {
            Self::Table(number) => format!("SELECT a, b FROM t{number}"),
            Self::Filter(inner, condition) => {
                format!("SELECT a, b FROM ({}) AS r WHERE {}", inner.sql(), condition.sql())
            }
            Self::Map(inner, [a, b]) => {
                format!("SELECT {} AS a, {} AS b FROM ({}) AS r", a.sql(), b.sql(), inner.sql())
            }
            Self::Union(left, right) => {
                format!("SELECT a, b FROM ({}) AS l UNION ALL SELECT a, b FROM ({}) AS r", left.sql(), right.sql())
            }
            Self::Distinct(inner) => format!("SELECT DISTINCT a, b FROM ({}) AS r", inner.sql()),
            Self::Top(inner, keys, skip, fetch) => {
                let order = keys.map(|(column, descending, nulls_first)| {
                    let direction = if descending { "DESC" } else { "ASC" };
                    let nulls = if nulls_first { "FIRST" } else { "LAST" };
                    format!("{} {direction} NULLS {nulls}", ["a", "b"][column])
                });
                let fetch = fetch.map(|rows| format!(" LIMIT {rows}")).unwrap_or_default();
                format!("SELECT a, b FROM ({}) AS r ORDER BY {}{fetch} OFFSET {skip}", inner.sql(), order.join(", "))
            }
        }
    }

    /// The rows, one after the other.
    fn rows(&self, tables: &[Vec<Row>; 2]) -> Vec<Row> {
        match self {
            Self::Table(number) => tables[*number].clone(),
            Self::Filter(inner, condition) => {
                inner.rows(tables).into_iter().filter(|row| condition.holds(row)).collect()
            }
            Self::Map(inner, values) => {
                inner.rows(tables).iter().map(|row| values.map(|value| value.of(row))).collect()
            }
            Self::Union(left, right) => [left.rows(tables), right.rows(tables)].concat(),
            Self::Distinct(inner) => {
                let mut rows = inner.rows(tables);
                rows.sort();
                rows.dedup();
                rows
            }
            Self::Top(inner, keys, skip, fetch) => {
                let mut rows = inner.rows(tables);
                rows.sort_by(|x, y| keys.iter().map(|key| compare(x, y, *key)).fold(Ordering::Equal, Ordering::then));
                rows.into_iter().skip(*skip).take(fetch.unwrap_or(usize::MAX)).collect()
            }
        }
    }

    fn is_ordered(&self) -> bool {
        matches!(self, Self::Top(..))
    }
}

fn compare(x: &Row, y: &Row, (column, descending, nulls_first): (usize, bool, bool)) -> Ordering {
    match (x[column], y[column]) {
        (None, None) => Ordering::Equal,
        (None, _) => {
            if nulls_first {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (_, None) => {
            if nulls_first {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (Some(x), Some(y)) => {
            if descending {
                y.cmp(&x)
            } else {
                x.cmp(&y)
            }
        }
    }
}

impl Value {
    fn random(random: &mut StdRng) -> Self {
        let column = random.random_range(0..2);
        match random.random_range(0..6) {
            0 => Self::Sum,
            1 => Self::Negative(column),
            2 => Self::Coalesce,
            3 => Self::Remainder(column, random.random_range(1..4)),
            _ => Self::Column(column),
        }
    }

    fn sql(&self) -> String {
        let name = |column: &usize| ["a", "b"][*column];
        match self {
            Self::Column(column) => name(column).to_string(),
            Self::Sum => "a + b".to_string(),
            Self::Negative(column) => format!("-{}", name(column)),
            Self::Coalesce => "coalesce(a, b)".to_string(),
            Self::Remainder(column, by) => format!("{} % {by}", name(column)),
        }
    }

    fn of(&self, row: &Row) -> Option<i64> {
        match self {
            Self::Column(column) => row[*column],
            Self::Sum => Some(row[0]? + row[1]?),
            Self::Negative(column) => Some(-row[*column]?),
            Self::Coalesce => row[0].or(row[1]),
            Self::Remainder(column, by) => Some(row[*column]? % by),
        }
    }
}

impl Condition {
    fn random(random: &mut StdRng) -> Self {
        match random.random_range(0..5) {
            0 => Self::IsNull(Value::random(random)),
            1 => Self::Differ,
            2 => Self::Guarded,
            _ => Self::Less(Value::random(random), random.random_range(-5..10)),
        }
    }

    fn sql(&self) -> String {
        match self {
            Self::Less(value, than) => format!("{} < {than}", value.sql()),
            Self::IsNull(value) => format!("{} IS NULL", value.sql()),
            Self::Differ => "NOT (a = b)".to_string(),
            Self::Guarded => "a <> 0 AND 12 / a > 2".to_string(),
        }
    }

    fn holds(&self, row: &Row) -> bool {
        match self {
            Self::Less(value, than) => value.of(row).is_some_and(|v| v < *than),
            Self::IsNull(value) => value.of(row).is_none(),
            Self::Differ => matches!(row, [Some(a), Some(b)] if a != b),
            Self::Guarded => row[0].is_some_and(|a| a != 0 && 12 / a > 2),
        }
    }
}

#[test]
fn random_pipelines_give_the_rows_of_their_definition() {
    for seed in 0..150 {
        let mut random = StdRng::seed_from_u64(seed);
        let value = |random: &mut StdRng| random.random_bool(0.85).then(|| random.random_range(-6..12));
        let mut tables = [Vec::new(), Vec::new()];
        let mut scripts = HashMap::new();
        for (number, table) in tables.iter_mut().enumerate() {
            let mut script: Script = vec![Vec::new(); random.random_range(1..4)];
            for _ in 0..random.random_range(0..80) {
                let row: Row = [value(&mut random), value(&mut random)];
                let partition = random.random_range(0..script.len());
                script[partition].push(Item::Row(row.iter().map(|v| v.map(|v| v.to_string())).collect()));
                table.push(row);
            }
            scripts.insert(format!("t{number}"), script);
        }
        let relation = Relation::random(&mut random, 4);
        let expected = lines(relation.rows(&tables), relation.is_ordered());
        let runs = [
            (4096, 1, None, "ordered"),
            (1, 3, Some(seed), "ordered"),
            (7, 8, Some(seed + 1), "ordered"),
            (7, 5, Some(seed + 2), "arrival"),
        ];
        for (batch_rows, workers, barriers, merge) in runs {
            let mut scripts = Scripts::new(scripts.clone());
            scripts = if let Some(seed) = barriers { scripts.with_barriers(seed) } else { scripts };
            let mut engine = Engine::with_connectors(vec![Arc::new(scripts)]);
            engine.reload_at_barriers();
            let table = |n| format!("CREATE TABLE t{n} (a BIGINT, b BIGINT) WITH ('connector' = 'script');");
            let settings =
                format!("SET 'batch.rows' = '{batch_rows}'; SET 'parallelism' = '{workers}'; SET 'merge' = '{merge}';");
            engine.sql(&format!("{settings}{}{}", table(0), table(1))).unwrap();
            let mut found = Vec::new();
            for batch in engine.sql(&relation.sql()).unwrap() {
                found.extend(
                    show::lines(&batch.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", relation.sql()))).unwrap(),
                );
            }
            if !relation.is_ordered() {
                found.sort();
            }
            assert_eq!(
                found,
                expected,
                "seed {seed}, batch {batch_rows}, {workers} workers, {merge}\n{}",
                relation.sql()
            );
        }
    }
}

fn lines(rows: Vec<Row>, is_ordered: bool) -> Vec<String> {
    let text = |value: Option<i64>| value.map_or("null".to_string(), |v| v.to_string());
    let mut lines: Vec<String> = rows.iter().map(|row| row.map(text).join(" | ")).collect();
    if !is_ordered {
        lines.sort();
    }
    lines
}
