//! Ranges of logical blocks, and the limits in which they have to lie.

use super::BlockFormat;
use crate::nvme::{Sqe, Status};

/// Consecutive logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LbaRange {
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks; not 0.
    pub blocks: u32,
}

/// The limits against which a command is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoLimits {
    /// The format of a logical block.
    pub format: BlockFormat,
    /// Number of logical blocks.
    pub blocks: u64,
    /// Whether commands that change blocks are refused.
    pub read_only: bool,
    /// Largest data transfer in bytes.
    pub max_transfer: u32,
}

impl LbaRange {
    /// Returns the data bytes of the range.
    #[must_use]
    #[inline]
    pub fn bytes(&self, format: BlockFormat) -> u64 {
        format.bytes(u64::from(self.blocks))
    }

    /// Returns the offset of the range's first data byte.
    #[must_use]
    #[inline]
    pub fn offset(&self, format: BlockFormat) -> u64 {
        format.bytes(self.lba)
    }

    /// Returns the bytes of the range on the wire, data and metadata; `u32::MAX` at the most.
    #[must_use]
    #[inline]
    pub fn transfer_bytes(&self, format: BlockFormat) -> u32 {
        format.transfer_bytes(self.blocks)
    }
}

impl IoLimits {
    /// Reads the range that a command names: SLBA in CDW10 and CDW11, NLB (0's based) in CDW12
    /// 15:0.
    ///
    /// # Errors
    /// LBA Out of Range, with Do Not Retry.
    #[inline]
    pub(super) fn range(&self, sqe: &Sqe) -> Result<LbaRange, Status> {
        let blocks = (sqe.cdw12.get() & 0xffff) + 1;
        self.check(sqe.slba(), blocks)
    }

    /// Checks that a range lies inside the namespace.
    ///
    /// # Errors
    /// LBA Out of Range, with Do Not Retry.
    #[inline]
    pub fn check(&self, lba: u64, blocks: u32) -> Result<LbaRange, Status> {
        match lba.checked_add(u64::from(blocks)) {
            Some(end) if end <= self.blocks => Ok(LbaRange { lba, blocks }),
            _ => Err(Status::LBA_OUT_OF_RANGE.dnr()),
        }
    }
}
