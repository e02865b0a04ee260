//! Which connected hosts a change would take something from.

use std::collections::BTreeSet;

use fabric::controller::{ControllerSummary, Service};

use super::Runtime;
use crate::engine::Loss;
use crate::shared::lock;

/// The NQNs of the hosts, each once.
pub(super) fn hosts(runtime: &Runtime, loss: &Loss<'_>) -> Vec<String> {
    match *loss {
        Loss::Subsystem(nqn) => hosts_where(runtime, |_, c| c.subsystem == nqn),
        Loss::Namespace(nqn, nsid) => {
            hosts_where(runtime, |service, c| c.subsystem == nqn && sees(service, c, nsid))
        }
        Loss::Size(nqn, nsid, size) if shrinks(runtime, nqn, nsid, size) => {
            hosts(runtime, &Loss::Namespace(nqn, nsid))
        }
        Loss::Size(..) => Vec::new(),
        Loss::Listener(address) => {
            let listeners = lock(&runtime.listeners);
            let found = listeners.iter().find(|known| known.listener.address == address);
            let Some(id) = found.map(|listening| listening.id) else { return Vec::new() };
            drop(listeners);
            hosts_where(runtime, |_, c| c.listener == id)
        }
        Loss::Host(nqn, host) => {
            let any = permissions(runtime, nqn).is_none_or(|(any, _)| any);
            hosts_where(runtime, |_, c| c.subsystem == nqn && c.host == host && !any)
        }
        Loss::UnlistedHosts(nqn) => {
            let (_, listed) = permissions(runtime, nqn).unwrap_or_default();
            let is_listed = |host: &str| listed.iter().any(|known| known == host);
            hosts_where(runtime, |_, c| c.subsystem == nqn && !is_listed(c.host))
        }
    }
}

/// Whether any host may use a subsystem, and the hosts that may by name.
fn permissions(runtime: &Runtime, nqn: &str) -> Option<(bool, Vec<String>)> {
    runtime.shared.with_service(|service| {
        let spec = service.subsystem(nqn)?.spec;
        Some((spec.allow_any_host, spec.hosts.clone()))
    })
}

/// The hosts of I/O controllers for which `meant` holds.
fn hosts_where(
    runtime: &Runtime,
    meant: impl Fn(&Service, &ControllerSummary<'_>) -> bool,
) -> Vec<String> {
    let hosts: BTreeSet<String> = runtime.shared.with_service(|service| {
        let controllers = service.controllers().filter(|c| !c.discovery && meant(service, c));
        controllers.map(|c| c.host.to_owned()).collect()
    });
    hosts.into_iter().collect()
}

fn sees(service: &Service, controller: &ControllerSummary<'_>, nsid: u32) -> bool {
    service.namespaces(controller.id).get(nsid).is_some()
}

/// Whether a namespace would become smaller.
fn shrinks(runtime: &Runtime, nqn: &str, nsid: u32, size: Option<u64>) -> bool {
    let known = runtime.shared.with_service(|service| {
        let found = service.namespace(nqn, nsid)?;
        Some((found.geometry, found.backend))
    });
    let Some((geometry, backend)) = known else { return false };
    let wanted = match size {
        Some(size) => size,
        None => {
            let device = runtime.shared.devices.get(backend);
            let blocks = device.and_then(|device| device.backend.present_blocks().ok());
            blocks.map_or(u64::MAX, |blocks| geometry.format.bytes(blocks))
        }
    };
    wanted < geometry.bytes()
}
