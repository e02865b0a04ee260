//! The lines of the log about hosts: one for each host that connects, leaves or is refused, independent of the
//! number of its queues and tries. Each line is written when its event happens.
//!
//! Time is an argument, and the lines are return values ([`Line`]).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fabric::Nanos;
use fabric::controller::Refusal;

/// The least time between two lines about the same refusal.
const REFUSALS_APART: Duration = Duration::from_secs(60);
/// The most refusals that have lines of their own at one time. All others share one line.
const REFUSALS_MAX: usize = 256;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A host has connected its admin queue.
    Connected {
        /// The host.
        host: Host,
    },
    /// A host has left.
    Left {
        /// The host.
        host: Host,
        /// The number of I/O queues that the host has connected.
        queues: u16,
        /// The reason.
        reason: String,
        /// The time since the host's admin queue was connected.
        connected_for: Duration,
    },
    /// A host was refused.
    Refused {
        /// The host's NQN, as the host gave it.
        host: String,
        /// The subsystem that the host asked for.
        subsystem: String,
        /// The host's address.
        address: SocketAddr,
        /// The reason.
        reason: Refusal,
        /// The number of like refusals since the last line.
        passed_over: u64,
    },
    /// More hosts were refused than have lines of their own.
    OthersRefused {
        /// The number of refusals since the last line.
        passed_over: u64,
    },
}

/// A controller and its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// The host's NQN; empty where the host gave none.
    pub(crate) host: String,
    /// The subsystem's NQN.
    pub(crate) subsystem: String,
    /// The address from which the host's admin queue came.
    pub(crate) address: SocketAddr,
    /// The controller's identifier.
    pub(crate) controller: u16,
}

/// A host that is connected.
#[derive(Debug)]
struct Present {
    host: Host,
    since: Nanos,
    /// The number of I/O queues that the host has connected.
    queues: u16,
}

/// The time at which a refusal was last logged, and the number of refusals since.
#[derive(Clone, Copy, Debug)]
struct Logged {
    at: Nanos,
    passed_over: u64,
}

impl Logged {
    /// Counts one more refusal. Returns the number since the last line if a new line is due.
    fn again(&mut self, now: Nanos) -> Option<u64> {
        if now.since(self.at) < REFUSALS_APART {
            self.passed_over += 1;
            return None;
        }
        self.at = now;
        Some(std::mem::take(&mut self.passed_over))
    }
}

/// The connected hosts, and the recently refused ones. The log has an entry for each controller, and for at most
/// 256 refusals.
#[derive(Debug, Default)]
pub(crate) struct HostLog {
    present: HashMap<u16, Present>,
    refused: HashMap<(String, String, Refusal), Logged>,
    others: Option<Logged>,
}

impl HostLog {
    /// Notes that a host's admin queue has been connected. Returns the line.
    pub(crate) fn connected(&mut self, now: Nanos, host: Host) -> Line {
        let present = Present { host: host.clone(), since: now, queues: 0 };
        self.present.insert(host.controller, present);
        Line::Connected { host }
    }

    /// Counts an I/O queue of a controller that has been connected.
    pub(crate) fn queue_connected(&mut self, controller: u16) {
        if let Some(present) = self.present.get_mut(&controller) {
            present.queues = present.queues.saturating_add(1);
        }
    }

    /// Notes that a host's admin queue is gone. Returns the line; `None` for a controller without a
    /// line about its coming.
    pub(crate) fn left(&mut self, now: Nanos, controller: u16, reason: String) -> Option<Line> {
        let Present { host, since, queues } = self.present.remove(&controller)?;
        Some(Line::Left { host, queues, reason, connected_for: now.since(since) })
    }

    /// Notes that a Connect was refused. Returns the line, unless the last one about the same
    /// refusal is too recent.
    pub(crate) fn refused(
        &mut self,
        now: Nanos,
        names: (String, String),
        address: SocketAddr,
        reason: Refusal,
    ) -> Option<Line> {
        let (host, subsystem) = names.clone();
        let key = (names.0, names.1, reason);
        let line = |passed_over| Line::Refused { host, subsystem, address, reason, passed_over };
        if let Some(logged) = self.refused.get_mut(&key) {
            return logged.again(now).map(line);
        }
        let logged = Logged { at: now, passed_over: 0 };
        if self.refused.len() >= REFUSALS_MAX {
            self.refused.retain(|_, logged| now.since(logged.at) < REFUSALS_APART);
        }
        if self.refused.len() >= REFUSALS_MAX {
            let Some(others) = &mut self.others else {
                self.others = Some(logged);
                return Some(Line::OthersRefused { passed_over: 0 });
            };
            return others.again(now).map(|passed_over| Line::OthersRefused { passed_over });
        }
        self.refused.insert(key, logged);
        Some(line(0))
    }
}

impl Line {
    /// Returns the address of the peer that caused the line; `None` for a line about several peers.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        match self {
            Self::Connected { host } | Self::Left { host, .. } => Some(host.address.ip()),
            Self::Refused { address, .. } => Some(address.ip()),
            Self::OthersRefused { .. } => None,
        }
    }

    /// Writes the line to the log.
    pub(crate) fn log(&self) {
        match self {
            Self::Connected { host: Host { host, subsystem, address, controller } } => {
                tracing::info!(host, subsystem, controller, %address, "a host has connected");
            }
            Self::Left { host: whose, queues, reason, connected_for } => {
                let Host { host, subsystem, address, controller } = whose;
                let connected_for = sluice_config::format_duration(rounded(*connected_for));
                tracing::info!(
                    host,
                    subsystem,
                    controller,
                    queues,
                    %address,
                    reason,
                    connected_for,
                    "a host has left"
                );
            }
            Self::Refused { host, subsystem, address, reason, passed_over } => {
                let remedy = remedy(host, subsystem, *reason);
                let text = reason.text();
                tracing::warn!(
                    host,
                    subsystem,
                    %address,
                    reason = text,
                    passed_over,
                    "a host was refused: {text}{remedy}"
                );
            }
            Self::OthersRefused { passed_over } => {
                tracing::warn!(passed_over, "more hosts were refused than have lines of their own");
            }
        }
    }
}

/// Writes the command that lets a host in, for an operator to paste.
fn remedy(host: &str, subsystem: &str, reason: Refusal) -> String {
    let subsystem = shell_word(subsystem);
    match reason {
        Refusal::AddressNotAllowed => {
            return format!("; those from which it may: sluice host list {subsystem}");
        }
        Refusal::Unauthenticated if host.starts_with("nqn.") => {
            let host = shell_word(host);
            return format!("; to give it a secret: sluice host key set {host} FILE");
        }
        Refusal::HostNotAllowed => {}
        _ => return String::new(),
    }
    if host.starts_with("nqn.") {
        format!("; to let it in: sluice host add {subsystem} {}", shell_word(host))
    } else {
        format!(
            "; it gave no valid NQN, so that it can only be let in with all hosts: sluice host any \
             {subsystem} on"
        )
    }
}

/// Quotes `text` as one word of a shell: a host chooses its name, and an operator pastes it.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:@%+=/,-".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Rounds a time down for people: to milliseconds below 10 s, to seconds beyond.
fn rounded(time: Duration) -> Duration {
    match time.as_secs() {
        0..10 => Duration::from_millis(u64::from(time.subsec_millis()) + 1000 * time.as_secs()),
        seconds => Duration::from_secs(seconds),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Nanos {
        Nanos(seconds * SECOND)
    }

    fn host(controller: u16) -> Host {
        Host {
            host: format!("nqn.2014-08.org.nvmexpress:uuid:{controller}"),
            subsystem: "nqn.2026-01.io.sluicegate:one".to_owned(),
            address: "192.0.2.1:4711".parse().unwrap(),
            controller,
        }
    }

    /// Refuses a host. Returns the number of refusals that a line passes over, if there is a line.
    fn refuse(log: &mut HostLog, now: Nanos, name: &str) -> Option<u64> {
        let names = (name.to_owned(), "nqn.s".to_owned());
        let peer = "192.0.2.1:1".parse().unwrap();
        Some(match log.refused(now, names, peer, Refusal::HostNotAllowed)? {
            Line::Refused { passed_over, .. } | Line::OthersRefused { passed_over } => passed_over,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_host_makes_a_line_when_it_connects_and_one_when_it_leaves() {
        let mut log = HostLog::default();
        assert_eq!(log.connected(at(10), host(1)), Line::Connected { host: host(1) });
        for _ in 0..8 {
            log.queue_connected(1);
        }
        let (reason, connected_for) = ("gone".to_owned(), Duration::from_secs(90));
        let left = Line::Left { host: host(1), queues: 8, reason, connected_for };
        assert_eq!(log.left(at(100), 1, "gone".to_owned()), Some(left));
        assert_eq!(log.left(at(100), 1, "gone".to_owned()), None);
        log.queue_connected(1);
        assert_eq!(log.left(at(100), 1, "gone".to_owned()), None, "a queue alone is no host");
    }

    #[test]
    fn times_are_rounded_for_people() {
        for (ns, text) in [
            (2_022_427_236, "2022 ms"),
            (9_000_000_001, "9 s"),
            (90_500_000_001, "90 s"),
            (0, "0 ns"),
        ] {
            let time = rounded(Duration::from_nanos(ns));
            assert_eq!(sluice_config::format_duration(time), text);
        }
    }

    #[test]
    fn a_host_that_tries_every_second_is_told_once_a_minute() {
        let mut log = HostLog::default();
        let mut try_at = |second, name| Some((second, refuse(&mut log, at(second), name)?));
        let told: Vec<(u64, u64)> =
            (100..300).filter_map(|second| try_at(second, "nqn.h")).collect();
        assert_eq!(told, [(100, 0), (160, 59), (220, 59), (280, 59)]);
        assert_eq!(try_at(300, "nqn.other"), Some((300, 0)));
    }

    #[test]
    fn a_line_can_be_pasted_whatever_a_host_calls_itself() {
        use Refusal::{HostNotAllowed, NoSubsystem, Unauthenticated};
        for (host, refusal, end) in [
            ("nqn.2014-08.org:abcd", HostNotAllowed, "sluice host add nqn.s nqn.2014-08.org:abcd"),
            ("nqn.$(reboot);'x'", HostNotAllowed, r"'nqn.$(reboot);'\''x'\'''"),
            ("", HostNotAllowed, "sluice host any nqn.s on"),
            ("nqn.2014-08.org:abcd", NoSubsystem, ""),
            ("nqn.$x", Unauthenticated, "sluice host key set 'nqn.$x' FILE"),
            ("", Unauthenticated, ""),
        ] {
            let words = remedy(host, "nqn.s", refusal);
            assert!(words.ends_with(end) && words.is_empty() == end.is_empty(), "{words}");
        }
    }

    proptest! {
        #[test]
        fn refusals_are_bounded_in_lines_and_in_memory(
            tries in prop::collection::vec((0u64..4_000_000_000, 0u16..2000), 1..3000)
        ) {
            let mut log = HostLog::default();
            let (mut now, mut lines, mut told) = (Nanos(SECOND), 0, 0);
            let count = tries.len() as u64;
            for (pause, name) in tries {
                now = Nanos(now.0 + pause % (SECOND / 10));
                if let Some(passed) = refuse(&mut log, now, &format!("nqn.{name}")) {
                    lines += 1;
                    told += passed + 1;
                }
                prop_assert!(log.refused.len() <= REFUSALS_MAX);
            }
            let minutes = now.0 / (60 * SECOND) + 1;
            prop_assert!(lines <= minutes * (REFUSALS_MAX as u64 + 1), "{lines} in {minutes} min");
            prop_assert!(told <= count);
        }

        #[test]
        fn each_host_that_came_and_left_made_two_lines(
            steps in prop::collection::vec((0u8..3, 0u16..4, 0u64..2_000_000_000), 0..200)
        ) {
            let mut log = HostLog::default();
            let mut now = Nanos(SECOND);
            let (mut came, mut lines) = (0, Vec::new());
            let mut here = std::collections::HashSet::new();
            for (what, controller, pause) in steps {
                now = Nanos(now.0 + pause);
                match what {
                    0 if here.insert(controller) => {
                        came += 1;
                        lines.push(log.connected(now, host(controller)));
                    }
                    2 if here.remove(&controller) => {
                        lines.extend(log.left(now, controller, String::new()));
                    }
                    _ => log.queue_connected(controller),
                }
            }
            for controller in here {
                lines.extend(log.left(now, controller, String::new()));
            }
            let connected = lines.iter().filter(|l| matches!(l, Line::Connected { .. })).count();
            prop_assert_eq!((connected, lines.len()), (came, came * 2));
            prop_assert!(log.present.is_empty());
        }
    }
}
