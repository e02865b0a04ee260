//! The methods that trace commands, and that change the level of the log.

use std::time::{SystemTime, UNIX_EPOCH};

use arbitration::Class;
use fabric::Nanos;
use fabric::nvme::opcode::io;
use sluice_config::{answer, params};
use sluice_core::{Part, TraceFilter, TracedCommand};

use super::Control;
use super::protocol::{ErrorKind, Failure};

impl Control {
    /// Answers `trace.start`.
    pub(super) fn trace_start(
        &self,
        asked: params::TraceStart,
    ) -> Result<answer::TraceStarted, Failure> {
        let params::TraceStart { host, subsystem, nsid, class, slower_than_ns } = asked;
        let class = class.and_then(|name| Class::ALL.into_iter().find(|of| of.name() == name));
        let slower_than = slower_than_ns.unwrap_or(0);
        let filter = TraceFilter { host, subsystem, nsid, class, slower_than };
        match self.engine().begin_trace(filter) {
            Some(trace) => Ok(answer::TraceStarted { trace }),
            None => Err(Failure::new(
                ErrorKind::Refused,
                "another trace runs; end it, or try again 5 s after its program has ended",
            )),
        }
    }

    /// Answers `trace.read`.
    pub(super) fn trace_read(&self, asked: &params::TraceRead) -> Result<answer::Trace, Failure> {
        let taken = self.engine().take_traced(asked.trace, asked.stop);
        let taken = taken.ok_or_else(|| {
            let message = format!(
                "trace {} does not run: it was ended, or not read for 5 s; begin another one",
                asked.trace
            );
            Failure::not_found(message)
        })?;
        let (now, now_ms) = (self.engine().now(), milliseconds());
        let skipped = taken.commands.iter().map(|(_, command)| u64::from(command.skipped)).sum();
        let command = |(reactor, command): &(usize, TracedCommand)| answer::TracedCommand {
            reactor: *reactor,
            ..shown(command, now, now_ms)
        };
        Ok(answer::Trace {
            commands: taken.commands.iter().map(command).collect(),
            lost: taken.lost,
            skipped,
        })
    }

    /// Answers `log.level`.
    pub(super) fn log_level(&self, asked: params::LogLevel) -> Result<answer::LogLevel, Failure> {
        let Some(level) = asked.level else {
            let level = self.log.level();
            return Ok(answer::LogLevel { before: level.clone(), level });
        };
        let before = self.log.set_level(&level).map_err(Failure::invalid)?;
        Ok(answer::LogLevel { level, before })
    }
}

/// Returns the time in ms since 1970.
fn milliseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Shows a command at a time of the daemon's clock, which is `now_ms` ms after 1970.
fn shown(command: &TracedCommand, now: Nanos, now_ms: u64) -> answer::TracedCommand {
    let times = &command.times;
    let parts = Part::ALL.into_iter().map(|part| (part.name().to_owned(), times.time(part)));
    answer::TracedCommand {
        host: command.controller.host_nqn.clone(),
        subsystem: command.controller.subsystem_nqn.clone(),
        nsid: command.nsid,
        class: command.class.name().to_owned(),
        operation: operation(command.opcode),
        lba: command.lba,
        bytes: command.bytes,
        status: command.status.to_string(),
        reactor: 0,
        connection: command.connection.0,
        queue: command.qid,
        cid: command.cid,
        time_ms: now_ms.saturating_sub(now.ns_since(command.received) / 1_000_000),
        start_ns: command.received.0,
        total_ns: times.total(),
        parts_ns: parts.filter(|(_, ns)| *ns > 0).collect(),
        session: command.session.as_ref().map(|session| session.name().to_owned()),
    }
}

/// Names the operation of an I/O opcode.
fn operation(opcode: u8) -> String {
    match opcode {
        io::FLUSH => "flush".to_owned(),
        io::WRITE => "write".to_owned(),
        io::READ => "read".to_owned(),
        io::COMPARE => "compare".to_owned(),
        io::WRITE_ZEROES => "write zeroes".to_owned(),
        io::DATASET_MANAGEMENT => "deallocate".to_owned(),
        io::VERIFY => "verify".to_owned(),
        other => format!("opcode {other:#04x}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::control::api::tests::Rig;

    #[test]
    fn trace_is_started_read_and_ended() {
        let rig = Rig::new();
        let asked = json!({"class": "high", "nsid": 3, "slower_than_ns": 1_000_000});
        assert_eq!(rig.call("trace.start", asked), json!({"trace": 7}));
        let expected = TraceFilter {
            class: Some(Class::High),
            nsid: Some(3),
            slower_than: 1_000_000,
            ..TraceFilter::default()
        };
        assert_eq!(*rig.engine.trace.lock().unwrap(), Some(expected));
        rig.refuses("trace.start", json!({}), "refused", "another trace runs");
        rig.refuses("trace.read", json!({"trace": 6}), "not_found", "begin another one");
        rig.refuses("trace.start", json!({"class": "top"}), "invalid", "`class`");
        let read = rig.call("trace.read", json!({"trace": 7, "stop": true}));
        assert_eq!(read, json!({"commands": [], "lost": 0, "skipped": 0}));
        assert_eq!(rig.engine.trace.lock().unwrap().as_ref(), None);
    }

    #[test]
    fn level_of_log_is_shown_and_changed() {
        let rig = Rig::new();
        assert_eq!(rig.ask("log.level"), json!({"level": "info", "before": "info"}));
        let set = rig.call("log.level", json!({"level": "debug"}));
        assert_eq!(set, json!({"level": "debug", "before": "info"}));
        assert_eq!(rig.ask("log.level")["level"], "debug");
    }
}
