//! The alert rules and the dashboard with Prometheus itself: promtool tests the rules, and a Prometheus scrapes a daemon
//! and answers each query of the dashboard.
//!
//! The programs come from Debian's package `prometheus`: from the PATH, or as `.ci/setup watching` has unpacked them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::daemon;
use e2e::root;
use serde_json::Value;

const NQN: &str = "nqn.2026-01.io.sluicegate:watching";
/// The time that hosts work while Prometheus scrapes.
const LOAD: &str = "25s";
/// The time after which the series of the load are there.
const SCRAPED: Duration = Duration::from_secs(15);
/// The time within which Prometheus answers.
const BEGIN: Duration = Duration::from_secs(20);

/// The beginnings of families without a series in this test.
const ABSENT: [&str; 13] = [
    // Clients of regions need an RDMA device.
    "sluicegate_region_connected",
    "sluicegate_region_reservation_",
    "sluicegate_region_operations_",
    "sluicegate_region_missed_",
    // Links and connections without congestion, and without routers that mark packets.
    "sluicegate_link_marked_packets",
    "sluicegate_link_limit_",
    "sluicegate_link_target_",
    "sluicegate_flow_marked_packets",
    "sluicegate_flow_limit_",
    "sluicegate_flow_target_",
    // Series that begin with their first event: nothing is sent back or missed here.
    "sluicegate_class_refused",
    "sluicegate_session_refused",
    "sluicegate_reservation_missed",
];

/// Returns the path of a program of the package.
fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME").unwrap_or_default();
    let cache = std::env::var_os("SLUICEGATE_CACHE").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| PathBuf::from(home).join(".cache/sluicegate"));
    let folders = std::env::split_paths(&path).chain([cache.join("prometheus/usr/bin")]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("there is no {name}: .ci/setup watching"))
}

/// Runs promtool with a text as its standard input. Returns its advice (status 3), by lines.
fn promtool(arguments: &[&str], input: &str) -> Result<Vec<String>> {
    let mut file = tempfile::tempfile()?;
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    let mut command = Command::new(program("promtool")?);
    let output = command.args(arguments).current_dir(root()).stdin(file).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(0 | 3)), "promtool {arguments:?}:\n{said}");
    Ok(said.lines().map(str::to_owned).collect())
}

#[test]
#[ignore = "make test-long: it needs Debian's package prometheus"]
fn alert_rules_pass_promtool() -> Result<()> {
    promtool(&["check", "rules", "systemd/sluicegate.rules.yml"], "")?;
    promtool(&["test", "rules", "tests/watching/alerts.yml"], "")?;
    Ok(())
}

/// A Prometheus that scrapes a daemon each second.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(target: SocketAddr) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("prometheus.yml");
        let rules = root().join("systemd/sluicegate.rules.yml");
        let text = format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files:\n  - {}\n\
             scrape_configs:\n  - job_name: sluicegate\n    static_configs:\n      \
             - targets: [\"{target}\"]\n",
            rules.display()
        );
        std::fs::write(&config, text)?;
        let [address] = daemon::free_addresses()?;
        let child = Command::new(program("prometheus")?)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn")
            .spawn()
            .context("cannot run prometheus")?;
        let prometheus = Self { child, address, _folder: folder };
        let start = Instant::now();
        while prometheus.get("/api/v1/status/buildinfo").is_err() {
            ensure!(start.elapsed() < BEGIN, "Prometheus does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(prometheus)
    }

    /// Returns the `data` of an answer of the API.
    fn get(&self, path: &str) -> Result<Value> {
        let answer = http(self.address, path)?;
        let answer: Value = serde_json::from_str(&answer)?;
        match answer.pointer("/status").and_then(Value::as_str) {
            Some("success") => answer.get("data").cloned().context("no data"),
            _ => bail!("{path}: {answer}"),
        }
    }

    /// Returns the number of series that a query has.
    fn series(&self, query: &str) -> Result<usize> {
        let mut path = "/api/v1/query?query=".to_owned();
        for byte in query.bytes() {
            write!(path, "%{byte:02X}")?;
        }
        let data = self.get(&path)?;
        Ok(data.get("result").and_then(Value::as_array).map_or(0, Vec::len))
    }
}

/// Returns the body of an answer to `GET PATH`. HTTP/1.0 has no chunks.
fn http(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no HTTP")?;
    Ok(body.to_owned())
}

/// Returns the queries of the dashboard, with values in place of its variables.
fn queries() -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("systemd/sluicegate.dashboard.json"))?;
    let dashboard: Value = serde_json::from_str(&text)?;
    let mut found = BTreeSet::new();
    let mut ahead = vec![&dashboard];
    while let Some(value) = ahead.pop() {
        if let Some(expr) = value.get("expr").and_then(Value::as_str) {
            let expr = expr.replace("$instance", ".*").replace("$__rate_interval", "10s");
            found.insert(expr);
        }
        ahead.extend(value.as_object().into_iter().flat_map(|object| object.values()));
        ahead.extend(value.as_array().into_iter().flatten());
    }
    Ok(found)
}

/// Starts hosts of two classes at a slow device, in memory and in a file.
fn hosts(daemon: &daemon::Daemon, address: SocketAddr) -> Result<Child> {
    let job = |(name, nsid, more): (&str, u32, &str)| {
        let host = format!("hostnqn=nqn.2026-01.io.x:{name},address={address}");
        format!("name={name},nsid={nsid},{host},rw=randrw,bs=4KiB,{more}")
    };
    let jobs = [("a", 1, "depth=8,class=high"), ("b", 2, "depth=4"), ("c", 3, "depth=4,class=low")];
    let mut bench = daemon.bench(NQN, LOAD, &jobs.map(job));
    bench.stdout(std::process::Stdio::null()).spawn().context("cannot run sluice bench")
}

#[test]
#[ignore = "make test-long: it needs Debian's package prometheus"]
fn each_query_of_dashboard_has_data() -> Result<()> {
    let [metrics, address, regions] = daemon::free_addresses()?;
    let files = tempfile::tempdir()?;
    let rest = format!(
        "[network]\ncapacity = \"1 Gbit/s\"\n[[listener]]\naddress = \"{address}\"\n\
         [[policy]]\nhost = \"nqn.2026-01.io.x:a\"\nmax_class = \"medium\"\n\
         [[session]]\nname = \"promised\"\n\
         reserve = {{ commands = 100, period = \"500 ms\", namespace = \"{NQN}/1\" }}\n\
         [[policy]]\nhost = \"nqn.2026-01.io.x:a\"\nsubsystem = \"{NQN}\"\nsession = \"promised\"\n\
         [[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n\
         [[subsystem.namespace]]\nnsid = 1\nbackend = \"null\"\nsize = \"1 GiB\"\n\
         service_time = \"1 ms\"\nchannels = 4\n\
         [[subsystem.namespace]]\nnsid = 2\nbackend = \"memory\"\nsize = \"64 MiB\"\n\
         [[subsystem.namespace]]\nnsid = 3\nbackend = \"file\"\ncreate = true\nsize = \"64 MiB\"\n\
         path = \"{}\"\n\
         [pmem]\naddress = \"{regions}\"\ncapacity = 1000000\n\
         [[region]]\nname = \"log\"\nsize = \"1 MiB\"\nhosts = [\"nqn.2026-01.io.x:a\"]\n",
        files.path().join("disk").display()
    );
    let target = format!("cores = [0]\nmetrics = \"{metrics}\"");
    let daemon = daemon::Daemon::start(&target, &rest)?;
    ensure!(http(metrics, "/readyz")? == "ready\n" && http(metrics, "/healthz")? == "ok\n");
    let prometheus = Prometheus::start(metrics)?;
    let mut hosts = hosts(&daemon, address)?;
    // A change of the configuration, for the times of changes.
    daemon.sluice(&["qos", "set", "--weights", "5,3,1"])?;
    std::thread::sleep(SCRAPED);
    // The plain format; Prometheus itself asks for OpenMetrics. Links have their rates in bits.
    let mut lints = promtool(&["check", "metrics"], &http(metrics, "/metrics")?)?;
    lints.retain(|line| !line.ends_with(r#"use base unit "bytes" instead of "bits""#));
    ensure!(lints.is_empty(), "{lints:#?}");
    let mut missing = Vec::new();
    for query in queries()? {
        if prometheus.series(&query)? == 0 {
            missing.push(query);
        }
    }
    let is_working = hosts.try_wait()?.is_none();
    let _ = hosts.kill();
    let _ = hosts.wait();
    ensure!(is_working, "the load ended before the queries were asked");
    for query in &missing {
        println!("no data: {query}");
    }
    missing.retain(|query| !ABSENT.iter().any(|family| query.contains(family)));
    ensure!(missing.is_empty(), "queries without data: {missing:#?}");
    let rules = prometheus.get("/api/v1/rules")?;
    let rules = rules.pointer("/groups/0/rules").and_then(Value::as_array).context("no rules")?;
    for rule in rules {
        ensure!(rule.get("health").is_some_and(|health| health == "ok"), "{rule}");
    }
    ensure!(rules.len() > 15, "{}", rules.len());
    Ok(())
}
