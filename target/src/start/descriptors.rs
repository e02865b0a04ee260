//! The limit on file descriptors, raised to what connections may need.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The descriptors of one connection: its socket, and one of the network's poller.
const EACH: u64 = 2;
/// The descriptors that the daemon needs beside its connections: for rings, listeners, the control
/// socket and logs, and one for each namespace that a subsystem may have.
const OTHERS: u64 = 1024 + sluice_config::NSID_MAX as u64;

/// Raises this process's limit to the descriptors that `connections` need, as far as its hard limit
/// allows. Returns the number of connections for which it then has descriptors.
///
/// # Errors
/// The kernel does not take the limit.
pub fn allow(connections: u64) -> io::Result<u64> {
    let needed = connections.saturating_mul(EACH).saturating_add(OTHERS);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let limit = soft.max(needed.min(hard));
    if limit > soft {
        setrlimit(Resource::RLIMIT_NOFILE, limit, hard)?;
    }
    Ok(limit.saturating_sub(OTHERS.min(limit / 2)) / EACH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_descriptors_for_all_connections_within_the_hard_limit() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let before = soft.min(900);
        setrlimit(Resource::RLIMIT_NOFILE, before, hard).unwrap();
        let connections = 2000;
        let able = allow(connections).unwrap();
        let (now, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let needed = 2 * connections + OTHERS;
        assert_eq!(now, hard.min(needed), "{before} were allowed at first");
        assert!(able >= connections || hard < needed);
        allow(1).unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap().0, now, "never fewer");
    }
}
