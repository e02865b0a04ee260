//! The settings of quality of service, as the reactors see them.

use std::collections::HashMap;

use arbitration::classify::{ConnectionClass, PolicyClass, class_of_dscp};
use arbitration::settings::{ClassDscps, OrderSettings};
use sluice_core::{Origin, Policies, Tenancy, Tenant};
use units::Class;

/// The settings of quality of service. They do not change while a model runs.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) enabled: bool,
    pub(crate) order: OrderSettings,
    pub(crate) queue: u32,
    pub(crate) mark: bool,
    pub(crate) dscp: ClassDscps,
    /// The class and the session of each host's commands, by the host's NQN.
    pub(crate) hosts: HashMap<String, (Option<Class>, Tenant)>,
    pub(crate) root: Tenant,
    /// Whether a Flush ends a container, by namespace.
    pub(crate) flush_is_output: Vec<bool>,
}

impl Rules {
    /// Returns what holds for the commands of a host to a namespace.
    pub(crate) fn tenancy(&self, host: &str, nsid: Option<u32>) -> Tenancy {
        let known = self.hosts.get(host);
        let index = nsid.and_then(|nsid| usize::try_from(nsid.checked_sub(1)?).ok());
        let flush = index.and_then(|index| self.flush_is_output.get(index));
        Tenancy {
            class: PolicyClass {
                class: known.and_then(|(class, _)| *class),
                max_class: None,
                urgent: None,
            },
            tenant: known.map_or(&self.root, |(_, tenant)| tenant).clone(),
            flush_is_output: flush.copied().unwrap_or(false),
        }
    }
}

impl Policies for Rules {
    fn flows_version(&self) -> u64 {
        1
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
        ConnectionClass {
            priority: origin.priority,
            weighted: origin.weighted,
            dscp: origin.tos.and_then(|tos| class_of_dscp(&self.dscp, tos >> 2)),
            listener: None,
        }
    }
}
