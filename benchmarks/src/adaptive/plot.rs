//! Moments as a picture: rows a second, how long windows took, how rows are spread, each over time; with moves and without.

use std::error::Error;

use plotters::{coord::Shift, prelude::*};
use serde_json::Value;

use crate::measure::Measurement;

const SIZE: (u32, u32) = (330, 200);
const COLUMNS: usize = 4;
const TOP: u32 = 34;
const INK: RGBColor = RGBColor(44, 48, 56);
const FAINT: RGBColor = RGBColor(226, 229, 233);
const FIXED: RGBColor = RGBColor(222, 146, 74);
const ADAPTIVE: RGBColor = RGBColor(66, 122, 186);

type Points = Vec<(f64, f64)>;

/// A line of panels.
struct Pair<'a> {
    title: String,
    fixed: &'a Measurement,
    adaptive: &'a Measurement,
}

/// A row of panels for each schedule and number of instances that was measured both ways; `None` if there is none.
pub fn draw(measurements: &[Measurement]) -> Result<Option<String>, Box<dyn Error>> {
    let mine = || measurements.iter().filter(|one| one.workload == "adaptive");
    let pair = |adaptive: &'_ Measurement| -> Option<(String, usize, usize)> {
        let title = adaptive.variant.strip_suffix(", adaptive")?.to_string();
        let of = |suffix: &str| measurements.iter().position(|one| one.variant == format!("{title}{suffix}"));
        Some((title.clone(), of(", fixed")?, of(", adaptive")?))
    };
    let pairs: Vec<_> = mine()
        .filter_map(pair)
        .map(|(title, fixed, adaptive)| Pair { title, fixed: &measurements[fixed], adaptive: &measurements[adaptive] })
        .collect();
    if pairs.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    {
        let all = SVGBackend::with_string(&mut text, (COLUMNS as u32 * SIZE.0, TOP + SIZE.1 * pairs.len() as u32))
            .into_drawing_area();
        all.fill(&WHITE)?;
        let (names, rest) = all.split_vertically(TOP);
        for (number, (name, color)) in
            [("'adaptive' = 'false'", FIXED), ("'adaptive' = 'true'", ADAPTIVE)].into_iter().enumerate()
        {
            let x = 20 + 190 * number as i32;
            names.draw(&PathElement::new([(x, 17), (x + 26, 17)], color.stroke_width(2)))?;
            names.draw(&Text::new(name, (x + 32, 10), ("sans-serif", 14).into_font().color(&INK)))?;
        }
        for (pair, row) in pairs.iter().zip(rest.split_evenly((pairs.len(), 1))) {
            pair.draw(&row)?;
        }
        all.present()?;
    }
    Ok(Some(text))
}

impl Pair<'_> {
    fn draw(&self, row: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Box<dyn Error>> {
        type Read = fn(&Measurement) -> Points;
        let panels: [(&str, Read); COLUMNS] = [
            ("k rows a second", |one| moments(one, |moment| moment["rows_per_s"].as_f64().map(|rows| rows / 1e3))),
            ("instances with keys", |one| moments(one, |moment| moment["instances"].as_f64())),
            ("rows of the busiest ÷ their average", |one| moments(one, |moment| moment["imbalance"].as_f64())),
            ("ms from a window's end to its last row", |one| points(&one.parameters["windows"])),
        ];
        for (number, ((said, read), area)) in panels.into_iter().zip(row.split_evenly((1, COLUMNS))).enumerate() {
            let title = if number == 0 { &self.title } else { said };
            let lines = [(read(self.fixed), FIXED), (read(self.adaptive), ADAPTIVE)];
            if lines.iter().any(|(points, _)| !points.is_empty()) {
                panel(&area, title, if number == 0 { said } else { "" }, &lines)?;
            }
        }
        Ok(())
    }
}

fn moments(one: &Measurement, value: impl Fn(&Value) -> Option<f64>) -> Points {
    let all = one.parameters["moments"].as_array().map(Vec::as_slice).unwrap_or_default();
    let busy = all.iter().filter(|moment| moment["rows_per_s"].as_f64().is_some_and(|rows| rows > 0.0));
    busy.filter_map(|moment| Some((moment["at_s"].as_f64()?, value(moment)?))).collect()
}

fn points(value: &Value) -> Points {
    let all = value.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(|point| Some((point[0].as_f64()?, point[1].as_f64()?.max(0.0)))).collect()
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    up: &str,
    lines: &[(Points, RGBColor)],
) -> Result<(), Box<dyn Error>> {
    let most = |of: fn(&(f64, f64)) -> f64| lines.iter().flat_map(|(points, _)| points).map(of).fold(1e-9, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .caption(title, ("sans-serif", 12).into_font().color(&INK))
        .x_label_area_size(24)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..most(|point| point.0), 0.0..most(|point| point.1) * 1.08)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .x_labels(7)
        .y_desc(up)
        .y_labels(5)
        .x_label_formatter(&|seconds| format!("{seconds:.0} s"))
        .y_label_formatter(&|value| ((value * 10.0).round() / 10.0).to_string())
        .label_style(("sans-serif", 11).into_font().color(&INK))
        .axis_style(INK)
        .bold_line_style(FAINT)
        .draw()?;
    for (points, color) in lines {
        chart.draw_series([PathElement::new(points.clone(), color.stroke_width(2))])?;
    }
    Ok(())
}
