//! Bar charts as SVG: groups of bars, one bar of each series in each group.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use plotters::prelude::*;

/// The part of a group's width that its bars take.
const WIDTH: f64 = 0.8;

/// The bars of one colour.
#[derive(Debug)]
pub(crate) struct Series {
    /// The name in the legend.
    pub(crate) name: String,
    /// The height of the bar in each group, in order.
    pub(crate) heights: Vec<f64>,
}

/// A bar chart.
#[derive(Debug)]
pub(crate) struct Bars {
    /// The title: the quantity of the heights, with its unit.
    pub(crate) title: String,
    /// The names of the groups.
    pub(crate) groups: Vec<String>,
    /// The bars of each colour.
    pub(crate) series: Vec<Series>,
}

/// Writes a bar chart to a file.
///
/// # Errors
///
/// The file cannot be written.
pub(crate) fn svg(path: &Path, bars: &Bars) -> anyhow::Result<()> {
    let mut text = String::new();
    draw(&mut text, bars)?;
    std::fs::write(path, text).with_context(|| format!("cannot write the plot {}", path.display()))
}

fn draw(text: &mut String, bars: &Bars) -> anyhow::Result<()> {
    let failed = |error: String| anyhow!("cannot draw the plot: {error}");
    let area = SVGBackend::with_string(text, (960, 480)).into_drawing_area();
    area.fill(&WHITE).map_err(|error| failed(error.to_string()))?;
    let most =
        bars.series.iter().flat_map(|series| &series.heights).fold(0.0, |a: f64, b| a.max(*b));
    let top = if most > 0.0 && most.is_finite() { most * 1.2 } else { 1.0 };
    let groups = bars.groups.len().max(1);
    let mut on = ChartBuilder::on(&area)
        .caption(&bars.title, ("sans-serif", 20))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(-0.5..groups as f64 - 0.5, 0.0..top)
        .map_err(|error| failed(error.to_string()))?;
    // A label stands below the middle of each group, where x is a whole number.
    let label = |x: &f64| {
        let names = bars.groups.iter().zip(0_u32..);
        let mut here = names.filter(|(_, place)| (f64::from(*place) - x).abs() < 1e-6);
        here.next().map_or(String::new(), |(name, _)| name.clone())
    };
    on.configure_mesh()
        .disable_x_mesh()
        .x_labels(groups + 1)
        .x_label_formatter(&label)
        .draw()
        .map_err(|error| failed(error.to_string()))?;
    let width = WIDTH / bars.series.len().max(1) as f64;
    for (number, series) in bars.series.iter().enumerate() {
        let style = Palette99::pick(number).filled();
        let left = number as f64 * width - WIDTH / 2.0;
        let bar = |(height, group): (&f64, u32)| {
            let from = f64::from(group) + left;
            Rectangle::new([(from, 0.0), (from + width, *height)], style)
        };
        on.draw_series(series.heights.iter().zip(0..).map(bar))
            .map_err(|error| failed(error.to_string()))?
            .label(series.name.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 20, y + 5)], style));
    }
    on.configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
        .map_err(|error| failed(error.to_string()))?;
    area.present().map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bar_and_each_name_is_drawn() {
        let groups = (1..=10).map(|client| format!("C{client}")).collect();
        let series = |name: &str, height| Series { name: name.into(), heights: vec![height; 10] };
        let series = vec![series("reserved", 3.0), series("a < b", 5.0)];
        let mut text = String::new();
        draw(&mut text, &Bars { title: "I/Os".into(), groups, series }).unwrap();
        assert!((1..=10).all(|client| text.contains(&format!("\nC{client}\n"))), "{text}");
        assert!(text.contains("reserved") && text.contains("a &lt; b"));
        // Each bar, its sign in the legend, the legend's own box and border, and the background.
        assert_eq!(text.matches("<rect").count(), 20 + 2 + 2 + 1);
        let nothing = Bars { title: "y".into(), groups: vec![], series: vec![] };
        draw(&mut String::new(), &nothing).unwrap();
    }
}
