//! The connected hosts that would lose something by a change.

use std::collections::BTreeSet;

use fabric::controller::{ControllerSummary, Service};

use super::listeners::Listeners;
use crate::engine::Loss;
use crate::shared::Shared;

/// Returns the NQNs of the hosts, each once.
pub(super) fn hosts(shared: &Shared, listeners: &Listeners, loss: &Loss<'_>) -> Vec<String> {
    match *loss {
        Loss::Subsystem(nqn) => hosts_where(shared, |_, c| c.subsystem == nqn),
        Loss::Namespace(nqn, nsid) => {
            hosts_where(shared, |service, c| c.subsystem == nqn && sees(service, c, nsid))
        }
        Loss::Size(nqn, nsid, size) if shrinks(shared, nqn, nsid, size) => {
            hosts(shared, listeners, &Loss::Namespace(nqn, nsid))
        }
        Loss::Size(..) => Vec::new(),
        Loss::Listener(endpoint) => {
            let Some(id) = listeners.id(endpoint) else { return Vec::new() };
            hosts_where(shared, |_, c| c.listener == id)
        }
        Loss::Access { nqn, any, hosts } => {
            let refused = shared.with_service(|service| service.refused_by(nqn, any, hosts));
            hosts_where(shared, |_, c| refused.contains(&c.id))
        }
    }
}

/// Returns the hosts of I/O controllers for which `meant` holds.
fn hosts_where(
    shared: &Shared,
    meant: impl Fn(&Service, &ControllerSummary<'_>) -> bool,
) -> Vec<String> {
    let hosts: BTreeSet<String> = shared.with_service(|service| {
        let controllers = service.controllers().filter(|c| !c.discovery && meant(service, c));
        controllers.map(|c| c.host.to_owned()).collect()
    });
    hosts.into_iter().collect()
}

fn sees(service: &Service, controller: &ControllerSummary<'_>, nsid: u32) -> bool {
    service.namespaces(controller.id).get(nsid).is_some()
}

/// Says whether a namespace would become smaller.
fn shrinks(shared: &Shared, nqn: &str, nsid: u32, size: Option<u64>) -> bool {
    let known = shared.with_service(|service| {
        let found = service.namespace(nqn, nsid)?;
        Some((found.geometry, found.backend))
    });
    let Some((geometry, backend)) = known else { return false };
    let wanted = match size {
        Some(size) => size,
        None => {
            let device = shared.devices.get(backend);
            let blocks = device.and_then(|device| device.backend.present_blocks().ok());
            blocks.map_or(u64::MAX, |blocks| geometry.format.bytes(blocks))
        }
    };
    wanted < geometry.bytes()
}
