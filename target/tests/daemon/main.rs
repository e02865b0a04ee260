//! Tests of the daemon as a process: signals, exit statuses, reload of the configuration, a damaged
//! state file.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "../serve/client.rs"]
#[expect(dead_code, reason = "shared with the other tests")]
mod client;
mod daemon;
mod pmem;
mod reload;
mod signals;
mod start;
mod state;
