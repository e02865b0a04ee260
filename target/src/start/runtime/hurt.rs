//! The hosts that would lose something by a change.

use std::collections::{BTreeMap, BTreeSet};

use fabric::Nanos;
use fabric::controller::{BackendId, ControllerSummary, LostHost, Service};
use sluice_config::{RegionConfig, answer};

use super::listeners::Listeners;
use crate::serve::engine::{HurtHosts, Loss, PmemState, RegionClient};
use crate::serve::shared::Shared;

/// Returns the hosts that would lose something. `pmem` tells the state of regions and their clients, `present_blocks` the
/// size that a device has now.
///
/// A region's clients count while they are connected: their rights to it end with their controllers.
pub(super) fn hosts(
    (shared, listeners): (&Shared, &Listeners),
    (pmem, present_blocks): (&dyn Fn() -> PmemState, &dyn Fn(BackendId) -> Option<u64>),
    loss: &Loss<'_>,
) -> HurtHosts {
    match *loss {
        Loss::Region(region, to) => {
            HurtHosts { connected: clients(&pmem(), region, to), lost: Vec::new() }
        }
        Loss::Size(nqn, nsid, size) if !shrinks(shared, (nqn, nsid), size, present_blocks) => {
            HurtHosts::default()
        }
        Loss::Size(nqn, nsid, _) | Loss::Namespace(nqn, nsid) => users_of(shared, nqn, nsid),
        Loss::Subsystem(nqn) => {
            users(shared, |_, c| c.subsystem == nqn, |_, lost| lost.path.subsystem == nqn)
        }
        Loss::Listener(endpoint) => {
            let Some(id) = listeners.id(endpoint) else { return HurtHosts::default() };
            let is_named = |service: &Service, name: &str| {
                service.listeners().any(|listener| listener.id == id && listener.name == name)
            };
            users(
                shared,
                |_, c| c.listener == id,
                |service, lost| is_named(service, &lost.path.listener),
            )
        }
        Loss::Authentication(nqn) => users(
            shared,
            |service, c| {
                // A TLS key proves nothing on a connection without TLS.
                c.subsystem == nqn && !service.has_secret(c.host) && !service.is_over_tls(c.admin)
            },
            |service, lost| {
                let host = &lost.path.host;
                lost.path.subsystem == nqn
                    && !service.has_secret(host)
                    && !service.has_tls_key(host)
            },
        ),
        Loss::Access { nqn, any, hosts } => {
            let hurt = shared.with_service(|service| service.hurt_by(nqn, any, hosts));
            users(
                shared,
                |_, c| hurt.contains(&c.id),
                |service, lost| {
                    lost.path.subsystem == nqn && service.lost_host_hurt_by(lost, any, hosts)
                },
            )
        }
    }
}

/// Returns the hosts that use a namespace.
pub(super) fn users_of(shared: &Shared, nqn: &str, nsid: u32) -> HurtHosts {
    users(
        shared,
        |service, c| c.subsystem == nqn && sees(service, c, nsid),
        |service, lost| lost.path.subsystem == nqn && service.lost_host_sees(lost, nsid),
    )
}

/// Returns the hosts with I/O controllers for which `connected` holds, and of the others the lost ones for
/// which `lost` holds.
fn users(
    shared: &Shared,
    connected: impl Fn(&Service, &ControllerSummary<'_>) -> bool,
    lost: impl Fn(&Service, &LostHost) -> bool,
) -> HurtHosts {
    let now = shared.clock.now();
    shared.with_service(|service| {
        let controllers = service.controllers().filter(|c| !c.discovery && connected(service, c));
        let connected: BTreeSet<String> = controllers.map(|c| c.host.to_owned()).collect();
        let mut left = BTreeMap::new();
        for host in service.lost_hosts(now) {
            let name = &host.path.host;
            let later = left.get(name).is_some_and(|other: &LostHost| other.since >= host.since);
            if !later && !connected.contains(name) && lost(service, &host) {
                left.insert(name.clone(), host);
            }
        }
        let lost = left.values().map(|host| shown(now, host)).collect();
        HurtHosts { connected: connected.into_iter().collect(), lost }
    })
}

pub(super) fn shown(now: Nanos, host: &LostHost) -> answer::LostHost {
    answer::LostHost {
        host: host.path.host.clone(),
        listener: host.path.listener.clone(),
        address: host.address.map(|address| address.to_string()),
        lost_seconds: now.since(host.since).as_secs(),
        left_seconds: host
            .until
            .since(now)
            .as_nanos()
            .div_ceil(1_000_000_000)
            .try_into()
            .unwrap_or(u64::MAX),
        restored: host.restored,
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

fn sees(service: &Service, controller: &ControllerSummary<'_>, nsid: u32) -> bool {
    service.namespaces(controller.id).get(nsid).is_some()
}

/// Returns whether a namespace would become smaller.
fn shrinks(
    shared: &Shared,
    (nqn, nsid): (&str, u32),
    size: Option<u64>,
    present_blocks: &dyn Fn(BackendId) -> Option<u64>,
) -> bool {
    let known = shared.with_service(|service| {
        let found = service.namespace(nqn, nsid)?;
        Some((found.geometry, found.backend))
    });
    let Some((geometry, backend)) = known else { return false };
    let wanted = match size {
        Some(size) => size,
        None => present_blocks(backend).map_or(u64::MAX, |blocks| geometry.format.bytes(blocks)),
    };
    wanted < geometry.bytes()
}

#[cfg(test)]
mod tests {
    use fabric::controller::HostPath;

    use super::*;
    use crate::serve::engine::{RegionFacts, RegionState};

    fn client(host: &str, connected: bool) -> RegionClient {
        RegionClient { host: host.into(), connected, ..RegionClient::default() }
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
        let (evicted, profile) = (Vec::new(), None);
        let state =
            PmemState { open, capacity: 0, reserved: 0, period: 0, regions, evicted, profile };
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

    /// The seconds since the loss and the seconds left add up to the whole time at every moment.
    #[test]
    fn seconds_of_lost_host_add_up() {
        let name = String::new;
        let path = HostPath { subsystem: name(), host: name(), listener: name() };
        let since = Nanos(5_000_000_001);
        let until = since.after(600_000_000_000);
        let host = LostHost { path, address: None, since, until, restored: false };
        for after in [0, 1, 999_999, 999_700_000, 999_999_999, 1_000_000_001, 599_999_999_999] {
            let seen = shown(since.after(after), &host);
            let sum = seen.lost_seconds + seen.left_seconds;
            assert!(sum == 600 || (sum == 601 && after % 1_000_000_000 == 0), "{after} ns: {sum}");
        }
    }
}
