//! Disks in the place of others, and hosts that come back to them after a restart.

use std::sync::Arc;

use fabric::nvme::{Sqe, Status, opcode};
use sluice_config::{Namespace, QosConfig};
use sluiced::control::store::{DiskStore, Store};
use uuid::Uuid;
use zerocopy::little_endian::U32;

use super::client::{connected, io};
use super::{Running, free_address, memory, namespace, serve_at, settings};

#[test]
fn identified_disk_is_served_after_restart_and_another_one_is_refused_until_identified() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store: Arc<dyn Store> = Arc::new(DiskStore::open(&folder.path().join("state")).unwrap().0);
    let address = free_address();
    let start = |disk: u128| -> Running {
        let uuid = Some(Uuid::from_u128(disk));
        let namespaces = vec![Namespace { uuid, ..namespace(memory()) }];
        serve_at(address, settings(), QosConfig::default(), namespaces, &store)
    };
    let read = || io(opcode::io::READ, 0, 1);
    let unknown = Status::INVALID_NAMESPACE.bits() & 0x7ff;
    // Each target is another process for the host, whose connection breaks without a shutdown.
    for (disk, refused) in [(1, false), (2, true), (2, false), (3, true), (3, false)] {
        let _runtime = start(disk);
        let (mut admin, [mut queue]) = connected(address);
        let (status, ..) = queue.call(read(), None, 4096);
        if refused {
            assert_eq!(status.bits() & 0x7ff, unknown, "disk {disk}: {status}");
            assert!(status.is_dnr(), "disk {disk}: {status}");
        } else {
            assert!(status.is_success(), "disk {disk}: {status}");
        }
        let nsid = U32::new(1);
        let identify = Sqe { opcode: opcode::admin::IDENTIFY, nsid, ..Sqe::default() };
        assert!(admin.call(identify, None, 4096).0.is_success());
        let (status, ..) = queue.call(read(), None, 4096);
        assert!(status.is_success(), "disk {disk} is identified: {status}");
        drop((queue, admin));
    }
}
