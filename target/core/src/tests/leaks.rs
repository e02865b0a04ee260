//! However commands end, and however often, their memory is free for later commands.

use std::sync::Arc;

use fabric::controller::BackendId;

use super::rig::{DRIVE, MEMORY, MS, Plan, Rig, read, write};
use crate::reactor::core::Inventory;

/// Number of ends in a row: if each leaked its memory, the memory would not be enough.
const ROUNDS: usize = 40;

/// A rig with 256 KiB of memory, the network's stage, and a drive that holds one command at a time.
fn rig() -> Rig {
    Rig::new(&Plan { memory: 256 << 10, window: 1, network: true, ..Plan::default() })
}

/// Cuts the connections of an I/O queue and of its admin queue.
fn cut(rig: &mut Rig, peer: usize) {
    for peer in [peer, peer - 1] {
        rig.cut(peer, "it was cut");
        while rig.end_oldest() {}
        assert_eq!(rig.ended(peer), Some("it was cut"));
    }
}

/// Runs this for one host after the other, and cuts each, which leaves nothing behind: the commands of another host
/// find memory.
fn leaves_memory(mut does: impl FnMut(&mut Rig, usize, usize)) {
    let mut rig = rig();
    cut(&mut rig, 1);
    for round in 0..ROUNDS {
        let peer = rig.add_host();
        does(&mut rig, peer, round);
        cut(&mut rig, peer);
        let held = (rig.core.inventory(), rig.states());
        assert_eq!(held, (Inventory::default(), vec![]), "round {round}");
        assert_eq!(rig.shared.service.borrow().controllers().count(), 0, "round {round}");
    }
    let peer = rig.add_host();
    let cid = rig.submit(peer, write(MEMORY, 0, 64), Some(vec![9; 32 << 10]), 0);
    assert!(rig.succeeded(peer, &[cid]));
    assert!(rig.content(peer, MEMORY, 0, 64) == [9; 32 << 10]);
}

#[test]
fn hosts_that_go_amid_their_data_leave_all_memory_to_others() {
    leaves_memory(|rig, peer, round| {
        // Data that was asked for, data that has begun to come, and a read that waits.
        rig.owe_data(peer);
        let bytes = rig.bytes_of(peer);
        rig.peers[peer].up().extend(&bytes[..bytes.len() * (round % 3) / 3]);
        rig.run();
    });
}

#[test]
fn commands_that_are_aborted_in_any_state_leave_all_memory_to_others() {
    leaves_memory(|rig, peer, round| {
        let paced = rig.paced.last().map(Arc::clone).unwrap();
        if round % 2 == 0 {
            // Their hosts are asked for data at such a rate that they wait for that too.
            paced.set_r2t_rate(Some(100_000));
        }
        let mut cids = Vec::new();
        for n in 0..3 {
            cids.push(rig.submit(peer, read(DRIVE, n, 64), None, 32 << 10));
            cids.push(rig.submit(peer, write(DRIVE, n, 64), Some(vec![3; 32 << 10]), 0));
        }
        rig.pass(MS);
        cids.iter().for_each(|cid| _ = rig.abort(peer - 1, 1, *cid));
        while rig.end_oldest() {}
        for _ in 0..200 {
            rig.pass(10 * MS);
            while rig.end_oldest() {}
        }
        let all = cids.iter().all(|cid| rig.answer(peer, *cid).is_some());
        assert!(all, "round {round}: {:?}", rig.states());
    });
}

#[test]
fn commands_whose_device_goes_while_they_wait_leave_all_memory_to_others() {
    leaves_memory(|rig, peer, _| {
        let disk = rig.disk(DRIVE);
        for n in 0..2 {
            rig.submit(peer, write(DRIVE, n, 32), Some(vec![3; 16 << 10]), 0);
            rig.submit(peer, read(DRIVE, n, 32), None, 16 << 10);
        }
        rig.lose_drive();
        while rig.end_oldest() {}
        rig.run();
        rig.shared.disks.borrow_mut().insert(BackendId(u64::from(DRIVE)), disk);
    });
}

#[test]
fn hosts_that_have_gone_leave_no_queues_behind() {
    leaves_memory(|rig, peer, round| {
        let keys = [peer - 2, peer].map(|peer| rig.peers[peer].key);
        assert_ne!(keys[0], keys[1], "round {round}: what is late meets no other connection");
        // A write in a capsule, a write by R2T, an immediate read, and a read that waits for the drive.
        rig.submit(peer, write(MEMORY, 0, 1), Some(vec![3; 512]), 0);
        rig.submit(peer, write(DRIVE, 0, 32), Some(vec![3; 16 << 10]), 0);
        rig.submit(peer, read(MEMORY, 0, 1), None, 512);
        rig.submit(peer, read(DRIVE, 0, 1), None, 512);
        assert!(rig.core.inventory().queues > 0);
    });
}
