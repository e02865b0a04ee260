//! A data node and its clients as processes of their own, with real engines, a real monitor and real
//! one-sided operations.
//!
//! usage: guarantees node ADDRESS CAPACITY INTERVAL_MS BATCH RESERVATION...
//!        guarantees client ADDRESS NUMBER SECONDS WINDOW BEST_EFFORT_WINDOW
//!        guarantees bare ADDRESS NUMBER SECONDS WINDOW
//!        guarantees rights ADDRESS NUMBER
//!        guarantees cheat ADDRESS NUMBER KIND [STOLEN_ADDRESS STOLEN_KEY]
//!
//! The data node serves clients 0, 1, … with these reservations, in I/Os of a second, of which the last may
//! write; with a capacity of 0 it has no monitor. It obeys lines of its input: `revoke NUMBER` ends a client's rights and not its
//! connection, `stop` and `start` end the monitor and make another one, `end` ends it.
//!
//! A `client` and a `bare` one, which has no engine, read 4 KiB at a time as fast as they may, and
//! print their I/Os in each second. `rights` tries every operation that the last client may do. A
//! `cheat` breaks a rule, and fails if it succeeds.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test: it ends at the first thing that is wrong"
)]

mod cheat;
mod client;
mod common;
mod node;
mod rights;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["node", address, capacity, interval, batch, reservations @ ..] => {
            let [capacity, interval, batch] =
                [capacity, interval, batch].map(|n| n.parse().unwrap());
            let reserved = reservations.iter().map(|n| n.parse().unwrap()).collect();
            node::serve(address.parse().unwrap(), capacity, interval, batch, reserved);
        }
        ["client", address, rest @ ..] => {
            let rest: Vec<u32> = rest.iter().map(|n| n.parse().unwrap()).collect();
            let [number, seconds, window, best] = rest[..] else { panic!("{rest:?}") };
            client::run(address.parse().unwrap(), number, seconds, window, Some(best));
        }
        ["bare", address, rest @ ..] => {
            let rest: Vec<u32> = rest.iter().map(|n| n.parse().unwrap()).collect();
            let [number, seconds, window] = rest[..] else { panic!("{rest:?}") };
            client::run(address.parse().unwrap(), number, seconds, window, None);
        }
        ["rights", address, number] => {
            rights::run(address.parse().unwrap(), number.parse().unwrap());
        }
        ["cheat", address, number, kind, stolen @ ..] => {
            let stolen: Vec<u64> = stolen.iter().map(|n| n.parse().unwrap()).collect();
            cheat::run(address.parse().unwrap(), number.parse().unwrap(), kind, &stolen);
        }
        other => panic!("node, client, bare, rights or cheat, not {other:?}"),
    }
}
