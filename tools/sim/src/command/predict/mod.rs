//! `sluice sim predict`: the predicted results of a load on a configured target, beside the daemon's measurements.
//!
//! - [`load`]: the hosts and their loads; [`config`]: the daemon's configuration; [`flow`]: the class and the session
//!   that it gives a load's commands; [`device`]: the sources of device times.
//! - [`scenario`]: the scenario that follows, which [`Model`] runs.
//! - [`beside`]: the daemon's measurements; [`results`]: both, as tables and for programs.

mod beside;
mod config;
mod device;
mod flow;
mod load;
mod results;
mod scenario;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use sluice_config::amounts::parse_fio_duration as time;
use sluice_config::answer::DeviceRow;
use sluice_config::client;
use units::{Nanos, nanos};

use self::config::Config;
use self::device::{Asked, Known};
use self::scenario::Times;
use super::daemon::Daemon;
use super::made::Made;
use super::options::Options;
use crate::model::Model;
use crate::progress::Progress;
use crate::scenario::{DeviceProfile, Outcome, Planned, Scenario};

/// The longest time of a scenario.
const LONGEST: Duration = Duration::from_secs(3600);

/// Arguments of `sluice sim predict`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The load: a TOML file (docs/use/sim.md).
    load: PathBuf,
    /// Read the target's configuration from this file instead of from a running daemon. A running daemon's measurements
    /// of the same devices are used in both cases.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Measured times of a device, as `sluice sim profile` writes them; may be given more than once.
    #[arg(long = "device", value_name = "FILE")]
    devices: Vec<PathBuf>,
    /// Watch the daemon for this long first, while the load is real, and print its measurements beside the prediction
    /// [default: 5s].
    #[arg(
        long,
        value_name = "TIME",
        value_parser = time,
        num_args = 0..=1,
        default_missing_value = "5s"
    )]
    beside: Option<Duration>,
    /// Simulated time that is measured.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2s")]
    time: Duration,
    /// Simulated time before it.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    warmup: Duration,
    /// Random seed: the same seed gives the same numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the scenario to this file, for `sluice sim run` and for changes.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Write charts and tables as one page that needs no network to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Predicts.
///
/// # Errors
///
/// A file cannot be read or written, the daemon cannot be reached, a key of the load or a name in it is
/// wrong, or a device is not known.
pub(crate) fn run(args: &Args, options: &Options) -> anyhow::Result<Made> {
    ensure!(args.time >= Duration::from_millis(1), "--time is at least 1ms");
    ensure!(args.time.max(args.warmup) <= LONGEST, "--time and --warmup are at most 1h");
    let path = &args.load;
    let in_load = || format!("in the load {}", path.display());
    let loads = load::parse(&read(path, "load")?).with_context(in_load)?;
    let files = args.devices.iter().map(|path| {
        DeviceProfile::parse(&read(path, "device")?)
            .with_context(|| format!("in the device {}", path.display()))
    });
    let files = files.collect::<anyhow::Result<Vec<_>>>()?;
    let (mut daemon, config, known) = sources(args, options, files)?;
    let times = Times { warmup: args.warmup, duration: args.time };
    let made = scenario::make(&config, &loads, &known, times).with_context(in_load)?;
    // Reports a load that cannot be simulated before it watches the daemon.
    let scenario = Scenario::parse(&made.text).with_context(in_load)?;
    let planned = scenario.plan(args.seed, Path::new(".")).with_context(in_load)?;
    let watched = match (&mut daemon, args.beside) {
        (Some(daemon), Some(time)) => Some(beside::watch(daemon, time)?),
        _ => None,
    };
    let outcome = simulate(&scenario, planned)?;
    let results = results::results(
        (&made.groups, &outcome),
        watched.as_ref(),
        (config.counts_bytes(), args.seed),
        made.notes,
    )?;
    let mut report = outcome.report(&scenario, args.seed);
    report.tables = results.tables();
    report.about.extend(results.notes.iter().map(|note| format!("Note: {note}.")));
    let mut written = String::new();
    for (path, text) in [(&args.write, &made.text), (&args.html, &report.html())] {
        if let Some(path) = path {
            std::fs::write(path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
            written += &format!("\nwrote {}\n", path.display());
        }
    }
    if options.json {
        return Ok(format!("{}\n", serde_json::to_string_pretty(&results)?).into());
    }
    Ok((report.text() + &written).into())
}

/// Returns the daemon, if there is one, the configuration, and the sources of device times.
fn sources(
    args: &Args,
    options: &Options,
    files: Vec<DeviceProfile>,
) -> anyhow::Result<(Option<Daemon>, Config, Known)> {
    let open = || Daemon::open(&client::socket(options.socket.as_deref()), options.timeout);
    let Some(path) = &args.config else {
        let mut daemon = open()?;
        let config = config::parse(&daemon.configuration()?)?;
        let known = Known { files, measured: daemon.qos()?.devices, asked: Asked::Own };
        return Ok((Some(daemon), config, known));
    };
    let config = config::parse(&read(path, "configuration")?)?;
    let ask = || {
        let mut daemon = open()?;
        let measured = measured(&mut daemon, &config)?;
        anyhow::Ok((daemon, measured))
    };
    match ask() {
        Ok((daemon, measured)) => {
            Ok((Some(daemon), config, Known { files, measured, asked: Asked::Other }))
        }
        Err(why) if args.beside.is_some() => Err(why),
        Err(why) => {
            let asked = Asked::Nobody(format!("{why:#}"));
            Ok((None, config, Known { files, measured: Vec::new(), asked }))
        }
    }
}

/// Requests a daemon's measurements of the devices that are also in a configuration.
fn measured(daemon: &mut Daemon, config: &Config) -> anyhow::Result<Vec<DeviceRow>> {
    let running = config::parse(&daemon.configuration()?)?;
    let mut devices = daemon.qos()?.devices;
    devices.retain(|row| {
        let of = |config: &Config| config.namespace(&row.subsystem, row.nsid).ok().cloned();
        of(&running).zip(of(config)).is_some_and(|(one, other)| one.same_device(&other))
    });
    Ok(devices)
}

/// Reads a file.
fn read(path: &Path, what: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the {what} {}", path.display()))
}

/// Runs a scenario that has no traces.
fn simulate(scenario: &Scenario, planned: Planned) -> anyhow::Result<Outcome> {
    let end = Nanos(nanos(scenario.length()));
    let mut progress = Progress::begin();
    let mut model = Model::new(planned.plan)?;
    model.run(end, &mut |now| progress.show(now.0 as f64 / end.0.max(1) as f64, ""));
    Ok(Outcome::of(scenario, &model.report()))
}

#[cfg(test)]
mod tests;
