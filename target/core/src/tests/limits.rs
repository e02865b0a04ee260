//! Limits of sessions at devices of each style: what is carried out on the spot counts as well.

use arbitration::credit::Caps;
use arbitration::limit::Rate;
use arbitration::session::{RootSpec, SessionSpec, Sessions};
use fabric::nvme::Status;

use super::rig::{DRIVE, MEMORY, MS, Plan, Rig, read, write};
use crate::policies::Tenant;

/// A rig whose commands are charged to a session with this limit.
fn limited(spec: SessionSpec) -> Rig {
    let mut rig = Rig::new(&Plan::default());
    let caps = Caps { operations: 1000, payload: 1 << 20 };
    let root = RootSpec { caps, bounded: true, queue: 1000 };
    let mut sessions = Sessions::new(&root);
    sessions.apply(rig.now, &root, &[SessionSpec { name: "limited".to_owned(), ..spec }]).unwrap();
    let session = sessions.named("limited").unwrap();
    rig.change_rules(|rules| rules.tenant = Tenant::new(session, 1));
    rig
}

/// Returns how many commands are answered by each of the times in `ms`, in a device that ends each
/// command at once.
fn answered(rig: &mut Rig, ms: &[u64]) -> Vec<usize> {
    let mut counts = Vec::new();
    let mut now = 0;
    for &until in ms {
        while now < until {
            rig.pass(MS);
            while rig.end_oldest() {}
            now += 1;
        }
        while rig.end_oldest() {}
        counts.push(rig.peers[1].answers.len());
    }
    counts
}

#[test]
fn a_limit_on_commands_holds_at_devices_of_each_style() {
    for nsid in [MEMORY, DRIVE] {
        let mut rig =
            limited(SessionSpec { iops: Rate::per_second(1000), ..SessionSpec::default() });
        let cids: Vec<u16> =
            (0..100).map(|lba| rig.queue(1, read(nsid, lba, 1), None, 512)).collect();
        rig.run();
        // 4 ms of the rate at once, and the command that comes last.
        let counts = answered(&mut rig, &[0, 20, 50, 150]);
        assert!(counts[0] <= 5, "namespace {nsid}: {counts:?}");
        assert!((20..=26).contains(&counts[1]), "namespace {nsid}: {counts:?}");
        assert!((50..=56).contains(&counts[2]), "namespace {nsid}: {counts:?}");
        assert!(cids.iter().all(|cid| rig.answer(1, *cid) == Some(Status::SUCCESS)));
    }
}

#[test]
fn a_limit_on_bytes_holds_at_devices_of_each_style() {
    for nsid in [MEMORY, DRIVE] {
        let bandwidth = Rate::per_second(4_096_000);
        let mut rig = limited(SessionSpec { bandwidth, ..SessionSpec::default() });
        for n in 0..50 {
            rig.queue(1, write(nsid, n * 8, 8), Some(vec![1; 4096]), 0);
            rig.queue(1, read(nsid, n * 8, 8), None, 4096);
        }
        rig.run();
        // One command of 4 KiB in a ms.
        let counts = answered(&mut rig, &[0, 20, 50, 150]);
        assert!(counts[0] <= 6, "namespace {nsid}: {counts:?}");
        assert!((20..=27).contains(&counts[1]), "namespace {nsid}: {counts:?}");
        assert!((50..=57).contains(&counts[2]), "namespace {nsid}: {counts:?}");
        assert_eq!(counts[3], 100);
    }
}
