//! The interface to the credits of client nodes.
//!
//! The service has the log page and the command; sessions and their division are somebody else's.

use core::fmt;
use std::net::IpAddr;

use crate::Nanos;
use crate::nvme::node::{CreditPage, NamespaceBacklog};

/// Divides the credits of sessions among client nodes (docs/research/sources.md, D6, F5 and F6). Both methods are called
/// while the service is locked: they must be quick, and must not use the service.
pub trait NodeCredits: fmt::Debug + Send + Sync {
    /// Takes a node's report of its commands in flight and waiting at namespaces that it sees.
    fn report(&self, now: Nanos, node: &Node<'_>, backlog: &[NamespaceBacklog]);

    /// Returns a node's credits at namespaces that it sees.
    fn credits(
        &self,
        now: Nanos,
        node: &Node<'_>,
        nsids: &mut dyn Iterator<Item = u32>,
    ) -> CreditPage;
}

/// A client node, by one of its controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    /// The host's NQN, which names the node.
    pub host: &'a str,
    /// The subsystem's NQN.
    pub subsystem: &'a str,
    /// The address that the controller's admin queue came from, where the daemon told it.
    pub address: Option<IpAddr>,
}
