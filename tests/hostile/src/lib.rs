//! Hosts for tests on real sockets, on the pure host role: one that keeps the rules ([`Queue`]),
//! one whose PDUs are written by hand ([`Raw`]), hosts that take what they can get of a target
//! ([`Attack`]), and one beside them that verifies its data ([`innocent`]).

mod attack;
mod authentication;
pub mod commands;
mod identity;
pub mod innocent;
mod queue;
mod raw;
mod stamped;

pub use attack::{Attack, Target};
pub use authentication::Failed;
pub use identity::Identity;
pub use queue::{Answer, Queue};
pub use raw::{Raw, Reply, Way};
