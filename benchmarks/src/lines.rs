//! Measurements over a parameter as a picture: panels of lines, both axes logarithmic, the names beside them.

use std::{error::Error, ops::Range};

use plotters::{
    coord::{
        Shift,
        ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter},
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

/// Sizes in pixels: a panel, what the names take beside the panels, and a name's line.
const PANEL: (u32, u32) = (500, 290);
const NAMES: u32 = 240;
const NAME: i32 = 22;
const COLUMNS: usize = 2;

/// The vertical axis has a line at this, and where all is large, at 1.
const UNIT: f64 = 0.001;

/// So many powers of two have names along an axis, about.
const NAMED: usize = 12;

const INK: RGBColor = RGBColor(44, 48, 56);
const FAINT: RGBColor = RGBColor(226, 229, 233);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Panels with the same axes.
pub struct Picture {
    /// What the horizontal axis is.
    pub across: &'static str,
    /// What the vertical axis is.
    pub up: &'static str,
    /// Row by row, two in each.
    pub panels: Vec<Panel>,
}

/// Some lines.
pub struct Panel {
    /// What is the same for all of them.
    pub title: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// What was measured of one thing.
pub struct Line {
    /// What it is.
    pub name: String,
    /// Its colour, the same in all panels.
    pub color: RGBColor,
    /// In pixels.
    pub width: u32,
    /// From left to right; all are positive.
    pub points: Vec<(f64, f64)>,
}

impl Picture {
    /// Draws it, as SVG.
    pub fn draw(&self) -> Result<String, Box<dyn Error>> {
        let columns = self.panels.len().clamp(1, COLUMNS);
        let rows = self.panels.len().div_ceil(columns).max(1);
        let size = (columns as u32 * PANEL.0 + NAMES, rows as u32 * PANEL.1);
        let mut text = String::new();
        {
            let all = SVGBackend::with_string(&mut text, size).into_drawing_area();
            all.fill(&WHITE)?;
            let (panels, names) = all.split_horizontally(size.0 - NAMES);
            let unit = if self.least() < 1.0 { UNIT } else { 1.0 };
            let (x, y) = (self.axis(1.0, |point| point.0), self.axis(unit, |point| point.1));
            for (panel, area) in self.panels.iter().zip(panels.split_evenly((rows, columns))) {
                self.panel(&area, panel, x, y)?;
            }
            self.names(&names)?;
            all.present()?;
        }
        Ok(text)
    }

    fn least(&self) -> f64 {
        let points = self.panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
        points.map(|point| point.1).fold(f64::INFINITY, f64::min)
    }

    /// The axis that holds all of these.
    fn axis(&self, unit: f64, of: impl Fn(&(f64, f64)) -> f64) -> Axis {
        let points = self.panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
        let powers: Vec<f64> = points.map(|point| (of(point) / unit).log2()).collect();
        let least = powers.iter().copied().fold(f64::INFINITY, f64::min).floor() as i32;
        let most = powers.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil() as i32;
        Axis { unit, least, most: most.max(least.saturating_add(1)) }
    }

    fn panel(&self, area: &Area<'_>, panel: &Panel, x: Axis, y: Axis) -> Result<(), Box<dyn Error>> {
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .caption(&panel.title, ("sans-serif", 15).into_font().color(&INK))
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .x_desc(self.across)
            .y_desc(self.up)
            .label_style(("sans-serif", 12).into_font().color(&INK))
            .axis_style(INK)
            .bold_line_style(FAINT)
            .draw()?;
        for Line { color, width, points, .. } in &panel.lines {
            chart.draw_series([PathElement::new(points.clone(), color.stroke_width(*width))])?;
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
        }
        Ok(())
    }

    /// Each name once, beside a piece of its line.
    fn names(&self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        let mut known: Vec<&Line> = Vec::new();
        for line in self.panels.iter().flat_map(|panel| &panel.lines) {
            if known.iter().all(|one| one.name != line.name) {
                known.push(line);
            }
        }
        let text = ("sans-serif", 14).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        for (number, line) in known.into_iter().enumerate() {
            let y = 52 + NAME * number as i32;
            area.draw(&PathElement::new([(8, y), (34, y)], line.color.stroke_width(line.width)))?;
            area.draw(&Circle::new((21, y), 3, line.color.filled()))?;
            area.draw(&Text::new(line.name.as_str(), (42, y), text.clone()))?;
        }
        Ok(())
    }
}

/// A logarithmic axis with a line at each power of two of its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    unit: f64,
    least: i32,
    most: i32,
}

impl Axis {
    fn at(&self, power: i32) -> f64 {
        self.unit * f64::from(power).exp2()
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = ((value / self.unit).log2() - f64::from(self.least)) / f64::from(self.most - self.least);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        // Names that are many and long have to leave some out.
        let step = (self.most - self.least) as usize / NAMED + 1;
        (self.least..=self.most).step_by(step).map(|power| self.at(power)).collect()
    }

    fn range(&self) -> Range<f64> {
        self.at(self.least)..self.at(self.most)
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        // Without the last digits, which are those of the computation.
        ((value * 1e6).round() / 1e6).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_go_from_one_power_of_two_to_another_and_each_name_stands_once() {
        let line = || Line { name: "fast".into(), color: INK, width: 2, points: vec![(2.0, 0.003), (1024.0, 0.0079)] };
        let panel = |title: &str| Panel { title: title.into(), lines: vec![line()] };
        let picture = Picture { across: "partitions", up: "CPU s", panels: vec![panel("left"), panel("right")] };
        let y = Axis { unit: UNIT, least: 1, most: 3 };
        assert_eq!(picture.axis(UNIT, |point| point.1), y);
        assert_eq!([0.002, 0.004, 0.008].map(|value| y.map(&value, (200, 0))), [200, 100, 0]);
        let svg = picture.draw().unwrap();
        let lines: Vec<&str> = svg.lines().map(str::trim).collect();
        for (label, times) in [("fast", 1), ("left", 1), ("1024", 2), ("0.008", 2), ("CPU s", 2)] {
            assert_eq!(lines.iter().filter(|line| **line == label).count(), times, "{label} in {svg}");
        }
    }
}
