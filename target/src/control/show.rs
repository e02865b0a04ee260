//! What quality of service does, as answers show it.

use arbitration::settings::WindowRule;
use serde_json::{Map, Value, json};

use super::Control;
use super::methods::io_json;
use crate::config::qos::values::{UNITS, word};
use crate::config::{Config, Policy, Qos, Session, format_duration};
use crate::engine::{DeviceState, ReserveState, SessionState, Traffic};

impl Control {
    /// `qos.show`.
    pub(super) fn qos_show(&self, buckets: bool) -> Value {
        let state = self.engine().qos();
        let config = self.live().current().clone();
        let mut answer = general_json(&config.qos.general);
        let classes: Vec<Value> = state
            .classes
            .iter()
            .map(|(class, traffic)| {
                with(json!({ "class": class.name() }), traffic_json(traffic, buckets))
            })
            .collect();
        let sessions: Vec<Value> =
            state.sessions.iter().map(|row| session_json(row, &config, buckets)).collect();
        let devices: Vec<Value> =
            state.devices.iter().map(|device| device_json(device, &config)).collect();
        let policies: Vec<Value> = config.qos.policies.iter().map(policy_json).collect();
        if let Some(answer) = answer.as_object_mut() {
            answer.insert("classes".into(), json!(classes));
            answer.insert("sessions".into(), json!(sessions));
            answer.insert("devices".into(), json!(devices));
            answer.insert("policies".into(), json!(policies));
        }
        answer
    }

    /// `session.list`.
    pub(super) fn session_list(&self) -> Value {
        let config = self.live().current().clone();
        let sessions = self.engine().qos().sessions;
        sessions.iter().map(|session| session_json(session, &config, false)).collect()
    }
}

/// Both objects' fields in one.
fn with(first: Value, second: Value) -> Value {
    let mut all = Map::new();
    for value in [first, second] {
        if let Value::Object(fields) = value {
            all.extend(fields);
        }
    }
    Value::Object(all)
}

/// `[qos]`.
pub(super) fn general_json(qos: &Qos) -> Value {
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
    json!({
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
    })
}

fn traffic_json(traffic: &Traffic, buckets: bool) -> Value {
    json!({
        "waiting": traffic.waiting,
        "refused": traffic.refused,
        "io": io_json(&traffic.io, buckets),
    })
}

fn session_json(session: &SessionState, config: &Config, buckets: bool) -> Value {
    let entry = config.qos.sessions.iter().find(|entry| entry.name == session.name);
    let credits = |(used, credits): (u64, u64), share: Option<u8>| json!({ "used": used, "credits": credits, "share": share });
    let own = json!({
        "name": session.name,
        "parent": session.parent,
        "automatic": session.automatic,
        "operations": credits(session.operations, entry.and_then(|entry| entry.operations)),
        "payload": credits(session.payload, entry.and_then(|entry| entry.payload)),
        "iops": session.iops,
        "bandwidth": session.bandwidth,
        "queue": session.queue,
        "reserve": session.reserve.as_ref().map(reserve_json),
    });
    with(own, traffic_json(&session.traffic, buckets))
}

fn reserve_json(reserve: &ReserveState) -> Value {
    json!({
        "namespace": reserve.namespace,
        "terms": reserve.terms,
        "utilisation": reserve.utilisation,
        "periods": reserve.periods,
        "kept": reserve.kept,
    })
}

/// What is set for a session.
pub(super) fn session_config_json(session: &Session) -> Value {
    json!({
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
    })
}

fn device_json(device: &DeviceState, config: &Config) -> Value {
    let waiting: Map<String, Value> =
        device.waiting.iter().map(|(class, n)| (class.name().to_owned(), json!(n))).collect();
    let mut subsystems = config.subsystems.iter().filter(|s| s.nqn == device.subsystem);
    let class = subsystems
        .find_map(|s| s.namespaces.iter().find(|n| n.nsid == Some(device.nsid)))
        .and_then(|namespace| namespace.class);
    json!({
        "subsystem": device.subsystem,
        "nsid": device.nsid,
        "class": class.map(arbitration::Class::name),
        "arbitrated": device.arbitrated,
        "window": device.window,
        "in_use": device.in_use,
        "waiting": waiting,
        "mean_ns": { "read": device.mean_ns.0, "write": device.mean_ns.1 },
        "reserved": device.reserved,
    })
}

/// A policy.
pub(super) fn policy_json(policy: &Policy) -> Value {
    json!({
        "host": policy.host,
        "subsystem": policy.subsystem,
        "nsid": policy.nsid,
        "class": policy.class.map(arbitration::Class::name),
        "max_class": policy.max_class.map(arbitration::Class::name),
        "urgent_iops": policy.urgent_iops,
        "session": policy.session,
    })
}
