//! `sluiced`: the NVMe over Fabrics target daemon.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use nix::sys::signal::{SigSet, Signal};
use sluiced::cli::{self, Args};
use sluiced::control::{Control, Server};
use sluiced::engine::Engine;
use sluiced::runtime::Runtime;
use sluiced::store::{self, Live, SeenNamespaces, Store};
use sluiced::{config, descriptors, exit, log};

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(file) = &args.file {
        return cli::check(file, args.offline, &mut std::io::stdout(), &mut std::io::stderr());
    }
    if let Err(error) = log::init(args.log_filter(), args.log) {
        eprintln!("sluiced: {error}");
        return ExitCode::FAILURE;
    }
    match run(&args) {
        Ok(by_signal) => exit::in_order(by_signal),
        Err(error) => {
            tracing::error!("{error:#}");
            // Standard error too, where the log goes to the journal.
            if args.log.is_some() {
                eprintln!("sluiced: {error:#}");
            }
            exit::failed(&error)
        }
    }
}

/// Serves until the daemon is asked to end: true, by a signal.
fn run(args: &Args) -> anyhow::Result<bool> {
    // Before any thread is started, so that all of them leave these signals to the one that
    // waits for them.
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    signals.thread_block().context("cannot block signals")?;
    let file = args.load()?;
    let target = file.target.clone();
    match descriptors::allow(target.max_connections) {
        Ok(able) if able < u64::from(target.max_connections) => tracing::warn!(
            "max_connections is {}, and the hard limit of file descriptors is enough for {able} \
             connections, at two each: raise it (LimitNOFILE, ulimit -Hn)",
            target.max_connections
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the limit of file descriptors stays as it is"),
    }
    let (state, problems) = store::open(target.state.as_deref())?;
    for problem in &problems {
        tracing::error!("{problem}");
    }
    let state: Arc<dyn Store> = Arc::from(state);
    let (live, mut warnings) = Live::open(file, Arc::clone(&state))?;
    let (mut seen, unread) = SeenNamespaces::open(state)?;
    if !problems.is_empty() {
        seen.set_lost();
    }
    warnings.extend(unread);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = Runtime::start(live.current(), seen)?;
    let by_signal = Arc::new(AtomicBool::new(false));
    let serving = serve(&runtime, live, &target);
    if serving.is_err() {
        runtime.shutdown(true);
    } else {
        let (engine, by_signal) = (Arc::clone(&runtime), Arc::clone(&by_signal));
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || obey_signals(&signals, &*engine, &by_signal))
            .context("cannot start the signal thread")?;
        if let Some(interval) = sd_notify::watchdog_enabled() {
            let runtime = Arc::clone(&runtime);
            std::thread::Builder::new()
                .name("watchdog".to_owned())
                .spawn(move || feed_watchdog(&runtime, interval))
                .context("cannot start the watchdog thread")?;
        }
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "serving");
        tell_systemd(&[sd_notify::NotifyState::Ready]);
    }
    runtime.wait();
    tell_systemd(&[sd_notify::NotifyState::Stopping]);
    Server::stop(serving?);
    Ok(by_signal.load(Ordering::Relaxed))
}

/// Starts the control socket and the metrics endpoint.
fn serve(runtime: &Arc<Runtime>, live: Live, target: &config::Target) -> anyhow::Result<Server> {
    let control = Control::new(Arc::clone(runtime) as Arc<dyn Engine>, live);
    let server = Server::spawn(control, &target.control, target.metrics)?;
    if let Some(address) = server.metrics_address() {
        tracing::info!(%address, "metrics at /metrics");
    }
    Ok(server)
}

/// The first SIGTERM or SIGINT drains, the next one ends at once; `asked` is set by the first.
fn obey_signals(signals: &SigSet, engine: &dyn Engine, asked: &AtomicBool) {
    while let Ok(signal) = signals.wait() {
        let asked_before = asked.swap(true, Ordering::Relaxed);
        tracing::info!(%signal, at_once = asked_before, "ending");
        engine.shutdown(asked_before);
        if asked_before {
            // A device that does not answer does not keep it.
            std::thread::sleep(Duration::from_secs(1));
            std::process::exit(1);
        }
    }
}

/// Tells the watchdog of systemd that the daemon lives, as long as all reactors turn.
fn feed_watchdog(runtime: &Runtime, interval: Duration) {
    loop {
        std::thread::sleep(interval / 2);
        if runtime.is_alive(interval) {
            tell_systemd(&[sd_notify::NotifyState::Watchdog]);
        }
    }
}

fn tell_systemd(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "systemd was not told");
    }
}
