//! Readers for the single values of the network's settings.

use std::time::Duration;

use crate::amounts::{format_rate, parse_rate};

use super::super::errors::did_you_mean;
use super::super::fields::{Wrong, quoted};
use super::super::node::{Entry, Node, Value};
use super::super::values::{Read, amount, duration_within, integer, kind, string};
use super::goal::{DEFAULT_LINK, Goal};

/// The least and greatest rate in bits per second.
const RATES: std::ops::RangeInclusive<u64> = 1_000_000..=10_000_000_000_000;
/// The greatest share.
const SHARE_MAX: i128 = 1000;
/// The shortest latency: switches and kernels add more than this by themselves.
const LATENCY_MIN: Duration = Duration::from_micros(50);
/// The longest latency.
const LATENCY_MAX: Duration = Duration::from_secs(1);
/// The longest name of a link, in bytes.
const NAME_MAX: usize = 64;
/// The longest name of a congestion control, in bytes (TCP_CA_NAME_MAX without the NUL).
const BASE_MAX: usize = 15;

/// The forms of a goal, in words.
const GOALS: &str = "\"free\", { share = 3 }, { rate = \"2 Gbit/s\" } or { latency = \"2 ms\" }";

/// Reads bits per second.
fn rate(node: &Node) -> Read<u64> {
    let bits = amount(node, "a rate", "\"10 Gbit/s\"", parse_rate)?;
    if RATES.contains(&bits) {
        return Ok(bits);
    }
    let (least, most) = (format_rate(*RATES.start()), format_rate(*RATES.end()));
    let remedy = format!("write a rate from \"{least}\" to \"{most}\"");
    Err(Wrong::new(format!("is {}", format_rate(bits)), remedy))
}

/// Reads the capacity of a link in bits per second; `None` means "auto".
pub(super) fn capacity(node: &Node) -> Read<Option<u64>> {
    match &node.value {
        Value::String(text) if text == "auto" => Ok(None),
        Value::String(_) | Value::Integer(_) => rate(node).map(Some),
        _ => kind(node, "a rate", "\"auto\", or a number and its unit in quotes: \"10 Gbit/s\""),
    }
}

/// Reads the name of a congestion control of the kernel; `None` means "auto".
pub(super) fn base(node: &Node) -> Read<Option<String>> {
    let example = "\"auto\", or a congestion control of the kernel: \"dctcp\"";
    let text = string(node, "a name", example)?;
    let right = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    if text == "auto" {
        return Ok(None);
    }
    if (1..=BASE_MAX).contains(&text.len()) && text.chars().all(right) {
        return Ok(Some(text.into()));
    }
    let message = format!("is \"{}\", not the name of a congestion control", quoted(text));
    let remedy =
        "write \"auto\", or a name from `sysctl net.ipv4.tcp_available_congestion_control`";
    Err(Wrong::new(message, remedy))
}

/// Reads the goal of a class.
pub(super) fn goal(node: &Node) -> Read<Goal> {
    match &node.value {
        Value::String(text) if text == "free" => Ok(Goal::Free),
        Value::String(text) => {
            Err(Wrong::new(format!("is \"{}\"", quoted(text)), format!("write {GOALS}")))
        }
        Value::Table(entries) => match &entries[..] {
            [entry] => goal_of(entry),
            [] => Err(Wrong::new("is an empty table", format!("write {GOALS}"))),
            _ => Err(Wrong::new("has more than one goal", format!("choose {GOALS}"))),
        },
        other => Err(Wrong::new(format!("is {}", other.kind()), format!("write {GOALS}"))),
    }
}

fn goal_of(entry: &Entry) -> Read<Goal> {
    let node = &entry.node;
    let goal = match entry.key.as_str() {
        "share" => integer(1, SHARE_MAX)(node).map(Goal::Share),
        "rate" => rate(node).map(Goal::Rate),
        "latency" => duration_within(LATENCY_MIN, LATENCY_MAX)(node).map(Goal::Latency),
        other => {
            let message = format!("has the unknown key `{}`", quoted(other));
            let remedy = match did_you_mean(other, &["share", "rate", "latency"]) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("write {GOALS}"),
            };
            return Err(Wrong::new(message, remedy));
        }
    };
    goal.map_err(|wrong| Wrong {
        message: format!("has a `{}` that {}", entry.key, wrong.message),
        remedy: wrong.remedy,
    })
}

/// Reads the name of a link that is not the default one.
pub fn name(node: &Node) -> Read<String> {
    reference(node)?.ok_or_else(|| {
        let message = format!("is \"{DEFAULT_LINK}\", the name of the link of [network]");
        Wrong::new(message, "set that one with [network], or choose another name")
    })
}

/// Reads the name of any link; `None` means the default one. `null`, which only a request can say,
/// means the default one too.
pub fn reference(node: &Node) -> Read<Option<String>> {
    if matches!(node.value, Value::Null) {
        return Ok(None);
    }
    let text = string(node, "a name", "a name in quotes: \"east\"")?;
    let right = |c: char| c.is_ascii_alphanumeric() || "-_.:@+".contains(c);
    if (1..=NAME_MAX).contains(&text.len()) && text.chars().all(right) {
        return Ok((text != DEFAULT_LINK).then(|| text.into()));
    }
    let message = format!("is \"{}\", not the name of a link", quoted(text));
    Err(Wrong::new(message, format!("write 1 to {NAME_MAX} letters, digits and -_.:@+")))
}
