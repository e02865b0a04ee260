//! The retry delays that a full session tells a host on the wire.

use arbitration::overload::RetryDelays;
use fabric::host::commands;
use fabric::nvme::Status;
use fabric::nvme::identify::cns;
use sluice_config::{Limits, Session, TargetConfig};
use sluiced::serve::engine::{Engine, EngineError};

use crate::client::{NQN, Queue, connected};
use crate::qos_memory::{iops, of_namespace, with_sessions};
use crate::{eventually, memory, row, serve, settings};

/// Number of commands that may wait. The session gets [`IOPS`] in a second, so that the last of
/// them waits for half a second.
const WAITING: u32 = 4;
const IOPS: u64 = 8;

/// Reads far more than a session may, and returns CRDT1 to CRDT3 of Identify Controller and the CRD
/// of the last command that was refused.
fn told(delays: [u16; 3]) -> ([u16; 3], u8) {
    let retry_delays = RetryDelays::new(delays).unwrap();
    let settings = TargetConfig { retry_delays, ..settings() };
    let limited = Session { limits: iops(IOPS), queue: Some(WAITING), ..of_namespace(1) };
    let qos = with_sessions(vec![limited]);
    let (_runtime, address) = serve(settings, qos, vec![memory()]);
    let (mut admin, id) = Queue::controller(address);
    let (status, _, identify) = admin.call(commands::identify(cns::CONTROLLER, 0), None, 4096);
    assert!(status.is_success(), "{status}");
    // CRDT1 to CRDT3 are in bytes 133:128.
    let shown = [128, 130, 132].map(|at| u16::from_le_bytes([identify[at], identify[at + 1]]));
    let (set, data) = commands::honour_retry_delays();
    assert!(admin.call(set, Some(data), 0).0.is_success());
    let (mut queue, _) = Queue::connect(address, 1, id);
    let mut crd = 0;
    for wave in 0..3 {
        let reads: Vec<u16> = (0..30).map(|lba| queue.submit_read(wave * 30 + lba, 1)).collect();
        for cid in reads {
            let (status, ..) = queue.wait(cid);
            if !status.is_success() {
                let is_retried = status.is(Status::COMMAND_INTERRUPTED) && !status.is_dnr();
                assert!(is_retried, "{status}");
                crd = status.retry_delay();
            }
        }
    }
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
        let (runtime, address) = serve(settings(), per_gib(1600), vec![memory()]);
        let (admin, [queue]) = connected(address);
        let refused = |result: Result<(), EngineError>| {
            let text = result.unwrap_err().to_string();
            assert!(text.contains("would time out"), "{text}");
            assert!(text.contains("set iops_per_gib to"), "{text}");
        };
        // 100 commands a second for 64 MiB become one for a block.
        let shrink = || runtime.resize_namespace(NQN, 1, Some(4096));
        refused(shrink().map(|_| ()));
        assert_eq!(row(&runtime, 1).size, 64 << 20, "nothing has changed");
        refused(runtime.set_qos(&per_gib(1)));
        assert_eq!(runtime.resize_namespace(NQN, 1, Some(128 << 20)).unwrap(), 128 << 20);
        drop((admin, queue));
        eventually("the host is gone", || shrink().is_ok());
        assert_eq!(row(&runtime, 1).size, 4096);
    }
}
