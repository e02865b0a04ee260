//! The messages of an authentication as the target reads and writes them.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use crate::dhchap::{Group, Hash, HostSecrets, RandomValues};
use crate::fabrics::{
    AuthFailure, AuthHeader, AuthKind, AuthProtocol, ChallengeHead, Concatenation, Negotiate,
    ReplyHead, Success1Head,
};
use crate::tls_psk::PskLength;

/// The parameters agreed by both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) hash: Hash,
    pub(super) group: Group,
    pub(super) channel: Concatenation,
}

/// Reads AUTH_Negotiate and chooses the target's favourite among the host's offers. `agreed` is the
/// key that the host may ask for, beside none.
///
/// A key has the length of its hash, and TLS has no cipher suite for the length of SHA-512; without
/// a group there is no key material (NVMe base 2.1, section 8.3.4.5.9).
///
/// # Errors
/// The message is malformed, asks for a forbidden key, or offers nothing permitted.
pub(super) fn choose(
    message: &[u8],
    allowed: &HostSecrets,
    agreed: Concatenation,
) -> Result<Choice, AuthFailure> {
    let (head, rest) = Negotiate::ref_from_prefix(message).map_err(|_| AuthFailure::Payload)?;
    let offered = <[AuthProtocol]>::ref_from_bytes(rest).map_err(|_| AuthFailure::Payload)?;
    if offered.is_empty() || offered.len() != usize::from(head.napd) {
        return Err(AuthFailure::Payload);
    }
    let channel = [Concatenation::None, agreed].into_iter().find(|known| known.id() == head.sc_c);
    let channel = channel.ok_or(AuthFailure::Concatenation)?;
    let known = offered.iter().find(|protocol| protocol.authid == AuthProtocol::DH_HMAC_CHAP);
    let known = known.ok_or(AuthFailure::Protocol)?;
    let (hashes, groups) = known.offered().ok_or(AuthFailure::Payload)?;
    let plain = channel == Concatenation::None;
    let hash = allowed.hashes.iter().find(|hash| {
        hashes.contains(&hash.id()) && (plain || PskLength::for_hash(**hash).is_some())
    });
    let group = allowed
        .groups
        .iter()
        .find(|group| groups.contains(&group.id()) && (plain || **group != Group::Null));
    let (hash, group) = (*hash.ok_or(AuthFailure::Hash)?, *group.ok_or(AuthFailure::Group)?);
    Ok(Choice { hash, group, channel })
}

/// Writes DH-HMAC-CHAP_Challenge.
pub(super) fn challenge(
    transaction: u16,
    Choice { hash, group, .. }: Choice,
    sequence: u32,
    fresh: &RandomValues,
) -> Vec<u8> {
    let head = ChallengeHead {
        header: AuthHeader::new(AuthKind::Challenge, transaction),
        hl: length_of(hash),
        reserved7: 0,
        hash: hash.id(),
        group: group.id(),
        dhvlen: U16::new(u16::try_from(fresh.public.len()).unwrap_or(0)),
        sequence: U32::new(sequence),
    };
    [head.as_bytes(), fresh.challenge(hash), &fresh.public].concat()
}

/// DH-HMAC-CHAP_Reply, read.
#[derive(Debug)]
pub(super) struct Reply {
    /// The host's response to the challenge (R1).
    pub(super) response: Vec<u8>,
    /// The host's own challenge: sequence number (S2) and value (C2); `None`: there is none. With
    /// number 0 the controller need not prove itself.
    pub(super) challenge: Option<(u32, Vec<u8>)>,
    /// The host's public value; empty where there is no group.
    pub(super) public: Vec<u8>,
}

/// Reads DH-HMAC-CHAP_Reply.
///
/// # Errors
/// A length does not match the hash or the group, or the message is longer or shorter than its
/// fields say. The host's challenge has sequence number 0 without a key to negotiate. A key is
/// negotiated without a challenge.
pub(super) fn reply(message: &[u8], choice: Choice) -> Result<Reply, AuthFailure> {
    let Choice { hash, group, channel } = choice;
    let (head, rest) = ReplyHead::ref_from_prefix(message).map_err(|_| AuthFailure::Payload)?;
    let lengths = usize::from(head.hl) == hash.length()
        && usize::from(head.dhvlen.get()) == group.length()
        && rest.len() == 2 * hash.length() + group.length();
    if !lengths {
        return Err(AuthFailure::Payload);
    }
    let (response, rest) = rest.split_at_checked(hash.length()).ok_or(AuthFailure::Payload)?;
    let (value, public) = rest.split_at_checked(hash.length()).ok_or(AuthFailure::Payload)?;
    let challenge = match (head.cvalid, head.sequence.get()) {
        (0, _) if channel == Concatenation::None => None,
        // Sequence number 0 says that the challenge is for a secure channel alone.
        (1, 0) if channel == Concatenation::None => return Err(AuthFailure::Payload),
        (1, sequence) => Some((sequence, value.to_vec())),
        _ => return Err(AuthFailure::Payload),
    };
    Ok(Reply { response: response.to_vec(), challenge, public: public.to_vec() })
}

/// Writes DH-HMAC-CHAP_Success1.
pub(super) fn success(transaction: u16, hash: Hash, response: Option<&[u8]>) -> Vec<u8> {
    let head = Success1Head {
        header: AuthHeader::new(AuthKind::Success1, transaction),
        hl: length_of(hash),
        reserved7: 0,
        rvalid: u8::from(response.is_some()),
        reserved9: [0; 7],
    };
    [head.as_bytes(), response.unwrap_or_default()].concat()
}

/// Returns HL of a hash.
fn length_of(hash: Hash) -> u8 {
    u8::try_from(hash.length()).unwrap_or(0)
}
