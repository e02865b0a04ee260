//! What opening a backend goes by beside the configuration.

use super::claim::Claims;
use crate::store::Seen;

/// What opening goes by beside the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// What this daemon's namespaces hold. A file or device that is still held cannot be opened
    /// once more: drop the backend that has it first.
    pub claims: &'a Claims,
    /// The namespace that it is for, in words.
    pub namespace: &'a str,
    /// What was seen of the namespace when it was open last. Nothing is made, and nothing else is
    /// taken, in place of what was seen.
    pub seen: Option<&'a Seen>,
    /// What becomes of a device that was never seen and holds a file system or the like.
    pub signature: OnSignature,
}

/// What becomes of a device that was never seen and holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSignature {
    /// It is refused.
    Refuse,
    /// It is taken with a warning: what was seen earlier is not known, so that it may be the
    /// hosts'.
    Warn,
    /// It is taken.
    Ignore,
}
