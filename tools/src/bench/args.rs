//! The command line of `sluice bench`.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Subcommand, ValueEnum};
use serde::Serialize;

use super::units;

/// Arguments of `sluice bench`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) mode: Option<Mode>,
    #[command(flatten)]
    pub(crate) load: Load,
}

/// Other things than load on a target.
#[derive(Debug, Subcommand)]
pub(crate) enum Mode {
    /// Measure a bare request and response of the same sizes over loopback TCP: the limit that
    /// any target's figures can be compared with.
    Floor(Floor),
}

/// Load on a target.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Load {
    /// Address and port of the target.
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4420")]
    pub(crate) address: String,
    /// NQN of the subsystem.
    #[arg(short, long, value_name = "NQN", required = true, default_value = "")]
    pub(crate) nqn: String,
    /// NQN under which this host presents itself.
    #[arg(
        long,
        value_name = "NQN",
        default_value = "nqn.2014-08.org.nvmexpress:uuid:6b1d8f0e-5c1e-4b0a-9d55-736c75696365"
    )]
    pub(crate) hostnqn: String,
    /// Namespace.
    #[arg(long, default_value_t = 1)]
    pub(crate) nsid: u32,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// A job of its own, to be repeated for several at once: KEY=VALUE,... with the keys name,
    /// rw, read-share, bs, depth, connections, rate, cdw13; what is not given is as outside.
    #[arg(long = "job", value_name = "KEY=VALUE,...")]
    pub(crate) jobs: Vec<String>,
    /// How long to measure: 5s, 500ms, 2m.
    #[arg(long, value_parser = units::time, default_value = "5s")]
    pub(crate) time: Duration,
    /// How long to run before measuring.
    #[arg(long, value_parser = units::time, default_value = "1s")]
    pub(crate) warmup: Duration,
    /// Header digests.
    #[arg(long)]
    pub(crate) hdgst: bool,
    /// Data digests.
    #[arg(long)]
    pub(crate) ddgst: bool,
    /// Fill the blocks with stamped data, check every byte of every read against it, and read all
    /// of it back at the end. Destroys what the namespace holds.
    #[arg(long)]
    pub(crate) verify: bool,
    /// How much of the namespace each connection uses: 64m, 1g. [default: all of it, with
    /// --verify 64m]
    #[arg(long, value_parser = units::bytes)]
    pub(crate) span: Option<u64>,
    /// Threads; the connections are dealt out to them.
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// CPU cores to pin the threads to, in turn: 1 or 1,3.
    #[arg(long, value_delimiter = ',', value_name = "CORE,...")]
    pub(crate) core: Vec<usize>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a line each second while running.
    #[arg(long)]
    pub(crate) live: bool,
    /// Compare with a second target: run A B A B ... and print each pair's ratio.
    #[arg(long, value_name = "ADDRESS:PORT[,NQN]")]
    pub(crate) vs: Option<String>,
    /// Pairs of runs with --vs.
    #[arg(long, default_value_t = 5)]
    pub(crate) pairs: usize,
}

/// What one job does, as far as it is given.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JobArgs {
    /// Access pattern. Writes overwrite what the namespace holds.
    #[arg(long, value_enum, default_value_t = Rw::Randread)]
    rw: Rw,
    /// Reads in a mixed pattern, per cent.
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u8).range(0..=100))]
    read_share: u8,
    /// Bytes in each command: 512, 4k, 128k.
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
    /// Bits for command dword 13 of each read and write: 0x200.
    #[arg(long, value_parser = units::number, default_value = "0")]
    cdw13: u32,
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

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) rw: Rw,
    /// Per cent of reads.
    pub(crate) read_share: u8,
    /// Bytes in each command.
    pub(crate) bs: u32,
    pub(crate) depth: u16,
    pub(crate) connections: u16,
    /// Commands per second of the whole job.
    pub(crate) rate: Option<f64>,
    pub(crate) cdw13: u32,
}

impl Load {
    /// The jobs to run at once.
    pub(crate) fn jobs(&self) -> anyhow::Result<Vec<Job>> {
        if self.jobs.is_empty() {
            return Ok(vec![self.job.resolve(self.job.rw.name())?]);
        }
        let jobs = self.jobs.iter().enumerate();
        jobs.map(|(index, text)| self.job.with(text, index)).collect()
    }
}

impl JobArgs {
    fn resolve(&self, name: &str) -> anyhow::Result<Job> {
        let read_share = match self.rw {
            Rw::Read | Rw::Randread => 100,
            Rw::Write | Rw::Randwrite => 0,
            Rw::Mixed | Rw::RandMixed => self.read_share,
        };
        let bs = u32::try_from(self.bs).ok().filter(|bs| (1..=1 << 30).contains(bs));
        Ok(Job {
            name: name.to_owned(),
            rw: self.rw,
            read_share,
            bs: bs.context("--bs must be between 1 byte and 1 GiB")?,
            depth: self.depth,
            connections: self.connections,
            rate: self.rate,
            cdw13: self.cdw13,
        })
    }

    /// The job that `--job text` describes.
    fn with(&self, text: &str, index: usize) -> anyhow::Result<Job> {
        let mut args = self.clone();
        let mut name = format!("job{}", index + 1);
        for pair in text.split(',') {
            let (key, value) = pair
                .split_once('=')
                .with_context(|| format!("--job: `{pair}` is not KEY=VALUE"))?;
            if key == "name" {
                value.clone_into(&mut name);
                continue;
            }
            args.set(key, value).with_context(|| format!("--job: {pair}"))?;
        }
        args.resolve(&name)
    }

    fn set(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        let message = anyhow::Error::msg::<String>;
        match key {
            "rw" => self.rw = Rw::from_str(value, true).map_err(message)?,
            "read-share" => {
                self.read_share = value.parse()?;
                ensure!(self.read_share <= 100, "read-share is at most 100");
            }
            "bs" => self.bs = units::bytes(value).map_err(message)?,
            "depth" => {
                self.depth = value.parse()?;
                ensure!((1..=4096).contains(&self.depth), "depth is between 1 and 4096");
            }
            "connections" => {
                self.connections = value.parse()?;
                ensure!((1..=1024).contains(&self.connections), "connections: 1 to 1024");
            }
            "rate" => self.rate = Some(units::rate(value).map_err(message)?),
            "cdw13" => self.cdw13 = units::number(value).map_err(message)?,
            _ => bail!(
                "unknown key: use name, rw, read-share, bs, depth, connections, rate or cdw13"
            ),
        }
        Ok(())
    }
}

/// The bare request and response.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Floor {
    /// Bytes of data in each response (reads) or request (writes).
    #[arg(long, value_parser = units::bytes, default_value = "4k")]
    pub(crate) bs: u64,
    /// Requests outstanding.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) depth: u16,
    /// Data in the request instead of the response.
    #[arg(long)]
    pub(crate) write: bool,
    /// How long to measure.
    #[arg(long, value_parser = units::time, default_value = "3s")]
    pub(crate) time: Duration,
    /// CPU core of the requesting thread.
    #[arg(long)]
    pub(crate) core: Option<usize>,
    /// CPU core of the answering thread.
    #[arg(long)]
    pub(crate) server_core: Option<usize>,
    /// Let the answering thread sleep in the kernel instead of polling.
    #[arg(long)]
    pub(crate) blocking: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Load, clap::Error> {
        Line::try_parse_from(line.split(' ')).map(|line| line.args.load)
    }

    #[test]
    fn jobs_inherit_what_they_do_not_say() {
        let load = parse(
            "bench -n nqn --bs 8k --depth 4 --job name=a,rw=write,cdw13=0x200 --job bs=512,rate=5k",
        )
        .unwrap();
        let jobs = load.jobs().unwrap();
        assert_eq!((jobs[0].name.as_str(), jobs[0].bs, jobs[0].depth), ("a", 8192, 4));
        assert_eq!((jobs[0].rw, jobs[0].read_share, jobs[0].cdw13), (Rw::Write, 0, 0x200));
        assert_eq!((jobs[1].name.as_str(), jobs[1].bs, jobs[1].rate), ("job2", 512, Some(5e3)));
        assert_eq!(jobs[1].read_share, 100);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        assert!(parse("bench").is_err(), "the NQN is required");
        assert!(parse("bench -n nqn --depth 0").is_err());
        for job in ["rw", "rw=sideways", "colour=red", "depth=0", "read-share=101"] {
            let load = parse(&format!("bench -n nqn --job {job}")).unwrap();
            assert!(load.jobs().is_err(), "{job}");
        }
        assert!(Line::try_parse_from(["bench", "floor", "--bs", "4k"]).is_ok());
    }
}
