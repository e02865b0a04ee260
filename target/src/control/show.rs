//! What quality of service does, as answers show it.

use arbitration::settings::WindowRule;
use serde_json::{Map, Value, json};
use sluice_schema::answer::{
    self, ClassTraffic, Credits, MeanTimes, QosSettings, Reservation, SessionSettings,
};
use sluice_schema::params::Settings;

use super::Control;
use super::measured::operations;
use crate::config::qos::values::{UNITS, word};
use crate::config::{Config, Policy, Qos, Session, format_duration};
use crate::engine::{DeviceState, ReserveState, SessionState, Traffic};

impl Control {
    /// Answers `qos.show`.
    pub(super) fn qos_show(&self, buckets: bool) -> answer::Qos {
        let state = self.engine().qos();
        let config = self.live().current().clone();
        let classes = state.classes.iter().map(|(class, passed)| ClassTraffic {
            class: class.name().to_owned(),
            traffic: traffic(passed, buckets),
        });
        answer::Qos {
            settings: general(&config.qos.general),
            classes: classes.collect(),
            sessions: state.sessions.iter().map(|row| session(row, &config, buckets)).collect(),
            devices: state.devices.iter().map(|row| device(row, &config)).collect(),
            policies: config.qos.policies.iter().map(policy).collect(),
        }
    }

    /// Answers `session.list`.
    pub(super) fn session_list(&self) -> Vec<answer::Session> {
        let config = self.live().current().clone();
        let sessions = self.engine().qos().sessions;
        sessions.iter().map(|row| session(row, &config, false)).collect()
    }
}

/// Makes settings of an object.
fn settings(value: Value) -> Settings {
    match value {
        Value::Object(settings) => settings.into(),
        _ => Settings::default(),
    }
}

/// Shows what `[qos]` says.
pub(super) fn general(qos: &Qos) -> QosSettings {
    let order = &qos.order;
    let (window, target, max) = match qos.window {
        WindowRule::Off => (json!("off"), None, None),
        WindowRule::Fixed(n) => (json!(n), None, None),
        WindowRule::Adaptive { target, max } => {
            (json!("adaptive"), Some(std::time::Duration::from_nanos(target.0)), Some(max))
        }
    };
    let marks: Map<String, Value> =
        qos.dscp.iter().map(|(class, mark)| (class.name().to_owned(), json!(mark))).collect();
    settings(json!({
        "enabled": qos.enabled,
        "weights": {
            "high": order.weights.high,
            "medium": order.weights.medium,
            "low": order.weights.low,
        },
        "unit": word(&UNITS, &order.unit),
        "burst": if order.burst == u16::MAX { json!("unlimited") } else { json!(order.burst) },
        "urgent_share": order.urgent_share,
        "window": window,
        "latency_target": target.map(format_duration),
        "window_max": max,
        "operations": qos.operations,
        "payload": qos.payload,
        "queue": qos.queue,
        "wrr": qos.wrr,
        "mark": qos.mark,
        "dscp": marks,
    }))
}

fn traffic(passed: &Traffic, buckets: bool) -> answer::Traffic {
    answer::Traffic {
        waiting: passed.waiting,
        refused: passed.refused,
        io: operations(&passed.io, buckets),
    }
}

fn session(row: &SessionState, config: &Config, buckets: bool) -> answer::Session {
    let entry = config.qos.sessions.iter().find(|entry| entry.name == row.name);
    let credits = |(used, credits): (u64, u64), share: Option<u8>| Credits { used, credits, share };
    answer::Session {
        name: row.name.clone(),
        parent: row.parent.clone(),
        automatic: row.automatic,
        operations: credits(row.operations, entry.and_then(|entry| entry.operations)),
        payload: credits(row.payload, entry.and_then(|entry| entry.payload)),
        iops: row.iops,
        bandwidth: row.bandwidth,
        queue: row.queue,
        reserve: row.reserve.as_ref().map(reservation),
        traffic: traffic(&row.traffic, buckets),
    }
}

fn reservation(reserve: &ReserveState) -> Reservation {
    Reservation {
        namespace: reserve.namespace.clone(),
        terms: reserve.terms.clone(),
        utilisation: reserve.utilisation,
        periods: reserve.periods,
        kept: reserve.kept,
    }
}

/// What is set for a session.
pub(super) fn session_settings(session: &Session) -> SessionSettings {
    settings(json!({
        "name": session.name,
        "parent": session.parent,
        "operations": session.operations,
        "payload": session.payload,
        "iops": session.iops,
        "bandwidth": session.bandwidth,
        "queue": session.queue,
        "reserve": session.reserve.as_ref().map(|reserve| json!({
            "namespace": reserve.namespace.as_ref().unwrap_or(&session.name),
            "terms": reserve.terms.to_string(),
        })),
    }))
}

fn device(row: &DeviceState, config: &Config) -> answer::Device {
    let waiting = row.waiting.iter().map(|(class, n)| (class.name().to_owned(), *n)).collect();
    let mut subsystems = config.subsystems.iter().filter(|s| s.nqn == row.subsystem);
    let class = subsystems
        .find_map(|s| s.namespaces.iter().find(|n| n.nsid == Some(row.nsid)))
        .and_then(|namespace| namespace.class);
    answer::Device {
        subsystem: row.subsystem.clone(),
        nsid: row.nsid,
        class: class.map(|class| class.name().to_owned()),
        arbitrated: row.arbitrated,
        window: row.window,
        in_use: row.in_use,
        waiting,
        mean_ns: MeanTimes { read: row.mean_ns.0, write: row.mean_ns.1 },
        reserved: row.reserved,
    }
}

/// Shows what a policy says.
pub(super) fn policy(policy: &Policy) -> Settings {
    settings(json!({
        "host": policy.host,
        "subsystem": policy.subsystem,
        "nsid": policy.nsid,
        "class": policy.class.map(arbitration::Class::name),
        "max_class": policy.max_class.map(arbitration::Class::name),
        "urgent_iops": policy.urgent_iops,
        "session": policy.session,
    }))
}
