//! SGL descriptors (NVMe base specification 2.0, section 4.1.2; transport uses in the TCP and
//! RDMA transport specifications).

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One SGL descriptor, 16 bytes: address or offset, length in bytes, and a type byte.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SglDescriptor {
    /// Bytes 7:0: address, or the offset into the capsule's data.
    pub address: U64,
    /// Bytes 11:8: length in bytes. (A keyed descriptor uses bytes 10:8 only.)
    pub length: U32,
    /// Bytes 14:12: reserved, or with byte 11 the 32-bit key of a keyed descriptor.
    pub reserved: [u8; 3],
    /// Byte 15: type 7:4, subtype 3:0.
    pub kind: u8,
}

const _: () = assert!(size_of::<SglDescriptor>() == 16);

/// The place of an NVMe/TCP command's data, as its SGL descriptor tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SglKind {
    /// 01h: data block with an offset subtype: the data lies in the capsule.
    InCapsule {
        /// Bytes from the start of the capsule's data area.
        offset: u64,
    },
    /// 5Ah: transport SGL data block: the data moves in H2CData or C2HData PDUs.
    Transport,
    /// Any other type byte.
    Other(u8),
}

impl SglDescriptor {
    /// Type byte of a data block whose address is an offset into the capsule.
    pub const IN_CAPSULE: u8 = 0x01;
    /// Type byte of a transport SGL data block.
    pub const TRANSPORT: u8 = 0x5a;

    /// Makes a descriptor for `length` bytes of in-capsule data at offset 0.
    #[must_use]
    pub fn in_capsule(length: u32) -> Self {
        Self { length: U32::new(length), kind: Self::IN_CAPSULE, ..Self::default() }
    }

    /// Makes a descriptor for `length` bytes that the transport's data PDUs carry.
    #[must_use]
    pub fn transport(length: u32) -> Self {
        Self { length: U32::new(length), kind: Self::TRANSPORT, ..Self::default() }
    }

    /// Decodes the type byte.
    #[must_use]
    pub fn decode(&self) -> SglKind {
        match self.kind {
            Self::IN_CAPSULE => SglKind::InCapsule { offset: self.address.get() },
            Self::TRANSPORT => SglKind::Transport,
            other => SglKind::Other(other),
        }
    }
}
