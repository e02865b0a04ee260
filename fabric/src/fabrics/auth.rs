//! Authentication Send and Authentication Receive (NVMe base 2.0, sections 6.1 and 6.2), and the
//! messages of DH-HMAC-CHAP that they carry (section 8.13.5).

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::nvme::Sqe;

/// AUTHREQ in Connect's answer, bit 17 of the result (ATR): the host must authenticate the queue.
pub const AUTHENTICATION_REQUIRED: u64 = 1 << 17;
/// AUTHREQ, bit 18 (ASCR): the host must authenticate and set up a secure channel.
pub const SECURE_CHANNEL_REQUIRED: u64 = 1 << 18;

/// The most bytes of a message: a Reply with the longest hash and the largest group has 1168.
pub const AUTH_MESSAGE_MAX: u32 = 4096;

/// Authentication Send or Receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthCommand {
    /// Byte 41 (CDW10 15:8): SPSP0, 01h.
    pub spsp0: u8,
    /// Byte 42 (CDW10 23:16): SPSP1, 01h.
    pub spsp1: u8,
    /// Byte 43 (CDW10 31:24): security protocol, E9h for NVMe in-band authentication.
    pub secp: u8,
    /// Bytes 47:44 (CDW11): length of the message sent (TL), or of the room for one (AL), bytes.
    pub length: u32,
}

impl AuthCommand {
    /// SECP of in-band authentication.
    pub const SECP: u8 = 0xe9;
    /// SPSP0 and SPSP1.
    pub const SPSP: u8 = 0x01;

    /// Reads the fields of the command.
    #[must_use]
    pub fn parse(sqe: &Sqe) -> Self {
        let [_, spsp0, spsp1, secp] = sqe.cdw10.to_bytes();
        Self { spsp0, spsp1, secp, length: sqe.cdw11.get() }
    }

    /// Returns whether the command is one of in-band authentication, and carries something.
    #[must_use]
    pub fn is_in_band(&self) -> bool {
        (self.secp, self.spsp0, self.spsp1) == (Self::SECP, Self::SPSP, Self::SPSP)
            && self.length > 0
    }

    /// Makes CDW10 and CDW11 of a command for a message of `length` bytes.
    #[must_use]
    pub fn dwords(length: u32) -> [U32; 2] {
        [U32::new(u32::from_le_bytes([0, Self::SPSP, Self::SPSP, Self::SECP])), U32::new(length)]
    }
}

/// The kind of a message: AUTH_TYPE, byte 0, and AUTH_ID, byte 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthKind {
    /// 00h/00h: AUTH_Negotiate, of the host.
    Negotiate,
    /// 01h/01h: DH-HMAC-CHAP_Challenge, of the controller.
    Challenge,
    /// 01h/02h: DH-HMAC-CHAP_Reply, of the host.
    Reply,
    /// 01h/03h: DH-HMAC-CHAP_Success1, of the controller.
    Success1,
    /// 01h/04h: DH-HMAC-CHAP_Success2, of the host.
    Success2,
    /// 00h/F0h: AUTH_Failure2, of the host.
    Failure2,
    /// 00h/F1h: AUTH_Failure1, of the controller.
    Failure1,
}

impl AuthKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Negotiate,
        Self::Challenge,
        Self::Reply,
        Self::Success1,
        Self::Success2,
        Self::Failure2,
        Self::Failure1,
    ];

    /// Returns AUTH_TYPE and AUTH_ID.
    #[must_use]
    pub const fn ids(self) -> [u8; 2] {
        match self {
            Self::Negotiate => [0x00, 0x00],
            Self::Challenge => [0x01, 0x01],
            Self::Reply => [0x01, 0x02],
            Self::Success1 => [0x01, 0x03],
            Self::Success2 => [0x01, 0x04],
            Self::Failure2 => [0x00, 0xf0],
            Self::Failure1 => [0x00, 0xf1],
        }
    }
}

/// The reason for which an authentication failed: the reason code explanation, byte 7 of
/// AUTH_Failure1 and AUTH_Failure2. Byte 6, the reason code, is 01h with all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthFailure {
    /// 01h: the response does not match the secret.
    Failed = 1,
    /// 02h: authentication protocol not usable.
    Protocol = 2,
    /// 03h: secure channel concatenation mismatch.
    Concatenation = 3,
    /// 04h: hash function not usable.
    Hash = 4,
    /// 05h: Diffie-Hellman group not usable.
    Group = 5,
    /// 06h: incorrect payload.
    Payload = 6,
    /// 07h: incorrect protocol message.
    Message = 7,
}

impl AuthFailure {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::Failed,
        Self::Protocol,
        Self::Concatenation,
        Self::Hash,
        Self::Group,
        Self::Payload,
        Self::Message,
    ];

    /// Returns the reason code explanation.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// Returns the reason of an explanation; [`Self::Failed`] for an unknown one.
    #[must_use]
    pub fn from_id(id: u8) -> Self {
        Self::ALL.into_iter().find(|reason| reason.id() == id).unwrap_or(Self::Failed)
    }

    /// Returns the reason in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Failed => "the proof is wrong: the two ends have different secrets",
            Self::Protocol => "there is no authentication protocol that both know and may use",
            Self::Concatenation => "one end wants a secure channel that the other does not have",
            Self::Hash => "there is no hash function that both allow",
            Self::Group => {
                "there is no Diffie-Hellman group that both allow, or a bad value of one"
            }
            Self::Payload => "a message has a field that is wrong, or is not whole",
            Self::Message => "a message is out of sequence",
        }
    }
}

/// The first bytes of every message.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AuthHeader {
    /// Byte 0: AUTH_TYPE, byte 1: AUTH_ID.
    pub ids: [u8; 2],
    /// Bytes 3:2.
    pub reserved2: [u8; 2],
    /// Bytes 5:4: T_ID, the transaction.
    pub transaction: U16,
}

impl AuthHeader {
    /// Makes the header of a message.
    #[must_use]
    pub fn new(kind: AuthKind, transaction: u16) -> Self {
        Self { ids: kind.ids(), reserved2: [0; 2], transaction: U16::new(transaction) }
    }

    /// Reads the header of a message; `None` where it is too short or of no known kind.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<(AuthKind, u16)> {
        let (header, _) = Self::read_from_prefix(message).ok()?;
        let kind = AuthKind::ALL.into_iter().find(|kind| kind.ids() == header.ids)?;
        Some((kind, header.transaction.get()))
    }
}

/// Whether an exchange makes a key for a secure channel: SC_C, byte 6 of AUTH_Negotiate (NVMe base
/// 2.1, section 8.3.4.5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Concatenation {
    /// 00h (NOSC): it makes none.
    #[default]
    None = 0,
    /// 02h (NEWTLSPSK): it makes a PSK of TLS, of which a connection without TLS is followed by others
    /// with it.
    New = 2,
    /// 03h (REPLACETLSPSK): it negotiates a PSK that replaces the connection's generated one.
    Replace = 3,
}

impl Concatenation {
    /// Returns SC_C.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }
}

/// AUTH_Negotiate, 8 bytes; NAPD descriptors follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Negotiate {
    /// Bytes 5:0.
    pub header: AuthHeader,
    /// Byte 6: SC_C, see [`Concatenation`].
    pub sc_c: u8,
    /// Byte 7: NAPD, the number of protocol descriptors.
    pub napd: u8,
}

/// The identifiers that a descriptor has room for, of hashes and of groups.
const IDENTIFIERS: usize = 30;

/// A protocol descriptor of AUTH_Negotiate, 64 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AuthProtocol {
    /// Byte 0: AuthID, 01h for DH-HMAC-CHAP.
    pub authid: u8,
    /// Byte 1.
    pub reserved1: u8,
    /// Byte 2: HALEN, the number of hash functions.
    pub halen: u8,
    /// Byte 3: DHLEN, the number of groups.
    pub dhlen: u8,
    /// Bytes 33:4: HashIDs, in the order in which the host likes them.
    pub hashes: [u8; IDENTIFIERS],
    /// Bytes 63:34: DHgIDs.
    pub groups: [u8; IDENTIFIERS],
}

impl AuthProtocol {
    /// AuthID of DH-HMAC-CHAP.
    pub const DH_HMAC_CHAP: u8 = 0x01;

    /// Makes a descriptor of DH-HMAC-CHAP; identifiers beyond 30 are dropped.
    #[must_use]
    pub fn new(hashes: impl Iterator<Item = u8>, groups: impl Iterator<Item = u8>) -> Self {
        let mut descriptor = Self {
            authid: Self::DH_HMAC_CHAP,
            reserved1: 0,
            halen: 0,
            dhlen: 0,
            hashes: [0; IDENTIFIERS],
            groups: [0; IDENTIFIERS],
        };
        for (to, id) in descriptor.hashes.iter_mut().zip(hashes) {
            *to = id;
            descriptor.halen = descriptor.halen.saturating_add(1);
        }
        for (to, id) in descriptor.groups.iter_mut().zip(groups) {
            *to = id;
            descriptor.dhlen = descriptor.dhlen.saturating_add(1);
        }
        descriptor
    }

    /// Returns the HashIDs and the DHgIDs; `None` where there are more than there is room for.
    #[must_use]
    pub fn offered(&self) -> Option<(&[u8], &[u8])> {
        let hashes = self.hashes.get(..usize::from(self.halen))?;
        Some((hashes, self.groups.get(..usize::from(self.dhlen))?))
    }
}

/// DH-HMAC-CHAP_Challenge, 16 bytes; the challenge and the controller's public value follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ChallengeHead {
    /// Bytes 5:0.
    pub header: AuthHeader,
    /// Byte 6: HL, the length of the challenge, bytes.
    pub hl: u8,
    /// Byte 7.
    pub reserved7: u8,
    /// Byte 8: HashID.
    pub hash: u8,
    /// Byte 9: DHgID.
    pub group: u8,
    /// Bytes 11:10: DHVLEN, the length of the public value, bytes.
    pub dhvlen: U16,
    /// Bytes 15:12: SEQNUM (S1).
    pub sequence: U32,
}

/// DH-HMAC-CHAP_Reply, 16 bytes; the response, a challenge and the host's public value follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReplyHead {
    /// Bytes 5:0.
    pub header: AuthHeader,
    /// Byte 6: HL, the length of the response and of the challenge, bytes.
    pub hl: u8,
    /// Byte 7.
    pub reserved7: u8,
    /// Byte 8: CVALID, 1 where the challenge is one.
    pub cvalid: u8,
    /// Byte 9.
    pub reserved9: u8,
    /// Bytes 11:10: DHVLEN, the length of the public value, bytes.
    pub dhvlen: U16,
    /// Bytes 15:12: SEQNUM (S2); 0 where the controller need not prove itself. With CVALID of 1 the
    /// challenge is then for the key of a secure channel alone.
    pub sequence: U32,
}

/// DH-HMAC-CHAP_Success1, 16 bytes; the controller's response follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Success1Head {
    /// Bytes 5:0.
    pub header: AuthHeader,
    /// Byte 6: HL, the length of the response, bytes.
    pub hl: u8,
    /// Byte 7.
    pub reserved7: u8,
    /// Byte 8: RVALID, 1 where there is a response.
    pub rvalid: u8,
    /// Bytes 15:9.
    pub reserved9: [u8; 7],
}

/// DH-HMAC-CHAP_Success2, 16 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Success2 {
    /// Bytes 5:0.
    pub header: AuthHeader,
    /// Bytes 15:6.
    pub reserved6: [u8; 10],
}

impl Success2 {
    /// Makes the message.
    #[must_use]
    pub fn new(transaction: u16) -> Self {
        Self { header: AuthHeader::new(AuthKind::Success2, transaction), reserved6: [0; 10] }
    }
}

/// AUTH_Failure1 and AUTH_Failure2, 8 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FailureMessage {
    /// Bytes 5:0.
    pub header: AuthHeader,
    /// Byte 6: reason code, 01h.
    pub reason: u8,
    /// Byte 7: reason code explanation, see [`AuthFailure`].
    pub explanation: u8,
}

impl FailureMessage {
    /// Makes the message of the controller ([`AuthKind::Failure1`]) or of the host.
    #[must_use]
    pub fn new(kind: AuthKind, transaction: u16, reason: AuthFailure) -> Self {
        Self { header: AuthHeader::new(kind, transaction), reason: 1, explanation: reason.id() }
    }
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn fields_lie_where_the_specification_puts_them() {
        assert_eq!(size_of::<AuthHeader>(), 6);
        assert_eq!(offset_of!(AuthHeader, transaction), 4);
        assert_eq!(size_of::<Negotiate>(), 8);
        assert_eq!((offset_of!(Negotiate, sc_c), offset_of!(Negotiate, napd)), (6, 7));
        assert_eq!(size_of::<AuthProtocol>(), 64);
        assert_eq!((offset_of!(AuthProtocol, halen), offset_of!(AuthProtocol, hashes)), (2, 4));
        assert_eq!(offset_of!(AuthProtocol, groups), 34);
        assert_eq!(size_of::<ChallengeHead>(), 16);
        assert_eq!((offset_of!(ChallengeHead, hl), offset_of!(ChallengeHead, hash)), (6, 8));
        assert_eq!(offset_of!(ChallengeHead, dhvlen), 10);
        assert_eq!(offset_of!(ChallengeHead, sequence), 12);
        assert_eq!(size_of::<ReplyHead>(), 16);
        assert_eq!((offset_of!(ReplyHead, cvalid), offset_of!(ReplyHead, dhvlen)), (8, 10));
        assert_eq!((size_of::<Success1Head>(), offset_of!(Success1Head, rvalid)), (16, 8));
        assert_eq!((size_of::<Success2>(), size_of::<FailureMessage>()), (16, 8));
        assert_eq!(offset_of!(FailureMessage, explanation), 7);
    }

    #[test]
    fn command_fields_are_at_their_offsets() {
        let [cdw10, cdw11] = AuthCommand::dwords(72);
        let mut sqe = Sqe { cdw10, cdw11, ..Sqe::default() };
        let bytes = sqe.as_bytes();
        assert_eq!(bytes[40..48], [0, 1, 1, 0xe9, 72, 0, 0, 0]);
        assert!(AuthCommand::parse(&sqe).is_in_band());
        sqe.cdw11 = U32::ZERO;
        assert!(!AuthCommand::parse(&sqe).is_in_band(), "an empty message");
    }

    #[test]
    fn a_header_is_known_by_both_of_its_bytes() {
        let read = |ids: [u8; 2]| AuthHeader::read(&[ids[0], ids[1], 0, 0, 7, 1, 9]);
        for kind in AuthKind::ALL {
            assert_eq!(read(kind.ids()), Some((kind, 0x107)));
        }
        assert_eq!(read([1, 0xf0]), None);
        assert_eq!(read([0, 2]), None);
        assert_eq!(AuthHeader::read(&[0; 5]), None);
    }

    #[test]
    fn descriptor_offers_its_hashes_and_groups() {
        let made = AuthProtocol::new([1, 2, 3].into_iter(), [0, 5].into_iter());
        assert_eq!(made.offered(), Some((&[1, 2, 3][..], &[0, 5][..])));
        let full = AuthProtocol::new(0..40, 0..40);
        assert_eq!((full.halen, full.dhlen), (30, 30));
        assert!(AuthProtocol { halen: 31, ..made }.offered().is_none());
        assert!(AuthProtocol { dhlen: 31, ..made }.offered().is_none());
    }

    #[test]
    fn reasons_have_the_codes_of_the_specification() {
        for (reason, code) in AuthFailure::ALL.into_iter().zip(1..) {
            assert_eq!((reason.id(), AuthFailure::from_id(code)), (code, reason));
        }
        assert_eq!(AuthFailure::from_id(0x55), AuthFailure::Failed);
    }
}
