//! The hosts that use subsystems: connected hosts, and lost hosts that may come back.
//!
//! A host whose connection breaks tries to connect again for a time (Linux: `ctrl_loss_tmo`), while the file systems on
//! its disks stay mounted. Until that time is over, a host that did not shut its controller down (CC.SHN) is a *lost*
//! host, which still uses its disks. Only a controller with a past or present I/O queue counts: before that its host
//! has authenticated and enabled it, and has used nothing.
//!
//! A host may be back before the target notices that its earlier controller is gone (Linux tears it
//! down without a shutdown when it reconnects). If the later controller is shut down, the end of
//! the earlier one loses nothing. Each controller succeeds at most one: a host with two controllers
//! on one path that loses one of them, and shuts the other down, remains lost.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::types::SUCCESSOR;
use super::{ControllerId, ControllerShared};
use crate::Nanos;

/// The most lost hosts of one subsystem. Beyond it, the host that was lost first is forgotten: the
/// others still guard the subsystem, and no other subsystem's hosts are forgotten.
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

/// A change of state that has to outlive the target: the state of a host that uses a subsystem;
/// `None`: the host no longer uses it.
pub type HostChange = (HostPath, Option<KeptHost>);

/// The UUIDs that a controller's host has identified, by NSID, of namespaces that
/// [replace](super::Namespace::replaces) another disk.
pub type Identified = BTreeMap<u32, [u8; 16]>;

/// The state of a host that has to outlive the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptHost {
    /// The address that the host came from, where that is known.
    pub address: Option<IpAddr>,
    /// The disks that the host has identified: one entry for each of its controllers that was not shut
    /// down, in ascending order. `None`: not known.
    pub identified: Option<Vec<Identified>>,
    /// The most I/O queues of one of its controllers, if it does not honour Command Retry Delays; 0: it does.
    pub queues_without_acre: u16,
}

/// The most controllers of one host and path whose identified disks are kept. Beyond it, they count
/// as unknown.
pub const KEPT_CONTROLLERS_MAX: usize = 8;

/// A controller that ended without a shutdown, and has no known successor.
#[derive(Debug)]
struct Absent {
    since: Nanos,
    /// Whether it ended before the target started.
    restored: bool,
    /// The least number of connected controllers that may be its successor.
    successors_from: u64,
    /// `None`: not known, for any number of controllers.
    identified: Option<Identified>,
}

/// A controller that uses its subsystem.
#[derive(Debug)]
struct ConnectedController {
    shared: Arc<ControllerShared>,
    identified: Identified,
    /// The controllers of all hosts are numbered as they come.
    number: u64,
    /// The number of the last controller of the path before which something was heard of this one; at first its own.
    heard_before: u64,
    /// Whether it succeeded an absent controller when it connected.
    is_successor: bool,
}

/// A host that uses a subsystem through a listener.
#[derive(Debug)]
struct User {
    address: Option<IpAddr>,
    controllers: BTreeMap<ControllerId, ConnectedController>,
    absent: Vec<Absent>,
    /// The numbers of the last controllers that were shut down while others were there, at most as many as those are.
    shut_down: BTreeSet<u64>,
    /// The time at which the last controller ended, and whether that was before the target started.
    lost: Option<(Nanos, bool)>,
    /// As [`KeptHost::queues_without_acre`].
    queues_without_acre: u16,
}

impl Absent {
    /// Returns an unknown number of controllers, of which nothing else is known.
    fn unknown(since: Nanos, restored: bool) -> Self {
        Self { since, restored, successors_from: u64::MAX, identified: None }
    }
}

impl User {
    fn new(address: Option<IpAddr>) -> Self {
        let (controllers, absent, shut_down) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { address, controllers, absent, shut_down, lost: None, queues_without_acre: 0 }
    }

    /// Returns the identified disks of each controller that is connected, or may come back.
    fn members(&self) -> impl Iterator<Item = Option<&Identified>> {
        let absent = self.absent.iter().map(|absent| absent.identified.as_ref());
        self.controllers.values().map(|present| Some(&present.identified)).chain(absent)
    }

    /// Adds a controller that ended without a shutdown.
    fn add_absent(&mut self, absent: Absent) {
        let since = absent.since;
        self.absent.push(absent);
        if self.absent.len() > KEPT_CONTROLLERS_MAX {
            self.absent = vec![Absent::unknown(since, false)];
        }
    }

    /// Notes the number of a controller that was shut down, unless its predecessor is known. It may have succeeded a
    /// connected controller that its host has lost already.
    fn add_shut_down(&mut self, number: Option<u64>) {
        self.shut_down.extend(number);
        while self.shut_down.len() > self.controllers.len() {
            self.shut_down.pop_first();
        }
    }

    /// Returns whether a controller that ended without a shutdown had a successor that was shut
    /// down. A successor has a number from `successors_from` on, and no other predecessor.
    fn had_successor(&mut self, successors_from: u64) -> bool {
        let successor = self.shut_down.range(successors_from..).next().copied();
        successor.is_some_and(|number| self.shut_down.remove(&number))
    }

    /// Removes the absent controller that a controller succeeded which is now shut down. Returns
    /// whether there was one.
    fn remove_predecessor(&mut self, number: u64) -> bool {
        let predecessor = self.absent.iter().position(|absent| absent.successors_from <= number);
        predecessor.map(|at| self.absent.remove(at)).is_some()
    }

    /// Notes a new controller, which succeeds one of the absent controllers. If these differ, its
    /// predecessor is unknown, and so is the state of the others. Returns whether there was any.
    fn succeed(&mut self) -> bool {
        let Some(last) = self.absent.last() else { return false };
        let (since, restored) = (last.since, last.restored);
        let same = self.absent.iter().all(|absent| absent.identified == last.identified);
        match last.identified.is_some() && same {
            true => drop(self.absent.remove(0)),
            false => self.absent = vec![Absent::unknown(since, restored)],
        }
        true
    }

    /// Returns since when an absent controller may return, and whether that was before the target
    /// started: the last one counts.
    fn absent_since(&self) -> Option<(Nanos, bool)> {
        self.absent.iter().map(|absent| (absent.since, absent.restored)).max()
    }

    /// Returns the state that has to outlive the target.
    fn kept(&self) -> KeptHost {
        let members = self.members().map(Option::<&Identified>::cloned);
        let members: Option<Vec<Identified>> = members.collect();
        let mut identified = members.filter(|members| members.len() <= KEPT_CONTROLLERS_MAX);
        if let Some(members) = &mut identified {
            members.sort();
        }
        let queues_without_acre = self.queues_without_acre;
        KeptHost { address: self.address, identified, queues_without_acre }
    }
}

/// The hosts that use subsystems.
#[derive(Debug)]
pub(super) struct Users {
    /// The time for which a lost host counts; zero: none does.
    reconnect_time: Duration,
    known: BTreeMap<HostPath, User>,
    /// The path of each controller that uses its subsystem.
    controllers: HashMap<ControllerId, HostPath>,
    /// How many controllers have come.
    came: u64,
    /// The earliest time at which a lost host may no longer count.
    next: Option<Nanos>,
    /// The hosts that were kept.
    pub(super) saved: BTreeMap<HostPath, KeptHost>,
    /// The paths that may differ from `saved`.
    pub(super) unsaved: BTreeSet<HostPath>,
}

impl Users {
    pub(super) fn new(reconnect_time: Duration) -> Self {
        Self {
            reconnect_time,
            known: BTreeMap::new(),
            controllers: HashMap::new(),
            came: 0,
            next: None,
            saved: BTreeMap::new(),
            unsaved: BTreeSet::new(),
        }
    }

    /// Restores the hosts that were kept before the target started: they are lost from now on, since the length of the
    /// target's absence is unknown.
    pub(super) fn restore(&mut self, now: Nanos, hosts: Vec<(HostPath, KeptHost)>) {
        for (path, kept) in hosts {
            self.saved.insert(path.clone(), kept.clone());
            if self.reconnect_time.is_zero() {
                self.unsaved.insert(path);
                continue;
            }
            let absent = |identified| Absent { identified, ..Absent::unknown(now, true) };
            let mut user = User::new(kept.address);
            user.queues_without_acre = kept.queues_without_acre;
            user.absent = match kept.identified {
                Some(all) => all.into_iter().map(|identified| absent(Some(identified))).collect(),
                None => vec![absent(None)],
            };
            self.known.insert(path.clone(), user);
            self.lose(path, (now, true));
        }
    }

    /// Notes that a controller has an I/O queue, and the disks that its host has identified. Returns
    /// whether the host reconnected: this is the controller's first I/O queue, and another controller of
    /// the host ended without a shutdown.
    pub(super) fn connected(
        &mut self,
        shared: &Arc<ControllerShared>,
        path: impl FnOnce() -> Option<HostPath>,
        address: Option<IpAddr>,
        identified: &Identified,
    ) -> bool {
        let id = shared.id;
        if self.reconnect_time.is_zero() || self.controllers.contains_key(&id) {
            return false;
        }
        let Some(path) = path() else { return false };
        let user = self.known.entry(path.clone()).or_insert_with(|| User::new(address));
        let returns = user.lost.is_some() || !user.absent.is_empty();
        let is_successor = user.succeed();
        self.came += 1;
        let number = self.came;
        for other in
            user.controllers.values_mut().filter(|other| other.shared.take_heard(SUCCESSOR))
        {
            other.heard_before = number;
        }
        let (shared, identified) = (Arc::clone(shared), identified.clone());
        let heard_before = number;
        let connected =
            ConnectedController { shared, identified, number, heard_before, is_successor };
        user.controllers.insert(id, connected);
        (user.address, user.lost) = (address, None);
        self.unsaved.insert(path.clone());
        self.controllers.insert(id, path);
        returns
    }

    /// Notes the number of I/O queues of a controller whose host does not honour Command Retry Delays; 0: it does.
    pub(super) fn note_without_acre(&mut self, controller: ControllerId, queues: u16) {
        let Some(path) = self.controllers.get(&controller) else { return };
        let Some(user) = self.known.get_mut(path) else { return };
        let queues = if queues == 0 { 0 } else { queues.max(user.queues_without_acre) };
        if user.queues_without_acre != queues {
            user.queues_without_acre = queues;
            self.unsaved.insert(path.clone());
        }
    }

    /// Notes that a controller has ended; `in_order`: its host has shut it down. It has no effect where
    /// the controller did not use its subsystem, or has ended before.
    pub(super) fn ended(&mut self, now: Nanos, controller: ControllerId, in_order: bool) {
        let Some(path) = self.controllers.remove(&controller) else { return };
        let Some(user) = self.known.get_mut(&path) else { return };
        let Some(ended) = user.controllers.remove(&controller) else { return };
        self.unsaved.insert(path.clone());
        // A controller of which a command arrived after the last one connected has no successor.
        let was_heard = ended.shared.take_heard(SUCCESSOR);
        let successors_from = if was_heard { self.came + 1 } else { ended.heard_before };
        if in_order {
            let is_successor = ended.is_successor || user.remove_predecessor(ended.number);
            user.add_shut_down((!is_successor).then_some(ended.number));
        } else if !user.had_successor(successors_from) {
            let identified = Some(ended.identified);
            user.add_absent(Absent { since: now, restored: false, successors_from, identified });
            let until = now + self.reconnect_time;
            self.next = Some(self.next.map_or(until, |next| next.min(until)));
        }
        if !user.controllers.is_empty() {
            return;
        }
        match user.absent_since() {
            Some(since) => self.lose(path, since),
            None => self.forget(path),
        }
    }

    /// Notes that a controller's host has identified the disk under an NSID.
    pub(super) fn identified(&mut self, controller: ControllerId, nsid: u32, uuid: [u8; 16]) {
        let Some(path) = self.controllers.get(&controller) else { return };
        let user = self.known.get_mut(path);
        let Some(known) = user.and_then(|user| user.controllers.get_mut(&controller)) else {
            return;
        };
        known.identified.insert(nsid, uuid);
        self.unsaved.insert(path.clone());
    }

    /// Returns the disks that a host has identified by all of its controllers: a controller that connects
    /// may be the successor of any of them.
    pub(super) fn identified_by_all(&self, path: &HostPath) -> Identified {
        let Some(user) = self.known.get(path) else { return Identified::new() };
        let mut members = user.members();
        let mut common = members.next().flatten().cloned().unwrap_or_default();
        for member in members {
            common.retain(|nsid, uuid| member.is_some_and(|m| m.get(nsid) == Some(&*uuid)));
        }
        common
    }

    /// Returns whether a host is known, and none of its controllers has identified the disk under
    /// an NSID: its commands for that NSID are for an earlier disk.
    pub(super) fn knows_other(&self, path: &HostPath, nsid: u32, uuid: &[u8; 16]) -> bool {
        let Some(user) = self.known.get(path) else { return false };
        let other = |m: Option<&Identified>| m.is_some_and(|m| m.get(&nsid) != Some(uuid));
        user.members().next().is_some() && user.members().all(other)
    }

    /// Returns whether a controller of a host of a subsystem has, or may have, identified the disk
    /// under an NSID.
    pub(super) fn is_identified(&self, subsystem: &str, nsid: u32, uuid: &[u8; 16]) -> bool {
        let has = |member: Option<&Identified>| member.is_none_or(|m| m.get(&nsid) == Some(uuid));
        let mut of_subsystem = self.known.iter().filter(|(path, _)| path.subsystem == subsystem);
        of_subsystem.any(|(_, user)| user.members().any(has))
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
        for (path, user) in &mut self.known {
            let before = user.absent.len();
            user.absent.retain(|absent| now < absent.since + time);
            if user.absent.len() != before {
                self.unsaved.insert(path.clone());
            }
        }
        let ends = |user: &User| {
            let absent = user.absent.iter().map(|absent| absent.since + time).min();
            until(user).into_iter().chain(absent).min()
        };
        self.next = self.known.values().filter_map(ends).min();
        self.next
    }

    pub(super) fn lost(&self, now: Nanos) -> impl Iterator<Item = LostHost> {
        self.known.iter().filter_map(move |(path, user)| {
            let (since, restored) = user.lost?;
            let until = since + self.reconnect_time;
            let (path, address) = (path.clone(), user.address);
            (now < until).then_some(LostHost { path, address, since, until, restored })
        })
    }

    pub(super) fn is_unsaved(&self, path: &HostPath) -> Option<HostChange> {
        let wanted = self.known.get(path).map(User::kept);
        (self.saved.get(path) != wanted.as_ref()).then(|| (path.clone(), wanted))
    }
}
