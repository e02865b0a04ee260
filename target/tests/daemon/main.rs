//! The daemon itself, as whoever starts and ends it sees it: signals, exit statuses, the
//! configuration read again, a state file that is damaged.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "../serve/client.rs"]
#[expect(dead_code, reason = "shared with the other tests")]
mod client;
mod daemon;
mod reload;
mod signals;
mod state;
