//! R2T PDUs that the target has sent and the host has not yet answered in full.

/// The most R2T PDUs outstanding for one command, however many the host allows.
pub(crate) const MAX_GRANTS: u8 = 4;

/// One outstanding R2T.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grant {
    ttag: u16,
    /// Offset of the next byte that has to come, and of the end, within the command's data.
    pub(crate) next: u32,
    pub(crate) end: u32,
}

impl Grant {
    /// Bytes that have not arrived.
    pub(crate) fn left(&self) -> u32 {
        self.end - self.next
    }
}

/// The transfer of one command's data by R2T.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants {
    /// Unused where `next == end`.
    open: [Grant; MAX_GRANTS as usize],
    /// Bytes of the command's data that were asked for, of all that are wanted.
    asked: u32,
    wanted: u32,
    /// Each R2T is sent when the shell says so.
    metered: bool,
}

impl Grants {
    /// Starts a transfer of `wanted` bytes.
    pub(crate) fn start(&mut self, wanted: u32, metered: bool) {
        *self = Self { wanted, metered, ..Self::default() };
    }

    /// Whether each R2T is sent when the shell says so.
    pub(crate) fn metered(&self) -> bool {
        self.metered
    }

    /// Bytes that were not asked for yet.
    pub(crate) fn unasked(&self) -> u32 {
        self.wanted - self.asked
    }

    /// Opens the next grant of at most `most` bytes, unless everything was asked for or `limit`
    /// grants are open: its tag, offset and length. `tag` makes a tag from the grant's index.
    pub(crate) fn open(
        &mut self,
        limit: u8,
        most: u32,
        tag: impl FnOnce(u8) -> u16,
    ) -> Option<(u16, u32, u32)> {
        let offset = self.asked;
        let length = most.min(self.wanted - offset);
        if length == 0 {
            return None;
        }
        let slots = (0..limit.min(MAX_GRANTS)).zip(&mut self.open);
        let (index, grant) = slots.into_iter().find(|(_, grant)| grant.left() == 0)?;
        let ttag = tag(index);
        *grant = Grant { ttag, next: offset, end: offset + length };
        self.asked += length;
        Some((ttag, offset, length))
    }

    /// Asks for no more than was asked for already.
    pub(crate) fn stop(&mut self) {
        self.wanted = self.asked;
    }

    /// The open grant at `index`, if its tag is that one.
    pub(crate) fn find(&mut self, index: u8, ttag: u16) -> Option<&mut Grant> {
        let grant = self.open.get_mut(usize::from(index))?;
        (grant.left() > 0 && grant.ttag == ttag).then_some(grant)
    }

    /// Whether the host owes nothing.
    pub(crate) fn idle(&self) -> bool {
        self.open.iter().all(|grant| grant.left() == 0)
    }

    /// Whether all that is wanted has arrived.
    pub(crate) fn done(&self) -> bool {
        self.asked == self.wanted && self.idle()
    }
}

/// How a transfer tag names its grant: slot in the low bits, the grant's index above it, and a
/// sequence number in what bits are left, which tells a stale tag from a current one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tags {
    slot_bits: u32,
    grant_bits: u32,
    sequence: u16,
}

impl Tags {
    /// For slot numbers below `entries`.
    pub(crate) fn new(entries: u32) -> Self {
        let slot_bits = entries.clamp(2, 1 << 16).next_power_of_two().trailing_zeros();
        Self { slot_bits, grant_bits: (16 - slot_bits).min(2), sequence: 0 }
    }

    /// Grants per command that the tags can tell apart.
    pub(crate) fn grants(&self) -> u8 {
        1 << self.grant_bits
    }

    /// A tag for grant `index` of `slot`, unlike the last one.
    pub(crate) fn make(&mut self, slot: u16, index: u8) -> u16 {
        self.sequence = self.sequence.wrapping_add(1);
        let shift = self.slot_bits + self.grant_bits;
        let sequence = self.sequence.checked_shl(shift).unwrap_or(0);
        slot | u16::from(index).checked_shl(self.slot_bits).unwrap_or(0) | sequence
    }

    /// Slot and grant index of a tag.
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
