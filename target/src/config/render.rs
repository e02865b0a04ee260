//! Writing of typed values as text that parses to the same values.

use std::collections::{BTreeMap, BTreeSet};

use super::lines::{Lines, quote};
use super::subsystem::Subsystem;
use super::whole::Config;
use super::{network, qos, subsystem, table};

/// Writes the whole configuration as TOML.
#[must_use]
pub fn render(config: &Config) -> String {
    let mut lines = Lines::default();
    lines.title("[target]");
    table::lines(&mut lines, &config.target);
    qos::lines(&mut lines, &config.qos);
    network::lines(&mut lines, &config.network);
    for one in &config.listeners {
        lines.title("[[listener]]");
        table::lines(&mut lines, one);
    }
    for one in &config.subsystems {
        lines.title("[[subsystem]]");
        subsystem::lines(&mut lines, one, "subsystem.");
    }
    lines.into_text()
}

/// Returns the keys that are read at the start alone and differ between `from`, with which the
/// target was started, and `to`: each with its value now and after a restart.
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

/// Writes a subsystem's settings without the title; its hosts are `[[host]]`, its namespaces
/// `[[namespace]]`.
#[must_use]
pub(crate) fn render_subsystem(value: &Subsystem) -> String {
    let mut lines = Lines::default();
    subsystem::lines(&mut lines, value, "");
    lines.into_text()
}
