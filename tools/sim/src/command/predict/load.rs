//! The file of a load: who wants what, in a few lines.

use std::time::Duration;

use anyhow::{bail, ensure};
use arbitration::Class;
use serde::Deserialize;
use sluice_config::amounts::{parse_duration, parse_fio_size, parse_frequency, parse_rate};
use toml::Value;

use crate::model::Transport;

/// The most commands outstanding on a connection unless a load says so, as of `sluice bench`.
const DEPTH: u16 = 128;

/// The most connections of all hosts together, as many as an entry of a scenario may have.
const CONNECTIONS: u32 = 65_535;
/// Rates of a cable in bits per second that a scenario takes.
const CABLES: std::ops::RangeInclusive<u64> = 1000..=10_000_000_000_000;
/// The longest delay of a cable.
const DELAY: Duration = Duration::from_secs(10);
/// The most commands per second of a host.
const RATE: f64 = 1e9;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    title: String,
    #[serde(default)]
    network: Network,
    #[serde(default)]
    load: Vec<Written>,
}

/// `[network]`: the cables between hosts and target.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    /// Rate of a host's cable; the target's unless given.
    pub(super) rate: Option<String>,
    /// Rate of the target's cable; the configured capacity unless given, or 100 Gbit/s.
    pub(super) target_rate: Option<String>,
    /// Delay of a cable, one way.
    pub(super) delay: Option<String>,
}

/// `[[load]]` as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    host: String,
    namespace: String,
    count: Option<i64>,
    class: Option<String>,
    listener: Option<String>,
    transport: Option<Transport>,
    rw: Option<String>,
    read_share: Option<Value>,
    bs: Option<Value>,
    depth: Option<i64>,
    connections: Option<i64>,
    rate: Option<Value>,
    arrivals: Option<String>,
}

/// A load, with the keys of a job of `sluice bench`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Load {
    /// NQN of the host.
    pub(super) host: String,
    /// The namespace: NQN of the subsystem, and NSID.
    pub(super) namespace: (String, u32),
    /// Hosts that are alike.
    pub(super) count: u32,
    /// Class that commands name.
    pub(super) class: Option<Class>,
    /// Address of the listener that the host connects to.
    pub(super) listener: Option<String>,
    /// Transport that the host comes over.
    pub(super) transport: Option<Transport>,
    /// Reads among the commands, in per cent.
    pub(super) reads: u8,
    /// Whether commands go to random places.
    pub(super) random: bool,
    /// Bytes of a command.
    pub(super) bytes: u64,
    /// Commands outstanding on each connection: always, or with a rate at most.
    pub(super) depth: u16,
    pub(super) connections: u16,
    /// Commands per second of each host, and whether they come at random.
    pub(super) rate: Option<(f64, bool)>,
}

/// All loads of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Loads {
    pub(super) title: String,
    pub(super) network: Network,
    pub(super) loads: Vec<Load>,
}

/// Reads a file.
///
/// # Errors
///
/// The text is not TOML, or a key is unknown, missing or out of its range; the error names the key and the remedy.
pub(super) fn parse(text: &str) -> anyhow::Result<Loads> {
    let File { title, network, load } = toml::from_str(text)?;
    ensure!(
        !load.is_empty(),
        "`load` is missing: write [[load]] with `host`, `namespace`, and what else the load is"
    );
    network.check()?;
    let loads = (1..).zip(load).map(|(number, written)| read(number, written));
    let loads = loads.collect::<anyhow::Result<Vec<_>>>()?;
    let mut connections = 0;
    for (number, load) in (1..).zip(&loads) {
        connections += load.count * u32::from(load.connections);
        ensure!(
            connections <= CONNECTIONS,
            "`load {number}.count` is {} with {} `connections` each: that makes {connections}, \
             with the connections of the loads before: write at most {CONNECTIONS} in all",
            load.count,
            load.connections
        );
    }
    Ok(Loads { title, network, loads })
}

impl Network {
    /// Checks the rates and the delay.
    fn check(&self) -> anyhow::Result<()> {
        for (key, rate) in [("rate", &self.rate), ("target_rate", &self.target_rate)] {
            let Some(text) = rate else { continue };
            let bits = parse_rate(text)
                .map_err(|must| anyhow::anyhow!("`network.{key}` is \"{text}\": {must}"))?;
            ensure!(
                CABLES.contains(&bits),
                "`network.{key}` is \"{text}\": write \"1 kbit/s\" to \"10 Tbit/s\""
            );
        }
        if let Some(text) = &self.delay {
            let delay = parse_duration(text)
                .map_err(|must| anyhow::anyhow!("`network.delay` is \"{text}\": {must}"))?;
            ensure!(delay <= DELAY, "`network.delay` is \"{text}\": write at most \"10 s\"");
        }
        Ok(())
    }
}

fn read(number: usize, of: Written) -> anyhow::Result<Load> {
    let key = |key: &str| format!("`load {number}.{key}`");
    let within = |name: &str, value: Option<i64>, range: std::ops::RangeInclusive<i64>, usual| {
        let value = value.unwrap_or(usual);
        ensure!(
            range.contains(&value),
            "{} is {value}: write {} to {}",
            key(name),
            range.start(),
            range.end()
        );
        Ok(value)
    };
    let (reads, random) = pattern(&key, of.rw.as_deref(), of.read_share.as_ref())?;
    let bytes = match &of.bs {
        None => 4096,
        Some(value @ (Value::Integer(_) | Value::String(_))) => parse_fio_size(&written(value))
            .map_err(|why| anyhow::anyhow!("{} is {value}: {why}", key("bs")))?,
        Some(other) => bail!("{} is {other}: write \"4k\" or \"128 KiB\"", key("bs")),
    };
    ensure!(
        bytes > 0 && bytes.is_multiple_of(512),
        "{} is {bytes} bytes: write a multiple of 512",
        key("bs")
    );
    let (nqn, nsid) = of.namespace.rsplit_once('/').unwrap_or_default();
    let nsid = nsid.parse::<u32>().ok().filter(|nsid| *nsid > 0 && !nqn.is_empty());
    let Some(nsid) = nsid else {
        bail!("{} is \"{}\": write NQN/NSID", key("namespace"), of.namespace);
    };
    ensure!(!of.host.is_empty(), "{} is empty: write the host's NQN", key("host"));
    let open = rate(&key, of.rate.as_ref())?;
    let poisson = match (of.arrivals.as_deref(), open) {
        (Some(_), None) => bail!("{} is for loads with a `rate`: leave it out", key("arrivals")),
        (None | Some("constant"), _) => false,
        (Some("poisson"), _) => true,
        (Some(other), _) => {
            bail!("{} is \"{other}\": write \"constant\" or \"poisson\"", key("arrivals"));
        }
    };
    Ok(Load {
        namespace: (nqn.to_owned(), nsid),
        count: u32::try_from(within("count", of.count, 1..=10_000, 1)?)?,
        class: class(&key, of.class.as_deref())?,
        listener: of.listener,
        transport: of.transport,
        reads,
        random,
        bytes,
        depth: u16::try_from(within("depth", of.depth, 1..=4096, DEPTH.into())?)?,
        connections: u16::try_from(within("connections", of.connections, 1..=1024, 1)?)?,
        rate: open.map(|rate| (rate, poisson)),
        host: of.host,
    })
}

/// Returns a value as it is written, without quotes.
fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads `rw` and `read_share`: the part of reads in per cent, and whether places are random.
fn pattern(
    key: &dyn Fn(&str) -> String,
    rw: Option<&str>,
    share: Option<&Value>,
) -> anyhow::Result<(u8, bool)> {
    let (reads, random) = match rw.unwrap_or("randread") {
        "randread" => (Some(100), true),
        "randwrite" => (Some(0), true),
        "randrw" => (None, true),
        "read" => (Some(100), false),
        "write" => (Some(0), false),
        "rw" => (None, false),
        other => bail!(
            "{} is \"{other}\": write randread, randwrite, randrw, read, write or rw",
            key("rw")
        ),
    };
    match (reads, share) {
        (Some(_), Some(_)) => {
            bail!("{} is for randrw and rw: leave it out", key("read_share"))
        }
        (Some(reads), None) => Ok((reads, random)),
        (None, None) => Ok((70, random)),
        (None, Some(share)) => match per_cent(&written(share)) {
            Some(share) => Ok((share, random)),
            None => {
                bail!("{} is {share}: write a whole share from 0 % to 100 %", key("read_share"))
            }
        },
    }
}

/// Parses a part in per cent: `70`, `70%`.
fn per_cent(text: &str) -> Option<u8> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    number.parse().ok().filter(|share| *share <= 100)
}

/// Reads `class`.
fn class(key: &dyn Fn(&str) -> String, name: Option<&str>) -> anyhow::Result<Option<Class>> {
    let Some(name) = name else { return Ok(None) };
    let found = Class::ALL.into_iter().find(|class| class.name() == name);
    match found {
        Some(class) => Ok(Some(class)),
        None => bail!("{} is \"{name}\": write urgent, high, medium or low", key("class")),
    }
}

/// Reads `rate`: commands per second.
fn rate(key: &dyn Fn(&str) -> String, value: Option<&Value>) -> anyhow::Result<Option<f64>> {
    let Some(value) = value else { return Ok(None) };
    let text = written(value);
    let rate = parse_frequency(&text).map_err(|why| {
        anyhow::anyhow!("{} is {text}: {why}: I/Os in a second, 20000 or \"20k\"", key("rate"))
    })?;
    ensure!(rate <= RATE, "{} is {text}: write at most {RATE:.0} I/Os in a second", key("rate"));
    Ok(Some(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "[[load]]\nhost = 'nqn.x:web'\nnamespace = 'nqn.x:disk/2'\n";

    #[test]
    fn what_is_left_out_is_as_of_a_job_of_bench() {
        let first = |text: &str| parse(text).unwrap().loads.remove(0);
        let load = first(WHOLE);
        assert_eq!(load.namespace, ("nqn.x:disk".to_owned(), 2));
        assert_eq!((load.bytes, load.depth, load.connections, load.count), (4096, 128, 1, 1));
        assert_eq!((load.reads, load.random, load.rate), (100, true, None));
        let more = "bs = '16 KiB'\nrate = '5k'\narrivals = 'poisson'\nrw = 'rw'\nclass = 'high'\n";
        let load = first(&format!("{WHOLE}{more}"));
        assert_eq!((load.bytes, load.reads, load.random), (16_384, 70, false));
        assert_eq!((load.rate, load.class), (Some((5000.0, true)), Some(Class::High)));
    }

    #[test]
    fn what_is_wrong_names_its_key_and_what_would_be_right() {
        let with = |more: &str| format!("{WHOLE}{more}\n");
        let network = |keys: &str| format!("[network]\n{keys}\n{WHOLE}");
        for (text, key, says) in [
            (String::new(), "`load`", "[[load]]"),
            ("[[load]]\nhost = 'h'".to_owned(), "namespace", "missing"),
            (WHOLE.replace("disk/2", "disk"), "`load 1.namespace`", "NQN/NSID"),
            (WHOLE.replace("nqn.x:web", ""), "`load 1.host`", "the host's NQN"),
            (with("rw = 'sideways'"), "`load 1.rw`", "randread"),
            (with("read_share = 50"), "`load 1.read_share`", "leave it out"),
            (with("rw = 'rw'\nread_share = 101"), "`load 1.read_share`", "100 %"),
            (with("bs = '4 sacks'"), "`load 1.bs`", "\"4 GiB\""),
            (with("bs = '1000 B'"), "`load 1.bs`", "multiple of 512"),
            (with("bs = 4096"), "`load 1.bs`", "\"4 KiB\""),
            (with("bs = true"), "`load 1.bs`", "128 KiB"),
            (with("depth = 0"), "`load 1.depth`", "1 to 4096"),
            (with("connections = 2000"), "`load 1.connections`", "1 to 1024"),
            (with("count = 0"), "`load 1.count`", "1 to 10000"),
            (with("rate = 'often'"), "`load 1.rate`", "20000"),
            (with("rate = 0"), "`load 1.rate`", "more than 0"),
            (with("arrivals = 'poisson'"), "`load 1.arrivals`", "leave it out"),
            (with("rate = 5\narrivals = 'burst'"), "`load 1.arrivals`", "poisson"),
            (with("class = 'top'"), "`load 1.class`", "medium"),
            (with("dept = 5"), "dept", "depth"),
            (with("transport = 'quic'"), "quic", "`tcp` or `rdma`"),
            (format!("{WHOLE}{WHOLE}rw = 'x'"), "`load 2.rw`", "randread"),
            (network("speed = 1"), "speed", "target_rate"),
            (network("rate = '10 GB/s'"), "`network.rate`", "80 Gbit/s"),
            (network("target_rate = '1 bit/s'"), "`network.target_rate`", "1 kbit/s"),
            (network("delay = '1'"), "`network.delay`", "\"1 s\""),
            (network("delay = '1 h'"), "`network.delay`", "at most \"10 s\""),
            (with("rate = 2000000000"), "`load 1.rate`", "1000000000"),
            (with("count = 10000\nconnections = 1024"), "`load 1.count`", "65535"),
            (with("count = 10000\nconnections = 6").repeat(2), "`load 2.count`", "makes 120000"),
        ] {
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(key) && error.contains(says), "{key}, {says}: {error}");
        }
    }
}
