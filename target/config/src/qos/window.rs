//! `window` with its own keys, of `[qos]` and of a namespace.

use std::time::Duration;

use crate::amounts::format_duration;
use crate::keys::WINDOW_MAX;
use arbitration::settings::WindowRule;

use super::super::fields::{At, Fields};
use super::super::table::Written;
use super::super::values::integer;
use super::values::{self, WindowWord};

/// The default latency target of a device with `window = "adaptive"`.
const LATENCY_TARGET: arbitration::Nanos = arbitration::Nanos(2_000_000);
/// The default largest window of `window = "adaptive"`, in commands.
const ADAPTIVE_MAX: u32 = 1024;

/// Returns whether a rule is the adaptive one.
pub(super) fn adaptive(rule: Option<WindowRule>) -> bool {
    matches!(rule, Some(WindowRule::Adaptive { .. }))
}

/// Reads `window`, `latency_target` and `window_max`: the rule, and the latency target where one is
/// given. The rule is `None` where no key gives one, or where the key that does is wrong.
pub(super) fn window(
    fields: &mut Fields<'_>,
    base: Option<WindowRule>,
) -> (Option<WindowRule>, Option<At<Duration>>) {
    let word = fields.get("window", values::window);
    let given = fields.get("latency_target", values::latency_target);
    let most = fields.get("window_max", integer::<u32>(1, WINDOW_MAX.into()));
    if word.is_none() && fields.has("window") {
        return (None, given);
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
        return (rule, given);
    }
    let target =
        given.as_ref().map_or(target, |at| arbitration::Nanos(arbitration::nanos(at.value)));
    let max = most.map_or(max, |at| at.value);
    (Some(WindowRule::Adaptive { target, max }), given)
}

/// Writes the rule, without its own keys.
pub(super) fn write(rule: WindowRule) -> Written {
    match rule {
        WindowRule::Off => Written::same("off"),
        WindowRule::Fixed(commands) => Written::same(commands),
        WindowRule::Adaptive { .. } => Written::same("adaptive"),
    }
}

/// Writes the latency that an adaptive window keeps.
pub(super) fn write_target(rule: WindowRule) -> Written {
    match rule {
        WindowRule::Adaptive { target, .. } => {
            Written::same(format_duration(Duration::from_nanos(target.0)))
        }
        _ => Written::nothing(),
    }
}

/// Writes the largest size of an adaptive window.
pub(super) fn write_max(rule: WindowRule) -> Written {
    match rule {
        WindowRule::Adaptive { max, .. } => Written::same(max),
        _ => Written::nothing(),
    }
}
