//! How long results took, as a picture: a panel for each workload, a line for each way, and the line that users draw at 20 ms.

use std::error::Error;

use plotters::{coord::Shift, prelude::*};

use super::latency::LINE_US;
use crate::measure::Measurement;

const SIZE: (u32, u32) = (460, 280);
const COLUMNS: usize = 2;
const TOP: u32 = 54;
const INK: RGBColor = RGBColor(44, 48, 56);
const FAINT: RGBColor = RGBColor(226, 229, 233);
const LIMIT: RGBColor = RGBColor(200, 60, 60);

/// Times shorter than this are drawn as this, in milliseconds.
const LEAST_MS: f64 = 0.01;

/// What is drawn, by algorithm and mode.
const LINES: [(&str, &str, RGBColor); 8] = [
    ("Key-OIJ", "final", RGBColor(222, 146, 74)),
    ("Key-OIJ", "eager", RGBColor(240, 196, 120)),
    ("SplitJoin", "final", RGBColor(66, 122, 186)),
    ("SplitJoin", "eager", RGBColor(140, 186, 228)),
    ("Scale-OIJ", "final", RGBColor(70, 140, 90)),
    ("Scale-OIJ", "eager", RGBColor(150, 205, 165)),
    ("thalweg", "final", RGBColor(110, 90, 170)),
    ("thalweg", "eager", RGBColor(180, 160, 220)),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A panel for each workload whose latencies were measured; `None` if there is none.
pub fn draw(measurements: &[Measurement]) -> Result<Option<String>, Box<dyn Error>> {
    let is_mine =
        |one: &&Measurement| one.workload == "interval-join" && one.parameters.contains_key("distribution_ms");
    let mine: Vec<&Measurement> = measurements.iter().filter(is_mine).collect();
    let mut names: Vec<String> = mine.iter().map(|one| title(one)).collect();
    names.dedup();
    if names.is_empty() {
        return Ok(None);
    }
    let columns = names.len().min(COLUMNS);
    let rows = names.len().div_ceil(columns);
    let mut text = String::new();
    {
        let size = (COLUMNS as u32 * SIZE.0, TOP + rows as u32 * SIZE.1);
        let all = SVGBackend::with_string(&mut text, size).into_drawing_area();
        all.fill(&WHITE)?;
        let (top, rest) = all.split_vertically(TOP);
        legend(&top)?;
        for (name, area) in names.iter().zip(rest.split_evenly((rows, columns))) {
            let panel: Vec<&Measurement> = mine.iter().copied().filter(|one| title(one) == *name).collect();
            draw_panel(&area, name, &panel)?;
        }
        all.present()?;
    }
    Ok(Some(text))
}

/// What is before the first comma and behind the last.
fn title(one: &Measurement) -> String {
    let first = one.variant.split(", ").next().unwrap_or_default();
    let last = one.variant.rsplit(", ").next().unwrap_or_default();
    format!("{first}, {last}")
}

/// An algorithm in each column, with its modes below each other.
fn legend(area: &Area<'_>) -> Result<(), Box<dyn Error>> {
    let named = LINES.map(|(algorithm, mode, color)| (format!("{algorithm}, {mode}"), color));
    for (number, (name, color)) in named.into_iter().chain([("20 ms".to_string(), LIMIT)]).enumerate() {
        let (x, y) = (20 + 170 * (number / 2) as i32, 17 + 20 * (number % 2) as i32);
        area.draw(&PathElement::new([(x, y), (x + 26, y)], color.stroke_width(2)))?;
        area.draw(&Text::new(name, (x + 32, y - 7), ("sans-serif", 14).into_font().color(&INK)))?;
    }
    Ok(())
}

fn draw_panel(area: &Area<'_>, name: &str, measurements: &[&Measurement]) -> Result<(), Box<dyn Error>> {
    let lines = LINES.map(|(algorithm, mode, color)| {
        let is_it = |one: &&&Measurement| one.parameters["algorithm"] == algorithm && one.parameters["mode"] == mode;
        (measurements.iter().find(is_it).map(|one| points(one)).unwrap_or_default(), color)
    });
    let limit = LINE_US / 1e3;
    let most = lines.iter().flat_map(|(points, _)| points).fold(2.0 * limit, |most, (ms, _)| most.max(*ms));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(name, ("sans-serif", 14).into_font().color(&INK))
        .x_label_area_size(42)
        .y_label_area_size(52)
        .build_cartesian_2d((LEAST_MS..most).log_scale(), 0.0..1.0)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .x_desc("ms from the watermark's passing (final), or a row's arrival (eager), to the result")
        .y_desc("share of results")
        .x_label_formatter(&|ms| ((ms * 1e3).round() / 1e3).to_string())
        .label_style(("sans-serif", 11).into_font().color(&INK))
        .axis_style(INK)
        .bold_line_style(FAINT)
        .draw()?;
    chart.draw_series([PathElement::new([(limit, 0.0), (limit, 1.0)], LIMIT.stroke_width(2))])?;
    for (points, color) in lines {
        chart.draw_series([PathElement::new(points, color.stroke_width(2))])?;
    }
    Ok(())
}

fn points(one: &Measurement) -> Vec<(f64, f64)> {
    let all = one.parameters["distribution_ms"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(|point| Some((point[0].as_f64()?.max(LEAST_MS), point[1].as_f64()?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::measure::{measured, parameters};

    #[test]
    fn each_workload_has_a_panel_with_the_line_at_20_ms() {
        let of = |variant: &str, points: Vec<(f64, f64)>| {
            let points = ("distribution_ms", json!(points));
            let parameters = parameters([("algorithm", json!("Key-OIJ")), ("mode", json!("final")), points]);
            measured(variant.into(), parameters)
        };
        assert!(draw(&[]).unwrap().is_none());
        let points = || vec![(0.0, 0.0), (4.0, 0.5), (80.0, 1.0)];
        let svg = draw(&[of("A, Key-OIJ, final, slow", points()), of("B, Key-OIJ, final, fast", points())]);
        let svg = svg.unwrap().unwrap();
        for (text, times) in [("A, slow", 1), ("B, fast", 1), ("20 ms", 1), ("Key-OIJ, final", 1)] {
            assert_eq!(svg.lines().filter(|line| line.trim() == text).count(), times, "{text} in {svg}");
        }
        let lines = |color: &RGBColor| {
            svg.matches(&format!("stroke=\"#{:02X}{:02X}{:02X}\"", color.0, color.1, color.2)).count()
        };
        // Once beside its name, and once in each panel.
        assert_eq!((lines(&LIMIT), lines(&LINES[0].2)), (3, 3));
    }
}
