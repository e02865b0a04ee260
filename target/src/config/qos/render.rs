//! Quality of service back to text that parses to the same values.

use std::time::Duration;

use arbitration::reservation::{Budget, Locality};
use arbitration::settings::WindowRule;
use arbitration::{Class, Nanos};

use super::super::model::{
    DeviceModel, DeviceQos, Order, Policy, Qos, QosConfig, Reserve, Session,
};
use super::super::render::{Lines, quote};
use super::super::units::{format_duration, format_size};
use super::values::{CLASSES, LOCALITIES, ORDERS, UNITS, word};

fn time(time: Nanos) -> String {
    format_duration(Duration::from_nanos(time.0))
}

fn class(lines: &mut Lines, key: &str, value: Option<Class>) {
    if let Some(value) = value {
        lines.text(key, word(&CLASSES, &value));
    }
}

/// `[qos]`, `[[session]]` and `[[policy]]` with their titles.
pub(crate) fn whole(lines: &mut Lines, qos: &QosConfig) {
    lines.title("[qos]");
    general(lines, &qos.general);
    for one in &qos.sessions {
        lines.title("[[session]]");
        session(lines, one);
    }
    for one in &qos.policies {
        lines.title("[[policy]]");
        policy(lines, one);
    }
}

/// The settings of `[qos]` alone.
#[must_use]
pub(crate) fn render_general(value: &Qos) -> String {
    let mut lines = Lines::default();
    general(&mut lines, value);
    lines.into_text()
}

/// A session's settings alone.
#[must_use]
pub(crate) fn render_session(value: &Session) -> String {
    let mut lines = Lines::default();
    session(&mut lines, value);
    lines.into_text()
}

/// A policy's settings alone.
#[must_use]
pub(crate) fn render_policy(value: &Policy) -> String {
    let mut lines = Lines::default();
    policy(&mut lines, value);
    lines.into_text()
}

fn general(lines: &mut Lines, qos: &Qos) {
    let order = &qos.order;
    let weights = order.weights;
    lines.raw("enabled", qos.enabled);
    lines.raw("weights", format_args!("[{}, {}, {}]", weights.high, weights.medium, weights.low));
    lines.text("unit", word(&UNITS, &order.unit));
    match order.burst {
        u16::MAX => lines.text("burst", "unlimited"),
        burst => lines.raw("burst", burst),
    }
    percent(lines, "urgent_share", Some(order.urgent_share));
    window(lines, qos.window);
    if let WindowRule::Adaptive { target, .. } = qos.window {
        lines.text("latency_target", &time(target));
    }
    lines.raw("operations", qos.operations);
    lines.text("payload", &format_size(qos.payload));
    lines.raw("queue", qos.queue);
    lines.raw("wrr", qos.wrr);
    lines.raw("mark", qos.mark);
    let marks: Vec<String> = qos.dscp.iter().map(|(class, n)| format!("{class} = {n}")).collect();
    lines.raw("dscp", format_args!("{{ {} }}", marks.join(", ")));
}

fn percent(lines: &mut Lines, key: &str, share: Option<u8>) {
    if let Some(share) = share {
        lines.text(key, &format!("{share} %"));
    }
}

/// The rule, without the target.
fn window(lines: &mut Lines, rule: WindowRule) {
    match rule {
        WindowRule::Off => lines.text("window", "off"),
        WindowRule::Fixed(n) => lines.raw("window", n),
        WindowRule::Adaptive { max, .. } => {
            lines.text("window", "adaptive");
            lines.raw("window_max", max);
        }
    }
}

fn session(lines: &mut Lines, session: &Session) {
    lines.text("name", &session.name);
    if let Some(parent) = &session.parent {
        lines.text("parent", parent);
    }
    percent(lines, "operations", session.operations);
    percent(lines, "payload", session.payload);
    if let Some(iops) = session.iops {
        lines.raw("iops", iops);
    }
    if let Some(bandwidth) = session.bandwidth {
        lines.text("bandwidth", &format_size(bandwidth));
    }
    if let Some(queue) = session.queue {
        lines.raw("queue", queue);
    }
    if let Some(reserve) = &session.reserve {
        lines.raw("reserve", reserve_inline(reserve));
    }
}

/// A reservation as one value.
fn reserve_inline(reserve: &Reserve) -> String {
    let terms = &reserve.terms;
    let budget = match terms.budget {
        Budget::Operations(n) => format!("operations = {n}"),
        Budget::Bytes(n) => format!("bytes = {}", quote(&format_size(n))),
        Budget::DeviceTime(n) => format!("time = {}", quote(&time(n))),
    };
    let mut text = format!(
        "{{ {budget}, period = {}, request_size = {}, writes = \"{} %\", locality = {}",
        quote(&time(terms.period)),
        quote(&format_size(terms.request_bytes.into())),
        terms.write_percent,
        quote(word::<Locality>(&LOCALITIES, &terms.locality)),
    );
    if let Some(namespace) = &reserve.namespace {
        text.push_str(&format!(", namespace = {}", quote(namespace)));
    }
    text.push_str(" }");
    text
}

fn policy(lines: &mut Lines, policy: &Policy) {
    if let Some(host) = &policy.host {
        lines.text("host", host);
    }
    if let Some(subsystem) = &policy.subsystem {
        lines.text("subsystem", subsystem);
    }
    if let Some(nsid) = policy.nsid {
        lines.raw("nsid", nsid);
    }
    class(lines, "class", policy.class);
    class(lines, "max_class", policy.max_class);
    if let Some(iops) = policy.urgent_iops {
        lines.raw("urgent_iops", iops);
    }
    if let Some(session) = &policy.session {
        lines.text("session", session);
    }
}

/// What a listener or a namespace says of its class.
pub(crate) fn device(lines: &mut Lines, value: Option<Class>, device: Option<&DeviceQos>) {
    class(lines, "class", value);
    let Some(device) = device else { return };
    if let Some(rule) = device.window {
        window(lines, rule);
    }
    if device.order != Order::Fair {
        lines.text("order", word(&ORDERS, &device.order));
    }
    for (key, time) in [
        ("latency_target", device.latency_target),
        ("mean_time", device.mean_time),
        ("worst_time", device.worst_time),
    ] {
        if let Some(time) = time {
            lines.text(key, &format_duration(time));
        }
    }
    if device.flush_is_output {
        lines.raw("flush_is_output", true);
    }
    if let Some(parallelism) = device.parallelism {
        lines.raw("parallelism", parallelism);
    }
}

/// The device that `null` pretends to be.
pub(crate) fn model(lines: &mut Lines, model: &DeviceModel) {
    lines.text("service_time", &format_duration(model.service_time));
    if let Some(bandwidth) = model.bandwidth {
        lines.text("bandwidth", &format_size(bandwidth));
    }
    lines.raw("channels", model.channels);
    percent(lines, "errors", model.errors);
}
