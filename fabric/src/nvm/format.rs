//! The format of a logical block: its data, its metadata, its protection information (NVM command
//! set 1.0, sections 2.1.2, 4.1.5.1 and 5.2).

use crate::nvme::identify::{IdentifyNamespace, LbaFormat};

/// The format of a namespace's logical blocks.
///
/// A block moves over a fabric as its data followed by its metadata (an extended logical block:
/// there is no separate metadata pointer), so that bytes on the wire are blocks times the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockFormat {
    /// LBADS: log2 of the data bytes, 9..=31.
    shift: u8,
    /// MS: metadata bytes.
    metadata: u16,
    protection: Protection,
}

/// End-to-end protection information in a block's metadata, DPS 2:0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protection {
    /// 000b: none.
    #[default]
    None,
    /// 001b: guard, application tag, reference tag that is the low part of the LBA.
    Type1,
    /// 010b: as type 1, with a reference tag that starts where the command says.
    Type2,
    /// 011b: without a defined reference tag.
    Type3,
}

/// The reason for which a block format is not one of the NVM command set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockFormatError {
    /// The data size is no power of two, or out of range.
    #[error(
        "logical blocks of {0} bytes: the size must be a power of two from 512 to 2147483648 bytes"
    )]
    DataSize(u64),
    /// LBADS is out of range; 0 marks a format that is not available.
    #[error("logical blocks of 2^{0} bytes: the exponent must be 9 to 31")]
    Shift(u8),
    /// Protection information does not fit the metadata.
    #[error(
        "protection information in {0} bytes of metadata: it takes 8 bytes, so give the blocks 8 \
         bytes of metadata or more"
    )]
    NoRoomForProtection(u16),
    /// DPS names no type of protection information.
    #[error("protection information of type {0}: there are types 1 to 3, and 0 for none")]
    UnknownProtection(u8),
    /// FLBAS names a format that the device does not have.
    #[error("LBA format {0} is in use: there are formats 0 to 63")]
    Index(u8),
}

impl Protection {
    /// The bytes of protection information with a 16-bit guard.
    pub const BYTES: u16 = 8;

    /// Returns the type that DPS 2:0 names.
    ///
    /// # Errors
    /// The type is reserved.
    pub fn from_dps(dps: u8) -> Result<Self, BlockFormatError> {
        match dps & 0b111 {
            0 => Ok(Self::None),
            1 => Ok(Self::Type1),
            2 => Ok(Self::Type2),
            3 => Ok(Self::Type3),
            other => Err(BlockFormatError::UnknownProtection(other)),
        }
    }

    /// Returns DPS 2:0.
    #[must_use]
    pub fn dps(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Type1 => 1,
            Self::Type2 => 2,
            Self::Type3 => 3,
        }
    }
}

impl Default for BlockFormat {
    /// Returns blocks of 512 bytes without metadata.
    fn default() -> Self {
        Self::BYTES_512
    }
}

impl BlockFormat {
    /// Blocks of 512 bytes without metadata.
    pub const BYTES_512: Self = Self { shift: 9, metadata: 0, protection: Protection::None };
    /// Blocks of 4096 bytes without metadata.
    pub const BYTES_4096: Self = Self { shift: 12, metadata: 0, protection: Protection::None };

    /// Makes a format of `data` bytes (a power of two), `metadata` bytes and protection
    /// information.
    ///
    /// # Errors
    /// The NVM command set has no such format: the data is no power of two of at least 512 bytes,
    /// or the metadata has no room for the protection information. Blocks of 4 GiB and more are
    /// refused as well, since no command could move one: an SGL's length has 32 bits.
    pub fn new(data: u64, metadata: u16, protection: Protection) -> Result<Self, BlockFormatError> {
        if !data.is_power_of_two() || !(1 << 9..=1 << 31).contains(&data) {
            return Err(BlockFormatError::DataSize(data));
        }
        let shift = u8::try_from(data.trailing_zeros()).unwrap_or(u8::MAX);
        Self::from_fields(shift, metadata, protection)
    }

    /// Makes a format without metadata, from its data bytes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn plain(data: u64) -> Result<Self, BlockFormatError> {
        Self::new(data, 0, Protection::None)
    }

    /// Returns the format in use of a device: FLBAS chooses the LBA format, DPS the protection
    /// information.
    ///
    /// # Errors
    /// The device tells something that the NVM command set does not allow.
    pub fn in_use(device: &IdentifyNamespace) -> Result<Self, BlockFormatError> {
        let index = Self::index_in_use(device);
        let format = device.lbaf.get(usize::from(index)).ok_or(BlockFormatError::Index(index))?;
        Self::from_fields(format.shift, format.metadata.get(), Protection::from_dps(device.dps)?)
    }

    /// Returns the index of the LBA format in use: FLBAS 6:5 above FLBAS 3:0.
    #[must_use]
    pub fn index_in_use(device: &IdentifyNamespace) -> u8 {
        device.flbas & 0xf | (device.flbas >> 5 & 0b11) << 4
    }

    fn from_fields(
        shift: u8,
        metadata: u16,
        protection: Protection,
    ) -> Result<Self, BlockFormatError> {
        if !(9..=31).contains(&shift) {
            return Err(BlockFormatError::Shift(shift));
        }
        if protection != Protection::None && metadata < Protection::BYTES {
            return Err(BlockFormatError::NoRoomForProtection(metadata));
        }
        Ok(Self { shift, metadata, protection })
    }

    /// Returns log2 of the data bytes of a block (LBADS).
    #[must_use]
    #[inline]
    pub fn shift(self) -> u8 {
        self.shift
    }

    /// Returns the data bytes of a block.
    #[must_use]
    #[inline]
    pub fn data_bytes(self) -> u32 {
        1 << self.shift
    }

    /// Returns the metadata bytes of a block (MS).
    #[must_use]
    #[inline]
    pub fn metadata_bytes(self) -> u16 {
        self.metadata
    }

    /// Returns the type of protection information in the metadata.
    #[must_use]
    pub fn protection(self) -> Protection {
        self.protection
    }

    /// Returns the data bytes of a number of blocks, `u64::MAX` at the most: a size, or a block's
    /// offset.
    #[must_use]
    #[inline]
    pub fn bytes(self, blocks: u64) -> u64 {
        blocks.saturating_mul(1 << self.shift)
    }

    /// Returns the number of whole blocks in a number of data bytes.
    #[must_use]
    #[inline]
    pub fn blocks(self, bytes: u64) -> u64 {
        bytes >> self.shift
    }

    /// Returns whether a number of data bytes is whole blocks.
    #[must_use]
    pub fn divides(self, bytes: u64) -> bool {
        bytes.trailing_zeros() >= u32::from(self.shift)
    }

    /// Returns the bytes of a number of blocks on the wire, data and metadata; `u32::MAX` at the
    /// most, which no transfer has.
    #[must_use]
    #[inline]
    pub fn transfer_bytes(self, blocks: u32) -> u32 {
        let block = (1 << self.shift) + u64::from(self.metadata);
        u32::try_from(u64::from(blocks) * block).unwrap_or(u32::MAX)
    }

    /// Writes this format as the namespace's only one: NLBAF, FLBAS, MC, DPC, DPS and LBAF0. The
    /// relative performance stays.
    pub fn describe(self, id: &mut IdentifyNamespace) {
        let performance = id.lbaf.first().map_or(0, |format| format.performance);
        id.lbaf = [LbaFormat::default(); 64];
        if let Some(first) = id.lbaf.first_mut() {
            *first = LbaFormat { metadata: self.metadata.into(), shift: self.shift, performance };
        }
        id.nlbaf = 0;
        // Bit 4 of FLBAS and bit 0 of MC: metadata follows each block's data.
        let extended = u8::from(self.metadata != 0);
        (id.flbas, id.mc) = (extended << 4, extended);
        let kind = self.protection.dps();
        id.dps = kind;
        // Bits 2:0 of DPC are the types; bit 4: the information is the metadata's last bytes.
        id.dpc = if kind == 0 { 0 } else { 1 << (kind - 1) | 1 << 4 };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::nvme::identify::zeroed;

    const PROTECTIONS: [Protection; 4] =
        [Protection::None, Protection::Type1, Protection::Type2, Protection::Type3];

    #[test]
    fn formats_that_the_command_set_has_not_are_refused() {
        use BlockFormatError as E;
        let new = BlockFormat::new;
        for size in [0, 1, 256, 513, 1000, 4097, 1 << 32, u64::MAX] {
            assert_eq!(new(size, 0, Protection::None), Err(E::DataSize(size)));
        }
        assert_eq!(new(512, 7, Protection::Type1), Err(E::NoRoomForProtection(7)));
        assert_eq!(new(512, 0, Protection::Type3), Err(E::NoRoomForProtection(0)));
        assert!(new(512, 7, Protection::None).is_ok(), "metadata without protection");
        assert!(new(512, 8, Protection::Type2).is_ok());
        assert_eq!(BlockFormat::plain(512), Ok(BlockFormat::BYTES_512));
        assert_eq!(BlockFormat::plain(4096), Ok(BlockFormat::BYTES_4096));
        assert_eq!(BlockFormat::plain(1 << 31).map(BlockFormat::data_bytes), Ok(1 << 31));
        for dps in 4..8 {
            assert_eq!(Protection::from_dps(dps), Err(E::UnknownProtection(dps)));
        }
    }

    #[test]
    fn device_with_invalid_format_is_refused() {
        let mut id = zeroed::<IdentifyNamespace>();
        assert_eq!(BlockFormat::in_use(&id), Err(BlockFormatError::Shift(0)), "not available");
        // Format 17 = 1 << 4 | 1: FLBAS 6:5 is the high part.
        id.flbas = 0b010_0001;
        id.lbaf[17] = LbaFormat { metadata: 8.into(), shift: 12, performance: 2 };
        id.dps = 0b1010;
        let format = BlockFormat::in_use(&id).unwrap();
        assert_eq!(Ok(format), BlockFormat::new(4096, 8, Protection::Type2));
        id.lbaf[17].shift = 32;
        assert_eq!(BlockFormat::in_use(&id), Err(BlockFormatError::Shift(32)));
    }

    proptest! {
        #[test]
        fn format_is_reported_to_hosts(
            shift in 9u32..32, metadata: u16, protection in prop::sample::select(&PROTECTIONS[..]),
            performance in 0u8..4,
        ) {
            let Ok(format) = BlockFormat::new(1 << shift, metadata, protection) else {
                prop_assert!(protection != Protection::None && metadata < 8);
                return Ok(());
            };
            let mut id = zeroed::<IdentifyNamespace>();
            id.lbaf[0].performance = performance;
            id.lbaf[9].shift = 9;
            id.flbas = 9;
            format.describe(&mut id);
            prop_assert_eq!(BlockFormat::in_use(&id), Ok(format));
            prop_assert_eq!((id.nlbaf, id.lbaf[9].shift), (0, 0), "one format");
            prop_assert_eq!(id.lbaf[0].performance, performance);
            prop_assert_eq!(id.flbas >> 4 & 1 == 1, metadata != 0, "extended logical blocks");
            prop_assert_eq!(id.mc, id.flbas >> 4 & 1);
            let types = id.dpc & 0b111;
            prop_assert_eq!(types, if protection.dps() == 0 { 0 } else { 1 << (protection.dps() - 1) });
        }

        #[test]
        fn conversions_agree_with_arithmetic_that_cannot_overflow(
            shift in 9u32..32, metadata: u16, blocks: u64, rest in 0u64..512,
        ) {
            let format = BlockFormat::new(1 << shift, metadata, Protection::None).unwrap();
            let exact = u128::from(blocks) << shift;
            prop_assert_eq!(u128::from(format.bytes(blocks)), exact.min(u128::from(u64::MAX)));
            // Metadata has no part in sizes.
            let whole = blocks >> (shift + 1);
            prop_assert_eq!(format.blocks(format.bytes(whole) + rest), whole);
            prop_assert_eq!(format.divides(format.bytes(whole) + rest), rest == 0);
            let few = u32::try_from(blocks & 0xffff).unwrap() + 1;
            let wire = u64::from(few) * ((1 << shift) + u64::from(metadata));
            prop_assert_eq!(u64::from(format.transfer_bytes(few)), wire.min(u64::from(u32::MAX)));
        }
    }
}
