//! The arguments of commands that use a region.

use std::path::PathBuf;

use clap::ValueEnum;
use fabric::nvme::region::{GetRegion, REGION_GRANT_SIZE, RegionName, RegionRights};
use pmem::engine::BEST_EFFORT_WINDOW;

use super::plan::Plan;
use crate::bench::units;
use crate::host::access::{Access, Transport};
use sluice_config::program::HOSTNQN;

/// The region, and how its grant is got.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GrantArgs {
    /// Name of the region.
    pub(crate) region: RegionName,
    /// Address and port of the target, which is asked for the region.
    #[arg(
        short,
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:4420",
        conflicts_with = "grant"
    )]
    address: String,
    /// NQN of a subsystem of the target; whichever may be used by this host.
    #[arg(
        short,
        long,
        value_name = "NQN",
        required_unless_present = "grant",
        conflicts_with = "grant",
        default_value = "",
        hide_default_value = true
    )]
    nqn: String,
    /// Transport to the target. The region itself is used by RDMA always.
    #[arg(short, long, value_enum, default_value_t = Transport::Tcp, conflicts_with = "grant")]
    transport: Transport,
    /// NQN of this host.
    #[arg(long, value_name = "NQN", default_value = HOSTNQN, conflicts_with = "grant")]
    hostnqn: String,
    /// I/Os per second to reserve: 50000, 50k. [default: none]
    #[arg(long, value_name = "RATE", value_parser = units::reservation, conflicts_with = "grant")]
    reserve: Option<u32>,
    /// Rights to request. [default: the rights that the command needs]
    #[arg(long, value_enum, conflicts_with = "grant")]
    rights: Option<Rights>,
    /// Use a grant that this machine's NVMe host has asked for, and that stays good as long as that host
    /// is connected. `sluice pmem command` prints the command that writes the file.
    #[arg(long, value_name = "FILE")]
    pub(crate) grant: Option<PathBuf>,
}

/// Rights to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rights {
    /// To read.
    Read,
    /// To read and write.
    ReadWrite,
}

impl From<Rights> for RegionRights {
    fn from(rights: Rights) -> Self {
        match rights {
            Rights::Read => Self::Read,
            Rights::ReadWrite => Self::ReadWrite,
        }
    }
}

impl GrantArgs {
    /// Returns the request to the target, for a command that needs these rights.
    pub(crate) fn wanted(&self, needed: RegionRights) -> GetRegion {
        GetRegion {
            name: self.region,
            rights: self.rights.map_or(needed, RegionRights::from),
            reservation: self.reserve.unwrap_or(0),
        }
    }

    /// Returns the target, and the host's name to it.
    pub(crate) fn access(&self) -> Access {
        Access {
            transport: self.transport,
            address: self.address.clone(),
            nqn: self.nqn.clone(),
            hostnqn: self.hostnqn.clone(),
            tos: None,
            credentials: None,
        }
    }
}

/// Arguments of `sluice pmem read` and `sluice pmem write`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TransferArgs {
    #[command(flatten)]
    pub(crate) from: GrantArgs,
    /// First byte, counted from the region's first: 4k, 1MiB.
    #[arg(long, value_name = "BYTES", value_parser = units::bytes, default_value = "0")]
    offset: u64,
    /// Number of bytes: 512B, 4k, 1MiB. [default: to the region's end, or the length of the input]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    length: Option<u64>,
    /// Bytes of an I/O, each of which takes a token: 4k, 64k.
    #[arg(long, value_name = "BYTES", value_parser = piece, default_value = "4k")]
    bs: usize,
    /// I/Os outstanding.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=4096))]
    depth: u16,
    /// I/Os outstanding at most when the next one is beyond the reservation; --depth at most. More
    /// than 1 take from the reservations of others.
    #[arg(
        long,
        value_name = "DEPTH",
        default_value_t = BEST_EFFORT_WINDOW,
        value_parser = clap::value_parser!(u16).range(1..=4096)
    )]
    best_effort: u16,
}

/// Parses the bytes of an I/O.
fn piece(text: &str) -> Result<usize, String> {
    let bytes = usize::try_from(units::bytes(text)?).ok();
    let bytes = bytes.filter(|bytes| (1..=1 << 24).contains(bytes));
    bytes.ok_or_else(|| "an I/O has 1 byte to 16 MiB".to_owned())
}

impl TransferArgs {
    /// Returns the range and the pacing of the transfer.
    pub(crate) fn plan(&self) -> Plan {
        Plan {
            offset: self.offset,
            length: self.length,
            bs: self.bs,
            depth: self.depth,
            best_effort: self.best_effort.min(self.depth),
        }
    }
}

/// Arguments of `sluice pmem command`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CommandArgs {
    /// Name of the region.
    region: RegionName,
    /// Rights to ask for.
    #[arg(long, value_enum, default_value_t = Rights::Read)]
    rights: Rights,
    /// I/Os per second to reserve: 50000, 50k. [default: none]
    #[arg(long, value_name = "RATE", value_parser = units::reservation)]
    reserve: Option<u32>,
    /// The controller's device.
    #[arg(long, value_name = "PATH", default_value = "/dev/nvme0")]
    device: String,
}

impl CommandArgs {
    pub(crate) fn line(&self) -> String {
        let name = self.region;
        let reservation = self.reserve.unwrap_or(0);
        let sqe = GetRegion { name, rights: self.rights.into(), reservation }.sqe();
        let dwords = [sqe.cdw10, sqe.cdw11, sqe.cdw12, sqe.cdw13, sqe.cdw14, sqe.cdw15];
        let dwords = (10..).zip(dwords).filter(|(_, dword)| dword.get() != 0);
        let dwords: String =
            dwords.map(|(number, dword)| format!(" --cdw{number}={:#x}", dword.get())).collect();
        format!(
            "nvme admin-passthru {} --opcode={:#x} --data-len={REGION_GRANT_SIZE}{dwords} -r -b > {name}.grant\n",
            self.device, sqe.opcode
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    fn transfer(line: &str) -> Result<TransferArgs, clap::Error> {
        parse(&format!("read {line}"))
    }

    #[test]
    fn what_is_not_said_is_what_the_command_needs() {
        let args = transfer("-a 10.0.0.1:4420 -n nqn log").unwrap();
        let wanted = args.from.wanted(RegionRights::ReadWrite);
        assert_eq!((wanted.name.as_str(), wanted.reservation), ("log", 0));
        assert_eq!(wanted.rights, RegionRights::ReadWrite);
        let plan = Plan { offset: 0, length: None, bs: 4096, depth: 32, best_effort: 1 };
        assert_eq!(args.plan(), plan, "H5: beyond the reservation one I/O is outstanding");
        let access = args.from.access();
        assert_eq!((access.transport, access.hostnqn.as_str()), (Transport::Tcp, HOSTNQN));
    }

    #[test]
    fn what_is_said_counts() {
        let line = "log -n nqn -t rdma --hostnqn me --rights read --reserve 2k --offset 1m --length 512B \
                    --bs 64k --depth 2 --best-effort 8";
        let args = transfer(line).unwrap();
        let wanted = args.from.wanted(RegionRights::ReadWrite);
        assert_eq!((wanted.rights, wanted.reservation), (RegionRights::Read, 2000));
        let plan =
            Plan { offset: 1 << 20, length: Some(512), bs: 65_536, depth: 2, best_effort: 2 };
        assert_eq!(args.plan(), plan);
        let access = args.from.access();
        assert_eq!((access.transport, access.hostnqn.as_str()), (Transport::Rdma, "me"));
    }

    #[test]
    fn a_grant_of_another_host_needs_no_target_and_has_its_rights_already() {
        let args = transfer("log --grant /tmp/log.grant").unwrap();
        assert_eq!(args.from.grant, Some("/tmp/log.grant".into()));
        for more in ["-n nqn", "-a 10.0.0.1:4420", "-t tcp", "--reserve 5", "--rights read"] {
            assert!(transfer(&format!("log --grant /tmp/log.grant {more}")).is_err(), "{more}");
        }
        for wrong in ["log", "-n nqn", "-n nqn a/b", "-n nqn log --bs 0", "-n nqn log --bs 17m"] {
            assert!(transfer(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_kernels_host_is_asked_by_a_line_for_nvme_cli() {
        let line = |words: &str| parse::<CommandArgs>(&format!("command {words}")).unwrap().line();
        assert_eq!(
            line("log"),
            "nvme admin-passthru /dev/nvme0 --opcode=0xc2 --data-len=128 --cdw10=0x676f6c --cdw15=0x1 \
             -r -b > log.grant\n"
        );
        assert_eq!(
            line("0123456789abcdef --rights read-write --reserve 1k --device /dev/nvme3"),
            "nvme admin-passthru /dev/nvme3 --opcode=0xc2 --data-len=128 --cdw10=0x33323130 \
             --cdw11=0x37363534 --cdw12=0x62613938 --cdw13=0x66656463 --cdw14=0x3e8 --cdw15=0x3 -r -b \
             > 0123456789abcdef.grant\n"
        );
    }
}
