//! Checks of this machine against a configuration: the part of `--check` that needs more than the
//! file. The checks create, change and remove nothing.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fabric::controller::SecureChannel;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use serde_json::Value;
use sluice_config::{Backend, Config, Listener, Namespace, RegionConfig, Transport, format_size};
use sluice_machine::View;

use crate::control::api;
use crate::control::api::occupant::{self, Occupant};
use crate::control::unproved::{self, Unproved};
use crate::disks::backend::{self, BackendError, Claims, OnSignature, Opening, OwnFile, Probed};
use crate::disks::file_systems;
use crate::serve::host_keys::HostKeys;
use crate::serve::reactor::ring::{Ring, RingSize};
use crate::serve::{rdma, tls};
use crate::sys::{access, socket};

/// The findings on this machine, one sentence each.
#[derive(Debug, Default)]
pub struct Findings {
    /// Unmet requirements: a start fails, or a host would connect without its secret or key.
    pub lacks: Vec<String>,
    /// Doubts about the configuration with the present secrets and keys of hosts, and faults of the machine: a start
    /// succeeds all the same.
    pub warnings: Vec<String>,
}

/// Looks at this machine. If it lacks nothing, a start should succeed. Addresses, files and devices of a Sluicegate
/// daemon that answers on the configuration's control socket do not count as taken.
#[must_use]
pub fn look(config: &Config) -> Findings {
    let own = |path: &PathBuf| OwnFile { path: path.clone(), what: "the state file" };
    let mut found = Found {
        claims: Claims::new(config.target.state.iter().map(own).collect()),
        running: Running::default(),
        probed: Vec::new(),
        lacks: Vec::new(),
        warnings: Vec::new(),
    };
    found.control(&config.target.control);
    found.lacks.extend(api::check_groups(&config.target).err().map(|error| error.to_string()));
    found.ring(config);
    found.memory(config);
    if let Some(state) = &config.target.state {
        found.state(state);
    }
    let keys =
        crate::serve::host_keys::read(config.target.host_keys.as_deref()).unwrap_or_else(|error| {
            found.lacks.push(format!("secrets of hosts: {error}"));
            Default::default()
        });
    for endpoint in config.listeners.iter().map(Listener::endpoint) {
        match (socket::resolve(endpoint.address), endpoint.transport) {
            (Ok(address), Transport::Tcp) => found.address(address),
            (Ok(address), Transport::Rdma) => found.rdma(address, &format!("listener {endpoint}")),
            (Err(why), _) => found.lacks.push(why),
        }
    }
    if config.listeners.iter().any(|listener| listener.tls != SecureChannel::Off)
        && let Some(why) = tls::refusal()
    {
        found.lacks.push(format!("listeners with TLS: {why}"));
    }
    if let Some(address) = config.pmem.general.address {
        found.rdma(address, &format!("regions at {address}"));
    }
    if let Some(address) = config.target.metrics {
        found.address(address);
    }
    for subsystem in &config.subsystems {
        for namespace in &subsystem.namespaces {
            let name = format!("{}/{}", subsystem.nqn, namespace.id());
            if let Err(why) = found.device(namespace, &name) {
                found.lacks.push(format!("namespace {name}: {why}"));
            }
        }
    }
    for region in &config.pmem.regions {
        let name = format!("region {}", region.name);
        if let Err(why) = found.region(region, &name) {
            found.lacks.push(format!("{name}: {why}"));
        }
    }
    found.keys(config, &keys);
    found.warnings.extend(file_systems::at_start(config));
    // The ring is checked above, with its receive buffers.
    found.warnings.extend(sluice_machine::list_faults(&View::new("/", None)));
    Findings { lacks: found.lacks, warnings: found.warnings }
}

/// The addresses, files and devices of a Sluicegate daemon that runs already.
#[derive(Debug, Default)]
struct Running {
    is: bool,
    paths: Vec<PathBuf>,
    /// The NQNs of the hosts that it allows, by live changes too.
    hosts: BTreeSet<String>,
}

#[derive(Debug)]
struct Found {
    claims: Claims,
    running: Running,
    /// The devices that were probed, held to the end, so that two namespaces on one device are
    /// noticed.
    probed: Vec<Probed>,
    lacks: Vec<String>,
    warnings: Vec<String>,
}

impl Found {
    /// Checks that the control socket can be created, or that a Sluicegate daemon has it.
    fn control(&mut self, path: &Path) {
        match occupant::of(path) {
            Ok(Occupant::Nobody) => {
                if let Err(error) = folder(path) {
                    let why = access::explain(&error, path);
                    self.lacks.push(format!("the control socket {}: {why}", path.display()));
                }
            }
            Ok(Occupant::Daemon) => {
                let namespaces = occupant::ask(path, "namespace.list").unwrap_or_default();
                // A daemon of an earlier version knows no regions.
                let pmem = occupant::ask(path, "pmem.show").unwrap_or_default();
                let lists = [Some(&namespaces), pmem.get("regions")];
                let rows = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
                let paths = rows.filter_map(|row| Some(PathBuf::from(row.get("path")?.as_str()?)));
                let paths = paths.collect();
                let allowed = occupant::ask(path, "host.list").unwrap_or_default();
                let rows = allowed.as_array().into_iter().flatten();
                let hosts = rows.filter_map(|row| row.get("hosts")?.as_array()).flatten();
                let hosts = hosts.filter_map(|host| Some(host.as_str()?.to_owned())).collect();
                let keys = occupant::ask(path, "host.keys").unwrap_or_default();
                let unreadable = keys.get("unreadable").and_then(Value::as_str);
                self.lacks.extend(
                    unreadable.map(|why| {
                        format!("the running daemon cannot read secrets of hosts: {why}")
                    }),
                );
                self.running = Running { is: true, paths, hosts };
            }
            Err(error) => self.lacks.push(error.to_string()),
        }
    }

    /// Checks that the hosts with secrets and TLS keys are allowed, and that these prove who the hosts are.
    fn keys(&mut self, config: &Config, keys: &HostKeys) {
        let found = unproved::find(config, keys).into_iter();
        let (unallowed, others): (Vec<_>, Vec<_>) =
            found.partition(|one| matches!(one, Unproved::Unallowed(_)));
        let allowed = |one: &Unproved| matches!(one, Unproved::Unallowed(host) if self.running.hosts.contains(host));
        let unallowed: Vec<_> = unallowed.into_iter().filter(|one| !allowed(one)).collect();
        // Without a running daemon, only the state file could tell which hosts live changes allow.
        let is_known = self.running.is || config.target.state.is_none();
        let place = if is_known { &mut self.lacks } else { &mut self.warnings };
        place.extend(unproved::lines(&unallowed));
        self.warnings.extend(unproved::lines(&others));
        self.warnings.extend(unproved::keyring_doubt(config));
    }

    /// Checks that io_uring is available, with passthrough where a namespace needs it.
    fn ring(&mut self, config: &Config) {
        let smallest = RingSize { entries: 8, buffers: 1, buffer_bytes: 4096 };
        let mut all = config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        let passthrough = all.any(|n| matches!(n.backend, Backend::Nvme { .. }));
        match Ring::new(smallest) {
            Ok((ring, _)) if passthrough && !ring.has_passthrough() => self.lacks.push(
                "this kernel's io_uring has no passthrough (Linux 5.19): use backend = \"block\""
                    .to_owned(),
            ),
            Ok(_) => {}
            Err(error) => self.lacks.push(error.to_string()),
        }
    }

    /// Checks that the machine has the memory that the configuration may take.
    fn memory(&mut self, config: &Config) {
        let all = config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        let sizes = all.map(|namespace| match namespace.backend {
            Backend::Memory { size, .. } => size,
            _ => 0,
        });
        let in_memory = config.pmem.regions.iter().filter(|region| region.path.is_none());
        let regions = in_memory.filter_map(|region| region.size);
        let namespaces = sizes.chain(regions).fold(0, u64::saturating_add);
        let buffers = config.target.io_memory.saturating_mul(config.target.cores.len() as u64);
        let wanted = namespaces.saturating_add(buffers);
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        if let Some(there) =
            file_systems::kibibytes(&text, "MemTotal:").filter(|there| wanted > *there)
        {
            self.lacks.push(format!(
                "memory namespaces, regions and `io_memory` may take {} together, and this machine has {}",
                format_size(wanted),
                format_size(there)
            ));
        }
    }

    /// Checks that the state file can be written or created.
    fn state(&mut self, path: &Path) {
        let looked = match std::fs::metadata(path) {
            Ok(meta) if !meta.is_file() => Err(io::Error::other("it is not a regular file")),
            Ok(_) => may(path, AccessFlags::R_OK | AccessFlags::W_OK).and_then(|()| folder(path)),
            Err(_) => folder(path),
        };
        if let Err(error) = looked {
            let why = access::explain(&error, path);
            self.lacks.push(format!("the state file {}: {why}", path.display()));
        }
    }

    /// Checks that the address is this machine's and free.
    fn address(&mut self, address: SocketAddr) {
        if let Err(error) = socket::bind_to(address) {
            // The running daemon listens there, and frees the address when it ends.
            let ours = self.running.is && error.raw_os_error() == Some(libc::EADDRINUSE);
            if !ours {
                self.lacks.push(socket::refusal(address, &error));
            }
        }
    }

    /// Checks that the address is of an RDMA device and free; `what` is who listens there.
    fn rdma(&mut self, address: SocketAddr, what: &str) {
        let checked = rdma::check(address, self.running.is);
        self.lacks.extend(checked.err().map(|why| format!("{what}: {why}")));
    }

    /// Checks that a region's file or device exists and is not in use.
    fn region(&mut self, region: &RegionConfig, name: &str) -> Result<(), BackendError> {
        let RegionConfig { path: Some(path), size, create, read_only, .. } = region else {
            return Ok(());
        };
        let (path, block_size) = (path.clone(), None);
        let backend = Backend::Pmem { path, size: *size, block_size, create: *create };
        self.probe(&backend, *read_only, name)
    }

    /// Checks that a namespace's file or device exists and is not in use.
    fn device(&mut self, namespace: &Namespace, name: &str) -> Result<(), BackendError> {
        self.probe(&namespace.backend, namespace.read_only, &format!("namespace {name}"))
    }

    fn probe(
        &mut self,
        backend: &Backend,
        read_only: bool,
        name: &str,
    ) -> Result<(), BackendError> {
        let Some(path) = backend.path() else { return Ok(()) };
        if !self.running.paths.iter().any(|known| known == path) {
            // The daemon decides by its state file about a device with data; it is not read here.
            let signature = OnSignature::Ignore;
            let opening = Opening { claims: &self.claims, namespace: name, seen: None, signature };
            let probed = backend::probe(backend, read_only, &opening)?;
            if let Some(notice) = &probed.notice {
                self.warnings.push(format!("{name}: {}: {notice}", path.display()));
            }
            self.probed.push(probed);
        }
        Ok(())
    }
}

/// Checks that this process's effective user may use a path.
fn may(path: &Path, mode: AccessFlags) -> io::Result<()> {
    Ok(faccessat(AT_FDCWD, path, mode, AtFlags::AT_EACCESS)?)
}

/// Checks that a file can be created, and the folders above that are missing.
fn folder(path: &Path) -> io::Result<()> {
    let there = path.ancestors().skip(1).find(|folder| folder.exists());
    may(there.unwrap_or(Path::new("/")), AccessFlags::W_OK | AccessFlags::X_OK)
}

#[cfg(test)]
#[path = "preflight_tests.rs"]
mod tests;
