//! Reservations: the configuration asks for them, the broker admits them (docs/research/sources.md, F1, F2),
//! and devices keep them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arbitration::Nanos;
use arbitration::limit::{Rate, Rates};
use arbitration::reservation::{Admitted, Broker, Budget, Refusal, Reserved, Terms};
use arbitration::session::{self, Reservation, Sessions};
use arbitration::settings::WindowRule;
use fabric::controller::BackendId;
use sluice_config::{Qos, QosConfig, ROOT_SESSION, Session, format_size};

use super::served::{KnownNamespace, Served};

/// The least time for which a reservation keeps its translation.
const STEADY: Nanos = Nanos(2_000_000_000);
/// Divisor of a reactor's buffers: the part that is set aside for writes of all reservations without buffers of their
/// own.
const OTHERS_PART: u64 = 8;
/// The time between two looks at the profiles of devices with reservations.
const REVIEW_EVERY: Duration = Duration::from_secs(1);

/// A reservation that was admitted.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    /// The NQN/NSID of the namespace.
    pub(super) namespace: String,
    device: BackendId,
    pub(super) admitted: Admitted,
    pub(super) reserved: Arc<Reserved>,
    /// The rate that the tenant gets at least, by its depth, in words; empty where it is not known.
    pub(super) floors: String,
}

impl Granted {
    /// Returns whether buffers are set aside for the tenant.
    fn sets_aside(&self) -> bool {
        self.admitted.terms.buffers > 1
    }

    /// Returns the namespace and its device.
    pub(super) fn place(&self) -> (String, BackendId) {
        (self.namespace.clone(), self.device)
    }
}

/// The reservations, by session name.
#[derive(Debug)]
pub(super) struct Reservations {
    pub(super) granted: BTreeMap<String, Granted>,
    /// The configured reservations that are not in force, with the reason.
    pending: BTreeMap<String, String>,
    /// Namespaces and devices whose reservations have changed.
    unsettled: Vec<(String, BackendId)>,
    /// The bytes of I/O buffers of each reactor, and of all.
    memory: (u64, u64),
    /// Sessions that buffers are set aside for.
    aside: Vec<Arc<session::Session>>,
    /// When reservations are next compared with the profiles of their devices.
    next_review: Nanos,
}

fn no_namespace(namespace: &str) -> String {
    format!("there is no namespace {namespace}")
}

fn unmeasured(namespace: &str) -> String {
    format!(
        "the device of {namespace} has not been measured yet; put load on it for some seconds, or \
         set its mean_time (and worst_time, parallelism)"
    )
}

/// Returns the configured window of a namespace's device, independent of reservations. `None`: its window follows
/// the reservations, as the default one does, or the device has a scheduling set.
pub(super) fn fixed_window(known: &KnownNamespace, general: &Qos) -> Option<u32> {
    let general = Some(general.window).filter(|rule| *rule != WindowRule::default());
    match known.settings.window.or(general)? {
        WindowRule::Fixed(commands) if !known.device.is_bounded() => Some(commands),
        _ => None,
    }
}

/// Checks that a fixed window lets a reservation be kept.
fn check_window(known: &KnownNamespace, general: &Qos, one: &Admitted) -> Result<(), Refusal> {
    fixed_window(known, general).map_or(Ok(()), |window| Broker::check_window(one, window))
}

/// Returns the names of the sessions above one, the nearest first, without the root session.
fn above<'a>(served: &Served, config: &'a QosConfig, name: &'a str) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut next = Some(name);
    while let Some(name) = next {
        let own = config.sessions.iter().find(|session| session.name == name);
        let subsystem =
            || name.rsplit_once('/').map(|(nqn, _)| nqn).filter(|nqn| served.has_subsystem(nqn));
        next = own.and_then(|session| session.parent.as_deref()).or_else(subsystem);
        // The configuration was checked for circles, but not with the subsystems that are served now.
        next = next.filter(|above| *above != ROOT_SESSION && !names.contains(above));
        names.extend(next);
    }
    names
}

/// Returns the commands and the bytes that are reserved per second, rounded down.
fn reserved_rates(one: &Admitted) -> [u64; 2] {
    let per_second = |amount: u64, period: Nanos| {
        let rate = u128::from(amount) * 1_000_000_000 / u128::from(period.0.max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    };
    let Terms { budget, period, request_bytes, .. } = one.terms;
    let bytes = u64::from(request_bytes.max(1));
    let commands = match budget {
        Budget::Bytes(amount) => {
            return [per_second(amount / bytes, period), per_second(amount, period)];
        }
        Budget::Operations(amount) => per_second(amount, period),
        Budget::DeviceTime(_) => per_second(one.translation.operations, one.translation.period),
    };
    [commands, commands.saturating_mul(bytes)]
}

/// Checks that the limits of a session and of those above it leave room for its reservation beside the other
/// reservations below them. Limits per GiB and of one direction are not considered.
fn check_limits_above(
    served: &Served,
    config: &QosConfig,
    granted: &BTreeMap<String, Granted>,
    (name, one): (&str, &Admitted),
) -> Result<(), String> {
    for limited in [name].into_iter().chain(above(served, config, name)) {
        let Some(session) = config.sessions.iter().find(|session| session.name == limited) else {
            continue;
        };
        let Rates { iops, bandwidth } = session.limits_with(&config.profiles).total(None);
        let beside = granted
            .iter()
            .filter(|(other, _)| *other != name && above(served, config, other).contains(&limited));
        let all = beside
            .map(|(_, granted)| reserved_rates(&granted.admitted))
            .chain([reserved_rates(one)]);
        let [commands, bytes] =
            all.fold([0_u64; 2], |[a, b], [c, d]| [a.saturating_add(c), b.saturating_add(d)]);
        let exceeded = |limit: Option<Rate>, reserved: u64| {
            limit.map(Rate::get).filter(|limit| *limit < reserved)
        };
        let (who, place) = match limited == name {
            true => ("it".to_owned(), "for it"),
            false => (format!("session {limited} above it"), "below it"),
        };
        if let Some(limit) = exceeded(iops, commands) {
            return Err(format!(
                "{who} is limited to {limit} commands a second, and {commands} would be reserved {place}: raise its \
                 iops, or reserve less"
            ));
        }
        if let Some(limit) = exceeded(bandwidth, bytes) {
            return Err(format!(
                "{who} is limited to {}/s, and {}/s would be reserved {place}: raise its bandwidth, or reserve less",
                format_size(limit),
                format_size(bytes)
            ));
        }
    }
    Ok(())
}

/// Describes the least rates of a tenant by its depth, beside the other reservations on the device. On a device with a
/// scheduling set, they are known if one command at a time achieves the whole reservation.
fn floors<'a>(
    known: &KnownNamespace,
    general: &Qos,
    one: &Admitted,
    others: impl Iterator<Item = &'a Admitted>,
) -> String {
    let reserved = others.map(|other| other.translation.utilisation).sum();
    let all = one.floor(u64::MAX, None, reserved);
    if known.device.is_bounded() && one.floor(1, None, reserved) < all {
        return String::new();
    }
    one.floors(fixed_window(known, general), reserved)
}

/// Returns the reservation that a session is configured with: its namespace and its terms.
fn wanted(session: &Session) -> Option<(&str, &Terms)> {
    let reserve = session.reserve.as_ref()?;
    let namespace = reserve.namespace.as_deref().unwrap_or(&session.name);
    Some((namespace, &reserve.terms))
}

/// Logs that a reservation is not in force, once for each reason. `before` is the last reason.
fn log_pending(session: &str, (namespace, why): (&str, &str), before: Option<&str>) {
    let (missing, unmeasured) = (no_namespace(namespace), unmeasured(namespace));
    let after_missing = before.is_none_or(|before| before == missing);
    if why == missing {
        // The log has lines about the namespace.
        return;
    }
    if why != unmeasured && (after_missing || before == Some(unmeasured.as_str())) {
        tracing::error!(session, why, "the reservation is not in force");
    } else if why == unmeasured && after_missing {
        // No fault: every device is new once.
        tracing::info!(session, why, "the reservation waits");
    }
}

impl Reservations {
    /// Makes an empty table, on a target whose `reactors` share `memory` bytes of I/O buffers.
    pub(super) fn new(memory: u64, reactors: usize) -> Self {
        let (granted, pending) = (BTreeMap::new(), BTreeMap::new());
        let each = memory / u64::try_from(reactors.max(1)).unwrap_or(u64::MAX);
        let memory = (each, memory);
        Self {
            granted,
            pending,
            unsettled: Vec::new(),
            memory,
            aside: Vec::new(),
            next_review: Nanos::ZERO,
        }
    }

    /// Returns the sessions whose configured reservations are not in force, with the reason.
    pub(super) fn not_in_force(&self) -> &BTreeMap<String, String> {
        &self.pending
    }

    /// Returns whether any configured reservation is not in force.
    pub(super) fn are_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether no reservation is configured.
    pub(super) fn are_none(&self) -> bool {
        self.pending.is_empty() && self.granted.is_empty()
    }

    /// Notes that a session has come or gone, so that its reservation is put in force again.
    pub(super) fn touch(&mut self, session: &str) {
        if let Some(granted) = self.granted.get(session) {
            self.unsettled.push(granted.place());
        }
    }

    /// Admits the reservations of a new configuration that are not in force, and gives up reservations that it no
    /// longer has.
    ///
    /// # Errors
    /// A reservation that is new does not fit; nothing has changed.
    pub(super) fn admit(
        &mut self,
        now: Nanos,
        served: &Served,
        (before, config): (&QosConfig, &QosConfig),
    ) -> Result<(), String> {
        let mut granted = BTreeMap::new();
        let mut fresh = Vec::new();
        for session in &config.sessions {
            let Some((namespace, terms)) = wanted(session) else { continue };
            let known = self.granted.get(&session.name);
            match known.filter(|g| g.namespace == namespace && g.admitted.terms == *terms) {
                Some(same) => {
                    if let Some(known) = served.named(namespace) {
                        let general = &config.general;
                        check_window(known, general, &same.admitted).map_err(|refusal| {
                            format!(
                                "session {} cannot keep its reservation: {refusal}",
                                session.name
                            )
                        })?;
                    }
                    granted.insert(session.name.clone(), same.clone());
                }
                None => fresh.push((session, namespace, terms)),
            }
        }
        let mut pending = BTreeMap::new();
        for (session, namespace, terms) in fresh {
            let name = &session.name;
            let before = before.sessions.iter().find(|s| s.name == *name).and_then(wanted);
            match self.try_admit((now, served), config, &granted, (name, namespace, terms)) {
                Ok(one) => {
                    granted.insert(name.clone(), one);
                }
                // A reservation that was refused before must not stop other changes.
                Err(why) if before == Some((namespace, terms)) => {
                    pending.insert(name.clone(), why);
                }
                Err(why) => return Err(format!("session {name} cannot reserve this: {why}")),
            }
        }
        for (name, one) in granted.iter().filter(|(name, _)| self.granted.contains_key(*name)) {
            check_limits_above(served, config, &granted, (name, &one.admitted))
                .map_err(|why| format!("session {name} cannot keep its reservation: {why}"))?;
        }
        let old = std::mem::replace(&mut self.granted, granted);
        self.pending = pending;
        // `settle` is called after the sessions have changed too.
        let now = self.granted.values().map(Granted::place);
        let places: Vec<_> = old.values().map(Granted::place).chain(now).collect();
        self.unsettled.extend(places);
        Ok(())
    }

    /// Puts the reservations in force on the devices where they have changed since the last call;
    /// while the stages are off, no reservation is in force. Returns the devices that have changed.
    pub(super) fn settle(
        &mut self,
        served: &Served,
        sessions: &Sessions,
        general: &Qos,
    ) -> Vec<BackendId> {
        let enabled = general.enabled;
        let places: BTreeMap<String, BackendId> =
            std::mem::take(&mut self.unsettled).into_iter().collect();
        for namespace in places.keys() {
            if let Some(known) = served.named(namespace) {
                self.describe_floors(namespace, known, general);
            }
        }
        let changes = places.into_iter().filter(|(namespace, device)| {
            let known = served.named(namespace).filter(|known| known.backend == *device);
            known.is_some_and(|known| {
                let all = if enabled { self.on_device(sessions, namespace) } else { Vec::new() };
                let same = |(a, b): (&Reservation, &Reservation)| {
                    Arc::ptr_eq(&a.session, &b.session) && Arc::ptr_eq(&a.reserved, &b.reserved)
                };
                let before = known.device.reservations();
                if before.len() == all.len() && before.iter().zip(&all).all(same) {
                    return false;
                }
                known.device.follow_reservations(fixed_window(known, general).is_none());
                known.device.reserve(all);
                true
            })
        });
        changes.map(|(_, device)| device).collect()
    }

    /// Describes the least rates of all tenants on a device again.
    fn describe_floors(&mut self, namespace: &str, known: &KnownNamespace, general: &Qos) {
        let here = |granted: &Granted| granted.namespace == namespace;
        let all: Vec<(String, Admitted)> = self
            .granted
            .iter()
            .filter(|(_, granted)| here(granted))
            .map(|(name, granted)| (name.clone(), granted.admitted))
            .collect();
        for (name, granted) in self.granted.iter_mut().filter(|(_, granted)| here(granted)) {
            let others = all.iter().filter(|(other, _)| other != name).map(|(_, other)| other);
            granted.floors = floors(known, general, &granted.admitted, others);
        }
    }

    /// Returns the reservations that are granted on a namespace's device.
    fn on_device(&self, sessions: &Sessions, namespace: &str) -> Vec<Reservation> {
        let here = self.granted.iter().filter(|(_, granted)| granted.namespace == namespace);
        here.filter_map(|(name, granted)| {
            let session = Arc::clone(sessions.named(name)?);
            Some(Reservation { session, reserved: Arc::clone(&granted.reserved) })
        })
        .collect()
    }

    /// Sets buffers aside for the sessions whose periods they make longer (docs/research/sources.md, F4:
    /// buffers count in admission), and a smaller part for the writes of the others: while all buffers are in use,
    /// a reservation would get no more of them than any session. While the stages are off (`enabled`),
    /// sets none aside. Returns whether anything changed.
    pub(super) fn set_aside(&mut self, sessions: &Sessions, enabled: bool) -> bool {
        if self.aside.is_empty() && self.granted.is_empty() {
            return false;
        }
        let writes = |granted: &&Granted| granted.admitted.terms.write_percent > 0;
        let others = self.granted.values().filter(|granted| !granted.sets_aside()).filter(writes);
        let (each, _) = self.memory;
        let part = each / OTHERS_PART / u64::try_from(others.count()).unwrap_or(u64::MAX).max(1);
        let of = |granted: &Granted| match granted.admitted.translation.buffer_bytes {
            bytes if granted.sets_aside() => bytes,
            bytes if granted.admitted.terms.write_percent > 0 => bytes.min(part),
            _ => 0,
        };
        let wanted = self.granted.iter().filter(|(_, granted)| enabled && of(granted) > 0);
        let wanted: Vec<(Arc<session::Session>, u64)> = wanted
            .filter_map(|(name, granted)| {
                let session = Arc::clone(sessions.named(name)?);
                Some((session, of(granted)))
            })
            .collect();
        let mut changed = false;
        for old in &self.aside {
            if !wanted.iter().any(|(session, _)| Arc::ptr_eq(session, old)) {
                changed |= old.set_aside(0);
            }
        }
        for (session, bytes) in &wanted {
            changed |= session.set_aside(*bytes);
        }
        self.aside = wanted.into_iter().map(|(session, _)| session).collect();
        changed
    }

    /// Checks that a reservation finds its buffers. Buffers that are set aside are in each reactor, half of whose
    /// buffers may be set aside.
    fn check_buffers<'a>(
        &self,
        one: &Admitted,
        others: impl Iterator<Item = &'a Granted>,
    ) -> Result<(), Refusal> {
        let (each, all) = self.memory;
        let aside = one.terms.buffers > 1;
        let like = others.filter(|other| !aside || other.sets_aside());
        let held: u64 = like.map(|other| other.admitted.translation.buffer_bytes).sum();
        let memory = if aside { each / 2 } else { all };
        Broker::check_buffers(one, memory.saturating_sub(held))
    }

    fn try_admit(
        &self,
        (now, served): (Nanos, &Served),
        config: &QosConfig,
        granted: &BTreeMap<String, Granted>,
        (name, namespace, terms): (&str, &str, &Terms),
    ) -> Result<Granted, String> {
        let known = served.named(namespace).ok_or_else(|| no_namespace(namespace))?;
        if !known.queued {
            return Err(format!(
                "{namespace} is in memory, where commands never wait; reserve on a namespace with \
                 a device"
            ));
        }
        let profile = known.device.profile().ok_or_else(|| unmeasured(namespace))?;
        let already: Vec<Admitted> = granted
            .values()
            .filter(|other| other.namespace == namespace)
            .map(|other| other.admitted)
            .collect();
        let urgent = config.general.order.urgent_share;
        let admitted = Broker::admit(&profile, &already, urgent, terms)
            .map_err(|refusal| refusal.to_string())?;
        self.check_buffers(&admitted, granted.values()).map_err(|refusal| refusal.to_string())?;
        check_window(known, &config.general, &admitted).map_err(|refusal| refusal.to_string())?;
        check_limits_above(served, config, granted, (name, &admitted))?;
        Ok(Granted {
            namespace: namespace.to_owned(),
            device: known.backend,
            reserved: Arc::new(Reserved::new(now, &admitted).in_set(known.device.is_bounded())),
            floors: floors(known, &config.general, &admitted, already.iter()),
            admitted,
        })
    }

    /// Admits configured reservations that are not in force yet: all, or those on the device of one
    /// namespace. Returns whether any came into force.
    pub(super) fn retry(
        &mut self,
        now: Nanos,
        served: &Served,
        config: &QosConfig,
        only: Option<&str>,
    ) -> bool {
        let mut changed = false;
        for session in &config.sessions {
            let Some((namespace, terms)) = wanted(session) else { continue };
            if only.is_some_and(|only| only != namespace) {
                continue;
            }
            let name = &session.name;
            if self.granted.contains_key(name) {
                continue;
            }
            match self.try_admit((now, served), config, &self.granted, (name, namespace, terms)) {
                Ok(one) => {
                    let floors = one.floors.as_str();
                    tracing::info!(
                        session = name,
                        namespace,
                        floors,
                        "the reservation is in force"
                    );
                    self.unsettled.push(one.place());
                    self.granted.insert(name.clone(), one);
                    self.pending.remove(name);
                    changed = true;
                }
                Err(why) => {
                    let before = self.pending.insert(name.clone(), why.clone());
                    log_pending(name, (namespace, why.as_str()), before.as_deref());
                }
            }
        }
        changed
    }

    /// Translates reservations again on devices whose profile differs from their own: a
    /// device with little load is not known well. Each stays as it is for two of its periods at least. Returns whether
    /// anything changed.
    pub(super) fn review(&mut self, now: Nanos, served: &Served, general: &Qos) -> bool {
        if now < self.next_review {
            return false;
        }
        self.next_review = now + REVIEW_EVERY;
        let mut devices: BTreeMap<&str, Vec<(&str, &Granted)>> = BTreeMap::new();
        for (name, granted) in &self.granted {
            devices.entry(&granted.namespace).or_default().push((name, granted));
        }
        let renewed: Vec<(String, Granted)> = devices
            .into_iter()
            .filter_map(|(namespace, here)| {
                self.renewed_on(now, (served.named(namespace)?, &here), general)
            })
            .flatten()
            .collect();
        let changed = !renewed.is_empty();
        for (session, one) in renewed {
            tracing::info!(
                session,
                namespace = one.namespace,
                floors = one.floors,
                "the reservation was adapted to the measured device"
            );
            self.unsettled.push(one.place());
            self.granted.insert(session, one);
        }
        changed
    }

    /// Makes the reservations `here` on a device by its present profile; `None` where they stay as they are.
    fn renewed_on(
        &self,
        now: Nanos,
        (known, here): (&KnownNamespace, &[(&str, &Granted)]),
        general: &Qos,
    ) -> Option<Vec<(String, Granted)>> {
        let is_new = |granted: &Granted| {
            let steady = granted.admitted.translation.period.0.saturating_mul(2).max(STEADY.0);
            now.ns_since(granted.reserved.since()) < steady
        };
        if here.iter().any(|(_, granted)| is_new(granted)) {
            return None;
        }
        let before: Vec<Admitted> = here.iter().map(|(_, granted)| granted.admitted).collect();
        let after = Broker::review(&known.device.profile()?, &before, general.order.urgent_share)?;
        let renewed: Vec<(String, Granted)> = here
            .iter()
            .zip(&after)
            .map(|((name, granted), admitted)| {
                let others = after.iter().filter(|other| !std::ptr::eq(*other, admitted));
                let one = Granted {
                    reserved: Arc::new(granted.reserved.renewed(now, admitted)),
                    floors: floors(known, general, admitted, others),
                    admitted: *admitted,
                    ..(*granted).clone()
                };
                ((*name).to_owned(), one)
            })
            .collect();
        let fits = |(name, one): &(String, Granted)| {
            let same = |other: &str| renewed.iter().find(|(name, _)| name == other);
            let others = self.granted.iter().filter(|(other, _)| *other != name);
            let others = others.map(|(other, granted)| same(other).map_or(granted, |(_, one)| one));
            check_window(known, general, &one.admitted).is_ok()
                && self.check_buffers(&one.admitted, others).is_ok()
        };
        renewed.iter().all(fits).then_some(renewed)
    }

    /// Gives up the reservations on the device of a namespace that is gone. They are tried again
    /// when the namespace is back.
    pub(super) fn drop_on(&mut self, namespace: &str) {
        if self.granted.is_empty() {
            return;
        }
        let here = self.granted.iter().filter(|(_, g)| g.namespace == namespace);
        let gone: Vec<String> = here.map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.granted.remove(&name);
            self.pending.insert(name, no_namespace(namespace));
        }
    }
}
