//! The completion queue entry (NVMe base specification 2.0, section 3.3.3.2).

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Status;

/// A completion queue entry, 16 bytes, as it lies in a response capsule.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Cqe {
    /// DW0 (low half) and DW1: the command's result.
    pub result: U64,
    /// DW2 15:0: submission queue head pointer.
    pub sqhd: U16,
    /// DW2 31:16: submission queue identifier (reserved over fabrics).
    pub sqid: U16,
    /// DW3 15:0: identifier of the command that this completes.
    pub cid: U16,
    /// DW3 31:16: phase tag (bit 0, unused over fabrics) and status (bits 15:1).
    pub status: U16,
}

const _: () = assert!(size_of::<Cqe>() == 16);

impl Cqe {
    /// Makes the entry that completes command `cid`.
    #[must_use]
    pub fn new(cid: u16, sqhd: u16, result: u64, status: Status) -> Self {
        Self {
            result: U64::new(result),
            sqhd: U16::new(sqhd),
            sqid: U16::ZERO,
            cid: U16::new(cid),
            status: U16::new(status.bits() << 1),
        }
    }

    /// Returns the status without the phase tag.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::from_bits(self.status.get() >> 1)
    }
}
