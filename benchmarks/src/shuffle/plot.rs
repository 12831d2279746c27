//! What the shuffle thesis plots, of measurements: CPU time by the number of partitions, and by the sizes of buffers and of batches.

use std::collections::BTreeMap;

use plotters::style::RGBColor;
use serde_json::Value;
use thalweg_shuffle::scatter::variant::Variant;

use super::{BATCH_ROWS, BUFFER_KIB, reference::Reference};
use crate::{
    lines::{Line, Panel, Picture},
    measure::Measurement,
};

/// Fewer points are no line.
const POINTS: usize = 3;

/// One for each variant, in the order in which they are listed.
const COLORS: [RGBColor; Variant::ALL.len()] = [
    RGBColor(190, 160, 60),
    RGBColor(150, 140, 90),
    RGBColor(214, 128, 168),
    RGBColor(222, 146, 74),
    RGBColor(150, 110, 190),
    RGBColor(66, 122, 186),
    RGBColor(196, 78, 76),
    RGBColor(140, 100, 74),
    RGBColor(58, 163, 168),
    RGBColor(120, 170, 60),
    RGBColor(30, 120, 80),
];
const GREYS: [RGBColor; Reference::ALL.len()] = [RGBColor(70, 74, 82), RGBColor(150, 154, 160)];

/// A parameter that lines go along.
#[derive(Clone, Copy, PartialEq)]
enum Axis {
    Partitions,
    Buffers,
    Batches,
}

impl Axis {
    fn parameter(self) -> &'static str {
        match self {
            Self::Partitions => "partitions",
            Self::Buffers => "buffer_bytes",
            Self::Batches => "batch_rows",
        }
    }

    fn said(self) -> &'static str {
        match self {
            Self::Partitions => "partitions",
            Self::Buffers => "buffers of all threads together, KiB",
            Self::Batches => "rows in a batch",
        }
    }

    fn unit(self) -> f64 {
        if self == Self::Buffers { 1024.0 } else { 1.0 }
    }
}

/// The pictures for which there are measurements, each with the name of its file.
pub fn pictures(measurements: &[Measurement]) -> Vec<(&'static str, Picture)> {
    let all = [
        ("shuffle-partitions.svg", Axis::Partitions),
        ("shuffle-buffers.svg", Axis::Buffers),
        ("shuffle-batches.svg", Axis::Batches),
    ];
    let drawn = all.map(|(name, axis)| {
        (name, Picture { across: axis.said(), up: "CPU s per million rows", panels: panels(measurements, axis) })
    });
    drawn.into_iter().filter(|(_, picture)| !picture.panels.is_empty()).collect()
}

/// A panel for each place in the space of the other parameters.
fn panels(measurements: &[Measurement], axis: Axis) -> Vec<Panel> {
    let mut places: BTreeMap<Place, BTreeMap<usize, Line>> = BTreeMap::new();
    for one in measurements.iter().filter(|one| one.workload == "shuffle") {
        let name = text(one, "variant");
        let (Some((number, color)), Some(x)) = (known(name), number(one, axis.parameter())) else { continue };
        let is_reference = Reference::ALL.iter().any(|reference| reference.name() == name);
        let line = places.entry(Place::of(one, axis)).or_default().entry(number).or_insert_with(|| Line {
            name: name.into(),
            color,
            width: if is_reference { 1 } else { 2 },
            points: Vec::new(),
        });
        // What was measured last counts.
        let x = x as f64 / axis.unit();
        line.points.retain(|(known, _)| *known != x);
        line.points.push((x, one.cpu_s_per_mrows));
    }
    let panels = places.into_iter().map(|(place, lines)| {
        let lines = lines.into_values().map(|mut line| {
            line.points.sort_by(|left, right| left.0.total_cmp(&right.0));
            line
        });
        Panel { title: place.title(), lines: lines.filter(|line| line.points.len() >= POINTS).collect() }
    });
    panels.filter(|panel| !panel.lines.is_empty()).collect()
}

/// What is the same for the lines of a panel, in the order of the panels; the parameter that lines go along is 0.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// As a number, so that 16 stands before 100, and as it was given.
    row_bytes: (u64, String),
    partitions: u64,
    buffer_bytes: u64,
    batch_rows: u64,
    said: Vec<&'static str>,
    threads: u64,
}

impl Place {
    fn of(one: &Measurement, axis: Axis) -> Self {
        let row = text(one, "row_bytes").to_string();
        let digits = row.trim_end_matches('v').parse().unwrap_or(u64::MAX);
        let beside = |other: Axis| if other == axis { 0 } else { number(one, other.parameter()).unwrap_or_default() };
        let said = [("past_caches", "past caches"), ("cold", "cold"), ("pages_are_kept", "kept")];
        let is = |name: &str| one.parameters.get(name).and_then(Value::as_bool).unwrap_or_default();
        Self {
            row_bytes: (digits, row),
            partitions: beside(Axis::Partitions),
            buffer_bytes: beside(Axis::Buffers),
            batch_rows: beside(Axis::Batches),
            said: said.into_iter().filter(|(name, _)| is(name)).map(|(_, said)| said).collect(),
            threads: number(one, "threads").unwrap_or_default(),
        }
    }

    fn title(&self) -> String {
        let row = &self.row_bytes.1;
        let mut title = if row == "text" { "two strings a row".to_string() } else { format!("{row} bytes a row") };
        if self.partitions > 0 {
            title += &format!(", {} partitions", self.partitions);
        }
        title += &format!(", {} thread{}", self.threads, if self.threads == 1 { "" } else { "s" });
        if ![0, BUFFER_KIB as u64].contains(&(self.buffer_bytes >> 10)) {
            title += &format!(", buffers of {} KiB", self.buffer_bytes >> 10);
        }
        if ![0, BATCH_ROWS as u64].contains(&self.batch_rows) {
            title += &format!(", batches of {}", self.batch_rows);
        }
        self.said.iter().fold(title, |title, said| format!("{title}, {said}"))
    }
}

/// Where a line stands among others, and its colour.
fn known(name: &str) -> Option<(usize, RGBColor)> {
    let variant = Variant::ALL.iter().position(|variant| variant.name() == name);
    let reference = || Reference::ALL.iter().position(|reference| reference.name() == name);
    // The best that could be last.
    variant.map(|at| (at, COLORS[at])).or_else(|| reference().map(|at| (COLORS.len() + at, GREYS[at])))
}

fn text<'a>(one: &'a Measurement, name: &str) -> &'a str {
    one.parameters.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(one: &Measurement, name: &str) -> Option<u64> {
    one.parameters.get(name).and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured(variant: &str, row: &str, partitions: u64, kib: u64) -> Measurement {
        let parameters = json!({
            "variant": variant, "row_bytes": row, "partitions": partitions, "threads": 2,
            "buffer_bytes": kib << 10, "batch_rows": 16_384, "cold": false,
        });
        let cpu = partitions as f64 * 1e-3;
        serde_json::from_value(json!({
            "workload": "shuffle", "variant": "", "parameters": parameters, "rows": 1, "seconds": 1.0, "cpu_s_per_mrows": cpu,
            "rows_per_s": 1.0, "bytes_per_row": 1.0, "bytes_per_s": 1.0, "share_of_bandwidth": 1.0, "checked": 1,
        }))
        .unwrap()
    }

    #[test]
    fn a_panel_has_what_differs_in_one_parameter_alone() {
        let mut all = vec![measured("hybrid", "16", 2, 1024)];
        all[0].cpu_s_per_mrows = 7.0;
        for partitions in [1024, 2, 32] {
            all.push(measured("best case", "100", partitions, 1024));
            all.push(measured("hybrid", "100", partitions, 1024));
            all.push(measured("hybrid", "16", partitions, 1024));
            all.push(measured("Flink keyBy", "16", partitions, 1024));
        }
        all.push(measured("hybrid", "100", 32, 256));
        all.push(measured("hybrid", "100", 32, 512));
        let pictures = pictures(&all);
        let [(partitions, first), (buffers, second)] = &pictures[..] else { panic!("{} pictures", pictures.len()) };
        assert_eq!((*partitions, *buffers), ("shuffle-partitions.svg", "shuffle-buffers.svg"));
        let said = |picture: &Picture| -> Vec<String> {
            let names = |panel: &Panel| panel.lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>().join("; ");
            picture.panels.iter().map(|panel| format!("{}: {}", panel.title, names(panel))).collect()
        };
        assert_eq!(said(first), ["16 bytes a row, 2 threads: hybrid", "100 bytes a row, 2 threads: hybrid; best case"]);
        assert_eq!(first.panels[0].lines[0].points, [(2.0, 0.002), (32.0, 0.032), (1024.0, 1.024)]);
        assert_eq!(said(second), ["100 bytes a row, 32 partitions, 2 threads: hybrid"]);
        assert_eq!(
            second.panels[0].lines[0].points.iter().map(|point| point.0).collect::<Vec<_>>(),
            [256.0, 512.0, 1024.0]
        );
    }
}
