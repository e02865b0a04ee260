//! Quality of service back to text that parses to the same values.

use arbitration::Class;
use arbitration::settings::WindowRule;
use sluice_schema::amounts::{format_duration, format_size};

use super::super::lines::Lines;
use super::super::model::{DeviceModel, DeviceQos, Order};
use super::values::{CLASSES, ORDERS, word};

fn class(lines: &mut Lines, key: &str, value: Option<Class>) {
    if let Some(value) = value {
        lines.text(key, word(&CLASSES, &value));
    }
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
