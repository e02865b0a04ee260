//! The error log of one controller (NVMe base 2.0, section 5.16.1.2).

use std::collections::VecDeque;

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::TransportType;
use crate::nvme::Status;
use crate::nvme::log::ErrorEntry;

/// Entries of the Error Information log page (ELPE + 1).
pub(super) const ERROR_ENTRIES: u8 = 64;

/// A command that failed, for the error log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedCommand {
    /// The command's queue.
    pub qid: u16,
    /// The command's identifier.
    pub cid: u16,
    /// The command's opcode.
    pub opcode: u8,
    /// The command's namespace.
    pub nsid: u32,
    /// The command's first block; 0 where it has none.
    pub lba: u64,
    /// The status it was completed with.
    pub status: Status,
}

/// The last errors of one controller.
#[derive(Debug, Default)]
pub(super) struct ErrorLog {
    entries: VecDeque<ErrorEntry>,
    /// Errors since the controller began.
    pub(super) count: u64,
}

impl ErrorLog {
    /// Adds a command; the oldest entry is dropped where there are too many.
    pub(super) fn record(&mut self, transport: TransportType, failed: FailedCommand) {
        self.count = self.count.saturating_add(1);
        self.entries.truncate(usize::from(ERROR_ENTRIES) - 1);
        self.entries.push_front(ErrorEntry {
            count: U64::new(self.count),
            sqid: U16::new(failed.qid),
            cid: U16::new(failed.cid),
            status: U16::new(failed.status.bits() << 1),
            location: U16::new(0xffff),
            lba: U64::new(failed.lba),
            nsid: U32::new(failed.nsid),
            trtype: transport.trtype(),
            opcode: failed.opcode,
            version: 1,
            ..ErrorEntry::default()
        });
    }

    /// Makes the log page, newest first.
    pub(super) fn page(&self) -> Vec<u8> {
        let mut page: Vec<u8> = self.entries.iter().flat_map(|e| e.as_bytes().to_vec()).collect();
        page.resize(usize::from(ERROR_ENTRIES) * size_of::<ErrorEntry>(), 0);
        page
    }
}
