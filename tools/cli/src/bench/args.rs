//! The command line of `sluice bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use fabric::nvme::region::RegionName;

use super::job::{self, Draft, Job, JobArgs};
use super::units;
use crate::host::access::{HostStyle, Transport};
use crate::host::{authentication, identity};

/// Arguments of `sluice bench`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) mode: Option<Mode>,
    #[command(flatten)]
    pub(crate) load: Load,
}

/// Measurements other than load on a target.
#[derive(Debug, Subcommand)]
pub(crate) enum Mode {
    /// Measure bare requests and responses of the same sizes within this machine: the limit of any
    /// target.
    Floor(Floor),
}

/// Load on a target.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Load {
    /// Address and port of the target.
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4420")]
    pub(crate) address: String,
    /// NQN of the subsystem.
    #[arg(
        short,
        long,
        value_name = "NQN",
        required_unless_present = "jobs",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) nqn: String,
    /// NQN of this host. [default: that of /etc/nvme/hostnqn, or else one that all machines share]
    #[arg(long, value_name = "NQN")]
    pub(crate) hostnqn: Option<String>,
    /// File with this host's secret (DHHC-1:…), by which it proves itself where the target demands it.
    #[arg(long, value_name = "FILE")]
    pub(crate) dhchap_secret: Option<PathBuf>,
    /// File with the target's secret, by which the target must prove itself.
    #[arg(long, value_name = "FILE", requires = "dhchap_secret")]
    pub(crate) dhchap_ctrl_secret: Option<PathBuf>,
    /// Namespace.
    #[arg(long, default_value_t = 1)]
    pub(crate) nsid: u32,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// A job; may be given more than once, for jobs at the same time. KEY=VALUE,... with the keys
    /// name, transport, rw, read-share, bs, depth, connections, rate, arrivals, class, prioclass,
    /// cdw13, tos, address, nqn, hostnqn, nsid, weight, share, reserve. A key that is left out is as in the
    /// other options.
    #[arg(long = "job", value_name = "KEY=VALUE,...")]
    pub(crate) jobs: Vec<String>,
    /// Time to measure: 5s, 500ms, 2m.
    #[arg(long, value_parser = units::time, default_value = "5s")]
    pub(crate) time: Duration,
    /// Time to run before measuring.
    #[arg(long, value_parser = units::time, default_value = "1s")]
    pub(crate) warmup: Duration,
    /// How the host works: `batching` sends all due commands in one call and needs no responses to reads;
    /// `plain` sends each command in a call of its own, with submission queue flow control, as other hosts
    /// do.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) host: HostStyle,
    /// Use header digests (TCP).
    #[arg(long)]
    pub(crate) hdgst: bool,
    /// Use data digests (TCP).
    #[arg(long)]
    pub(crate) ddgst: bool,
    /// Fill the blocks with stamped data, check every byte of every read, and read all blocks back
    /// at the end. Destroys the namespace's content.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Write even where the namespace holds a file system, a volume or partitions, or where other hosts
    /// use it, and lose what is there.
    #[arg(long)]
    pub(crate) destroy: bool,
    /// The control socket that was named on the command line.
    #[arg(skip)]
    pub(crate) socket: Option<PathBuf>,
    /// Part of the namespace that each connection uses: 64m, 1g. [default: all, with --verify 64m]
    #[arg(long, value_parser = units::bytes)]
    pub(crate) span: Option<u64>,
    /// Threads, over which the connections are spread.
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// CPU cores to pin the threads to, in turn: 1 or 1,3.
    #[arg(long, value_delimiter = ',', value_name = "CORE,...")]
    pub(crate) core: Vec<usize>,
    /// Take credits of this machine's pools for each command: the folder that `sluice agent` uses. Jobs of sessions
    /// without a pool are not held back.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) credits: Option<PathBuf>,
    /// Let threads without work sleep in the kernel instead of polling.
    #[arg(long)]
    pub(crate) blocking: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print lines while running: each second, or each --window.
    #[arg(long)]
    pub(crate) live: bool,
    /// Report each job's throughput and share in each window of this length as well: 1s, 100ms.
    #[arg(long, value_parser = units::time)]
    pub(crate) window: Option<Duration>,
    /// Run each job alone first, and report how much slower the job is beside the others.
    #[arg(long)]
    pub(crate) alone: bool,
    /// Compare with a second target: run A B A B ... and print each pair's ratio. Its transport
    /// (tcp: or rdma:) is the first one's where it is not named.
    #[arg(long, value_name = "[TRANSPORT:]ADDRESS:PORT[,NQN]")]
    pub(crate) vs: Option<String>,
    /// Pairs of runs with --vs.
    #[arg(long, default_value_t = 5)]
    pub(crate) pairs: usize,
    /// Load this region of persistent memory in place of a namespace: the target is asked for it, and
    /// --reserve I/Os per second are reserved in it; --depth I/Os are outstanding always, by one-sided
    /// RDMA, each with a token. The report has what was had in each period.
    #[arg(long, value_name = "REGION", conflicts_with_all = NOT_OF_REGIONS)]
    pub(crate) pmem: Option<RegionName>,
    /// With --pmem: use no tokens. This measures what a data node can do with several clients at
    /// once (C_G), and what one client can do (C_L); while it runs nobody has a reservation.
    #[arg(long, requires = "pmem", conflicts_with_all = ["reserve", "best_effort"])]
    pub(crate) bare: bool,
    /// With --pmem: I/Os outstanding at most when the next one is beyond the reservation. Fewer than
    /// --depth give way to reserved I/Os on a data node that serves in order of arrival; as many as
    /// --depth make others miss their reservations. [default: 1]
    #[arg(
        long,
        requires = "pmem",
        value_name = "DEPTH",
        value_parser = clap::value_parser!(u16).range(1..=4096)
    )]
    pub(crate) best_effort: Option<u16>,
}

/// The arguments that a load on a region does not have.
const NOT_OF_REGIONS: [&str; 20] = [
    "credits",
    "host",
    "nsid",
    "jobs",
    "verify",
    "destroy",
    "threads",
    "live",
    "window",
    "alone",
    "vs",
    "pairs",
    "connections",
    "rate",
    "arrivals",
    "class",
    "prioclass",
    "cdw13",
    "tos",
    "weight",
];

impl Load {
    /// Makes the jobs to run at once.
    pub(crate) fn jobs(&self) -> anyhow::Result<Vec<Job>> {
        let draft = || Draft {
            args: self.job.clone(),
            address: self.address.clone(),
            nqn: self.nqn.clone(),
            hostnqn: self.hostnqn.clone().unwrap_or_else(identity::nqn),
            nsid: self.nsid,
        };
        let (own, controller) = (self.dhchap_secret.as_deref(), self.dhchap_ctrl_secret.as_deref());
        let credentials = authentication::credentials(own, controller)?;
        let mut jobs: Vec<Job> = if self.jobs.is_empty() {
            vec![draft().resolve(self.job.rw.name())?]
        } else {
            let jobs = self.jobs.iter().enumerate();
            jobs.map(|(index, text)| draft().with(text, index)).collect::<anyhow::Result<_>>()?
        };
        job::check(&jobs)?;
        for job in &mut jobs {
            job.access.credentials.clone_from(&credentials);
        }
        Ok(jobs)
    }
}

/// Arguments of the measurement of bare requests and responses.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Floor {
    /// Transport: loopback TCP, or SEND, WRITE and READ between two queue pairs.
    #[arg(short, long, value_enum, default_value_t = Transport::Tcp)]
    pub(crate) transport: Transport,
    /// With RDMA: this machine's address on an interface that has an RDMA device.
    #[arg(short, long, value_name = "ADDRESS", required_if_eq("transport", "rdma"))]
    pub(crate) address: Option<String>,
    /// Bytes of data in each response (reads) or request (writes).
    #[arg(long, value_parser = units::bytes, default_value = "4k")]
    pub(crate) bs: u64,
    /// Requests outstanding.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) depth: u16,
    /// Carry data in the request instead of the response.
    #[arg(long)]
    pub(crate) write: bool,
    /// Time to measure.
    #[arg(long, value_parser = units::time, default_value = "3s")]
    pub(crate) time: Duration,
    /// CPU core of the requesting thread.
    #[arg(long)]
    pub(crate) core: Option<usize>,
    /// CPU core of the answering thread, or process.
    #[arg(long)]
    pub(crate) server_core: Option<usize>,
    /// Let the answering thread sleep in the kernel instead of polling.
    #[arg(long)]
    pub(crate) blocking: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Answer, as the other process of a floor over RDMA, and print the address.
    #[arg(long, hide = true)]
    pub(crate) answers: bool,
}

#[cfg(test)]
mod tests {
    use super::super::job::Rw;
    use super::*;
    use crate::testing;

    fn parse(line: &str) -> Result<Load, clap::Error> {
        testing::parse::<Args>(line).map(|args| args.load)
    }

    #[test]
    fn jobs_inherit_what_they_do_not_say() {
        let load = parse(
            "bench -n nqn --bs 8k --depth 4 --job name=a,rw=write,cdw13=0x200 --job bs=512B,rate=5k",
        )
        .unwrap();
        let jobs = load.jobs().unwrap();
        assert_eq!((jobs[0].name.as_str(), jobs[0].bs, jobs[0].depth), ("a", 8192, 4));
        assert_eq!((jobs[0].rw, jobs[0].read_share, jobs[0].cdw13), (Rw::Write, 0, 0x200));
        assert_eq!((jobs[1].name.as_str(), jobs[1].bs, jobs[1].rate), ("job2", 512, Some(5e3)));
        assert_eq!(jobs[1].read_share, 100);
    }

    #[test]
    fn each_job_may_have_its_transport() {
        let load = parse("bench -n nqn -t rdma --job name=a --job transport=tcp").unwrap();
        let jobs = load.jobs().unwrap();
        let transports: Vec<Transport> = jobs.iter().map(|job| job.access.transport).collect();
        assert_eq!(transports, [Transport::Rdma, Transport::Tcp]);
        assert_eq!(jobs[0].access.endpoint(), "rdma:127.0.0.1:4420");
        assert!(parse("bench -n nqn -t pigeon").is_err());
    }

    #[test]
    fn wrong_arguments_are_refused() {
        assert!(parse("bench").is_err(), "the NQN is required");
        assert!(parse("bench -n nqn --depth 0").is_err());
        for job in ["rw", "rw=sideways", "colour=red", "depth=0", "read-share=101"] {
            let load = parse(&format!("bench -n nqn --job {job}")).unwrap();
            assert!(load.jobs().is_err(), "{job}");
        }
        let floor = testing::parse::<Args>;
        assert!(floor("bench floor --bs 4k").is_ok());
        assert!(floor("bench floor -t rdma").is_err(), "no address");
        assert!(floor("bench floor -t rdma -a 10.0.0.1").is_ok());
    }
}
