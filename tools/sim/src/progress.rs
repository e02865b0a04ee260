//! A line on a terminal that says how far a run is and how long it will take.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// The least time between two lines.
const EVERY: Duration = Duration::from_millis(200);

/// Columns of the bar.
const WIDTH: usize = 30;

/// The progress of a run. Nothing is shown where standard error is no terminal.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

impl Progress {
    /// Begins a run.
    pub fn begin() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { began: Instant::now(), shown: None, terminal }
    }

    /// Shows the completed part of the run, from 0 to 1, and the current step.
    pub fn show(&mut self, part: f64, at: &str) {
        let now = Instant::now();
        let soon = self.shown.is_some_and(|shown| now.duration_since(shown) < EVERY);
        if !self.terminal || (soon && part < 1.0) {
            return;
        }
        self.shown = Some(now);
        // A failure to write has no reader.
        let _ = write!(std::io::stderr(), "\r\x1b[K{}", line(part, now - self.began, at));
        let _ = std::io::stderr().flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Writes the line: a bar, per cent, and the time that is left if all goes on as it went.
fn line(part: f64, took: Duration, at: &str) -> String {
    let part = part.clamp(0.0, 1.0);
    let full =
        (0..WIDTH).take_while(|column| (*column as f64 + 0.5) / (WIDTH as f64) < part).count();
    let mut text =
        format!("[{}{}] {:3.0} %", "=".repeat(full), " ".repeat(WIDTH - full), part * 100.0);
    if part > 0.02 && part < 1.0 {
        let left = took.as_secs_f64() * (1.0 - part) / part;
        // Writing to a string does not fail.
        let _ = match left {
            ..60.0 => write!(text, ", {left:.0} s left"),
            ..3600.0 => write!(text, ", {:.0} min left", left / 60.0),
            _ => write!(text, ", {:.1} h left", left / 3600.0),
        };
    }
    text + "  " + at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_what_the_rest_takes() {
        let half = line(0.5, Duration::from_secs(30), "e2e-9");
        assert_eq!(half, format!("[{}{}]  50 %, 30 s left  e2e-9", "=".repeat(15), " ".repeat(15)));
        assert!(line(0.1, Duration::from_secs(60), "").contains("9 min left"));
        assert!(!line(0.0, Duration::from_secs(60), "").contains("left"));
        assert!(line(7.0, Duration::from_secs(1), "").contains("100 %"));
    }
}
