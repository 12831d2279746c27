//! A query of eight operators in StreamCloud's three strategies (§IV-C): what they cost, what crosses exchanges, what is left idle.
//!
//! ```text
//!   Filter ─ Map ─ Join ─ Filter ─ Map ─ Aggregate ─ Map ─ Aggregate
//!   calls that last; the place      of a caller's two     by block of callers   by region
//!                                   calls; those far apart
//! ```
//!
//! As in the paper three have a state: a join, an aggregate, and another one. Its drawing (figure 8) is not in the text there is: what they
//! compute is ours. A telephone that is far away a minute later may be two with one number. Both sides of the join take the same
//! rows, which are read once, and the filter behind it becomes a part of it. The caller is that of the other call, which is the same: blocks of
//! the call itself would be counted for each call, and there would be no pairs.

use std::rc::Rc;

use arrow_array::{RecordBatch, cast::AsArray, types::*};
use serde_json::json;
use thalweg::{Memory, Metrics};

use crate::{
    calls::{
        engine,
        join::for_each_pair,
        records::{BYTES, Call, calls, each},
    },
    machine::cores,
    measure::{Case, Report, Run, parameters},
    stream::Keys,
    tasks::{Analysis, analyze, idle},
};

const PARTITIONS: usize = 8;

/// As many as the paper had for this query.
const PROCESSORS: usize = 60;

const STRATEGIES: [&str; 3] = ["subquery-cluster", "operator-cluster", "query-cluster"];

/// Instances of each subquery, and `aggregate.phases`: rows travel as they are in the paper.
const CASES: [(usize, &str); 4] = [(2, "one"), (4, "one"), (8, "one"), (4, "auto")];

/// The join is by caller, and the aggregates are by others: none can be fused with the one before.
pub const QUERY: &str = "WITH lasting AS (SELECT ts, caller, x, y FROM calls WHERE duration >= 10)
SELECT window_start, region, sum(pairs) AS pairs, max(farthest) AS farthest FROM (
  SELECT window_start, window_end, block % 16 AS region, pairs, farthest FROM (
    SELECT window_start, window_end, block, count(*) AS pairs, max(distance) AS farthest FROM TUMBLE((
      SELECT ts, caller / 100 AS block, distance FROM (
        SELECT a.ts, b.caller, (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y) AS distance
        FROM lasting a JOIN lasting b ON a.caller = b.caller AND b.ts >= a.ts - INTERVAL '1' MINUTE AND b.ts < a.ts
      ) WHERE distance > 6400
    ), ts, INTERVAL '1' MINUTE)
    GROUP BY window_start, window_end, block
  )
) GROUP BY window_start, window_end, region";

/// Pairs of calls are further apart than this, in square kilometres.
const FAR: f64 = 6400.0;

/// Measures the strategies beside each other.
pub fn run(report: &mut Report) -> Result<(), String> {
    let variant = |strategy: &str, (instances, phases): (usize, &str)| {
        format!("{strategy}, {instances} instances each, phases: {phases}")
    };
    let wants = |report: &Report, case| STRATEGIES.iter().any(|strategy| report.wants(&variant(strategy, case)));
    if !CASES.iter().any(|case| wants(report, *case)) {
        return Ok(());
    }
    let input = Input::new(report.is_quick(), PARTITIONS)?;
    let wanted: Vec<_> = CASES.into_iter().filter(|case| wants(report, *case)).collect();
    for case in wanted {
        let (instances, phases) = case;
        let settings = |strategy| settings(strategy, instances, phases);
        let cases = STRATEGIES.map(|strategy| {
            let settings = settings(strategy);
            let measured = Case {
                workload: "strategies",
                variant: variant(strategy, case),
                parameters: parameters([
                    ("query", json!(QUERY)),
                    (
                        "input",
                        json!("call description records in memory, in eight partitions, 10,000 a second of event time"),
                    ),
                    ("parallel.strategy", json!(strategy)),
                    ("instances", json!(instances)),
                    ("aggregate.phases", json!(phases)),
                ]),
                rows: input.rows,
                bytes_per_row: BYTES * 5.0 / 8.0,
                workers: instances.min(cores()),
                peak: None,
            };
            let (memory, expected) = (&input.memory, Rc::clone(&input.expected));
            let run: Run<'_> = Box::new(move || {
                let found = || engine(memory, &settings)?.sql(QUERY)?.collect::<thalweg::Result<Vec<_>>>();
                let found = found().map_err(|error| error.to_string())?;
                let expected = Rc::clone(&expected);
                Ok(Box::new(move || expected.compare(&found)))
            });
            (measured, run)
        });
        report.measure_beside(cases.into())?;
        for strategy in STRATEGIES {
            if !report.wants(&variant(strategy, case)) {
                continue;
            }
            let found = input.analyze(&settings(strategy))?;
            let per_row = |count: u64| count as f64 / input.rows as f64;
            // With query-cluster each processor runs all of the query, and none is left over.
            let is_whole = strategy == "query-cluster";
            let idle = if is_whole { 0.0 } else { idle(&found.stages, PROCESSORS) };
            let Metrics { exchanged_rows, exchanged_bytes, .. } = found.metrics;
            report.note(
                &variant(strategy, case),
                parameters([
                    ("exchanged_rows", json!(exchanged_rows)),
                    ("exchanged_bytes", json!(exchanged_bytes)),
                    ("idle_of_60_processors", json!(idle)),
                    ("subqueries", json!(found.stages.len())),
                ]),
                &format!(
                    "{} subqueries, {:.3} rows and {:.1} bytes through exchanges per row; {:.0} % of {PROCESSORS} processors idle",
                    found.stages.len(),
                    per_row(exchanged_rows),
                    per_row(exchanged_bytes),
                    100.0 * idle,
                ),
            );
        }
    }
    Ok(())
}

/// What must be set for a strategy in so many instances.
///
/// The join puts its pairs together, as in the paper: with plain sums of doubles, of which there are none here, no aggregate is computed below it.
pub fn settings(strategy: &str, instances: usize, phases: &str) -> String {
    format!(
        "SET 'parallel.strategy' = '{strategy}'; SET 'parallelism' = '{instances}'; SET 'aggregate.phases' = '{phases}';
         SET 'batch.rows' = '16384'; SET 'float.sum' = 'fast';"
    )
}

/// The records, and what must come out.
pub struct Input {
    memory: Memory,
    /// How many records.
    pub rows: u64,
    expected: Rc<Expected>,
}

impl Input {
    /// Makes the records, in so many partitions.
    pub fn new(is_quick: bool, partitions: usize) -> Result<Self, String> {
        let rows = 1 << if is_quick { 20 } else { 23 };
        let stream = calls(rows, partitions, Keys::Uniform(1_000))?;
        let expected = Rc::new(Expected::of(each(&stream)));
        let memory = Memory::default();
        memory.put("calls", stream).map_err(|error| error.to_string())?;
        Ok(Self { memory, rows: rows as u64, expected })
    }

    /// Measures the tasks of the query with these settings.
    ///
    /// Errors: what the query gives, or what is wrong with its result.
    pub fn analyze(&self, settings: &str) -> Result<Analysis, String> {
        let mut engine = engine(&self.memory, settings).map_err(|error| error.to_string())?;
        let found = analyze(&mut engine, QUERY)?;
        self.expected.compare(&found.rows)?;
        Ok(found)
    }
}

const MINUTE: i64 = 60_000_000;
const REGIONS: usize = 16;

/// How many pairs each region has in each minute, and how far the farthest are apart.
#[derive(Debug)]
struct Expected(Vec<[(i64, f64); REGIONS]>);

impl Expected {
    fn of(calls: impl Iterator<Item = Call>) -> Self {
        let mut minutes = Vec::new();
        for_each_pair(calls.filter(|call| call.duration >= 10), |call, distance| {
            if distance <= FAR {
                return;
            }
            let minute = (call.ts / MINUTE) as usize;
            if minute >= minutes.len() {
                minutes.resize(minute + 1, [(0, 0.0); REGIONS]);
            }
            let (pairs, farthest): &mut (i64, f64) = &mut minutes[minute][call.caller as usize / 100 % REGIONS];
            (*pairs, *farthest) = (*pairs + 1, farthest.max(distance));
        });
        Self(minutes)
    }

    /// Compares all of it with rows of window start, region, pairs and the farthest, which come in their order.
    fn compare(&self, found: &[RecordBatch]) -> Result<u64, String> {
        let mut expected = Vec::new();
        for (minute, regions) in self.0.iter().enumerate() {
            let rows = regions.iter().enumerate().filter(|(_, (pairs, _))| *pairs > 0);
            expected.extend(
                rows.map(|(region, (pairs, farthest))| (minute as i64 * MINUTE, region as i64, *pairs, *farthest)),
            );
        }
        let mut rows = Vec::new();
        for batch in found {
            let starts = batch.column(0).as_primitive::<TimestampMicrosecondType>();
            let [region, pairs] = [1, 2].map(|column| batch.column(column).as_primitive::<Int64Type>());
            let farthest = batch.column(3).as_primitive::<Float64Type>();
            rows.extend(
                (0..batch.num_rows())
                    .map(|row| (starts.value(row), region.value(row), pairs.value(row), farthest.value(row))),
            );
        }
        match rows == expected {
            true => Ok(rows.len() as u64),
            false => {
                let wrong = rows.iter().zip(&expected).find(|(found, expected)| found != expected);
                Err(format!(
                    "{} rows came out, {} must; the first that differ are {wrong:?}",
                    rows.len(),
                    expected.len()
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_has_eight_operators_and_each_strategy_gives_its_rows() {
        let stream = calls(20_000, 2, Keys::Uniform(10)).unwrap();
        let all = Rc::new(Expected::of(each(&stream)));
        let memory = Memory::default();
        memory.put("calls", stream).unwrap();
        let input = Input { memory, rows: 20_000, expected: all };
        for (strategy, stages) in STRATEGIES.into_iter().zip([5, 12, 5]) {
            let found = input.analyze(&settings(strategy, 2, "one")).unwrap();
            assert_eq!(found.stages.len(), stages, "{strategy}");
            assert!(found.metrics.exchanged_rows > 19_000, "{}", found.metrics.exchanged_rows);
            assert!(found.stages.iter().flat_map(|stage| &stage.instances).all(|work| *work > 0.0));
        }
        let mut wrong = input;
        wrong.expected = Rc::new(Expected(vec![[(1, 2.0); REGIONS]]));
        assert!(wrong.analyze("").err().unwrap().contains("must"));
    }
}
