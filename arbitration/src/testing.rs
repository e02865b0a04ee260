//! Fixtures that the tests of several modules use.

use std::sync::Arc;

use units::Nanos;

use crate::arbiter::{Arbiter, DeviceId, Waiters};
use crate::container::Scheduler;
use crate::credit::Caps;
use crate::device::{ContainerRules, Device};
use crate::limit::{Rate, Rates};
use crate::reservation::{Broker, Budget, Profile, Reserved, Terms};
use crate::session::{Reservation, RootSpec, Session, SessionSpec, Sessions};
use crate::settings::OrderSettings;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1000 * MS;

pub(crate) const DEVICE: DeviceId = DeviceId(0);
/// A root without limits.
pub(crate) const ROOT: RootSpec = RootSpec { caps: Caps::NONE, bounded: true, queue: u32::MAX };

/// Makes a session without limits.
pub(crate) fn spec(name: &str, parent: Option<&str>) -> SessionSpec {
    let (name, parent) = (name.to_owned(), parent.map(str::to_owned));
    SessionSpec { name, parent, ..SessionSpec::default() }
}

/// Makes a limit of so many commands a second.
pub(crate) const fn iops(rate: u64) -> Rates {
    Rates { iops: Rate::per_second(rate), bandwidth: None }
}

pub(crate) fn sessions(root: &RootSpec, specs: &[SessionSpec]) -> Sessions {
    let mut sessions = Sessions::new(root);
    sessions.apply(Nanos(0), root, specs).unwrap();
    sessions
}

pub(crate) fn named(sessions: &Sessions, name: &str) -> Arc<Session> {
    Arc::clone(sessions.named(name).unwrap())
}

/// Makes the arbiters of the reactors that share a device.
pub(crate) fn arbiters<T: Copy>(
    reactors: usize,
    order: &OrderSettings,
    device: &Arc<Device>,
) -> Vec<Arbiter<T>> {
    let waiters = Arc::new(Waiters::new(reactors));
    let arbiter = |reactor| {
        let mut arbiter = Arbiter::new(reactor, order, Arc::clone(&waiters), 64);
        arbiter.add_device(DEVICE, Arc::clone(device));
        arbiter
    };
    (0..u32::try_from(reactors).unwrap()).map(arbiter).collect()
}

/// Makes the rules of an order by place, in which a High command has a deadline of 20 ms.
pub(crate) fn by_place(capacity: usize) -> Option<ContainerRules> {
    Some(ContainerRules { scheduler: Scheduler::Containers, capacity, deadline_ns: 20 * MS })
}

/// Makes the terms of so many reads of 4 KiB a second.
pub(crate) const fn per_second(operations: u64) -> Terms {
    Terms::of(Budget::Operations(operations), Nanos(SECOND))
}

/// Reserves a part of a device, which carries out `channels` commands at once in `service` ns each.
pub(crate) fn reservation(
    session: &Arc<Session>,
    (service, channels): (u64, u32),
    terms: &Terms,
) -> Reservation {
    let profile = Profile::of_device(Nanos(service), Nanos(service), 0, channels);
    let admitted = Broker::admit(&profile, &[], 0, terms).unwrap();
    let reserved = Arc::new(Reserved::new(Nanos(SECOND), &admitted));
    Reservation { session: Arc::clone(session), reserved }
}
