//! The DSCP of answers on the network: the DSCP of their connection's class (docs/research/sources.md, E6: every
//! command and packet names its class).

use std::sync::Arc;

use arbitration::Class;
use arbitration::classify::Classifier;
use fabric::controller::ControllerShared;

use crate::machine::driver::Driver;
use crate::machine::key::Key;
use crate::machine::origin::Origin;
use crate::machine::policies::Policies;
use crate::reactor::context::Context;

/// A connection's DSCP and its priority in this machine's own queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dscp {
    /// The DSCP; 0 for packets without one.
    dscp: u8,
    /// SO_PRIORITY, 0 to 6: the values that every process may set.
    priority: i32,
}

impl Dscp {
    /// Returns the DSCP of the answers of a connection of a class. `is_named` says whether the
    /// connection itself names a class.
    fn of(policies: &impl Policies, class: Class, is_named: bool) -> Self {
        // Low is the class of every host that says nothing: Low stays unmarked unless it was asked
        // for.
        if class == Class::Low && !is_named {
            return Self { dscp: 0, priority: 0 };
        }
        let dscp = policies.dscp(class);
        Self { dscp, priority: if dscp == 0 { 0 } else { priority(class) } }
    }
}

/// The DSCP of a queue's answers.
#[derive(Debug)]
pub(crate) struct AnswerDscp {
    controller: Arc<ControllerShared>,
    origin: Origin,
    /// The DSCP that was set last; none before the first.
    set: Option<Dscp>,
}

impl AnswerDscp {
    /// Makes the DSCP of a controller's queue, which is not set yet.
    pub(crate) fn new(controller: Arc<ControllerShared>, origin: Origin) -> Self {
        Self { controller, origin, set: None }
    }

    /// Sets the DSCP by the present settings, if that has changed. Returns the connection's class.
    pub(crate) fn set<D: Driver>(&mut self, io: &mut Context<D>, key: Key) -> Class {
        let (host, subsystem) = (&self.controller.host_nqn, &self.controller.subsystem_nqn);
        let policy = io.driver.resolve(&io.policies, &self.origin, host, subsystem, None).class;
        let policy = policy.at_most(self.controller.max_class());
        let connection = io.policies.connection_class(&self.origin);
        let class = Classifier::new(&connection, policy).inherited();
        let dscp = Dscp::of(&*io.policies, class, connection.named().is_some());
        let before = self.set.map_or(0, |dscp| dscp.dscp);
        if before != dscp.dscp && io.driver.set_dscp(key, dscp.dscp, dscp.priority) {
            self.set = Some(dscp);
        }
        class
    }
}

/// Returns the priority of a class's packets in this machine's own queues: 6 is the priority of interactive
/// traffic.
fn priority(class: Class) -> i32 {
    match class {
        Class::Urgent => 6,
        Class::High => 4,
        Class::Medium => 2,
        Class::Low => 0,
    }
}
