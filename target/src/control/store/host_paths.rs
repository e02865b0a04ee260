//! The hosts that use subsystems, so that a daemon that was killed knows after its restart which hosts may come
//! back. The times of their loss are not kept: all hosts count as lost from the restart on.
//!
//! With each host the store has the disks that it has identified where an NSID was another disk's before: its
//! commands for these need not wait until it identifies them again.
//!
//! The store keeps them beside the live changes. They are not part of the configuration.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use fabric::controller::{HostChange, HostPath, Identified, KeptHost};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Change, Key, Kind, MemoryStore, Store, StoreError};

/// The hosts that were kept.
pub type KeptHosts = Vec<(HostPath, KeptHost)>;

/// A host that uses a subsystem, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    subsystem: String,
    host: String,
    listener: String,
    address: Option<IpAddr>,
    /// The UUIDs that each of its controllers has identified, by NSID. Records of earlier versions have no
    /// such field: what their hosts have identified is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identified: Option<Vec<BTreeMap<u32, Uuid>>>,
    /// As [`KeptHost::queues_without_acre`]; 0 in records of earlier versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    queues_without_acre: u16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u16) -> bool {
    *count == 0
}

impl Record {
    fn new(path: HostPath, kept: &KeptHost) -> Self {
        let HostPath { subsystem, host, listener } = path;
        let identified = kept.identified.as_ref().map(|controllers| {
            let uuids = |disks: &Identified| -> BTreeMap<u32, Uuid> {
                disks.iter().map(|(nsid, uuid)| (*nsid, Uuid::from_bytes(*uuid))).collect()
            };
            controllers.iter().map(uuids).collect()
        });
        let KeptHost { address, queues_without_acre, .. } = *kept;
        Self { subsystem, host, listener, address, identified, queues_without_acre }
    }

    fn into_kept(self) -> (HostPath, KeptHost) {
        let Self { subsystem, host, listener, address, identified, queues_without_acre } = self;
        let identified = identified.map(|controllers| {
            let uuids = |disks: BTreeMap<u32, Uuid>| -> Identified {
                disks.into_iter().map(|(nsid, uuid)| (nsid, uuid.into_bytes())).collect()
            };
            controllers.into_iter().map(uuids).collect()
        });
        let kept = KeptHost { address, identified, queues_without_acre };
        (HostPath { subsystem, host, listener }, kept)
    }
}

/// The stored hosts that use subsystems.
#[derive(Debug)]
pub struct HostPaths {
    store: Arc<dyn Store>,
    /// The hosts that were kept by the process before this one.
    kept: KeptHosts,
}

impl Default for HostPaths {
    /// Makes an empty table, which ends with the process.
    fn default() -> Self {
        Self { store: Arc::new(MemoryStore::default()), kept: Vec::new() }
    }
}

impl HostPaths {
    /// Reads the hosts that used this machine. Returns the table, and warnings about hosts that cannot be
    /// read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: Arc<dyn Store>) -> Result<(Self, Vec<String>), StoreError> {
        let (mut kept, mut warnings) = (Vec::new(), Vec::new());
        let machine = format!("{} ", store.machine());
        for object in store.objects()? {
            let Key { kind, id } = &object.key;
            if *kind != Kind::HostPath || !id.starts_with(&machine) {
                continue;
            }
            match serde_json::from_str::<Record>(&object.value) {
                Ok(record) => kept.push(record.into_kept()),
                Err(error) => warnings.push(format!("{} cannot be read: {error}", object.key)),
            }
        }
        Ok((Self { store, kept }, warnings))
    }

    /// Takes the hosts that used this machine when the table was opened.
    pub(crate) fn take_kept(&mut self) -> KeptHosts {
        std::mem::take(&mut self.kept)
    }

    /// Stores changes, all in one write.
    ///
    /// # Errors
    /// The store cannot be written; it is unchanged.
    pub fn write(&self, changes: &[HostChange]) -> Result<(), StoreError> {
        let change = |(path, change): &HostChange| {
            let HostPath { subsystem, host, listener } = path;
            // A host chooses its own name, which stands last: it makes no other path's key.
            let id = format!("{} {subsystem} {listener} {host}", self.store.machine());
            let key = Key { kind: Kind::HostPath, id };
            let Some(kept) = change else { return Some(Change::Delete(key)) };
            let record = Record::new(path.clone(), kept);
            Some(Change::Put(key, serde_json::to_string(&record).ok()?))
        };
        self.store.apply(&changes.iter().filter_map(change).collect::<Vec<_>>()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::store::{DiskStore, Live, SeenNamespaces};
    use sluice_config::Config;

    fn path(host: &str) -> HostPath {
        HostPath {
            subsystem: "nqn.2026-01.io.x:s0".into(),
            host: host.into(),
            listener: "10.0.0.1:4420".into(),
        }
    }

    #[test]
    fn hosts_outlive_the_process_until_they_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state");
        let open = || {
            let store: Arc<dyn Store> = Arc::new(DiskStore::open(&file).unwrap().0);
            let (live, warnings) = Live::open(Config::default(), Arc::clone(&store)).unwrap();
            assert_eq!((live.current(), warnings), (&Config::default(), Vec::new()));
            assert_eq!(SeenNamespaces::open(Arc::clone(&store)).unwrap().1, Vec::<String>::new());
            let (mut paths, warnings) = HostPaths::open(store).unwrap();
            assert_eq!(warnings, Vec::<String>::new());
            let kept = paths.take_kept();
            (paths, kept)
        };
        let address = Some("192.0.2.7".parse().unwrap());
        let (paths, hosts) = open();
        assert_eq!(hosts, []);
        let spaced = path("nqn. a b");
        let nothing = KeptHost::default;
        let all = ["", "nqn.a"].map(|host| (path(host), Some(nothing())));
        paths.write(&all).unwrap();
        let disks = [(1, [7; 16]), (300, [0xfe; 16])].into();
        let identified = Some(vec![BTreeMap::new(), disks]);
        let kept = KeptHost { address, identified, queues_without_acre: 8 };
        paths.write(&[(spaced.clone(), Some(kept.clone())), (path("nqn.a"), None)]).unwrap();
        drop(paths);
        assert_eq!(open().1, [(path(""), nothing()), (spaced, kept)]);
    }

    #[test]
    fn a_record_of_an_earlier_version_does_not_say_what_its_host_has_identified() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let value = concat!(
            r#"{"subsystem":"nqn.2026-01.io.x:s0","host":"nqn.a","#,
            r#""listener":"10.0.0.1:4420","address":"192.0.2.7"}"#
        );
        let key = Key { kind: Kind::HostPath, id: format!("{} x", store.machine()) };
        store.apply(&[Change::Put(key, value.into())]).unwrap();
        let (mut paths, warnings) = HostPaths::open(store).unwrap();
        let address = Some("192.0.2.7".parse().unwrap());
        let kept = KeptHost { address, ..KeptHost::default() };
        assert_eq!((paths.take_kept(), warnings.len()), (vec![(path("nqn.a"), kept)], 0));
    }

    #[test]
    fn a_damaged_host_is_left_out_with_a_warning_and_other_machines_hosts_without() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let put = |id: String| Change::Put(Key { kind: Kind::HostPath, id }, "{}".into());
        let other = uuid::Uuid::from_u128(1);
        store.apply(&[put(format!("{} x", store.machine())), put(format!("{other} x"))]).unwrap();
        let (mut paths, warnings) = HostPaths::open(store).unwrap();
        assert_eq!((paths.take_kept(), warnings.len()), (Vec::new(), 1));
    }
}
