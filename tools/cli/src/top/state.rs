//! The user's choices, and the effect of keys.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::interval::INTERVALS;
use super::model::{Model, PANES, Pane};
use super::panes;
use super::poll::Update;
use super::table::{Column, Sort, Table};

/// The time that a notice stays.
const NOTICE: Duration = Duration::from_secs(10);

/// The width that most numbers need: `12.3 us`.
const NUMBER: usize = 7;

/// The effect of a key beyond a change of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Redraw,
    Interval(Duration),
    Quit,
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct State {
    pub(super) model: Model,
    pub(super) pane: Pane,
    sorts: [Sort; PANES],
    pub(super) filter: String,
    /// Whether keys go into the filter.
    pub(super) editing: bool,
    pub(super) hide_idle: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// The first row that is shown.
    pub(super) offset: usize,
    /// The number of columns that are left out on the left; the first one stays.
    pub(super) aside: usize,
    /// The number of columns for which there is no room to the right, as of the last drawing.
    pub(super) beyond: usize,
    /// The number of rows that fit, as of the last drawing.
    pub(super) page: usize,
    pub(super) interval: Duration,
    /// The reason why the daemon does not answer.
    pub(super) lost: Option<String>,
    notice: Option<(Instant, String)>,
    /// The greatest widths of each pane's columns so far, so that columns keep their places.
    widths: [Vec<usize>; PANES],
}

/// Returns the first order of a pane: few rows in the daemon's order, many with the busiest first.
pub(super) fn default_sort(pane: Pane) -> Sort {
    match pane {
        Pane::Classes | Pane::Links => None,
        Pane::Connections => Some((7, true)),
        Pane::Workloads => Some((3, true)),
        Pane::Devices => Some((1, true)),
        Pane::Sessions | Pane::Hosts => Some((2, true)),
    }
}

impl State {
    pub(super) fn new(interval: Duration, filter: &str) -> Self {
        Self {
            model: Model::default(),
            pane: Pane::Sessions,
            sorts: Pane::ALL.map(default_sort),
            filter: filter.to_owned(),
            editing: false,
            hide_idle: false,
            paused: false,
            help: false,
            offset: 0,
            aside: 0,
            beyond: 0,
            page: 1,
            interval,
            lost: None,
            notice: None,
            widths: Default::default(),
        }
    }

    /// Handles an update from the thread that polls the daemon.
    pub(super) fn update(&mut self, update: Update, now: Instant) {
        match update {
            Err(error) => self.lost = Some(error),
            Ok(_) if self.paused => self.lost = None,
            Ok(sample) => {
                let (was_lost, restarts) = (self.lost.take().is_some(), self.model.restarts);
                self.model.take(*sample);
                if self.model.restarts > restarts {
                    self.notice = Some((now, "the daemon was restarted".to_owned()));
                } else if was_lost {
                    self.notice = Some((now, "connected to the daemon again".to_owned()));
                }
            }
        }
    }

    /// Returns the notice of a recent event.
    pub(super) fn notice(&self, now: Instant) -> Option<&str> {
        let recent = self.notice.as_ref().filter(|(at, _)| now.duration_since(*at) < NOTICE);
        recent.map(|(_, text)| text.as_str())
    }

    pub(super) fn sort(&self, pane: Pane) -> Sort {
        self.sorts.get(place(pane)).copied().flatten()
    }

    /// Makes the pane's table, filtered and sorted.
    pub(super) fn table(&self, pane: Pane) -> Table {
        let mut table = panes::table(&self.model, pane);
        if pane != Pane::Classes {
            table.filter(&self.filter);
            if self.hide_idle {
                table.hide_idle();
            }
        }
        table.sort(self.sort(pane));
        table
    }

    /// Computes the widths of a pane's columns.
    pub(super) fn widths(&mut self, pane: Pane, table: &Table) -> Vec<usize> {
        let now = table.widths();
        let Some(widths) = self.widths.get_mut(place(pane)) else { return now };
        widths.resize(now.len(), 0);
        for ((width, now), column) in widths.iter_mut().zip(now).zip(&table.columns) {
            *width = now.max(if column.is_numbers() { (*width).max(NUMBER) } else { 0 });
        }
        widths.clone()
    }

    /// Resets the widths of columns.
    pub(super) fn forget_widths(&mut self) {
        self.widths = Default::default();
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        if self.editing {
            self.edit(key.code);
            return Action::Redraw;
        }
        if self.help && key.code != KeyCode::Char('q') {
            self.help = false;
            return Action::Redraw;
        }
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('+') => return self.change_interval(self.interval * 2),
            KeyCode::Char('-') => return self.change_interval(self.interval / 2),
            code => self.choose(code),
        }
        Action::Redraw
    }

    fn choose(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('h' | '?') => self.help = true,
            KeyCode::Char('/') => self.editing = true,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('z') => self.hide_idle = !self.hide_idle,
            KeyCode::Char('r') => self.reverse(),
            KeyCode::Char('>' | '.') => self.sort_by(true),
            KeyCode::Char('<' | ',') => self.sort_by(false),
            KeyCode::Right | KeyCode::Char('l') => self.aside = self.aside.saturating_add(1),
            KeyCode::Left => self.aside = self.aside.saturating_sub(1),
            KeyCode::Char('1') => self.show(Pane::Classes),
            KeyCode::Char('2') => self.show(Pane::Sessions),
            KeyCode::Char('3') => self.show(Pane::Devices),
            KeyCode::Char('4') => self.show(Pane::Hosts),
            KeyCode::Char('5') => self.show(Pane::Links),
            KeyCode::Char('6') => self.show(Pane::Connections),
            KeyCode::Char('7') => self.show(Pane::Workloads),
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(Pane::ALL.len() - 1),
            KeyCode::Up | KeyCode::Char('k') => self.offset = self.offset.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.offset = self.offset.saturating_add(1),
            KeyCode::PageUp => self.offset = self.offset.saturating_sub(self.page),
            KeyCode::PageDown => self.offset = self.offset.saturating_add(self.page),
            KeyCode::Home => self.offset = 0,
            KeyCode::End => self.offset = usize::MAX,
            KeyCode::Esc => self.filter.clear(),
            _ => {}
        }
    }

    fn edit(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => {
                self.editing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.offset = 0;
    }

    fn change_interval(&mut self, interval: Duration) -> Action {
        self.interval = interval.clamp(*INTERVALS.start(), *INTERVALS.end());
        Action::Interval(self.interval)
    }

    fn show(&mut self, pane: Pane) {
        (self.pane, self.offset, self.aside) = (pane, 0, 0);
        self.forget_widths();
    }

    fn turn(&mut self, steps: usize) {
        let next = (place(self.pane) + steps) % Pane::ALL.len();
        self.show(Pane::ALL.get(next).copied().unwrap_or(self.pane));
    }

    fn reverse(&mut self) {
        if let Some(Some((_, descending))) = self.sorts.get_mut(place(self.pane)) {
            *descending = !*descending;
        }
    }

    /// Sorts by the next column or the one before; beyond the ends the daemon's order holds.
    fn sort_by(&mut self, next: bool) {
        let table = panes::table(&self.model, self.pane);
        // The history, the last column, has no order.
        let count = table.columns.len().saturating_sub(1);
        let column = match (self.sort(self.pane), next) {
            (None, true) => Some(0),
            (None, false) => count.checked_sub(1),
            (Some((column, _)), true) => Some(column + 1),
            (Some((column, _)), false) => column.checked_sub(1),
        };
        let column = column.filter(|column| *column < count);
        let text_first = |at: usize| table.columns.get(at).is_some_and(Column::is_numbers);
        if let Some(sort) = self.sorts.get_mut(place(self.pane)) {
            *sort = column.map(|column| (column, text_first(column)));
        }
    }
}

fn place(pane: Pane) -> usize {
    Pane::ALL.iter().position(|other| *other == pane).unwrap_or(0)
}
