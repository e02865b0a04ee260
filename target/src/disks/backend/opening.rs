//! The context for opening a backend, beside the configuration.

use super::claim::Claims;
use crate::control::store::Seen;

/// The context for opening a backend, beside the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The claims of this daemon's namespaces. A file or device that is still claimed cannot be
    /// opened once more: drop the backend that has it first.
    pub claims: &'a Claims,
    /// The namespace that the backend is for, in words.
    pub namespace: &'a str,
    /// The state of the namespace's file or device when it was open last. If there is one, no file is created, and
    /// no other device is accepted.
    pub seen: Option<&'a Seen>,
    /// The treatment of a device that was never seen and holds a file system or the like.
    pub signature: OnSignature,
}

/// The treatment of a device that was never seen and holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSignature {
    /// The device is refused.
    Refuse,
    /// The device is taken with a warning: the state file does not tell whether it was served
    /// before, so its content may be the hosts'.
    Warn,
    /// The device is taken.
    Ignore,
}
