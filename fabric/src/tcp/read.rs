//! Reads the head of a PDU as a type.

use zerocopy::FromBytes;

use super::pdu::Header;
use super::violation::Violation;

/// Reads the PDU at the start of `head`.
///
/// # Errors
/// The head is shorter than the type.
pub(crate) fn read<T: FromBytes>(head: &[u8]) -> Result<T, Violation> {
    // `head` is as long as HLEN says, which was checked against the type.
    T::read_from_prefix(head)
        .map(|(pdu, _)| pdu)
        .map_err(|_| Violation::field(Header::HLEN, "HLEN is too small for the PDU type"))
}
