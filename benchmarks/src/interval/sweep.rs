//! What each parameter of the default workload does: lateness (figures 7 and 11), also to effectiveness; keys (figures 8 and 13), also to
//! unbalancedness and to misses of caches; the window (figures 9 and 16); and, with few keys, the number of joiners (figure 13a). And what the
//! number of joiners does to the others (figures 4 and 17 to 21). Beside Scale-OIJ stands what it is without the part that a parameter is
//! about, and beside the engine what it is without or with the like.

use plotters::style::RGBColor;

use serde_json::{Value, json};

use super::{
    expected::Mode,
    way::{
        ALGORITHMS, ENGINE, ENGINE_WITH_SCHEDULE, ENGINE_WITHOUT_INCREMENTAL, JOINERS, WITHOUT_INCREMENTAL,
        WITHOUT_SCHEDULE, Way,
    },
    workload::{Keys, Workload},
};
use crate::{
    lines::{Line, Panel, Picture},
    machine::cores,
    measure::Measurement,
};

const LATENESS: &str = "lateness_us";
const KEYS: &str = "keys";
const WINDOW: &str = "window_us";
const BY_JOINERS: &str = "joiners";

/// Fewer points are no line.
const POINTS: usize = 3;

/// What has fewer keys than joiners is uneven.
const FEW: u32 = 5;

const LINES: [(&str, RGBColor); 8] = [
    ("Key-OIJ", RGBColor(222, 146, 74)),
    ("SplitJoin", RGBColor(66, 122, 186)),
    ("Scale-OIJ", RGBColor(60, 132, 82)),
    (WITHOUT_SCHEDULE.0, RGBColor(140, 200, 90)),
    (WITHOUT_INCREMENTAL.0, RGBColor(50, 180, 160)),
    (ENGINE, RGBColor(110, 90, 170)),
    (ENGINE_WITH_SCHEDULE, RGBColor(205, 90, 170)),
    (ENGINE_WITHOUT_INCREMENTAL, RGBColor(165, 130, 230)),
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
    let few = Workload::dense(&format!("{FEW} keys by joiners"), Keys::Uniform(FEW), 1_000, 100);
    let few = Workload { along: Some(BY_JOINERS), ..few };
    lateness.into_iter().chain(keys).chain(window).chain([few]).collect()
}

/// All algorithms and the engine on all cores; beside them what the parameter is about: with lateness the index, and with the window sums that
/// go on, so that all rows of each window are looked at in their place; with keys the schedule, on as many threads as the paper has, too.
pub fn ways(workload: &Workload) -> Vec<Way> {
    let engine = |name, joiners| Way::of_engine(name, joiners, Mode::Final);
    let mut ways: Vec<Way> = ALGORITHMS.map(|one| Way::of(one, cores())).into();
    ways.push(engine(ENGINE, cores()));
    // Key-OIJ, Scale-OIJ, and what this is without its schedule.
    let schedule = |joiners| {
        let baselines = [ALGORITHMS[0], ALGORITHMS[2], WITHOUT_SCHEDULE].map(|one| Way::of(one, joiners));
        let ours = [ENGINE, ENGINE_WITH_SCHEDULE].map(|name| engine(name, joiners));
        baselines.into_iter().chain(ours)
    };
    match workload.along {
        Some(LATENESS) => ways.push(Way::of(WITHOUT_INCREMENTAL, cores())),
        Some(WINDOW) => {
            ways.push(Way::of(WITHOUT_INCREMENTAL, cores()));
            ways.push(engine(ENGINE_WITHOUT_INCREMENTAL, cores()));
        }
        Some(KEYS) => {
            ways.push(Way::of(WITHOUT_SCHEDULE, cores()));
            ways.push(engine(ENGINE_WITH_SCHEDULE, cores()));
            ways.extend(schedule(JOINERS));
        }
        _ => ways = [1, 2, 4, 8, JOINERS].into_iter().flat_map(schedule).collect(),
    }
    ways
}

const ACROSS_JOINERS: &str = "joiners, or instances";

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
        ("interval-join-few-keys.svg", BY_JOINERS, ACROSS_JOINERS, CPU),
        ("interval-join-few-keys-unbalancedness.svg", BY_JOINERS, ACROSS_JOINERS, UNBALANCEDNESS),
    ];
    let picture = |(name, along, across, shown): (_, &'static str, _, Shown)| {
        let mine = measurements
            .iter()
            .filter(|one| one.workload == "interval-join" && one.parameters.get("along").is_some_and(|is| is == along));
        let panels = panels(&mine.collect::<Vec<_>>(), along, shown);
        (!panels.is_empty()).then_some((name, Picture { across, up: shown.name, panels }))
    };
    along.into_iter().filter_map(picture).chain(by_joiners(measurements)).collect()
}

/// A panel for each number of joiners, or one if they are what the lines go along.
fn panels(measurements: &[&Measurement], along: &str, shown: Shown) -> Vec<Panel> {
    let of = |joiners: Option<u64>| {
        let is_mine = |one: &&&Measurement| joiners.is_none_or(|joiners| one.parameters["joiners"] == joiners);
        let mine: Vec<_> = measurements.iter().filter(is_mine).copied().collect();
        let lines = LINES.into_iter().filter_map(|of| line(&mine, along, shown, of)).collect();
        let title = match joiners {
            Some(joiners) => format!("100 keys, window 1000 us, lateness 100 us, but for one; {joiners} joiners"),
            None => format!("{FEW} keys, window 1000 us, lateness 100 us"),
        };
        Panel { title, lines }
    };
    let panels = if along == BY_JOINERS {
        vec![of(None)]
    } else {
        let mut joiners: Vec<u64> = measurements.iter().filter_map(|one| one.parameters["joiners"].as_u64()).collect();
        joiners.sort_unstable();
        joiners.dedup();
        joiners.into_iter().map(|joiners| of(Some(joiners))).collect()
    };
    panels.into_iter().filter(|panel| !panel.lines.is_empty()).collect()
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
        let empty = || Line { name: name.to_string(), color, width: width(name), points: Vec::new() };
        place_of(&mut panel.lines, |line| line.name == name, empty).points.push((joiners, one.cpu_s_per_mrows));
    }
    panels.retain(|panel| panel.lines.iter().any(|line| line.points.len() >= POINTS));
    // What is about several joiners has a point less.
    panels.iter_mut().for_each(|panel| panel.lines.retain(|line| line.points.len() >= POINTS - 1));
    let picture = Picture { across: ACROSS_JOINERS, up: CPU.name, panels };
    (!picture.panels.is_empty()).then_some(("interval-join-joiners.svg", picture))
}

/// Parts are thinner than what they belong to, so that it shows where a line lies on another.
fn width(algorithm: &str) -> u32 {
    if algorithm.contains(" with") { 2 } else { 3 }
}

/// The one that is it; adds it if there is none.
fn place_of<T>(all: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let place = all.iter().position(is_it).unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    });
    &mut all[place]
}

fn line(
    measurements: &[&Measurement],
    along: &str,
    shown: Shown,
    (algorithm, color): (&str, RGBColor),
) -> Option<Line> {
    let mine = measurements.iter().filter(|one| one.parameters["algorithm"] == algorithm);
    let points: Vec<_> = mine.filter_map(|one| Some((one.parameters[along].as_f64()?, (shown.of)(one)?))).collect();
    (points.len() >= POINTS).then(|| Line { name: algorithm.to_string(), color, width: width(algorithm), points })
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::measure::{measured, parameters};

    #[test]
    fn each_parameter_has_a_picture_with_its_values_from_left_to_right() {
        let all = workloads();
        let of = |workload: &Workload, way: Way| {
            let values = [
                ("algorithm", json!(way.name)),
                ("along", json!(workload.along)),
                ("joiners", json!(way.joiners)),
                (LATENESS, json!(workload.lateness)),
                (KEYS, json!(workload.keys.count())),
                (WINDOW, json!(workload.window)),
                ("effectiveness", json!(0.5)),
                ("unbalancedness", json!(0.0)),
            ];
            measured(way.called(workload), parameters(values))
        };
        let ran = all.iter().flat_map(|workload| ways(workload).into_iter().map(move |way| of(workload, way)));
        let ran: Vec<_> = ran.collect();
        let pictures = pictures(&ran);
        // The panels with how many lines each; the lines have as many points, of which this is the first.
        let on_16 = |lines: usize| if cores() == JOINERS { vec![lines + 4] } else { vec![lines, 5] };
        let known = [
            ("lateness", vec![5], 5, (10.0, 0.25)),
            ("effectiveness", vec![5], 5, (10.0, 0.5)),
            ("keys", on_16(6), 7, (1.0, 0.25)),
            ("unbalancedness", on_16(6), 7, (1.0, 0.001)),
            ("window", vec![6], 5, (10.0, 0.25)),
            ("few-keys", vec![5], 5, (1.0, 0.25)),
            ("few-keys-unbalancedness", vec![5], 5, (1.0, 0.001)),
        ];
        // Nobody counted misses of caches.
        assert_eq!(pictures.len(), known.len());
        for ((file, Picture { panels, .. }), (of, lines, count, first)) in pictures.iter().zip(known) {
            assert_eq!(*file, format!("interval-join-{of}.svg"));
            assert_eq!(panels.iter().map(|panel| panel.lines.len()).collect::<Vec<_>>(), lines, "{file}");
            for Line { name, points, .. } in panels.iter().flat_map(|panel| &panel.lines) {
                assert_eq!((points.len(), points[0]), (count, first), "{file}, {name}");
                assert!(points.is_sorted());
            }
        }
        assert!(super::pictures(&ran[..2]).is_empty());
        // The default is among the values of each but the last.
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
        all.extend([2, 16].map(|joiners| one("A", "Scale-OIJ without schedule", joiners, Mode::Final)));
        let pictures = pictures(&all);
        let [(_, Picture { panels, .. })] = &pictures[..] else { panic!("not one picture") };
        let lines = panels.iter().map(|panel| (panel.title.as_str(), panel.lines.iter().map(|line| line.points.len())));
        let lines: Vec<_> = lines.map(|(title, points)| (title, points.collect::<Vec<_>>())).collect();
        assert_eq!(lines, [("A", vec![3, 2, 2]), ("B", vec![3])]);
    }
}
