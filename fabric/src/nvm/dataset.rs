//! Dataset Management's data: range definitions (NVM command set 1.0, section 3.2.3).

use super::{IoLimits, LbaRange};
use crate::nvme::Status;

/// The size of one range definition in bytes.
pub const DSM_RANGE_BYTES: u32 = 16;

impl LbaRange {
    /// Writes the range definition of the range, without attributes.
    #[must_use]
    pub fn definition(&self) -> [u8; DSM_RANGE_BYTES as usize] {
        let [b0, b1, b2, b3] = self.blocks.to_le_bytes();
        let [l0, l1, l2, l3, l4, l5, l6, l7] = self.lba.to_le_bytes();
        [0, 0, 0, 0, b0, b1, b2, b3, l0, l1, l2, l3, l4, l5, l6, l7]
    }
}

impl IoLimits {
    /// Reads the range definitions of a Dataset Management command's data: bytes 15:8 the first
    /// block, bytes 7:4 the number of blocks, bytes 3:0 attributes. Empty ranges are left out.
    pub fn dsm_ranges<'a>(
        &'a self,
        data: &'a [u8],
    ) -> impl Iterator<Item = Result<LbaRange, Status>> + 'a {
        data.chunks_exact(DSM_RANGE_BYTES as usize).filter_map(|definition| {
            let blocks = u32::from_le_bytes(*definition.get(4..)?.first_chunk()?);
            let lba = u64::from_le_bytes(*definition.get(8..)?.first_chunk()?);
            (blocks != 0).then(|| self.check(lba, blocks))
        })
    }

    /// Reads them as [`Self::dsm_ranges`] does, for callers that carry out all of them or none.
    ///
    /// # Errors
    /// The status of the first range that is not valid.
    pub fn valid_dsm_ranges<'a>(
        &'a self,
        data: &'a [u8],
    ) -> Result<impl Iterator<Item = LbaRange> + 'a, Status> {
        match self.dsm_ranges(data).find_map(Result::err) {
            Some(status) => Err(status),
            None => Ok(self.dsm_ranges(data).flatten()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::nvm::command::tests::LIMITS;

    fn definition(lba: u64, blocks: u32) -> [u8; 16] {
        let mut bytes = [0xaa; 16];
        bytes[4..8].copy_from_slice(&blocks.to_le_bytes());
        bytes[8..].copy_from_slice(&lba.to_le_bytes());
        bytes
    }

    #[test]
    fn ranges_are_read_in_order_without_empty_ones() {
        let data = [definition(990, 10), definition(5000, 0), definition(991, 10)].concat();
        let ranges: Vec<_> = LIMITS.dsm_ranges(&data).collect();
        let outside = Err(Status::LBA_OUT_OF_RANGE.dnr());
        assert_eq!(ranges, [Ok(LbaRange { lba: 990, blocks: 10 }), outside]);
    }

    proptest! {
        #[test]
        fn a_range_is_read_as_it_was_written(lba in 0u64..999, blocks in 1u32..1000) {
            let range = LbaRange { lba, blocks };
            let read: Vec<_> = LIMITS.dsm_ranges(&range.definition()).flatten().collect();
            let inside = lba + u64::from(blocks) <= LIMITS.blocks;
            prop_assert_eq!(read, if inside { vec![range] } else { vec![] });
        }

        #[test]
        fn dsm_ranges_lie_inside_the_namespace(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            for range in LIMITS.dsm_ranges(&data).flatten() {
                prop_assert!(range.lba + u64::from(range.blocks) <= LIMITS.blocks);
            }
        }
    }
}
