//! Reads the head of a PDU as a type.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::pdu::Header;
use super::violation::Violation;

/// Reads the PDU at the start of `head`.
///
/// # Errors
/// The head is shorter than the type.
pub(crate) fn read<T: FromBytes>(head: &[u8]) -> Result<T, Violation> {
    // `head` is as long as HLEN says, which was checked against the type.
    T::read_from_prefix(head).map(|(pdu, _)| pdu).map_err(|_| too_small())
}

/// Finds the PDU at the start of `head`, where a copy of it would cost too much.
///
/// # Errors
/// The head is shorter than the type.
#[inline]
pub(crate) fn find<T>(head: &[u8]) -> Result<&T, Violation>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    T::ref_from_prefix(head).map(|(pdu, _)| pdu).map_err(|_| too_small())
}

#[cold]
fn too_small() -> Violation {
    Violation::field(Header::HLEN, "HLEN is too small for the PDU type")
}
