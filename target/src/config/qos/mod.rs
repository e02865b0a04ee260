//! `[qos]`, `[[session]]`, `[[policy]]`, and the settings of a namespace that say how its device
//! is shared.

mod check;
mod device;
mod render;
mod session;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod values;

use arbitration::PerClass;
use arbitration::settings::{Marks, OrderSettings, Unit, WindowRule};

use super::fields::{At, Fields, Problems};
use super::identity::check_nqn;
use super::model::{Policy, Qos, QosConfig, Subsystem};
use super::values as plain;
use values::WindowWord;

pub(crate) use check::{Known, wrong};
pub(crate) use device::{device, device_model};
pub(crate) use render::{
    device as render_device, model as render_model, render_general, render_policy, render_session,
    whole as render_whole,
};
pub(crate) use session::{ParsedSession, reserve, session};

/// The name of the session above all others.
pub const ROOT: &str = "root";

/// `window = "adaptive"`: the latency that a device keeps where nothing is said.
const LATENCY_TARGET: arbitration::Nanos = arbitration::Nanos(2_000_000);
/// `window = "adaptive"`: the largest window where nothing is said.
const ADAPTIVE_MAX: u32 = 1024;

/// A policy and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedPolicy {
    pub(crate) policy: Policy,
    pub(crate) place: At<()>,
    pub(crate) subsystem: Option<At<()>>,
    pub(crate) nsid: Option<At<()>>,
    pub(crate) session: Option<At<()>>,
}

/// What is read before the subsystems are known.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    general: Qos,
    sessions: Vec<ParsedSession>,
    policies: Vec<ParsedPolicy>,
}

/// Takes the three tables out of the file.
pub(crate) fn parse(fields: &mut Fields<'_>) -> Parsed {
    let standard = Qos::default();
    let general = match fields.table("qos", "[qos]") {
        Some(table) => general(table, standard),
        None => standard,
    };
    let sessions = fields.tables("session", "[[session]]");
    let policies = fields.tables("policy", "[[policy]]");
    Parsed {
        general,
        sessions: sessions.into_iter().filter_map(|f| session(f, None)).collect(),
        policies: policies.into_iter().filter_map(policy).collect(),
    }
}

impl Parsed {
    /// Checks that all of it fits together and with the subsystems of the file.
    pub(crate) fn finish(
        self,
        subsystems: &[Subsystem],
        known: Known,
        problems: &Problems,
    ) -> QosConfig {
        check::across(&self.sessions, &self.policies, subsystems, known, problems);
        QosConfig {
            general: self.general,
            sessions: self.sessions.into_iter().map(|parsed| parsed.session).collect(),
            policies: self.policies.into_iter().map(|parsed| parsed.policy).collect(),
        }
    }
}

/// `[qos]`; what is left out is as in `base`.
pub(crate) fn general(mut fields: Fields<'_>, base: Qos) -> Qos {
    let order = OrderSettings {
        weights: fields.value_or("weights", base.order.weights, values::weights),
        unit: fields.value_or::<Unit>("unit", base.order.unit, plain::choice(&values::UNITS)),
        burst: fields.value_or("burst", base.order.burst, values::burst),
        urgent_share: fields.value_or(
            "urgent_share",
            base.order.urgent_share,
            values::percent(1, 90),
        ),
    };
    let (window, target) = window(&mut fields, Some(base.window));
    if let Some(target) = target.filter(|_| !adaptive(window) && window.is_some()) {
        refuse_target(&target, &fields);
    }
    let qos = Qos {
        enabled: fields.value_or("enabled", base.enabled, plain::boolean),
        order,
        window: window.unwrap_or(base.window),
        operations: fields.value_or(
            "operations",
            base.operations,
            plain::integer(1, values::COMMANDS_MAX),
        ),
        payload: fields.value_or("payload", base.payload, plain::size_within(4096, 1 << 40)),
        queue: fields.value_or("queue", base.queue, plain::integer(1, values::COMMANDS_MAX)),
        wrr: fields.value_or("wrr", base.wrr, plain::boolean),
        mark: fields.value_or("mark", base.mark, plain::boolean),
        dscp: match fields.table("dscp", "`dscp`") {
            Some(table) => marks(table, base.dscp),
            None => base.dscp,
        },
    };
    fields.finish();
    qos
}

fn marks(mut fields: Fields<'_>, base: Marks) -> Marks {
    let marks = PerClass {
        urgent: fields.value_or("urgent", base.urgent, values::dscp),
        high: fields.value_or("high", base.high, values::dscp),
        medium: fields.value_or("medium", base.medium, values::dscp),
        low: fields.value_or("low", base.low, values::dscp),
    };
    fields.finish();
    marks
}

fn adaptive(rule: Option<WindowRule>) -> bool {
    matches!(rule, Some(WindowRule::Adaptive { .. }))
}

fn refuse_target<T>(target: &At<T>, fields: &Fields<'_>) {
    let message = "`latency_target` belongs to window = \"adaptive\"";
    fields.problems().at(target, message, "add window = \"adaptive\", or remove it");
}

/// `window`, `latency_target` and `window_max`: the rule, and the target where one is said;
/// `None` where nothing says a rule, or where what says it is wrong.
fn window(
    fields: &mut Fields<'_>,
    base: Option<WindowRule>,
) -> (Option<WindowRule>, Option<At<std::time::Duration>>) {
    let word = fields.get("window", values::window);
    let said = fields.get("latency_target", values::latency_target);
    let most = fields.get("window_max", plain::integer::<u32>(1, values::WINDOW_MAX));
    if word.is_none() && fields.has("window") {
        return (None, said);
    }
    let (target, max) = match base {
        Some(WindowRule::Adaptive { target, max }) => (target, max),
        _ => (LATENCY_TARGET, ADAPTIVE_MAX),
    };
    let rule = match word.map(|at| at.value) {
        Some(WindowWord::Off) => Some(WindowRule::Off),
        Some(WindowWord::Fixed(n)) => Some(WindowRule::Fixed(n)),
        Some(WindowWord::Adaptive) => Some(WindowRule::Adaptive { target, max }),
        None => base,
    };
    if !adaptive(rule) {
        if let Some(most) = most {
            let message = "`window_max` belongs to window = \"adaptive\"";
            fields.problems().at(&most, message, "add window = \"adaptive\", or remove it");
        }
        return (rule, said);
    }
    let target =
        said.as_ref().map_or(target, |at| arbitration::Nanos(arbitration::nanos(at.value)));
    let max = most.map_or(max, |at| at.value);
    (Some(WindowRule::Adaptive { target, max }), said)
}

/// `[[policy]]`.
pub(crate) fn policy(mut fields: Fields<'_>) -> Option<ParsedPolicy> {
    let place = fields.place();
    let host = fields.get("host", plain::nqn);
    let subsystem = fields.get("subsystem", plain::subsystem_nqn);
    let nsid = fields.get("nsid", plain::integer(1, super::NSID_MAX.into()));
    let class = fields.get("class", plain::choice(&values::CLASSES));
    let max_class = fields.get("max_class", plain::choice(&values::CLASSES));
    let urgent_iops = fields.get("urgent_iops", values::iops);
    let session = fields.get("session", values::session_name);
    // What cannot be read is a problem already; what is left of the policy says something else.
    let unread = [
        fields.unread("host", host.as_ref()),
        fields.unread("subsystem", subsystem.as_ref()),
        fields.unread("nsid", nsid.as_ref()),
        fields.unread("class", class.as_ref()),
        fields.unread("max_class", max_class.as_ref()),
        fields.unread("urgent_iops", urgent_iops.as_ref()),
        fields.unread("session", session.as_ref()),
    ];
    fields.finish();
    if unread.contains(&true) {
        return None;
    }
    Some(ParsedPolicy {
        place,
        subsystem: subsystem.as_ref().map(At::place),
        nsid: nsid.as_ref().map(At::place),
        session: session.as_ref().map(At::place),
        policy: Policy {
            host: host.map(|at| at.value),
            subsystem: subsystem.map(|at| at.value),
            nsid: nsid.map(|at| at.value),
            class: class.map(|at| at.value),
            max_class: max_class.map(|at| at.value),
            urgent_iops: urgent_iops.map(|at| at.value),
            session: session.map(|at| at.value),
        },
    })
}

/// The NQN of an automatic session's subsystem, and the NSID of its namespace.
///
/// # Errors
/// The name is no automatic session's.
fn automatic(name: &str) -> Result<(&str, Option<u32>), ()> {
    match split_namespace(name) {
        Some((nqn, nsid)) => Ok((nqn, Some(nsid))),
        None => check_nqn(name).map(|()| (name, None)).map_err(|_| ()),
    }
}

/// NQN and NSID of "NQN/NSID".
#[must_use]
pub fn split_namespace(name: &str) -> Option<(&str, u32)> {
    let (nqn, nsid) = name.rsplit_once('/')?;
    check_nqn(nqn).ok()?;
    let number: u32 = nsid.parse().ok()?;
    // One way to write each.
    let right = (1..=super::NSID_MAX).contains(&number) && number.to_string() == nsid;
    right.then_some((nqn, number))
}
