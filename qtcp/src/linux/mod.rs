//! Linux sockets: their reports about the network, and the settings that a controller makes (stage
//! S6).
//!
//! - [`Info`]: the kernel's information on a connection (`TCP_INFO`).
//! - [`Sampler`]: two readings of [`Info`] make an [`Observation`](crate::Observation) for each
//!   direction.
//! - [`options`]: the kernel's own congestion control, the pacing rate, the unsent bytes of a
//!   socket.
//! - [`Offer`]: which of these features the running kernel has, and how an administrator can
//!   replace a missing one.
//!
//! # How true the marks are
//!
//! A sender's knowledge of congestion marks depends on both ends:
//!
//! | connection | marks of sent data ([`Sample::out`]) | marks of received data ([`Sample::into`]) |
//! |---|---|---|
//! | `dctcp` at both ends | to the packet (RFC 8257) | to the packet from Linux 6.18 |
//! | AccECN at both ends (`tcp_ecn=3`) | to the packet | to the packet |
//! | ECN of RFC 3168 | latched: after a mark the peer echoes on every acknowledgement until it sees CWR, about a round trip later, so that a single mark counts for up to a window of packets | to the packet from Linux 6.18, else unknown |
//! | without ECN | none | none |
//!
//! The receiving end counts the marks of the packets themselves, independent of its echo.

mod info;
mod offer;
pub mod options;
mod sample;
#[expect(
    unsafe_code,
    reason = "socket options that neither std nor nix has, behind safe functions"
)]
mod sys;
mod tcp_info;

pub use info::Info;
pub use offer::{Dctcp, Offer, refusal};
pub use sample::{Sample, Sampler};
