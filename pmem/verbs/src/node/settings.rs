//! The settings of a data node.

use std::net::SocketAddr;

use pmem::capacity::Profile;
use pmem::monitor;
use pmem::one_sided::Address;
use pmem::token::{Iops, Tokens};

use crate::grant::Terms;
use crate::private_data::Secret;

/// The settings of a data node.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Address of an RDMA device, with the port to listen on; not an unspecified one.
    pub address: SocketAddr,
    /// The terms of all clients; each has its own limit.
    pub terms: Terms,
    /// The most clients at one time.
    pub clients: u32,
    /// C_L: the I/Os per second that one client can do by itself.
    pub local: Iops,
    /// The capacity that was measured before, in tokens of a period.
    pub profile: Profile,
    /// eta: the tokens by which the estimate of the capacity grows; none: it does not.
    pub increment: Tokens,
    /// M: periods by which the capacity is estimated.
    pub history: usize,
    /// Checks without news after which a client's tokens are given back.
    pub silence: u32,
    /// The secret of the node's connection to itself, which nobody else knows.
    pub secret: Secret,
}

impl Settings {
    /// Returns the monitor's settings, with the place of the pool's word.
    pub(super) fn monitor(&self, pool: Address) -> monitor::Settings {
        monitor::Settings {
            period: self.terms.period,
            interval: self.terms.interval,
            silence: self.silence,
            batch: self.terms.batch,
            ..monitor::Settings::new(self.local, pool)
        }
    }
}
