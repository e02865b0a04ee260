//! I/O commands (NVM command set 1.0, section 3).

use super::{BlockFormat, DSM_RANGE_BYTES, IoLimits, LbaRange};
use crate::nvme::{Sqe, Status, opcode};

/// An I/O command whose fields have been checked against its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoCommand {
    /// Read; `fua` forces media access (CDW12 bit 30).
    Read {
        /// The blocks.
        range: LbaRange,
        /// Force Unit Access.
        fua: bool,
    },
    /// Write.
    Write {
        /// The blocks.
        range: LbaRange,
        /// Force Unit Access.
        fua: bool,
    },
    /// Flush: everything completed before is on media afterwards.
    Flush,
    /// Write Zeroes; `deallocate` is DEAC (CDW12 bit 25).
    WriteZeroes {
        /// The blocks.
        range: LbaRange,
        /// Whether the blocks may be deallocated, if they read as zeroes afterwards.
        deallocate: bool,
        /// Force Unit Access.
        fua: bool,
    },
    /// Compare the blocks with the host's data.
    Compare {
        /// The blocks.
        range: LbaRange,
    },
    /// Verify: read without a transfer.
    Verify {
        /// The blocks.
        range: LbaRange,
    },
    /// Dataset Management; the ranges are the command's data.
    DatasetManagement {
        /// Number of ranges, 1..=256.
        ranges: u16,
        /// AD (CDW11 bit 2): deallocate the ranges.
        deallocate: bool,
    },
    /// Part of a Dataset Management command that deallocates. No host sends it: a target makes it
    /// where it carries such a command out part by part.
    Deallocate {
        /// The blocks.
        range: LbaRange,
    },
}

/// The direction in which a command's data moves, with its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// No data.
    None,
    /// Bytes from the host to the controller.
    ToController(u32),
    /// Bytes from the controller to the host.
    ToHost(u32),
}

impl Transfer {
    /// Returns the number of bytes in either direction.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::None => 0,
            Self::ToController(bytes) | Self::ToHost(bytes) => bytes,
        }
    }
}

impl IoCommand {
    /// Parses an I/O command of the NVM command set.
    ///
    /// # Errors
    /// The status of the command's completion: Invalid Opcode, Invalid Field (a fused command, PRP
    /// instead of SGL, more than the maximum transfer, a bad range count), LBA Out of Range, Data SGL
    /// Length Invalid, Namespace Is Write Protected. All with Do Not Retry: the same command would
    /// fail again.
    #[inline]
    pub fn parse(sqe: &Sqe, limits: &IoLimits) -> Result<Self, Status> {
        if sqe.fuse() != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let command = match sqe.opcode {
            opcode::io::READ => Self::Read { range: limits.range(sqe)?, fua: fua(sqe) },
            opcode::io::WRITE => Self::Write { range: limits.range(sqe)?, fua: fua(sqe) },
            opcode::io::FLUSH => return Ok(Self::Flush),
            opcode::io::COMPARE => Self::Compare { range: limits.range(sqe)? },
            opcode::io::WRITE_ZEROES => Self::WriteZeroes {
                range: limits.range(sqe)?,
                deallocate: sqe.cdw12.get() >> 25 & 1 == 1,
                fua: fua(sqe),
            },
            opcode::io::VERIFY => Self::Verify { range: limits.range(sqe)? },
            opcode::io::DATASET_MANAGEMENT => Self::DatasetManagement {
                ranges: u16::from(sqe.cdw10.get().to_le_bytes()[0]) + 1,
                deallocate: sqe.cdw11.get() >> 2 & 1 == 1,
            },
            _ => return Err(Status::INVALID_OPCODE.dnr()),
        };
        if limits.read_only && command.changes_blocks() {
            return Err(Status::WRITE_PROTECTED.dnr());
        }
        command.check_transfer(sqe, limits)?;
        Ok(command)
    }

    /// Returns the direction and length of the command's data.
    #[must_use]
    #[inline]
    pub fn transfer(&self, format: BlockFormat) -> Transfer {
        match self {
            Self::Read { range, .. } => Transfer::ToHost(range.transfer_bytes(format)),
            Self::Write { range, .. } | Self::Compare { range } => {
                Transfer::ToController(range.transfer_bytes(format))
            }
            Self::DatasetManagement { ranges, .. } => {
                Transfer::ToController(u32::from(*ranges) * DSM_RANGE_BYTES)
            }
            Self::Flush
            | Self::WriteZeroes { .. }
            | Self::Verify { .. }
            | Self::Deallocate { .. } => Transfer::None,
        }
    }

    /// Returns whether the command may change what blocks hold.
    #[must_use]
    pub fn changes_blocks(&self) -> bool {
        matches!(
            self,
            Self::Write { .. }
                | Self::WriteZeroes { .. }
                | Self::DatasetManagement { .. }
                | Self::Deallocate { .. }
        )
    }

    /// Checks that the descriptor holds exactly the data; a Dataset Management command may bring
    /// more than its ranges need (hosts send a whole page).
    #[inline]
    fn check_transfer(&self, sqe: &Sqe, limits: &IoLimits) -> Result<(), Status> {
        let (bytes, exact) = match self.transfer(limits.format) {
            Transfer::None => return Ok(()),
            Transfer::ToHost(bytes) => (bytes, true),
            Transfer::ToController(bytes) => {
                (bytes, !matches!(self, Self::DatasetManagement { .. }))
            }
        };
        if sqe.psdt() != Sqe::SGL || bytes > limits.max_transfer {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let given = sqe.sgl.data_length();
        if given < bytes || (exact && given != bytes) {
            return Err(Status::DATA_SGL_LENGTH_INVALID.dnr());
        }
        Ok(())
    }
}

/// Reads FUA, CDW12 bit 30.
#[inline]
fn fua(sqe: &Sqe) -> bool {
    sqe.cdw12.get() >> 30 & 1 == 1
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use zerocopy::FromBytes;
    use zerocopy::little_endian::U32;

    use super::*;
    use crate::nvm::Protection;
    use crate::nvme::SglDescriptor;

    pub(in super::super) const LIMITS: IoLimits = IoLimits {
        format: BlockFormat::BYTES_4096,
        blocks: 1000,
        read_only: false,
        max_transfer: 1 << 20,
    };

    fn read(lba: u32, nlb: u32, length: u32) -> Sqe {
        Sqe {
            opcode: opcode::io::READ,
            flags: 0x40,
            cdw10: U32::new(lba),
            cdw12: U32::new(nlb),
            sgl: SglDescriptor::transport(length),
            ..Sqe::default()
        }
    }

    #[test]
    fn only_fitting_reads_are_accepted() {
        let at = |sqe: &Sqe| IoCommand::parse(sqe, &LIMITS);
        let range = LbaRange { lba: 999, blocks: 1 };
        assert_eq!(at(&read(999, 0, 4096)), Ok(IoCommand::Read { range, fua: false }));
        assert_eq!(at(&read(999, 1, 8192)), Err(Status::LBA_OUT_OF_RANGE.dnr()));
        assert_eq!(at(&read(0, 0, 4095)), Err(Status::DATA_SGL_LENGTH_INVALID.dnr()));
        assert_eq!(at(&read(0, 0, 8192)), Err(Status::DATA_SGL_LENGTH_INVALID.dnr()));
        assert!(at(&read(0, 255, 256 << 12)).is_ok(), "as much as MDTS");
        assert_eq!(at(&read(0, 256, 257 << 12)), Err(Status::INVALID_FIELD.dnr()), "MDTS");
        let wrap = Sqe { cdw11: U32::MAX_VALUE, ..read(u32::MAX, 0, 4096) };
        assert_eq!(at(&wrap), Err(Status::LBA_OUT_OF_RANGE.dnr()));
        let protected = IoLimits { read_only: true, ..LIMITS };
        let write = Sqe { opcode: opcode::io::WRITE, ..read(0, 0, 4096) };
        assert_eq!(IoCommand::parse(&write, &protected), Err(Status::WRITE_PROTECTED.dnr()));
        assert!(IoCommand::parse(&read(0, 0, 4096), &protected).is_ok());
        assert_eq!(at(&Sqe { flags: 0x41, ..read(0, 0, 4096) }), Err(Status::INVALID_FIELD.dnr()));
        for psdt in [0b00, 0b10, 0b11] {
            let other = Sqe { flags: psdt << 6, ..read(0, 0, 4096) };
            assert_eq!(at(&other), Err(Status::INVALID_FIELD.dnr()), "PSDT {psdt:#04b}");
        }
    }

    #[test]
    fn write_zeroes_and_verify_may_exceed_mdts() {
        for opcode in [opcode::io::WRITE_ZEROES, opcode::io::VERIFY] {
            let of = |blocks: u32| {
                IoCommand::parse(&Sqe { opcode, ..read(0, blocks - 1, 0) }, &LIMITS).map(|_| ())
            };
            // MDTS is 256 blocks, and limits no command without data.
            assert_eq!(of(1000), Ok(()), "{opcode:#04x}");
            assert_eq!(of(1001), Err(Status::LBA_OUT_OF_RANGE.dnr()));
        }
    }

    #[test]
    fn commands_that_are_not_offered_are_invalid_opcodes() {
        let reservations = [0x0d, 0x0e, 0x11, 0x15];
        let others = [opcode::io::WRITE_UNCORRECTABLE, opcode::io::COPY, 0x99];
        for opcode in reservations.into_iter().chain(others) {
            let command = Sqe { opcode, ..read(0, 0, 0) };
            let refused = Err(Status::INVALID_OPCODE.dnr());
            assert_eq!(IoCommand::parse(&command, &LIMITS), refused, "{opcode:#04x}");
        }
    }

    #[test]
    fn metadata_travels_with_the_blocks() {
        let format = BlockFormat::new(4096, 8, Protection::Type1).unwrap();
        let limits = IoLimits { format, ..LIMITS };
        let parsed = IoCommand::parse(&read(0, 1, 2 * 4104), &limits).unwrap();
        assert_eq!(parsed.transfer(format), Transfer::ToHost(2 * 4104));
        let without = IoCommand::parse(&read(0, 1, 2 * 4096), &limits);
        assert_eq!(without, Err(Status::DATA_SGL_LENGTH_INVALID.dnr()));
    }

    #[test]
    fn a_dataset_management_command_may_bring_a_whole_page() {
        let dsm = |ranges: u32, length| Sqe {
            opcode: opcode::io::DATASET_MANAGEMENT,
            cdw11: U32::new(1 << 2),
            ..read(ranges - 1, 0, length)
        };
        let expected = IoCommand::DatasetManagement { ranges: 2, deallocate: true };
        for length in [32, 4096] {
            assert_eq!(IoCommand::parse(&dsm(2, length), &LIMITS), Ok(expected));
        }
        assert_eq!(expected.transfer(LIMITS.format), Transfer::ToController(32));
        let short = IoCommand::parse(&dsm(2, 31), &LIMITS);
        assert_eq!(short, Err(Status::DATA_SGL_LENGTH_INVALID.dnr()));
    }

    #[test]
    fn command_fields_are_decoded_from_their_bits() {
        use IoCommand::{Compare, Flush, Read, Verify, Write, WriteZeroes};
        let range = LbaRange { lba: 1, blocks: 1 };
        let (fua, deac) = (1 << 30, 1 << 25);
        for (opcode, cdw12, command) in [
            (opcode::io::READ, fua, Read { range, fua: true }),
            (opcode::io::READ, !fua & !0xffff, Read { range, fua: false }),
            (opcode::io::WRITE, fua, Write { range, fua: true }),
            (opcode::io::VERIFY, 0, Verify { range }),
            (opcode::io::COMPARE, 0, Compare { range }),
            (opcode::io::FLUSH, 0, Flush),
            (opcode::io::WRITE_ZEROES, 0, WriteZeroes { range, deallocate: false, fua: false }),
            (opcode::io::WRITE_ZEROES, deac, WriteZeroes { range, deallocate: true, fua: false }),
            (opcode::io::WRITE_ZEROES, fua, WriteZeroes { range, deallocate: false, fua: true }),
        ] {
            let sqe = Sqe { opcode, cdw12: U32::new(cdw12), ..read(1, 0, 4096) };
            assert_eq!(IoCommand::parse(&sqe, &LIMITS), Ok(command), "{opcode:#04x} {cdw12:#x}");
        }
    }

    proptest! {
        #[test]
        fn no_command_changes_read_only_namespace(
            opcode in prop_oneof![0u8..16, any::<u8>()],
            fields: [u8; 64],
            good: bool,
            (lba, nlb) in (0u64..1 << 41, 0u32..64),
            (blocks, read_only) in (0u64..1 << 41, any::<bool>()),
        ) {
            let low = u32::try_from(lba & 0xffff_ffff).unwrap();
            let (high, length) = (u32::try_from(lba >> 32).unwrap(), (nlb + 1) << 12);
            let any = Sqe::read_from_bytes(&fields).unwrap();
            let near = Sqe { cdw11: U32::new(high), ..read(low, nlb, length) };
            let sqe = Sqe { opcode, ..if good { near } else { any } };
            let limits = IoLimits { blocks, read_only, ..LIMITS };
            let Ok(command) = IoCommand::parse(&sqe, &limits) else { return Ok(()) };
            let (range, changes) = match command {
                IoCommand::Flush => return Ok(()),
                IoCommand::Read { range, .. }
                | IoCommand::Compare { range }
                | IoCommand::Verify { range } => (range, false),
                IoCommand::Write { range, .. } | IoCommand::WriteZeroes { range, .. } => (range, true),
                IoCommand::DatasetManagement { .. } | IoCommand::Deallocate { .. } => {
                    prop_assert!(!read_only);
                    return Ok(());
                }
            };
            prop_assert!(range.blocks > 0 && range.lba + u64::from(range.blocks) <= blocks);
            prop_assert!(!(changes && read_only), "{:?}", command);
        }
    }
}
