//! In-band authentication by DH-HMAC-CHAP, the target's side (NVMe base 2.0, section 8.13.5).
//!
//! [`Authentication`] is the state machine of one queue. The service consults it before it executes
//! a command: if a host has secrets, each queue answers few commands before the host has
//! authenticated on it. After a failure the host must wait before it may try again.

mod commands;
mod exchange;
mod gate;
mod message;
mod tries;

pub use exchange::{Authentication, ReceiveOutcome, SendOutcome};
pub(super) use gate::Gate;

#[cfg(test)]
mod tests;
