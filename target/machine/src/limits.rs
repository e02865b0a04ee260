//! Limits on file descriptors and locked memory.

use sluice_config::{NSID_MAX, TargetConfig, format_size};

use crate::finding::Finding;
use crate::view::{Unreadable, View};

/// The descriptors of one connection: its socket, and one of the network's poller.
const EACH: u64 = 2;
/// The descriptors that the daemon needs beside its connections: for rings, listeners, the control
/// socket and logs, and one for each namespace that a subsystem may have.
const OTHERS: u64 = 1024 + NSID_MAX as u64;
/// The capability in the masks of `/proc`.
const CAP_IPC_LOCK: u64 = 1 << 14;
/// Folders of systemd's units, the most important first.
const UNITS: [&str; 3] =
    ["etc/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system"];

/// Returns the file descriptors that the daemon needs for `connections`.
#[must_use]
pub const fn descriptors_for(connections: u64) -> u64 {
    connections.saturating_mul(EACH).saturating_add(OTHERS)
}

/// Returns the connections for which a limit of file descriptors suffices.
#[must_use]
pub fn connections_within(descriptors: u64) -> u64 {
    descriptors.saturating_sub(OTHERS.min(descriptors / 2)) / EACH
}

/// Places of the two limits in a line: the kernel applies the soft one, and the daemon raises the soft limit on file
/// descriptors to the hard one.
const SOFT: usize = 0;
const HARD: usize = 1;

/// A limit; `None`: unlimited.
type Limit = Option<u64>;

/// The process or unit that has the limits.
enum Owner {
    /// A running daemon, by its process identifier.
    Daemon(u32),
    /// The daemon's unit, without its drop-ins.
    Unit(String),
    /// This process.
    Shell,
}

impl Owner {
    fn find(view: &View) -> Self {
        let unit = || UNITS.iter().find_map(|at| view.text(&format!("{at}/sluiced.service")));
        match (view.find_process("sluiced"), unit) {
            (Some(id), _) => Self::Daemon(id),
            (None, unit) => unit().map_or(Self::Shell, Self::Unit),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Daemon(id) => format!("sluiced, process {id}"),
            Self::Unit(_) => "sluiced.service".to_owned(),
            Self::Shell => "this shell".to_owned(),
        }
    }

    /// Reads a limit by its name in `/proc` and its key in a unit; `None`: it is not set there.
    fn read(
        &self,
        view: &View,
        name: &str,
        key: &str,
        place: usize,
    ) -> Result<Option<Limit>, Unreadable> {
        let id = match self {
            Self::Unit(text) => {
                let mut values = text.lines().filter_map(|line| line.trim().strip_prefix(key));
                let last = values.next_back().and_then(|value| {
                    let mut limits = value.split(':');
                    limits.clone().nth(place).or_else(|| limits.next())
                });
                return Ok(last.and_then(parse_limit));
            }
            Self::Daemon(id) => id.to_string(),
            Self::Shell => "self".to_owned(),
        };
        let text = view.read(&format!("proc/{id}/limits"))?.unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.and_then(|line| line.split_whitespace().nth(place)).and_then(parse_limit))
    }

    /// Returns whether the limit on locked memory does not apply to the process.
    fn may_lock(&self, view: &View) -> bool {
        let id = match self {
            Self::Unit(_) => return false,
            Self::Daemon(id) => id.to_string(),
            Self::Shell => "self".to_owned(),
        };
        let status = view.text(&format!("proc/{id}/status")).unwrap_or_default();
        let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let bits = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        bits.is_some_and(|bits| bits & CAP_IPC_LOCK != 0)
    }

    /// Makes the command that raises a limit.
    fn remedy(&self, option: &str, flag: char, value: &str, setting: &str) -> String {
        match self {
            Self::Daemon(id) => format!(
                "prlimit --pid {id} --{option}={value}:{value}  # permanently: {setting} in `systemctl edit sluiced`"
            ),
            Self::Unit(_) => format!("systemctl edit sluiced  # add {setting} below [Service]"),
            Self::Shell => format!("ulimit -{flag} {value}"),
        }
    }
}

/// Reads a limit of `/proc` or of a unit: "unlimited", "infinity", "262144".
fn parse_limit(text: &str) -> Option<Limit> {
    let text = text.trim();
    if matches!(text, "unlimited" | "infinity") {
        return Some(None);
    }
    text.parse().ok().map(Some)
}

/// Checks the limits of the running daemon. Without one, checks its unit, or else this process.
pub(crate) fn check_limits(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let owner = Owner::find(view);
    let name = owner.name();
    let mut findings = Vec::new();
    let wanted = TargetConfig::default().connections_in_all();
    match owner.read(view, "Max open files", "LimitNOFILE=", HARD)? {
        Some(Some(limit)) if connections_within(limit) < wanted => {
            findings.push(Finding::improvable(
                "open files",
                format!(
                    "{limit} for {name}: enough for {} connections, and the default configuration allows {wanted}",
                    connections_within(limit)
                ),
                owner.remedy("nofile", 'n', "262144", "LimitNOFILE=262144"),
            ));
        }
        Some(limit) => {
            let limit = limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
            findings.push(Finding::good("open files", format!("{limit} for {name}")));
        }
        None => {}
    }
    match owner.read(view, "Max locked memory", "LimitMEMLOCK=", SOFT)? {
        Some(Some(limit)) if owner.may_lock(view) => findings.push(Finding::good(
            "locked memory",
            format!(
                "the limit of {} does not apply to {name}, which has CAP_IPC_LOCK",
                format_size(limit)
            ),
        )),
        Some(Some(limit)) => findings.push(Finding::improvable(
            "locked memory",
            format!(
                "{} for {name}: beyond it, the kernel pins I/O buffers for each command",
                format_size(limit)
            ),
            owner.remedy("memlock", 'l', "unlimited", "LimitMEMLOCK=infinity"),
        )),
        Some(None) => {
            findings.push(Finding::good("locked memory", format!("unlimited for {name}")));
        }
        None => {}
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict::{Good, Improvable};
    use crate::testing::Tree;

    const SMALL: &str = "Limit                     Soft Limit           Hard Limit           Units\n\
         Max open files            1024                 4096                 files\n\
         Max locked memory         65536                8388608              bytes\n";

    #[test]
    fn limits_of_units_and_processes_are_read() {
        assert_eq!(parse_limit("infinity"), Some(None));
        assert_eq!(parse_limit("4096 "), Some(Some(4096)));
        assert_eq!((parse_limit("64M"), parse_limit("")), (None, None));
    }

    #[test]
    fn limits_of_the_running_daemon_come_first() {
        let (files, memory) = ("open files", "locked memory");
        let unit = "[Service]\nLimitMEMLOCK=65536\nLimitMEMLOCK=infinity\nLimitNOFILE=262144\n";
        let tree = Tree::new(&[("proc/self/limits", SMALL)]);
        let found = "4096 for this shell: enough for 1024";
        let findings = tree.check(check_limits);
        findings.has(Improvable, files, found, "ulimit -n 262144");
        findings.has(Improvable, memory, "64 KiB for this shell", "ulimit -l unlimited");
        let root = tree.with("proc/self/status", "Name:\tsh\nCapEff:\t000001ffffffffff\n");
        root.check(check_limits).has(Good, memory, "does not apply to this shell", "");
        let tree = root.with("usr/lib/systemd/system/sluiced.service", unit);
        let findings = tree.check(check_limits);
        findings.has(Good, files, "262144 for sluiced.service", "");
        findings.has(Good, memory, "unlimited for sluiced.service", "");
        let tree = tree.with("proc/812/comm", "sluiced").with("proc/812/limits", SMALL);
        let raise = "prlimit --pid 812 --memlock=unlimited:unlimited";
        let findings = tree.check(check_limits);
        findings.has(Improvable, memory, "process 812", raise);
        findings.has(Improvable, files, "process 812", "LimitNOFILE=262144 in");
    }

    #[test]
    fn descriptors_suffice_for_their_connections() {
        for connections in [16_384, 65_536] {
            assert_eq!(connections_within(descriptors_for(connections)), connections);
        }
        assert_eq!(connections_within(1024), 256, "half of a small limit is for connections");
    }
}
