//! The Discovery log page (NVMe base 2.0, section 5.16.1.23).

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Header of the Discovery log page, 1024 bytes; entries follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DiscoveryHeader {
    /// Bytes 7:0: generation counter.
    pub genctr: U64,
    /// Bytes 15:8: entries that follow.
    pub numrec: U64,
    /// Bytes 17:16: record format, 0.
    pub recfmt: U16,
    /// Byte 18: the options in LSP that the page follows.
    pub dlpf: u8,
    /// Byte 19.
    pub reserved19: u8,
    /// Bytes 23:20: total length of the page in bytes.
    pub tdlpl: U32,
    /// Bytes 1023:24.
    pub reserved24: [u8; 1000],
}

const _: () = assert!(size_of::<DiscoveryHeader>() == 1024);

/// TRTYPE.
pub mod trtype {
    /// RDMA.
    pub const RDMA: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 3;
}

/// SUBTYPE.
pub mod subtype {
    /// An NVM subsystem.
    pub const NVM: u8 = 2;
    /// The discovery subsystem that answers.
    pub const CURRENT: u8 = 3;
}

bitflags! {
    /// EFLAGS, bytes 11:10 of an entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EntryFlags: u16 {
        /// Bit 0: every entry with this bit leads to the same information.
        const SAME_INFORMATION = 1 << 0;
        /// Bit 1: persistent connections (a keep alive timeout other than 0) are supported.
        const PERSISTENT = 1 << 1;
    }
}

/// An entry of the Discovery log page, 1024 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DiscoveryEntry {
    /// Byte 0: see [`trtype`].
    pub trtype: u8,
    /// Byte 1: 1 IPv4, 2 IPv6.
    pub adrfam: u8,
    /// Byte 2: see [`subtype`].
    pub subtype: u8,
    /// Byte 3: TREQ: secure channel 1:0 (0 not specified, 1 required), bit 2 the host may disable submission
    /// queue flow control.
    pub treq: u8,
    /// Bytes 5:4: port identifier.
    pub portid: U16,
    /// Bytes 7:6: controller: FFFFh dynamic.
    pub cntlid: U16,
    /// Bytes 9:8: entries of the largest admin submission queue.
    pub asqsz: U16,
    /// Bytes 11:10: [`EntryFlags`].
    pub eflags: U16,
    /// Bytes 31:12.
    pub reserved12: [u8; 20],
    /// Bytes 63:32: service identifier (port number), ASCII, padded with NUL.
    pub trsvcid: [u8; 32],
    /// Bytes 255:64.
    pub reserved64: [u8; 192],
    /// Bytes 511:256: subsystem NQN, ended by NUL.
    pub subnqn: [u8; 256],
    /// Bytes 767:512: address, ASCII, padded with NUL.
    pub traddr: [u8; 256],
    /// Bytes 1023:768: transport specific: TCP has SECTYPE in byte 768, 0 none, see
    /// [`Self::tls_tsas`]; RDMA has [`Self::rdma_tsas`].
    pub tsas: [u8; 256],
}

const _: () = assert!(size_of::<DiscoveryEntry>() == 1024);

impl DiscoveryEntry {
    /// TREQ: nothing said of a secure channel, flow control may be disabled. (nvme-cli takes
    /// "secure channel not required", 10b, for an offer of TLS and then insists on it.)
    pub const TREQ_OPEN: u8 = 0b100;
    /// TREQ: a secure channel is required, flow control may be disabled.
    pub const TREQ_SECURE: u8 = 0b101;

    /// Makes TSAS of TCP over TLS: SECTYPE, byte 0, 2 TLS 1.3.
    #[must_use]
    pub fn tls_tsas() -> [u8; 256] {
        let mut tsas = [0; 256];
        if let Some(kind) = tsas.first_mut() {
            *kind = 2;
        }
        tsas
    }

    /// Makes TSAS of RDMA: QPTYPE, byte 0, 1 reliable connected; PRTYPE, byte 1, 1 provider not
    /// specified; CMS, byte 2, 1 RDMA_CM; PKEY, bytes 9:8, 0 for RDMA_CM.
    #[must_use]
    pub fn rdma_tsas() -> [u8; 256] {
        let mut tsas = [0; 256];
        for byte in tsas.iter_mut().take(3) {
            *byte = 1;
        }
        tsas
    }

    /// CNTLID of the dynamic controller model.
    pub const DYNAMIC: u16 = 0xffff;
}
