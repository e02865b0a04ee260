//! From the tree of a configuration to its typed values.

use std::collections::BTreeSet;

use sluice_schema::keys::NSID_MAX;

use super::fields::{At, Fields, List, Problems};
use super::identity::{derived_nguid, derived_serial, derived_uuid};
use super::model::{Backend, DeviceModel, Listener, Namespace, Subsystem, Transport};
use super::node::Node;
use super::parsed::{ParsedListener, ParsedNamespace, ParsedSubsystem};
use super::qos::Known;
use super::qos::values::CLASSES;
use super::whole::Config;
use super::{Machine, check, network, qos, target, values};

/// Largest namespace in bytes, 1 EiB: more than any drive or file system holds, and far enough below
/// 2^63, where file offsets end.
pub(crate) const SIZE_MAX: u64 = 1 << 60;
/// Largest `memory` namespace in bytes: 4 TiB.
pub(crate) const MEMORY_MAX: u64 = 4 << 40;

/// What a namespace is called in messages about a file.
const NAMESPACE: &str = "[[subsystem.namespace]]";

/// Reads a whole configuration; where `problems` stays empty, the value is right.
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
    let listeners: Vec<ParsedListener> =
        fields.tables("listener", "[[listener]]").into_iter().filter_map(listener).collect();
    let tables = fields.tables("subsystem", "[[subsystem]]");
    let count = tables.len();
    let mut subsystems: Vec<ParsedSubsystem> = tables.into_iter().filter_map(subsystem).collect();
    fields.finish();
    subsystems.iter_mut().for_each(resolve);
    let whole = subsystems.len() == count && subsystems.iter().all(|parsed| parsed.whole);
    let known = if whole { Known::File } else { Known::Part };
    check::across(&listeners, &subsystems, known, problems);
    let subsystems: Vec<Subsystem> =
        subsystems.into_iter().map(ParsedSubsystem::into_subsystem).collect();
    Config {
        target,
        qos: qos::finish(qos, &subsystems, known, problems),
        network: network::finish(network, &listeners, problems),
        listeners: listeners.into_iter().map(|l| l.listener).collect(),
        subsystems,
    }
}

/// `[[listener]]`.
pub(crate) fn listener(mut fields: Fields<'_>) -> Option<ParsedListener> {
    let transport =
        fields.value_or("transport", Transport::Tcp, values::choice(&[("tcp", Transport::Tcp)]));
    let address = fields.require("address", "\"0.0.0.0:4420\"", values::address);
    let advertise = fields.get("advertise", values::address).map(|at| at.value);
    let discovery_only = fields.value_or("discovery_only", false, values::boolean);
    let subsystems = fields.list("subsystems", values::subsystem_nqn);
    let class = fields.get("class", values::choice(&CLASSES)).map(|at| at.value);
    let link = fields.get("link", network::values::reference);
    fields.finish();
    let address = address?;
    let names = subsystems.as_ref().map(List::values);
    let value = address.value;
    Some(ParsedListener {
        listener: Listener {
            transport,
            address: value,
            advertise,
            discovery_only,
            subsystems: names,
            class,
            link: link.as_ref().and_then(|at| at.value.clone()),
        },
        address: At { value: (), span: address.span, path: address.path },
        subsystems: subsystems.unwrap_or_default(),
        link: link.as_ref().map(At::place),
    })
}

/// `[[subsystem]]`.
pub(crate) fn subsystem(mut fields: Fields<'_>) -> Option<ParsedSubsystem> {
    let nqn = fields.require("nqn", "\"nqn.2026-01.com.example:disk1\"", values::subsystem_nqn);
    let serial = fields.get("serial", values::ascii(20)).map(|at| at.value);
    let model = fields.get("model", values::ascii(40)).map(|at| at.value);
    let allow_any_host = fields.value_or("allow_any_host", false, values::boolean);
    let hosts = fields.list("hosts", values::nqn).unwrap_or_default();
    let tables = fields.tables("namespace", NAMESPACE);
    let count = tables.len();
    let namespaces: Vec<_> = tables.into_iter().filter_map(namespace).collect();
    fields.finish();
    let nqn = nqn?;
    Some(ParsedSubsystem {
        subsystem: Subsystem {
            nqn: nqn.value,
            serial,
            model,
            allow_any_host,
            hosts: hosts.values(),
            namespaces: Vec::new(),
        },
        whole: namespaces.len() == count,
        nqn: At { value: (), span: nqn.span, path: nqn.path },
        hosts,
        namespaces,
    })
}

/// `[[subsystem.namespace]]`.
pub(crate) fn namespace(mut fields: Fields<'_>) -> Option<ParsedNamespace> {
    let place = fields.place();
    let nsid = fields.get("nsid", values::integer(1, i128::from(NSID_MAX)));
    let uuid = fields.get("uuid", values::uuid).map(|at| at.value);
    let nguid = fields.get("nguid", values::nguid).map(|at| at.value);
    let read_only = fields.value_or("read_only", false, values::boolean);
    let force = fields.value_or("force", false, values::boolean);
    let hosts = fields.list("hosts", values::nqn);
    let class = fields.get("class", values::choice(&CLASSES)).map(|at| at.value);
    let device = qos::device(&mut fields);
    let backend = backend(&mut fields);
    let problems = fields.problems();
    fields.finish();
    let names = hosts.as_ref().map(List::values);
    let backend = backend?;
    if read_only && matches!(backend, Backend::File { create: true, .. }) {
        let message = "`create` is set, and so is `read_only`";
        problems.at(
            &place,
            message,
            "a file that nobody can write is not made: remove one of them",
        );
    }
    Some(ParsedNamespace {
        namespace: Namespace {
            nsid: nsid.as_ref().map(|at| at.value),
            backend,
            uuid,
            nguid,
            read_only,
            force,
            hosts: names,
            class,
            device,
        },
        place,
        nsid: nsid.map(|at| At { value: (), span: at.span, path: at.path }),
        hosts: hosts.unwrap_or_default(),
    })
}

/// Which settings a backend has.
#[derive(Clone, Copy)]
enum Kind {
    Null,
    Memory,
    File,
    Nvme,
}

/// The settings of the device that `null` pretends to be.
const MODEL: [&str; 4] = ["service_time", "bandwidth", "channels", "errors"];

/// The settings of `backend`.
const KINDS: [(&str, Kind); 5] = [
    ("null", Kind::Null),
    ("memory", Kind::Memory),
    ("file", Kind::File),
    ("block", Kind::File),
    ("nvme", Kind::Nvme),
];

/// `backend` and the settings that belong to it.
fn backend(fields: &mut Fields<'_>) -> Option<Backend> {
    let kind = fields.require("backend", "\"memory\"", values::choice(&KINDS));
    // Without a backend that is right, do not blame the settings that belong to it.
    fields.know(&["size", "block_size", "path", "direct", "create", "device", "forward_class"]);
    fields.know(&MODEL);
    match kind?.value {
        kind @ (Kind::Null | Kind::Memory) => sized(fields, kind),
        Kind::File => file(fields),
        Kind::Nvme => nvme(fields),
    }
}

/// `null` and `memory`.
fn sized(fields: &mut Fields<'_>, kind: Kind) -> Option<Backend> {
    let most = if matches!(kind, Kind::Memory) { MEMORY_MAX } else { SIZE_MAX };
    let size = fields.require("size", "\"4 GiB\"", values::size_within(4096, most));
    let block_size = fields.get("block_size", values::block_size).map(|at| at.value);
    let unread = fields.unread("block_size", block_size.as_ref());
    let block_size = block_size.unwrap_or(4096);
    refuse(fields, &["path", "direct", "create"], "belongs to the backends \"file\" and \"block\"");
    refuse(fields, &["device", "forward_class"], "belongs to the backend \"nvme\"");
    let model = match kind {
        Kind::Null => qos::device_model(fields),
        _ => refuse_model(fields),
    };
    let size = size?;
    if unread {
        return None;
    }
    let size = check::whole_blocks(size, block_size, fields)?;
    Some(match kind {
        Kind::Memory => Backend::Memory { size, block_size },
        _ => Backend::Null { size, block_size, model },
    })
}

/// `file` and `block`.
fn file(fields: &mut Fields<'_>) -> Option<Backend> {
    let path = fields.require("path", "\"/srv/disk1.img\"", values::path);
    let size = fields.get("size", values::size_within(4096, SIZE_MAX));
    let block_size = fields.get("block_size", values::block_size).map(|at| at.value);
    let direct = fields.value_or("direct", true, values::boolean);
    let create = fields.get("create", values::boolean);
    refuse(
        fields,
        &["device"],
        "belongs to the backend \"nvme\"; a file or block device is `path`",
    );
    refuse(fields, &["forward_class"], "belongs to the backend \"nvme\"");
    refuse_model(fields);
    let unread = fields.unread("block_size", block_size.as_ref());
    let size = match size.filter(|_| !unread) {
        Some(size) => Some(check::whole_blocks(size, block_size.unwrap_or(4096), fields)?),
        None => None,
    };
    let create = match create.filter(|create| create.value) {
        Some(place) if size.is_none() => {
            let message = "`create` is set, and `size` is not";
            fields.problems().at(&place, message, "say how large the file becomes: `size`");
            return None;
        }
        create => create.is_some(),
    };
    Some(Backend::File { path: path?.value, size, block_size, direct, create })
}

/// `nvme`.
fn nvme(fields: &mut Fields<'_>) -> Option<Backend> {
    let device = fields.require("device", "\"/dev/ng0n1\"", values::path);
    let theirs = "is the device's own with the backend \"nvme\"";
    refuse(fields, &["size", "block_size"], theirs);
    refuse(
        fields,
        &["path"],
        "belongs to the backends \"file\" and \"block\"; here it is `device`",
    );
    refuse(fields, &["direct", "create"], "belongs to the backends \"file\" and \"block\"");
    refuse_model(fields);
    let forward_class = fields.value_or("forward_class", false, values::boolean);
    let device = device?;
    let name = device.value.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.starts_with("nvme") && device.value.starts_with("/dev") {
        let message = "`device` is the block device, not the generic character device".to_owned();
        let generic = name.replacen("nvme", "ng", 1);
        let remedy = format!(
            "write device = \"/dev/{generic}\", or backend = \"block\" and path = \"/dev/{name}\""
        );
        fields.problems().at(&device, message, remedy);
    }
    Some(Backend::Nvme { device: device.value, forward_class })
}

fn refuse_model(fields: &mut Fields<'_>) -> Option<DeviceModel> {
    refuse(fields, &MODEL, "belongs to the backend \"null\", which pretends to be a device");
    None
}

fn refuse(fields: &mut Fields<'_>, keys: &[&'static str], reason: &str) {
    for key in keys {
        fields.refuse(key, &format!("`{key}` {reason}"), "remove it");
    }
}

/// Gives what was left out: the lowest NSIDs that are free, UUIDs, NGUIDs, the serial number.
pub(crate) fn resolve(parsed: &mut ParsedSubsystem) {
    let nqn = parsed.subsystem.nqn.clone();
    parsed.subsystem.serial.get_or_insert_with(|| derived_serial(&nqn));
    let namespaces = parsed.namespaces.iter_mut().map(|parsed| &mut parsed.namespace);
    resolve_namespaces(&nqn, BTreeSet::new(), namespaces.collect());
}

/// Gives namespaces what was left out; `taken` are the NSIDs of others in the same subsystem.
pub(crate) fn resolve_namespaces(
    nqn: &str,
    mut taken: BTreeSet<u32>,
    namespaces: Vec<&mut Namespace>,
) {
    taken.extend(namespaces.iter().filter_map(|namespace| namespace.nsid));
    let mut next = 1;
    for namespace in namespaces {
        while namespace.nsid.is_none() && !taken.insert(next) {
            next += 1;
        }
        let nsid = *namespace.nsid.get_or_insert(next);
        let uuid = *namespace.uuid.get_or_insert_with(|| derived_uuid(nqn, nsid));
        namespace.nguid.get_or_insert_with(|| derived_nguid(uuid));
    }
}
