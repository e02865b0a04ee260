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
use super::table::Table;
use crate::bench::show_count;
use crate::control::table::{Room, Table as Lines, duration};

/// The columns that are left out where there is no room, the first one first.
const LEAST: [&str; 27] = [
    "PACKETS/s",
    "ALPHA",
    "Q",
    "BASE",
    "MARKS/s",
    "TARGET",
    "DEVICE",
    "LATENCY P99",
    "PAYLOAD",
    "IN",
    "WAIT",
    "DEVICE P99",
    "COMMANDS",
    "READ",
    "WRITE",
    "REFUSED/s",
    "LATENCY",
    "ERRORS/s",
    "MB/s LIMIT",
    "RTT",
    "LIMIT",
    "WAIT P99",
    "MB/s",
    "KEPT",
    "IOPS LIMIT",
    "RESERVED",
    "WAITING",
];

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Tables, in this room.
    Text(Room),
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
            Form::Text(room) => format!("{gap}{}", text(&model, filter, room)),
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
pub(super) fn text(model: &Model, filter: &str, room: Room) -> String {
    let mut text = format!("{}\n", heading(model));
    for pane in Pane::ALL {
        let mut table = panes::table(model, pane);
        if pane != Pane::Classes {
            table.filter(filter);
        }
        table.sort(default_sort(pane));
        if !table.rows.is_empty() {
            let _ = write!(text, "\n{}\n{}", pane.title(), lines(&table, room));
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
fn lines(table: &Table, room: Room) -> String {
    let last = table.columns.len().saturating_sub(1);
    let shown = table.columns.iter().take(last);
    let heading: Vec<_> = shown.map(|column| (column.title, column.align)).collect();
    let mut lines = Lines::new(&heading).least(&LEAST);
    for row in &table.rows {
        lines.row(row.cells.iter().take(last).map(|cell| cell.text().to_owned()).collect());
    }
    lines.text("", room)
}
