//! The state of the stages, for the control socket and the metrics.

use std::collections::HashMap;
use std::sync::Arc;

use arbitration::credit::Caps;
use arbitration::device::Device;
use arbitration::reservation::Cause;
use arbitration::session::Session;
use arbitration::{Class, PerClass};
use fabric::Nanos;

use super::control::Control;
use super::notices::{MissedReserve, Pressure};
use super::served::namespace_name;
use super::wanted::root;
use crate::serve::engine::{
    DeviceState, QosState, ReserveState, SessionState, Traffic, WindowBound,
};
use sluice_core::stats::{IoSnapshot, IoStats};

/// Sums up statistics.
fn sum<'a>(all: impl Iterator<Item = &'a IoStats>) -> IoSnapshot {
    let mut total = IoSnapshot::default();
    for stats in all {
        total.merge(&stats.snapshot());
    }
    total
}

/// Returns the present state of the stages; `classes` has the statistics of each reactor.
pub(super) fn state(now: Nanos, control: &Control, classes: &[PerClass<IoStats>]) -> QosState {
    let devices = device_states(now, control);
    let classes = PerClass::from_fn(|class: Class| Traffic {
        waiting: devices.iter().map(|device| device.waiting[class]).sum(),
        refused: classes.iter().map(|all| all[class].refused()).sum(),
        io: sum(classes.iter().map(|all| &all[class])),
    });
    let mut sessions: Vec<SessionState> = Vec::new();
    // A parent has fewer above it than its children.
    let depth = |session: &Session| {
        std::iter::successors(session.parent(), |session| session.parent()).count()
    };
    let mut order: Vec<_> =
        control.sessions.iter().map(|session| (depth(session), session.id().0, session)).collect();
    order.sort_by_key(|(depth, place, _)| (*depth, *place));
    let mut places = HashMap::new();
    for (index, (_, _, session)) in order.into_iter().enumerate() {
        places.insert(session.name().to_owned(), index);
        sessions.push(session_state(now, control, session));
    }
    // The operations of a session's children count on its account too. Children come last.
    let mut rest = sessions.as_mut_slice();
    while let Some((child, above)) = rest.split_last_mut() {
        let parent = child.parent.as_ref().and_then(|name| places.get(name));
        if let Some(parent) = parent.and_then(|at| above.get_mut(*at)) {
            parent.traffic.waiting += child.traffic.waiting;
            parent.traffic.refused += child.traffic.refused;
            parent.traffic.io.merge(&child.traffic.io);
        }
        rest = above;
    }
    QosState { classes, sessions, devices }
}

/// Returns the credits that a session can have: its own share, or the least of those above it.
fn effective_caps(session: &Session, root: Caps) -> Caps {
    let mut caps = session.credits.caps();
    caps.operations = caps.operations.min(root.operations);
    caps.payload = caps.payload.min(root.payload);
    let mut above = session.parent();
    while let Some(parent) = above {
        let theirs = parent.credits.caps();
        caps.operations = caps.operations.min(theirs.operations);
        caps.payload = caps.payload.min(theirs.payload);
        above = parent.parent();
    }
    caps
}

/// Returns the devices of all namespaces.
fn device_states(now: Nanos, control: &Control) -> Vec<DeviceState> {
    let mut devices = Vec::new();
    for (nqn, namespaces) in &control.served.subsystems {
        for (nsid, known) in namespaces {
            let name = namespace_name(nqn, *nsid);
            let device = &known.device;
            let profile = device.profile();
            let mean = profile.map_or((0, 0), |p| (p.read.mean.0, p.write.mean.0));
            let here = control.reservations.granted.values().filter(|g| g.namespace == name);
            let window = device.window.depth();
            devices.push(DeviceState {
                subsystem: nqn.clone(),
                nsid: *nsid,
                arbitrated: control.config.general.enabled && known.queued,
                window,
                bound: window_bound(now, device, window),
                in_use: device.window.in_use(),
                waiting: device.waiting(),
                mean_ns: mean,
                reserved: here.fold(0.0, |sum, granted| {
                    sum + granted.admitted.translation.utilisation.fraction()
                }),
                profile,
            });
        }
    }
    devices
}

/// Returns the bound that a reservation sets to a device's window, where it is lower than the window.
fn window_bound(now: Nanos, device: &Device, window: Option<f64>) -> Option<WindowBound> {
    let (session, bound) = device.queue_bound()?;
    let depth = bound.depth();
    let lower = window.is_none_or(|window| (depth as f64) < window);
    lower.then(|| WindowBound { depth, session, busy: device.busy(now) })
}

/// Returns for how many ns a command of a session waits that comes now; 0 where none waits, here or for
/// its retry.
fn expected_wait(now: Nanos, session: &Session) -> u64 {
    let here = if session.backlog.waiting() > 0 { session.backlog.expected_wait(now) } else { 0 };
    let sent_back = [false, true].map(|write| session.wait_behind_sent_back(now, write));
    sent_back.into_iter().fold(here, u64::max)
}

/// Returns the sessions whose commands wait, or whose reservations were missed.
pub(super) fn pressures(now: Nanos, control: &Control) -> Vec<Pressure> {
    let pressure = |session: &Arc<Session>| {
        let (name, wait) = (session.name(), expected_wait(now, session));
        let granted = control.reservations.granted.get(name);
        let reserve = granted.and_then(|granted| {
            let miss = granted.reserved.last_miss()?;
            Some(MissedReserve {
                namespace: granted.namespace.clone(),
                periods: granted.reserved.missed().total(),
                cause: miss.cause.name(),
                reason: miss.to_string(),
            })
        });
        // Most of many sessions have neither.
        (wait > 0 || reserve.is_some()).then(|| Pressure {
            session: name.to_owned(),
            limits: session.limits(),
            wait,
            refused: session.backlog.refused(),
            reserve,
        })
    };
    control.sessions.iter().filter_map(pressure).collect()
}

/// Returns a session's state without the operations of its children.
fn session_state(now: Nanos, control: &Control, session: &Session) -> SessionState {
    let name = session.name();
    let used = session.credits.used();
    let caps = effective_caps(session, root(&control.config, control.memory).caps);
    let stats = control.stats.get(name).filter(|(serial, _)| *serial == session.serial());
    let automatic = control.served.has(name);
    let reserve = control.reservations.granted.get(name).map(|granted| {
        let (periods, kept) = granted.reserved.kept();
        let (promised, late) = granted.reserved.late();
        let missed = granted.reserved.missed();
        ReserveState {
            namespace: granted.namespace.clone(),
            terms: granted.admitted.terms.to_string(),
            utilisation: granted.admitted.translation.utilisation.fraction(),
            periods,
            kept,
            missed: Cause::ALL.map(|cause| (cause.name(), missed.by(cause))),
            last_miss: granted.reserved.last_miss().map(|miss| miss.to_string()),
            floors: granted.floors.clone(),
            promised,
            late,
        }
    });
    SessionState {
        name: name.to_owned(),
        parent: session.parent().map(|parent| parent.name().to_owned()),
        automatic,
        operations: (u64::from(used.operations), u64::from(caps.operations)),
        payload: (used.payload.saturating_mul(1024), caps.payload.saturating_mul(1024)),
        limits: session.limits(),
        queue: session.backlog.bound(),
        weight: session.weight(),
        reserve,
        wait: expected_wait(now, session),
        traffic: Traffic {
            waiting: u64::from(session.backlog.waiting()),
            refused: session.backlog.refused(),
            io: stats.map_or_else(IoSnapshot::default, |(_, all)| sum(all.iter())),
        },
    }
}
