//! Writing of typed values as text that parses to the same values.

use std::collections::{BTreeMap, BTreeSet};

use super::lines::{Lines, quote};
use super::subsystem::Subsystem;
use super::whole::Config;
use super::{network, pmem, qos, subsystem, table};

/// Writes the whole configuration as TOML.
#[must_use]
pub fn render(config: &Config) -> String {
    let mut lines = Lines::default();
    lines.title("[target]");
    table::lines(&mut lines, &config.target);
    qos::lines(&mut lines, &config.qos);
    network::lines(&mut lines, &config.network);
    pmem::lines(&mut lines, &config.pmem);
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
pub fn restart_keys(from: &Config, to: &Config) -> Vec<String> {
    let pairs = |config: &Config| -> BTreeMap<String, String> {
        let tables = [
            ("[target]", table::text(&config.target)),
            ("[pmem]", table::text(&config.pmem.general)),
        ];
        let lines = tables.iter().flat_map(|(title, text)| text.lines().map(move |l| (title, l)));
        let pairs = lines.filter_map(|(title, line)| Some((title, line.split_once(" = ")?)));
        pairs.map(|(title, (key, value))| (format!("{title} {key}"), value.to_owned())).collect()
    };
    let (mut before, mut after) = (pairs(from), pairs(to));
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
pub fn render_subsystem(value: &Subsystem) -> String {
    let mut lines = Lines::default();
    subsystem::lines(&mut lines, value, "");
    lines.into_text()
}
