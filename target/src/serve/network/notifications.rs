//! Congestion notifications of RDMA devices (CNPs): those devices that answer marks themselves
//! (DCQCN) count them, for all queue pairs of a port together.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use qtcp::Nanos;
use qtcp::poller::Both;

use crate::sys::sync::lock;

/// The folder of the kernel's RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";
/// Counters of notifications that have slowed down what this port sends, by driver: mlx5, bnxt_re,
/// irdma.
const HANDLED: [&str; 3] = ["rp_cnp_handled", "rx_cnp_pkts", "cnpHandled"];
/// Counters of packets that came with a mark, in the same order.
const MARKED: [&str; 3] = ["np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "RxECNMrkd"];

/// The time for which counters that were read count: the kernel asks the device no more often, unless the
/// port's `lifespan` says otherwise.
const LIFESPAN: Duration = Duration::from_millis(10);

/// The counters of one port, which are read once for all its connections.
#[derive(Debug)]
pub(crate) struct Notifications {
    /// Counters of notifications that slowed the port's sending down, and of packets received with a mark.
    files: Both<File>,
    /// The last counts, and when they were read.
    read: Mutex<Option<(Nanos, Both<Option<u64>>)>>,
}

impl Notifications {
    /// Opens the counters in a folder; `None` where the device has none.
    fn open(folder: &Path) -> Option<Self> {
        let open =
            |names: [&str; 3]| names.iter().find_map(|name| File::open(folder.join(name)).ok());
        let files = Both { out: open(HANDLED)?, into: open(MARKED)? };
        Some(Self { files, read: Mutex::default() })
    }

    /// Returns the counters, which may be as old as [`LIFESPAN`].
    pub(super) fn read(&self, now: Nanos) -> Both<Option<u64>> {
        let mut read = lock(&self.read);
        if let Some((at, counts)) = *read
            && now.since(at) < LIFESPAN
        {
            return counts;
        }
        let Both { out, into } = &self.files;
        let counts = Both { out: number(out), into: number(into) };
        *read = Some((now, counts));
        counts
    }
}

/// Reads a counter: a decimal number and the end of the line.
fn number(file: &File) -> Option<u64> {
    let mut text = [0; 24];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(text.get(..length)?).ok()?.trim_end().parse().ok()
}

/// The counters of the ports that connections use.
#[derive(Debug, Default)]
pub(super) struct Ports(HashMap<(String, u8), Weak<Notifications>>);

impl Ports {
    /// Returns the counters of a device's port; `None` where it has none.
    pub(super) fn find(&mut self, device: &str, port: u8) -> Option<Arc<Notifications>> {
        self.find_in(Path::new(DEVICES), device, port)
    }

    fn find_in(&mut self, devices: &Path, device: &str, port: u8) -> Option<Arc<Notifications>> {
        let known = &mut self.0;
        let key = (device.to_owned(), port);
        if let Some(found) = known.get(&key).and_then(Weak::upgrade) {
            return Some(found);
        }
        known.retain(|_, one| one.strong_count() > 0);
        let folder = devices.join(device).join(format!("ports/{port}/hw_counters"));
        let opened = Arc::new(Notifications::open(&folder)?);
        known.insert(key, Arc::downgrade(&opened));
        Some(opened)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn e2_devices_of_each_driver_that_counts_notifications_are_read() {
        for (handled, marked) in HANDLED.into_iter().zip(MARKED) {
            let devices = tempfile::tempdir().unwrap();
            let folder = devices.path().join("nic0/ports/2/hw_counters");
            fs::create_dir_all(&folder).unwrap();
            let mut ports = Ports::default();
            let mut find = |port| ports.find_in(devices.path(), "nic0", port);
            assert!(find(2).is_none(), "it counts nothing");
            fs::write(folder.join(handled), "12\n").unwrap();
            fs::write(folder.join(marked), "340\n").unwrap();
            let counters = find(2).unwrap();
            let read = |ms: u64| {
                let Both { out, into } = counters.read(Nanos(ms * 1_000_000));
                (out, into)
            };
            assert_eq!(read(1), (Some(12), Some(340)));
            assert!(Arc::ptr_eq(&counters, &find(2).unwrap()), "opened once");
            assert!(find(1).is_none(), "another port");
            fs::write(folder.join(handled), "13\n").unwrap();
            fs::write(folder.join(marked), "").unwrap();
            assert_eq!(read(10), (Some(12), Some(340)), "read 9 ms ago");
            assert_eq!(read(11), (Some(13), None));
            drop(counters);
            fs::remove_dir_all(&folder).unwrap();
            assert!(find(2).is_none(), "the device has gone");
        }
    }
}
