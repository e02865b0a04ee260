//! The send queue: PDU headers in one growing run of bytes, payloads by reference.
//!
//! The queue is double buffered: while one batch is in flight (its addresses are the kernel's), new
//! PDUs gather in the other.

use crate::queue::{Payload, length_of};

/// A stretch of the batch: header bytes, then a piece of a payload.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Start of the segment's header bytes in [`Batch::head`].
    head_start: usize,
    /// End of these bytes.
    head_end: usize,
    /// Index of the payload.
    payload: usize,
    /// Start of the part of the payload to send.
    start: usize,
    /// End of that part.
    end: usize,
}

/// Bytes that are on their way: PDU headers, and the payloads by reference. The bytes stay where
/// they are when the batch moves.
#[derive(Debug)]
pub struct Batch<P> {
    head: Vec<u8>,
    segments: Vec<Segment>,
    payloads: Vec<P>,
    payload_bytes: usize,
    /// The first segment that is not wholly sent.
    segment: usize,
    /// Number of bytes of that segment that are sent.
    sent: usize,
}

impl<P> Default for Batch<P> {
    fn default() -> Self {
        Self {
            head: Vec::new(),
            segments: Vec::new(),
            payloads: Vec::new(),
            payload_bytes: 0,
            segment: 0,
            sent: 0,
        }
    }
}

impl<P: Payload> Batch<P> {
    /// Returns header bytes and payload bytes of segment `index`; the one after the last segment is
    /// the header bytes that follow it.
    fn runs(&self, index: usize) -> (&[u8], &[u8]) {
        let Some(segment) = self.segments.get(index) else {
            let start = self.segments.last().map_or(0, |last| last.head_end);
            return (self.head.get(start..).unwrap_or_default(), &[]);
        };
        let payload = self.payloads.get(segment.payload).map_or(&[][..], Payload::bytes);
        (
            self.head.get(segment.head_start..segment.head_end).unwrap_or_default(),
            payload.get(segment.start..segment.end).unwrap_or_default(),
        )
    }

    fn clear(&mut self) {
        self.head.clear();
        self.segments.clear();
        self.payloads.clear();
        self.payload_bytes = 0;
        (self.segment, self.sent) = (0, 0);
    }

    fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// Iterates over the runs of bytes that are not yet sent, in order; adjacent headers are one
    /// run. The addresses are stable until [`Self::advance`] finishes the batch.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut skip = self.sent;
        (self.segment..=self.segments.len())
            .flat_map(move |index| {
                let (head, payload) = self.runs(index);
                let from_head = std::mem::take(&mut skip);
                let from_payload = from_head.saturating_sub(head.len());
                [
                    head.get(from_head..).unwrap_or_default(),
                    payload.get(from_payload..).unwrap_or_default(),
                ]
            })
            .filter(|run| !run.is_empty())
    }

    /// Notes that `n` more bytes were sent. Returns true when all were; the payloads are dropped
    /// then.
    pub fn advance(&mut self, n: usize) -> bool {
        self.sent = self.sent.saturating_add(n);
        while self.segment <= self.segments.len() {
            let (head, payload) = self.runs(self.segment);
            let length = head.len() + payload.len();
            if self.sent < length {
                return false;
            }
            self.sent -= length;
            self.segment += 1;
        }
        self.clear();
        true
    }
}

/// The output of one connection, in order.
#[derive(Debug)]
pub struct Tx<P> {
    filling: Batch<P>,
    flying: Batch<P>,
    /// Whether the batch in flight is with the caller of [`Self::take`].
    taken: bool,
}

impl<P> Default for Tx<P> {
    fn default() -> Self {
        Self { filling: Batch::default(), flying: Batch::default(), taken: false }
    }
}

impl<P: Payload> Tx<P> {
    /// Returns the number of bytes that are queued and not yet in flight.
    #[must_use]
    #[inline]
    pub fn pending_bytes(&self) -> usize {
        self.filling.head.len() + self.filling.payload_bytes
    }

    /// Returns whether a batch is in flight.
    #[must_use]
    #[inline]
    pub fn in_flight(&self) -> bool {
        self.taken || !self.flying.is_empty()
    }

    /// Makes the queued output the batch in flight, unless one is in flight already. Returns
    /// whether a new batch is in flight.
    pub fn begin(&mut self) -> bool {
        if self.in_flight() || self.filling.is_empty() {
            return false;
        }
        std::mem::swap(&mut self.filling, &mut self.flying);
        true
    }

    /// Hands out the batch in flight, after making one of the queued output. `None` where there is
    /// nothing to send, or the batch is handed out already.
    pub fn take(&mut self) -> Option<Batch<P>> {
        if self.taken || (self.flying.is_empty() && !self.begin()) {
            return None;
        }
        self.taken = true;
        Some(std::mem::take(&mut self.flying))
    }

    /// Returns the batch of [`Self::take`]: sent, or as far as it was.
    pub fn give_back(&mut self, batch: Batch<P>) {
        self.flying = batch;
        self.taken = false;
    }

    /// Returns [`Batch::slices`] of the batch in flight.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.flying.slices()
    }

    /// Does [`Batch::advance`] to the batch in flight.
    pub fn advance(&mut self, n: usize) -> bool {
        self.flying.advance(n)
    }

    /// Appends header bytes.
    #[inline(always)]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.filling.head.extend_from_slice(bytes);
    }

    /// Returns the last `count` header bytes.
    pub(crate) fn last(&self, count: usize) -> &[u8] {
        let head = &self.filling.head;
        head.get(head.len().saturating_sub(count)..).unwrap_or_default()
    }

    /// Appends `count` zero bytes of padding.
    #[inline]
    pub(crate) fn pad(&mut self, count: usize) {
        self.filling.head.resize(self.filling.head.len() + count, 0);
    }

    /// Keeps a payload for the pieces that [`Self::put_piece`] sends of it.
    #[inline(always)]
    pub(crate) fn keep(&mut self, payload: P) -> Kept {
        let (index, length) = (self.filling.payloads.len(), length_of(&payload));
        self.filling.payloads.push(payload);
        Kept { index, length }
    }

    /// Returns the bytes `start..start + length` of a payload that was kept since the last
    /// [`Self::begin`].
    pub(crate) fn bytes(&self, kept: Kept, start: u32, length: u32) -> &[u8] {
        let payload = self.filling.payloads.get(kept.index).map_or(&[][..], Payload::bytes);
        let start = start as usize;
        payload.get(start..start + length as usize).unwrap_or_default()
    }

    /// Appends the bytes `start..start + length` of a kept payload.
    #[inline]
    pub(crate) fn put_piece(&mut self, kept: Kept, start: u32, length: u32) {
        let batch = &mut self.filling;
        let head_start = batch.segments.last().map_or(0, |last| last.head_end);
        let (start, length) = (start as usize, length as usize);
        batch.segments.push(Segment {
            head_start,
            head_end: batch.head.len(),
            payload: kept.index,
            start,
            end: start + length,
        });
        batch.payload_bytes += length;
    }
}

/// A payload in the batch that is being filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    index: usize,
    pub(crate) length: u32,
}
