//! Messages from the monitor to a client's engine, of the two-sided kind.

use crate::period::Period;
use crate::token::Tokens;

/// The number by which a data node knows a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// The start of a period, with a client's reservation tokens (docs/research/sources.md, H2; step T1 of Fig.
/// 5). They replace all tokens that the client still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// Number of the period that begins.
    pub period: Period,
    /// The client's reservation R_i, in tokens for this period.
    pub reservation: Tokens,
}

/// The request for reports until the end of a period (docs/research/sources.md, H2; step S3 of Fig. 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Number of the period for which reports are wanted.
    pub period: Period,
}
