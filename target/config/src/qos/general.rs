//! `[qos]`: its settings, and how each is read and written.

use crate::keys::ConfigKey;
use crate::keys::QOS;
use crate::keys::Values;
use arbitration::PerClass;
use arbitration::settings::{ClassDscps, OrderSettings, Weights, WindowRule, default_dscps};
use serde_json::{Map, Value as Json, json};

use super::super::fields::Fields;
use super::super::node::Node;
use super::super::table::{self, Field, Seen, Written, read_already, table};
use super::super::values::Read;
use super::values;
use super::window::{self, adaptive};

/// `[qos]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Qos {
    /// `enabled`: whether the stages act; without them, commands are carried out as they come.
    pub enabled: bool,
    /// `weights`, `unit`, `burst`, `urgent_share`: the order inside a device.
    pub order: OrderSettings,
    /// `window`: the window of devices that have no setting of their own.
    pub window: WindowRule,
    /// `credits`: the credits of the root session: commands in devices at one time, all devices
    /// together.
    pub operations: u32,
    /// `payload`: the payload credits of the root session: bytes in devices at one time.
    pub payload: u64,
    /// `queue`: commands that may wait in the target at one time, all sessions together.
    pub queue: u32,
    /// `wrr`: whether controllers offer weighted round robin with urgent (CAP.AMS).
    pub wrr: bool,
    /// `mark`: whether answers carry the DSCP of their connection's class.
    pub mark: bool,
    /// `dscp`: the DSCP of each class.
    pub dscp: ClassDscps,
}

table! { Qos, QOS;
    "enabled" => field(enabled),
    "weights" => field(order.weights),
    "unit" => field(order.unit),
    "burst" => read(order.burst, values::burst, write_burst),
    "urgent_share" => field(order.urgent_share),
    "window" => with(read_window, |qos, _| window::write(qos.window)),
    "latency_target" => with(read_already, |qos, _| window::write_target(qos.window)),
    "window_max" => with(read_already, |qos, _| window::write_max(qos.window)),
    "credits" => field(operations),
    "payload" => field(payload),
    "queue" => field(queue),
    "wrr" => field(wrr),
    "mark" => field(mark),
    "dscp" => with(read_dscp, |qos, _| write_dscp(&qos.dscp)),
}

impl Default for Qos {
    fn default() -> Self {
        Self {
            enabled: true,
            order: OrderSettings::default(),
            window: WindowRule::default(),
            operations: 65_536,
            payload: 1 << 40,
            queue: 65_536,
            wrr: true,
            mark: true,
            dscp: default_dscps(),
        }
    }
}

/// Reads `[qos]`; a setting that is left out is as in `base`.
pub(crate) fn general(mut fields: Fields<'_>, mut base: Qos) -> Qos {
    table::read(&mut fields, &mut base);
    fields.finish();
    base
}

impl Field for Weights {
    fn read(_: &Values, node: &Node) -> Read<Self> {
        values::weights(node)
    }

    fn write(&self, _: &Values) -> Written {
        let Self { high, medium, low } = self;
        Written {
            toml: Some(format!("[{high}, {medium}, {low}]")),
            json: json!({ "high": high, "medium": medium, "low": low }),
        }
    }
}

fn write_burst(burst: &u16) -> Written {
    match *burst {
        u16::MAX => Written::same("unlimited"),
        burst => Written::same(burst),
    }
}

/// Reads `window` with its own keys.
fn read_window(qos: &mut Qos, fields: &mut Fields<'_>, _: &'static ConfigKey, _: &mut Seen) {
    let (rule, target) = window::window(fields, Some(qos.window));
    if let Some(target) = target.filter(|_| rule.is_some() && !adaptive(rule)) {
        let message = "`latency_target` belongs to window = \"adaptive\"";
        let remedy = "add window = \"adaptive\", or remove it";
        fields.problems().at(&target, message, remedy);
    }
    qos.window = rule.unwrap_or(qos.window);
}

/// Reads `dscp`; a class that is left out keeps its DSCP.
fn read_dscp(qos: &mut Qos, fields: &mut Fields<'_>, key: &'static ConfigKey, _: &mut Seen) {
    let Some(mut table) = fields.table(key.name, "`dscp`") else { return };
    let base = qos.dscp;
    qos.dscp = PerClass {
        urgent: table.value_or("urgent", base.urgent, values::dscp),
        high: table.value_or("high", base.high, values::dscp),
        medium: table.value_or("medium", base.medium, values::dscp),
        low: table.value_or("low", base.low, values::dscp),
    };
    table.finish();
}

fn write_dscp(dscps: &ClassDscps) -> Written {
    let lines: Vec<String> =
        dscps.iter().map(|(class, dscp)| format!("{class} = {dscp}")).collect();
    let json: Map<String, Json> =
        dscps.iter().map(|(class, dscp)| (class.name().to_owned(), json!(dscp))).collect();
    Written { toml: Some(format!("{{ {} }}", lines.join(", "))), json: Json::Object(json) }
}
