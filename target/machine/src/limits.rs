//! Limits on file descriptors.

use sluice_config::NSID_MAX;

/// The descriptors of one connection: its socket, and one of the network's poller.
const EACH: u64 = 2;
/// The descriptors that the daemon needs beside its connections: for rings, listeners, the control
/// socket and logs, and one for each namespace that a subsystem may have.
const OTHERS: u64 = 1024 + NSID_MAX as u64;

/// Returns the file descriptors that the daemon needs for `connections`.
#[must_use]
pub const fn descriptors_for(connections: u64) -> u64 {
    connections.saturating_mul(EACH).saturating_add(OTHERS)
}

/// Returns the connections for which a limit of file descriptors suffices.
#[must_use]
pub fn connections_within(descriptors: u64) -> u64 {
    descriptors.saturating_sub(OTHERS.min(descriptors / 2)) / EACH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_suffice_for_their_connections() {
        for connections in [16_384, 65_536] {
            assert_eq!(connections_within(descriptors_for(connections)), connections);
        }
        assert_eq!(connections_within(1024), 256, "half of a small limit is for connections");
    }
}
