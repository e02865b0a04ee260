//! Jobs: the pattern of one load, its target, and its host's name.

use anyhow::{Context as _, bail, ensure};
use arbitration::Class;
use clap::ValueEnum;
use serde::{Serialize, Serializer};

use super::units;
use crate::host::access::{Access, Transport};

/// The settings of one job that the command line gives.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JobArgs {
    /// Transport to the target.
    #[arg(short, long, value_enum, default_value_t = Transport::Tcp)]
    pub(crate) transport: Transport,
    /// Access pattern. Writes overwrite what the namespace holds.
    #[arg(long, value_enum, default_value_t = Rw::Randread)]
    pub(crate) rw: Rw,
    /// Reads in a mixed pattern, per cent: 70, or 70%.
    #[arg(long, value_name = "PERCENT", value_parser = units::read_share, default_value = "70")]
    read_share: u8,
    /// Bytes in each command: 512B, 4k, 128KiB.
    #[arg(long, value_parser = units::bytes, default_value = "4k")]
    bs: u64,
    /// Commands outstanding on each connection.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=4096))]
    depth: u16,
    /// Connections (I/O queues).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Commands per second of the whole job: 50000, 50k. Latency then counts from the moment a
    /// command was due. [default: as many as the depth allows]
    #[arg(long, value_parser = units::rate)]
    rate: Option<f64>,
    /// With --rate: how commands fall due.
    #[arg(long, value_enum, default_value_t = Arrivals::Constant)]
    arrivals: Arrivals,
    /// QoS class that each read and write names in CDW13 bits 9:8: urgent, high or medium; low
    /// and none name no class, and the commands inherit their connection's.
    #[arg(long, value_parser = class, value_name = "CLASS")]
    class: Option<ClassChoice>,
    /// Priority class of the queues, in Connect: urgent, high, medium or low. The controller is
    /// set to weighted round robin (CC.AMS).
    #[arg(long, value_parser = priority, value_name = "CLASS")]
    prioclass: Option<Class>,
    /// Bits for command dword 13 of each read and write: 0x200.
    #[arg(long, value_parser = units::number, default_value = "0")]
    cdw13: u32,
    /// ToS or traffic class of the connections, 0 to 255: 0xb8 (DSCP EF).
    #[arg(long, value_parser = units::byte)]
    tos: Option<u8>,
    /// Expected share in proportion to other jobs with a weight (in a job also as share=50%). The
    /// report compares it with what the job got.
    #[arg(long, value_parser = units::weight)]
    weight: Option<f64>,
    /// Commands per second that are reserved for the job: the report counts the windows
    /// (--window) in which it got them.
    #[arg(long, value_parser = units::rate, value_name = "RATE")]
    reserve: Option<f64>,
}

/// Access patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Rw {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Random reads.
    Randread,
    /// Random writes.
    Randwrite,
    /// Sequential, mixed.
    #[value(name = "rw")]
    #[serde(rename = "rw")]
    Mixed,
    /// Random, mixed.
    #[value(name = "randrw")]
    #[serde(rename = "randrw")]
    RandMixed,
}

impl Rw {
    pub(crate) fn is_random(self) -> bool {
        matches!(self, Self::Randread | Self::Randwrite | Self::RandMixed)
    }

    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::Randread)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Randread => "randread",
            Self::Randwrite => "randwrite",
            Self::Mixed => "rw",
            Self::RandMixed => "randrw",
        }
    }
}

/// The times at which the commands of an open loop fall due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arrivals {
    /// At equal distances.
    Constant,
    /// At random, as from many independent users: exponential distances.
    Poisson,
}

/// The value of `class=`: a class, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClassChoice(Option<Class>);

fn class(text: &str) -> Result<ClassChoice, String> {
    let found = Class::ALL.into_iter().find(|class| class.name().eq_ignore_ascii_case(text));
    match found {
        None if text.eq_ignore_ascii_case("none") => Ok(ClassChoice(None)),
        None => Err(format!("`{text}` is not a class: write urgent, high, medium, low or none")),
        found => Ok(ClassChoice(found)),
    }
}

fn priority(text: &str) -> Result<Class, String> {
    class(text)?.0.ok_or_else(|| "a queue has a class: urgent, high, medium or low".to_owned())
}

/// Makes CDW13 bits 9:8 of a command that names `class`; Low has no code of its own
/// (docs/research/sources.md, E6: every command and packet names its class).
fn class_bits(class: Option<Class>) -> u32 {
    let code = match class {
        Some(Class::Urgent) => 0b11,
        Some(Class::High) => 0b10,
        Some(Class::Medium) => 0b01,
        Some(Class::Low) | None => 0b00,
    };
    code << 8
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Job {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) access: Access,
    pub(crate) nsid: u32,
    pub(crate) rw: Rw,
    /// The share of reads in per cent.
    pub(crate) read_share: u8,
    /// The bytes in each command.
    pub(crate) bs: u32,
    pub(crate) depth: u16,
    pub(crate) connections: u16,
    /// Commands per second of the whole job.
    pub(crate) rate: Option<f64>,
    pub(crate) arrivals: Arrivals,
    /// The class that the job is counted under: its commands', else its queues'.
    #[serde(serialize_with = "class_name")]
    pub(crate) class: Option<Class>,
    #[serde(serialize_with = "class_name")]
    pub(crate) prioclass: Option<Class>,
    pub(crate) cdw13: u32,
    /// The expected share, in proportion to other jobs.
    pub(crate) weight: Option<f64>,
    /// The commands per second that the job was promised.
    pub(crate) reserve: Option<f64>,
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn class_name<S: Serializer>(class: &Option<Class>, serializer: S) -> Result<S::Ok, S::Error> {
    class.map(Class::name).serialize(serializer)
}

impl Job {
    /// Returns the name of the class that the job is counted under.
    pub(crate) fn class_name(&self) -> &'static str {
        self.class.map_or("none", Class::name)
    }
}

#[cfg(test)]
impl Job {
    /// Makes a job that reads at random.
    pub(crate) fn example() -> Self {
        Self {
            name: "example".to_owned(),
            access: Access {
                transport: Transport::Tcp,
                address: "127.0.0.1:4420".to_owned(),
                nqn: "nqn".to_owned(),
                hostnqn: "host".to_owned(),
                tos: None,
                credentials: None,
            },
            nsid: 1,
            rw: Rw::Randread,
            read_share: 100,
            bs: 4096,
            depth: 1,
            connections: 1,
            rate: None,
            arrivals: Arrivals::Constant,
            class: None,
            prioclass: None,
            cdw13: 0,
            weight: None,
            reserve: None,
        }
    }
}

/// The settings of a job. Those that the job does not give are the command line's.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) args: JobArgs,
    pub(crate) address: String,
    pub(crate) nqn: String,
    pub(crate) hostnqn: String,
    pub(crate) nsid: u32,
}

impl Draft {
    pub(crate) fn resolve(self, name: &str) -> anyhow::Result<Job> {
        let args = self.args;
        let read_share = match args.rw {
            Rw::Read | Rw::Randread => 100,
            Rw::Write | Rw::Randwrite => 0,
            Rw::Mixed | Rw::RandMixed => args.read_share,
        };
        let bs = u32::try_from(args.bs).ok().filter(|bs| (1..=1 << 30).contains(bs));
        ensure!(
            !self.nqn.is_empty(),
            "{name}: no subsystem is named: give -n NQN, or nqn= in the job"
        );
        let said = args.class.map(|choice| class_bits(choice.0));
        let cdw13 = said.map_or(args.cdw13, |bits| args.cdw13 & !0x300 | bits);
        Ok(Job {
            name: name.to_owned(),
            access: Access {
                transport: args.transport,
                address: self.address,
                nqn: self.nqn,
                hostnqn: self.hostnqn,
                tos: args.tos,
                credentials: None,
            },
            nsid: self.nsid,
            rw: args.rw,
            read_share,
            bs: bs.context("--bs must be between 1 byte and 1 GiB")?,
            depth: args.depth,
            connections: args.connections,
            rate: args.rate,
            arrivals: args.arrivals,
            class: args.class.and_then(|choice| choice.0).or(args.prioclass),
            prioclass: args.prioclass,
            cdw13,
            weight: args.weight,
            reserve: args.reserve,
        })
    }

    /// Makes the job that a `--job` option describes; `index` counts these options.
    pub(crate) fn with(mut self, text: &str, index: usize) -> anyhow::Result<Job> {
        let mut name = format!("job{}", index + 1);
        for pair in text.split(',') {
            let (key, value) = pair
                .split_once('=')
                .with_context(|| format!("--job: `{pair}` is not KEY=VALUE"))?;
            if key == "name" {
                value.clone_into(&mut name);
                continue;
            }
            self.set(key, value).with_context(|| format!("--job: {pair}"))?;
        }
        self.resolve(&name)
    }

    fn set(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        let message = anyhow::Error::msg::<String>;
        match key {
            "address" => value.clone_into(&mut self.address),
            "nqn" => value.clone_into(&mut self.nqn),
            "hostnqn" => value.clone_into(&mut self.hostnqn),
            "nsid" => self.nsid = value.parse()?,
            _ => return self.args.set(key, value).map_err(message),
        }
        Ok(())
    }
}

impl JobArgs {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "transport" => self.transport = Transport::from_str(value, true)?,
            "rw" => self.rw = Rw::from_str(value, true)?,
            "read-share" => self.read_share = units::read_share(value)?,
            "bs" => self.bs = units::bytes(value)?,
            "depth" => self.depth = units::within(value, 1..=4096)?,
            "connections" => self.connections = units::within(value, 1..=1024)?,
            "rate" => self.rate = Some(units::rate(value)?),
            "arrivals" => self.arrivals = Arrivals::from_str(value, true)?,
            "class" => self.class = Some(class(value)?),
            "prioclass" => self.prioclass = Some(priority(value)?),
            "cdw13" => self.cdw13 = units::number(value)?,
            "tos" => self.tos = Some(units::byte(value)?),
            "weight" | "share" => self.weight = Some(units::weight(value)?),
            "reserve" => self.reserve = Some(units::rate(value)?),
            _ => {
                return Err(
                    "unknown key: use name, transport, rw, read-share, bs, depth, connections, rate, \
                            arrivals, class, prioclass, cdw13, tos, address, nqn, hostnqn, nsid, \
                            weight, share or reserve"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }
}

/// Refuses jobs of the same name, which a report could not distinguish.
pub(crate) fn check(jobs: &[Job]) -> anyhow::Result<()> {
    for (index, job) in jobs.iter().enumerate() {
        if jobs.iter().take(index).any(|other| other.name == job.name) {
            bail!("--job: two jobs are called {}: give each its own name=", job.name);
        }
    }
    Ok(())
}
