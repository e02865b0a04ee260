//! Violations by a peer, and their fields in a termination request (TCP transport specification
//! 1.0, section 3.6.2.4 and 3.6.2.5; the values of FES and FEI: figure C2HTermReq).

use super::pdu::Header;

/// Fatal Error Status, bytes 9:8 of a termination request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Fes {
    /// 01h: a field of the PDU header is invalid; FEI is its byte offset.
    InvalidHeaderField = 1,
    /// 02h: a PDU must not come at this point.
    SequenceError = 2,
    /// 03h: the header digest is wrong; FEI is the digest that was received.
    HeaderDigest = 3,
    /// 04h: data outside of the requested range, or not contiguous.
    DataOutOfRange = 4,
    /// 05h: more data, or more R2T PDUs, than was allowed.
    LimitExceeded = 5,
    /// 06h: a parameter that is not supported; FEI is its byte offset.
    UnsupportedParameter = 6,
}

impl Fes {
    /// Returns the value of the FES field.
    #[must_use]
    pub fn code(self) -> u16 {
        // A fieldless enum with a stated representation: the discriminant is the code.
        self as u16
    }
}

/// The peer broke the protocol: the connection is over.
///
/// The matching termination request is queued unless the fault lies in a termination request,
/// which nothing may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (fatal error status {:02x}h, information {fei:#x})", fes.code())]
pub struct Violation {
    /// Fatal Error Status.
    pub fes: Fes,
    /// Fatal Error Information: see [`Fes`]; 0 where the status has none.
    pub fei: u32,
    /// Description of the fault, with the name of the field.
    pub what: &'static str,
    /// Whether a termination request was queued.
    pub answered: bool,
}

impl Violation {
    pub(crate) fn new(fes: Fes, fei: u32, what: &'static str) -> Self {
        Self { fes, fei, what, answered: true }
    }

    /// Makes the violation of an invalid field at byte `offset` of the PDU header.
    pub(crate) fn field(offset: u32, what: &'static str) -> Self {
        Self::new(Fes::InvalidHeaderField, offset, what)
    }

    /// Makes the violation of a PLEN that does not fit the PDU.
    pub(crate) fn length(what: &'static str) -> Self {
        Self::field(Header::PLEN, what)
    }

    pub(crate) fn sequence(what: &'static str) -> Self {
        Self::new(Fes::SequenceError, 0, what)
    }

    pub(crate) fn range(what: &'static str) -> Self {
        Self::new(Fes::DataOutOfRange, 0, what)
    }

    pub(crate) fn limit(what: &'static str) -> Self {
        Self::new(Fes::LimitExceeded, 0, what)
    }

    pub(crate) fn unsupported(offset: u32, what: &'static str) -> Self {
        Self::new(Fes::UnsupportedParameter, offset, what)
    }

    /// Marks the fault as one in a termination request: the connection ends without an answer.
    pub(crate) fn unanswered(mut self) -> Self {
        self.answered = false;
        self
    }
}
