//! The settings of quality of service of a simulated target.

use std::collections::{HashMap, HashSet};

use arbitration::Class;
use arbitration::classify::{ConnectionClass, PolicyClass, class_of_dscp};
use arbitration::settings::{ClassDscps, OrderSettings};

use crate::machine::origin::Origin;
use crate::machine::policies::{Policies, Tenancy, Tenant};

/// The settings of quality of service, by the hosts' NQNs.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The version of the settings.
    pub version: u64,
    /// Whether commands wait for their turns at all.
    pub enabled: bool,
    /// The order of the classes.
    pub order: OrderSettings,
    /// Commands that may wait in the whole target.
    pub queue: u32,
    /// The DSCP of each class: connections that come with it are of the class.
    pub dscp: ClassDscps,
    /// Whether a class's packets carry its DSCP.
    pub mark: bool,
    /// The class of commands that name none, of hosts that [`Self::classes`] does not list.
    pub class: Option<Class>,
    /// The class of a host's commands that name none.
    pub classes: HashMap<String, Class>,
    /// The session of hosts that [`Self::tenants`] does not list.
    pub tenant: Tenant,
    /// The session of a host's commands.
    pub tenants: HashMap<String, Tenant>,
    /// Namespaces where a Flush ends a container.
    pub flush_is_output: HashSet<u32>,
}

impl Rules {
    /// Makes rules that charge all commands to one session, and give a class only to commands that name one.
    #[must_use]
    pub fn new(tenant: Tenant) -> Self {
        Self {
            version: 1,
            enabled: true,
            order: OrderSettings::default(),
            queue: 4096,
            dscp: ClassDscps::default(),
            mark: false,
            class: None,
            classes: HashMap::new(),
            tenant,
            tenants: HashMap::new(),
            flush_is_output: HashSet::new(),
        }
    }

    /// Returns the settings for a host's commands to a namespace.
    pub(super) fn tenancy(&self, host: &str, nsid: Option<u32>) -> Tenancy {
        let class = self.classes.get(host).copied().or(self.class);
        Tenancy {
            class: PolicyClass { class, max_class: None, urgent: None },
            tenant: self.tenants.get(host).unwrap_or(&self.tenant).clone(),
            flush_is_output: nsid.is_some_and(|nsid| self.flush_is_output.contains(&nsid)),
        }
    }
}

impl Policies for Rules {
    fn flows_version(&self) -> u64 {
        self.version
    }

    fn enabled(&self) -> bool {
        self.enabled
    }

    fn order(&self) -> &OrderSettings {
        &self.order
    }

    fn queue(&self) -> u32 {
        self.queue
    }

    fn dscp(&self, class: Class) -> u8 {
        if self.enabled && self.mark { self.dscp[class] } else { 0 }
    }

    fn connection_class(&self, origin: &Origin) -> ConnectionClass {
        let Origin { priority, weighted, tos, .. } = *origin;
        let dscp = tos.and_then(|tos| class_of_dscp(&self.dscp, tos >> 2));
        ConnectionClass { priority, weighted, dscp, listener: None }
    }
}
