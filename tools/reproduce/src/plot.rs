//! Line charts as SVG; [`bars`] has bar charts.

pub(crate) mod bars;

use std::path::Path;

use anyhow::{Context as _, anyhow};
use plotters::prelude::*;

/// The most points of a line that are drawn: more than a screen has columns.
const POINTS: usize = 2000;

/// A line of a chart.
#[derive(Debug)]
pub(crate) struct Line {
    /// The name in the legend.
    pub(crate) name: String,
    /// The points, in the order of x.
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Debug)]
pub(crate) struct Chart<'a> {
    /// The title: what y is, with its unit.
    pub(crate) title: &'a str,
    /// The name of x, with its unit.
    pub(crate) x: &'a str,
    pub(crate) lines: Vec<Line>,
}

/// Writes a chart to a file.
///
/// # Errors
///
/// The file cannot be written.
pub(crate) fn svg(path: &Path, chart: &Chart<'_>) -> anyhow::Result<()> {
    let mut text = String::new();
    draw(&mut text, chart)?;
    std::fs::write(path, text).with_context(|| format!("cannot write the plot {}", path.display()))
}

fn draw(text: &mut String, chart: &Chart<'_>) -> anyhow::Result<()> {
    let failed = |error: String| anyhow!("cannot draw the plot: {error}");
    let area = SVGBackend::with_string(text, (960, 480)).into_drawing_area();
    area.fill(&WHITE).map_err(|error| failed(error.to_string()))?;
    let (x, y) = extent(chart);
    let mut on = ChartBuilder::on(&area)
        .caption(chart.title, ("sans-serif", 20))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..x, 0.0..y)
        .map_err(|error| failed(error.to_string()))?;
    on.configure_mesh().x_desc(chart.x).draw().map_err(|error| failed(error.to_string()))?;
    for (number, line) in chart.lines.iter().enumerate() {
        let style = Palette99::pick(number).stroke_width(2);
        let step = line.points.len().div_ceil(POINTS).max(1);
        let points = line.points.iter().copied().step_by(step);
        on.draw_series(LineSeries::new(points, style))
            .map_err(|error| failed(error.to_string()))?
            .label(line.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    on.configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
        .map_err(|error| failed(error.to_string()))?;
    area.present().map_err(|error| failed(error.to_string()))
}

/// Finds the largest x and y, with some room above; axes begin at 0.
fn extent(chart: &Chart<'_>) -> (f64, f64) {
    let points = chart.lines.iter().flat_map(|line| &line.points);
    let (x, y) = points.fold((0.0f64, 0.0f64), |(x, y), point| (x.max(point.0), y.max(point.1)));
    let some = |most: f64| if most > 0.0 && most.is_finite() { most } else { 1.0 };
    (some(x), some(y) * 1.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_of_many_points_or_none_is_drawn_and_stays_small() {
        let points = (0..1_000_000).map(|x| (f64::from(x), f64::from(x % 100))).collect();
        let lines =
            vec![Line { name: "a < b".into(), points }, Line { name: "c".into(), points: vec![] }];
        let mut text = String::new();
        draw(&mut text, &Chart { title: "y", x: "x", lines }).unwrap();
        assert!(text.contains("a &lt; b"), "names are escaped");
        assert!(text.len() < 100_000, "{}", text.len());
        draw(&mut String::new(), &Chart { title: "y", x: "x", lines: vec![] }).unwrap();
    }
}
