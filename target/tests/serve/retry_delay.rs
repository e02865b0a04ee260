//! The retry delays that a full session tells a host on the wire.

use std::time::Duration;

use arbitration::overload::RetryDelays;
use fabric::nvme::{Sqe, Status, opcode};
use sluice_config::{Limits, Poll, Session, TargetConfig};
use sluiced::serve::engine::{Engine, EngineError};
use sluiced::start::runtime::Runtime;
use zerocopy::little_endian::U32;

use crate::client::{NQN, Queue, connected, io};
use crate::qos_memory::{iops, of_namespace, with_sessions};
use crate::{end, eventually, memory, namespace, serve};

/// Number of commands that may wait. The session gets [`IOPS`] in a second, so that the last of
/// them waits for half a second.
const WAITING: u32 = 4;
const IOPS: u64 = 8;

/// Makes Set Features of Host Behavior Support with ACRE.
fn enable_acre() -> (Sqe, Vec<u8>) {
    let sqe = Sqe { opcode: opcode::admin::SET_FEATURES, cdw10: U32::new(0x16), ..Sqe::default() };
    let mut data = vec![0; 512];
    data[0] = 1;
    (sqe, data)
}

/// Reads far more than a session may, and returns CRDT1 to CRDT3 of Identify Controller and the CRD
/// of the last command that was refused.
fn told(delays: [u16; 3]) -> ([u16; 3], u16) {
    let settings = TargetConfig {
        poll: Poll::Never,
        retry_delays: RetryDelays::new(delays).unwrap(),
        drain_time: Duration::from_secs(1),
        ..TargetConfig::default()
    };
    let limited = Session { limits: iops(IOPS), queue: Some(WAITING), ..of_namespace(1) };
    let qos = with_sessions(vec![limited]);
    let (runtime, address) = serve(settings, qos, vec![namespace(memory())]);
    let (mut admin, id) = Queue::controller(address);
    let identify = Sqe { opcode: opcode::admin::IDENTIFY, cdw10: U32::new(1), ..Sqe::default() };
    let (status, _, identify) = admin.call(identify, None, 4096);
    assert!(status.is_success(), "{status}");
    // CRDT1 to CRDT3 are in bytes 133:128.
    let shown = [128, 130, 132].map(|at| u16::from_le_bytes([identify[at], identify[at + 1]]));
    let (set, data) = enable_acre();
    assert!(admin.call(set, Some(data), 0).0.is_success());
    let (mut queue, _) = Queue::connect(address, 1, id);
    let mut crd = 0;
    for wave in 0..3 {
        let reads: Vec<u16> = (0..30)
            .map(|lba| queue.submit(io(opcode::io::READ, wave * 30 + lba, 1), None, 4096))
            .collect();
        for cid in reads {
            let (status, ..) = queue.wait(cid);
            if !status.is_success() {
                assert_eq!(Status::from_bits(status.bits() & 0x7ff), Status::COMMAND_INTERRUPTED);
                assert!(!status.is_dnr(), "{status}");
                // CRD is in bits 12:11 of the status.
                crd = status.bits() >> 11 & 0b11;
            }
        }
    }
    end(&runtime);
    (shown, crd)
}

#[test]
fn a_refused_host_is_told_the_longest_of_the_configured_delays_that_is_no_longer_than_its_wait() {
    for (delays, crd) in [([4, 60, 90], 1), ([1, 1, 60], 2), ([1, 1, 1], 3)] {
        assert_eq!(told(delays), (delays, crd));
    }
}

/// A host that does not honour retry delays would time out: neither another limit nor another size may lower its limit
/// so far.
#[test]
fn d1_limits_too_low_without_retry_delays_are_refused() {
    for name in [NQN.to_owned(), of_namespace(1).name] {
        let per_gib = |rate| {
            let limits = Limits { per_gib: iops(rate).total, ..Limits::default() };
            with_sessions(vec![Session { name: name.clone(), limits, ..Session::default() }])
        };
        let settings = TargetConfig { poll: Poll::Never, ..TargetConfig::default() };
        let (runtime, address) = serve(settings, per_gib(1600), vec![namespace(memory())]);
        let (admin, [queue]) = connected(address);
        let refused = |result: Result<(), EngineError>| {
            let text = result.unwrap_err().to_string();
            assert!(text.contains("would time out"), "{text}");
            assert!(text.contains("set iops_per_gib to"), "{text}");
        };
        // 100 commands a second for 64 MiB become one for a block.
        let shrink = || runtime.resize_namespace(NQN, 1, Some(4096));
        refused(shrink().map(|_| ()));
        assert_eq!(size(&runtime), 64 << 20, "nothing has changed");
        refused(runtime.set_qos(&per_gib(1)));
        assert_eq!(runtime.resize_namespace(NQN, 1, Some(128 << 20)).unwrap(), 128 << 20);
        drop((admin, queue));
        eventually("the host is gone", || shrink().is_ok());
        assert_eq!(size(&runtime), 4096);
        end(&runtime);
    }
}

fn size(runtime: &Runtime) -> u64 {
    runtime.subsystems()[0].namespaces[0].size
}
