//! What each parameter of the default workload does: lateness (figures 7 and 11), also to effectiveness; keys (figures 8 and 13), also to
//! unbalancedness and to misses of caches; and the window (figures 9 and 16). And what the number of joiners does to the others (figures 4
//! and 17 to 21).

use plotters::style::RGBColor;

use serde_json::{Value, json};

use super::{
    expected::Mode,
    workload::{Keys, Workload},
};
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

/// What is shown of a measurement.
#[derive(Clone, Copy)]
struct Shown {
    name: &'static str,
    of: fn(&Measurement) -> Option<f64>,
}

const CPU: Shown = Shown { name: "CPU s per million rows", of: |one| Some(one.cpu_s_per_mrows) };
const EFFECTIVENESS: Shown = Shown { name: "effectiveness", of: |one| one.parameters.get("effectiveness")?.as_f64() };
const UNBALANCEDNESS: Shown = Shown {
    name: "unbalancedness (0.001: no more than that)",
    // The axis is logarithmic.
    of: |one| one.parameters.get("unbalancedness")?.as_f64().map(|value| value.max(0.001)),
};
const MISSES: Shown = Shown { name: "misses of the last cache per row", of: |one| one.cache_misses_per_row };

/// What each parameter does of which there are enough values, each with the name of its file.
pub fn pictures(measurements: &[Measurement]) -> Vec<(&'static str, Picture)> {
    let along = [
        ("interval-join-lateness.svg", LATENESS, "lateness, us", CPU),
        ("interval-join-effectiveness.svg", LATENESS, "lateness, us", EFFECTIVENESS),
        ("interval-join-keys.svg", KEYS, "keys", CPU),
        ("interval-join-unbalancedness.svg", KEYS, "keys", UNBALANCEDNESS),
        ("interval-join-misses.svg", KEYS, "keys", MISSES),
        ("interval-join-window.svg", WINDOW, "window, us", CPU),
    ];
    let picture = |(name, along, across, shown): (_, _, _, Shown)| {
        let lines = LINES.into_iter().filter_map(|of| line(measurements, along, shown, of));
        let panel = Panel {
            title: "100 keys, window 1000 us, lateness 100 us, but for one".to_string(),
            lines: lines.collect(),
        };
        (name, Picture { across, up: shown.name, panels: vec![panel] })
    };
    let along = along.map(picture).into_iter().filter(|(_, picture)| !picture.panels[0].lines.is_empty());
    along.chain(by_joiners(measurements)).collect()
}

/// CPU time by how many joiners there are, of each workload that ran with enough numbers of them.
fn by_joiners(measurements: &[Measurement]) -> Option<(&'static str, Picture)> {
    let mine = measurements.iter().filter(|one| {
        let is = |name, value: Value| one.parameters.get(name) == Some(&value);
        let is_usual = is("mode", json!(Mode::Final.name())) && is("along", Value::Null);
        one.workload == "interval-join" && is_usual && one.latency.is_none()
    });
    let mut panels: Vec<Panel> = Vec::new();
    for one in mine {
        let Some(title) = one.variant.split(", ").next() else { continue };
        let known = LINES.into_iter().find(|(algorithm, _)| one.parameters["algorithm"] == *algorithm);
        let (Some((name, color)), Some(joiners)) = (known, one.parameters["joiners"].as_f64()) else { continue };
        let panel =
            place_of(&mut panels, |panel| panel.title == title, || Panel { title: title.into(), lines: Vec::new() });
        let empty = || Line { name: name.to_string(), color, width: 2, points: Vec::new() };
        place_of(&mut panel.lines, |line| line.name == name, empty).points.push((joiners, one.cpu_s_per_mrows));
    }
    panels.iter_mut().for_each(|panel| panel.lines.retain(|line| line.points.len() >= POINTS));
    panels.retain(|panel| !panel.lines.is_empty());
    let picture = Picture { across: "joiners, or instances", up: CPU.name, panels };
    (!picture.panels.is_empty()).then_some(("interval-join-joiners.svg", picture))
}

/// The one that is it; adds it if there is none.
fn place_of<T>(all: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let place = all.iter().position(is_it).unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    });
    &mut all[place]
}

fn line(measurements: &[Measurement], along: &str, shown: Shown, (algorithm, color): (&str, RGBColor)) -> Option<Line> {
    let mine = measurements.iter().filter(|one| {
        let is = |name, value| one.parameters.get(name).is_some_and(|is| is == value);
        one.workload == "interval-join" && is("along", along) && is("algorithm", algorithm)
    });
    let points: Vec<_> = mine.filter_map(|one| Some((one.parameters[along].as_f64()?, (shown.of)(one)?))).collect();
    (points.len() >= POINTS).then(|| Line { name: algorithm.to_string(), color, width: 2, points })
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::measure::parameters;

    #[test]
    fn each_parameter_has_a_picture_with_its_values_from_left_to_right() {
        let all = workloads();
        let parameters_of = |workload: &Workload| {
            parameters([
                ("algorithm", json!("SplitJoin")),
                ("along", json!(workload.along)),
                (LATENESS, json!(workload.lateness)),
                (KEYS, json!(workload.keys.count())),
                (WINDOW, json!(workload.window)),
                ("effectiveness", json!(0.5)),
                ("unbalancedness", json!(0.0)),
            ])
        };
        let measured: Vec<_> = all.iter().map(|one| measured(one.name.clone(), parameters_of(one))).collect();
        let pictures = pictures(&measured);
        let known = [
            ("lateness", 10.0, 5, 0.25),
            ("effectiveness", 10.0, 5, 0.5),
            ("keys", 1.0, 7, 0.25),
            ("unbalancedness", 1.0, 7, 0.001),
            ("window", 10.0, 5, 0.25),
        ];
        // Nobody counted misses of caches.
        assert_eq!(pictures.len(), known.len());
        for ((file, picture), (of, first, count, value)) in pictures.iter().zip(known) {
            let [Panel { lines, .. }] = &picture.panels[..] else { panic!("not one panel") };
            let [Line { name, points, .. }] = &lines[..] else { panic!("not one line") };
            assert_eq!(*file, format!("interval-join-{of}.svg"));
            assert_eq!((name.as_str(), points.len(), points[0]), ("SplitJoin", count, (first, value)));
            assert!(points.is_sorted());
        }
        assert!(super::pictures(&measured[..2]).is_empty());
        // The default is among the values of each.
        let is_default = |one: &&Workload| (one.keys, one.window, one.lateness) == (Keys::Uniform(100), 1_000, 100);
        assert_eq!(all.iter().filter(is_default).count(), 3);
    }

    #[test]
    fn each_workload_that_ran_with_several_numbers_of_joiners_has_a_panel() {
        let one = |name: &str, algorithm: &str, joiners: usize, mode: Mode| {
            let values = [
                ("algorithm", json!(algorithm)),
                ("along", Value::Null),
                ("joiners", json!(joiners)),
                ("mode", json!(mode.name())),
            ];
            measured(format!("{name}, {algorithm}, {joiners}"), parameters(values))
        };
        let all = ["A", "B"].map(|name| [1, 2, 16].map(|joiners| one(name, "Scale-OIJ", joiners, Mode::Final)));
        let mut all = all.concat();
        all.extend([1, 2].map(|joiners| one("A", "Key-OIJ", joiners, Mode::Final)));
        all.push(one("A", "Key-OIJ", 16, Mode::Eager));
        all.push(one("A", "Scale-OIJ without schedule", 16, Mode::Final));
        let pictures = pictures(&all);
        let [(_, Picture { panels, .. })] = &pictures[..] else { panic!("not one picture") };
        let lines = panels.iter().map(|panel| (panel.title.as_str(), panel.lines.iter().map(|line| line.points.len())));
        let lines: Vec<_> = lines.map(|(title, points)| (title, points.collect::<Vec<_>>())).collect();
        assert_eq!(lines, [("A", vec![3]), ("B", vec![3])]);
    }

    fn measured(variant: String, parameters: Map<String, Value>) -> Measurement {
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
}
