//! Controller properties: CAP, VS, CC, CSTS, CRTO (NVMe base 2.0, section 3.1.3).

use bitflags::bitflags;

/// Offsets of the properties that a controller over fabrics has.
pub mod offset {
    /// Controller Capabilities, 8 bytes.
    pub const CAP: u32 = 0x00;
    /// Version, 4 bytes.
    pub const VS: u32 = 0x08;
    /// Controller Configuration, 4 bytes.
    pub const CC: u32 = 0x14;
    /// Controller Status, 4 bytes.
    pub const CSTS: u32 = 0x1c;
    /// Controller Ready Timeouts, 4 bytes.
    pub const CRTO: u32 = 0x68;
}

/// VS of NVMe 2.0: MJR 31:16, MNR 15:8, TER 7:0.
pub const VERSION_2_0: u32 = 0x0002_0000;

/// CAP, 64 bits, as far as fabrics controllers have a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// MQES 15:0: entries of the largest I/O queue, 0's based.
    pub max_queue_entries: u16,
    /// AMS bit 17: weighted round robin with urgent priority class.
    pub weighted_round_robin: bool,
    /// TO 31:24: the longest wait for CSTS.RDY to follow CC.EN, in units of 500 ms.
    pub timeout: u8,
}

impl Capabilities {
    /// CQR, bit 16: queues are contiguous.
    const CQR: u64 = 1 << 16;
    /// AMS, bits 18:17.
    const AMS_WRR: u64 = 1 << 17;
    /// CSS, bits 44:37: bit 37 the NVM command set.
    const CSS_NVM: u64 = 1 << 37;
    /// CSS bit 43: Identify reports the command sets (CC.CSS 110b).
    const CSS_IOCSS: u64 = 1 << 43;
    /// CRMS, bits 60:59: bit 59, ready with media; bit 60, ready independent of media. Linux
    /// hosts of old versions ask whether a namespace is ready only where bit 60 is set.
    const CRMS: u64 = 0b11 << 59;

    /// Returns the property's value. MPSMIN and MPSMAX (51:48, 55:52) are 0: pages of 4 KiB; NSSRS
    /// (bit 36) is 0: no subsystem reset.
    #[must_use]
    pub fn bits(self) -> u64 {
        let wrr = if self.weighted_round_robin { Self::AMS_WRR } else { 0 };
        u64::from(self.max_queue_entries)
            | Self::CQR
            | wrr
            | u64::from(self.timeout) << 24
            | Self::CSS_NVM
            | Self::CSS_IOCSS
            | Self::CRMS
    }
}

/// CC, 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configuration(pub u32);

/// CC.SHN, bits 15:14.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownNotification {
    /// 00b.
    None,
    /// 01b.
    Normal,
    /// 10b.
    Abrupt,
    /// 11b.
    Reserved,
}

impl Configuration {
    /// The bits that a host can set: EN 0, CSS 6:4, MPS 10:7, AMS 13:11, SHN 15:14,
    /// IOSQES 19:16, IOCQES 23:20, CRIME 24.
    const DEFINED: u32 = 0x01ff_fff1;
    /// CSS, MPS, AMS, CRIME: may change only while EN is 0.
    const FIXED_WHILE_ENABLED: u32 = 0x0100_3ff0;

    /// Reads EN, bit 0.
    #[must_use]
    pub fn enabled(self) -> bool {
        self.0 & 1 != 0
    }

    /// Reads CSS, bits 6:4: 000b NVM command set, 110b all supported command sets, 111b admin only.
    #[must_use]
    pub fn command_set(self) -> u8 {
        field(self.0, 4, 0x7)
    }

    /// Reads MPS, bits 10:7: memory page size, 2^(12+n) bytes.
    #[must_use]
    pub fn page_size(self) -> u8 {
        field(self.0, 7, 0xf)
    }

    /// Reads AMS, bits 13:11: 000b round robin, 001b weighted round robin with urgent.
    #[must_use]
    pub fn arbitration(self) -> u8 {
        field(self.0, 11, 0x7)
    }

    /// Reads SHN, bits 15:14.
    #[must_use]
    pub fn shutdown(self) -> ShutdownNotification {
        match field(self.0, 14, 0x3) {
            0 => ShutdownNotification::None,
            1 => ShutdownNotification::Normal,
            2 => ShutdownNotification::Abrupt,
            _ => ShutdownNotification::Reserved,
        }
    }

    /// Reads IOSQES, bits 19:16: submission queue entry size, 2^n bytes.
    #[must_use]
    pub fn sq_entry_size(self) -> u8 {
        field(self.0, 16, 0xf)
    }

    /// Reads IOCQES, bits 23:20: completion queue entry size, 2^n bytes.
    #[must_use]
    pub fn cq_entry_size(self) -> u8 {
        field(self.0, 20, 0xf)
    }

    /// Returns whether a reserved bit is set.
    #[must_use]
    pub fn has_reserved_bits(self) -> bool {
        self.0 & !Self::DEFINED != 0
    }

    /// Returns whether `next` changes bits that may change only while EN is 0.
    #[must_use]
    pub fn conflicts_with(self, next: Self) -> bool {
        (self.0 ^ next.0) & Self::FIXED_WHILE_ENABLED != 0
    }
}

fn field(value: u32, shift: u32, mask: u8) -> u8 {
    u8::try_from(value >> shift & u32::from(mask)).unwrap_or(0)
}

bitflags! {
    /// CSTS, 32 bits.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ControllerStatus: u32 {
        /// RDY, bit 0.
        const READY = 1 << 0;
        /// CFS, bit 1: fatal.
        const FATAL = 1 << 1;
        /// SHST 3:2 = 01b: shutdown under way.
        const SHUTDOWN_OCCURRING = 1 << 2;
        /// SHST 3:2 = 10b: shutdown complete.
        const SHUTDOWN_COMPLETE = 1 << 3;
    }
}
