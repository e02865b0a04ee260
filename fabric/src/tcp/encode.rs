//! Writing PDUs into a send queue, with the digests and the alignment that were negotiated.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use super::Violation;
use super::digest::crc32c;
use super::pdu::{
    CapsuleCmd, CapsuleResp, DIGEST, DataPdu, Digests, Flags, Header, Initialize, PduType, R2t,
    TermReq,
};
use super::tx::{Kept, Tx};
use crate::nvme::{Cqe, Sqe};
use crate::queue::Payload;

/// The negotiated form of PDUs to this peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder {
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
    /// Offsets of the data in bytes, in a capsule and in a data PDU.
    capsule_pdo: u8,
    data_pdo: u8,
}

/// The place of a data PDU in its command's data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) kind: PduType,
    pub(crate) flags: Flags,
    pub(crate) cccid: u16,
    pub(crate) ttag: u16,
    /// Offset within the command's data.
    pub(crate) datao: u32,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new(false, false, 4)
    }
}

impl Encoder {
    /// Makes the form of PDUs with these digests, whose data is at multiples of `alignment` bytes: 4..=128.
    pub(crate) fn new(header_digest: bool, data_digest: bool, alignment: u8) -> Self {
        let digest = if header_digest { 4 } else { 0 };
        let pdo = |kind: PduType| {
            (kind.header_length() + digest).checked_next_multiple_of(alignment).unwrap_or(u8::MAX)
        };
        let (capsule_pdo, data_pdo) = (pdo(PduType::CapsuleCmd), pdo(PduType::C2hData));
        Self { header_digest, data_digest, capsule_pdo, data_pdo }
    }

    /// Returns the alignment in bytes that an HPDA or CPDA of 0..=31 asks for.
    pub(crate) fn alignment_of(pda: u8) -> u8 {
        (pda.min(super::MAX_PDA) + 1) * 4
    }

    fn header_flag(&self) -> Flags {
        if self.header_digest { Flags::HEADER_DIGEST } else { Flags::empty() }
    }

    /// Returns a header's length with its digest.
    fn digested(&self, kind: PduType) -> u8 {
        let digest = if self.header_digest { 4 } else { 0 };
        kind.header_length() + digest
    }

    /// Returns the header of a PDU without data.
    fn plain(&self, kind: PduType) -> Header {
        Header::new(kind, self.header_flag(), 0, u32::from(self.digested(kind)))
    }

    /// Returns the header of a PDU with `length` bytes of data.
    fn with_data(&self, kind: PduType, flags: Flags, length: u32) -> Header {
        let is_capsule = kind == PduType::CapsuleCmd;
        let pdo = if is_capsule { self.capsule_pdo } else { self.data_pdo };
        let (digest_flag, digest) =
            if self.data_digest { (Flags::DATA_DIGEST, 4) } else { (Flags::empty(), 0) };
        let plen = u32::from(pdo).saturating_add(length).saturating_add(digest);
        Header::new(kind, flags | digest_flag | self.header_flag(), pdo, plen)
    }

    /// Queues a header and its digest. The digest is computed from the queue: a header that lies
    /// nowhere else is made where it is sent from, field by field.
    #[inline(always)]
    fn put<P: Payload>(&self, tx: &mut Tx<P>, header: &[u8]) {
        tx.put(header);
        if self.header_digest {
            let digest = crc32c(tx.last(header.len()));
            tx.put(&digest.to_le_bytes());
        }
    }

    /// Queues the rest of a data PDU behind its `header` bytes: padding, the piece of the payload,
    /// and the data digest.
    fn put_data<P: Payload>(
        &self,
        tx: &mut Tx<P>,
        header: usize,
        pdo: u8,
        (kept, start, length): (Kept, u32, u32),
    ) {
        let written = header + if self.header_digest { DIGEST } else { 0 };
        if usize::from(pdo) > written {
            tx.pad(usize::from(pdo) - written);
        }
        tx.put_piece(kept, start, length);
        if self.data_digest {
            let digest = crc32c(tx.bytes(kept, start, length));
            tx.put(&digest.to_le_bytes());
        }
    }

    /// Queues a CapsuleResp.
    #[inline]
    pub(crate) fn response<P: Payload>(&self, tx: &mut Tx<P>, cqe: Cqe) {
        let header = self.plain(PduType::CapsuleResp);
        self.put(tx, CapsuleResp { header, cqe }.as_bytes());
    }

    /// Queues a CapsuleCmd without data.
    #[inline]
    pub(crate) fn command<P: Payload>(&self, tx: &mut Tx<P>, sqe: Sqe) {
        let header = self.plain(PduType::CapsuleCmd);
        self.put(tx, CapsuleCmd { header, sqe }.as_bytes());
    }

    /// Queues a CapsuleCmd with a whole payload in the capsule.
    pub(crate) fn command_with_data<P: Payload>(&self, tx: &mut Tx<P>, sqe: Sqe, data: P) {
        let kept = tx.keep(data);
        let header = self.with_data(PduType::CapsuleCmd, Flags::empty(), kept.length);
        let head = CapsuleCmd { header, sqe };
        self.put(tx, head.as_bytes());
        self.put_data(tx, size_of_val(&head), header.pdo, (kept, 0, kept.length));
    }

    /// Queues an R2T for `length` bytes from `offset` of the command's data.
    pub(crate) fn r2t<P: Payload>(
        &self,
        tx: &mut Tx<P>,
        cid: u16,
        ttag: u16,
        offset: u32,
        length: u32,
    ) {
        let pdu = R2t {
            header: self.plain(PduType::R2t),
            cccid: U16::new(cid),
            ttag: U16::new(ttag),
            r2to: U32::new(offset),
            r2tl: U32::new(length),
            reserved: [0; 4],
        };
        self.put(tx, pdu.as_bytes());
    }

    /// Queues one H2CData or C2HData PDU with `length` bytes from `start` of a kept payload.
    #[inline]
    pub(crate) fn data<P: Payload>(
        &self,
        tx: &mut Tx<P>,
        piece: Piece,
        (kept, start, length): (Kept, u32, u32),
    ) {
        let header = self.with_data(piece.kind, piece.flags, length);
        let pdu = DataPdu {
            header,
            cccid: U16::new(piece.cccid),
            ttag: U16::new(piece.ttag),
            datao: U32::new(piece.datao),
            datal: U32::new(length),
            reserved: [0; 4],
        };
        self.put(tx, pdu.as_bytes());
        self.put_data(tx, size_of_val(&pdu), header.pdo, (kept, start, length));
    }

    /// Queues bytes `start..end` of a kept payload as data PDUs of at most `most` bytes each;
    /// `last` are the flags that the last of them gets in addition.
    #[inline(always)]
    pub(crate) fn data_split<P: Payload>(
        &self,
        tx: &mut Tx<P>,
        mut piece: Piece,
        (kept, mut start, end): (Kept, u32, u32),
        most: u32,
        last: Flags,
    ) {
        while start < end {
            let length = most.min(end - start);
            if start + length == end {
                piece.flags |= last;
            }
            self.data(tx, piece, (kept, start, length));
            start += length;
            piece.datao = piece.datao.saturating_add(length);
        }
    }
}

/// Queues ICReq or ICResp, which never carry digests.
pub(crate) fn initialize<P: Payload>(
    tx: &mut Tx<P>,
    kind: PduType,
    pda: u8,
    digests: Digests,
    limit: u32,
) {
    tx.put(Initialize::new(kind, pda, digests, limit).as_bytes());
}

/// Queues a termination request with the head of the offending PDU, as far as it was received.
pub(crate) fn terminate<P: Payload>(
    tx: &mut Tx<P>,
    kind: PduType,
    violation: &Violation,
    offending: &[u8],
) {
    let offending = offending.get(..TermReq::MAX_DATA).unwrap_or(offending);
    let plen = u32::try_from(size_of::<TermReq>() + offending.len()).unwrap_or(0);
    let pdu = TermReq {
        header: Header::new(kind, Flags::empty(), 0, plen),
        fes: U16::new(violation.fes.code()),
        fei: U32::new(violation.fei),
        reserved: [0; 10],
    };
    tx.put(pdu.as_bytes());
    tx.put(offending);
}
