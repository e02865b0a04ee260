//! The blocks of a namespace, as the reactors see them. None has any content but zeroes.

use fabric::nvm::{BlockFormat, IoCommand, LbaRange};
use fabric::nvme::Status;
use sluice_core::device::Data;
use sluice_core::testing::{self, Blocks};

use crate::device::Kind;

pub(crate) const FORMAT: BlockFormat = BlockFormat::BYTES_512;

/// The blocks of a namespace.
pub(crate) type Disk = testing::Disk<Zeroes>;
/// A reactor's machine.
pub(crate) type Machine = testing::Machine<Zeroes>;
/// The state that all reactors share.
pub(crate) type Shared = testing::Shared<Zeroes>;

/// Blocks of zeroes.
#[derive(Debug)]
pub(crate) struct Zeroes {
    /// Index of the device that takes their commands; `None`: they are carried out on the spot.
    pub(crate) device: Option<usize>,
}

impl Blocks for Zeroes {
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

/// Returns the device request of a command: the kind, the place and the length in bytes.
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
