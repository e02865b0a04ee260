//! Credits of one session on one node, shared by all processes of the node (docs/research/sources.md,
//! D6).
//!
//! A node's agent holds an allowance of a target: operations and payload that the node may have in
//! flight. It publishes the allowance in a file in memory, a [`Segment`], and each process of the node
//! attaches to it as a [`Pool`]. Before a process sends a command it takes the command's credits, and
//! it returns them when the command completes. A process that does not know the size takes the credits of the largest
//! command, and returns the unneeded ones ([`Held::keep`]). If too few are free, the process enters a wait queue:
//! it sleeps ([`Pool::wait`]), or polls its spot in an event loop ([`Pool::enqueue`]). Credits go to
//! waiters in the order of arrival.
//!
//! # The allowance ends
//!
//! An allowance is valid until its expiry, which the agent moves forward. When it has expired, or the
//! segment is closed, every take succeeds and all waiters are released: hosts are then bounded by the
//! target alone. So no host is blocked by an agent that is lost, or that cannot reach the target. The
//! expiry is a time of `CLOCK_BOOTTIME`, which nobody can set.
//!
//! # A killed process
//!
//! A process may be killed at any instruction. There is no lock that it could leave locked, and no sum
//! that it could leave wrong: each process writes its own slot, and sums are made when they are needed
//! (`tally.rs`). A process's slot and spots record its credits exactly; clearing them returns the
//! credits, and may be repeated. If a process is killed while it hands credits to a waiter, the next
//! one completes the hand-over (`queue.rs`).
//!
//! A process has locked the byte of the file that belongs to its slot. The kernel unlocks it when the
//! process has ended (`sys/lock.rs`), and the agent then clears the slot ([`Segment::reclaim`]).
//!
//! # Trust
//!
//! A user who may write to the file can take all credits, release all waiters, and end attached
//! processes by truncating the file (SIGBUS). Nothing else can happen: values in the file are never
//! used as an address, or as an index or the bound of a loop without a check. The mode of the file
//! should allow the hosts' users alone.
#![deny(unsafe_code)]

mod error;
mod file;
mod layout;
mod pool;
mod queue;
mod segment;
#[cfg(test)]
mod steps;
mod sys;
mod tally;
#[cfg(test)]
mod tests;
mod tokens;
mod word;

pub use arbitration::credit::{Caps, Cost};
pub use error::Error;
pub use layout::{LONGEST_VALIDITY, PROCESSES, SPOTS};
pub use pool::{Held, Pool, Spot};
pub use segment::{Backlog, Segment, Statistics};
pub use tally::Amount;
