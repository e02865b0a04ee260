//! In-band authentication by DH-HMAC-CHAP, the target's side (NVMe base 2.0, section 8.13.5).
//!
//! [`Authentication`] is the state machine of one queue. The service has it stand before its commands:
//! where a host has secrets, each queue answers little before the host has proved on it that it knows
//! one. Those who fail have to wait before they may try again.

mod commands;
mod exchange;
mod gate;
mod message;
mod tries;

pub use exchange::{Authentication, Received, Sent};
pub(super) use gate::Gate;

#[cfg(test)]
mod tests;
