//! The goal of a class on a link, and the default link's name.

use std::time::Duration;

/// The name of the link of listeners that name none.
pub const DEFAULT_LINK: &str = "default";

/// The goal of a class on a link that is congested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// `{ share = 3 }`: this number of parts of the rate that other goals leave over.
    Share(u32),
    /// `{ rate = "2 Gbit/s" }`: bits per second.
    Rate(u64),
    /// `{ latency = "2 ms" }`: round trips no longer than this, queues included.
    Latency(Duration),
    /// `"free"`: no limit: the class is never held back.
    Free,
}
