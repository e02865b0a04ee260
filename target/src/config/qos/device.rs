//! The settings of a namespace that say how its device is shared, and the device that `null`
//! pretends to be.

use std::time::Duration;

use arbitration::settings::WindowRule;
use sluice_schema::amounts::format_duration;
use sluice_schema::keys::PARALLEL_MAX;

use super::super::fields::{At, Fields};
use super::super::model::{DeviceModel, DeviceQos, Order};
use super::super::values::{boolean, choice, duration_up_to, integer};
use super::values;
use super::window::{adaptive, window as read_window};

/// `window`, `order` and what belongs to them, from a namespace's table.
pub(crate) fn device(fields: &mut Fields<'_>) -> DeviceQos {
    let (window, target) = read_window(fields, None);
    let order = fields.value_or("order", Order::Fair, choice(&values::ORDERS));
    let flush = fields.get("flush_is_output", boolean);
    let containers = order == Order::Containers;
    if let Some(flush) = flush.as_ref().filter(|flush| flush.value && !containers) {
        let message = "`flush_is_output` belongs to order = \"containers\"";
        fields.problems().at(flush, message, "add order = \"containers\", or remove it");
    }
    let adaptive = adaptive(window);
    let told = adaptive || containers || (window.is_none() && fields.has("window"));
    if let Some(target) = target.as_ref().filter(|_| !told) {
        let message =
            "`latency_target` belongs to window = \"adaptive\" and order = \"containers\"";
        fields.problems().at(target, message, "add one of them, or remove it");
    }
    let (mean, worst) = times(fields);
    DeviceQos {
        window,
        order,
        latency_target: match window {
            Some(WindowRule::Adaptive { target, .. }) => Some(Duration::from_nanos(target.0)),
            _ => target.map(|at| at.value),
        },
        flush_is_output: flush.is_some_and(|at| at.value),
        mean_time: mean,
        worst_time: worst,
        parallelism: fields.get("parallelism", integer(1, PARALLEL_MAX.into())).map(|at| at.value),
    }
}

/// `mean_time` and `worst_time`.
fn times(fields: &mut Fields<'_>) -> (Option<Duration>, Option<Duration>) {
    let mean = fields.get("mean_time", values::device_time);
    let worst = fields.get("worst_time", values::device_time);
    if let (Some(mean), Some(worst)) = (&mean, &worst)
        && worst.value < mean.value
    {
        let shown = format_duration(worst.value);
        let message = format!("`worst_time` is {shown}, less than `mean_time`");
        let remedy = format!("write at least \"{}\"", format_duration(mean.value));
        fields.problems().at(worst, message, remedy);
    }
    let value = |at: Option<At<Duration>>| at.map(|at| at.value);
    (value(mean), value(worst))
}

/// `service_time`, `bandwidth`, `channels` and `errors` of the backend "null"; `None` where none of them
/// is there.
pub(crate) fn device_model(fields: &mut Fields<'_>) -> Option<DeviceModel> {
    let time = fields.get("service_time", duration_up_to(Duration::from_secs(10)));
    let bandwidth = fields.get("bandwidth", values::bandwidth);
    let channels = fields.get("channels", integer(1, PARALLEL_MAX.into()));
    let errors = fields.get("errors", values::percent(1, 100)).map(|at| at.value);
    if time.is_none() && bandwidth.is_none() && channels.is_none() && errors.is_none() {
        return None;
    }
    Some(DeviceModel {
        service_time: time.map_or(Duration::ZERO, |at| at.value),
        bandwidth: bandwidth.map(|at| at.value),
        channels: channels.map_or(1, |at| at.value),
        errors,
    })
}
