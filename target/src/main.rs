//! `sluiced`: the NVMe over Fabrics target daemon.
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory as _, Parser as _};
use sluice_config::ConfigErrors;
use sluiced::control::api::{Control, Server};
use sluiced::control::log::Log;
use sluiced::control::store::{self, Live, Remembered, Store};
use sluiced::serve::engine::Engine;
use sluiced::start::cli::{self, Args, LogTarget};
use sluiced::start::runtime::Runtime;
use sluiced::start::signals::{self, Signals};
use sluiced::start::{container, descriptors, log};
use sluiced::sys::systemd::tell;
use sluiced::sys::version::{COMMIT, VERSION};

// The exit statuses other than 0 (ended by SIGTERM or SIGINT), 1 (a failure) and 2 (wrong arguments).
// `systemd/sluiced.service` uses them.

/// The status of a configuration that is wrong or cannot be read, so that another start would fail
/// too (`EX_CONFIG`).
const WRONG_CONFIGURATION: u8 = 78;

/// The status of a daemon that `sluice shutdown` ended, so that systemd does not start it again.
/// The Linux Standard Base leaves 150 to 199 to applications.
const SHUT_DOWN: u8 = 150;

fn main() -> ExitCode {
    let args = Args::parse();
    if args.manual {
        let page = clap_mangen::Man::new(Args::command()).section("8");
        return match page.render(&mut std::io::stdout()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    if let Some(file) = args.configuration().filter(|_| args.check) {
        return cli::check(file, args.offline, &mut std::io::stdout(), &mut std::io::stderr());
    }
    let log = match log::init(&args.log_filter(), args.log) {
        Ok(log) => log,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "sluiced: {error}");
            return ExitCode::FAILURE;
        }
    };
    match run(&args, log) {
        Ok(by_signal) => exit_in_order(by_signal),
        Err(error) => {
            tracing::error!("{error:#}");
            // A person who chose the journal by hand looks at standard error.
            if args.log == Some(LogTarget::Journald) {
                let _ = writeln!(std::io::stderr(), "sluiced: {error:#}");
            }
            exit_failed(&error)
        }
    }
}

/// Serves until the daemon is asked to end. Returns whether only signals
/// asked for that.
fn run(args: &Args, log: Log) -> anyhow::Result<bool> {
    let signals = Signals::take().context("cannot take signals")?;
    let (file, notices) = args.load()?;
    for notice in &notices {
        tracing::warn!("{notice}");
    }
    let target = file.target.clone();
    let connections = target.connections_in_all();
    match descriptors::allow(connections) {
        Ok(able) if able < connections => tracing::warn!(
            "max_connections, max_discovery and max_waiting are {connections} together, and the \
             hard limit of file descriptors is enough for {able} connections, at two each: raise \
             it (LimitNOFILE, ulimit -Hn)"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the limit of file descriptors cannot be raised"),
    }
    let (state, problems) = store::open(target.state.as_deref())?;
    for problem in &problems {
        tracing::error!("{problem}");
    }
    let state: Arc<dyn Store> = Arc::from(state);
    let (live, mut warnings) = Live::open(file, Arc::clone(&state))?;
    let (mut remembered, unread) = Remembered::open(&state)?;
    if !problems.is_empty() {
        remembered.seen.set_lost();
    }
    warnings.extend(unread);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match live.changes() {
        0 => {}
        1 => tracing::info!("1 live change on top of the file: sluice config diff"),
        count => tracing::info!("{count} live changes on top of the file: sluice config diff"),
    }
    container::report(live.current());
    let runtime = Runtime::start(live.current(), remembered)?;
    let engine = Arc::clone(&runtime) as Arc<dyn Engine>;
    let file = args.configuration().map(Path::to_owned);
    let control = Control::of_file(engine, live, file, log);
    let serving = Server::spawn(Arc::clone(&control), &target.control, target.metrics);
    match &serving {
        Err(_) => runtime.shutdown(true),
        Ok(server) => {
            if let Some(address) = server.metrics_address() {
                tracing::info!(%address, "metrics at /metrics");
            }
            let asked =
                Asked { runtime: Arc::downgrade(&runtime), control: Arc::downgrade(&control) };
            std::thread::Builder::new()
                .name("signals".to_owned())
                .spawn(move || signals.obey(&asked))
                .context("cannot start the signal thread")?;
            if let Some(interval) = sd_notify::watchdog_enabled() {
                let runtime = Arc::downgrade(&runtime);
                std::thread::Builder::new()
                    .name("watchdog".to_owned())
                    .spawn(move || feed_watchdog(&runtime, interval))
                    .context("cannot start the watchdog thread")?;
            }
            tracing::info!(version = VERSION, commit = COMMIT, "serving");
            runtime.announce_network();
            tell(&[sd_notify::NotifyState::Ready]);
        }
    }
    runtime.wait();
    tell(&[sd_notify::NotifyState::Stopping]);
    serving?.stop();
    tracing::info!("ended");
    Ok(!control.was_told_to_end())
}

/// The parts of the daemon that signals act on. The thread that obeys signals never ends; it holds
/// weak references only, so that the state file is closed in order at the end.
struct Asked {
    runtime: Weak<Runtime>,
    control: Weak<Control>,
}

impl signals::Daemon for Asked {
    fn end(&self, now: bool) {
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.shutdown(now);
        }
    }

    fn reload(&self) {
        if let Some(control) = self.control.upgrade() {
            // The reload logs its own result.
            let _ = control.reload(false);
        }
    }
}

/// Tells systemd's watchdog twice in each interval that the daemon lives, while all reactors turn.
fn feed_watchdog(runtime: &Weak<Runtime>, interval: Duration) {
    loop {
        std::thread::sleep(interval / 2);
        let Some(runtime) = runtime.upgrade() else { return };
        if runtime.is_alive(interval) {
            tell(&[sd_notify::NotifyState::Watchdog]);
        }
    }
}

/// Returns the status of a daemon that ended in order. It was ended by a signal, or by a request on
/// the control socket.
fn exit_in_order(by_signal: bool) -> ExitCode {
    if by_signal { ExitCode::SUCCESS } else { ExitCode::from(SHUT_DOWN) }
}

/// Returns the status of a daemon that could not start or go on.
fn exit_failed(error: &anyhow::Error) -> ExitCode {
    if error.is::<ConfigErrors>() { ExitCode::from(WRONG_CONFIGURATION) } else { ExitCode::FAILURE }
}
