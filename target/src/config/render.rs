//! From typed values back to text that parses to the same values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use super::identity::format_nguid;
use super::model::{Backend, Config, Listener, Namespace, Subsystem, Target};
use super::parse::POLL;
use super::units::{format_duration, format_size};
use super::{network, qos};

/// Lines of `key = value`.
#[derive(Debug, Default)]
pub(crate) struct Lines(String);

impl Lines {
    pub(super) fn raw(&mut self, key: &str, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{key} = {value}");
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.raw(key, quote(value));
    }

    pub(super) fn path(&mut self, key: &str, value: &Path) {
        self.text(key, &value.to_string_lossy());
    }

    pub(super) fn list(&mut self, key: &str, values: &[String]) {
        let quoted: Vec<String> = values.iter().map(|value| quote(value)).collect();
        self.raw(key, format_args!("[{}]", quoted.join(", ")));
    }

    pub(super) fn title(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{title}");
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// A TOML basic string.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The whole configuration as TOML.
#[must_use]
pub fn render(config: &Config) -> String {
    let mut lines = Lines::default();
    lines.title("[target]");
    target(&mut lines, &config.target);
    qos::render_whole(&mut lines, &config.qos);
    network::render_whole(&mut lines, &config.network);
    for one in &config.listeners {
        lines.title("[[listener]]");
        listener(&mut lines, one);
    }
    for one in &config.subsystems {
        lines.title("[[subsystem]]");
        subsystem(&mut lines, one, "[[subsystem.namespace]]");
    }
    lines.0
}

/// What of a configuration is read at the start alone and differs between `from`, with which the
/// target was started, and `to`: each key with its value now and after a restart.
pub(crate) fn restart_keys(from: &Config, to: &Config) -> Vec<String> {
    let text = |config: &Config| {
        let mut lines = Lines::default();
        target(&mut lines, &config.target);
        lines.into_text()
    };
    let (before, after) = (text(from), text(to));
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

fn target(lines: &mut Lines, target: &Target) {
    lines.raw("cores", format_args!("{:?}", target.cores));
    if let Some((word, _)) = POLL.iter().find(|(_, poll)| *poll == target.poll) {
        lines.text("poll", word);
    }
    lines.text("poll_time", &format_duration(target.poll_time));
    lines.text("io_memory", &format_size(target.io_memory));
    lines.text("max_transfer", &format_size(target.max_transfer.into()));
    lines.text("in_capsule_data", &format_size(target.in_capsule_data.into()));
    lines.raw("queue_depth", target.queue_depth);
    lines.raw("admin_queue_depth", target.admin_queue_depth);
    lines.raw("max_queues", target.max_queues);
    lines.raw("max_connections", target.max_connections);
    if let Some(state) = &target.state {
        lines.path("state", state);
    }
    lines.path("control", &target.control);
    if let Some(metrics) = target.metrics {
        lines.text("metrics", &metrics.to_string());
    }
    lines.text("drain_time", &format_duration(target.drain_time));
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
    lines.0
}

/// A subsystem's settings without the title; its namespaces are `[[namespace]]`.
#[must_use]
pub(crate) fn render_subsystem(value: &Subsystem) -> String {
    let mut lines = Lines::default();
    subsystem(&mut lines, value, "[[namespace]]");
    lines.0
}

/// A namespace's settings alone, without the title.
#[must_use]
pub(crate) fn render_namespace(value: &Namespace) -> String {
    let mut lines = Lines::default();
    namespace(&mut lines, value);
    lines.0
}
