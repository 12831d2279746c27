//! The measurements as a picture: a section for each workload, a line for each variant.
//!
//! ```text
//!  selection                         rows/s            share of bandwidth
//!  SQL, none, 1 worker     ▇▇▇▇▇▇▇▇▇▇▇ 624 M     ▇▇▇▇ 39 %
//! ```
//!
//! Where rows come at a rate of their own, the panels show how long results took, and how late an idle loop woke meanwhile.

use std::error::Error;

use plotters::{
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, ValueFormatter},
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::measure::{Latencies, Measurement};

/// Sizes in pixels: the picture, a line, what is above and below the lines of a section, and the panels.
const WIDTH: u32 = 1240;
const LINE: u32 = 21;
const TITLE: u32 = 40;
const AXIS: u32 = 30;
const LABELS: i32 = 400;
const FIRST: i32 = 430;
/// Room for the figure behind the longest bar.
const FIGURE: u32 = 84;

const INK: RGBColor = RGBColor(44, 48, 56);
const FAINT: RGBColor = RGBColor(226, 229, 233);
const BLUE: RGBColor = RGBColor(66, 122, 186);
const GREEN: RGBColor = RGBColor(96, 164, 126);
const ORANGE: RGBColor = RGBColor(222, 146, 74);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the measurements, as SVG.
pub fn draw(measurements: &[Measurement]) -> Result<String, Box<dyn Error>> {
    let sections: Vec<_> = measurements.chunk_by(|a, b| a.workload == b.workload).collect();
    let height = |lines: &[Measurement]| TITLE + AXIS + LINE * lines.len() as u32;
    let mut text = String::new();
    {
        let all = sections.iter().map(|lines| height(lines)).sum::<u32>().max(1);
        let mut rest = SVGBackend::with_string(&mut text, (WIDTH, all)).into_drawing_area();
        rest.fill(&WHITE)?;
        for lines in sections {
            let (area, below) = rest.split_vertically(height(lines));
            section(&area, lines)?;
            rest = below;
        }
        rest.present()?;
    }
    Ok(text)
}

fn section(area: &Area<'_>, lines: &[Measurement]) -> Result<(), Box<dyn Error>> {
    let (labels, panels) = area.split_horizontally(LABELS);
    let (first, second) = panels.split_horizontally(FIRST);
    let bold = ("sans-serif", 17).into_font().style(FontStyle::Bold);
    let title = TextStyle { font: bold, ..text(17.0, HPos::Left) };
    labels.draw(&Text::new(lines[0].workload.as_str(), (14, TITLE as i32 / 2), title))?;
    for (number, line) in lines.iter().enumerate() {
        let middle = (TITLE + LINE * number as u32 + LINE / 2) as i32;
        labels.draw(&Text::new(line.variant.as_str(), (LABELS - 10, middle), text(13.0, HPos::Right)))?;
    }
    if lines.iter().any(|line| line.latency.is_some()) {
        return latencies(&first, &second, lines);
    }
    let rates: Vec<f64> = lines.iter().map(|line| line.rows_per_s).collect();
    let (from, to) = decades(&rates);
    Panel { title: "rows/s, logarithmic", bars: &rates, marks: &[], color: BLUE, figure: &short }
        .draw(&first, (from..to).log_scale())?;
    let shares: Vec<f64> = lines.iter().map(|line| line.share_of_bandwidth * 100.0).collect();
    let most = shares.iter().copied().fold(100.0, f64::max);
    Panel { title: "share of bandwidth", bars: &shares, marks: &[], color: GREEN, figure: &|v| format!("{v:.1} %") }
        .draw(&second, 0.0..most)
}

/// How long results took, and how late the idle loop woke.
fn latencies<'a>(first: &Area<'a>, second: &Area<'a>, lines: &[Measurement]) -> Result<(), Box<dyn Error>> {
    // What is shorter than a microsecond is drawn as one.
    let millis = |latencies: Option<Latencies>| {
        let times = latencies.map_or([0.0; 3], |l| [l.p50_us, l.p99_us, l.p999_us]);
        times.map(|us| (us / 1e3).max(0.001))
    };
    let results: Vec<_> = lines.iter().map(|line| millis(line.latency)).collect();
    let idle: Vec<_> = lines.iter().map(|line| millis(line.idle_loop.or(line.latency))).collect();
    let (from, to) = decades(&[results.as_flattened(), idle.as_flattened()].concat());
    let panels = [
        (first, "ms to the result: p99; lines at p50 and p99.9", &results, ORANGE),
        (second, "ms that an idle loop woke too late: the same", &idle, GREEN),
    ];
    for (area, title, times, color) in panels {
        let bars: Vec<f64> = times.iter().map(|times| times[1]).collect();
        let marks: Vec<_> = times.iter().map(|times| [times[0], times[2]]).collect();
        let panel = Panel { title, bars: &bars, marks: &marks, color, figure: &|ms| format!("{ms:.2}") };
        panel.draw(area, (from..to).log_scale())?;
    }
    Ok(())
}

/// One bar a line, from the top.
struct Panel<'a> {
    title: &'a str,
    bars: &'a [f64],
    /// Two short lines each, or none at all.
    marks: &'a [[f64; 2]],
    color: RGBColor,
    figure: &'a dyn Fn(f64) -> String,
}

impl Panel<'_> {
    fn draw<X>(&self, area: &Area<'_>, axis: X) -> Result<(), Box<dyn Error>>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
    {
        area.draw(&Text::new(self.title, (0, TITLE as i32 / 2), text(13.0, HPos::Left)))?;
        let count = self.bars.len() as f64;
        let mut chart = ChartBuilder::on(area)
            .margin_top(TITLE)
            .margin_right(FIGURE)
            .x_label_area_size(AXIS)
            .build_cartesian_2d(axis, 0.0..count)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(0)
            .x_labels(6)
            .x_max_light_lines(0)
            .x_label_formatter(&|value| short(*value))
            .label_style(("sans-serif", 11).into_font().color(&INK))
            .axis_style(FAINT)
            .bold_line_style(FAINT)
            .draw()?;
        let from = chart.x_range().start;
        let line = |number: usize| count - number as f64;
        let bars = self.bars.iter().enumerate();
        chart.draw_series(bars.clone().map(|(number, value)| {
            Rectangle::new([(from, line(number) - 0.16), (*value, line(number) - 0.84)], self.color.filled())
        }))?;
        let marks = self.marks.iter().enumerate().flat_map(|(number, marks)| marks.map(|mark| (number, mark)));
        chart.draw_series(marks.map(|(number, mark)| {
            PathElement::new([(mark, line(number) - 0.1), (mark, line(number) - 0.9)], INK.stroke_width(1))
        }))?;
        chart.draw_series(bars.map(|(number, value)| {
            let farthest = self.marks.get(number).map_or(*value, |marks| value.max(marks[1]));
            let figure = Text::new((self.figure)(*value), (6, 0), text(12.0, HPos::Left));
            EmptyElement::at((farthest, line(number) - 0.5)) + figure
        }))?;
        Ok(())
    }
}

fn text(size: f64, side: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK).pos(Pos::new(side, VPos::Center))
}

/// The powers of ten around these values; two apart at least, so that there is an axis.
fn decades(values: &[f64]) -> (f64, f64) {
    let positive = || values.iter().copied().filter(|value| *value > 0.0);
    let (least, most) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
    if most == 0.0 {
        return (1.0, 100.0);
    }
    let (from, to) = (10f64.powf(least.log10().floor()), 10f64.powf(most.log10().ceil()));
    (from, to.max(from * 100.0))
}

/// Three digits and a unit: `1.23 M`.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e9 => (value / 1e9, " G"),
        value if value >= 1e6 => (value / 1e6, " M"),
        value if value >= 1e3 => (value / 1e3, " k"),
        value => (value, ""),
    };
    let digits = if value >= 100.0 || value.fract() == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_axes_hold_them() {
        assert_eq!([1_234_567.0, 10.0, 999e6, 0.25, 45_600.0].map(short), ["1.23 M", "10", "999 M", "0.25", "45.6 k"]);
        assert_eq!(decades(&[23.0, 4_500.0]), (10.0, 10_000.0));
        assert_eq!(decades(&[50.0]), (10.0, 1_000.0));
        assert_eq!(decades(&[0.0]), (1.0, 100.0));
    }
}
