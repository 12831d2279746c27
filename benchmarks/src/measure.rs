//! Runs a thing several times, and writes down what it took.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::machine::{Bandwidth, Stopwatch};

/// One line of the result.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// The family of measurements.
    pub workload: String,
    /// Which of the family.
    pub variant: String,
    /// What was asked and of what: the query, the input.
    pub parameters: Map<String, Value>,
    /// Rows of the input.
    pub rows: u64,
    /// The median time of a run.
    pub seconds: f64,
    /// CPU time of all threads, per million rows of the input.
    pub cpu_s_per_mrows: f64,
    /// Rows of the input a second.
    pub rows_per_s: f64,
    /// Bytes that must be read for a row.
    pub bytes_per_row: f64,
    /// The bytes read, as a share of what the cores that were used can read.
    pub share_of_bandwidth: f64,
    /// How many results were compared with what they must be.
    pub checked: u64,
}

/// What is to be measured.
pub struct Case<'a> {
    /// The family.
    pub workload: &'a str,
    /// Which of it.
    pub variant: String,
    /// What was asked and of what.
    pub parameters: Map<String, Value>,
    /// Rows of the input.
    pub rows: u64,
    /// Bytes that must be read for a row.
    pub bytes_per_row: f64,
    /// How many cores may be used.
    pub workers: usize,
}

/// What a run found out about its own result.
pub struct Checked(pub u64);

/// All measurements of this run.
pub struct Report {
    measurements: Vec<Measurement>,
    bandwidth: Bandwidth,
    quick: bool,
    only: String,
}

impl Report {
    /// An empty one; measures the machine.
    pub fn new(quick: bool, only: &str) -> Self {
        let bandwidth = Bandwidth::measure();
        println!(
            "this machine reads {:.1} GB/s with one core, {:.1} GB/s with all {}",
            bandwidth.one / 1e9,
            bandwidth.all / 1e9,
            crate::machine::cores()
        );
        println!(
            "{:<10} {:<34} {:>10} {:>14} {:>12} {:>10}",
            "workload", "variant", "M rows/s", "CPU s/M rows", "bytes a row", "bandwidth"
        );
        Self { measurements: Vec::new(), bandwidth, quick, only: only.to_string() }
    }

    /// Whether inputs should be small.
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// All measurements so far.
    pub fn measurements(&self) -> &[Measurement] {
        &self.measurements
    }

    /// Measures; `run` does it once, and fails if the result is not what it must be.
    pub fn measure(&mut self, case: Case<'_>, mut run: impl FnMut() -> Result<Checked, String>) -> Result<(), String> {
        if !case.variant.contains(&self.only) {
            return Ok(());
        }
        let wrong = |error| format!("{} {}: {error}", case.workload, case.variant);
        let Checked(mut checked) = run().map_err(wrong)?;
        let mut taken = Vec::new();
        for _ in 0..if self.quick { 3 } else { 7 } {
            let watch = Stopwatch::start();
            let result = run();
            taken.push(watch.stop());
            checked += result.map_err(wrong)?.0;
        }
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let seconds = median(taken.iter().map(|(seconds, _)| *seconds).collect());
        let cpu = median(taken.iter().map(|(_, cpu)| *cpu).collect());
        let rows_per_s = case.rows as f64 / seconds;
        let measurement = Measurement {
            workload: case.workload.to_string(),
            variant: case.variant,
            parameters: case.parameters,
            rows: case.rows,
            seconds,
            cpu_s_per_mrows: cpu / (case.rows as f64 / 1e6),
            rows_per_s,
            bytes_per_row: case.bytes_per_row,
            share_of_bandwidth: rows_per_s * case.bytes_per_row / self.bandwidth.of(case.workers),
            checked,
        };
        println!(
            "{:<10} {:<34} {:>10.1} {:>14.5} {:>12.1} {:>9.0}%",
            measurement.workload,
            measurement.variant,
            measurement.rows_per_s / 1e6,
            measurement.cpu_s_per_mrows,
            measurement.bytes_per_row,
            measurement.share_of_bandwidth * 100.0
        );
        self.measurements.push(measurement);
        Ok(())
    }
}

/// `{"query": "SELECT …", …}` from pairs.
pub fn parameters<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}
