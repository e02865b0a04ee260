//! What a class is to have of a link, and the default link's name.

use std::time::Duration;

/// The name of the link that listeners share which name none.
pub const DEFAULT_LINK: &str = "default";

/// What a class is to have of a link when that is congested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// `{ share = 3 }`: this number of parts of what the other goals leave.
    Share(u32),
    /// `{ rate = "2 Gbit/s" }`: bits per second.
    Rate(u64),
    /// `{ latency = "2 ms" }`: round trips no longer than this, queues included.
    Latency(Duration),
    /// `"free"`: whatever it asks for; never held back.
    Free,
}
