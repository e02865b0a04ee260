//! The metric families of quality of service.

use std::collections::BTreeMap;
use std::fmt::Error;

use prometheus_client::registry::Unit;
use sluice_config::QosConfig;

use super::families::{Families, Labels, Names, Pick, Source, one, seconds};
use crate::serve::engine::{DeviceState, QosState, ReserveState, SessionState, Traffic};
use sluice_core::stats::{HistogramSnapshot, IoSnapshot};

/// A function that picks one fractional number, or `None` where the series is left out.
pub(super) type PickFraction<T> = fn(&T) -> Option<f64>;

/// A function that picks the times of one part of commands' ways.
type PickTimes = fn(&IoSnapshot) -> &HistogramSnapshot;

const CLASS: Names =
    Names { prefix: "class", errors_from_start: true, has_latency: true, has_waits: true };
/// The families of a session, without latencies: there may be thousands of sessions.
const SESSION: Names = Names { prefix: "session", has_latency: false, ..CLASS };

impl Families<'_> {
    /// Writes classes, sessions, reservations and devices.
    pub(super) fn qos(&mut self, enabled: bool, state: &QosState) -> Result<(), Error> {
        let help = "1 while quality of service orders commands, 0 while they go as they come";
        self.gauges("qos_enabled", help, None, one(u64::from(enabled)))?;
        let classes: Vec<(Labels, &Traffic)> = state
            .classes
            .iter()
            .map(|(class, traffic)| (vec![("class", class.name().to_owned())], traffic))
            .collect();
        self.traffic(&CLASS, &classes)?;
        let sessions: Vec<(Labels, &Traffic)> = state
            .sessions
            .iter()
            .map(|session| (session_label(session), &session.traffic))
            .collect();
        self.traffic(&SESSION, &sessions)?;
        let waits =
            state.sessions.iter().map(|session| (session_label(session), seconds(session.wait)));
        let help = "Time that a command which comes now is expected to wait";
        self.gauges("session_wait", help, Some(&Unit::Seconds), waits)?;
        self.credits(&state.sessions)?;
        self.reservations(&state.sessions)?;
        self.devices(&state.devices)
    }

    /// Writes whether the configured reservations are in force. `not_in_force` has the reasons by session.
    pub(super) fn reservations_in_force(
        &mut self,
        config: &QosConfig,
        not_in_force: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let reserved = config.sessions.iter().filter(|session| session.reserve.is_some());
        let values = reserved.map(|session| {
            let is_in_force = !not_in_force.contains_key(&session.name);
            (vec![("session", session.name.clone())], u64::from(is_in_force))
        });
        let help = "1 while a configured reservation is in force, otherwise 0";
        self.gauges("reservation_in_force", help, None, values)
    }

    /// Writes the traffic through a stage.
    fn traffic(&mut self, names: &Names, all: &[(Labels, &Traffic)]) -> Result<(), Error> {
        let name = |suffix: &str| format!("{}_{suffix}", names.prefix);
        let now = all.iter().map(|(labels, traffic)| (labels.clone(), traffic.waiting));
        self.gauges(&name("waiting"), "Commands waiting now", None, now)?;
        let help = "Commands refused with a request to retry later";
        let refused = all.iter().filter(|(_, traffic)| traffic.refused > 0);
        let refused = refused.map(|(labels, traffic)| (labels.clone(), traffic.refused));
        self.counters(&name("refused"), help, None, refused)?;
        let sources: Vec<Source<'_>> = all
            .iter()
            .map(|(labels, traffic)| Source { labels: labels.clone(), io: &traffic.io })
            .collect();
        self.operations(names, &sources)
    }

    fn credits(&mut self, sessions: &[SessionState]) -> Result<(), Error> {
        let bytes = Some(&Unit::Bytes);
        let gauges: [(&str, &str, Option<&Unit>, Pick<SessionState>); 4] = [
            ("session_credits_used", "Credits in use: commands in devices", None, |s| {
                s.operations.0
            }),
            ("session_credits", "Credits", None, |s| s.operations.1),
            ("session_payload_used", "Payload credits in use", bytes, |s| s.payload.0),
            ("session_payload_credits", "Payload credits", bytes, |s| s.payload.1),
        ];
        for (name, help, unit, pick) in gauges {
            let values = sessions.iter().map(|session| (session_label(session), pick(session)));
            self.gauges(name, help, unit, values)?;
        }
        Ok(())
    }

    fn reservations(&mut self, sessions: &[SessionState]) -> Result<(), Error> {
        let all: Vec<(Labels, &ReserveState)> = sessions
            .iter()
            .filter_map(|session| {
                let reserve = session.reserve.as_ref()?;
                let mut labels = session_label(session);
                labels.push(("namespace", reserve.namespace.clone()));
                Some((labels, reserve))
            })
            .collect();
        let counters: [(&str, &str, Pick<ReserveState>); 4] = [
            ("reservation_periods", "Periods that ended with demand", |r| r.periods),
            (
                "reservation_kept",
                "Periods in which the tenant got its budget, or all it asked for",
                |r| r.kept,
            ),
            (
                "reservation_promised",
                "Commands that had to be complete by a deadline, by the allowed latency",
                |r| r.promised,
            ),
            ("reservation_late", "Commands that were later than that", |r| r.late),
        ];
        for (name, help, pick) in counters {
            let values = all.iter().map(|(labels, reserve)| (labels.clone(), pick(reserve)));
            self.counters(name, help, None, values)?;
        }
        let help = "Periods in which less than the reservation was complete, by cause";
        let missed = all.iter().flat_map(|(labels, reserve)| {
            let missed = reserve.missed.into_iter().filter(|(_, periods)| *periods > 0);
            missed.map(move |(cause, periods)| {
                let mut labels = labels.clone();
                labels.push(("cause", cause.to_owned()));
                (labels, periods)
            })
        });
        self.counters("reservation_missed", help, None, missed)?;
        let help = "The share of the device that is set aside";
        let shares = all.iter().map(|(labels, reserve)| (labels.clone(), reserve.utilisation));
        self.gauges("reservation_utilisation", help, Some(&ratio()), shares)
    }

    fn devices(&mut self, devices: &[DeviceState]) -> Result<(), Error> {
        let ratio = ratio();
        let gauges: [(&str, &str, Option<&Unit>, PickFraction<DeviceState>); 3] = [
            (
                "device_window",
                "Commands of ordinary size that the device may hold now",
                None,
                |device| device.window,
            ),
            ("device_in_use", "Commands of ordinary size that the device holds", None, |device| {
                Some(device.in_use)
            }),
            (
                "device_reserved",
                "The share of the device that is reserved",
                Some(&ratio),
                |device| Some(device.reserved),
            ),
        ];
        for (name, help, unit, pick) in gauges {
            let values =
                devices.iter().filter_map(|device| Some((device_labels(device), pick(device)?)));
            self.gauges(name, help, unit, values)?;
        }
        let with = |device: &DeviceState, label: (&'static str, String)| {
            let mut labels = device_labels(device);
            labels.push(label);
            labels
        };
        let times = devices.iter().flat_map(|device| {
            let (read, write) = device.mean_ns;
            [("read", read), ("write", write)]
                .map(|(name, ns)| (with(device, ("operation", name.into())), seconds(ns)))
        });
        let help = "Measured mean time of a 4 KiB command in the device; 0 until it is known";
        self.gauges("device_mean_service", help, Some(&Unit::Seconds), times)?;
        let waiting = devices.iter().flat_map(|device| {
            let each = device.waiting.iter();
            each.map(move |(class, n)| (with(device, ("class", class.name().to_owned())), *n))
        });
        self.gauges("device_waiting", "Commands waiting for the device", None, waiting)
    }

    /// Writes where operations' latencies were spent: waiting in the target, and in the device. An
    /// object without operations has no series.
    pub(super) fn waits(&mut self, names: &Names, sources: &[Source<'_>]) -> Result<(), Error> {
        let waits: [(&str, &str, PickTimes); 2] = [
            ("queueing", "Time from the arrival of commands until their device had them", |io| {
                &io.queueing
            }),
            ("service", "Time that commands were in the device", |io| &io.service),
        ];
        for (suffix, help, pick) in waits.into_iter().filter(|_| names.has_waits) {
            let name = format!("{}_{suffix}", names.prefix);
            let used = sources.iter().filter(|source| source.io.operations() > 0);
            let times = used.map(|source| (source.labels.clone(), pick(source.io)));
            self.histograms(&name, help, times)?;
        }
        Ok(())
    }
}

pub(super) fn ratio() -> Unit {
    Unit::Other("ratio".into())
}

fn session_label(session: &SessionState) -> Labels {
    vec![("session", session.name.clone())]
}

fn device_labels(device: &DeviceState) -> Labels {
    vec![("subsystem", device.subsystem.clone()), ("nsid", device.nsid.to_string())]
}
