//! Reservations: asked for in the configuration, admitted by the broker (seed rows F1, F2), in
//! force in the plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbitration::Nanos;
use arbitration::reservation::{Admitted, Broker, Reserved, Terms};
use arbitration::session::{Plan, Reservation};

use super::control::Control;
use crate::config::{QosConfig, Session};

/// A reservation that was admitted.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    /// NQN/NSID.
    pub(super) namespace: String,
    device: u32,
    pub(super) admitted: Admitted,
    pub(super) reserved: Arc<Reserved>,
}

/// By session name.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    pub(super) granted: BTreeMap<String, Granted>,
    /// Those of the configuration that are not in force, and why.
    pub(super) pending: BTreeMap<String, String>,
}

impl Reservations {
    /// As the reactors see them.
    pub(super) fn in_force(&self, plan: &Plan) -> Vec<Reservation> {
        let one = |(name, granted): (&String, &Granted)| {
            Some(Reservation {
                session: plan.named(name)?.id(),
                device: granted.device,
                reserved: Arc::clone(&granted.reserved),
            })
        };
        self.granted.iter().filter_map(one).collect()
    }

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
        self.reservations.granted = granted;
        self.reservations.pending = pending;
        Ok(())
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
            device: self.device_of(namespace).unwrap_or(0),
            reserved: Arc::new(Reserved::new(now, &admitted)),
            admitted,
        })
    }

    /// Admits what the configuration reserves and is not in force yet. Whether anything came into
    /// force.
    pub(super) fn retry_reservations(&mut self, now: Nanos) -> bool {
        let mut changed = false;
        for session in &self.config.sessions {
            let Some((namespace, terms)) = wanted(session) else { continue };
            let name = &session.name;
            if self.reservations.granted.contains_key(name) {
                continue;
            }
            let granted = &self.reservations.granted;
            match self.try_admit(now, &self.config, granted, (namespace, terms)) {
                Ok(one) => {
                    tracing::info!(session = name, namespace, "the reservation is in force");
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

    /// Gives up what was reserved on devices that are gone; it is asked for again when they come
    /// back.
    pub(super) fn drop_reservations(&mut self) {
        let gone: Vec<String> = self
            .reservations
            .granted
            .iter()
            .filter(|(_, granted)| self.device_of(&granted.namespace) != Some(granted.device))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some(granted) = self.reservations.granted.remove(&name) {
                let why = format!("there is no namespace {}", granted.namespace);
                self.reservations.pending.insert(name, why);
            }
        }
    }
}
