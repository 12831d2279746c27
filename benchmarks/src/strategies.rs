//! A query of eight operators in StreamCloud's three strategies (§IV-C): what they cost, what crosses exchanges, what is left idle.
//!
//! ```text
//!   Filter ─ Map ─ Aggregate ─ Filter ─ Map ─ Aggregate ─ Map ─ Aggregate
//!   calls that last; seconds     by caller     those who call often; by block     by region
//! ```
//!
//! The paper's query has a join where the first aggregate is here, and its drawing (figure 8) does not say more than that.

use std::rc::Rc;

use arrow_array::{RecordBatch, cast::AsArray, types::*};
use serde_json::json;
use thalweg::{Memory, Metrics};

use crate::{
    calls::{
        engine,
        records::{BYTES, Call, NUMBERS, calls, each},
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

/// Three aggregates over different keys: none can be fused with the one before.
pub const QUERY: &str = "SELECT window_start, region, sum(seconds) AS seconds, max(most) AS most FROM (
  SELECT window_start, window_end, block % 16 AS region, seconds, most FROM (
    SELECT window_start, window_end, block, sum(seconds) AS seconds, max(calls) AS most FROM (
      SELECT window_start, window_end, caller / 100 AS block, seconds, calls FROM (
        SELECT window_start, window_end, caller, sum(seconds) AS seconds, count(*) AS calls
        FROM TUMBLE((SELECT ts, caller, duration + 1 AS seconds FROM calls WHERE duration >= 10), ts, INTERVAL '1' MINUTE)
        GROUP BY window_start, window_end, caller
      ) WHERE calls > 1
    ) GROUP BY window_start, window_end, block
  )
) GROUP BY window_start, window_end, region";

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
                bytes_per_row: BYTES * 3.0 / 8.0,
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
pub fn settings(strategy: &str, instances: usize, phases: &str) -> String {
    format!(
        "SET 'parallel.strategy' = '{strategy}'; SET 'parallelism' = '{instances}'; SET 'aggregate.phases' = '{phases}';
         SET 'batch.rows' = '16384';"
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

/// The seconds of each region in each minute, and the most calls of a caller; 0 calls where there is no row.
#[derive(Debug)]
struct Expected(Vec<[(i64, i64); REGIONS]>);

impl Expected {
    fn of(calls: impl Iterator<Item = Call>) -> Self {
        let mut callers: Vec<Vec<(i64, i64)>> = Vec::new();
        for call in calls.filter(|call| call.duration >= 10) {
            let minute = (call.ts / MINUTE) as usize;
            if minute >= callers.len() {
                callers.resize(minute + 1, vec![(0, 0); NUMBERS as usize]);
            }
            let (seconds, count) = &mut callers[minute][call.caller as usize];
            (*seconds, *count) = (*seconds + call.duration + 1, *count + 1);
        }
        let minute = |callers: Vec<(i64, i64)>| {
            let mut regions = [(0, 0); REGIONS];
            for (caller, (seconds, count)) in callers.into_iter().enumerate().filter(|(_, (_, count))| *count > 1) {
                let (sum, most) = &mut regions[caller / 100 % REGIONS];
                (*sum, *most) = (*sum + seconds, count.max(*most));
            }
            regions
        };
        Self(callers.into_iter().map(minute).collect())
    }

    /// Compares all of it with rows of window start, region, seconds and most calls, which come in their order.
    fn compare(&self, found: &[RecordBatch]) -> Result<u64, String> {
        let mut expected = Vec::new();
        for (minute, regions) in self.0.iter().enumerate() {
            let rows = regions.iter().enumerate().filter(|(_, (_, most))| *most > 0);
            expected.extend(rows.map(|(region, (sum, most))| [minute as i64 * MINUTE, region as i64, *sum, *most]));
        }
        let mut rows = Vec::new();
        for batch in found {
            let starts = batch.column(0).as_primitive::<TimestampMicrosecondType>();
            let [region, sum, most] = [1, 2, 3].map(|column| batch.column(column).as_primitive::<Int64Type>());
            rows.extend(
                (0..batch.num_rows())
                    .map(|row| [starts.value(row), region.value(row), sum.value(row), most.value(row)]),
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
        for (strategy, stages) in STRATEGIES.into_iter().zip([5, 11, 5]) {
            let found = input.analyze(&settings(strategy, 2, "one")).unwrap();
            assert_eq!(found.stages.len(), stages, "{strategy}");
            assert!(found.metrics.exchanged_rows > 19_000, "{}", found.metrics.exchanged_rows);
            assert!(found.stages.iter().flat_map(|stage| &stage.instances).all(|work| *work > 0.0));
        }
        let mut wrong = input;
        wrong.expected = Rc::new(Expected(vec![[(1, 2); REGIONS]]));
        assert!(wrong.analyze("").err().unwrap().contains("must"));
    }
}
