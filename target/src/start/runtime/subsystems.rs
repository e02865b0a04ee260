//! Subsystems that come and go, and the hosts that may use them.

use std::sync::Arc;

use fabric::controller::{BackendId, Namespace as FabricNamespace, SubsystemSpec};
use sluice_config::{AllowedHost, Subsystem, limited_hosts};

use super::namespaces::Namespaces;
use crate::disks::backings::Occasion;
use crate::serve::engine::{EngineError, SubsystemState};
use crate::sys::sync::lock;

/// The model number of a subsystem that has none of its own.
const MODEL: &str = "Sluicegate";

/// Adds a subsystem without its namespaces. Returns its serial number, which [`Backings::keep`]
/// stores.
///
/// [`Backings::keep`]: crate::disks::backings::Backings::keep
pub(super) fn add_bare(
    on: &Namespaces,
    subsystem: &Subsystem,
    occasion: Occasion,
) -> Result<String, EngineError> {
    let nqn = &subsystem.nqn;
    let identities = on.backings.identities();
    let serial = match &subsystem.serial {
        Some(serial) => serial.clone(),
        None => identities.serial(nqn, occasion == Occasion::Configured).map_err(|error| {
            EngineError::System(format!("no random serial number can be made: {error}"))
        })?,
    };
    let spec = SubsystemSpec {
        nqn: nqn.clone(),
        serial: serial.clone(),
        model: subsystem.model.clone().unwrap_or_else(|| MODEL.to_owned()),
        allow_any_host: subsystem.allow_any_host,
        hosts: subsystem.hosts.clone(),
        require_authentication: subsystem.require_authentication,
    };
    let now = on.shared.clock.now();
    let one = lock(&on.shared.change);
    on.shared.with_service(|service| service.add_subsystem(now, spec))?;
    on.shared.qos.add_subsystem(now, nqn);
    drop(one);
    identities.set_serial(nqn, &serial);
    Ok(serial)
}

/// Adds a subsystem with all its namespaces, or nothing. Returns its serial number.
pub(super) fn add(on: &Arc<Namespaces>, subsystem: &Subsystem) -> Result<String, EngineError> {
    let serial = add_bare(on, subsystem, Occasion::Added)?;
    let kept = on.backings.keep().map_err(|error| EngineError::System(error.to_string()));
    let mut namespaces = subsystem.namespaces.iter();
    let added = kept.and_then(|()| {
        namespaces.try_for_each(|namespace| on.add(&subsystem.nqn, namespace).map(drop))
    });
    if let Err(error) = added {
        remove(on, &subsystem.nqn)?;
        return Err(error);
    }
    Ok(serial)
}

/// Removes a subsystem with its namespaces.
pub(super) fn remove(on: &Namespaces, nqn: &str) -> Result<(), EngineError> {
    let shared = &on.shared;
    let one = lock(&shared.change);
    let now = shared.clock.now();
    let devices: Vec<BackendId> = shared.with_service(|service| {
        service
            .subsystem(nqn)
            .map(|s| s.namespaces.iter().map(|n| n.backend).collect())
            .unwrap_or_default()
    });
    shared.with_service(|service| service.remove_subsystem(now, nqn))?;
    shared.qos.remove_subsystem(now, nqn);
    shared.refresh();
    on.remove_entries_of(nqn);
    drop(one);
    on.retire_all_of(nqn, &devices);
    Ok(())
}

/// Returns the present subsystems with their namespaces.
pub(super) fn states(on: &Namespaces) -> Vec<SubsystemState> {
    // Reactors use the service too: thousands of namespaces are looked at outside of its lock.
    let all: Vec<(SubsystemSpec, Vec<Arc<FabricNamespace>>)> = on.shared.with_service(|service| {
        let namespaces = |all: Vec<&Arc<_>>| all.into_iter().map(Arc::clone).collect();
        let subsystems = service.subsystems();
        subsystems.map(|s| (s.spec.clone(), namespaces(s.namespaces))).collect()
    });
    let bound = |hosts: &[AllowedHost]| {
        let bound = hosts.iter().filter(|host| !host.sources.is_any());
        bound.map(|host| (host.nqn.clone(), host.sources.texts().collect())).collect()
    };
    let state = |(spec, namespaces): (SubsystemSpec, Vec<Arc<FabricNamespace>>)| SubsystemState {
        serial: spec.serial,
        model: spec.model,
        allow_any_host: spec.allow_any_host,
        require_authentication: spec.require_authentication,
        addresses: bound(&spec.hosts),
        rights: limited_hosts(&spec.hosts),
        hosts: spec.hosts.into_iter().map(|host| host.nqn).collect(),
        namespaces: on.states(&spec.nqn, &namespaces),
        nqn: spec.nqn,
        // The control plane knows.
        live: false,
    };
    all.into_iter().map(state).collect()
}
