//! Output as text, for `--once`, for pipes, and for terminals that cannot show a screen.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

use super::client::Client;
use super::json;
use super::model::{Model, Pane};
use super::panes;
use super::sample::Sample;
use super::state::default_sort;
use super::table::{Cell, Table};
use crate::bench::show_count;
use crate::control::table::duration;

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Tables.
    Text,
    /// One object in a line for each interval.
    Json,
}

/// Prints `count` intervals; with 0, prints until the output is closed.
///
/// # Errors
/// The daemon cannot be reached.
pub(super) fn run(
    socket: &Path,
    (interval, patience): (Duration, Duration),
    count: u64,
    filter: &str,
    form: Form,
) -> anyhow::Result<()> {
    let mut client = Client::new(socket, patience);
    let mut model = Model::default();
    model.take(Sample::take(&mut client)?);
    let mut printed = 0;
    while count == 0 || printed < count {
        std::thread::sleep(interval);
        model.take(Sample::take(&mut client)?);
        printed += 1;
        let gap = if printed > 1 { "\n" } else { "" };
        let text = match form {
            Form::Text => format!("{gap}{}", text(&model, filter)),
            Form::Json => format!("{}\n", json::object(&model, filter)),
        };
        match std::io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Writes all tables, the busiest rows first.
pub(super) fn text(model: &Model, filter: &str) -> String {
    let mut text = format!("{}\n", heading(model));
    for pane in Pane::ALL {
        let mut table = panes::table(model, pane);
        if pane != Pane::Classes {
            table.filter(filter);
        }
        table.sort(default_sort(pane));
        if !table.rows.is_empty() {
            let _ = write!(text, "\n{}\n{}", pane.title(), lines(&table));
        }
    }
    text
}

/// Writes one line about the daemon.
pub(super) fn heading(model: &Model) -> String {
    let Some(sample) = &model.sample else { return "no answer yet".to_owned() };
    let daemon = &sample.daemon;
    let mut text = format!(
        "sluiced {}, up {}, {} connections, {} IOPS, {:.1} MB/s",
        daemon.version,
        duration(daemon.uptime_seconds),
        daemon.connections,
        show_count(model.total.iops),
        model.total.bytes / 1e6
    );
    for (core, busy) in &model.busy {
        let _ = write!(text, ", CPU {core} {:.0} %", 100.0 * busy);
    }
    let order = sample.order.as_deref().unwrap_or("this daemon has no quality of service");
    let _ = write!(text, "; {order}");
    if sample.network == Some(false) {
        text += "; network classes are off";
    }
    text
}

/// Writes a table's lines, aligned, without the history.
fn lines(table: &Table) -> String {
    let widths = table.widths();
    let mut text = String::new();
    let last = widths.len().saturating_sub(1);
    let mut line = |cells: &[&str]| {
        let columns = cells.iter().zip(&table.columns).zip(&widths).take(last);
        let mut row = String::new();
        for ((cell, column), width) in columns {
            let _ = match column.right {
                true => write!(row, "{cell:>width$}  "),
                false => write!(row, "{cell:<width$}  "),
            };
        }
        text += row.trim_end();
        text.push('\n');
    };
    line(&table.columns.iter().map(|column| column.title).collect::<Vec<_>>());
    for row in &table.rows {
        line(&row.cells.iter().map(Cell::text).collect::<Vec<_>>());
    }
    text
}
