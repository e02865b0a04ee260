//! Names and parameters of connections.

/// The name that its user gives a connection or listener, by which events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// The parameters with which a connection is asked for or accepted.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionParams {
    /// RDMA READs and atomics of the peer that this side answers at once.
    pub responder_resources: u8,
    /// RDMA READs and atomics that this side has out at once.
    pub initiator_depth: u8,
    /// How often a packet that is not acknowledged is sent again, 0 to 7.
    pub retries: u8,
    /// How often a SEND that found no receive buffer is sent again, 0 to 6; 7 for ever.
    pub not_ready_retries: u8,
}
