//! Grants: the data of a command that the host may send, and has not sent yet. On TCP these are
//! open R2Ts.

/// The most grants open for one command, however many the host allows.
pub(crate) const MAX_GRANTS: u8 = 4;

/// One open grant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grant {
    /// Tag by which the transport knows the grant.
    tag: u16,
    /// Offset of the next byte that has to come, within the command's data.
    pub(crate) next: u32,
    /// Offset of the grant's end, within the command's data.
    pub(crate) end: u32,
}

impl Grant {
    /// Returns the number of bytes that have not arrived.
    pub(crate) fn left(&self) -> u32 {
        self.end - self.next
    }
}

/// The fetch of one command's data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants {
    /// Grants of the command; one with `next == end` is not open.
    open: [Grant; MAX_GRANTS as usize],
    /// Granted bytes of the command's data, and wanted bytes.
    asked: u32,
    wanted: u32,
    /// Whether each grant is opened when the shell says so.
    metered: bool,
}

impl Grants {
    /// Starts a transfer of `wanted` bytes.
    pub(crate) fn start(&mut self, wanted: u32, metered: bool) {
        *self = Self { wanted, metered, ..Self::default() };
    }

    /// Returns whether each grant is opened when the shell says so.
    pub(crate) fn metered(&self) -> bool {
        self.metered
    }

    /// Returns the number of bytes that were not asked for yet.
    pub(crate) fn unasked(&self) -> u32 {
        self.wanted - self.asked
    }

    /// Opens the next grant of at most `most` bytes, unless everything was asked for or `limit`
    /// grants are open. Returns the grant's tag, offset and length. `tag` makes a tag from the
    /// grant's index.
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
        let tag = tag(index);
        *grant = Grant { tag, next: offset, end: offset + length };
        self.asked += length;
        Some((tag, offset, length))
    }

    /// Asks for no more than was asked for already.
    pub(crate) fn stop(&mut self) {
        self.wanted = self.asked;
    }

    /// Returns the open grant at `index`, if its tag is that one.
    pub(crate) fn find(&mut self, index: u8, tag: u16) -> Option<&mut Grant> {
        let grant = self.open.get_mut(usize::from(index))?;
        (grant.left() > 0 && grant.tag == tag).then_some(grant)
    }

    /// Returns whether the host owes nothing.
    pub(crate) fn idle(&self) -> bool {
        self.open.iter().all(|grant| grant.left() == 0)
    }

    /// Returns whether all wanted data has arrived.
    pub(crate) fn done(&self) -> bool {
        self.asked == self.wanted && self.idle()
    }
}
