//! Transfer tags, by which an H2CData PDU names the R2T that it answers.

/// The layout of transfer tags: the slot in the low bits, the grant's index above it, and in the
/// remaining bits a sequence number, which tells a stale tag from a current one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tags {
    slot_bits: u32,
    grant_bits: u32,
    sequence: u16,
}

impl Tags {
    /// Makes tags for slot numbers below `entries`.
    pub(crate) fn new(entries: u32) -> Self {
        let slot_bits = entries.clamp(2, 1 << 16).next_power_of_two().trailing_zeros();
        Self { slot_bits, grant_bits: (16 - slot_bits).min(2), sequence: 0 }
    }

    /// Returns the number of grants per command that the tags can tell apart.
    pub(crate) fn grants(&self) -> u8 {
        1 << self.grant_bits
    }

    /// Makes a tag for grant `index` of `slot`, unlike the last one.
    pub(crate) fn make(&mut self, slot: u16, index: u8) -> u16 {
        self.sequence = self.sequence.wrapping_add(1);
        let shift = self.slot_bits + self.grant_bits;
        let sequence = self.sequence.checked_shl(shift).unwrap_or(0);
        slot | u16::from(index).checked_shl(self.slot_bits).unwrap_or(0) | sequence
    }

    /// Splits a tag into slot and grant index.
    pub(crate) fn split(&self, tag: u16) -> (u16, u8) {
        let mask = |bits: u32| 1u16.checked_shl(bits).map_or(u16::MAX, |bit| bit - 1);
        let index = tag.checked_shr(self.slot_bits).unwrap_or(0) & mask(self.grant_bits);
        (tag & mask(self.slot_bits), u8::try_from(index).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tags_name_their_slot_and_grant(entries in 1u32..=65536, slot: u16, index in 0u8..4) {
            let mut tags = Tags::new(entries);
            let slot = u16::try_from(u32::from(slot) % entries).unwrap();
            let index = index % tags.grants();
            let tag = tags.make(slot, index);
            prop_assert_eq!(tags.split(tag), (slot, index));
        }
    }
}
