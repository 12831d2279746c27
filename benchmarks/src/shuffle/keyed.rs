//! The same question to Apache Flink: rows to the subtasks behind a `keyBy`, where they are counted.

use serde_json::json;
use thalweg_shuffle::scatter::variant::Variant;

use super::{Options, rows::Kind};
use crate::{
    machine::cores,
    measure::{Report, parameters},
    peers::Job,
};

/// Partitions are subtasks up to here. Where there are more, keys are partitions, and there is a subtask for each core: a
/// thousand subtasks are a thousand Java threads, each with a buffer for each sender.
const MOST_SUBTASKS: usize = 32;

/// The jobs for the rows and partitions of these options, beside what was measured of ours with all cores.
pub fn jobs(options: &Options, report: &Report) -> Vec<Job> {
    let kinds = options.row_bytes.iter().filter_map(|kind| match kind {
        // A byte array of Java has a length of its own: the rows are those of a fixed length.
        Kind::Fixed(more) => Some((*kind, 4 + more)),
        Kind::Any(_) | Kind::Text => None,
    });
    kinds.flat_map(|(kind, bytes)| options.partitions.iter().map(move |to| job(kind, bytes, *to, report))).collect()
}

fn job(kind: Kind, row_bytes: usize, partitions: usize, report: &Report) -> Job {
    let is_subtasks = partitions <= MOST_SUBTASKS;
    let subtasks = if is_subtasks { partitions } else { cores() };
    let key = if is_subtasks { "row -> row.key".into() } else { format!("row -> row.key % {partitions}") };
    let beside = |name: &str| {
        let parameters = [("variant", json!(name)), ("row_bytes", json!(kind.to_string()))];
        let numbers = [("partitions", json!(partitions)), ("threads", json!(cores()))];
        let wanted = [parameters, numbers].concat();
        let is_it = |all: &serde_json::Map<_, _>| wanted.iter().all(|(name, value)| all.get(*name) == Some(value));
        let found = report.measurements().iter().find(|one| one.workload == "shuffle" && is_it(&one.parameters));
        found.map(|one| one.variant.clone())
    };
    Job {
        workload: "shuffle",
        variant: format!("{row_bytes} B, {partitions} partitions, Flink, keyBy to {subtasks} subtasks"),
        job: "keyed",
        numbers: vec![row_bytes, partitions, subtasks],
        query: format!("keyBy({key}), rows counted by {subtasks} subtasks"),
        input: format!("{row_bytes}-byte rows, uniform keys"),
        parameters: parameters([
            ("variant", json!("Flink keyBy")),
            ("row_bytes", json!(kind.to_string())),
            ("partitions", json!(partitions)),
            ("threads", json!(cores())),
            ("subtasks", json!(subtasks)),
        ]),
        rows: 10_000_000,
        row_bytes,
        // As for ours: read once and written once.
        bytes_per_row: 2.0 * row_bytes as f64,
        beside: beside(Variant::BufferedLockFreeBatched.name()).unwrap_or_default(),
    }
}
