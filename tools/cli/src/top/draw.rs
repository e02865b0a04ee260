//! The drawing of the screen.

use std::collections::VecDeque;
use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::model::{HISTORY, Pane};
use super::plain::heading;
use super::state::State;
use super::table::{Cell, Row, Table};
use crate::control::table::{Align, end_cut};

/// The characters between columns.
const GAP: usize = 2;
/// The least width of a history.
const NARROW: usize = 8;
/// The length below which names are not cut to make room for the history.
const SHORT_NAME: usize = 20;
/// The length below which names are not cut at all.
const SHORTEST_NAME: usize = 12;
/// The height from which on the classes are shown above every other pane.
const TALL: u16 = 18;

const HELP: &str = "\
Tab, 1 .. 7      the pane: classes, sessions, devices, hosts, links, connections,
                 workloads (a host in a class at a namespace)
< >              the column that sorts;  r  reverse the order
up, down, PgUp, PgDn, Home, End  move through the rows;  left, right  the columns
/                show only names that contain what you type;  Esc  all
z                hide rows in which nothing happens
space, p         hold the figures
+ -              a longer or a shorter interval
q                leave

All figures but KEPT are of the last interval.
WAITING: commands in the target that wait for their turn.
LATENCY: mean time from a command's arrival to its answer; WAIT, DEVICE: the
parts of it before the device and in it.
P99 of each: the time that 99 % of the commands did not exceed; - for none.
IOPS LIMIT, MB/s LIMIT: of all commands, of reads (r) and of writes (w).
COMMANDS, PAYLOAD: credits in use, and all credits.
IN DEVICE: commands that the device holds, and may hold (the window).
KEPT: periods in which a reservation was kept, of those with demand.
OUT: data that the target sends; IN: data that hosts send.
RATE: payload; TARGET: the rate it should get; LIMIT: its upper bound now.
ALPHA: the part of packets that the network marks; Q: target by rate; below 1
it makes room, above 1 it is short. RTT: round-trip time, queues included.

Any key leaves this page.";

/// The colours of the screen, or bold and reversed text without colours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) colours: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn title(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    fn alarm(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    fn class(self, name: &str) -> Style {
        match name {
            "urgent" => self.colour(Color::Red),
            "high" => self.colour(Color::Yellow),
            "medium" => self.colour(Color::Cyan),
            _ => Style::new(),
        }
    }
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, theme: Theme, now: Instant) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let lines = if state.help {
        HELP.lines().map(Line::raw).collect()
    } else {
        body(state, theme, (width, height.saturating_sub(1)))
    };
    frame.render_widget(Paragraph::new(lines), area);
    if let Some(bottom) = area.height.checked_sub(1) {
        let place = Rect { y: area.y + bottom, height: 1, ..area };
        frame.render_widget(Paragraph::new(status(state, theme, now)), place);
    }
}

/// Draws all but the last line.
fn body(state: &mut State, theme: Theme, (width, height): (usize, usize)) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(heading(&state.model), Style::new().bold())];
    let label = "IOPS ";
    let total = sparkline(&state.model.total.history, width.saturating_sub(label.len()));
    lines.push(Line::from(vec![Span::raw(label), Span::styled(total, theme.colour(Color::Green))]));
    let tall = height + 1 >= usize::from(TALL);
    let table = state.table(Pane::Classes);
    if tall && state.pane != Pane::Classes && !table.rows.is_empty() {
        let columns = fit(&table, &state.widths(Pane::Classes, &table), width, &mut 0);
        lines.extend(table_lines(state, (Pane::Classes, &table), theme, &columns, 0..usize::MAX));
    }
    if tall {
        lines.push(Line::default());
    }
    let table = state.table(state.pane);
    let columns = fit(&table, &state.widths(state.pane, &table), width, &mut state.aside);
    // The last column is the history, which is left out.
    let last = columns.last().map_or(0, |(last, _)| last + 2);
    state.beyond = table.columns.len().saturating_sub(last);
    // The rows below the tabs and the table's heading are left.
    state.page = height.saturating_sub(lines.len() + 2).max(1);
    state.offset = state.offset.min(table.rows.len().saturating_sub(state.page));
    lines.push(tabs(state, table.rows.len(), theme));
    let shown = state.offset..state.offset.saturating_add(state.page);
    lines.extend(table_lines(state, (state.pane, &table), theme, &columns, shown));
    lines.truncate(height);
    lines
}

/// Makes the line of the panes' names, and of how the rows were chosen.
fn tabs(state: &State, rows: usize, theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, pane) in (1..).zip(Pane::ALL) {
        let text = format!(" {number} {} ", pane.title());
        let style = if pane == state.pane {
            theme.title().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        spans.push(Span::styled(text, style));
    }
    let mut chosen = format!("  {rows} rows");
    if state.offset > 0 {
        chosen += &format!(" from {}", state.offset + 1);
    }
    if !state.filter.is_empty() {
        chosen += &format!(", with `{}`", state.filter);
    }
    if state.hide_idle {
        chosen += ", idle ones hidden";
    }
    spans.push(Span::raw(chosen));
    Line::from(spans)
}

/// Makes the heading and the shown rows of a table.
fn table_lines(
    state: &State,
    (pane, table): (Pane, &Table),
    theme: Theme,
    columns: &[(usize, usize)],
    shown: std::ops::Range<usize>,
) -> Vec<Line<'static>> {
    let sorted = state.sort(pane);
    let heading = columns.iter().filter_map(|(index, width)| {
        let column = table.columns.get(*index)?;
        let mark = sorted.filter(|(by, _)| by == index);
        let style = match mark {
            Some(_) => theme.title().add_modifier(Modifier::UNDERLINED),
            None => theme.title(),
        };
        let text = pad(column.title, *width, column.align);
        Some([Span::styled(text, style), Span::raw(" ".repeat(GAP))])
    });
    let mut lines = vec![Line::from(heading.flatten().collect::<Vec<_>>())];
    let rows = table.rows.iter().take(shown.end).skip(shown.start);
    lines.extend(rows.map(|row| row_line(table, row, columns, theme)));
    if table.rows.is_empty() {
        lines.push(Line::raw("nothing here"));
    }
    lines
}

fn row_line(table: &Table, row: &Row, columns: &[(usize, usize)], theme: Theme) -> Line<'static> {
    let class = theme.class(&row.class);
    let base = if row.idle { class.add_modifier(Modifier::DIM) } else { class };
    let cells = columns.iter().filter_map(|(index, width)| {
        let span = match row.cells.get(*index)? {
            Cell::History(history) => {
                Span::styled(sparkline(history, *width), theme.colour(Color::Green))
            }
            cell => {
                let align = table.columns.get(*index).map_or(Align::Left, |column| column.align);
                Span::styled(pad(cell.text(), *width, align), base)
            }
        };
        Some([span, Span::raw(" ".repeat(GAP))])
    });
    Line::from(cells.flatten().collect::<Vec<_>>())
}

/// Chooses the columns that are shown, and their widths. If the table is too wide, names are cut so that some history
/// fits, then the history is left out, then names are cut more, then columns are left out: `aside` of them behind the
/// first, which always stays, and the rest at the end. `aside` is lowered if the last column is shown already. The
/// history uses the remaining room.
fn fit(table: &Table, widths: &[usize], room: usize, aside: &mut usize) -> Vec<(usize, usize)> {
    let history = widths.len().saturating_sub(1);
    let all: Vec<_> = widths.iter().copied().take(history).enumerate().collect();
    let mut columns = all.clone();
    cut(table, &mut columns, room.saturating_sub(NARROW), SHORT_NAME);
    cut(table, &mut columns, room, SHORTEST_NAME);
    if total(&columns) <= room {
        *aside = 0;
        let left = room - total(&columns);
        if left >= NARROW {
            columns.push((history, left.min(HISTORY)));
        }
        return columns;
    }
    let without = |aside: usize| {
        let shown = all.iter().filter(|(column, _)| *column == 0 || *column > aside);
        let mut columns: Vec<_> = shown.copied().collect();
        cut(table, &mut columns, room, SHORTEST_NAME);
        columns
    };
    let most = (0..history).find(|aside| total(&without(*aside)) <= room);
    *aside = (*aside).min(most.unwrap_or(history.saturating_sub(2)));
    let mut columns = without(*aside);
    while total(&columns) > room && columns.len() > 1 {
        columns.pop();
    }
    columns
}

fn total(columns: &[(usize, usize)]) -> usize {
    columns.iter().map(|(_, width)| width + GAP).sum()
}

/// Makes the widest cells narrower until all columns fit or none can be cut: names to no less than
/// `shortest`, values so that their numbers stay.
fn cut(table: &Table, columns: &mut [(usize, usize)], room: usize, shortest: usize) {
    let is_wide = |column: usize, width: usize| {
        let least = table.columns.get(column).and_then(|of| of.align.shortest(Some(shortest)));
        least.is_some_and(|least| width > least)
    };
    for _ in room..total(columns) {
        let wide = columns.iter_mut().filter(|(column, width)| is_wide(*column, *width));
        match wide.map(|(_, width)| width).max_by_key(|width| **width) {
            Some(width) => *width -= 1,
            None => return,
        }
    }
}

/// Fits `text` into exactly `width` characters. Of names that are too long the end is kept, where
/// names differ; of values the beginning, where their numbers are.
fn pad(text: &str, width: usize, align: Align) -> String {
    let length = text.chars().count();
    match (length > width, align) {
        (true, Align::Left) => {
            let skip = length - width.saturating_sub(1);
            "…".chars().chain(text.chars().skip(skip)).take(width).collect()
        }
        (true, Align::Value) => end_cut(text, width),
        (true, Align::Right) => text.chars().take(width).collect(),
        (false, Align::Right) => format!("{text:>width$}"),
        (false, _) => format!("{text:<width$}"),
    }
}

/// Draws the newest `width` values as bars; the greatest one has full height.
pub(super) fn sparkline(history: &VecDeque<f64>, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = || history.iter().skip(history.len().saturating_sub(width));
    let highest = shown().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        // The first bar that is at least as high as the value.
        let part = if highest > 0.0 { value / highest * 8.0 } else { 0.0 };
        if part <= 0.0 {
            return ' ';
        }
        let found = BARS.iter().zip(1u8..).find(|(_, height)| part <= f64::from(*height));
        found.map_or('█', |(bar, _)| *bar)
    };
    shown().map(bar).collect()
}

/// Makes the last line: an error, a notice, or the keys.
fn status(state: &State, theme: Theme, now: Instant) -> Line<'static> {
    if state.editing {
        return Line::raw(format!("/{}_   Enter: keep, Esc: show all", state.filter));
    }
    if let Some(error) = &state.lost {
        let text = format!("No answer, trying again. {error}");
        return Line::styled(text, theme.alarm());
    }
    if let Some(notice) = state.notice(now) {
        return Line::styled(notice.to_owned(), theme.title());
    }
    if state.paused {
        return Line::styled("held: space goes on", theme.alarm());
    }
    let columns = match (state.aside, state.beyond) {
        (0, 0) => String::new(),
        (aside, beyond) => format!("← {aside} columns {beyond} →   "),
    };
    Line::raw(format!(
        "{columns}every {:?}   ? help   q leave   Tab pane   < > sort   / filter   space hold",
        state.interval
    ))
}
