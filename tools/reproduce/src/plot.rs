//! Plots of figures, drawn as the charts of `sluice sim`.

use std::path::Path;

use anyhow::Context as _;
use sluice_sim::report::{Axis, Chart, Kind, Series};

/// A line of a chart: its name in the legend, and its points in the order of x.
pub(crate) type Line = Series<(f64, f64)>;

/// Makes a chart of lines. Its title says what y is; `x` too has its unit.
pub(crate) fn lines(title: &str, x: &str, lines: Vec<Line>) -> Chart {
    chart(title, Axis::linear(x), Axis::linear(title), Kind::Lines(lines))
}

/// Makes a chart of groups of bars: a bar of each series in each group. The title names the heights and their unit.
pub(crate) fn bars(
    title: &str,
    groups: impl IntoIterator<Item = impl Into<String>>,
    series: impl IntoIterator<Item = (impl Into<String>, impl Into<Vec<f64>>)>,
) -> Chart {
    let groups = groups.into_iter().map(Into::into).collect();
    let series = series.into_iter();
    let series = series.map(|(name, of)| Series { name: name.into(), points: of.into() }).collect();
    // The title stands below the groups: some titles are longer than the picture is high.
    chart(title, Axis::linear(title), Axis::linear(""), Kind::Bars { groups, series })
}

fn chart(title: &str, x: Axis, y: Axis, kind: Kind) -> Chart {
    Chart { title: title.to_owned(), file: String::new(), x, y, kind }
}

/// Writes a chart to a file.
///
/// # Errors
///
/// The file cannot be written.
pub(crate) fn write(path: &Path, chart: &Chart) -> anyhow::Result<()> {
    std::fs::write(path, chart.svg())
        .with_context(|| format!("cannot write the plot {}", path.display()))
}
