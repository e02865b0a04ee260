//! From typed values back to text that parses to the same values.

use std::collections::{BTreeMap, BTreeSet};

use sluice_schema::amounts::format_size;

use super::identity::format_nguid;
use super::lines::{Lines, quote};
use super::model::{Backend, Listener, Namespace, Subsystem};
use super::whole::Config;
use super::{network, qos, table};

/// The whole configuration as TOML.
#[must_use]
pub fn render(config: &Config) -> String {
    let mut lines = Lines::default();
    lines.title("[target]");
    table::lines(&mut lines, &config.target);
    qos::lines(&mut lines, &config.qos);
    network::lines(&mut lines, &config.network);
    for one in &config.listeners {
        lines.title("[[listener]]");
        listener(&mut lines, one);
    }
    for one in &config.subsystems {
        lines.title("[[subsystem]]");
        subsystem(&mut lines, one, "[[subsystem.namespace]]");
    }
    lines.into_text()
}

/// What of a configuration is read at the start alone and differs between `from`, with which the
/// target was started, and `to`: each key with its value now and after a restart.
pub(crate) fn restart_keys(from: &Config, to: &Config) -> Vec<String> {
    let (before, after) = (table::text(&from.target), table::text(&to.target));
    let pairs = |text: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter_map(|line| line.split_once(" = "));
        lines.map(|(key, value)| (format!("[target] {key}"), value.to_owned())).collect()
    };
    let (mut before, mut after) = (pairs(&before), pairs(&after));
    for (config, values) in [(from, &mut before), (to, &mut after)] {
        let base = config.network.base.as_deref().unwrap_or("auto");
        values.insert("[network] base".into(), quote(base));
        let general = &config.qos.general;
        let offered = general.enabled && general.wrr;
        values.insert("[qos] wrr (with enabled = true)".into(), offered.to_string());
    }
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let none = String::from("not set");
    let line = |key: &String| {
        let (now, then) = (before.get(key).unwrap_or(&none), after.get(key).unwrap_or(&none));
        (now != then).then(|| format!("{key}: {now} now, {then} after a restart"))
    };
    keys.into_iter().filter_map(line).collect()
}

fn listener(lines: &mut Lines, listener: &Listener) {
    lines.text("transport", "tcp");
    lines.text("address", &listener.address.to_string());
    if let Some(advertise) = listener.advertise {
        lines.text("advertise", &advertise.to_string());
    }
    lines.raw("discovery_only", listener.discovery_only);
    if let Some(subsystems) = &listener.subsystems {
        lines.list("subsystems", subsystems);
    }
    qos::render_device(lines, listener.class, None);
    if let Some(link) = &listener.link {
        lines.text("link", link);
    }
}

fn subsystem(lines: &mut Lines, subsystem: &Subsystem, title: &str) {
    lines.text("nqn", &subsystem.nqn);
    if let Some(serial) = &subsystem.serial {
        lines.text("serial", serial);
    }
    if let Some(model) = &subsystem.model {
        lines.text("model", model);
    }
    lines.raw("allow_any_host", subsystem.allow_any_host);
    lines.list("hosts", &subsystem.hosts);
    for one in &subsystem.namespaces {
        lines.title(title);
        namespace(lines, one);
    }
}

fn namespace(lines: &mut Lines, namespace: &Namespace) {
    if let Some(nsid) = namespace.nsid {
        lines.raw("nsid", nsid);
    }
    backend(lines, &namespace.backend);
    if let Some(uuid) = namespace.uuid {
        lines.text("uuid", &uuid.to_string());
    }
    if let Some(nguid) = &namespace.nguid {
        lines.text("nguid", &format_nguid(nguid));
    }
    lines.raw("read_only", namespace.read_only);
    if namespace.force {
        lines.raw("force", true);
    }
    if let Some(hosts) = &namespace.hosts {
        lines.list("hosts", hosts);
    }
    qos::render_device(lines, namespace.class, Some(&namespace.device));
}

fn backend(lines: &mut Lines, backend: &Backend) {
    match backend {
        Backend::Null { size, block_size, .. } | Backend::Memory { size, block_size } => {
            let memory = matches!(backend, Backend::Memory { .. });
            lines.text("backend", if memory { "memory" } else { "null" });
            lines.text("size", &format_size(*size));
            lines.raw("block_size", block_size);
            if let Backend::Null { model: Some(model), .. } = backend {
                qos::render_model(lines, model);
            }
        }
        Backend::File { path, size, block_size, direct, create } => {
            lines.text("backend", "file");
            lines.path("path", path);
            if let Some(size) = size {
                lines.text("size", &format_size(*size));
            }
            if let Some(block_size) = block_size {
                lines.raw("block_size", block_size);
            }
            lines.raw("direct", direct);
            if *create {
                lines.raw("create", true);
            }
        }
        Backend::Nvme { device, forward_class } => {
            lines.text("backend", "nvme");
            lines.path("device", device);
            if *forward_class {
                lines.raw("forward_class", true);
            }
        }
    }
}

/// A listener's settings alone, without the title.
#[must_use]
pub(crate) fn render_listener(value: &Listener) -> String {
    let mut lines = Lines::default();
    listener(&mut lines, value);
    lines.into_text()
}

/// A subsystem's settings without the title; its namespaces are `[[namespace]]`.
#[must_use]
pub(crate) fn render_subsystem(value: &Subsystem) -> String {
    let mut lines = Lines::default();
    subsystem(&mut lines, value, "[[namespace]]");
    lines.into_text()
}

/// A namespace's settings alone, without the title.
#[must_use]
pub(crate) fn render_namespace(value: &Namespace) -> String {
    let mut lines = Lines::default();
    namespace(&mut lines, value);
    lines.into_text()
}
