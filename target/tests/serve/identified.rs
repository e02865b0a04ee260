//! Disks in the place of others, and hosts that come back to them after a restart.

use std::sync::Arc;

use super::client::connected;
use super::{disk, free_address, memory, serve_at, settings};
use fabric::host::commands::identify;
use fabric::nvme::Status;
use fabric::nvme::identify::cns;
use sluice_config::{Namespace, QosConfig};
use sluiced::control::store::{DiskStore, Store};
use uuid::Uuid;

#[test]
fn identified_disk_is_served_after_restart_and_another_one_is_refused_until_identified() {
    let (_folder, path) = disk();
    let store: Arc<dyn Store> = Arc::new(DiskStore::open(&path).unwrap().0);
    let address = free_address();
    let (served, unknown) = (Status::SUCCESS, Status::INVALID_NAMESPACE.dnr());
    // Each target is another process for the host, whose connection breaks without a shutdown.
    for (disk, expected) in [(1, served), (2, unknown), (2, served), (3, unknown), (3, served)] {
        let namespaces = vec![Namespace { uuid: Some(Uuid::from_u128(disk)), ..memory() }];
        let settings = (settings(), QosConfig::default());
        let _runtime = serve_at(address, settings, namespaces, &store);
        let (mut admin, [mut queue]) = connected(address);
        assert_eq!(queue.try_read(1, 0), expected, "disk {disk}");
        assert!(admin.call(identify(cns::NAMESPACE, 1), None, 4096).0.is_success());
        let status = queue.try_read(1, 0);
        assert!(status.is_success(), "disk {disk} is identified: {status}");
        drop((queue, admin));
    }
}
