//! Statistics of workloads: where the time of a host's commands in a class at a namespace went.

use std::time::Duration;

use arbitration::Class;
use fabric::nvme::{Sqe, opcode};
use sluice_config::QosConfig;
use sluice_core::stats::IoSnapshot;
use sluiced::serve::engine::Engine;
use sluiced::start::runtime::Runtime;
use zerocopy::little_endian::U32;

use crate::client::{HOST, NQN, Queue, connected, io, on, pattern};
use crate::memory;
use crate::qos_memory::{iops, limited, slow_device, start};

const MS: u64 = 1_000_000;

/// Finds the statistics of the only host in a class at a namespace.
fn workload(runtime: &Runtime, nsid: u32, class: Class) -> Option<IoSnapshot> {
    let found = runtime.statistics().workloads.into_iter().find(|(key, _)| {
        (key.host.as_str(), key.subsystem.as_str(), key.nsid, key.class) == (HOST, NQN, nsid, class)
    });
    found.map(|(_, io)| io)
}

/// Reads a block of a namespace, in a class that the command names.
fn read(nsid: u32, lba: u32, class: Class) -> Sqe {
    let class = match class {
        Class::Urgent => 0x300,
        Class::High => 0x200,
        Class::Medium => 0x100,
        Class::Low => 0,
    };
    Sqe { cdw13: U32::new(class), ..on(nsid, io(opcode::io::READ, lba, 1)) }
}

fn read_as(queue: &mut Queue, nsid: u32, lba: u32, class: Class) {
    assert!(queue.call(read(nsid, lba, class), None, 4096).0.is_success());
}

#[test]
fn a_slow_device_shows_in_the_device_and_a_limited_host_in_waiting() {
    let slow = slow_device(Duration::from_millis(20));
    let (runtime, address) = start(vec![slow, memory()], 1, limited(2, iops(50)));
    let (_admin, [mut queue]) = connected(address);
    for lba in 0..5 {
        read_as(&mut queue, 1, lba, Class::High);
    }
    let at_once: Vec<u16> =
        (0..15).map(|lba| queue.submit(read(2, lba, Class::High), None, 4096)).collect();
    queue.complete(at_once);
    let slow = workload(&runtime, 1, Class::High).unwrap();
    assert_eq!((slow.read.ops, slow.queueing.count(), slow.service.count()), (5, 5, 5));
    // A model's service time varies by an eighth.
    assert!(slow.service.quantile_ns(0.0) >= 17 * MS, "each was in the device for 20 ms");
    assert_eq!(slow.queueing.sum_ns, 0, "and none waited for anything");
    let limited = workload(&runtime, 2, Class::High).unwrap();
    assert_eq!((limited.read.ops, limited.queueing.count(), limited.service.count()), (15, 15, 15));
    // Fifteen commands at 50 a second: the last one's turn comes after a quarter of a second or
    // more.
    assert!(limited.queueing.quantile_ns(1.0) >= 200 * MS, "{:?}", limited.queueing.sum_ns);
    let (waited, in_device) = (limited.queueing.sum_ns, limited.service.sum_ns);
    assert!(in_device < waited / 10, "{in_device} ns in memory, {waited} ns before it");
    for io in [slow, limited] {
        assert_eq!(io.read.latency.sum_ns, io.queueing.sum_ns + io.service.sum_ns);
    }
}

#[test]
fn workloads_are_told_apart_by_class_and_namespace_and_outlive_their_queues() {
    let (runtime, address) = start(vec![memory(), memory()], 2, QosConfig::default());
    let (_admin, id) = Queue::controller(address);
    // The queues are at both reactors.
    for qid in 1..=4 {
        let (mut queue, _) = Queue::connect(address, qid, id);
        for lba in 0..3 {
            read_as(&mut queue, 1, lba, Class::Low);
            read_as(&mut queue, 1, lba, Class::Urgent);
            queue.write(1, lba, pattern(lba, 1, 0));
        }
        read_as(&mut queue, 2, 0, Class::High);
    }
    let ops = |nsid, class| workload(&runtime, nsid, class).map(|io| (io.read.ops, io.write.ops));
    assert_eq!(ops(1, Class::Low), Some((12, 12)));
    assert_eq!(ops(1, Class::Urgent), Some((12, 0)));
    assert_eq!(ops(2, Class::High), Some((4, 0)));
    assert_eq!(runtime.statistics().workloads.len(), 3, "and no other");
}
