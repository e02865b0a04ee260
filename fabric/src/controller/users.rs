//! The hosts that use subsystems: those that are connected, and those that were and may come back.
//!
//! A host whose connection breaks tries to connect again for a time (Linux: `ctrl_loss_tmo`), while the
//! file systems on its disks stay mounted. Until that time is over, a host that did not shut its
//! controller down (CC.SHN) is a *lost* host, which still uses what it used. Only a controller that has
//! had an I/O queue counts: before that its host has authenticated and enabled it, and has used nothing.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use super::ControllerId;
use crate::Nanos;

/// The most lost hosts of one subsystem. Where there are more, the one that was lost first is forgotten:
/// those that are left still guard the subsystem, and no other subsystem's hosts are forgotten.
pub const LOST_HOSTS_MAX: usize = 1024;

/// A host's way to a subsystem. Each way counts by itself: a host with two of them can lose one for good.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPath {
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The host's NQN; empty where the host gave none.
    pub host: String,
    /// The listener, by its [name](super::ListenerSpec::name).
    pub listener: String,
}

/// A host that is lost, and may come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostHost {
    /// The host, its subsystem, and the listener through which it was connected.
    pub path: HostPath,
    /// The address from which it was connected, where that is known.
    pub address: Option<IpAddr>,
    /// The time at which its last controller ended; with `restored`, at which the target started.
    pub since: Nanos,
    /// The time from which on it no longer counts.
    pub until: Nanos,
    /// Whether it was lost before the target started.
    pub restored: bool,
}

/// A change of what has to outlive the target: a host that uses a subsystem is kept with the address that
/// it came from, where that is known; `None`: it no longer does.
pub type HostChange = (HostPath, Option<Option<IpAddr>>);

/// A host that uses a subsystem through a listener.
#[derive(Debug)]
struct User {
    address: Option<IpAddr>,
    controllers: BTreeSet<ControllerId>,
    /// The time at which the last controller ended, and whether that was before the target started.
    lost: Option<(Nanos, bool)>,
}

/// The hosts that use subsystems.
#[derive(Debug)]
pub(super) struct Users {
    /// The time for which a lost host counts; zero: none does.
    reconnect_time: Duration,
    known: BTreeMap<HostPath, User>,
    /// The path of each controller that uses its subsystem.
    controllers: HashMap<ControllerId, HostPath>,
    /// The earliest time at which a lost host may no longer count.
    next: Option<Nanos>,
    /// The hosts that were kept, with their addresses.
    pub(super) saved: BTreeMap<HostPath, Option<IpAddr>>,
    /// The paths that may differ from `saved`.
    pub(super) unsaved: BTreeSet<HostPath>,
}

impl Users {
    pub(super) fn new(reconnect_time: Duration) -> Self {
        Self {
            reconnect_time,
            known: BTreeMap::new(),
            controllers: HashMap::new(),
            next: None,
            saved: BTreeMap::new(),
            unsaved: BTreeSet::new(),
        }
    }

    /// Takes the hosts that were kept before the target started: they are lost from now on, for nobody
    /// knows how long the target was away.
    pub(super) fn restore(&mut self, now: Nanos, hosts: Vec<(HostPath, Option<IpAddr>)>) {
        for (path, address) in hosts {
            self.saved.insert(path.clone(), address);
            if self.reconnect_time.is_zero() {
                self.unsaved.insert(path);
                continue;
            }
            let user = User { address, controllers: BTreeSet::new(), lost: None };
            self.known.insert(path.clone(), user);
            self.lose(path, (now, true));
        }
    }

    /// Notes that a controller has an I/O queue.
    pub(super) fn connected(
        &mut self,
        controller: ControllerId,
        path: impl FnOnce() -> Option<HostPath>,
        address: Option<IpAddr>,
    ) {
        if self.reconnect_time.is_zero() || self.controllers.contains_key(&controller) {
            return;
        }
        let Some(path) = path() else { return };
        let empty = || User { address, controllers: BTreeSet::new(), lost: None };
        let user = self.known.entry(path.clone()).or_insert_with(empty);
        user.controllers.insert(controller);
        (user.address, user.lost) = (address, None);
        self.unsaved.insert(path.clone());
        self.controllers.insert(controller, path);
    }

    /// Notes that a controller has ended; `in_order`: its host has shut it down. It has no effect where
    /// the controller did not use its subsystem, or has ended before.
    pub(super) fn ended(&mut self, now: Nanos, controller: ControllerId, in_order: bool) {
        let Some(path) = self.controllers.remove(&controller) else { return };
        let Some(user) = self.known.get_mut(&path) else { return };
        user.controllers.remove(&controller);
        if !user.controllers.is_empty() {
            return;
        }
        match in_order {
            true => self.forget(path),
            false => self.lose(path, (now, false)),
        }
    }

    /// Notes that a host is lost. Forgets another one of its subsystem where there are too many.
    fn lose(&mut self, path: HostPath, lost: (Nanos, bool)) {
        let HostPath { subsystem, .. } = &path;
        let first =
            HostPath { subsystem: subsystem.clone(), host: String::new(), listener: String::new() };
        let of = self.known.range(first..).take_while(|(path, _)| path.subsystem == *subsystem);
        let others: Vec<(Nanos, &HostPath)> =
            of.filter_map(|(path, user)| Some((user.lost?.0, path))).collect();
        let oldest = (others.len() >= LOST_HOSTS_MAX)
            .then(|| others.iter().min().map(|(_, path)| HostPath::clone(path)))
            .flatten();
        if let Some(oldest) = oldest {
            self.forget(oldest);
        }
        let until = lost.0 + self.reconnect_time;
        self.next = Some(self.next.map_or(until, |next| next.min(until)));
        if let Some(user) = self.known.get_mut(&path) {
            user.lost = Some(lost);
        }
    }

    fn forget(&mut self, path: HostPath) {
        self.known.remove(&path);
        self.unsaved.insert(path);
    }

    /// Forgets the hosts that are lost for too long. Returns when that is to be done again.
    pub(super) fn expire(&mut self, now: Nanos) -> Option<Nanos> {
        if self.next.is_none_or(|next| now < next) {
            return self.next;
        }
        let time = self.reconnect_time;
        let until = |user: &User| user.lost.map(|(since, _)| since + time);
        let over = self.known.iter().filter(|(_, user)| until(user).is_some_and(|at| at <= now));
        let over: Vec<HostPath> = over.map(|(path, _)| path.clone()).collect();
        over.into_iter().for_each(|path| self.forget(path));
        self.next = self.known.values().filter_map(until).min();
        self.next
    }

    /// Returns the hosts that are lost.
    pub(super) fn lost(&self, now: Nanos) -> impl Iterator<Item = LostHost> {
        self.known.iter().filter_map(move |(path, user)| {
            let (since, restored) = user.lost?;
            let until = since + self.reconnect_time;
            let (path, address) = (path.clone(), user.address);
            (now < until).then_some(LostHost { path, address, since, until, restored })
        })
    }

    pub(super) fn is_unsaved(&self, path: &HostPath) -> Option<HostChange> {
        let wanted = self.known.get(path).map(|user| user.address);
        (self.saved.get(path).copied() != wanted).then(|| (path.clone(), wanted))
    }
}
