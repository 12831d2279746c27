//! The same question to the engine, as SQL over two streams in memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray, cast::AsArray, types::*};
use serde_json::{Map, Value, json};
use thalweg::{Engine, Memory};
use thalweg_core::operator::Search;

use super::{
    expected::{Answer, Mode, each},
    workload::{Row, Workload},
};
use crate::{measure::parameters, tasks::analyze};

/// How many rows a batch has.
const BATCH: usize = 1 << 20;

/// The rows as two streams: `s` (k, ts), the base rows, and `r` (k, ts, v), the probe rows.
pub fn memory(rows: &[Row]) -> thalweg::Result<Memory> {
    let memory = Memory::default();
    for is_base in [true, false] {
        let mine: Vec<&Row> = rows.iter().filter(|row| row.is_base == is_base).collect();
        let batches = mine.chunks(BATCH).map(|rows| batch(rows, is_base));
        let stream = Memory::preallocated(&[batches.collect::<Result<Vec<_>, _>>()?])?;
        memory.put(if is_base { "s" } else { "r" }, stream)?;
    }
    Ok(memory)
}

fn batch(rows: &[&Row], is_base: bool) -> thalweg::Result<RecordBatch> {
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.time));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| i64::from(row.key))));
    let mut columns = vec![("k", keys), ("ts", Arc::new(times) as ArrayRef)];
    if !is_base {
        columns.push(("v", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.payload)))));
    }
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// How the question is asked.
pub struct Asked {
    /// When results come.
    pub mode: Mode,
    /// What is set.
    pub settings: String,
}

/// All rows of each window are looked at.
pub const ALL_ROWS: &str = "SET 'over.incremental' = 'false';";

/// What is asked.
pub fn sql(workload: &Workload, asked: &Asked) -> String {
    // A base row has no value, so that it does not matter whether its window has it.
    format!(
        "SELECT k, ts, sum(v) OVER w FROM (SELECT k, ts, CAST(NULL AS BIGINT) AS v FROM s) \
         WINDOW w AS (UNION r PARTITION BY k ORDER BY ts \
         ROWS_RANGE BETWEEN {} PRECEDING AND CURRENT ROW EXCLUDE CURRENT_ROW INSTANCE_NOT_IN_WINDOW){}",
        interval(workload.window),
        emit(asked.mode)
    )
}

/// When results come, as SQL says it.
pub fn emit(mode: Mode) -> &'static str {
    if mode == Mode::Final { "" } else { " EMIT EAGER" }
}

/// So many microseconds in SQL.
pub fn interval(micros: i64) -> String {
    format!("INTERVAL '{}.{:06}' SECOND", micros / 1_000_000, micros % 1_000_000)
}

/// An engine that knows the streams.
pub fn tables(memory: &Memory, workload: &Workload, settings: &str) -> thalweg::Result<Engine> {
    let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
    let lateness = interval(workload.lateness);
    engine.sql(&format!(
        "{settings}
         CREATE TABLE s (WATERMARK FOR ts AS ts - {lateness}) WITH ('connector' = 'memory', 'stream' = 's');
         CREATE TABLE r (WATERMARK FOR ts AS ts - {lateness}) WITH ('connector' = 'memory', 'stream' = 'r')"
    ))?;
    Ok(engine)
}

/// The engine's results, which are looked at as they come out, as the baselines' are.
pub fn engine(memory: &Memory, workload: &Workload, asked: &Asked) -> thalweg::Result<Answer> {
    let mut answer = Answer::default();
    for batch in tables(memory, workload, &asked.settings)?.sql(&sql(workload, asked))? {
        add(&batch?, asked.mode, &mut answer);
    }
    Ok(answer)
}

/// Effectiveness (equation 1, of all rows together) and unbalancedness (equation 2, of the instances' time) of a run that is looked at more
/// closely.
pub fn profile(memory: &Memory, workload: &Workload, asked: &Asked) -> Result<(Map<String, Value>, String), String> {
    let mut engine = tables(memory, workload, &asked.settings).map_err(|error| error.to_string())?;
    let metrics = analyze(&mut engine, &sql(workload, asked))?.metrics;
    let over = metrics.nodes.iter().max_by_key(|node| node.search.found);
    let over = over.filter(|node| node.search.found > 0).ok_or("nothing was looked for")?;
    let Search { found, visited, .. } = over.search;
    // Who passes both ends of a window looks at fewer rows than there are in it.
    let effectiveness = found as f64 / found.max(visited) as f64;
    let unbalancedness = over.unbalancedness().unwrap_or_default();
    let values = [("effectiveness", json!(effectiveness)), ("unbalancedness", json!(unbalancedness))];
    Ok((parameters(values), format!("effectiveness {effectiveness:.3}, unbalancedness {unbalancedness:.2}")))
}

/// What must come out: key, time and sum, which is null where no row matches.
pub fn expected(rows: &[Row], workload: &Workload) -> Answer {
    let mut answer = Answer::default();
    each(rows, workload, Mode::Final, |base, count, sum| {
        answer.add_result(values(i64::from(base.key), base.time, (count > 0).then_some(sum)));
    });
    answer
}

/// Tells an answer what came out, and what was taken back.
fn add(batch: &RecordBatch, mode: Mode, answer: &mut Answer) {
    let results = results(batch, mode);
    let keys = results.column(0).as_primitive::<Int64Type>().values();
    let times = results.column(1).as_primitive::<TimestampMicrosecondType>().values();
    let sums = results.column(2).as_primitive::<Int64Type>().iter();
    let rows = keys.iter().zip(times).zip(sums).map(|((key, time), sum)| values(*key, *time, sum));
    if are_first(batch, mode) {
        rows.for_each(|values| answer.add_result(values));
    } else {
        rows.enumerate().for_each(|(row, values)| becomes(batch, row, mode).of(answer, values));
    }
}

/// Whether all rows that came out are the first results of their base rows, as most are.
fn are_first(batch: &RecordBatch, mode: Mode) -> bool {
    mode == Mode::Final || {
        let ops = batch.column(0).as_string::<i32>();
        let [first, end] = [0, batch.num_rows()].map(|row| ops.value_offsets()[row] as usize);
        let (ops, rest) = ops.value_data()[first..end].as_chunks();
        rest.is_empty() && ops.len() == batch.num_rows() && ops.iter().all(|op| op == b"+I")
    }
}

/// What becomes of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// It is the first for its base row.
    First,
    /// It is another one than before.
    Another,
    /// It holds no more.
    Gone,
}

impl Becomes {
    /// Tells an answer of a result.
    pub fn of(self, answer: &mut Answer, values: [u64; 3]) {
        if self == Self::Gone { answer.take_back(values) } else { answer.add_result(values) }
    }
}

/// What becomes of a row that came out.
pub fn becomes(batch: &RecordBatch, row: usize, mode: Mode) -> Becomes {
    match mode {
        Mode::Final => Becomes::First,
        Mode::Eager | Mode::Corrected => match batch.column(0).as_string::<i32>().value(row) {
            "+I" => Becomes::First,
            "+U" => Becomes::Another,
            _ => Becomes::Gone,
        },
    }
}

/// The columns that were asked for.
pub fn results(batch: &RecordBatch, mode: Mode) -> RecordBatch {
    let mut batch = batch.clone();
    if mode != Mode::Final {
        batch.remove_column(0);
    }
    batch
}

fn values(key: i64, time: i64, sum: Option<i64>) -> [u64; 3] {
    // No sum is as small as this.
    [key, time, sum.unwrap_or(i64::MIN)].map(|value| value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_another_sum_and_with_none_are_not_the_right_ones() {
        let workload = &Workload::all()[0];
        let rows = workload.generate(2_000);
        let mut results = [Vec::new(), Vec::new(), Vec::new()];
        each(&rows, workload, Mode::Final, |base, count, sum| {
            let row = [Some(i64::from(base.key)), Some(base.time), (count > 0).then_some(sum)];
            results.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        });
        let batch = |[keys, times, sums]: &[Vec<Option<i64>>; 3]| {
            let columns: [(_, ArrayRef); 3] = [
                ("k", Arc::new(Int64Array::from(keys.clone()))),
                ("ts", Arc::new(TimestampMicrosecondArray::from(times.clone()))),
                ("sum", Arc::new(Int64Array::from(sums.clone()))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let right = expected(&rows, workload);
        let found = |batches: &[RecordBatch]| {
            let mut answer = Answer::default();
            batches.iter().for_each(|batch| add(batch, Mode::Final, &mut answer));
            answer
        };
        assert_eq!(right.compare(&found(&[batch(&results)])), Ok(2_000));
        let twice = found(&[batch(&results), batch(&results)]);
        assert!(right.compare(&twice).unwrap_err().contains("4000 results came out, 2000 must"));
        for wrong in [Some(0), None, Some(-1)] {
            results[2][1_000] = wrong;
            assert!(right.compare(&found(&[batch(&results)])).unwrap_err().contains("checksum"));
        }
    }

    #[test]
    fn the_engine_gives_what_must_come_out() {
        for workload in Workload::all() {
            let rows = workload.generate(5_000);
            let memory = memory(&rows).unwrap();
            for settings in ["SET 'parallelism' = '1'; SET 'batch.rows' = '100';", "SET 'parallelism' = '3';"] {
                for (mode, more) in [(Mode::Final, ""), (Mode::Eager, ""), (Mode::Final, ALL_ROWS)] {
                    let asked = Asked { mode, settings: format!("{settings} {more}") };
                    let found = engine(&memory, &workload, &asked).unwrap();
                    assert_eq!(expected(&rows, &workload).compare(&found), Ok(5_000), "{} {settings}", workload.name);
                }
            }
        }
    }

    #[test]
    fn rows_are_looked_at_one_by_one_where_that_is_asked_for() {
        let workload = &Workload::all()[0];
        let memory = memory(&workload.generate(10)).unwrap();
        for (settings, way) in [("", "sorting or running totals, by cost"), (ALL_ROWS, "all rows")] {
            let asked = Asked { mode: Mode::Final, settings: settings.to_string() };
            let query = format!("EXPLAIN {}", sql(workload, &asked));
            let explained = tables(&memory, workload, settings).unwrap().sql(&query).unwrap();
            let explained: String = explained.map(|batch| format!("{:?}", batch.unwrap())).collect();
            assert!(explained.contains(&format!("sum(v) from {way}")), "{explained}");
        }
    }
}
