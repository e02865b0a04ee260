//! The submission queue entry (NVMe base specification 2.0, section 3.3.3.1).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::SglDescriptor;

/// A submission queue entry, 64 bytes, as it lies in a command capsule.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Sqe {
    /// CDW0 7:0: opcode (see [`super::opcode`]).
    pub opcode: u8,
    /// CDW0 15:8: FUSE 1:0 (bits 9:8), PSDT 7:6 (bits 15:14); over fabrics PSDT is 01b.
    pub flags: u8,
    /// CDW0 31:16: command identifier, unique among the outstanding commands of a queue.
    pub cid: U16,
    /// CDW1: namespace identifier.
    pub nsid: U32,
    /// CDW2.
    pub cdw2: U32,
    /// CDW3.
    pub cdw3: U32,
    /// CDW4, CDW5: metadata pointer.
    pub mptr: U64,
    /// CDW6..CDW9: data pointer; over fabrics always one SGL descriptor.
    pub sgl: SglDescriptor,
    /// CDW10.
    pub cdw10: U32,
    /// CDW11.
    pub cdw11: U32,
    /// CDW12.
    pub cdw12: U32,
    /// CDW13.
    pub cdw13: U32,
    /// CDW14.
    pub cdw14: U32,
    /// CDW15.
    pub cdw15: U32,
}

const _: () = assert!(size_of::<Sqe>() == 64);

impl Sqe {
    /// Reads FUSE, CDW0 9:8: 0 for a command that is not part of a fused operation.
    #[must_use]
    pub fn fuse(&self) -> u8 {
        self.flags & 0b11
    }

    /// PSDT of a command over fabrics: an SGL descriptor, and no SGL of metadata.
    pub const SGL: u8 = 0b01;

    /// Reads PSDT, CDW0 15:14: [`Self::SGL`]; 0 for PRPs, 2 where metadata has an SGL, 3 is
    /// reserved.
    #[must_use]
    pub fn psdt(&self) -> u8 {
        self.flags >> 6
    }

    /// Reads the starting LBA of an NVM I/O command: CDW11 (high half), CDW10 (low half).
    #[must_use]
    pub fn slba(&self) -> u64 {
        u64::from(self.cdw10.get()) | u64::from(self.cdw11.get()) << 32
    }
}
