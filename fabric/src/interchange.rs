//! The form in which secrets and keys are exchanged, `PREFIX:HH:…:`: HH two digits that say how the
//! bytes are used, then base64 of the bytes and of their CRC-32, little-endian.

use base64ct::{Base64, Encoding};
use crc_fast::CrcAlgorithm::Crc32IsoHdlc;
use zeroize::Zeroizing;

/// The length of the CRC-32 in bytes.
const CRC_BYTES: usize = 4;

/// A fault in the bytes of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// They are not in base64.
    Form,
    /// There are fewer than they should be, or more.
    Length,
    /// Their CRC-32 is another one.
    Checksum,
}

/// Parts a text, which begins with `prefix`, into HH and what [`decode`] takes.
pub(crate) fn split<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    text.trim().strip_prefix(prefix)?.split_once(':')
}

/// Reads the bytes, of which there must be a number that `fits`.
///
/// # Errors
/// They are not in base64, their number does not fit, or their CRC-32 is wrong.
pub(crate) fn decode(
    encoded: &str,
    fits: impl FnOnce(usize) -> bool,
) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let encoded = encoded.strip_suffix(':').unwrap_or(encoded);
    let mut bytes = Zeroizing::new(Base64::decode_vec(encoded).map_err(|_| Fault::Form)?);
    let count = bytes.len().checked_sub(CRC_BYTES).filter(|count| fits(*count));
    let count = count.ok_or(Fault::Length)?;
    let good = bytes.split_at_checked(count).is_some_and(|(key, crc)| crc == checksum(key));
    if !good {
        return Err(Fault::Checksum);
    }
    bytes.truncate(count);
    Ok(bytes)
}

/// Writes bytes; `how` is HH.
pub(crate) fn encode(prefix: &str, how: u8, bytes: &[u8]) -> Zeroizing<String> {
    let mut whole = Zeroizing::new(Vec::with_capacity(bytes.len() + CRC_BYTES));
    whole.extend_from_slice(bytes);
    whole.extend_from_slice(&checksum(bytes));
    let encoded = Zeroizing::new(Base64::encode_string(&whole));
    Zeroizing::new(format!("{prefix}{how:02}:{}:", *encoded))
}

/// Computes the CRC-32 (IEEE) of bytes, little-endian.
fn checksum(bytes: &[u8]) -> [u8; CRC_BYTES] {
    u32::try_from(crc_fast::checksum(Crc32IsoHdlc, bytes)).unwrap_or(0).to_le_bytes()
}
