//! The settings of a namespace that say how its device is shared, and how each is read and written.

use std::time::Duration;

use crate::amounts::format_duration;
use arbitration::settings::WindowRule;

use super::super::fields::Fields;
use super::super::node::Node;
use super::super::table::{Seen, Written, words};
use super::super::values::{Read, boolean, choice};
use super::values::{self, word};
use super::window;

/// The settings of a namespace that say how its device is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceQos {
    /// `window`: the window; `None` means the window of `[qos]`.
    pub window: Option<WindowRule>,
    /// `order`: the order of commands.
    pub order: Order,
    /// `latency_target`: the deadline of a single command, for containers.
    pub latency_target: Option<Duration>,
    /// `seeks`: whether the device has a head that moves; `None` means that the kernel says it.
    pub seeks: Option<bool>,
    /// `flush_is_output`: whether a Flush ends a container.
    pub flush_is_output: bool,
    /// `mean_time`: the mean time of a 4 KiB command; `None` means that it is measured.
    pub mean_time: Option<Duration>,
    /// `worst_time`: the worst time of a 4 KiB command; `None` means that it is measured.
    pub worst_time: Option<Duration>,
    /// `parallelism`: commands that the device carries out at the same time.
    pub parallelism: Option<u32>,
}

/// `order`: the order inside a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Sessions in turn, and their hosts in turn.
    #[default]
    Fair,
    /// Containers: for disks with heads.
    Containers,
}

/// The words of `order`.
pub(crate) const ORDERS: [(&str, Order); 2] =
    [("fair", Order::Fair), ("containers", Order::Containers)];

words! {
    Order: ORDERS;
}

/// Reads `order`.
pub fn order(node: &Node) -> Read<Order> {
    choice(&ORDERS)(node)
}

/// Writes `order`, where it is not the default.
pub(crate) fn write_order(order: &Order) -> Written {
    match order {
        Order::Fair => Written::nothing(),
        Order::Containers => Written::same(word(&ORDERS, order)),
    }
}

/// Reads `seeks`.
pub fn seeks(node: &Node) -> Read<Option<bool>> {
    boolean(node).map(Some)
}

/// Writes `seeks`, where it is given.
pub(crate) fn write_seeks(seeks: &Option<bool>) -> Written {
    seeks.map_or_else(Written::nothing, Written::same)
}

/// Reads the time that a command takes of a device.
pub fn time(node: &Node) -> Read<Duration> {
    values::device_time(node)
}

/// Reads `window`, `window_max` and `latency_target`.
pub(crate) fn read_window(device: &mut DeviceQos, fields: &mut Fields<'_>, seen: &mut Seen) {
    let (rule, target) = window::window(fields, None);
    seen.note("latency_target", target.as_ref());
    device.window = rule;
    device.latency_target = match rule {
        Some(WindowRule::Adaptive { target, .. }) => Some(Duration::from_nanos(target.0)),
        _ => target.map(|at| at.value),
    };
}

/// The default deadline of a single command: a seek of a disk or two.
const DEADLINE: Duration = Duration::from_millis(20);

impl DeviceQos {
    /// Returns the deadline of a single High command, for containers.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.latency_target.unwrap_or(DEADLINE)
    }

    /// Writes `window`.
    pub(crate) fn write_window(&self) -> Written {
        self.window.map_or_else(Written::nothing, window::write)
    }

    /// Writes `window_max`.
    pub(crate) fn write_window_max(&self) -> Written {
        self.window.map_or_else(Written::nothing, window::write_max)
    }
}

/// Checks that keys which depend on another key are given together with it.
pub fn check(device: &DeviceQos, fields: &Fields<'_>, seen: &Seen) {
    let problems = fields.problems();
    let containers = device.order == Order::Containers;
    if let Some(flush) = seen.place("flush_is_output").filter(|_| !containers)
        && device.flush_is_output
    {
        let message = "`flush_is_output` belongs to order = \"containers\"";
        problems.at(&flush, message, "add order = \"containers\", or remove it");
    }
    let unread = device.window.is_none() && fields.has("window");
    let applies = window::adaptive(device.window) || containers || unread;
    if let Some(target) = seen.place("latency_target").filter(|_| !applies) {
        let message =
            "`latency_target` belongs to window = \"adaptive\" and order = \"containers\"";
        problems.at(&target, message, "add one of them, or remove it");
    }
    if let (Some(mean), Some(worst)) = (device.mean_time, device.worst_time)
        && let Some(place) = seen.place("worst_time")
        && worst < mean
    {
        let message = format!("`worst_time` is {}, less than `mean_time`", format_duration(worst));
        problems.at(&place, message, format!("write at least \"{}\"", format_duration(mean)));
    }
}
