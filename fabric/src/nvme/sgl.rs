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
    /// 40h, or 4Fh: keyed data block: the data is in memory that the host has registered.
    Keyed {
        /// Address of the memory.
        address: u64,
        /// Length of the memory in bytes, 24 bits.
        length: u32,
        /// The registration's key.
        key: u32,
        /// Whether the response invalidates the key (4Fh).
        invalidate: bool,
    },
    /// Any other type byte.
    Other(u8),
}

impl SglDescriptor {
    /// Type byte of a data block whose address is an offset into the capsule.
    pub const IN_CAPSULE: u8 = 0x01;
    /// Type byte of a transport SGL data block.
    pub const TRANSPORT: u8 = 0x5a;

    /// Type byte of a keyed data block.
    pub const KEYED: u8 = 0x40;
    /// Type byte of a keyed data block whose key the response invalidates.
    pub const KEYED_INVALIDATE: u8 = 0x4f;

    /// Makes a descriptor for `length` bytes, less than 16 MiB, of registered memory.
    #[must_use]
    pub fn keyed(address: u64, length: u32, key: u32, invalidate: bool) -> Self {
        let [key0, key1, key2, key3] = key.to_le_bytes();
        Self {
            address: U64::new(address),
            length: U32::new(length & 0xff_ffff | u32::from(key0) << 24),
            reserved: [key1, key2, key3],
            kind: if invalidate { Self::KEYED_INVALIDATE } else { Self::KEYED },
        }
    }

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

    /// Returns the length of the data in bytes, for any kind of descriptor.
    #[must_use]
    pub fn data_length(&self) -> u32 {
        match self.decode() {
            SglKind::Keyed { length, .. } => length,
            _ => self.length.get(),
        }
    }

    /// Decodes the type byte.
    #[must_use]
    pub fn decode(&self) -> SglKind {
        match self.kind {
            Self::IN_CAPSULE => SglKind::InCapsule { offset: self.address.get() },
            Self::TRANSPORT => SglKind::Transport,
            Self::KEYED | Self::KEYED_INVALIDATE => {
                let [length0, length1, length2, key0] = self.length.get().to_le_bytes();
                let [key1, key2, key3] = self.reserved;
                SglKind::Keyed {
                    address: self.address.get(),
                    length: u32::from_le_bytes([length0, length1, length2, 0]),
                    key: u32::from_le_bytes([key0, key1, key2, key3]),
                    invalidate: self.kind == Self::KEYED_INVALIDATE,
                }
            }
            other => SglKind::Other(other),
        }
    }
}
