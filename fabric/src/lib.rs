//! NVMe and NVMe over Fabrics as data and as pure state machines.
//!
//! Nothing in this crate reads a clock, opens a socket or starts a thread: bytes and the present
//! time go in, typed events and bytes come out. The daemon (`sluiced`), the command line's
//! initiator (`sluice bench`), the simulator, the property tests and the fuzzers all drive the
//! same code.
//!
//! - [`nvme`]: wire types of the NVMe base and NVM command set specifications.
//! - [`fabrics`]: wire types of NVMe over Fabrics: Connect, properties, discovery log page.
//! - [`dhchap`]: DH-HMAC-CHAP: secrets, groups, proofs.
//! - [`tls_psk`]: pre-shared keys of NVMe/TCP over TLS.
//! - [`key_file`]: a host's secrets and keys as text.
//! - [`nvm`]: the NVM command set: block formats, I/O commands, parsed and checked.
//! - [`queue`]: a queue of commands on any transport: the trait of all transports.
//! - [`tcp`]: NVMe/TCP: PDUs, digests, the connection in the target role and in the host role.
//! - [`rdma`]: NVMe/RDMA: the queue pair in the target role and in the host role.
//! - [`host`]: the host's side of a controller.
//! - [`controller`]: subsystems, controllers, admin commands, discovery.
#![forbid(unsafe_code)]

pub mod controller;
pub mod dhchap;
pub mod fabrics;
pub mod host;
mod interchange;
pub mod key_file;
pub mod nvm;
pub mod nvme;
pub mod queue;
pub mod rdma;
pub mod tcp;
pub mod tls_psk;

pub use units::Nanos;
