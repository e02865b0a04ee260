//! Readers for the single values of quality of service.

use std::time::Duration;

use crate::amounts::{PERCENT, parse_bandwidth, parse_share};
use crate::keys::{RATE_MAX, WINDOW_MAX};
use arbitration::Class;
use arbitration::reservation::Locality;
use arbitration::settings::{Unit, Weights};

use super::super::fields::{Wrong, quoted};
use super::super::node::{Node, Value};
use super::super::values::{
    Read, amount, duration_within, integer, kind, number_of_request, string,
};
use super::names::{ROOT, automatic, is_automatic, split_namespace};

/// The greatest weight (NVMe: a byte that counts from 0).
const WEIGHT_MAX: i128 = 256;
/// The longest name of a session that is not named by an NQN, in bytes.
const NAME_MAX: usize = 64;

/// The words of `class`.
pub const CLASSES: [(&str, Class); 4] = [
    ("urgent", Class::Urgent),
    ("high", Class::High),
    ("medium", Class::Medium),
    ("low", Class::Low),
];

/// The words of `unit`.
pub(crate) const UNITS: [(&str, Unit); 3] =
    [("bytes", Unit::Bytes), ("commands", Unit::Commands), ("time", Unit::Time)];

/// The words of `locality`.
pub(crate) const LOCALITIES: [(&str, Locality); 2] =
    [("random", Locality::Random), ("sequential", Locality::Sequential)];

/// Returns the word that stands for a value.
pub fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word)
}

/// The value of `window` by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowWord {
    Off,
    Adaptive,
    Fixed(u32),
}

/// Reads a number of commands, "off" or "adaptive".
pub(super) fn window(node: &Node) -> Read<WindowWord> {
    match &node.value {
        Value::Integer(_) => integer(1, WINDOW_MAX.into())(node).map(WindowWord::Fixed),
        Value::String(text) if text == "off" => Ok(WindowWord::Off),
        Value::String(text) if text == "adaptive" => Ok(WindowWord::Adaptive),
        other => {
            let message = match other {
                Value::String(text) => format!("is \"{}\"", quoted(text)),
                other => format!("is {}", other.kind()),
            };
            let remedy = format!("write a number from 1 to {WINDOW_MAX}, \"off\" or \"adaptive\"");
            Err(Wrong::new(message, remedy))
        }
    }
}

/// Reads the arbitration burst: a power of two up to 64, as the NVMe feature has it, or
/// "unlimited".
pub(super) fn burst(node: &Node) -> Read<u16> {
    let remedy = "write 1, 2, 4, 8, 16, 32, 64 or \"unlimited\"";
    match &node.value {
        Value::String(text) if text == "unlimited" => Ok(u16::MAX),
        Value::String(text) => Err(Wrong::new(format!("is \"{}\"", quoted(text)), remedy)),
        Value::Integer(Some(number)) => {
            let value = u16::try_from(*number).ok().filter(|n| n.is_power_of_two() && *n <= 64);
            value.ok_or_else(|| Wrong::new(format!("is {number}"), remedy))
        }
        other => Err(Wrong::new(format!("is {}", other.kind()), remedy)),
    }
}

/// Reads the weights of High, Medium and Low.
pub(super) fn weights(node: &Node) -> Read<Weights> {
    let remedy =
        format!("write the weights of high, medium and low, 1 to {WEIGHT_MAX} each: [3, 2, 1]");
    let Value::Array(items) = &node.value else {
        return Err(Wrong::new(format!("is {}, not a list", node.value.kind()), remedy));
    };
    let weight = integer::<u16>(1, WEIGHT_MAX);
    let read: Option<Vec<u16>> = items.iter().map(|item| weight(item).ok()).collect();
    match read.as_deref() {
        Some(&[high, medium, low]) => Ok(Weights { high, medium, low }),
        Some(list) => {
            let message = format!("has {} entries instead of three", list.len());
            Err(Wrong::new(message, remedy))
        }
        None => Err(Wrong::new("has an entry that is no weight", remedy)),
    }
}

/// Reads a share in whole per cent: "20 %". In a request a number is per cent.
pub fn percent(min: u8, max: u8) -> impl Fn(&Node) -> Read<u8> {
    move |node| {
        let share = match number_of_request(node) {
            Some(percent) => percent.saturating_mul(PERCENT),
            None => amount(node, "a share", "\"20 %\"", parse_share)?,
        };
        let whole = share.is_multiple_of(PERCENT).then_some(share / PERCENT);
        let percent = whole.and_then(|percent| u8::try_from(percent).ok());
        percent.filter(|percent| (min..=max).contains(percent)).ok_or_else(|| {
            let shown = match &node.value {
                Value::String(text) => format!("is \"{}\"", quoted(text)),
                _ => format!("is {} %", share / PERCENT),
            };
            Wrong::new(shown, format!("write a share from \"{min} %\" to \"{max} %\""))
        })
    }
}

/// Reads bytes per second: "200 MiB/s", or "200 MiB". In a request a number is bytes per second.
pub fn bandwidth(node: &Node) -> Read<u64> {
    let bytes = match number_of_request(node) {
        Some(bytes) => bytes,
        None => amount(node, "bytes per second", "\"200 MiB/s\"", parse_bandwidth)?,
    };
    match (1..=RATE_MAX).contains(&bytes) {
        true => Ok(bytes),
        false => {
            let remedy = "write bytes per second from \"1 B/s\" to \"1 TiB/s\"";
            Err(Wrong::new(format!("is {bytes} bytes per second"), remedy))
        }
    }
}

/// Reads the time that a command takes in a device.
pub(super) fn device_time(node: &Node) -> Read<Duration> {
    duration_within(Duration::from_nanos(1), Duration::from_secs(10))(node)
}

/// Reads the target of a device's latency.
pub(super) fn latency_target(node: &Node) -> Read<Duration> {
    duration_within(Duration::from_micros(1), Duration::from_secs(10))(node)
}

/// Reads the name of a session: of its own, or an automatic one's.
pub fn session_name(node: &Node) -> Read<String> {
    let text = string(node, "a name", "a name in quotes: \"gold\"")?;
    if text == ROOT {
        let message = "is the name of the session that is above all others";
        return Err(Wrong::new(message, "set it with [qos], or choose another name"));
    }
    session_reference(node)
}

/// Reads the name of any session, the root's included.
pub(crate) fn session_reference(node: &Node) -> Read<String> {
    let text = string(node, "a name", "a name in quotes: \"gold\"")?;
    let own = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '@' | '+');
    let right = match is_automatic(text) {
        true => automatic(text).is_ok(),
        false => (1..=NAME_MAX).contains(&text.len()) && text.chars().all(own),
    };
    if right {
        return Ok(text.into());
    }
    let remedy = format!(
        "write 1 to {NAME_MAX} letters, digits and -_.:@+, or the NQN of a subsystem, or a \
         namespace as NQN/NSID"
    );
    Err(Wrong::new(format!("is \"{}\", not the name of a session", quoted(text)), remedy))
}

/// Reads the name of a profile.
pub fn profile_name(node: &Node) -> Read<String> {
    let text = string(node, "a name", "a name in quotes: \"gold\"")?;
    let own = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '@' | '+');
    if (1..=NAME_MAX).contains(&text.len()) && text.chars().all(own) {
        return Ok(text.into());
    }
    let remedy = format!("write 1 to {NAME_MAX} letters, digits and -_.:@+");
    Err(Wrong::new(format!("is \"{}\", not the name of a profile", quoted(text)), remedy))
}

/// Reads a namespace as NQN/NSID.
pub(super) fn namespace_name(node: &Node) -> Read<String> {
    let example = "a subsystem's NQN and an NSID: \"nqn.2026-01.com.example:disk1/1\"";
    let text = string(node, "a namespace", example)?;
    match split_namespace(text) {
        Some(_) => Ok(text.into()),
        None => kind_of_text(text, example),
    }
}

fn kind_of_text<T>(text: &str, example: &str) -> Read<T> {
    let message = format!("is \"{}\", not a namespace", quoted(text));
    Err(Wrong::new(message, format!("write {example}")))
}

/// Reads the DSCP of a class.
pub(super) fn dscp(node: &Node) -> Read<u8> {
    match &node.value {
        Value::Integer(_) => integer(0, 63)(node),
        _ => kind(node, "a DSCP", "a number from 0 to 63; 0 is none"),
    }
}
