//! Apache Flink's interval join beside the engine: the pairs of each base row, summed up.

use serde_json::json;

use super::{
    expected::Mode,
    way::{ENGINE, Way},
    workload::{BYTES, Hot, Keys, Workload},
};
use crate::{machine::cores, measure::parameters, peers::Job};

/// The workloads, and how many rows of both streams Flink gets. It makes a pair of each row and each that it sees, and looks at all rows of the key
/// that are kept for that: it takes minutes for a million rows of A, and more the more are kept. Of B and C it gets so few that none is out of reach
/// again by their end. There a row costs it less than later: a window of B has 900 rows on average, and not 6,000, and of C it looks at 2,200 rows,
/// and not at 10,000.
const ROWS: [(&str, u64); 7] = [
    ("A", 400_000),
    ("B", 400_000),
    ("C", 400_000),
    ("D", 200_000),
    ("default", 2_000_000),
    ("table V", 5_000_000),
    ("hot keys", 4_000_000),
];

/// Flink's jobs.
pub fn jobs() -> Vec<Job> {
    let of = |(name, rows): (&str, u64)| {
        let workload = Workload::all().into_iter().find(|workload| workload.name == name)?;
        Some(job(&workload, rows))
    };
    ROWS.into_iter().filter_map(of).collect()
}

fn job(workload: &Workload, rows: u64) -> Job {
    let [hot, percent, period] = match workload.keys {
        Keys::Uniform(_) => [0; 3],
        Keys::Hot(Hot { hot, percent, period, .. }) => [i64::from(hot), i64::from(percent), period],
    };
    let numbers = [i64::from(workload.keys.count()), workload.window, workload.lateness, hot, percent, period];
    // Each stream has a row in a unit of event time.
    let is_full = (rows / 2) as i64 > workload.window + workload.lateness;
    let first = if is_full { String::new() } else { format!(", first {} k rows", rows / 1_000) };
    Job {
        workload: "interval-join",
        variant: format!("{}, Flink, Java{first}", workload.name),
        job: "interval-join",
        numbers: numbers.map(|number| number as usize).into(),
        query: "base.keyBy(key).intervalJoin(probe.keyBy(key)).between(-window, 0).process(pair), and the sum of the pairs of each base row".into(),
        input: "24-byte rows of both streams in turn, out of order and none late".into(),
        parameters: parameters([
            ("keys", json!(numbers[0])),
            ("window_us", json!(workload.window)),
            ("lateness_us", json!(workload.lateness)),
            ("is_window_full", json!(is_full)),
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
        let [b, c] = ["B", "C"].map(|name| format!("{name}, Flink, Java, first 400 k rows"));
        let others = ["D", "default", "table V", "hot keys"].map(|name| format!("{name}, Flink, Java"));
        assert_eq!(variants[..3], ["A, Flink, Java".to_string(), b, c]);
        assert_eq!(variants[3..], others);
    }

    #[test]
    fn only_hot_keys_are_told_of() {
        let numbers = |name: &str| jobs().into_iter().find(|job| job.variant.starts_with(name)).map(|job| job.numbers);
        assert_eq!(numbers("table V"), Some(vec![1_000, 100, 10, 0, 0, 0]));
        assert_eq!(numbers("hot keys"), Some(vec![10_000, 1_000, 100, 100, 80, 20_000]));
    }
}
