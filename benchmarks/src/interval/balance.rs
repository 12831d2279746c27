//! How much of the work each joiner has from moment to moment, as a picture: a panel for each algorithm, a line for each joiner. Where all
//! have as much to do, the lines lie at 1 (figure 14).

use std::error::Error;

use plotters::{coord::Shift, prelude::*};

use crate::measure::Measurement;

const SIZE: (u32, u32) = (460, 280);
const INK: RGBColor = RGBColor(44, 48, 56);
const FAINT: RGBColor = RGBColor(226, 229, 233);

/// Of which measurements there is a panel, by algorithm.
const PANELS: [&str; 3] = ["Key-OIJ", "Scale-OIJ without schedule", "Scale-OIJ"];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What is drawn of a measurement.
struct Panel<'a> {
    title: &'a str,
    /// By joiner and part of the run, over the mean of all joiners.
    work: Vec<Vec<f64>>,
}

/// The panels of those that were measured with the most joiners; `None` if there is none.
pub fn draw(measurements: &[Measurement]) -> Result<Option<String>, Box<dyn Error>> {
    let panels: Vec<Panel<'_>> = PANELS.iter().filter_map(|algorithm| panel(measurements, algorithm)).collect();
    if panels.is_empty() {
        return Ok(None);
    }
    let most = panels.iter().flat_map(|panel| panel.work.iter().flatten()).fold(2.0, |most: f64, work| most.max(*work));
    let mut text = String::new();
    {
        let size = (panels.len() as u32 * SIZE.0, SIZE.1);
        let all = SVGBackend::with_string(&mut text, size).into_drawing_area();
        all.fill(&WHITE)?;
        for (panel, area) in panels.iter().zip(all.split_evenly((1, panels.len()))) {
            panel.draw(&area, most)?;
        }
        all.present()?;
    }
    Ok(Some(text))
}

fn panel<'a>(measurements: &'a [Measurement], algorithm: &str) -> Option<Panel<'a>> {
    let work = |one: &'a Measurement| {
        let work = one.parameters.get("work_of_joiners").filter(|_| one.parameters["algorithm"] == algorithm)?;
        let of_joiner = |work: &serde_json::Value| work.as_array()?.iter().map(|part| part.as_f64()).collect();
        Some(Panel { title: &one.variant, work: work.as_array()?.iter().map(of_joiner).collect::<Option<_>>()? })
    };
    measurements.iter().filter_map(work).max_by_key(|panel| panel.work.len())
}

impl Panel<'_> {
    fn draw(&self, area: &Area<'_>, most: f64) -> Result<(), Box<dyn Error>> {
        let parts = self.work.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let percent = |part: usize| 100.0 * (part as f64 + 0.5) / parts as f64;
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(20)
            .caption(self.title, ("sans-serif", 14).into_font().color(&INK))
            .x_label_area_size(42)
            .y_label_area_size(52)
            .build_cartesian_2d(0.0..100.0, 0.0..most)?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .x_desc("% of the run")
            .y_desc("work of a joiner, over the mean")
            .x_label_formatter(&|percent| format!("{percent:.0}"))
            .label_style(("sans-serif", 11).into_font().color(&INK))
            .axis_style(INK)
            .bold_line_style(FAINT)
            .draw()?;
        for (number, work) in self.work.iter().enumerate() {
            let color = HSLColor(number as f64 / self.work.len() as f64, 0.5, 0.5);
            let points = work.iter().enumerate().map(|(part, work)| (percent(part), *work));
            chart.draw_series([PathElement::new(points.collect::<Vec<_>>(), color.stroke_width(1))])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::measure::{measured, parameters};

    #[test]
    fn there_is_a_line_for_each_of_the_most_joiners() {
        let of = |algorithm: &str, work: &[[f64; 2]]| {
            let parameters = parameters([("algorithm", json!(algorithm)), ("work_of_joiners", json!(work))]);
            measured(format!("hot keys, {algorithm}, {} joiners, final", work.len()), parameters)
        };
        assert!(draw(&[]).unwrap().is_none());
        let three = [[1.0, 0.0], [2.0, 1.5], [0.0, 1.5]];
        let svg = draw(&[of("Key-OIJ", &three[..2]), of("Key-OIJ", &three), of("Scale-OIJ", &three)]);
        let svg = svg.unwrap().unwrap();
        let has = |text: &str| svg.lines().filter(|line| line.trim() == text).count();
        assert_eq!([has("hot keys, Key-OIJ, 3 joiners, final"), has("hot keys, Key-OIJ, 2 joiners, final")], [1, 0]);
        // As many colors as joiners, in each of two panels.
        let lines = svg.lines().filter(|line| line.starts_with("<polyline") && !line.contains("#2C3038"));
        assert_eq!(lines.count(), 6, "{svg}");
    }
}
