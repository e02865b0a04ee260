//! Traced commands in the JSON format of trace events, which the Perfetto viewer opens.
//!
//! A host is a process, and each command a track of nested asynchronous events: the command, and the parts of its time.
//! The daemon reports how long each part took, not when it began: the parts are drawn in the order in which commands
//! pass through them, each once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sluice_config::answer::TracedCommand;

use crate::control::table::size;

/// The parts in the order of a read, which waits for memory after its turn.
const OF_READS: [&str; 14] = [
    "input",
    "iops",
    "bandwidth",
    "credits",
    "reservation",
    "order",
    "window",
    "memory",
    "buffer",
    "device",
    "reply",
    "socket",
    "r2t",
    "data",
];
/// The parts in the order of all other commands.
const OF_OTHERS: [&str; 14] = [
    "input",
    "r2t",
    "memory",
    "buffer",
    "data",
    "iops",
    "bandwidth",
    "credits",
    "reservation",
    "order",
    "window",
    "device",
    "reply",
    "socket",
];

/// The events of a trace.
#[derive(Debug, Default)]
pub(super) struct Perfetto {
    events: Vec<Value>,
    /// Hosts by their numbers as processes.
    hosts: BTreeMap<String, usize>,
    commands: u64,
}

/// Writes a time in us, as the format has it.
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl Perfetto {
    /// Adds a command.
    pub(super) fn add(&mut self, command: &TracedCommand) {
        self.commands += 1;
        let next = self.hosts.len() + 1;
        let pid = *self.hosts.entry(command.host.clone()).or_insert(next);
        if pid == next {
            self.events.push(json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0,
                                    "args": {"name": command.host}}));
        }
        let (id, start) = (self.commands, command.start_ns);
        let mut event = |ph: &str, name: &str, at: u64, args: Value| {
            self.events
                .push(json!({"ph": ph, "cat": "command", "name": name, "id": id, "pid": pid,
                                    "tid": command.queue, "ts": us(at), "args": args}));
        };
        let name = format!("{} {}", command.operation, size(command.bytes.into()));
        let args = json!({
            "namespace": format!("{}/{}", command.subsystem, command.nsid),
            "class": command.class, "lba": command.lba, "status": command.status,
            "reactor": command.reactor, "connection": command.connection, "queue": command.queue,
            "cid": command.cid, "session": command.session,
        });
        event("b", &name, start, args);
        let mut at = start;
        let order = if command.operation == "read" { &OF_READS } else { &OF_OTHERS };
        for part in order {
            let Some(ns) = command.parts_ns.get(*part) else { continue };
            event("b", part, at, json!({}));
            at = at.saturating_add(*ns);
            event("e", part, at, json!({}));
        }
        event("e", &name, start.saturating_add(command.total_ns), json!({}));
    }

    /// Returns the content of the file.
    pub(super) fn text(&self) -> String {
        format!("{}\n", json!({"displayTimeUnit": "ns", "traceEvents": self.events}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_nested_in_their_command_without_gaps() {
        let mut file = Perfetto::default();
        for (host, operation) in [("nqn.h", "read"), ("nqn.i", "write"), ("nqn.h", "read")] {
            let parts = [("window", 3000), ("memory", 500), ("device", 2000), ("socket", 1000)];
            file.add(&TracedCommand {
                host: host.into(),
                operation: operation.into(),
                bytes: 4096,
                start_ns: 1_000_000,
                total_ns: 6500,
                parts_ns: parts.into_iter().map(|(part, ns)| (part.to_owned(), ns)).collect(),
                ..TracedCommand::default()
            });
        }
        let text: Value = serde_json::from_str(&file.text()).unwrap();
        let events = text["traceEvents"].as_array().unwrap();
        let named = events.iter().filter(|event| event["ph"] == "M").count();
        assert_eq!(named, 2, "a process for each host");
        for (id, order) in [(1, ["window", "memory"]), (2, ["memory", "window"])] {
            let own: Vec<&Value> = events.iter().filter(|event| event["id"] == id).collect();
            let (first, last) = (own[0], own[own.len() - 1]);
            assert_eq!((&first["ph"], &first["ts"]), (&json!("b"), &json!(1000.0)));
            assert_eq!((&last["ph"], &last["ts"]), (&json!("e"), &json!(1006.5)));
            assert_eq!([&own[1]["name"], &own[3]["name"]], [order[0], order[1]]);
            for pair in own[1..own.len() - 1].chunks(2) {
                assert_eq!((&pair[0]["ph"], &pair[1]["ph"]), (&json!("b"), &json!("e")));
                assert_eq!(pair[0]["name"], pair[1]["name"]);
            }
            for (end, begin) in
                own[2..own.len() - 1].iter().step_by(2).zip(own[3..].iter().step_by(2))
            {
                assert_eq!(end["ts"], begin["ts"]);
            }
        }
    }
}
