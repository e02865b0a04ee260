//! SPDK's target, as `rpc.py save_config` writes it: for each subsystem of SPDK, the calls that make it.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sluice_config::{quote, quote_list};

use super::imported::{Imported, Namespace, Subsystem, path_keys};
use crate::host::access::join_port;

#[derive(Debug, Deserialize)]
pub(super) struct Saved {
    subsystems: Vec<Part>,
}

#[derive(Debug, Deserialize)]
struct Part {
    /// `null` where nothing of it is configured.
    #[serde(default)]
    config: Option<Vec<Call>>,
}

#[derive(Debug, Deserialize)]
struct Call {
    method: String,
    #[serde(default)]
    params: Value,
}

#[derive(Debug, Deserialize)]
struct Sized {
    name: String,
    #[serde(default)]
    num_blocks: u64,
    block_size: u64,
}

#[derive(Debug, Deserialize)]
struct OfFile {
    name: String,
    filename: String,
    #[serde(default)]
    block_size: Option<u64>,
    #[serde(default)]
    readonly: bool,
}

#[derive(Debug, Deserialize)]
struct Attached {
    name: String,
    trtype: String,
    traddr: String,
}

#[derive(Debug, Deserialize)]
struct LimitSettings {
    name: String,
    #[serde(default)]
    rw_ios_per_sec: u64,
    #[serde(default)]
    rw_mbytes_per_sec: u64,
    #[serde(default)]
    r_mbytes_per_sec: u64,
    #[serde(default)]
    w_mbytes_per_sec: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TransportSettings {
    max_queue_depth: Option<u64>,
    max_io_qpairs_per_ctrlr: Option<u64>,
    in_capsule_data_size: Option<u64>,
    max_io_size: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Created {
    nqn: String,
    #[serde(default)]
    allow_any_host: bool,
    serial_number: Option<String>,
    model_number: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Added {
    nqn: String,
    namespace: AddedNamespace,
}

#[derive(Debug, Deserialize)]
struct AddedNamespace {
    #[serde(default)]
    nsid: u32,
    bdev_name: String,
    uuid: Option<String>,
    nguid: Option<String>,
    /// Whether only the hosts that are added to it see the namespace.
    #[serde(default)]
    no_auto_visible: bool,
    /// The file that keeps its reservations.
    ptpl_file: Option<String>,
}

/// A host that sees a namespace.
#[derive(Debug, Deserialize)]
struct ShownTo {
    nqn: String,
    nsid: u32,
    host: String,
}

#[derive(Debug, Deserialize)]
struct AddedHost {
    nqn: String,
    host: String,
    #[serde(default)]
    psk: Option<Value>,
    #[serde(default)]
    dhchap_key: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct AddedListener {
    nqn: String,
    listen_address: Address,
    #[serde(default)]
    secure_channel: bool,
}

#[derive(Debug, Deserialize)]
struct Address {
    trtype: String,
    traddr: String,
    trsvcid: Option<String>,
}

/// The block devices of SPDK's file.
#[derive(Debug, Default)]
struct Bdevs {
    /// The keys of the namespace that replaces each.
    known: BTreeMap<String, Vec<(&'static str, String)>>,
    /// Drives by the names of their controllers: the PCI address.
    drives: BTreeMap<String, String>,
    limits: BTreeMap<String, LimitSettings>,
}

/// Parses the parameters of a call.
fn params<T: DeserializeOwned>(call: &Call) -> anyhow::Result<T> {
    T::deserialize(&call.params).with_context(|| format!("the parameters of {}", call.method))
}

/// Converts the configuration.
///
/// # Errors
/// A call has other parameters than SPDK writes.
pub(super) fn import(saved: Saved) -> anyhow::Result<Imported> {
    let (mut imported, mut bdevs) = (Imported::default(), Bdevs::default());
    let calls: Vec<Call> =
        saved.subsystems.into_iter().filter_map(|part| part.config).flatten().collect();
    imported.note("The CPUs of SPDK's -m: set cores in [target]".to_owned());
    for call in &calls {
        if !bdevs.take(call)? && !imported.take(call)? && !is_default(&call.method) {
            imported.note(format!("{}: {}", call.method, substitute(&call.method)));
        }
    }
    let named = |method: &'static str| calls.iter().filter(move |call| call.method == method);
    let shown = named("nvmf_ns_add_host").map(params).collect::<anyhow::Result<Vec<ShownTo>>>()?;
    for call in named("nvmf_subsystem_add_ns") {
        imported.add_namespace(params(call)?, &bdevs, &shown);
    }
    Ok(imported)
}

/// Returns whether SPDK writes the call also where nothing was configured, and it sets nothing that this target has.
fn is_default(method: &str) -> bool {
    const NAMES: [&str; 9] = [
        "nvmf_ns_add_host",
        "bdev_wait_for_examine",
        "bdev_examine",
        "framework_set_scheduler",
        "nvmf_set_max_subsystems",
        "nvmf_set_config",
        "sock_set_default_impl",
        "bdev_nvme_set_hotplug",
        "nvmf_subsystem_add_ns",
    ];
    NAMES.contains(&method) || method.ends_with("_set_options")
}

/// Names the replacement of a call that is not imported.
fn substitute(method: &str) -> &'static str {
    match method {
        _ if method.starts_with("bdev_lvol") => "use LVM, and serve /dev/VG/LV",
        _ if method.starts_with("bdev_raid") || method.starts_with("bdev_concat") => {
            "use md (mdadm), and serve /dev/mdN"
        }
        _ if method.starts_with("bdev_crypto") => "use dm-crypt (cryptsetup), and serve its device",
        _ if method.starts_with("bdev_compress") => "use VDO of LVM, and serve its device",
        _ if method.starts_with("bdev_rbd") => "map the image (rbd map), and serve /dev/rbdN",
        _ if method.starts_with("bdev_iscsi") => "log in with iscsiadm, and serve the device",
        _ if method.starts_with("bdev_passthru") || method.starts_with("bdev_delay") => {
            "there is no substitute: serve the device itself"
        }
        _ if method.starts_with("keyring_") => {
            "store the secrets: sluice host key set HOST-NQN FILE"
        }
        "nvmf_discovery_add_referral" => {
            "discovery names this target's addresses only: list all in the hosts' discovery.conf"
        }
        "nvmf_set_crdt" => "set retry_delays in [target]",
        "nvmf_subsystem_listener_set_ana_state" => {
            "a disk that another node serves must not be served here: remove its namespaces"
        }
        _ => "there is no counterpart",
    }
}

impl Bdevs {
    /// Takes a call that makes or limits a block device. Returns whether it was one.
    fn take(&mut self, call: &Call) -> anyhow::Result<bool> {
        match call.method.as_str() {
            "bdev_malloc_create" | "bdev_null_create" => {
                let Sized { name, num_blocks, block_size } = params(call)?;
                let backend = if call.method == "bdev_null_create" { "null" } else { "memory" };
                let size = num_blocks.saturating_mul(block_size);
                self.known.insert(
                    name,
                    vec![
                        ("backend", quote(backend)),
                        ("size", quote(&format!("{size} B"))),
                        ("block_size", block_size.to_string()),
                    ],
                );
            }
            "bdev_aio_create" | "bdev_uring_create" => {
                let OfFile { name, filename, block_size, readonly } = params(call)?;
                let mut keys = path_keys(&filename);
                if let Some(block_size) = block_size.filter(|size| *size > 0) {
                    keys.push(("block_size", block_size.to_string()));
                }
                if readonly {
                    keys.push(("read_only", "true".to_owned()));
                }
                self.known.insert(name, keys);
            }
            "bdev_nvme_attach_controller" => {
                let Attached { name, trtype, traddr } = params(call)?;
                if !trtype.eq_ignore_ascii_case("pcie") {
                    return Ok(false);
                }
                self.drives.insert(name, traddr);
            }
            "bdev_set_qos_limit" => {
                let limit: LimitSettings = params(call)?;
                self.limits.insert(limit.name.clone(), limit);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the keys of the namespace that replaces a block device.
    fn keys(&self, name: &str) -> Option<Vec<(&'static str, String)>> {
        if let Some(keys) = self.known.get(name) {
            return Some(keys.clone());
        }
        // SPDK names the namespaces of a drive after its controller: Nvme0n1.
        let (controller, namespace) = name.rsplit_once('n')?;
        let address = self.drives.get(controller)?;
        let namespace: u32 = namespace.parse().ok()?;
        let path = format!("/dev/disk/by-path/pci-{address}-nvme-{namespace}");
        Some(path_keys(&path))
    }
}

impl Imported {
    /// Takes a call of SPDK's NVMe-oF target. Returns whether it was one.
    fn take(&mut self, call: &Call) -> anyhow::Result<bool> {
        match call.method.as_str() {
            "nvmf_create_transport" => self.take_transport(&params(call)?),
            "nvmf_create_subsystem" => {
                let Created { nqn, allow_any_host, serial_number, model_number } = params(call)?;
                self.subsystems.push(Subsystem {
                    nqn,
                    serial: serial_number.filter(|serial| !serial.is_empty()),
                    model: model_number.filter(|model| !model.is_empty()),
                    allow_any_host,
                    ..Subsystem::default()
                });
            }
            "nvmf_subsystem_add_host" => {
                let AddedHost { nqn, host, psk, dhchap_key } = params(call)?;
                let has_key = psk.is_some() || dhchap_key.is_some();
                if has_key {
                    self.note(format!(
                        "Host {host} has a secret or a TLS key. Its subsystems require authentication; store the key: \
                         sluice host key set {host} FILE"
                    ));
                }
                if let Some(subsystem) = self.subsystem(&nqn) {
                    subsystem.require_authentication |= has_key;
                    subsystem.hosts.push(host);
                }
            }
            "nvmf_subsystem_add_listener" => {
                let AddedListener { nqn, listen_address, secure_channel } = params(call)?;
                let Address { trtype, traddr, trsvcid } = listen_address;
                let is_rdma = trtype.eq_ignore_ascii_case("rdma");
                if !is_rdma && !trtype.eq_ignore_ascii_case("tcp") {
                    self.note(format!(
                        "Listener {traddr} of {nqn}: offer it over TCP or RDMA, not {trtype}"
                    ));
                    return Ok(true);
                }
                let port = trsvcid.unwrap_or_else(|| "4420".to_owned());
                let tls = secure_channel.then_some("required");
                self.listen((join_port(&traddr, &port), is_rdma), tls, &nqn);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_transport(&mut self, transport: &TransportSettings) {
        let TransportSettings {
            max_queue_depth,
            max_io_qpairs_per_ctrlr,
            in_capsule_data_size,
            max_io_size,
        } = transport;
        if let Some(depth) = max_queue_depth {
            self.target.insert("queue_depth", (*depth).clamp(2, 1024).to_string());
        }
        if let Some(queues) = max_io_qpairs_per_ctrlr {
            self.target.insert("max_queues", (*queues).clamp(1, 1024).to_string());
        }
        if let Some(bytes) = in_capsule_data_size {
            let kib = (bytes / 1024).clamp(4, 64);
            self.target.insert("in_capsule_data", quote(&format!("{kib} KiB")));
        }
        if let Some(bytes) = max_io_size {
            let kib = (bytes / 1024).clamp(4, 16384).next_power_of_two();
            self.target.insert("max_transfer", quote(&format!("{kib} KiB")));
        }
    }

    fn add_namespace(&mut self, Added { nqn, namespace }: Added, bdevs: &Bdevs, shown: &[ShownTo]) {
        let AddedNamespace { nsid, bdev_name, uuid, nguid, no_auto_visible, ptpl_file } = namespace;
        let Some(subsystem) = self.subsystem(&nqn) else { return };
        // Without a number, SPDK takes the lowest that is free.
        let is_free = |nsid: &u32| subsystem.namespaces.iter().all(|other| other.nsid != *nsid);
        let nsid = if nsid > 0 { nsid } else { (1..).find(is_free).unwrap_or(1) };
        let Some(mut keys) = bdevs.keys(&bdev_name) else {
            self.note(format!(
                "Namespace {nsid} of {nqn}: bdev {bdev_name}. Add a namespace for the device that replaces it"
            ));
            return;
        };
        if no_auto_visible {
            let sees = |one: &&ShownTo| one.nqn == nqn && one.nsid == nsid;
            let hosts: Vec<String> =
                shown.iter().filter(sees).map(|one| one.host.clone()).collect();
            if hosts.is_empty() {
                self.note(format!(
                    "Namespace {nsid} of {nqn} is shown to no host: add it with its hosts"
                ));
                return;
            }
            keys.push(("hosts", quote_list(&hosts)));
        }
        if ptpl_file.is_some() {
            self.note_reservations(nsid, &nqn);
        }
        if let Some(subsystem) = self.subsystem(&nqn) {
            subsystem.namespaces.push(Namespace::new(nsid, keys, uuid, nguid));
        }
        if let Some(limit) = bdevs.limits.get(&bdev_name) {
            let session = self.sessions.entry(format!("{nqn}/{nsid}")).or_default();
            if limit.rw_ios_per_sec > 0 {
                session.insert("iops", limit.rw_ios_per_sec.to_string());
            }
            for (key, mib) in [
                ("bandwidth", limit.rw_mbytes_per_sec),
                ("read_bandwidth", limit.r_mbytes_per_sec),
                ("write_bandwidth", limit.w_mbytes_per_sec),
            ] {
                if mib > 0 {
                    session.insert(key, quote(&format!("{mib} MiB/s")));
                }
            }
        }
    }
}
