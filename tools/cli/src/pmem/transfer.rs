//! Reads and writes of a region by one-sided RDMA, each with a token.

use std::io::{Read, Write};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use fabric::nvme::region::{RegionGrant, RegionName};
use fabric_verbs::Part;
use pmem::one_sided::Ticket;
use pmem_verbs::client::Client;
use pmem_verbs::gate::Pace;

use super::connect;
use super::plan::Plan;
use super::region_io::{self, Kind, RegionIo};
use super::written::{FlushedBy, Written};

/// The longest wait for something to happen.
const WAIT: Duration = Duration::from_secs(1);

/// Reads a part of a region. Returns the number of bytes.
///
/// # Errors
///
/// As [`region_io::read`]; and there is no connection.
pub(crate) fn read(
    name: RegionName,
    grant: &RegionGrant,
    plan: &Plan,
    output: &mut dyn Write,
) -> anyhow::Result<u64> {
    region_io::read(&mut open(name, grant, plan)?, plan, output)
}

/// Writes an input to a part of a region, and flushes it.
///
/// # Errors
///
/// As [`region_io::write`]; and there is no connection.
pub(crate) fn write(
    name: RegionName,
    grant: &RegionGrant,
    plan: &Plan,
    input: &mut dyn Read,
) -> anyhow::Result<Written> {
    region_io::write(&mut open(name, grant, plan)?, plan, input)
}

fn open(name: RegionName, grant: &RegionGrant, plan: &Plan) -> anyhow::Result<Client> {
    let (window, best_effort_window) = (plan.depth, plan.best_effort);
    connect::open(name, grant, Pace::Tokens { window, best_effort_window })
}

impl RegionIo for Client {
    type Buffer = Part;

    fn length(&self) -> u64 {
        self.accept().length
    }

    fn buffers(&self, count: u16, length: usize) -> anyhow::Result<Vec<Part>> {
        Self::buffers(self, count, length).context(
            "cannot register memory with the RDMA device: use a smaller --depth or --bs, or raise \
             the limit of locked memory (ulimit -l)",
        )
    }

    fn bytes(buffer: &mut Part) -> &mut [u8] {
        buffer.bytes_mut()
    }

    fn want(&mut self, count: u64) {
        Self::want(self, count);
    }

    fn post(&mut self, kind: Kind, offset: u64, buffer: Part) -> anyhow::Result<Option<Part>> {
        let ticket = Ticket(offset);
        Ok(match kind {
            Kind::Read => Self::read(self, ticket, offset, buffer)?,
            Kind::Write => Self::write(self, ticket, offset, buffer)?,
        })
    }

    fn sync(&mut self, offset: u64, length: u64) -> anyhow::Result<FlushedBy> {
        let by = self.flushes().map_or(FlushedBy::DataNode, FlushedBy::Flush);
        while !Self::sync(self, offset, length)? {
            Self::wait(self, WAIT)?;
        }
        loop {
            Self::wait(self, WAIT)?;
            if let Some(done) = self.synced() {
                ensure!(
                    done,
                    "the data node cannot make the bytes survive: its log says why, for instance that \
                     its medium has failed"
                );
                return Ok(by);
            }
        }
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        Ok(Self::wait(self, WAIT)?)
    }

    fn over(&mut self) -> Option<(bool, Part)> {
        let transfer = self.transferred()?;
        Some((transfer.result.is_ok(), transfer.buffer))
    }
}
