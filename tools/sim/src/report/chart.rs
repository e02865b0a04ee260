//! Charts as SVG.

use std::fmt::Write as _;

use super::escape::escaped;
use super::scale::{Axis, Extent, shown};
use super::style;

/// The picture's size, and the room around the axes.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const BOTTOM: f64 = 52.0;
/// The width of a colour's sample in the legend.
const SAMPLE: f64 = 26.0;
/// The first colour of bars: they are no hosts, whose colours lines have.
const BAR_COLOUR: usize = 4;
/// The height of a line of the legend, and the room above the axes without it.
const LEGEND: f64 = 20.0;
const TOP: f64 = 12.0;
/// The width of a letter, roughly.
const LETTER: f64 = 7.2;
/// The part of a group's width that its bars take.
const BARS: f64 = 0.8;
/// The most points of a line that are drawn: more than a screen has columns.
const POINTS: usize = 1500;

/// The content of a chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Lines through points (x, y).
    Lines(Vec<Series<(f64, f64)>>),
    /// Groups of bars, a bar of each series in each group.
    Bars {
        /// Names of the groups.
        groups: Vec<String>,
        /// Heights of the bars, a number for each group.
        series: Vec<Series<f64>>,
    },
}

/// A series, drawn in one colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Series<P> {
    /// Name, for the legend.
    pub name: String,
    /// Points or heights.
    pub points: Vec<P>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// File name without its ending.
    pub file: String,
    /// Horizontal axis; of bars, its title only.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Content.
    pub kind: Kind,
}

/// A chart while it is drawn.
#[derive(Debug)]
struct Canvas {
    text: String,
    top: f64,
}

impl Chart {
    /// Writes the chart as a file of its own, which is light or dark as the reader's screen.
    #[must_use]
    pub fn svg(&self) -> String {
        let heading = format!("<style>{}svg{{background:var(--back)}}</style>", style::COLOURS);
        self.drawn(&heading, " xmlns=\"http://www.w3.org/2000/svg\"")
    }

    /// Writes the chart for a page that has the [style](style).
    pub(super) fn inline(&self) -> String {
        self.drawn("", "")
    }

    fn drawn(&self, heading: &str, attributes: &str) -> String {
        let names: Vec<&str> = match &self.kind {
            Kind::Lines(series) => series.iter().map(|series| series.name.as_str()).collect(),
            Kind::Bars { series, .. } => series.iter().map(|series| series.name.as_str()).collect(),
        };
        let mut canvas = Canvas { text: String::new(), top: 0.0 };
        let lines = matches!(self.kind, Kind::Lines(_));
        canvas.legend(&names, lines, if lines { 0 } else { BAR_COLOUR });
        match &self.kind {
            Kind::Lines(series) => canvas.lines(self, series),
            Kind::Bars { groups, series } => canvas.bars(self, groups, series),
        }
        format!(
            "<svg{attributes} viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" class=\"chart\">\
             <title>{}</title>{heading}{}</svg>",
            escaped(&self.title),
            canvas.text
        )
    }
}

impl Canvas {
    /// Adds a piece of SVG. Writing to a string does not fail.
    fn add(&mut self, piece: std::fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(piece);
        self.text.push('\n');
    }

    /// Draws the legend, in as many lines as it takes, from a colour on.
    fn legend(&mut self, names: &[&str], lines: bool, first: usize) {
        let (mut x, mut y) = (LEFT, TOP);
        for (number, name) in names.iter().enumerate() {
            let width = SAMPLE + 22.0 + name.chars().count() as f64 * LETTER;
            if x > LEFT && x + width > WIDTH - RIGHT {
                (x, y) = (LEFT, y + LEGEND);
            }
            let class = style::class(first + number);
            if lines {
                self.add(format_args!(
                    "<line class=\"l {class}\" x1=\"{x:.0}\" y1=\"{y:.0}\" x2=\"{:.0}\" y2=\"{y:.0}\"/>",
                    x + SAMPLE
                ));
            } else {
                self.add(format_args!(
                    "<rect class=\"f {class}\" x=\"{x:.0}\" y=\"{:.0}\" width=\"{SAMPLE}\" \
                     height=\"10\" rx=\"2\"/>",
                    y - 5.0
                ));
            }
            self.add(format_args!(
                "<text class=\"t\" x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                x + SAMPLE + 6.0,
                y + 4.0,
                escaped(name)
            ));
            x += width;
        }
        self.top = y + LEGEND;
    }

    /// Computes the place of a part of the horizontal axis.
    fn x(part: f64) -> f64 {
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }

    /// Computes the place of a part of the vertical axis.
    fn y(&self, part: f64) -> f64 {
        let bottom = HEIGHT - BOTTOM;
        bottom - part * (bottom - self.top)
    }

    /// Draws the vertical axis with its lines, and the titles of both.
    fn axes(&mut self, chart: &Chart, y: &Extent) {
        let (left, right) = (Self::x(0.0), Self::x(1.0));
        for tick in &y.ticks {
            let at = self.y(y.place(*tick));
            self.add(format_args!(
                "<line class=\"g\" x1=\"{left:.1}\" y1=\"{at:.1}\" x2=\"{right:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"t\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left - 6.0,
                at + 4.0,
                shown(*tick)
            ));
        }
        let (bottom, middle) = (self.y(0.0), self.y(0.5));
        self.add(format_args!(
            "<line class=\"a\" x1=\"{left:.1}\" y1=\"{bottom:.1}\" x2=\"{right:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"h\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"h\" text-anchor=\"middle\" transform=\"translate(16 {middle:.1}) rotate(-90)\">{}</text>",
            Self::x(0.5),
            HEIGHT - 10.0,
            escaped(&chart.x.title),
            escaped(&chart.y.title)
        ));
    }

    fn lines(&mut self, chart: &Chart, series: &[Series<(f64, f64)>]) {
        let points = || series.iter().flat_map(|series| &series.points);
        let x = Extent::new(chart.x.scale, points().map(|(x, _)| *x), 8);
        let y = Extent::new(chart.y.scale, points().map(|(_, y)| *y), 5);
        self.axes(chart, &y);
        for tick in &x.ticks {
            let (at, bottom) = (Self::x(x.place(*tick)), self.y(0.0));
            self.add(format_args!(
                "<line class=\"a\" x1=\"{at:.1}\" y1=\"{bottom:.1}\" x2=\"{at:.1}\" y2=\"{:.1}\"/>\
                 <text class=\"t\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 4.0,
                bottom + 18.0,
                shown(*tick)
            ));
        }
        for (number, series) in series.iter().enumerate() {
            let step = series.points.len().div_ceil(POINTS).max(1);
            let mut path = String::new();
            for (at_x, at_y) in series.points.iter().step_by(step) {
                if !at_x.is_finite() || !at_y.is_finite() {
                    continue;
                }
                let _ =
                    write!(path, "{:.1},{:.1} ", Self::x(x.place(*at_x)), self.y(y.place(*at_y)));
            }
            let class = style::class(number);
            self.add(format_args!(
                "<polyline class=\"l {class}\" points=\"{}\"/>",
                path.trim_end()
            ));
        }
    }

    fn bars(&mut self, chart: &Chart, groups: &[String], series: &[Series<f64>]) {
        let heights = series.iter().flat_map(|series| series.points.iter().copied());
        let y = Extent::new(chart.y.scale, heights, 5);
        self.axes(chart, &y);
        let group = 1.0 / groups.len().max(1) as f64;
        let width = group * BARS / series.len().max(1) as f64;
        // Names that would run into each other stand slanted.
        let room = (Self::x(group) - Self::x(0.0)) / LETTER;
        let slanted = groups.iter().any(|name| name.chars().count() as f64 > room);
        for (name, number) in groups.iter().zip(0_u32..) {
            let at = Self::x(group * (f64::from(number) + 0.5));
            let below = self.y(0.0) + 16.0;
            let turn = if slanted { " rotate(-20)" } else { "" };
            let anchor = if slanted { "end" } else { "middle" };
            self.add(format_args!(
                "<text class=\"t\" text-anchor=\"{anchor}\" transform=\"translate({at:.1} {below:.1}){turn}\">{}</text>",
                escaped(name)
            ));
        }
        for (number, series) in series.iter().enumerate() {
            let class = style::class(BAR_COLOUR + number);
            for (height, place) in series.points.iter().zip(0_u32..) {
                let left = group * (f64::from(place) + (1.0 - BARS) / 2.0) + width * number as f64;
                let (x, right) = (Self::x(left), Self::x(left + width));
                let top = self.y(y.place(*height));
                self.add(format_args!(
                    "<rect class=\"f {class}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
                     <title>{}: {}</title></rect>",
                    (right - x - 1.0).max(0.5),
                    (self.y(0.0) - top).max(0.0),
                    escaped(&series.name),
                    shown(*height)
                ));
            }
        }
    }
}
