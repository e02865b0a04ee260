//! What answers carry for the network: the DSCP of their connection's class (docs/sources.md, E6:
//! every command and packet names its class).

use arbitration::Class;
use arbitration::classify::Classifier;

use crate::connection::{Connection, Stage};
use crate::context::Context;
use crate::driver::Driver;
use crate::policies::Policies;

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

impl<D: Driver> Connection<D> {
    /// The class of what the connection sends.
    pub(crate) fn network_class(&self, io: &Context<D>) -> Option<Class> {
        let Stage::Io(queue) = &self.stage else { return None };
        let (host, subsystem) = (&queue.shared.host_nqn, &queue.shared.subsystem_nqn);
        let policy = io.driver.resolve(&io.qos, host, subsystem, None);
        Some(Classifier::new(&io.qos.connection_class(&self.origin), policy.class).inherited())
    }

    /// Marks the socket with its class, if that has changed.
    pub(crate) fn mark_answers(&mut self, io: &mut Context<D>) {
        let Some(class) = self.network_class(io) else { return };
        let dscp = io.qos.dscp(class);
        // Low is what everybody has who says nothing: it stays unmarked unless it was asked for.
        let dscp = if class == Class::Low && !self.names_class(io) { 0 } else { dscp };
        if self.marked.unwrap_or(0) == dscp {
            return;
        }
        let priority = if dscp == 0 { 0 } else { priority(class) };
        if io.driver.mark(self.key, dscp, priority) {
            self.marked = Some(dscp);
        }
    }

    fn names_class(&self, io: &Context<D>) -> bool {
        io.qos.connection_class(&self.origin).named().is_some()
    }
}
