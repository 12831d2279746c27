//! The join of StreamCloud's §IV-B: a user's calls within a minute, and how far they are apart in time and in space.

use arrow_array::{cast::AsArray, types::*};
use serde_json::json;
use thalweg::Memory;

use super::{
    INSTANCES, discard, engine,
    map::said,
    records::{BYTES, Call, calls, each},
};
use crate::{
    machine::cores,
    measure::{Case, Report, Run, count_is, parameters},
    stream::Keys,
};

const PARTITIONS: usize = 8;

const MINUTE: i64 = 60_000_000;

/// Each call with those that its caller ended in the minute before.
const QUERY: &str = "SELECT a.caller, a.ts, b.ts AS before, (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y) AS distance \
                     FROM calls a JOIN calls b ON a.caller = b.caller AND b.ts >= a.ts - INTERVAL '1' MINUTE AND b.ts < a.ts";

/// Of what it gives.
const COLUMNS: &str = "caller BIGINT, ts TIMESTAMP, before TIMESTAMP, distance DOUBLE";

/// Measures it in any number of instances.
pub fn run(report: &mut Report) -> Result<(), String> {
    let variant = |instances: usize| format!("join, {}", said(instances));
    let wanted: Vec<_> = INSTANCES.into_iter().filter(|instances| report.wants(&variant(*instances))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let rows = 1 << if report.is_quick() { 18 } else { 21 };
    let stream = calls(rows, PARTITIONS, Keys::Uniform(1_000))?;
    let expected = Expected::of(each(&stream));
    let memory = Memory::default();
    memory.put("calls", stream).map_err(|error| error.to_string())?;
    let cases = wanted.iter().map(|instances| {
        let settings = settings(*instances);
        let case = Case {
            workload: "calls",
            variant: variant(*instances),
            parameters: parameters([
                ("query", json!(QUERY)),
                (
                    "input",
                    json!("call description records in memory, in eight partitions, 10,000 a second of event time"),
                ),
                ("instances", json!(instances)),
                ("pairs", json!(expected.pairs)),
            ]),
            rows: rows as u64,
            // The columns that are asked for, of which both sides read all: caller, time, x and y.
            bytes_per_row: BYTES * 2.0 * 4.0 / 8.0,
            workers: (*instances).min(cores()),
            peak: None,
        };
        let (memory, pairs) = (&memory, expected.pairs);
        let run: Run<'_> = Box::new(move || Ok(count_is(discard(memory, &settings, COLUMNS, QUERY)?.rows_out, pairs)));
        (case, run)
    });
    report.measure_beside(cases.collect())?;
    wanted.into_iter().try_for_each(|instances| expected.check(&memory, instances))
}

fn settings(instances: usize) -> String {
    format!("SET 'parallelism' = '{instances}'; SET 'batch.rows' = '16384';")
}

/// Each pair of calls of one caller within a minute, as the later call and the square of their distance in kilometres, which is exact.
pub fn for_each_pair(calls: impl Iterator<Item = Call>, mut pair: impl FnMut(&Call, f64)) {
    let mut calls: Vec<Call> = calls.collect();
    calls.sort_by_key(|call| (call.caller, call.ts));
    for mine in calls.chunk_by(|left, right| left.caller == right.caller) {
        for (number, call) in mine.iter().enumerate() {
            let near = mine[..number].iter().rev().take_while(|before| before.ts >= call.ts - MINUTE);
            for before in near.filter(|before| before.ts < call.ts) {
                let (x, y) = (call.x - before.x, call.y - before.y);
                pair(call, x * x + y * y);
            }
        }
    }
}

/// What must come out, in numbers that are the same in any order.
#[derive(Debug, PartialEq)]
struct Expected {
    pairs: u64,
    callers: i64,
    /// In 64ths of a square kilometre.
    distances: i64,
}

impl Expected {
    fn of(calls: impl Iterator<Item = Call>) -> Self {
        let mut all = Self { pairs: 0, callers: 0, distances: 0 };
        for_each_pair(calls, |call, distance| {
            all.pairs += 1;
            all.callers += call.caller;
            all.distances += (distance * 64.0) as i64;
        });
        all
    }

    /// Compares the sums of what comes out.
    fn check(&self, memory: &Memory, instances: usize) -> Result<(), String> {
        let sums = format!("SELECT count(*), sum(caller), sum(CAST(distance * 64 AS BIGINT)) FROM ({QUERY})");
        let found = || engine(memory, &settings(instances))?.sql(&sums)?.next().transpose();
        let found = found().map_err(|error| error.to_string())?.ok_or("no sums came out")?;
        let [pairs, callers, distances] =
            [0, 1, 2].map(|column| found.column(column).as_primitive::<Int64Type>().value(0));
        let found = Self { pairs: pairs as u64, callers, distances };
        match found == *self {
            true => Ok(()),
            false => Err(format!("the sums of {instances} instances are {found:?}; they must be {self:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_caller_within_a_minute_are_pairs_and_wrong_sums_are_found() {
        let call = |caller, ts, x| Call { caller, called: 0, duration: 10, district: 0, x, y: 0.5, ts };
        let calls = [call(1, 0, 0.0), call(1, MINUTE, 3.0), call(2, 5, 0.0), call(1, MINUTE + 1, 0.5), call(1, 0, 1.0)];
        let mut pairs = Vec::new();
        for_each_pair(calls.into_iter(), |call, distance| pairs.push((call.ts, distance)));
        assert_eq!(pairs, [(MINUTE, 4.0), (MINUTE, 9.0), (MINUTE + 1, 6.25)]);

        let stream = super::calls(50_000, 2, Keys::Uniform(3)).unwrap();
        let mut expected = Expected::of(each(&stream));
        assert!(expected.pairs > 8_000, "{expected:?}");
        let memory = Memory::default();
        memory.put("calls", stream).unwrap();
        for instances in [1, 3] {
            expected.check(&memory, instances).unwrap();
        }
        expected.distances += 1;
        assert!(expected.check(&memory, 1).unwrap_err().contains("must be"));
    }
}
