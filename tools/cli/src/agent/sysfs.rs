//! The subsystems that this machine's kernel host is connected to, read from sysfs: their paths, and their disks. A
//! machine that has several host NQNs is several nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::host::access::{Transport, join_port};

/// A subsystem over fabrics, and the host that is connected to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Names {
    /// The subsystem's NQN.
    pub(crate) nqn: String,
    /// The host's NQN.
    pub(crate) hostnqn: String,
}

/// A subsystem over fabrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subsystem {
    pub(super) names: Names,
    /// The paths to it, live ones first.
    pub(super) paths: Vec<TargetPath>,
    /// Its disks, by name.
    pub(super) disks: Vec<Disk>,
}

/// A controller of the kernel host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TargetPath {
    /// The controller's name, such as `nvme0`.
    pub(super) name: String,
    pub(super) is_live: bool,
    pub(super) transport: Transport,
    /// HOST:PORT.
    pub(super) address: String,
    /// The host's and the controller's DH-HMAC-CHAP secrets.
    pub(super) secrets: [Option<String>; 2],
}

/// A disk, at the device that programs use: the multipath head if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    /// Its name, such as `nvme0n1`.
    pub(super) name: String,
    /// MAJOR:MINOR.
    pub(super) number: String,
    pub(super) nsid: u32,
}

/// Counts of a disk since it appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DiskCounts {
    pub(super) in_flight: u32,
    /// Sum of the times in ms for which commands were in flight.
    pub(super) in_flight_ms: u64,
    /// Completed reads, writes and discards.
    pub(super) operations: u64,
    /// KiB that they moved.
    pub(super) kib: u64,
}

/// Reads an attribute; `None` where it does not exist, or is empty or `(null)`.
fn attribute(folder: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(name)).ok()?;
    let text = text.trim();
    (!text.is_empty() && text != "(null)" && text != "none").then(|| text.to_owned())
}

/// Lists the entries of a folder, by name. A folder that does not exist is empty.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    paths.sort();
    Ok(paths)
}

/// Lists the subsystems over TCP or RDMA. `root` is where sysfs is mounted.
///
/// # Errors
/// The lists of controllers or disks cannot be read.
pub(super) fn subsystems(root: &Path) -> io::Result<Vec<Subsystem>> {
    let mut found: BTreeMap<Names, Subsystem> = BTreeMap::new();
    for folder in entries(&root.join("class/nvme"))? {
        let Some((names, path)) = target_path(&folder) else { continue };
        let subsystem = found.entry(names.clone()).or_default();
        subsystem.names = names;
        subsystem.paths.push(path);
    }
    let mut found: Vec<Subsystem> = found.into_values().collect();
    for folder in entries(&root.join("block"))? {
        let Some((nqn, hostnqn, disk)) = disk(&folder) else { continue };
        // All hosts of a machine share a multipath head. It belongs to the first one.
        let is_owner = |one: &&mut Subsystem| {
            one.names.nqn == nqn && hostnqn.as_ref().is_none_or(|host| *host == one.names.hostnqn)
        };
        if let Some(subsystem) = found.iter_mut().find(is_owner) {
            subsystem.disks.push(disk);
        }
    }
    found.iter_mut().for_each(|one| one.paths.sort_by_key(|path| !path.is_live));
    Ok(found)
}

/// Reads a controller; `None` for another transport than TCP and RDMA, and for a discovery controller.
fn target_path(folder: &Path) -> Option<(Names, TargetPath)> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let transport = match attribute(folder, "transport")?.as_str() {
        "tcp" => Transport::Tcp,
        "rdma" => Transport::Rdma,
        _ => return None,
    };
    if attribute(folder, "cntrltype").is_some_and(|kind| kind == "discovery") {
        return None;
    }
    let path = TargetPath {
        name,
        is_live: attribute(folder, "state").is_some_and(|state| state == "live"),
        transport,
        address: endpoint(&attribute(folder, "address")?)?,
        secrets: ["dhchap_secret", "dhchap_ctrl_secret"].map(|name| attribute(folder, name)),
    };
    let (nqn, hostnqn) = (attribute(folder, "subsysnqn")?, attribute(folder, "hostnqn")?);
    Some((Names { nqn, hostnqn }, path))
}

/// Reads the kernel's form of an address: `traddr=192.0.2.1,trsvcid=4420,…`.
fn endpoint(text: &str) -> Option<String> {
    let value = |key: &str| {
        text.split(',').find_map(|part| part.trim().strip_prefix(key)?.strip_prefix('='))
    };
    Some(join_port(value("traddr")?, value("trsvcid")?))
}

/// Reads a disk, with the NQN of its subsystem and, unless it is a multipath head, of its host. `None` for another
/// device, and for one path of a multipath disk.
fn disk(folder: &Path) -> Option<(String, Option<String>, Disk)> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let (controller, namespace) = name.strip_prefix("nvme")?.split_once('n')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(controller) || !digits(namespace) {
        return None;
    }
    // The folder above is the controller's or, for a multipath head, the subsystem's.
    let above = fs::canonicalize(folder).ok()?.parent()?.to_owned();
    let nqn = attribute(&above, "subsysnqn")?;
    let nsid = attribute(folder, "nsid")?.parse().ok()?;
    let disk = Disk { name, number: attribute(folder, "dev")?, nsid };
    Some((nqn, attribute(&above, "hostnqn"), disk))
}

/// Reads the counts of a disk; `None` if the disk is gone.
pub(super) fn disk_counts(root: &Path, disk: &str) -> Option<DiskCounts> {
    let text = fs::read_to_string(root.join("block").join(disk).join("stat")).ok()?;
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    // Documentation/block/stat.rst: reads 0, sectors read 2, writes 4, sectors written 6, in flight 8, time in queue 10,
    // discards 11.
    Some(DiskCounts {
        in_flight: u32::try_from(field(8)).unwrap_or(u32::MAX),
        in_flight_ms: field(10),
        operations: field(0).saturating_add(field(4)).saturating_add(field(11)),
        kib: field(2).saturating_add(field(6)) / 2,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const NQN: &str = "nqn.2026-01.io.x:s";

    fn write(folder: &Path, attributes: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        for (name, value) in attributes {
            fs::write(folder.join(name), format!("{value}\n")).unwrap();
        }
    }

    /// Makes a sysfs with a multipath disk over two paths, and a local drive.
    pub(in crate::agent) fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for folder in ["class/nvme", "block"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for (name, address, state) in [
            ("nvme1", "traddr=192.0.2.1,trsvcid=4420,src_addr=192.0.2.9", "connecting"),
            ("nvme2", "traddr=2001:db8::1,trsvcid=4421", "live"),
        ] {
            write(
                &at("class/nvme").join(name),
                &[
                    ("transport", "tcp"),
                    ("address", address),
                    ("state", state),
                    ("subsysnqn", NQN),
                    ("hostnqn", "nqn.2026-01.io.x:h"),
                    ("cntrltype", "io"),
                    ("dhchap_secret", "none"),
                    ("dhchap_ctrl_secret", "(null)"),
                ],
            );
        }
        write(&at("class/nvme/nvme0"), &[("transport", "pcie"), ("subsysnqn", "nqn.local")]);
        let head = at("devices/virtual/nvme-subsystem/nvme-subsys1");
        write(&head, &[("subsysnqn", NQN)]);
        let stat = "10 0 80 5 4 0 64 9 3 0 70 2 0 8 0 0 0";
        write(&head.join("nvme1n1"), &[("nsid", "1"), ("dev", "259:3"), ("stat", stat)]);
        symlink(head.join("nvme1n1"), at("block/nvme1n1")).unwrap();
        write(&at("block/nvme1c2n1"), &[("nsid", "1"), ("dev", "259:4")]);
        write(&at("block/sda"), &[("dev", "8:0")]);
        root
    }

    #[test]
    fn d6_live_path_of_subsystem_is_first() {
        let root = machine();
        let found = subsystems(root.path()).unwrap();
        let [one] = &found[..] else { panic!("{found:?}") };
        let hostnqn = "nqn.2026-01.io.x:h".to_owned();
        assert_eq!(one.names, Names { nqn: NQN.to_owned(), hostnqn });
        let paths: Vec<_> =
            one.paths.iter().map(|path| (path.name.as_str(), path.address.as_str())).collect();
        assert_eq!(paths, [("nvme2", "[2001:db8::1]:4421"), ("nvme1", "192.0.2.1:4420")]);
        assert_eq!(one.paths[0].secrets, [None, None]);
        let disk = Disk { name: "nvme1n1".to_owned(), number: "259:3".to_owned(), nsid: 1 };
        assert_eq!(one.disks, [disk]);
        let counts = disk_counts(root.path(), "nvme1n1");
        assert_eq!(
            counts,
            Some(DiskCounts { in_flight: 3, in_flight_ms: 70, operations: 16, kib: 72 })
        );
        assert_eq!(disk_counts(root.path(), "nvme9n1"), None);
    }

    #[test]
    fn machine_without_nvme_has_no_subsystems() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(subsystems(root.path()).unwrap(), []);
    }

    #[test]
    fn disk_without_multipath_belongs_to_its_host() {
        let root = machine();
        let controller = root.path().join("class/nvme/nvme3");
        let other = [
            ("transport", "rdma"),
            ("address", "traddr=192.0.2.1,trsvcid=4420"),
            ("state", "live"),
            ("subsysnqn", NQN),
            ("hostnqn", "nqn.2026-01.io.x:other"),
        ];
        write(&controller, &other);
        write(&controller.join("nvme3n1"), &[("nsid", "1"), ("dev", "259:9")]);
        symlink(controller.join("nvme3n1"), root.path().join("block/nvme3n1")).unwrap();
        let found = subsystems(root.path()).unwrap();
        let disks: Vec<_> = found
            .iter()
            .map(|one| (one.names.hostnqn.as_str(), one.disks[0].name.as_str()))
            .collect();
        assert_eq!(
            disks,
            [("nqn.2026-01.io.x:h", "nvme1n1"), ("nqn.2026-01.io.x:other", "nvme3n1")]
        );
    }
}
