//! Resources that the configuration needs and the daemon's container withholds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use sluice_config::{Backend, Config, Transport, format_size};
use sluice_machine::container;

use crate::sys::threads;

/// The device file of RDMA's connection manager.
const RDMA: &str = "/dev/infiniband/rdma_cm";
/// The bit of CAP_SYS_ADMIN in a set of capabilities.
const SYS_ADMIN: u32 = 21;

/// Logs each resource that the container withholds, with the option that grants it.
pub fn report(config: &Config) {
    let Some(engine) = container::engine() else { return };
    let withheld = withheld(&Needs::of_configuration(config), &Granted::to_this_process());
    if withheld.is_empty() {
        tracing::info!(engine, "runs in a container");
    }
    for resource in withheld {
        tracing::warn!(engine, "the container withholds {resource}");
    }
}

/// Returns the resources that the daemon's container withholds; none outside of containers.
#[must_use]
pub(crate) fn find_withheld(config: &Config) -> Vec<String> {
    match container::engine() {
        Some(_) => withheld(&Needs::of_configuration(config), &Granted::to_this_process()),
        None => Vec::new(),
    }
}

/// Resources that a configuration needs.
#[derive(Debug, Default)]
struct Needs {
    /// Bytes of I/O buffers that the kernel locks, for all reactors.
    locked: u64,
    rdma: bool,
    /// Whether drives are served by passthrough.
    passthrough: bool,
    /// Paths of device files.
    devices: BTreeSet<PathBuf>,
    cores: Vec<usize>,
}

impl Needs {
    fn of_configuration(config: &Config) -> Self {
        let namespaces = config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        let backends: Vec<&Backend> = namespaces.map(|namespace| &namespace.backend).collect();
        let regions = config.pmem.regions.iter().filter_map(|region| region.path.as_deref());
        let paths = backends.iter().filter_map(|backend| backend.path()).chain(regions);
        let rdma = config.pmem.general.address.is_some()
            || config.listeners.iter().any(|listener| listener.transport == Transport::Rdma);
        let uses_buffers = backends.iter().any(|backend| {
            matches!(backend, Backend::Nvme { .. } | Backend::File { direct: true, .. })
        });
        let target = &config.target;
        // An eighth more for large transfers.
        let buffers = target.io_memory.saturating_add(target.io_memory / 8);
        let reactors = u64::try_from(target.cores.len()).unwrap_or(u64::MAX);
        Self {
            locked: if rdma || uses_buffers { buffers.saturating_mul(reactors) } else { 0 },
            rdma,
            passthrough: backends.iter().any(|backend| matches!(backend, Backend::Nvme { .. })),
            devices: paths.filter(|path| container::is_device(path)).map(Path::to_owned).collect(),
            cores: target.cores.clone(),
        }
    }
}

/// Resources that this process has.
#[derive(Clone, Debug)]
struct Granted {
    /// RLIMIT_MEMLOCK in bytes; `None`: no limit.
    locked: Option<u64>,
    /// Whether the process has CAP_SYS_ADMIN.
    is_administrator: bool,
    cores: Vec<usize>,
    /// Whether a file exists.
    exists: fn(&Path) -> bool,
}

impl Granted {
    fn to_this_process() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let locked = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(RLIM_INFINITY, |(soft, _)| soft);
        Self {
            locked: (locked != RLIM_INFINITY).then_some(locked),
            is_administrator: has_capability(&status, SYS_ADMIN),
            cores: threads::allowed().unwrap_or_default(),
            exists: |path| path.exists(),
        }
    }
}

/// Returns whether a capability is among the effective ones in a text of /proc/PID/status.
fn has_capability(status: &str, bit: u32) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set >> bit & 1 == 1)
}

/// Returns a line for each resource that is needed and not granted, with the option of the container that grants it.
fn withheld(needs: &Needs, granted: &Granted) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |resource: String, option: &str| {
        lines.push(format!("{resource} (option of Podman and Docker: {option})"));
    };
    if let Some(limit) = granted.locked.filter(|limit| *limit < needs.locked) {
        let (needed, limit) = (format_size(needs.locked), format_size(limit));
        add(
            format!("locked memory: I/O buffers may lock {needed}, and the limit is {limit}"),
            "--ulimit memlock=-1",
        );
    }
    if needs.rdma && !(granted.exists)(Path::new(RDMA)) {
        let option = "--device=/dev/infiniband, with --network=host";
        add(format!("RDMA devices: there is no {RDMA}"), option);
    }
    if needs.passthrough && !granted.is_administrator {
        let resource = "CAP_SYS_ADMIN, without which passthrough cannot identify drives";
        add(resource.to_owned(), "--cap-add=SYS_ADMIN");
    }
    for path in needs.devices.iter().filter(|path| !(granted.exists)(path)) {
        let path = path.display();
        add(format!("the device {path}"), &format!("--device={path}"));
    }
    let cores: Vec<_> = needs.cores.iter().filter(|core| !granted.cores.contains(core)).collect();
    if !granted.cores.is_empty() && !cores.is_empty() {
        let allowed = &granted.cores;
        let resource = format!("CPUs {cores:?} of `cores`: it permits {allowed:?}");
        add(resource, "--cpuset-cpus");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Granted {
        Granted { locked: None, is_administrator: true, cores: vec![0, 1, 2, 3], exists: |_| true }
    }

    fn needs(text: &str) -> Needs {
        let config = Config::parse(text, Path::new("sluiced.toml")).unwrap();
        Needs::of_configuration(&config)
    }

    const DRIVES: &str = "[target]\ncores = [0]\nio_memory = \"64 MiB\"\n[[listener]]\naddress = \"10.0.0.1:4420\"\n\
                          transport = \"rdma\"\n[[subsystem]]\nnqn = \"nqn.2026-01.io.sluicegate:d\"\n\
                          [[subsystem.namespace]]\nbackend = \"nvme\"\ndevice = \"/dev/ng0n1\"\n";
    const MEMORY: &str = "[target]\ncores = [0]\n[[subsystem]]\nnqn = \"nqn.2026-01.io.sluicegate:d\"\n\
                          [[subsystem.namespace]]\nbackend = \"memory\"\nsize = \"1 GiB\"\n";

    #[test]
    fn withheld_resources_are_named_with_their_options() {
        for (granted, resource, option) in [
            (Granted { locked: Some(8 << 20), ..all() }, "72 MiB", "--ulimit memlock=-1"),
            (Granted { exists: |path| path != Path::new(RDMA), ..all() }, RDMA, "/dev/infiniband"),
            (Granted { is_administrator: false, ..all() }, "CAP_SYS_ADMIN", "--cap-add=SYS_ADMIN"),
            (
                Granted { exists: |path| path == Path::new(RDMA), ..all() },
                "/dev/ng0n1",
                "--device=/dev/ng0n1",
            ),
            (Granted { cores: vec![1, 2], ..all() }, "[0]", "--cpuset-cpus"),
        ] {
            let lines = withheld(&needs(DRIVES), &granted);
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(lines[0].contains(resource) && lines[0].contains(option), "{lines:?}");
        }
        assert_eq!(withheld(&needs(DRIVES), &all()), Vec::<String>::new());
    }

    #[test]
    fn unneeded_resources_are_not_named() {
        let least =
            Granted { locked: Some(0), is_administrator: false, cores: vec![0], exists: |_| false };
        assert_eq!(withheld(&needs(MEMORY), &least), Vec::<String>::new());
    }

    #[test]
    fn capabilities_are_read_from_the_status() {
        assert!(has_capability("CapPrm:\t0\nCapEff:\t000001ffffffffff\n", SYS_ADMIN));
        assert!(!has_capability("CapEff:\t00000000a80425fb\n", SYS_ADMIN));
        assert!(!has_capability("", SYS_ADMIN));
    }
}
