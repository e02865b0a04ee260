//! Identify Controller (NVMe base 2.0, section 5.17.2.1; NVM command set 1.0, section 4.1.5.2).

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::size::IDENTIFY_SIZE;

bitflags! {
    /// CMIC, byte 76 of Identify Controller.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MultiPath: u8 {
        /// Bit 0: the subsystem may have more than one port.
        const PORTS = 1 << 0;
        /// Bit 1: the subsystem may have more than one controller.
        const CONTROLLERS = 1 << 1;
        /// Bit 3: asymmetric namespace access reporting.
        const ANA = 1 << 3;
    }

    /// OAES, bytes 95:92 of Identify Controller, and the same bits in the Asynchronous Event
    /// Configuration feature.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OptionalEvents: u32 {
        /// Bit 8: namespace attribute changed.
        const NAMESPACE_ATTRIBUTE = 1 << 8;
        /// Bit 11: asymmetric namespace access change.
        const ANA_CHANGE = 1 << 11;
        /// Bit 31: discovery log page change.
        const DISCOVERY_CHANGE = 1 << 31;
    }

    /// CTRATT, bytes 99:96 of Identify Controller.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Attributes: u32 {
        /// Bit 0: host identifiers of 128 bits.
        const HOST_ID_128 = 1 << 0;
        /// Bit 6: traffic based keep alive.
        const TRAFFIC_KEEP_ALIVE = 1 << 6;
    }

    /// ONCS, bytes 521:520 of Identify Controller: optional I/O commands and admin abilities.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OptionalCommands: u16 {
        /// Bit 0: Compare.
        const COMPARE = 1 << 0;
        /// Bit 1: Write Uncorrectable.
        const WRITE_UNCORRECTABLE = 1 << 1;
        /// Bit 2: Dataset Management.
        const DATASET_MANAGEMENT = 1 << 2;
        /// Bit 3: Write Zeroes.
        const WRITE_ZEROES = 1 << 3;
        /// Bit 4: the Select field of Get Features and the Save field of Set Features.
        const SAVE_SELECT = 1 << 4;
        /// Bit 7: Verify.
        const VERIFY = 1 << 7;
    }

    /// SGLS, bytes 539:536 of Identify Controller.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SglSupport: u32 {
        /// Bits 1:0 = 01b: SGLs without alignment or granularity requirement.
        const SUPPORTED = 1 << 0;
        /// Bit 2: keyed data block descriptor.
        const KEYED = 1 << 2;
        /// Bit 20: the address of a data block may be an offset (in-capsule data).
        const OFFSET = 1 << 20;
        /// Bit 21: transport SGL data block descriptor.
        const TRANSPORT = 1 << 21;
    }

    /// LPA, byte 261 of Identify Controller.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LogAttributes: u8 {
        /// Bit 1: Commands Supported and Effects log page.
        const COMMAND_EFFECTS = 1 << 1;
        /// Bit 2: extended data: 32-bit NUMD and log page offset.
        const EXTENDED_DATA = 1 << 2;
        /// Bit 5: the log pages Supported Log Pages, Feature Identifiers Supported and Effects,
        /// NVMe-MI Commands Supported and Effects, and scopes in Commands Supported and Effects.
        const SUPPORTED_AND_SCOPES = 1 << 5;
    }
}

/// CNTRLTYPE of an I/O controller.
pub const CNTRLTYPE_IO: u8 = 1;
/// CNTRLTYPE of a discovery controller.
pub const CNTRLTYPE_DISCOVERY: u8 = 2;
/// DCTYPE of a direct discovery controller: it tells of the target that it is part of.
pub const DCTYPE_DIRECT: u8 = 1;

/// A power state descriptor, 32 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PowerState {
    /// MP, bytes 1:0: maximum power in units of 10 mW.
    pub max_power: U16,
    /// Bytes 3:2: reserved, MXPS bit 24, NOPS bit 25.
    pub flags: U16,
    /// ENLAT, bytes 7:4: entry latency in microseconds.
    pub entry_latency: U32,
    /// EXLAT, bytes 11:8: exit latency in microseconds.
    pub exit_latency: U32,
    /// Bytes 31:12: relative performance, idle and active power: not reported.
    pub rest: [u8; 20],
}

const _: () = assert!(size_of::<PowerState>() == 32);

/// Identify Controller (CNS 01h), 4096 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IdentifyController {
    /// Bytes 1:0: PCI vendor.
    pub vid: U16,
    /// Bytes 3:2: PCI subsystem vendor.
    pub ssvid: U16,
    /// Bytes 23:4: serial number, ASCII, padded with spaces.
    pub sn: [u8; 20],
    /// Bytes 63:24: model number, ASCII, padded with spaces.
    pub mn: [u8; 40],
    /// Bytes 71:64: firmware revision, ASCII, padded with spaces.
    pub fr: [u8; 8],
    /// Byte 72: recommended arbitration burst, 2^n commands.
    pub rab: u8,
    /// Bytes 75:73: IEEE OUI.
    pub ieee: [u8; 3],
    /// Byte 76: [`MultiPath`].
    pub cmic: u8,
    /// Byte 77: largest transfer, 2^n pages of CAP.MPSMIN; 0 no limit.
    pub mdts: u8,
    /// Bytes 79:78: controller identifier.
    pub cntlid: U16,
    /// Bytes 83:80: version.
    pub ver: U32,
    /// Bytes 87:84: RTD3 resume latency in microseconds.
    pub rtd3r: U32,
    /// Bytes 91:88: RTD3 entry latency in microseconds.
    pub rtd3e: U32,
    /// Bytes 95:92: [`OptionalEvents`].
    pub oaes: U32,
    /// Bytes 99:96: [`Attributes`].
    pub ctratt: U32,
    /// Bytes 101:100: read recovery levels.
    pub rrls: U16,
    /// Bytes 110:102.
    pub reserved102: [u8; 9],
    /// Byte 111: controller type: 1 I/O, 2 discovery, 3 administrative.
    pub cntrltype: u8,
    /// Bytes 127:112: FRU GUID.
    pub fguid: [u8; 16],
    /// Bytes 133:128: CRDT1..CRDT3, units of 100 ms.
    pub crdt: [U16; 3],
    /// Bytes 255:134.
    pub reserved134: [u8; 122],
    /// Bytes 257:256: optional admin commands.
    pub oacs: U16,
    /// Byte 258: abort command limit, 0's based.
    pub acl: u8,
    /// Byte 259: asynchronous event request limit, 0's based.
    pub aerl: u8,
    /// Byte 260: firmware updates: bit 0 slot 1 read only, 3:1 number of slots.
    pub frmw: u8,
    /// Byte 261: [`LogAttributes`].
    pub lpa: u8,
    /// Byte 262: error log page entries, 0's based.
    pub elpe: u8,
    /// Byte 263: power states, 0's based.
    pub npss: u8,
    /// Byte 264.
    pub avscc: u8,
    /// Byte 265.
    pub apsta: u8,
    /// Bytes 267:266: warning composite temperature, kelvin.
    pub wctemp: U16,
    /// Bytes 269:268: critical composite temperature, kelvin.
    pub cctemp: U16,
    /// Bytes 319:270: firmware activation, host memory buffer, capacity, RPMB, self-test.
    pub reserved270: [u8; 50],
    /// Bytes 321:320: keep alive granularity, units of 100 ms.
    pub kas: U16,
    /// Bytes 327:322: thermal management.
    pub reserved322: [u8; 6],
    /// Bytes 331:328: sanitize capabilities.
    pub sanicap: U32,
    /// Bytes 341:332: host memory buffer limits, NVM sets, endurance groups.
    pub reserved332: [u8; 10],
    /// Byte 342: ANA transition time in seconds.
    pub anatt: u8,
    /// Byte 343: ANA capabilities: bits 4:0 the states reported, bit 6 ANAGRPID never changes.
    pub anacap: u8,
    /// Bytes 347:344: largest ANA group identifier.
    pub anagrpmax: U32,
    /// Bytes 351:348: number of ANA groups.
    pub nanagrpid: U32,
    /// Bytes 511:352.
    pub reserved352: [u8; 160],
    /// Byte 512: submission queue entry size: maximum 7:4, required 3:0, 2^n bytes.
    pub sqes: u8,
    /// Byte 513: completion queue entry size: maximum 7:4, required 3:0, 2^n bytes.
    pub cqes: u8,
    /// Bytes 515:514: outstanding commands of a queue.
    pub maxcmd: U16,
    /// Bytes 519:516: largest NSID.
    pub nn: U32,
    /// Bytes 521:520: [`OptionalCommands`].
    pub oncs: U16,
    /// Bytes 523:522: fused operations.
    pub fuses: U16,
    /// Byte 524: format attributes.
    pub fna: u8,
    /// Byte 525: bit 0 volatile write cache, 2:1 Flush of all namespaces (10b not supported).
    pub vwc: u8,
    /// Bytes 527:526: atomic write unit, normal, 0's based.
    pub awun: U16,
    /// Bytes 529:528: atomic write unit, power fail, 0's based.
    pub awupf: U16,
    /// Byte 530.
    pub icsvscc: u8,
    /// Byte 531: namespace write protection.
    pub nwpc: u8,
    /// Bytes 533:532: atomic compare and write unit.
    pub acwu: U16,
    /// Bytes 535:534: copy descriptor formats.
    pub cdfs: U16,
    /// Bytes 539:536: [`SglSupport`].
    pub sgls: U32,
    /// Bytes 543:540: largest number of namespaces.
    pub mnan: U32,
    /// Bytes 767:544.
    pub reserved544: [u8; 224],
    /// Bytes 1023:768: subsystem NQN, ended by NUL.
    pub subnqn: [u8; 256],
    /// Bytes 1791:1024.
    pub reserved1024: [u8; 768],
    /// Bytes 1795:1792: I/O command capsule size in units of 16 bytes.
    pub ioccsz: U32,
    /// Bytes 1799:1796: I/O response capsule size in units of 16 bytes.
    pub iorcsz: U32,
    /// Bytes 1801:1800: in-capsule data offset in units of 16 bytes.
    pub icdoff: U16,
    /// Byte 1802: bit 0 static controller model.
    pub fcatt: u8,
    /// Byte 1803: SGL data block descriptors of a capsule; 0 no limit.
    pub msdbd: u8,
    /// Bytes 1805:1804: bit 0 Disconnect.
    pub ofcs: U16,
    /// Byte 1806: discovery controller type.
    pub dctype: u8,
    /// Bytes 2047:1807.
    pub reserved1807: [u8; 241],
    /// Bytes 2079:2048: power state 0.
    pub psd0: PowerState,
    /// Bytes 4095:2080: further power states, vendor specific.
    pub reserved2080: [u8; 2016],
}

const _: () = assert!(size_of::<IdentifyController>() == IDENTIFY_SIZE);

/// Identify Controller of the NVM command set (CNS 06h, CSI 0), the fields in use.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IdentifyControllerNvm {
    /// VSL, byte 0: Verify size limit, 2^n pages; 0 no limit. A recommendation while ONCS has
    /// [`OptionalCommands::VERIFY`].
    pub vsl: u8,
    /// WZSL, byte 1: Write Zeroes size limit, 2^n pages; 0 no limit. A recommendation while ONCS has
    /// [`OptionalCommands::WRITE_ZEROES`].
    pub wzsl: u8,
    /// WUSL, byte 2: Write Uncorrectable size limit.
    pub wusl: u8,
    /// DMRL, byte 3: ranges of a Dataset Management command; 0 no limit.
    pub dmrl: u8,
    /// DMRSL, bytes 7:4: blocks of one range; 0 no limit.
    pub dmrsl: U32,
    /// DMSL, bytes 15:8: blocks of all ranges; 0 no limit.
    pub dmsl: U64,
}

const _: () = assert!(size_of::<IdentifyControllerNvm>() == 16);

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn identify_controller_fields_lie_where_the_specification_puts_them() {
        type I = IdentifyController;
        let pins = [
            (offset_of!(I, rab), 72),
            (offset_of!(I, cmic), 76),
            (offset_of!(I, mdts), 77),
            (offset_of!(I, cntlid), 78),
            (offset_of!(I, ver), 80),
            (offset_of!(I, oaes), 92),
            (offset_of!(I, ctratt), 96),
            (offset_of!(I, cntrltype), 111),
            (offset_of!(I, crdt), 128),
            (offset_of!(I, oacs), 256),
            (offset_of!(I, acl), 258),
            (offset_of!(I, aerl), 259),
            (offset_of!(I, frmw), 260),
            (offset_of!(I, lpa), 261),
            (offset_of!(I, elpe), 262),
            (offset_of!(I, wctemp), 266),
            (offset_of!(I, kas), 320),
            (offset_of!(I, sanicap), 328),
            (offset_of!(I, anatt), 342),
            (offset_of!(I, anagrpmax), 344),
            (offset_of!(I, nanagrpid), 348),
            (offset_of!(I, sqes), 512),
            (offset_of!(I, cqes), 513),
            (offset_of!(I, maxcmd), 514),
            (offset_of!(I, nn), 516),
            (offset_of!(I, oncs), 520),
            (offset_of!(I, fuses), 522),
            (offset_of!(I, vwc), 525),
            (offset_of!(I, sgls), 536),
            (offset_of!(I, mnan), 540),
            (offset_of!(I, subnqn), 768),
            (offset_of!(I, ioccsz), 1792),
            (offset_of!(I, iorcsz), 1796),
            (offset_of!(I, icdoff), 1800),
            (offset_of!(I, fcatt), 1802),
            (offset_of!(I, msdbd), 1803),
            (offset_of!(I, ofcs), 1804),
            (offset_of!(I, dctype), 1806),
            (offset_of!(I, psd0), 2048),
        ];
        for (is, wanted) in pins {
            assert_eq!(is, wanted);
        }
    }
}
