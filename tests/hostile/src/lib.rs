//! Hosts for tests on real sockets, on the pure host role: a host that keeps the rules ([`Queue`]), a host whose PDUs
//! are written by hand ([`Raw`]), hosts that try to exhaust a target's resources ([`Attack`]), and a host beside them
//! that verifies its data ([`innocent`]).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

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

/// Returns an address that stays free while a daemon ends and starts again: on a loopback address that no other test
/// uses, of this process or another one, and that no socket gets which asks for none.
///
/// # Errors
/// The system has no free port.
pub fn free_address() -> io::Result<SocketAddr> {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let ip = [127, 64 | high >> 2, low, NEXT.fetch_add(1, Ordering::Relaxed)];
    TcpListener::bind(SocketAddr::from((ip, 0)))?.local_addr()
}
