//! The kernel's target, as nvmetcli writes it (`nvmetcli save`).

use serde::Deserialize;
use serde_json::{Map, Value};
use sluice_config::quote;

use super::imported::{Imported, Namespace, Subsystem, path_keys};
use crate::host::access::join_port;

/// The whole configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Nvmet {
    pub(super) hosts: Vec<Host>,
    pub(super) ports: Vec<Port>,
    pub(super) subsystems: Vec<Exported>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Host {
    pub(super) nqn: String,
    pub(super) attr: Attributes,
}

/// Attributes by name: nvmetcli writes some numbers as strings.
pub(super) type Attributes = Map<String, Value>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Port {
    pub(super) portid: u32,
    pub(super) addr: Attributes,
    pub(super) param: Attributes,
    pub(super) referrals: Vec<Value>,
    pub(super) ana_groups: Vec<AnaGroup>,
    pub(super) subsystems: Vec<String>,
}

/// A group of namespaces, and its state at a port.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnaGroup {
    pub(super) grpid: u32,
    pub(super) ana: Attributes,
}

/// A drive that a subsystem passes through.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Passthru {
    pub(super) device: Attributes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Exported {
    pub(super) nqn: String,
    pub(super) attr: Attributes,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) namespaces: Vec<Disk>,
    /// The drive that the subsystem passes through, if it does.
    pub(super) passthru: Vec<Passthru>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Disk {
    pub(super) nsid: u32,
    pub(super) device: Attributes,
    pub(super) enable: u32,
    /// The ANA group; 0 counts as 1.
    pub(super) ana_grpid: Value,
    pub(super) resv: Attributes,
}

/// Returns an attribute as text; `None` where it is missing or empty.
fn text(attributes: &Attributes, name: &str) -> Option<String> {
    let text = match attributes.get(name)? {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => u8::from(*flag).to_string(),
        _ => return None,
    };
    // The kernel shows unset texts so.
    (!text.is_empty() && text != "(null)").then_some(text)
}

/// Returns the ANA groups that hosts cannot use at some port which offers a subsystem.
fn standby_groups(ports: &[Port], nqn: &str) -> Vec<(u32, String)> {
    let offering = ports.iter().filter(|port| port.subsystems.iter().any(|other| other == nqn));
    let groups = offering.flat_map(|port| &port.ana_groups).filter_map(|group| {
        let state = text(&group.ana, "state")?;
        (state != "optimized" && state != "non-optimized").then_some((group.grpid, state))
    });
    groups.collect()
}

/// Returns whether the file system of `path` has blocks of 512 bytes, which the kernel's target then uses as well. `None`
/// if they have a size that this target does not have, or if the file cannot be seen.
fn has_small_blocks(path: &str) -> Option<bool> {
    let folder = nix::sys::statvfs::statvfs(path).ok()?;
    match folder.fragment_size() {
        512 => Some(true),
        4096.. => Some(false),
        _ => None,
    }
}

/// Converts the configuration.
pub(super) fn import(nvmet: Nvmet) -> Imported {
    let mut imported = Imported::default();
    let has_key = |host: &&Host| text(&host.attr, "dhchap_key").is_some();
    let keyed: Vec<String> =
        nvmet.hosts.iter().filter(has_key).map(|host| host.nqn.clone()).collect();
    for nqn in &keyed {
        imported.note(format!(
            "Host {nqn} has a DH-HMAC-CHAP key. Its subsystems require authentication; store the key: sluice host key \
             set {nqn} FILE"
        ));
    }
    for exported in nvmet.subsystems {
        let standby = standby_groups(&nvmet.ports, &exported.nqn);
        let subsystem = import_subsystem(exported, (&keyed, &standby), &mut imported);
        imported.subsystems.push(subsystem);
    }
    for port in &nvmet.ports {
        import_port(port, &mut imported);
    }
    imported
}

/// Converts a subsystem; `keyed` are the hosts with keys, `standby` the ANA groups that hosts cannot use here.
fn import_subsystem(
    exported: Exported,
    (keyed, standby): (&[String], &[(u32, String)]),
    imported: &mut Imported,
) -> Subsystem {
    let Exported { nqn, attr, allowed_hosts, namespaces, passthru } = exported;
    if text(&attr, "pi_enable").is_some_and(|on| on == "1") {
        imported.note(format!(
            "{nqn}: protection information (attr_pi_enable). There is no substitute: check data in the file system"
        ));
    }
    if let Some(queues) = text(&attr, "qid_max").filter(|most| most != "128") {
        imported.target.insert("max_queues", queues);
    }
    for bound in ["cntlid_min", "cntlid_max"] {
        if text(&attr, bound).is_some_and(|at| at != "1" && at != "65519") {
            imported.note(format!(
                "{nqn}: attr_{bound}. Controller identifiers are the daemon's own: use one target for each subsystem"
            ));
        }
    }
    let mut subsystem = Subsystem {
        serial: text(&attr, "serial"),
        // Hosts name disks by it (/dev/disk/by-id).
        model: text(&attr, "model").or_else(|| Some("Linux".to_owned())),
        allow_any_host: text(&attr, "allow_any_host").is_some_and(|any| any == "1"),
        require_authentication: allowed_hosts.iter().any(|host| keyed.contains(host)),
        hosts: allowed_hosts,
        ..Subsystem::default()
    };
    for device in passthru.iter().filter_map(|one| text(&one.device, "path")) {
        imported.note(format!(
            "{nqn} passes {device} through as a controller. Add a namespace with backend = \"nvme\" and device = \
             \"/dev/ngXnY\" for each of the drive's namespaces: it passes I/O commands through, and no admin commands"
        ));
    }
    for Disk { nsid, device, enable, ana_grpid, resv } in namespaces {
        let group = match &ana_grpid {
            Value::String(text) => text.trim().parse().unwrap_or(1),
            other => other.as_u64().and_then(|group| u32::try_from(group).ok()).unwrap_or(1),
        };
        if let Some((_, state)) = standby.iter().find(|(other, _)| *other == group.max(1)) {
            imported.note(format!(
                "Namespace {nsid} of {nqn} is in ANA group {group}, which is {state} here: another node serves the disk. \
                 Add it when this node is to serve it"
            ));
            continue;
        }
        if text(&resv, "enable").is_some_and(|on| on == "1") {
            imported.note_reservations(nsid, &nqn);
        }
        if enable == 0 {
            imported
                .note(format!("Namespace {nsid} of {nqn} is disabled: add it when it is needed"));
            continue;
        }
        let Some(path) = text(&device, "path") else {
            imported.note(format!("Namespace {nsid} of {nqn} has no path"));
            continue;
        };
        let mut keys = path_keys(&path);
        if !path.starts_with("/dev/") {
            match has_small_blocks(&path) {
                Some(true) => keys.push(("block_size", "512".to_owned())),
                Some(false) => {}
                None => imported.note(format!(
                    "The block size of {path}, namespace {nsid} of {nqn}, could not be found out, or is neither 512 nor \
                     4096: compare block_size with `blockdev --getss` on a host before you serve it"
                )),
            }
        }
        let (uuid, nguid) = (text(&device, "uuid"), text(&device, "nguid"));
        subsystem.namespaces.push(Namespace::new(nsid, keys, uuid, nguid));
    }
    subsystem.nqn = nqn;
    subsystem
}

fn import_port(port: &Port, imported: &mut Imported) {
    let id = port.portid;
    let transport = text(&port.addr, "trtype").unwrap_or_default();
    let (Some(address), true) =
        (text(&port.addr, "traddr"), transport == "tcp" || transport == "rdma")
    else {
        imported.note(format!(
            "Port {id}: transport {transport}. Offer its subsystems over TCP or RDMA, or use the device itself on this \
             machine"
        ));
        return;
    };
    if !port.referrals.is_empty() {
        imported.note(format!(
            "Port {id}: referrals. Discovery names this target's addresses only: query each target, or list all in \
             the hosts' discovery.conf"
        ));
    }
    if let Some(bytes) =
        text(&port.param, "inline_data_size").and_then(|text| text.parse::<u64>().ok())
        && bytes >= 1024
    {
        let kib = (bytes / 1024).min(64);
        imported.target.insert("in_capsule_data", quote(&format!("{kib} KiB")));
    }
    let service = text(&port.addr, "trsvcid").unwrap_or_else(|| "4420".to_owned());
    let secure = text(&port.addr, "tsas").is_some_and(|tsas| tsas == "tls1.3");
    let tls = match text(&port.addr, "treq").as_deref() {
        _ if !secure => None,
        Some("not required") => Some("allowed"),
        _ => Some("required"),
    };
    if secure {
        imported.note(format!(
            "Port {id}: TLS keys are in the kernel's keyring. Set keyring = \".nvme\" in [target], or store them: sluice \
             host key set"
        ));
    }
    for nqn in &port.subsystems {
        imported.listen((join_port(&address, &service), transport == "rdma"), tls, nqn);
    }
}
