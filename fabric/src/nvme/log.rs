//! Log pages (NVMe base 2.0, section 5.16).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Sqe;

/// Log page identifiers, CDW10 7:0 of Get Log Page.
pub mod lid {
    /// Supported Log Pages, 1024 bytes.
    pub const SUPPORTED: u8 = 0x00;
    /// Error Information.
    pub const ERROR: u8 = 0x01;
    /// SMART / Health Information, 512 bytes.
    pub const SMART: u8 = 0x02;
    /// Firmware Slot Information, 512 bytes.
    pub const FIRMWARE: u8 = 0x03;
    /// Changed Namespace List, 4096 bytes.
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    /// Commands Supported and Effects, 4096 bytes.
    pub const EFFECTS: u8 = 0x05;
    /// Asymmetric Namespace Access.
    pub const ANA: u8 = 0x0c;
    /// Feature Identifiers Supported and Effects, 1024 bytes.
    pub const FEATURES: u8 = 0x12;
    /// NVMe-MI Commands Supported and Effects, 1024 bytes.
    pub const MANAGEMENT_COMMANDS: u8 = 0x13;
    /// Discovery.
    pub const DISCOVERY: u8 = 0x70;
    /// Node Credits, vendor specific (see [`node`](crate::nvme::node)).
    pub const NODE_CREDITS: u8 = 0xc0;
}

/// The fields of a Get Log Page command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetLogPage {
    /// CDW10 7:0: see [`lid`].
    pub lid: u8,
    /// CDW10 14:8: meaning depends on the page.
    pub lsp: u8,
    /// CDW10 15: the event that pointed at this page stays masked.
    pub retain_event: bool,
    /// NUMDL (CDW10 31:16) and NUMDU (CDW11 15:0): bytes wanted, 4 to 2^34.
    pub length: u64,
    /// LPOL, LPOU (CDW12, CDW13): byte where to begin.
    pub offset: u64,
    /// CDW14 23: the offset is an index, not bytes.
    pub index_offset: bool,
    /// CDW1.
    pub nsid: u32,
}

impl GetLogPage {
    /// Reads the fields of a Get Log Page command.
    #[must_use]
    pub fn parse(sqe: &Sqe) -> Self {
        let cdw10 = sqe.cdw10.get();
        let [lid, lsp, ..] = sqe.cdw10.to_bytes();
        let dwords = u64::from(cdw10 >> 16) | u64::from(sqe.cdw11.get() & 0xffff) << 16;
        Self {
            lid,
            lsp: lsp & 0x7f,
            retain_event: lsp & 0x80 != 0,
            length: (dwords + 1) * 4,
            offset: u64::from(sqe.cdw12.get()) | u64::from(sqe.cdw13.get()) << 32,
            index_offset: sqe.cdw14.get() & 1 << 23 != 0,
            nsid: sqe.nsid.get(),
        }
    }
}

/// An entry of the Error Information log page, 64 bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ErrorEntry {
    /// Bytes 7:0: number of this error since the controller began; 0 marks an unused entry.
    pub count: U64,
    /// Bytes 9:8: queue of the command.
    pub sqid: U16,
    /// Bytes 11:10: the command.
    pub cid: U16,
    /// Bytes 13:12: status 15:1, phase tag bit 0.
    pub status: U16,
    /// Bytes 15:14: where in the command the error is: byte 7:0, bit 10:8; FFFFh not told.
    pub location: U16,
    /// Bytes 23:16: first block concerned.
    pub lba: U64,
    /// Bytes 27:24: namespace.
    pub nsid: U32,
    /// Byte 28: vendor specific information.
    pub vendor: u8,
    /// Byte 29: transport type.
    pub trtype: u8,
    /// Byte 30: command set.
    pub csi: u8,
    /// Byte 31: opcode.
    pub opcode: u8,
    /// Bytes 39:32: command specific information.
    pub command_specific: U64,
    /// Bytes 41:40: transport specific information.
    pub transport_specific: U16,
    /// Bytes 62:42.
    pub reserved42: [u8; 21],
    /// Byte 63: log page version: 1, bytes 31:30 are defined.
    pub version: u8,
}

const _: () = assert!(size_of::<ErrorEntry>() == 64);

/// The SMART / Health Information log page, 512 bytes. Counters of 16 bytes are given as their
/// low half; the high half is 0.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SmartLog {
    /// Byte 0: critical warnings.
    pub critical_warning: u8,
    /// Bytes 2:1: composite temperature in kelvin.
    pub temperature: U16,
    /// Byte 3: spare capacity left, percent.
    pub spare: u8,
    /// Byte 4: the warning level of `spare`, percent.
    pub spare_threshold: u8,
    /// Byte 5: percentage of life used.
    pub used: u8,
    /// Byte 6.
    pub endurance_warning: u8,
    /// Bytes 31:7.
    pub reserved7: [u8; 25],
    /// Bytes 47:32: read, in thousands of 512-byte units, rounded up.
    pub units_read: [U64; 2],
    /// Bytes 63:48: written, in thousands of 512-byte units, rounded up.
    pub units_written: [U64; 2],
    /// Bytes 79:64: read commands.
    pub reads: [U64; 2],
    /// Bytes 95:80: write commands.
    pub writes: [U64; 2],
    /// Bytes 111:96: minutes with a command outstanding.
    pub busy_minutes: [U64; 2],
    /// Bytes 127:112.
    pub power_cycles: [U64; 2],
    /// Bytes 143:128.
    pub power_on_hours: [U64; 2],
    /// Bytes 159:144.
    pub unsafe_shutdowns: [U64; 2],
    /// Bytes 175:160.
    pub media_errors: [U64; 2],
    /// Bytes 191:176: errors over the life of the controller.
    pub error_entries: [U64; 2],
    /// Bytes 511:192: temperature history and sensors, not reported.
    pub reserved192: [u8; 320],
}

const _: () = assert!(size_of::<SmartLog>() == 512);

/// The Firmware Slot Information log page, 512 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FirmwareLog {
    /// Byte 0: AFI: active slot 2:0, slot of the next reset 6:4.
    pub active: u8,
    /// Bytes 7:1.
    pub reserved1: [u8; 7],
    /// Bytes 15:8: revision in slot 1.
    pub slot1: [u8; 8],
    /// Bytes 511:16: slots 2..7, reserved.
    pub reserved16: [u8; 496],
}

const _: () = assert!(size_of::<FirmwareLog>() == 512);

/// Commands Supported and Effects, bits of one command's 32-bit entry.
pub mod effects {
    /// CSUPP, bit 0: supported.
    pub const SUPPORTED: u32 = 1 << 0;
    /// LBCC, bit 1: may change the content of blocks.
    pub const CHANGES_BLOCKS: u32 = 1 << 1;
    /// CSP and FSP, bits 31:20: bit 20, the scope is one namespace.
    pub const NAMESPACE_SCOPE: u32 = 1 << 20;
    /// CSP and FSP, bit 21: the scope is the controller.
    pub const CONTROLLER_SCOPE: u32 = 1 << 21;
}

/// The Commands Supported and Effects log page, 4096 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct EffectsLog {
    /// Bytes 1023:0: admin commands, by opcode.
    pub admin: [U32; 256],
    /// Bytes 2047:1024: I/O commands, by opcode.
    pub io: [U32; 256],
    /// Bytes 4095:2048.
    pub reserved2048: [u8; 2048],
}

const _: () = assert!(size_of::<EffectsLog>() == 4096);

/// Header of the Asymmetric Namespace Access log page, 16 bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AnaHeader {
    /// Bytes 7:0: change count.
    pub changes: U64,
    /// Bytes 9:8: descriptors that follow.
    pub groups: U16,
    /// Bytes 15:10.
    pub reserved10: [u8; 6],
}

const _: () = assert!(size_of::<AnaHeader>() == 16);

/// Descriptor of an ANA group, 32 bytes, followed by its NSIDs of 4 bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AnaGroup {
    /// Bytes 3:0: group identifier.
    pub group: U32,
    /// Bytes 7:4: NSIDs that follow.
    pub namespaces: U32,
    /// Bytes 15:8: change count.
    pub changes: U64,
    /// Byte 16, bits 3:0: see [`ana_state`].
    pub state: u8,
    /// Bytes 31:17.
    pub reserved17: [u8; 15],
}

const _: () = assert!(size_of::<AnaGroup>() == 32);

/// ANA states.
pub mod ana_state {
    /// Optimized.
    pub const OPTIMIZED: u8 = 0x01;
    /// Inaccessible.
    pub const INACCESSIBLE: u8 = 0x03;
}

/// LSP bit 0 of the ANA log page: groups only, without NSIDs.
pub const ANA_GROUPS_ONLY: u8 = 1;
/// LSP bit 1 of the Discovery log page: only entries of the port that is asked.
pub const DISCOVERY_PORT_LOCAL: u8 = 1 << 1;
