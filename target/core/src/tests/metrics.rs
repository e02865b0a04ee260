//! The metrics of commands.

use arbitration::Class;
use fabric::nvme::{Status, opcode};

use super::rig::{DRIVE, MEMORY, MS, Plan, Rig, io, of_class, read, write};
use crate::machine::device::BlockDevice as _;
use crate::stats::counters::{IoSnapshot, OpSnapshot};

/// Namespaces, with turns and without.
const WAYS: [(u32, bool); 4] = [(MEMORY, true), (MEMORY, false), (DRIVE, true), (DRIVE, false)];

/// Returns operations, bytes and errors.
fn sums(of: &OpSnapshot) -> (u64, u64, u64) {
    assert_eq!(of.latency.count(), of.ops, "each has its latency");
    (of.ops, of.bytes, of.errors)
}

/// Returns the statistics of the one host's workload.
fn workload(rig: &mut Rig, nsid: u32, class: Class) -> IoSnapshot {
    rig.shared.workloads.sum(|of, its| (of, its) == (nsid, class))
}

/// Returns the statistics of commands for their workload, connection, device, class and session.
fn everywhere(rig: &mut Rig, nsid: u32, class: Class) -> [IoSnapshot; 5] {
    let disk = rig.disk(nsid);
    [
        workload(rig, nsid, class),
        rig.stats(1),
        disk.stats(0).unwrap().snapshot(),
        rig.core.driver().classes[class].snapshot(),
        rig.session_stats(),
    ]
}

#[test]
fn commands_are_counted_for_their_connection_device_class_session_and_workload() {
    for (nsid, stages) in WAYS {
        let mut rig = Rig::new(&Plan { stages, ..Plan::default() });
        let high = |sqe| of_class(Class::High, sqe);
        rig.submit(1, high(read(nsid, 0, 8)), None, 4096);
        rig.submit(1, high(read(nsid, 8, 8)), None, 4096);
        rig.submit(1, high(write(nsid, 0, 4)), Some(vec![1; 2048]), 0);
        rig.submit(1, high(write(nsid, 0, 64)), Some(vec![1; 32 << 10]), 0);
        rig.now = rig.now.after(MS);
        while rig.end_oldest() {}
        for seen in everywhere(&mut rig, nsid, Class::High) {
            assert_eq!(sums(&seen.read), (2, 8192, 0), "namespace {nsid}");
            assert_eq!(sums(&seen.write), (2, 34 << 10, 0), "namespace {nsid}");
            assert_eq!(sums(&seen.other), (0, 0, 0), "namespace {nsid}");
            assert_eq!((seen.queueing.count(), seen.service.count()), (4, 4));
            if nsid == DRIVE {
                assert!(seen.service.quantile_ns(0.0) >= MS, "a millisecond in the drive");
                assert!(seen.read.latency.quantile_ns(0.0) >= MS);
                assert!(seen.queueing.quantile_ns(1.0) < MS, "they waited for nothing");
            }
        }
        for class in [Class::Urgent, Class::Medium, Class::Low] {
            let seen = rig.core.driver().classes[class].snapshot();
            assert_eq!(seen, IoSnapshot::default(), "{class:?}");
            assert_eq!(workload(&mut rig, nsid, class), IoSnapshot::default(), "{class:?}");
        }
        let other = if nsid == DRIVE { MEMORY } else { DRIVE };
        assert_eq!(workload(&mut rig, other, Class::High), IoSnapshot::default());
    }
}

#[test]
fn other_commands_count_as_others_and_failures_as_errors() {
    for (nsid, stages) in WAYS {
        let mut rig = Rig::new(&Plan { stages, ..Plan::default() });
        rig.submit(1, io(opcode::io::FLUSH, nsid, 0, 1), None, 0);
        rig.submit(1, io(opcode::io::WRITE_ZEROES, nsid, 0, 8), None, 0);
        while rig.end_oldest() {}
        rig.disk(nsid).content.fails.set(Some(Status::INTERNAL_ERROR));
        let mut failed = vec![
            rig.submit(1, read(nsid, 0, 1), None, 512),
            rig.submit(1, write(nsid, 0, 1), Some(vec![1; 512]), 0),
            rig.submit(1, io(opcode::io::WRITE_ZEROES, nsid, 0, 8), None, 0),
        ];
        while rig.end_oldest() {}
        for seen in everywhere(&mut rig, nsid, Class::Low) {
            assert_eq!(sums(&seen.read), (1, 512, 1), "namespace {nsid}");
            assert_eq!(sums(&seen.write), (1, 512, 1), "namespace {nsid}");
            assert_eq!(sums(&seen.other), (3, 0, 1), "namespace {nsid}");
        }
        failed.retain(|cid| rig.answer(1, *cid).is_some_and(|status| !status.is_success()));
        assert_eq!(failed.len(), 3, "each host was told");
    }
}

#[test]
fn time_in_the_queue_and_time_in_the_device_are_told_apart() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    rig.submit(1, read(DRIVE, 0, 1), None, 512);
    rig.submit(1, read(DRIVE, 1, 1), None, 512);
    rig.end_after(10 * MS);
    rig.end_after(MS);
    let seen = rig.stats(1);
    // The second waited while the first was in the drive, and was there for 1 ms.
    assert_eq!((seen.queueing.sum_ns, seen.service.sum_ns), (10 * MS, 11 * MS));
    assert_eq!(seen.read.latency.sum_ns, 21 * MS, "both together");
    assert!(seen.queueing.quantile_ns(0.5) < MS, "the first did not wait");
    assert!(seen.service.quantile_ns(0.5) < 2 * MS, "each has its own time in the drive");
}

/// A write waits until its device has it: for its host's data as well, with turns and without.
#[test]
fn time_until_the_data_has_come_is_waiting_and_not_the_devices() {
    for stages in [true, false] {
        let mut rig = Rig::new(&Plan { stages, ..Plan::default() });
        // It does not read that it is asked for the data.
        rig.peers[1].reads = false;
        rig.submit(1, write(DRIVE, 0, 64), Some(vec![1; 32 << 10]), 0);
        rig.now = rig.now.after(20 * MS);
        rig.peers[1].reads = true;
        rig.run();
        rig.end_after(MS);
        let seen = rig.stats(1);
        assert_eq!(seen.write.ops, 1);
        assert_eq!((seen.queueing.sum_ns, seen.service.sum_ns), (20 * MS, MS), "{stages}");
    }
}

/// A command that is done slice by slice is in its device while a slice is, and waits in between.
#[test]
fn time_between_slices_is_waiting() {
    let mut rig = Rig::new(&Plan { window: 1, slice: 4096, ..Plan::default() });
    rig.submit(1, io(opcode::io::WRITE_ZEROES, DRIVE, 0, 16), None, 0);
    rig.submit(1, read(DRIVE, 100, 1), None, 512);
    let ends = std::iter::from_fn(|| rig.end_after(MS).then_some(())).count();
    assert_eq!(ends, 3, "two slices, and the read between them");
    let seen = rig.stats(1);
    assert_eq!((seen.other.ops, seen.other.latency.sum_ns), (1, 3 * MS));
    assert_eq!((seen.read.ops, seen.read.latency.sum_ns), (1, 2 * MS));
    assert_eq!((seen.queueing.sum_ns, seen.service.sum_ns), (2 * MS, 3 * MS));
}

#[test]
fn commands_that_wait_are_charged_by_settings_that_come_meanwhile() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    rig.submit(1, read(DRIVE, 0, 1), None, 512);
    rig.submit(1, read(DRIVE, 1, 1), None, 512);
    rig.shared.change_rules(|rules| rules.class = Some(Class::High));
    rig.charge_to("other");
    // The command in the drive keeps its class; no other has arrived since.
    while rig.end_oldest() {}
    let of = |rig: &mut Rig, class| sums(&rig.core.driver().classes[class].snapshot().read);
    assert_eq!(of(&mut rig, Class::Low), (1, 512, 0));
    assert_eq!(of(&mut rig, Class::High), (1, 512, 0));
    assert_eq!(sums(&rig.session_stats().read), (1, 512, 0), "on the other session's account");
}

#[test]
fn the_gauges_say_what_the_reactor_holds() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    assert_eq!(rig.core.inventory().connections, 2);
    rig.queue_reads(1, DRIVE, 0..3);
    rig.run();
    assert_eq!(rig.states(), [("device_turn", 2), ("in_device", 1)]);
    let held = rig.core.inventory();
    assert_eq!((held.connections, held.commands, held.ordered), (2, 3, 2));
    assert_eq!((held.buffer_bytes, held.promised_bytes, held.unread_bytes), (4096, 0, 0));
    assert_eq!((rig.in_flight(0), rig.in_flight(1)), (0, 3));
    // An event request waits in the controller, and is no work of the target's.
    rig.submit(0, fabric::host::commands::event_request(), None, 0);
    assert_eq!(rig.core.inventory().commands, 3);
    while rig.end_oldest() {}
    let held = rig.core.inventory();
    assert_eq!((held.commands, held.ordered, held.buffer_bytes), (0, 0, 0));
    assert_eq!((rig.in_flight(0), rig.in_flight(1)), (1, 0));
}
