//! What each parameter of the default workload does: lateness (figure 7), keys (figure 8) and the window (figure 9).

use plotters::style::RGBColor;

use super::workload::{Keys, Workload};
use crate::{
    lines::{Line, Panel, Picture},
    measure::Measurement,
};

const LATENESS: &str = "lateness_us";
const KEYS: &str = "keys";
const WINDOW: &str = "window_us";

/// Fewer points are no line.
const POINTS: usize = 3;

const LINES: [(&str, RGBColor); 4] = [
    ("Key-OIJ", RGBColor(222, 146, 74)),
    ("SplitJoin", RGBColor(66, 122, 186)),
    ("Scale-OIJ", RGBColor(92, 158, 110)),
    ("thalweg", RGBColor(110, 90, 170)),
];

/// The default workload with other values of one parameter at a time.
pub fn workloads() -> Vec<Workload> {
    let lateness = [10, 100, 1_000, 10_000, 100_000].map(|us| {
        let workload = Workload::dense(&format!("lateness {us} us"), Keys::Uniform(100), 1_000, us);
        Workload { along: Some(LATENESS), ..workload }
    });
    let keys = [1, 5, 10, 100, 1_000, 10_000, 100_000].map(|keys| {
        let workload = Workload::dense(&format!("{keys} keys"), Keys::Uniform(keys), 1_000, 100);
        Workload { along: Some(KEYS), ..workload }
    });
    let window = [10, 100, 1_000, 10_000, 100_000].map(|us| {
        let workload = Workload::dense(&format!("window {us} us"), Keys::Uniform(100), us, 100);
        Workload { along: Some(WINDOW), ..workload }
    });
    lateness.into_iter().chain(keys).chain(window).collect()
}

/// CPU time by each parameter of which there are enough values, each with the name of its file.
pub fn pictures(measurements: &[Measurement]) -> Vec<(&'static str, Picture)> {
    let all = [
        ("interval-join-lateness.svg", LATENESS, "lateness, us"),
        ("interval-join-keys.svg", KEYS, "keys"),
        ("interval-join-window.svg", WINDOW, "window, us"),
    ];
    let picture = |(name, along, across)| {
        let lines = LINES.into_iter().filter_map(|(algorithm, color)| line(measurements, along, algorithm, color));
        let panel = Panel {
            title: "100 keys, window 1000 us, lateness 100 us, but for one".to_string(),
            lines: lines.collect(),
        };
        (name, Picture { across, up: "CPU s per million rows", panels: vec![panel] })
    };
    all.map(picture).into_iter().filter(|(_, picture)| !picture.panels[0].lines.is_empty()).collect()
}

fn line(measurements: &[Measurement], along: &str, algorithm: &str, color: RGBColor) -> Option<Line> {
    let mine = measurements.iter().filter(|one| {
        let is = |name, value| one.parameters.get(name).is_some_and(|is| is == value);
        one.workload == "interval-join" && is("along", along) && is("algorithm", algorithm)
    });
    let points: Vec<_> = mine.filter_map(|one| Some((one.parameters[along].as_f64()?, one.cpu_s_per_mrows))).collect();
    (points.len() >= POINTS).then(|| Line { name: algorithm.to_string(), color, width: 2, points })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::measure::parameters;

    #[test]
    fn each_parameter_has_a_picture_with_its_values_from_left_to_right() {
        let all = workloads();
        let mut measured = Vec::new();
        for workload in &all {
            measured.push(Measurement {
                workload: "interval-join".into(),
                variant: workload.name.clone(),
                parameters: parameters([
                    ("algorithm", json!("SplitJoin")),
                    ("along", json!(workload.along)),
                    (LATENESS, json!(workload.lateness)),
                    (KEYS, json!(workload.keys.count())),
                    (WINDOW, json!(workload.window)),
                ]),
                rows: 1,
                seconds: 1.0,
                cpu_s_per_mrows: 0.25,
                rows_per_s: 1.0,
                bytes_per_row: 24.0,
                bytes_per_s: 24.0,
                share_of_bandwidth: 0.5,
                checked: 1,
                relative: None,
                latency: None,
                idle_loop: None,
                peak: None,
            });
        }
        let pictures = pictures(&measured);
        assert_eq!(pictures.len(), 3);
        for ((_, picture), (first, count)) in pictures.iter().zip([(10.0, 5), (1.0, 7), (10.0, 5)]) {
            let [Panel { lines, .. }] = &picture.panels[..] else { panic!("not one panel") };
            let [Line { name, points, .. }] = &lines[..] else { panic!("not one line") };
            assert_eq!((name.as_str(), points.len(), points[0]), ("SplitJoin", count, (first, 0.25)));
            assert!(points.is_sorted());
        }
        assert!(super::pictures(&measured[..2]).is_empty());
        // The default is among the values of each.
        let is_default = |one: &&Workload| (one.keys, one.window, one.lateness) == (Keys::Uniform(100), 1_000, 100);
        assert_eq!(all.iter().filter(is_default).count(), 3);
    }
}
