//! The connected hosts that would lose something by a change.

use std::collections::BTreeSet;

use fabric::controller::{ControllerSummary, Service};

use super::listeners::Listeners;
use crate::config::RegionConfig;
use crate::engine::{Loss, PmemState, RegionClient};
use crate::shared::Shared;

/// Returns the NQNs of the hosts, each once. `pmem` tells the state of regions and their clients.
pub(super) fn hosts(
    shared: &Shared,
    listeners: &Listeners,
    pmem: &dyn Fn() -> PmemState,
    loss: &Loss<'_>,
) -> Vec<String> {
    match *loss {
        Loss::Subsystem(nqn) => hosts_where(shared, |_, c| c.subsystem == nqn),
        Loss::Namespace(nqn, nsid) => {
            hosts_where(shared, |service, c| c.subsystem == nqn && sees(service, c, nsid))
        }
        Loss::Size(nqn, nsid, size) if shrinks(shared, nqn, nsid, size) => {
            hosts(shared, listeners, pmem, &Loss::Namespace(nqn, nsid))
        }
        Loss::Size(..) => Vec::new(),
        Loss::Listener(endpoint) => {
            let Some(id) = listeners.id(endpoint) else { return Vec::new() };
            hosts_where(shared, |_, c| c.listener == id)
        }
        Loss::Region(region, to) => clients(&pmem(), region, to),
        Loss::Access { nqn, any, hosts } => {
            let hurt = shared.with_service(|service| service.hurt_by(nqn, any, hosts));
            hosts_where(shared, |_, c| hurt.contains(&c.id))
        }
    }
}

/// Returns the NQNs of connected clients, each once, that lose something of a region where it becomes
/// another one, or without that goes away.
fn clients(state: &PmemState, region: &RegionConfig, to: Option<&RegionConfig>) -> Vec<String> {
    let Some(now) = state.regions.iter().find(|now| now.name == region.name) else {
        return Vec::new();
    };
    let bytes = now.open.as_ref().map_or(0, |facts| facts.bytes);
    let keeps = |to: &RegionConfig, client: &RegionClient| {
        let shrinks = to.size.is_some_and(|size| size < bytes);
        region.is_same_memory(to) && !shrinks && to.hosts.contains(&client.host)
    };
    let loses =
        |client: &&RegionClient| client.connected && !to.is_some_and(|to| keeps(to, client));
    let hosts: BTreeSet<&String> = now.clients.iter().filter(loses).map(|c| &c.host).collect();
    hosts.into_iter().cloned().collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{RegionFacts, RegionState};

    fn client(host: &str, connected: bool) -> RegionClient {
        RegionClient {
            grant: 0,
            host: host.into(),
            address: None,
            rights: "read",
            reservation: 0,
            limit: None,
            connected,
            completed: 0,
            last_period: 0,
            missed: 0,
        }
    }

    /// Checks who loses something by each change of a region that three clients use, one of them
    /// without a connection.
    #[test]
    fn connected_clients_lose_what_a_change_takes() {
        let clients =
            vec![client("b", true), client("a", true), client("a", true), client("c", false)];
        let facts = RegionFacts { bytes: 8192, kind: "memory".into() };
        let region = RegionState { name: "log".into(), open: Ok(facts), clients };
        let (open, regions) = (Ok(()), vec![region]);
        let state = PmemState { open, capacity: 0, reserved: 0, period: 0, regions };
        let hosts = ["a", "b", "c"].map(str::to_owned).to_vec();
        let path = Some("/r".into());
        let from = RegionConfig { name: "log".into(), path, hosts, ..RegionConfig::default() };
        let lose = |change: fn(&mut RegionConfig)| {
            let mut to = from.clone();
            change(&mut to);
            super::clients(&state, &from, Some(&to))
        };
        assert_eq!(
            super::clients(&state, &from, None),
            ["a", "b"],
            "each once, connected ones only"
        );
        for (change, lost) in [
            ((|_| {}) as fn(&mut RegionConfig), &[][..]),
            (|to| to.size = Some(4096), &["a", "b"]),
            (|to| to.size = Some(8192), &[]),
            (|to| to.path = Some("/s".into()), &["a", "b"]),
            (|to| to.read_only = true, &["a", "b"]),
            (|to| to.create = true, &[]),
            (|to| to.limit = Some(1), &[]),
            (|to| to.hosts = vec!["b".into()], &["a"]),
        ] {
            assert_eq!(lose(change), lost);
        }
        let other = RegionConfig { name: "other".into(), ..from.clone() };
        assert!(super::clients(&state, &other, None).is_empty());
    }
}
