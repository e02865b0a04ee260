//! `sluice trace`: has the daemon trace commands for a while, and prints where their time went.

mod perfetto;
mod summary;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use sluice_config::amounts::parse_fio_duration;
use sluice_config::answer::{Trace, TracedCommand};
use sluice_config::failure::Failure;
use sluice_config::program::{print, print_to_reader};
use sluice_config::{call, params};

use super::cells::time;
use super::request::Request;
use super::table::{Room, size};
use super::words::Class;
use super::{events_view, view};
use perfetto::Perfetto;
use summary::Summary;

/// The time between two requests; a reactor of the daemon keeps the commands of a third of a second at least.
const INTERVAL: Duration = Duration::from_millis(200);
/// The time of a trace without --follow and --time.
const TIME: Duration = Duration::from_secs(2);
/// Commands that are printed behind the summary, the slowest first.
const SLOWEST: usize = 5;

/// `sluice trace`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TraceArgs {
    /// Only commands of the host with this NQN
    #[arg(long, value_name = "NQN")]
    host: Option<String>,
    /// Only commands of this class
    #[arg(long)]
    class: Option<Class>,
    /// Only commands to this subsystem, or to one of its namespaces
    #[arg(long, value_name = "NQN[/NSID]", value_parser = parse_namespace)]
    namespace: Option<Namespace>,
    /// Only commands that are in the target for at least this time, such as 1ms
    #[arg(long, value_name = "TIME", value_parser = parse_fio_duration)]
    slower_than: Option<Duration>,
    /// Print each command when its answer is sent, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Trace for this time [default: 2s; with --follow, until interrupted]
    #[arg(long, value_name = "TIME", value_parser = parse_fio_duration)]
    time: Option<Duration>,
    /// Write the commands to a file that the Perfetto viewer opens (ui.perfetto.dev)
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
}

/// A subsystem, or one of its namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Namespace {
    subsystem: String,
    nsid: Option<u32>,
}

fn parse_namespace(text: &str) -> Result<Namespace, String> {
    let (subsystem, nsid) = match text.rsplit_once('/') {
        None => (text, None),
        Some((subsystem, nsid)) => match nsid.parse() {
            Ok(nsid) => (subsystem, Some(nsid)),
            Err(_) => {
                return Err("write NQN, or NQN/NSID, as in nqn.2026-01.io.example:disks/1".into());
            }
        },
    };
    Ok(Namespace { subsystem: subsystem.to_owned(), nsid })
}

impl TraceArgs {
    /// Makes the request that begins the trace.
    pub(super) fn request(&self) -> Request {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX >> 1);
        let namespace = self.namespace.as_ref();
        Request::of::<call::TraceStart>(&params::TraceStart {
            host: self.host.clone(),
            subsystem: namespace.map(|of| of.subsystem.clone()),
            nsid: namespace.and_then(|of| of.nsid),
            class: self.class.map(|class| class.name().to_owned()),
            slower_than_ns: self.slower_than.map(nanos),
        })
    }
}

/// Traces commands, and prints them and a summary of their time.
///
/// # Errors
/// The daemon cannot be reached, or refuses; or a file cannot be written.
pub(super) fn run(
    args: &TraceArgs,
    as_json: bool,
    room: Room,
    ask: impl Fn(&Request) -> Result<Value, Failure>,
) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let started = view::of::<call::TraceStart>(&ask(&args.request())?)?;
    let begun = Instant::now();
    let limit = args.time.or((!args.follow).then_some(TIME));
    let mut seen = Seen { summary: Summary::default(), perfetto: Perfetto::default() };
    loop {
        let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        std::thread::sleep(left.map_or(INTERVAL, |left| left.min(INTERVAL)));
        let is_over = limit.is_some_and(|limit| begun.elapsed() >= limit) || stop.load(Relaxed);
        let read = params::TraceRead { trace: started.trace, stop: is_over };
        let answer = ask(&Request::of::<call::TraceRead>(&read))?;
        let trace = view::of::<call::TraceRead>(&answer)?;
        let lines: String = match args.follow {
            false => String::new(),
            true if as_json => trace.commands.iter().map(|of| format!("{}\n", json!(of))).collect(),
            true => trace.commands.iter().map(line).collect(),
        };
        seen.add(trace, args.perfetto.is_some());
        if !print_to_reader(&lines)? || is_over {
            break;
        }
    }
    if let Some(path) = &args.perfetto {
        std::fs::write(path, seen.perfetto.text())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let summary = &seen.summary;
    let text = match (as_json, args.follow) {
        (true, true) => String::new(),
        (true, false) => format!("{:#}\n", summary.json()),
        (false, follows) => {
            let slowest = summary.slowest().iter().take(if follows { 0 } else { SLOWEST });
            let slowest: String = slowest.map(line).collect();
            let heading = if slowest.is_empty() { "" } else { "\nThe slowest:\n" };
            format!("{}{heading}{slowest}", summary.text(begun.elapsed(), room))
        }
    };
    print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// The commands of a trace.
#[derive(Debug)]
struct Seen {
    summary: Summary,
    perfetto: Perfetto,
}

impl Seen {
    fn add(&mut self, trace: Trace, keeps_all: bool) {
        self.summary.note_missing(trace.lost, trace.skipped);
        for command in trace.commands {
            if keeps_all {
                self.perfetto.add(&command);
            }
            self.summary.add(command);
        }
    }
}

/// Writes a command as a line, with the parts of its time, the longest first.
fn line(command: &TracedCommand) -> String {
    let TracedCommand { time_ms, host, subsystem, nsid, class, operation, .. } = command;
    let mut text = format!(
        "{}  {:>8}  {class} {operation} {} of {subsystem}/{nsid} from {host}",
        events_view::utc(*time_ms),
        time(command.total_ns),
        size(command.bytes.into()),
    );
    let mut parts: Vec<(&String, &u64)> = command.parts_ns.iter().collect();
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
    for ((part, ns), before) in
        parts.into_iter().zip(std::iter::once(": ").chain(std::iter::repeat(", ")))
    {
        let session = command.session.as_ref().filter(|_| summary::is_of_session(part));
        let of = session.map_or_else(String::new, |session| format!(" of {session}"));
        let _ = write!(text, "{before}{part}{of} {}", time(*ns));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_subsystems_with_or_without_number() {
        let of = |subsystem: &str, nsid| Ok(Namespace { subsystem: subsystem.to_owned(), nsid });
        assert_eq!(parse_namespace("nqn.x:a"), of("nqn.x:a", None));
        assert_eq!(parse_namespace("nqn.x:a/b/3"), of("nqn.x:a/b", Some(3)));
        assert!(parse_namespace("nqn.x:a/b").is_err());
    }

    #[test]
    fn line_names_the_longest_part_first() {
        let parts = [("device", 900_000), ("bandwidth", 20_000_000), ("socket", 30_000)];
        let command = TracedCommand {
            host: "nqn.h".into(),
            subsystem: "nqn.s".into(),
            nsid: 1,
            class: "low".into(),
            operation: "read".into(),
            bytes: 4096,
            total_ns: 20_930_000,
            parts_ns: parts.into_iter().map(|(part, ns)| (part.to_owned(), ns)).collect(),
            session: Some("backup".into()),
            ..TracedCommand::default()
        };
        assert_eq!(
            line(&command),
            "1970-01-01T00:00:00.000Z   20.9 ms  low read 4 KiB of nqn.s/1 from nqn.h: \
             bandwidth of backup 20.0 ms, device 900 us, socket 30.0 us\n"
        );
    }
}
