//! Runs things several times, and writes down what they took.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    counters::Misses,
    machine::{Bandwidth, Stopwatch},
};

/// One line of the result.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// Bytes read a second.
    pub bytes_per_s: f64,
    /// The bytes read, as a share of what the cores that were used can read: the median of the shares run by run, each beside
    /// a reading of its own; where something ran once alone, beside the reading at the start.
    pub share_of_bandwidth: f64,
    /// Misses of the last level of caches, of all threads, for a row of the input: the median. Nothing where nobody counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_misses_per_row: Option<f64>,
    /// How many results were compared with what they must be.
    pub checked: u64,
    /// The same beside another measurement of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative: Option<Relative>,
    /// How long results took, where rows come at a rate of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latencies>,
    /// How late an idle loop woke meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_loop: Option<Latencies>,
    /// The most memory that it had at a time, where that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<Peak>,
}

/// The most memory that something had at a time, beside what must be in it; in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Peak {
    /// Taken from the system: by the pool of the pages; of another system, by its process.
    pub reserved: u64,
    /// In pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<u64>,
    /// What the pages that are open at a time take at most, full or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_pages: Option<u64>,
    /// The rows alone.
    pub rows: u64,
}

impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mega = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        write!(f, "peak {}", mega(self.reserved))?;
        if let Some(pages) = self.pages {
            write!(f, ", {} in pages", mega(pages))?;
        }
        if let Some(open) = self.open_pages {
            write!(f, ", open ones {} at most", mega(open))?;
        }
        write!(f, "; rows {}", mega(self.rows))
    }
}

/// A distribution of times in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Latencies {
    /// How many there were.
    pub count: u64,
    /// Half are no longer.
    pub p50_us: f64,
    /// 99 of 100 are no longer.
    pub p99_us: f64,
    /// 999 of 1,000 are no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Latencies {
    /// The distribution of these times; all are 0 of none.
    pub fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |thousandths: usize| {
            let place = (times.len() * thousandths).div_ceil(1_000).saturating_sub(1);
            times.get(place).copied().unwrap_or_default()
        };
        Self { count: times.len() as u64, p50_us: at(500), p99_us: at(990), p999_us: at(999), max_us: at(1_000) }
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, p999] = [self.p50_us, self.p99_us, self.p999_us].map(|us| us / 1e3);
        write!(f, "p50 {p50:.2} ms, p99 {p99:.2} ms, p99.9 {p999:.2} ms")
    }
}

/// A measurement that was taken while rows came at a rate of their own.
pub struct Paced {
    /// How long it took.
    pub seconds: f64,
    /// CPU time of all threads, in seconds.
    pub cpu: f64,
    /// How many values were compared with what they must be.
    pub checked: u64,
    /// How long results took.
    pub latencies: Latencies,
    /// How late an idle loop woke meanwhile.
    pub idle: Option<Latencies>,
}

/// What a simulation gave.
pub struct Simulated {
    /// How long it would take.
    pub seconds: f64,
    /// CPU time that was measured, in seconds.
    pub cpu: f64,
    /// How many values of the measured run were compared with what they must be.
    pub checked: u64,
}

/// One measurement beside another of the same run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Relative {
    /// The variant it stands beside.
    pub to: String,
    /// How many times its CPU time per row: the median of the ratios round by round, or, where one is of another system, the
    /// ratio of the medians.
    pub cpu: f64,
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
    /// Says when all runs are done what memory they had at most, if that is looked at.
    pub peak: Option<PeakOf<'a>>,
}

/// Says what memory something had at most.
pub type PeakOf<'a> = Box<dyn Fn() -> Peak + 'a>;

/// Does a case once, and leaves the check of the result for when the clocks have stopped.
pub type Run<'a> = Box<dyn FnMut() -> Result<Check<'a>, String> + 'a>;

/// Compares a result with what it must be; says how many values it compared.
pub type Check<'a> = Box<dyn FnOnce() -> Result<u64, String> + 'a>;

/// The check of a number of rows.
pub fn count_is<'a>(found: u64, expected: u64) -> Check<'a> {
    Box::new(move || match found == expected {
        true => Ok(1),
        false => Err(format!("{found} rows came out, {expected} must")),
    })
}

/// All measurements of this run.
pub struct Report {
    measurements: Vec<Measurement>,
    bandwidth: Bandwidth,
    quick: bool,
    only: String,
}

impl Report {
    /// An empty one; measures the machine.
    ///
    /// Errors: if there is no memory for that.
    pub fn new(quick: bool, only: &str) -> Result<Self, String> {
        let bandwidth = Bandwidth::measure()?;
        println!(
            "this machine reads {:.1} GB/s with one core, {:.1} GB/s with all {}",
            bandwidth.one / 1e9,
            bandwidth.all / 1e9,
            crate::machine::cores()
        );
        println!(
            "{:<13} {:<52} {:>10} {:>14} {:>12} {:>10} {:>10}",
            "workload", "variant", "M rows/s", "CPU s/M rows", "bytes a row", "MB/s", "bandwidth"
        );
        Ok(Self { measurements: Vec::new(), bandwidth, quick, only: only.to_string() })
    }

    /// Whether inputs should be small.
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// Whether a variant of this name is to be measured.
    pub fn wants(&self, variant: &str) -> bool {
        format!("^{variant}$").contains(&self.only)
    }

    /// All measurements so far.
    pub fn measurements(&self) -> &[Measurement] {
        &self.measurements
    }

    /// All measurements.
    pub fn into_measurements(self) -> Vec<Measurement> {
        self.measurements
    }

    /// Measures one case.
    ///
    /// Errors: what the case gives, or what is wrong with its result.
    pub fn measure<'a>(&mut self, case: Case<'a>, run: Run<'a>) -> Result<(), String> {
        self.measure_beside(vec![(case, run)])
    }

    /// Measures several cases in turn, round by round, so that what else the machine does falls on all of them; each is
    /// compared with the first.
    ///
    /// Errors: what a case gives, or what is wrong with its result.
    pub fn measure_beside(&mut self, mut cases: Vec<(Case<'_>, Run<'_>)>) -> Result<(), String> {
        cases.retain(|(case, _)| self.wants(&case.variant));
        let mut taken = vec![Taken::default(); cases.len()];
        // The first round warms up, and does not count.
        for round in 0..=if self.quick { 3 } else { 7 } {
            for ((case, run), taken) in cases.iter_mut().zip(&mut taken) {
                let wrong = |error| format!("{} {}: {error}", case.workload, case.variant);
                let (misses, watch) = (Misses::start(), Stopwatch::start());
                let check = run().map_err(wrong)?;
                let (seconds, cpu) = watch.stop();
                let misses = misses.and_then(Misses::stop);
                taken.checked += check().map_err(wrong)?;
                if round > 0 {
                    taken.seconds.push(seconds);
                    taken.bandwidth.push(self.bandwidth.now(case.workers));
                    taken.cpu.push(cpu / (case.rows as f64 / 1e6));
                    taken.misses.extend(misses.map(|misses| misses as f64 / case.rows as f64));
                }
            }
        }
        let base = cases.first().map(|(case, _)| case.variant.clone()).unwrap_or_default();
        for (number, ((case, _), mine)) in cases.into_iter().zip(&taken).enumerate() {
            let ratios = mine.cpu.iter().zip(&taken[0].cpu).map(|(cpu, base)| cpu / base);
            let relative = (number > 0).then(|| Relative { to: base.clone(), cpu: median(ratios.collect()) });
            self.add(case, mine, relative);
        }
        Ok(())
    }

    /// Adds what another system took, beside one of ours: its variant, and its CPU time per million rows.
    pub fn add_beside(&mut self, case: Case<'_>, taken: &Taken, ours: Option<(String, f64)>) {
        let cpu = median(taken.cpu.clone());
        self.add(case, taken, ours.map(|(to, ours)| Relative { to, cpu: cpu / ours }));
    }

    /// Adds what was measured while rows came at a rate of their own.
    pub fn add_paced(&mut self, case: Case<'_>, paced: Paced) {
        let cpu = paced.cpu / (case.rows as f64 / 1e6);
        let (seconds, cpu) = (vec![paced.seconds], vec![cpu]);
        let taken = Taken { seconds, cpu, checked: paced.checked, ..Taken::default() };
        let mut measurement = self.measurement(case, &taken);
        measurement.latency = Some(paced.latencies).filter(|latencies| latencies.count > 0);
        measurement.idle_loop = paced.idle;
        self.push(measurement);
    }

    /// Adds what was simulated, whose variant says so.
    pub fn add_simulated(&mut self, case: Case<'_>, simulated: Simulated) {
        let Simulated { seconds, cpu, checked } = simulated;
        let cpu = cpu / (case.rows as f64 / 1e6);
        self.add(case, &Taken { seconds: vec![seconds], cpu: vec![cpu], checked, ..Taken::default() }, None);
    }

    /// Adds to a measurement what else was found out about it, and says so.
    pub fn note(&mut self, variant: &str, more: Map<String, Value>, said: &str) {
        println!("{:<13} {variant:<52} {said}", "");
        if let Some(measurement) = self.measurements.iter_mut().rev().find(|one| one.variant == variant) {
            measurement.parameters.extend(more);
        }
    }

    fn add(&mut self, case: Case<'_>, taken: &Taken, relative: Option<Relative>) {
        let mut measurement = self.measurement(case, taken);
        measurement.relative = relative;
        self.push(measurement);
    }

    fn push(&mut self, measurement: Measurement) {
        measurement.print();
        self.measurements.push(measurement);
    }

    fn measurement(&self, case: Case<'_>, taken: &Taken) -> Measurement {
        let seconds = median(taken.seconds.clone());
        let rows_per_s = case.rows as f64 / seconds;
        let bytes = case.rows as f64 * case.bytes_per_row;
        let shares = taken.seconds.iter().zip(&taken.bandwidth).map(|(seconds, most)| bytes / seconds / most);
        let share_of_bandwidth = match taken.bandwidth.is_empty() {
            true => bytes / seconds / self.bandwidth.of(case.workers),
            false => median(shares.collect()),
        };
        Measurement {
            workload: case.workload.to_string(),
            variant: case.variant,
            parameters: case.parameters,
            rows: case.rows,
            seconds,
            cpu_s_per_mrows: median(taken.cpu.clone()),
            rows_per_s,
            bytes_per_row: case.bytes_per_row,
            bytes_per_s: rows_per_s * case.bytes_per_row,
            share_of_bandwidth,
            cache_misses_per_row: (!taken.misses.is_empty()).then(|| median(taken.misses.clone())),
            checked: taken.checked,
            relative: None,
            latency: None,
            idle_loop: None,
            peak: case.peak.map(|peak| peak()),
        }
    }
}

/// What the runs of one case took.
#[derive(Clone, Default)]
pub struct Taken {
    /// Each run's time.
    pub seconds: Vec<f64>,
    /// Each run's CPU time per million rows.
    pub cpu: Vec<f64>,
    /// What its cores could read just behind each run; empty if that was not measured.
    pub bandwidth: Vec<f64>,
    /// Misses of the last level of caches for a row of the input, of each run in which they were counted.
    pub misses: Vec<f64>,
    /// How many values were compared with what they must be, in all runs.
    pub checked: u64,
}

impl Measurement {
    fn print(&self) {
        let mut more = match &self.relative {
            Some(Relative { to, cpu }) => format!("   {cpu:.2} x the CPU time of \"{to}\""),
            None => String::new(),
        };
        if let Some(misses) = self.cache_misses_per_row {
            more += &format!("   {misses:.3} cache misses a row");
        }
        if let Some(latency) = &self.latency {
            more += &format!("   {latency}");
        }
        if let Some(idle) = &self.idle_loop {
            more += &format!(" (idle loop: {idle})");
        }
        if let Some(peak) = &self.peak {
            more += &format!("   {peak}");
        }
        println!(
            "{:<13} {:<52} {:>10.2} {:>14.5} {:>12.1} {:>10.0} {:>9.1}%{more}",
            self.workload,
            self.variant,
            self.rows_per_s / 1e6,
            self.cpu_s_per_mrows,
            self.bytes_per_row,
            self.bytes_per_s / 1e6,
            self.share_of_bandwidth * 100.0
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// `{"query": "SELECT …", …}` from pairs.
pub fn parameters<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// What a measurement of interval joins may look like, for tests of what is drawn of them.
#[cfg(test)]
pub fn measured(variant: String, parameters: Map<String, Value>) -> Measurement {
    Measurement {
        workload: "interval-join".into(),
        variant,
        parameters,
        rows: 1,
        seconds: 1.0,
        cpu_s_per_mrows: 0.25,
        rows_per_s: 1.0,
        bytes_per_row: 24.0,
        bytes_per_s: 24.0,
        share_of_bandwidth: 0.5,
        cache_misses_per_row: None,
        checked: 1,
        relative: None,
        latency: None,
        idle_loop: None,
        peak: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let latencies = Latencies::of((1..=1_000).rev().map(f64::from).collect());
        assert_eq!([latencies.p50_us, latencies.p99_us, latencies.p999_us], [500.0, 990.0, 999.0]);
        assert_eq!((latencies.max_us, latencies.count), (1_000.0, 1_000));
        let one = Latencies::of(vec![7.0]);
        assert_eq!([one.p50_us, one.p999_us, one.max_us], [7.0; 3]);
        assert_eq!(Latencies::of(Vec::new()).max_us, 0.0);
    }
}
