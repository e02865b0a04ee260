//! The settings of quality of service, as the core sees them: a value that is replaced as a whole.

use std::fmt;
use std::sync::Arc;

use arbitration::Class;
use arbitration::classify::{ConnectionClass, PolicyClass};
use arbitration::session::Session;
use arbitration::settings::OrderSettings;

use super::origin::Origin;
use crate::stats::counters::PerReactor;

/// A session with its statistics.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The session.
    pub session: Arc<Session>,
    /// Statistics of the commands that are charged to the session.
    pub stats: Arc<PerReactor>,
}

impl Tenant {
    /// Makes the tenant of a session, with statistics for so many reactors.
    #[must_use]
    pub fn new(session: &Arc<Session>, reactors: usize) -> Self {
        Self { session: Arc::clone(session), stats: Arc::new(PerReactor::new(reactors)) }
    }
}

/// The settings for one host's commands to one namespace.
#[derive(Clone, Debug)]
pub struct Tenancy {
    /// Classes that the commands may have.
    pub class: PolicyClass,
    /// Session that the commands are charged to.
    pub tenant: Tenant,
    /// Whether a Flush ends a container, as an Output Mark does.
    pub flush_is_output: bool,
}

/// The settings that concern all connections.
pub trait Policies: fmt::Debug {
    /// Returns the version of the settings that connections resolve for themselves: when it changes, they resolve
    /// them again.
    fn flows_version(&self) -> u64;
    /// Returns whether commands wait for their turns at all.
    fn enabled(&self) -> bool;
    /// Returns the order of the classes.
    fn order(&self) -> &OrderSettings;
    /// Returns the number of commands that may wait at one time, all reactors together.
    fn queue(&self) -> u32;
    /// Returns the DSCP of a class's packets; 0 if packets are not marked.
    fn dscp(&self, class: Class) -> u8;
    /// Returns the class information in a connection's origin.
    fn connection_class(&self, origin: &Origin) -> ConnectionClass;
}
