//! Readers for single values. Each takes a node and returns its value, or the fault and the remedy.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::amounts::{
    format_duration, format_size, lacks_unit, parse_count, parse_duration, parse_size,
};
use crate::keys::NSID_MAX;
use fabric::controller::Sources;
use ipnet::IpNet;
use uuid::Uuid;

use super::address::ListenAddress;
use super::fields::{Wrong, quoted};
use super::identity::{DISCOVERY_NQN, check_nqn};
use super::node::{Node, Value};

/// The value that a setting's reader read, or the setting's fault.
pub type Read<T> = Result<T, Wrong>;

/// Reports a value of a kind that the setting does not take.
pub(super) fn kind<T>(node: &Node, wanted: &str, example: &str) -> Read<T> {
    let message = format!("is {}, not {wanted}", node.value.kind());
    Err(Wrong::new(message, format!("write {example}")))
}

/// Reads `true` or `false`.
pub fn boolean(node: &Node) -> Read<bool> {
    match &node.value {
        Value::Boolean(value) => Ok(*value),
        _ => kind(node, "a boolean", "true or false, without quotes"),
    }
}

pub(super) fn string<'a>(node: &'a Node, wanted: &str, example: &str) -> Read<&'a str> {
    match &node.value {
        Value::String(text) => Ok(text),
        _ => kind(node, wanted, example),
    }
}

/// Reads the name of an object as `config.diff` lists it.
pub fn object(node: &Node) -> Read<String> {
    string(node, "a name", "a name that `config.diff` lists, in quotes").map(str::to_owned)
}

/// The longest name of a group (useradd's limit).
const GROUP_MAX: usize = 32;

/// Reads the name of a group of this machine.
pub fn group(node: &Node) -> Read<String> {
    let text = string(node, "a name", "the name of a group: \"storage\"")?;
    let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
    if (1..=GROUP_MAX).contains(&text.len()) && text.chars().all(right) {
        return Ok(text.into());
    }
    let message = format!("is \"{}\", not the name of a group", quoted(text));
    Err(Wrong::new(message, "write a name that `getent group` lists"))
}

/// Reads any text.
pub fn text(node: &Node) -> Read<String> {
    string(node, "a text", "it in quotes").map(str::to_owned)
}

/// The longest name of a keyring: more than any plausible name needs.
const KEYRING_MAX: usize = 64;

/// Reads the name of a keyring of the kernel.
pub fn keyring(node: &Node) -> Read<String> {
    let text = string(node, "a name", "the name of a keyring: \".nvme\"")?;
    let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if (1..=KEYRING_MAX).contains(&text.len()) && text.chars().all(right) {
        return Ok(text.into());
    }
    let message = format!("is \"{}\", not the name of a keyring", quoted(text));
    Err(Wrong::new(message, "write \".nvme\", into which nvme-cli puts keys"))
}

/// Reads a whole number from `min` to `max`.
pub fn integer<T: TryFrom<i128>>(min: i128, max: i128) -> impl Fn(&Node) -> Read<T> {
    move |node| {
        let remedy = format!("write a number from {min} to {max}, without quotes");
        let Value::Integer(number) = &node.value else {
            return Err(Wrong::new(format!("is {}, not a number", node.value.kind()), remedy));
        };
        let value = number.filter(|n| (min..=max).contains(n)).and_then(|n| T::try_from(n).ok());
        value.ok_or_else(|| match number {
            Some(number) => Wrong::new(format!("is {number}"), remedy),
            None => Wrong::new("is too large", remedy),
        })
    }
}

/// Reads a count from `min` to `max`: a number, or text such as "20k".
pub fn count(min: u64, max: u64) -> impl Fn(&Node) -> Read<u64> {
    move |node| {
        let Value::String(text) = &node.value else {
            return integer(min.into(), max.into())(node);
        };
        let shown = format!("is \"{}\"", quoted(text));
        let count = parse_count(text)
            .map_err(|remedy| Wrong::new(format!("{shown}, not a number"), remedy))?;
        let remedy = || format!("write a number from {min} to {max}");
        let within = (min..=max).contains(&count);
        within.then_some(count).ok_or_else(|| Wrong::new(shown, remedy()))
    }
}

/// Reads an amount with `parse`: text, or a number, which has no unit.
pub(super) fn amount<T>(
    node: &Node,
    wanted: &str,
    example: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Read<T> {
    let (text, shown): (Cow<'_, str>, _) = match &node.value {
        Value::String(text) => (text.as_str().into(), format!("\"{}\"", quoted(text))),
        Value::Integer(Some(number)) => (number.to_string().into(), number.to_string()),
        _ => return kind(node, wanted, &format!("a number and its unit in quotes: {example}")),
    };
    parse(&text).map_err(|remedy| match lacks_unit(&text) {
        true => Wrong::new(format!("is {shown}, without a unit"), remedy),
        false => Wrong::new(format!("is {shown}, not {wanted}"), remedy),
    })
}

/// Returns the number that a request gives in the unit of docs/reference/control.md; `None` where it gives
/// something else, or the value is of a file.
pub(super) fn number_of_request(node: &Node) -> Option<u64> {
    match node.value {
        Value::Integer(Some(number)) if node.is_of_request() => u64::try_from(number).ok(),
        _ => None,
    }
}

/// Reads a size in bytes: "4 GiB". In a request a number is bytes.
pub fn size(node: &Node) -> Read<u64> {
    match number_of_request(node) {
        Some(bytes) => Ok(bytes),
        None => amount(node, "a size", "\"4 GiB\"", parse_size),
    }
}

/// Reads a size from `min` to `max` bytes.
pub fn size_within(min: u64, max: u64) -> impl Fn(&Node) -> Read<u64> {
    move |node| {
        let bytes = size(node)?;
        if (min..=max).contains(&bytes) {
            return Ok(bytes);
        }
        let remedy =
            format!("write a size from \"{}\" to \"{}\"", format_size(min), format_size(max));
        Err(Wrong::new(format!("is {}", format_size(bytes)), remedy))
    }
}

/// Reads a duration up to `max`.
pub(crate) fn duration_up_to(max: Duration) -> impl Fn(&Node) -> Read<Duration> {
    move |node| {
        let time = amount(node, "a time", "\"10 s\"", parse_duration)?;
        if time <= max {
            return Ok(time);
        }
        let remedy = format!("write a time of at most \"{}\"", format_duration(max));
        Err(Wrong::new(format!("is {}", format_duration(time)), remedy))
    }
}

/// Reads a duration from `min` to `max`.
pub(crate) fn duration_within(min: Duration, max: Duration) -> impl Fn(&Node) -> Read<Duration> {
    move |node| {
        let time = duration_up_to(max)(node)?;
        if time >= min {
            return Ok(time);
        }
        let remedy = format!(
            "write a time from \"{}\" to \"{}\"",
            format_duration(min),
            format_duration(max)
        );
        Err(Wrong::new(format!("is {}", format_duration(time)), remedy))
    }
}

/// Reads what `read` takes, or `null`, which only a request can give and which takes a setting
/// back.
pub fn nullable<T>(read: impl Fn(&Node) -> Read<T>) -> impl Fn(&Node) -> Read<Option<T>> {
    move |node| match node.value {
        Value::Null => Ok(None),
        _ => read(node).map(Some),
    }
}

/// Reads a logical block size. A number without a unit is bytes: only two sizes are possible.
pub fn block_size(node: &Node) -> Read<u32> {
    let bytes = match node.value {
        Value::Integer(Some(bytes)) => bytes,
        _ => size(node)?.into(),
    };
    match bytes {
        512 => Ok(512),
        4096 => Ok(4096),
        other => Err(Wrong::new(format!("is {other} bytes"), "write 512 or 4096")),
    }
}

/// Reads a path: absolute, without a NUL.
pub fn path(node: &Node) -> Read<PathBuf> {
    let text = string(node, "a path", "an absolute path in quotes")?;
    if !text.starts_with('/') || text.contains('\0') {
        let message = format!("is \"{}\", not an absolute path", quoted(text));
        return Err(Wrong::new(message, "write a path that begins with /"));
    }
    Ok(PathBuf::from(text))
}

/// An example of an IP address and a port.
const ADDRESS: &str = "an IP address and a port in quotes: \"0.0.0.0:4420\" or \"[::]:4420\"";

/// Reads an IP address and a port that is not 0.
pub fn address(node: &Node) -> Read<SocketAddr> {
    parsed_address(node, ADDRESS, |address: &SocketAddr| address.port())
}

/// Reads the address of a listener: an IP address and a port that is not 0, with the interface where
/// the address is link-local, and without one where it is not.
pub(crate) fn listen_address(node: &Node) -> Read<ListenAddress> {
    let address = parsed_address(node, ADDRESS, |address: &ListenAddress| address.port())?;
    let (ip, port) = (address.ip(), address.port());
    match (address.is_link_local(), address.interface()) {
        (true, None) => Err(Wrong::new(
            format!("is \"{address}\", a link-local address without its interface"),
            format!("name the interface: \"[{ip}%eth0]:{port}\""),
        )),
        (false, Some(_)) => Err(Wrong::new(
            format!(
                "is \"{address}\", and only link-local addresses (fe80::/10) take an interface"
            ),
            format!("write \"[{ip}]:{port}\""),
        )),
        _ => Ok(address),
    }
}

/// Reads a text that has an IP address and a port, which is not 0.
pub(super) fn parsed_address<T: FromStr>(
    node: &Node,
    example: &str,
    port: impl Fn(&T) -> u16,
) -> Read<T> {
    let text = string(node, "an address", example)?;
    let wrong = |what: &str| {
        Wrong::new(format!("is \"{}\", {what}", quoted(text)), format!("write {example}"))
    };
    let parsed: T = text.parse().map_err(|_| wrong("not an IP address and a port"))?;
    if port(&parsed) == 0 {
        return Err(wrong("and no host can connect to port 0"));
    }
    Ok(parsed)
}

/// Reads an NQN.
pub fn nqn(node: &Node) -> Read<String> {
    let text = string(node, "an NQN", "an NQN in quotes: \"nqn.2026-01.com.example:disk1\"")?;
    check_nqn(text).map_err(|what| {
        let form = "write nqn.yyyy-mm.reversed.domain:name (at most 223 bytes) or \
                    nqn.2014-08.org.nvmexpress:uuid:UUID; a Linux host's own is in \
                    /etc/nvme/hostnqn";
        Wrong::new(format!("is \"{}\", which {what}", quoted(text)), form)
    })?;
    Ok(text.into())
}

/// Reads a list of NSIDs, each once.
pub fn nsids(node: &Node) -> Read<BTreeSet<u32>> {
    let Value::Array(items) = &node.value else { return kind(node, "a list", "[1, 3]") };
    let mut nsids = BTreeSet::new();
    for item in items {
        let nsid = integer(1, NSID_MAX.into())(item)?;
        if !nsids.insert(nsid) {
            return Err(Wrong::new(format!("names {nsid} twice"), "name each namespace once"));
        }
    }
    Ok(nsids)
}

/// Reads an IP address, or a network with its prefix length.
pub fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// The most addresses and networks of one list.
const NETWORKS_MAX: usize = 256;

/// Reads a list of IP addresses and networks.
pub fn sources(node: &Node) -> Read<Sources> {
    let example = "[\"192.0.2.7\", \"198.51.100.0/24\", \"2001:db8::/32\"]";
    let Value::Array(items) = &node.value else { return kind(node, "a list", example) };
    if items.is_empty() || items.len() > NETWORKS_MAX {
        let remedy = format!(
            "name 1 to {NETWORKS_MAX} addresses and networks; leave it out for any address"
        );
        return Err(Wrong::new(format!("has {} entries", items.len()), remedy));
    }
    let network = |item: &Node| {
        let Value::String(text) = &item.value else {
            let message = format!("names {}, not an address", item.value.kind());
            return Err(Wrong::new(message, format!("write {example}")));
        };
        let Some(network) = self::network(text) else {
            let message = format!("names \"{}\", which is no IP address or network", quoted(text));
            return Err(Wrong::new(message, format!("write {example}")));
        };
        if network.trunc() != network {
            let message = format!("names \"{network}\", which has bits beyond its prefix");
            let address = network.addr();
            let remedy = format!("write \"{}\", or \"{address}\" alone", network.trunc());
            return Err(Wrong::new(message, remedy));
        }
        Ok(network)
    };
    items.iter().map(network).collect()
}

/// Reads the NQN of a subsystem other than discovery.
pub fn subsystem_nqn(node: &Node) -> Read<String> {
    let nqn = nqn(node)?;
    if nqn == DISCOVERY_NQN {
        return Err(Wrong::new(
            "is the NQN of the discovery subsystem, which is always there",
            "choose another name: \"nqn.2026-01.com.example:disk1\"",
        ));
    }
    Ok(nqn)
}

/// Reads printable ASCII of at most `max` characters, as Identify Controller has it.
pub(crate) fn ascii(max: usize) -> impl Fn(&Node) -> Read<String> {
    move |node| {
        let remedy = format!("1 to {max} printable ASCII characters in quotes");
        let text = string(node, "a string", &remedy)?;
        let printable = text.bytes().all(|b| (b' '..=b'~').contains(&b));
        if text.trim().is_empty() || text.len() > max || !printable {
            let message = format!("is \"{}\"", quoted(text));
            return Err(Wrong::new(message, format!("write {remedy}")));
        }
        Ok(text.trim_end().into())
    }
}

/// Reads a UUID that is not nil.
pub fn uuid(node: &Node) -> Read<Uuid> {
    let example = "\"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"";
    let text = string(node, "a UUID", example)?;
    let uuid = Uuid::try_parse(text).ok().filter(|uuid| !uuid.is_nil());
    uuid.ok_or_else(|| {
        Wrong::new(format!("is \"{}\", not a UUID", quoted(text)), format!("write {example}"))
    })
}

/// Reads an NGUID: 32 hexadecimal digits, not all 0; hyphens as in a UUID are allowed.
pub fn nguid(node: &Node) -> Read<[u8; 16]> {
    let remedy = "write 32 hexadecimal digits that are not all 0";
    let text = string(node, "an NGUID", "32 hexadecimal digits in quotes")?;
    let nguid = Uuid::try_parse(text).ok().filter(|uuid| !uuid.is_nil());
    let wrong = || Wrong::new(format!("is \"{}\", not an NGUID", quoted(text)), remedy);
    nguid.map(Uuid::into_bytes).ok_or_else(wrong)
}

/// Reads one of a list of words.
pub fn choice<T: Copy>(words: &'static [(&'static str, T)]) -> impl Fn(&Node) -> Read<T> {
    move |node| {
        let names: Vec<String> = words.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let remedy = names.join(", ");
        let text = string(node, "a string", &remedy)?;
        let found = words.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let message = format!("is \"{}\"", quoted(text));
            Wrong::new(message, format!("write one of {remedy}"))
        })
    }
}
