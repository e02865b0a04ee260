//! The monitor's findings about clients and the pool, for the operator of the data node.

use thiserror::Error;

use crate::message::ClientId;
use crate::token::Tokens;

/// A finding, with a message for the person who runs the data node. Clients are named by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Finding {
    /// The client uses less than it has reserved (the last lines of algorithm 1).
    #[error(
        "client {} has used {used} of the {reservation} I/Os that it has reserved, and less than \
         its reservation in {periods} periods in a row: it may have overestimated it", .client.0
    )]
    Overstated {
        /// The client.
        client: ClientId,
        /// R_i, in tokens for a period.
        reservation: Tokens,
        /// The I/Os completed in the last period.
        used: Tokens,
        /// Number of periods in a row.
        periods: u32,
    },
    /// The client wanted its reservation in the last period and did not get it.
    #[error(
        "client {} got {completed} of the {reservation} I/Os that it has reserved", .client.0
    )]
    Missed {
        /// The client.
        client: ClientId,
        /// R_i, in tokens for a period.
        reservation: Tokens,
        /// N_i: the I/Os completed in the last period.
        completed: Tokens,
    },
    /// The client was admitted, or others were beside it, and cannot count on its reservation.
    #[error(
        "client {} reserves {reservation} I/Os in a period and can count on {attainable}: others \
         that want more than they reserve delay it until the rest is more than one client can do; \
         reserve less, for this client or for those with small reservations", .client.0
    )]
    Contended {
        /// The client.
        client: ClientId,
        /// R_i, in tokens for a period.
        reservation: Tokens,
        /// Its tokens at a period's end if all clients want more than they reserve.
        attainable: Tokens,
    },
    /// The client has more reservation tokens than it can use alone until the period's end
    /// (Definition 2 of the paper).
    #[error(
        "client {} has {residual} reserved I/Os left, more than one client can do before the \
         period ends", .client.0
    )]
    OutOfReach {
        /// The client.
        client: ClientId,
        /// The reservation tokens that are left.
        residual: Tokens,
    },
    /// The client does not report although it was asked.
    #[error("client {} has sent no report for {periods} periods", .client.0)]
    Silent {
        /// The client.
        client: ClientId,
        /// Number of periods in a row.
        periods: u32,
    },
    /// The data node's device has carried out more I/Os of the client than it has reported.
    #[error(
        "client {} has reported {reported} I/Os, and the device counts {counted} or more, in {periods} \
         periods in a row: it sends I/Os without tokens, or larger ones than a token permits", .client.0
    )]
    Unreported {
        /// The client.
        client: ClientId,
        /// N_i: the I/Os that the client has reported.
        reported: Tokens,
        /// The least number of I/Os that the device has carried out.
        counted: Tokens,
        /// Number of periods in a row.
        periods: u32,
    },
    /// A report says more than can be.
    #[error("client {} reports more tokens or I/Os than it can have", .client.0)]
    Impossible {
        /// The client.
        client: ClientId,
    },
    /// A client has put tokens into the pool, or damaged its word. The pool is as it should be
    /// again.
    #[error("a client has written to the pool of global tokens: {found} in place of {expected}")]
    PoolWritten {
        /// The tokens that were found.
        found: i64,
        /// The most tokens that there can have been.
        expected: i64,
    },
}

impl Finding {
    /// Returns the client that it is about; `None` for one about the pool.
    #[must_use]
    pub const fn client(&self) -> Option<ClientId> {
        match self {
            Self::Overstated { client, .. }
            | Self::Missed { client, .. }
            | Self::Contended { client, .. }
            | Self::OutOfReach { client, .. }
            | Self::Silent { client, .. }
            | Self::Unreported { client, .. }
            | Self::Impossible { client } => Some(*client),
            Self::PoolWritten { .. } => None,
        }
    }
}
