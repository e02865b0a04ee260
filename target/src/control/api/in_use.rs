//! The identities in use, which the configuration need not give.

use std::collections::BTreeMap;

use sluice_config::{Config, Namespace, Subsystem, derived_nguid};
use uuid::Uuid;

use crate::serve::engine::Engine;

/// The identities of the subsystems and namespaces that hosts see.
#[derive(Debug, Default)]
pub(super) struct InUse {
    /// The serial numbers by NQN.
    serials: BTreeMap<String, String>,
    /// UUID and NGUID by NQN and NSID.
    namespaces: BTreeMap<(String, u32), (Uuid, [u8; 16])>,
}

impl InUse {
    /// Asks a running target.
    pub(super) fn of(engine: &dyn Engine) -> Self {
        let mut found = Self::default();
        for subsystem in engine.subsystems() {
            for namespace in &subsystem.namespaces {
                // They are empty where they are not known yet.
                let parse = |text: &str| Uuid::try_parse(text).ok();
                if let (Some(uuid), Some(nguid)) = (parse(&namespace.uuid), parse(&namespace.nguid))
                {
                    let place = (subsystem.nqn.clone(), namespace.nsid);
                    found.namespaces.insert(place, (uuid, nguid.into_bytes()));
                }
            }
            found.serials.insert(subsystem.nqn, subsystem.serial);
        }
        found
    }

    /// Writes the identities into a configuration that leaves them out.
    pub(super) fn write_into(&self, config: &mut Config) {
        for Subsystem { nqn, serial, namespaces, .. } in &mut config.subsystems {
            *serial = serial.take().or_else(|| self.serials.get(nqn).cloned());
            for namespace in namespaces {
                if let Some((uuid, nguid)) = self.namespace(nqn, namespace) {
                    namespace.uuid.get_or_insert(uuid);
                    namespace.nguid.get_or_insert(nguid);
                }
            }
        }
    }

    /// Returns the running configuration `present`, with the identities in use where `next` sets one, and without
    /// identities that `next` leaves out, since they stay then.
    pub(super) fn as_given_by(&self, present: &Config, next: &Config) -> Config {
        let mut present = present.clone();
        let wanted: BTreeMap<&str, &Subsystem> =
            next.subsystems.iter().map(|subsystem| (subsystem.nqn.as_str(), subsystem)).collect();
        for subsystem in &mut present.subsystems {
            let serial = self.serials.get(&subsystem.nqn).cloned();
            let Some(wanted) = wanted.get(subsystem.nqn.as_str()) else {
                // It goes, and `next` may give its serial number to another one.
                subsystem.serial = subsystem.serial.take().or(serial);
                continue;
            };
            subsystem.serial = wanted.serial.as_ref().and(serial);
            let wanted: BTreeMap<Option<u32>, &Namespace> =
                wanted.namespaces.iter().map(|namespace| (namespace.nsid, namespace)).collect();
            for namespace in &mut subsystem.namespaces {
                let Some((uuid, nguid)) = self.namespace(&subsystem.nqn, namespace) else {
                    continue;
                };
                let Some(wanted) = wanted.get(&namespace.nsid) else {
                    // It goes, and `next` may give its identifiers to another one.
                    namespace.uuid.get_or_insert(uuid);
                    namespace.nguid.get_or_insert(nguid);
                    continue;
                };
                namespace.uuid = wanted.uuid.map(|_| uuid);
                let follows = derived_nguid(wanted.uuid.unwrap_or(uuid));
                let stays = wanted.nguid.unwrap_or(follows) == nguid;
                namespace.nguid = if stays { wanted.nguid } else { Some(nguid) };
            }
        }
        present
    }

    fn namespace(&self, nqn: &str, namespace: &Namespace) -> Option<(Uuid, [u8; 16])> {
        self.namespaces.get(&(nqn.to_owned(), namespace.nsid?)).copied()
    }
}
