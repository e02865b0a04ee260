//! The stream of a flow, as far as a sender counts it: bytes that were written, sent, acknowledged.

/// The places of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stream {
    /// Up to where everything is acknowledged.
    pub(super) acknowledged: u64,
    /// Up to where everything was sent at least once.
    pub(super) sent: u64,
    /// The end.
    pub(super) written: u64,
}

impl Stream {
    /// Returns the bytes that were written and not sent.
    #[inline]
    pub(super) const fn unsent(&self) -> u64 {
        self.written - self.sent
    }

    /// Returns the bytes that are kept until they are acknowledged.
    #[inline]
    pub(super) const fn kept(&self) -> u64 {
        self.written - self.acknowledged
    }

    /// Returns the bytes of the next packet, which has so many at most.
    #[inline]
    pub(super) fn next(&self, most: u32) -> u32 {
        u32::try_from(self.unsent()).unwrap_or(u32::MAX).min(most)
    }
}

/// When a sender has a packet for the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    /// Not before something else happens.
    No,
    /// At a time that is still to come.
    At(super::time::Picos),
    /// Now.
    Now,
}

/// The content of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    /// The place of its first byte in the stream.
    pub(super) number: u64,
    /// Its bytes.
    pub(super) payload: u32,
    /// See [`super::packet::Packet::asks`].
    pub(super) asks: bool,
}
