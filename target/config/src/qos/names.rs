//! Names of sessions: the automatic ones of subsystems and namespaces, and the root's.

use crate::keys::NSID_MAX;

use super::super::identity::check_nqn;

/// The name of the session above all others.
pub const ROOT: &str = "root";

/// Returns the NQN of an automatic session's subsystem, and the NSID of its namespace.
///
/// # Errors
/// The name is no automatic session's.
pub(super) fn automatic(name: &str) -> Result<(&str, Option<u32>), ()> {
    match split_namespace(name) {
        Some((nqn, nsid)) => Ok((nqn, Some(nsid))),
        None => check_nqn(name).map(|()| (name, None)).map_err(|_| ()),
    }
}

/// Returns whether a session's name is an automatic session's, for a subsystem or a namespace.
#[must_use]
pub fn is_automatic(name: &str) -> bool {
    name.starts_with("nqn.")
}

/// Returns NQN and NSID of "NQN/NSID".
#[must_use]
pub fn split_namespace(name: &str) -> Option<(&str, u32)> {
    let (nqn, nsid) = name.rsplit_once('/')?;
    check_nqn(nqn).ok()?;
    let number: u32 = nsid.parse().ok()?;
    // Each NSID is written in one way only.
    let right = (1..=NSID_MAX).contains(&number) && number.to_string() == nsid;
    right.then_some((nqn, number))
}
