//! Splits a byte stream, in chunks of any size, into PDU heads and pieces of PDU data.

use super::Violation;
use super::digest::{Running, crc32c};
use super::pdu::{DIGEST, Header, MAX_HEAD, TermReq};
use super::read::read;
use super::rules::{Rules, Shape};
use super::violation::Fes;

/// The position in the stream.
#[derive(Debug)]
enum Phase {
    /// The stream is in a head; the part that was received lies in the buffer.
    Head,
    /// The stream is in the data of a PDU: `left` bytes to go, then the digest where there is one.
    Data { left: u32 },
}

/// A piece of a PDU's data, or its end.
#[derive(Debug)]
pub(crate) enum DataPiece<'a> {
    Bytes(&'a [u8]),
    End { digest_ok: bool },
}

/// The receiving side's position in the stream.
#[derive(Debug)]
pub(crate) struct Framing {
    phase: Phase,
    /// A head, or a data digest, that came in more than one chunk.
    buffer: [u8; MAX_HEAD],
    /// Number of bytes in `buffer`.
    have: usize,
    /// Bytes of the head that was last given out from the buffer; 0 if it lay in a chunk.
    given: usize,
    /// Digest over the data so far, where a data digest follows.
    digest: Option<Running>,
}

impl Framing {
    pub(crate) fn new() -> Self {
        Self { phase: Phase::Head, buffer: [0; MAX_HEAD], have: 0, given: 0, digest: None }
    }

    /// Removes the head of the next PDU, once all of it is there: from the chunk itself if it lies in one, else from
    /// the buffer.
    #[inline]
    pub(crate) fn head<'a: 'b, 'b>(
        &'b mut self,
        input: &mut &'a [u8],
        rules: &Rules,
    ) -> Result<Option<(Shape, &'b [u8])>, Violation> {
        self.given = 0;
        if self.have == 0 && input.len() >= size_of::<Header>() {
            let shape = rules.check(&read(input)?)?;
            if let Some((head, rest)) = input.split_at_checked(shape.head) {
                check_digest(&shape, head)?;
                *input = rest;
                return Ok(Some((shape, head)));
            }
        }
        self.assemble(input, rules)
    }

    /// Looks at the next PDU without taking anything. Returns its shape, if the stream is in a head
    /// whose first bytes are there.
    #[cold]
    pub(crate) fn next_shape(&self, input: &[u8], rules: &Rules) -> Option<Shape> {
        if self.in_data() {
            return None;
        }
        let mut header = [0; size_of::<Header>()];
        let have = self.buffer.get(..self.have).unwrap_or_default();
        let mut there = have.iter().chain(input);
        for byte in &mut header {
            *byte = *there.next()?;
        }
        rules.check(&read(&header).ok()?).ok()
    }

    /// Assembles the head from more than one chunk.
    #[cold]
    fn assemble<'b>(
        &'b mut self,
        input: &mut &[u8],
        rules: &Rules,
    ) -> Result<Option<(Shape, &'b [u8])>, Violation> {
        if !self.gather(input, size_of::<Header>()) {
            return Ok(None);
        }
        let shape = rules.check(&read(&self.buffer)?)?;
        if !self.gather(input, shape.head) {
            return Ok(None);
        }
        let head = self.buffer.get(..shape.head).unwrap_or_default();
        check_digest(&shape, head)?;
        (self.have, self.given) = (0, shape.head);
        Ok(Some((shape, head)))
    }

    /// Copies bytes into the buffer until `want` are there. Returns whether they are.
    fn gather(&mut self, input: &mut &[u8], want: usize) -> bool {
        let take = want.saturating_sub(self.have).min(input.len());
        let (bytes, rest) = input.split_at(take);
        if let Some(room) = self.buffer.get_mut(self.have..self.have + take) {
            room.copy_from_slice(bytes);
            self.have += take;
        }
        *input = rest;
        self.have >= want
    }

    /// Returns the received part of the head that [`Self::head`] or a later check found wrong, at
    /// most 128 bytes; `chunk` is the input at the start of the head.
    pub(crate) fn offending<'b>(&'b self, chunk: &'b [u8]) -> &'b [u8] {
        let (bytes, length) = match self.have.max(self.given) {
            0 => (chunk, chunk.len()),
            have => (&self.buffer[..], have),
        };
        // The header alone is returned, not its digest, padding or data. A wrong HLEN is not
        // trusted.
        let hlen = bytes.get(2).map_or(0, |hlen| usize::from(*hlen)).max(size_of::<Header>());
        bytes.get(..length.min(hlen).min(TermReq::MAX_DATA)).unwrap_or_default()
    }

    /// Removes the data of the PDU whose head came last, if all of it and a correct digest are in the chunk.
    #[inline]
    pub(crate) fn whole<'a>(&mut self, input: &mut &'a [u8], shape: &Shape) -> Option<&'a [u8]> {
        let (data, mut rest) = input.split_at_checked(shape.data as usize)?;
        if shape.data_digest {
            let (digest, after) = rest.split_at_checked(DIGEST)?;
            if digest != crc32c(data).to_le_bytes() {
                return None;
            }
            rest = after;
        }
        *input = rest;
        Some(data)
    }

    /// Expects the data of the PDU whose head came last.
    #[inline]
    pub(crate) fn expect_data(&mut self, shape: &Shape) {
        self.phase = Phase::Data { left: shape.data };
        self.digest = shape.data_digest.then(Running::new);
    }

    #[inline]
    pub(crate) fn in_data(&self) -> bool {
        matches!(self.phase, Phase::Data { .. })
    }

    /// Returns the number of bytes of the expected data that have not arrived.
    pub(crate) fn data_left(&self) -> u32 {
        match self.phase {
            Phase::Head => 0,
            Phase::Data { left } => left,
        }
    }

    /// Removes the next piece of the expected data; `None`: more bytes are needed.
    #[inline]
    pub(crate) fn data<'a>(&mut self, input: &mut &'a [u8]) -> Option<DataPiece<'a>> {
        let Phase::Data { left } = &mut self.phase else { return None };
        if *left == 0 {
            return self.data_end(input);
        }
        let take = input.len().min(*left as usize);
        if take == 0 {
            return None;
        }
        let (bytes, rest) = input.split_at(take);
        *left -= u32::try_from(take).unwrap_or(*left);
        *input = rest;
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
        Some(DataPiece::Bytes(bytes))
    }

    fn data_end<'a>(&mut self, input: &mut &[u8]) -> Option<DataPiece<'a>> {
        let mut digest_ok = true;
        if let Some(expected) = self.digest.as_ref().map(Running::field) {
            if !self.gather(input, DIGEST) {
                return None;
            }
            digest_ok = self.buffer.get(..DIGEST) == Some(&expected[..]);
            self.have = 0;
        }
        (self.phase, self.digest) = (Phase::Head, None);
        Some(DataPiece::End { digest_ok })
    }
}

/// Checks the header digest of a whole head.
#[inline]
fn check_digest(shape: &Shape, head: &[u8]) -> Result<(), Violation> {
    if !shape.header_digest {
        return Ok(());
    }
    let hlen = usize::from(shape.kind.header_length());
    let (header, rest) = head.split_at_checked(hlen).unwrap_or((head, &[]));
    let received: [u8; DIGEST] =
        rest.get(..DIGEST).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
    let received = u32::from_le_bytes(received);
    if received == crc32c(header) {
        return Ok(());
    }
    Err(Violation::new(Fes::HeaderDigest, received, "the header digest is wrong"))
}
