//! Checks of the common header, the same in both roles.
//!
//! Fields are checked in the order of their offsets, so that a termination request names the first
//! wrong field.

use zerocopy::IntoBytes as _;

use super::Violation;
use super::pdu::{Flags, Header, PduType, TermReq};

/// The rules that PDUs from this peer have to follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Whether the peer is the host.
    pub(crate) from_host: bool,
    /// Whether ICReq or ICResp has arrived.
    pub(crate) initialized: bool,
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
    /// Alignment of data in bytes: 4..=128.
    pub(crate) alignment: u8,
}

/// The shape of a PDU, as its common header tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) kind: PduType,
    pub(crate) flags: Flags,
    /// Number of bytes before the data (or before the next PDU): header, digest, padding.
    pub(crate) head: usize,
    /// Length of the data, bytes.
    pub(crate) data: u32,
    pub(crate) header_digest: bool,
    /// Whether a data digest follows the data.
    pub(crate) data_digest: bool,
}

/// Bytes of a capsule without data and digest.
const PLAIN_CAPSULE_HEAD: usize = 72;
/// The common header of a capsule without data and digest.
const PLAIN_CAPSULE: [u8; size_of::<Header>()] = [PduType::CapsuleCmd as u8, 0, 72, 0, 72, 0, 0, 0];

impl Rules {
    /// Checks a common header. Returns the shape of the rest.
    #[inline]
    pub(crate) fn check(&self, header: &Header) -> Result<Shape, Violation> {
        // Most PDUs of a host are reads.
        if header.as_bytes() == PLAIN_CAPSULE
            && self.initialized
            && self.from_host
            && !self.header_digest
        {
            let (kind, flags, head) = (PduType::CapsuleCmd, Flags::empty(), PLAIN_CAPSULE_HEAD);
            return Ok(Shape {
                kind,
                flags,
                head,
                data: 0,
                header_digest: false,
                data_digest: false,
            });
        }
        self.check_any(header)
    }

    fn check_any(&self, header: &Header) -> Result<Shape, Violation> {
        let kind = self.kind(header.kind)?;
        let flags = Flags::from_bits_retain(header.flags);
        match kind {
            PduType::IcReq | PduType::IcResp => Self::undigested(kind, header, 128),
            PduType::H2cTermReq | PduType::C2hTermReq => {
                Self::undigested(kind, header, TermReq::MAX_LENGTH).map_err(Violation::unanswered)
            }
            PduType::CapsuleResp | PduType::R2t => self.without_data(kind, flags, header),
            PduType::CapsuleCmd | PduType::H2cData | PduType::C2hData => {
                self.with_data(kind, flags, header)
            }
        }
    }

    #[inline]
    fn kind(&self, code: u8) -> Result<PduType, Violation> {
        let kind = PduType::from_code(code)
            .filter(|kind| (kind.code() & 1 == 0) == self.from_host)
            .ok_or_else(|| Violation::field(Header::TYPE, "unknown PDU type"))?;
        match kind {
            PduType::IcReq | PduType::IcResp if self.initialized => {
                Err(Violation::sequence("the connection was initialized before"))
            }
            PduType::IcReq | PduType::IcResp => Ok(kind),
            PduType::H2cTermReq | PduType::C2hTermReq => Ok(kind),
            _ if !self.initialized => {
                Err(Violation::sequence("the first PDU does not initialize the connection"))
            }
            _ => Ok(kind),
        }
    }

    /// Checks an ICReq, an ICResp or a termination request: no digests; PLEN from HLEN to
    /// `longest`.
    fn undigested(kind: PduType, header: &Header, longest: u32) -> Result<Shape, Violation> {
        let flags = Flags::from_bits_retain(header.flags);
        if flags.intersects(Flags::HEADER_DIGEST | Flags::DATA_DIGEST) {
            return Err(Violation::field(Header::FLAGS, "FLAGS: this PDU carries no digest"));
        }
        check_hlen(kind, header)?;
        if header.pdo != 0 {
            return Err(Violation::field(Header::PDO, "PDO must be 0 in this PDU"));
        }
        let (plen, hlen) = (header.plen.get(), kind.header_length());
        if plen < u32::from(hlen) || plen > longest {
            return Err(Violation::length("PLEN does not fit the PDU type"));
        }
        let head = usize::from(hlen);
        Ok(Shape { kind, flags, head, data: 0, header_digest: false, data_digest: false })
    }

    /// Checks HDGSTF and HLEN. Returns the length of the header with its digest.
    #[inline]
    fn digested(&self, kind: PduType, flags: Flags, header: &Header) -> Result<u8, Violation> {
        if flags.contains(Flags::HEADER_DIGEST) != self.header_digest {
            return Err(Violation::field(
                Header::FLAGS,
                "FLAGS: HDGSTF differs from the negotiated value",
            ));
        }
        check_hlen(kind, header)?;
        let digest = if self.header_digest { 4 } else { 0 };
        Ok(kind.header_length() + digest)
    }

    /// Checks a CapsuleResp or an R2T.
    fn without_data(
        &self,
        kind: PduType,
        flags: Flags,
        header: &Header,
    ) -> Result<Shape, Violation> {
        if flags.contains(Flags::DATA_DIGEST) {
            return Err(Violation::field(Header::FLAGS, "FLAGS: DDGSTF on a PDU without data"));
        }
        let head = self.digested(kind, flags, header)?;
        if header.plen.get() != u32::from(head) {
            return Err(Violation::length("PLEN does not fit the PDU type"));
        }
        let header_digest = self.header_digest;
        let head = usize::from(head);
        Ok(Shape { kind, flags, head, data: 0, header_digest, data_digest: false })
    }

    /// Checks a CapsuleCmd, an H2CData or a C2HData.
    #[inline]
    fn with_data(&self, kind: PduType, flags: Flags, header: &Header) -> Result<Shape, Violation> {
        let head = self.digested(kind, flags, header)?;
        let data_digest = flags.contains(Flags::DATA_DIGEST);
        if data_digest && !self.data_digest {
            return Err(Violation::field(Header::FLAGS, "FLAGS: DDGSTF was not negotiated"));
        }
        let plen = header.plen.get();
        let shape = Shape {
            kind,
            flags,
            head: usize::from(head),
            data: 0,
            header_digest: self.header_digest,
            data_digest: false,
        };
        if plen == u32::from(head) && kind == PduType::CapsuleCmd {
            return Ok(shape);
        }
        if data_digest != self.data_digest {
            return Err(Violation::field(
                Header::FLAGS,
                "FLAGS: DDGSTF is missing on a PDU with data",
            ));
        }
        if plen < u32::from(head) {
            return Err(Violation::length("PLEN is smaller than the header"));
        }
        if header.pdo < head || !header.pdo.is_multiple_of(self.alignment) {
            return Err(Violation::field(Header::PDO, "PDO is in the header or not aligned"));
        }
        let trailer = if data_digest { 4 } else { 0 };
        let data = plen
            .checked_sub(u32::from(header.pdo) + trailer)
            .filter(|data| *data > 0)
            .ok_or_else(|| Violation::length("PLEN leaves no room for data"))?;
        Ok(Shape { head: usize::from(header.pdo), data, data_digest, ..shape })
    }
}

#[inline]
fn check_hlen(kind: PduType, header: &Header) -> Result<(), Violation> {
    if header.hlen == kind.header_length() {
        return Ok(());
    }
    Err(Violation::field(Header::HLEN, "HLEN does not fit the PDU type"))
}
