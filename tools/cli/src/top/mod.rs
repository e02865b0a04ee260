//! `sluice top`: the daemon's traffic now, by class, session, device, host and workload (a host in
//! a class at a namespace), and on the network by link and connection.
//!
//! - [`client`]: the control socket; [`poll`]: a thread that asks it again and again.
//! - [`sample`]: the daemon's answers at one time, made of [`answer`]s, [`io`] counters and the
//!   [`network`]; [`model`]: rates and their history, from the differences between samples.
//! - `histogram`: commands by their times; `interval`: the time between two samples.
//! - [`table`]: rows and columns, sorted and filtered; [`panes`]: the table of each pane;
//!   [`plain`]: tables as text; [`json`]: the same for programs.
//! - [`state`]: choices by keys; [`draw`]: the screen; [`terminal`]: keys and drawing.

mod answer;
mod client;
mod draw;
mod histogram;
mod interval;
mod io;
mod json;
mod model;
mod network;
mod panes;
mod plain;
mod poll;
mod sample;
mod state;
mod table;
mod terminal;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::control::table::Room;
use crate::control::{self, Options};
use interval::interval;
use plain::Form;

/// Arguments of `sluice top`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Time between two looks: 1s, 500ms, 1m
    #[arg(short, long, value_parser = interval, default_value = "1s")]
    interval: Duration,
    /// Print one interval as text, and end
    #[arg(long)]
    once: bool,
    /// Print text this many times, 0 for without end. The default with --json (one object on a line
    /// for each interval) and where standard output is not a terminal
    #[arg(long, value_name = "TIMES", conflicts_with = "once")]
    count: Option<u64>,
    /// Show only sessions, devices, hosts, links and connections whose names contain this
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Show no colours, as with NO_COLOR=1 in the environment
    #[arg(long)]
    no_color: bool,
}

impl Args {
    /// Returns how many times to print text; `None` shows a screen.
    fn prints(&self, screen: bool) -> Option<u64> {
        match (self.once, self.count) {
            (true, _) => Some(1),
            (_, Some(count)) => Some(count),
            _ if screen => None,
            _ => Some(0),
        }
    }
}

/// Shows the daemon's traffic until the user leaves.
///
/// # Errors
/// The daemon cannot be reached to print text, or the terminal cannot be used.
pub(crate) fn run(args: &Args, options: &Options) -> anyhow::Result<()> {
    let socket = sluice_config::client::socket(options.socket.as_deref());
    // https://no-color.org: set, and not empty.
    let plain = args.no_color || std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let times = (args.interval, options.timeout);
    match args.prints(control::on_terminal() && !dumb && !options.json) {
        Some(count) => {
            let room = Room::of_output(options.wide);
            let form = if options.json { Form::Json } else { Form::Text(room) };
            plain::run(&socket, times, count, &args.filter, form)
        }
        None => terminal::run(socket, times, &args.filter, !plain),
    }
}
