//! Credits of one session on one node, shared by all processes of the node (docs/research/sources.md,
//! D6). This is the protocol on words of memory.
#![deny(unsafe_code)]
#![expect(dead_code, reason = "the files that hold the words follow")]

mod layout;
mod queue;
#[cfg(test)]
mod steps;
mod sys;
mod tally;
#[cfg(test)]
mod tests;
mod tokens;
mod word;

pub use arbitration::credit::{Caps, Cost};
pub use layout::{LONGEST_VALIDITY, PROCESSES, SPOTS};
pub use tally::Amount;
