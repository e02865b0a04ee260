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

use std::fmt::Debug;
use std::str::FromStr;

use pmem_verbs::gate::Pace;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["node", address, capacity, interval, batch, reservations @ ..] => {
            let [capacity, interval, batch] = [capacity, interval, batch].map(|n| parsed(n));
            let reserved = reservations.iter().map(|n| parsed(n)).collect();
            node::serve(parsed(address), capacity, interval, batch, reserved);
        }
        ["client", address, number, seconds, window, best] => {
            let pace = Pace::Tokens { window: parsed(window), best_effort_window: parsed(best) };
            client::run(parsed(address), parsed(number), parsed(seconds), pace);
        }
        ["bare", address, number, seconds, window] => {
            let pace = Pace::Bare { window: parsed(window) };
            client::run(parsed(address), parsed(number), parsed(seconds), pace);
        }
        ["rights", address, number] => rights::run(parsed(address), parsed(number)),
        ["cheat", address, number, kind, stolen @ ..] => {
            let stolen: Vec<u64> = stolen.iter().map(|n| parsed(n)).collect();
            cheat::run(parsed(address), parsed(number), kind, &stolen);
        }
        other => panic!("node, client, bare, rights or cheat, not {other:?}"),
    }
}

fn parsed<T: FromStr<Err: Debug>>(word: &str) -> T {
    word.parse().unwrap()
}
