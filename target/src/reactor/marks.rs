//! What answers carry for the network: the DSCP of their connection's class (seed row E6).

use arbitration::Class;
use arbitration::classify::Classifier;

use super::Io;
use super::connection::{Connection, Stage};
use crate::socket;

/// The priority by which this machine's own queues order a class's packets (SO_PRIORITY): 6
/// (interactive) to 0, what every process may set.
fn priority(class: Class) -> i32 {
    match class {
        Class::Urgent => 6,
        Class::High => 4,
        Class::Medium => 2,
        Class::Low => 0,
    }
}

impl Connection {
    /// The class of what the connection sends.
    pub(super) fn network_class(&self, io: &Io) -> Option<Class> {
        let Stage::Io(queue) = &self.stage else { return None };
        let (host, subsystem) = (&queue.shared.host_nqn, &queue.shared.subsystem_nqn);
        let policy = io.qos.resolve(host, subsystem, None, None);
        Some(Classifier::new(&self.origin.class(&io.qos), policy.class).inherited())
    }

    /// Marks the socket with its class, if that has changed.
    pub(super) fn mark_answers(&mut self, io: &Io) {
        let Some(class) = self.network_class(io) else { return };
        let general = &io.qos.general;
        let dscp = if general.enabled && general.mark { general.dscp[class] } else { 0 };
        // Low is what everybody has who says nothing: it stays unmarked unless it was asked for.
        let dscp = if class == Class::Low && !self.names_class(io) { 0 } else { dscp };
        if self.marked.unwrap_or(0) == dscp {
            return;
        }
        let priority = if dscp == 0 { 0 } else { priority(class) };
        match socket::mark(&self.socket, self.peer.is_ipv6(), dscp, priority) {
            Ok(()) => self.marked = Some(dscp),
            Err(error) => tracing::warn!(peer = %self.peer, %error, "answers are not marked"),
        }
    }

    fn names_class(&self, io: &Io) -> bool {
        self.origin.class(&io.qos).named().is_some()
    }
}
