//! Reservations: asked for in the configuration, admitted by the broker (docs/sources.md, F1, F2),
//! in force in the plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbitration::Nanos;
use arbitration::reservation::{Admitted, Broker, Reserved, Terms};
use arbitration::session::Reservation;
use fabric::controller::BackendId;

use super::control::Control;
use crate::config::{QosConfig, Session};

/// A reservation that was admitted.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    /// NQN/NSID.
    pub(super) namespace: String,
    device: BackendId,
    pub(super) admitted: Admitted,
    pub(super) reserved: Arc<Reserved>,
}

impl Granted {
    /// The namespace and its device.
    pub(super) fn place(&self) -> (String, BackendId) {
        (self.namespace.clone(), self.device)
    }
}

/// By session name.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    pub(super) granted: BTreeMap<String, Granted>,
    /// Those of the configuration that are not in force, and why.
    pub(super) pending: BTreeMap<String, String>,
    /// Namespaces and devices whose reservations have changed.
    pub(super) unsettled: Vec<(String, BackendId)>,
}

impl Reservations {
    pub(super) fn are_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

/// What a session asks for: where, and the terms.
fn wanted(session: &Session) -> Option<(&str, &Terms)> {
    let reserve = session.reserve.as_ref()?;
    let namespace = reserve.namespace.as_deref().unwrap_or(&session.name);
    Some((namespace, &reserve.terms))
}

impl Control {
    /// Admits what a configuration reserves beyond what is in force, all or nothing; what it does
    /// not name any more is given up.
    pub(super) fn admit(&mut self, now: Nanos, config: &QosConfig) -> Result<(), String> {
        let mut granted = BTreeMap::new();
        let mut fresh = Vec::new();
        for session in &config.sessions {
            let Some((namespace, terms)) = wanted(session) else { continue };
            let known = self.reservations.granted.get(&session.name);
            match known.filter(|g| g.namespace == namespace && g.admitted.terms == *terms) {
                Some(same) => {
                    granted.insert(session.name.clone(), same.clone());
                }
                None => fresh.push((session, namespace, terms)),
            }
        }
        let mut pending = BTreeMap::new();
        for (session, namespace, terms) in fresh {
            let name = &session.name;
            let before = self.config.sessions.iter().find(|s| s.name == *name).and_then(wanted);
            match self.try_admit(now, config, &granted, (namespace, terms)) {
                Ok(one) => {
                    granted.insert(name.clone(), one);
                }
                // What was asked for before, and not to be had, does not stand in the way of
                // other changes.
                Err(why) if before == Some((namespace, terms)) => {
                    pending.insert(name.clone(), why);
                }
                Err(why) => return Err(format!("session {name} cannot reserve this: {why}")),
            }
        }
        let old = std::mem::replace(&mut self.reservations.granted, granted);
        self.reservations.pending = pending;
        // Which sessions there are is settled after this.
        let now = self.reservations.granted.values().map(Granted::place);
        let places: Vec<_> = old.values().map(Granted::place).chain(now).collect();
        self.reservations.unsettled.extend(places);
        Ok(())
    }

    /// Puts in force on their devices what has been granted since the last call, and no more.
    pub(super) fn settle_reservations(&mut self) {
        let devices: BTreeMap<String, BackendId> =
            std::mem::take(&mut self.reservations.unsettled).into_iter().collect();
        for (namespace, id) in devices {
            self.reserve(&namespace, id);
        }
    }

    /// Puts in force what is granted on one device.
    fn reserve(&mut self, namespace: &str, id: BackendId) {
        let Some(known) = self.namespace(namespace).filter(|known| known.backend == id) else {
            return;
        };
        let enabled = self.config.general.enabled;
        let here = self.reservations.granted.iter().filter(|(_, g)| g.namespace == namespace);
        let all: Vec<Reservation> = here
            .filter(|_| enabled)
            .filter_map(|(name, granted)| {
                let session = Arc::clone(self.sessions.named(name)?);
                Some(Reservation { session, reserved: Arc::clone(&granted.reserved) })
            })
            .collect();
        let same = |a: &Reservation, b: &Reservation| {
            Arc::ptr_eq(&a.session, &b.session) && Arc::ptr_eq(&a.reserved, &b.reserved)
        };
        let before = known.device.reservations();
        let unchanged =
            before.len() == all.len() && before.iter().zip(&all).all(|(a, b)| same(a, b));
        if !unchanged {
            known.device.reserve(all);
            self.touched.devices.push(id);
        }
    }

    fn try_admit(
        &self,
        now: Nanos,
        config: &QosConfig,
        granted: &BTreeMap<String, Granted>,
        (namespace, terms): (&str, &Terms),
    ) -> Result<Granted, String> {
        let known = self
            .namespace(namespace)
            .ok_or_else(|| format!("there is no namespace {namespace}"))?;
        if !known.queued {
            return Err(format!(
                "{namespace} is kept in memory, where commands never wait; a reservation needs \
                 a device"
            ));
        }
        let profile = known.device.profile().ok_or_else(|| {
            format!(
                "the device of {namespace} has not been measured yet; put load on it for some \
                 seconds, or set its mean_time (and worst_time, parallelism)"
            )
        })?;
        let already: Vec<Admitted> = granted
            .values()
            .filter(|other| other.namespace == namespace)
            .map(|other| other.admitted)
            .collect();
        let urgent = config.general.order.urgent_share;
        let admitted = Broker::admit(&profile, &already, urgent, terms)
            .map_err(|refusal| refusal.to_string())?;
        let held: u64 = granted.values().map(|g| g.admitted.translation.buffer_bytes).sum();
        Broker::check_buffers(&admitted, self.memory.saturating_sub(held))
            .map_err(|refusal| refusal.to_string())?;
        Ok(Granted {
            namespace: namespace.to_owned(),
            device: known.backend,
            reserved: Arc::new(Reserved::new(now, &admitted)),
            admitted,
        })
    }

    /// Admits what the configuration reserves and is not in force yet: all of it, or what is on
    /// the device of one namespace. Whether anything came into force.
    pub(super) fn retry_reservations(&mut self, now: Nanos, only: Option<&str>) -> bool {
        let mut changed = false;
        for session in &self.config.sessions {
            let Some((namespace, terms)) = wanted(session) else { continue };
            if only.is_some_and(|only| only != namespace) {
                continue;
            }
            let name = &session.name;
            if self.reservations.granted.contains_key(name) {
                continue;
            }
            let granted = &self.reservations.granted;
            match self.try_admit(now, &self.config, granted, (namespace, terms)) {
                Ok(one) => {
                    tracing::info!(session = name, namespace, "the reservation is in force");
                    self.reservations.unsettled.push(one.place());
                    self.reservations.granted.insert(name.clone(), one);
                    self.reservations.pending.remove(name);
                    changed = true;
                }
                Err(why) => {
                    let told = self.reservations.pending.insert(name.clone(), why.clone());
                    if told.is_none() {
                        tracing::error!(session = name, why, "the reservation is not in force");
                    }
                }
            }
        }
        changed
    }

    /// Gives up what was reserved on the device of a namespace that is gone; it is asked for again
    /// when that comes back.
    pub(super) fn drop_reservations(&mut self, namespace: &str) {
        if self.reservations.granted.is_empty() {
            return;
        }
        let here = self.reservations.granted.iter().filter(|(_, g)| g.namespace == namespace);
        let gone: Vec<String> = here.map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.reservations.granted.remove(&name);
            let why = format!("there is no namespace {namespace}");
            self.reservations.pending.insert(name, why);
        }
    }
}
