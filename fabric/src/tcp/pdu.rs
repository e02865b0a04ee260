//! NVMe/TCP PDU headers as they lie on the wire (TCP transport specification 1.0, section 3.6).
//!
//! A PDU is: header (HLEN bytes), header digest (4 bytes, optional), padding up to PDO, data, data
//! digest (4 bytes, optional). PLEN counts all of it.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::nvme::{Cqe, Sqe};

/// Length of a header digest or data digest, bytes.
pub const DIGEST: usize = 4;

/// The longest head of a PDU (everything before its data): PDO has 8 bits.
pub const MAX_HEAD: usize = 256;

bitflags::bitflags! {
    /// FLAGS, byte 1 of every PDU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u8 {
        /// HDGSTF, bit 0: a header digest follows the header.
        const HEADER_DIGEST = 1;
        /// DDGSTF, bit 1: a data digest follows the data.
        const DATA_DIGEST = 1 << 1;
        /// LAST_PDU, bit 2: last data PDU of an R2T (H2CData) or of a command (C2HData).
        const LAST = 1 << 2;
        /// SUCCESS, bit 3 (C2HData with LAST_PDU): the command succeeded, no response follows.
        const SUCCESS = 1 << 3;
        /// Reserved bits are kept and ignored.
        const _ = !0;
    }
}

/// PDU types, byte 0 of every PDU. Even numbers travel to the target, odd ones to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PduType {
    /// 00h: Initialize Connection Request.
    IcReq = 0x00,
    /// 01h: Initialize Connection Response.
    IcResp = 0x01,
    /// 02h: Host to Controller Terminate Connection Request.
    H2cTermReq = 0x02,
    /// 03h: Controller to Host Terminate Connection Request.
    C2hTermReq = 0x03,
    /// 04h: Command Capsule.
    CapsuleCmd = 0x04,
    /// 05h: Response Capsule.
    CapsuleResp = 0x05,
    /// 06h: Host to Controller Data Transfer.
    H2cData = 0x06,
    /// 07h: Controller to Host Data Transfer.
    C2hData = 0x07,
    /// 09h: Ready to Transfer.
    R2t = 0x09,
}

impl PduType {
    /// Returns the type of that number, if it is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::IcReq,
            0x01 => Self::IcResp,
            0x02 => Self::H2cTermReq,
            0x03 => Self::C2hTermReq,
            0x04 => Self::CapsuleCmd,
            0x05 => Self::CapsuleResp,
            0x06 => Self::H2cData,
            0x07 => Self::C2hData,
            0x09 => Self::R2t,
            _ => return None,
        })
    }

    /// Returns the type's number.
    #[must_use]
    pub fn code(self) -> u8 {
        // A fieldless enum with a stated representation: the discriminant is the code.
        self as u8
    }

    /// Returns HLEN of this type in bytes.
    #[must_use]
    pub fn header_length(self) -> u8 {
        match self {
            Self::IcReq | Self::IcResp => 128,
            Self::CapsuleCmd => 72,
            _ => 24,
        }
    }
}

/// The common header, first 8 bytes of every PDU.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Byte 0: PDU-Type, see [`PduType`].
    pub kind: u8,
    /// Byte 1: FLAGS, see [`Flags`].
    pub flags: u8,
    /// Byte 2: HLEN, length of the header in bytes, without digest and padding.
    pub hlen: u8,
    /// Byte 3: PDO, offset of the data from the start of the PDU, bytes; 0 without data.
    pub pdo: u8,
    /// Bytes 7:4: PLEN, length of the whole PDU, bytes.
    pub plen: U32,
}

const _: () = assert!(size_of::<Header>() == 8);

impl Header {
    /// Byte offset of PDU-Type.
    pub const TYPE: u32 = 0;
    /// Byte offset of FLAGS.
    pub const FLAGS: u32 = 1;
    /// Byte offset of HLEN.
    pub const HLEN: u32 = 2;
    /// Byte offset of PDO.
    pub const PDO: u32 = 3;
    /// Byte offset of PLEN.
    pub const PLEN: u32 = 4;

    /// Makes the header of a PDU of that type without data, `plen` bytes long.
    #[must_use]
    pub fn new(kind: PduType, flags: Flags, pdo: u8, plen: u32) -> Self {
        let (kind, hlen) = (kind.code(), kind.header_length());
        Self { kind, flags: flags.bits(), hlen, pdo, plen: U32::new(plen) }
    }
}

bitflags::bitflags! {
    /// DGST, byte 11 of ICReq and ICResp: which digests are asked for or enabled.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Digests: u8 {
        /// HDGST_ENABLE, bit 0.
        const HEADER = 1;
        /// DDGST_ENABLE, bit 1.
        const DATA = 1 << 1;
        /// Reserved bits are kept and ignored.
        const _ = !0;
    }
}

impl Digests {
    /// Makes the set that the two booleans describe.
    #[must_use]
    pub fn from_flags(header: bool, data: bool) -> Self {
        let mut digests = Self::empty();
        digests.set(Self::HEADER, header);
        digests.set(Self::DATA, data);
        digests
    }
}

/// ICReq (host to target) and ICResp (target to host), 128 bytes: one layout, two meanings.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Initialize {
    /// Bytes 7:0.
    pub header: Header,
    /// Bytes 9:8: PFV, PDU format version; 0.
    pub pfv: U16,
    /// Byte 10: HPDA in ICReq, CPDA in ICResp: data PDUs to the sender of this PDU start their
    /// data at a multiple of (value + 1) * 4 bytes; 0..=31.
    pub pda: u8,
    /// Byte 11: DGST, see [`Digests`].
    pub dgst: u8,
    /// Bytes 15:12: in ICReq MAXR2T, the number of outstanding R2T PDUs for one command, 0's
    /// based; in ICResp MAXH2CDATA, the most data bytes in one H2CData PDU.
    pub limit: U32,
    /// Bytes 127:16.
    pub reserved: [u8; 112],
}

const _: () = assert!(size_of::<Initialize>() == 128);

impl Initialize {
    /// Byte offset of PFV.
    pub const PFV: u32 = 8;
    /// Byte offset of HPDA or CPDA.
    pub const PDA: u32 = 10;
    /// Byte offset of DGST.
    pub const DGST: u32 = 11;
    /// Byte offset of MAXR2T or MAXH2CDATA.
    pub const LIMIT: u32 = 12;

    /// Makes an ICReq or ICResp.
    #[must_use]
    pub fn new(kind: PduType, pda: u8, dgst: Digests, limit: u32) -> Self {
        Self {
            header: Header::new(kind, Flags::empty(), 0, 128),
            pfv: U16::ZERO,
            pda,
            dgst: dgst.bits(),
            limit: U32::new(limit),
            reserved: [0; 112],
        }
    }
}

/// H2CTermReq and C2HTermReq, 24 bytes; up to 128 bytes of the offending PDU header follow.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TermReq {
    /// Bytes 7:0.
    pub header: Header,
    /// Bytes 9:8: FES, see [`super::Fes`].
    pub fes: U16,
    /// Bytes 13:10: FEI.
    pub fei: U32,
    /// Bytes 23:14.
    pub reserved: [u8; 10],
}

const _: () = assert!(size_of::<TermReq>() == 24);

impl TermReq {
    /// The most bytes of the offending PDU that may follow.
    pub const MAX_DATA: usize = 128;
    /// The longest termination request, bytes.
    pub const MAX_LENGTH: u32 = 152;
}

/// CapsuleCmd, 72 bytes, in-capsule data follows at PDO.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CapsuleCmd {
    /// Bytes 7:0.
    pub header: Header,
    /// Bytes 71:8: the command.
    pub sqe: Sqe,
}

const _: () = assert!(size_of::<CapsuleCmd>() == 72);

/// CapsuleResp, 24 bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CapsuleResp {
    /// Bytes 7:0.
    pub header: Header,
    /// Bytes 23:8: the completion.
    pub cqe: Cqe,
}

const _: () = assert!(size_of::<CapsuleResp>() == 24);

impl CapsuleResp {
    /// Byte offset of the completion's command identifier.
    pub const CID: u32 = 20;
}

/// H2CData and C2HData, 24 bytes, data follows at PDO.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DataPdu {
    /// Bytes 7:0.
    pub header: Header,
    /// Bytes 9:8: CCCID, identifier of the command that the data belongs to.
    pub cccid: U16,
    /// Bytes 11:10: TTAG of the R2T that this answers (H2CData); reserved (C2HData).
    pub ttag: U16,
    /// Bytes 15:12: DATAO, offset of the data within the command's data, bytes.
    pub datao: U32,
    /// Bytes 19:16: DATAL, length of the data, bytes.
    pub datal: U32,
    /// Bytes 23:20.
    pub reserved: [u8; 4],
}

const _: () = assert!(size_of::<DataPdu>() == 24);

impl DataPdu {
    /// Byte offset of CCCID.
    pub const CCCID: u32 = 8;
    /// Byte offset of DATAL.
    pub const DATAL: u32 = 16;
}

/// R2T, 24 bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct R2t {
    /// Bytes 7:0.
    pub header: Header,
    /// Bytes 9:8: CCCID, identifier of the command whose data is asked for.
    pub cccid: U16,
    /// Bytes 11:10: TTAG, which the H2CData PDUs repeat.
    pub ttag: U16,
    /// Bytes 15:12: R2TO, offset within the command's data, bytes.
    pub r2to: U32,
    /// Bytes 19:16: R2TL, number of bytes asked for.
    pub r2tl: U32,
    /// Bytes 23:20.
    pub reserved: [u8; 4],
}

const _: () = assert!(size_of::<R2t>() == 24);

impl R2t {
    /// Byte offset of CCCID.
    pub const CCCID: u32 = 8;
    /// Byte offset of R2TL.
    pub const R2TL: u32 = 16;
}
