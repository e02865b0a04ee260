//! What keeps a namespace's blocks, as the reactors see it. No block has any content but zeroes.

use std::sync::Arc;

use arbitration::device::{self as qos, DeviceRules};
use fabric::nvm::{BlockFormat, IoCommand, LbaRange};
use fabric::nvme::Status;
use sluice_core::device::{BlockDevice, Data, Immediate, Style};
use sluice_core::stats::{IoStats, PerReactor};

use crate::device::Kind;

/// The format of all blocks.
pub(crate) const FORMAT: BlockFormat = BlockFormat::BYTES_512;

/// What keeps a namespace's blocks.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Index of the device that takes its commands; `None`: they are carried out on the spot.
    pub(crate) device: Option<usize>,
    blocks: u64,
    qos: Arc<qos::Device>,
    stats: PerReactor,
}

impl Disk {
    pub(crate) fn new(
        device: Option<usize>,
        blocks: u64,
        rules: DeviceRules,
        reactors: usize,
    ) -> Self {
        let qos = Arc::new(qos::Device::new(rules, reactors));
        Self { device, blocks, qos, stats: PerReactor::new(reactors) }
    }

    /// Returns the device as the arbiters share it.
    pub(crate) fn arbitrated(&self) -> &Arc<qos::Device> {
        &self.qos
    }

    /// Counts the commands that it has completed, and their bytes.
    pub(crate) fn done(&self) -> (u64, u64) {
        let (mut commands, mut bytes) = (0, 0);
        for stats in self.stats.iter().map(IoStats::snapshot) {
            for kind in [&stats.read, &stats.write, &stats.other] {
                commands += kind.ops;
                bytes += kind.bytes;
            }
        }
        (commands, bytes)
    }
}

impl BlockDevice for Disk {
    fn style(&self) -> Style<'_> {
        match self.device {
            None => Style::Immediate(self),
            Some(_) => Style::Queued,
        }
    }

    fn format(&self) -> BlockFormat {
        FORMAT
    }

    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn qos(&self) -> &Arc<qos::Device> {
        &self.qos
    }

    fn stats(&self, reactor: usize) -> Option<&IoStats> {
        self.stats.get(reactor)
    }
}

impl Immediate for Disk {
    fn run(&self, _: &IoCommand, data: Data<'_>) -> Status {
        if let Data::Read(into) = data {
            into.fill(0);
        }
        Status::SUCCESS
    }

    fn reads_zeroes(&self) -> bool {
        true
    }
}

/// Returns what a device has to do for a command: the kind, the place and the length in bytes.
pub(crate) fn request_of(command: &IoCommand) -> (Kind, u64, u64) {
    let place = |range: &LbaRange| {
        let block = u64::from(FORMAT.data_bytes());
        (range.lba.saturating_mul(block), u64::from(range.blocks).saturating_mul(block))
    };
    let (kind, (offset, length)) = match command {
        IoCommand::Read { range, .. }
        | IoCommand::Verify { range }
        | IoCommand::Compare { range } => (Kind::Read, place(range)),
        IoCommand::Write { range, .. } | IoCommand::WriteZeroes { range, .. } => {
            (Kind::Write, place(range))
        }
        IoCommand::Deallocate { range } => (Kind::Deallocate, place(range)),
        IoCommand::DatasetManagement { .. } => (Kind::Deallocate, (0, 0)),
        IoCommand::Flush => (Kind::Flush, (0, 0)),
    };
    (kind, offset, length)
}
