//! `sluice sim profile`: the times of a running target's device, measured by load on it.
//!
//! Commands that are alone tell how long one takes, and as many as the device can take tell how many it
//! completes in a second, both by the target's own statistics: the network is not in them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use sluice_config::amounts::parse_fio_duration;
use sluice_config::answer::{Io, Statistics};
use sluice_config::client;
use sluice_config::program::{HOSTNQN, find_beside};

use super::counts::Counts;
use super::daemon::{Daemon, since};
use super::made::Made;
use super::options::Options;
use crate::device::profiled::{Alone, KindMeasured, Saturated, fit};
use crate::progress::Progress;
use crate::scenario::DeviceProfile;

/// The larger size, in KiB, from whose rate the time of a byte follows.
const LARGE_KIB: u16 = 64;
/// The number of commands that each connection keeps under way to fill the device.
const FULL: u16 = 64;
/// Time in which a load comes up before it is measured.
const RISE: Duration = Duration::from_millis(500);
/// The part of commands that others may have.
const OTHERS: f64 = 0.01;

/// Arguments of `sluice sim profile`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The namespace whose device is measured: NQN/NSID. Nobody else should use it meanwhile.
    namespace: String,
    /// Address and port of the target.
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4420")]
    address: String,
    /// Transport to the target.
    #[arg(short, long, value_parser = ["tcp", "rdma"], default_value = "tcp")]
    transport: String,
    /// NQN of this host.
    #[arg(long, value_name = "NQN", default_value = HOSTNQN)]
    hostnqn: String,
    /// File with this host's secret (DHHC-1:…), by which it proves itself where the target demands it.
    #[arg(long, value_name = "FILE")]
    dhchap_secret: Option<PathBuf>,
    /// Measure writes too, which destroys the namespace's content; otherwise writes are taken to be
    /// like reads. Refused where the namespace has content or other hosts are connected
    #[arg(long)]
    writes: bool,
    /// Measure writes where the namespace has content or other hosts are connected
    #[arg(long, requires = "writes")]
    destroy: bool,
    /// Connections that fill the device, with 64 commands each.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
    /// Time of each of three measurements, or six.
    #[arg(long, value_name = "TIME", value_parser = parse_fio_duration, default_value = "3s")]
    time: Duration,
    /// Write the profile to this file, for `sluice sim predict --device`.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// The target's counters at both ends of a measurement.
#[derive(Debug)]
struct Window {
    before: Statistics,
    after: Statistics,
    seconds: f64,
}

/// Measures a device.
///
/// # Errors
///
/// The daemon or the target cannot be reached, others use the device, commands are carried out on the
/// spot, or the file cannot be written.
pub(crate) fn run(args: &Args, options: &Options) -> anyhow::Result<Made> {
    let (nqn, nsid) = args
        .namespace
        .rsplit_once('/')
        .and_then(|(nqn, nsid)| Some((nqn, nsid.parse::<u32>().ok()?)))
        .with_context(|| format!("`{}` is no namespace: write NQN/NSID", args.namespace))?;
    ensure!(args.time >= Duration::from_millis(100), "--time is at least 100ms");
    let socket = client::socket(options.socket.as_deref());
    let mut daemon = Daemon::open(&socket, options.timeout)?;
    let devices = daemon.qos()?.devices;
    let known = devices.iter().find(|row| (row.subsystem.as_str(), row.nsid) == (nqn, nsid));
    let known = known.with_context(|| format!("there is no namespace {}", args.namespace))?;
    ensure!(
        known.arbitrated || known.profile.is_some(),
        "commands to {} do not wait for a device, or [qos] is off: a prediction needs no profile there",
        args.namespace
    );
    if args.writes && !args.destroy {
        // A single write, which `sluice bench` refuses where something would be lost.
        let mut words = args.words((nqn, nsid), Duration::from_millis(1));
        words.extend(["--rw=randwrite", "--bs=4k"].map(str::to_owned));
        finish(start(&words)?)?;
    }
    let mut progress = Progress::begin();
    let kinds: &[&str] = if args.writes { &["randread", "randwrite"] } else { &["randread"] };
    let mut measured = Vec::new();
    for (kind, done) in kinds.iter().zip(0_u8..) {
        let mut part = |of: u8| {
            progress.show(f64::from(done * 3 + of) / (kinds.len() * 3) as f64, kind);
        };
        part(0);
        let alone = args.window(&mut daemon, (nqn, nsid), &[kind, "4k", "1", "1"])?;
        part(1);
        let connections = args.connections.to_string();
        let full = |size: &str| -> Vec<String> {
            vec![(*kind).to_owned(), size.to_owned(), FULL.to_string(), connections.clone()]
        };
        let words = full("4k");
        let small = args.window(&mut daemon, (nqn, nsid), &words)?;
        part(2);
        let words = full(&format!("{LARGE_KIB}k"));
        let large = args.window(&mut daemon, (nqn, nsid), &words)?;
        part(3);
        measured.push(kind_of(&alone, &small, &large, (nqn, nsid))?);
    }
    let mut measured = measured.iter();
    let settings = fit(measured.next(), measured.next())
        .with_context(|| format!("cannot model the device of {}", args.namespace))?;
    let text = DeviceProfile::of(&settings, Some(args.namespace.clone())).text();
    let text =
        format!("# Measured by `sluice sim profile`; times are those in the device.\n{text}");
    if let Some(path) = &args.write {
        std::fs::write(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        return Ok((text + &format!("\nwrote {}\n", path.display())).into());
    }
    Ok(text.into())
}

impl Args {
    /// Returns the target's counts while a load runs.
    fn watch(&self, daemon: &mut Daemon) -> anyhow::Result<Window> {
        thread::sleep(RISE);
        let (before, began) = (daemon.statistics()?, Instant::now());
        thread::sleep(self.time);
        let (after, seconds) = (daemon.statistics()?, began.elapsed().as_secs_f64());
        Ok(Window { before, after, seconds })
    }

    /// Returns the arguments that every load has.
    fn words(&self, (nqn, nsid): (&str, u32), time: Duration) -> Vec<String> {
        let mut words = vec![
            "--nqn".to_owned(),
            nqn.to_owned(),
            format!("--nsid={nsid}"),
            format!("--address={}", self.address),
            format!("--transport={}", self.transport),
            format!("--hostnqn={}", self.hostnqn),
            format!("--time={}us", time.as_micros()),
            "--warmup=0s".to_owned(),
            // The daemon has the CPU that a load without work would poll on.
            "--blocking".to_owned(),
        ];
        if let Some(path) = &self.dhchap_secret {
            words.push(format!("--dhchap-secret={}", path.display()));
        }
        words
    }

    /// Runs a load of a pattern, a size, a depth and connections on the namespace, and returns the target's counts
    /// meanwhile.
    fn window<T: AsRef<str>>(
        &self,
        daemon: &mut Daemon,
        (nqn, nsid): (&str, u32),
        load: &[T],
    ) -> anyhow::Result<Window> {
        let mut words = self.words((nqn, nsid), self.time + RISE + RISE);
        if self.writes {
            words.push("--destroy".to_owned());
        }
        let keys = ["--rw", "--bs", "--depth", "--connections"];
        words.extend(keys.iter().zip(load).map(|(key, value)| format!("{key}={}", value.as_ref())));
        let mut load = start(&words)?;
        let watched = self.watch(daemon);
        if watched.is_err() {
            // The load may have ended by itself.
            let _ = load.kill();
        }
        let ended = finish(load);
        let window = watched?;
        ended?;
        let (all, own) = (window.all((nqn, nsid)), window.of_host(&self.hostnqn, (nqn, nsid)));
        ensure!(own > 0, "no command was completed: is {} the target of the socket?", self.address);
        ensure!(
            all.saturating_sub(own) as f64 <= OTHERS * all as f64,
            "others use {nqn}/{nsid}: measure the device while nobody else does"
        );
        Ok(window)
    }
}

/// Starts `sluice bench`, which puts a load on the target.
fn start(arguments: &[String]) -> anyhow::Result<Child> {
    let mut bench = Command::new(find_beside("sluice"));
    bench.arg("bench").args(arguments).stdin(Stdio::null());
    bench.stdout(Stdio::null()).stderr(Stdio::piped());
    bench.spawn().with_context(|| format!("cannot run {}", bench.get_program().display()))
}

/// Waits until the load has ended.
///
/// # Errors
///
/// It failed; the error is its standard error output.
fn finish(load: Child) -> anyhow::Result<()> {
    let output = load.wait_with_output().context("cannot wait for sluice bench")?;
    let says = String::from_utf8_lossy(&output.stderr);
    let says = says.trim().trim_start_matches("sluice: ").to_owned();
    if output.status.success() { Ok(()) } else { Err(anyhow!("{says}")) }
}

impl Window {
    /// Returns the operations of a namespace before and after.
    fn namespace(&self, (nqn, nsid): (&str, u32)) -> Option<(&Io, &Io)> {
        fn of<'a>(statistics: &'a Statistics, (nqn, nsid): (&str, u32)) -> Option<&'a Io> {
            let same = |row: &&sluice_config::answer::NamespaceIo| {
                (row.subsystem.as_str(), row.nsid) == (nqn, nsid)
            };
            statistics.namespaces.iter().find(same).map(|row| &row.io)
        }
        Some((of(&self.before, (nqn, nsid))?, of(&self.after, (nqn, nsid))?))
    }

    /// Counts the commands to a namespace.
    fn all(&self, of: (&str, u32)) -> u64 {
        let counted = |(before, after)| since(after, before, self.seconds).commands;
        self.namespace(of).map_or(0, counted)
    }

    /// Counts the commands of a host to a namespace.
    fn of_host(&self, host: &str, (nqn, nsid): (&str, u32)) -> u64 {
        let sum = |statistics: &Statistics| -> u64 {
            let own = statistics.workloads.iter().filter(|of| {
                (of.host.as_str(), of.subsystem.as_str(), of.nsid) == (host, nqn, nsid)
            });
            let kinds = own.flat_map(|of| [&of.io.read, &of.io.write, &of.io.other]);
            kinds.map(|kind| kind.operations).sum()
        };
        sum(&self.after).saturating_sub(sum(&self.before))
    }

    /// Computes the commands in a second.
    fn rate(&self, of: (&str, u32)) -> f64 {
        self.all(of) as f64 / self.seconds
    }
}

/// Computes the measured times of a kind from three measurements.
fn kind_of(
    alone: &Window,
    small: &Window,
    large: &Window,
    of: (&str, u32),
) -> anyhow::Result<KindMeasured> {
    let (before, after) = alone.namespace(of).context("the namespace has gone")?;
    let times = Counts::of(&after.service).since(&Counts::of(&before.service));
    let count = alone.all(of);
    ensure!(count >= 100, "only {count} commands were measured alone: take a longer --time");
    let mean = after.service.sum.saturating_sub(before.service.sum) as f64 / count as f64;
    ensure!(mean > 0.0, "commands take no time in the device: a prediction needs no profile");
    let (least, longest) = times.ends();
    let between = [0.5, 0.9, 0.99, 0.999].map(|part| (part, times.quantile(part)));
    let mut points = vec![(0.0, least)];
    points.extend(between);
    points.push((1.0, longest));
    Ok(KindMeasured {
        alone: Alone { mean, points },
        small: Saturated { kib: 4.0, per_second: small.rate(of) },
        large: Some(Saturated { kib: LARGE_KIB.into(), per_second: large.rate(of) }),
    })
}

#[cfg(test)]
mod tests {
    use sluice_config::answer::{Latency, NamespaceIo, Operations};

    use super::*;

    fn statistics(operations: u64, sum: u64, buckets: &[u64]) -> Statistics {
        let service = Latency { sum, buckets: Some(buckets.to_vec()), ..Latency::default() };
        let read = Operations { operations, ..Operations::default() };
        let io = Io { read, service, ..Io::default() };
        let row = NamespaceIo { subsystem: "nqn.x:disk".to_owned(), nsid: 1, io };
        Statistics { namespaces: vec![row], ..Statistics::default() }
    }

    fn window(operations: u64, sum: u64, buckets: &[u64]) -> Window {
        let before = statistics(50, 10_000_000, &[131_072, 50]);
        let after = statistics(50 + operations, 10_000_000 + sum, buckets);
        Window { before, after, seconds: 2.0 }
    }

    const DISK: (&str, u32) = ("nqn.x:disk", 1);

    #[test]
    fn a_profile_is_of_the_time_in_which_it_was_measured() {
        // 100 us each, in the bucket that ends at 106,496 ns.
        let alone = window(1000, 100_000_000, &[106_496, 1000, 131_072, 50]);
        let (small, large) = (window(80_000, 0, &[]), window(20_000, 0, &[]));
        let kind = kind_of(&alone, &small, &large, DISK).unwrap();
        assert_eq!((kind.alone.mean, kind.small.per_second), (100_000.0, 40_000.0));
        let settings = fit(Some(&kind), None).unwrap();
        assert_eq!(settings.parallelism, 4);
        assert!((settings.read.mean() - 100_000.0).abs() < 1.0, "{settings:?}");
        // A quarter of the rate: 300 us more for 60 KiB more.
        assert!((settings.read.per_kib() - 5000.0).abs() < 1.0, "{settings:?}");
    }

    #[test]
    fn too_few_commands_are_no_measurement() {
        let (alone, full) = (window(99, 1, &[106_496, 99]), window(9, 0, &[]));
        let error = kind_of(&alone, &full, &full, DISK).unwrap_err().to_string();
        assert!(error.contains("--time"), "{error}");
        let alone = window(1000, 0, &[8, 1000]);
        let error = kind_of(&alone, &full, &full, DISK).unwrap_err().to_string();
        assert!(error.contains("needs no profile"), "{error}");
    }
}
