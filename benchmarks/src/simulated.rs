//! How far would a query scale on more cores? A simulation, of tasks whose CPU time is measured on the cores there are.
//!
//! For each number of instances the tasks are measured, and scheduled on as many simulated cores; and on as many as there are, to
//! be compared with what that took.

use serde_json::json;

use crate::{
    calls::records::BYTES,
    lines::{Line, Panel, Picture},
    machine::cores,
    makespan::makespan,
    measure::{Case, Measurement, Report, Simulated, parameters},
    strategies::{Input, QUERY, settings},
};

const INSTANCES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Strategies, and phases of aggregates.
const HOWS: [(&str, &str); 3] = [("subquery-cluster", "auto"), ("subquery-cluster", "one"), ("query-cluster", "one")];

/// How often tasks are measured; the run that took the least CPU time counts, which others disturbed least.
const RUNS: usize = 3;

/// Simulates the query of eight operators on 1 to 64 cores.
pub fn run(report: &mut Report) -> Result<(), String> {
    let variant = |strategy: &str, phases: &str, instances: usize| {
        format!("SIMULATED, {strategy}, phases: {phases}, {instances} cores")
    };
    let wants = |report: &Report, (strategy, phases): (&str, &str)| {
        INSTANCES.iter().any(|instances| report.wants(&variant(strategy, phases, *instances)))
    };
    if !HOWS.iter().any(|how| wants(report, *how)) {
        return Ok(());
    }
    // A source has no more instances than partitions.
    let input = Input::new(report.is_quick(), 64)?;
    for (strategy, phases) in HOWS {
        for instances in INSTANCES {
            if !report.wants(&variant(strategy, phases, instances)) {
                continue;
            }
            let settings = settings(strategy, instances, phases);
            let mut runs = (0..RUNS).map(|_| input.analyze(&settings)).collect::<Result<Vec<_>, _>>()?;
            runs.sort_by(|left, right| left.cpu.total_cmp(&right.cpu));
            let best = runs.swap_remove(0);
            let seconds = makespan(&best.stages, instances);
            let (here, real) = (makespan(&best.stages, cores()), best.seconds);
            let case = Case {
                workload: "simulated",
                variant: variant(strategy, phases, instances),
                parameters: parameters([
                    ("query", json!(QUERY)),
                    ("simulation", json!("list scheduling of tasks whose CPU time was measured")),
                    ("parallel.strategy", json!(strategy)),
                    ("aggregate.phases", json!(phases)),
                    ("cores", json!(instances)),
                    ("simulated_seconds_on_the_cores_there_are", json!(here)),
                    ("measured_seconds_on_the_cores_there_are", json!(real)),
                ]),
                rows: input.rows,
                bytes_per_row: BYTES * 5.0 / 8.0,
                workers: cores(),
                peak: None,
            };
            let name = case.variant.clone();
            report.add_simulated(
                case,
                Simulated {
                    seconds,
                    cpu: best.cpu,
                    checked: best.rows.iter().map(|rows| rows.num_rows() as u64).sum(),
                },
            );
            let said = format!("on {} cores: simulated {here:.3} s, measured {real:.3} s", cores());
            report.note(&name, parameters([]), &said);
        }
    }
    Ok(())
}

/// What was simulated, by cores: rows a second, as many times those of one core.
pub fn pictures(measurements: &[Measurement]) -> Vec<(&'static str, Picture)> {
    use plotters::style::RGBColor;
    const COLORS: [RGBColor; HOWS.len()] = [RGBColor(66, 122, 186), RGBColor(222, 146, 74), RGBColor(96, 164, 126)];
    let mut lines = Vec::new();
    for ((strategy, phases), color) in HOWS.into_iter().zip(COLORS) {
        let mine = measurements.iter().filter(|one| {
            one.workload == "simulated"
                && one.parameters["parallel.strategy"] == strategy
                && one.parameters["aggregate.phases"] == phases
        });
        let point = |one: &Measurement| Some((one.parameters["cores"].as_f64()?, one.rows_per_s / 1e6));
        let points: Vec<_> = mine.filter_map(point).collect();
        if points.len() > 2 {
            lines.push(Line { name: format!("{strategy}, {phases}"), color, width: 2, points });
        }
    }
    if lines.is_empty() {
        return Vec::new();
    }
    // From the slowest point of one core on, in proportion to the cores.
    let one = lines.iter().flat_map(|line| &line.points).filter(|point| point.0 == 1.0).map(|point| point.1);
    if let Some(one) = one.reduce(f64::max) {
        let points = INSTANCES.map(|cores| (cores as f64, one * cores as f64)).to_vec();
        lines.push(Line { name: "in proportion".to_string(), color: RGBColor(170, 174, 180), width: 1, points });
    }
    let title = "SIMULATED: tasks measured on two cores, scheduled on more".to_string();
    let panels = vec![Panel { title, lines }];
    vec![("scaling-simulated.svg", Picture { across: "cores", up: "M rows a second", panels })]
}
