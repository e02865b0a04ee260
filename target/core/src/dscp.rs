//! The DSCP that answers carry for the network: that of their connection's class
//! (docs/sources.md, E6: every command and packet names its class).

use arbitration::Class;
use arbitration::classify::{Classifier, PolicyClass};

use crate::origin::Origin;
use crate::policies::Policies;

/// A connection's DSCP and its priority in this machine's own queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dscp {
    /// The DSCP; 0 for packets without one.
    pub(crate) dscp: u8,
    /// SO_PRIORITY, 0 to 6: the values that every process may set.
    pub(crate) priority: i32,
}

impl Dscp {
    /// Returns the DSCP of a connection's answers. `class` is the class by policies.
    pub(crate) fn of<P: Policies>(policies: &P, origin: &Origin, class: PolicyClass) -> Self {
        let connection = policies.connection_class(origin);
        let class = Classifier::new(&connection, class).inherited();
        // Low is the class of every host that says nothing: Low stays unmarked unless it was asked
        // for.
        if class == Class::Low && connection.named().is_none() {
            return Self { dscp: 0, priority: 0 };
        }
        let dscp = policies.dscp(class);
        Self { dscp, priority: if dscp == 0 { 0 } else { priority(class) } }
    }
}

/// Returns the priority by which this machine's own queues order a class's packets: 6 is that of
/// interactive traffic.
fn priority(class: Class) -> i32 {
    match class {
        Class::Urgent => 6,
        Class::High => 4,
        Class::Medium => 2,
        Class::Low => 0,
    }
}
