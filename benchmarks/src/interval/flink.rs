//! Apache Flink's interval join beside the engine: the pairs of each base row, summed up.

use serde_json::json;

use super::{
    expected::Mode,
    way::{ENGINE, Way},
    workload::{BYTES, Workload},
};
use crate::{machine::cores, measure::parameters, peers::Job};

/// The workloads, and how many rows of both streams Flink gets. It makes a pair of each row and each that it sees, and takes minutes for a million rows of A.
const ROWS: [(&str, u64); 3] = [("A", 200_000), ("default", 2_000_000), ("table V", 5_000_000)];

/// Flink's jobs.
pub fn jobs() -> Vec<Job> {
    let of = |(name, rows): (&str, u64)| {
        let workload = Workload::all().into_iter().find(|workload| workload.name == name)?;
        Some(job(&workload, rows))
    };
    ROWS.into_iter().filter_map(of).collect()
}

fn job(workload: &Workload, rows: u64) -> Job {
    let numbers = [i64::from(workload.keys.count()), workload.window, workload.lateness];
    Job {
        workload: "interval-join",
        variant: format!("{}, Flink, Java", workload.name),
        job: "interval-join",
        numbers: numbers.map(|number| number as usize).into(),
        query: "base.keyBy(key).intervalJoin(probe.keyBy(key)).between(-window, 0).process(pair), and the sum of the pairs of each base row".into(),
        input: "24-byte rows of both streams in turn, out of order".into(),
        parameters: parameters([
            ("keys", json!(numbers[0])),
            ("window_us", json!(workload.window)),
            ("lateness_us", json!(workload.lateness)),
        ]),
        rows,
        row_bytes: BYTES as usize,
        bytes_per_row: BYTES,
        beside: Way::of_engine(ENGINE, cores(), Mode::Final).called(workload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_workload_is_known() {
        let variants: Vec<String> = jobs().into_iter().map(|job| job.variant).collect();
        assert_eq!(variants, ["A, Flink, Java", "default, Flink, Java", "table V, Flink, Java"]);
    }
}
