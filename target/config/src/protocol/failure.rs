//! Failures of requests and commands: a text for people, a kind and an exit status for programs.

/// No daemon answers on the control socket: none is running, it is silent, or another program
/// listens there.
pub const NO_DAEMON: &str = "no_daemon";
/// The socket may not be used by this user.
pub const PERMISSION: &str = "permission";
/// The daemon refuses a value.
pub const INVALID: &str = "invalid";
/// A change would hurt hosts or data, or a key would count for nothing.
pub const REFUSED: &str = "refused";
/// The daemon is older than this program.
pub const UNKNOWN_METHOD: &str = "unknown_method";
/// The command line is wrong.
pub const USAGE: &str = "usage";
/// The failure has no kind of its own.
pub const FAILED: &str = "failed";

/// A failure with a kind: the daemon's own (`not_found`, `exists`, …), or one of this module's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind, by which programs tell failures apart.
    pub kind: String,
    /// The text for people.
    pub message: String,
}

impl Failure {
    /// Makes a failure.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into() }
    }
}

/// Returns the exit status for a kind of failure.
pub fn status(kind: &str) -> u8 {
    match kind {
        USAGE => 2,
        "not_found" => 3,
        "exists" => 4,
        INVALID => 5,
        REFUSED => 6,
        NO_DAEMON => 7,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_that_scripts_tell_apart_has_its_status() {
        let kinds = ["usage", "not_found", "exists", "invalid", "refused", "no_daemon"];
        assert_eq!(kinds.map(status), [2, 3, 4, 5, 6, 7]);
        for other in ["system", "store", "busy", "permission", "failed", "of tomorrow"] {
            assert_eq!(status(other), 1, "{other}");
        }
    }
}
