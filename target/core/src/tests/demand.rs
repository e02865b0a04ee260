//! Demand of a reservation: a command counts from its arrival on, wherever it waits (docs/research/sources.md, F3:
//! reservations are kept).

use std::sync::Arc;

use arbitration::reservation::{Broker, Budget, Cause, Profile, Reserved, Terms};
use arbitration::session::Reservation;
use fabric::Nanos;
use fabric::nvme::{Status, opcode};

use super::rig::{DRIVE, MS, Plan, Rig, io, kind, read};
use crate::machine::device::BlockDevice as _;

const SECOND: u64 = 1000 * MS;

/// Reserves ten commands a second of the drive for all hosts.
fn reserve(rig: &Rig) -> Arc<Reserved> {
    let terms = Terms::of(Budget::Operations(10), Nanos(SECOND));
    let admitted = Broker::admit(&Profile::default(), &[], 0, &terms).unwrap();
    let reserved = Arc::new(Reserved::new(rig.now, &admitted));
    let session = Arc::clone(rig.sessions.root());
    let reservation = Reservation { session, reserved: Arc::clone(&reserved) };
    rig.disk(DRIVE).qos().reserve(vec![reservation]);
    reserved
}

/// Counts the periods with demand, and the ones among them that were missed because of memory or data.
fn periods(rig: &Rig, reserved: &Reserved) -> (u64, u64) {
    let _ = reserved.next_period(rig.now);
    (reserved.kept().0, reserved.missed().by(Cause::Data))
}

#[test]
fn f3_write_awaiting_data_is_demand_until_its_end() {
    for is_aborted in [false, true] {
        let mut rig = Rig::new(&Plan::default());
        let reserved = reserve(&rig);
        let cid = rig.owe_data(1);
        rig.pass_often(3, SECOND);
        assert_eq!(periods(&rig, &reserved), (3, 3));
        if is_aborted {
            assert!(rig.abort(0, 1, cid));
        }
        rig.peers[1].sends = true;
        rig.run();
        while rig.end_oldest() {}
        let status = if is_aborted { Status::ABORT_REQUESTED } else { Status::SUCCESS };
        assert_eq!(rig.answer(1, cid), Some(status));
        rig.pass_often(4, SECOND);
        // The command ended at the begin of the fourth period, of which nothing was due.
        let (wanted, missed) = periods(&rig, &reserved);
        assert!(wanted <= 4 && missed == 3, "nothing is wanted any more: {wanted}, {missed}");
    }
}

#[test]
fn f3_reads_without_memory_are_demand_until_disconnect() {
    let mut rig = Rig::new(&Plan { memory: 128 << 10, ..Plan::default() });
    let reserved = reserve(&rig);
    rig.peers[1].reads = false;
    (0..40).for_each(|n| _ = rig.queue(1, read(DRIVE, n * 128, 128), None, 64 << 10));
    for _ in 0..20 {
        rig.run();
        rig.end_oldest();
    }
    assert!(rig.states().iter().any(|(state, _)| *state == "read_turn"), "{:?}", rig.states());
    rig.pass(SECOND);
    let before = periods(&rig, &reserved);
    rig.pass_often(3, SECOND);
    let after = periods(&rig, &reserved);
    assert_eq!((after.0 - before.0, after.1 - before.1), (3, 3), "{:?}", reserved.missed());
    rig.cut(1, "lost");
    while rig.end_oldest() {}
    rig.pass_often(4, SECOND);
    assert!(periods(&rig, &reserved).0 <= after.0 + 1, "nothing is wanted any more");
}

#[test]
fn f3_slice_that_is_sent_back_is_no_demand() {
    let mut rig = Rig::new(&Plan::default());
    rig.honour_delays(0);
    let reserved = reserve(&rig);
    rig.submit(1, read(DRIVE, 0, 1), None, 512);
    rig.core.driver().short_of_memory = 1;
    let cid = rig.submit(1, io(opcode::io::WRITE_ZEROES, DRIVE, 0, 1 << 16), None, 0);
    rig.pass_often(42, SECOND / 2);
    assert_eq!(rig.answer(1, cid).map(kind), Some(Status::COMMAND_INTERRUPTED));
    assert!(rig.end_oldest());
    let before = periods(&rig, &reserved).0;
    rig.pass_often(10, SECOND);
    assert!(periods(&rig, &reserved).0 <= before + 1, "nothing is wanted any more");
}
