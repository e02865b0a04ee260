//! The limit on file descriptors, raised to what connections may need.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sluice_machine::limits::{connections_within, descriptors_for};

/// Raises this process's limit to the descriptors that `connections` need, as far as its hard limit
/// allows. Returns the number of connections for which it then has descriptors.
///
/// # Errors
/// The kernel does not take the limit.
pub fn allow(connections: u64) -> io::Result<u64> {
    let needed = descriptors_for(connections);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let limit = soft.max(needed.min(hard));
    if limit > soft {
        setrlimit(Resource::RLIMIT_NOFILE, limit, hard)?;
    }
    Ok(connections_within(limit))
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
        let needed = descriptors_for(connections);
        assert_eq!(now, hard.min(needed), "{before} were allowed at first");
        assert!(able >= connections || hard < needed);
        allow(1).unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap().0, now, "never fewer");
    }
}
