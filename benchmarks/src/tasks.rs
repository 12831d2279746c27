//! What each task of a query takes, and which tasks it waits for: from a run in which that is measured.

use arrow_array::RecordBatch;
use serde_json::Value;
use thalweg::{Engine, ExplainFormat, Metrics, engine::explain_parallel};

use crate::machine::Stopwatch;

/// A run in which the time of each task was measured.
pub struct Analysis {
    /// Each subquery, behind those whose rows it takes.
    pub stages: Vec<Stage>,
    /// What the query counted.
    pub metrics: Metrics,
    /// What came out.
    pub rows: Vec<RecordBatch>,
    /// How long it took.
    pub seconds: f64,
    /// CPU time of all threads, in seconds.
    pub cpu: f64,
}

/// A subquery.
pub struct Stage {
    /// CPU seconds of each instance.
    pub instances: Vec<f64>,
    /// Whose rows it takes.
    pub inputs: Vec<Input>,
}

/// Where rows come from.
#[derive(Clone, Copy)]
pub struct Input {
    /// The stage of the senders.
    pub from: usize,
    /// Whether each instance takes the rows of the one with its number, and not of all.
    pub is_forward: bool,
}

/// Runs a query, and measures its tasks.
///
/// The turns of a task are measured by the clock, in which a thread may have waited for a core: there are as many workers as instances. So
/// the CPU time of the process is shared out in proportion to them.
///
/// Errors: what the query gives.
pub fn analyze(engine: &mut Engine, query: &str) -> Result<Analysis, String> {
    let told = |error: thalweg::Error| error.to_string();
    let statements = engine.parse(query).map_err(told)?;
    let [statement] = &statements[..] else { return Err("one query is measured at a time".to_string()) };
    let plan = engine.plan(statement).map_err(told)?.ok_or("only a query has tasks")?;
    let watch = Stopwatch::start();
    let mut running = engine.analyze(&plan).map_err(told)?;
    let rows = running.by_ref().collect::<thalweg::Result<Vec<_>>>().map_err(told)?;
    let (seconds, cpu) = watch.stop();
    let metrics = running.metrics();
    let explained: Value =
        serde_json::from_str(&explain_parallel(&plan, ExplainFormat::Json)).map_err(|error| error.to_string())?;
    let busy: f64 = metrics.tasks.iter().map(|task| task.busy.as_secs_f64()).sum();
    let subqueries = explained["subqueries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stage = |(number, subquery): (usize, &Value)| {
        let mine = metrics.tasks.iter().filter(|task| task.subquery == number);
        let inputs = subquery["inputs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let input = |input: &Value| {
            let from = input["from"].as_u64().ok_or("an input does not say where it is from")?;
            Ok(Input { from: from as usize, is_forward: input["route"] == "forward" })
        };
        Ok::<_, String>(Stage {
            instances: mine.map(|task| task.busy.as_secs_f64() / busy * cpu).collect(),
            inputs: inputs.iter().map(input).collect::<Result<_, String>>()?,
        })
    };
    let stages = subqueries.iter().enumerate().map(stage).collect::<Result<_, _>>()?;
    Ok(Analysis { stages, metrics, rows, seconds, cpu })
}

/// The part of so many processors that is left idle where rows come as fast as the busiest can take them, and each stage has the number
/// of them that suits it best: what is unused because no stage has a fraction of one.
///
/// Source: Gulisano et al., "StreamCloud", §IV-C and figure 9.
pub fn idle(stages: &[Stage], processors: usize) -> f64 {
    let work: Vec<f64> = stages.iter().map(|stage| stage.instances.iter().sum()).collect();
    let mut counts = vec![1; work.len()];
    let busiest = |counts: &[usize]| {
        let each = work.iter().zip(counts).map(|(work, count)| work / *count as f64).enumerate();
        each.max_by(|left, right| left.1.total_cmp(&right.1)).unwrap_or_default()
    };
    for _ in work.len()..processors {
        let (stage, _) = busiest(&counts);
        counts[stage] += 1;
    }
    let all = work.len().max(processors) as f64;
    let (_, most) = busiest(&counts);
    if most == 0.0 { 0.0 } else { 1.0 - work.iter().sum::<f64>() / (most * all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_what_is_left_by_stages_that_have_no_fraction_of_a_processor() {
        let stage = |instances: &[f64]| Stage { instances: instances.to_vec(), inputs: vec![] };
        let stages = [stage(&[4.0, 2.0]), stage(&[2.0])];
        // 6 and 2: with three processors 3, 3 and 2; with four 2 each.
        for (processors, expected) in [(1, 1.0 - 8.0 / 12.0), (2, 1.0 - 8.0 / 12.0), (3, 1.0 - 8.0 / 9.0), (4, 0.0)] {
            let found = idle(&stages, processors);
            assert!((found - expected).abs() < 1e-9, "{processors} processors: {found}");
        }
    }
}
