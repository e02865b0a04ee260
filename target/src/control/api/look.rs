//! Methods that show the daemon, its subsystems, namespaces, listeners and hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use sluice_config::answer::{self, Authentication, HostKey, NamespaceRow, Nothing};
use sluice_config::{DEFAULT_LINK, Listener, channel_name, params};

use super::Control;
use super::in_use::InUse;
use super::protocol::Failure;
use crate::control::ready;
use crate::control::store::{LiveObjects, ObjectId};
use crate::control::unproved::{self, Allowed};
use crate::serve::engine::{
    Availability, ListenerState, NamespaceState, PmemState, ReactorState, SessionState,
    SubsystemState,
};
use crate::serve::host_keys::{self, HostKeys, differing};
use crate::serve::qos::notices::{self, LONG_WAIT};
use crate::sys::version::{COMMIT, VERSION};

impl Control {
    /// Answers `status`.
    pub(super) fn status(&self) -> answer::Status {
        let engine = self.engine();
        let statistics = engine.statistics();
        let subsystems = engine.subsystems();
        let listeners = engine.listeners();
        let regions = region_problems(engine.pmem_config().general.address, &engine.pmem());
        let not_in_force = engine.reservations_not_in_force();
        let waits = waits(&engine.qos().sessions);
        let keys = self.key_problems(&Allowed::by(&subsystems));
        let others = [regions, waits, keys, engine.unstored()].concat();
        let in_state = |state| {
            let namespaces = subsystems.iter().flat_map(|s| &s.namespaces);
            namespaces.filter(|n| n.state == state).count()
        };
        answer::Status {
            version: VERSION.to_owned(),
            commit: COMMIT.to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
            durable: self.durable,
            live_changes: self.live_objects().len(),
            listeners: listeners.len(),
            subsystems: subsystems.len(),
            namespaces: subsystems.iter().map(|s| s.namespaces.len()).sum(),
            namespaces_unavailable: in_state(Availability::Unavailable),
            namespaces_with_errors: in_state(Availability::Errors),
            problems: problems(&listeners, &subsystems, &not_in_force, &others),
            connections: engine.connections().len(),
            accepted: statistics.accepted,
            protocol_errors: statistics.protocol_errors,
            keep_alive_expired: statistics.keep_alive_expired,
            reactors: statistics.reactors.iter().map(reactor).collect(),
            file_systems: engine.file_systems(),
        }
    }

    /// Lists the problems of hosts' secrets and TLS keys, a line for each.
    fn key_problems(&self, allowed: &Allowed<'_>) -> Vec<String> {
        let folder = self.first.target.host_keys.as_deref();
        let unread = folder.and_then(|folder| host_keys::check_folder(folder).err());
        let unread = unread.map(|error| format!("secrets of hosts: {error}"));
        let unallowed = unproved::unallowed(&self.engine().host_keys(), allowed);
        unread.into_iter().chain(unproved::lines(&unallowed)).collect()
    }

    /// Answers `config.show`. The identities in use are in it, so that another daemon with this file
    /// shows hosts the same disks.
    pub(super) fn configuration(&self) -> answer::Configuration {
        let mut config = self.live().as_file();
        InUse::of(self.engine()).write_into(&mut config);
        answer::Configuration { text: sluice_config::render(&config) }
    }

    /// Answers `shutdown`.
    pub(super) fn shutdown(&self, asked: &params::Shutdown) -> Result<Nothing, Failure> {
        self.told_to_end.store(true, Relaxed);
        self.engine().shutdown(asked.now);
        Ok(Nothing {})
    }

    /// Answers `subsystem.list`.
    pub(super) fn subsystem_list(&self) -> Vec<SubsystemState> {
        let live = self.live_objects();
        let row = |s: SubsystemState| SubsystemState { live: live.has_part_of(&s.nqn), ..s };
        self.engine().subsystems().into_iter().map(row).collect()
    }

    /// Answers `namespace.list`.
    pub(super) fn namespace_list(&self, asked: &params::OfSubsystem) -> Vec<NamespaceRow> {
        let only = &asked.subsystem;
        self.namespace_rows(|nqn, _| only.as_ref().is_none_or(|only| only == nqn))
    }

    /// Answers `namespace.retry`.
    pub(super) fn namespace_retry(
        &self,
        asked: &params::NamespaceRetry,
    ) -> Result<Vec<NamespaceRow>, Failure> {
        let params::NamespaceRetry { subsystem: nqn, nsid } = asked;
        if nsid.is_some() && nqn.is_none() {
            return Err(Failure::invalid("`nsid` alone names no namespace: give `subsystem` too"));
        }
        let meant = |known: &str, row: &NamespaceState| {
            nqn.as_ref().is_none_or(|nqn| nqn == known) && nsid.is_none_or(|n| n == row.nsid)
        };
        let subsystems = self.engine().subsystems();
        let named =
            subsystems.iter().flat_map(|s| s.namespaces.iter().map(|n| (s.nqn.as_str(), n)));
        let tried: Vec<(String, u32)> = named
            .clone()
            .filter(|(known, row)| meant(known, row) && row.state == Availability::Unavailable)
            .map(|(known, row)| (known.to_owned(), row.nsid))
            .collect();
        let any = named.into_iter().any(|(known, row)| meant(known, row));
        if let (false, Some(nqn)) = (any, nqn) {
            let what = nsid.map_or_else(String::new, |nsid| format!(" {nsid}"));
            return Err(Failure::not_found(format!("there is no namespace{what} in {nqn}")));
        }
        self.engine().retry_namespaces(nqn.as_deref(), *nsid);
        let was_tried = |nqn: &str, row: &NamespaceState| {
            tried.iter().any(|(known, nsid)| known == nqn && *nsid == row.nsid)
        };
        Ok(self.namespace_rows(was_tried))
    }

    /// Returns the rows of the namespaces that are meant.
    fn namespace_rows(&self, meant: impl Fn(&str, &NamespaceState) -> bool) -> Vec<NamespaceRow> {
        let (objects, mut rows) = (self.live_objects(), Vec::new());
        for SubsystemState { nqn, namespaces, .. } in self.engine().subsystems() {
            let meant = namespaces.into_iter().filter(|row| meant(&nqn, row));
            rows.extend(meant.map(|namespace| NamespaceRow {
                subsystem: nqn.clone(),
                live: objects.has(&ObjectId::Namespace(nqn.clone(), namespace.nsid)),
                namespace,
            }));
        }
        rows
    }

    /// Answers `listener.list`.
    pub(super) fn listener_list(&self) -> Vec<answer::Listener> {
        let objects = self.live_objects();
        self.engine().listeners().into_iter().map(|state| listener(state, &objects)).collect()
    }

    /// Answers `host.list`.
    pub(super) fn host_list(&self, asked: &params::OfSubsystem) -> Vec<answer::Hosts> {
        let subsystems = self.engine().subsystems().into_iter();
        let meant = subsystems.filter(|s| asked.subsystem.as_ref().is_none_or(|nqn| *nqn == s.nqn));
        let lost = self.engine().lost_hosts();
        let lost_of = |nqn: &str| {
            lost.iter().filter(|(of, _)| of == nqn).map(|(_, lost)| lost.clone()).collect()
        };
        let (keys, of_keyring) = (self.engine().host_keys(), self.engine().hosts_of_keyring());
        let authentication = |host: &String| authentication(&keys, &of_keyring, host);
        let objects = self.live_objects();
        let is_live =
            |nqn: &str, host: &str| objects.has(&ObjectId::Host(nqn.to_owned(), host.to_owned()));
        let row = |s: SubsystemState| answer::Hosts {
            lost: lost_of(&s.nqn),
            live: s.hosts.iter().filter(|host| is_live(&s.nqn, host)).cloned().collect(),
            live_any_host: objects.has(&ObjectId::AnyHost(s.nqn.clone())),
            authentication: s.hosts.iter().map(|h| (h.clone(), authentication(h))).collect(),
            subsystem: s.nqn,
            allow_any_host: s.allow_any_host,
            hosts: s.hosts,
            addresses: s.addresses,
            rights: s.rights,
        };
        meant.map(row).collect()
    }

    /// Answers `host.keys`.
    pub(super) fn host_keys(&self, asked: &params::OfHost) -> answer::HostKeys {
        let engine = self.engine();
        let (keys, subsystems) = (engine.host_keys(), engine.subsystems());
        let allowed = Allowed::by(&subsystems);
        let (changes, unreadable) = match engine.read_host_keys() {
            Ok(files) => (differing(&keys, &files), None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let row = |host: &String| {
            let secrets = keys.get(host).and_then(|file| file.secrets.as_ref());
            let mut pairs = secrets.into_iter().flat_map(|secrets| &secrets.pairs);
            HostKey {
                host: host.clone(),
                secret: secrets.is_some(),
                controller_secret: pairs.any(|pair| pair.controller.is_some()),
                tls_key: keys.get(host).is_some_and(|file| !file.tls_keys.is_empty()),
                allowed: allowed.has(host),
                listed: allowed.lists(host),
            }
        };
        let folder = self.first.target.host_keys.as_ref();
        answer::HostKeys {
            folder: folder.map(|folder| folder.display().to_string()),
            unreadable,
            unreadable_folder: folder
                .is_some_and(|folder| host_keys::check_folder(folder).is_err()),
            changes,
            hosts: match &asked.host {
                Some(host) => vec![row(host)],
                None => keys.keys().map(row).collect(),
            },
        }
    }
}

/// Returns the kinds of keys with which a host can authenticate.
fn authentication(keys: &HostKeys, of_keyring: &BTreeSet<String>, host: &str) -> Authentication {
    let file = keys.get(host);
    let secret = file.is_some_and(|file| file.secrets.is_some());
    let tls_key = file.is_some_and(|file| !file.tls_keys.is_empty());
    match (secret, tls_key || of_keyring.contains(host)) {
        (true, true) => Authentication::Both,
        (true, false) => Authentication::Secret,
        (false, true) => Authentication::TlsKey,
        (false, false) => Authentication::None,
    }
}

/// Lists the problems of the target, a line for each.
fn problems(
    listeners: &[ListenerState],
    subsystems: &[SubsystemState],
    not_in_force: &BTreeMap<String, String>,
    others: &[String],
) -> Vec<String> {
    let closed = listeners.iter().filter_map(ready::closed);
    let lines = subsystems.iter().flat_map(|subsystem| {
        let wrong = subsystem.namespaces.iter().filter(|n| n.state != Availability::Ready);
        wrong.map(|namespace| {
            let reason = namespace.reason.as_deref().unwrap_or("no reason is known");
            let (nsid, state) = (namespace.nsid, namespace.state.name());
            format!("namespace {nsid} of {}: {state}: {reason}", subsystem.nqn)
        })
    });
    let unreserved = not_in_force
        .iter()
        .map(|(session, why)| format!("session {session}: its reservation is not in force: {why}"));
    closed.chain(lines).chain(unreserved).chain(others.iter().cloned()).collect()
}

/// Lists the sessions whose hosts wait for long, a line for each.
fn waits(sessions: &[SessionState]) -> Vec<String> {
    let long = sessions.iter().filter(|session| session.wait > LONG_WAIT);
    let line = |session: &SessionState| {
        let seconds = session.wait / 1_000_000_000;
        let limits = match notices::written(&session.limits) {
            limits if limits.is_empty() => limits,
            limits => format!(" ({limits})"),
        };
        format!("session {}{limits}: commands wait for {seconds} s", session.name)
    };
    long.map(line).collect()
}

/// Lists the problems of regions of persistent memory, a line for each. `address` is where their
/// clients connect.
fn region_problems(address: Option<SocketAddr>, state: &PmemState) -> Vec<String> {
    let closed = address.zip(state.open.as_ref().err());
    let closed = closed.map(|(at, why)| format!("regions: clients cannot connect to {at}: {why}"));
    let unopened = state.regions.iter().filter_map(|region| {
        let why = region.open.as_ref().err()?;
        Some(format!("region {}: not open: {why}", region.name))
    });
    closed.into_iter().chain(unopened).collect()
}

fn listener(state: ListenerState, objects: &LiveObjects) -> answer::Listener {
    let ListenerState { listener, closed } = state;
    answer::Listener {
        live: objects.has(&ObjectId::of::<Listener>(listener.endpoint().to_string())),
        transport: listener.transport.name().to_owned(),
        address: listener.address.to_string(),
        advertise: listener.advertise.map(|address| address.to_string()),
        discovery_only: listener.discovery_only,
        subsystems: listener.subsystems,
        tls: channel_name(listener.tls).to_owned(),
        require_authentication: listener.require_authentication,
        class: listener.class.map(|class| class.name().to_owned()),
        link: listener.link.unwrap_or_else(|| DEFAULT_LINK.to_owned()),
        closed,
    }
}

fn reactor(reactor: &ReactorState) -> answer::Reactor {
    answer::Reactor {
        core: reactor.core,
        connections: reactor.connections,
        busy_ns: reactor.busy_ns,
        turns: reactor.turns,
        buffer_used: reactor.buffer_used,
        buffer_total: reactor.buffer_total,
    }
}

#[cfg(test)]
mod tests {
    use arbitration::session::SessionLimits;
    use sluice_config::testing::rates;

    use super::*;

    #[test]
    fn d1_sessions_whose_hosts_wait_for_over_five_seconds_are_named_with_their_limits() {
        let session = |name: &str, wait, iops, bandwidth| SessionState {
            name: name.to_owned(),
            wait,
            limits: SessionLimits { total: rates(iops, bandwidth), ..SessionLimits::default() },
            ..SessionState::default()
        };
        let second = 1_000_000_000;
        let sessions = [
            session("db", 5 * second, Some(10), None),
            session("backup", 12 * second, Some(10), Some(1 << 20)),
            session("root", 7 * second, None, None),
        ];
        let lines = [
            "session backup (iops = 10, bandwidth = 1 MiB): commands wait for 12 s",
            "session root: commands wait for 7 s",
        ];
        assert_eq!(waits(&sessions), lines);
    }
}
