//! The machine that a configuration is checked against.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::cores::{ChosenCores, Layout, parse_cpu_list};

/// The properties of a machine on which a configuration depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The CPU numbers that are online; `None` means that they are unknown, and that a
    /// configuration may name any.
    pub cores: Option<BTreeSet<usize>>,
    /// The CPUs of `cores = "auto"`.
    pub auto: ChosenCores,
    /// The default path of the control socket.
    pub control: PathBuf,
}

impl Machine {
    /// Reads the facts of this process's machine and user.
    #[must_use]
    pub fn present() -> Self {
        let online = online();
        Self { auto: choose(&online), cores: Some(online), control: default_control() }
    }

    /// Returns an unknown machine, for a configuration that is checked elsewhere than it runs.
    #[must_use]
    pub fn any() -> Self {
        Self { cores: None, auto: choose(&online()), control: default_control() }
    }
}

/// Chooses the CPUs of reactors from the online ones.
fn choose(online: &BTreeSet<usize>) -> ChosenCores {
    let mut usable = online.clone();
    if let Ok(allowed) = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)) {
        usable.retain(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    }
    Layout::read(Path::new("/"), usable).choose()
}

/// Reads the CPUs that are online. If the kernel does not list them, returns the first ones, as many as the
/// scheduler allows.
fn online() -> BTreeSet<usize> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cores = parse_cpu_list(&list);
    if !cores.is_empty() {
        return cores;
    }
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// Returns the default path of the control socket: `$SLUICEGATE_CONTROL`; systemd's
/// `$RUNTIME_DIRECTORY`; `/run/sluicegate` for root; else the user's own runtime folder.
fn default_control() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let uid = nix::unistd::geteuid();
    let folder = match (variable("RUNTIME_DIRECTORY"), variable("XDG_RUNTIME_DIR")) {
        (Some(service), _) => service,
        _ if uid.is_root() => PathBuf::from("/run/sluicegate"),
        (_, Some(user)) => user.join("sluicegate"),
        _ => PathBuf::from(format!("/tmp/sluicegate-{uid}")),
    };
    variable("SLUICEGATE_CONTROL").unwrap_or_else(|| folder.join("control.sock"))
}

/// Reads a file's bytes; `None` where the file has more than `limit` bytes.
pub(crate) fn read_limited(path: &Path, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_cpus() {
        assert!(!online().is_empty());
    }
}
