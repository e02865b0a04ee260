//! Reading of the typed values from the tree of a configuration file.

use super::fields::{Fields, Problems};
use super::listener::{Listener, ParsedListener, listener};
use super::node::Node;
use super::qos::Known;
use super::subsystem::{ParsedSubsystem, Subsystem, number, subsystem};
use super::whole::Config;
use super::{Machine, check, network, pmem, qos, target};

/// Reads a whole configuration. The result is right where `problems` stays empty.
pub(crate) fn config(root: &Node, machine: &Machine, problems: &Problems) -> Config {
    let Some(mut fields) = Fields::of(root, "the file", String::new(), problems) else {
        return Config::default();
    };
    let target = match fields.table("target", "[target]") {
        Some(table) => target::parse(table, machine, problems),
        None => target::standard(machine),
    };
    let qos = qos::parse(&mut fields);
    let network = network::parse(&mut fields);
    let pmem = pmem::parse(&mut fields);
    let listeners: Vec<ParsedListener> =
        fields.tables("listener", "[[listener]]").into_iter().filter_map(listener).collect();
    let tables = fields.tables("subsystem", "[[subsystem]]");
    let count = tables.len();
    let mut subsystems: Vec<ParsedSubsystem> = tables.into_iter().filter_map(subsystem).collect();
    fields.finish();
    subsystems.iter_mut().for_each(number);
    let whole = subsystems.len() == count && subsystems.iter().all(|parsed| parsed.whole);
    let known = if whole { Known::File } else { Known::Part };
    check::across(target.state.as_deref(), &listeners, &subsystems, known, problems);
    let subsystems: Vec<Subsystem> =
        subsystems.into_iter().map(ParsedSubsystem::into_subsystem).collect();
    let network = network::finish(network, &listeners, problems);
    let listeners: Vec<Listener> = listeners.into_iter().map(|l| l.listener).collect();
    let state = target.state.as_deref();
    Config {
        qos: qos::finish(qos, &subsystems, known, &target, problems),
        network,
        pmem: pmem::finish(pmem, state, &listeners, &subsystems, problems),
        listeners,
        subsystems,
        target,
    }
}
