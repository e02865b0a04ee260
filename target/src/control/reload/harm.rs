//! The hosts that would lose something by a plan.

use std::collections::BTreeSet;

use sluice_config::Config;

use super::change::Change;
use super::regions::named;
use crate::serve::engine::{Engine, HurtHosts, Loss};
use crate::serve::host_keys::HostKeys;

/// Returns the losses of hosts by the changes that lead to `to`, with the hosts. `keys` are new keys of hosts, which come
/// with these changes.
pub(crate) fn harm<'a>(
    engine: &dyn Engine,
    changes: &'a [Change],
    to: &'a Config,
    keys: &HostKeys,
) -> Vec<(Loss<'a>, HurtHosts)> {
    let mut permissions = BTreeSet::new();
    let mut all = Vec::new();
    for change in changes {
        let loss = match change {
            Change::RemoveSubsystem(subsystem, _) => Loss::Subsystem(&subsystem.nqn),
            Change::RemoveNamespace(nqn, namespace, _) => Loss::Namespace(nqn, namespace.id()),
            Change::RemoveListener(listener, _) => Loss::Listener(listener.endpoint()),
            Change::Resize { nqn, nsid, to, .. } => Loss::Size(nqn, *nsid, *to),
            Change::RemoveHost(nqn, _)
            | Change::AddHost(nqn, _)
            | Change::SetHost { nqn, .. }
            | Change::AnyHost(nqn, false) => {
                permissions.insert(nqn.as_str());
                continue;
            }
            Change::RequireAuthentication(nqn, true) => {
                let loss = Loss::Authentication(nqn);
                let mut hosts = engine.hosts_hurt(&loss);
                let of_keyring = engine.hosts_of_keyring();
                hosts.lost.retain(|lost| !of_keyring.contains(&lost.host));
                hosts.connected.retain(|host| !keys.contains_key(host));
                hosts.lost.retain(|lost| !keys.contains_key(&lost.host));
                all.push((loss, hosts));
                continue;
            }
            Change::Regions { from, to } => {
                let losses = from.iter().filter_map(|old| {
                    let new = named(to, &old.name);
                    (!new.is_some_and(|new| old.is_like(new))).then_some(Loss::Region(old, new))
                });
                all.extend(losses.map(|loss| (loss, engine.hosts_hurt(&loss))));
                continue;
            }
            _ => continue,
        };
        all.push((loss, engine.hosts_hurt(&loss)));
    }
    // Of several changes of a subsystem's permissions, only the result counts.
    for nqn in permissions {
        let Some(next) = to.subsystems.iter().find(|subsystem| subsystem.nqn == nqn) else {
            continue;
        };
        let loss = Loss::Access { nqn, any: next.allow_any_host, hosts: next.hosts.as_slice() };
        all.push((loss, engine.hosts_hurt(&loss)));
    }
    all.retain(|(_, hosts)| !hosts.is_empty());
    all
}
