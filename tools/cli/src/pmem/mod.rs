//! `sluice pmem`: regions of persistent memory from the client's side.
//!
//! - [`demo`]: what reservations are worth, without any device.
//! - [`args`]: the command line. [`grant`]: how a region is got, and for how long.
//! - [`plan`]: the part of a region that is moved; `region_io`: how; [`transfer`]: the same by RDMA; [`written`]: the
//!   result of a write; `connect`: the connection to a region's data node, for `sluice bench` too.

mod args;
pub(crate) mod connect;
mod demo;
pub(crate) mod grant;
mod plan;
mod region_io;
mod transfer;
mod written;

use std::io::{Write as _, stderr, stdin, stdout};

use clap::Subcommand;
use fabric::nvme::region::RegionRights;
use fabric::tcp::HostParams;
use serde_json::json;
use sluice_config::program::print;

use args::{CommandArgs, GrantArgs, TransferArgs};
use grant::Granted;
use written::FlushedBy;

/// Commands on regions.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show what reservations are worth: a data node and its clients within this process, on simulated
    /// time. The exit status says whether all reservations were met.
    Demo(demo::Args),
    /// Read a region, or a part of it, to standard output, by one-sided RDMA.
    Read(Box<TransferArgs>),
    /// Write standard input to a region, by one-sided RDMA, and flush it.
    ///
    /// The flush reads the last bytes back, on the same connection behind all writes: a device acknowledges a write
    /// before its bytes are in memory, and answers this read only when all bytes before it have left it. Then the data
    /// node's RDMA device places them where they survive, by RDMA FLUSH, if devices and libraries have that and it
    /// promises as much; else the data node writes its caches back, or waits for the file. So with exit status 0 every
    /// reader of the region sees all bytes. The printed line names the event that they survive (nothing, the end of the
    /// daemon, or a power cut) and the flush method. With any other status a part may have been written.
    Write(Box<TransferArgs>),
    /// Print the command by which the NVMe host of this machine asks for a region, for --grant.
    Command(CommandArgs),
}

/// Runs a subcommand.
///
/// # Errors
///
/// As the subcommand says.
pub(crate) fn run(action: &Action, as_json: bool) -> anyhow::Result<()> {
    match action {
        Action::Demo(demo) => demo::run(*demo, as_json),
        Action::Read(args) => read(args),
        Action::Write(args) => write(args, as_json),
        Action::Command(args) => print(args.line()),
    }
}

/// Reads to standard output, and says on standard error how much.
fn read(args: &TransferArgs) -> anyhow::Result<()> {
    fabric_verbs::check()?;
    let (name, plan) = (args.from.region, args.plan());
    let granted = granted(&args.from, RegionRights::Read)?;
    let bytes = granted.hold(|grant| transfer::read(name, grant, &plan, &mut stdout().lock()))?;
    // A reader that has gone is no error.
    let _ = writeln!(stderr(), "read {bytes} bytes of {name} at offset {}", plan.offset);
    Ok(())
}

/// Writes standard input to a region, and prints the number of bytes and the event that they survive.
fn write(args: &TransferArgs, as_json: bool) -> anyhow::Result<()> {
    fabric_verbs::check()?;
    let (name, plan) = (args.from.region, args.plan());
    let granted = granted(&args.from, RegionRights::ReadWrite)?;
    let survives = grant::survives(granted.grant.survives);
    let written = granted.hold(|grant| transfer::write(name, grant, &plan, &mut stdin().lock()))?;
    let (offset, bytes) = (plan.offset, written.bytes);
    let flushed_by = written.flushed_by.map(FlushedBy::words);
    print(if as_json {
        let wrote = json!({
            "region": name.as_str(),
            "offset": offset,
            "bytes": bytes,
            "flushed_by": flushed_by,
            "survives": survives,
        });
        format!("{wrote:#}\n")
    } else {
        let by = flushed_by.map_or_else(String::new, |by| format!(" by {by}"));
        format!(
            "wrote {bytes} bytes to {name} at offset {offset}, flushed{by}; survives {survives}\n"
        )
    })
}

fn granted(from: &GrantArgs, needed: RegionRights) -> anyhow::Result<Granted> {
    match &from.grant {
        Some(path) => Granted::read(path),
        None => Granted::ask(&from.access(), HostParams::default(), &from.wanted(needed)),
    }
}
