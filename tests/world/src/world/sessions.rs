//! Changes of sessions: their places in the tree, their shares and limits, and their reservations.

use std::sync::Arc;

use arbitration::Class;
use arbitration::limit::{Rate, Rates};
use arbitration::reservation::{Admitted, Broker, Budget, Reserved, Terms};
use arbitration::session::{Reservation, SessionSpec};
use arbitration::settings::Weights;
use fabric::Nanos;
use fabric::controller::BackendId;
use sluice_core::Touched;
use sluice_core::device::BlockDevice as _;
use sluice_core::testing::{Kind, Rules};

use super::kept::Granted;
use super::{Input, World, tenant};

/// Returns the name of the session that is a host's own.
pub(super) fn own(host: usize) -> String {
    format!("session{host}")
}

/// Returns terms of `operations` commands of 4 KiB in a period, half of them writes.
pub(super) fn half_writes(operations: u64, period: Nanos) -> Terms {
    Terms { write_percent: 50, ..Terms::of(Budget::Operations(operations), period) }
}

impl World {
    /// Adds two sessions. Each is the parent of the sessions of half of the hosts.
    pub(super) fn add_groups(&mut self) {
        for group in 0..2 {
            let spec = self.limited(format!("group{group}"), None);
            self.put_session(&spec);
        }
    }

    fn limited(&mut self, name: String, parent: Option<String>) -> SessionSpec {
        let rate = |rng: &mut fastrand::Rng, least: u64| {
            let rate = least << rng.u32(0..10);
            if rng.bool() { Rate::per_second(rng.u64(rate..2 * rate)) } else { None }
        };
        SessionSpec {
            name,
            parent,
            operations: self.rng.bool().then(|| self.rng.u8(1..=100 / 6)),
            payload: self.rng.bool().then(|| self.rng.u8(1..=100 / 6)),
            iops: rate(&mut self.rng, 200),
            bandwidth: rate(&mut self.rng, 2_000_000),
            reads: Rates { iops: rate(&mut self.rng, 200), bandwidth: None },
            writes: Rates { iops: None, bandwidth: rate(&mut self.rng, 2_000_000) },
            burst: Nanos(self.rng.u64(0..20_000_000)),
            queue: self.rng.bool().then(|| self.rng.u32(1..100)),
            weight: self.rng.bool().then(|| self.rng.u16(1..=1000)),
        }
    }

    /// Changes sessions' shares, limits and bounds, or removes one.
    pub(super) fn change_sessions(&mut self) {
        let host = self.rng.usize(0..self.hosts.len());
        if self.scenario.groups && self.rng.u8(0..4) == 0 {
            let spec = self.limited(format!("group{}", host % 2), None);
            self.put_session(&spec);
            return self.publish(self.rules(), &[]);
        }
        let name = own(host);
        if self.scenario.reserved && host == 0 {
            // The session's reservation is watched, so that it stays.
            return;
        }
        if self.rng.u8(0..4) == 0 {
            if let Some(session) = self.sessions.named(&name) {
                self.limits.forget(session);
            }
            self.sessions.remove(self.now, &name);
            self.trace(|| format!("{name} goes"));
        } else {
            let parent = self.scenario.groups.then(|| format!("group{}", host % 2));
            let spec = self.limited(name, parent);
            if !self.put_session(&spec) {
                return;
            }
        }
        self.assign(host);
    }

    pub(super) fn put_session(&mut self, spec: &SessionSpec) -> bool {
        let put = self.sessions.put(self.now, spec).is_ok();
        if let Some(session) = self.sessions.named(&spec.name).filter(|_| put) {
            self.limits.set(self.now, session, spec);
        }
        self.trace(|| format!("session {spec:?}: {put}"));
        put
    }

    /// Charges a host's commands to its own session, if there is one.
    pub(super) fn assign(&mut self, host: usize) {
        let name = own(host);
        let mut rules = self.rules();
        let nqn = self.hosts[host].nqn.clone();
        if self.sessions.named(&name).is_some() {
            rules.tenants.insert(nqn, tenant(&self.sessions, Some(&name), self.reactors.len()));
        } else {
            rules.tenants.remove(&nqn);
        }
        let own = self.granted.iter().filter(|granted| granted.session == name);
        let touched: Vec<BackendId> = own.map(|granted| granted.backend).collect();
        touched.iter().for_each(|backend| self.put_in_force(*backend));
        self.publish(rules, &touched);
    }

    /// Adds a session's reservation on a device, or removes it.
    pub(super) fn change_reservation(&mut self) {
        let host = self.rng.usize(0..self.hosts.len());
        if self.scenario.reserved || self.namespaces.is_empty() {
            return;
        }
        let backend = self.namespaces[self.rng.usize(0..self.namespaces.len())].backend;
        let name = own(host);
        let before = self.granted.iter().position(|granted| granted.session == name);
        let backend = match before {
            Some(at) => self.granted.swap_remove(at).backend,
            None => {
                let period = Nanos(self.rng.u64(1_000_000..100_000_000));
                let terms = half_writes(self.rng.u64(1..200), period);
                self.reserve(&name, backend, &terms);
                backend
            }
        };
        self.put_in_force(backend);
        self.publish(self.rules(), &[backend]);
    }

    /// Admits a reservation, if it fits.
    pub(super) fn reserve(&mut self, session: &str, backend: BackendId, terms: &Terms) -> bool {
        let disk = self.shared.disk(backend);
        let Some(disk) = disk.filter(|disk| disk.kind() != Kind::Immediate) else { return false };
        let Some(profile) = disk.qos().profile() else { return false };
        let here = self.granted.iter().filter(|granted| granted.backend == backend);
        let already: Vec<Admitted> = here.map(|granted| granted.admitted).collect();
        let urgent = self.shared.rules.borrow().order.urgent_share;
        let Ok(admitted) = Broker::admit(&profile, &already, urgent, terms) else { return false };
        let reserved = Reserved::new(self.now, &admitted).in_set(disk.qos().is_bounded()).into();
        self.trace(|| format!("{session} reserves {terms:?}"));
        self.granted.push(Granted { backend, session: session.to_owned(), admitted, reserved });
        true
    }

    /// Applies the reservations that are admitted on a device, if their sessions exist.
    pub(super) fn put_in_force(&mut self, backend: BackendId) {
        let Some(disk) = self.shared.disk(backend) else { return };
        let here = self.granted.iter().filter(|granted| granted.backend == backend);
        let reservations = here.filter_map(|granted| {
            let session = Arc::clone(self.sessions.named(&granted.session)?);
            Some(Reservation { session, reserved: Arc::clone(&granted.reserved) })
        });
        disk.qos().reserve(reservations.collect());
    }

    pub(super) fn rules(&self) -> Rules {
        (**self.shared.rules.borrow()).clone()
    }

    /// Sets another order, or other classes.
    pub(super) fn change_rules(&mut self) {
        let mut rules = self.rules();
        match self.rng.u8(0..4) {
            0 if !self.scenario.reserved => rules.enabled = !rules.enabled,
            0 | 1 => {
                let [high, medium, low, burst] = [(); 4].map(|()| self.rng.u16(1..10));
                (rules.order.weights, rules.order.burst) = (Weights { high, medium, low }, burst);
            }
            2 if !self.scenario.reserved => rules.queue = 1 << self.rng.u32(2..10),
            _ => {
                let host = self.rng.usize(0..self.hosts.len());
                let class = Class::ALL[self.rng.usize(0..4)];
                rules.classes.insert(self.hosts[host].nqn.clone(), class);
            }
        }
        self.trace(|| {
            let Rules { enabled, order, queue, .. } = &rules;
            format!("rules change: {enabled}, {order:?}, {queue} may wait")
        });
        self.publish(rules, &[]);
    }

    /// Publishes other rules, changed sessions, and devices with other reservations to reactors.
    pub(super) fn publish(&mut self, mut rules: Rules, devices: &[BackendId]) {
        rules.version += 1;
        *self.shared.rules.borrow_mut() = Arc::new(rules);
        let sessions = self.sessions.take_touched();
        drop(self.sessions.take_replaced());
        let touched = Arc::new(Touched { sessions, devices: devices.to_vec(), snapshot: true });
        (0..self.reactors.len()).for_each(|at| self.put(at, Input::Touch(Arc::clone(&touched))));
    }
}
