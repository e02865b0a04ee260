//! `sluice top`: what the daemon does now, class by class, session by session, device by device,
//! host by host, and on the network link by link and connection by connection.
//!
//! - [`client`]: the control socket; [`poll`]: a thread that asks it again and again.
//! - [`sample`]: one answer, [`network`] what of it is the network's; [`model`]: what changed between answers: rates and their history.
//! - [`table`]: rows and columns, sorted and filtered; [`plain`]: as text.
//! - [`state`]: what the person has chosen; [`draw`]: the screen; [`terminal`]: keys and drawing.

mod client;
mod draw;
mod model;
mod network;
mod plain;
mod poll;
mod sample;
mod state;
mod table;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::control;

/// Arguments of `sluice top`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The daemon's control socket [default: /run/sluicegate/control.sock, or the user's own]
    #[arg(long, value_name = "PATH", env = "SLUICEGATE_CONTROL")]
    socket: Option<PathBuf>,
    /// How often to look: 1s, 500ms, 1m
    #[arg(short, long, value_parser = interval, default_value = "1s")]
    interval: Duration,
    /// Print what happens in one interval as text, and end
    #[arg(long)]
    once: bool,
    /// Print text, this many times; 0: until stopped. Also what happens where standard output is
    /// no terminal
    #[arg(long, value_name = "TIMES", conflicts_with = "once")]
    count: Option<u64>,
    /// Only sessions, devices, hosts, links and connections whose names contain this
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// No colours; the same as NO_COLOR=1 in the environment
    #[arg(long)]
    no_color: bool,
}

/// Shortest and longest interval.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

fn interval(text: &str) -> Result<Duration, String> {
    let time = crate::bench::time(text)?;
    if INTERVALS.contains(&time) { Ok(time) } else { Err("from 100ms to 1h".to_owned()) }
}

impl Args {
    /// How often to print text; none: show a screen.
    fn prints(&self, terminal: bool) -> Option<u64> {
        match (self.once, self.count) {
            (true, _) => Some(1),
            (_, Some(count)) => Some(count),
            _ if terminal => None,
            _ => Some(0),
        }
    }
}

/// Shows what the daemon does until the person has seen enough.
///
/// # Errors
/// The daemon cannot be reached when text is to be printed, or the terminal cannot be used.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let socket = control::client::socket(args.socket.as_deref());
    // https://no-color.org: set, and not empty.
    let plain = args.no_color || std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    match args.prints(std::io::stdout().is_terminal() && !dumb) {
        Some(count) => plain::run(&socket, args.interval, count, &args.filter),
        None => terminal::run(socket, args.interval, &args.filter, !plain),
    }
}
