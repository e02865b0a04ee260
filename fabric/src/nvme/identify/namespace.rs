//! Identify Namespace and namespace identifiers (NVMe base 2.0, section 5.17.2; NVM command set
//! 1.0, section 4.1.5.1).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::size::IDENTIFY_SIZE;

/// An LBA format descriptor, 4 bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LbaFormat {
    /// MS, bits 15:0: metadata bytes of a block.
    pub metadata: U16,
    /// LBADS, bits 23:16: block size, 2^n bytes.
    pub shift: u8,
    /// RP, bits 25:24: relative performance, 0 best.
    pub performance: u8,
}

/// Identify Namespace of the NVM command set (CNS 00h), 4096 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IdentifyNamespace {
    /// Bytes 7:0: size in blocks.
    pub nsze: U64,
    /// Bytes 15:8: capacity in blocks.
    pub ncap: U64,
    /// Bytes 23:16: blocks in use.
    pub nuse: U64,
    /// Byte 24: bit 0 thin, 1 atomics (NAWUN..), 2 DAE, 4 NPWG..NOWS are defined.
    pub nsfeat: u8,
    /// Byte 25: LBA formats, 0's based.
    pub nlbaf: u8,
    /// Byte 26: format in use: index 3:0, bit 4 metadata with the data, index high part 6:5.
    pub flbas: u8,
    /// Byte 27: metadata capabilities.
    pub mc: u8,
    /// Byte 28: protection capabilities.
    pub dpc: u8,
    /// Byte 29: protection in use.
    pub dps: u8,
    /// Byte 30: bit 0 may be attached to more than one controller.
    pub nmic: u8,
    /// Byte 31: reservation capabilities.
    pub rescap: u8,
    /// Byte 32: format progress.
    pub fpi: u8,
    /// Byte 33: bits 2:0 what deallocated blocks read as (001b zeroes), bit 3 Write Zeroes
    /// deallocates.
    pub dlfeat: u8,
    /// Bytes 45:34: NAWUN, NAWUPF, NACWU, NABSN, NABO, NABSPF.
    pub atomics: [U16; 6],
    /// Bytes 47:46: optimal I/O boundary in blocks.
    pub noiob: U16,
    /// Bytes 63:48: NVM capacity in bytes.
    pub nvmcap: [u8; 16],
    /// Bytes 73:64: NPWG, NPWA, NPDG, NPDA, NOWS, 0's based, in blocks.
    pub preferred: [U16; 5],
    /// Bytes 80:74: copy limits.
    pub copy_limits: [u8; 7],
    /// Bytes 91:81.
    pub reserved81: [u8; 11],
    /// Bytes 95:92: ANA group.
    pub anagrpid: U32,
    /// Bytes 98:96.
    pub reserved96: [u8; 3],
    /// Byte 99: bit 0 write protected.
    pub nsattr: u8,
    /// Bytes 101:100.
    pub nvmsetid: U16,
    /// Bytes 103:102.
    pub endgid: U16,
    /// Bytes 119:104.
    pub nguid: [u8; 16],
    /// Bytes 127:120.
    pub eui64: [u8; 8],
    /// Bytes 383:128: LBA formats.
    pub lbaf: [LbaFormat; 64],
    /// Bytes 4095:384: vendor specific.
    pub vendor: [u8; 3712],
}

const _: () = assert!(size_of::<IdentifyNamespace>() == IDENTIFY_SIZE);

/// NSFEAT bit 0: thin provisioning; NUSE follows writes and deallocations.
pub const NSFEAT_THINP: u8 = 1;
/// NSFEAT bit 4 (OPTPERF): NPWG, NPWA, NPDG, NPDA and NOWS are defined.
pub const NSFEAT_OPTPERF: u8 = 1 << 4;
/// NSATTR bit 0: write protected.
pub const NSATTR_WRITE_PROTECTED: u8 = 1;
/// NMIC bit 0: shared.
pub const NMIC_SHARED: u8 = 1;

/// I/O command set independent Identify Namespace (CNS 08h), the fields in use; zero up to 4096.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IdentifyNamespaceIndependent {
    /// Byte 0: bit 4 rotational, bit 5 no volatile write cache (defined by NVMe 2.1).
    pub nsfeat: u8,
    /// Byte 1: bit 0 shared.
    pub nmic: u8,
    /// Byte 2.
    pub rescap: u8,
    /// Byte 3.
    pub fpi: u8,
    /// Bytes 7:4.
    pub anagrpid: U32,
    /// Byte 8: bit 0 write protected.
    pub nsattr: u8,
    /// Byte 9.
    pub reserved9: u8,
    /// Bytes 11:10.
    pub nvmsetid: U16,
    /// Bytes 13:12.
    pub endgid: U16,
    /// Byte 14: bit 0 ready.
    pub nstat: u8,
    /// Byte 15.
    pub reserved15: u8,
}

const _: () = assert!(size_of::<IdentifyNamespaceIndependent>() == 16);

impl IdentifyNamespaceIndependent {
    /// NSFEAT bit 5: the namespace has no volatile write cache, even if the controller reports one.
    pub const NO_VOLATILE_CACHE: u8 = 1 << 5;
    /// NSTAT bit 0.
    pub const READY: u8 = 1;
}

/// Types and lengths of namespace identification descriptors (CNS 03h): each is NIDT, NIDL, two
/// reserved bytes and the identifier.
pub mod descriptor {
    /// EUI64, 8 bytes.
    pub const EUI64: u8 = 1;
    /// NGUID, 16 bytes.
    pub const NGUID: u8 = 2;
    /// UUID, 16 bytes.
    pub const UUID: u8 = 3;
    /// Command set identifier, 1 byte.
    pub const CSI: u8 = 4;
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn identify_namespace_fields_lie_where_the_specification_puts_them() {
        type I = IdentifyNamespace;
        let pins = [
            (offset_of!(I, nsfeat), 24),
            (offset_of!(I, flbas), 26),
            (offset_of!(I, nmic), 30),
            (offset_of!(I, rescap), 31),
            (offset_of!(I, dlfeat), 33),
            (offset_of!(I, noiob), 46),
            (offset_of!(I, preferred), 64),
            (offset_of!(I, copy_limits), 74),
            (offset_of!(I, anagrpid), 92),
            (offset_of!(I, nsattr), 99),
            (offset_of!(I, nguid), 104),
            (offset_of!(I, eui64), 120),
            (offset_of!(I, lbaf), 128),
            (offset_of!(I, vendor), 384),
        ];
        for (is, wanted) in pins {
            assert_eq!(is, wanted);
        }
    }
}
