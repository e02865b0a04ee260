//! The fields of the command.

use thiserror::Error;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::name::{BadRegionName, RegionName};
use crate::nvme::{Sqe, opcode};

/// The operations on a region's data that a host asks for, or has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegionRights {
    /// 01b: reads.
    Read,
    /// 11b: reads and writes.
    ReadWrite,
}

impl RegionRights {
    /// Returns the bits: 0 reads, 1 writes.
    #[must_use]
    pub const fn bits(self) -> u16 {
        match self {
            Self::Read => 0b01,
            Self::ReadWrite => 0b11,
        }
    }

    /// Reads the bits; `None` for any that are not defined: nobody may write alone.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Option<Self> {
        match bits {
            0b01 => Some(Self::Read),
            0b11 => Some(Self::ReadWrite),
            _ => None,
        }
    }

    /// Returns whether the rights are to write.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::ReadWrite)
    }
}

/// A Get Region command, opcode C2h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetRegion {
    /// CDW10..CDW13: the region.
    pub name: RegionName,
    /// CDW15 1:0: the rights that are asked for.
    pub rights: RegionRights,
    /// CDW14: the reservation that is asked for, I/Os per second; 0: none.
    pub reservation: u32,
}

/// The fault of a Get Region command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadGetRegion {
    /// CDW10..CDW13 name no region.
    #[error("CDW10 to CDW13: {0}, padded with zeroes")]
    Name(#[from] BadRegionName),
    /// CDW15 1:0 is 00b or 10b.
    #[error("CDW15 1:0 is 01b to read, 11b to read and write")]
    Rights,
    /// CDW1 (namespace), CDW2, CDW3, or CDW15 31:2 is not 0.
    #[error("CDW1 to CDW3 and CDW15 31:2 are reserved, and must be 0")]
    Reserved,
}

impl GetRegion {
    /// Reads the fields of a Get Region command. The opcode and the data pointer are not looked at.
    ///
    /// # Errors
    /// A field has a value that it cannot have, or a reserved bit is set.
    pub fn parse(sqe: &Sqe) -> Result<Self, BadGetRegion> {
        let low = [sqe.nsid, sqe.cdw2, sqe.cdw3];
        let [rights, rest @ ..] = sqe.cdw15.to_bytes();
        if low.iter().any(|dword| dword.get() != 0) || rest != [0; 3] || rights & !0b11 != 0 {
            return Err(BadGetRegion::Reserved);
        }
        let rights = RegionRights::from_bits(rights.into()).ok_or(BadGetRegion::Rights)?;
        let mut name = [0; 16];
        let dwords = [sqe.cdw10, sqe.cdw11, sqe.cdw12, sqe.cdw13];
        name.copy_from_slice(dwords.as_bytes());
        let name = RegionName::from_bytes(name)?;
        Ok(Self { name, rights, reservation: sqe.cdw14.get() })
    }

    /// Makes the command, without a data pointer: its data is
    /// [`REGION_GRANT_SIZE`](super::REGION_GRANT_SIZE) bytes from the controller.
    #[must_use]
    pub fn sqe(&self) -> Sqe {
        let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = self.name.bytes();
        Sqe {
            opcode: opcode::admin::GET_REGION,
            cdw10: U32::from_bytes([a0, a1, a2, a3]),
            cdw11: U32::from_bytes([b0, b1, b2, b3]),
            cdw12: U32::from_bytes([c0, c1, c2, c3]),
            cdw13: U32::from_bytes([d0, d1, d2, d3]),
            cdw14: U32::new(self.reservation),
            cdw15: U32::new(self.rights.bits().into()),
            ..Sqe::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::FromBytes;

    use super::*;

    fn command() -> impl Strategy<Value = GetRegion> {
        let rights = prop_oneof![Just(RegionRights::Read), Just(RegionRights::ReadWrite)];
        ("[-_.a-zA-Z0-9]{1,16}", rights, any::<u32>()).prop_map(|(name, rights, reservation)| {
            GetRegion { name: RegionName::from_text(&name).unwrap(), rights, reservation }
        })
    }

    #[test]
    fn fields_are_where_the_documentation_says() {
        let name = RegionName::from_text("0123456789abcdef").unwrap();
        let sqe =
            GetRegion { name, rights: RegionRights::ReadWrite, reservation: 0x0403_0201 }.sqe();
        let bytes = sqe.as_bytes();
        assert_eq!(bytes[0], 0xc2);
        assert_eq!(bytes[1..40], [0; 39]);
        assert_eq!(bytes[40..56], *b"0123456789abcdef");
        assert_eq!(bytes[56..60], [1, 2, 3, 4]);
        assert_eq!(bytes[60..64], [3, 0, 0, 0]);
    }

    #[test]
    fn a_fault_names_its_field() {
        let name = RegionName::from_text("log").unwrap();
        let good = GetRegion { name, rights: RegionRights::Read, reservation: 0 }.sqe();
        for rights in [0b00, 0b10] {
            let bad = Sqe { cdw15: U32::new(rights), ..good };
            assert_eq!(GetRegion::parse(&bad), Err(BadGetRegion::Rights));
        }
        let bad = Sqe { cdw10: U32::ZERO, ..good };
        assert_eq!(GetRegion::parse(&bad), Err(BadGetRegion::Name(BadRegionName)));
        let one = U32::new(1);
        let reserved = [
            Sqe { nsid: one, ..good },
            Sqe { cdw2: one, ..good },
            Sqe { cdw3: one, ..good },
            Sqe { cdw15: U32::new(0b101), ..good },
            Sqe { cdw15: U32::new(1 << 31 | 1), ..good },
        ];
        for bad in reserved {
            assert_eq!(GetRegion::parse(&bad), Err(BadGetRegion::Reserved));
        }
    }

    proptest! {
        #[test]
        fn encoded_value_round_trips(command in command()) {
            prop_assert_eq!(GetRegion::parse(&command.sqe()), Ok(command));
        }

        /// A command that is read has no field that is not: made again, it is the same.
        #[test]
        fn nothing_is_overlooked(command in command(), at in 4..64_usize, byte in any::<u8>()) {
            let mut bytes: [u8; 64] = command.sqe().as_bytes().try_into().unwrap();
            bytes[at] = byte;
            let sqe = Sqe::read_from_bytes(&bytes).unwrap();
            if let Ok(read) = GetRegion::parse(&sqe) {
                let again = Sqe { mptr: sqe.mptr, sgl: sqe.sgl, ..read.sqe() };
                prop_assert_eq!(again.as_bytes(), &bytes);
            }
        }
    }
}
