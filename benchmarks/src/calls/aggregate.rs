//! The aggregate of StreamCloud's §IV-B: the number of calls and their average duration per district, over a minute, every ten seconds.

use std::rc::Rc;

use arrow_array::{Array, RecordBatch, cast::AsArray, types::*};
use serde_json::json;
use thalweg::Memory;

use super::{
    INSTANCES, engine,
    map::said,
    records::{BYTES, Call, calls, each},
};
use crate::{
    machine::cores,
    measure::{Case, Report, Run, parameters},
    stream::Keys,
};

const PARTITIONS: usize = 8;
const DISTRICTS: [Keys; 2] = [Keys::Uniform(1_000), Keys::Zipf(1_000)];

const SLIDE: i64 = 10_000_000;
const OVERLAP: i64 = 6;

const QUERY: &str = "SELECT window_start, district, count(*) AS calls, avg(duration) AS duration \
                     FROM HOP(calls, ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, district";

/// Measures it in any number of instances, in one phase and in two.
pub fn run(report: &mut Report) -> Result<(), String> {
    for districts in DISTRICTS {
        let variant = |instances: usize, phases: &str| match instances {
            1 => format!("aggregate, districts: {districts}, 1 instance"),
            _ => format!("aggregate, districts: {districts}, {}, phases: {phases}", said(instances)),
        };
        let cases: Vec<_> = INSTANCES
            .into_iter()
            .flat_map(|instances| ["two", "one"].map(|phases| (instances, phases)))
            .filter(|case| *case != (1, "one") && report.wants(&variant(case.0, case.1)))
            .collect();
        if cases.is_empty() {
            continue;
        }
        let rows = 1 << if report.is_quick() { 20 } else { 23 };
        let stream = calls(rows, PARTITIONS, districts)?;
        let expected = Rc::new(Expected::of(each(&stream), districts.count()));
        let memory = Memory::default();
        memory.put("calls", stream).map_err(|error| error.to_string())?;
        let measured = cases.into_iter().map(|(instances, phases)| {
            let settings = format!(
                "SET 'parallelism' = '{instances}'; SET 'aggregate.phases' = '{phases}'; SET 'batch.rows' = '16384';"
            );
            let case = Case {
                workload: "calls",
                variant: variant(instances, phases),
                parameters: parameters([
                    ("query", json!(QUERY)),
                    (
                        "input",
                        json!("call description records in memory, in eight partitions, 10,000 a second of event time"),
                    ),
                    ("districts", json!(districts.to_string())),
                    ("instances", json!(instances)),
                    ("aggregate.phases", json!(phases)),
                    ("rows_out", json!(expected.rows())),
                ]),
                rows: rows as u64,
                // The columns that are asked for: district, duration, time.
                bytes_per_row: BYTES * 3.0 / 8.0,
                workers: instances.min(cores()),
                peak: None,
            };
            let (memory, expected) = (&memory, Rc::clone(&expected));
            let run: Run<'_> = Box::new(move || {
                let found = || engine(memory, &settings)?.sql(QUERY)?.collect::<thalweg::Result<Vec<_>>>();
                let found = found().map_err(|error| error.to_string())?;
                let expected = Rc::clone(&expected);
                Ok(Box::new(move || expected.compare(&found)))
            });
            (case, run)
        });
        report.measure_beside(measured.collect())?;
    }
    Ok(())
}

/// The number of calls and the sum of their durations, by window and district.
struct Expected {
    districts: usize,
    cells: Vec<(i64, i64)>,
}

impl Expected {
    /// Calls begin at time 0, so that the first window does so many slides before.
    fn of(calls: impl Iterator<Item = Call>, districts: usize) -> Self {
        let mut cells = Vec::new();
        for call in calls {
            for window in call.ts / SLIDE..call.ts / SLIDE + OVERLAP {
                let place = window as usize * districts + call.district as usize;
                if place >= cells.len() {
                    cells.resize((window as usize + 1) * districts, (0, 0));
                }
                let (count, sum): &mut (i64, i64) = &mut cells[place];
                (*count, *sum) = (*count + 1, *sum + call.duration);
            }
        }
        Self { districts, cells }
    }

    fn rows(&self) -> u64 {
        self.cells.iter().filter(|(count, _)| *count > 0).count() as u64
    }

    /// Compares all of it with rows of window start, district, calls and average; says how many there were.
    fn compare(&self, found: &[RecordBatch]) -> Result<u64, String> {
        let mut seen = vec![false; self.cells.len()];
        for batch in found {
            let starts = batch.column(0).as_primitive::<TimestampMicrosecondType>();
            let [districts, counts] = [1, 2].map(|column| batch.column(column).as_primitive::<Int64Type>());
            let averages = batch.column(3).as_primitive::<Float64Type>();
            for row in 0..batch.num_rows() {
                let (start, district) = (starts.value(row), districts.value(row));
                let (count, average) = (counts.value(row), averages.value(row));
                let window = start / SLIDE + OVERLAP - 1;
                let place = window as usize * self.districts + district as usize;
                let (calls, sum) = self.cells.get(place).copied().unwrap_or_default();
                let is_right = calls > 0 && count == calls && average == sum as f64 / calls as f64;
                if averages.is_null(row) || start % SLIDE != 0 || !is_right || std::mem::replace(&mut seen[place], true)
                {
                    return Err(format!(
                        "{count} calls of {average} s at {start} in {district}: not {calls} of {sum} s together, or twice"
                    ));
                }
            }
        }
        let (found, rows) = (seen.iter().filter(|seen| **seen).count() as u64, self.rows());
        if found == rows { Ok(rows) } else { Err(format!("{found} rows came out, {rows} must")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_in_the_six_windows_that_it_ends_in_and_a_wrong_row_is_found() {
        let stream = calls(250_000, 1, Keys::Uniform(3)).unwrap();
        let expected = Expected::of(each(&stream), 3);
        let (all, ones) =
            expected.cells.iter().fold((0, 0), |(all, ones), (count, _)| (all + count, ones + i64::from(*count > 0)));
        // Twenty-five seconds are in three slides, and eight windows see some of them.
        assert_eq!((all, ones as u64), (6 * 250_000, 8 * 3));
        let memory = Memory::default();
        memory.put("calls", stream).unwrap();
        let found: Vec<_> = engine(&memory, "").unwrap().sql(QUERY).unwrap().map(Result::unwrap).collect();
        assert_eq!(expected.compare(&found), Ok(24));
        assert!(expected.compare(&[&found[..], &found[..1]].concat()).is_err());
        assert!(expected.compare(&found[..0]).unwrap_err().contains("0 rows came out, 24 must"));
        let mut other = expected;
        other.cells[4].1 += 1;
        assert!(other.compare(&found).unwrap_err().contains("not"));
    }
}
